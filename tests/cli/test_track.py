"""``course track`` folds the other language's sections, and nothing else."""

import json
import shutil

import pytest

from authoring import sync
from course_utils.cli import books, main, track

STEPS = sorted(path.name for path in sync.NOTEBOOKS.glob("*.ipynb") if path.name[:2] in ("05", "10", "t4"))


@pytest.fixture
def notebooks(tmp_path, monkeypatch):
    """Some notebooks of a checkout."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in STEPS:
        shutil.copy(sync.NOTEBOOKS / name, folder)
    monkeypatch.setattr(books, "ROOT", tmp_path)
    return folder


def folded(path):
    """The headings that are folded."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]).split("\n")[0] for cell in cells if cell["metadata"].get(track.FOLDED)]


def test_the_other_language_is_folded_and_opened_again(notebooks):
    path = notebooks / "05_pipeline.ipynb"
    before = path.read_text()
    assert main(["track", "cute"]) == 0 and folded(path) == ["## The TileLang kernel"]
    assert main(["track", "tilelang"]) == 0 and folded(path) == ["## The same step in CuTe DSL"]
    assert main(["track", "both"]) == 0 and path.read_text() == before


def test_work_stays(notebooks):
    path = notebooks / "05_pipeline.ipynb"
    notebook = json.loads(path.read_text())
    cell = next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("solution"))
    cell["source"] = ["mine = 'é'\n"]
    path.write_text(json.dumps(notebook))
    main(["track", "tilelang"])
    kept = json.loads(path.read_text())["cells"]
    assert [c["source"] for c in kept] == [c["source"] for c in notebook["cells"]]


def test_a_section_of_both_languages_stays_open():
    def heading():
        return {"cell_type": "markdown", "source": "## Both\n", "metadata": {}}

    def exercise(dsl):
        return {"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": f"step05-{dsl}"}}}

    cells = [heading(), exercise("cute"), exercise("tilelang"), heading(), exercise("cute")]
    assert track.fold(cells, "cute")
    assert [bool(cell["metadata"].get(track.FOLDED)) for cell in cells] == [False, False, False, True, False]
    assert not track.fold(cells, "cute")


@pytest.mark.parametrize("text", ["", "[]", '{"cells": 3}', '{"cells": [{}]}'])
def test_what_is_no_notebook_is_named(notebooks, capsys, text):
    (notebooks / "05_pipeline.ipynb").write_text(text)
    assert main(["track", "cute"]) == 2
    assert "05_pipeline.ipynb is not a notebook" in capsys.readouterr().err


def test_committed_notebooks_fold_nothing():
    assert [name for name in STEPS if folded(sync.NOTEBOOKS / name)] == []
