"""TMA layouts: a swizzled tile on the banks, a tile narrower than its swizzle, and one payload under two
tensor maps.
"""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from authoring.drawings.canvas import arrow, box, cell, head, label, measure, sheet
from course_utils.artifact import ELEMENT_BYTES, SWIZZLES, TensorMap
from course_utils.figures.theme import BLUE, GREY, INK, PAPER, RED, TEAL
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


def _hatched(axes: Axes, x: float, y: float, width: float, height: float) -> None:
    """A cell that nobody writes."""
    axes.add_patch(
        Rectangle((x, y), width, height, lw=0.35, edgecolor=GREY, facecolor=PAPER, hatch="////", zorder=2)
    )


def swizzle_banks() -> Figure:
    """Eight rows of eight pieces over the 32 banks, without and with swizzle 128B, and what each bank gives
    for one column.
    """
    figure, axes = sheet(5.6)
    for left, swizzle in ((0.8, 0), (5.6, 3)):
        _banks(axes, left, swizzle)
    return figure


def _banks(axes: Axes, left: float, swizzle: int) -> None:
    row_bytes, column = 128, 2
    width, height, top = 0.47, 0.27, 4.7
    bank_width = width * BANK_BYTES / UNIT
    wide = BANKS * bank_width
    middle = left + wide / 2
    title = f"with swizzle {SWIZZLES[swizzle]}" if swizzle else "without a swizzle"
    head(axes, middle, 5.33, title, ha="center")
    label(axes, left - 0.1, top + 0.2, "bank", GREY, ha="right")
    for b in range(0, BANKS, 4):
        label(axes, left + (b + 2) * bank_width, top + 0.2, f"{b}-{b + 3}", GREY)
    pitch = row_pitch(row_bytes, swizzle)
    read = [swizzled(row * pitch + column * UNIT, swizzle) for row in range(ROWS)]
    turns = conflicts(read)
    colour = BLUE if turns == 1 else RED
    for row in range(ROWS):
        label(axes, left - 0.1, top - (row + 0.5) * height, f"row {row}", GREY, ha="right")
        for c in range(row_bytes // UNIT):
            at = swizzled(row * pitch + c * UNIT, swizzle)
            x, y = left + bank(at) * bank_width, top - (at // row_bytes + 1) * height
            paint, share = (colour, 0.5) if c == column else (BLUE, 0.1)
            cell(axes, x, y, width, height, str(c), paint, share)
    label(axes, middle, 2.3, f"eight lanes read piece {column} of every row", GREY)
    words = [bank(at + word) for at in read for word in range(0, UNIT, BANK_BYTES)]
    floor, unit = 0.98, 0.1
    label(axes, left - 0.1, floor + 4 * unit, "words\nto give", GREY, ha="right")
    axes.plot([left, left + wide], [floor] * 2, color=INK, lw=1, zorder=5)
    axes.plot([left, left + wide], [floor + unit] * 2, color=GREY, lw=0.6, ls=":", zorder=1)
    for b in range(BANKS):
        for word in range(words.count(b)):
            cell(axes, left + b * bank_width, floor + word * unit, bank_width, unit, "", colour, 0.5, lw=0.5)
    busy = len(set(words))
    said = f"all {BANKS} banks give {turns} word:\none turn"
    if turns > 1:
        said = f"{busy} banks give {turns} words each, {BANKS - busy} none:\n"
        said += f"{turns} turns, the conflict is {turns}-way"
    label(axes, middle, 0.45, f"piece {column} of eight rows: {said}", colour)
    tallest = max(range(BANKS), key=words.count) // 4 * 4 + 2 if busy < BANKS else BANKS / 2
    x = left + tallest * bank_width
    label(
        axes,
        x + (0.35 if turns > 1 else 0),
        floor + turns * unit + (-0.08 if turns > 1 else 0.13),
        str(turns),
    )


def narrow_tile() -> Figure:
    """A box of 48-byte rows under swizzle 128B: in the tensor, in shared memory with its gaps, and the two
    sizes.
    """
    narrow = TensorMap(6, (64, 64), (128,), (24, ROWS), (1, 1), swizzle=3)
    row_bytes = narrow.box[0] * ELEMENT_BYTES[narrow.data_type]
    pieces, pitch = row_bytes // UNIT, row_pitch(row_bytes, narrow.swizzle)
    counted, allocated = expected_bytes([narrow]), tile_bytes(ROWS, row_bytes, narrow.swizzle)
    figure, axes = sheet(4.5)
    width, height, top, left, right = 0.45, 0.27, 3.3, 0.75, 3.35
    y = top - ROWS * height - 0.16
    end = left + pieces * width
    head(axes, (left + end) / 2, 4.2, "the box", ha="center")
    label(axes, (left + end) / 2, 3.82, f"{narrow.box[0]} halves\nx {ROWS} rows", GREY)
    for row in range(ROWS):
        label(axes, left - 0.1, top - (row + 0.5) * height, f"row {row}", GREY, ha="right")
        for c in range(pieces):
            cell(axes, left + c * width, top - (row + 1) * height, width, height, str(c), BLUE, 0.3)
    measure(axes, (left, y), (end, y))
    label(axes, (left + end) / 2, y - 0.2, f"{row_bytes} bytes")
    start, stop = (end + 0.1, top - 4 * height), (right - 0.1, top - 4 * height)
    arrow(axes, start, stop, f"TMA,\nswizzle\n{SWIZZLES[3]}", BLUE, offset=(0, 0.38))
    units = pitch // UNIT
    middle = right + units * width / 2
    head(axes, middle, 4.2, "in shared memory", ha="center")
    words = f"rows {pitch} bytes apart,\npieces exchanged as in a full row"
    label(axes, middle, 3.82, words, GREY)
    for unit in range(ROWS * units):
        row, place = divmod(unit, units)
        _hatched(axes, right + place * width, top - (row + 1) * height, width, height)
    for row in range(ROWS):
        for c in range(pieces):
            line, place = divmod(swizzled(row * pitch + c * UNIT, narrow.swizzle) // UNIT, units)
            at = (right + place * width, top - (line + 1) * height)
            cell(axes, *at, width, height, str(c), BLUE, 0.3)
    measure(axes, (right, y), (right + units * width, y))
    label(axes, middle, y - 0.2, f"{pitch} bytes, the whole span")
    _hatched(axes, right, 0.25, width * 0.8, 0.24)
    label(axes, right + 0.5, 0.37, "nothing is written here: old contents stay", GREY, ha="left")
    full = ROWS * height
    sizes = (
        (7.4, counted, TEAL, 0.2, "the mbarrier\ncounts"),
        (8.6, allocated, GREY, 0.18, "the tile\nallocates"),
    )
    for x, amount, colour, share, words in sizes:
        tall = full * amount / allocated
        cell(axes, x, top - full, 0.75, tall, f"{amount:,}", colour, share, lw=1.2, weight="bold")
        label(axes, x + 0.375, top - full - 0.3, words)
    head(axes, 8.38, 4.2, "two sizes, bytes", ha="center")
    label(axes, 8.38, 3.82, f"{ROWS} x {row_bytes} and\n{ROWS} x {pitch}", GREY)
    return figure


def three_d_two_d() -> Figure:
    """A box of two slabs of a rank-3 tensor, and the same rows as a box of the flattened tensor; their
    contracts below.
    """
    natural = TensorMap(6, (64, 4, 5), (128, 512), (64, 4, 2), (1, 1, 1), swizzle=3)
    flat = flattened(natural)
    first = 2  # slab of the box
    _, middle, outer = natural.dims
    at3, at2 = (0, 0, first), (0, middle * first)
    figure, axes = sheet(6.1)

    def row_of(z: int) -> tuple[str, float, str]:
        taken = first <= z < first + natural.box[2]
        return (BLUE, (0.2, 0.55)[z - first], INK) if taken else (GREY, 0.06, GREY)

    head(axes, 1.75, 5.82, "rank 3: slabs of rows", ha="center")
    wide, high = 1.3, 0.21
    for z in reversed(range(outer)):
        colour, share, ink = row_of(z)
        x, y = 0.5 + 0.3 * z, 3.05 + 0.39 * z
        for row in range(middle):
            at = y + (middle - 1 - row) * high
            cell(axes, x, at, wide, high, "", colour, share, lw=0.8, zorder=3 - 0.1 * z)
        label(axes, x + wide + 0.06, y + 0.1, f"z = {z}", ink, ha="left")
    label(axes, 0.27, 3.05 + middle * high / 2, "y", ha="right")
    measure(axes, (0.37, 3.05 + middle * high), (0.37, 3.05), both=False)
    low, top = _in_shared(axes, natural, first, row_of)
    same = same_payload(natural, flat, at3, at2)
    title = "in shared memory: the same" if same else "in shared memory"
    head(axes, 4.8, 5.82, title, ha="center")
    if same:
        for begin, end in ((3.3, 4.05), (6.65, 5.55)):
            arrow(axes, (begin, (top + low) / 2), (end, (top + low) / 2), "TMA", BLUE)
    _run(axes, flat, middle, outer, row_of)
    for left, tensor_map, place, title in ((0.2, natural, at3, "natural"), (4.9, flat, at2, "flattened")):
        _contract(axes, left, tensor_map, place, title)
    words = f"{middle} x {outer} rows become {flat.dims[1]}, because the outer stride is the middle stride\n"
    words += f"times the middle extent: {natural.strides[1]} = {natural.strides[0]} x {middle}"
    label(axes, 4.8, 0.4, words)
    return figure


def _in_shared(
    axes: Axes, natural: TensorMap, first: int, row_of: Callable[[int], tuple[str, float, str]]
) -> tuple[float, float]:
    """The rows of the box as they lie in shared memory. Returns the lower and upper edge."""
    _, box_middle, box_outer = natural.box
    high, top = 0.27, 5.35
    for n in range(box_middle * box_outer):
        z, row = first + n // box_middle, n % box_middle
        colour, share, _ = row_of(z)
        cell(axes, 4.05, top - (n + 1) * high, 1.5, high, f"z = {z}, y = {row}", colour, share)
    low = top - box_middle * box_outer * high
    label(axes, 4.8, low - 0.2, f"{expected_bytes([natural]):,} bytes, either way", GREY)
    return low, top


def _run(
    axes: Axes, flat: TensorMap, middle: int, outer: int, row_of: Callable[[int], tuple[str, float, str]]
) -> None:
    """The flattened tensor as one run of rows, with a bracket for each slab."""
    head(axes, 7.75, 5.82, "rank 2: one run of rows", ha="center")
    x, wide, high, top = 6.75, 1.3, 0.126, 5.5
    for n in range(flat.dims[1]):
        colour, share, _ = row_of(n // middle)
        cell(axes, x, top - (n + 1) * high, wide, high, "", colour, share)
    for z in range(outer):
        low, end = top - (z + 1) * middle * high + 0.04, top - z * middle * high - 0.04
        side = x + wide + 0.05
        axes.plot([side, side + 0.07, side + 0.07, side], [low, low, end, end], color=GREY, lw=0.9)
        words = f"rows {z * middle} to {(z + 1) * middle - 1}"
        label(axes, side + 0.15, (low + end) / 2, words, row_of(z)[2], ha="left")


def _contract(axes: Axes, left: float, tensor_map: TensorMap, place: tuple[int, ...], title: str) -> None:
    box(axes, left, 0.75, 4.5, 1.75, "", GREY, 0.06)
    label(axes, left + 0.15, 2.3, f"the contract, {title}", ha="left", weight="bold")
    label(axes, left + 4.35, 2.3, "innermost first", GREY, ha="right")
    rows = (
        ("rank", str(tensor_map.rank)),
        ("dims, elements", " x ".join(map(str, tensor_map.dims))),
        ("strides, bytes", ", ".join(map(str, tensor_map.strides))),
        ("box, elements", " x ".join(map(str, tensor_map.box))),
        ("coordinates", ", ".join(map(str, place))),
    )
    for i, (name, value) in enumerate(rows):
        label(axes, left + 0.15, 2.0 - 0.26 * i, name, GREY, ha="left")
        label(axes, left + 1.7, 2.0 - 0.26 * i, value, ha="left")


PICTURES = {
    "tma_swizzle_banks": swizzle_banks,
    "tma_narrow_tile": narrow_tile,
    "tma_three_d_two_d": three_d_two_d,
}
