"""Step 3: which CTA owns which tile; how tiles fill the SMs; what the tensor cores do while threads copy."""

from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, tint

SMS = 132


def grid():
    """D as a grid of tiles, with A to its left and B above it; one CTA's tile and what it needs of both."""
    figure, axes = sheet(9.6, 4.6)
    size, rows, columns, x0, y0 = 0.6, 4, 6, 3.5, 0.45
    bx, by = 3, 1
    top = y0 + rows * size
    y = top - (by + 1) * size
    box(axes, 0.75, y0, 2.2, rows * size, "", GREY, fill=tint(GREY, 0.08))
    box(axes, x0, top + 0.5, columns * size, 1.1, "", GREY, fill=tint(GREY, 0.08))
    box(axes, 0.75, y, 2.2, size, "128 rows of A", BLUE, size=9)
    box(axes, x0 + bx * size, top + 0.5, size, 1.1, "128\nrows\nof B", PURPLE, size=9)
    for row in range(rows):
        for column in range(columns):
            mine = (column, row) == (bx, by)
            fill = (
                tint(GREEN, 0.5)
                if mine
                else tint(BLUE)
                if row == by
                else tint(PURPLE)
                if column == bx
                else "white"
            )
            box(
                axes,
                x0 + column * size + 0.02,
                top - (row + 1) * size + 0.02,
                size - 0.04,
                size - 0.04,
                f"{column}, {row}",
                GREEN if mine else GREY,
                size=9,
                fill=fill,
                weight="bold" if mine else "normal",
            )
    arrow(axes, (2.95, y + size / 2), (x0, y + size / 2), "", BLUE)
    arrow(axes, (x0 + (bx + 0.5) * size, top + 0.5), (x0 + (bx + 0.5) * size, top), "", PURPLE)
    label(axes, 1.85, y0 - 0.22, "A, M x K", size=9.5)
    label(axes, x0 + columns * size / 2, y0 - 0.22, "D, M x N: one CTA a tile, marked bx, by", size=9.5)
    label(axes, x0 - 0.15, top + 1.05, "B, N x K,\nlaid on its side", size=9.5, ha="right")
    right = x0 + columns * size + 0.25
    label(
        axes,
        right,
        top - (by + 0.5) * size,
        "CTA (3, 1)\nrows from m\ncolumns from n",
        size=9.5,
        ha="left",
        colour=GREEN,
    )
    label(
        axes,
        right,
        top - 2.6 * size,
        "blue: the tiles that need\nthe same rows of A",
        size=8.5,
        ha="left",
        colour=BLUE,
    )
    label(
        axes,
        right,
        top - 3.5 * size,
        "purple: the tiles that need\nthe same rows of B",
        size=8.5,
        ha="left",
        colour=PURPLE,
    )
    return figure


def waves():
    """How many of 132 SMs have a tile in each wave, for three square sizes."""
    figure, axes = sheet(9.6, 3.3)
    label(
        axes,
        4.8,
        3.08,
        "SMs that have a tile, wave after wave: 132 SMs, tiles of 128 x 128, one CTA an SM",
        size=9.5,
    )
    for x0, size, room in ((0.85, 1536, 1.5), (3.2, 4096, 2.75), (6.75, 8192, 2.6)):
        tiles = (size // 128) ** 2
        full, last = divmod(tiles, SMS)
        wide = room / (full + 1)
        axes.plot([x0, x0 + room], [0.75, 0.75], color=INK, lw=1)
        for wave in range(full + 1):
            share, colour = (1, GREEN) if wave < full else (last / SMS, ORANGE)
            axes.add_patch(
                Rectangle(
                    (x0 + wave * wide, 0.75),
                    wide * 0.8,
                    1.75 * share,
                    facecolor=tint(colour, 0.45),
                    edgecolor=colour,
                    lw=0.7,
                    zorder=2,
                )
            )
        label(
            axes,
            x0 + full * wide + wide * 0.4,
            0.75 + 1.75 * last / SMS + 0.14,
            str(last),
            size=9,
            colour=ORANGE,
        )
        label(
            axes,
            x0 + full * wide / 2,
            2.65,
            f"{SMS} in each of {full}" if full > 1 else f"{SMS}",
            size=9,
            colour=GREEN,
        )
        label(axes, x0 + room / 2, 0.52, f"M = N = {size}", size=9, weight="bold")
        label(axes, x0 + room / 2, 0.25, f"{tiles:,} tiles, {full + 1} waves", size=9, colour=GREY)
    label(axes, 0.5, 1.62, "busy SMs", size=9, colour=GREY, rotation=90)
    return figure


def one_sm():
    """The tensor cores of one SM over time: with one CTA, which copies and multiplies in turn, and with
    two.
    """
    figure, axes = sheet(9.6, 3.5)

    def turns(y, start, end):
        x = start
        while x < end - 0.3:
            for long, name, colour in ((1.15, "copy", BLUE), (0.7, "multiply", GREEN)):
                if x < end - 0.3:
                    box(axes, x + 0.02, y, min(long, end - x) - 0.04, 0.36, name, colour, size=8)
                x += long

    def tensor_cores(y, starts):
        axes.plot([2.0, 9.3], [y, y], color=INK, lw=1)
        for x in starts:
            box(axes, x + 0.02, y, 0.66, 0.3, "", GREEN, fill=GREEN)

    def own(start):
        return [start + 1.15 + 1.85 * i for i in range(5) if start + 1.15 + 1.85 * i < 9.0]

    label(axes, 0.95, 2.75, "one CTA\nan SM", size=9.5, weight="bold")
    turns(2.85, 2.0, 9.4)
    label(axes, 0.95, 2.25, "tensor cores", size=8.5, colour=GREY)
    tensor_cores(2.1, own(2.0))
    label(axes, 0.95, 1.35, "two CTAs\nan SM", size=9.5, weight="bold")
    turns(1.45, 2.0, 9.4)
    turns(1.0, 2.92, 9.4)
    label(axes, 0.95, 0.55, "tensor cores", size=8.5, colour=GREY)
    tensor_cores(0.4, own(2.0) + own(2.92))
    label(
        axes,
        5.7,
        0.16,
        "One CTA copies while the other multiplies: the hardware overlaps what the code does not.",
        size=8.5,
    )
    return figure


PICTURES = {"step03_grid": grid, "step03_waves": waves, "step03_one_sm": one_sm}
