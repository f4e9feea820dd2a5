"""Step 7: the two roles and the barriers between them; both over time beside step 6; where the registers
go.
"""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet
from course_utils.chips import HOME
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, MEMORY, ORANGE, TEAL


def roles() -> Figure:
    """Producer, ring and consumer; above the way of full, below the way of empty. Arrows end at the rows of
    the ring: every barrier and stage has both roles.
    """
    figure, axes = sheet(5.3)
    box(axes, 0.15, 1.75, 2.2, 1.8, "", BLUE)
    head(axes, 1.25, 3.25, "producer", ha="center")
    label(axes, 1.25, 2.5, "warp 0 of warpgroup 0\n(warps 1 to 3 are idle)\n\n40 registers a thread")
    box(axes, 7.25, 1.75, 2.2, 1.8, "", GREEN)
    head(axes, 8.35, 3.25, "consumer", ha="center")
    label(axes, 8.35, 2.5, "warpgroup 1\n(128 threads)\n\n232 registers a thread")
    for y, height in ((3.85, 0.7), (2.05, 1.2), (0.75, 0.7)):
        box(axes, 3.35, y, 2.9, height, "", GREY, 0, dashed=True, lw=0.8)
    for s, x in enumerate((3.5, 4.9)):
        box(axes, x, 2.2, 1.2, 0.9, f"stage {s}\nA and B", GREY, MEMORY["shared"])
        box(axes, x + 0.05, 4.0, 1.1, 0.4, f"full[{s}]", TEAL, 0.12)
        box(axes, x + 0.05, 0.9, 1.1, 0.4, f"empty[{s}]", TEAL, 0.12)
    arrow(axes, (2.35, 2.65), (3.35, 2.65), "TMA\nwrites", BLUE, offset=(0, 0.26))
    arrow(axes, (7.25, 2.65), (6.25, 2.65), "wgmma\nreads", GREEN, offset=(0, 0.26))
    arrow(axes, (1.25, 3.55), (3.35, 4.2), "", TEAL, via=[(1.25, 4.2)])
    label(axes, 1.35, 4.65, "1 arrival, and expects\nthe bytes of A and B", TEAL)
    arrow(axes, (6.25, 4.2), (8.35, 3.55), "", TEAL, via=[(8.35, 4.2)])
    label(axes, 8.1, 4.65, "waits before it multiplies:\nparity 0, 1, 0, 1, ...", TEAL)
    arrow(axes, (8.35, 1.75), (6.25, 1.1), "", TEAL, via=[(8.35, 1.1)])
    label(axes, 8.1, 0.65, "1 arrival, when the wgmma\nthat read the stage is over", TEAL)
    arrow(axes, (3.35, 1.1), (1.25, 1.75), "", TEAL, via=[(1.25, 1.1)])
    label(axes, 1.35, 0.65, "waits before it loads:\nparity 1, 0, 1, 0, ...", TEAL)
    arrow(axes, (4.8, 3.25), (4.8, 3.85), "", BLUE, dashed=True)
    label(axes, 4.9, 3.55, "bytes landed", BLUE, ha="left")
    label(axes, 4.8, 4.85, "each stage has\nboth barriers", GREY)
    label(axes, 4.8, 0.4, "the ring, in shared memory", GREY)
    return figure


