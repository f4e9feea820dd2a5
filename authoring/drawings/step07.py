"""Step 7: the two roles and the barriers between them; both over time beside step 6; where the registers
go.
"""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.artifact import REGISTER_LIMIT
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED


def roles():
    """Producer, ring and consumer; above the way of full, below the way of empty."""
    figure, axes = sheet(9.6, 4.3)
    box(axes, 0.2, 1.25, 2.0, 1.8, "", ORANGE)
    label(axes, 1.2, 2.75, "producer", size=10, weight="bold")
    label(axes, 1.2, 2.1, "warp 0 of warpgroup 0\n(warps 1 to 3 are idle)\n\n40 registers a thread", size=8)
    box(axes, 7.4, 1.25, 2.0, 1.8, "", GREEN)
    label(axes, 8.4, 2.75, "consumer", size=10, weight="bold")
    label(axes, 8.4, 2.1, "warpgroup 1\n(128 threads)\n\n232 registers a thread", size=8)
    for s, x in enumerate((3.6, 4.9)):
        box(axes, x, 1.65, 1.1, 1.0, f"stage {s}\nA and B", BLUE, size=9)
        box(axes, x + 0.1, 3.3, 0.9, 0.36, f"full[{s}]", RED, size=8.5)
        box(axes, x + 0.1, 0.64, 0.9, 0.36, f"empty[{s}]", RED, size=8.5)
    arrow(axes, (2.2, 2.15), (3.6, 2.15), "TMA writes", PURPLE)
    arrow(axes, (7.4, 2.15), (6.0, 2.15), "wgmma reads", GREEN)
    arrow(axes, (1.2, 3.05), (3.7, 3.48), "", RED, bend=-0.25)
    label(axes, 1.75, 3.82, "1 arrival, and expects\nthe bytes of A and B", size=8, colour=RED)
    arrow(axes, (5.9, 3.48), (8.4, 3.05), "", RED, bend=-0.25)
    label(axes, 7.85, 3.82, "waits before it multiplies:\nparity 0, 1, 0, 1, ...", size=8, colour=RED)
    arrow(axes, (8.4, 1.25), (5.9, 0.82), "", RED, bend=-0.25)
    label(axes, 7.85, 0.48, "1 arrival, when the wgmma\nthat read the stage is over", size=8, colour=RED)
    arrow(axes, (3.7, 0.82), (1.2, 1.25), "", RED, bend=-0.25)
    label(axes, 1.75, 0.48, "waits before it loads:\nparity 1, 0, 1, 0, ...", size=8, colour=RED)
    for x in (4.15, 5.45):
        arrow(axes, (x, 2.67), (x, 3.28), "", PURPLE, dashed=True)
    label(axes, 4.8, 3.96, "TMA takes the bytes that\nhave landed off full", size=8, colour=PURPLE)
    return figure


