"""Show a page in Chromium, without a window.

When: in the tests of pages, marked with `needs_browser`.
Limits: the tests are skipped if there is no Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")

needs_browser = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed")


def shown(page: Path, profile: Path) -> str:
    """Return the document after its scripts ran. Errors of scripts, and what the policy of the page blocks,
    fail the test."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    options += [f"--user-data-dir={profile}", "--virtual-time-budget=2000"]
    command = [BROWSER, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout
