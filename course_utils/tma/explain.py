"""``course tensormap``: hold the contract against recorded verdicts of the driver, or explain one map."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from course_utils.artifact import TensorMap
from course_utils.tma.rules import Violation, row_to_tensor_map, violations

# fmt: off
FIELDS = (
    "dtype", "rank", "addr_off", "dims", "strides", "box", "estr", "interleave", "swizzle", "l2", "oob", "rc",
)
# fmt: on


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
    """A map in words: what it describes, and each rule it breaks, with the nearest legal value."""
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
