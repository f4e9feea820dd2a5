"""Step 8: four stages and what each is doing; the order of issue, wait and release with and without a group
in flight.
"""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, RED, tint

LOADING, READY, RUNS, OVER = "loading", "ready", "runs", "over"
WORDS = {LOADING: "loading", READY: "ready", RUNS: "multiplying", OVER: "release"}
STATES = {
    LOADING: (BLUE, tint(BLUE, 0.08), True),
    READY: (BLUE, tint(BLUE, 0.35), False),
    RUNS: (GREEN, tint(GREEN, 0.45), False),
    OVER: (ORANGE, tint(ORANGE, 0.3), False),
}


def _cell(axes, x, y, width, state, tile, word=""):
    colour, fill, dashed = STATES[state]
    box(
        axes,
        x,
        y,
        width,
        0.62,
        f"K tile {tile}\n{word or WORDS[state]}",
        colour,
        size=8,
        fill=fill,
        dashed=dashed,
    )


def ring():
    """Left the ring at one moment, right the same and the three moments after it as a table."""
    figure, axes = sheet(9.6, 3.9)
    label(
        axes,
        1.5,
        3.62,
        "the round that issued K tile 5,\nwhen wait_wgmma(1) has returned",
        size=8.5,
        weight="bold",
    )
    places = {0: (1.0, 2.44), 1: (2.05, 1.5), 2: (1.0, 0.56), 3: (0.0, 1.5)}
    for stage, (x, y) in places.items():
        _cell(axes, x + 0.03, y, 1.0, *((OVER, 4), (RUNS, 5), (READY, 6), (LOADING, 7))[stage])
        label(axes, x + 0.53, y + (0.74 if stage != 2 else -0.13), f"stage {stage}", size=8, colour=GREY)
    turns = (
        ((2.08, 2.7), (2.42, 2.36)),
        ((2.55, 1.46), (2.1, 0.9)),
        ((0.98, 0.9), (0.55, 1.46)),
        ((0.66, 2.36), (0.98, 2.7)),
    )
    for start, end in turns:
        arrow(axes, start, end, "", GREY, bend=-0.25, width=1)
    label(axes, 1.53, 1.8, "use goes\nround\nthis way", size=8, colour=GREY)

    left, width = 5.85, 0.93
    for stage in range(4):
        label(axes, left + stage * width + 0.44, 3.62, f"stage {stage}", size=8.5, weight="bold")
    rows = (
        (
            "issue 5, wait(1) returned",
            "4 is over: release its stage",
            ((OVER, 4), (RUNS, 5), (READY, 6), (LOADING, 7)),
        ),
        (
            "the producer",
            "waited for stage 0, now loads 8",
            ((LOADING, 8), (RUNS, 5), (READY, 6), (LOADING, 7)),
        ),
        (
            "issue 6, before its wait(1)",
            "two groups are in flight",
            ((LOADING, 8), (RUNS, 5), (RUNS, 6), (READY, 7)),
        ),
        (
            "wait(1) returned",
            "5 is over: release its stage",
            ((LOADING, 8), (OVER, 5), (RUNS, 6), (READY, 7)),
        ),
    )
    for i, (what, why, states) in enumerate(rows):
        y = 2.75 - 0.82 * i
        label(axes, left - 0.12, y + 0.44, what, size=8.5, ha="right", weight="bold")
        label(axes, left - 0.12, y + 0.18, why, size=8, ha="right", colour=GREY)
        for stage, (state, tile) in enumerate(states):
            _cell(
                axes,
                left + stage * width,
                y,
                width - 0.06,
                state,
                tile,
                "queued" if (i, tile) == (2, 6) else "",
            )
    return figure


def order():
    """Threads, tensor cores and releases along time: with wait_wgmma(0) there are gaps, with wait_wgmma(1)
    none.
    """
    figure, axes = sheet(9.6, 4.4)
    left = 1.75

    def tensor(y, begin, end, text):
        box(axes, left + begin, y, end - begin - 0.03, 0.4, text, GREEN, size=8.5)

    def event(y, x, text, colour):
        box(axes, left + x, y, 0.5, 0.34, text, colour, size=7.5)

    for y, name, how in ((2.55, "step 7", "wait_wgmma(0)"), (0.3, "step 8", "wait_wgmma(1)")):
        label(axes, 0.1, y + 1.62, f"{name}: {how}", size=10, ha="left", weight="bold")
        label(axes, left - 0.12, y + 1.07, "consumer's\nthreads", size=8, ha="right", colour=GREY)
        label(axes, left - 0.12, y + 0.4, "tensor cores", size=8, ha="right", colour=GREY)
    y = 2.55
    for k in range(3):
        x = 2.45 * k
        event(y + 0.9, x, f"issue {k}", GREEN)
        tensor(y + 0.2, x + 0.5, x + 1.95, f"K tile {k}")
        axes.plot([left + x + 0.5, left + x + 1.92], [y + 1.07] * 2, color=GREY, lw=2.5)
        label(axes, left + x + 1.2, y + 1.24, "wait(0)", size=7.5, colour=GREY)
        event(y + 0.9, x + 1.95, f"rel. {k}", RED)
        arrow(axes, (left + x + 0.25, y + 0.9), (left + x + 0.5, y + 0.62), "", GREEN, width=1)
        arrow(axes, (left + x + 1.93, y + 0.62), (left + x + 1.98, y + 0.9), "", GREY, width=1)
        if k:
            label(axes, left + x + 0.0, y + 0.1, "nothing\nto do", size=8, colour=RED)
            axes.plot([left + x - 0.47, left + x + 0.47], [y + 0.4] * 2, color=RED, lw=1.6)
    y = 0.3
    ends = [0.5 + 1.45 * (k + 1) for k in range(5)]
    event(y + 0.9, 0.0, "issue 0", GREEN)
    event(y + 0.9, 0.52, "issue 1", GREEN)
    arrow(axes, (left + 0.25, y + 0.9), (left + 0.5, y + 0.62), "", GREEN, width=1)
    for k in range(5):
        tensor(y + 0.2, ends[k] - 1.45, ends[k] if k < 4 else 7.6, f"K tile {k}" if k < 4 else "4")
    for k in range(1, 5):
        free = ends[k - 1]
        begin = 1.04 if k == 1 else ends[k - 2] + 1.04
        axes.plot([left + begin, left + free - 0.02], [y + 1.07] * 2, color=GREY, lw=2.5)
        label(axes, left + (begin + free) / 2, y + 1.24, "wait(1)", size=7.5, colour=GREY)
        event(y + 0.9, free, f"rel. {k - 1}", RED)
        event(y + 0.9, free + 0.52, f"issue {k + 1}", GREEN)
        arrow(axes, (left + free - 0.01, y + 0.62), (left + free + 0.08, y + 0.9), "", GREY, width=1)
    words = (
        "not to scale; the next group is queued before the one that runs is over: the tensor cores go from "
        "one to the other"
    )
    label(axes, left + 3.4, 0.18, words, size=8.5)
    return figure


PICTURES = {"step08_ring": ring, "step08_order": order}
