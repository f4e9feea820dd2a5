"""Step 2: the sum over K tiles in one accumulator; the two barriers of a round."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, TEAL


def sum_over_k() -> Figure:
    """The K tiles of A and B above, the one accumulator below: overwritten by the first product, added to by
    the others.
    """
    figure, axes = sheet(4.15)
    tiles, left, width, step = 5, 1.6, 1.1, 1.25
    for y, name in (
        (3.4, "A\n128 rows"),
        (2.55, "B\n128 rows"),
        (0.95, "acc\n128 x 128, fp32\nin registers"),
    ):
        label(axes, 0.8, y, name)
    for k in range(tiles):
        x = left + k * step
        for y in (3.1, 2.25):
            box(axes, x, y, width, 0.6, f"columns\n{64 * k} to {64 * k + 63}", BLUE)
        label(axes, x + width / 2, 3.9, f"k = {k}", GREY)
        arrow(axes, (x + 0.2, 2.25), (x + 0.2, 1.3), "", GREEN)
        label(axes, x + 0.3, 1.78, "add" if k else "overwrite", GREEN, ha="left", weight="bold")
    right = left + (tiles - 1) * step + width
    box(axes, left, 0.65, right - left, 0.65, "the same registers in every round", GREEN)
    arrow(axes, (right, 0.97), (8.5, 0.97), "", ORANGE)
    label(axes, 8.35, 1.5, "once,\nat the end", ORANGE)
    box(axes, 8.5, 0.7, 0.95, 0.55, "D, fp16", ORANGE)
    label(axes, left, 0.3, "Before round 0 these registers hold anything at all.", GREY, ha="left")
    return figure


def one_round() -> Figure:
    """Four warps over one round and the start of the next: copies of different length, barrier, wgmma,
    barrier.
    """
    figure, axes = sheet(3.75)
    first, second, again = 4.05, 7.15, 9.4
    for w, (copied, left) in enumerate(zip((3.0, 3.75, 2.7, 3.4), (6.6, 6.8, 6.5, 6.7), strict=True)):
        y = 2.5 - 0.5 * w
        label(axes, 0.55, y + 0.18, f"warp {w}")
        box(axes, 1.15, y, copied - 1.15, 0.36, "copies its part", BLUE)
        box(axes, copied + 0.04, y, first - copied - 0.1, 0.36, "", GREY, 0.3)
        box(axes, left, y, second - left - 0.06, 0.36, "", GREY, 0.3)
        box(axes, second + 0.06, y, again - second - 0.06, 0.36, "copies tile k + 1", BLUE)
    words = "wgmma\neach warp needs all\nof B and 16 rows of\neach half of A"
    box(axes, first + 0.06, 1.0, 2.2, 1.86, words, GREEN)
    for x, name in ((first, "barrier 1"), (second, "barrier 2")):
        axes.plot([x, x], [0.78, 3.15], color=TEAL, lw=2.4, zorder=5)
        label(axes, x, 3.35, name, TEAL, weight="bold")
    label(axes, first, 0.45, "no warp multiplies before\nthe whole tile is there", INK)
    label(axes, second, 0.45, "no warp refills before\nall have finished reading", INK)
    label(axes, 1.15, 3.35, "grey: waiting", GREY, ha="left")
    return figure


PICTURES = {"step02_sum_over_k": sum_over_k, "step02_one_round": one_round}
