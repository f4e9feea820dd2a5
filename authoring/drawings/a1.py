"""Notebook a1: one round of attention between memory and registers; which lanes hold a row of S; the rings of
K and V under a producer and two consumers.
"""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet, time
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, TEAL

LANES = 4  # of a row


def flow() -> Figure:
    """Both products of one tile of keys: what lies in shared memory, what in registers."""
    figure, axes = sheet(3.9)
    head(axes, 0.15, 3.62, "shared memory")
    head(axes, 0.15, 0.2, "registers of one warpgroup")
    box(axes, 0.15, 2.55, 1.75, 0.8, "Q: 64 x D\nloaded once", BLUE)
    box(axes, 2.35, 2.55, 1.75, 0.8, "K tile: 128 x D", BLUE)
    box(axes, 6.25, 2.55, 1.75, 0.8, "V tile: 128 x D", BLUE)
    box(axes, 1.25, 0.75, 1.85, 0.95, "S: 64 x 128\nfp32", GREEN)
    box(axes, 4.15, 0.75, 1.85, 0.95, "P: 64 x 128\nfp16", ORANGE)
    box(axes, 7.05, 0.75, 1.85, 0.95, "O: 64 x D\nfp32", GREEN)
    arrow(axes, (1.2, 2.55), (1.85, 1.7), "", GREEN)
    arrow(axes, (3.1, 2.55), (2.5, 1.7), "", GREEN)
    label(axes, 3.05, 2.2, "wgmma 1", GREEN, ha="left")
    arrow(axes, (3.1, 1.22), (4.15, 1.22), "", ORANGE)
    label(axes, 3.62, 1.42, "softmax", ORANGE)
    arrow(axes, (6.0, 1.22), (7.05, 1.22), "", GREEN)
    arrow(axes, (7.2, 2.55), (7.75, 1.7), "", GREEN)
    label(axes, 7.75, 2.2, "wgmma 2", GREEN, ha="left")
    label(axes, 2.17, 0.52, "its layout in registers", GREY)
    label(axes, 5.07, 0.52, "is that of operand A", GREY)
    label(axes, 7.97, 0.52, "rescaled in each round", ORANGE)
    return figure


def rows() -> Figure:
    """The first eight columns of warp 0's part of S: a row lies in four lanes, two columns each."""
    figure, axes = sheet(3.75)
    head(axes, 0.15, 3.47, "warp 0: rows 0 to 15 of S, and eight of its columns")
    for place, row in enumerate((0, 1, 2, 7, 8, 9)):
        y = 2.75 - place * 0.42 - (0.12 if place > 2 else 0) - (0.12 if place > 3 else 0)
        label(axes, 1.1, y + 0.17, f"row {row}", ha="right")
        for one in range(LANES):
            lane = row % 8 * LANES + one
            colour = ORANGE if row in (0, 8) else GREY
            box(
                axes, 1.25 + one * 1.12, y, 1.08, 0.34, f"lane {lane}", colour, 0.3 if row in (0, 8) else 0.08
            )
    label(axes, 6.0, 2.9, "lanes 0 to 3 hold rows 0 and 8:", ORANGE, ha="left")
    label(axes, 6.0, 2.6, "two numbers of every eight columns,", ha="left")
    label(axes, 6.0, 2.3, "so 32 of a row's 128", ha="left")
    label(axes, 6.0, 1.75, "a row's maximum:", TEAL, ha="left")
    label(axes, 6.0, 1.45, "first over a lane's own 32 numbers,", ha="left")
    label(axes, 6.0, 1.15, "then over four lanes, by two shuffles:", ha="left")
    label(axes, 6.0, 0.85, "lane ^ 1, lane ^ 2", TEAL, ha="left")
    return figure


def ring() -> Figure:
    """Time from left to right: the producer loads K and V ahead, two consumers use every tile."""
    figure, axes = sheet(3.3)
    lanes = {"producer": 2.55, "consumer 0": 1.65, "consumer 1": 0.75}
    for name, y in lanes.items():
        label(axes, 1.3, y + 0.27, name, ha="right")
    for x, name in ((1.45, "K0"), (2.08, "V0"), (2.75, "K1"), (3.38, "V1"), (4.05, "K2"), (5.6, "V2")):
        box(axes, x, lanes["producer"], 0.6, 0.55, name, BLUE)
    label(axes, 5.13, lanes["producer"] + 0.27, "waits", GREY)
    for name, shift in (("consumer 0", 0.35), ("consumer 1", 0.0)):
        for n in range(2):
            x = 2.25 + shift + n * 3.05
            y = lanes[name]
            box(axes, x, y, 0.75, 0.55, f"Q K{n}", GREEN)
            box(axes, x + 0.78, y, 1.3, 0.55, "softmax", ORANGE)
            box(axes, x + 2.11, y, 0.75, 0.55, f"P V{n}", GREEN)
    arrow(axes, (3.37, 2.2), (4.2, 2.55), "", TEAL, dashed=True)
    arrow(axes, (5.46, 2.2), (5.8, 2.55), "", TEAL, dashed=True)
    label(axes, 6.35, 2.9, "K's stage is released before", TEAL, ha="left")
    label(axes, 6.35, 2.62, "the softmax, V's only after", TEAL, ha="left")
    label(axes, 6.35, 2.34, "the second product", TEAL, ha="left")
    time(axes, 1.45, 8.8, 0.35)
    return figure


PICTURES = {"a1_flow": flow, "a1_rows": rows, "a1_ring": ring}
