"""How often the drafts of a draft model with another vocabulary stand, and what they fail on.

    python benchmarks/crossvocab.py --target FILE [--draft-model NAME] [--tokens N] [--each N]

Both models run on llama.cpp. Every draft may have four tokens; it ends sooner at a token that the target lacks and,
with the confidence that is the default, where the draft model is unsure. Texts are greedy and drawn, and each has to be
the one that is written without drafts. A rejected token that spells how the text goes on was right in its letters: the
target cuts its words elsewhere. A target without a chat template goes on with the prompts as they stand. Nothing is
timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import RECORDS, write_record
from written import ratio

import surefoot
from surefoot.core.ports import Drafter, Needs, Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Ids
from surefoot.engine.config import Part
from surefoot.lab import workloads
from surefoot.lab.workloads import Prompt

LAWS = {"greedy": Sampling(), "temperature 0.7": Sampling(temperature=0.7)}
CONFIDENCES = (0.0, 0.4)
WORKLOADS = ("chat", "code", "summary", "question", "translation")
LENGTH = 4
CONTEXT = 2048
Row = dict[str, Any]


class Watched:
    """The drafter inside. Holds changing state: each draft that it gave."""

    def __init__(self, inner: Drafter) -> None:
        self._inner = inner
        self.drafts: list[list[int]] = []

    @property
    def needs(self) -> Needs:
        return self._inner.needs

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self._inner.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        draft = self._inner.propose(budget)
        self.drafts.append(draft.ids.tolist())
        return draft

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        self._inner.observe(new_ids, scores)


def write(
    model: surefoot.Model, prompt: Prompt, seed: int, sampling: Sampling, drafts: Part
) -> tuple[surefoot.Generation, list[list[int]]]:
    """One text, and its drafts."""
    watched: list[Watched] = []

    def around(inner: Drafter) -> Watched:
        watched.append(Watched(inner))
        return watched[0]

    config = replace(
        model.config, drafts=drafts, policy=Part("fixed", {"draft_len": LENGTH}), sampling=sampling,
        seed=None if sampling.greedy else seed, raw=not model.tokenizer.has_template,
    )  # fmt: skip
    with model.generate(prompt.content, config=config, around=around) as generation:
        list(generation)
    return generation, watched[0].drafts


def rounds_of(
    text: surefoot.Generation, drafts: Sequence[Sequence[int]], spelled: Sequence[bytes], limit: int
) -> list[list[Any]]:
    """Of each round that had room for a whole draft: tokens drafted, tokens that held, and whether the first one that
    did not spells how the text goes on (None: all held)."""
    found: list[list[Any]] = []
    emitted = 1
    for round_, draft in zip(text.rounds[1:], drafts, strict=False):
        if round_.finish is None and limit - emitted > LENGTH:
            there = b"".join(spelled[token] for token in text.ids[emitted + round_.accepted :])
            rejected = draft[round_.accepted :][:1]
            found.append([
                len(draft), round_.accepted, there.startswith(spelled[rejected[0]]) if rejected else None,
            ])  # fmt: skip
        emitted += len(round_.new_ids)
    return found


def row_of(model: surefoot.Model, prompts: Sequence[Prompt], law: str, confidence: float) -> Row:
    """All that was counted under one law with one confidence."""
    spelled = model.tokenizer.vocabulary.spelled
    drafts = Part("crossvocab", {**model.config.drafts.options, "confidence": confidence})
    texts = []
    for seed, prompt in enumerate(prompts):
        text, given = write(model, prompt, seed, LAWS[law], drafts)
        plain, _ = write(model, prompt, seed, LAWS[law], Part("off"))
        texts.append({
            "workload": prompt.workload, "id": prompt.id, "tokens": len(text.ids), "same": text.ids == plain.ids,
            "notes": text.notes, "rounds": rounds_of(text, given, spelled, model.config.max_tokens),
        })  # fmt: skip
    return {"law": law, "confidence": confidence, "texts": texts}


def shown(row: Mapping[str, Any]) -> str:
    """Tokens per round by workload, how drafts ended, and what became of them by position."""
    texts = row["texts"]
    lines = [
        f"{row['law']}, confidence {row['confidence']}: same text in {sum(t['same'] for t in texts)} of {len(texts)}"
    ]
    names = dict.fromkeys(text["workload"] for text in texts)
    for name in (*names, "all"):
        some = [text["rounds"] for text in texts if name in (text["workload"], "all")]
        every = [each for text in some for each in text]
        tokens = ratio([sum(held + 1 for _, held, _ in text), len(text)] for text in some)
        drafted = sum(count for count, _, _ in every) / max(1, len(every))
        short = sum(count < LENGTH for count, _, _ in every) / max(1, len(every))
        failed = [right for _, _, right in every if right is not None]
        reached = [sum(count >= k and held >= k - 1 for count, held, _ in every) for k in range(1, LENGTH + 1)]
        held_there = [sum(held >= k for _, held, _ in every) for k in range(1, LENGTH + 1)]
        by_place = " ".join(f"{held}/{here}" for held, here in zip(held_there, reached, strict=True))
        lines.append(
            f"  {name:12} {tokens} tokens a round, drafted {drafted:.2f}, shorter in {short:.0%}, held of "
            f"reached {by_place}, rejected {len(failed)}, right in letters {sum(failed)}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", metavar="FILE", help="a GGUF file; without one there is nothing to count")
    parser.add_argument("--draft-model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--each", type=int, default=2, help="prompts of each workload")
    parser.add_argument("--out", type=Path, default=RECORDS / "crossvocab.json")
    options = parser.parse_args()
    if options.target is None:
        print("no --target was given: passed over")
        return
    given = {
        "model": options.draft_model,
        "runtime": "llamacpp",
        "threads": 2,
        "runtime_options": {"ctx_size": CONTEXT},
    }
    model = surefoot.load(
        options.target, runtime="llamacpp", ctx_size=CONTEXT, threads=2, max_tokens=options.tokens, drafts="crossvocab",
        **{f"drafts.{key}": value for key, value in given.items()},
    )  # fmt: skip
    prompts = workloads.select(workloads.own(), WORKLOADS, options.each)
    rows: list[Row] = []
    for law in LAWS:
        for confidence in CONFIDENCES:
            rows.append(row_of(model, prompts, law, confidence))
            print(shown(rows[-1]), flush=True)
            write_record(
                options.out, "drafts of another vocabulary by round: drafted, held, rejected one right in its letters",
                rows, ["xllamacpp"], target=Path(options.target).name, draft_model=options.draft_model,
                tokens=options.tokens, draft_len=LENGTH,
            )  # fmt: skip
    print(rows[0]["texts"][0]["notes"][0])


if __name__ == "__main__":
    main()
