"""Step 5: a ring of two slots over time, beside one slot; stage and parity as k grows."""

from itertools import pairwise

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet, time
from course_utils.figures.theme import BLUE, GREEN, GREY, TEAL

# how long a tile is on its way, and how long it is multiplied: a picture's choice, not a measurement
LOAD, MULTIPLY = (2.0, 1.0)
STAGES = (0.45, 0.14)  # the share of blue, by stage


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


def overlap() -> Figure:
    """Above: one slot, load and multiply in turn. Below: two slots, each does so, shifted against each
    other.
    """
    figure, axes = sheet(4.7)
    left, scale, until = 1.5, 0.88, 9.0

    def bar(y: float, begin: float, end: float, text: str, colour: str, share: float = 0.22) -> None:
        begin, end = max(begin, 0), min(end, until)
        if begin < end:
            width = (end - begin) * scale - 0.03
            box(axes, left + begin * scale + 0.015, y, width, 0.38, text, colour, share)

    def lanes(top: float, names: tuple[str, ...], slots: int, tiles: int) -> None:
        for row, name in enumerate(names):
            label(axes, left - 0.12, top - row * 0.5 + 0.19, name, ha="right")
        for tile, (asked, landed, begin) in enumerate(schedule(tiles, slots)):
            y = top - (tile % slots) * 0.5
            bar(y, asked, landed, f"load {tile}", BLUE)
            bar(y, landed, begin, "ready", GREY, 0)
            bar(y, begin, begin + MULTIPLY, f"read {tile}", GREEN, 0.08)
            bar(top - slots * 0.5, begin, begin + MULTIPLY, f"tile {tile}", GREEN, 0.4)

    head(axes, 0.15, 4.4, "step 4: one slot")
    lanes(3.75, ("slot 0", "tensor cores"), 1, 4)
    head(axes, 0.15, 2.75, "step 5: two slots")
    lanes(2.1, ("slot 0", "slot 1", "tensor cores"), 2, 8)
    time(axes, left, left + until * scale, 0.62)
    label(axes, left, 0.35, "here a tile takes twice as long to come as to multiply", GREY, ha="left")
    return figure


def stage_parity() -> Figure:
    """A row of K tiles with the stage, round and parity of each, between the phases of the two barriers."""
    figure, axes = sheet(4.3)
    left, width, tiles = 2.35, 0.885, 8
    rows = (
        (2.7, "k", lambda k: k),
        (2.25, "stage = k % num_stages", lambda k: k % 2),
        (1.8, "round = k // num_stages", lambda k: k // 2),
        (1.35, "parity = round & 1", lambda k: k // 2 & 1),
    )
    for y, name, value in rows:
        label(axes, left - 0.1, y + 0.17, name, ha="right")
        for k in range(tiles):
            x = left + k * width + 0.03
            box(axes, x, y, width - 0.06, 0.36, str(value(k)), BLUE, STAGES[k % 2])
    for stage, y, edge, start in ((0, 3.65, 3.65, 3.06), (1, 0.3, 0.68, 1.35)):
        label(axes, left - 0.1, y + 0.19, f"full[{stage}]", TEAL, ha="right")
        ends = [0, *(stage + 2 * turn + 0.5 for turn in range(4)), tiles]
        for phase, (begin, end) in enumerate(pairwise(ends)):
            text = f"phase {phase}" if end - begin > 0.6 else str(phase)
            x = left + begin * width + 0.03
            box(axes, x, y, (end - begin) * width - 0.06, 0.38, text, TEAL, (0.06, 0.26)[phase % 2])
        for k in range(stage, tiles, 2):
            x = left + (k + 0.5) * width
            arrow(axes, (x, start), (x, edge), "", TEAL, width=1)
    for y in (3.36, 1.02):
        label(axes, left - 0.1, y, "tile k has landed", GREY, ha="right")
    return figure


PICTURES = {"step05_overlap": overlap, "step05_stage_parity": stage_parity}
