"""From what went wrong to an exit code and one sentence."""

from __future__ import annotations

from surefoot.core.errors import ConfigError, DamagedModel, LawError, NotEligible, SurefootError, TargetError

GOOD = 0
GATE_FAILED = 1
BAD_USAGE = 2
NOT_ELIGIBLE = 3
RUNTIME_FAILED = 4
BROKEN = 70
"""A promise of Surefoot broke, or Surefoot has a bug. Source: EX_SOFTWARE in sysexits.h."""
INTERRUPTED = 130
"""Source: the convention of shells, 128 + SIGINT."""

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DamagedModel, NOT_ELIGIBLE),
    (ConfigError, BAD_USAGE),
    (NotEligible, NOT_ELIGIBLE),
    (TargetError, RUNTIME_FAILED),
    (MemoryError, RUNTIME_FAILED),
)


def exit_code(error: BaseException) -> int:
    """The exit code that this error ends the program with."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), BROKEN)


def sentence(error: BaseException) -> str:
    """The error on one line: what was asked, what was found, what to do next."""
    return as_line(_text(error))


def wants_traceback(error: BaseException) -> bool:
    """True for a broken promise: where it broke matters more than how it reads."""
    return isinstance(error, LawError)


def as_line(text: str) -> str:
    """The text on one line, with one full stop at its end."""
    line = " ".join(text.split())
    return line if line.endswith(("?", "!")) else line.rstrip(".") + "."


def _text(error: BaseException) -> str:
    if isinstance(error, TargetError):
        return f"the runtime {error.backend} failed in {error.operation}: {error}"
    if isinstance(error, NotEligible) and error.reasons != (str(error),):
        return f"{error}: {'; '.join(error.reasons)}"
    if isinstance(error, LawError):
        return f"a promise broke, do not trust the text above: {error}"
    if isinstance(error, SurefootError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory: use a smaller model or a smaller --ctx-size"
    return f"this is a bug ({type(error).__name__}: {error}); please report it with what --debug prints"
