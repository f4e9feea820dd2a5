"""Notebook t4: what a copy does with a tile of one mode and of two; an election inside an election."""

from collections.abc import Collection

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet
from course_utils.figures.theme import BLUE, GREY, INK, MEMORY, RED, TEAL


def modes() -> Figure:
    """Above: two modes, 64 overlapping boxes. Below: one mode, one box. From X to S, and what the barrier
    counts.
    """
    figure, axes = sheet(5.0)
    for y, name, note in (
        (2.45, "two modes", "the first is the tile,\nthe second is a loop"),
        (-0.6, "one mode", "group_modes(t, 0, 2):\nall of it is the tile"),
    ):
        head(axes, 1.05, y + 1.75, name, ha="center")
        label(axes, 1.05, y + 1.3, note, GREY)
        label(axes, 2.95, y + 2.25, "X in global memory", GREY)
        label(axes, 6.2, y + 2.25, "S in shared memory, 8,192 bytes", GREY)
        label(axes, 8.55, y + 2.25, "the barrier", GREY)
        box(axes, 2.4, y + 0.95, 1.1, 1.05, "", GREY, MEMORY["global"])
        box(axes, 5.75, y + 0.95, 1.05, 1.05, "", GREY, MEMORY["shared"])
    for i in range(5):
        drop = 0.17 * i
        for x, width in ((2.4, 1.1), (5.75, 1.05)):
            box(axes, x + 0.03 * i, 3.4 - drop, width, 1.05, "", BLUE, None)
    arrow(axes, (3.7, 3.95), (5.7, 3.95), "", BLUE)
    label(axes, 4.7, 4.22, "64 instructions,\na box of 64 x 64 each", BLUE)
    label(axes, 4.66, 3.5, "each one coordinate\nfurther in X, and\n128 bytes further in S", GREY)
    label(axes, 2.95, 2.48, "boxes overlap", RED)
    label(axes, 6.4, 2.48, "written over, and past its end", RED)
    box(axes, 7.7, 3.6, 1.75, 0.66, "full expects 8,192\n524,288 bytes come", RED)
    box(axes, 2.4, 0.35, 1.1, 1.05, "", BLUE, 0.3)
    box(axes, 5.75, 0.35, 1.05, 1.05, "", BLUE, 0.3)
    arrow(axes, (3.7, 0.88), (5.7, 0.88), "", BLUE)
    label(axes, 4.6, 1.15, "one instruction,\na box of 64 x 64", BLUE)
    box(axes, 7.7, 0.57, 1.75, 0.66, "full expects 8,192\n8,192 bytes come", TEAL, 0.12)
    for y, colour in ((3.93, RED), (0.9, TEAL)):
        arrow(axes, (6.97, y), (7.7, y), "bytes", colour)
    axes.plot([0.2, 9.4], [2.1, 2.1], color=GREY, lw=0.6, ls=":")
    return figure


def election() -> Figure:
    """Left: an election inside elect_one waits for 31 lanes that are elsewhere. Right: the whole warp comes,
    and it elects.
    """
    figure, axes = sheet(4.35)
    for x, title in ((0.3, "cute.copy inside elect_one"), (5.1, "cute.copy by the whole warp")):
        head(axes, x, 4.05, title)
        label(axes, x, 3.68, "a warp, 32 lanes", GREY, ha="left")
        _lanes(axes, x, 3.25, range(32), GREY)
    label(axes, 0.3, 2.95, "elect_one: one lane goes in", ha="left")
    _lanes(axes, 0.3, 2.5, [0], BLUE)
    label(axes, 2.5, 2.63, "the other 31 continue and wait for it", GREY)
    label(axes, 0.3, 2.02, "the copy's own elect.sync names\nall 32 lanes", ha="left")
    _lanes(axes, 0.3, 1.4, [0], BLUE, rest=RED)
    box(axes, 0.3, 0.35, 4.12, 0.55, "31 lanes never come: it waits forever", RED)
    label(axes, 5.1, 2.95, "no lane is left out", ha="left")
    _lanes(axes, 5.1, 2.5, range(32), GREY)
    label(axes, 5.1, 2.02, "the copy's own elect.sync names\nall 32 lanes, and all are there", ha="left")
    _lanes(axes, 5.1, 1.4, range(1, 32), GREY)
    _lanes(axes, 5.1, 1.4, [0], BLUE)
    arrow(axes, (5.145, 1.4), (5.145, 0.9), "", BLUE)
    box(axes, 5.1, 0.35, 4.12, 0.55, "one lane issues the load, all 32 continue", BLUE)
    axes.plot([4.76, 4.76], [0.25, 4.15], color=INK, lw=0.5, ls=":")
    return figure


def _lanes(
    axes: Axes, x: float, y: float, there: Collection[int], colour: str, rest: str | None = None
) -> None:
    """A warp, a bar a lane; ``rest`` outlines those that are not there."""
    for i in range(32):
        if i in there:
            box(axes, x + 0.13 * i, y, 0.09, 0.26, "", colour)
        elif rest:
            box(axes, x + 0.13 * i, y, 0.09, 0.26, "", rest, 0, dashed=True)


PICTURES = {"t4_modes": modes, "t4_election": election}
