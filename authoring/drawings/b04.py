"""Notebook b04: the way of the data from global memory to D, and what orders each part of it."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, MEMORY, ORANGE, PURPLE, TEAL


def data_path() -> Figure:
    """Six memories in a row; above the arrows who moves the data, below what says that it is there."""
    figure, axes = sheet(3.6)
    places = (
        (0.15, "global\nmemory\n\nA, B", MEMORY["global"]),
        (1.75, "shared\nmemory\n\nA, B", MEMORY["shared"]),
        (3.45, "tensor\nmemory\n\nacc, fp32", MEMORY["registers"]),
        (5.05, "registers\n\nfp32, then\nfp16", MEMORY["registers"]),
        (6.75, "shared\nmemory\n\nD, fp16", MEMORY["shared"]),
        (8.4, "global\nmemory\n\nD", MEMORY["global"]),
    )
    width, y, high = 1.0, 1.2, 1.3
    for x, text, share in places:
        box(axes, x, y, width, high, text, GREY, share)
    moves = (
        ("TMA load", BLUE, "full:\nbytes"),
        ("MMA", GREEN, "done:\ncommit"),
        ("ld", ORANGE, "wait::ld"),
        ("store", ORANGE, "fence,\nbarrier"),
        ("TMA store", PURPLE, "bulk\ngroup"),
    )
    for (x, *_), (to, *_), (text, colour, order) in zip(places, places[1:], moves, strict=False):
        middle = (x + width + to) / 2
        arrow(axes, (x + width, y + high / 2), (to, y + high / 2), "", colour)
        label(axes, middle, y + high + 0.25, text, colour)
        label(axes, middle, y - 0.35, order, TEAL)
    spans = (
        (0.15, 4.3, "one thread issues", GREEN),
        (4.6, 3.15, "four warps", ORANGE),
        (7.85, 1.55, "one thread", PURPLE),
    )
    for x, wide, text, colour in spans:
        box(axes, x, 3.0, wide, 0.38, text, colour)
    label(axes, 4.8, 0.28, "below each arrow: what says that the data has arrived", GREY)
    return figure


PICTURES = {"b04_data_path": data_path}
