"""What a learner has reached, kept beside the notebooks in progress.json: the best verdict of each step and
DSL, the drills that were answered, and the answers of the quiz.

The file has the form of solutions/measured/ladder.json, so the ladder is drawn from either. Beside it stand
``drills``, a notebook's number to the numbers of its drills, ``{"05": [1, 3]}``; ``quiz``, the answers as
they were written, ``{"start": {"1": "b"}}``; ``learner``, a number by which two learners' questions
differ; and ``version``. A file without one is of the time when the notebooks on TMA were 11 to 15 and that
of step 11 was 16; in version 2 notebook 11 had the drills of 11b too. An older file is read as today's, and
written so with the next thing that is kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_utils.grading import steps
from course_utils.grading.levels import from_blank
from course_utils.grading.verdict import Verdict
from course_utils.recordings.bundle import entry, provenance
from course_utils.recordings.model import Entry, Points, Provenance, usable, write

FILE = Path("progress.json")
NOTEBOOKS = Path("notebooks")
FIRST = NOTEBOOKS / "00_start_here.ipynb"  # what a checkout has
LEARNERS = 10**9  # a learner's number is below
VERSION = 3  # of the file's form
_RENUMBERED = {"11": "t1", "12": "t2", "13": "t3", "14": "t4", "15": "t5", "16": "11"}  # since version 1
_MOVED = {1: ("11b", 1), 2: ("11b", 2), 3: ("11", 1), 4: ("11", 2), 5: ("11", 3), 6: ("11", 4), 7: ("11b", 3)}
PAGE = "COURSE_PAGE"  # set in the environment of a run that makes a page: it keeps no progress and reads none


def checkout() -> Path | None:
    """The checkout that the working directory is in; None where it is in none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / FIRST).is_file()), None)


def of_here() -> Path:
    """The file: beside the notebooks of the checkout that the working directory is in, else there."""
    root = checkout()
    return FILE if root is None or root / NOTEBOOKS == Path.cwd() else root / NOTEBOOKS / FILE


def is_for_a_page() -> bool:
    """Does this process make a page of the site? Its verdicts are the solutions', and nobody's progress."""
    return bool(os.environ.get(PAGE))


class Kept(Entry, frozen=True, kw_only=True):
    """An entry whose points count, and whose receipt can be shown."""

    points: Points
    receipt: list[tuple[str, str]]


