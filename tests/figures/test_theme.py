"""The course's colours: one meaning each, apart for every reader, readable by day and by night."""

from itertools import combinations

import pytest
from matplotlib.colors import to_hex

from course_utils.figures import theme
from course_utils.figures.theme import DSL_TEXT, DSLS, PAGE, TEXT, WORK
from tests.figures.colour import EYES, contrast, distance, lab

ROLES = ("blue", "green", "orange", "purple", "teal", "red", "wait")
APART = 14  # of colours that stand side by side: seven times what one can just see
SIDES = [(ROLES, APART), (("tilelang", "cute"), 30)]


def pairs(names):
    return combinations(names, 2)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_that_stand_side_by_side_differ_for_every_reader(dark, eyes):
    for names, least in SIDES:
        near = {
            (one, other): round(distance(PAGE[one][dark], PAGE[other][dark], eyes))
            for one, other in pairs(names)
        }
        assert {pair: found for pair, found in near.items() if found < least} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_dsl_has_no_roles_colour(dark):
    for dsl in DSLS:
        assert min(distance(PAGE[dsl][dark], PAGE[role][dark]) for role in ROLES) > 25, dsl
    assert not {colour for _, colour in DSLS.values()} & set(WORK.values())


def test_every_hue_has_one_meaning():
    hues = [*WORK.values(), theme.TEAL, theme.RED, *(colour for _, colour in DSLS.values())]
    assert len(set(hues)) == len(hues)


@pytest.mark.parametrize("ground", ["card", "paper"])
def test_words_in_a_colour_can_be_read(ground):
    days = [theme.INK, theme.GREY, theme.PURPLE, theme.TEAL, theme.RED]
    words = [(day, theme.night(day)) for day in days] + list(TEXT.values())
    for dark in (False, True):
        assert [pair[dark] for pair in words if contrast(pair[dark], PAGE[ground][dark]) < 4.5] == []
    assert all(contrast(words, PAGE[ground][False]) >= 4.5 for words in DSL_TEXT.values())


def test_night_keeps_a_colours_hue_and_a_tints_share():
    assert theme.night(theme.BLUE) == PAGE["blue"][1] and theme.night(theme.CARD) == PAGE["card"][1]
    pale, strong = (theme.night(to_hex(theme.tint(theme.GREEN, share))) for share in (0.1, 0.6))
    card, full = PAGE["card"][1], PAGE["green"][1]
    assert distance(pale, card) < distance(strong, card) and distance(strong, full) < distance(pale, full)
    with pytest.raises(ValueError, match="no colour of the theme"):
        theme.night("#12ff34")


def test_the_simulation_keeps_grey_and_takes_red_from_green():
    """Greys stay grey to all, and red and green of one lightness come near each other without red cones."""
    for eyes in EYES:
        _, a, b = lab("#808080", eyes)
        assert abs(a) < 0.5 and abs(b) < 0.5
    assert distance("#c04040", "#408040", "deuteranopia") < 0.6 * distance("#c04040", "#408040")
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_words_on_a_hue_in_full_can_be_read():
    hues = [PAGE["cute"], PAGE["tilelang"]]
    words = [theme.ON_HUE, (theme.PAPER, PAGE["paper"][1])]
    for dark in (False, True):
        pairs_of = [contrast(word[dark], hue[dark]) for word, hue in zip(words, hues, strict=True)]
        assert min(pairs_of) >= 4.5


def test_a_picture_is_light_or_dark_as_its_page_is():
    """An SVG with both, on a card, that the page's script sets; and a PNG where HTML is not shown."""
    from course_utils.figures.counters import time_parts
    from course_utils.figures.ladder import ladder
    from course_utils.recordings import measured

    assert theme._with_night('<style></style><g style="fill: #de8314"/>').count("#") == 3
    for figure in (time_parts(measured.load("counters"), "step08"), ladder(measured.load(), None, "step05")):
        drawn = theme.svg(figure)  # raises for a colour that has no night
        assert "@media (prefers-color-scheme: dark)" in drawn and theme.night(theme.CARD) in drawn
    empty = time_parts({"entries": [], "provenance": {}})
    html = empty._repr_html_()
    assert 'class="course-picture"' in html and "data:image/svg+xml," in html
    assert 'alt="' in html and html == time_parts({"entries": [], "provenance": {}})._repr_html_()
