"""Pages in a real browser without a window: what they measure, how they look, what they complain of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
PROBE = (Path(__file__).parent / "browser_probe.js").read_text(encoding="utf-8")
PATIENCE_S = 300
"""Only to end a hang; nothing is judged by it."""


@dataclass(frozen=True)
class Browser:
    """A browser and a folder for what it wants to keep."""

    program: str
    folder: Path

    def measure(self, pages: Sequence[tuple[str, int]], dark: bool = False) -> list[dict[str, Any]]:
        """What the probe finds in each page at its width. Our pages forbid scripts: that line is taken out.

        Each page stands in a frame of that width, because a window cannot be as narrow as a phone.
        """
        frames = []
        for number, (page, width) in enumerate(pages):
            text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
            text = text.replace("</body>", f"<script>const number = {number};\n{PROBE}</script></body>")
            frames.append(f'<iframe style="border: 0" width="{width}" height="900" srcdoc="{escape(text)}"></iframe>')
        path = self.folder / "measured.html"
        head = '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        path.write_text(f"{head}<body>{''.join(frames)}</body>", encoding="utf-8")
        out = self._run(path, 1400, 900, dark, "--dump-dom").stdout
        found = re.findall(r'<pre class="probe-(\d+)">([^<]*)</pre>', out)
        return [json.loads(unescape(text)) for _, text in sorted(found, key=lambda each: int(each[0]))]

    def picture(self, page: str, name: str, width: int, height: int, dark: bool = False) -> tuple[Path, list[str]]:
        """A picture of the page as it is, and what the browser had to say about it."""
        path, picture = self.folder / f"{name}.html", self.folder / f"{name}.png"
        path.write_text(page, encoding="utf-8")
        done = self._run(path, width, height, dark, f"--screenshot={picture}", "--enable-logging=stderr")
        return picture, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def _run(
        self, path: Path, width: int, height: int, dark: bool, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        command = [
            *(self.program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--hide-scrollbars", "--force-device-scale-factor=1", "--no-first-run", "--disable-extensions"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={self.folder / 'profile'}", f"--window-size={width},{height}"),
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            *arguments,
            path.as_uri(),
        ]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True, text=True
        )


def find(folder: Path) -> Browser:
    """The browser of this machine; the test is skipped where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH (Debian: apt-get install chromium)")
    return Browser(program, folder)
