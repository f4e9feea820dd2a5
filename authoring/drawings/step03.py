"""Step 3: which CTA owns which tile; how tiles fill the SMs; what the tensor cores do while threads copy."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, cell, head, label, sheet
from course_utils.chips import HOME
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, MEMORY

SMS = HOME.sms
A, B = 0.16, 0.5  # the share of blue in what belongs to A, and to B


def grid() -> Figure:
    """D as a grid of tiles, with A to its left and B above it; one CTA's tile and what it needs of both."""
    figure, axes = sheet(4.9)
    size, rows, columns, x0, y0 = 0.6, 4, 6, 3.3, 0.6
    bx, by = 3, 1
    top = y0 + rows * size
    y, x = top - (by + 1) * size, x0 + bx * size
    box(axes, 0.35, y0, 2.3, rows * size, "", GREY, MEMORY["global"])
    box(axes, x0, top + 0.5, columns * size, 1.15, "", GREY, MEMORY["global"])
    box(axes, 0.35, y, 2.3, size, "128 rows of A", BLUE, A)
    box(axes, x, top + 0.5, size, 1.15, "128\nrows\nof B", BLUE, B)
    for row in range(rows):
        for column in range(columns):
            mine = (column, row) == (bx, by)
            share = B if column == bx else A if row == by else 0
            box(
                axes,
                x0 + column * size + 0.02,
                top - (row + 1) * size + 0.02,
                size - 0.04,
                size - 0.04,
                f"{column}, {row}",
                GREEN if mine else BLUE if share else GREY,
                share,
                weight="bold" if mine else "normal",
            )
    arrow(axes, (2.65, y + size / 2), (x0, y + size / 2), "", BLUE)
    arrow(axes, (x + size / 2, top + 0.5), (x + size / 2, top), "", BLUE)
    label(axes, 1.5, y0 - 0.27, "A, M x K")
    label(axes, x0 + columns * size / 2, y0 - 0.27, "D, M x N: one CTA a tile, marked bx, by")
    label(axes, x0 - 0.15, top + 1.05, "B, N x K,\nlaid on its side", ha="right")
    right = x0 + columns * size + 0.25
    label(axes, right, top - 1.5 * size, "CTA (3, 1)\nrows from m\ncolumns from n", GREEN, ha="left")
    label(axes, right, top - 2.6 * size, "faint: tiles that need\nthe same rows of A", BLUE, ha="left")
    label(axes, right, top - 3.5 * size, "strong: tiles that need\nthe same rows of B", BLUE, ha="left")
    return figure


def waves() -> Figure:
    """How many of 132 SMs have a tile in each wave, for three square sizes; of 32 waves the middle is left
    out.
    """
    figure, axes = sheet(4.1)
    head(axes, 0.3, 3.8, "SMs that have a tile, wave after wave: tiles of 128 x 128, one CTA an SM")
    floor, high, wide, pitch = 1.05, 1.9, 0.3, 0.42
    axes.plot([0.75, 9.4], [floor + high] * 2, color=GREY, lw=0.8, ls=":", zorder=1)
    axes.plot([0.75, 9.4], [floor] * 2, color=INK, lw=1)
    label(axes, 0.68, floor + high, f"{SMS}", GREY, ha="right")
    label(axes, 0.68, floor, "0", GREY, ha="right")
    label(axes, 0.4, floor + high / 2, "busy SMs", GREY, rotation=90)
    for x0, size in ((1.15, 1536), (2.85, 4096), (6.9, 8192)):
        tiles = (size // 128) ** 2
        full, last = divmod(tiles, SMS)
        shown = [*range(full + 1)] if full < 10 else [0, 1, None, full - 1, full]
        for place, wave in enumerate(shown):
            x = x0 + place * pitch
            if wave is None:
                label(axes, x + wide / 2, floor + high / 2, "...")
                continue
            busy = last if wave == full else SMS
            cell(axes, x, floor, wide, high * busy / SMS, "", GREEN, 0.2 if wave == full else 0.6)
            label(axes, x + wide / 2, floor - 0.17, str(wave + 1), GREY)
            if wave == full:
                label(axes, x + wide / 2, floor + high * busy / SMS + 0.15, str(last), weight="bold")
        middle = x0 + (len(shown) * pitch - (pitch - wide)) / 2
        label(axes, middle, floor - 0.5, f"M = N = {size}", weight="bold")
        label(axes, middle, floor - 0.75, f"{tiles:,} tiles, {full + 1} waves", GREY)
        label(axes, middle, floor + high + 0.2, f"{full} x {SMS}, then {last}", GREY)
    return figure


def one_sm() -> Figure:
    """The tensor cores of one SM over time: with one CTA, which copies and multiplies in turn, and with
    two.
    """
    figure, axes = sheet(3.7)
    copy, multiply, left, end = 1.2, 0.9, 1.5, 9.45
    period = copy + multiply

    def turns(y: float, start: float) -> None:
        x = start
        while x < end - 0.6:
            for length, name, colour in ((copy, "copy", BLUE), (multiply, "multiply", GREEN)):
                if x < end - 0.6:
                    box(axes, x + 0.02, y, min(length, end - x) - 0.04, 0.36, name, colour)
                x += length

    def tensor_cores(y: float, starts: list[float]) -> None:
        axes.plot([left, end], [y, y], color=INK, lw=1)
        for start in starts:
            x = start + copy
            while x < end - 0.6:
                cell(axes, x + 0.02, y, min(multiply, end - x) - 0.04, 0.3, "", GREEN, 0.8)
                x += period

    label(axes, 0.72, 3.2, "one CTA\nan SM", weight="bold")
    turns(3.02, left)
    label(axes, 0.72, 2.5, "tensor cores", GREY)
    tensor_cores(2.35, [left])
    label(axes, 0.72, 1.68, "two CTAs\nan SM", weight="bold")
    turns(1.72, left)
    turns(1.27, left + period / 2)
    label(axes, 0.72, 0.8, "tensor cores", GREY)
    tensor_cores(0.65, [left, left + period / 2])
    words = "One CTA copies while the other multiplies: the hardware overlaps what the code does not."
    label(axes, 4.8, 0.3, words)
    return figure


PICTURES = {"step03_grid": grid, "step03_waves": waves, "step03_one_sm": one_sm}
