"""Notebook b10: a pair's tile of 512 rows, and where its four parts lie; who waits for whom."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, cell, head, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, MEMORY, ORANGE, PURPLE, TEAL


def parts() -> Figure:
    """D's tile on the left, in four parts of 128 rows; on the right both tensor memories, two parts each."""
    figure, axes = sheet(4.6)
    head(axes, 0.25, 4.3, "a pair's tile of D")
    colours = (GREEN, PURPLE)
    for part in range(4):
        y = 3.2 - 0.8 * part
        words = f"rows {128 * part} to {128 * part + 127}"
        cell(axes, 0.4, y, 2.1, 0.8, words, colours[part // 2], 0.22)
        label(axes, 3.35, y + 0.4, f"MMA warp {part // 2},\nCTA {part % 2}", colours[part // 2])
    label(axes, 1.45, 0.5, "256 columns", GREY)
    for rank in (0, 1):
        y = 2.55 if rank == 0 else 0.75
        head(axes, 4.45, y + 1.45, f"tensor memory of CTA {rank}")
        for consumer in (0, 1):
            first = 256 * consumer + 128 * rank
            x = 4.45 + 2.45 * consumer
            words = f"rows {first} to {first + 127}"
            cell(axes, x, y, 2.45, 1.2, words, colours[consumer], MEMORY["registers"])
    label(axes, 5.68, 0.5, "columns 0 to 255", GREY)
    label(axes, 8.13, 0.5, "columns 256 to 511", GREY)
    return figure


def roles() -> Figure:
    """Two MMA warps share a stage and free it together; each has its accumulator and its epilogue."""
    figure, axes = sheet(4.0)
    box(axes, 0.2, 1.2, 1.35, 1.6, "stage s\n\nA, twice\nB, once", BLUE, MEMORY["shared"])
    for consumer, (y, colour) in enumerate(((2.55, GREEN), (0.55, PURPLE))):
        box(axes, 2.6, y, 1.4, 0.9, f"MMA warp {consumer}", colour, 0.3)
        columns = f"columns\n{256 * consumer} to {256 * consumer + 255}"
        box(axes, 5.0, y, 1.5, 0.9, columns, colour, MEMORY["registers"])
        box(axes, 7.65, y, 1.7, 0.9, f"epilogue,\nwarps {4 * consumer} to {4 * consumer + 3}", ORANGE)
        arrow(axes, (1.55, 2.3 if consumer == 0 else 1.7), (2.6, y + 0.45), "", BLUE)
        arrow(axes, (4.0, y + 0.45), (5.0, y + 0.45), "", colour)
        arrow(axes, (6.5, y + 0.45), (7.65, y + 0.45), "", ORANGE)
        label(axes, 7.07, y + 0.68, f"acc_full[{consumer}]", TEAL)
    box(axes, 2.6, 1.75, 2.3, 0.5, "empty s: 2 commits", TEAL, 0.12)
    arrow(axes, (3.3, 2.55), (3.3, 2.25), "", TEAL, dashed=True)
    arrow(axes, (3.3, 1.45), (3.3, 1.75), "", TEAL, dashed=True)
    label(axes, 4.8, 0.22, "both warps read the same B, and the stage is free when both have read it", GREY)
    return figure


PICTURES = {"b10_parts": parts, "b10_roles": roles}
