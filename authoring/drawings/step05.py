"""Step 5: a ring of two slots over time, beside one slot; stage and parity as k grows."""

from itertools import pairwise

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, RED, tint

# how long a tile is on its way, and how long it is multiplied: a picture's choice, not a measurement
LOAD, MULTIPLY = (2.0, 1.0)


def schedule(tiles: int, slots: int) -> list[tuple[float, float, float]]:
    """When each tile is asked for, has landed, and is being multiplied, as the solution's loop does it.

    With one slot a tile is asked for when the one before is done; with two, one multiplication earlier.
    """
    rows, end = [], 0.0
    asked = [0.0] * slots
    for tile in range(tiles):
        begin = max(end, asked[tile] + LOAD)
        end = begin + MULTIPLY
        rows.append((asked[tile], asked[tile] + LOAD, begin))
        asked.append(end)
    return rows


def overlap():
    """Above: one slot, load and multiply in turn. Below: two slots, each does so, shifted against each
    other.
    """
    figure, axes = sheet(9.6, 4.3)
    left, scale, until = 1.55, 0.86, 9.0

    def bar(y, begin, end, text, colour, fill=None):
        begin, end = max(begin, 0), min(end, until)
        if begin < end:
            box(
                axes,
                left + begin * scale + 0.015,
                y,
                (end - begin) * scale - 0.03,
                0.36,
                text,
                colour,
                size=8.5,
                fill=fill,
            )

    def lanes(top, names, slots, tiles):
        for row, name in enumerate(names):
            label(axes, left - 0.12, top - row * 0.5 + 0.18, name, size=8.5, ha="right")
        for tile, (asked, landed, begin) in enumerate(schedule(tiles, slots)):
            y = top - (tile % slots) * 0.5
            bar(y, asked, landed, f"load {tile}", BLUE)
            bar(y, landed, begin, "ready", GREY, "white")
            bar(y, begin, begin + MULTIPLY, f"multiply {tile}", GREEN, tint(GREEN, 0.08))
            bar(top - slots * 0.5, begin, begin + MULTIPLY, f"tile {tile}", GREEN)

    label(axes, 0.08, 4.1, "step 4: one slot", size=9.5, weight="bold", ha="left")
    lanes(3.5, ("slot 0", "tensor cores"), 1, 4)
    label(axes, 0.08, 2.5, "step 5: two slots", size=9.5, weight="bold", ha="left")
    lanes(1.9, ("slot 0", "slot 1", "tensor cores"), 2, 8)
    arrow(axes, (left, 0.42), (left + until * scale, 0.42), "", GREY, width=1)
    label(axes, left + until * scale, 0.22, "time", size=8.5, colour=GREY, ha="right")
    label(
        axes,
        left,
        0.22,
        "here a tile takes twice as long to come as to multiply",
        size=8.5,
        colour=GREY,
        ha="left",
    )
    return figure


def stage_parity():
    """A row of K tiles with the stage, round and parity of each, between the phases of the two barriers."""
    figure, axes = sheet(9.6, 3.75)
    left, width, tiles = 2.2, 0.9, 8
    rows = (
        (2.4, "k", lambda k: k),
        (1.95, "stage = k % num_stages", lambda k: k % 2),
        (1.5, "round = k // num_stages", lambda k: k // 2),
        (1.05, "parity = round & 1", lambda k: k // 2 & 1),
    )
    for y, name, value in rows:
        label(axes, left - 0.15, y + 0.17, name, size=8.5, ha="right")
        for k in range(tiles):
            box(
                axes,
                left + k * width + 0.03,
                y,
                width - 0.06,
                0.36,
                str(value(k)),
                BLUE,
                size=9.5,
                fill=tint(BLUE, (0.35, 0.1)[k % 2]),
            )
    for stage, y, edge, start in ((0, 3.2, 3.2, 2.76), (1, 0.25, 0.61, 1.05)):
        label(axes, left - 0.15, y + 0.17, f"full[{stage}]", size=8.5, ha="right", colour=RED)
        ends = [0, *(stage + 2 * turn + 0.5 for turn in range(4)), tiles]
        for phase, (begin, end) in enumerate(pairwise(ends)):
            box(
                axes,
                left + begin * width + 0.03,
                y,
                (end - begin) * width - 0.06,
                0.36,
                f"phase {phase}" if end - begin > 0.6 else str(phase),
                RED,
                size=8.5,
                fill=tint(RED, (0.22, 0.06)[phase % 2]),
            )
        for k in range(stage, tiles, 2):
            x = left + (k + 0.5) * width
            arrow(axes, (x, start), (x, edge), "", RED, width=1)
    label(axes, left - 0.15, 2.95, "tile k has landed: next phase", size=8, colour=GREY, ha="right")
    label(axes, left - 0.15, 0.83, "tile k has landed: next phase", size=8, colour=GREY, ha="right")
    return figure


PICTURES = {"step05_overlap": overlap, "step05_stage_parity": stage_parity}
