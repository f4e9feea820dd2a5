"""Eight rows of a tile in shared memory under a swizzle, and what reading a column of pieces costs."""

from __future__ import annotations

from course_utils.artifact import SWIZZLE_BYTES, SWIZZLES
from course_utils.chips import HOME
from course_utils.figures.moving.still import Cell, Row
from course_utils.tma.layouts import BANK_BYTES, BANKS, UNIT, conflicts, swizzled

ROWS = 8  # the pattern of every swizzle repeats after eight rows
LINE = BANKS * BANK_BYTES  # bytes: once through all banks
HALF = 2  # bytes of an element


def mode(swizzle: int) -> dict:
    """Offsets of the pieces of eight rows, ``[row][piece]``, and the turns that a read of each column takes.

    Rows are as wide as the swizzle's span; without a swizzle they have 128 bytes. ``xor`` is what each row's
    pieces are combined with.
    """
    span = SWIZZLE_BYTES[swizzle] or LINE
    pieces = range(span // UNIT)
    lies = [[swizzled(row * span + piece * UNIT, swizzle) for piece in pieces] for row in range(ROWS)]
    return {
        "span": span,
        "lies": lies,
        "xor": [lies[row][0] % span // UNIT for row in range(ROWS)],
        "ways": [conflicts([lies[row][piece] for row in range(ROWS)]) for piece in pieces],
    }


def rows(swizzle: int, column: int) -> list[Row]:
    """Shared memory in lines of 128 bytes; the pieces that hold a column stand out."""
    made = mode(swizzle)
    held = {
        offset: (row, piece) for row, line in enumerate(made["lies"]) for piece, offset in enumerate(line)
    }
    banks = tuple(
        Cell(i, i + 1, f"{i * UNIT // BANK_BYTES}-{(i + 1) * UNIT // BANK_BYTES - 1}", "paper")
        for i in range(LINE // UNIT)
    )
    lines = [Row("banks", banks)]
    for start in range(0, ROWS * made["span"], LINE):
        cells = []
        for i in range(LINE // UNIT):
            row, piece = held[start + i * UNIT]
            look = "green" if piece == column * HALF // UNIT else "pale"
            cells.append(Cell(i, i + 1, f"r{row} p{piece}", look))
        lines.append(Row(f"bytes {start} to {start + LINE - 1}", tuple(cells)))
    return lines


def figure(swizzle: str = "128B", row: int = 3, column: int = 20) -> dict:
    """A tile of halves under ``swizzle`` ("128B", "64B", "32B" or "none"), and where to begin in it."""
    names = SWIZZLES[: HOME.swizzles][::-1]
    if swizzle not in names:
        raise ValueError(f"swizzle is one of {', '.join(map(repr, names))}, not {swizzle!r}")
    code = SWIZZLES.index(swizzle)
    made = mode(code)
    if type(row) is not int or row not in range(ROWS):
        raise ValueError(f"row is a whole number from 0 to {ROWS - 1}, not {row!r}")
    columns = made["span"] // HALF
    if type(column) is not int or column not in range(columns):
        raise ValueError(f"column is a whole number from 0 to {columns - 1}, not {column!r}")
    piece = column * HALF // UNIT
    return {
        "title": "Where 16 bytes lie under a swizzle",
        "words": f"Swizzle {swizzle}, rows of {made['span']} bytes. r3 p2 is piece 2 of row 3. Reading piece "
        f"{piece} of eight rows takes {made['ways'][piece]} turn{'s' * (made['ways'][piece] > 1)}.",
        "rows": rows(code, column),
        "controls": [
            {"name": "swizzle", "kind": "choice", "value": swizzle, "of": list(names)},
            {"name": "row", "kind": "range", "value": row, "from": 0, "to": ROWS - 1, "by": 1},
            {"name": "column", "kind": "range", "value": column, "from": 0, "to": LINE // HALF - 1, "by": 1},
        ],
        "modes": {SWIZZLES[one]: mode(one) for one in range(HOME.swizzles)},
        "half": HALF,
        "unit": UNIT,
        "line": LINE,
        "bank": BANK_BYTES,
    }
