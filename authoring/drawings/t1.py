"""The TMA contract: the fields of a tensor map on the matrix that they describe, and where an illegal request
is stopped.
"""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, cell, head, label, measure, sheet
from course_utils.figures.theme import BLUE, GREY, INK, MEMORY, PAPER, RED, tint


def tensor_map() -> Figure:
    """A matrix in global memory with a box on it, labelled with the arguments of cuTensorMapEncodeTiled."""
    figure, axes = sheet(4.7)
    x, y, wide, high, pad = 1.6, 1.0, 3.3, 2.5, 0.6
    ground = MEMORY["shared"]
    cell(axes, x, y, wide, high, "", GREY, ground, lw=1.3)
    axes.add_patch(
        Rectangle((x + wide, y), pad, high, lw=0.8, edgecolor=GREY, facecolor=PAPER, hatch="////", zorder=2)
    )
    label(axes, x + wide + pad / 2, y - 0.17, "padding", GREY)
    top = y + high
    axes.plot([x], [top], marker="o", color=INK, ms=6, zorder=7)
    label(axes, x - 0.12, top + 0.12, "globalAddress", ha="right")
    measure(axes, (x, top + 0.2), (x + wide, top + 0.2))
    label(axes, x + wide / 2, top + 0.37, "globalDim[0], elements")
    measure(axes, (x - 0.15, top), (x - 0.15, y), INK)
    label(axes, x - 0.25, y + high / 2, "globalDim[1],\nelements", ha="right")
    measure(axes, (x, top + 0.65), (x + wide + pad, top + 0.65), INK)
    words = "globalStrides[0], bytes from one row to the next"
    label(axes, x + (wide + pad) / 2, top + 0.84, words)
    bx, by, bw, bh = x + 1.3, y + 0.5, 1.15, 1.5
    for i in range(1, 10):
        line = y + high * i / 10
        behind = by < line < by + bh
        for left, right in ((x, bx), (bx + bw, x + wide)) if behind else ((x, x + wide),):
            axes.plot([left, right], [line, line], color=GREY, lw=0.4, zorder=3)
    cell(axes, bx, by, bw, bh, "", BLUE, 0.4, lw=1.6, zorder=4)
    head(axes, bx + bw / 2, by + bh / 2, "box", ha="center")
    behind_words = {"facecolor": tint(GREY, ground), "edgecolor": "none", "pad": 1.5}
    measure(axes, (bx, by - 0.12), (bx + bw, by - 0.12), BLUE)
    label(axes, bx + bw / 2, by - 0.31, "boxDim[0]", BLUE, bbox=behind_words)
    measure(axes, (bx - 0.12, by), (bx - 0.12, by + bh), BLUE)
    label(axes, bx - 0.2, by + bh / 2, "boxDim[1]", BLUE, ha="right", bbox=behind_words)
    label(axes, 3.2, 0.4, "The kernel names coordinates. All else is in the map.", GREY)

    left, width = 5.95, 3.45
    head(axes, left + width / 2, 4.4, "the tensor map, 128 bytes", ha="center")
    whole = ("tensorDataType, tensorRank,", "globalAddress, globalDim,", "globalStrides")
    groups = (
        ("the tensor", whole, GREY),
        ("the box", ("boxDim, elementStrides",), BLUE),
        ("how it lies in shared memory", ("interleave, swizzle",), GREY),
        ("what is outside, and L2", ("oobFill, l2Promotion",), GREY),
    )
    top = 4.15
    for name, lines, colour in groups:
        height = 0.42 + 0.22 * len(lines)
        top -= height
        box(axes, left, top, width, height, "", colour, MEMORY["registers"] if colour == GREY else 0.22)
        label(axes, left + 0.15, top + height - 0.19, name, ha="left", weight="bold")
        for i, words in enumerate(lines):
            label(axes, left + 0.15, top + height - 0.43 - 0.22 * i, words, ha="left")
        top -= 0.12
    return figure


def gates() -> Figure:
    """From the request in the source to the bytes: four places where it can end, and what each has to say."""
    figure, axes = sheet(4.9)
    stages = (
        ("you write", "a tile, a layout,\na barrier"),
        ("the compiler", "picks a path\nand a map"),
        ("the host", "writes the map,\nby driver or itself"),
        ("the kernel", "issues boxes,\ncounts bytes"),
    )
    width, pitch, y, high = 1.78, 2.08, 2.4, 1.1
    xs = [0.15 + i * pitch for i in range(4)]
    for x, (name, words) in zip(xs, stages, strict=True):
        box(axes, x, y, width, high, "", GREY, 0.06)
        head(axes, x + width / 2, y + high - 0.25, name, ha="center")
        label(axes, x + width / 2, y + 0.42, words)
    for x in xs[:-1]:
        arrow(axes, (x + width, y + high / 2), (x + pitch, y + high / 2))
    end = xs[-1] + width
    arrow(axes, (end, y + high / 2), (end + 0.33, y + high / 2))
    label(axes, end + 0.77, y + high / 2, "the right\nbytes", weight="bold")
    exits = (
        (1, "compile error", "a row of 120 bytes,\nin TileLang"),
        (2, "driver refuses", "256-byte rows under\nswizzle 128B"),
        (3, "hangs or faults", "bytes expected that\nno box brings"),
    )
    for i, name, example in exits:
        x = xs[i] + width / 2
        arrow(axes, (x, y), (x, 1.92), "", RED)
        box(axes, x - width / 2, 1.4, width, 0.52, name, RED, weight="bold")
        label(axes, x, 1.1, example, GREY)
    quiet = (
        (1, "other path: right,\nbut TMA is gone"),
        (2, "a legal map of\nanother matrix"),
        (3, "the pieces lie where\nnobody reads them"),
    )
    for i, words in quiet:
        x = xs[i] + width / 2
        box(axes, x - width / 2 - 0.1, 4.1, width + 0.2, 0.55, words, RED, 0, dashed=True)
        arrow(axes, (x, y + high), (x, 4.1), "", RED, dashed=True, width=1)
    x = xs[0] + width / 2
    for up, name, words in ((1.78, "loud", "you get an error"), (4.5, "silent", "you get no error")):
        label(axes, x, up, name, RED, weight="bold")
        label(axes, x, up - 0.25, words, GREY)
    words = "The rules judge a map before anything runs. What is silent needs more:\n"
    label(axes, 4.8, 0.42, words + "look at what was made of your request.")
    return figure


PICTURES = {"t1_map": tensor_map, "t1_gates": gates}
