"""Notebook b02: what the commit of each K tile says, over three rounds of the loop."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import box, head, label, sheet, time
from course_utils.figures.theme import BLUE, GREEN, GREY, TEAL

ROUND, ROUNDS = 2.45, 3  # inches of a round: a picture's choice, not a measurement


def commits() -> Figure:
    """Threads copy, one thread issues and commits, the tensor cores multiply; each commit ends a phase."""
    figure, axes = sheet(4.2)
    left = 2.05
    rows = {"128 threads": 3.2, "one thread": 2.55, "tensor cores": 1.9, "done": 1.25}
    head(axes, 0.2, 3.93, "One commit per K tile")
    for name, y in rows.items():
        label(axes, left - 0.15, y + 0.21, name, ha="right")
    for k in range(ROUNDS):
        x = left + k * ROUND
        box(axes, x, rows["128 threads"], 0.8, 0.42, f"copy {k}", BLUE)
        box(axes, x + 0.9, rows["128 threads"], 1.45, 0.42, "wait", GREY, 0.05)
        box(axes, x + 0.85, rows["one thread"], 0.52, 0.42, "issue", GREEN)
        box(axes, x + 1.42, rows["one thread"], 0.82, 0.42, "commit", TEAL)
        box(axes, x + 1.0, rows["tensor cores"], 1.3, 0.42, f"tile {k}", GREEN, 0.4)
        begin = x - (ROUND - 2.35 if k else 0)
        box(axes, begin, rows["done"], x + 2.32 - begin, 0.42, f"phase {k}, parity {k & 1}", TEAL, 0.1)
    words = "The end of phase k says two things: the buffers of tile k may be overwritten,\n"
    label(axes, left + ROUNDS * ROUND / 2, 0.83, words + "and acc holds the sum of tiles 0 to k.", TEAL)
    time(axes, left, left + ROUNDS * ROUND, 0.3)
    return figure


PICTURES = {"b02_commits": commits}
