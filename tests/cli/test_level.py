"""``course level`` writes exercises at another level, and loses nothing that a learner wrote."""

import json
import shutil

import pytest

from authoring import sync
from course_utils.classroom import submissions
from course_utils.cli import books, main
from course_utils.grading import exercises

NAMES = ("01b_layouts.ipynb", "05_pipeline.ipynb", "07_warp_specialization.ipynb")


@pytest.fixture
def notebooks(tmp_path, monkeypatch):
    """Some notebooks of a checkout."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in NAMES:
        shutil.copy(sync.NOTEBOOKS / name, folder)
    monkeypatch.setattr(books, "ROOT", tmp_path)
    return folder


def source(folder, name, book="05_pipeline.ipynb"):
    return "".join(cell(json.loads((folder / book).read_text()), name)["source"])


def cell(notebook, name):
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == name)


def work(folder, name, text):
    path = folder / "05_pipeline.ipynb"
    notebook = json.loads(path.read_text())
    cell(notebook, name)["source"] = text.splitlines(keepends=True)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def test_there_and_back_again(notebooks):
    before = {name: (notebooks / name).read_text() for name in NAMES}
    for name in ("order", "blank", "order"):
        assert main(["level", name]) == 0
        assert source(notebooks, "step05-cute") == exercises.given("step05", "cute", name)
    assert (notebooks / "01b_layouts.ipynb").read_text() == before["01b_layouts.ipynb"]
    assert main(["level", "write"]) == 0
    assert {name: (notebooks / name).read_text() for name in NAMES} == before
    assert sorted(path.name for path in notebooks.iterdir()) == sorted(NAMES)


def test_steps_and_languages_are_chosen(notebooks, capsys):
    assert main(["level", "blank", "5", "step05", "--dsl", "tilelang", "--seed", "3"]) == 0
    assert "1 exercise is now at level blank" in capsys.readouterr().out
    assert source(notebooks, "step05-tilelang") == exercises.given("step05", "tilelang", "blank")
    assert source(notebooks, "step05-cute") == exercises.given("step05", "cute")
    assert "level:" not in (notebooks / "07_warp_specialization.ipynb").read_text()


def test_what_a_learner_wrote_is_kept_and_never_written_over(notebooks, capsys):
    for number, text in enumerate(("one = 'é'", "# level: blank\ntwo = 2", "three"), 1):
        work(notebooks, "step05-cute", text)
        assert main(["level", "order", "05"]) == 0
        path = notebooks / f"step05_cute_old{number}.py"
        assert path.read_text() == text + "\n" and f"step05-cute is in {path}" in capsys.readouterr().out
    assert (notebooks / "step05_cute_old1.py").read_text() == "one = 'é'\n"
    work(notebooks, "step05-cute", "  \n")
    main(["level", "blank"])
    assert len(list(notebooks.glob("*_old*"))) == 3


def test_an_exercise_that_is_at_its_level_stays(notebooks):
    mine = exercises.given("step05", "cute", "order").replace(" # ", " ")
    work(notebooks, "step05-cute", mine)
    work(notebooks, "step05-tilelang", "def gemm(M, N, K):\n    return M")
    before = (notebooks / "05_pipeline.ipynb").read_text()
    main(["level", "order", "5", "--dsl", "cute"])
    main(["level", "write", "5", "--dsl", "tilelang"])
    assert (notebooks / "05_pipeline.ipynb").read_text() == before


def test_kept_work_counts_while_the_cell_is_open(notebooks):
    text = "def gemm(M, N, K):\n    return M, N"
    work(notebooks, "step05-tilelang", text)
    main(["level", "blank", "5"])
    handed = [submissions.files.one(path) for path in sorted(notebooks.iterdir())]
    assert submissions.submission("ada", handed).sources["step05-tilelang"] == text + "\n"
    work(notebooks, "step05-tilelang", "# level: blank\n" + text)
    handed = [submissions.files.one(path) for path in sorted(notebooks.iterdir())]
    assert submissions.submission("ada", handed).sources["step05-tilelang"] == "# level: blank\n" + text


def test_sync_writes_an_untouched_level_back(notebooks):
    main(["level", "order"])
    assert {path.name for path in sync.sync(notebooks)} >= set(NAMES[1:])
    assert source(notebooks, "step05-cute") == exercises.given("step05", "cute")


@pytest.mark.parametrize("step", ["12", "99", "stpe05", "t2", "-x", "²"])
def test_no_step_is_named_and_nothing_is_written(notebooks, capsys, step):
    before = (notebooks / "05_pipeline.ipynb").read_text()
    try:
        assert main(["level", "order", "05", step]) == 2
        assert f"there is no step '{step}'" in capsys.readouterr().err
    except SystemExit:  # argparse's own
        assert step == "-x"
    assert (notebooks / "05_pipeline.ipynb").read_text() == before


@pytest.mark.parametrize(
    "text", ["", "[]", '{"cells": 3}', '{"cells": [{}]}', '{"cells": [{"metadata": 3}]}']
)
def test_what_is_no_notebook_is_named_and_nothing_is_written(notebooks, capsys, text):
    (notebooks / "07_warp_specialization.ipynb").write_text(text)
    before = (notebooks / "05_pipeline.ipynb").read_text()
    assert main(["level", "order"]) == 2
    assert "07_warp_specialization.ipynb is not a notebook" in capsys.readouterr().err
    assert (notebooks / "05_pipeline.ipynb").read_text() == before


def test_committed_notebooks_are_at_write():
    for path in sorted(sync.NOTEBOOKS.glob("*.ipynb")):
        assert "# level:" not in path.read_text()
