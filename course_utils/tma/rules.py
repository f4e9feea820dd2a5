"""The tiled tensor map: the 128-byte descriptor that TMA reads, as the fields that made it, and the rules it
must keep.

Field names, units and numeric codes are those of ``cuTensorMapEncodeTiled`` (CUDA driver API, "Tensor Map
Object Management"), so a map can be held against the driver's documentation line by line. ``RULES`` is the
contract as data; ``violations`` names every rule that a map breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

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
    PixelMap,
    TensorMap,
    number_text,
)
from course_utils.chips import HOME, Chip

PAGE = "cuTensorMapEncodeTiled"
URL = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html"
MEASURED = "H200, driver 580"
ADDRESS_LIMIT = 2**57
NULL_CALLS = 20  # of tests/data/tma_hardware.json.gz


class Rule(NamedTuple):
    """A rule in a sentence and what stands behind it.

    ``argument`` is the one whose paragraph of the driver's page has the rule; "" where the page is silent.
    ``rows`` counts the recorded calls that break this rule alone, all of them refused (tests/data,
    driver_verdicts.jsonl.gz and tma_rules.json.gz).
    """

    sentence: str
    argument: str
    rows: int

    @property
    def source(self) -> str:
        page = f"{PAGE}, {self.argument}" if self.argument else "not on the driver's page"
        if not self.rows:
            null = f"{NULL_CALLS} calls that lacked an array were refused, {MEASURED}"
            return f"{page}; no call can break it, because the driver is given no lengths, but {null}"
        return f"{page}; {self.rows:,} calls refused, {MEASURED}"


# In the order of the driver's arguments.
# fmt: off
RULES = {
    "data-type": Rule(
        "tensorDataType must be one of the driver's 16 codes, 0 to 15.", "tensorDataType", 40),
    "data-type-packed": Rule(
        "The packed 4-bit and 6-bit types, codes 13 to 15, are not for Hopper.", "", 43),
    "rank": Rule("tensorRank must be 1 to 5.", "tensorRank", 49),
    "interleave-needs-rank-3": Rule(
        "An interleaved tensor must have a rank of 3 or more.", "tensorRank", 881),
    "array-length": Rule(
        "boxDim and elementStrides need one entry for each dimension, globalStrides one "
        "fewer.", "tensorRank", 0),
    "address-multiple-of-16": Rule(
        "globalAddress must be a multiple of 16 bytes.", "globalAddress", 229),
    "address-multiple-of-32": Rule(
        "With interleave 32B, globalAddress must be a multiple of 32 bytes.", "globalAddress", 97),
    "address-range": Rule("globalAddress must be below 2^57.", "", 41),
    "dim-range": Rule("Each globalDim must be 1 to 2^32 elements.", "globalDim", 175),
    "stride-multiple-of-16": Rule(
        "Each globalStrides entry must be a multiple of 16 bytes.", "globalStrides", 123),
    "stride-multiple-of-32": Rule(
        "With interleave 32B, each globalStrides entry must be a multiple of 32 bytes.",
        "globalStrides", 55),
    "stride-range": Rule(
        "Each globalStrides entry must be 0 or more and less than 2^40 bytes.", "globalStrides", 70),
    "box-range": Rule(f"Each boxDim must be 1 to {BOX_LIMIT} elements.", "boxDim", 145),
    "box-inner-multiple-of-16": Rule(
        "One row of the box, boxDim[0] x element size, must be a multiple of 16 bytes.", "boxDim", 203),
    "box-inner-multiple-of-16-interleaved": Rule(
        "One row of the box must be a multiple of 16 bytes with interleave 16B and 32B too.", "", 61),
    "box-fits-shared-memory": Rule(
        "The box, the product of all boxDim[i] // elementStrides[i] x element size, must be at "
        f"most {HOME.sm_shared} bytes (228 KB).", "", 2095),
    "element-stride-range": Rule(
        "Each elementStrides entry must be 1 to 8, the first one too, although TMA ignores it"
        " without interleave.", "elementStrides", 137),
    "interleave": Rule("interleave must be one of 0 (none), 1 (16B), 2 (32B).", "interleave", 159),
    "swizzle": Rule("swizzle must be one of the driver's seven codes, 0 to 6.", "swizzle", 40),
    "swizzle-on-hopper": Rule(
        "Hopper has swizzle none, 32B, 64B and 128B; codes 4 to 6 are for later chips.", "", 182),
    "swizzle-span": Rule(
        "Without interleave, one row of a swizzled box must fit in the swizzle's bytes.",
        "interleave", 192),
    "l2-promotion": Rule(
        "l2Promotion must be one of 0 (none), 1 (64B), 2 (128B), 3 (256B).", "l2Promotion", 107),
    "oob-fill": Rule("oobFill must be 0 (zero) or 1 (nan).", "oobFill", 164),
    "nan-fill-needs-float": Rule(
        "oobFill 1 (nan) needs a floating-point data type.", "oobFill", 98),
}
# fmt: on

# What mends a rule: new values of a TensorMap's fields, or of "address".
Edit = dict[str, Any]
# field: (the driver's name of it, the names of its codes)
ARGUMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "data_type": ("tensorDataType", DATA_TYPES),
    "address": ("globalAddress", ()),
    "dims": ("globalDim", ()),
    "strides": ("globalStrides", ()),
    "box": ("boxDim", ()),
    "element_strides": ("elementStrides", ()),
    "interleave": ("interleave", INTERLEAVES),
    "swizzle": ("swizzle", SWIZZLES),
    "l2_promotion": ("l2Promotion", L2_PROMOTIONS),
    "oob_fill": ("oobFill", OOB_FILLS),
}


@dataclass(frozen=True)
class Violation:
    """One rule that one map breaks.

    Each of ``edits`` mends this rule and breaks no other, and ``nearest`` has them in words; there are none,
    and it is "", where no nearest value makes sense.
    """

    rule: str
    found: str
    edits: tuple[Edit, ...]
    nearest: str

    @property
    def sentence(self) -> str:
        return RULES[self.rule].sentence

    @property
    def source(self) -> str:
        """The page or the measurement behind the rule, and how many recorded calls."""
        return RULES[self.rule].source

    def __str__(self) -> str:
        mend = f" Nearest legal: {self.nearest}." if self.nearest else ""
        return f"{self.sentence} Found: {self.found}.{mend} [{self.rule}]"


def violations(tensor_map: TensorMap, address: int = 0, chip: Chip = HOME) -> list[Violation]:
    """Every rule of ``RULES`` that the map breaks, in that order; an empty list means that the driver accepts
    it.

    ``address`` is globalAddress in bytes; its offset from an aligned base is enough. On Hopper's
    the answer is the H200 driver's. For other chips the documented rules hold, the observed ones are assumed
    (but for the swizzle modes), and the packed data types are refused as on Hopper, because the course does
    not model their rules. No value of a field raises an error.

    The driver is more lenient than its page in two places, and so is this function: interleave 32B is
    accepted with every swizzle (the page asks for 32B), and strides may be 0, overlap or come in any order.
    Of an im2col map see ``pixel_limits``: these rules are those of tiles.
    """
    if isinstance(tensor_map, PixelMap):
        return []
    found = _broken(tensor_map, address, chip)
    completed = {
        rule: [_completed(tensor_map, address, chip, edit, found) for edit in edits]
        for rule, (_, edits) in found.items()
    }
    return [
        Violation(
            rule,
            text,
            tuple(completed[rule]),
            ", or ".join(_edit_text(tensor_map, address, edit) for edit in completed[rule]),
        )
        for rule, (text, _) in found.items()
    ]


def pixel_limits(m: PixelMap) -> list[str]:
    """The arguments of ``cuTensorMapEncodeIm2col`` that break a limit which its page gives for one number. Of
    2,000 recorded calls no other was refused for these (tests/data/tma_im2col.json.gz); the driver refuses
    some that break none of them, for how corners, extents and steps go together.
    """
    if m.rank not in (3, 4, 5):
        return ["tensorRank"]
    if not 0 <= m.data_type < len(DATA_TYPES):
        return ["tensorDataType"]
    most, row_bytes = {3: 2**15, 4: 2**7, 5: 2**4}[m.rank], m.channels * ELEMENT_BYTES[m.data_type]
    span = SWIZZLE_BYTES[m.swizzle] if 0 <= m.swizzle < HOME.swizzles else -1
    unit = 32 if m.interleave == 2 else 16
    corners = (*m.lower, *m.upper)
    limits = {
        "pixelBoxCorner": len(corners) == 2 * (m.rank - 2) and all(-most <= v < most for v in corners),
        "channelsPerPixel": 1 <= m.channels <= BOX_LIMIT and row_bytes % 16 == 0,
        "pixelsPerColumn": 1 <= m.pixels <= 1024,
        "elementStrides": all(1 <= step <= 8 for step in m.element_strides),
        "globalStrides": all(s % unit == 0 and 0 <= s < 2**40 for s in m.strides),
        "swizzle": span >= 0 and (not span or bool(m.interleave) or row_bytes <= span),
        "oobFill": m.oob_fill == 0 or (m.oob_fill == 1 and m.data_type >= FIRST_FLOAT_TYPE),
    }
    return [name for name, kept in limits.items() if not kept]


def _completed(m: TensorMap, address: int, chip: Chip, edit: Edit, before: Collection[str]) -> Edit:
    """The edit, with what mends the rules that it would break anew: those that are not ``before``."""
    for _ in RULES:
        new = [
            edits
            for rule, (_, edits) in _broken(*edited(m, address, edit), chip).items()
            if rule not in before
        ]
        if not new or not new[0]:
            break
        edit = edit | new[0][-1]
    return edit


def _broken(m: TensorMap, address: int, chip: Chip) -> dict[str, tuple[str, list[Edit]]]:
    """Each broken rule, in the order of ``RULES``: what was found, in words, and what mends it."""
    found: dict[str, tuple[str, list[Edit]]] = {}

    def check_each(rule: str, field: str, nearest: Callable[[int], int]) -> None:
        """Holds each entry of an array to a rule.

        An entry is legal where it is its own nearest legal value.
        """
        values = getattr(m, field)
        legal = tuple(map(nearest, values))
        if legal != values:
            found[rule] = (_entries(m, {field: values}, legal), [{field: legal}])

    def check_code(rule: str, field: str, names: tuple[str, ...]) -> None:
        value = getattr(m, field)
        if not 0 <= value < len(names):
            text = f"{ARGUMENTS[field][0]} = {number_text(value)}"
            found[rule] = (text, [{field: _clamp(value, 0, len(names) - 1)}])

    if m.data_type in PACKED_DATA_TYPES:
        found["data-type-packed"] = (f"tensorDataType = {m.data_type}", [{"data_type": 0}])
    else:
        check_code("data-type", "data_type", DATA_TYPES)

    if not 1 <= m.rank <= 5:
        found["rank"] = (f"tensorRank = {m.rank}", [_of_rank(m, 5)] if m.rank else [])
    if m.interleave in (1, 2) and m.rank < 3:
        text = f"interleave {INTERLEAVES[m.interleave]}, tensorRank = {m.rank}"
        found["interleave-needs-rank-3"] = (text, [{"interleave": 0}])

    lengths = {"strides": max(m.rank - 1, 0), "box": m.rank, "element_strides": m.rank}
    if wrong := [field for field, needed in lengths.items() if len(getattr(m, field)) != needed]:
        text = ", ".join(f"{ARGUMENTS[field][0]} of length {len(getattr(m, field))}" for field in wrong)
        edit = _of_rank(m, m.rank)
        found["array-length"] = (text, [{field: edit[field] for field in wrong}])

    at = f"globalAddress = {number_text(address)}"
    if address % 16 != 0:
        found["address-multiple-of-16"] = (at, [{"address": _aligned(address, 16)}])
    if address % 32 != 0 and m.interleave == 2:
        found["address-multiple-of-32"] = (at, [{"address": _aligned(address, 32)}])
    if not 0 <= address < ADDRESS_LIMIT:
        found["address-range"] = (at, [])

    check_each("dim-range", "dims", lambda dim: _clamp(dim, 1, 2**32))

    # Up and not down: a smaller stride would make the rows of a dense tensor overlap.
    top = 2**40 - (32 if m.interleave == 2 else 16)

    def multiple(unit: int) -> Callable[[int], int]:
        return lambda stride: stride if stride % unit == 0 else min(_round_up(stride, unit), top)

    check_each("stride-multiple-of-16", "strides", multiple(16))
    if m.interleave == 2:
        check_each("stride-multiple-of-32", "strides", multiple(32))
    check_each(
        "stride-range", "strides", lambda stride: stride if 0 <= stride < 2**40 else _clamp(stride, 0, top)
    )

    if any(stride < 0 for stride in m.strides):  # 0 would be legal, and every row the same
        dense = _of_rank(replace(m, strides=()), m.rank)["strides"]
        for rule in [rule for rule in found if rule.startswith("stride-")]:
            text, (edit,) = found[rule]
            legal = zip(m.strides, edit["strides"], (*dense, *edit["strides"][len(dense) :]), strict=False)
            found[rule] = (text, [{"strides": tuple(rows if old < 0 else near for old, near, rows in legal)}])

    check_each("box-range", "box", lambda extent: _clamp(extent, 1, BOX_LIMIT))
    if 0 <= m.data_type < len(DATA_TYPES) and m.box:
        found.update(_box_violations(m, chip))

    check_each("element-stride-range", "element_strides", lambda step: _clamp(step, 1, 8))

    check_code("interleave", "interleave", INTERLEAVES)
    if chip.swizzles <= m.swizzle < len(SWIZZLES):
        found["swizzle-on-hopper"] = (f"swizzle = {m.swizzle} ({SWIZZLES[m.swizzle]})", [{"swizzle": 3}])
    elif not 0 <= m.swizzle < len(SWIZZLES):
        text = f"swizzle = {number_text(m.swizzle)}"
        found["swizzle"] = (text, [{"swizzle": _clamp(m.swizzle, 0, chip.swizzles - 1)}])
    check_code("l2-promotion", "l2_promotion", L2_PROMOTIONS)
    check_code("oob-fill", "oob_fill", OOB_FILLS)
    if m.oob_fill == 1 and 0 <= m.data_type < FIRST_FLOAT_TYPE:
        text = f"oobFill nan, tensorDataType {DATA_TYPES[m.data_type]}"
        found["nan-fill-needs-float"] = (text, [{"oob_fill": 0}])

    return {rule: found[rule] for rule in RULES if rule in found}


def _box_violations(m: TensorMap, chip: Chip) -> dict[str, tuple[str, list[Edit]]]:
    """What is wrong with the box's bytes: rule id to (what was found, what mends it)."""
    found: dict[str, tuple[str, list[Edit]]] = {}
    element_bytes = ELEMENT_BYTES[m.data_type]
    row_bytes = m.box[0] * element_bytes

    def of_width(width: int) -> Edit:
        return {"box": (width, *m.box[1:])}

    if row_bytes % 16 != 0 and m.interleave in (0, 1, 2):
        rule = "box-inner-multiple-of-16" if m.interleave == 0 else "box-inner-multiple-of-16-interleaved"
        unit = 16 // element_bytes
        found[rule] = (
            _row(m.box[0], element_bytes),
            [of_width(_clamp(_round_up(m.box[0], unit), unit, BOX_LIMIT))],
        )

    # The driver compares with the shared memory of one SM, although a CTA gets 1 KB less of it.
    box_bytes = driver_box_bytes(m)
    if box_bytes > chip.sm_shared and min(m.box) > 0:
        found["box-fits-shared-memory"] = (f"{number_text(box_bytes)} bytes", [{"box": _fitting(m, chip)}])

    if m.interleave == 0 and 1 <= m.swizzle < len(SWIZZLES) and row_bytes > SWIZZLE_BYTES[m.swizzle]:
        edits = [of_width(SWIZZLE_BYTES[m.swizzle] // element_bytes)]
        wider = [code for code in range(1, len(SWIZZLE_PATTERN_BYTES)) if row_bytes <= SWIZZLE_BYTES[code]]
        edits += [{"swizzle": code} for code in wider[:1]]
        found["swizzle-span"] = (f"{_row(m.box[0], element_bytes)}, swizzle {SWIZZLES[m.swizzle]}", edits)
    return found


def _fitting(m: TensorMap, chip: Chip) -> tuple[int, ...]:
    """The box with its largest extent halved until it fits; its row is the last to go."""
    box = [min(extent, BOX_LIMIT) for extent in m.box]
    while driver_box_bytes(replace(m, box=tuple(box))) > chip.sm_shared:
        at = max(range(len(box)), key=lambda i: (box[i] > 1 and i > 0, box[i]))
        box[at] = box[at] // 2
    return tuple(box)


def _of_rank(m: TensorMap, rank: int) -> Edit:
    """The arrays of a map of so many dimensions: cut, or longer by boxes of 1 and rows that lie dense."""
    dims = m.dims[:rank]
    size = ELEMENT_BYTES[m.data_type] if 0 <= m.data_type < len(DATA_TYPES) else 1
    strides = list(m.strides[: max(rank - 1, 0)])
    for dim in dims[len(strides) : rank - 1]:
        strides.append(_clamp(_round_up(dim * (strides[-1] if strides else size), 16), 0, 2**40 - 16))
    return {
        "dims": dims,
        "strides": tuple(strides),
        "box": m.box[:rank] + (1,) * (rank - len(m.box)),
        "element_strides": m.element_strides[:rank] + (1,) * (rank - len(m.element_strides)),
    }


def edited(tensor_map: TensorMap, address: int, edit: Edit) -> tuple[TensorMap, int]:
    """The map and the address after an edit."""
    fields = {name: value for name, value in edit.items() if name != "address"}
    return replace(tensor_map, **fields), edit.get("address", address)


def mended(tensor_map: TensorMap, address: int = 0, chip: Chip = HOME) -> tuple[TensorMap, int] | None:
    """The map after the last edit of each broken rule, one after the other, until it is legal. None where a
    rule has none.
    """
    while broken := violations(tensor_map, address, chip):
        first = next((violation for violation in broken if violation.edits), None)
        if first is None:
            return None
        tensor_map, address = edited(tensor_map, address, first.edits[-1])
    return tensor_map, address


def _edit_text(m: TensorMap, address: int, edit: Edit) -> str:
    """An edit in words: entries that it changes, lengths where it cuts an array or makes it longer."""
    if "dims" in edit and len(edit["dims"]) != m.rank:
        return f"tensorRank = {len(edit['dims'])}"
    words = []
    for field, value in edit.items():
        name, codes = ARGUMENTS[field]
        if field == "address":
            words.append(f"{name} = {number_text(value)}")
        elif codes:
            words.append(f"{name} = {value} ({codes[value]})")
        elif len(value) != len(getattr(m, field)):
            words.append(f"{name} of length {len(value)}")
        else:
            words.append(_entries(m, {field: value}, getattr(m, field)))
    return ", ".join(words)


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


def _aligned(address: int, unit: int) -> int:
    """The next multiple of ``unit``, or the one before where no address is as high."""
    up = _round_up(address, unit)
    return up if up < ADDRESS_LIMIT else up - unit


def _row(extent: int, element_bytes: int) -> str:
    return f"boxDim[0] = {number_text(extent)} ({number_text(extent * element_bytes)} bytes)"


def _entries(m: TensorMap, field: Edit, others: Sequence[int]) -> str:
    """The entries of an array that are not as in ``others``, in words; a row of the box with its bytes."""
    ((name, values),) = field.items()
    words = []
    for i, (value, other) in enumerate(zip(values, others, strict=True)):
        if value != other:
            text = f"{ARGUMENTS[name][0]}[{i}] = {number_text(value)}"
            if name == "box" and i == 0 and 0 <= m.data_type < len(DATA_TYPES):
                text = _row(value, ELEMENT_BYTES[m.data_type])
            words.append(text)
    return ", ".join(words)
