"""Step 2: the sum over K tiles in one accumulator; the two barriers of a round."""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, RED


def sum_over_k():
    """The K tiles of A and B above, the one accumulator below: overwritten by the first product, added to by
    the others.
    """
    figure, axes = sheet(9.6, 3.9)
    tiles, left, width, step = 5, 1.75, 1.05, 1.25
    label(axes, 0.85, 3.25, "A\n128 rows", size=9)
    label(axes, 0.85, 2.4, "B\n128 rows", size=9)
    label(axes, 0.85, 0.85, "acc\n128 x 128, fp32\nin registers", size=9)
    for k in range(tiles):
        x = left + k * step
        colour = ORANGE if k == 0 else BLUE
        box(axes, x, 2.95, width, 0.6, f"columns\n{64 * k} to {64 * k + 63}", BLUE, size=8)
        box(axes, x, 2.1, width, 0.6, f"columns\n{64 * k} to {64 * k + 63}", BLUE, size=8)
        label(axes, x + width / 2, 3.72, f"k = {k}", size=9, colour=GREY)
        arrow(axes, (x + width / 2, 2.1), (x + width / 2, 1.2), "", GREEN if k else ORANGE)
        label(
            axes,
            x + width / 2 + 0.08,
            1.68,
            "add" if k else "overwrite",
            size=8.5,
            colour=GREEN if k else colour,
            ha="left",
            weight="bold",
        )
    box(
        axes, left, 0.55, (tiles - 1) * step + width, 0.65, "the same registers in every round", GREEN, size=9
    )
    arrow(
        axes,
        (left + (tiles - 1) * step + width, 0.87),
        (8.55, 0.87),
        "once,\nat the end",
        ORANGE,
        offset=(0.02, 0.3),
    )
    box(axes, 8.55, 0.6, 0.85, 0.55, "D, fp16", ORANGE, size=8.5)
    label(
        axes,
        left + 0.02,
        0.25,
        "Before round 0 these registers hold anything at all.",
        size=8.5,
        colour=GREY,
        ha="left",
    )
    return figure


def one_round():
    """Four warps over one round and the start of the next: copies of different length, barrier, wgmma,
    barrier.
    """
    figure, axes = sheet(9.6, 3.3)
    first, second, again = 4.05, 7.15, 9.4
    for w, (copied, left) in enumerate(zip((3.0, 3.75, 2.7, 3.4), (6.55, 6.8, 6.35, 6.65), strict=True)):
        y = 2.25 - 0.5 * w
        label(axes, 0.55, y + 0.18, f"warp {w}", size=9)
        box(axes, 1.15, y, copied - 1.15, 0.36, "copies its part of tile k", BLUE, size=8)
        box(axes, copied + 0.04, y, first - copied - 0.08, 0.36, "", GREY)
        if second - left > 0.12:
            box(axes, left, y, second - left - 0.04, 0.36, "", GREY)
        box(axes, second + 0.06, y, again - second - 0.06, 0.36, "copies tile k + 1", BLUE, size=8)
    box(
        axes,
        first + 0.06,
        0.75,
        2.15,
        1.86,
        "wgmma\neach warp needs all of B\nand 16 rows of\neach half of A",
        GREEN,
        size=8.5,
    )
    for x, name in ((first, "barrier 1"), (second, "barrier 2")):
        axes.plot([x, x], [0.55, 2.85], color=RED, lw=2.4, zorder=5)
        label(axes, x, 3.0, name, size=9, colour=RED, weight="bold")
    label(axes, first, 0.33, "nobody multiplies before\nthe whole tile is there", size=8.5, colour=INK)
    label(axes, second, 0.33, "nobody refills before\neverybody has finished reading", size=8.5, colour=INK)
    label(axes, 1.15, 3.0, "grey: waiting", size=8, colour=GREY, ha="left")
    return figure


PICTURES = {"step02_sum_over_k": sum_over_k, "step02_one_round": one_round}
