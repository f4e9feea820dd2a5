"""Step 4: the way of a tile by thread copies and by TMA; what one phase of an mbarrier counts."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, MEMORY, TEAL


def data_path() -> Figure:
    """Two rows: through the registers of 128 threads, and past them; below, who waits for the bytes."""
    figure, axes = sheet(5.6)
    for y, name in ((3.9, "step 3\nthreads\ncopy"), (1.75, "step 4\nTMA\ncopies")):
        label(axes, 0.65, y + 0.5, name, weight="bold")
        box(axes, 1.35, y, 1.35, 1.0, "global\nmemory", GREY, MEMORY["global"])
        box(axes, 5.65, y, 1.35, 1.0, "shared\nmemory", GREY, MEMORY["shared"])
        box(axes, 7.95, y, 1.4, 1.0, "tensor\ncores", GREEN)
        arrow(axes, (7.0, y + 0.5), (7.95, y + 0.5), "wgmma", GREEN)
    box(axes, 3.6, 4.0, 1.15, 0.8, "registers of\n128 threads", GREY, MEMORY["registers"])
    arrow(axes, (2.7, 4.4), (3.6, 4.4), "ld.global", BLUE)
    arrow(axes, (4.75, 4.4), (5.65, 4.4), "st.shared", BLUE)
    label(axes, 4.18, 5.15, "each thread computes addresses, holds data, issues instructions", GREY)
    box(axes, 3.75, 1.9, 0.85, 0.7, "TMA", BLUE, weight="bold")
    arrow(axes, (2.7, 2.25), (3.75, 2.25), "", BLUE)
    arrow(axes, (4.6, 2.25), (5.65, 2.25), "tile", BLUE)
    box(axes, 3.35, 3.05, 1.65, 0.38, "one thread issues", BLUE)
    arrow(axes, (4.18, 3.05), (4.18, 2.6), "", BLUE)
    box(axes, 3.45, 0.45, 1.45, 0.5, "mbarrier full", TEAL, 0.12)
    arrow(axes, (4.18, 1.9), (4.18, 0.95), "", TEAL)
    label(axes, 4.28, 1.42, "counts the bytes", TEAL, ha="left")
    box(axes, 7.6, 0.3, 1.8, 0.75, "all warps wait,\nthen multiply", GREEN)
    arrow(axes, (4.9, 0.7), (7.6, 0.7), "both counts at zero", TEAL)
    arrow(axes, (8.65, 1.05), (8.65, 1.75), "", GREEN)
    return figure


def one_phase() -> Figure:
    """A phase of the full barrier along time: pending arrivals and pending bytes both reach zero, then it
    flips.
    """
    figure, axes = sheet(3.1)
    left, right = 1.75, 9.35
    for y, name in ((1.9, "arrivals still\nto come"), (1.05, "bytes still\nto come")):
        label(axes, 0.85, y + 0.2, name)
    events = (
        (left, "init(1)", "1", "0"),
        (2.95, "expect_tx\nA", "1", "A"),
        (4.05, "expect_tx\nB", "1", "A + B"),
        (5.15, "arrive", "0", "A + B"),
        (6.5, "A has\nlanded", "0", "B"),
        (7.7, "B has\nlanded", "1", "0"),
    )
    edges = [event[0] for event in events[1:]] + [right]
    for (x, name, arrivals, amount), end in zip(events, edges, strict=True):
        label(axes, x, 2.72, name, GREY)
        axes.plot([x, x], [0.85, 2.45], color=GREY, lw=0.7, ls=":")
        share = 0.4 if end == right else 0.12
        for y, text in ((1.9, arrivals), (1.05, amount)):
            box(axes, x + 0.03, y, end - x - 0.06, 0.42, text, TEAL, share)
    axes.plot([left, 7.67], [0.6, 0.6], color=GREY, lw=3, solid_capstyle="butt")
    axes.plot([7.73, right], [0.6, 0.6], color=TEAL, lw=3, solid_capstyle="butt")
    label(axes, 4.7, 0.33, "phase 0: a wait for parity 0 blocks", INK)
    label(axes, 8.5, 0.33, "phase 1: it passes", TEAL)
    return figure


PICTURES = {"step04_data_path": data_path, "step04_one_phase": one_phase}