def over_time():
    """Two tiles of D of three K tiles each: step 6 starts to load after the epilogue, step 7 during it."""
    figure, axes = sheet(9.6, 4.35)
    scale, left = 0.85, 2.1

    def span(y, begin, end, text, colour):
        box(axes, left + begin * scale, y, (end - begin) * scale - 0.03, 0.34, text, colour, size=8)

    rows = {
        "step 6": (
            2.55,
            (
                (0, 1.2, 0, "0"),
                (2.05, 3.25, 0, "2"),
                (0.1, 1.4, 1, "1"),
                (5.3, 6.5, 1, "0"),
                (5.4, 6.7, 0, "1"),
                (7.35, 8.55, 1, "2"),
            ),
            ((1.2, 2.0, "0"), (2.0, 2.8, "1"), (3.25, 4.05, "2"), (6.5, 7.3, "0"), (7.3, 8.1, "1")),
        ),
        "step 7": (
            0.55,
            (
                (0, 1.2, 0, "0"),
                (2.05, 3.25, 0, "2"),
                (0.1, 1.4, 1, "1"),
                (2.85, 4.05, 1, "0"),
                (4.1, 5.3, 0, "1"),
                (6.15, 7.35, 1, "2"),
                (6.95, 8.55, 0, "0"),
            ),
            (
                (1.2, 2.0, "0"),
                (2.0, 2.8, "1"),
                (3.25, 4.05, "2"),
                (5.3, 6.1, "0"),
                (6.1, 6.9, "1"),
                (7.35, 8.15, "2"),
            ),
        ),
    }
    for name, (y, loads, multiplied) in rows.items():
        who = "one warpgroup\ndoes both" if name == "step 6" else "two roles"
        label(axes, 0.55, y + 0.95, name, size=10, weight="bold")
        label(axes, 0.55, y + 0.58, who, size=8, colour=GREY)
        for s in (0, 1):
            label(axes, left - 0.1, y + 1.17 - 0.4 * s, f"load, stage {s}", size=8, ha="right", colour=GREY)
        label(axes, left - 0.1, y + 0.27, "multiply", size=8, ha="right", colour=GREY)
        for begin, end, stage, text in loads:
            span(y + 1.0 - 0.4 * stage, begin, end, text, BLUE)
        for begin, end, text in multiplied:
            span(y + 0.1, begin, end, text, GREEN)
        span(y + 0.1, 4.05, 5.3, "epilogue", ORANGE)
    for x, y, height in ((4.05, 2.6, 1.45), (4.05, 0.6, 1.4)):
        axes.plot([left + x * scale] * 2, [y, y + height], color=INK, lw=0.8, ls=":")
    label(axes, left + 2.0 * scale, 4.15, "one tile of D", size=8.5, colour=GREY)
    label(axes, left + 6.4 * scale, 4.15, "the next one", size=8.5, colour=GREY)
    label(axes, left + 4.7 * scale, 3.55, "nothing is\non its way", size=8, colour=RED)
    axes.plot([left + 5.3 * scale, left + 6.5 * scale - 0.03], [2.82, 2.82], color=RED, lw=1.6)
    label(axes, left + 5.9 * scale, 2.68, "waits", size=8, colour=RED)
    words = (
        "the producer runs ahead into the next tile: its first K tiles land while the consumer sends D out"
    )
    label(axes, 5.4, 0.25, words, size=8.5)
    return figure


def registers():
    """A CTA's registers at launch and after setmaxnreg: two warpgroups, and the three of step 10."""
    figure, axes = sheet(9.6, 3.1)
    left, scale = 2.75, 6.1 / 65536
    bars = (
        ("step 7, at launch", 2.2, ((232, "producer", ORANGE), (232, "consumer", GREEN))),
        ("after setmaxnreg", 1.75, ((40, "", ORANGE), (232, "consumer", GREEN))),
        (
            "step 10, at launch",
            0.95,
            ((168, "producer", ORANGE), (168, "consumer", GREEN), (168, "consumer", GREEN)),
        ),
        ("after setmaxnreg", 0.5, ((40, "", ORANGE), (232, "consumer", GREEN), (232, "consumer", GREEN))),
    )
    for name, y, parts in bars:
        label(axes, left - 0.12, y + 0.19, name, size=9, ha="right")
        x = left
        for each, role, colour in parts:
            width = 128 * each * scale
            text = f"{role} 128 x {each}" if role else f"{each}"
            box(axes, x, y, width - 0.03, 0.38, text, colour, size=8)
            x += width
        total = sum(128 * each for each, _, _ in parts)
        if total < 64_000:
            label(axes, x + 0.1, y + 0.19, f"{total:,}", size=8, ha="left", colour=INK)
    end = left + 65536 * scale
    axes.plot([end, end], [0.42, 2.66], color=RED, lw=1.2)
    label(axes, end, 2.84, "65,536 registers an SM", size=8, colour=RED)
    words = f"{REGISTER_LIMIT:,} before and after: what the producer gives back, 128 x 128, "
    words += "is what the consumers take, 256 x 64"
    label(axes, left + 3.0, 0.24, words, size=8)
    return figure


PICTURES = {"step07_roles": roles, "step07_over_time": over_time, "step07_registers": registers}
