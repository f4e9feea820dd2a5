"""Pictures of layouts: where each element of a grid lies, and which thread holds it.

Everything here is called with numbers and asked for numbers, so a layout may be CuTe DSL's while a function
is traced, TileLang's, or a function of the reader's own.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from IPython.display import display

from course_utils.figures import theme

WIDE, HIGH, HEAD = 34, 30, 26  # pixels: of a box, and of the numbers beside the rows
MOST = 1024  # boxes of a picture

Box = tuple[str, str, float]  # its words, a line a word; its colour; the colour's share


@dataclass(frozen=True, repr=False)
class Grid:
    """Boxes by (row, column), with ``title`` above. Shown as an SVG, or as text."""

    title: str
    boxes: Mapping[tuple[int, int], Box]

    def __repr__(self) -> str:
        rows, columns = _sides(self.boxes)
        words = {at: box[0].replace("\n", " ") for at, box in self.boxes.items()}
        wide = max(map(len, [*words.values(), str(max(columns))]))
        lines = [self.title, " " * 5 + " ".join(str(column).rjust(wide) for column in columns)]
        for row in rows:
            lines.append(f"{row:4} " + " ".join(words.get((row, c), "").rjust(wide) for c in columns))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows, columns = _sides(self.boxes)
        parts = [_text(HEAD + (n + 0.5) * WIDE, HEAD - 8, str(c), True) for n, c in enumerate(columns)]
        parts += [_text(HEAD / 2, HEAD + (n + 0.5) * HIGH + 4, str(r), True) for n, r in enumerate(rows)]
        for (row, column), box in self.boxes.items():
            x, y = HEAD + columns.index(column) * WIDE, HEAD + rows.index(row) * HIGH
            parts.append(_box(x, y, box))
        wide, high = HEAD + len(columns) * WIDE + 2, HEAD + len(rows) * HIGH + 2
        words = html.escape(repr(self), quote=True)
        return (
            f"<div>{html.escape(self.title)}</div><svg role='img' aria-label='{words}' width='{wide}' "
            f"height='{high}' viewBox='0 0 {wide} {high}' style='max-width:100%;font:12px sans-serif'>"
            f"{''.join(parts)}</svg>"
        )


def draw(layout: Any, title: str = "") -> None:
    """Show a layout of two modes as a grid: in each box the place of that row and column, later
    ones in a stronger blue.

    ``layout`` has a ``shape`` of two modes and is called with (row, column). Raises ValueError for another
    rank, or for too many boxes.
    """
    if not isinstance(layout.shape, tuple) or len(layout.shape) != 2:
        raise ValueError(f"only a layout of two modes is a grid; this one has the shape {layout.shape}")
    rows, columns = map(_size, layout.shape)
    _require_few(rows, columns)
    places = {at: int(layout(at)) for at in product(range(rows), range(columns))}
    last = max(places.values()) or 1
    boxes = {at: (str(place), theme.BLUE, 0.05 + 0.5 * place / last) for at, place in places.items()}
    display(Grid(title or str(layout), boxes))


def draw_threads(
    layout: Any,
    tile: tuple[int, int],
    rows: int = 16,
    columns: int = 16,
    title: str = "",
    by_row: bool = False,
) -> None:
    """Show who holds what of a tile: thread and value of each element of its first rows and columns.

    ``layout`` is a thread-value layout as CuTe has them: called with (thread, value), it gives the element's
    number, row + rows of the tile * column; with ``by_row``, columns of the tile * row + column. Raises
    ValueError for too many boxes.
    """
    rows, columns = min(rows, tile[0]), min(columns, tile[1])
    _require_few(rows, columns)
    held = {}
    for thread, value in product(*map(range, map(_size, layout.shape))):
        element = int(layout((thread, value)))
        row, column = divmod(element, tile[1]) if by_row else divmod(element, tile[0])[::-1]
        if row < rows and column < columns:
            held[row, column] = (thread, value)
    display(owners(held, title or str(layout)))


def draw_fragment(fragment: Any, rows: int = 16, columns: int = 16, title: str = "") -> None:
    """Show who holds what of TileLang's fragment: thread and register of its first rows and columns.

    Raises ValueError for too many boxes.
    """
    extents = [int(extent) for extent in fragment.get_input_shape()]
    rows, columns = min(rows, extents[0]), min(columns, extents[1])
    _require_few(rows, columns)
    held = {}
    for row, column in product(range(rows), range(columns)):
        (thread,) = fragment.map_forward_thread([row, column])
        register = fragment.map_forward_index([row, column])[-1]
        held[row, column] = int(thread), int(register)
    display(owners(held, title))


def draw_places(place: Callable[[int, int], int], rows: int, columns: int, title: str = "") -> None:
    """Show a function of row and column as a grid; equal numbers modulo eight have one colour.

    Raises ValueError for too many boxes.
    """
    _require_few(rows, columns)
    boxes = {}
    for at in product(range(rows), range(columns)):
        number = int(place(*at))
        boxes[at] = (str(number), theme.THREADS[number % len(theme.THREADS)], 0.35)
    display(Grid(title, boxes))


def owners(held: Mapping[tuple[int, int], tuple[int, int]], title: str = "") -> Grid:
    """A grid of (row, column) to (thread, value)."""
    boxes = {
        at: (f"T{thread}\nV{value}", theme.THREADS[thread % len(theme.THREADS)], 0.3)
        for at, (thread, value) in held.items()
    }
    return Grid(title, boxes)


def _size(shape: Any) -> int:
    return prod(map(_size, shape)) if isinstance(shape, tuple) else int(shape)


def _require_few(rows: int, columns: int) -> None:
    if rows * columns > MOST:
        raise ValueError(f"{rows} x {columns} boxes are too many for a picture; ask for at most {MOST}")


def _sides(boxes: Mapping[tuple[int, int], Box]) -> tuple[list[int], list[int]]:
    return sorted({row for row, _ in boxes}), sorted({column for _, column in boxes})


def _box(x: float, y: float, box: Box) -> str:
    words, colour, share = box
    lines = words.split("\n")
    top = y + HIGH / 2 + 4 - 6 * (len(lines) - 1)
    said = "".join(_text(x + WIDE / 2, top + 12 * n, line, n > 0) for n, line in enumerate(lines))
    return (
        f"<rect x='{x}' y='{y}' width='{WIDE}' height='{HIGH}' fill='{colour}' fill-opacity='{share:.2f}' "
        f"stroke='currentColor' stroke-opacity='0.35'/>{said}"
    )


def _text(x: float, y: float, words: str, faint: bool = False) -> str:
    small = " font-size='10.5' fill-opacity='0.75'" if faint else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='middle' fill='currentColor'{small}>"
        f"{html.escape(words)}</text>"
    )
