"""``course tensormap``: the contract beside the driver's recorded verdicts, or one map explained."""

from __future__ import annotations

import contextlib
import re

from rich.console import Console

from course_utils.artifact import (
    DATA_TYPES,
    ELEMENT_BYTES,
    INTERLEAVES,
    L2_PROMOTIONS,
    OOB_FILLS,
    SWIZZLES,
    TensorMap,
    number_text,
)
from course_utils.chips import CHIPS, Chip
from course_utils.cli import EXIT_FAILED
from course_utils.cli.terminal import say
from course_utils.tma import explain
from course_utils.tma.rules import RULES, row_to_tensor_map, violations

LISTED = 12  # rows of a file that are named
# what people call a chip, by its family
CALLED = {"Hopper": ("h100", "h200", "h800", "h20", "gh200"), "Blackwell": ("b100", "b200", "gb200")}

# types that the driver has no code for, and the code under which their bits move
MOVED_AS = {
    **dict.fromkeys(("int8", "bool", "fp8", "e4m3", "e5m2", "fp8_e4m3", "fp8_e5m2"), "uint8"),
    **dict.fromkeys(("float8_e4m3", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz"), "uint8"),
    "int16": "uint16",
}
# other names of the driver's types
SAME = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32"}
SAME |= {"fp64": "float64", "double": "float64", "tf32": "tfloat32"}
CODES = {
    "type": DATA_TYPES,
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES,
    "l2": L2_PROMOTIONS,
    "oob": OOB_FILLS,
}
DEFAULTS = {"type": "float16", "interleave": "none", "swizzle": "none", "l2": "none", "oob": "zero"}


def verify_file(console: Console, file: str) -> int:
    """Hold the rules against a file of the driver's verdicts."""
    count, disagreements = explain.verify(file)
    for line in disagreements:
        say(console, line)
    say(console, f"{count - len(disagreements)} of {count} agree")
    return EXIT_FAILED if disagreements or not count else 0


def list_rows(console: Console, rule: str) -> int:
    """Print a rule, its source, and where the recorded calls are that break it alone. Raises ValueError and
    OSError.
    """
    found = explain.rows_of(rule)
    say(console, f"{rule}: {RULES[rule].sentence}")
    say(console, RULES[rule].source)
    for file, numbers in found.items():
        if numbers:
            shown = ", ".join(map(str, numbers[:LISTED]))
            more = f" and {len(numbers) - LISTED:,} more" if len(numbers) > LISTED else ""
            say(console, f"{file}: {len(numbers):,} calls, at rows {shown}{more}")
            say(console, f"  look at one: course tensormap explain {file} --row {numbers[0]}")
    if not any(found.values()):
        say(console, "no rows: the calls are group null of tests/data/tma_hardware.json.gz")
    return 0


def explain_map(
    console: Console,
    file: str | None,
    row: int | None,
    address: str | None,
    chip: str,
    tile: str | None,
    **fields: str | None,
) -> int:
    """Explain one map: a row of a file, or ``fields`` in the driver's names.

    Raises ValueError for a chip that the course does not know, and for what cannot be read.
    """
    of = _chip(chip)
    if file:
        given = [name for name, text in ({"address": address} | fields).items() if text is not None]
        if given:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ValueError(f"{file} holds the map: leave out {options}, or the file")
        tensor_map, at, note = _of_file(file, row if row is not None else 1)
    elif row is not None:
        raise ValueError("--row is of a FILE: give one, or leave out --row")
    else:
        tensor_map, at, note = *_of_fields(address, **fields), _moved(fields["type"] or "")
    if note:
        say(console, note)
    say(console, explain.explain(tensor_map, at, of, _numbers("--tile", tile) if tile else ()))
    return EXIT_FAILED if violations(tensor_map, at, of) else 0


def _chip(name: str) -> Chip:
    """A chip by its name, by what people call it ("H100 SXM"), by its family, or by what kernels for it are
    compiled for.
    """
    word = next(iter(re.findall(r"\w+", name.lower().replace("nvidia", ""))), "")
    for chip in CHIPS.values():
        called = CALLED.get(chip.family, ())
        if name.lower() in (chip.name.lower(), chip.family.lower(), chip.arch) or word in called:
            return chip
    known = dict.fromkeys(text for chip in CHIPS.values() for text in (chip.family, chip.arch))
    said = [text.upper() for names in CALLED.values() for text in names]
    raise ValueError(f"--chip is one of {', '.join([*known, *said])}; not {_short(name)}")


def _of_file(file: str, number: int) -> tuple[TensorMap, int, str]:
    """The map of a row of a file, its address, and what the map does not show of the row.

    Raises ValueError if there is no such row.
    """
    row = next((row for place, row in explain.rows(file) if place == number), None)
    if row is None:
        raise ValueError(f"{file} has no line {number}; --row counts from 1")
    rank, note = row["rank"], ""
    if not 0 <= rank <= 6:
        note = f"the row's rank is {number_text(rank)}; it is shown as {6 if rank > 6 else 0}"
    elif any(len(row[name]) > max(needed, 0) for name, needed in explain.entries(rank).items()):
        note = f"the row's arrays have more entries than rank {rank} needs: the driver reads the first ones"
    return *row_to_tensor_map(row), note


def _moved(name: str) -> str:
    """A sentence for a type that the driver has no code for."""
    if not (meant := MOVED_AS.get(name.lower())):
        return ""
    text = f"TMA moves bits: use {meant} for {name}, as is done here"
    return f"{text}. The type matters to NaN fills and reductions only."


def _of_fields(
    address: str | None,
    *,
    dims: str | None,
    strides: str | None,
    box: str | None,
    element_strides: str | None,
    **codes: str | None,
) -> tuple[TensorMap, int]:
    """The map that options describe, and its address: lists of numbers, and a name or a code of each of
    ``CODES``.

    Raises ValueError naming the option.
    """
    if not dims or not box:
        raise ValueError("a map needs --dims and --box, or a FILE with --row")
    extents, boxes = _numbers("--dims", dims), _numbers("--box", box)
    code = {name: _code(name, text or DEFAULTS[name]) for name, text in codes.items()}
    data_type = code["type"]
    dense, stride = [], ELEMENT_BYTES[data_type] if 0 <= data_type < len(ELEMENT_BYTES) else 1
    for extent in extents[:-1]:
        stride *= extent
        dense.append(stride)
    try:
        at = int(address or "0", 0)
    except ValueError as error:
        text = (
            f"--address is a whole number of bytes, for example 4096 or 0x1000; not {_short(address or '')}"
        )
        raise ValueError(text) from error
    tensor_map = TensorMap(
        data_type,
        extents,
        _numbers("--strides", strides) if strides else tuple(dense),
        boxes,
        _numbers("--element-strides", element_strides) if element_strides else (1,) * len(boxes),
        *(code[name] for name in ("interleave", "swizzle", "l2", "oob")),
    )
    return tensor_map, at


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        # 64,128 and 64x128, but 0x40 is one number
        return tuple(int(part, 0) for part in re.split(r",|(?<=[1-9])x|(?<=\d0)x", text))
    except ValueError as error:
        raise ValueError(
            f"{name} is a list of whole numbers, innermost first, for example 64,128; not {_short(text)}"
        ) from error


def _code(name: str, text: str) -> int:
    """The driver's code of a name in any case, or a code itself, so that illegal ones can be asked about."""
    lowered = text.lower()
    lowered = (MOVED_AS | SAME).get(lowered, lowered) if name == "type" else lowered
    names = [one.lower() for one in CODES[name]]
    if lowered in names:
        return names.index(lowered)
    with contextlib.suppress(ValueError):
        return int(text, 0)
    names = [*CODES[name], *(("int8", "int16", "fp8") if name == "type" else ())]
    text = f"or the driver's number for it; not {_short(text)}"
    raise ValueError(f"--{name} is one of {', '.join(names)}, {text}")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text):,} characters)"
