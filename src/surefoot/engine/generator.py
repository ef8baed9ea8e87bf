"""A loaded model and what it writes: the parts put together, text in and text out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.ports import Clock, Drafter, Policy, Session, Target
from surefoot.core.types import Finish, Ids, Round, RowClass, as_ids
from surefoot.engine import models, parts, plans
from surefoot.engine.config import Config, Part
from surefoot.engine.conversion import openvino_folder
from surefoot.engine.embedded import Progress
from surefoot.engine.gguf_merge import merged_gguf
from surefoot.engine.pauses import Paused
from surefoot.engine.plain import Plain
from surefoot.engine.stats import Stats, summarise
from surefoot.engine.streaming import TextStream
from surefoot.engine.tokenizer import Tokenizer, load_tokenizer
from surefoot.engine.workshop import Shelf, TextWorkshop

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int] | Ids
"""A text, messages for the model's chat template, or token ids that are taken as they are."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a built-in runtime reads, best first, and the modules of which one has to be installed for it."""

    reads: tuple[models.Format, ...]
    modules: tuple[str, ...]


RUNTIMES: Mapping[str, Runtime] = {
    "openvino": Runtime(("openvino", "safetensors", "gguf"), ("openvino",)),
    "llamacpp": Runtime(("gguf",), ("xllamacpp", "llama_cpp_py_sync", "llama_cpp")),
    "hf": Runtime(("safetensors", "gguf"), ("torch",)),
}
"""The order in which `auto` tries them: the fastest here first. openvino converts what is not in its own format."""

OF_CHAINS = ("additive", "fixed")
"""Built-in policies that take a token of a draft for one further ahead, whatever its parent."""


def load(
    model: str,
    config: Config | None = None,
    *,
    cache_dir: Path,
    progress: Progress | None = None,
) -> Model:
    """The model called `model` (see `models.resolve`) on the runtime of `config`, ready to write.

    Raises: ConfigError for files or options that do not hold; NotEligible where no runtime can do this.
    """
    loaded = _chosen(model, config or Config(), cache_dir, progress)
    drafts = loaded.config.drafts
    if parts.find("drafter", drafts.name).workshop:  # its second model is loaded, or refused, now
        loaded.workshop(loaded.config).drafter(drafts.name, drafts.options)
    return loaded


def _chosen(
    model: str, config: Config, cache_dir: Path, progress: Progress | None, shelf: Shelf | None = None
) -> Model:
    """The model on the runtime that was asked for, or on the first one that can run it.

    shelf: of the model that it is loaded beside, if it is a second one.
    """
    if config.runtime.name != "auto":
        return _load(model, config, config.runtime.name, cache_dir, progress, shelf)
    known = parts.names("target")
    installed = [name for name, runtime in RUNTIMES.items() if name in known and any(map(find_spec, runtime.modules))]
    if not installed:
        raise NotEligible("no runtime is installed; the quickest to install is: pip install 'surefoot[openvino]'.")
    refusals: list[str] = []
    for name in installed:
        foreign = _foreign_options(config, name)
        if foreign and any(not _foreign_options(config, other) for other in installed):
            refusals.append(f"{name}: it has no option {foreign[0]}")
            continue
        try:
            return replace(_load(model, config, name, cache_dir, progress, shelf), passed_over=tuple(refusals))
        except (NotEligible, ConfigError) as error:
            later = installed[installed.index(name) + 1 :]
            if isinstance(error, ConfigError) and not any(_reads_more(other, name) for other in later):
                raise
            refusals.append(f"{name}: {error}")
    raise NotEligible(f"no installed runtime can run {model}", refusals)


def _reads_more(runtime: str, than: str) -> bool:
    """Whether `runtime` reads a format that `than` does not, so that the files may suit it."""
    return not set(RUNTIMES[runtime].reads) <= set(RUNTIMES[than].reads)


def _foreign_options(config: Config, runtime: str) -> list[str]:
    """Options given for a runtime that this one does not have; those of a conversion are of the one that converts."""
    known = {item.name for item in fields(parts.find("target", runtime).options)}
    foreign = [name for name in config.runtime.options if name not in known]
    return foreign if runtime == "openvino" else [*foreign, *_for_conversion(config)]


def _for_conversion(config: Config) -> dict[str, str]:
    """What was asked of a model that has to be converted."""
    asked = {"weights": config.weights, "cache": config.cache}
    return {key: value for key, value in asked.items() if value != "auto"}


