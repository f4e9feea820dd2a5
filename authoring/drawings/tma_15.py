"""Notebook 15: which registers are a slice of D; what a TMA store does when, and what each wait allows; three
epilogues in time.
"""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED

SLICES = (ORANGE, GREEN, BLUE, PURPLE)


def registers():
    """The tile in four slices, the 128 accumulator registers of a thread, and the two buffers on the way to
    D.
    """
    figure, axes = sheet(9.6, 4.3)
    label(axes, 2.0, 4.05, "the tile of D: 128 x 128 sums", size=9.5, weight="bold")
    for c, colour in enumerate(SLICES):
        x = 0.95 + c * 0.6
        box(axes, x, 2.1, 0.57, 1.6, "", colour)
        label(axes, x + 0.285, 2.9, f"slice\n{c}", size=8.5)
    label(axes, 0.5, 3.3, "rows\n0 to 63", size=8, colour=GREY)
    label(axes, 0.5, 2.5, "rows\n64 to 127", size=8, colour=GREY)
    label(axes, 2.13, 1.88, "32 columns each", size=8, colour=GREY)

    label(axes, 6.25, 4.05, "registers of one thread", size=9.5, weight="bold")
    for y, base, rows in ((3.2, 0, "rows 0 to 63"), (2.3, 64, "rows 64 to 127")):
        for c, colour in enumerate(SLICES):
            x = 3.5 + c * 1.4
            first = base + 16 * c
            box(axes, x, y, 1.37, 0.5, f"acc {first} to {first + 15}", colour, size=8.5)
        label(axes, 9.1, y - 0.15, rows, size=8, colour=GREY, ha="right")
    label(
        axes,
        6.25,
        1.88,
        "slice 1 is 32 of the 128 registers, in every thread: chosen when the kernel is compiled",
        size=8,
        colour=GREEN,
    )

    for b, y in ((0, 0.95), (1, 0.25)):
        box(axes, 3.5, y, 2.1, 0.5, f"buffer {b} in shared memory\n128 x 32 halves: 8 KiB", GREY, size=8)
        box(axes, 6.55, y + 0.08, 0.75, 0.34, "TMA", PURPLE, size=8.5, weight="bold")
        arrow(axes, (5.6, y + 0.25), (6.55, y + 0.25), "", PURPLE)
        arrow(axes, (7.3, y + 0.25), (8.2, y + 0.25), "", PURPLE)
    box(axes, 8.2, 0.25, 1.1, 1.2, "D in\nglobal\nmemory", GREY, size=9)
    for y, words in ((1.2, "slices 0 and 2, as fp16"), (0.5, "slices 1 and 3, as fp16")):
        arrow(axes, (1.9, y), (3.5, y), "", ORANGE)
        label(axes, 1.8, y, words, size=8, ha="right")
    return figure


def waits():
    """One store along time, where each wait returns, and what it allows."""
    figure, axes = sheet(9.6, 3.5)
    left, right = 1.75, 9.3
    asked, read, written = 2.6, 4.9, 8.0
    label(axes, 1.6, 2.6, "threads", size=8.5, ha="right")
    label(axes, 1.6, 2.0, "TMA", size=8.5, ha="right")
    box(axes, left, 2.4, 0.8, 0.42, "fill, fence,\nmeet", ORANGE, size=7.5)
    box(axes, asked + 0.03, 2.4, 0.95, 0.42, "store,\ncommit", PURPLE, size=7.5)
    box(
        axes,
        3.65,
        2.4,
        5.55,
        0.42,
        "free to do other things, until something needs a wait",
        GREY,
        size=8,
        dashed=True,
        fill="white",
    )
    box(axes, 3.3, 1.8, read - 3.33, 0.42, "reads the buffer", PURPLE, size=8)
    box(axes, 4.1, 1.3, written - 4.13, 0.42, "writes D in global memory", BLUE, size=8)
    arrow(axes, (3.1, 2.4), (3.3, 2.1), "", PURPLE)
    for x, colour, name, words, ha in (
        (read, PURPLE, "wait_group.read 0", "the buffer may be written again,\nor the CTA may end", "center"),
        (written, BLUE, "wait_group 0", "this thread may read\nwhat is in D now", "center"),
    ):
        axes.plot([x, x], [0.98, 3.0], color=colour, lw=1.6, zorder=5)
        label(axes, x, 3.2, f"{name} returns", size=8.5, colour=colour, weight="bold", ha=ha)
        label(axes, x, 0.72, words, size=8.5, colour=colour, ha=ha)
    axes.plot([left, right], [0.35, 0.35], color=GREY, lw=1)
    label(axes, left, 0.15, "time", size=8, colour=GREY, ha="left")
    label(axes, right, 0.15, "lengths are not to scale", size=8, colour=GREY, ha="right")
    return figure


