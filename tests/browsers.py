"""The browser of this machine, for tests that look at what a person sees."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium(home: Path) -> Iterator[Browser]:
    """A headless browser whose settings lie in ``home``. Without one the test is skipped; in CI it fails."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=ARGUMENTS, env={**os.environ, "HOME": str(home)}
        )
        yield browser
        browser.close()
