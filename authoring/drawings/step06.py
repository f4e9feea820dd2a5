"""Step 6: the order of tiles in panels; what the tiles in flight share; stages and stores that go on across
tiles.
"""

from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, tint
from course_utils.figures.tiles import order

SMS = 132


def panels():
    """The first rows of D, 8 columns wide, with each tile's number in panels of four; the tiles of one CTA
    marked.
    """
    figure, axes = sheet(9.6, 3.25)
    tiles_M, tiles_N, panel, side, left, top, shown = 32, 8, 4, 0.44, 1.05, 2.68, 4
    numbers = {order(t, tiles_M, tiles_N, panel): t for t in range(tiles_M * tiles_N)}
    label(axes, left + 4 * side, 3.03, "D: 32 rows of tiles, 8 columns", size=9, weight="bold")
    for (m, n), t in numbers.items():
        if m < shown or m == tiles_M - 1:
            y = top - (min(m, shown + 1) + 1) * side + 0.12
            mine = t % SMS == 1
            box(
                axes,
                left + n * side + (0.12 if n >= panel else 0),
                y,
                side - 0.03,
                side - 0.03,
                str(t),
                ORANGE if mine else GREEN,
                size=8,
                fill=tint(ORANGE if mine else GREEN, 0.35 if mine else 0.1 + 0.1 * (n < panel)),
            )
    for n in range(tiles_N):
        label(
            axes,
            left + (n + 0.5) * side + (0.12 if n >= panel else 0),
            top - (shown + 0.5) * side + 0.12,
            "...",
            size=8,
            colour=GREY,
        )
    for m in (0, 1, tiles_M - 1):
        label(
            axes,
            left - 0.12,
            top - (min(m, shown + 1) + 0.5) * side + 0.12,
            f"m = {m}",
            size=8,
            colour=GREY,
            ha="right",
        )
    label(
        axes,
        5.15,
        2.45,
        "A number is a tile's place in the order. Panels are 4 columns\n"
        "wide: within one, row after row; then the next panel.",
        size=8.5,
        ha="left",
    )
    label(axes, 5.15, 1.8, "CTA c takes tiles c, c + 132, c + 264, ...", size=8.5, ha="left")
    box(axes, 5.15, 1.25, 0.3, 0.26, "", ORANGE, fill=tint(ORANGE, 0.35))
    label(axes, 5.58, 1.38, "CTA 1: tile 1, then tile 133", size=8.5, ha="left")
    label(
        axes,
        5.15,
        0.8,
        "At any moment 132 neighbours in this order are being\ncomputed, and the order decides what they "
        "share.",
        size=8.5,
        ha="left",
    )
    return figure


def in_flight():
    """64 x 64 tiles of D: the first 132 in three orders, and the rows of A and columns of B that they
    read.
    """
    figure, axes = sheet(9.6, 4.2)
    count, side = 64, 2.35
    cell = side / count
    label(
        axes,
        4.97,
        4.02,
        "D of 8192 x 8192 is 64 x 64 tiles. The 132 tiles in flight first, in three orders:",
        size=9,
    )
    for place, (name, panel) in enumerate((("row after row", count), ("panels of 4", 4), ("panels of 8", 8))):
        left, bottom = 0.75 + place * 3.05, 0.75
        tiles = {order(t, count, count, panel) for t in range(SMS)}
        rows, columns = {m for m, _ in tiles}, {n for _, n in tiles}
        axes.add_patch(Rectangle((left, bottom), side, side, lw=1, edgecolor=GREY, facecolor="white"))
        for m in rows:
            axes.add_patch(
                Rectangle((left - 0.2, bottom + side - (m + 1) * cell), 0.12, cell, lw=0, facecolor=BLUE)
            )
        for n in columns:
            axes.add_patch(
                Rectangle((left + n * cell, bottom + side + 0.08), cell, 0.12, lw=0, facecolor=PURPLE)
            )
        for m, n in tiles:
            axes.add_patch(
                Rectangle(
                    (left + n * cell, bottom + side - (m + 1) * cell),
                    cell,
                    cell,
                    lw=0.3,
                    edgecolor="white",
                    facecolor=GREEN,
                )
            )
        label(axes, left - 0.32, bottom + side - len(rows) * cell / 2, "A", size=9, colour=BLUE)
        label(axes, left + len(columns) * cell / 2, bottom + side + 0.33, "B", size=9, colour=PURPLE)
        label(axes, left + side / 2, 3.72, name, size=9.5, weight="bold")
        label(axes, left + side / 2, 0.5, f"{len(rows)} of A + {len(columns)} of B", size=9)
        label(
            axes,
            left + side / 2,
            0.22,
            f"{len(rows) + len(columns)} different K tiles for {2 * SMS} loads",
            size=8.5,
            colour=GREY,
        )
    return figure


def across_tiles():
    """One CTA over two tiles of D with three K tiles each: stages go on, and the store of one runs under the
    loads of the next.
    """
    figure, axes = sheet(9.6, 3.6)
    left, step = 1.75, 0.62
    lanes = {"loads": 2.45, "wgmma": 1.95, "epilogue": 1.45, "TMA store": 0.95}
    for name, y in lanes.items():
        label(axes, left - 0.15, y + 0.18, name, size=8.5, ha="right")
    for tile in range(2):
        start = left + tile * 5.9 * step
        label(
            axes,
            start + 2 * step,
            3.35,
            f"the CTA's {('first', 'second')[tile]} tile of D: done = {3 * tile}",
            size=9,
            weight="bold",
        )
        for k in range(3):
            count = 3 * tile + k
            stage, parity = count % 2, count // 2 & 1
            box(
                axes,
                start + k * step + 0.02,
                lanes["loads"],
                step - 0.04,
                0.36,
                f"k = {k}",
                BLUE,
                size=8,
                fill=tint(BLUE, (0.35, 0.1)[stage]),
            )
            box(
                axes,
                start + (k + 1) * step + 0.02,
                lanes["wgmma"],
                step - 0.04,
                0.36,
                f"k = {k}",
                GREEN,
                size=8,
            )
            label(
                axes,
                start + (k + 0.5) * step,
                lanes["loads"] + 0.56,
                f"{stage}, {parity}",
                size=8,
                colour=RED,
            )
        box(
            axes,
            start + 4 * step + 0.02,
            lanes["epilogue"],
            1.5 * step - 0.04,
            0.36,
            "to D_shared",
            ORANGE,
            size=8,
        )
        begin, end = start + 5.5 * step, min(start + 8.7 * step, 9.45)
        box(
            axes,
            begin + 0.02,
            lanes["TMA store"],
            end - begin - 0.04,
            0.36,
            ("store the first tile", "store")[tile],
            PURPLE,
            size=8,
        )
    wait = left + 9.9 * step
    axes.plot([wait, wait], [0.62, 2.35], color=RED, lw=1.2, ls="--", zorder=1)
    label(axes, wait, 0.42, "here: has the store before\nread D_shared?", size=8.5, colour=RED)
    arrow(axes, (left, 0.1), (9.45, 0.1), "", GREY, width=1)
    label(axes, left - 0.15, 0.1, "time", size=8.5, colour=GREY, ha="right")
    label(axes, left - 0.15, lanes["loads"] + 0.56, "stage, parity", size=8, colour=RED, ha="right")
    return figure


PICTURES = {"step06_panels": panels, "step06_in_flight": in_flight, "step06_across_tiles": across_tiles}
