"""Models from the Hugging Face Hub, through its own library, which also keeps them and knows the user's token."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from surefoot.core.errors import ConfigError

# Settings, tokenizers and templates. Never pickles and never code, so nothing fetched here can run.
_TEXT = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
_WEIGHTS = {"safetensors": ["model*.safetensors"], "openvino": ["openvino_*.xml", "openvino_*.bin"], "gguf": []}


def fetch_folder(repo: str, revision: str | None, formats: Sequence[str]) -> Path:
    """The folder that holds the model `repo`; only its top level, only weights in `formats`."""
    weights = [pattern for name in formats for pattern in _WEIGHTS[name]]
    folder = _snapshot(repo, revision, _TEXT + weights, ["*/*"])
    if not any(file for pattern in weights for file in folder.glob(pattern)):
        ggufs = _ggufs(repo, revision)
        named = f": name one of its GGUF files, as in {repo}:{ggufs[0]}" if ggufs else ""
        raise ConfigError(f"the Hub model {repo} has no weights as {' or '.join(formats)} at its top level{named}")
    return folder


def fetch_file(repo: str, revision: str | None, file: str, pattern: str) -> Path:
    """The GGUF file `file` of the model `repo`, with all its parts when `pattern` names them."""
    # The parts differ in digits only; everything else in the name is taken literally.
    literal = "?????".join(glob.escape(part) for part in pattern.split("?????"))
    path = _snapshot(repo, revision, [literal], None) / file
    if not path.exists():
        ggufs = ", ".join(_ggufs(repo, revision)[:4])
        raise ConfigError(f"the Hub model {repo} has no file {file}" + (f"; it has {ggufs}" if ggufs else ""))
    return path


def sizes(repo: str, revision: str | None) -> dict[str, int]:
    """Bytes of each file at the top level of the model `repo`, by name."""
    with _errors_in_words(repo, revision):
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        found = HfApi().list_repo_tree(repo, revision=revision)
        return {entry.path: int(entry.size) for entry in found if isinstance(entry, RepoFile)}


def fetch_settings(repo: str, revision: str | None) -> Path:
    """The folder that holds the settings of the model `repo`, and no weights that were not there before."""
    return _snapshot(repo, revision, ["*.json"], ["*/*"])


def _snapshot(repo: str, revision: str | None, allow: list[str], ignore: list[str] | None) -> Path:
    with _errors_in_words(repo, revision):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(repo, revision=revision, allow_patterns=allow, ignore_patterns=ignore))


def _ggufs(repo: str, revision: str | None) -> list[str]:
    """GGUF files of the repository, for a better message; none when the Hub cannot be asked."""
    from huggingface_hub import HfApi

    try:
        return sorted(name for name in HfApi().list_repo_files(repo, revision=revision) if name.endswith(".gguf"))
    except OSError:
        return []


@contextmanager
def _errors_in_words(repo: str, revision: str | None) -> Iterator[None]:
    try:
        from huggingface_hub import errors
    except ImportError as error:
        raise ConfigError(
            f"{repo} would come from the Hub, and huggingface_hub is not installed: pip install 'surefoot[text]'"
        ) from error
    try:
        yield
    except errors.GatedRepoError as error:
        raise ConfigError(
            f"the Hub model {repo} is gated: accept its terms on its page, then log in with 'hf auth login'"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ConfigError(f"the Hub model {repo} has no revision {revision}") from error
    except errors.RepositoryNotFoundError as error:
        raise ConfigError(
            f"there is no folder {repo} here and no such model on the Hub, or it is private: "
            f"check the name, or log in with 'hf auth login'"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise ConfigError(
            f"there is no folder {repo} here, and the Hub cannot be reached to fetch it (offline?): "
            f"go online once, or give a local folder"
        ) from error
    except (errors.HFValidationError, errors.HfUriError) as error:
        raise ConfigError(f"{repo} is neither a folder here nor a valid Hub id: {_first_line(error)}") from error
    except OSError as error:
        raise ConfigError(f"the Hub model {repo} could not be fetched: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
