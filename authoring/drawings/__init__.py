"""The drawn pictures of the notebooks: one module a notebook, each with ``PICTURES``, file name to function.

``course sync`` writes them to notebooks/images/ as SVG. Change a drawing here, never there.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from matplotlib.figure import Figure

from course_utils.figures import theme


def all_pictures() -> dict[str, Callable[[], Figure]]:
    """File name (no suffix) to the function that returns its Figure, over all modules of this folder."""
    modules = [import_module(f"{__name__}.{m.name}") for m in iter_modules(__path__) if m.name != "canvas"]
    return {name: draw for module in modules for name, draw in module.PICTURES.items()}


def write(folder: Path) -> list[Path]:
    """Write every picture that is missing or differs in ``folder``. Returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in all_pictures().items():
        path, text = folder / f"{name}.svg", theme.svg(draw())
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            written.append(path)
    return written
