"""Notebook b03: the columns of one SM, and the CTAs that share them."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import box, cell, head, label, measure, sheet
from course_utils.drills.tensor_memory import COLUMNS
from course_utils.figures.theme import GREEN, GREY, INK, RED

EACH = 128  # columns of a CTA


def columns() -> Figure:
    """Four CTAs with 128 columns each take all 512; a fifth waits at its alloc."""
    figure, axes = sheet(3.4)
    left, bottom, wide, high = 0.5, 1.0, 6.6, 1.5
    count = COLUMNS // EACH
    part = wide / count
    head(axes, left + wide / 2, 3.1, f"one SM: {COLUMNS} columns of tensor memory", ha="center")
    for cta in range(count):
        x = left + cta * part
        cell(axes, x, bottom, part, high, f"CTA {cta}\nits tile of D", GREEN, 0.14 + 0.1 * cta)
        label(axes, x + part / 2, bottom + high + 0.2, f"{cta * EACH} to {cta * EACH + EACH - 1}", GREY)
    measure(axes, (left, bottom - 0.2), (left + wide, bottom - 0.2), INK)
    label(axes, left + wide / 2, bottom - 0.45, f"{count} x {EACH} columns: none is left")
    box(
        axes,
        left + wide + 0.35,
        bottom,
        1.65,
        high,
        "CTA 4\nwaits at alloc\nuntil one frees",
        RED,
        0.1,
        dashed=True,
    )
    return figure


PICTURES = {"b03_columns": columns}
