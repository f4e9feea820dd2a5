"""Step 4: the way of a tile by thread copies and by TMA; what one phase of an mbarrier counts."""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED


def data_path():
    """Two rows: through the registers of 128 threads, and past them."""
    figure, axes = sheet(9.6, 4.5)
    for y, name in ((2.55, "step 3\nthreads copy"), (0.55, "step 4\nTMA copies")):
        label(axes, 0.62, y + 0.6, name, size=9.5, weight="bold")
        box(axes, 1.35, y, 1.5, 1.2, "global\nmemory", GREY)
        box(axes, 5.35, y, 1.5, 1.2, "shared\nmemory", BLUE)
        box(axes, 8.0, y, 1.4, 1.2, "tensor\ncores", GREEN)
        arrow(axes, (6.85, y + 0.6), (8.0, y + 0.6), "wgmma", GREEN)
    box(axes, 3.55, 2.75, 1.1, 0.8, "registers of\n128 threads", ORANGE, size=8)
    arrow(axes, (2.85, 3.15), (3.55, 3.15), "ld.global", ORANGE, offset=(0, 0.16))
    arrow(axes, (4.65, 3.15), (5.35, 3.15), "st.shared", ORANGE, offset=(0, 0.16))
    label(
        axes,
        4.1,
        3.95,
        "each thread computes addresses, holds data, issues instructions",
        size=8,
        colour=GREY,
    )
    box(axes, 3.7, 0.75, 0.8, 0.8, "TMA", PURPLE, weight="bold")
    arrow(axes, (2.85, 1.15), (3.7, 1.15), "", PURPLE)
    arrow(axes, (4.5, 1.15), (5.35, 1.15), "tile", PURPLE)
    box(axes, 3.35, 1.85, 1.5, 0.32, "one thread asks", ORANGE, size=8)
    arrow(axes, (4.1, 1.85), (4.1, 1.55), "", ORANGE)
    box(axes, 5.5, 0.08, 1.2, 0.34, "mbarrier full", RED, size=8)
    arrow(axes, (4.2, 0.75), (5.5, 0.25), "counts bytes", RED, bend=0.2, offset=(-0.5, -0.16))
    label(axes, 8.7, 0.28, "everyone waits here,\nthen multiplies", size=8, colour=INK)
    arrow(axes, (6.7, 0.25), (7.85, 0.28), "", RED)
    return figure


def one_phase():
    """A phase of the full barrier along time: pending arrivals and pending bytes both reach zero, then it
    flips.
    """
    figure, axes = sheet(9.6, 2.7)
    left, right = 1.9, 9.2
    for y, name in ((1.75, "arrivals still\nto come"), (0.9, "bytes still\nto come")):
        label(axes, 1.0, y + 0.2, name, size=9)
    events = [
        (left, "init(1)"),
        (3.1, "expect_tx\nA"),
        (4.1, "expect_tx\nB"),
        (5.1, "arrive"),
        (6.6, "A has\nlanded"),
        (7.9, "B has\nlanded"),
    ]
    arrivals, amounts = ["1", "1", "1", "0", "0", "1"], ["0", "A", "A + B", "A + B", "B", "0"]
    edges = [x for x, _ in events] + [right]
    for i, (x, name) in enumerate(events):
        label(axes, x, 2.42, name, size=8, colour=GREY)
        axes.plot([x, x], [0.75, 2.22], color=GREY, lw=0.7, ls=":")
        last = i == len(events) - 1
        box(
            axes,
            x + 0.03,
            1.75,
            edges[i + 1] - x - 0.06,
            0.4,
            arrivals[i],
            GREEN if last else ORANGE,
            size=8.5,
        )
        box(axes, x + 0.03, 0.9, edges[i + 1] - x - 0.06, 0.4, amounts[i], GREEN if last else BLUE, size=8.5)
    axes.plot([left, 7.9], [0.5, 0.5], color=INK, lw=3, solid_capstyle="butt")
    axes.plot([7.9, right], [0.5, 0.5], color=GREEN, lw=3, solid_capstyle="butt")
    label(axes, 4.9, 0.25, "phase 0: a wait for parity 0 blocks", size=8.5)
    label(axes, 8.55, 0.25, "phase 1: it passes", size=8.5, colour=GREEN)
    return figure


PICTURES = {"step04_data_path": data_path, "step04_one_phase": one_phase}
