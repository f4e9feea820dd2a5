"""TMA layouts: a swizzled tile on the banks, a tile narrower than its swizzle, and one payload under two
tensor maps.
"""

from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.artifact import ELEMENT_BYTES, SWIZZLES, TensorMap
from course_utils.figures.theme import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, RED, tint
from course_utils.tma.layouts import (
    BANK_BYTES,
    BANKS,
    UNIT,
    bank,
    conflicts,
    expected_bytes,
    flattened,
    row_pitch,
    same_payload,
    swizzled,
    tile_bytes,
)

ROWS = 8


def _cell(axes, x, y, width, height, text="", colour=GREY, share=0.2, lw=0.7, hatch=None, size=8) -> None:
    """A square-cornered cell, for grids that touch."""
    axes.add_patch(
        Rectangle(
            (x, y),
            width,
            height,
            lw=lw,
            edgecolor=colour,
            hatch=hatch,
            zorder=2,
            facecolor="white" if hatch else tint(colour, share),
        )
    )
    if text:
        label(axes, x + width / 2, y + height / 2, text, size=size)


def swizzle_banks():
    """Eight rows of eight pieces over the 32 banks, without and with swizzle 128B, and what each bank gives
    for one column.
    """
    figure, axes = sheet(9.6, 5.2)
    row_bytes, column = 128, 2
    width, height, top = 0.45, 0.27, 4.35
    bank_width = width * BANK_BYTES / UNIT
    for left, swizzle in ((0.78, 0), (5.58, 3)):
        wide = BANKS * bank_width
        name = f"swizzle {SWIZZLES[swizzle]}"
        label(
            axes,
            left + wide / 2,
            5.0,
            f"with {name}" if swizzle else "without a swizzle",
            size=10,
            weight="bold",
        )
        label(axes, left - 0.1, top + 0.22, "bank", size=8, colour=GREY, ha="right")
        for b in range(0, BANKS, 4):
            label(axes, left + (b + 2) * bank_width, top + 0.22, f"{b}-{b + 3}", size=8, colour=GREY)
        read = [swizzled(row * row_pitch(row_bytes, swizzle) + column * UNIT, swizzle) for row in range(ROWS)]
        turns = conflicts(read)
        colour = GREEN if turns == 1 else RED
        for row in range(ROWS):
            y = top - (row + 1) * height
            label(axes, left - 0.1, y + height / 2, f"row {row}", size=8, colour=GREY, ha="right")
            for c in range(row_bytes // UNIT):
                at = swizzled(row * row_pitch(row_bytes, swizzle) + c * UNIT, swizzle)
                dark = c == column
                _cell(
                    axes,
                    left + bank(at) * bank_width,
                    top - (at // row_bytes + 1) * height,
                    width,
                    height,
                    str(c),
                    colour if dark else BLUE,
                    0.55 if dark else 0.12,
                )
        words = [bank(at + word) for at in read for word in range(0, UNIT, BANK_BYTES)]
        floor, unit = 0.72, 0.105
        label(axes, left - 0.1, floor + 4 * unit, "words\nto give", size=8, colour=GREY, ha="right")
        axes.plot([left, left + wide], [floor] * 2, color=INK, lw=1, zorder=5)
        axes.plot([left, left + wide], [floor + unit] * 2, color=GREY, lw=0.6, ls=":", zorder=1)
        for b in range(BANKS):
            for word in range(words.count(b)):
                _cell(
                    axes,
                    left + b * bank_width,
                    floor + word * unit,
                    bank_width,
                    unit,
                    "",
                    colour,
                    0.55,
                    lw=0.5,
                )
        busy = len(set(words))
        said = (
            f"piece {column} of eight rows: all {BANKS} banks give {turns} word,\none turn"
            if turns == 1
            else f"piece {column} of eight rows: {busy} banks give {turns} words each, {BANKS - busy} none,\n"
            f"{turns} turns: the conflict is {turns}-way"
        )
        label(axes, left + wide / 2, 0.36, said, size=9, colour=colour)
        tallest = max(range(BANKS), key=words.count) // 4 * 4 + 2 if busy < BANKS else BANKS / 2
        label(
            axes,
            left + tallest * bank_width,
            floor + turns * unit + 0.12,
            str(turns),
            size=9,
            colour=colour,
            weight="bold",
        )
        label(
            axes,
            left + wide / 2,
            1.95,
            f"eight lanes read piece {column} of every row",
            size=8.5,
            colour=GREY,
        )
    return figure


def narrow_tile():
    """A box of 48-byte rows under swizzle 128B: in the tensor, in shared memory with its gaps, and the two
    sizes.
    """
    narrow = TensorMap(6, (64, 64), (128,), (24, ROWS), (1, 1), swizzle=3)
    row_bytes = narrow.box[0] * ELEMENT_BYTES[narrow.data_type]
    pieces, pitch = row_bytes // UNIT, row_pitch(row_bytes, narrow.swizzle)
    counted, allocated = expected_bytes([narrow]), tile_bytes(ROWS, row_bytes, narrow.swizzle)
    figure, axes = sheet(9.6, 4.15)
    width, height, top = 0.45, 0.27, 3.25
    left = 0.72
    label(axes, left + pieces * width / 2, 3.92, "the box", size=10, weight="bold")
    label(
        axes, left + pieces * width / 2, 3.66, f"{narrow.box[0]} halves x {ROWS} rows", size=8.5, colour=GREY
    )
    for row in range(ROWS):
        y = top - (row + 1) * height
        label(axes, left - 0.1, y + height / 2, f"row {row}", size=8, colour=GREY, ha="right")
        for c in range(pieces):
            _cell(axes, left + c * width, y, width, height, str(c), BLUE, 0.3)
    y = top - ROWS * height - 0.16
    arrow(axes, (left, y), (left + pieces * width, y), both=True, width=1)
    label(axes, left + pieces * width / 2, y - 0.18, f"{row_bytes} bytes", size=8.5)
    right = 3.25
    arrow(
        axes,
        (left + pieces * width + 0.12, top - 4 * height),
        (right - 0.2, top - 4 * height),
        f"TMA,\nswizzle {SWIZZLES[3]}",
        PURPLE,
        size=8.5,
        offset=(0, 0.25),
    )
    units = pitch // UNIT
    label(axes, right + units * width / 2, 3.92, "in shared memory", size=10, weight="bold")
    label(
        axes,
        right + units * width / 2,
        3.66,
        f"rows {pitch} bytes apart, pieces exchanged as in a full row",
        size=8.5,
        colour=GREY,
    )
    for unit in range(ROWS * units):
        row, place = divmod(unit, units)
        _cell(
            axes,
            right + place * width,
            top - (row + 1) * height,
            width,
            height,
            "",
            GREY,
            lw=0.35,
            hatch="////",
        )
    for row in range(ROWS):
        for c in range(pieces):
            line, place = divmod(swizzled(row * pitch + c * UNIT, narrow.swizzle) // UNIT, units)
            _cell(axes, right + place * width, top - (line + 1) * height, width, height, str(c), BLUE, 0.3)
    arrow(axes, (right, y), (right + units * width, y), both=True, width=1)
    label(axes, right + units * width / 2, y - 0.18, f"{pitch} bytes, the whole span", size=8.5)
    _cell(axes, right, 0.2, width * 0.8, 0.2, "", GREY, lw=0.35, hatch="////")
    label(
        axes, right + 0.5, 0.3, "nobody writes here: what lay there stays", size=8.5, ha="left", colour=GREY
    )
    x, full = 7.6, ROWS * height
    sizes = ((x, counted, BLUE, "the mbarrier\ncounts"), (x + 1.0, allocated, ORANGE, "the tile\nallocates"))
    for at, amount, colour, words in sizes:
        _cell(axes, at, top - full, 0.7, full * amount / allocated, "", colour, 0.45, lw=1.2)
        label(
            axes, at + 0.35, top - full + full * amount / allocated / 2, f"{amount:,}", size=10, weight="bold"
        )
        label(axes, at + 0.35, top - full - 0.28, words, size=8.5)
    label(axes, x + 0.85, 3.92, "two sizes, bytes", size=10, weight="bold")
    label(axes, x + 0.85, 3.66, f"{ROWS} x {row_bytes} and {ROWS} x {pitch}", size=8.5, colour=GREY)
    return figure


def three_d_two_d():
    """A box of two slabs of a rank-3 tensor, and the same rows as a box of the flattened tensor; their
    contracts below.
    """
    natural = TensorMap(6, (64, 4, 5), (128, 512), (64, 4, 2), (1, 1, 1), swizzle=3)
    flat = flattened(natural)
    first = 2  # slab of the box
    (_, middle, outer), (_, box_middle, box_outer) = natural.dims, natural.box
    at3, at2 = (0, 0, first), (0, middle * first)
    same = same_payload(natural, flat, at3, at2)
    figure, axes = sheet(9.6, 5.5)
    colours = (BLUE, GREEN)

    def row_of(z):
        taken = first <= z < first + box_outer
        return (colours[z - first], 0.4) if taken else (GREY, 0.06)

    label(axes, 1.75, 5.25, "rank 3: slabs of rows", size=10, weight="bold")
    wide, high = 1.35, 0.21
    for z in reversed(range(outer)):
        colour, share = row_of(z)
        x, y = 0.45 + 0.3 * z, 2.55 + 0.39 * z
        axes.add_patch(
            Rectangle((x, y), wide, middle * high, facecolor="white", edgecolor="none", zorder=3 - 0.1 * z)
        )
        for row in range(middle):
            axes.add_patch(
                Rectangle(
                    (x, y + (middle - 1 - row) * high),
                    wide,
                    high,
                    lw=0.8,
                    edgecolor=colour,
                    facecolor=tint(colour, share),
                    zorder=3.05 - 0.1 * z,
                )
            )
        label(
            axes,
            x + wide + 0.06,
            y + 0.1,
            f"z = {z}",
            size=8,
            ha="left",
            colour=GREY if colour == GREY else INK,
        )
    label(axes, 0.22, 2.55 + middle * high / 2, "y", size=9, ha="right", colour=RED)
    arrow(axes, (0.3, 2.55 + middle * high - 0.02), (0.3, 2.57), "", RED, width=1)

    label(
        axes, 4.8, 5.25, "in shared memory: the same" if same else "in shared memory", size=10, weight="bold"
    )
    high_shared, x = 0.26, 4.05
    top = 4.55
    for n in range(box_middle * box_outer):
        z, row = first + n // box_middle, n % box_middle
        colour, share = row_of(z)
        _cell(axes, x, top - (n + 1) * high_shared, 1.5, high_shared, f"z = {z}, y = {row}", colour, share)
    low = top - box_middle * box_outer * high_shared
    label(axes, 4.8, low - 0.2, f"{expected_bytes([natural]):,} bytes, either way", size=8.5, colour=GREY)
    if same:
        for begin, end in ((3.3, 3.98), (6.3, 5.62)):
            arrow(
                axes,
                (begin, (top + low) / 2),
                (end, (top + low) / 2),
                "TMA",
                PURPLE,
                size=8.5,
                offset=(0, 0.15),
            )

    label(axes, 7.85, 5.25, "rank 2: one run of rows", size=10, weight="bold")
    x, wide, high, top = 6.95, 1.35, 0.122, 5.0
    for n in range(flat.dims[1]):
        colour, share = row_of(n // middle)
        axes.add_patch(
            Rectangle(
                (x, top - (n + 1) * high),
                wide,
                high,
                lw=0.7,
                edgecolor=colour,
                facecolor=tint(colour, share),
                zorder=2,
            )
        )
    for z in range(outer):
        low = top - (z + 1) * middle * high
        axes.plot(
            [x + wide + 0.05, x + wide + 0.12, x + wide + 0.12, x + wide + 0.05],
            [low + 0.04, low + 0.04, low + middle * high - 0.04, low + middle * high - 0.04],
            color=GREY,
            lw=0.9,
        )
        label(
            axes,
            x + wide + 0.2,
            low + middle * high / 2,
            f"rows {z * middle} to {(z + 1) * middle - 1}",
            size=8,
            ha="left",
            colour=GREY if row_of(z)[0] == GREY else INK,
        )

    names = ("rank", "dims, elements", "strides, bytes", "box, elements", "coordinates")
    for left, tensor_map, place, title in ((0.3, natural, at3, "natural"), (5.0, flat, at2, "flattened")):
        box(axes, left, 0.5, 4.3, 1.6, "", GREY, fill=PALE)
        label(axes, left + 0.15, 1.9, f"the contract, {title}", size=9, ha="left", weight="bold")
        label(axes, left + 4.15, 1.9, "innermost first", size=8, ha="right", colour=GREY)
        values = (
            str(tensor_map.rank),
            " x ".join(map(str, tensor_map.dims)),
            ", ".join(map(str, tensor_map.strides)),
            " x ".join(map(str, tensor_map.box)),
            ", ".join(map(str, place)),
        )
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            y = 1.64 - 0.235 * i
            label(axes, left + 0.15, y, name, size=8.5, ha="left", colour=GREY)
            label(axes, left + 1.6, y, value, size=8.5, ha="left")
    label(
        axes,
        4.8,
        0.22,
        f"{middle} x {outer} rows become {flat.dims[1]}, because the outer stride is the middle stride times "
        f"the middle extent: {natural.strides[1]} = {natural.strides[0]} x {middle}",
        size=8.5,
    )
    return figure


PICTURES = {
    "tma_swizzle_banks": swizzle_banks,
    "tma_narrow_tile": narrow_tile,
    "tma_three_d_two_d": three_d_two_d,
}
