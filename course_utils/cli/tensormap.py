"""``course tensormap``: the contract beside the driver's recorded verdicts, or one map explained."""

from __future__ import annotations

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
from course_utils.cli import EXIT_FAILED
from course_utils.cli.terminal import say
from course_utils.tma import explain
from course_utils.tma.rules import row_to_tensor_map, violations

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


def explain_map(console: Console, file: str | None, row: int, address: int, **fields: str | None) -> int:
    """Explain one map: a row of a file, or ``fields`` in the driver's names."""
    tensor_map, address = _of_file(file, row) if file else (_of_fields(**fields), address)
    say(console, explain.explain(tensor_map, address))
    return EXIT_FAILED if violations(tensor_map, address) else 0


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
    dense, stride = [], ELEMENT_BYTES[data_type] if data_type < len(ELEMENT_BYTES) else 1
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
        return tuple(int(part, 0) for part in text.replace("x", ",").split(","))
    except ValueError as error:
        raise ValueError(
            f"{name} is a list of whole numbers, innermost first, for example 64,128; not {text}"
        ) from error


def _code(name: str, text: str) -> int:
    """The driver's code of a name, or a code itself, so that illegal ones can be asked about."""
    if text in CODES[name]:
        return CODES[name].index(text)
    if text.isdigit():
        return int(text)
    raise ValueError(
        f"--{name} is one of {', '.join(CODES[name])}, or the driver's number for it; not {text}"
    )
