"""The drawn pictures of the notebooks: one module a notebook, each with ``PICTURES``, file name to function.

``course sync`` writes them to notebooks/images/ as SVG. Change a drawing here, never there.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import matplotlib
from matplotlib.figure import Figure

from course_utils.figures.theme import night


def all_pictures() -> dict[str, Callable[[], Figure]]:
    """File name (no suffix) to the function that returns its Figure, over all modules of this folder."""
    modules = [import_module(f"{__name__}.{m.name}") for m in iter_modules(__path__) if m.name != "canvas"]
    return {name: draw for module in modules for name, draw in module.PICTURES.items()}


def svg(draw: Callable[[], Figure]) -> str:
    """A drawing as SVG text, the same each time: text as outlines, no date, fixed ids, light and dark."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "course"}):
        draw().savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _with_night("\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n")


def _with_night(text: str) -> str:
    """The same SVG, and what each of its colours becomes where the reader's scheme is dark.

    The colours stay where they are, so a viewer that knows no media query shows the light picture.
    """
    rules = []
    for what, colour in sorted(set(re.findall(r"(fill|stroke): (#[0-9a-f]{6})", text))):
        rules.append(f'[style*="{what}: {colour}"] {{{what}: {night(colour)} !important}}')
    for colour in sorted(set(re.findall(r'fill="(#[0-9a-f]{6})"', text))):  # the ground of a hatch
        rules.append(f'[fill="{colour}"] {{fill: {night(colour)}}}')
    style = "\n".join(["", "   @media (prefers-color-scheme: dark) {", *rules, "}"])
    return text.replace("</style>", f"{style}</style>", 1)


def write(folder: Path) -> list[Path]:
    """Write every picture that is missing or differs in ``folder``. Returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in all_pictures().items():
        path, text = folder / f"{name}.svg", svg(draw)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            written.append(path)
    return written
