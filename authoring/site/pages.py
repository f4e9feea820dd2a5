"""What a page of the site shows: a notebook as it is given, with what came out of the solved one."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from authoring import sync
from course_utils.compile.faults import kernels
from course_utils.figures.strip import NUMBER
from course_utils.grading import steps
from course_utils.recordings import measured

WRONG = "wrong"  # of a cell's metadata.course: the planted fault whose verdict it shows
SEARCH = """<p class="filter"><label for="symptom">Search this page</label>
<input id="symptom" type="search" placeholder="words of your verdict" autocomplete="off">
<span id="symptom-found" role="status"></span></p>
"""
_SOLUTIONS = " \u00b7 [solutions](../solutions)"  # in the row of links below a title
_TEXT = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(rf"\[({_TEXT}),{_TEXT}\]")  # of a timeline's data: where it stands, and its code
_LINES = re.compile(rf'"lines":\[(?:\[{_TEXT},{_TEXT}\],?)*\]')
ON_SITE = r"(?:notebooks|docs)/\w+\.(?:md|ipynb)"  # a page of the site, by its path in the checkout
ENTRY = re.compile(rf"^- \*\*(?P<term>[^*]+)\*\*: (?P<text>.*?) \[{NUMBER}\]\((?P<where>[^)]+)\)$", re.M)


def with_wrong_attempts(solved: NotebookNode) -> NotebookNode:
    """The notebook with a cell behind each check, which checks a planted fault of that step and language."""
    cells = []
    for cell in solved.cells:
        cells.append(cell)
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        step, _, rest = name.partition("-")
        dsl, is_check, _ = rest.partition("-check")
        if is_check and step in steps.STEPS and (fault := _fault(step, dsl)):
            source = (
                "from course_utils.compile.faults import kernels\n"
                "from course_utils.grading.gemm import check_gemm\n"
                f'check_gemm("{step}", kernels("{dsl}")["{fault}"].factory(), "{dsl}")'
            )
            marked = {"course": {WRONG: f"{dsl}/{fault}"}}
            cells.append(nbformat.v4.new_code_cell(source, metadata=marked, id=f"{WRONG}-{step}-{dsl}"))
    return nbformat.from_dict({**solved, "cells": cells})


def _fault(step: str, dsl: str) -> str:
    """The first planted fault of a step, "" where it has none."""
    return next((name for name, fault in kernels(dsl).items() if fault.step == step), "")


def page(given: NotebookNode, ran: NotebookNode, repository: str = "") -> NotebookNode:
    """The page of a notebook: its cells as they are ``given``, outputs of the ``ran`` one.

    An exercise keeps its holes. Links lead to the site's own pages, or into the ``repository``.
    """
    unsolved = {_name(cell): cell.source for cell in given.cells if _name(cell)}
    cells = []
    for cell in ran.cells:
        if fault := cell.metadata.get("course", {}).get(WRONG):
            cells.append(_attempt(cell, fault))
            continue
        if cell.cell_type == "code" and cell.metadata.get("course", {}).get("strip"):
            continue  # a reader of the site has no points, and its pages have links of their own
        if cell.cell_type == "code" and not _name(cell) and sync.only_imports(cell):
            continue  # nothing to read, and nothing to run
        name = _name(cell)
        if name in unsolved and not name.endswith("-check"):
            cell.source = unsolved[name]
            cell.outputs = []
        if cell.cell_type == "markdown":
            if cell.metadata.get("course", {}).get("strip") and not repository:
                cell.source = cell.source.replace(_SOLUTIONS, "")  # it would lead nowhere
            cell.source = _on_the_site(linked(cell.source, repository))
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/html" in data:
                data["text/html"] = _on_the_site(data["text/html"])
        cells.append(cell)
    return nbformat.from_dict({**given, "cells": cells})


def _name(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id") or cell.metadata.get("course", {}).get(
        "exercise", ""
    )


def linked(text: str, repository: str) -> str:
    """Markdown of ``notebooks/`` or ``docs/`` whose links lead to the site's own pages, or else into the
    ``repository``, a tree on GitHub. Without a repository such a link is plain text.

    MyST knows no ``<a id>``, so a link to a place in a page becomes HTML.
    """
    outside = rf"[\1]({repository}/\2)" if repository else r"\1"
    text = re.sub(rf"\[([^\]]*)\]\(\.\./(?!{ON_SITE})([^)]*)\)", outside, text)
    return re.sub(r"\[([^\]]*)\]\(((?:\.\./)?\w+(?:/\w+)?\.(?:md|ipynb))?#([\w-]+)\)", _place, text)


def diagrams(text: str) -> str:
    """Markdown whose Mermaid flowcharts are tables of their arrows: the site asks no other machine for the
    program that draws them.
    """
    return re.sub(r"```mermaid\nflowchart \w+\n(.*?)```\n", _arrows, text, flags=re.S)


def _arrows(found: re.Match) -> str:
    """A row for each line of arrows. A box has its second line where it is first named."""
    boxes = dict(re.findall(r'(\w+)\["(.*?)"\]', found[1]))
    named = set()

    def cell(box: str) -> str:
        name, _, what = boxes[box].partition("<br>")
        first = box not in named
        named.add(box)
        return f"**{name}**" + (f"<br>{what}" if what and first else "")

    rows = []
    for line in re.sub(r'\[".*?"\]', "", found[1]).splitlines():
        origins, by, target = re.fullmatch(r' *([\w &]+?) -(?:- "(.*?)" -)?-> (\w+)', line).groups()
        rows.append(["<br>".join(map(cell, origins.split(" & "))), by, cell(target)])
    head = ["from", "by", "to"]
    if not any(by for _, by, _ in rows):
        head, rows = ["above", "below"], [row[::2] for row in rows]
    table = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(part or '' for part in row)} |\n" for row in table)


def _place(found: re.Match) -> str:
    words, page, anchor = found.groups()
    return f'<a href="{page.rpartition(".")[0] + ".html" if page else ""}#{anchor}">{words}</a>'


def _on_the_site(text: str) -> str:
    """An output's HTML, whose links lead to pages. A timeline names lines and shows no code of a solution."""
    text = _LINES.sub(lambda found: _LINE.sub(r'[\1,""]', found[0]), text)
    text = re.sub(r"(href=['\"])(symptom_map|glossary|check_any_kernel)\.md", r"\1\2.html", text)
    return re.sub(rf"(href=['\"]{NUMBER}_\w+)\.ipynb", r"\1.html", text)


