"""The strip at the top of a notebook: where it stands among the others, and what you have reached in each."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from course_utils.grading import steps, verdict
from course_utils.grading.levels import from_blank
from course_utils.recordings import progress

NUMBER = r"(?:\d\d[a-z]?|[at]\d|b\d\d)"  # of a notebook, as a pattern
_NAME = re.compile(rf"({NUMBER})_(\w+)\.ipynb")
PARTS = "0tba"  # the ladder, TMA, Blackwell, attention: how their numbers begin
_PICTURE = re.compile(r"!\[([^\]]*)\]\((images/\w+\.svg)\)")
LEGEND = "All notebooks, each filled as far as your points go. The thick frame is where you are."
LOOK_UP = {"symptom map": "symptom_map.md", "glossary": "glossary.md", "solutions": "../solutions"}


def notebooks(folder: Path) -> dict[str, str]:
    """The notebooks of a folder, their numbers ("05") to their files' names, in the order of the course."""
    found = [name for path in folder.glob("*.ipynb") if (name := _NAME.fullmatch(path.name))]
    return {name[1]: name[0] for name in sorted(found, key=lambda name: (_part(name[1]), name[1]))}


def _part(number: str) -> int:
    return max(0, PARTS.find(number[0]))  # 0 of any digit


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


def stars(kept: dict, number: str) -> str:
    """A star for each exercise of a notebook that was written from a blank page."""
    return "\u2605" * sum(
        steps.notebook_of(entry["step"]) == number and from_blank(entry) for entry in kept["entries"]
    )


def other_levels(here: str) -> str:
    """How to get a step's exercise at another level; "" for a notebook without one."""
    if all(steps.notebook_of(name) != here for name in steps.LEVELLED):
        return ""
    call = f'level("{here}", "tilelang", "order")'
    return (
        f"Too hard, or too easy? After `from course_utils.notebook import level`, `{call}` gives you an "
        """exercise's lines to put in order, and `"blank"` an empty kernel."""
    )


def text(here: str, folder: Path) -> str:
    """The strip as lines of text."""
    kept = progress.read(folder / progress.FILE)
    lines = []
    for number, name in notebooks(folder).items():
        mark = ">" if number == here else " "
        lines.append(f"{mark} {title(name):30}{_points(kept, number)}".rstrip())
    return "\n".join([*lines, *filter(None, [other_levels(here)])])


def markup(here: str, folder: Path) -> str:
    """The strip as HTML: a box for each notebook, filled as far as your points go. The links to the next
    one stand above it, in the notebook's own text.
    """
    kept = progress.read(folder / progress.FILE)
    there = notebooks(folder).items()
    boxes = "".join(_box(kept, number, name, number == here) for number, name in there)
    levels = verdict.as_html(other_levels(here))
    return f"<p>{LEGEND}</p><div>{boxes}</div>" + f"<p>{levels}</p>" * bool(levels)


def pictures(here: str, folder: Path) -> str:
    """The pictures of a notebook's text, folded, each with its bytes: for a page that finds none, as a
    copy in a Drive. "" where there are none.
    """
    from course_utils.figures import shell  # needs matplotlib, which the strip does not

    name = notebooks(folder).get(here)
    cells = json.loads((folder / name).read_text())["cells"] if name else []
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    shown = [
        f"<p>{html.escape(words)}<br>{shell.image((folder / path).read_bytes(), 'svg+xml', words)}</p>"
        for words, path in _PICTURE.findall(text)
    ]
    if not shown:
        return ""
    return f"<details><summary>The pictures of this notebook, in order</summary>{''.join(shown)}</details>"


def _points(kept: dict, number: str) -> str:
    if not (of := most(number)):
        return ""
    marks = stars(kept, number)
    return f"{verdict.number(reached(kept, number))} of {of:g}" + f" {marks} from a blank page" * bool(marks)


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
    shown = number + stars(kept, number)
    return f"<a href='{name}' title='{told}' aria-label='{told}' style='{style}'>{shown}</a>"
