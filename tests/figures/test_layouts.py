"""Pictures of layouts, from plain functions: the numbers, who holds what, and what is refused."""

import re
from types import SimpleNamespace

import pytest

from course_utils.drills.layouts import ACCUMULATOR, Layout, holder
from course_utils.figures import layouts


@pytest.fixture
def shown(monkeypatch):
    """What was displayed."""
    found = []
    monkeypatch.setattr(layouts, "display", found.append)
    return found


def test_a_layout_is_a_grid_of_its_places(shown):
    layouts.draw(Layout((2, 3), (3, 1)))
    assert repr(shown[0]) == "(2,3):(3,1)\n     0 1 2\n   0 0 1 2\n   1 3 4 5"
    markup = shown[0]._repr_html_()
    assert markup.count("<rect") == 6 and ">5</text>" in markup and "aria-label='(2,3):(3,1)" in markup
    darkness = [float(one) for one in re.findall(r"fill-opacity='(0\.\d\d)' stroke", markup)]
    assert darkness == sorted(darkness) and darkness[0] < darkness[-1]


def test_a_modes_parts_count_as_one(shown):
    layouts.draw(Layout(((2, 2), 2), ((1, 8), 2)), "nested")
    assert repr(shown[0]).splitlines()[0] == "nested"
    assert [line.split()[1] for line in repr(shown[0]).splitlines()[2:]] == ["0", "1", "8", "9"]


def test_threads_and_values_stand_where_the_layout_puts_them(shown):
    layouts.draw_threads(ACCUMULATOR, (64, 128), 16, 10)
    boxes = shown[0].boxes
    assert len(boxes) == 160
    for (row, column), (words, _, _) in boxes.items():
        assert words == "T{}\nV{}".format(*holder(row, column))
    layouts.draw_threads(Layout((4, 2), (2, 1)), (4, 2), by_row=True)
    assert shown[1].boxes[3, 1][0] == "T3\nV1"


def test_a_fragment_is_asked_for_thread_and_register(shown):
    fragment = SimpleNamespace(
        get_input_shape=lambda: (4, 4),
        map_forward_thread=lambda at: (at[0],),
        map_forward_index=lambda at: (at[1],),
    )
    layouts.draw_fragment(fragment, rows=2, title="rows")
    assert len(shown[0].boxes) == 8 and shown[0].boxes[1, 3][0] == "T1\nV3"


def test_places_of_a_function(shown):
    layouts.draw_places(lambda row, column: row ^ column, 2, 2, "xor")
    assert [box[0] for box in shown[0].boxes.values()] == ["0", "1", "1", "0"]


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: layouts.draw(Layout(8, 1)), "a layout of two modes"),
        (lambda: layouts.draw(Layout((2, 2, 2), (1, 2, 4))), "a layout of two modes"),
        (lambda: layouts.draw(Layout((64, 64), (1, 64))), "64 x 64 boxes are too many"),
        (lambda: layouts.draw_places(lambda row, column: 0, 999, 999), "too many"),
        (lambda: layouts.draw_threads(ACCUMULATOR, (64, 128), 64, 128), "too many"),
    ],
)
def test_what_is_no_picture_is_told(shown, call, says):
    with pytest.raises(ValueError, match=says):
        call()
    assert shown == []
