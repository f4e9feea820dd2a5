"""What a page of the site shows: a notebook as it is given, with what came out of the solved one."""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_utils.compile.load import planted
from course_utils.grading import steps

WRONG = "wrong"  # of a cell's metadata.course: the planted fault whose verdict it shows
SEARCH = """<p class="filter"><label for="symptom">Search this page</label>
<input id="symptom" type="search" placeholder="words of your verdict" autocomplete="off">
<span id="symptom-found" role="status"></span></p>
"""
_TEXT = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(rf"\[({_TEXT}),{_TEXT}\]")  # of a timeline's data: where it stands, and its code
_LINES = re.compile(rf'"lines":\[(?:\[{_TEXT},{_TEXT}\],?)*\]')
ENTRY = re.compile(
    r"^- \*\*(?P<term>[^*]+)\*\*: (?P<text>.*?) \[(?:\d\d[a-z]?|t\d)\]\((?P<where>[^)]+)\)$", re.M
)


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
                "from course_utils.compile.load import load_planted, planted\n"
                "from course_utils.grading.gemm import check_gemm\n"
                f'check_gemm("{step}", load_planted(planted("{dsl}")["{fault}"]).gemm, "{dsl}")'
            )
            marked = {"course": {WRONG: f"{dsl}/{fault}"}}
            cells.append(nbformat.v4.new_code_cell(source, metadata=marked, id=f"{WRONG}-{step}-{dsl}"))
    return nbformat.from_dict({**solved, "cells": cells})


def _fault(step: str, dsl: str) -> str:
    """The first planted fault of a step, "" where it has none."""
    return next((name for name, path in planted(dsl).items() if f'STEP = "{step}"' in path.read_text()), "")


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
        name = _name(cell)
        if name in unsolved and not name.endswith("-check"):
            cell.source = unsolved[name]
            cell.outputs = []
        if cell.cell_type == "markdown":
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
    """Markdown whose links to places in a page are HTML, as MyST knows no ``<a id>``, and whose links out of
    the notebooks' folder lead into the ``repository``, or nowhere where there is none.
    """
    text = re.sub(r"\[([^\]]*)\]\((?:(\w+)\.(?:md|ipynb))?#([\w-]+)\)", _place, text)
    outside = rf"[\1]({repository}/\2)" if repository else r"\1"
    return re.sub(r"\[([^\]]*)\]\(\.\./([^)]*)\)", outside, text)


def _place(found: re.Match) -> str:
    words, name, anchor = found.groups()
    return f'<a href="{f"{name}.html" if name else ""}#{anchor}">{words}</a>'


def _on_the_site(text: str) -> str:
    """An output's HTML, whose links lead to pages. A timeline names lines and shows no code of a solution."""
    text = _LINES.sub(lambda found: _LINE.sub(r'[\1,""]', found[0]), text)
    text = re.sub(r"(href=['\"])(symptom_map|glossary|check_any_kernel)\.md", r"\1\2.html", text)
    return re.sub(r"(href=['\"](?:\d\d[a-z]?|t\d)_\w+)\.ipynb", r"\1.html", text)


def _attempt(cell: NotebookNode, fault: str) -> NotebookNode:
    """A wrong attempt and its verdict, folded."""
    dsl, _, name = fault.partition("/")
    what = ast.get_docstring(ast.parse(planted(dsl)[name].read_text())) or name
    verdict = next(
        (output.data.get("text/html", "") for output in cell.outputs if "data" in output), "<p>no verdict</p>"
    )
    summary = f"<summary>One wrong attempt: {html.escape(' '.join(what.split()))}</summary>"
    source = f"<details class='attempt'>{summary}{_on_the_site(verdict)}</details>"
    # a line break would end the block of HTML
    return nbformat.v4.new_markdown_cell(source.replace("\n", "&#10;"))


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
