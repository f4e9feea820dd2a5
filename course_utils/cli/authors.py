"""``course sync``, for authors: exercise cells cut from the solutions, and the drawn pictures."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from authoring import drawings
from authoring import sync as notebooks
from course_utils.cli.terminal import say


def sync(console: Console, solved: str | None, force: bool) -> int:
    """Write the notebooks' exercise cells and pictures."""
    written = drawings.write(notebooks.NOTEBOOKS / "images")
    written += notebooks.sync(out=Path(solved) if solved else None, solved=bool(solved), force=force)
    say(console, "\n".join(f"wrote {path}" for path in written) or "nothing to change")
    return 0
