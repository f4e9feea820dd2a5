"""Where the notebooks drill: before their first exercise, and after the words that are asked for."""

import re

import nbformat
import pytest

from authoring import sync
from course_utils.drills import deck, tiles
from course_utils.notebook import what_ifs

PATHS = {path.stem.partition("_")[0]: path for path in sorted(sync.NOTEBOOKS.glob("*.ipynb"))}


def cells(name):
    return nbformat.read(PATHS[name], as_version=4).cells


@pytest.mark.parametrize("name", [name for name in deck.DECK if name != "01b"])
def test_a_notebook_drills_before_its_first_exercise(name):
    """All of its drills at once, or each where the text has made it answerable: none twice, none left out."""
    sources = [cell.source for cell in cells(name)]
    places = [place for place, source in enumerate(sources) if "drill(" in source]
    asked = [sources[place] for place in places]
    one_by_one = [f'drill("{name}", {number})' for number in range(1, len(deck.DECK[name]) + 1)]
    # none twice: all in one form, or each where the text makes it answerable
    assert asked == [f'drill("{name}")'] or sorted(asked) == one_by_one
    exercises = [
        place for place, cell in enumerate(cells(name)) if "generated" in cell.metadata.get("course", {})
    ]
    # a section behind all of them has none
    assert places[0] < exercises[0] and all(not exercises[0] < one < exercises[-1] for one in places)
    assert len(places) > 1 or "**Warm up**" in sources[places[0] - 1]
    assert re.search(r"^from course_utils.notebook import .*\bdrill\b", "\n".join(sources), re.M)


def test_the_notebook_of_puzzles_has_them_all_and_no_exercise():
    assert [cell.source for cell in cells("01b") if "drill(" in cell.source] == ['drill("01b")']
    assert not any("generated" in cell.metadata.get("course", {}) for cell in cells("01b"))


def test_how_a_run_ends_is_defined_before_it_is_asked_for():
    asks = [name for name in PATHS if any(re.search(r"what_if\(|drill\(\"02", c.source) for c in cells(name))]
    place = next(place for place, cell in enumerate(cells("02")) if "**hang**" in cell.source)
    assert asks[0] == "02" and not any("what_if(" in cell.source for cell in cells("02")[:place])
    words = re.findall(r"^\| \*\*(\w+)\*\* \| (.+) \|$", cells("02")[place].source, re.M)
    told = list(what_ifs.OUTCOMES)[:5]
    assert [word for word, _ in words] == told == ["right", "wrong", "race", "hang", "fault"]
    assert all(meaning in what_ifs.OUTCOMES[word] for word, meaning in words[1:])
    number = deck.DECK["02"].index(tiles.flag_outcome) + 1
    assert cells("02")[place + 1].source == f'drill("02", {number})'
    assert not any("drill(" in cell.source and f", {number})" in cell.source for cell in cells("02")[:place])
