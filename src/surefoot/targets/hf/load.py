"""From a checkpoint on disk to a target that was tried out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible, SurefootError, TargetError
from surefoot.core.types import Caps, RowClass

if TYPE_CHECKING:
    from surefoot.targets.hf import Options
    from surefoot.targets.hf.checkpoint import Checkpoint
    from surefoot.targets.hf.runner import Runner
    from surefoot.targets.hf.target import HfTarget

_DTYPES = ("auto", "float32", "bfloat16", "float16")
_ATTENTIONS = ("auto", "sdpa", "eager")
# accelerate is what transformers loads GGUF files with.
_NEEDED = ("torch", "transformers", "gguf", "accelerate")


def load(options: Options, path: Path) -> HfTarget:
    """The target for the model at `path`, loaded and tried out."""
    _check_options(options)
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NotEligible(f'the hf target needs {", ".join(missing)}: pip install "surefoot[hf]"')
    from surefoot.targets.hf.checkpoint import inspect

    checkpoint = inspect(path)
    with _quiet():
        return _build(options, checkpoint)


def _build(options: Options, checkpoint: Checkpoint) -> HfTarget:
    import torch

    from surefoot.targets.hf.eligibility import check_config, context_length
    from surefoot.targets.hf.session import MAX_ROWS
    from surefoot.targets.hf.target import HfTarget, try_out

    config = _config(checkpoint)
    check_config(config)
    max_length = context_length(config, options.ctx_size)
    device = _device(options.device)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    model = _model(options, checkpoint, config, device)
    runner = _runner(model, device, context_length(config, None))
    trial = try_out(runner)
    if trial.vocab_size > runner.embeddings:
        raise NotEligible(
            f"the model predicts {trial.vocab_size} ids and reads {runner.embeddings}: some could never be fed back"
        )
    runner = replace(runner, steerable=trial.steerable, places=runner.places[:max_length])
    caps = Caps(
        backend="hf",
        vocab_size=trial.vocab_size,
        max_length=max_length,
        max_rows=min(MAX_ROWS, max_length),
        discipline="truncate",
        can_pad=trial.steerable,
        can_tree=trial.steerable,
        tap_names=runner.stack.names if runner.stack else (),
        device=str(device),
        row_class=_row_class(runner),
        settings=_settings(runner, checkpoint),
    )
    return HfTarget(runner, caps)


def _check_options(options: Options) -> None:
    for name, value, known in (("dtype", options.dtype, _DTYPES), ("attn", options.attn, _ATTENTIONS)):
        if value not in known:
            raise ConfigError(f"{name} {value!r} was asked: choose one of {', '.join(known)}")
    if options.threads is not None and options.threads < 1:
        raise ConfigError(f"threads {options.threads} was asked: give at least 1")
    if options.ctx_size is not None and options.ctx_size < 1:
        raise ConfigError(f"ctx_size {options.ctx_size} was asked: give at least 1")


def _device(asked: str) -> Any:
    import torch

    n_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if asked == "auto":
        return torch.device("cuda" if n_cuda else "mps" if has_mps else "cpu")
    kind, _, index = asked.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and not (kind == "cuda" and index.isdecimal())):
        raise ConfigError(f"device {asked!r} was asked: give auto, cpu, cuda, cuda:N or mps")
    if kind == "cuda" and int(index or 0) >= n_cuda:
        raise ConfigError(
            f"device {asked} was asked and torch finds {n_cuda} CUDA devices: use cpu, or install torch for CUDA"
        )
    if kind == "mps" and not has_mps:
        raise ConfigError("device mps was asked and torch finds none: use cpu")
    return torch.device(asked)


def _config(checkpoint: Checkpoint) -> Any:
    """The model's config, by transformers' own classes only."""
    from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

    with _translated(checkpoint):
        if checkpoint.gguf is None:
            kind = PreTrainedConfig.get_config_dict(checkpoint.folder, local_files_only=True)[0].get("model_type")
            if kind is None:
                raise ConfigError(f"{checkpoint.folder / 'config.json'} names no model_type: fetch the model again")
            if kind not in CONFIG_MAPPING:
                raise NotEligible(
                    f"transformers does not know the model type {kind}, and code that comes with a model is never run: "
                    "use a model that transformers supports itself"
                )
        return AutoConfig.from_pretrained(checkpoint.folder, local_files_only=True, **_gguf(checkpoint))


def _model(options: Options, checkpoint: Checkpoint, config: Any, device: Any) -> Any:
    """The model in evaluation mode on the device."""
    import torch
    from transformers import AutoModelForCausalLM

    wanted = options.dtype
    if wanted == "auto":
        wanted = "float32" if device.type == "cpu" else "auto" if checkpoint.gguf is None else "bfloat16"
    attention = {} if options.attn == "auto" else {"attn_implementation": options.attn}
    loader: Any = AutoModelForCausalLM
    with _translated(checkpoint):
        model, info = loader.from_pretrained(
            checkpoint.folder,
            config=config,
            dtype=wanted if wanted == "auto" else getattr(torch, wanted),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            # Counted below: transformers would put the names of the tensors into its log and not into its error.
            ignore_mismatched_sizes=True,
            **attention,
            **_gguf(checkpoint),
        )
        _check_loaded(info)
        return model.eval().to(device)


@contextmanager
def _translated(checkpoint: Checkpoint) -> Iterator[None]:
    """Turns what goes wrong in reading a checkpoint into one of our errors."""
    import torch

    try:
        yield
    except SurefootError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise TargetError(f"{checkpoint.path} does not fit: {_line(error)}", backend="hf", operation="load") from error
    except ImportError as error:
        raise NotEligible(f"{checkpoint.path} needs another package: {_line(error)}") from error
    except NotImplementedError as error:
        raise NotEligible(f"transformers cannot read the weight format of {checkpoint.path}: {_line(error)}") from error
    except Exception as error:
        # transformers has no error class of its own for this: "GGUF model with architecture X is not supported yet."
        if checkpoint.gguf is not None and "is not supported" in str(error):
            raise NotEligible(
                f"transformers cannot read {checkpoint.path}: {_line(error)} Use another target, or its safetensors"
            ) from error
        raise DamagedModel(
            f"transformers cannot read {checkpoint.path} ({_line(error)}): the files are damaged, cut off or incomplete"
        ) from error


def _check_loaded(info: Any) -> None:
    """Raises DamagedModel when transformers filled in weights that the files lack: it would only have warned."""
    for what, key in (("lack", "missing_keys"), ("have other shapes for", "mismatched_keys")):
        # A mismatch comes with both shapes, a missing tensor by its name alone.
        names = sorted(str(name[0] if isinstance(name, tuple) else name) for name in info.get(key) or ())
        if names:
            raise DamagedModel(
                f"the weights {what} {len(names)} tensors of this model ({names[0]}): "
                "config and weights do not belong together"
            )


def _gguf(checkpoint: Checkpoint) -> dict[str, str]:
    return {} if checkpoint.gguf is None else {"gguf_file": checkpoint.gguf}


def _runner(model: Any, device: Any, max_length: int) -> Runner:
    import torch

    from surefoot.targets.hf.cache import windows
    from surefoot.targets.hf.runner import Runner, accepted, cache_argument
    from surefoot.targets.hf.taps import find_stack

    text = model.config.get_text_config()
    accepts = accepted(model)
    cache_name = cache_argument(accepts)
    if cache_name is None:
        raise NotEligible(f"{type(model).__name__} keeps no cache between forwards")
    return Runner(
        model=model,
        config=text,
        device=device,
        accepts=accepts,
        cache_name=cache_name,
        places=torch.arange(max_length, device=device),
        windows=windows(text),
        embeddings=int(model.get_input_embeddings().num_embeddings),
        stack=find_stack(model, int(text.num_hidden_layers)),
        attention=str(text._attn_implementation),
        steerable=False,
    )


def _row_class(runner: Runner) -> RowClass:
    """What is known of these settings without measuring.

    Source: measured 2026 on two AVX2 cores with SmolLM2-135M, 200 positions of real text, eight single rows against a
    block of eight: float32 0 argmaxes differ, bfloat16 3.
    """
    import torch

    exact = runner.device.type == "cpu" and runner.model.dtype == torch.float32
    return "identical" if exact else "near-tie"


def _settings(runner: Runner, checkpoint: Checkpoint) -> dict[str, str]:
    import torch
    import transformers

    device = runner.model.device
    accelerator = {"accelerator": torch.cuda.get_device_name(device)} if device.type == "cuda" else {}
    return {
        "model": type(runner.model).__name__,
        "weights": checkpoint.format,
        "dtype": str(runner.model.dtype).removeprefix("torch."),
        "attention": runner.attention,
        "threads": str(torch.get_num_threads()),
        "float32_matmul": torch.get_float32_matmul_precision(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        **accelerator,
    }


def _line(error: BaseException) -> str:
    """An error of somebody else in one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading without progress bars and warnings: what matters in them is raised here.

    The standard error stream is swapped too, because transformers 5 draws the bar of a GGUF file past its own switch.
    """
    import io
    import warnings

    from transformers import utils

    logging: Any = utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
