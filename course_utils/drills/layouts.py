"""Questions on layouts, on who holds what, and on what runs when; with a small model of CuTe's layouts.

A layout maps coordinates to a number: shape and stride, of whole numbers or of tuples of the same form. The
model follows CuTe's documentation, "Layout Algebra"; ``tests/drills/test_layouts.py`` holds it against CuTe
DSL's own functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from random import Random
from typing import Any

from course_utils.drills.question import Cell, Picture, Question, Row, choice, number
from course_utils.tma.layouts import swizzled

Nested = Any  # int, or a tuple of Nested


@dataclass(frozen=True)
class Layout:
    """``shape:stride``. Called with a coordinate, it gives the element's place."""

    shape: Nested
    stride: Nested

    def __call__(self, coordinate: Nested) -> int:
        return _place(coordinate, self.shape, self.stride)

    def __str__(self) -> str:
        return f"{_written(self.shape)}:{_written(self.stride)}"


def size(shape: Nested) -> int:
    """How many coordinates a shape has."""
    return prod(map(size, shape)) if isinstance(shape, tuple) else shape


def cosize(layout: Layout) -> int:
    """The last place of a layout, and one more: the elements of memory that it needs from 0 on."""
    return layout(size(layout.shape) - 1) + 1


def modes(layout: Layout) -> list[tuple[int, int]]:
    """(extent, stride) of every whole number in a layout, first mode first."""
    return list(zip(_flat(layout.shape), _flat(layout.stride), strict=True))


def coalesce(layout: Layout) -> Layout:
    """The same places in the same order, with as few modes as there can be."""
    joined: list[tuple[int, int]] = []
    for extent, stride in modes(layout):
        if extent == 1:
            continue
        if joined and joined[-1][0] * joined[-1][1] == stride:
            joined[-1] = joined[-1][0] * extent, joined[-1][1]
        else:
            joined.append((extent, stride))
    return _of(joined)


