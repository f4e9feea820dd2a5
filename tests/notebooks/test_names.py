"""No exercise of 03 to 10, or b01 to b05, uses a name of a DSL that no notebook has explained before."""

import ast
import re

import nbformat

from authoring import sync

PATHS = sorted(sync.NOTEBOOKS.glob("*.ipynb"))
PARTS = ("03", "10"), ("b01", "b05")
CODE = re.compile(r"`([^`]+)`|<code>(.+?)</code>", re.S)
COMMENT = re.compile(r"#(.*)$", re.M)
PACKAGES = ("cutlass", "tilelang")


def names(source):
    """Attributes, and what is imported from a DSL."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith(PACKAGES):
            found |= {alias.name for alias in node.names}
    return found


def explained(cell):
    """Words that a text cell writes as code, or a code cell in a comment."""
    if cell.cell_type == "markdown":
        said = [" ".join(groups) for groups in CODE.findall(cell.source)]
    else:
        said = COMMENT.findall(cell.source)
    return set(re.findall(r"\w+", " ".join(said)))


def is_held(number):
    return any(first <= number <= last for first, last in PARTS)


def unexplained(notebooks):
    """(notebook, name) of each name that an exercise uses too early, of a number to its cells, in order."""
    known, early = set(), []
    for number, cells in notebooks.items():
        for cell in cells:
            if "generated" in cell.metadata.get("course", {}) and is_held(number):
                early += [(number, name) for name in sorted(names(cell.source) - known)]
            known |= explained(cell)
    return early


def test_every_name_of_an_exercise_has_been_explained():
    there = {path.stem.partition("_")[0]: nbformat.read(path, as_version=4).cells for path in PATHS}
    early = unexplained(there)
    assert early == [], "say in 01b, or in the table above the exercise, what these are"


def test_a_name_that_comes_too_early_is_found():
    text = nbformat.v4.new_markdown_cell("| `cute.size(layout)` | elements |")
    code = nbformat.v4.new_code_cell("from cutlass.cute import cosize\n\ncute.size(x)  # depth is one more")
    code.metadata["course"] = {"generated": "0"}
    assert unexplained({"03": [code, text]}) == [("03", "cosize"), ("03", "size")]
    assert unexplained({"01b": [text], "04": [code]}) == [("04", "cosize")]
    assert unexplained({"02": [code], "11": [code], "t1": [code]}) == []
    assert unexplained({"b01": [code]}) == [("b01", "cosize"), ("b01", "size")]
