"""The strip of a notebook: all notebooks, the points of each, and where this one stands."""

import json
import re

import pytest

from course_utils.figures import strip
from course_utils.grading import steps

ENTRY = {
    **{"step": "step05", "dsl": "cute", "name": "step05 cute", "points": 6.5, "max_points": 10.0},
    **{"checks": [], "timings": [], "receipt": []},
}


@pytest.fixture
def folder(tmp_path):
    for name in ("00_start_here", "05_pipeline", "13_async_proxy", "notes"):
        (tmp_path / f"{name}.ipynb").write_text("{}")
    return tmp_path


def test_points_of_all_notebooks_are_those_of_all_exercises():
    numbers = {steps.notebook_of(name.partition("-")[0]) for name in steps.EXERCISES}
    whole = sum(strip.most(number) for number in numbers)
    assert whole == sum(steps.points_of(name.partition("-")[0]) for name in steps.EXERCISES)
    assert strip.most("05") == 20 and strip.most("00") == 0


def test_it_shows_what_was_reached_and_where_one_is(folder):
    (folder / "progress.json").write_text(json.dumps({"provenance": {}, "entries": [ENTRY]}))
    text = strip.text("05", folder)
    assert re.search(r"^> 05 pipeline +6.5 of 20$", text, re.M)
    assert re.search(r"^  00 start here$", text, re.M) and "notes" not in text
    markup = strip.markup("05", folder)
    assert "05 pipeline: 6.5 of 20" in markup and "Before: 00 start here" in markup
    assert "Next: 13 async proxy" in markup


@pytest.mark.parametrize("kept", ["", "[]", '{"entries": 7}', '{"entries": [{"step": 5}], "provenance": {}}'])
def test_progress_that_cannot_be_read_is_none(folder, kept):
    (folder / "progress.json").write_text(kept)
    assert re.search(r"^> 05 pipeline +0 of 20$", strip.text("05", folder), re.M)


@pytest.mark.parametrize("here", ["", "99", "notes"])
def test_a_notebook_that_is_not_there_is_nowhere(folder, here):
    assert ">" not in strip.text(here, folder)
    assert "Next: 05 pipeline" in strip.markup(here, folder)
