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
)
from course_utils.chips import CHIPS, Chip
from course_utils.cli import EXIT_FAILED
from course_utils.cli.terminal import say
from course_utils.tma import explain
from course_utils.tma.rules import row_to_tensor_map, violations

# types that the driver has no code for, and the code under which their bits move
MOVED_AS = {
    **dict.fromkeys(("int8", "bool", "fp8", "e4m3", "e5m2"), "uint8"),
    **dict.fromkeys(("float8_e4m3", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz"), "uint8"),
    "int16": "uint16",
}
CODES = {
    "type": DATA_TYPES,
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES,
    "l2": L2_PROMOTIONS,
    "oob": OOB_FILLS,
}


def verify_file(console: Console, file: str) -> int:
    """Hold the rules against a file of the driver's verdicts."""
    count, disagreements = explain.verify(file)
    for line in disagreements:
        say(console, line)
    say(console, f"{count - len(disagreements)} of {count} agree")
    return EXIT_FAILED if disagreements or not count else 0


def explain_map(
    console: Console, file: str | None, row: int, address: int, chip: str, tile: str | None, **fields: str
) -> int:
    """Explain one map: a row of a file, or ``fields`` in the driver's names.

    Raises ValueError for a chip that the course does not know, and for what cannot be read.
    """
    of = _chip(chip)
    tensor_map, address = _of_file(file, row) if file else (_of_fields(**fields), address)
    if not file and (meant := MOVED_AS.get(fields["type"].lower())):
        text = f"TMA moves bits: use {meant} for {fields['type']}, as is done here"
        say(console, f"{text}. The type matters to NaN fills and reductions only.")
    say(console, explain.explain(tensor_map, address, of, _numbers("--tile", tile) if tile else ()))
    return EXIT_FAILED if violations(tensor_map, address, of) else 0


def _chip(name: str) -> Chip:
    """A chip by its name, its family, or what kernels for it are compiled for."""
    for chip in CHIPS.values():
        if name.lower() in (chip.name.lower(), chip.family.lower(), chip.arch):
            return chip
    known = dict.fromkeys(text for chip in CHIPS.values() for text in (chip.family, chip.arch))
    raise ValueError(f"--chip is one of {', '.join(known)}, or a chip's name; not {name}")


def _of_file(file: str, line: int) -> tuple[TensorMap, int]:
    """The map of a line of a file, and its address. Raises ValueError if there is no such line."""
    row = next((row for number, row in explain.rows(file) if number == line), None)
    if row is None:
        raise ValueError(f"{file} has no line {line}; --row counts from 1")
    return row_to_tensor_map(row)


def _of_fields(
    *, dims: str | None, strides: str | None, box: str | None, element_strides: str | None, **codes: str
) -> TensorMap:
    """The map that options describe: lists of numbers, and a name or a code of each of ``CODES``.

    Raises ValueError naming the option.
    """
    if not dims or not box:
        raise ValueError("a map needs --dims and --box, or a FILE with --row")
    extents, boxes = _numbers("--dims", dims), _numbers("--box", box)
    code = {name: _code(name, text) for name, text in codes.items()}
    data_type = code["type"]
    dense, stride = [], ELEMENT_BYTES[data_type] if 0 <= data_type < len(ELEMENT_BYTES) else 1
    for extent in extents[:-1]:
        stride *= extent
        dense.append(stride)
    return TensorMap(
        data_type,
        extents,
        _numbers("--strides", strides) if strides else tuple(dense),
        boxes,
        _numbers("--element-strides", element_strides) if element_strides else (1,) * len(boxes),
        *(code[name] for name in ("interleave", "swizzle", "l2", "oob")),
    )


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        # 64,128 and 64x128, but 0x40 is one number
        return tuple(int(part, 0) for part in re.split(r",|(?<=[1-9])x|(?<=\d0)x", text))
    except ValueError as error:
        raise ValueError(
            f"{name} is a list of whole numbers, innermost first, for example 64,128; not {text}"
        ) from error


def _code(name: str, text: str) -> int:
    """The driver's code of a name in any case, or a code itself, so that illegal ones can be asked about."""
    lowered = text.lower()
    lowered = MOVED_AS.get(lowered, lowered) if name == "type" else lowered
    names = [one.lower() for one in CODES[name]]
    if lowered in names:
        return names.index(lowered)
    with contextlib.suppress(ValueError):
        return int(text, 0)
    raise ValueError(
        f"--{name} is one of {', '.join(CODES[name])}, or the driver's number for it; not {text}"
    )
