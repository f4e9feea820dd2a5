"""Notebook t2: what TileLang makes of a tile, by where its rows lie in memory; one tile between a rank-3 and
a flattened tensor.
"""

from collections.abc import Collection

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, cell, head, label, measure, sheet
from course_utils.figures.theme import BLUE, GREY, INK, PURPLE, RED

_ROWS = 8  # of a slab as drawn


def _slab(axes: Axes, x: float, y: float, taken: Collection[int], share: float, colour: str) -> None:
    """A slab as ``_ROWS`` lines; those of ``taken`` are shaded over ``share`` of their width."""
    high, width = 0.085, 0.8
    for row in range(_ROWS):
        at = y + (_ROWS - 1 - row) * high
        cell(axes, x, at, width, high, "", GREY, 0, lw=0.6)
        if row in taken:
            cell(axes, x, at, width * share, high, "", colour, 0.45, lw=0.9, zorder=3)


def paths() -> Figure:
    """Five tiles, a row each: the rows they take of two slabs, the same in memory, and what the copy
    becomes.
    """
    figure, axes = sheet(6.7)
    half, every = range(_ROWS // 2), range(_ROWS)
    two = [(0, 0.25), (0.5, 0.75)]
    narrow = [(r / 16, r / 16 + 1 / 32) for r in half]
    columns = [(r / 16, r / 16 + 1 / 32) for r in range(16)]
    cases = (
        ("16 rows\nof 2 slabs", (half, half), 1, two, "two runs", "tensor TMA,\none box of rank 3", BLUE),
        ("16 rows\nof 1 slab", (half, ()), 1, two[:1], "one run", "1-D bulk copy:\nno map, no swizzle", BLUE),
        (
            "16 half rows\nof 1 slab",
            (half, ()),
            0.5,
            narrow,
            "many runs",
            "tensor TMA,\nbox narrower than the row",
            BLUE,
        ),
        (
            "16 rows\nof 120 bytes",
            (half, half),
            1,
            two,
            "stride no multiple of 16",
            "no kernel:\nTMA is not available",
            RED,
        ),
        (
            "304 half rows\nof each slab",
            (every, every),
            0.5,
            columns,
            "more than 256 rows",
            "threads copy, silently\n(T.tma_copy: no kernel)",
            RED,
        ),
    )
    for x, words in ((0.95, "the tile"), (2.65, "in the slabs"), (5.0, "the same in memory")):
        label(axes, x, 6.4, words, weight="bold")
    label(axes, 8.1, 6.4, "what it becomes", weight="bold")
    for z in (0, 1):
        label(axes, 2.2 + 0.9 * z, 6.12, f"z = {z}", GREY)
    for i, (name, taken, share, runs, memory, path, colour) in enumerate(cases):
        y = 5.25 - 1.05 * i
        label(axes, 0.95, y + 0.34, name)
        for slab in range(2):
            _slab(axes, 1.8 + 0.9 * slab, y, taken[slab], share, colour)
        x, wide = 3.9, 2.2
        cell(axes, x, y + 0.4, wide, 0.18, "", GREY, 0)
        for first, last in runs:
            cell(
                axes,
                x + first * wide,
                y + 0.4,
                (last - first) * wide,
                0.18,
                "",
                colour,
                0.45,
                lw=0.9,
                zorder=3,
            )
        label(axes, x + wide / 2, y + 0.18, memory, colour if colour == RED else INK)
        arrow(axes, (6.2, y + 0.34), (6.75, y + 0.34), "", colour)
        box(axes, 6.75, y, 2.7, 0.68, path, colour, 0 if "silently" in path else 0.22, "silently" in path)
    words = 'T.tma_copy(..., S), and T.copy(..., S, prefer_instruction="tma").\n'
    words += "X has rows of 64 halves, 60 in the fourth, 128 in the fifth."
    label(axes, 4.8, 0.55, words, GREY)
    return figure


def two_runs() -> Figure:
    """The exercise at its second shape, (4, 48, 128): one rank-3 box in, two rank-2 boxes out."""
    figure, axes = sheet(4.15)
    # a line is 16 rows; the tile is line ``at`` of slabs 2 and 3
    shares, slabs, lines, wide, at = ((0.2, 0.55), 4, 3, 1.4, 1)

    def line(x: float, y: float, high: float, z: int, row: int, order: float) -> None:
        cell(axes, x, y, wide, high, "", GREY, 0, lw=0.8, zorder=order)
        if z >= 2 and row == at:
            cell(axes, x, y, wide / 2, high, "", BLUE, shares[z - 2], lw=0.8, zorder=order)

    head(axes, 1.75, 3.85, "X, rank 3", ha="center")
    low, high = 1.55, 0.24
    for z in reversed(range(slabs)):
        x, y = 0.5 + 0.3 * z, low + 0.4 * z
        for row in range(lines):
            line(x, y + (lines - 1 - row) * high, high, z, row, 3 - 0.1 * z)
        label(axes, x + wide + 0.06, y + 0.1, f"z = {z}", GREY, ha="left")
    label(axes, 0.3, low + lines * high / 2, "y", ha="right")
    measure(axes, (0.4, low + lines * high), (0.4, low), both=False)
    measure(axes, (0.5, low - 0.1), (0.5 + wide, low - 0.1), both=False)
    label(axes, 0.5 + wide / 2, low - 0.27, "x")
    label(axes, 1.75, 0.85, "a line is 16 rows of 128 elements", GREY)
    label(axes, 1.75, 0.42, "box 2 x 16 x 64, at (x, y, z)")

    head(axes, 5.05, 3.85, "S", ha="center")
    for slab in range(2):
        box(axes, 4.35, 2.5 - 0.85 * slab, 1.4, 0.8, f"slab {slab} of S\n16 x 64", BLUE, shares[slab])
    label(axes, 5.05, 1.28, "the rows of the box,\none after the other", GREY)
    label(axes, 5.05, 0.42, "layout of S: swizzle 128B")
    arrow(axes, (3.55, 2.3), (4.35, 2.3), "one load", BLUE)

    head(axes, 7.75, 3.85, "Y, flattened", ha="center")
    x, top = 7.05, 3.6
    for n in range(slabs * lines):
        z, row = divmod(n, lines)
        y = top - (n + 1) * 0.23
        line(x, y, 0.23, z, row, 2)
        if z >= 2 and row == at:
            arrow(axes, (5.75, 2.9 - 0.85 * (z - 2)), (x - 0.03, y + 0.11), "", PURPLE)
            label(axes, x + wide + 0.12, y + 0.11, "row ?", ha="left", weight="bold")
    for z in range(slabs + 1):
        axes.plot([x - 0.08, x + wide + 0.08], [top - lines * z * 0.23] * 2, color=GREY, lw=1.3, zorder=4)
    label(axes, 6.45, 3.1, "two stores", PURPLE)
    label(axes, 7.75, 0.42, "box 16 x 64, at (x, row)")
    return figure


PICTURES = {"t2_paths": paths, "t2_two_runs": two_runs}
