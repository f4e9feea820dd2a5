"""``course tensormap``: hold the contract against recorded verdicts of the driver, or explain one map."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

from course_utils.artifact import (
    ELEMENT_BYTES,
    INTERLEAVES,
    PACKED_DATA_TYPES,
    SWIZZLE_PATTERN_BYTES,
    SWIZZLES,
    TMA_ALIGNMENT,
    TensorMap,
    number_text,
)
from course_utils.chips import HOME, Chip
from course_utils.tma.layouts import UNIT, base_alignment, boxes, conflicts, row_pitch, swizzled, tile_bytes
from course_utils.tma.rules import ARGUMENTS, RULES, URL, mended, row_to_tensor_map, violations
from course_utils.tma.transfers import reductions_of

# of a row of driver verdicts
# fmt: off
FIELDS = (
    "dtype", "rank", "addr_off", "dims", "strides", "box", "estr", "interleave", "swizzle", "l2", "oob", "rc",
)
# fmt: on
ROOT = Path(__file__).parents[2]
RECORDS = ("tests/data/driver_verdicts.jsonl.gz", "tests/data/tma_rules.json.gz")  # of the driver's answers


def rows(path: str | Path) -> Iterator[tuple[int, dict]]:
    """Line number and row of a JSON-lines file, or number and row of a JSON object's ``rows``; plain or .gz.

    Raises ValueError for a line that is no row, and for what cannot be read.
    """
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    found = _parsed(line, where)
                    if isinstance(found, dict) and isinstance(found.get("rows"), list):
                        for place, row in enumerate(found["rows"], 1):
                            yield place, _row(row, f"{path}, row {place}")
                    else:
                        yield number, _row(found, where)
    except (EOFError, UnicodeDecodeError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _parsed(line: str, where: str) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{where} is not JSON: too many brackets") from error
    except ValueError as error:  # Python reads no number of more than 4,300 digits
        raise ValueError(f"{where}: a number is too long; the driver's have at most 64 bits") from error


def _row(row: Any, where: str) -> dict:
    missing = [name for name in FIELDS if name not in row] if isinstance(row, dict) else list(FIELDS)
    if missing:
        raise ValueError(f"{where} is not a row of driver verdicts: it lacks {', '.join(missing)}")
    for name in FIELDS:
        values = row[name] if name in ("dims", "strides", "box", "estr") else [row[name]]
        if not isinstance(values, list) or any(type(value) is not int for value in values):
            raise ValueError(
                f"{where}: {name} must be {'a list of integers' if values is row[name] else 'an integer'}"
            )
    rank = row["rank"]
    for name, needed in entries(rank).items():
        if len(row[name]) < needed <= 5:  # above, the driver refuses the rank and reads no array
            count = len(row[name])
            raise ValueError(f"{where}: {name} has {count} of the {needed} entries that rank {rank} needs")
    return row


def rows_of(rule: str) -> dict[str, list[int]]:
    """The numbers of the recorded calls that break this rule alone, by file of ``RECORDS``.

    Raises ValueError where there is no such rule, and OSError without the course's tests.
    """
    if rule not in RULES:
        raise ValueError(f"there is no rule {rule!r}; the rules are {', '.join(RULES)}")
    return {
        name: [
            number
            for number, row in rows(ROOT / name)
            if [one.rule for one in violations(*row_to_tensor_map(row))] == [rule]
        ]
        for name in RECORDS
    }


def entries(rank: int) -> dict[str, int]:
    """How many entries of each of a row's arrays the driver reads."""
    return {"dims": rank, "strides": rank - 1, "box": rank, "estr": rank}


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


def explain(tensor_map: TensorMap, address: int, chip: Chip = HOME, tile: Sequence[int] = ()) -> str:
    """A map in words: its fields by the driver's names, then each rule that it breaks with what would mend
    it, or, of a legal map, what a kernel has to know beside it. ``tile`` is the one that boxes shall fill.

    Raises ValueError where ``tile`` is no multiple of the box, and for a packed type on a chip that is not
    Hopper.
    """
    measured = chip.family == HOME.family
    if tensor_map.data_type in PACKED_DATA_TYPES and not measured:
        raise ValueError(
            f"data type {tensor_map.data_type} is packed: later chips have rules of their own for it, which "
            "the course does not model"
        )
    lines = [str(tensor_map), *_table(fields(tensor_map, address))]
    found = violations(tensor_map, address, chip)
    if not found:
        said = f"the driver takes it ({chip.family})"
        if not measured:
            said = f"it breaks no rule; the rules were held against Hopper's driver, not {chip.family}'s"
        return "\n".join([*lines, f"legal: {said}", *_table(beside(tensor_map, tile))])
    lines += [f"illegal: {len(found)} rule{'s' * (len(found) != 1)} broken ({chip.family})"]
    lines += [f"  {violation} ({violation.source})" for violation in found]
    if legal := mended(tensor_map, address, chip):
        before, after = dict(fields(tensor_map, address)), dict(fields(*legal))
        changes = [f"{name} {after[name]}" for name in after if after[name] != before[name]]
        lines.append(f"legal with all of these: {'; '.join(changes)}")
    listed = f"course tensormap rows {found[0].rule} lists those that break this rule alone"
    refused = f"the calls refused: {' and '.join(RECORDS)}; {listed}"
    return "\n".join([*lines, f"the driver's page: {URL}", refused])


