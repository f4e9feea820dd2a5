"""Notebook b05: two stages, and the two barriers of each: TMA completes one, a commit the other."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import arrow, box, head, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, MEMORY, TEAL


def barriers() -> Figure:
    """TMA on the left, the tensor core on the right, a stage and its barriers between, twice."""
    figure, axes = sheet(4.3)
    head(axes, 0.2, 4.03, "Each stage has two barriers")
    box(axes, 0.3, 0.75, 1.5, 2.75, "TMA\n\nloads tile i\ninto stage\ni % 2", BLUE)
    box(axes, 7.8, 0.75, 1.5, 2.75, "tensor core\n\nmultiplies\ntile k of stage\nk % 2", GREEN, 0.3)
    for stage, y in ((0, 2.35), (1, 0.75)):
        box(axes, 3.9, y, 1.8, 1.15, f"stage {stage}\n\nA and B", GREY, MEMORY["shared"])
        arrow(axes, (1.8, y + 0.82), (3.9, y + 0.82), "", BLUE)
        label(axes, 2.85, y + 1.0, "32,768 bytes", BLUE)
        arrow(axes, (5.7, y + 0.82), (7.8, y + 0.82), "", GREEN)
        label(axes, 6.75, y + 1.0, f"after full[{stage}]", GREEN)
        arrow(axes, (3.9, y + 0.3), (1.8, y + 0.3), "", TEAL, dashed=True)
        label(axes, 2.85, y + 0.5, f"empty[{stage}]: free", TEAL)
        arrow(axes, (7.8, y + 0.3), (5.7, y + 0.3), "", TEAL, dashed=True)
        label(axes, 6.75, y + 0.5, "commit", TEAL)
    label(
        axes, 4.8, 0.33, "the bytes complete full; the commit completes empty, once its MMAs have run", GREY
    )
    return figure


PICTURES = {"b05_barriers": barriers}
