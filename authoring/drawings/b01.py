"""Notebook b01: tensor memory with its lanes and columns, and the life of an accumulator in it."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import box, cell, head, label, measure, sheet, time
from course_utils.drills.tensor_memory import ALL_LANES, COLUMNS, first_lane
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, TEAL

QUARTER = (0.1, 0.2, 0.3, 0.4)  # the share of orange, by warp
WARPS = 4


def memory() -> Figure:
    """128 lanes x 512 columns; the first 128 columns are an accumulator, and each warp has 32 lanes of it."""
    figure, axes = sheet(4.5)
    left, bottom, wide, high = 2.3, 0.95, 6.8, 2.56
    part = wide * 128 / COLUMNS
    head(
        axes,
        left + wide / 2,
        4.2,
        f"tensor memory of an SM: {ALL_LANES} lanes x {COLUMNS} columns",
        ha="center",
    )
    for warp in range(WARPS):
        y = bottom + high - (warp + 1) * high / WARPS
        first = first_lane(warp)
        label(axes, left - 0.15, y + high / 8, f"lanes {first} to {first + 31}", GREY, ha="right")
        cell(axes, left, y, part, high / WARPS, f"warp {warp} reads", ORANGE, QUARTER[warp])
        cell(axes, left + part, y, wide - part, high / WARPS, "", GREY, 0.04)
    label(
        axes,
        left + part + (wide - part) / 2,
        bottom + high / 2 + 0.32,
        "free: for other accumulators, or for\nother CTAs of the same SM",
        GREY,
    )
    measure(axes, (left, bottom - 0.14), (left + part, bottom - 0.14), INK)
    label(axes, left + part / 2, bottom - 0.36, "128 columns allocated")
    measure(axes, (left + part, bottom - 0.14), (left + wide, bottom - 0.14), GREY)
    label(axes, left + part + (wide - part) / 2, bottom - 0.36, "384 columns", GREY)
    label(
        axes,
        left + wide / 2,
        3.75,
        "each cell: 32 bits, one fp32 of D. Row m of the tile is in lane m, its column n in the n-th column",
        GREY,
    )
    label(axes, left + wide / 2, 0.25, "a warp reads the quarter of its own number, modulo 4", ORANGE)
    return figure


def life() -> Figure:
    """An accumulator from alloc to dealloc, with who does what, left to right."""
    figure, axes = sheet(4.6)
    left, lane = 2.15, 0.62
    rows = {"warp 0": 3.5, "one thread of it": 2.78, "tensor cores": 2.06, "all four warps": 1.34}
    for name, y in rows.items():
        label(axes, left - 0.15, y + lane / 2 - 0.08, name, ha="right")

    def does(row: str, x: float, width: float, text: str, colour: str, share: float = 0.22) -> None:
        box(axes, left + x, rows[row], width, lane - 0.16, text, colour, share)

    does("warp 0", 0.0, 0.8, "alloc", GREY)
    does("one thread of it", 0.95, 1.25, "4 x MMA", GREEN)
    does("one thread of it", 2.3, 0.95, "commit", TEAL)
    does("tensor cores", 1.35, 2.35, "multiply and add", GREEN, 0.4)
    does("all four warps", 0.95, 2.9, "wait on the mbarrier", GREY, 0.05)
    does("all four warps", 3.95, 1.0, "ld", ORANGE)
    does("all four warps", 5.05, 0.85, "meet", TEAL)
    does("warp 0", 6.0, 1.0, "dealloc", GREY)
    x = left + 3.78
    axes.plot(
        [x, x], [rows["tensor cores"] + 0.1, rows["all four warps"] + 0.52], color=TEAL, lw=1.6, zorder=5
    )
    label(
        axes,
        left + 5.55,
        rows["tensor cores"] + 0.23,
        "all covered MMAs are over:\nthe commit arrives, the phase completes",
        TEAL,
    )
    box(axes, left + 0.0, 0.62, 7.0, 0.42, "128 columns of tensor memory are this CTA's", BLUE, 0.12)
    label(axes, left - 0.15, 0.83, "columns", ha="right")
    time(axes, left, left + 7.2, 0.3)
    head(axes, 0.2, 4.33, "The life of an accumulator")
    return figure


PICTURES = {"b01_tensor_memory": memory, "b01_life": life}
