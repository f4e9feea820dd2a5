"""Step 1: the product cut into wgmmas, the way of the data, the swizzled tile, and who holds which sums."""

from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, tint
from course_utils.tma.layouts import UNIT, swizzled

WARPS = (BLUE, GREEN, ORANGE, PURPLE)


def _cell(axes, x, y, width, height, text="", colour=GREY, share=0.22, size=8, lw=0.7, ink=INK) -> None:
    """A square-cornered cell, for grids that touch."""
    axes.add_patch(
        Rectangle((x, y), width, height, lw=lw, edgecolor=colour, facecolor=tint(colour, share), zorder=2)
    )
    if text:
        label(axes, x + width / 2, y + height / 2, text, size=size, colour=ink)


def product():
    """A and B as they lie in memory, cut into four slices of K; D in two halves. One wgmma of the eight is
    dark.
    """
    figure, axes = sheet(9.6, 3.9)
    top, high, slice_width = 3.1, 2.4, 0.42
    for x, name, rows in ((0.75, "A", "m"), (4.0, "B", "n")):
        label(axes, x + 2 * slice_width, top + 0.52, f"{name}: 128 x 64", size=9.5, weight="bold")
        for i in range(4):
            halves = (0, 1) if name == "A" else (None,)
            for half in halves:
                dark = i == 1 and half in (0, None)
                height = high / len(halves)
                y = top - height * ((half or 0) + 1)
                _cell(axes, x + i * slice_width, y, slice_width, height, "", BLUE, 0.6 if dark else 0.16)
            label(axes, x + (i + 0.5) * slice_width, top + 0.17, f"i = {i}", size=8, colour=GREY)
        y = top - (0.95 if name == "A" else 1.75)
        arrow(axes, (x + 0.02, y), (x + 4 * slice_width - 0.02, y), "", RED)
        label(axes, x - 0.12, y, rows, size=9, colour=RED, ha="right")
        label(axes, x + 2 * slice_width, top - high - 0.22, "K, 64", size=8, colour=GREY)
    label(axes, 0.3, top - 0.25, "64\nrows", size=8, colour=GREY)
    label(axes, 0.3, top - 1.8, "64\nrows", size=8, colour=GREY)
    label(axes, 3.05, top - high / 2, "times each\nrow of", size=8.5)
    label(axes, 6.25, top - high / 2, "gives", size=8.5)
    x = 6.85
    label(axes, x + high / 2, top + 0.52, "D: 128 x 128", size=9.5, weight="bold")
    for half in (0, 1):
        _cell(axes, x, top - high / 2 * (half + 1), high, high / 2, "", GREEN, 0.5 if half == 0 else 0.16)
    axes.plot([x + 1.75], [top - 0.95], "o", color=RED, markersize=6, zorder=5)
    label(axes, x + 1.62, top - 0.95, "D[m, n]", size=8.5, colour=RED, ha="right")
    label(axes, x + high / 2, top - high - 0.22, "N, 128", size=8, colour=GREY)
    label(
        axes,
        4.8,
        0.22,
        "Dark: one wgmma, 64 x 128 x 16.  Two halves of A times four slices of K: eight of them.  "
        "Red: two rows, each contiguous in memory.",
        size=8.5,
    )
    return figure


def data_path():
    """From global memory to D: threads carry, the fence hands over, tensor cores read, threads carry
    again.
    """
    figure, axes = sheet(9.6, 3.5)
    names = [
        (0.1, "global\nmemory\n\nA, B", GREY),
        (1.75, "registers\n\n16 bytes\na load", ORANGE),
        (3.4, "shared\nmemory\n\nA, B\nswizzled", BLUE),
        (5.25, "tensor\ncores", GREEN),
        (6.75, "registers\n\nacc, fp32", ORANGE),
        (8.4, "global\nmemory\n\nD, fp16", GREY),
    ]
    for x, text, colour in names:
        box(axes, x, 1.05, 1.08, 1.35, text, colour, size=8.5)
    for begin, end, text, colour in (
        (1.18, 1.75, "load", ORANGE),
        (2.83, 3.4, "store", ORANGE),
        (6.33, 6.75, "", GREEN),
        (7.83, 8.4, "store", ORANGE),
    ):
        arrow(axes, (begin, 1.72), (end, 1.72), text, colour, offset=(0, 0.15))
    arrow(axes, (4.48, 1.72), (5.25, 1.72), "wgmma", GREEN, offset=(0.08, 0.15))
    for x, text in ((4.62, "fence,\nbarrier"), (6.54, "wait")):
        axes.plot([x, x], [0.75, 2.7], color=RED, lw=1.8, ls="--", zorder=5)
        label(axes, x, 0.5, text, size=8.5, colour=RED)
    for x, width, text, colour in (
        (0.1, 4.4, "128 threads, generic proxy", ORANGE),
        (4.72, 1.72, "async proxy", GREEN),
        (6.64, 2.84, "128 threads again", ORANGE),
    ):
        box(axes, x, 2.85, width, 0.36, text, colour, size=8.5)
    label(axes, 2.3, 0.5, "each thread: 8 pieces of A, 8 of B", size=8.5, colour=GREY)
    label(axes, 8.1, 0.5, "each thread: 128 sums", size=8.5, colour=GREY)
    return figure


