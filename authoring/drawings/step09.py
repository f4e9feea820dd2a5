"""Step 9: two CTAs share B's tile and tell each other's empty barriers; what each SM asks for; K forth and
back.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import HEAD, WIDTH, arrow, box, head, label, sheet, time
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, MEMORY, TEAL

A, B = 0.16, 0.5  # the share of blue in what belongs to A, and to B


def cluster() -> Figure:
    """Two CTAs side by side: one B for both by multicast, bytes on both full barriers, arrivals on both empty
    barriers.
    """
    figure, axes = sheet(6.4)
    box(axes, 0.15, 5.5, 9.3, 0.75, "", GREY, MEMORY["L2"])
    head(axes, 0.3, 5.87, "L2")
    box(axes, 0.85, 5.63, 1.75, 0.48, "A, rows of CTA 0", BLUE, A)
    box(axes, 3.8, 5.63, 2.0, 0.48, "B, one tile for both", BLUE, B)
    box(axes, 7.0, 5.63, 1.75, 0.48, "A, rows of CTA 1", BLUE, A)
    for rank in (0, 1):
        _cta(axes, rank)
    label(axes, 4.8, 5.15, "one load,\ntwo copies", BLUE)
    words = "A consumer says: I have left stage s. Both CTAs hear it, since one load writes to both."
    label(axes, 4.8, 0.3, words, TEAL)
    return figure


def _cta(axes: Axes, rank: int) -> None:
    """One CTA of the two; CTA 1 is CTA 0's mirror image."""

    def x(left: float, width: float = 0.0) -> float:
        return WIDTH - left - width if rank else left

    box(axes, x(0.15, 4.5), 0.6, 4.5, 4.2, "", GREY, 0, dashed=True)
    label(axes, x(2.4), 4.55, f"CTA {rank}, one SM", weight="bold")
    box(axes, x(0.35, 1.3), 3.6, 1.3, 0.6, "A, stage s", BLUE, A)
    box(axes, x(3.15, 1.3), 3.6, 1.3, 0.6, "B, stage s", BLUE, B)
    box(axes, x(1.95, 0.9), 3.67, 0.9, 0.46, "full s", TEAL, 0.12)
    box(axes, x(1.9, 1.0), 1.1, 1.0, 0.46, "empty s", TEAL, 0.12)
    box(axes, x(0.35, 1.3), 2.3, 1.3, 0.5, "producer", BLUE)
    box(axes, x(3.15, 1.3), 2.3, 1.3, 0.5, "consumer", GREEN)
    arrow(axes, (x(1.0), 5.63), (x(1.0), 4.2), "", BLUE)
    arrow(axes, (x(4.05), 5.63), (x(4.05), 4.2), "", BLUE, width=2.6)
    arrow(axes, (x(1.65), 3.9), (x(1.95), 3.9), "", BLUE, dashed=True)
    arrow(axes, (x(3.15), 3.9), (x(2.85), 3.9), "", BLUE, dashed=True)
    label(axes, x(2.4), 4.27, "bytes", BLUE)
    arrow(axes, (x(1.2), 2.8), (x(2.15), 3.67), "", TEAL)
    label(axes, x(1.05), 3.22, "1 arrival,\nexpects", TEAL)
    arrow(axes, (x(2.65), 3.67), (x(3.6), 2.8), "", TEAL, dashed=True)
    label(axes, x(3.6), 3.3, "waits", TEAL)
    arrow(axes, (x(3.5), 2.3), (x(2.9), 1.45), "", TEAL)
    arrow(axes, (x(4.2), 2.3), (WIDTH - x(2.9), 1.25), "", TEAL)
    arrow(axes, (x(1.9), 1.4), (x(1.2), 2.3), "", TEAL, dashed=True)
    label(axes, x(0.95), 1.5, "waits\nfor both", TEAL)


def bytes_asked() -> Figure:
    """KiB that each SM asks L2 for in one K tile: without multicast, and in the two ways of multicast."""
    figure, axes = sheet(3.8)
    unit, left = 0.13, 2.85
    whole = [("A", 16, A), ("B", 16, B)]
    half = [("A", 16, A), ("½ B", 8, B)]
    rows = (
        ("no multicast", "step 8", (whole, whole)),
        (
            "multicast, TileLang",
            "rank 0 loads both",
            ([("A", 16, A), ("B, for both", 16, B)], [("A", 16, A)]),
        ),
        ("multicast, CuTe DSL", "each loads a half", (half, half)),
    )
    for i, (name, who, sms) in enumerate(rows):
        y = 2.45 - i * 1.1
        label(axes, 0.15, y + 0.6, name, weight="bold", ha="left")
        label(axes, 0.15, y + 0.32, who, GREY, ha="left")
        for sm, parts in enumerate(sms):
            x, bottom = left, y + (0.46 if sm == 0 else 0.0)
            label(axes, left - 0.1, bottom + 0.19, f"CTA {sm}", ha="right")
            for text, amount, share in parts:
                box(axes, x + 0.02, bottom, amount * unit - 0.04, 0.39, text, BLUE, share)
                x += amount * unit
            label(axes, x + 0.1, bottom + 0.19, f"{sum(part[1] for part in parts)} KiB", ha="left")
        total = sum(part[1] for parts in sms for part in parts)
        label(axes, 9.35, y + 0.42, f"{total} KiB", size=HEAD, weight="bold", ha="right", colour=INK)
    label(axes, 9.35, 3.55, "loaded per K tile", GREY, ha="right")
    return figure


def forth_and_back() -> Figure:
    """Two tiles in a row, K always forwards and K forth and back: what the second begins with."""
    figure, axes = sheet(3.0)
    width, left, gap = 0.44, 1.45, 0.35
    second = left + 8 * width + gap
    for y, name, order in ((1.85, "always\nforwards", range(8)), (0.75, "forth\nand back", range(7, -1, -1))):
        label(axes, 0.75, y + 0.22, name, weight="bold")
        for i in range(8):
            box(axes, left + i * width, y, width - 0.04, 0.44, str(i), BLUE, A)
        for i, k in enumerate(order):
            box(axes, second + i * width, y, width - 0.04, 0.44, str(k), BLUE, 0.55 if k >= 5 else 0)
    label(axes, left + 4 * width, 2.65, "a tile, its K tiles in order of time")
    label(axes, second + 4 * width, 2.65, "the next tile, same rows of A")
    label(axes, 4.8, 0.35, "strong: A's part was read a moment ago and is most likely still in L2", BLUE)
    end = second + 8 * width
    time(axes, left, end, 1.52)
    return figure


PICTURES = {"step09_cluster": cluster, "step09_bytes": bytes_asked, "step09_forth_and_back": forth_and_back}
