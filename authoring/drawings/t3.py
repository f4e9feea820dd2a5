"""Notebook t3: the two proxies and what orders them; when a wait for a parity blocks."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, cell, head, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, TEAL

LEFT, RIGHT, HEIGHT = 0.95, 9.45, 0.5  # of the lanes, in inches


def _lanes(axes: Axes, y: float, title: str) -> tuple[float, float]:
    """Two lanes of one shared buffer: the generic proxy above, the async proxy below. Returns their lower
    edges.
    """
    for bottom, share, name in ((y + 0.82, 0, "generic\nproxy"), (y, 0.16, "async\nproxy")):
        cell(axes, LEFT, bottom - 0.08, RIGHT - LEFT, HEIGHT + 0.16, "", GREY, share, lw=0, zorder=0)
        label(axes, LEFT - 0.08, bottom + HEIGHT / 2, name, GREY, ha="right")
    head(axes, 0.15, y + 1.65, title)
    return y + 0.82, y


def two_proxies() -> Figure:
    """Three handovers of shared memory along time: a load in, a store out, and the staging buffer written
    again.
    """
    figure, axes = sheet(6.85)

    def step(x: float, y: float, width: float, text: str, colour: str, share: float = 0.22) -> None:
        box(axes, x, y, width, HEIGHT, text, colour, share)

    def follow(y: float, *pairs: tuple[float, float]) -> None:
        for begin, end in pairs:
            arrow(axes, (begin, y + HEIGHT / 2), (end, y + HEIGHT / 2), "", TEAL)

    generic, later = _lanes(axes, 4.9, "In: TMA writes a stage, others read it")
    step(1.05, generic, 1.75, "one thread: arrive,\nexpect_tx, ask", BLUE)
    step(2.75, later, 1.2, "TMA writes\nthe stage", BLUE)
    step(4.45, later + 0.41, 1.65, "mbarrier: bytes\nand arrivals at 0", TEAL, 0.12)
    step(7.1, later, 1.4, "wgmma reads it", GREEN)
    step(7.1, generic, 1.4, "threads read it", GREY)
    arrow(axes, (2.4, generic), (3.0, later + HEIGHT), "", BLUE)
    arrow(axes, (3.95, later + 0.28), (4.45, later + 0.55), "", TEAL)
    arrow(axes, (6.1, later + 0.55), (7.1, later + 0.28), "", TEAL)
    arrow(axes, (6.1, later + 0.77), (7.1, generic + 0.22), "", TEAL)
    label(axes, 6.85, later + 0.66, "wait", TEAL)
    label(axes, 9.0, later + 0.66, "no\nfence", TEAL)

    generic, later = _lanes(axes, 2.55, "Out: threads write, TMA (or wgmma) reads")
    step(1.05, generic, 1.3, "threads write\nD_shared", ORANGE)
    step(2.6, generic, 1.65, "each writer:\nfence.proxy.async", TEAL, 0.12)
    step(4.5, generic, 1.15, "barrier of\nall writers", TEAL, 0.12)
    step(5.9, generic, 1.15, "one thread:\nTMA store", PURPLE)
    step(7.35, later, 1.2, "TMA reads\nD_shared", PURPLE)
    follow(generic, (2.35, 2.6), (4.25, 4.5), (5.65, 5.9))
    arrow(axes, (6.8, generic), (7.6, later + HEIGHT), "", PURPLE)
    arrow(axes, (1.5, generic), (7.35, later + 0.4), "", GREY, via=[(1.5, later + 0.4)], dashed=True)
    label(axes, 4.5, later + 0.14, "without fence and barrier: nothing orders these two", GREY)

    generic, later = _lanes(axes, 0.2, "Again: the buffer that a store reads is written anew")
    step(1.05, generic, 1.65, "one thread: store,\ncommit_group", PURPLE)
    step(1.95, later, 1.2, "TMA reads\nD_shared", PURPLE)
    step(3.15, later, 3.4, "TMA writes D in global memory", PURPLE, 0.06)
    step(3.05, generic, 1.6, "the same thread:\nwait_group.read", TEAL, 0.12)
    step(4.9, generic, 0.8, "barrier", TEAL, 0.12)
    step(5.95, generic, 1.3, "threads write\nD_shared", ORANGE)
    step(7.5, generic, 1.9, "wait_group, no .read:\nD is written too", TEAL, 0.12)
    arrow(axes, (1.9, generic), (2.2, later + HEIGHT), "", PURPLE)
    arrow(axes, (3.1, later + HEIGHT), (3.4, generic), "", TEAL)
    follow(generic, (4.65, 4.9), (5.7, 5.95))
    arrow(axes, (6.55, later + 0.3), (8.0, generic), "", TEAL)
    return figure


def parity_wait() -> Figure:
    """A barrier's phases along time; for each parity, where a wait blocks and where it passes at once."""
    figure, axes = sheet(3.5)
    left, width = 2.0, 1.85
    for i in range(4):
        x = left + i * width
        box(axes, x + 0.03, 2.5, width - 0.06, 0.42, f"phase {i}", TEAL, (0.06, 0.26)[i % 2])
        if i:
            axes.plot([x, x], [0.65, 3.05], color=GREY, lw=0.8, ls=":")
            label(axes, x, 3.22, f"load {i - 1} has landed", GREY)
        for parity, y in ((0, 1.65), (1, 0.85)):
            if i % 2 == parity:
                box(axes, x + 0.03, y, width - 0.06, 0.6, f"blocks until\nphase {i} ends", TEAL, 0.26)
            else:
                box(axes, x + 0.03, y, width - 0.06, 0.6, "passes at once", TEAL, 0, dashed=True)
    label(axes, 1.0, 2.71, "the barrier is in")
    for parity, y in ((0, 1.95), (1, 1.15)):
        label(axes, 1.0, y, f"a wait for parity {parity}")
    words = "load r has landed when phase r completes: a reader of load r waits for parity r & 1"
    label(axes, 4.8, 0.35, words)
    return figure


PICTURES = {"t3_two_proxies": two_proxies, "t3_parity_wait": parity_wait}
