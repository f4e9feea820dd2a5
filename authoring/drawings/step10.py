"""Step 10: the wide tile and who holds which rows; what an SM has room for; D through two buffers."""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.artifact import REGISTER_LIMIT
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, TEAL


def tile():
    """Step 9's tile beside step 10's, one K tile of A and B, at the same scale."""
    figure, axes = sheet(9.6, 4.0)
    for left, name, columns, wide in (
        (0.35, "step 9: one consumer", 128, 1.6),
        (4.35, "step 10: two consumers", 256, 3.2),
    ):
        label(axes, left, 3.8, name, size=10, weight="bold", ha="left")
        box(axes, left + 1.1, 2.6, wide, 0.8, f"B, {columns} columns of D", BLUE, size=8.5)
        if columns == 128:
            box(axes, left, 0.75, 0.8, 1.6, "A\n128\nrows", BLUE, size=8.5)
            box(axes, left + 1.1, 0.75, wide, 1.6, "consumer 1\n128 x 128", GREEN, size=9)
        else:
            for y, number, colour in ((1.57, 1, GREEN), (0.75, 2, TEAL)):
                box(axes, left, y, 0.8, 0.78, "A\n64 rows", BLUE, size=8.5)
                box(axes, left + 1.1, y, wide, 0.78, f"consumer {number}: 64 x 256", colour, size=9)
                arrow(axes, (left + 0.8, y + 0.39), (left + 1.1, y + 0.39), "", colour)
    label(axes, 2.25, 0.5, "128 sums a thread", size=8.5, colour=GREY)
    label(axes, 7.05, 0.5, "128 sums a thread, in each of the two", size=8.5, colour=GREY)
    label(axes, 1.7, 0.2, "16 KiB of A, 16 KiB of B: 64 operations a byte", size=8.5)
    label(axes, 6.5, 0.2, "16 KiB of A, 32 KiB of B: 85 operations a byte", size=8.5)
    return figure


def budget():
    """What an SM has room for: registers before and after setmaxnreg, and shared memory."""
    figure, axes = sheet(9.6, 3.2)
    left, width = 2.1, 7.1

    def bar(y, name, parts, whole, end):
        label(axes, 1.95, y + 0.24, name, size=8.5, ha="right")
        x = left
        for text, amount, colour in parts:
            share = amount / whole * width
            box(axes, x + 0.015, y, share - 0.03, 0.48, text, colour, size=8)
            x += share
        label(
            axes,
            x + 0.03 if x < left + width - 0.6 else left + width,
            y - 0.15,
            end,
            size=8,
            colour=GREY,
            ha="left" if x < left + width - 0.6 else "right",
        )

    label(axes, 0.25, 3.02, "registers", size=10, weight="bold", ha="left")
    bar(
        2.32,
        "at launch",
        [
            ("producer\n168 x 128", 21504, BLUE),
            ("consumer 1\n168 x 128", 21504, GREEN),
            ("consumer 2\n168 x 128", 21504, TEAL),
        ],
        REGISTER_LIMIT,
        f"{REGISTER_LIMIT:,} are the CTA's",
    )
    bar(
        1.46,
        "after setmaxnreg",
        [("", 5120, BLUE), ("consumer 1\n232 x 128", 29696, GREEN), ("consumer 2\n232 x 128", 29696, TEAL)],
        REGISTER_LIMIT,
        f"{REGISTER_LIMIT:,} again",
    )
    label(axes, 2.1, 1.31, "producer: 40 x 128", size=8, colour=BLUE, ha="left")
    label(axes, 0.25, 0.98, "shared memory", size=10, weight="bold", ha="left")
    bar(
        0.3,
        "of 227 KiB",
        [part for s in range(4) for part in (("A", 16, BLUE), (f"B, stage {s}", 32, BLUE))]
        + [("D", 16, ORANGE), ("D", 16, ORANGE)],
        227,
        "224 KiB, and the barriers",
    )
    return figure


def epilogue():
    """Four chunks of D through two buffers; what each wait_group 1 is for."""
    figure, axes = sheet(9.6, 3.35)
    left, unit = 1.9, 0.56
    for y, name in ((2.3, "threads write"), (1.4, "TMA reads buffer 0"), (0.75, "TMA reads buffer 1")):
        label(axes, left - 0.15, y + 0.22, name, size=8.5, ha="right")
    starts = [0, 2.3, 5.0, 8.0]
    for c, start in enumerate(starts):
        colour = ORANGE
        box(axes, left + start * unit, 2.3, 2.0 * unit, 0.44, f"chunk {c}\nto buffer {c % 2}", colour, size=8)
        y, begin = (1.4, 0.75)[c % 2], start + 2.1
        box(axes, left + begin * unit, y, 2.7 * unit, 0.44, f"store {c}", PURPLE, size=8)
        arrow(axes, (left + (start + 2.0) * unit, 2.3), (left + begin * unit + 0.12, y + 0.44), "", PURPLE)
    for c in (2, 3):
        end = left + (starts[c - 2] + 4.8) * unit
        arrow(
            axes,
            (end, (1.4, 0.75)[c % 2] + 0.44),
            (left + starts[c] * unit + 0.05, 2.3),
            "",
            RED,
            dashed=True,
        )
    label(
        axes, left + 4.6 * unit, 3.0, "chunk 2 waits until store 0 has read", size=8, colour=RED, ha="center"
    )
    label(
        axes, left + 9.6 * unit, 3.0, "chunk 3 waits until store 1 has read", size=8, colour=RED, ha="center"
    )
    axes.plot([left, 9.3], [0.5, 0.5], color=GREY, lw=1)
    label(axes, left, 0.28, "time", size=8, colour=GREY, ha="left")
    label(
        axes,
        9.3,
        0.28,
        "the next tile's chunk 0 goes to buffer 0: it waits for store 2, not for store 3",
        size=8,
        colour=INK,
        ha="right",
    )
    return figure


PICTURES = {"step10_tile": tile, "step10_budget": budget, "step10_epilogue": epilogue}
