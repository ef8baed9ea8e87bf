"""Suffix lookup: an automaton of prompt and output, with counts, and a memory of earlier outputs."""

from __future__ import annotations

import hashlib
from pathlib import Path

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Plugin, Target, Workshop
from surefoot.drafters.suffix.corpus import Caps, Corpus
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options


def _build(options: Options, target: Target, workshop: Workshop) -> SuffixDrafter:
    if not options.corpus:
        return SuffixDrafter(options)
    if not workshop.identity:
        raise ConfigError(
            "drafts.corpus remembers the outputs of a model, and nobody knows which this one is; load it by name, or "
            "leave drafts.corpus out"
        )
    path = Path(options.corpus).expanduser() / f"{file_name(workshop.identity)}.npz"
    caps = Caps(int(options.corpus_mb * 1e6), options.corpus_nodes)
    vocab_size = target.caps.vocab_size
    corpus = workshop.kept(("corpus", path, caps), lambda: Corpus(path, workshop.identity, caps, vocab_size))
    drafter = SuffixDrafter(options, corpus)
    workshop.at_end(drafter.finish)
    return drafter


def file_name(identity: str) -> str:
    """The name of a model's file, which says nothing about the model."""
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


PLUGIN = Plugin(
    name="suffix",
    summary="continues the longest suffix that occurred before, as it mostly went on; may remember earlier outputs",
    options=Options,
    build=_build,
    workshop=True,
)
