"""Notebook b07: three roles and the barriers between them; and a ring of two accumulators over time."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet, time
from course_utils.figures.theme import BLUE, GREEN, GREY, MEMORY, ORANGE, TEAL

ACCS = 2
# units of time: a picture's choice, not a measurement
MULTIPLY, LD, WRITE = 1.3, 0.45, 0.75


def roles() -> Figure:
    """Load warp, MMA warp and epilogue from left to right; the ring of stages and that of accumulators."""
    figure, axes = sheet(4.5)
    head(axes, 0.2, 4.2, "Three roles, two rings")
    y, high = 1.3, 1.9
    box(axes, 0.2, y, 1.3, high, "warp 4\n\nloads", BLUE)
    box(axes, 2.65, y, 1.3, high, "stages\n\nA and B,\nshared\nmemory", GREY, MEMORY["shared"])
    box(axes, 4.6, y, 1.3, high, "warp 5\n\nissues\nMMAs", GREEN, 0.3)
    box(axes, 6.55, y, 1.05, high, "accs\n\ntensor\nmemory", GREY, MEMORY["registers"])
    box(axes, 8.25, y, 1.15, high, "warps\n0 to 3\n\nstore D", ORANGE)
    ways = ((1.5, 2.65, BLUE), (3.95, 4.6, GREEN), (5.9, 6.55, GREEN), (7.6, 8.25, ORANGE))
    for start, end, colour in ways:
        arrow(axes, (start, y + 1.35), (end, y + 1.35), "", colour)
        arrow(axes, (end, y + 0.5), (start, y + 0.5), "", TEAL, dashed=True)
    barriers = (
        (3.3, "full: 1 arrival\nand the bytes", "empty: 1 commit\nper K tile"),
        (7.07, "acc_full: 1 commit\nper tile of D", "acc_empty:\n128 threads"),
    )
    for x, there, free in barriers:
        label(axes, x, y + high + 0.35, there, TEAL)
        label(axes, x, y - 0.35, free, TEAL)
    words = (
        "solid: data; above, the barrier that says it is there; dashed, below: the one that says it is free"
    )
    label(axes, 4.8, 0.3, words, GREY)
    return figure


def ring() -> Figure:
    """Step 6 and step 7 over three tiles of D: a second accumulator lets the next tile begin at once."""
    figure, axes = sheet(4.3)
    left, unit = 1.9, 0.98
    for top, name, accs in ((3.95, "step 6: one accumulator", 1), (2.1, "step 7: a ring of two", ACCS)):
        head(axes, 0.2, top, name)
        rows = {"MMA": top - 0.62, "epilogue": top - 1.12}
        for row, y in rows.items():
            label(axes, left - 0.15, y + 0.2, row, ha="right")

        def does(row: str, begin: float, width: float, text: str, colour: str, share: float = 0.22) -> None:
            box(axes, left + begin * unit, rows[row], width * unit - 0.04, 0.4, text, colour, share)  # noqa: B023

        free, multiplied, written = [0.0] * accs, 0.0, 0.0
        for tile in range(3):
            acc = tile % accs
            begin = max(multiplied, free[acc])
            multiplied = begin + MULTIPLY
            read = max(multiplied, written)
            written = read + LD + WRITE
            free[acc] = written if accs == 1 else read + LD  # step 6 has no barrier for the accumulator alone
            does("MMA", begin, MULTIPLY, f"tile {tile}, acc {acc}", GREEN, 0.2 + 0.25 * acc)
            does("epilogue", read, LD, "ld", TEAL, 0.15)
            does("epilogue", read + LD, WRITE, "write", ORANGE)
    time(axes, left, left + 7.6 * unit, 0.5)
    return figure


PICTURES = {"b07_roles": roles, "b07_ring": ring}
