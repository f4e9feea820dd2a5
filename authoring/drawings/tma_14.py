"""Notebook 14: what a copy does with a tile of one mode and of two; an election inside an election."""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED


def modes():
    """Above: two modes, 64 overlapping boxes. Below: one mode, one box. From X to S, and what the barrier
    counts.
    """
    figure, axes = sheet(9.6, 4.7)
    for y, name, note, colour in (
        (2.2, "two modes", "the first mode is the tile,\nthe second is a loop", RED),
        (-0.75, "one mode", "group_modes(tile, 0, 2):\nall of it is the tile", GREEN),
    ):
        label(axes, 1.0, y + 1.75, name, size=11, weight="bold")
        label(axes, 1.0, y + 1.3, note, size=8.5, colour=GREY)
        label(axes, 2.95, y + 2.2, "X in global memory", size=8.5, colour=GREY)
        label(axes, 6.35, y + 2.2, "S in shared memory, 8,192 bytes", size=8.5, colour=GREY)
        label(axes, 8.6, y + 2.2, "the barrier", size=8.5, colour=GREY)
        arrow(axes, (7.0, y + 1.48), (7.8, y + 1.48), "bytes", colour, offset=(0, 0.13))
        box(axes, 2.4, y + 0.95, 1.1, 1.05, "", GREY, fill="white")
        box(axes, 5.85, y + 0.95, 1.0, 1.05, "", BLUE)
        box(axes, 7.8, y + 1.17, 1.6, 0.62, "", colour)
    for i in range(5):
        drop = 0.17 * i
        box(axes, 2.4 + 0.02 * i, 3.15 - drop, 1.1, 1.05, "", PURPLE, fill="none")
        box(axes, 5.85 + 0.02 * i, 3.15 - drop, 1.0, 1.05, "", PURPLE, fill="none")
    arrow(axes, (3.65, 3.75), (5.8, 3.75), "64 instructions, a box of 64 x 64 each", PURPLE, offset=(0, 0.16))
    label(
        axes, 4.72, 3.4, "each one coordinate further in X\nand 128 bytes further in S", size=8, colour=GREY
    )
    label(axes, 2.95, 2.28, "boxes overlap", size=8, colour=RED)
    label(axes, 6.4, 2.28, "written over, and past its end", size=8, colour=RED)
    label(axes, 8.6, 3.68, "full expects 8,192\n524,288 bytes come", size=8.5)
    box(axes, 2.4, 0.2, 1.1, 1.05, "", PURPLE)
    box(axes, 5.85, 0.2, 1.0, 1.05, "", PURPLE)
    arrow(axes, (3.65, 0.73), (5.8, 0.73), "one instruction, a box of 64 x 64", PURPLE, offset=(0, 0.16))
    label(axes, 8.6, 0.73, "full expects 8,192\n8,192 bytes come", size=8.5)
    axes.plot([0.2, 9.4], [1.95, 1.95], color=GREY, lw=0.6, ls=":")
    return figure


def election():
    """Left: an election inside elect_one waits for 31 lanes that are elsewhere. Right: the whole warp comes,
    and it elects.
    """
    figure, axes = sheet(9.6, 3.75)
    for x, title in ((0.3, "cute.copy inside elect_one"), (5.1, "cute.copy reached by the whole warp")):
        label(axes, x + 2.1, 3.52, title, size=10, weight="bold")
        _lanes(axes, x, 2.75, range(32), ORANGE)
        label(axes, x, 3.13, "a warp, 32 lanes", size=8.5, ha="left", colour=GREY)
    label(axes, 0.3, 2.5, "elect_one: one lane goes in", size=8.5, ha="left")
    _lanes(axes, 0.3, 1.9, [0], ORANGE)
    label(axes, 2.55, 2.03, "the other 31 go on and wait for it", size=8.5, colour=GREY)
    label(axes, 0.3, 1.62, "the copy's own elect.sync names all 32 lanes", size=8.5, ha="left")
    _lanes(axes, 0.3, 1.05, [0], ORANGE, rest=RED)
    box(axes, 0.3, 0.25, 4.1, 0.5, "31 lanes never come: it waits for ever", RED, size=9)
    label(axes, 5.1, 2.5, "nobody is left out", size=8.5, ha="left")
    _lanes(axes, 5.1, 1.9, range(32), ORANGE)
    label(
        axes,
        5.1,
        1.62,
        "the copy's own elect.sync names all 32 lanes, and all are there",
        size=8.5,
        ha="left",
    )
    _lanes(axes, 5.1, 1.05, range(1, 32), GREY)
    _lanes(axes, 5.1, 1.05, [0], PURPLE)
    arrow(axes, (5.145, 1.05), (5.145, 0.75), "", PURPLE)
    box(axes, 5.1, 0.25, 4.1, 0.5, "one lane issues the load, all 32 go on", GREEN, size=9)
    axes.plot([4.85, 4.85], [0.2, 3.6], color=INK, lw=0.5, ls=":")
    return figure


def _lanes(axes, x, y, there, colour, rest=None):
    """A warp, a bar a lane; ``rest`` outlines those that are not there."""
    for i in range(32):
        if i in there:
            box(axes, x + 0.13 * i, y, 0.09, 0.26, "", colour)
        elif rest:
            box(axes, x + 0.13 * i, y, 0.09, 0.26, "", rest, fill="white", dashed=True)


PICTURES = {"tma14_modes": modes, "tma14_election": election}