def _attempt(cell: NotebookNode, fault: str) -> NotebookNode:
    """A wrong attempt and its verdict, folded."""
    dsl, _, name = fault.partition("/")
    verdict = next(
        (output.data.get("text/html", "") for output in cell.outputs if "data" in output), "<p>no verdict</p>"
    )
    summary = f"<summary>One wrong attempt: {html.escape(kernels(dsl)[name].what)}</summary>"
    source = f"<details class='attempt'>{summary}{_on_the_site(verdict)}</details>"
    # a line break would end the block of HTML
    return nbformat.v4.new_markdown_cell(source.replace("\n", "&#10;"))


def ladder() -> str:
    """The recorded ladder as HTML, light or dark as the page is; a phone scrolls it sideways."""
    from course_utils.figures.ladder import ladder as drawn

    words = "The ladder: TFLOP/s of each step in both languages beside cuBLAS, recorded on an H200."
    picture = re.sub(r'alt="[^"]*"', f'alt="{words}"', drawn(measured.ladder())._repr_html_(), count=1)
    scrolls = 'style="overflow-x:auto" tabindex="0" role="region" aria-label="The ladder"'
    return f'<div {scrolls}><div style="min-width:40rem">{picture}</div></div>\n'


def moving(ran: Mapping[Path, NotebookNode]) -> str:
    """The first timeline of the notebook on pipelines, or of any that ran; nothing where there is none."""
    for path in sorted(ran, key=lambda path: not path.name.startswith("05")):
        for cell in ran[path].cells:
            if cell.cell_type == "code" and cell.source.startswith("timeline("):
                for output in cell.outputs:
                    if found := output.get("data", {}).get("text/html"):
                        return found
    return ""


def symptoms(text: str) -> str:
    """The symptom map with a box that leaves only the rows with its words. What its headings are found by
    stands above them: in one it would be an empty link of the page's contents.
    """
    title, _, rest = text.partition("\n\n")
    rest = re.sub(r"^(#+) (<a id=\"[\w-]+\"></a>)", r"\2\n\n\1 ", rest, flags=re.M)
    return f"{title}\n\n{SEARCH}\n{rest}"


def terms(text: str) -> dict[str, str]:
    """The glossary's definitions by their terms, without links."""
    return {found["term"]: found["text"].replace("`", "").replace("*", "") for found in ENTRY.finditer(text)}


def anchor(term: str) -> str:
    """The place of a term on the glossary's page."""
    return "term-" + re.sub(r"\W+", "-", term.lower())


def glossary(text: str) -> str:
    """The glossary with a place for each term to lead to."""
    return ENTRY.sub(lambda found: f'- <a id="{anchor(found["term"])}"></a>{found[0][2:]}', text)
