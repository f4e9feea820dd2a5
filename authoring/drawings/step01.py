"""Step 1: the product cut into wgmmas, the way of the data, the swizzled tile, and who holds which sums."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, cell, head, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, MEMORY, ORANGE, RED, TEAL
from course_utils.tma.layouts import UNIT, swizzled

WARPS = (0.08, 0.22, 0.38, 0.56)  # the share of green, by warp


def product() -> Figure:
    """A and B as they lie in memory, cut into four slices of K; D in two halves. One wgmma of the eight is
    strong.
    """
    figure, axes = sheet(4.4)
    top, high, slice_width = 3.45, 2.4, 0.5
    for x, name, row in ((0.95, "A", "m"), (4.3, "B", "n")):
        middle = x + 2 * slice_width
        head(axes, middle, top + 0.6, f"{name}: 128 x 64", ha="center")
        halves = (0, 1) if name == "A" else (0,)
        height = high / len(halves)
        for i in range(4):
            for half in halves:
                share = 0.6 if (i, half) == (1, 0) else 0.16
                cell(
                    axes, x + i * slice_width, top - height * (half + 1), slice_width, height, "", BLUE, share
                )
            label(axes, x + (i + 0.5) * slice_width, top + 0.2, f"i = {i}", GREY)
        y = top - (0.95 if name == "A" else 1.75)
        arrow(axes, (x + 0.02, y), (x + 4 * slice_width - 0.02, y), "", INK)
        label(axes, x - 0.12, y, row, ha="right")
        label(axes, middle, top - high - 0.2, "K, 64", GREY)
    label(axes, 0.4, top - 0.35, "64\nrows", GREY)
    label(axes, 0.4, top - 1.8, "64\nrows", GREY)
    label(axes, 3.5, top - high / 2, "times each\nrow of")
    label(axes, 6.62, top - high / 2, "gives")
    x = 7.0
    head(axes, x + high / 2, top + 0.6, "D: 128 x 128", ha="center")
    for half in (0, 1):
        y = top - high / 2 * (half + 1)
        cell(axes, x, y, high, high / 2, "", GREEN, 0.16 if half else 0.5)
    axes.plot([x + 1.75], [top - 0.95], "o", color=INK, markersize=6, zorder=5)
    label(axes, x + 1.6, top - 0.95, "D[m, n]", ha="right")
    label(axes, x + high / 2, top - high - 0.2, "N, 128", GREY)
    words = "Strong: one wgmma, 64 x 128 x 16. Two halves of A times four slices of K: eight of them.\n"
    label(axes, 4.8, 0.4, words + "The arrows: two rows, each contiguous in memory.")
    return figure


def data_path() -> Figure:
    """From global memory to D: threads carry, the fence hands over, tensor cores read, threads carry
    again.
    """
    figure, axes = sheet(3.7)
    boxes = (
        (0.1, "global\nmemory\n\nA, B", GREY, MEMORY["global"]),
        (1.75, "registers\n\n16 bytes\na load", GREY, MEMORY["registers"]),
        (3.4, "shared\nmemory\n\nA, B\nswizzled", GREY, MEMORY["shared"]),
        (5.55, "tensor\ncores", GREEN, 0.22),
        (7.0, "registers\n\nacc, fp32", GREY, MEMORY["registers"]),
        (8.5, "global\nmemory\n\nD, fp16", GREY, MEMORY["global"]),
    )
    for x, text, colour, share in boxes:
        box(axes, x, 1.1, 1.0, 1.4, text, colour, share)
    arrow(axes, (1.1, 1.8), (1.75, 1.8), "load", BLUE)
    arrow(axes, (2.75, 1.8), (3.4, 1.8), "store", BLUE)
    arrow(axes, (4.4, 1.8), (5.55, 1.8), "wgmma", GREEN, offset=(0.18, 0.14))
    arrow(axes, (6.55, 1.8), (7.0, 1.8), "", GREEN)
    arrow(axes, (8.0, 1.8), (8.5, 1.8), "store", ORANGE)
    for x, text in ((4.62, "fence,\nbarrier"), (6.77, "wait")):
        axes.plot([x, x], [0.8, 2.8], color=TEAL, lw=1.8, ls="--", zorder=3)
        label(axes, x, 0.5, text, TEAL)
    spans = (
        (0.1, 4.4, "128 threads load, generic proxy", BLUE),
        (4.72, 1.95, "async proxy", GREEN),
        (6.87, 2.63, "128 threads again", ORANGE),
    )
    for x, width, text, colour in spans:
        box(axes, x, 2.95, width, 0.4, text, colour)
    label(axes, 2.05, 0.5, "each thread: 8 pieces of A, 8 of B", GREY)
    label(axes, 8.3, 0.5, "each thread: 128 sums", GREY)
    return figure


def swizzle() -> Figure:
    """Eight rows of a tile in shared memory: plain, and with the 128-byte swizzle. Piece 2 of every row is
    strong.
    """
    figure, axes = sheet(4.0)
    side, high = 0.47, 0.3
    sides = (
        (0.8, "plain: piece c of row r at place c", 0, RED, "the same four banks,\nso eight turns"),
        (5.6, "swizzled: piece c at place c xor r", 3, BLUE, "all 32 banks,\nso one turn"),
    )
    for left, name, code, colour, turns in sides:
        middle = left + 4 * side
        head(axes, middle, 3.72, name, ha="center")
        for r in range(8):
            y = 3.0 - r * high
            label(axes, left - 0.12, y + high / 2, f"row {r}", GREY, ha="right")
            for c in range(8):
                place = swizzled(8 * UNIT * r + UNIT * c, code) // UNIT % 8
                paint, share = (colour, 0.5) if c == 2 else (BLUE, 0.12)
                cell(axes, left + place * side, y, side, high, str(c), paint, share)
        for p in range(8):
            label(axes, left + (p + 0.5) * side, 3.43, f"{4 * p}-{4 * p + 3}", GREY)
        label(axes, left - 0.05, 3.43, "banks", GREY, ha="right")
        label(axes, middle, 0.45, f"piece 2 of eight rows: {turns}", colour)
    return figure


def fragment() -> Figure:
    """Left the tile of D by warps; right what the 32 lanes of one warp hold of 16 rows and 8 columns."""
    figure, axes = sheet(5.4)
    left, top, wide, high = 1.15, 4.75, 2.9, 3.84
    head(axes, left + wide / 2, top + 0.32, "acc: 128 x 128 sums, by warp", ha="center")
    for band in range(8):
        y = top - (band + 1) * high / 8
        cell(axes, left, y, wide, high / 8, f"warp {band % 4}", GREEN, WARPS[band % 4])
        label(axes, left - 0.1, y + high / 16, f"{16 * band} to {16 * band + 15}", GREY, ha="right")
    axes.plot([left - 0.9, left + wide + 0.1], [top - high / 2] * 2, color=INK, lw=1.6, zorder=5)
    label(axes, left + wide / 2, top - high - 0.35, "two wgmmas high:\neach 64 rows, 16 a warp")
    corner = (left + wide * 15 / 16, top - high / 8)
    axes.add_patch(Rectangle(corner, wide / 16, high / 8, lw=1.8, edgecolor=INK, facecolor="none", zorder=7))
    x, pair_width, row_high = 5.1, 0.86, high / 16
    for start, end in ((top, top), (top - high / 8, top - high)):
        axes.plot([left + wide, x], [start, end], color=INK, lw=0.9, zorder=3)
    middle = x + 2 * pair_width
    head(axes, middle + 0.1, top + 0.32, "16 rows x 8 columns of warp 0", ha="center")
    for row in range(16):
        y = top - (row + 1) * row_high
        label(axes, x + 4 * pair_width + 0.1, y + row_high / 2, f"row {row}", GREY, ha="left")
        for pair in range(4):
            lane = 4 * (row % 8) + pair
            share = 0.6 if lane == 5 else 0.08
            cell(axes, x + pair * pair_width, y, pair_width, row_high, f"lane {lane}", GREEN, share)
    axes.plot([x, x + 4 * pair_width], [top - high / 2] * 2, color=INK, lw=1.6, zorder=5)
    label(axes, middle, top - high - 0.35, "each lane: two neighbours,\nand two more 8 rows below")
    return figure


PICTURES = {
    "step01_product": product,
    "step01_data_path": data_path,
    "step01_swizzle": swizzle,
    "step01_fragment": fragment,
}
