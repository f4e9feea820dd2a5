"""Notebook b06: one accumulator, tile after tile; tiles by a fixed grid, and from the hardware."""

from matplotlib.figure import Figure

from authoring.drawings.canvas import box, head, label, sheet, time
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, TEAL

TILES = 2


def across_tiles() -> Figure:
    """One CTA, two tiles of D: the columns stay, and the next tile's first MMA waits until acc is read."""
    figure, axes = sheet(4.5)
    left, span = 1.6, 3.6
    rows = {"loads": 3.25, "tensor core": 2.7, "all warps": 2.15, "TMA store": 1.6, "columns": 1.05}
    for name, y in rows.items():
        label(axes, left - 0.12, y + 0.2, name, ha="right")

    def does(row: str, x: float, width: float, text: str, colour: str, share: float = 0.22) -> None:
        box(axes, x, rows[row], width - 0.04, 0.4, text, colour, share)

    does("columns", left, TILES * span, "128 columns, allocated once: acc", GREY, 0.08)
    for tile in range(TILES):
        x = left + tile * span
        head(axes, x + 1.3, 4.12, f"tile {tile} of this CTA", ha="center")
        does("loads", x, 1.6, "K tiles", BLUE)
        does("tensor core", x + 0.5, 1.6, f"acc = tile {tile}", GREEN, 0.35)
        does("all warps", x + 2.12, 1.35, "ld, D_shared", ORANGE)
        does("TMA store", x + 3.6, 1.25 if tile == 0 else 0.6, "D" if tile else "store D", PURPLE)
        axes.plot([x + 2.09] * 2, [2.2, 3.85], color=TEAL, lw=1.6, zorder=5)
        label(axes, x + 2.15, 3.78, f"done: phase {tile}", TEAL, ha="left")
    x = left + span
    axes.plot([x - 0.08] * 2, [1.5, 3.75], color=INK, lw=1.2, ls=":", zorder=5)
    label(axes, x - 0.08, 0.65, "dotted: every warp has read acc, and the next tile may overwrite it")
    time(axes, left, left + TILES * span + 0.3, 0.25)
    return figure


# units of time that a tile takes, by SM: a picture's choice, not a measurement
TAKES = (1, 1, 1, 2)
WORK = 12


def fixed() -> list[list[tuple[float, int]]]:
    """Start and tile of each SM, of a grid that adds the number of CTAs."""
    return [
        [(i * takes, sm + i * len(TAKES)) for i in range(WORK // len(TAKES))]
        for sm, takes in enumerate(TAKES)
    ]


def handed_out() -> list[list[tuple[float, int]]]:
    """The same, where whoever is free takes the next tile."""
    free: list[float] = [0.0] * len(TAKES)
    found: list[list[tuple[float, int]]] = [[] for _ in TAKES]
    for tile in range(WORK):
        sm = min(range(len(TAKES)), key=lambda one: (free[one], one))
        found[sm].append((free[sm], tile))
        free[sm] += TAKES[sm]
    return found


def launch_control() -> Figure:
    """Twelve tiles on four SMs, the last of which takes twice as long."""
    figure, axes = sheet(3.6)
    unit, side = 0.58, 0.36
    for left, name, plan in ((1.15, "fixed grid", fixed()), (5.75, "cluster launch control", handed_out())):
        head(axes, left, 3.3, name)
        for sm, tiles in enumerate(plan):
            y = 2.6 - sm * 0.48
            if left < 2:
                label(axes, left - 0.12, y + side / 2, f"SM {sm}" + ", slow" * (sm == 3), ha="right")
            for start, tile in tiles:
                asked = plan == handed_out() and tile >= len(TAKES)
                width = TAKES[sm] * unit - 0.04
                box(axes, left + start * unit, y, width, side, str(tile), TEAL if asked else GREEN)
        end = max(start + TAKES[sm] for sm, tiles in enumerate(plan) for start, _ in tiles)
        axes.plot([left + end * unit] * 2, [1.0, 3.1], color=INK, lw=1.2, ls=":", zorder=5)
        time(axes, left, left + 6.4 * unit, 0.8)
    label(
        axes,
        4.8,
        0.35,
        "green: the CTA's own tile, by its number; teal: the tile of a CTA that was cancelled",
    )
    return figure


PICTURES = {"b06_across_tiles": across_tiles, "b06_launch_control": launch_control}
