"""``course tensormap``: the contract beside the driver's recorded verdicts, or one map explained."""

from __future__ import annotations

import argparse

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


def tensormap(options: argparse.Namespace, console: Console) -> int:
    """Verify a file of verdicts, or explain one map."""
    if options.action == "verify":
        count, disagreements = explain.verify(options.file)
        for line in disagreements:
            say(console, line)
        say(console, f"{count - len(disagreements)} of {count} agree")
        return EXIT_FAILED if disagreements or not count else 0
    tensor_map, address = _from_options(options)
    say(console, explain.explain(tensor_map, address))
    return EXIT_FAILED if violations(tensor_map, address) else 0


def _from_options(options: argparse.Namespace) -> tuple[TensorMap, int]:
    """The map that the options of ``course tensormap explain`` describe.

    Raises ValueError naming the option.
    """
    if options.file:
        row = next((row for number, row in explain.rows(options.file) if number == options.row), None)
        if row is None:
            raise ValueError(f"{options.file} has no line {options.row}; --row counts from 1")
        return row_to_tensor_map(row)
    if not options.dims or not options.box:
        raise ValueError("a map needs --dims and --box, or a FILE with --row")
    dims, box = _numbers("--dims", options.dims), _numbers("--box", options.box)
    data_type = _code("type", options.type)
    dense, stride = [], ELEMENT_BYTES[data_type] if data_type < len(ELEMENT_BYTES) else 1
    for extent in dims[:-1]:
        stride *= extent
        dense.append(stride)
    strides = _numbers("--strides", options.strides) if options.strides else tuple(dense)
    element_strides = (
        _numbers("--element-strides", options.element_strides) if options.element_strides else (1,) * len(box)
    )
    return TensorMap(
        data_type,
        dims,
        strides,
        box,
        element_strides,
        _code("interleave", options.interleave),
        _code("swizzle", options.swizzle),
        _code("l2", options.l2),
        _code("oob", options.oob),
    ), options.address


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
