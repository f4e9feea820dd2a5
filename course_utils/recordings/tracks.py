"""Which language of a notebook somebody has folded away, as ``course track`` does it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from course_utils.grading import steps

FOLDED = "jp-MarkdownHeadingCollapsed"  # of a heading's cell: JupyterLab then hides what is below it


def sections(cells: Iterable[dict]) -> list[tuple[dict, set[str]]]:
    """The cells that begin a section of a notebook, and the languages of each one's exercises."""
    found: list[tuple[dict, set[str]]] = []
    for cell in cells:
        if cell["cell_type"] == "markdown" and "".join(cell["source"]).startswith("## "):
            found.append((cell, set()))
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "").removesuffix("-check")
        dsl = name.rpartition("-")[2]
        if found and dsl in steps.DSL_NAMES:
            found[-1][1].add(dsl)
    return found


def kept(path: Path) -> list[str]:
    """The languages that a notebook's reader has not folded away. Raises nothing: of a notebook that cannot
    be read, all.
    """
    try:
        there = sections(json.loads(path.read_text(encoding="utf-8"))["cells"])
        away = {dsl for cell, dsls in there if cell["metadata"].get(FOLDED) for dsl in dsls}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        away = set()
    return [dsl for dsl in steps.DSL_NAMES if dsl not in away] or list(steps.DSL_NAMES)
