"""The tiled tensor map: the 128-byte descriptor that TMA reads, as the fields that made it, and the rules it
must keep.

Field names, units and numeric codes are those of ``cuTensorMapEncodeTiled`` (CUDA driver API, "Tensor Map
Object Management"), so a map can be held against the driver's documentation line by line. ``RULES`` is the
contract as data; ``violations`` names every rule that a map breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from course_utils.artifact import (
    BOX_LIMIT,
    DATA_TYPES,
    ELEMENT_BYTES,
    FIRST_FLOAT_TYPE,
    INTERLEAVES,
    L2_PROMOTIONS,
    OOB_FILLS,
    PACKED_DATA_TYPES,
    SWIZZLE_BYTES,
    SWIZZLE_PATTERN_BYTES,
    SWIZZLES,
    TensorMap,
    number_text,
)
from course_utils.chips import HOME, Chip

DOCUMENTED = "cuTensorMapEncodeTiled"
OBSERVED = "observed on H200, driver 580"

# Rule id: (the rule in a sentence, where it comes from). In the order of the driver's arguments.
# fmt: off
RULES = {
    "data-type": ("tensorDataType must be one of the driver's 16 codes, 0 to 15.", DOCUMENTED),
    "data-type-packed": ("The packed 4-bit and 6-bit types, codes 13 to 15, are not for Hopper.", OBSERVED),
    "rank": ("tensorRank must be 1 to 5.", DOCUMENTED),
    "interleave-needs-rank-3": ("An interleaved tensor must have a rank of 3 or more.", DOCUMENTED),
    "array-length": (
        "boxDim and elementStrides need one entry for each dimension, globalStrides one "
        "fewer.", DOCUMENTED),
    "address-multiple-of-16": ("globalAddress must be a multiple of 16 bytes.", DOCUMENTED),
    "address-multiple-of-32": (
        "With interleave 32B, globalAddress must be a multiple of 32 bytes.", DOCUMENTED),
    "address-range": ("globalAddress must be below 2^57.", OBSERVED),
    "dim-range": ("Each globalDim must be 1 to 2^32 elements.", DOCUMENTED),
    "stride-multiple-of-16": ("Each globalStrides entry must be a multiple of 16 bytes.", DOCUMENTED),
    "stride-multiple-of-32": (
        "With interleave 32B, each globalStrides entry must be a multiple of 32 bytes.", DOCUMENTED),
    "stride-range": ("Each globalStrides entry must be 0 or more and less than 2^40 bytes.", DOCUMENTED),
    "box-range": (f"Each boxDim must be 1 to {BOX_LIMIT} elements.", DOCUMENTED),
    "box-inner-multiple-of-16": (
        "One row of the box, boxDim[0] x element size, must be a multiple of 16 bytes.", DOCUMENTED),
    "box-inner-multiple-of-16-interleaved": (
        "One row of the box must be a multiple of 16 bytes with interleave 16B and 32B too.", OBSERVED),
    "box-fits-shared-memory": (
        "The box, the product of all boxDim[i] // elementStrides[i] x element size, must be at "
        f"most {HOME.sm_shared} bytes (228 KB).", OBSERVED),
    "element-stride-range": (
        "Each elementStrides entry must be 1 to 8, the first one too, although TMA ignores it"
        " without interleave.", DOCUMENTED),
    "interleave": ("interleave must be one of 0 (none), 1 (16B), 2 (32B).", DOCUMENTED),
    "swizzle": ("swizzle must be one of the driver's seven codes, 0 to 6.", DOCUMENTED),
    "swizzle-on-hopper": (
        "Hopper has swizzle none, 32B, 64B and 128B; codes 4 to 6 are for later chips.", OBSERVED),
    "swizzle-span": (
        "Without interleave, one row of a swizzled box must fit in the swizzle's bytes.", DOCUMENTED),
    "l2-promotion": ("l2Promotion must be one of 0 (none), 1 (64B), 2 (128B), 3 (256B).", DOCUMENTED),
    "oob-fill": ("oobFill must be 0 (zero) or 1 (nan).", DOCUMENTED),
    "nan-fill-needs-float": ("oobFill 1 (nan) needs a floating-point data type.", DOCUMENTED),
}
# fmt: on


@dataclass(frozen=True)
class Violation:
    """One rule that one map breaks.

    ``nearest`` mends this rule alone; it is "" where no nearest value makes sense.
    """

    rule: str
    sentence: str
    found: str
    nearest: str
    source: str

    def __str__(self) -> str:
        mend = f" Nearest legal: {self.nearest}." if self.nearest else ""
        return f"{self.sentence} Found: {self.found}.{mend} [{self.rule}]"


def violations(tensor_map: TensorMap, address: int = 0, chip: Chip = HOME) -> list[Violation]:
    """Every rule of ``RULES`` that the map breaks, in that order; an empty list means that the driver accepts
    it.

    ``address`` is globalAddress in bytes; its offset from an aligned base is enough. On Hopper's
    the answer is the H200 driver's. For other chips the documented rules hold, the observed ones are assumed
    (but for the swizzle modes), and the packed data types are left out. No value of a field raises an error.

    The driver is more lenient than its page in two places, and so is this function: interleave 32B is
    accepted with every swizzle (the page asks for 32B), and strides may be 0, overlap or come in any order.
    """
    m = tensor_map
    found: dict[str, tuple[str, str]] = {}  # rule id: (what was found, nearest legal value), both in words

    def check_each(rule: str, name: str, values: tuple[int, ...], nearest: Callable[[int], int]) -> None:
        """Holds each entry of an array to a rule.

        An entry is legal where it is its own nearest legal value.
        """
        wrong = {i: value for i, value in enumerate(values) if value != nearest(value)}
        if wrong:
            found[rule] = (_entries(name, wrong), _entries(name, {i: nearest(v) for i, v in wrong.items()}))

    def check_code(rule: str, name: str, value: int, names: tuple[str, ...]) -> None:
        if not 0 <= value < len(names):
            found[rule] = (f"{name} = {number_text(value)}", f"{name} = {_clamp(value, 0, len(names) - 1)}")

    if m.data_type in PACKED_DATA_TYPES:
        found["data-type-packed"] = (f"tensorDataType = {m.data_type}", "tensorDataType = 0 (uint8)")
    else:
        check_code("data-type", "tensorDataType", m.data_type, DATA_TYPES)

    if not 1 <= m.rank <= 5:
        found["rank"] = (f"tensorRank = {m.rank}", f"tensorRank = {_clamp(m.rank, 1, 5)}")
    if m.interleave in (1, 2) and m.rank < 3:
        found["interleave-needs-rank-3"] = (
            f"interleave {INTERLEAVES[m.interleave]}, tensorRank = {m.rank}",
            "tensorRank = 3, or interleave none",
        )

    lengths = {
        "globalStrides": len(m.strides),
        "boxDim": len(m.box),
        "elementStrides": len(m.element_strides),
    }
    needed = {"globalStrides": max(m.rank - 1, 0), "boxDim": m.rank, "elementStrides": m.rank}
    wrong = [name for name in lengths if lengths[name] != needed[name]]
    if wrong:
        found["array-length"] = (
            ", ".join(f"{name} of length {lengths[name]}" for name in wrong),
            ", ".join(f"{name} of length {needed[name]}" for name in wrong),
        )

    at = f"globalAddress = {number_text(address)}"
    if address % 16 != 0:
        found["address-multiple-of-16"] = (at, f"globalAddress = {number_text(_round_up(address, 16))}")
    if address % 32 != 0 and m.interleave == 2:
        found["address-multiple-of-32"] = (at, f"globalAddress = {number_text(_round_up(address, 32))}")
    if not 0 <= address < 2**57:
        found["address-range"] = (at, "")

    check_each("dim-range", "globalDim", m.dims, lambda dim: _clamp(dim, 1, 2**32))

    # Up and not down: a smaller stride would make the rows of a dense tensor overlap.
    check_each("stride-multiple-of-16", "globalStrides", m.strides, lambda stride: _round_up(stride, 16))
    if m.interleave == 2:
        check_each("stride-multiple-of-32", "globalStrides", m.strides, lambda stride: _round_up(stride, 32))
    top = 2**40 - (32 if m.interleave == 2 else 16)
    check_each(
        "stride-range",
        "globalStrides",
        m.strides,
        lambda stride: stride if 0 <= stride < 2**40 else _clamp(stride, 0, top),
    )

    check_each("box-range", "boxDim", m.box, lambda extent: _clamp(extent, 1, BOX_LIMIT))
    if 0 <= m.data_type < len(DATA_TYPES) and m.box:
        found.update(_box_violations(m, chip))

    check_each("element-stride-range", "elementStrides", m.element_strides, lambda step: _clamp(step, 1, 8))

    check_code("interleave", "interleave", m.interleave, INTERLEAVES)
    last_swizzle = chip.swizzles - 1
    if not 0 <= m.swizzle < len(SWIZZLES):
        found["swizzle"] = (
            f"swizzle = {number_text(m.swizzle)}",
            f"swizzle = {_clamp(m.swizzle, 0, last_swizzle)}",
        )
    elif m.swizzle > last_swizzle:
        found["swizzle-on-hopper"] = (f"swizzle = {m.swizzle} ({SWIZZLES[m.swizzle]})", "swizzle = 3 (128B)")
    check_code("l2-promotion", "l2Promotion", m.l2_promotion, L2_PROMOTIONS)
    check_code("oob-fill", "oobFill", m.oob_fill, OOB_FILLS)
    if m.oob_fill == 1 and 0 <= m.data_type < FIRST_FLOAT_TYPE:
        found["nan-fill-needs-float"] = (
            f"oobFill nan, tensorDataType {DATA_TYPES[m.data_type]}",
            "oobFill = 0 (zero)",
        )

    return [
        Violation(rule, sentence, *found[rule], source)
        for rule, (sentence, source) in RULES.items()
        if rule in found
    ]


def _box_violations(m: TensorMap, chip: Chip) -> dict[str, tuple[str, str]]:
    """What is wrong with the box's bytes: rule id to (what was found, nearest legal value)."""
    found = {}
    element_bytes = ELEMENT_BYTES[m.data_type]
    row_bytes = m.box[0] * element_bytes
    if row_bytes % 16 != 0 and m.interleave in (0, 1, 2):
        rule = "box-inner-multiple-of-16" if m.interleave == 0 else "box-inner-multiple-of-16-interleaved"
        unit = 16 // element_bytes
        found[rule] = (
            _row(m.box[0], element_bytes),
            _row(_clamp(_round_up(m.box[0], unit), unit, BOX_LIMIT), element_bytes),
        )

    # The driver compares with the shared memory of one SM, although a CTA gets 1 KB less of it.
    box_bytes = driver_box_bytes(m)
    if box_bytes > chip.sm_shared and min(m.box) > 0:
        found["box-fits-shared-memory"] = (f"{number_text(box_bytes)} bytes", f"{chip.sm_shared} bytes")

    if m.interleave == 0 and 1 <= m.swizzle < len(SWIZZLES) and row_bytes > SWIZZLE_BYTES[m.swizzle]:
        nearest = _row(SWIZZLE_BYTES[m.swizzle] // element_bytes, element_bytes)
        wider = [code for code in range(1, len(SWIZZLE_PATTERN_BYTES)) if row_bytes <= SWIZZLE_BYTES[code]]
        if wider:
            nearest += f", or swizzle {SWIZZLES[wider[0]]}"
        found["swizzle-span"] = (f"{_row(m.box[0], element_bytes)}, swizzle {SWIZZLES[m.swizzle]}", nearest)
    return found


def driver_box_bytes(tensor_map: TensorMap) -> int:
    """The driver's own number for a box: what it limits, and stores in the map's bytes; element strides below
    1 count as 1.

    It divides by every element stride, rounding down, so a box that is narrower than its stride counts as 0.
    TMA rounds up and passes over the first stride without interleave: what a load moves and an mbarrier
    counts is ``TensorMap.box_bytes``. Observed on H200, driver 580 (tests/data/tensormap_bytes.jsonl.gz).
    """
    extents = zip(tensor_map.box, tensor_map.element_strides, strict=False)
    return ELEMENT_BYTES[tensor_map.data_type] * prod(extent // max(step, 1) for extent, step in extents)


def row_to_tensor_map(row: dict) -> tuple[TensorMap, int]:
    """One recorded call of ``cuTensorMapEncodeTiled`` as a map and its address in bytes past an aligned base.

    ``tests/data/driver_verdicts.jsonl.gz`` holds such rows, one JSON object a line. Its arrays may be longer
    than the rank: the driver reads ``rank`` entries, and ``rank - 1`` strides. Entries that a row lacks
    become 0, which is illegal.
    """
    rank = _clamp(row["rank"], 0, 6)  # the driver refuses 6 and everything above alike
    tensor_map = TensorMap(
        data_type=row["dtype"],
        dims=_first(row["dims"], rank),
        strides=_first(row["strides"], max(rank - 1, 0)),
        box=_first(row["box"], rank),
        element_strides=_first(row["estr"], rank),
        interleave=row["interleave"],
        swizzle=row["swizzle"],
        l2_promotion=row["l2"],
        oob_fill=row["oob"],
    )
    return tensor_map, row["addr_off"]


def _first(values: Sequence[int], count: int) -> tuple[int, ...]:
    return tuple(values[:count]) + (0,) * (count - len(values))


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _row(extent: int, element_bytes: int) -> str:
    return f"boxDim[0] = {number_text(extent)} ({number_text(extent * element_bytes)} bytes)"


def _entries(name: str, values: dict[int, int]) -> str:
    return ", ".join(f"{name}[{i}] = {number_text(value)}" for i, value in values.items())
