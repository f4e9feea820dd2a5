"""Notebook b08: what has landed, what is queued and what is over, in a ring of four stages."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import box, head, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, TEAL

STAGES = 4
# the K tile whose commit arrived last, that which the tensor core multiplies, and the last that has landed
OVER, RUNS, LANDED = 4, 5, 7


def queue() -> Figure:
    """K tiles 3 to 9 with their stages: over, multiplied, queued, in flight, and not yet to be loaded."""
    figure, axes = sheet(3.3)
    head(axes, 0.2, 3.0, "One moment of the K loop, four stages")
    left, wide, y = 1.35, 1.12, 1.55
    names = ("K tile", "its stage", "state")
    for row, name in enumerate(names):
        label(axes, left - 0.15, y + 0.95 - 0.5 * row, name, ha="right")
    furthest = OVER + STAGES
    for place, k in enumerate(range(OVER - 1, furthest + 2)):
        x = left + place * wide
        state, colour, share = (
            ("over", GREY, 0.1)
            if k <= OVER
            else ("runs", GREEN, 0.5)
            if k == RUNS
            else ("queued", GREEN, 0.2)
            if k <= LANDED
            else ("in flight", BLUE, 0.22)
            if k <= furthest
            else ("waits", TEAL, 0.08)
        )
        label(axes, x + wide / 2, y + 0.95, str(k))
        label(axes, x + wide / 2, y + 0.45, str(k % STAGES), GREY)
        box(axes, x + 0.03, y - 0.28, wide - 0.06, 0.46, state, colour, share, dashed=k > furthest)
    words = (
        "The MMA warp has issued K tiles 5 to 7 and waits for none of them; it waits for full of K tile 8.\n"
    )
    words += "The load warp waits for empty of stage 1, whose K tile 5 still runs, to load K tile 9."
    label(axes, 4.8, 0.6, words)
    return figure


PICTURES = {"b08_queue": queue}
