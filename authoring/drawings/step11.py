"""Step 11: D leaves under the next tile; tiles that hang over the edges of A and of D."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, cell, head, label, measure, sheet, time
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, WORK

LANE = 0.42  # height of a lane's boxes


def under() -> Figure:
    """Two tiles of D in a row: D leaves between them in step 10, under the second in step 11."""
    figure, axes = sheet(4.75)
    left, unit = 1.75, 0.62

    def lanes(top: float, name: str) -> None:
        head(axes, 0.15, top + 0.66, name)
        for y, words in ((0, "tensor cores"), (-0.55, "consumers"), (-1.1, "TMA stores")):
            label(axes, left - 0.12, top + y + LANE / 2, words, ha="right")

    def piece(top: float, lane: int, begin: float, end: float, words: str, colour: str) -> None:
        y = top - 0.55 * lane
        box(axes, left + begin * unit + 0.015, y, (end - begin) * unit - 0.03, LANE, words, colour)

    top = 3.75
    lanes(top, "step 10")
    piece(top, 0, 0, 4, "tile 0", GREEN)
    piece(top, 0, 4, 6, "idle", WORK["wait"])
    piece(top, 0, 6, 10, "tile 1", GREEN)
    piece(top, 0, 10, 12, "idle", WORK["wait"])
    for first in (4, 10):
        for c in range(4):
            piece(top, 1, first + c / 2, first + (c + 1) / 2, "", ORANGE)
            piece(top, 2, first + (c + 1) / 2, first + 1 + c / 2, "", PURPLE)
    top = 1.6
    lanes(top, "step 11")
    piece(top, 0, 0, 4, "tile 0", GREEN)
    piece(top, 0, 4, 8, "tile 1", GREEN)
    piece(top, 0, 8, 9.6, "tile 2", GREEN)
    for first in (4, 8):
        for c in range(4 if first == 4 else 2):
            piece(top, 1, first + 0.15 + 0.9 * c, first + 0.65 + 0.9 * c, "", ORANGE)
            piece(top, 2, first + 0.65 + 0.9 * c, first + 1.15 + 0.9 * c, "", PURPLE)
    label(
        axes,
        left + 4 * unit - 0.1,
        top - 0.9,
        "D of tile 0 is stored,\na chunk per K tile",
        ORANGE,
        ha="right",
    )
    time(axes, left, left + 12 * unit, 0.2)
    return figure


def clip() -> Figure:
    """A tile over A's edge, which lands with zeros; a tile over D's edge, of which a part is written."""
    figure, axes = sheet(4.3)
    head(axes, 0.3, 4.0, "load: a box over A's edge")
    _matrix(axes, 0.5, "A", BLUE)
    label(axes, 1.55, 0.55, "frame: M x K of the map")
    box(axes, 3.55, 1.45, 1.2, 1.2, "", BLUE)
    cell(axes, 3.55, 1.45 + 0.5, 0.75, 0.7, "of A", BLUE, 0.45)
    label(axes, 4.53, 2.2, "0")
    label(axes, 4.15, 1.68, "0")
    arrow(axes, (2.7, 1.4), (3.5, 1.9), "", BLUE)
    label(axes, 4.15, 2.95, "lands in the stage:\nall bytes are counted")
    label(axes, 4.15, 1.15, "zeros add nothing\nto the sums", GREY)
    head(axes, 5.4, 4.0, "store: a box over D's edge")
    box(axes, 5.4, 1.45, 1.2, 1.2, "", ORANGE)
    cell(axes, 5.4, 1.45 + 0.5, 0.75, 0.7, "of D", ORANGE, 0.45)
    label(axes, 6.0, 2.95, "the whole chunk\nin shared memory")
    label(axes, 6.0, 1.15, "the rest\nis not written", GREY)
    _matrix(axes, 7.2, "D", ORANGE)
    arrow(axes, (6.65, 2.3), (8.55, 1.65), "", PURPLE)
    label(axes, 8.25, 0.55, "frame: M x N of the map")
    return figure


def _matrix(axes: Axes, left: float, name: str, colour: str) -> None:
    """A matrix cut by tiles of which the last row and column hang over its edge; the corner's is coloured."""
    side, rows, columns = 0.75, 3, 3
    wide, high = 2.25 - 0.27, 2.25 - 0.32  # of the matrix itself
    top = 3.5
    for row in range(rows):
        for column in range(columns):
            last = row == rows - 1 and column == columns - 1
            x, y = left + column * side, top - (row + 1) * side
            cell(axes, x, y, side, side, "", colour if last else GREY, 0.22 if last else 0.05)
    box(axes, left, top - high, wide, high, "", GREY, None, lw=2)
    label(axes, left + 0.37, top - 0.37, name)
    measure(axes, (left, top + 0.12), (left + wide, top + 0.12), GREY)
    measure(axes, (left - 0.12, top), (left - 0.12, top - high), GREY)
    label(axes, left + 1.1, 0.9, "tiles: rounded up", GREY)


PICTURES = {"step11_under": under, "step11_clip": clip}
