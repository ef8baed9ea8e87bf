"""D10: in transformers itself our drafts change the forwards and not the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is needed to run transformers")
pytest.importorskip("transformers", reason="the adapter of transformers needs it")

from surefoot.app.adapters.transformers import drafting, handed_for  # noqa: E402
from surefoot.core.errors import ConfigError, NotEligible  # noqa: E402

PROMPT = [5, 9, 13, 5, 9, 13, 5, 9]


@pytest.fixture(scope="module")
def model() -> Any:
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


class Forwards:
    """Counts the forwards of a model while it is open."""

    def __init__(self, model: Any) -> None:
        self.n = 0
        self._model = model

    def __enter__(self) -> Forwards:
        self._hook = self._model.register_forward_hook(self._count)
        return self

    def _count(self, *given: Any) -> None:
        self.n += 1

    def __exit__(self, *given: Any) -> None:
        self._hook.remove()


def write(model: Any, prompt: list[int] = PROMPT, n: int = 80, **settings: Any) -> list[int]:
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        text = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, pad_token_id=0, **settings)
    return [int(token) for token in text[0, len(prompt) :]]


@pytest.mark.parametrize("policy", ["additive", "goodput"])
def test_greedy_text_is_the_same_in_fewer_forwards(model: Any, policy: str) -> None:
    plain = write(model, do_sample=False, eos_token_id=None)
    with drafting(model, handed_for(model, "ngram", {"min_n": 1}, policy)) as made, Forwards(model) as forwards:
        drafted = write(model, do_sample=False, eos_token_id=None)
    assert drafted == plain
    assert len(plain) == 80
    if policy == "additive":  # goodput goes by the clock
        assert sum(round_.accepted for round_ in made[0].handed.rounds) > 10
        assert forwards.n < 70


@pytest.mark.parametrize("place", [0, 1, 7, 20])
def test_the_text_ends_where_it_ends_without_drafts(model: Any, place: int) -> None:
    end = write(model, do_sample=False, eos_token_id=None)[place]
    plain = write(model, do_sample=False, eos_token_id=end)
    with drafting(model, handed_for(model, "ngram", {"min_n": 1}, "fixed")):
        assert write(model, do_sample=False, eos_token_id=end) == plain


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_limit_holds(model: Any, n: int) -> None:
    with drafting(model, handed_for(model, "ngram", {"min_n": 1}, "fixed")):
        assert write(model, n=n, do_sample=False, eos_token_id=None) == write(model, n=n, do_sample=False)[:n]


def test_texts_follow_one_another_and_the_model_is_left_as_it_was(model: Any) -> None:
    plain = [write(model, prompt, do_sample=False, eos_token_id=None) for prompt in (PROMPT, PROMPT[::-1])]
    with drafting(model, handed_for(model, policy="additive")) as made:
        for prompt, text in zip((PROMPT, PROMPT[::-1]), plain, strict=True):
            assert write(model, prompt, do_sample=False, eos_token_id=None) == text
    assert len(made) == 2
    assert not {"_get_candidate_generator", "generate"} & set(vars(model))
    assert write(model, do_sample=False, eos_token_id=None) == plain[0]
    assert len(made) == 2


def test_drawn_text_follows_the_same_law_of_accepted_drafts(model: Any) -> None:
    """transformers draws with a generator of its own, so only a law that leaves no choice has one text."""
    plain = write(model, do_sample=False, eos_token_id=None)
    with drafting(model, handed_for(model, "ngram", {"min_n": 1}, "fixed")):
        assert write(model, do_sample=True, top_k=1, eos_token_id=None) == plain


def test_a_configuration_of_the_caller_is_drafted_for_too(model: Any) -> None:
    import transformers

    config = transformers.GenerationConfig(max_new_tokens=40, do_sample=False, pad_token_id=0)
    ids = torch.tensor([PROMPT])
    with drafting(model, handed_for(model, "ngram", {"min_n": 1}, "fixed")) as made:
        text = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    assert text[0, len(PROMPT) :].tolist() == write(model, n=40, do_sample=False)
    assert len(made) == 1


def test_several_sequences_are_refused(model: Any) -> None:
    with drafting(model) as made:
        write(model, n=2, do_sample=False)
    with pytest.raises(NotEligible, match="one sequence"):
        made[0].get_candidates(torch.tensor([PROMPT, PROMPT]))


def test_what_does_not_fit_is_refused(model: Any) -> None:
    with pytest.raises(NotEligible, match="_get_candidate_generator"), drafting(object()):
        pass
    with pytest.raises(ConfigError, match="longest"), drafting(model, longest=99):
        pass


def test_another_source_of_drafts_is_refused(model: Any) -> None:
    for asked in ({"assistant_model": model}, {"assistant_early_exit": 1}):
        with drafting(model) as made, pytest.raises(ConfigError, match=next(iter(asked))):
            write(model, do_sample=False, eos_token_id=None, **asked)
        assert made == []


def test_a_model_that_is_drafted_for_is_refused_until_that_ends(model: Any) -> None:
    with drafting(model):
        with pytest.raises(ConfigError, match=r"drafting\(\) does .* leave that context first"), drafting(model):
            pass
        assert "generate" in vars(model), "the context that is open goes on"
    with drafting(model):
        pass


def test_a_wrapper_whose_generate_is_that_of_the_model_inside_is_refused(model: Any) -> None:
    """Its own method would be replaced and never asked."""

    class Wrapper:
        def __getattr__(self, name: str) -> Any:
            return getattr(model, name)

    with pytest.raises(NotEligible, match="Wrapper has no _get_candidate_generator"), drafting(Wrapper()):
        pass


def test_a_generate_of_somebody_else_is_used_and_put_back(model: Any) -> None:
    plain, asked = write(model, do_sample=False, eos_token_id=None), []
    its_own = model.generate

    def logged(*given: Any, **named: Any) -> Any:
        asked.append(named)
        return its_own(*given, **named)

    model.generate = logged
    try:
        with drafting(model, handed_for(model, policy="fixed")) as made:
            assert write(model, do_sample=False, eos_token_id=None) == plain
        assert len(made) == len(asked) == 1
        assert vars(model)["generate"] is logged
    finally:
        del model.generate


def test_a_drafter_that_fails_costs_its_drafts_and_warns(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from surefoot.drafters.ngram import NgramDrafter

    plain = write(model, do_sample=False, eos_token_id=None)
    handed = handed_for(model, "ngram", {"min_n": 1}, "fixed")

    def fail(self: NgramDrafter, budget: int) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(NgramDrafter, "propose", fail)
    with drafting(model, handed), pytest.warns(RuntimeWarning, match="ngram failed in propose"):
        assert write(model, do_sample=False, eos_token_id=None) == plain
    assert not any(round_.drafted for round_ in handed.rounds)


@pytest.mark.model
def test_smollm2_writes_the_same_text(smollm2_gguf: Path) -> None:
    import transformers

    auto: Any = transformers
    source = {"pretrained_model_name_or_path": smollm2_gguf.parent, "gguf_file": smollm2_gguf.name}
    module = auto.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    tokenizer = auto.AutoTokenizer.from_pretrained(**source)
    code = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\n"
    prompt = tokenizer(code + code + "def add(a, b):")["input_ids"]
    plain = write(module, prompt, 32, do_sample=False, eos_token_id=None)
    with drafting(module, handed_for(module, policy="additive")) as made:
        assert write(module, prompt, 32, do_sample=False, eos_token_id=None) == plain
    assert sum(round_.accepted for round_ in made[0].handed.rounds) > 0
