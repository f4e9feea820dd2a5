"""Notebook 12: what TileLang makes of a tile, by where its rows lie in memory; one tile between a rank-3 and
a flattened tensor.
"""

from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, tint

_ROWS = 8  # of a slab as drawn: 32 rows, four in one line


def _slab(axes, x, y, taken, width=1.0, share=1.0, colour=BLUE, name=""):
    """A slab as ``_ROWS`` lines; those of ``taken`` are shaded over ``share`` of their width."""
    high = 0.105
    for row in range(_ROWS):
        at = y - (row + 1) * high
        axes.add_patch(Rectangle((x, at), width, high, lw=0.6, edgecolor=GREY, facecolor="white", zorder=2))
        if row in taken:
            axes.add_patch(
                Rectangle(
                    (x, at),
                    width * share,
                    high,
                    lw=0.9,
                    edgecolor=colour,
                    facecolor=tint(colour, 0.45),
                    zorder=3,
                )
            )
    label(axes, x + width / 2, y + 0.12, name, size=8.5, colour=GREY)


def _memory(axes, x, y, width, runs, colour):
    """A tensor of two slabs as one line of memory, and the part of it that a tile takes; ``runs`` are shares
    of the line.
    """
    axes.add_patch(Rectangle((x, y), width, 0.16, lw=0.8, edgecolor=GREY, facecolor="white", zorder=2))
    for first, last in runs:
        axes.add_patch(
            Rectangle(
                (x + first * width, y),
                (last - first) * width,
                0.16,
                lw=0.8,
                edgecolor=colour,
                facecolor=tint(colour, 0.45),
                zorder=3,
            )
        )