def _load(
    model: str, config: Config, name: str, cache_dir: Path, progress: Progress | None, shelf: Shelf | None
) -> Model:
    known = RUNTIMES.get(name)
    try:
        files = models.resolve(model, cache_dir, formats=known.reads if known else models.FORMATS, progress=progress)
    except ImportError as error:
        raise NotEligible(f"{error.name or error} is needed to read models: pip install 'surefoot[text]'.") from error
    plugin = parts.find("target", name)
    values = dict(config.runtime.options)
    if name == "openvino":
        values.setdefault("cache_dir", str(cache_dir / "openvino" / "compiled"))
    options = parts.make_options(plugin, values, "runtime")
    path = files.path
    if name == "openvino" and files.format != "openvino":
        path = openvino_folder(files, cache_dir, config.weights, progress, config.cache)
    elif asked := _for_conversion(config):
        raise NotEligible(
            f"{' and '.join(map(' '.join, asked.items()))} was asked for, and {name} reads {model} as it is; leave it "
            "out, or choose the runtime openvino and a model that is not in its format yet."
        )
    elif name == "hf" and files.format == "gguf":
        path = merged_gguf(files, cache_dir)
    identity = models.identity(files)

    def beside(other: str, its: Config) -> tuple[Target, Tokenizer]:
        second = _chosen(other, its, cache_dir, progress, own)
        return second.target, second.tokenizer

    def opened() -> tuple[Target, Tokenizer]:
        tokenizer = load_tokenizer(files)
        target: Target = plugin.build(options, path)
        if tokenizer.vocab_size > target.caps.vocab_size:
            raise NotEligible(
                f"the tokenizer of {model} has {tokenizer.vocab_size} tokens and the model only "
                f"{target.caps.vocab_size}; they do not belong together."
            )
        return target, tokenizer

    own = shelf or Shelf(beside, identity)
    # A second model that is the first one, with the same settings, takes its weights: sessions share them.
    target, tokenizer = own.kept(("weights", name, str(path.resolve()), identity, repr(options)), opened)
    config = replace(config, runtime=Part(name, config.runtime.options))
    found = plans.find(plans.owner_of(files, target.caps, config), config.plan, cache_dir, config)
    return Model(files, path, target, tokenizer, config, shelf=own, found=found)


