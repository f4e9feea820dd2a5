"""Step 8: four stages and what each is doing; the order of issue, wait and release with and without a group
in flight.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, TEAL

LOADING, READY, RUNS, OVER = "loading", "ready", "multiplying", "release"
STATES = {LOADING: (BLUE, 0.08, True), READY: (BLUE, 0.4, False), RUNS: (GREEN, 0.4, False)}
STATES[OVER] = (TEAL, 0.12, False)


def _stage(axes: Axes, x: float, y: float, state: str, tile: int, word: str = "") -> None:
    colour, share, dashed = STATES[state]
    box(axes, x, y, 1.14, 0.6, f"K tile {tile}\n{word or state}", colour, share, dashed)


def ring() -> Figure:
    """Left the ring at one moment, right the same and the three moments after it as a table."""
    figure, axes = sheet(4.95)
    head(axes, 2.1, 4.55, "the round that issued K tile 5,\nwhen wait(1) has returned", ha="center")
    now = ((OVER, 4), (RUNS, 5), (READY, 6), (LOADING, 7))
    places = ((1.5, 3.15), (2.85, 2.05), (1.5, 0.75), (0.15, 2.05))
    for stage, ((x, y), (state, tile)) in enumerate(zip(places, now, strict=True)):
        _stage(axes, x, y, state, tile)
        label(axes, x + 0.57, y + (0.74 if stage != 2 else -0.15), f"stage {stage}", GREY)
    arrow(axes, (2.64, 3.45), (3.87, 2.65), "", GREY, via=[(3.87, 3.45)], width=1)
    arrow(axes, (3.42, 2.05), (2.64, 1.05), "", GREY, via=[(3.42, 1.05)], width=1)
    arrow(axes, (1.5, 1.05), (0.72, 2.05), "", GREY, via=[(0.72, 1.05)], width=1)
    arrow(axes, (0.27, 2.65), (1.5, 3.45), "", GREY, via=[(0.27, 3.45)], width=1)
    label(axes, 2.07, 2.35, "use goes\nround\nthis way", GREY)

    left, width = 4.6, 1.2
    for stage in range(4):
        label(axes, left + stage * width + 0.57, 4.7, f"stage {stage}", weight="bold")
    loads = ((LOADING, 8), (RUNS, 5), (READY, 6), (LOADING, 7))
    queued = ((LOADING, 8), (RUNS, 5), (RUNS, 6), (READY, 7))
    then = ((LOADING, 8), (OVER, 5), (RUNS, 6), (READY, 7))
    rows = (
        ("wait(1) after issue 5: 4 is over, release its stage", now),
        ("the producer waited for stage 0, now loads 8", loads),
        ("issue 6, before its wait(1): two groups in flight", queued),
        ("wait(1) has returned: 5 is over, release its stage", then),
    )
    for i, (what, states) in enumerate(rows):
        y = 3.55 - 1.05 * i
        label(axes, left, y + 0.77, what, ha="left")
        for stage, (state, tile) in enumerate(states):
            _stage(axes, left + stage * width, y, state, tile, "queued" if (i, tile) == (2, 6) else "")
    return figure


def order() -> Figure:
    """Threads, tensor cores and releases along time: with wait_wgmma(0) there are gaps, with wait_wgmma(1)
    none.
    """
    figure, axes = sheet(5.2)
    left, issue, release = 1.5, 0.68, 0.56
    high, low = 0.95, 0.2  # of the threads' lane and the tensor cores' lane

    def tensor(y: float, begin: float, end: float, text: str) -> None:
        box(axes, left + begin, y + low, end - begin - 0.03, 0.4, text, GREEN)

    def event(y: float, x: float, text: str, width: float, colour: str) -> None:
        box(axes, left + x, y + high, width - 0.03, 0.36, text, colour, 0.12)

    def waits(y: float, begin: float, end: float, text: str) -> None:
        axes.plot([left + begin, left + end - 0.03], [y + high + 0.18] * 2, color=GREY, lw=2.5)
        label(axes, left + (begin + end) / 2, y + high + 0.5, text, GREY)

    for y, name in ((3.05, "step 7: wait_wgmma(0)"), (0.5, "step 8: wait_wgmma(1)")):
        head(axes, 0.15, y + 1.85, name)
        label(axes, left - 0.12, y + high + 0.18, "consumer's\nthreads", GREY, ha="right")
        label(axes, left - 0.12, y + low + 0.2, "tensor cores", GREY, ha="right")
    y, busy = 3.05, 1.32
    turn = issue + busy + release
    for k in range(3):
        x = turn * k
        event(y, x, f"issue {k}", issue, GREEN)
        tensor(y, x + issue, x + issue + busy, f"K tile {k}")
        waits(y, x + issue, x + issue + busy, "wait(0)")
        event(y, x + issue + busy, f"rel. {k}", release, TEAL)
        arrow(axes, (left + x + 0.4, y + high), (left + x + issue + 0.05, y + 0.6), "", GREEN, width=1)
        done = left + x + issue + busy
        arrow(axes, (done - 0.06, y + 0.6), (done + 0.15, y + high), "", TEAL, width=1)
        if k:
            gap = (left + x - release + 0.02, left + x + issue - 0.05)
            axes.plot(gap, [y + low + 0.2] * 2, color=GREY, lw=1, ls=":")
            label(axes, sum(gap) / 2, y + low - 0.02, "nothing to do")
    y, busy = 0.5, 1.5
    ends = [issue + busy * (k + 1) for k in range(5)]
    event(y, 0.0, "issue 0", issue, GREEN)
    event(y, issue, "issue 1", issue, GREEN)
    arrow(axes, (left + 0.4, y + high), (left + issue + 0.05, y + 0.6), "", GREEN, width=1)
    for k in range(5):
        tensor(y, ends[k] - busy, min(ends[k], 7.92), f"K tile {k}")
    for k in range(1, 5):
        free = ends[k - 1]
        waits(y, 2 * issue if k == 1 else ends[k - 2] + release + issue, free, "wait(1)")
        event(y, free, f"rel. {k - 1}", release, TEAL)
        event(y, free + release, f"issue {k + 1}", issue, GREEN)
        arrow(axes, (left + free - 0.06, y + 0.6), (left + free + 0.15, y + high), "", TEAL, width=1)
    words = "Not to scale. The next group is queued before the one that runs is over:\n"
    label(axes, 4.8, 0.33, words + "the tensor cores go from one to the other.")
    return figure


PICTURES = {"step08_ring": ring, "step08_order": order}
