"""Exercise cells are cut from solutions/, so that the two cannot drift.

``course_utils.grading.exercises`` cuts them, at level write; a solved copy has the solution there, between
nbgrader's markers. Cells are found by their nbgrader ``grade_id``: ``step04-tilelang`` is an exercise,
``step04-tilelang-check`` its check. A kernel to repair is given as it is broken, so its cell has no holes and
is none of nbgrader's: it is found by ``metadata.course.exercise``.
"""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import nbformat

from authoring import places
from course_utils.compile.faults import kernels
from course_utils.compile.load import solution_path, without_markers
from course_utils.figures import strip
from course_utils.grading import exercises, steps
from course_utils.grading.exercises import digest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
HIDDEN = {"source_hidden": True}
_GRADE_ID = re.compile(
    r"((?:step|task|plan)\d\d[a-z]?|[at]\d[a-f]?|b\d\d)-(tilelang|cute|maps|plan|paths)(-check)?"
)


class SyncError(ValueError):
    """A notebook or a solution that cannot be synchronised. The text says where and why."""


def exercise(step_id: str, dsl: str, solved: bool = False) -> str:
    """The source of an exercise cell; with ``solved`` the solution stands between its markers.

    Raises SyncError where the solution's markers do not pair up or name no task.
    """
    if step_id in steps.REPAIRS:
        return _repair(step_id, solved)
    try:
        return exercises.given(step_id, dsl, solved=solved)
    except ValueError as error:
        raise SyncError(str(error)) from error


def _repair(case: str, solved: bool) -> str:
    """A planted fault; ``solved``: the solution that it was planted in.

    A TileLang solution's comments would give the fault away; a CuTe DSL one's say what its API asks for.
    """
    fault, dsl = steps.REPAIRS[case]
    wrong = kernels(dsl)[fault]
    source = without_markers(solution_path(wrong.step, dsl).read_text() if solved else wrong.source())
    lines = source.split("\n")[ast.parse(source).body[0].end_lineno :]
    if dsl == "tilelang" and not solved:
        bare = [line.split("#")[0].rstrip() for line in lines]  # no kernel has a # in a string
        lines = [code for code, line in zip(bare, lines, strict=True) if code or not line.strip()]
    return re.sub(r"\n{3,}", "\n\n\n", "\n".join(lines)).strip()


def synchronised(
    notebook: nbformat.NotebookNode, solved: bool = False, name: str = "", repository: str | None = None
) -> nbformat.NotebookNode:
    """A copy of the notebook with exercise and check cells as they should be, and no outputs; of a file's
    ``name`` with the strip that leads to the others, and to where it opens without a checkout of the
    ``repository`` (None: pyproject.toml's).
    """
    notebook = nbformat.from_dict(notebook)
    if name:
        url = places.repository() if repository is None else repository
        notebook.cells = _with_strip(notebook.cells, name, url)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        if "\n" in cell.source and only_imports(cell):
            cell.metadata["jupyter"] = HIDDEN  # JupyterLab folds its source: nothing to read there
        grade_id = _grade_id(cell)
        found = _GRADE_ID.fullmatch(grade_id)
        if not found:
            continue
        case, dsl, is_check = found.groups()
        cell.source = _check(case, dsl) if is_check else exercise(case, dsl, solved)
        cell.metadata["course"] = {"generated": digest(cell.source)}
        if case in steps.REPAIRS and not is_check:
            cell.metadata["course"]["exercise"] = grade_id
        else:
            cell.metadata["nbgrader"] = _metadata(case, grade_id, bool(is_check))
    return notebook


def _grade_id(cell: nbformat.NotebookNode) -> str:
    """The id of an exercise or of its check; "" of any other cell."""
    course = cell.metadata.get("course", {})
    return cell.metadata.get("nbgrader", {}).get("grade_id") or course.get("exercise", "")


