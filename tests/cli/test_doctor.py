"""`surefoot doctor` tries what is installed, and nothing that it finds can hurt it."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli_run import start, surefoot, wait

from surefoot.app.cli import doctor


def test_it_tries_the_runtimes_and_says_what_is_installed() -> None:
    done = surefoot("doctor", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["schema"] == 1
    runtimes = {runtime["name"]: runtime for runtime in found["runtimes"]}
    assert runtimes["toy"]["works"]
    for name, module in (("hf", "torch"), ("openvino", "openvino"), ("llamacpp", "xllamacpp")):
        if find_spec(module) is not None:
            assert runtimes[name]["works"], runtimes[name]["detail"]
    assert runtimes["hf"]["settings"]["torch"] == version("torch")
    packages = {package["name"]: package["version"] for package in found["packages"]}
    assert packages["numpy"] == version("numpy")
    assert packages["torch"] == version("torch")
    assert found["cores"] >= 1


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from surefoot.app.cli import probe
import importlib.util, json
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "torch" else real(name, package)
print(json.dumps(probe.look_at_runtime("hf")))
"""


def test_a_runtime_without_its_library_says_what_to_install() -> None:
    done = wait(start(["-c", WITHOUT_TORCH]))
    answer = json.loads(done.out.splitlines()[-1])
    assert not answer["works"]
    assert "torch" in answer["detail"]
    assert "pip install" in answer["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import sys; sys.exit('no such device')", "no such device"),
        ("print('not json')", "crashed"),
        ("pass", "it said nothing"),
        ("print('{\"surprise\": 1}')", "crashed"),
    ],
)
def test_a_runtime_that_crashes_does_not_take_the_doctor_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str
) -> None:
    """A stand-in for Python itself plays the probe that dies."""
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    runtime = doctor.try_runtime("any")
    assert not runtime.works
    assert words in runtime.detail


def test_a_runtime_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(doctor, "_TIMEOUT_S", 0.5)
    runtime = doctor.try_runtime("any")
    assert not runtime.works
    assert "hung" in runtime.detail
