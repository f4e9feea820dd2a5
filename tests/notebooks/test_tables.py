"""Before each exercise stand the calls that it needs, and not its answer."""

import re

import nbformat
import pytest

from authoring import sync
from course_utils.compile.factory import DSLS
from course_utils.compile.load import BEGIN, END, solution_path

DONE = [  # notebooks whose tables name every call, one a line
    "08_deeper_pipeline",
    "09_cluster",
    "10_multi_consumer",
    "11_any_shape",
]
CASES = ["t2_three_d_to_two_d"]  # the same for the kernels of a case
FORMULAS = r"//\s*num_stages|%\s*num_stages"  # of parity and stage
exercises = pytest.mark.parametrize("stem, dsl", [(stem, dsl) for stem in DONE + CASES for dsl in DSLS])


def named(stem):
    """ "step08" or "t2"."""
    number = stem.partition("_")[0]
    return number if stem in CASES else f"step{number}"


def asked(stem, dsl):
    """The lines of a solution that its exercise asks for, without comments."""
    source = solution_path(named(stem), dsl).read_text()
    regions = re.findall(rf"{BEGIN}.*?\n(.*?){END}", source, re.S)
    return re.sub(r"#.*", "", "\n".join(regions))


def before(stem, dsl):
    """The Markdown right before an exercise."""
    cells = nbformat.read(sync.NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells
    grade_id = f"{named(stem)}-{dsl}"
    end = next(n for n, c in enumerate(cells) if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)
    start = end
    while cells[start - 1].cell_type == "markdown":
        start -= 1
    return "\n".join(cell.source for cell in cells[start:end])


@exercises
def test_every_call_of_an_exercise_is_named_before_it(stem, dsl):
    calls = set(re.findall(r"([A-Za-z_][\w.]*)\(", asked(stem, dsl)))
    text = before(stem, dsl)
    assert {call for call in calls if f"{call.split('.')[-1]}(" not in text and call not in text} == set()


@exercises
def test_no_exercise_has_the_formulas_of_stage_and_parity_above_it(stem, dsl):
    assert re.findall(FORMULAS, before(stem, dsl)) == []


@pytest.mark.parametrize("stem", DONE)
def test_what_changed_has_no_formula_of_stage_or_parity(stem):
    cells = nbformat.read(sync.NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells
    (changed,) = (cell.source for cell in cells if cell.source.startswith("## What changed"))
    assert re.findall(FORMULAS, changed) == []
