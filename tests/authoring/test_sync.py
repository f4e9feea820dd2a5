"""Exercise cells are cut from solutions/, and a notebook that somebody worked in is not overwritten."""

import ast
import re

import nbformat
import pytest

from authoring import places, sync
from course_utils.compile.factory import DSLS, OPEN
from course_utils.compile.load import BEGIN
from course_utils.figures import strip
from course_utils.grading import exercises, steps

MARKED = '''"""A solution."""

import math


def gemm(M, N, K):
    ### BEGIN SOLUTION: say what is returned
    answer = 42
    ### END SOLUTION
    return answer
'''


@pytest.fixture
def solution(tmp_path, monkeypatch):
    """Write a solution file that every step has."""
    path = tmp_path / "step04_tma.py"
    monkeypatch.setattr(exercises, "solution_path", lambda step_id, dsl: path)
    return path


@pytest.fixture
def folder(tmp_path, solution):
    """A folder with one notebook, in which an exercise and its check are still empty."""
    solution.write_text(MARKED)
    cells = [
        nbformat.v4.new_code_cell("...", metadata={"nbgrader": {"grade_id": grade_id}})
        for grade_id in ("step04-tilelang", "step04-tilelang-check")
    ]
    cells += [nbformat.v4.new_markdown_cell("text"), nbformat.v4.new_code_cell("1 + 1")]
    folder = tmp_path / "notebooks"
    folder.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "04_own.ipynb")
    sync.sync(folder, force=True)
    return folder


def read(folder):
    return nbformat.read(folder / "04_own.ipynb", as_version=4)


def write(folder, source, cell=0):
    notebook = read(folder)
    notebook.cells[cell].source = source
    nbformat.write(notebook, folder / "04_own.ipynb")


def test_exercise_has_the_task_and_a_hole(solution):
    solution.write_text(MARKED)
    assert (
        sync.exercise("step04", "tilelang")
        == f"""import math


def gemm(M, N, K):
    # TODO 1: say what is returned
    {OPEN}("TODO 1")
    return answer"""
    )


def test_solved_exercise_keeps_the_solution_between_the_markers(solution):
    solution.write_text(MARKED)
    assert "    ### BEGIN SOLUTION\n    answer = 42\n    ### END SOLUTION" in sync.exercise(
        "step04", "tilelang", solved=True
    )


@pytest.mark.parametrize(
    "source, words",
    [
        (MARKED.replace("    ### END SOLUTION\n", ""), "does not end"),
        (MARKED.replace("    ### BEGIN SOLUTION: say what is returned\n", ""), "without ### BEGIN"),
        (MARKED.replace(": say what is returned", ""), "without a task"),
        (MARKED.replace("    answer", "    ### BEGIN SOLUTION: again\n    answer", 1), "inside a region"),
        ('"""Nothing marked."""\nx = 1\n', "no region"),
    ],
)
def test_bad_markers_are_named(solution, source, words):
    solution.write_text(source)
    with pytest.raises(sync.SyncError, match=words) as error:
        sync.exercise("step04", "tilelang")
    assert "step04_tma.py" in str(error.value)


def test_cells_get_source_points_and_metadata(folder):
    exercise, check, text, other = read(folder).cells
    assert OPEN in exercise.source and check.source == 'check("step04", gemm)'
    assert exercise.metadata.nbgrader == {
        "schema_version": 3,
        "grade_id": "step04-tilelang",
        "cell_type": "code",
        "grade": False,
        "solution": True,
        "locked": False,
        "task": False,
    }
    assert check.metadata.nbgrader == {
        "schema_version": 3,
        "grade_id": "step04-tilelang-check",
        "cell_type": "code",
        "grade": True,
        "solution": False,
        "locked": True,
        "task": False,
        "points": steps.find("step04").points,
    }
    assert (text.source, other.source) == ("text", "1 + 1")


def test_outputs_are_cleared(folder):
    notebook = read(folder)
    notebook.cells[3].outputs = [nbformat.v4.new_output("stream", text="2")]
    notebook.cells[3].execution_count = 7
    nbformat.write(notebook, folder / "04_own.ipynb")
    assert [path.name for path in sync.sync(folder)] == ["04_own.ipynb"]
    assert read(folder).cells[3].outputs == [] and read(folder).cells[3].execution_count is None