def composition(outer: Layout, inner: Layout) -> Layout:
    """The layout whose place of coordinate c is ``outer(inner(c))``, with the shape of ``inner``.

    Raises ValueError where a mode of ``inner`` does not go evenly through the modes of ``outer``.
    """
    if isinstance(inner.shape, tuple):
        pairs = zip(inner.shape, inner.stride, strict=True)
        parts = [composition(outer, Layout(*pair)) for pair in pairs]
        return Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))
    *first, (_, last) = modes(coalesce(outer))
    left, step, taken = inner.shape, inner.stride, []
    for extent, stride in first:
        if extent % step and step % extent:
            raise ValueError(f"a step of {step} does not go evenly through a mode of {extent}")
        part = min(max(1, extent // step), left)
        if left % part:
            raise ValueError(f"{left} elements do not go evenly through a mode of {extent}")
        if part > 1:
            taken.append((part, step * stride))
        left, step = left // part, -(-step // extent)
    if left > 1 or not taken:
        taken.append((left, step * last))
    return _of(taken)


def complement(layout: Layout, whole: int) -> Layout:
    """Where copies of ``layout`` begin so that together they take each of ``whole`` places once."""
    gaps, reach = [], 1
    for extent, stride in sorted(modes(layout), key=lambda mode: mode[1]):
        gaps.append((stride // reach, reach))
        reach = extent * stride
    return coalesce(_of([*gaps, (-(-whole // reach), reach)]))


def _place(coordinate: Nested, shape: Nested, stride: Nested) -> int:
    if not isinstance(shape, tuple):
        return coordinate * stride
    if isinstance(coordinate, tuple):
        return sum(map(_place, coordinate, shape, stride))
    place = 0
    for part, step in zip(shape[:-1], stride[:-1], strict=True):
        coordinate, here = divmod(coordinate, size(part))
        place += _place(here, part, step)
    return place + _place(coordinate, shape[-1], stride[-1])


def _flat(nested: Nested) -> list[int]:
    return [one for part in nested for one in _flat(part)] if isinstance(nested, tuple) else [nested]


def _of(pairs: list[tuple[int, int]]) -> Layout:
    """A layout of these modes; one mode stands without brackets, none is one element."""
    if len(pairs) < 2:
        return Layout(*(pairs or [(1, 0)])[0])
    return Layout(tuple(extent for extent, _ in pairs), tuple(stride for _, stride in pairs))


def _written(nested: Nested) -> str:
    return f"({','.join(map(_written, nested))})" if isinstance(nested, tuple) else str(nested)


# Who holds what: (thread, value) to row + rows * column of a tile

ACCUMULATOR = Layout(((4, 8, 4), (2, 2, 16)), ((128, 1, 16), (64, 8, 512)))  # wgmma, 64 x 128
ACCUMULATOR_ROWS = 64


def holder(row: int, column: int) -> tuple[int, int]:
    """(thread, value) of an element of wgmma's 64 x 128 accumulator."""
    return _holders()[row + ACCUMULATOR_ROWS * column]


@cache
def _holders() -> dict[int, tuple[int, int]]:
    return {ACCUMULATOR(one): one for one in product(range(128), range(64))}


# Pictures


def _grid(layout: Layout, rows: int, columns: int, answer: int) -> Picture:
    """A layout's places as rows and columns, with an answer where it lies."""
    lines = [
        Row(f"row {i}", tuple(_at(layout((i, j)), layout((i, j)) == answer) for j in range(columns)))
        for i in range(rows)
    ]
    head = Row.each("column", range(columns))
    return (head, *lines, _answer(answer))


def _at(place: int, here: bool) -> Cell:
    return Cell(str(place), "load" * here, here)


def _answer(answer: object) -> Row:
    return Row.one("answer", answer, here=True)


def _sum(parts: list[tuple[str, int]], answer: int) -> Picture:
    """What each mode adds, and an answer."""
    return (*(Row.one(words, value, "load") for words, value in parts), _answer(answer))


# Shape and stride


def offset(rng: Random) -> Question:
    rows, columns = rng.choice(((4, 8), (4, 6), (3, 8), (4, 10)))
    padded = columns + rng.choice((0, 0, 2))
    stride = rng.choice(((padded, 1), (1, rows), (1, rows + 1)))
    layout = Layout((rows, columns), stride)
    i, j = rng.randrange(1, rows), rng.randrange(1, columns)
    return number(
        f"The layout {layout}. At which place lies the element in row {i}, column {j}?",
        layout((i, j)),
        {
            i * stride[1] + j * stride[0]: "The first stride goes with the first mode, the row.",
            i * columns + j: "That takes row after row; the strides say otherwise.",
            i + j * rows: "That takes column after column; the strides say otherwise.",
        },
        f"{i} x {stride[0]} + {j} x {stride[1]} = {layout((i, j))}.",
        lambda answer: _grid(layout, rows, columns, answer),
    )


def by_one_number(rng: Random) -> Question:
    rows, columns = rng.choice(((4, 8), (2, 8), (4, 4), (3, 6)))
    layout = Layout((rows, columns), (columns, 1))
    one = rng.randrange(rows + 1, rows * columns - 1)
    j, i = divmod(one, rows)
    return number(
        f"The layout {layout}, called with one number: layout({one}). A single number counts the first mode "
        "first. Which place comes out?",
        layout(one),
        {
            one: "That counts along the rows; the first mode is the row's number.",
            j * columns + i: "Row and column have changed places.",
        },
        f"{one} = {i} + {rows} x {j}, so it is row {i}, column {j}: {i} x {columns} + {j} = {layout(one)}.",
        lambda answer: _grid(layout, rows, columns, answer),
    )


def nested(rng: Random) -> Question:
    a, b, c = rng.choice(((2, 2, 4), (2, 4, 4), (4, 2, 4), (2, 3, 4)))
    layout = Layout(((a, b), c), rng.choice((((1, a * c), a), ((c, a * c), 1), ((b, 1), a * b))))
    i, k, j = rng.randrange(1, a), rng.randrange(1, b), rng.randrange(1, c)
    right = layout(((i, k), j))
    (first, second), third = layout.stride
    parts = [(f"{i} x {first}", i * first), (f"{k} x {second}", k * second), (f"{j} x {third}", j * third)]
    return number(
        f"The layout {layout}. Its first mode is made of two. At which place lies the coordinate "
        f"(({i}, {k}), {j})?",
        right,
        {
            k * first + i * second + j * third: "Each number goes with the stride in its own place.",
            i * first + j * third: "The second part of the first mode is missing.",
            (i + k) * first + j * third: "The two parts have strides of their own.",
        },
        f"{i} x {first} + {k} x {second} + {j} x {third} = {right}.",
        lambda answer: _sum(parts, answer),
    )


def room(rng: Random) -> Question:
    rows, columns = rng.choice((3, 4, 8)), rng.choice((4, 6, 8))
    pitch = columns + rng.choice((0, 1, 2, 4))
    layout = Layout((rows, columns), (pitch, 1))
    last = (rows - 1) * pitch + columns - 1
    return number(
        f"The layout {layout}, from place 0 on. How many elements of memory does it need, up to its last "
        "one? CuTe calls this its cosize.",
        cosize(layout),
        {
            rows * columns: "That is its size: the number of its elements.",
            rows * pitch: "Behind the last row's elements nothing is needed.",
            last: "Places count from 0.",
        },
        f"Its last element lies at {rows - 1} x {pitch} + {columns - 1} = {last}; with 0 that is {last + 1}.",
        lambda answer: _sum([("last row", (rows - 1) * pitch), ("last column", columns - 1)], answer),
    )


# The algebra


def _listed(layout: Layout, many: int) -> Row:
    """The first places of a layout, in order."""
    places = range(min(size(layout.shape), many))
    return Row.each(str(layout), places, lambda one: layout(one), "load")


def joined(rng: Random) -> Question:
    a, b, stride = rng.choice((2, 4, 8)), rng.choice((3, 4, 6)), rng.choice((1, 2, 3))
    together = rng.random() < 0.5
    second = a * stride if together else rng.choice((stride * b * 2 + 1, a * stride + 2))
    before = Layout((a, b), (stride, second))
    right = coalesce(before)
    reasons = {
        before: f"A step of {second} is {a} steps of {stride}: one mode does for both.",
        Layout(a * b, stride): f"{a} steps of {stride} are {a * stride}, and the next mode steps {second}.",
        Layout(a * b, second): "The first mode's step is the first one taken.",
        Layout((b, a), (second, stride)): "That takes the elements in another order.",
    }
    return choice(
        f"{before}: may its two modes become one, with the same places in the same order? What does "
        "cute.coalesce give?",
        right,
        reasons,
        f"{a} x {stride} = {a * stride}, and the second stride is {second}: "
        + ("the two join." if together else "they do not join."),
        lambda answer: (_listed(before, 12), _listed(answer, 12)),
        rng,
    )


def composed(rng: Random) -> Question:
    rows, columns = rng.choice(((4, 8), (8, 4), (4, 6), (8, 16)))
    outer = Layout((rows, columns), (columns, 1))
    halves = Layout(rows // 2, 2), Layout(columns // 2, 2 * rows)
    inner = rng.choice((Layout(rows, 1), Layout(columns, rows), *halves, Layout((2, columns), (1, rows))))
    right = composition(outer, inner)
    flat = inner.shape if isinstance(inner.shape, int) else size(inner.shape)
    wrong = {
        inner: "That is the inner layout alone; its places are coordinates of the outer one.",
        Layout(flat, 1): "The places that come out are not neighbours in that order.",
        Layout(flat, columns): f"A step of {columns} is one row further each time.",
        Layout(flat, rows): f"A step of {rows} counts elements of the outer layout, not places.",
        outer: "That is the outer layout alone.",
    }
    return choice(
        f"A is {outer}, B is {inner}. What does cute.composition(A, B) give? Its element i is A(B(i)).",
        right,
        {one: words for one, words in wrong.items() if _places(one) != _places(right)},
        f"B gives {_few(inner)}; there A gives {_few(right)}.",
        lambda answer: (_listed(inner, 12), _listed(answer, 12)),
        rng,
    )


def _places(layout: Layout) -> list[int]:
    return [layout(one) for one in range(size(layout.shape))]


def _few(layout: Layout) -> str:
    places = _places(layout)
    return ", ".join(map(str, places[:4])) + (" and so on" if len(places) > 4 else "")


def left_over(rng: Random) -> Question:
    take, apart, times = rng.choice((2, 4, 8)), rng.choice((1, 2, 2, 3)), rng.choice((2, 3, 4))
    whole = take * apart * times
    tile = Layout(take, apart)
    right = complement(tile, whole)
    others = {
        Layout(whole // take, take): "Tiles begin in each other's gaps too.",
        Layout(whole // take, 1): "Some tiles would share elements.",
        Layout((apart, times), (1, take)): "Its second step is too short: tiles would share elements.",
        Layout(times, take * apart): f"{times} tiles of {take} leave some of {whole} out.",
        Layout(whole // take, take * apart): f"The last of them would begin past {whole}.",
    }

    def good(layout: Layout) -> bool:
        places = [begin + one for begin in _places(layout) for one in _places(tile)]
        return sorted(places) == list(range(whole))

    return choice(
        f"A tile takes the elements {tile}. Copies of it are to take each of {whole} places once. Where do "
        "they begin? This is cute.complement.",
        right,
        {one: words for one, words in others.items() if not good(one)},
        f"The tiles begin at {_few(right)}.",
        lambda answer: (_listed(tile, 12), _listed(answer, 12)),
        rng,
    )


# Tiles of a matrix


def tile_shape(rng: Random) -> Question:
    rows, columns = rng.choice((256, 384, 512)), rng.choice((256, 320, 512, 640))
    tile = rng.choice(((128, 64), (128, 32), (64, 64)))
    counts = rows // tile[0], columns // tile[1]
    at = rng.choice(("(1, None)", "(None, 2)", "(None, None)", "(1, 2)"))
    kept = {"(1, None)": (counts[1],), "(None, 2)": (counts[0],), "(None, None)": counts, "(1, 2)": ()}
    grouped = rng.random() < 0.5
    call = f"cute.local_tile(A, {tile}, {at})"
    right = (tile, *kept[at]) if grouped else (*tile, *kept[at])
    wrong = {
        (*tile, *kept[at]): "group_modes(..., 0, 2) makes one mode of the first two.",
        (tile, *kept[at]): "Nothing groups the tile's two modes here.",
        tile: "None keeps a mode: the tiles along it."
        if kept[at]
        else "group_modes leaves one mode, and the tile's two are inside it.",
        (*tile, *counts): "A number in the coordinate picks a tile, and its mode is gone.",
        (*counts, *tile): "The tile's modes come first, then those that count tiles.",
        (*tile, columns): "The mode counts tiles, and not elements.",
    }
    return choice(
        f"A has the shape ({rows}, {columns}). What is the shape of "
        + (f"cute.group_modes({call}, 0, 2)?" if grouped else f"{call}?"),
        right,
        wrong,
        "First the tile" + (", grouped into one mode" if grouped else "") + ", then a mode for each None.",
        lambda answer: (Row.each("modes", answer, lambda mode: _written(mode), "load"),),
        rng,
        label=_written,
    )


def basis(rng: Random) -> Question:
    width = rng.choice((32, 64))
    top = 128 * rng.randrange(1, 4)
    row, column, tile = rng.randrange(1, 100), rng.randrange(1, width), rng.randrange(1, 4)
    right = (top + row, tile * width + column)
    wrong = {
        (row, tile * width + column): "The tensor begins at its first coordinate, not at (0, 0).",
        (top + row, column + tile): f"The third mode's step is {width}@1: {width} columns each time.",
        (tile * width + column, top + row): "@0 is the first coordinate, the row.",
        (top + row + tile * width, column): f"{width}@1 steps along coordinate 1, the column.",
    }
    return choice(
        f"A tile of coordinates prints as tensor<({top},0) o (128,{width},8):(1@0,1@1,{width}@1)>. Which row "
        f"and column of the matrix is its entry ({row}, {column}, {tile})?",
        right,
        wrong,
        f"Row {top} + {row}, column {column} + {tile} x {width}.",
        lambda answer: (
            Row.one("coordinate 0", answer[0], "load"),
            Row.one("coordinate 1", answer[1], "load"),
        ),
        rng,
    )


def swizzled_byte(rng: Random) -> Question:
    row, piece, inside = rng.randrange(1, 8), rng.randrange(8), rng.choice((0, 0, 2, 8))
    before = row * 128 + piece * 16 + inside
    right = swizzled(before, 3)
    return number(
        "The swizzle S<3,4,3> changes byte addresses: bits 4, 5, 6 become their xor with bits 7, 8, 9. "
        f"Byte {before} is {before:010b}. Which byte does it become?",
        right,
        {
            before: "Some of bits 7, 8 and 9 are 1: something changes.",
            before ^ row: "The three bits begin at bit 4: they count 16 bytes.",
            row * 128 + (piece + row) % 8 * 16 + inside: "They are combined bit by bit, and not added.",
        },
        f"Piece {piece} of line {row} goes to place {piece} xor {row} = {piece ^ row}: "
        f"{row} x 128 + {piece ^ row} x 16 + {inside}.",
        lambda answer: (
            Row.each("bits 9 to 7", f"{before >> 7 & 7:03b}"),
            Row.each("before", f"{before >> 4 & 7:03b}", look="load"),
            Row.each("after", f"{answer >> 4 & 7:03b}", look="load"),
            _answer(answer),
        ),
        4095,
    )


# Threads and values


def copied_by(rng: Random) -> Question:
    down, across = rng.choice(((16, 8), (32, 4), (8, 16)))
    row, column = rng.randrange(down, 2 * down), rng.randrange(8, 8 * across)
    right = row % down * across + column // 8
    return number(
        f"cute.make_tiled_copy_tv with threads ({down},{across}):({across},1) and values (1,8), on a tile of "
        f"128 rows and {8 * across} columns. Which thread copies row {row}, column {column}?",
        right,
        {
            row * across + column // 8: f"After {down} rows the threads begin again.",
            row % down * across + column % across: "A thread takes 8 neighbours in a row.",
            row % down + column // 8 * down: "Thread numbers run along the row: its stride is 1.",
        },
        f"Row {row % down} of {down}, piece {column // 8}: {row % down} x {across} + {column // 8}.",
        lambda answer: (
            Row.one("thread", answer, here=True),
            Row.one("its row", f"{answer // across}, and every {down} further", "load"),
            Row.one("columns", f"{answer % across * 8} to {answer % across * 8 + 7}", "load"),
        ),
    )


def _holds(thread: int, value: int) -> Picture:
    """What a thread of wgmma holds, by name."""
    place = ACCUMULATOR((thread % 128, value % 64))
    row, column = place % ACCUMULATOR_ROWS, place // ACCUMULATOR_ROWS
    return (
        Row.one("thread", thread, here=True),
        Row.one("value", value, here=True),
        Row.one("there lies", f"row {row}, column {column}", "wgmma"),
    )


def accumulates(rng: Random) -> Question:
    row, column = rng.randrange(64), rng.randrange(128)
    thread, value = holder(row, column)
    warp, lane = divmod(thread, 32)
    return number(
        "wgmma's accumulator: a warp has 16 rows. In each 8 rows by 8 columns, a lane holds two neighbours: "
        "lanes 0 to 3 the first row, 4 to 7 the next, and so on. "
        f"Which of the 128 threads holds row {row}, column {column}?",
        thread,
        {
            lane: "That is the lane; a warp has 16 of the 64 rows.",
            row * 2: "Two threads a row: it is four, of two columns each.",
            row % 8 * 4 + column % 8 // 2: "That is the lane; a warp has 16 of the 64 rows.",
            warp * 32 + row % 8 * 4 + column % 4: "Two neighbours belong to one lane.",
            row: "Four lanes share a row.",
        },
        f"Warp {row} // 16 = {warp}; lane {row % 8} x 4 + {column % 8} // 2 = {lane}; 32 x {warp} + {lane}.",
        lambda answer: _holds(answer, value),
        127,
    )


def value_of(rng: Random) -> Question:
    row, column = rng.randrange(64), rng.randrange(8, 128)
    thread, value = holder(row, column)
    lower = row % 16 // 8
    return number(
        "A thread's values of wgmma's 64 x 128 accumulator have the shape (2,2,16): two neighbours, then "
        "rows r and r + 8, then every 8 columns. A single number counts the first first. "
        f"Which value is row {row}, column {column}?",
        value,
        {
            column: "Each thread has two of eight columns.",
            column // 8 * 2 + column % 2: "There are four values for every 8 columns.",
            column // 8 * 4 + column % 2 * 2 + lower: "The neighbours come first, then the two rows.",
            column // 8 * 4 + column % 2: "This row is the lower one of its thread's two.",
        },
        f"{column} % 2 + 2 x {lower} + 4 x ({column} // 8) = {value}.",
        lambda answer: _holds(thread, answer),
        63,
    )


def matrix_lane(rng: Random) -> Question:
    matrix, row, column = rng.randrange(4), rng.randrange(8), rng.randrange(8)
    gives = rng.random() < 0.5
    name = rng.choice(("ldmatrix", "stmatrix"))
    held, address = row * 4 + column // 2, matrix * 8 + row
    right, other = (address, held) if gives else (held, address)
    what = f"gives the address of row {row}" if gives else f"holds row {row}, column {column}"
    return number(
        f"{name} of four 8 x 8 matrices of halves. Each lane gives the address of one row, matrix after "
        "matrix, and holds two neighbours of each matrix, row after row. "
        f"Which lane {what} of matrix {matrix}?",
        right,
        {
            other: "That lane holds it in a register; another one gives the address."
            if gives
            else "That lane gives the row's address.",
            row: "That is the row's number in its matrix.",
            row * 8 + column: "A lane holds two neighbours.",
            matrix * 8 + column: "A row is a row of the matrix, not a column.",
        },
        f"8 x {matrix} + {row} = {right}." if gives else f"4 x {row} + {column} // 2 = {right}.",
        lambda answer: (
            Row.one("lane", answer, here=True),
            Row.one("address", f"row {answer % 8} of matrix {answer // 8}", "store"),
            Row.one("holds", f"row {answer // 4}, columns {answer % 4 * 2}, {answer % 4 * 2 + 1}", "load"),
        ),
        31,
    )


def in_fragment(rng: Random) -> Question:
    across, rows = rng.choice(((8, 16), (4, 32), (16, 8)))
    i, j = rng.randrange(rows, 4 * rows), rng.randrange(8, 8 * across)
    right = (i % rows * across + j // 8, i // rows * 8 + j % 8)
    wrong = {
        right[::-1]: "The thread is forward_thread, the register forward_index.",
        (i * across + j // 8, j % 8): "The thread takes i modulo the rows.",
        (right[0], j % 8): "Each round of rows has eight registers more.",
        (j // 8, i % rows * 8 + j % 8): "The row has a part in the thread.",
    }
    return choice(
        f"A fragment prints forward_thread: _i % {rows} * {across} + _j // 8 and forward_index: "
        f"_i // {rows} * 8 + _j % 8. Where is element ({i}, {j})?",
        right,
        wrong,
        f"{i} % {rows} x {across} + {j} // 8 = {right[0]}, and {i} // {rows} x 8 + {j} % 8 = {right[1]}.",
        lambda answer: (Row.one("thread", answer[0], "load"), Row.one("register", answer[1], "load")),
        rng,
        label=lambda pair: f"thread {pair[0]}, register {pair[1]}",
    )


# Trace and run

PRINTS = {  # what stands in the kernel: lines for n rounds and t threads, and why
    "for i in cutlass.range({n}, unroll=1): print(i)": (
        lambda n, t: 1,
        "print runs when the kernel is traced, and the loop's body is traced once.",
    ),
    "for i in cutlass.range_constexpr({n}): print(i)": (
        lambda n, t: n,
        "print runs when the kernel is traced, and this loop is traced round by round.",
    ),
    'for i in cutlass.range({n}, unroll=1): cute.printf("%d", i)': (
        lambda n, t: n * t,
        "printf is part of the kernel: every thread runs it in every round.",
    ),
    'for i in cutlass.range_constexpr({n}): cute.printf("%d", i)': (
        lambda n, t: n * t,
        "The loop is written out, and every thread runs each of its printf.",
    ),
    "if cutlass.const_expr({n} > 1): print({n})": (
        lambda n, t: 1,
        "Python decides while it traces, and print runs then, once.",
    ),
    'if cutlass.const_expr({n} > 9): cute.printf("%d", {n})': (
        lambda n, t: 0,
        "Python decides while it traces: the kernel has no printf at all.",
    ),
}


def printed(rng: Random) -> Question:
    line = rng.choice(list(PRINTS))
    rounds, threads = rng.randrange(2, 9), rng.choice((32, 64, 128))
    count, why = PRINTS[line]
    right = count(rounds, threads)
    wrong = {
        1: "Every thread runs what is in the kernel.",
        rounds: "Ask when this line runs: while the kernel is traced, or on each thread.",
        threads: "Ask how often each thread comes to it.",
        rounds * threads: "Threads run the kernel; print belongs to the trace.",
        0: "It does run: once for each trace of its body.",
    }
    return number(
        f"A kernel of {threads} threads is traced once and launched once. In it stands: "
        f"{line.format(n=rounds)}. How many lines come out?",
        right,
        wrong,
        why,
        lambda answer: (Row.each("rounds", range(rounds)), Row.one("threads", threads), _answer(answer)),
        9999,
    )
