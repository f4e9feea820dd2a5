"""Notebook t6: which rows of Q and K one CTA multiplies, where heads lie side by side; a row of 96 columns as
boxes.
"""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet
from course_utils.figures.theme import GREEN, GREY, ORANGE, PURPLE, TEAL

HEADS, KV_HEADS = 4, 2


def heads() -> Figure:
    """Q and K of one batch as they are stored, the boxes of one CTA's head, and its tile of S."""
    figure, axes = sheet(4.2)
    head(axes, 0.15, 3.95, "Q: a row of the sequence holds all heads")
    for h in range(HEADS):
        share = 0.45 if h == 1 else 0.08
        box(axes, 0.15 + h * 0.95, 2.15, 0.92, 1.5, f"head {h}\nD columns", GREEN, share)
    label(axes, 2.05, 1.85, "one box: 128 rows of head 1, a stride of 4 x D", GREEN)
    head(axes, 5.0, 3.95, "K: fewer heads, two of Q's share one")
    for h in range(KV_HEADS):
        share = 0.45 if h == 0 else 0.08
        box(axes, 5.0 + h * 0.95, 2.15, 0.92, 1.5, f"kv head {h}\nD columns", ORANGE, share)
    label(axes, 6.3, 1.85, "boxes of 64 rows of kv head 1 // 2 = 0", ORANGE)
    box(axes, 3.6, 0.2, 1.9, 1.2, "S of head 1:\n128 rows,\n64 columns at a time", PURPLE)
    arrow(axes, (1.6, 1.65), (3.6, 1.0), "", GREEN)
    arrow(axes, (5.6, 1.65), (5.5, 1.0), "", ORANGE)
    label(
        axes,
        6.0,
        0.6,
        "rows past the sequence come as zeros,\nand the store of S is clipped",
        TEAL,
        ha="left",
    )
    return figure


def pieces() -> Figure:
    """A row of 96 halves under swizzle 128B, and as three boxes under swizzle 64B."""
    figure, axes = sheet(2.7)
    head(axes, 0.15, 2.45, "a row of D = 96 halves: 192 bytes")
    label(axes, 0.15, 1.85, "swizzle 128B", ha="left")
    box(axes, 1.9, 1.6, 3.4, 0.5, "64 halves, 128 bytes", GREEN)
    box(axes, 5.32, 1.6, 1.7, 0.5, "32 halves", GREY, 0.1, dashed=True)
    label(axes, 7.15, 1.85, "half a span is left over", GREY, ha="left")
    label(axes, 0.15, 0.95, "swizzle 64B", ha="left")
    for n in range(3):
        box(axes, 1.9 + n * 1.71, 0.7, 1.69, 0.5, "32 halves, 64 bytes", GREEN)
    label(axes, 7.15, 0.95, "three boxes, one barrier", GREEN, ha="left")
    label(axes, 4.5, 0.3, "every box has its own rows of 64 bytes in shared memory", GREY)
    return figure


PICTURES = {"t6_heads": heads, "t6_pieces": pieces}