def test_second_sync_changes_nothing(folder):
    assert sync.sync(folder) == []


def test_changed_solution_is_written_over_an_untouched_exercise(folder, solution):
    solution.write_text(MARKED.replace("say what", "write down what"))
    assert len(sync.sync(folder)) == 1
    assert "write down what" in read(folder).cells[0].source


@pytest.mark.parametrize("work", ["def gemm(M, N, K):\n    return 42", "", MARKED])
def test_work_is_not_overwritten(folder, solution, work):
    write(folder, work)
    with pytest.raises(sync.SyncError, match="04_own.ipynb holds your work in step04-tilelang"):
        sync.sync(folder)
    assert read(folder).cells[0].source == work


def test_force_keeps_a_copy_of_the_work(folder):
    write(folder, "my work")
    sync.sync(folder, force=True)
    assert "my work" in (folder / "04_own.ipynb.bak").read_text() and OPEN in read(folder).cells[0].source


def test_solved_copies_leave_the_notebooks_alone(folder, tmp_path):
    before = (folder / "04_own.ipynb").read_text()
    (folder / "images").mkdir()
    (folder / "images" / "a.svg").write_text("<svg/>")
    sync.sync(folder, tmp_path / "out", solved=True)
    assert (folder / "04_own.ipynb").read_text() == before
    assert (
        "answer = 42" in (tmp_path / "out" / "04_own.ipynb").read_text()
        and (tmp_path / "out" / "images" / "a.svg").exists()
    )


def test_a_file_that_is_no_notebook_is_named(folder):
    (folder / "05_x.ipynb").write_text("{")
    with pytest.raises(sync.SyncError, match="05_x.ipynb is not a notebook"):
        sync.sync(folder)


@pytest.mark.parametrize("dsl", DSLS)
@pytest.mark.parametrize("step_id", steps.STEPS)
def test_every_solution_has_an_exercise_that_is_python_with_holes(step_id, dsl):
    given, solved = sync.exercise(step_id, dsl), sync.exercise(step_id, dsl, solved=True)
    ast.parse(given), ast.parse(solved)
    assert given.count(OPEN) == given.count("# TODO ") == solved.count(BEGIN) > 0 == solved.count(OPEN)
    assert max(map(len, solved.splitlines())) <= 132


def test_each_notebook_has_the_strip_below_its_title_and_its_first_code():
    *_, last = strip.notebooks(sync.NOTEBOOKS).values()
    for path in sorted(sync.NOTEBOOKS.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        made = [place for place, cell in enumerate(cells) if cell.metadata.get("course", {}).get("strip")]
        links, points = made[0], made[-1]
        code = [place for place, cell in enumerate(cells) if cell.cell_type == "code"]
        brings = 1 if places.repository() else 0  # the cell that brings the course is the first code there
        imports = [place for place in code[brings:] if sync.only_imports(cells[place])]
        assert (links, points, len(made)) == (1, (imports or code[brings:])[0] + 1, 2 + brings)
        number = path.name.partition("_")[0]
        assert cells[points].source.endswith(f'strip("{number}")')
        targets = re.findall(r"\]\(([^):]+)\)", cells[links].source)  # without those that lead elsewhere
        assert all((sync.NOTEBOOKS / target).exists() for target in targets)
        beside = [target for target in targets if target.endswith(".ipynb")]
        assert len(beside) == (1 if path.name[:2] == "00" or path.name == last else 2)


def test_set_up_cells_are_one_line_or_folded():
    for path in sorted(sync.NOTEBOOKS.glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code" and (sync.only_imports(cell) or cell.id.startswith("strip-")):
                hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
                assert hidden or "\n" not in cell.source, (path.name, cell.id)


def test_a_strip_is_written_once(folder):
    notebook = nbformat.read(sync.NOTEBOOKS / "05_pipeline.ipynb", as_version=4)
    once = sync.synchronised(notebook, name="05_pipeline.ipynb")
    assert sync.synchronised(once, name="05_pipeline.ipynb") == once
    assert sync.synchronised(read(folder), name="04_own.ipynb") == read(folder)
