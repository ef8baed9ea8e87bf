"""Checks that changelog.d/ holds fragments that towncrier will print, and that a change to the product brings one.

The second check compares with where this branch left origin/main (or the ref in the first argument); it has nothing
to compare on main itself and outside a git checkout, and says so.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_FRAGMENTS = {"README.md", ".gitignore"}


def kinds() -> list[str]:
    """The fragment kinds that pyproject.toml declares."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [kind["directory"] for kind in settings["tool"]["towncrier"]["type"]]


def problems(folder: Path, allowed: list[str]) -> list[str]:
    """One sentence for each file that towncrier would ignore or print empty."""
    pattern = re.compile(rf"\+?[A-Za-z0-9_-]+\.({'|'.join(allowed)})\.md")
    found = []
    for path in sorted(folder.iterdir()):
        if path.name in NOT_FRAGMENTS:
            continue
        if not pattern.fullmatch(path.name):
            found.append(f"{path.name} would be ignored: a fragment is called +NAME.KIND.md with KIND in {allowed}.")
        elif not path.read_text(encoding="utf-8").strip():
            found.append(f"{path.name} is empty: write one sentence that a user understands.")
    return found


def git(*arguments: str) -> str | None:
    """What git prints, or None where it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def missing_fragment(base: str) -> str | None:
    """A sentence when src/ differs from the fork point with `base` and changelog.d/ does not."""
    fork = git("merge-base", base, "HEAD")
    if fork is None:
        print(f"Changelog: no {base} to compare with, so only the fragments themselves were checked.")
        return None
    changed = (git("diff", "--name-only", fork.strip()) or "").splitlines()
    product = [name for name in changed if name.startswith("src/")]
    if product and not any(name.startswith(("changelog.d/", "CHANGELOG.md")) for name in changed):
        return f"{product[0]} changed since {base} and changelog.d/ did not: add a fragment (see CONTRIBUTING.md)."
    return None


def main(arguments: list[str]) -> int:
    found = problems(ROOT / "changelog.d", kinds())
    if sentence := missing_fragment(arguments[0] if arguments else "origin/main"):
        found.append(sentence)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