@dataclass(frozen=True, slots=True)
class Model:
    """Weights, tokenizer and configuration. Every generation opens a session of its own.

    `path` is what the runtime reads: the model's own files, or what they were converted to. `passed_over` says why
    `auto` did not take a runtime that it prefers. `shelf` keeps what drafters load beside it. `found` is the plan that
    belongs to it, or says why there is none.
    """

    files: models.ModelFiles
    path: Path
    target: Target
    tokenizer: Tokenizer
    config: Config
    passed_over: tuple[str, ...] = ()
    shelf: Shelf = field(default_factory=Shelf)
    found: plans.Found = field(default_factory=plans.Found)

    @property
    def plan(self) -> plans.Plan | None:
        """The plan in use."""
        return self.found.plan

    @property
    def curve(self) -> CostCurve | None:
        """What forwards cost, where it was measured."""
        return self.plan.curve if self.plan else None

    @property
    def row_class(self) -> RowClass:
        """What the target claims for its rows, or less where a gate has found less."""
        claimed = self.target.caps.row_class
        return plans.weaker(claimed, self.plan.rows.row_class) if self.plan else claimed

    def allows_near_ties(self, config: Config | None = None) -> bool:
        """Whether the user has said, now or when the plan was made, that near ties may swap."""
        return (config or self.config).allow_near_ties or (self.plan is not None and self.plan.allow_near_ties)

    def policy(self, config: Config | None = None) -> Part:
        """The policy that writes with this configuration, its options as they are used."""
        config = config or self.config
        return plans.policy_in_use(config.policy, self.curve, self._class_for_choices(config))

    def workshop(self, config: Config, seed: int | None = None, clock: Clock = time.perf_counter) -> TextWorkshop:
        """What drafters are built with, for one text of this configuration."""
        ends = self.tokenizer.eos_ids | config.stop_ids
        sampling = replace(config.sampling, seed=seed or 0, end_ids=ends)
        row_class = self._class_for_choices(config)
        return TextWorkshop(self.shelf, self.target, self.tokenizer, sampling, config.judge, clock, row_class)

    def _class_for_choices(self, config: Config) -> RowClass:
        """The class of the rows as those who choose drafts have to take it: with a lossy judge other rounds write
        another text on any rows, so that choices must not hang on the clock."""
        return plans.weaker(self.row_class, "near-tie") if config.lossy else self.row_class

    def generate(
        self,
        prompt: Prompt,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        config: Config | None = None,
        clock: Clock = time.perf_counter,
        around: Callable[[Drafter], Drafter] | None = None,
    ) -> Generation:
        """What the model writes after `prompt`; nothing is computed until the first text is asked for.

        `config` replaces the model's own for this generation; its runtime has no effect any more. `around` makes the
        drafter that is used out of the one that was chosen, to watch it or to change what it is told.
        Raises: ConfigError for a prompt that is empty or does not fit; NotEligible where drafts could change the text.
        """
        config = config or self.config
        ids = self.encode(prompt, tools=tools, raw=config.raw)
        self._check(ids, config)
        target, seed = self.target, _seed(config)
        workshop = self.workshop(config, seed, clock)
        drafter: Drafter = workshop.drafter(config.drafts.name, config.drafts.options)
        if around is not None:
            drafter = around(drafter)
        used = self._told_cost(config, drafter, workshop)
        policy: Policy = Plain() if config.drafts.name == "off" else _build("policy", used, self.curve)
        if drafter.needs.trees and not target.caps.can_tree:
            raise NotEligible(f"{config.drafts.name} drafts trees, which {target.caps.backend} cannot score here.")
        if drafter.needs.trees and used.name in OF_CHAINS:
            workshop.note(
                f"{config.drafts.name} drafts trees, and the policy {used.name} counts a branch as if it were a "
                "token further ahead; take --policy goodput, which weighs branches, or set branches = 1."
            )
        drafter = Paused(drafter, config.draft_gap_s, time.sleep) if config.draft_gap_s else drafter
        return Generation(self, config, ids, seed, workshop, drafter, policy, used, clock)

    def _told_cost(self, config: Config, drafter: Drafter, workshop: TextWorkshop) -> Part:
        """The policy that writes with this drafter, and a note where it has to assume what that takes."""
        asked, cost = self.policy(config), drafter.needs.token_cost
        used = plans.told_cost(asked, cost, self.curve)
        if used is not asked:
            workshop.note(
                f"{used.name} takes a token of the drafter {config.drafts.name} for {used.options['draft_ms']:.2g} ms, "
                f"{cost:g} of a plain round; if it takes another time, say so with --policy {used.name} --set "
                "policy.draft_ms=MS."
            )
        return used

    def encode(self, prompt: Prompt, *, tools: Sequence[Mapping[str, Any]] | None = None, raw: bool = False) -> Ids:
        """(n,) int32: the prompt as this model reads it; a text becomes the message of a user unless `raw`."""
        if len(prompt) == 0 or (isinstance(prompt, str) and not prompt.strip()):
            raise ConfigError("the prompt is empty; give the model something to go on.")
        if isinstance(prompt, str) and not raw:
            return self.tokenizer.render([{"role": "user", "content": prompt}], tools)
        of_messages = isinstance(prompt[0], Mapping)
        if of_messages and not raw:
            return self.tokenizer.render(prompt, tools)  # type: ignore[arg-type]
        if of_messages or tools is not None:
            raise ConfigError(
                "messages and tools go through the chat template, which a raw text and token ids do not; drop one."
            )
        return self.tokenizer.encode(prompt) if isinstance(prompt, str) else as_ids(prompt)  # type: ignore[arg-type]

    def describe(self) -> dict[str, Any]:
        """What decides the text and the speed: model, runtime and settings, for logs and records."""
        caps = self.target.caps
        return {
            "model": self.files.name,
            "path": str(self.path),
            "format": self.files.format,
            "runtime": caps.backend,
            "device": caps.device,
            "discipline": caps.discipline,
            "row_class": self.row_class,
            "plan": plans.digest_of(self.plan) if self.plan else None,
            "context": caps.max_length,
            "vocabulary": caps.vocab_size,
            "settings": dict(caps.settings),
        }

    def _check(self, ids: Ids, config: Config) -> None:
        caps = self.target.caps
        if len(ids) == 0:
            raise ConfigError("the prompt has no token in this model's vocabulary; give the model something to go on.")
        if len(ids) > caps.max_length:
            raise ConfigError(
                f"the prompt has {len(ids)} tokens and the context holds {caps.max_length}; "
                "shorten the prompt, or raise --ctx-size where the model allows it."
            )
        if ids.min() < 0 or ids.max() >= caps.vocab_size:
            raise ConfigError(f"the prompt has ids outside the vocabulary of {caps.vocab_size} tokens.")
        config.sampling.check_vocabulary(caps.vocab_size)
        for token in config.stop_ids:
            if not 0 <= token < caps.vocab_size:
                raise ConfigError(f"stop_ids names token {token}, outside the vocabulary of {caps.vocab_size} tokens.")
        if config.drafts.name != "off":
            self._check_rows(config)

    def _check_rows(self, config: Config) -> None:
        """Raises: NotEligible where drafts could change the text, and nobody has said that they may."""
        caps, row_class = self.target.caps, self.row_class
        if row_class == "identical" or (row_class == "near-tie" and self.allows_near_ties(config)):
            return
        settings = ", ".join(f"{key} {value}" for key, value in caps.settings.items())
        found = ""
        if self.plan is not None and row_class != caps.row_class:
            found = f" ({self.plan.rows.found_by} found it here: {self.plan.rows.text})"
        if row_class == "row-dependent":
            raise NotEligible(
                f"on {caps.backend} ({settings}) a row's result depends on the rows beside it, so drafts would change "
                f"the text{found}; choose other settings, or --drafts off."
            )
        raise NotEligible(
            f"on {caps.backend} ({settings}) rows are near-tie: drafts may change the text where the two likeliest "
            f"tokens nearly tie{found}; allow it once with --allow-near-ties, choose exact settings, or --drafts off."
        )


