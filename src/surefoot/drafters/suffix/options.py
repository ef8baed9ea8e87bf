"""The options of the suffix drafter."""

from __future__ import annotations

from dataclasses import dataclass, field

from surefoot.core.errors import ConfigError

LIMIT_BRANCHES = 16
"""chosen: more ways than rows are free on any curve that we know; only a slip of the finger is refused."""

LIMIT_MB = 4096.0
LIMIT_NODES = 10**8


@dataclass(frozen=True, slots=True)
class Options:
    """What is continued, how far, and what is remembered.

    Source: `min_match` as ngram's `min_n`: measured there. `min_chance`: the least share that Arctic Inference's suffix
    decoding drafts (0.1). `branches` chosen: a chain, because most targets cannot score trees. `corpus_mb` and
    `corpus_nodes` chosen: some 130,000 tokens, read in about a second at most; measured for 100,000: 0.15 to 0.72 s
    (benchmarks/records/proposal_time.json).
    """

    min_match: int = field(default=2, metadata={"help": "shortest suffix that is continued, in tokens"})
    min_chance: float = field(
        default=0.1,
        metadata={
            "help": "a draft ends where earlier occurrences went on this way in a smaller share of cases; 0 to 1"
        },
    )
    extend: bool = field(
        default=True,
        metadata={"help": "whether a continuation that reaches the end of the text goes on by repeating itself"},
    )
    branches: int = field(
        default=1,
        metadata={"help": "most ways to go on after a token: 1 drafts a chain, more a tree, likeliest tokens first"},
    )
    corpus: str = field(
        default="",
        metadata={
            "help": "folder in which this model's outputs are remembered for later texts; empty remembers nothing"
        },
    )
    corpus_mb: float = field(default=1.0, metadata={"help": "most megabytes of that file; the oldest outputs go first"})
    corpus_nodes: int = field(default=260_000, metadata={"help": "most nodes of its index in memory, two a token"})

    def __post_init__(self) -> None:
        if self.min_match < 1:
            raise ConfigError(f"suffix min_match must be at least 1 token; got {self.min_match}")
        if not 0.0 <= self.min_chance <= 1.0:
            raise ConfigError(f"suffix min_chance must be from 0 to 1; got {self.min_chance}")
        if not 1 <= self.branches <= LIMIT_BRANCHES:
            raise ConfigError(f"suffix branches must be from 1 to {LIMIT_BRANCHES}; got {self.branches}")
        if not 0.0 < self.corpus_mb <= LIMIT_MB:
            raise ConfigError(f"suffix corpus_mb must be above 0 and at most {LIMIT_MB:g}; got {self.corpus_mb}")
        if not 1 <= self.corpus_nodes <= LIMIT_NODES:
            raise ConfigError(f"suffix corpus_nodes must be from 1 to {LIMIT_NODES}; got {self.corpus_nodes}")
