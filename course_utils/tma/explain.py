"""``course tensormap``: hold the contract against recorded verdicts of the driver, or explain one map."""

from __future__ import annotations

import argparse
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from course_utils.artifact import (
    DATA_TYPES,
    ELEMENT_BYTES,
    INTERLEAVES,
    L2_PROMOTIONS,
    OOB_FILLS,
    SWIZZLES,
    TensorMap,
)
from course_utils.tma.rules import Violation, row_to_tensor_map, violations

# fmt: off
FIELDS = (
    "dtype", "rank", "addr_off", "dims", "strides", "box", "estr", "interleave", "swizzle", "l2", "oob", "rc",
)
# fmt: on
CODES = {
    "type": DATA_TYPES,
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES,
    "l2": L2_PROMOTIONS,
    "oob": OOB_FILLS,
}


def rows(path: str | Path) -> Iterator[tuple[int, dict]]:
    """Line number and row of a JSON-lines file, plain or .gz.

    Raises ValueError for a line that is no row, and OSError.
    """
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, _row(line, f"{path}, line {number}")
    except (EOFError, UnicodeDecodeError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _row(line: str, where: str) -> dict:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
    missing = [name for name in FIELDS if name not in row] if isinstance(row, dict) else list(FIELDS)
    if missing:
        raise ValueError(f"{where} is not a row of driver verdicts: it lacks {', '.join(missing)}")
    for name in FIELDS:
        values = row[name] if name in ("dims", "strides", "box", "estr") else [row[name]]
        if not isinstance(values, list) or any(type(value) is not int for value in values):
            raise ValueError(
                f"{where}: {name} must be {'a list of integers' if values is row[name] else 'an integer'}"
            )
    return row


def verify(path: str | Path) -> tuple[int, list[str]]:
    """How many rows there are, and a sentence for each on which the rules and the driver disagree.

    Raises as ``rows``.
    """
    count, disagreements = 0, []
    for number, row in rows(path):
        count += 1
        tensor_map, address = row_to_tensor_map(row)
        found = violations(tensor_map, address)
        if bool(found) != bool(row["rc"]):
            driver = "refuses" if row["rc"] else "accepts"
            disagreements.append(
                f"line {number}: the driver {driver} {tensor_map}; the rules say: "
                + ("legal" if not found else "; ".join(map(str, found)))
            )
    return count, disagreements


def explain(tensor_map: TensorMap, address: int) -> str:
    """A map in words: what it describes, and every rule it breaks with the nearest legal value and the rule's
    source.
    """
    lines = [str(tensor_map)]
    found = violations(tensor_map, address)
    if found:
        return "\n".join(
            [*lines, f"illegal: {len(found)} rule{'s' * (len(found) != 1)} broken", *map(_sentence, found)]
        )
    return "\n".join(
        [*lines, f"legal: the driver accepts it; one load brings {tensor_map.box_bytes:,} bytes"]
    )


def _sentence(violation: Violation) -> str:
    return f"  {violation} ({violation.source})"


def from_options(options: argparse.Namespace) -> tuple[TensorMap, int]:
    """The map that the options of ``course tensormap explain`` describe.

    Raises ValueError naming the option.
    """
    if options.file:
        row = next((row for number, row in rows(options.file) if number == options.row), None)
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
