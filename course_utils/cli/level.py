"""``course level``: exercises at another level, in the notebooks' files; a learner's work is kept beside."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

from rich.console import Console

from course_utils.cli import books
from course_utils.cli.terminal import say
from course_utils.compile.factory import DSLS
from course_utils.grading import exercises, levels, steps

_EXERCISE = re.compile(rf"({'|'.join(steps.LEVELLED)})-(\w+)")


def level(console: Console, level: str, step: list[str], dsl: str | None, seed: int) -> int:
    """Write the exercises of some steps, or of all, at a level. An exercise that is at it already stays.

    Raises ValueError for no such step and where a notebook cannot be read, CompileError where there is no
    solution to cut from, and OSError.
    """
    wanted = [_step(name) for name in step] or list(steps.STEPS)
    given = {
        f"{name}-{one}": exercises.given(name, one, level, seed)
        for name in wanted
        for one in ([dsl] if dsl else DSLS)
    }
    total = 0
    for path, notebook in books.read():
        changed = _changed(notebook["cells"], given, level)
        for name, written in changed:
            if written.strip():
                say(console, f"what you wrote in {name} is in {_keep(path.parent, name, written)}")
        if changed:
            books.write(path, notebook)
        total += len(changed)
    told = "1 exercise is" if total == 1 else f"{total} exercises are"
    say(console, f"{told} now at level {level}; reload the notebooks that are open")
    return 0


def _step(name: str) -> str:
    """ "step05" of "05", "5" or "step05"."""
    step = steps.named(name)
    if step not in steps.LEVELLED:
        there = f"the steps are {', '.join(steps.LEVELLED)}"
        raise ValueError(f"there is no step {name!r}; {steps.meant(name) or there}")
    return step


def _name(cell: dict) -> str:
    """The id of an exercise; "" of any other cell."""
    name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
    return name if _EXERCISE.fullmatch(name) else ""


def _changed(cells: list[dict], given: dict[str, str], level: str) -> list[tuple[str, str]]:
    """Write what is ``given`` into its cells. Returns those that were at another level, by name, each with
    what a learner wrote there, "" for nothing.
    """
    changed = []
    for cell in cells:
        name, source = _name(cell), "".join(cell["source"])
        if name not in given or levels.of_source(source) == level:
            continue
        untouched = cell["metadata"].get("course", {}).get("generated") == exercises.digest(source)
        changed.append((name, "" if untouched else source))
        cell["source"] = given[name].splitlines(keepends=True)
        cell["outputs"], cell["execution_count"] = [], None
        cell["metadata"]["course"] = {"generated": exercises.digest(given[name])}
    return changed


def _keep(folder: Path, name: str, source: str) -> Path:
    """A new file beside the notebooks with what a learner wrote. ``course grade`` takes it for work kept
    aside: it counts where the cell is still open.
    """
    for number in count(1):
        path = folder / f"{name.replace('-', '_')}_old{number}.py"
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(source + "\n")
            return path
        except FileExistsError:
            continue
    raise AssertionError("unreachable")