def _build(kind: parts.Kind, part: Part, given: Any) -> Any:
    plugin = parts.find(kind, part.name)
    return plugin.build(parts.make_options(plugin, part.options, kind), given)


class Generation:
    """One text being written. Holds changing state: iterate it once, for text, or call `steps` for rounds too.

    `rounds`, `ids` and `text` hold what was written so far, `finish` why it ended (None while it has not).
    `notes` are what there is to say to the user, `policy` is what chose the draft lengths, with its options in use.
    """

    def __init__(
        self,
        model: Model,
        config: Config,
        prompt: Ids,
        seed: int | None,
        workshop: TextWorkshop,
        drafter: Drafter,
        policy: Policy,
        chosen: Part,
        clock: Clock,
    ) -> None:
        self.prompt_ids = prompt
        self.rounds: list[Round] = []
        self.ids: list[int] = []
        self.text = ""
        self.finish: Finish | None = None
        self.seed = seed
        self.notes = workshop.notes
        self.policy = chosen
        self._workshop = workshop
        self._clock = clock
        self._walls: list[float] = []
        self._cancelled = False
        self._stream = TextStream(model.tokenizer, config.stop)
        self._session: Session = model.target.open(drafter.needs.taps)
        sampling = workshop.sampling
        self._rounds = generate(
            self._session,
            prompt,
            caps=model.target.caps,
            drafter=drafter,
            policy=policy,
            judge=make_judge(config.judge, sampling, tolerance=config.tolerance),
            limits=Limits(config.max_tokens, sampling.end_ids, self._stream.scan),
            clock=clock,
            cancelled=lambda: self._cancelled,
            width=plans.padding(model.curve, model.target.caps),
            top_logprobs=config.top_logprobs,
        )

    def __iter__(self) -> Iterator[str]:
        """Pieces of text as they become final: never half a character, never the beginning of a stop string."""
        for _, piece in self.steps():
            if piece:
                yield piece

    def steps(self) -> Iterator[tuple[Round | None, str]]:
        """Every round with the text that became final in it; last (None, text that was held back)."""
        try:
            while True:
                start = self._clock()
                try:
                    round_ = next(self._rounds)
                except StopIteration as end:
                    self.finish = end.value
                    break
                piece = self._stream.take()
                self.rounds.append(round_)
                self.ids.extend(round_.new_ids)
                self.text += piece
                self._walls.append(self._clock() - start)
                yield round_, piece
            rest = self._stream.finish()
            self.text += rest
            yield None, rest
        finally:
            self.close()

    def cancel(self) -> None:
        """End after the round in progress; may be called from another thread."""
        self._cancelled = True

    def close(self) -> None:
        """Free the cache; what was written stays readable."""
        with ExitStack() as closing:  # the last one first; what fails leaves the others to be closed
            closing.callback(self._workshop.close)
            closing.callback(self._session.close)
            closing.callback(self._rounds.close)

    def stats(self) -> Stats:
        """The numbers of what was written so far."""
        return summarise(len(self.prompt_ids), self.rounds, self._walls, self.finish)

    def __enter__(self) -> Generation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _seed(config: Config) -> int | None:
    """The seed of this generation: None when nothing is drawn, a fresh one when none was given."""
    if config.sampling.greedy:
        return None
    return secrets.randbits(32) if config.seed is None else config.seed