def _with_strip(cells: list, name: str, url: str) -> list:
    """The cells with the strip: links below the title, which show anywhere, what brings the course from the
    repository ``url`` where there is none, and what shows your points below the imports.
    """
    there = strip.notebooks(NOTEBOOKS)
    numbers, number = list(there), name.partition("_")[0]
    if there.get(number) != name:  # somebody's own, beside the course's
        return cells
    at = numbers.index(number)
    beside = [there[one] for one in numbers[max(0, at - 1) : at + 2] if one != number]
    links = [(strip.title(one), one) for one in beside] + list(strip.LOOK_UP.items())
    row = " \u00b7 ".join(f"[{words}]({target})" for words, target in links)
    call = f'from course_utils.notebook import strip\n\nstrip("{number}")'
    kept = [cell for cell in cells if not cell.metadata.get("course", {}).get("strip")]
    code = [place for place, cell in enumerate(kept) if cell.cell_type == "code"]
    imports = (place for place in code if only_imports(kept[place]))
    below = next(imports, code[0] if code else len(kept) - 1)
    points = nbformat.v4.new_code_cell(call, id=f"strip-points-{number}", metadata={"jupyter": HIDDEN})
    above = [nbformat.v4.new_markdown_cell(row, id=f"strip-links-{number}")]
    if url:
        above[0].source += "\n\n" + places.row(url, name)
        above.append(nbformat.v4.new_code_cell(places.bootstrap(url), id=f"strip-brings-{number}"))
    for cell in (*above, points):
        cell.metadata["course"] = {"strip": True}
    return [*kept[:1], *above, *kept[1 : below + 1], points, *kept[below + 1 :]]


def only_imports(cell: nbformat.NotebookNode) -> bool:
    """A code cell that imports and shows nothing."""
    body = ast.parse(cell.source).body
    return bool(body) and all(isinstance(node, ast.Import | ast.ImportFrom) for node in body)


def _check(case: str, dsl: str) -> str:
    """The one line of a check cell."""
    call, subject = "check_maps" if case in steps.MAP_CASES else "check", steps.function_of(case)
    if case in steps.PLAN_CASES:
        call = "check_plan"
    if case in steps.PATH_CASES:
        call = "check_paths"
    if case in steps.COPY_CASES:
        call = "check_copy"
    if case in steps.PAIR_CASES:
        call = "check_pair"
    return f'{call}("{case}", {subject}' + (f', "{dsl}")' if dsl == "cute" else ")")


def _metadata(step_id: str, grade_id: str, is_check: bool) -> dict:
    """nbgrader's metadata of schema 3: an exercise is a solution cell, a check is a locked cell with
    points.
    """
    fields = {
        "schema_version": 3,
        "grade_id": grade_id,
        "cell_type": "code",
        "grade": is_check,
        "solution": not is_check,
        "locked": is_check,
        "task": False,
    }
    return {**fields, "points": steps.points_of(step_id)} if is_check else fields


def sync(
    folder: Path = NOTEBOOKS, out: Path | None = None, solved: bool = False, force: bool = False
) -> list[Path]:
    """Write the exercise and check cells of every notebook of ``folder``, to ``out`` or in place. Returns
    what was written.

    In place, a notebook whose exercise cell somebody worked in is refused (SyncError) unless ``force``; it is
    then kept as NAME.ipynb.bak.
    """
    written = []
    for path in sorted(folder.glob("*.ipynb")):
        try:
            before = nbformat.read(path, as_version=4)
        except Exception as error:
            raise SyncError(f"{path} is not a notebook: {error}") from error
        after = synchronised(before, solved, path.name)
        target = (out or folder) / path.name
        if out is None and after == before:
            continue
        if out is None and (work := _work(before, after)):
            if not force:
                raise SyncError(
                    f"{path.name} holds your work in {', '.join(work)}; nothing was written to it. "
                    "--force keeps a copy beside it and writes it anew"
                )
            shutil.copy(path, path.with_suffix(".ipynb.bak"))
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(after, target)
        written.append(target)
    if out is not None and (folder / "images").is_dir():
        shutil.copytree(folder / "images", out / "images", dirs_exist_ok=True)
    return written


def _work(before, after) -> list[str]:
    """The exercise cells that would change, and that are not as an earlier ``sync`` wrote them."""
    return [
        _grade_id(old)
        for old, new in zip(_exercises(before), _exercises(after), strict=True)
        if old.source != new.source
        and not new.metadata.get("nbgrader", {}).get("grade")
        and old.metadata.get("course", {}).get("generated") != digest(old.source)
    ]


def _exercises(notebook: nbformat.NotebookNode) -> list:
    """The cells that a learner's work may stand in, and their checks."""
    return [cell for cell in notebook.cells if _grade_id(cell)]
