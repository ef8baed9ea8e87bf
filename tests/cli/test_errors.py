"""From each kind of error to its exit code and its sentence."""

from __future__ import annotations

import pytest
from cli_run import start, wait

from surefoot.app.cli import errors
from surefoot.core.errors import CapacityError, ConfigError, DamagedModel, LawError, NotEligible, TargetError


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (ConfigError("it\nis   so"), 2, "it is so."),
        (CapacityError("too long."), 2, "too long."),
        (DamagedModel("it is cut off"), 3, "it is cut off."),
        (ConfigError("did you mean x?"), 2, "did you mean x?"),
        (NotEligible("it cannot"), 3, "it cannot."),
        (NotEligible("none can", ["a: no", "b: never"]), 3, "none can: a: no; b: never."),
        (TargetError("no memory", backend="hf", operation="extend"), 4, "the runtime hf failed in extend: no memory."),
        (MemoryError(), 4, "there is not enough memory: use a smaller model or a smaller --ctx-size."),
        (LawError("row 3"), 70, "a promise broke, do not trust the text above: row 3."),
        (KeyError("x"), 70, "this is a bug (KeyError: 'x'); please report it with what --debug prints."),
    ],
)
def test_code_and_sentence(error: Exception, code: int, sentence: str) -> None:
    assert errors.exit_code(error) == code
    assert errors.sentence(error) == sentence


RAISING = """
import sys
from surefoot.app.cli import doctor
from surefoot.core.errors import ConfigError, LawError
def run(args, context):
    raise {error}
doctor.run = run
from surefoot.app.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("error", "options", "code", "traceback"),
    [
        ("ConfigError('x')", [], 2, False),
        ("ConfigError('x')", ["--debug"], 2, True),
        ("KeyError('x')", [], 70, False),
        ("KeyError('x')", ["--debug"], 70, True),
        ("LawError('x')", [], 70, True),
    ],
)
def test_tracebacks_are_for_broken_promises_and_for_those_who_ask(
    error: str, options: list[str], code: int, traceback: bool
) -> None:
    done = wait(start(["-c", RAISING.format(error=error), "doctor", *options]))
    assert done.code == code
    assert ("Traceback" in done.err) == traceback
    assert done.err.splitlines()[-1].startswith("surefoot: ")
