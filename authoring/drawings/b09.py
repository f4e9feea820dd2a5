"""Notebook b09: one MMA for two CTAs, what each of them holds, and which barriers their loads and the commit
complete.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import WIDTH, arrow, box, head, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, MEMORY, TEAL


def halves() -> Figure:
    """Two CTAs side by side: half of A, half of B and half of D in each; one MMA reads both."""
    figure, axes = sheet(4.7)
    for rank in (0, 1):
        _holds(axes, rank)
    box(axes, 3.85, 2.35, 1.9, 1.5, "one MMA\n\n256 x 256 x 16,\nissued by one\nthread of CTA 0", GREEN, 0.3)
    label(axes, 4.8, 0.75, "a row of D meets both\nhalves of B; it lies in the\nCTA of its row of A", GREY)
    return figure


def _holds(axes: Axes, rank: int) -> None:
    """What one CTA holds; CTA 1 is CTA 0's mirror image."""

    def x(left: float, width: float = 0.0) -> float:
        return WIDTH - left - width if rank else left

    rows = f"{128 * rank} to {128 * rank + 127}"
    box(axes, x(0.15, 3.3), 0.25, 3.3, 4.25, "", GREY, 0, dashed=True)
    head(axes, x(1.8), 4.2, f"CTA {rank}, one SM", "center")
    label(axes, x(1.8), 3.85, "shared memory", GREY)
    box(axes, x(0.4, 1.3), 2.45, 1.3, 1.1, f"A, rows\n{rows}", BLUE, MEMORY["shared"])
    box(axes, x(1.85, 1.3), 2.45, 1.3, 1.1, f"B, rows\n{rows}", BLUE, MEMORY["shared"])
    arrow(axes, (x(3.15), 3.1), (x(3.85), 3.1), "", GREEN)
    arrow(axes, (x(4.4), 2.35), (x(3.15), 1.25), "", GREEN)
    label(axes, x(1.8), 1.9, "tensor memory, 128 lanes", GREY)
    box(axes, x(0.4, 2.75), 0.5, 2.75, 1.15, f"D, rows {rows},\n256 columns", GREEN, MEMORY["registers"])


def signals() -> Figure:
    """The barriers of a stage in both CTAs: bytes of both on CTA 0's full, a commit on both empty."""
    figure, axes = sheet(5.3)
    for rank, name in ((0, "CTA 0, multiplies"), (1, "CTA 1")):
        x = 0.15 if rank == 0 else 5.6
        wide = 5.25 if rank == 0 else 3.85
        box(axes, x, 0.3, wide, 4.85, "", GREY, 0, dashed=True)
        head(axes, x + 0.2, 4.85, name)
    box(axes, 0.4, 3.3, 1.35, 1.1, "load warp\n\nhalf of A, of B", BLUE)
    box(axes, 7.85, 3.3, 1.35, 1.1, "load warp\n\nhalf of A, of B", BLUE)
    box(axes, 2.75, 3.3, 1.6, 1.1, "full s\n\n1 arrival,\n65,536 bytes", TEAL, 0.12)
    box(axes, 2.75, 1.9, 1.6, 0.75, "MMA warp", GREEN, 0.3)
    box(axes, 0.4, 0.6, 1.35, 0.85, "empty s\n\n1 arrival", TEAL, 0.12)
    box(axes, 7.85, 0.6, 1.35, 0.85, "empty s\n\n1 arrival", TEAL, 0.12)
    arrow(axes, (1.75, 4.1), (2.75, 4.1), "", BLUE)
    label(axes, 2.25, 4.33, "bytes", BLUE)
    arrow(axes, (1.75, 3.6), (2.75, 3.6), "", TEAL)
    label(axes, 2.25, 3.38, "arrival", TEAL)
    arrow(axes, (7.85, 3.85), (4.35, 3.85), "", BLUE)
    label(axes, 6.6, 4.08, "bytes, to the peer", BLUE)
    arrow(axes, (3.55, 3.3), (3.55, 2.65), "", TEAL, dashed=True)
    label(axes, 4.05, 2.98, "lets go", TEAL)
    arrow(axes, (2.75, 2.05), (1.75, 1.25), "", TEAL)
    arrow(axes, (4.35, 2.05), (7.85, 1.05), "", TEAL)
    label(axes, 3.1, 1.2, "one commit,\nmulticast", TEAL)
    arrow(axes, (1.07, 1.45), (1.07, 3.3), "", TEAL, dashed=True)
    arrow(axes, (8.53, 1.45), (8.53, 3.3), "", TEAL, dashed=True)
    label(axes, 1.5, 2.6, "free", TEAL)
    label(axes, 8.1, 2.6, "free", TEAL)
    return figure


PICTURES = {"b09_halves": halves, "b09_signals": signals}