def over_time() -> Figure:
    """Two tiles of D of three K tiles each: step 6 starts to load after the epilogue, step 7 during it."""
    figure, axes = sheet(4.9)
    scale, left = 0.9, 1.6

    def span(y: float, begin: float, end: float, text: str, colour: str) -> None:
        box(axes, left + begin * scale, y, (end - begin) * scale - 0.03, 0.34, text, colour)

    first = ((0, 1.2, 0, "0"), (2.05, 3.25, 0, "2"), (0.1, 1.4, 1, "1"))
    after = ((5.3, 6.5, 1, "0"), (5.4, 6.7, 0, "1"), (7.35, 8.55, 1, "2"))
    early = ((2.85, 4.05, 1, "0"), (4.1, 5.3, 0, "1"), (6.15, 7.35, 1, "2"), (6.95, 8.55, 0, "0"))
    multiplied = ((1.2, 2.0, "0"), (2.0, 2.8, "1"), (3.25, 4.05, "2"))
    rows = (
        ("step 6: one warpgroup does both", 2.75, first + after, ((6.5, 7.3, "0"), (7.3, 8.1, "1"))),
        ("step 7: two roles", 0.55, first + early, ((5.3, 6.1, "0"), (6.1, 6.9, "1"), (7.35, 8.15, "2"))),
    )
    for name, y, loads, then in rows:
        head(axes, 0.15, y + 1.62, name)
        for s in (0, 1):
            label(axes, left - 0.1, y + 1.17 - 0.4 * s, f"load, stage {s}", GREY, ha="right")
        label(axes, left - 0.1, y + 0.27, "multiply", GREY, ha="right")
        for begin, end, stage, text in loads:
            span(y + 1.0 - 0.4 * stage, begin, end, text, BLUE)
        for begin, end, text in multiplied + then:
            span(y + 0.1, begin, end, text, GREEN)
        span(y + 0.1, 4.07, 5.3, "epilogue", ORANGE)
        middle = left + 4.06 * scale - 0.015
        axes.plot([middle] * 2, [y, y + 1.5], color=INK, lw=0.8, ls=":", zorder=1)
    label(axes, left + 2.5 * scale, 4.37, "one tile of D", GREY, ha="left")
    label(axes, left + 4.2 * scale, 4.37, "the next one", GREY, ha="left")
    label(axes, left + 4.68 * scale, 3.7, "nothing is\non its way")
    waits = (left + 5.32 * scale, left + 6.48 * scale - 0.03)
    axes.plot(waits, [3.02, 3.02], color=GREY, lw=2.4)
    label(axes, sum(waits) / 2, 2.82, "waits", GREY)
    words = "The producer runs ahead: the next tile's first K tiles land while the consumer sends D out."
    label(axes, 4.8, 0.3, words)
    return figure


def registers() -> Figure:
    """A CTA's registers at launch and after setmaxnreg: two warpgroups, and the three of step 10."""
    figure, axes = sheet(3.7)
    left, scale = 1.9, 7.2 / HOME.registers
    bars = (
        ("step 7, at launch", 2.55, ((232, "producer"), (232, "consumer"))),
        ("after setmaxnreg", 2.1, ((40, ""), (232, "consumer"))),
        ("step 10, at launch", 1.3, ((168, "producer"), (168, "consumer 1"), (168, "consumer 2"))),
        ("after setmaxnreg", 0.85, ((40, ""), (232, "consumer 1"), (232, "consumer 2"))),
    )
    paint = {"producer": (BLUE, 0.22), "": (BLUE, 0.22), "consumer 2": (GREEN, 0.45)}
    for name, y, parts in bars:
        label(axes, left - 0.12, y + 0.19, name, ha="right")
        x = left
        for each, role in parts:
            width = 128 * each * scale
            text = f"{role} 128 x {each}" if role else f"{each}"
            box(axes, x, y, width - 0.03, 0.38, text, *paint.get(role, (GREEN, 0.22)))
            x += width
        total = sum(128 * each for each, _ in parts)
        if total < 64_000:
            label(axes, x + 0.05, y + 0.19, f"{total:,}", ha="left")
    end = left + HOME.registers * scale
    axes.plot([end, end], [0.75, 3.08], color=INK, lw=1.2)
    label(axes, end + 0.2, 3.28, "65,536 registers per SM", ha="right")
    pool = 384 * HOME.even_registers(384)
    words = f"{pool:,} before and after: what the producer releases, 128 x 128,\n"
    label(axes, 4.8, 0.4, words + "is what the consumers take, 256 x 64")
    return figure


PICTURES = {"step07_roles": roles, "step07_over_time": over_time, "step07_registers": registers}
