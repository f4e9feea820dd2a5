"""``course sync``, for authors: exercise cells cut from the solutions, and the drawn pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from authoring import drawings
from authoring import sync as notebooks
from course_utils.cli.terminal import say


def sync(options: argparse.Namespace, console: Console) -> int:
    """Write the notebooks' exercise cells and pictures."""
    written = drawings.write(notebooks.NOTEBOOKS / "images")
    written += notebooks.sync(
        out=Path(options.solved) if options.solved else None, solved=bool(options.solved), force=options.force
    )
    say(console, "\n".join(f"wrote {path}" for path in written) or "nothing to change")
    return 0
