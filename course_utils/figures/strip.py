"""The strip at the top of a notebook: where it stands among the others, and what you have reached in each."""

from __future__ import annotations

import html
import re
from pathlib import Path

from course_utils.grading import steps
from course_utils.recordings import progress

_NAME = re.compile(r"(\d\d[a-z]?)_(\w+)\.ipynb")
LOOK_UP = {"symptom map": "symptom_map.md", "glossary": "glossary.md", "solutions": "../solutions"}


def notebooks(folder: Path) -> dict[str, str]:
    """The notebooks of a folder, their numbers ("05") to their files' names, in order."""
    found = (_NAME.fullmatch(path.name) for path in sorted(folder.glob("*.ipynb")))
    return {name[1]: name[0] for name in found if name}


def title(name: str) -> str:
    """A notebook's name as people read it: "05 pipeline"."""
    return name.removesuffix(".ipynb").replace("_", " ")


def most(number: str) -> float:
    """The points of all exercises of a notebook."""
    own = [name.partition("-")[0] for name in steps.EXERCISES]
    return sum(steps.points_of(name) for name in own if steps.notebook_of(name) == number)


def reached(kept: dict, number: str) -> float:
    """Your points in a notebook, of ``progress.read()``."""
    return sum(entry["points"] for entry in kept["entries"] if steps.notebook_of(entry["step"]) == number)


def text(here: str, folder: Path) -> str:
    """The strip as lines of text."""
    kept = progress.read(folder / progress.FILE)
    lines = []
    for number, name in notebooks(folder).items():
        mark = ">" if number == here else " "
        lines.append(f"{mark} {title(name):30}{_points(kept, number)}".rstrip())
    return "\n".join(lines)


def markup(here: str, folder: Path) -> str:
    """The strip as HTML: a box for each notebook, filled as far as your points go."""
    kept = progress.read(folder / progress.FILE)
    there = notebooks(folder)
    numbers = list(there)
    place = numbers.index(here) if here in there else 0
    boxes = "".join(_box(kept, number, name, number == here) for number, name in there.items())
    links = [(f"Next: {title(there[one])}", there[one]) for one in numbers[place + 1 : place + 2]]
    if place:
        before = there[numbers[place - 1]]
        links.insert(0, (f"Before: {title(before)}", before))
    links += list(LOOK_UP.items())
    row = " \u00b7 ".join(f"<a href='{target}'>{html.escape(words)}</a>" for words, target in links)
    return f"<div>{boxes}</div><p>{row}</p>"


def _points(kept: dict, number: str) -> str:
    if not (of := most(number)):
        return ""
    return f"{round(reached(kept, number), 1):g} of {of:g}"


def _box(kept: dict, number: str, name: str, here: bool) -> str:
    of = most(number)
    share = min(1.0, reached(kept, number) / of) if of else 0.0
    told = html.escape(f"{title(name)}{': ' * bool(of)}{_points(kept, number)}", quote=True)
    around = "2px solid currentColor" if here else "1px solid #8c8c8c"
    fill = f"linear-gradient(to top,#2e8b5766 {share:.0%},transparent {share:.0%})"
    style = (
        f"display:inline-block;margin:0 3px 3px 0;padding:2px 6px;border:{around};border-radius:3px;"
        f"background:{fill};color:inherit;text-decoration:none"
    )
    return f"<a href='{name}' title='{told}' aria-label='{told}' style='{style}'>{number}</a>"
