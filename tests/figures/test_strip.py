"""The strip of a notebook: all notebooks, the points of each, and where this one stands."""

import json
import re
from pathlib import Path

import pytest

from course_utils.figures import strip
from course_utils.grading import steps

ENTRY = {
    **{"step": "step05", "dsl": "cute", "name": "step05 cute", "points": 6.5, "max_points": 10.0},
    **{"checks": [], "timings": [], "receipt": []},
}


@pytest.fixture
def folder(tmp_path):
    for name in ("00_start_here", "05_pipeline", "t3_async_proxy", "notes"):
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
    assert "05 pipeline: 6.5 of 20" in markup and strip.LEGEND in markup
    assert markup.count("<a ") == 3  # the notebooks, and no second row of links


@pytest.mark.parametrize("kept", ["", "[]", '{"entries": 7}', '{"entries": [{"step": 5}], "provenance": {}}'])
def test_progress_that_cannot_be_read_is_none(folder, kept):
    (folder / "progress.json").write_text(kept)
    assert re.search(r"^> 05 pipeline +0 of 20$", strip.text("05", folder), re.M)


@pytest.mark.parametrize("here", ["", "99", "notes"])
def test_a_notebook_that_is_not_there_is_nowhere(folder, here):
    assert ">" not in strip.text(here, folder)
    assert "2px solid" not in strip.markup(here, folder)


def test_the_pictures_of_a_notebook_come_with_their_bytes():
    folder = Path(__file__).parents[2] / "notebooks"
    shown = strip.pictures("05", folder)
    assert shown.count("data:image/svg+xml,") == (folder / "05_pipeline.ipynb").read_text().count("](images/")
    assert shown.startswith("<details>") and "src='images" not in shown


def test_a_notebook_without_pictures_has_none(folder):
    (folder / "05_pipeline.ipynb").write_text('{"cells": [{"cell_type": "markdown", "source": ["none"]}]}')
    assert strip.pictures("05", folder) == strip.pictures("99", folder) == ""


def test_a_star_for_each_exercise_from_a_blank_page(folder):
    checks = [{"name": "results", "passed": True, "points": 4, "max_points": 4, "detail": ""}]
    blank = ENTRY | {"level": "blank", "checks": checks}
    for entries, stars in (
        ([ENTRY], ""),
        ([blank], "\u2605"),
        ([blank, blank | {"dsl": "tilelang"}], "\u2605" * 2),
    ):
        (folder / "progress.json").write_text(json.dumps({"provenance": {}, "entries": entries}))
        assert f">05{stars}</a>" in strip.markup("05", folder)
        assert (f" {stars} from a blank page" in strip.text("05", folder)) is bool(stars)


def test_a_step_says_how_to_get_another_level():
    assert 'level("05", "tilelang", "order")' in strip.other_levels("05")
    assert 'level("11", "tilelang", "order")' in strip.other_levels("11")
    assert [strip.other_levels(here) for here in ("00", "01b", "t3", "")] == [""] * 4
