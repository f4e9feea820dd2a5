"""What a learner has reached, kept beside the notebooks in progress.json: the best verdict of each step and
DSL, and the drills that were answered.

The file has the form of solutions/measured/ladder.json, so the ladder is drawn from either, and beside it
``drills``: a notebook's number to the numbers of its drills, ``{"05": [1, 3]}``.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_utils.grading import steps
from course_utils.grading.verdict import Verdict
from course_utils.recordings.bundle import entry, provenance
from course_utils.recordings.model import Entry, Points, Provenance, usable, write

FILE = Path("progress.json")  # in the notebook's folder, which is its kernel's working directory


class Kept(Entry, frozen=True, kw_only=True):
    """An entry whose points count, and whose receipt can be shown."""

    points: Points
    receipt: list[tuple[str, str]]


def read(path: Path = FILE) -> dict:
    """``{"provenance": {...}, "entries": [...]}``: what of the file is whole.

    Empty where nothing was kept yet or nothing can be read. A timing that is broken costs the timings and not
    the points. Raises nothing.
    """
    try:
        kept = json.loads(path.read_text())
        entries, where = list(kept["entries"]), kept["provenance"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {"provenance": {}, "entries": []}
    return {
        "provenance": where if usable(where, Provenance) else {},
        "entries": [whole for entry in entries if (whole := _whole(entry))],
    }


def _whole(entry: object) -> dict | None:
    """An entry as it was kept, or without its timings where one is broken; None where it cannot be used."""
    if not isinstance(entry, dict):
        return None
    return next((form for form in (entry, entry | {"timings": []}) if usable(form, Kept)), None)


def keep(verdict: Verdict, device: dict | None, path: Path = FILE) -> None:
    """Keep a verdict unless a better one of this step and DSL is kept already. Raises OSError where nothing
    can be written.

    A file that cannot be read as progress is moved aside to NAME.broken first.
    """
    with _alone(path):
        kept, answered = read(path), drills(path)
        if path.exists() and not kept["entries"] and not answered:
            os.replace(path, path.with_suffix(".broken"))
        old = find(kept, verdict.step, verdict.dsl)
        if old is not None and old["points"] > verdict.points:
            return
        entries = [e for e in kept["entries"] if e is not old] + [
            entry(f"{verdict.step} {verdict.dsl}", verdict)
        ]
        where = provenance(device, {}) if device and verdict.timing else kept["provenance"]
        _replace(path, {"provenance": where, "entries": entries}, answered)


def keep_drill(notebook: str, number: int, path: Path = FILE) -> set[int]:
    """Keep that a drill of a notebook ("05") was answered rightly; returns all of its drills that were.

    Points stay as they are. Raises OSError where nothing can be written. A file that cannot be read as
    progress is moved aside to NAME.broken first.
    """
    with _alone(path):
        kept, answered = read(path), drills(path)
        if path.exists() and not kept["entries"] and not answered:
            os.replace(path, path.with_suffix(".broken"))
        answered[notebook] = answered.get(notebook, set()) | {number}
        _replace(path, kept, answered)
        return answered[notebook]


def drills(path: Path = FILE) -> dict[str, set[int]]:
    """The drills that were answered, a notebook's number to theirs. Raises nothing; what is broken counts as
    not answered.
    """
    try:
        there = json.loads(path.read_text())["drills"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    lists = {notebook: numbers for notebook, numbers in there if isinstance(numbers, list)}
    return {notebook: {one for one in numbers if type(one) is int} for notebook, numbers in lists.items()}


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else writes the file meanwhile: two notebooks may check at once."""
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, kept: dict, answered: dict[str, set[int]]) -> None:
    fresh = path.with_suffix(".new")
    there = {notebook: sorted(numbers) for notebook, numbers in sorted(answered.items())}
    write(fresh, kept | ({"drills": there} if there else {}))
    os.replace(fresh, path)


def find(kept: dict, step_id: str, dsl: str) -> dict | None:
    """The kept entry of a step and DSL."""
    return next((e for e in kept["entries"] if (e["step"], e["dsl"]) == (step_id, dsl)), None)


def points(kept: dict, dsl: str) -> float:
    """Points reached in one DSL in steps 1 to 10, of 100."""
    hundred = steps.STEPS.keys() - set(steps.PAST)
    return sum(e["points"] for e in kept["entries"] if e["dsl"] == dsl and e["step"] in hundred)
