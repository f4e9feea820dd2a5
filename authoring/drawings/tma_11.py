"""The TMA contract: the fields of a tensor map on the matrix that they describe, and where an illegal request
is stopped.
"""

from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, tint


def tensor_map():
    """A matrix in global memory with a box on it, labelled with the arguments of cuTensorMapEncodeTiled."""
    figure, axes = sheet(9.6, 4.3)
    x, y, wide, high, pad = 1.5, 0.95, 3.3, 2.3, 0.55
    axes.add_patch(
        Rectangle((x, y), wide, high, lw=1.3, edgecolor=GREY, facecolor=tint(GREY, 0.08), zorder=2)
    )
    axes.add_patch(
        Rectangle((x + wide, y), pad, high, lw=0.8, edgecolor=GREY, facecolor="white", hatch="////", zorder=2)
    )
    label(axes, x + wide + pad / 2, y - 0.15, "padding", size=8, colour=GREY)
    for i in range(1, 10):
        axes.plot([x, x + wide], [y + high * i / 10] * 2, color=GREY, lw=0.4, zorder=3)
    axes.plot([x], [y + high], marker="o", color=RED, ms=6, zorder=7)
    label(axes, 0.85, y + high + 0.12, "globalAddress", size=8.5, colour=RED)
    arrow(axes, (x, y + high + 0.26), (x + wide, y + high + 0.26), "", ORANGE, both=True, width=1)
    label(axes, x + wide / 2, y + high + 0.42, "globalDim[0], elements", size=8.5, colour=ORANGE)
    arrow(axes, (x - 0.2, y + high), (x - 0.2, y), "", ORANGE, both=True, width=1)
    label(axes, 0.63, y + high / 2, "globalDim[1],\nelements", size=8.5, colour=ORANGE)
    arrow(axes, (x, y + high + 0.68), (x + wide + pad, y + high + 0.68), "", RED, both=True, width=1)
    label(
        axes,
        x + (wide + pad) / 2,
        y + high + 0.84,
        "globalStrides[0], bytes from one row to the next",
        size=8.5,
        colour=RED,
    )
    bx, by, bw, bh = x + 1.25, y + 0.46, 1.15, 1.38
    axes.add_patch(Rectangle((bx, by), bw, bh, lw=1.6, edgecolor=BLUE, facecolor=tint(BLUE, 0.4), zorder=4))
    label(axes, bx + bw / 2, by + bh / 2, "box", size=10, weight="bold")
    arrow(axes, (bx, by - 0.14), (bx + bw, by - 0.14), "", BLUE, both=True, width=1)
    label(axes, bx + bw / 2, by - 0.3, "boxDim[0]", size=8.5, colour=BLUE)
    arrow(axes, (bx - 0.14, by), (bx - 0.14, by + bh), "", BLUE, both=True, width=1)
    label(
        axes,
        bx - 0.6,
        by + bh / 2,
        "boxDim[1]",
        size=8.5,
        colour=BLUE,
        bbox={"facecolor": tint(GREY, 0.08), "edgecolor": "none", "pad": 1},
    )
    label(
        axes,
        x + (wide + pad) / 2,
        0.5,
        "The kernel names coordinates. All else is in the map.",
        size=8.5,
        colour=GREY,
    )

    left, width = 6.0, 3.35
    label(axes, left + width / 2, 4.08, "the tensor map, 128 bytes", size=10, weight="bold")
    groups = (
        ("the tensor", ("tensorDataType, tensorRank, globalAddress", "globalDim, globalStrides"), ORANGE),
        ("the box", ("boxDim, elementStrides",), BLUE),
        ("how it lies in shared memory", ("interleave, swizzle",), PURPLE),
        ("what is outside, and the L2 cache", ("oobFill, l2Promotion",), GREEN),
    )
    top = 3.85
    for name, lines, colour in groups:
        height = 0.5 + 0.22 * len(lines)
        top -= height
        box(axes, left, top, width, height, "", colour)
        label(axes, left + 0.15, top + height - 0.2, name, size=9, ha="left", weight="bold")
        for i, line in enumerate(lines):
            label(axes, left + 0.15, top + height - 0.45 - 0.22 * i, line, size=8.5, ha="left", colour=INK)
        top -= 0.12
    return figure


def gates():
    """From the request in the source to the bytes: four places where it can end, and what each has to say."""
    figure, axes = sheet(9.6, 4.1)
    stages = (
        ("you ask", "a tile, a layout,\na barrier", ORANGE),
        ("the compiler", "picks a path\nand a map", BLUE),
        ("the host", "writes the map,\nby driver or itself", PURPLE),
        ("the kernel", "asks TMA for boxes,\ncounts bytes", GREEN),
    )
    width, gap, y, high = 1.62, 0.37, 2.0, 1.1
    xs = [0.25 + i * (width + gap) for i in range(4)]
    for x, (name, words, colour) in zip(xs, stages, strict=True):
        box(axes, x, y, width, high, "", colour)
        label(axes, x + width / 2, y + high - 0.25, name, size=10, weight="bold")
        label(axes, x + width / 2, y + 0.42, words, size=8.5)
    for x in xs[:-1]:
        arrow(axes, (x + width, y + high / 2), (x + width + gap, y + high / 2), "", INK)
    end = xs[-1] + width
    arrow(axes, (end, y + high / 2), (end + 0.35, y + high / 2), "", GREEN)
    label(axes, end + 0.72, y + high / 2, "the right\nbytes", size=8.5, colour=GREEN)
    exits = (
        (1, "compile error", "a row of 120 bytes,\nasked of TileLang"),
        (2, "the driver refuses", "256-byte rows under\nswizzle 128B"),
        (3, "it hangs or faults", "bytes expected that\nno box brings"),
    )
    for i, name, example in exits:
        x = xs[i] + width / 2
        arrow(axes, (x, y), (x, 1.52), "", RED)
        box(axes, x - width / 2, 0.97, width, 0.55, name, RED, size=9, weight="bold")
        label(axes, x, 0.68, example, size=8.5, colour=GREY)
    x = xs[0] + width / 2
    label(axes, x, 1.36, "loud", size=9.5, colour=RED, weight="bold")
    label(axes, x, 1.12, "somebody says so", size=8.5, colour=GREY)
    label(axes, x, 3.92, "silent", size=9.5, colour=RED, weight="bold")
    label(axes, x, 3.7, "nobody says so", size=8.5, colour=GREY)
    quiet = (
        (1, "another path: it works,\nand TMA is gone"),
        (2, "a legal map of\nanother matrix"),
        (3, "the pieces lie where\nnobody reads them"),
    )
    for i, words in quiet:
        x = xs[i] + width / 2
        box(
            axes,
            x - width / 2 - 0.08,
            3.62,
            width + 0.16,
            0.44,
            words,
            RED,
            size=8.5,
            dashed=True,
            fill="white",
        )
        arrow(axes, (x, y + high), (x, 3.62), "", RED, dashed=True, width=1)
    label(
        axes,
        4.8,
        0.22,
        "The rules judge a map before anything runs. What is silent needs more: "
        "look at what was made of your request.",
        size=8.5,
    )
    return figure


PICTURES = {"tma11_map": tensor_map, "tma11_gates": gates}