def three_ways():
    """The epilogue with one store of all, with slices through one buffer, and with slices through two."""
    figure, axes = sheet(9.6, 5.05)
    left, unit = 1.9, 0.49
    fill, read, write = 1.0, 1.0, 1.0  # of a slice of 32 columns

    def span(start, length, y, text, colour):
        box(axes, left + start * unit, y, length * unit - 0.02, 0.34, text, colour, size=7.5)

    def rows(top, name, memory):
        label(axes, 0.2, top + 0.42, name, size=9.5, weight="bold", ha="left")
        label(axes, 9.4, top + 0.42, memory, size=8, colour=GREY, ha="right")
        for y, who in ((top - 0.1, "threads fill"), (top - 0.5, "TMA reads"), (top - 0.9, "TMA writes D")):
            label(axes, left - 0.15, y + 0.17, who, size=8, ha="right")

    def mark(time, top, words, ha="left"):
        x = left + time * unit
        axes.plot([x, x], [top - 0.98, top + 0.26], color=RED, lw=1.4, zorder=5)
        label(
            axes, x + (0.06 if ha == "left" else -0.06), top - 0.42 + 0.09, words, size=8, colour=RED, ha=ha
        )

    top = 4.45
    rows(top, "whole, then a full wait", "32 KiB for D")
    span(0, 4 * fill, top - 0.1, "all of D", ORANGE)
    span(4, 4 * read, top - 0.5, "all of D", PURPLE)
    span(5, 4 * write, top - 0.9, "all of D", BLUE)
    mark(9, top, "on to the next")

    top = 2.88
    rows(top, "slices, one buffer, a full wait after each", "8 KiB")
    for c in range(4):
        start = c * (fill + read + write)
        span(start, fill, top - 0.1, str(c), ORANGE)
        span(start + fill, read, top - 0.5, str(c), PURPLE)
        span(start + fill + read, write, top - 0.9, str(c), BLUE)
    mark(12, top, "on to\nthe next")

    top = 1.31
    rows(top, "slices, two buffers, wait_group.read 1 before each", "2 x 8 KiB")
    for c in range(4):
        start = c * fill
        span(start, fill, top - 0.1, str(c), ORANGE)
        span(start + fill, read, top - 0.5, str(c), PURPLE)
        span(start + fill + read, write, top - 0.9, str(c), BLUE)
    mark(4, top, "")
    label(
        axes,
        9.4,
        0.14,
        "every part drawn equally long: an order, not a measurement",
        size=8,
        colour=GREY,
        ha="right",
    )
    label(
        axes,
        left + 6.2 * unit,
        top + 0.07,
        "on to the next: the stores end meanwhile",
        size=8,
        colour=RED,
        ha="left",
    )
    arrow(axes, (left + 6.15 * unit, top + 0.07), (left + 4.05 * unit, top + 0.07), "", RED)
    return figure


PICTURES = {"tma15_registers": registers, "tma15_waits": waits, "tma15_three_ways": three_ways}
