"""Step 10: the wide tile and who holds which rows; what an SM has room for; D through two buffers."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet, time
from course_utils.chips import HOME
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, TEAL

CONSUMERS = (0.22, 0.45)  # the share of green, by consumer
A, B = 0.16, 0.5  # the share of blue in what belongs to A, and to B


def tile() -> Figure:
    """Step 9's tile beside step 10's, one K tile of A and B, at the same scale."""
    figure, axes = sheet(4.4)
    for left, name, columns, wide in (
        (0.3, "step 9: one consumer", 128, 1.7),
        (4.5, "step 10: two consumers", 256, 3.4),
    ):
        head(axes, left, 4.12, name)
        box(axes, left + 1.2, 3.05, wide, 0.75, f"B\n{columns} columns", BLUE, B)
        if columns == 128:
            box(axes, left, 1.15, 0.9, 1.7, "A\n128 rows", BLUE, A)
            box(axes, left + 1.2, 1.15, wide, 1.7, "consumer\n128 x 128", GREEN)
            arrow(axes, (left + 0.9, 2.0), (left + 1.2, 2.0), "", GREEN)
        else:
            for y, number in ((2.02, 1), (1.15, 2)):
                box(axes, left, y, 0.9, 0.83, "A\n64 rows", BLUE, A)
                words = f"consumer {number}: 64 x 256"
                box(axes, left + 1.2, y, wide, 0.83, words, GREEN, CONSUMERS[number - 1])
                arrow(axes, (left + 0.9, y + 0.41), (left + 1.2, y + 0.41), "", GREEN)
    label(axes, 1.75, 0.9, "128 sums a thread", GREY)
    label(axes, 6.8, 0.9, "128 sums a thread, in each of the two", GREY)
    label(axes, 1.75, 0.42, "16 KiB of A, 16 KiB of B:\n64 operations a byte")
    label(axes, 6.8, 0.42, "16 KiB of A, 32 KiB of B:\n85 operations a byte")
    return figure


def budget() -> Figure:
    """What an SM has room for: registers before and after setmaxnreg, and shared memory."""
    figure, axes = sheet(4.0)
    left, width = 1.75, 7.6

    def bar(y: float, name: str, parts: list[tuple], whole: float, end: str) -> None:
        label(axes, left - 0.12, y + 0.25, name, ha="right")
        x = left
        for text, amount, colour, share in parts:
            size = amount / whole * width
            box(axes, x + 0.015, y, size - 0.03, 0.5, text, colour, share)
            x += size
        label(axes, left + width, y - 0.16, end, GREY, ha="right")

    def roles(*each: int) -> list[tuple]:
        names = ("producer", "consumer 1", "consumer 2")
        paint = ((BLUE, 0.22), *((GREEN, share) for share in CONSUMERS))
        return [
            (f"{name}\n{one} x 128" if one > 100 else "", one * 128, *colours)
            for name, one, colours in zip(names, each, paint, strict=True)
        ]

    head(axes, 0.15, 3.75, "registers")
    pool = 384 * HOME.even_registers(384)
    bar(3.05, "at launch", roles(168, 168, 168), pool, f"{pool:,} are the CTA's")
    bar(2.1, "after setmaxnreg", roles(40, 232, 232), pool, f"{pool:,} again")
    label(axes, left, 1.94, "producer: 40 x 128", BLUE, ha="left")
    head(axes, 0.15, 1.42, "shared memory")
    stages = [part for s in range(4) for part in (("A", 16, BLUE, A), (f"B, stage {s}", 32, BLUE, B))]
    bar(0.6, "of 227 KiB", stages + 2 * [("D", 16, ORANGE, 0.22)], 227, "224 KiB, and the barriers")
    return figure


def epilogue() -> Figure:
    """Four chunks of D through two buffers, one drawn above and one below; what each wait_group 1 is for."""
    figure, axes = sheet(4.1)
    left, unit = 1.75, 0.59
    threads, lanes, high = 2.1, (3.0, 1.2), 0.46
    label(axes, left - 0.12, threads + 0.24, "threads write", ha="right")
    for buffer, y in enumerate(lanes):
        label(axes, left - 0.12, y + 0.23, f"TMA reads\nbuffer {buffer}", ha="right")
    starts = [0, 2.3, 5.1, 8.0]
    ends = [start + 4.8 for start in starts]
    for c, start in enumerate(starts):
        above = c % 2 == 0
        y = lanes[c % 2]
        words = f"chunk {c} to\nbuffer {c % 2}"
        box(axes, left + start * unit, threads, 2.0 * unit, high, words, ORANGE)
        begin = left + (start + 2.1) * unit
        box(axes, begin, y, left + ends[c] * unit - begin, high, f"store {c}", PURPLE)
        down = (threads + high, y) if above else (threads, y + high)
        arrow(axes, (begin - 0.12, down[0]), (begin + 0.1, down[1]), "", PURPLE)
    for c in (2, 3):
        above = c == 2
        x, y = left + ends[c - 2] * unit, lanes[c % 2]
        edge = (y, threads + high) if above else (y + high, threads)
        arrow(axes, (x - 0.05, edge[0]), (left + starts[c] * unit + 0.08, edge[1]), "", TEAL, dashed=True)
    label(axes, left + 5.2 * unit, 3.72, "chunk 2 waits until store 0 has read", TEAL)
    label(axes, left + 9 * unit, 0.97, "chunk 3 waits until store 1 has read", TEAL)
    time(axes, left, 9.4, 0.68)
    words = "The next tile's chunk 0 goes to buffer 0: it waits for store 2, not for store 3."
    label(axes, 4.8, 0.33, words)
    return figure


PICTURES = {"step10_tile": tile, "step10_budget": budget, "step10_epilogue": epilogue}