def read(path: Path | None = None) -> dict:
    """``{"provenance": {...}, "entries": [...]}``: what of the file is whole.

    Empty where nothing was kept yet or nothing can be read. A timing that is broken costs the timings and not
    the points. Raises nothing.
    """
    path = path or of_here()
    try:
        kept = json.loads(_text(path))
        entries, where = list(kept["entries"]), kept["provenance"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {"provenance": {}, "entries": []}
    return {
        "provenance": where if usable(where, Provenance) else {},
        "entries": [_of_today(whole) for entry in entries if (whole := _whole(entry))],
    }


def _whole(entry: object) -> dict | None:
    """An entry as it was kept, or without its timings where one is broken; None where it cannot be used."""
    if not isinstance(entry, dict):
        return None
    return next((form for form in (entry, entry | {"timings": []}) if usable(form, Kept)), None)


def _of_today(entry: dict) -> dict:
    """An entry under the name that its case has now."""
    step = steps.FORMERLY.get(entry["step"])
    return entry | {"step": step, "name": f"{step} {entry['dsl']}"} if step else entry


def keep(verdict: Verdict, device: dict | None, path: Path | None = None) -> None:
    """Keep a verdict unless a better one of this step and DSL is kept already: one of more points, or of as
    many from a blank page. Raises OSError where nothing can be written.

    A run for a page keeps nothing, here and below. A file that cannot be read as progress is moved aside to
    NAME.broken first.
    """
    if is_for_a_page():
        return
    with _changing(path or of_here()) as (kept, _):
        old = find(kept, verdict.step, verdict.dsl)
        new = entry(f"{verdict.step} {verdict.dsl}", verdict)
        if old is not None and _worth(old) > _worth(new):
            return
        kept["entries"] = [e for e in kept["entries"] if e is not old] + [new]
        if device and verdict.timing:
            kept["provenance"] = provenance(device, {})


def _worth(entry: dict) -> tuple[float, bool]:
    return round(entry["points"], 3), from_blank(entry)


def keep_drill(notebook: str, number: int, path: Path | None = None) -> set[int]:
    """Keep that a drill of a notebook ("05") was answered rightly; returns all of its drills that were.

    Points stay as they are. Raises OSError where nothing can be written. A file that cannot be read as
    progress is moved aside to NAME.broken first.
    """
    if is_for_a_page():
        return {number}
    path = path or of_here()
    with _changing(path) as (_, beside):
        answered = drills(path)
        answered[notebook] = answered.get(notebook, set()) | {number}
        beside |= _as_json(answered, {})
        return answered[notebook]


def keep_answer(name: str, number: int, answer: str, path: Path | None = None) -> None:
    """Keep the answer to one question of a quiz ("start"). The first one stays.

    Points stay as they are. Raises OSError as ``keep_drill`` does.
    """
    if is_for_a_page():
        return
    path = path or of_here()
    with _changing(path) as (_, beside):
        given = quiz(path)
        given[name] = {number: answer} | given.get(name, {})
        beside |= _as_json({}, given)


def learner(path: Path | None = None) -> int:
    """The learner's number, drawn and kept when it is first asked for. Raises OSError as ``keep_drill``
    does.
    """
    if is_for_a_page():
        return 0
    path = path or of_here()
    found = _learner(path)
    if found is not None:
        return found
    with _changing(path) as (_, beside):
        return beside.setdefault("learner", secrets.randbelow(LEARNERS))


def drills(path: Path | None = None) -> dict[str, set[int]]:
    """The drills that were answered, a notebook's number to theirs. Raises nothing; what is broken counts as
    not answered.
    """
    path = path or of_here()
    there = _part(path, "drills")
    lists = {name: some for name, some in _pairs(there) if isinstance(some, list)}
    version = _part(path, "version")
    old = {} if version in (2, VERSION) else _RENUMBERED
    found = {old.get(name, name): {one for one in some if type(one) is int} for name, some in lists.items()}
    if version != VERSION:  # notebook 11 was one, with seven drills
        for name, number in [_MOVED[one] for one in sorted(found.pop("11", ())) if one in _MOVED]:
            found.setdefault(name, set()).add(number)
    return found


def quiz(path: Path | None = None) -> dict[str, dict[int, str]]:
    """The answers of each quiz, by the number of the question. Raises nothing; what is broken counts as not
    answered.
    """
    path = path or of_here()
    found = {
        name: {
            int(number): answer
            for number, answer in _pairs(given)
            if re.fullmatch("[0-9]{1,3}", number) and isinstance(answer, str)
        }
        for name, given in _pairs(_part(path, "quiz"))
    }
    return {name: given for name, given in found.items() if given}


def _pairs(found: object) -> list[tuple[str, object]]:
    return list(found.items()) if isinstance(found, dict) else []


def _text(path: Path) -> str:
    if is_for_a_page():
        raise FileNotFoundError(f"a run for a page reads no {path}")
    return path.read_text()


def _part(path: Path, name: str) -> object:
    """One part of the file, None where it cannot be read."""
    try:
        return json.loads(_text(path))[name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _learner(path: Path) -> int | None:
    found = _part(path, "learner")
    return found if type(found) is int and 0 <= found < LEARNERS else None


def _as_json(answered: dict[str, set[int]], given: dict[str, dict[int, str]]) -> dict:
    """Drills and quiz as they stand in the file; what is empty is left out."""
    numbers = {name: sorted(answered[name]) for name in sorted(answered)}
    answers = {name: {str(one): given[name][one] for one in sorted(given[name])} for name in sorted(given)}
    return ({"drills": numbers} if numbers else {}) | ({"quiz": answers} if answers else {})


def _beside(path: Path) -> dict:
    """What of the file is whole beside verdicts. A file of which nothing is, is moved to NAME.broken."""
    number = _learner(path)
    found = _as_json(drills(path), quiz(path)) | ({} if number is None else {"learner": number})
    if path.exists() and not found and not read(path)["entries"]:
        os.replace(path, path.with_suffix(".broken"))
    return found


@contextmanager
def _changing(path: Path) -> Iterator[tuple[dict, dict]]:
    """The verdicts of the file and what stands beside them; the file is written as they are in the end.

    Nobody else writes it meanwhile: two notebooks may check at once.
    """
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept, beside = read(path), _beside(path)
        yield kept, beside
        fresh = path.with_suffix(".new")
        write(fresh, kept | beside | {"version": VERSION})
        os.replace(fresh, path)


def find(kept: dict, step_id: str, dsl: str) -> dict | None:
    """The kept entry of a step and DSL."""
    return next((e for e in kept["entries"] if (e["step"], e["dsl"]) == (step_id, dsl)), None)


def points(kept: dict, dsl: str) -> float:
    """Points reached in one DSL in steps 1 to 10, of 100."""
    hundred = steps.STEPS.keys() - set(steps.PAST)
    return sum(e["points"] for e in kept["entries"] if e["dsl"] == dsl and e["step"] in hundred)
