"""Notebook 13: the two proxies and what orders them; when a wait for a parity blocks."""

from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, tint

LEFT, RIGHT, HEIGHT = 1.55, 9.5, 0.42  # of the lanes, in inches


def _lanes(axes, y, title):
    """Two lanes of one shared buffer: the generic proxy above, the async proxy below. Returns their lower
    edges.
    """
    for bottom, colour, name in ((y + 0.68, ORANGE, "generic proxy"), (y, PURPLE, "async proxy")):
        axes.add_patch(
            Rectangle(
                (LEFT, bottom - 0.06),
                RIGHT - LEFT,
                HEIGHT + 0.12,
                facecolor=tint(colour, 0.07),
                edgecolor="none",
                zorder=0,
            )
        )
        label(axes, LEFT - 0.1, bottom + HEIGHT / 2, name, size=8, colour=colour, ha="right")
    label(axes, 0.1, y + 1.38, title, size=9.5, ha="left", weight="bold")
    return y + 0.68, y


def two_proxies():
    """Three handovers of shared memory along time: a load in, a store out, and the staging buffer written
    again.
    """
    figure, axes = sheet(9.6, 5.75)

    generic, later = _lanes(axes, 4.0, "In: TMA writes a stage, others read it")
    box(axes, 1.7, generic, 1.35, HEIGHT, "one thread: arrive,\nexpect_tx, ask", ORANGE, size=7.5)
    box(axes, 3.2, later, 1.6, HEIGHT, "TMA writes the stage", BLUE, size=8)
    box(axes, 5.1, later + 0.34, 1.3, HEIGHT, "mbarrier: bytes\nand arrivals at 0", RED, size=7.5)
    box(axes, 7.2, later, 1.6, HEIGHT, "wgmma reads it", GREEN, size=8)
    box(axes, 7.2, generic, 1.6, HEIGHT, "threads read it", ORANGE, size=8)
    arrow(axes, (3.05, generic + 0.15), (3.6, later + HEIGHT), "", ORANGE)
    arrow(axes, (4.8, later + 0.24), (5.1, later + 0.45), "", RED)
    arrow(axes, (6.4, later + 0.48), (7.2, later + 0.24), "", RED)
    arrow(axes, (6.4, later + 0.64), (7.2, generic + 0.2), "", RED)
    label(axes, 6.83, later + 0.56, "wait", size=7.5, colour=RED)
    label(axes, 9.15, later + 0.58, "no\nfence", size=8, colour=GREY)

    generic, later = _lanes(axes, 2.1, "Out: threads write, TMA (or wgmma) reads")
    box(axes, 1.7, generic, 1.5, HEIGHT, "threads write D_shared", ORANGE, size=7.5)
    box(axes, 3.45, generic, 1.5, HEIGHT, "each writer:\nfence.proxy.async", RED, size=7.5)
    box(axes, 5.2, generic, 1.2, HEIGHT, "barrier of all\nwriters", RED, size=7.5)
    box(axes, 6.65, generic, 1.15, HEIGHT, "one thread:\nTMA store", ORANGE, size=7.5)
    box(axes, 7.5, later, 1.75, HEIGHT, "TMA reads D_shared", PURPLE, size=8)
    for begin, end in ((3.2, 3.45), (4.95, 5.2), (6.4, 6.65)):
        arrow(axes, (begin, generic + HEIGHT / 2), (end, generic + HEIGHT / 2), "", RED)
    arrow(axes, (7.35, generic), (7.9, later + HEIGHT), "", ORANGE)
    arrow(axes, (2.45, generic), (7.5, later + 0.16), "", GREY, bend=0.06, dashed=True)
    label(
        axes, 3.75, later + 0.16, "without fence and barrier: nothing orders these two", size=8, colour=GREY
    )

    generic, later = _lanes(axes, 0.2, "Again: the buffer that a store reads is written anew")
    box(axes, 1.7, generic, 1.3, HEIGHT, "one thread: store,\ncommit_group", ORANGE, size=7.5)
    box(axes, 2.65, later, 1.5, HEIGHT, "TMA reads D_shared", PURPLE, size=7.5)
    box(axes, 4.15, later, 2.6, HEIGHT, "TMA writes D in global memory", PURPLE, size=8, fill="white")
    box(axes, 3.75, generic, 1.3, HEIGHT, "the same thread:\nwait_group.read", RED, size=7.5)
    box(axes, 5.25, generic, 0.75, HEIGHT, "barrier", RED, size=7.5)
    box(axes, 6.2, generic, 1.1, HEIGHT, "threads write\nD_shared", ORANGE, size=7.5)
    box(axes, 7.65, generic, 1.6, HEIGHT, "wait_group (no .read):\nD is written too", RED, size=7.5)
    arrow(axes, (2.35, generic), (2.9, later + HEIGHT), "", ORANGE)
    arrow(axes, (4.15, later + HEIGHT), (4.3, generic), "", RED)
    arrow(axes, (5.05, generic + HEIGHT / 2), (5.25, generic + HEIGHT / 2), "", RED)
    arrow(axes, (6.0, generic + HEIGHT / 2), (6.2, generic + HEIGHT / 2), "", RED)
    arrow(axes, (6.75, later + 0.3), (7.9, generic), "", RED)
    return figure


def parity_wait():
    """A barrier's phases along time; for each parity, where a wait blocks and where it passes at once."""
    figure, axes = sheet(9.6, 2.75)
    left, width = 2.3, 1.75
    for i, name in enumerate(("phase 0", "phase 1", "phase 2", "phase 3")):
        x = left + i * width
        box(axes, x + 0.03, 2.05, width - 0.06, 0.4, name, BLUE, size=9)
        if i:
            axes.plot([x, x], [0.55, 2.52], color=GREY, lw=0.8, ls=":")
            label(axes, x, 2.63, f"load {i - 1} has landed", size=7.5, colour=GREY)
        for parity, y in ((0, 1.35), (1, 0.75)):
            blocks = i % 2 == parity
            box(
                axes,
                x + 0.03,
                y,
                width - 0.06,
                0.4,
                f"blocks until phase {i} ends" if blocks else "passes at once",
                RED if blocks else GREEN,
                size=8,
            )
    label(axes, 1.15, 2.25, "the barrier is in", size=9)
    for parity, y in ((0, 1.55), (1, 0.95)):
        label(axes, 1.15, y, f"a wait for parity {parity}", size=9)
    label(
        axes,
        left + 2 * width,
        0.25,
        "load r has landed when phase r is over: who needs load r waits for parity r & 1",
        size=8.5,
        colour=INK,
    )
    return figure


PICTURES = {"tma13_two_proxies": two_proxies, "tma13_parity_wait": parity_wait}
