"""Recorded measurements: results files in solutions/measured/, each with where its numbers come from."""

from __future__ import annotations

import re
from pathlib import Path

from course_utils.recordings.model import MeasuredError, read, write

FOLDER = Path(__file__).parents[2] / "solutions" / "measured"


def load(name: str = "ladder") -> dict:
    """A recorded file, or ``{"provenance": {}, "entries": []}`` where none was recorded yet. Raises
    MeasuredError.
    """
    path = FOLDER / f"{name}.json"
    return read(path) if path.exists() else {"provenance": {}, "entries": []}


def record(path: str | Path, name: str = "ladder") -> Path:
    """Copy a results file into solutions/measured/ as ``name``.

    Raises MeasuredError for a file that is not one.
    """
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        raise MeasuredError(f"{name!r} is no name for a recording: use small letters, digits, - and _")
    results = read(path)
    if not results["entries"]:
        raise MeasuredError(f"{path} holds no entries; nothing was recorded")
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{name}.json"
    write(target, results)
    return target
