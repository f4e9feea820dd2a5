"""Step 6: the order of tiles in panels; what the tiles in flight share; stages and stores that go on across
tiles.
"""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from authoring.drawings.canvas import box, head, label, sheet, time
from course_utils.chips import HOME
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, PAPER, PURPLE, TEAL
from course_utils.figures.tiles import order

SMS = HOME.sms
STAGES = (0.45, 0.14)  # the share of blue, by stage


def panels() -> Figure:
    """The first rows of D, 8 columns wide, with each tile's number in panels of four; the tiles of one CTA
    marked.
    """
    figure, axes = sheet(3.7)
    tiles_M, tiles_N, panel, side, left, top, shown = 32, 8, 4, 0.44, 0.95, 2.95, 4
    numbers = {order(t, tiles_M, tiles_N, panel): t for t in range(tiles_M * tiles_N)}
    head(axes, left + 4 * side, 3.4, "D: 32 rows of tiles, 8 columns", ha="center")

    def corner(m: int, n: int) -> tuple[float, float]:
        return left + n * side + (0.12 if n >= panel else 0), top - (min(m, shown + 1) + 1) * side + 0.12

    def tile(m: int, n: int, mine: bool) -> None:
        x, y = corner(m, n)
        share, weight = (0.65, "bold") if mine else (0.1 + 0.12 * (n < panel), "normal")
        text = str(numbers[m, n])
        box(axes, x, y, side - 0.03, side - 0.03, text, GREEN, share, lw=2.2 if mine else 1, weight=weight)

    for (m, n), t in numbers.items():
        if m < shown or m == tiles_M - 1:
            tile(m, n, t % SMS == 1)
    for n in range(tiles_N):
        x, y = corner(shown, n)
        label(axes, x + side / 2, y + side / 2, "...", GREY)
    for m in (0, 1, tiles_M - 1):
        label(axes, left - 0.1, corner(m, 0)[1] + side / 2, f"m = {m}", GREY, ha="right")
    words = "A number is a tile's place in the order.\nPanels are 4 columns wide: within one,\n"
    label(axes, 4.95, 2.75, words + "row after row; then the next panel.", ha="left")
    label(axes, 4.95, 2.05, "CTA c takes tiles c, c + 132, c + 264, ...", ha="left")
    box(axes, 4.95, 1.47, 0.34, 0.3, "", GREEN, 0.65, lw=2.2)
    label(axes, 5.42, 1.62, "CTA 1: tile 1, then tile 133", ha="left")
    words = "At any moment 132 neighbours in this order\nare being computed, and the order decides\n"
    label(axes, 4.95, 0.85, words + "what they share.", ha="left")
    return figure


def in_flight() -> Figure:
    """64 x 64 tiles of D: the first 132 in three orders, and the rows of A and columns of B that they
    read.
    """
    figure, axes = sheet(4.6)
    count, side = 64, 2.35
    small = side / count
    words = "D of 8192 x 8192 is 64 x 64 tiles. The 132 tiles in flight first, in three orders:"
    label(axes, 4.8, 4.35, words)

    def strip(x: float, y: float, width: float, height: float, colour: str) -> None:
        axes.add_patch(Rectangle((x, y), width, height, lw=0.3, edgecolor=PAPER, facecolor=colour))

    for place, (name, panel) in enumerate((("row after row", count), ("panels of 4", 4), ("panels of 8", 8))):
        left, bottom = 0.75 + place * 3.05, 0.85
        top = bottom + side
        tiles = {order(t, count, count, panel) for t in range(SMS)}
        rows, columns = {m for m, _ in tiles}, {n for _, n in tiles}
        axes.add_patch(Rectangle((left, bottom), side, side, lw=1, edgecolor=GREY, facecolor=PAPER))
        for m in rows:
            strip(left - 0.2, top - (m + 1) * small, 0.12, small, BLUE)
        for n in columns:
            strip(left + n * small, top + 0.08, small, 0.12, BLUE)
        for m, n in tiles:
            strip(left + n * small, top - (m + 1) * small, small, small, GREEN)
        label(axes, left - 0.34, top - len(rows) * small / 2, "A", BLUE)
        label(axes, left + len(columns) * small / 2, top + 0.34, "B", BLUE)
        head(axes, left + side / 2, 3.95, name, ha="center")
        label(axes, left + side / 2, 0.6, f"{len(rows)} of A + {len(columns)} of B")
        words = f"{len(rows) + len(columns)} K tiles for {2 * SMS} loads"
        label(axes, left + side / 2, 0.32, words, GREY)
    return figure


def across_tiles() -> Figure:
    """One CTA over two tiles of D with three K tiles each: stages go on, and the store of one runs under the
    loads of the next.
    """
    figure, axes = sheet(4.05)
    left, step = 1.4, 0.64
    lanes = {"loads": 2.75, "wgmma": 2.25, "epilogue": 1.75, "TMA store": 1.25}
    for name, y in lanes.items():
        label(axes, left - 0.12, y + 0.19, name, ha="right")

    def span(lane: str, begin: float, end: float, text: str, colour: str, share: float = 0.22) -> None:
        width = (end - begin) * step - 0.04
        box(axes, left + begin * step + 0.02, lanes[lane], width, 0.38, text, colour, share)

    for tile, start in enumerate((0, 5.9)):
        name = ("first", "second")[tile]
        middle = left + (start + 2) * step
        head(axes, middle, 3.72, f"{name} tile of D: done = {3 * tile}", ha="center")
        for k in range(3):
            count = 3 * tile + k
            stage, parity = count % 2, count // 2 & 1
            span("loads", start + k, start + k + 1, f"k = {k}", BLUE, STAGES[stage])
            span("wgmma", start + k + 1, start + k + 2, f"k = {k}", GREEN)
            x = left + (start + k + 0.5) * step
            label(axes, x, lanes["loads"] + 0.57, f"{stage}, {parity}", TEAL)
        span("epilogue", start + 4, start + 5.75, "to D_shared", ORANGE)
        end = min(start + 8.95, 12.62)
        span("TMA store", start + 5.75, end, ("store the first tile", "store")[tile], PURPLE)
    wait = left + 9.9 * step
    axes.plot([wait, wait], [0.92, 2.2], color=TEAL, lw=1.6, ls="--", zorder=1)
    label(axes, wait, 0.68, "here: has the store before\nread D_shared?", TEAL)
    time(axes, left, 9.45, 0.28)
    label(axes, left - 0.12, lanes["loads"] + 0.57, "stage, parity", TEAL, ha="right")
    return figure


PICTURES = {"step06_panels": panels, "step06_in_flight": in_flight, "step06_across_tiles": across_tiles}
