"""The one error tree.

SurefootError
├── ConfigError        the user can fix it (exit 2)
│   ├── CapacityError  more rows or tokens than the session can hold
│   └── DamagedModel   the model's files are cut off, incomplete or not what they claim: only others help (exit 3)
├── NotEligible        this combination cannot work; carries reasons (exit 3)
├── TargetError        the runtime failed; carries backend, operation, shapes (exit 4)
└── LawError           our promise broke; caught nowhere but around a drafter, which only guesses
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class SurefootError(Exception):
    """Base of every error that Surefoot raises on purpose."""


class ConfigError(SurefootError):
    """The user can fix it: the message says what was asked, what was found and what to do."""


class CapacityError(ConfigError):
    """More rows or tokens were asked for than the session can hold."""


class DamagedModel(ConfigError):
    """The model's files are cut off, incomplete or not what they claim: no other option makes them run."""


class NotEligible(SurefootError):
    """This combination of model, runtime and options cannot work."""

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons) or (message,)


class TargetError(SurefootError):
    """The runtime failed inside an operation; the session it happened in is closed."""

    def __init__(
        self,
        message: str,
        *,
        backend: str,
        operation: str,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(message)
        self.backend = backend
        self.operation = operation
        self.shapes = dict(shapes or {})


class LawError(SurefootError):
    """A promise of Surefoot broke: the text may be wrong from here on, so nobody catches it.

    But in a drafter, whose guesses cannot make the text wrong: there it costs drafts, as any exception does.
    """
