"""What notebooks t4 and t5 try, as tables: an ending for each copy, what was printed, what was loaded."""

import nbformat
import pytest

from authoring import sync
from course_utils.compile.load import load_module
from course_utils.notebook import experiments
from tests import cells


@pytest.fixture(scope="module")
def suspect(tmp_path_factory):
    """The kernel of many switches, of notebook t4's own cell."""
    notebook = nbformat.read(sync.NOTEBOOKS / "t4_group_modes.ipynb", as_version=4)
    path = tmp_path_factory.mktemp("suspect") / "suspect.py"
    path.write_text(next(cell.source for cell in notebook.cells if "def suspect(" in cell.source))
    return load_module(path).suspect


def shown(call, *arguments, **named):
    """The table that a call showed, after the words on what it was at."""
    _, text, html = cells.shown(call, *arguments, **named)
    assert "<" in html
    return text.partition(" ...\n")[2]


def test_each_copy_says_how_it_ends_and_what_is_found(suspect):
    copies = {
        "one": suspect(grouped=True, nested=True),
        "two": suspect(grouped=True, nested=False),
        "three": suspect(grouped=False, nested=False, direct=False),
    }
    head, one, two, three = shown(experiments.endings, copies).splitlines()[:4]
    assert "never ends" in one and "absent-lanes" in one
    assert "right" in two and two.endswith("nothing")
    assert "does not compile" in three and "128-bit" in shown(experiments.endings, {"": copies["three"]})


def test_layouts_and_loads_are_of_the_kernel(suspect):
    copies = {"grouped": suspect(grouped=True, nested=False)}
    assert "(((64,64),1)):(((1@0,1@1),0))" in shown(experiments.layouts_of, copies)
    assert "1      8,192" in shown(experiments.loads_of, copies)
    assert "64 x 64, swizzle none" in shown(experiments.maps_of, copies)


def test_what_cannot_be_shown_is_said():
    assert "cannot be shown" in shown(experiments.layouts_of, {"none": None})
    assert "cannot be shown" in shown(experiments.epilogues, "step99")


def test_the_path_of_a_tile_is_shown_with_its_reason():
    told = shown(experiments.paths_of, [((256, 128), (128, 128), "float16", "gemm", "TMA atom")])
    assert "several boxes" in told and "over its swizzle's 128" in told
    assert "dtype is 'half'" in shown(experiments.paths_of, [((8, 8), (8, 8), "half", "threads", "T.copy")])
    assert "cannot be told" in shown(experiments.paths_of, [(8,)])


def test_the_program_of_a_tile_is_shown():
    told = shown(experiments.program_of, (8, 64), (8, 32), "float16", "store", "prefer tma")
    assert 'T.copy(X[i0 : i0 + 8, i1 : i1 + 32], S, prefer_instruction="tma")' in told
    assert "consumer is 'gem'" in shown(experiments.program_of, (8, 64), (8, 32), "int8", "gem", "T.copy")