def swizzle():
    """Eight rows of a tile in shared memory: plain, and with the 128-byte swizzle. Piece 2 of every row is
    dark.
    """
    figure, axes = sheet(9.6, 3.7)
    side, high = 0.47, 0.29
    for left, name, code in (
        (0.75, "plain: piece c of row r at place c", 0),
        (5.5, "swizzled: piece c of row r at place c xor r", 3),
    ):
        label(axes, left + 4 * side, 3.42, name, size=9.5, weight="bold")
        for r in range(8):
            y = 2.8 - r * high
            label(axes, left - 0.12, y + high / 2, f"row {r}", size=8, colour=GREY, ha="right")
            for c in range(8):
                dark = c == 2
                _cell(
                    axes,
                    left + swizzled(8 * UNIT * r + UNIT * c, code) // UNIT % 8 * side,
                    y,
                    side,
                    high,
                    str(c),
                    RED if dark else BLUE,
                    0.55 if dark else 0.14,
                )
        for p in range(8):
            label(axes, left + (p + 0.5) * side, 3.2, f"{4 * p}-{4 * p + 3}", size=7, colour=GREY)
        label(axes, left - 0.12, 3.2, "banks", size=7.5, colour=GREY, ha="right")
    label(
        axes,
        0.75 + 4 * side,
        0.42,
        "piece 2 of eight rows: the same four banks,\nso eight turns",
        size=8.5,
        colour=RED,
    )
    label(
        axes,
        5.5 + 4 * side,
        0.42,
        "piece 2 of eight rows: all 32 banks,\nso one turn",
        size=8.5,
        colour=GREEN,
    )
    return figure


def fragment():
    """Left the tile of D by warps; right what the 32 lanes of one warp hold of 16 rows and 8 columns."""
    figure, axes = sheet(9.6, 4.3)
    left, top, side = 0.95, 3.75, 3.2
    label(axes, left + side / 2, top + 0.3, "acc: 128 x 128 sums, by warp", size=9.5, weight="bold")
    for band in range(8):
        y = top - (band + 1) * side / 8
        _cell(axes, left, y, side, side / 8, f"warp {band % 4}", WARPS[band % 4], 0.25)
        label(
            axes,
            left - 0.1,
            y + side / 16,
            f"{16 * band} to {16 * band + 15}",
            size=7.5,
            colour=GREY,
            ha="right",
        )
    axes.plot([left - 0.85, left + side + 0.1], [top - side / 2] * 2, color=INK, lw=1.6, zorder=5)
    label(axes, left + side / 2, top - side - 0.2, "two wgmmas high: each 64 rows, 16 a warp", size=8.5)
    axes.add_patch(
        Rectangle(
            (left + side / 16 * 15, top - side / 8),
            side / 16,
            side / 8,
            lw=1.8,
            edgecolor=RED,
            facecolor="none",
            zorder=7,
        )
    )
    x, wide, high = 5.55, 0.41, 0.195
    for corner in (top, top - side / 8):
        end = top if corner == top else top - 16 * high
        axes.plot([left + side, x], [corner, end], color=RED, lw=0.9, zorder=3)
    label(
        axes,
        x + 4 * wide,
        top + 0.3,
        "16 rows x 8 columns of warp 0: who holds what",
        size=9.5,
        weight="bold",
    )
    for row in range(16):
        y = top - (row + 1) * high
        label(axes, x + 8 * wide + 0.1, y + high / 2, f"row {row}", size=7, colour=GREY, ha="left")
        for pair in range(4):
            lane = 4 * (row % 8) + pair
            colour, share = (RED, 0.5) if lane == 5 else (BLUE, 0.12)
            _cell(axes, x + 2 * pair * wide, y, 2 * wide, high, f"lane {lane}", colour, share, size=7)
    axes.plot([x, x + 8 * wide], [top - 8 * high] * 2, color=INK, lw=1.4, zorder=5)
    label(
        axes, x + 4 * wide, top - side - 0.2, "each lane: two neighbours, and two more 8 rows below", size=8.5
    )
    return figure


PICTURES = {
    "step01_product": product,
    "step01_data_path": data_path,
    "step01_swizzle": swizzle,
    "step01_fragment": fragment,
}
