"""``course track``: fold away the half of each notebook that somebody does not do."""

from __future__ import annotations

import json

from rich.console import Console

from course_utils.cli import books
from course_utils.cli.terminal import say
from course_utils.grading import steps
from course_utils.recordings.tracks import FOLDED, sections


def track(console: Console, dsl: str) -> int:
    """Fold the sections of the other language in every notebook; "both" opens them again. Work stays.

    Raises ValueError where a notebook cannot be read, and OSError.
    """
    away = {"tilelang": "cute", "cute": "tilelang"}.get(dsl, "")
    changed = []
    for path, notebook in books.read():
        if fold(notebook["cells"], away):
            books.write(path, notebook)
            changed.append(path.name)
    name = steps.DSL_NAMES.get(away, "")
    what = f"folded the sections of {name} in" if away else "opened the sections of both languages in"
    say(console, f"{what} {len(changed)} notebooks; reload those that are open")
    return 0


def fold(cells: list[dict], away: str) -> bool:
    """Fold each section whose exercises are all of the language ``away`` ("": none), and open all others with
    exercises. Returns whether anything changed.
    """
    found = sections(cells)
    before = json.dumps([cell["metadata"] for cell, _ in found])
    for cell, languages in found:
        cell["metadata"].pop(FOLDED, None)
        if languages == {away}:
            cell["metadata"][FOLDED] = True
    return json.dumps([cell["metadata"] for cell, _ in found]) != before