def paths():
    """Four tiles: the rows they take of two slabs, the same in memory, and what tma_copy becomes."""
    figure, axes = sheet(9.6, 4.1)
    top, columns = 3.05, (0.2, 2.6, 5.0, 7.4)
    half = range(_ROWS // 2)
    narrow = [(r / 16, r / 16 + 1 / 32) for r in half]
    cases = (
        (
            "16 rows of 2 slabs",
            (half, half),
            1.0,
            BLUE,
            [(0, 0.25), (0.5, 0.75)],
            "two runs",
            "tensor TMA\none box of rank 3",
            PURPLE,
        ),
        (
            "16 rows of 1 slab",
            (half, ()),
            1.0,
            ORANGE,
            [(0, 0.25)],
            "one run",
            "1-D bulk copy\nno tensor map, no swizzle",
            ORANGE,
        ),
        (
            "16 half rows of 1 slab",
            (half, ()),
            0.5,
            BLUE,
            narrow,
            "many runs",
            "tensor TMA\nbox narrower than the row",
            PURPLE,
        ),
        (
            "rows of 120 bytes",
            (half, half),
            1.0,
            RED,
            [(0, 0.25), (0.5, 0.75)],
            "the rows' stride is no\nmultiple of 16 bytes",
            "no kernel:\nTMA is not available",
            RED,
        ),
    )
    for x, (name, taken, share, colour, runs, memory, path, path_colour) in zip(columns, cases, strict=True):
        label(axes, x + 1.0, 3.76, name, size=9.5, weight="bold", va="baseline")
        for slab in range(2):
            _slab(axes, x + 1.05 * slab, top + 0.3, taken[slab], 0.95, share, colour, f"z = {slab}")
        _memory(axes, x, 1.95, 2.0, runs, colour)
        label(axes, x + 1.0, 1.66 if "\n" not in memory else 1.6, memory, size=8.5)
        arrow(axes, (x + 1.0, 1.38), (x + 1.0, 1.02), "", path_colour)
        box(axes, x, 0.35, 2.0, 0.65, path, path_colour, size=8.5)
    label(
        axes,
        4.8,
        2.26,
        "the same in memory: the first two slabs of X, from first byte to last",
        size=8.5,
        colour=GREY,
    )
    label(
        axes,
        4.8,
        0.12,
        'T.tma_copy(..., S), and T.copy(..., S, prefer_instruction="tma"), of an X with rows of 64 halves '
        "(60 in the last)",
        size=8.5,
        colour=GREY,
    )
    return figure


def two_runs():
    """The exercise at its second shape, (4, 48, 128): one rank-3 box in, two rank-2 boxes out."""
    figure, axes = sheet(9.6, 3.9)
    # a line is 16 rows; the tile is line ``at`` of slabs 2 and 3
    colours, slabs, lines, wide, at = ((BLUE, GREEN), 4, 3, 1.4, 1)

    def line(x, y, high, z, row, order):
        axes.add_patch(Rectangle((x, y), wide, high, lw=0.8, edgecolor=GREY, facecolor="white", zorder=order))
        if z >= 2 and row == at:
            axes.add_patch(
                Rectangle(
                    (x, y),
                    wide / 2,
                    high,
                    lw=0.8,
                    edgecolor=colours[z - 2],
                    facecolor=tint(colours[z - 2], 0.45),
                    zorder=order,
                )
            )

    label(axes, 1.7, 3.65, "X, rank 3", size=10, weight="bold")
    low, high = 1.4, 0.24
    for z in reversed(range(slabs)):
        x, y = 0.5 + 0.3 * z, low + 0.4 * z
        for row in range(lines):
            line(x, y + (lines - 1 - row) * high, high, z, row, 3 - 0.1 * z)
        label(axes, x + wide + 0.06, y + 0.1, f"z = {z}", size=8.5, ha="left", colour=GREY)
    label(axes, 0.3, low + lines * high / 2, "y", size=9, ha="right", colour=RED)
    arrow(axes, (0.4, low + lines * high), (0.4, low), "", RED, width=1)
    arrow(axes, (0.5, low - 0.1), (0.5 + wide, low - 0.1), "", RED, width=1)
    label(axes, 0.5 + wide / 2, low - 0.25, "x", size=9, colour=RED)
    label(axes, 1.7, 0.72, "a line is 16 rows of 128 elements", size=8.5, colour=GREY)
    label(axes, 1.7, 0.4, "box 2 x 16 x 64, at (x, y, z)", size=9)

    label(axes, 5.05, 3.65, "S", size=10, weight="bold")
    for slab in range(2):
        box(axes, 4.35, 2.3 - 0.85 * slab, 1.4, 0.8, f"slab {slab} of S\n16 x 64", colours[slab], size=9)
    label(axes, 5.05, 1.15, "the rows of the box,\none after the other", size=8.5, colour=GREY)
    label(axes, 5.05, 0.4, "layout of S: swizzle 128B", size=9)
    arrow(axes, (3.5, 2.3), (4.3, 2.3), "one load", PURPLE, size=9, offset=(0, 0.15))

    label(axes, 7.7, 3.65, "Y, flattened", size=10, weight="bold")
    x, top = 7.0, 3.45
    for n in range(slabs * lines):
        z, row = divmod(n, lines)
        y = top - (n + 1) * 0.225
        line(x, y, 0.225, z, row, 2)
        if z >= 2 and row == at:
            arrow(axes, (5.8, 2.7 - 0.85 * (z - 2)), (x - 0.03, y + 0.11), "", PURPLE)
            label(axes, x + wide + 0.1, y + 0.11, "row ?", size=9, ha="left", colour=RED)
    for z in range(slabs + 1):
        axes.plot([x - 0.08, x + wide + 0.08], [top - lines * z * 0.225] * 2, color=GREY, lw=1.3, zorder=4)
    label(axes, 6.35, 2.75, "two stores", size=9, colour=PURPLE)
    label(axes, 7.7, 0.4, "box 16 x 64, at (x, row)", size=9)
    return figure


PICTURES = {"tma12_paths": paths, "tma12_two_runs": two_runs}
