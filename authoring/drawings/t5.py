"""Notebook t5: which registers are a slice of D; what a TMA store does when, and what each wait allows; three
epilogues in time.
"""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet, time
from course_utils.figures.theme import GREEN, GREY, INK, MEMORY, ORANGE, PURPLE, TEAL

SLICES = (0.08, 0.22, 0.38, 0.56)  # the share of green, by slice


def registers() -> Figure:
    """The tile in four slices, the 128 accumulator registers of a thread, and the two buffers on the way to
    D.
    """
    figure, axes = sheet(4.85)
    head(axes, 1.75, 4.55, "the tile of D: 128 x 128 sums", ha="center")
    for c, share in enumerate(SLICES):
        box(axes, 1.0 + c * 0.55, 2.45, 0.52, 1.75, f"slice\n{c}", GREEN, share)
    label(axes, 0.5, 3.75, "rows\n0 to 63", GREY)
    label(axes, 0.5, 2.9, "rows 64\nto 127", GREY)
    label(axes, 2.1, 2.25, "32 columns each", GREY)

    head(axes, 6.5, 4.55, "registers of one thread", ha="center")
    for y, base, rows in ((3.7, 0, "rows 0 to 63"), (2.8, 64, "rows 64 to 127")):
        for c, share in enumerate(SLICES):
            first = base + 16 * c
            words = f"acc {first} to {first + 15}"
            box(axes, 3.6 + c * 1.46, y, 1.43, 0.5, words, GREEN, share)
        label(axes, 9.4, y - 0.17, rows, GREY, ha="right")
    words = "slice 1 is 32 of the 128 registers, in every thread:\nchosen when the kernel is compiled"
    label(axes, 6.4, 2.15, words, GREEN)

    for b, y in ((0, 1.05), (1, 0.3)):
        words = f"buffer {b} in shared memory\n128 x 32 halves: 8 KiB"
        box(axes, 3.15, y, 2.45, 0.55, words, GREY, MEMORY["shared"])
        box(axes, 6.45, y + 0.07, 0.8, 0.4, "TMA", PURPLE, weight="bold")
        arrow(axes, (5.6, y + 0.27), (6.45, y + 0.27), "", PURPLE)
        arrow(axes, (7.25, y + 0.27), (8.2, y + 0.27), "", PURPLE)
        label(axes, 2.15, y + 0.27, f"slices {b} and {b + 2}, as fp16", ha="right")
        arrow(axes, (2.25, y + 0.27), (3.15, y + 0.27), "", ORANGE)
    box(axes, 8.2, 0.3, 1.2, 1.3, "D in\nglobal\nmemory", GREY, MEMORY["global"])
    return figure


def waits() -> Figure:
    """One store along time, where each wait returns, and what it allows."""
    figure, axes = sheet(4.3)
    left, right = 1.1, 9.4
    read, written = 5.0, 8.0
    label(axes, left - 0.1, 3.72, "threads", ha="right")
    label(axes, left - 0.1, 2.47, "TMA", ha="right")
    box(axes, left, 3.45, 1.15, 0.54, "fill, fence,\nmeet", ORANGE)
    box(axes, 2.35, 3.45, 0.9, 0.54, "store,\ncommit", PURPLE)
    box(axes, 3.35, 3.45, right - 3.35, 0.54, "free, until something needs a wait", GREY, 0, dashed=True)
    box(axes, 3.95, 2.6, written - 3.95, 0.42, "writes D in global memory", PURPLE, 0.06)
    box(axes, 3.3, 2.05, read - 3.3, 0.42, "reads the buffer", PURPLE)
    arrow(axes, (3.1, 3.45), (3.5, 2.47), "", PURPLE)
    returns = (
        (read, 2.05, "wait_group.read 0 returns", "the buffer may be written again,\nor the CTA may end"),
        (written, 2.6, "wait_group 0 returns", "this thread may read\nwhat is in D now"),
    )
    for x, top, name, words in returns:
        axes.plot([x, x], [1.6, top], color=TEAL, lw=1.8, zorder=5)
        label(axes, x, 1.42, name, TEAL, weight="bold")
        label(axes, x, 1.04, words, TEAL)
    time(axes, left, right, 0.6)
    label(axes, right, 0.35, "lengths are not to scale", GREY, ha="right")
    return figure


def three_ways() -> Figure:
    """The epilogue with one store of all, with slices through one buffer, and with slices through two."""
    figure, axes = sheet(6.0)
    left, unit = 1.5, 0.59
    fill, read, write = 1.0, 1.0, 1.0  # of a slice of 32 columns

    def span(start: float, length: float, y: float, text: str, colour: str, share: float = 0.22) -> None:
        box(axes, left + start * unit, y, length * unit - 0.02, 0.36, text, colour, share)

    def rows(top: float, name: str, memory: str) -> None:
        head(axes, 0.15, top + 0.47, name)
        label(axes, 9.4, top + 0.47, memory, GREY, ha="right")
        for y, who in ((top - 0.1, "threads fill"), (top - 0.52, "TMA reads"), (top - 0.94, "TMA writes D")):
            label(axes, left - 0.12, y + 0.18, who, ha="right")

    def whole(start: float, length: float, top: float, text: str) -> None:
        span(start, length, top - 0.1, text, ORANGE)
        span(start + fill * length, length, top - 0.52, text, PURPLE)

    def mark(when: float, top: float, words: str) -> None:
        x = left + when * unit + 0.02
        axes.plot([x, x], [top - 1.0, top + 0.28], color=INK, lw=1.4, zorder=5)
        label(axes, x + 0.08, top - 0.35, words, ha="left")

    top = 5.15
    rows(top, "whole, then a full wait", "32 KiB for D")
    whole(0, 4, top, "all of D")
    span(5, 4 * write, top - 0.94, "all of D", PURPLE, 0.06)
    mark(9, top, "on to the next")

    top = 3.3
    rows(top, "slices, one buffer, a full wait after each", "8 KiB")
    for c in range(4):
        start = c * (fill + read + write)
        whole(start, 1, top, str(c))
        span(start + fill + read, write, top - 0.94, str(c), PURPLE, 0.06)
    mark(12, top, "on to\nthe next")

    top = 1.45
    rows(top, "slices, two buffers, wait_group.read 1 before each", "2 x 8 KiB")
    for c in range(4):
        whole(c * fill, 1, top, str(c))
        span(c * fill + fill + read, write, top - 0.94, str(c), PURPLE, 0.06)
    x = left + 4 * unit + 0.02
    axes.plot([x, x], [top - 0.12, top + 0.28], color=INK, lw=1.4, zorder=5)
    label(axes, x + 0.08, top + 0.08, "on to the next: the stores end meanwhile", ha="left")
    label(axes, 9.4, 0.25, "every part drawn equally long: an order, not a measurement", GREY, ha="right")
    return figure


PICTURES = {"t5_registers": registers, "t5_waits": waits, "t5_three_ways": three_ways}
