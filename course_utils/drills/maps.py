"""Questions on tensor maps: legal or not, how many boxes, three dimensions or two, modes and coordinates."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from random import Random

from course_utils.artifact import ELEMENT_BYTES, SWIZZLE_BYTES, SWIZZLES, TensorMap
from course_utils.drills.question import Cell, Picture, Question, Row, choice, number
from course_utils.tma.layouts import LayoutError, boxes, flattened
from course_utils.tma.rules import violations

FP16, FP32 = 6, 7
NAMES = {FP16: "fp16", FP32: "fp32"}


def _rules(found: TensorMap, address: int) -> list[str]:
    return [violation.rule for violation in violations(found, address)]


# What a question may break, in a few words
SAID = {
    "stride-multiple-of-16": "rows are no multiple of 16 bytes apart",
    "address-multiple-of-16": "the address is no multiple of 16",
    "box-range": "the box has more than 256 rows",
    "box-inner-multiple-of-16": "a row of the box is no multiple of 16 bytes",
    "swizzle-span": "a row of the box is wider than the swizzle",
}
LEGAL = "legal"


def legal_map(rng: Random) -> Question:
    data_type = rng.choice((FP16, FP16, FP32))
    size = ELEMENT_BYTES[data_type]
    columns, code = rng.choice((512, 1000, 1024, 1001, 1004, 1028, 4096)), rng.choice((0, 1, 2, 3, 3))
    pitch = columns * size if rng.random() < 0.7 else (columns * size + 127) // 128 * 128
    width = rng.choice((8, 16, 20, 24, 32, 60, 64))
    rows, address = rng.choice((64, 128, 256, 257)), rng.choice((0, 0, 0, 32, 8))
    made = TensorMap(data_type, (columns, 4096), (pitch,), (width, rows), (1, 1), swizzle=code)
    broken = _rules(made, address)
    while len(broken) > 1 or not set(broken) <= set(SAID):  # one mend at a time, until one rule is left
        if "stride-multiple-of-16" in broken:
            made = replace(made, strides=((pitch + 15) // 16 * 16,))
        elif "box-inner-multiple-of-16" in broken:
            made = replace(made, box=(width // 8 * 8 or 8, rows))
        elif "swizzle-span" in broken:
            made = replace(made, box=(SWIZZLE_BYTES[made.swizzle] // size, rows))
        else:
            made = replace(made, box=(made.box[0], 128))
        broken = _rules(made, address)
    right = SAID[broken[0]] if broken else LEGAL
    wide, apart, swizzle = made.box[0], made.strides[0], SWIZZLES[made.swizzle]
    where = f"beginning {address} bytes past an aligned address" if address else "at an aligned address"
    facts = {
        LEGAL: "One rule is broken.",
        "stride-multiple-of-16": f"{apart} is a multiple of 16.",
        "address-multiple-of-16": f"{address} is a multiple of 16.",
        "box-inner-multiple-of-16": f"{wide} x {size} = {wide * size} bytes is a multiple of 16.",
        "swizzle-span": f"{wide * size} bytes are not wider than swizzle {swizzle}, or it has none.",
        "box-range": f"{made.box[1]} rows are not too many.",
    }
    in_row = broken in (["box-inner-multiple-of-16"], ["swizzle-span"])
    others = [SAID[rule] for rule in SAID if SAID[rule] != right]
    rng.shuffle(others)
    wrong = {SAID[rule]: facts[rule] for rule in SAID} | {LEGAL: facts[LEGAL]}
    shown = ([LEGAL] if broken else []) + others[: 2 if broken else 3]
    why = {
        LEGAL: f"{apart} and {wide * size} bytes are multiples of 16, and the box keeps its limits.",
        "stride-multiple-of-16": f"{apart} = {apart // 16} x 16 + {apart % 16}.",
        "address-multiple-of-16": f"{address} is not: TMA begins at multiples of 16.",
        "box-inner-multiple-of-16": f"{wide} x {size} = {wide * size} bytes.",
        "swizzle-span": f"{wide} x {size} = {wide * size} bytes, and swizzle {swizzle} spans "
        f"{SWIZZLE_BYTES[made.swizzle]}.",
        "box-range": f"{made.box[1]} rows; a box has at most 256 each way.",
    }[broken[0] if broken else LEGAL]
    return choice(
        f"An {NAMES[data_type]} matrix of {columns} columns, rows {apart} bytes apart, {where}. The box: "
        f"{wide} columns, {made.box[1]} rows, swizzle {swizzle}. Legal?",
        right,
        {name: wrong[name] for name in shown},
        why,
        lambda answer: (
            Row.one("rows apart", f"{apart} = {apart // 16} x 16 + {apart % 16}", "fault" * (apart % 16 > 0)),
            Row.one("address", address, "fault" * (address % 16 > 0)),
            Row.one("box row", f"{wide * size} bytes, swizzle {swizzle}", "fault" * in_row),
            Row.one("box rows", made.box[1], "fault" * (made.box[1] > 256)),
            Row.one("so", answer, here=True),
        ),
        rng,
    )


def loads_of_tile(rng: Random) -> Question:
    box = rng.choice((32, 64)), rng.choice((64, 128))
    tile = box[0] * rng.choice((1, 2, 4)), box[1] * rng.choice((2, 3, 4))
    right = boxes(box, tile)
    across, down = tile[0] // box[0], tile[1] // box[1]
    return number(
        f"A tile has {tile[1]} rows of {tile[0]} halves; the map's box is {box[1]} rows of {box[0]}. How "
        "many loads?",
        right,
        {
            across + down: "Boxes across and boxes down multiply.",
            across: "That is one row of boxes." if across > 1 else "The box is not as tall as the tile.",
            down: "That is one column of boxes.",
        },
        f"{tile[0]} / {box[0]} = {across} across, {tile[1]} / {box[1]} = {down} down.",
        lambda answer: (
            *(
                Row.each(f"row {one * box[1]}", range(across), lambda other: other * box[0], "load")
                for one in range(down)
            ),
            Row.one("loads", answer, here=True),
        ),
    )


# Three dimensions or two


def _slabs(rng: Random) -> tuple[int, int]:
    return rng.choice((4, 6, 8)), rng.choice((16, 24, 32, 48))


def can_flatten(rng: Random) -> Question:
    slabs, rows = _slabs(rng)
    there = (2, rows), (1, rows // 2), (2, rows // 2), (3, rows // 4), (2, rows - 8), (3, 8), (1, 8)
    fine, broken = [], []
    for box in dict.fromkeys(there):
        natural = TensorMap(
            FP16, (64, rows, slabs), (128, 128 * rows), (64, box[1], box[0]), (1, 1, 1), swizzle=3
        )
        try:
            flattened(natural)
            fine.append(box)
        except LayoutError:
            broken.append(box)
    right, three = rng.choice(fine), rng.sample(broken, 3)

    def draw(answer: tuple[int, int]) -> Picture:
        runs = 1 if answer[0] == 1 or answer[1] == rows else answer[0]
        return (
            Row.each("slab", range(3)),
            Row.told("rows in", range(3), range(answer[0]), "load", (f"{answer[1]} of {rows}", "")),
            Row.one("runs", runs, "" if runs == 1 else "fault", True),
        )

    return choice(
        f"X has {slabs} slabs of {rows} rows of 64 halves. Which box can be one box of the flattened map, "
        f"{slabs * rows} x 64?",
        right,
        {
            box: f"{box[0]} slabs with {box[1]} of {rows} rows each are {box[0]} runs of rows."
            for box in three
        },
        "A flattened box is one run of rows: all rows of its slabs, or rows of one slab.",
        draw,
        rng,
        lambda box: f"{box[0]} slab{'s' * (box[0] > 1)} x {box[1]} rows",
    )


def flat_row(rng: Random) -> Question:
    slabs, rows = _slabs(rng)
    z, y = rng.randrange(1, slabs), rng.randrange(1, rows)
    right = z * rows + y
    return number(
        f"X has {slabs} slabs of {rows} rows. Flattened, its rows are one long run. Which row is row {y} of "
        f"slab {z}?",
        right,
        {
            z * slabs + y: "A slab is as long as its rows.",
            y * slabs + z: "Slabs come one after the other, whole.",
            (z - 1) * rows + y: "Slabs count from 0.",
            (z + 1) * rows + y: "Slabs count from 0.",
            z + y: "Each slab before it has all of its rows.",
        },
        f"{z} x {rows} + {y} = {right}.",
        lambda answer: (
            Row.each("slab", range(slabs), here=[z]),
            Row.each(
                "begins at",
                range(slabs),
                lambda one: one * rows,
                lambda one: "load" * (one * rows <= answer < (one + 1) * rows),
            ),
            Row.one("row", answer, here=True),
        ),
        9999,
    )


def boxes_when_flat(rng: Random) -> Question:
    slabs, rows = _slabs(rng)
    tall = rng.choice((rows, rows // 2, rows // 2, 8))
    deep = rng.choice((1, 2, 3, 4))
    right = 1 if tall == rows or deep == 1 else deep
    return number(
        f"X has {slabs} slabs of {rows} rows. A tile is {deep} slab{'s' * (deep > 1)} x {tall} rows. How "
        "many boxes does it take in the flattened tensor, at the least?",
        right,
        {
            deep: "All rows of neighbouring slabs are one run.",
            1: "Between its rows of one slab and of the next lie rows that are not its own.",
            deep * 2: "One run for each slab is enough.",
        },
        f"{'Whole slabs' if tall == rows else 'Rows of one slab'} are one run."
        if right == 1
        else f"{tall} of {rows} rows: a run in each of {deep} slabs.",
        lambda answer: (
            Row.each("slab", range(deep)),
            Row.each("rows", range(deep), lambda _: f"{tall} of {rows}", "load"),
            Row.one("boxes", answer, "" if answer == right else "fault", True),
        ),
    )


def over_the_edge(rng: Random) -> Question:
    rows, tall = rng.choice((24, 40, 48, 56)), 32
    y = rng.choice([one for one in range(0, rows, 8) if one < rows])
    z = rng.randrange(1, 3)
    right = max(0, y + tall - rows)
    return number(
        f"Slabs of {rows} rows, flattened. A box of {tall} rows begins at row {y} of slab {z}. How many of "
        f"its rows belong to slab {z + 1}?",
        right,
        {
            rows - y: f"That many are still of slab {z}.",
            tall: f"It begins in slab {z}.",
            0: "The flattened map does not know where a slab ends.",
        },
        f"{y} + {tall} - {rows} = {y + tall - rows}"
        + (
            ", and the rank-3 map would fill them with zeros." if right else ": it ends before the slab does."
        ),
        lambda answer: (
            Row("row of slab", (Cell(f"{y} to {rows - 1}", "load"), Cell("next slab"))),
            Row("rows", (Cell(str(tall - answer), "load"), Cell(str(answer), "fault" * (answer > 0), True))),
        ),
    )


# Modes of CuTe DSL


def loads_ungrouped(rng: Random) -> Question:
    rows, columns = rng.choice((16, 32, 64, 128)), rng.choice((8, 16, 32, 64))
    rest = rng.choice((1, 1, 2, 4))
    grouped = rng.random() < 0.3
    modes = [(rows * columns,), (rows, columns)][not grouped] + ((rest,) if rest > 1 else ())
    right = prod(modes[1:])
    shape = f"(({rows},{columns})" if grouped else f"({rows},{columns}"
    shape += f",{rest})" if rest > 1 else ("" if not grouped else "") + ")"
    return number(
        f"tma_partition takes mode 0 for the tile of one box. A tensor has the modes {shape}, and cute.copy "
        "takes all of it. How many loads?",
        right,
        {
            1: "Modes after the first are a list of tiles, and each entry is a load.",
            rows: "Mode 0 is the tile itself.",
            rows * columns: "Mode 0 is the tile itself.",
            columns: "Every mode after the first counts."
            if not grouped
            else "Rows and columns are one mode here.",
            rest: "Only mode 0 is the tile." if not grouped else "",
        },
        f"Mode 0 is {'(' + str(rows) + ',' + str(columns) + ')' if grouped else rows}; what is left over: "
        f"{right}.",
        lambda answer: (
            Row.each("mode", range(len(modes))),
            Row("size", tuple(Cell(str(size), "load" if one else "wgmma") for one, size in enumerate(modes))),
            Row.one("loads", answer, "" if answer == right else "fault", True),
        ),
        99_999,
    )


def bytes_ungrouped(rng: Random) -> Question:
    rows, columns = rng.choice((16, 32, 64)), rng.choice((16, 32, 64))
    box = rows * columns * 2
    right = columns * box
    return number(
        f"The map's box is {rows} x {columns} halves. The tile was not grouped, so cute.copy loads once for "
        f"each of its {columns} columns. How many bytes come?",
        right,
        {
            box: "That is one load, and each of them brings the whole box.",
            columns * rows * columns: "That counts elements.",
            rows * box: "Mode 0 is the tile: what is left over are the columns.",
            columns * rows * 2: "A box is what the map says, whatever the kernel thinks.",
        },
        f"Each load brings its box, {box:,} bytes: {columns} x {box:,} = {right:,}.",
        lambda answer: (
            Row.one("one box", f"{box:,}", "load"),
            Row.one("loads", columns, "load"),
            Row.one("come", f"{answer:,}", here=True),
            Row.one("expected", f"{box:,}"),
        ),
        1 << 26,
    )


def coordinates(rng: Random) -> Question:
    tile = rng.choice((32, 64)), rng.choice((32, 64))
    m, n = rng.sample(range(1, 8), 2)
    turned = rng.random() < 0.4
    right = (m * tile[0], n * tile[1]) if turned else (n * tile[1], m * tile[0])
    wrong = {
        right[::-1]: "A map's coordinates begin with the contiguous dimension.",
        (n, m) if not turned else (m, n): "Coordinates count elements, not tiles.",
        (m, n)
        if not turned
        else (n, m): "Coordinates count elements, not tiles, and the contiguous one comes first.",
        (right[0] * 2, right[1]): "Coordinates count elements, not bytes.",
    }
    contiguous = "rows" if turned else "columns"
    return choice(
        f"X has the shape (rows, columns), its {contiguous} are contiguous. The tile is {tile[0]} rows x "
        f"{tile[1]} columns. A load of tile (m, n) = ({m}, {n}) names which coordinates?",
        right,
        wrong,
        f"First the contiguous dimension, {contiguous}: {right[0]}, then {right[1]}.",
        lambda answer: (
            Row("map's order", (Cell(contiguous), Cell("columns" if turned else "rows"))),
            Row("tile", (Cell(str(m if turned else n)), Cell(str(n if turned else m)))),
            Row("coordinates", (Cell(str(answer[0]), "load", True), Cell(str(answer[1]), "load", True))),
        ),
        rng,
        lambda one: "{" + f"{one[0]}, {one[1]}" + "}",
    )


def lanes_missing(rng: Random) -> Question:
    kind = rng.choice(("elect", "below", "warp"))
    below = rng.choice((1, 4, 8, 16, 24))
    branch, there = {
        "elect": ("with cute.arch.elect_one()", 1),
        "below": (f"if lane < {below}", below),
        "warp": ("if warp_idx == 0", 32),
    }[kind]
    right = 32 - there
    return number(
        "cute.copy with a TMA load elects by itself: elect.sync waits for all 32 lanes of the warp. It "
        f"stands in “{branch}:”. For how many lanes does it wait forever?",
        right,
        {
            there: "Those come; it waits for the others.",
            0: "Not all 32 lanes come.",
            31: f"More than one lane comes: {there}.",
            32: "Some lanes come.",
        },
        f"{there} of 32 lanes come to the call" + (", so it hangs." if right else ", so it continues."),
        lambda answer: (
            Row.one("come", there, "load"),
            Row.one("awaited", "32"),
            Row.one("missing", answer, "fault" * (answer > 0), True),
        ),
        32,
    )
