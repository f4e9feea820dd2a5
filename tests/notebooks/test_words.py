"""How much there is to read at a time: words in a cell, and words until there is something to do."""

import ast

import nbformat
import pytest

from authoring import sync

CELL = 250  # words of a Markdown cell at most: tables, code, comments and what is folded count too
RUN = 300  # words at most until the reader runs, moves or answers something
DONE = [  # notebooks that keep to it, one a line
    "05_pipeline",
    "06_persistent",
    "07_warp_specialization",
    "08_deeper_pipeline",
    "09_cluster",
    "10_multi_consumer",
]
PREDICT = "> **Predict.**"


def read(stem):
    return nbformat.read(sync.NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells


def words(text):
    return len(text.split())


def shows(cell):
    """Does running this cell show something? Imports and plain settings do not."""
    return any(isinstance(one, ast.Expr | ast.FunctionDef) for one in ast.parse(cell.source).body)


def runs(cells):
    """How many words a reader meets before each thing to do: a cell that shows something, or a Predict."""
    read, found = 0, []
    for cell in cells:
        if cell.cell_type == "code":
            if shows(cell):
                found.append(read)
                read = 0
            continue
        before, *asked = cell.source.split(PREDICT)
        read += words(before)
        for text in asked:
            found.append(read)
            read = words(text)
    return [*found, read]


@pytest.mark.parametrize("stem", DONE)
def test_no_cell_has_too_many_words(stem):
    cells = [cell for cell in read(stem) if cell.cell_type == "markdown"]
    assert {cell.source[:40]: words(cell.source) for cell in cells if words(cell.source) > CELL} == {}


@pytest.mark.parametrize("stem", DONE)
def test_there_is_something_to_do_every_few_words(stem):
    assert max(runs(read(stem))) <= RUN


def test_words_are_counted_up_to_what_there_is_to_do():
    markdown, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [markdown("one two"), code("import ast"), markdown(f"three {PREDICT} four"), code("check(1)")]
    assert runs(cells) == [3, 1, 0]
    assert runs([markdown("| a | b |"), markdown("<!-- c -->")]) == [8]
