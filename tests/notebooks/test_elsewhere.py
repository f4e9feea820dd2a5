"""A notebook on GitHub, in Colab and in VS Code: it has its pictures and makes sense where nothing runs."""

import re

import nbformat
import pytest

from authoring import sync

PATHS = sorted(sync.NOTEBOOKS.glob("*.ipynb"))
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
each = pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)


def cells(path):
    return nbformat.read(path, as_version=4).cells


def text(path):
    return "\n\n".join(cell.source for cell in cells(path) if cell.cell_type == "markdown")


@each
def test_pictures_are_markdown_with_a_path_beside_the_notebook_and_words(path):
    """Colab finds a picture of Markdown beside a notebook that it opens from GitHub, and none of HTML."""
    for words, target in PICTURE.findall(text(path)):
        assert (path.parent / target).exists() and target.startswith("images/")
        assert len(words.split()) >= 5
    assert "<img" not in text(path)
    assert not any(cell.get("attachments") for cell in cells(path))


@each
def test_nothing_is_only_there_for_a_widget_or_a_kernel(path):
    notebook = nbformat.read(path, as_version=4)
    assert "widgets" not in notebook.metadata
    assert not any(cell.get("outputs") for cell in notebook.cells)
    for before, cell in zip([None, *notebook.cells], notebook.cells, strict=False):
        if cell.cell_type == "code" and cell.source.startswith("moving("):
            assert before.cell_type == "markdown", "a sentence says what moves"
    if any(cell.source.startswith("moving(") for cell in notebook.cells):
        assert PICTURE.search(text(path)), "a still picture for where nothing moves"


@each
def test_no_cell_needs_tags_magics_or_require(path):
    for cell in cells(path):
        assert "tags" not in cell.metadata
        if cell.cell_type == "code":
            assert not re.search(r"^\s*[%!]|require\(", cell.source, re.M)


@each
def test_folds_hold_no_markdown_that_html_swallows(path):
    """Below a line of HTML, Markdown begins after an empty line: so it is read alike everywhere."""
    for fold in re.findall(r"<details>.*?</details>", text(path), re.S):
        for found in PICTURE.finditer(fold):
            assert fold[: found.start()].endswith("\n\n") and fold[found.end() :].startswith("\n\n")
