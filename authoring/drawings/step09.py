"""Step 9: two CTAs share B's tile and tell each other's empty barriers; what each SM asks for; K forth and
back.
"""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, PURPLE, RED


def cluster():
    """Two CTAs side by side: one B for both by multicast, arrivals on both empty barriers."""
    figure, axes = sheet(9.6, 5.15)
    box(axes, 0.3, 4.3, 9.0, 0.7, "", GREY)
    label(axes, 0.75, 4.65, "L2", size=10, weight="bold")
    box(axes, 1.2, 4.42, 1.7, 0.46, "A, rows of CTA 0", BLUE, size=8)
    box(axes, 3.8, 4.42, 2.0, 0.46, "B, one tile for both", PURPLE, size=8)
    box(axes, 6.7, 4.42, 1.7, 0.46, "A, rows of CTA 1", BLUE, size=8)
    for rank in (0, 1):

        def x(left, width=0.0, rank=rank):  # CTA 1 is CTA 0's mirror image
            return 9.6 - left - width if rank else left

        box(axes, x(0.3, 4.3), 0.4, 4.3, 3.35, "", GREY, fill="white", dashed=True)
        label(axes, x(2.4), 3.5, f"CTA {rank}, one SM", size=9, weight="bold")
        box(axes, x(0.5, 1.3), 2.55, 1.3, 0.62, "A, stage s", BLUE, size=8.5)
        box(axes, x(3.1, 1.3), 2.55, 1.3, 0.62, "B, stage s", PURPLE, size=8.5)
        box(axes, x(2.05, 0.8), 2.66, 0.8, 0.4, "full s", RED, size=8.5)
        box(axes, x(3.3, 0.9), 1.45, 0.9, 0.4, "empty s", RED, size=8.5)
        box(axes, x(0.5, 1.3), 1.4, 1.3, 0.5, "producer", BLUE, size=9)
        box(axes, x(0.5, 1.7), 0.55, 1.7, 0.5, "consumer", GREEN, size=9)
        arrow(axes, (x(2.05), 4.42), (x(1.3), 3.17), "", BLUE)
        arrow(axes, (x(4.5), 4.42), (x(3.8), 3.17), "", PURPLE, width=2.4)
        arrow(axes, (x(3.3), 1.65), (x(1.8), 1.65), "", RED, dashed=True)
        label(axes, x(2.55), 1.78, "wait for both", size=8, colour=RED)
        arrow(axes, (x(2.25), 2.66), (x(1.85), 1.05), "", RED, dashed=True)
        label(axes, x(2.55), 2.28, "wait", size=8, colour=RED)
        arrow(axes, (x(2.2), 0.9), (x(3.55), 1.45), "", RED)
        arrow(axes, (x(2.2), 0.7), (9.6 - x(3.75), 1.45), "", RED)
    label(axes, 4.8, 4.02, "one load,\ntwo copies", size=8, colour=PURPLE)
    label(
        axes,
        4.8,
        0.2,
        "consumer: I have left stage s. Both CTAs have to hear it, since one load writes to both.",
        size=8.5,
        colour=RED,
    )
    return figure


def bytes_asked():
    """KiB that each SM asks L2 for in one K tile: without multicast, and in the two ways of multicast."""
    figure, axes = sheet(9.6, 3.3)
    unit, left = 0.13, 3.05
    rows = [
        ("no multicast", "step 8", [[("A", 16, BLUE), ("B", 16, GREY)], [("A", 16, BLUE), ("B", 16, GREY)]]),
        (
            "multicast, TileLang",
            "rank 0 asks for both",
            [[("A", 16, BLUE), ("B, for both", 16, PURPLE)], [("A", 16, BLUE)]],
        ),
        (
            "multicast, CuTe DSL",
            "each asks for a half",
            [[("A", 16, BLUE), ("½ B", 8, PURPLE)], [("A", 16, BLUE), ("½ B", 8, PURPLE)]],
        ),
    ]
    for i, (name, who, sms) in enumerate(rows):
        y = 2.25 - i * 0.98
        label(axes, 0.25, y + 0.56, name, size=9, weight="bold", ha="left")
        label(axes, 0.25, y + 0.3, who, size=8, colour=GREY, ha="left")
        for sm, parts in enumerate(sms):
            x, height = left, y + (0.43 if sm == 0 else 0.0)
            label(axes, left - 0.12, height + 0.19, f"CTA {sm}", size=8, ha="right")
            for text, amount, colour in parts:
                box(axes, x + 0.02, height, amount * unit - 0.04, 0.37, text, colour, size=8)
                x += amount * unit
            label(axes, x + 0.12, height + 0.19, f"{sum(a for _, a, _ in parts)} KiB", size=8, ha="left")
        total = sum(a for parts in sms for _, a, _ in parts)
        label(axes, 9.0, y + 0.42, f"{total} KiB", size=10, weight="bold", ha="right", colour=INK)
    label(axes, 9.0, 3.16, "asked for, for one K tile", size=8, colour=GREY, ha="right")
    return figure


def forth_and_back():
    """Two tiles in a row, K always forwards and K forth and back: what the second begins with."""
    figure, axes = sheet(9.6, 2.5)
    width, left, gap = 0.42, 1.75, 0.35
    for y, name, second in ((1.5, "always\nforwards", range(8)), (0.45, "forth\nand back", range(7, -1, -1))):
        label(axes, 0.85, y + 0.22, name, size=9, weight="bold")
        for i in range(8):
            box(axes, left + i * width, y, width - 0.04, 0.44, str(i), BLUE, size=8.5)
        for i, k in enumerate(second):
            recent = k >= 5
            box(
                axes,
                left + 8 * width + gap + i * width,
                y,
                width - 0.04,
                0.44,
                str(k),
                GREEN if recent else GREY,
                size=8.5,
            )
    label(axes, left + 4 * width, 2.2, "a tile, its K tiles in order of time", size=8.5)
    label(axes, left + 12 * width + gap, 2.2, "the next tile, same rows of A", size=8.5)
    label(
        axes,
        left + 12 * width + gap,
        0.2,
        "green: A's part was read a moment ago and is most likely still in L2",
        size=8,
        colour=GREEN,
    )
    arrow(axes, (left, 1.28), (left + 16 * width + gap, 1.28), "", GREY)
    label(axes, left + 16 * width + gap + 0.28, 1.28, "time", size=8, colour=GREY)
    return figure


PICTURES = {"step09_cluster": cluster, "step09_bytes": bytes_asked, "step09_forth_and_back": forth_and_back}