def fields(tensor_map: TensorMap, address: int) -> list[tuple[str, str]]:
    """The driver's arguments: each one's name and value, in its order."""
    m, found = tensor_map, []
    for field, (name, codes) in ARGUMENTS.items():
        if codes:
            value = getattr(m, field)
            meaning = codes[value] if 0 <= value < len(codes) else "none of the driver's codes"
            if field == "data_type" and value in PACKED_DATA_TYPES:
                meaning = "packed, for later chips"
            text = f"{number_text(value)} ({meaning})"
        else:
            values: tuple[int, ...] = (address,) if field == "address" else getattr(m, field)
            text = ", ".join(map(number_text, values)) or "none"
        found.append((name, text))
        if field == "data_type":
            found.append(("tensorRank", str(m.rank)))
    return found


def beside(tensor_map: TensorMap, tile: Sequence[int] = ()) -> list[tuple[str, str]]:
    """What a legal map does not say, and a kernel has to know: a name and a sentence each.

    Raises ValueError where ``tile`` is no multiple of the box.
    """
    m = tensor_map
    size, count = ELEMENT_BYTES[m.data_type], prod(m.extents[1:])
    told = [("expect_tx", f"{m.box_bytes:,} bytes for each box, at the tensor's edge too")]
    if m.interleave or m.swizzle >= len(SWIZZLE_PATTERN_BYTES):
        what = f"interleave {INTERLEAVES[m.interleave]}" if m.interleave else f"swizzle {SWIZZLES[m.swizzle]}"
        told.append(("shared memory", f"not modelled: the course does not say where {what} puts the bytes"))
    else:
        row = m.extents[0] * size
        pitch, room = row_pitch(row, m.swizzle), tile_bytes(count, row, m.swizzle)
        gaps = "" if room == m.box_bytes else ", more than arrive: the row is narrower than the swizzle"
        told.append(("allocate", f"{room:,} bytes: {count:,} rows, {pitch} bytes apart{gaps}"))
        start = base_alignment(m.swizzle)
        why = (
            "" if start == TMA_ALIGNMENT else ", where the swizzle's pattern begins; TMA itself asks for 128"
        )
        told.append(("tile's start", f"a multiple of {start:,} bytes{why}"))
        turns = {code: _turns(row, code) for code in {0, m.swizzle}}
        text = f"{turns[m.swizzle]} for one 16-byte column of 8 rows"
        told.append(("bank turns", text + (f"; {turns[0]} without a swizzle" if m.swizzle else "")))
    step = tuple(extent * stride for extent, stride in zip(m.extents, m.steps, strict=True))
    grid = [-(-dim // extent) for dim, extent in zip(m.dims, step, strict=True)]
    told.append(("boxes", f"{' x '.join(map(str, grid))} cover the tensor, {prod(grid):,} loads"))
    if tile:
        loads = boxes(m.box, tile)
        told.append(
            ("the tile", f"{' x '.join(map(str, tile))} takes {loads} boxes, {loads * m.box_bytes:,} bytes")
        )
    fill = "NaN" if m.oob_fill else "zeros"
    first = "" if m.interleave else f"the first is a multiple of {UNIT // size}; "
    outside = f"a load may begin below 0 or past the end and fills with {fill}, a store not below 0"
    told.append(("coordinates", f"{m.rank}, in elements, innermost first: {first}{outside}"))
    told.append(("reductions", ", ".join(reductions_of(m.data_type)) or "none"))
    return told


def _turns(row_bytes: int, swizzle: int) -> int:
    """Turns of the banks in which 8 lanes read the same 16-byte column of 8 rows, of the worst column."""
    pitch = row_pitch(row_bytes, swizzle)
    columns = range(0, row_bytes, UNIT)
    return max(conflicts(swizzled(row * pitch + at, swizzle) for row in range(8)) for at in columns)


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {text}" for name, text in rows]
