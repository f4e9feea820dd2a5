"""Notebook a2: two consumers that alternate; one tile's softmax under the products of another; key tiles of a
causal mask, and which tiles a CTA takes.
"""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet, time
from course_utils.attention import visible
from course_utils.figures.theme import GREEN, GREY, ORANGE, TEAL

TILES = 6  # of queries and of keys in the picture of a mask


def turns() -> Figure:
    """Above without turns, below with: products of one consumer lie beside the softmax of the other."""
    figure, axes = sheet(4.6)
    left, product, soft = 1.5, 1.0, 2.0

    def lane(y: float, name: str, begin: float, rounds: int) -> None:
        label(axes, left - 0.12, y + 0.22, name, ha="right")
        x = left + begin
        for n in range(rounds):
            text = "S0" if n == 0 else f"PV{n - 1}, S{n}"
            wide = product * (0.6 if n == 0 else 1)
            box(axes, x, y, wide - 0.04, 0.45, text, GREEN)
            box(axes, x + wide, y, soft - 0.04, 0.45, f"softmax {n}", ORANGE)
            x += wide + soft

    head(axes, 0.15, 4.3, "without turns: both want the tensor cores at once, then both compute")
    lane(3.45, "consumer 0", 0.0, 2)
    lane(2.85, "consumer 1", 0.15, 2)
    head(axes, 0.15, 2.25, "in turns: products of one run beside the softmax of the other")
    lane(1.4, "consumer 0", 0.0, 2)
    lane(0.8, "consumer 1", 1.3, 2)
    arrow(axes, (left + 0.56, 1.4), (left + 1.3, 1.25), "", TEAL, dashed=True)
    label(axes, left + 0.64, 1.0, "hands on the turn", TEAL)
    time(axes, left, 8.8, 0.35)
    return figure


def overlap() -> Figure:
    """One warpgroup: while it computes a softmax, the product of the tile before is still running."""
    figure, axes = sheet(3.1)
    left = 1.75
    label(axes, left - 0.12, 2.27, "tensor cores", ha="right")
    label(axes, left - 0.12, 1.37, "threads", ha="right")
    x = left
    for n in range(1, 4):
        box(axes, x, 2.05, 0.96, 0.45, f"S{n}", GREEN)
        box(axes, x + 1.0, 2.05, 0.96, 0.45, f"P V{n - 1}", GREEN)
        box(axes, x + 1.0, 1.15, 1.3, 0.45, f"softmax {n}", ORANGE)
        x += 2.4
    label(axes, left + 0.98, 2.72, "wait_group 1: S1 is over", TEAL)
    arrow(axes, (left + 0.98, 2.6), (left + 0.98, 1.62), "", TEAL, dashed=True)
    arrow(axes, (left + 2.33, 0.95), (left + 2.33, 1.6), "", TEAL, dashed=True)
    label(axes, left + 2.35, 0.8, "wait_group 0, rescale acc, write P", TEAL)
    time(axes, left, 8.8, 0.4)
    return figure


def causal() -> Figure:
    """Left which key tiles a query tile needs; right how long each is, and which two one CTA takes."""
    figure, axes = sheet(4.0)
    head(axes, 0.15, 3.72, "key tiles of each query tile, causal")
    size = 0.48
    for m in range(TILES):
        y = 3.05 - m * size
        label(axes, 0.95, y + size / 2, f"query tile {m}", ha="right")
        _, some, whole = visible(m, 128, 128, 128 * TILES, 128 * TILES)
        for n in range(TILES):
            kind = (
                ("all", GREEN, 0.3) if n < whole else ("mask", ORANGE, 0.4) if n < some else ("", GREY, 0.04)
            )
            box(axes, 1.05 + n * size, y, size - 0.03, size - 0.03, kind[0], kind[1], kind[2])
    label(axes, 2.5, 0.3, "empty: no query sees it, so it is skipped", GREY)
    head(axes, 4.7, 3.72, "a persistent CTA takes a long and a short one")
    for pair in range(TILES // 2):
        y = 2.85 - pair * 0.85
        long, short = TILES - 1 - pair, pair
        label(axes, 5.35, y + 0.25, f"CTA {pair}", ha="right")
        box(axes, 5.45, y, 0.48 * (long + 1) - 0.03, 0.5, f"query tile {long}", GREEN)
        box(axes, 5.45 + 0.48 * (long + 1), y, 0.48 * (short + 1) - 0.03, 0.5, f"{short}", GREEN, 0.1)
    label(axes, 7.0, 0.3, "the same number of key tiles for each", GREY)
    return figure


PICTURES = {"a2_turns": turns, "a2_overlap": overlap, "a2_causal": causal}
