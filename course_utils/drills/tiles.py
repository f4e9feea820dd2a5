"""Questions on tiles of D: which CTA, which rows, how many waves, what registers hold, what leaves when."""

from __future__ import annotations

from math import ceil
from random import Random

from course_utils.chips import HOME
from course_utils.drills.question import Cell, Picture, Question, Row, choice, number
from course_utils.figures.tiles import order

WGMMA_M, WGMMA_K = 64, 16
SMS = HOME.sms


# One tile


def wgmma_count(rng: Random) -> Question:
    rows = rng.choice((64, 128, 192, 256))
    block_n, block_k = rng.choice((64, 128, 256)), rng.choice((32, 64, 128))
    down, along = rows // WGMMA_M, block_k // WGMMA_K
    return number(
        f"A tile: {rows} rows of A, {block_n} rows of B, {block_k} of K. One wgmma takes {WGMMA_M} x "
        f"{block_n} x {WGMMA_K}. How many wgmma?",
        down * along,
        {
            along: f"That is {WGMMA_M} rows; A has {rows}.",
            down: f"That is one slice of K; each wgmma takes {WGMMA_K} of {block_k}.",
            down + along: "Rows and slices multiply.",
            1: "One instruction does not take the whole tile.",
        },
        f"{rows} / {WGMMA_M} = {down} times {block_k} / {WGMMA_K} = {along}.",
        lambda answer: (
            *(
                Row.each(
                    f"rows {WGMMA_M * i}",
                    range(i * along, (i + 1) * along),
                    lambda n: f"k {WGMMA_K * (n % along)}",
                    lambda n: "wgmma" * (n < answer),
                )
                for i in range(down)
            ),
            Row.one("wgmma", answer, "fault" * (answer > down * along), True),
        ),
    )


def accumulated(products: list[int], adds: list[bool]) -> int:
    """What the accumulator holds after these products; a flag that is off overwrites."""
    total = 0
    for product, add in zip(products, adds, strict=True):
        total = total + product if add else product
    return total


def accumulator(rng: Random) -> Question:
    products = rng.sample(range(1, 10), 5)
    adds = [False, *(rng.random() < 0.6 for _ in range(4))]
    adds[rng.randrange(2, 4)] = False
    adds[4] = True
    right = accumulated(products, adds)
    words = [("+" if add else "=") + str(product) for product, add in zip(products, adds, strict=True)]
    running = [accumulated(products[: i + 1], adds[: i + 1]) for i in range(5)]
    return number(
        f"Five wgmma on one accumulator; = overwrites, + adds: {', '.join(words)}. What is left?",
        right,
        {
            sum(products): "That adds them all; an overwrite forgets what was there.",
            products[-1]: "That is the last product alone, and it is added.",
            products[0]: "That is the first product; it was overwritten later.",
            sum(products) - right: "That is what was thrown away.",
        },
        "The sum begins anew at the last overwrite.",
        lambda answer: (
            Row(
                "wgmma",
                tuple(Cell(word, "wgmma" if add else "store") for word, add in zip(words, adds, strict=True)),
            ),
            Row(
                "acc",
                tuple(Cell(str(answer if i == 4 else one), here=i == 4) for i, one in enumerate(running)),
            ),
        ),
    )


def fp16_sum(rng: Random) -> Question:
    import numpy as np

    apart = rng.choice((2, 4, 8))
    start = 1024 * apart + apart * rng.randrange(6)
    add = rng.choice([one for one in range(1, 2 * apart) if one != apart])
    exact = start + add
    low = exact // apart * apart
    right = int(np.float16(start) + np.float16(add))
    neighbours = [low + i * apart for i in range(-1, 3)]
    half = 2 * (exact - low) == apart
    where = "lies half way" if half else "lies"
    goes = "to the one whose last bit is 0" if half else "to the nearer one"
    return number(
        f"An fp16 sum is {start:,}, and {add} is added. Here neighbouring fp16 numbers are {apart} apart. "
        "What is the sum now?",
        right,
        {
            exact: "fp16 cannot represent that number; fp32 could.",
            low: "It does not always go down.",
            low + apart: "It does not always go up.",
            start: "What is added is more than half of the distance.",
        },
        f"{exact:,} {where} between {low:,} and {low + apart:,}, and goes {goes}.",
        lambda answer: (
            Row.each("fp16", neighbours, "{:,}".format, here=[answer]),
            Row.one("exact", f"{exact:,}"),
            Row.one("kept", f"{answer:,}", "fault" * (answer % apart > 0), True),
        ),
        99_999,
    )


def k_slice(rng: Random) -> Question:
    block_k, k = rng.choice((32, 64, 128)), rng.randrange(2, 9)
    first = k * block_k
    wrong = {
        (first - block_k, first): "That is the round before: rounds count from 0.",
        (k, k + block_k): "k counts tiles, and a slice counts columns.",
        (first, first + block_k - 1): "The end of a slice is not in it.",
        (0, first): "That is all that came before.",
        (first + block_k, first + 2 * block_k): "That is the next round: rounds count from 0.",
    }
    right, rounds = (first, first + block_k), (k - 1, k, k + 1)

    return choice(
        f"K tiles are {block_k} wide, rounds count from 0. Which columns of A does round {k} copy?",
        right,
        wrong,
        f"It begins at {k} x {block_k} = {first} and takes {block_k} columns.",
        lambda answer: (
            Row.each("round", rounds, here=[k]),
            Row.each("begins at", rounds, lambda one: one * block_k, "load", [k]),
            Row.one("slice", f"{answer[0]} : {answer[1]}, {answer[1] - answer[0]} columns", here=True),
        ),
        rng,
        lambda one: f"{one[0]} : {one[1]}",
    )


def flag_outcome(rng: Random) -> Question:
    rounds = rng.choice((1, 1, 2, 3, 5, 8))
    last = "overwrites in the last round only, and the sums were set to 0 before"
    flags = {
        "overwrites in every round": [False] * rounds,
        "adds in every round, to sums that were set to 0 before": [True] * rounds,
        "overwrites in round 0 only": [i > 0 for i in range(rounds)],
        last: [i < rounds - 1 for i in range(rounds)],
    }
    where, adds = rng.choice(list(flags.items()))
    products = [2**i for i in range(rounds)]  # each subset has its own sum
    got = accumulated(products, adds)
    right = "right" if got == sum(products) else "wrong"
    kept = [bool(got & product) for product in products]
    wrong = {
        "right": "Look at what is left after the last round.",
        "wrong": "No round's product is lost.",
        "race": "Nothing is out of order: each wgmma adds or overwrites after the one before.",
        "hang": "A flag keeps nobody waiting.",
    }
    return choice(
        f"K is {rounds} tile{'s' * (rounds > 1)} of 64. The accumulate flag {where}. How does the run end?",
        right,
        {name: words for name, words in wrong.items() if name != right},
        f"The sum holds {sum(kept)} of {rounds} product{'s' * (rounds > 1)}.",
        lambda answer: (
            Row.each("round", range(rounds)),
            Row.each("flag", adds, lambda add: "+" if add else "=", lambda add: "wgmma" if add else "store"),
            Row.told("in the sum", kept, [False], "fault", ("no", "yes")),
            Row.one("ends", answer, here=True),
        ),
    )


# Tiles of D


def cta_rows(rng: Random) -> Question:
    block_m, block_n = rng.choice(((128, 128), (128, 256), (64, 128), (256, 128)))
    x, y = rng.sample(range(1, 7), 2)
    of = rng.choice("AB")
    block, at, other, across = (block_m, y, x, block_n) if of == "A" else (block_n, x, y, block_m)
    wrong = {
        (
            other * block,
            (other + 1) * block,
        ): "x counts columns of D, along N, and y rows, along M. A's rows are D's rows, "
        "B's rows are D's columns.",
        (at, at + block): "An index counts tiles, and a slice counts rows.",
        (other * across, (other + 1) * across): "x and y have changed places.",
        ((at - 1) * block, at * block): "Indices count from 0.",
        ((at + 1) * block, (at + 2) * block): "Indices count from 0.",
    }
    right = at * block, (at + 1) * block

    def span(one: tuple[int, int]) -> str:
        return f"{one[0]} : {one[1]}"

    def draw(answer: tuple[int, int]) -> Picture:
        first = answer[0] // block
        return (
            Row("CTA", (Cell(f"x {x}", here=of == "B"), Cell(f"y {y}", here=of == "A"))),
            *(
                Row.one(f"{of} tile {n}", span(taken), "load" * (taken == answer), n == at)
                for n in range(max(0, min(at, first)), max(at, min(first, at + 3)) + 1)
                for taken in [(n * block, (n + 1) * block)]
            ),
            Row.one("rows", span(answer), "load", True),
        )

    return choice(
        f"Tiles of D are {block_m} x {block_n}; the grid has N / {block_n} CTAs in x and M / {block_m} in y. "
        f"Which rows of {of} does CTA x = {x}, y = {y} need?",
        right,
        wrong,
        f"Rows of {of} belong to "
        f"{'rows of D, which y counts' if of == 'A' else 'columns of D, which x counts'}: {at} x {block} = "
        f"{right[0]}.",
        draw,
        rng,
        span,
    )


def owner(rng: Random) -> Question:
    block_m, block_n = rng.choice(((128, 128), (128, 256), (64, 128)))
    x, y = rng.sample(range(1, 8), 2)
    m, n = y * block_m + rng.randrange(block_m), x * block_n + rng.randrange(block_n)
    right = n // block_n, m // block_m
    wrong = {
        right[::-1]: "x counts columns of tiles, along N, and y rows, along M.",
        (right[0] + 1, right[1] + 1): "Indices count from 0.",
        (n // block_m, m // block_n): f"A tile has {block_m} rows and {block_n} columns.",
        (right[0], right[1] - 1): "That is one tile of rows before it.",
        (right[0] - 1, right[1]): "That is one tile of columns before it.",
    }

    def draw(answer: tuple[int, int]) -> Picture:
        columns, rows = (_around(answer[axis], right[axis]) for axis in (0, 1))
        return (
            Row.each("", columns, lambda column: f"x {column}"),
            *(Row(f"y {row}", tuple(box((column, row), answer) for column in columns)) for row in rows),
        )

    def box(place: tuple[int, int], answer: tuple[int, int]) -> Cell:
        return Cell(f"{place[0]},{place[1]}" * (place == answer), "wgmma" * (place == right), place == answer)

    return choice(
        f"Tiles of D are {block_m} rows by {block_n} columns. Which CTA (x, y) computes D[{m}, {n}]?",
        right,
        wrong,
        f"x = {n} // {block_n} = {right[0]}, y = {m} // {block_m} = {right[1]}.",
        draw,
        rng,
        lambda one: f"({one[0]}, {one[1]})",
    )


def _around(one: int, other: int) -> range:
    """Indices that hold both, and a neighbour."""
    return range(max(0, min(one, other) - 1), max(one, other) + 2)


def waves(rng: Random) -> Question:
    rows, columns = rng.choice((8, 10, 12, 16, 20, 24, 32)), rng.choice((10, 12, 14, 16, 20, 24, 32))
    tiles = rows * columns
    right = ceil(tiles / SMS)
    return number(
        f"D has {rows} x {columns} = {tiles} tiles, one CTA each. {SMS} SMs hold one CTA each. How many "
        "waves?",
        right,
        {tiles // SMS: "The rest needs a wave of its own.", right + 1: "That is one wave too many."},
        f"{tiles} / {SMS} = {tiles / SMS:.2f}, and a part of a wave takes as long as a whole one."
        if tiles % SMS
        else f"{tiles} / {SMS} = {right}, and nothing is left.",
        lambda answer: _waves(tiles, answer),
    )


def _waves(tiles: int, answer: int) -> Picture:
    """Waves and the tiles in each; the one after the answer marks what is left over."""
    shown = range(max(0, ceil(tiles / SMS) - 5), max(ceil(tiles / SMS), min(answer, 12)))
    counts = {wave: max(0, min(SMS, tiles - wave * SMS)) for wave in shown}
    return (
        Row.each("wave", shown, lambda wave: wave + 1, here=lambda wave: wave + 1 == answer),
        Row.each(
            "tiles",
            counts,
            counts.get,
            lambda wave: ("wgmma" if wave < answer else "fault") if counts[wave] else "",
        ),
    )


def last_wave(rng: Random) -> Question:
    rows, columns = rng.choice((12, 16, 20, 24, 32)), rng.choice((12, 14, 16, 18, 20, 28))
    tiles = rows * columns
    busy = (tiles - 1) % SMS + 1
    right = SMS - busy
    return number(
        f"D has {tiles} tiles, and {SMS} SMs hold one CTA each. How many SMs have nothing to do in the "
        "last wave?",
        right,
        {
            busy: "That many are busy.",
            tiles // SMS: "That is the number of full waves.",
            SMS: "An SM with a tile is not idle.",
        },
        f"What full waves leave are {busy} tiles, and {SMS} - {busy} = {right}.",
        lambda answer: (
            Row.one("full waves", ceil(tiles / SMS) - 1, "wgmma"),
            Row.one("last: busy", SMS - answer, "wgmma"),
            Row.one("last: idle", answer, "wait", True),
        ),
    )


def intensity(rng: Random) -> Question:
    edges = (64, 1), (128, 1), (64, 3), (256, 1), (192, 1), (96, 1), (128, 3), (32, 3), (64, 5), (256, 3)
    block_m, times = rng.choice(edges)
    block_n = times * block_m
    right = block_m * block_n // (block_m + block_n)
    return number(
        f"A {block_m} x {block_n} tile loads ({block_m} + {block_n}) x 64 fp16 and does 2 x {block_m} x "
        f"{block_n} x 64 operations per K tile. How many operations per byte?",
        right,
        {
            2 * right: "That is for each element, and an fp16 has two bytes.",
            right // 2: "That leaves out the factor 2: a multiplication and an addition.",
            block_m: "Both edges are loaded.",
            64 * right: "K is in both numbers, and falls out.",
        },
        f"64 and 2 fall out: {block_m} x {block_n} / ({block_m} + {block_n}) = {right}.",
        lambda answer: (
            Row.one("operations", f"{128 * block_m * block_n:,}", "wgmma"),
            Row.one("bytes", f"{128 * (block_m + block_n):,}", "load"),
            Row.one("for a byte", answer, here=True),
        ),
        99_999,
    )


# A persistent kernel


def _row(m: int, tiles_n: int) -> list[tuple[int, int]]:
    """The places of a row of D's tiles."""
    return [(m, n) for n in range(tiles_n)]


def grid(tiles_m: int, tiles_n: int, panel: int, marked: tuple[int, int]) -> Picture:
    """D's tiles with their numbers; one of them is marked."""
    numbers = {order(tile, tiles_m, tiles_n, panel): tile for tile in range(tiles_m * tiles_n)}
    return (
        Row.each("", range(tiles_n), lambda n: f"n {n}"),
        *(
            Row.each(f"m {m}", _row(m, tiles_n), numbers.get, lambda at: "wgmma" * (at == marked), [marked])
            for m in range(tiles_m)
        ),
    )


def tile_place(rng: Random) -> Question:
    tiles_m, tiles_n, panel = rng.choice((3, 4, 5)), rng.choice((4, 6, 8)), rng.choice((2, 2, 3, 4))
    tile = rng.randrange(panel + 1, tiles_m * tiles_n - 1)
    right = order(tile, tiles_m, tiles_n, panel)
    wrong = {
        (tile // tiles_n, tile % tiles_n): "That goes through whole rows of D, without panels.",
        (tile % tiles_m, tile // tiles_m): "That goes down columns.",
        right[::-1]: "m is the row, n the column.",
        order(tile - 1, tiles_m, tiles_n, panel): f"That is number {tile - 1}: numbers begin at 0.",
        order(tile + 1, tiles_m, tiles_n, panel): f"That is number {tile + 1}: numbers begin at 0.",
    }
    inside = {place: words for place, words in wrong.items() if place[0] < tiles_m and place[1] < tiles_n}
    return choice(
        f"D has {tiles_m} x {tiles_n} tiles, numbered from 0 in panels {panel} columns wide, row after row "
        f"within each panel. Where does number {tile} lie, (m, n)?",
        right,
        inside,
        f"A panel has {tiles_m} x {panel} tiles: number {tile} is {tile % (tiles_m * panel)} in panel "
        f"{tile // (tiles_m * panel)}.",
        lambda answer: grid(tiles_m, tiles_n, panel, answer),
        rng,
        lambda one: f"({one[0]}, {one[1]})",
    )


def tiles_of_cta(rng: Random) -> Question:
    ctas = rng.choice((SMS, HOME.even_ctas, SMS // 2))
    tiles = rng.randrange(2 * ctas + 5, 6 * ctas)
    cta = rng.randrange(ctas)
    right = len(range(cta, tiles, ctas))
    return number(
        f"{ctas} CTAs share {tiles} tiles. CTA c takes tile c, c + {ctas}, and so on. How many does CTA "
        f"{cta} take?",
        right,
        {
            tiles // ctas: f"There are {tiles % ctas} tiles more, one each for CTAs 0 to {tiles % ctas - 1}.",
            tiles // ctas + 1: f"Only CTAs 0 to {tiles % ctas - 1} have one more."
            if tiles % ctas
            else "Nothing is left over.",
        },
        f"{tiles} = {tiles // ctas} x {ctas} + {tiles % ctas}, and {cta} is "
        f"{'below' if cta < tiles % ctas else 'not below'} {tiles % ctas}.",
        lambda answer: (
            Row.each("turn", range(min(answer, 8)), lambda turn: turn + 1),
            Row.each(
                "tile",
                range(min(answer, 8)),
                lambda turn: cta + turn * ctas,
                lambda turn: "wgmma" if cta + turn * ctas < tiles else "fault",
            ),
            Row.one("last tile", tiles - 1),
        ),
    )


def shared_strips(rng: Random) -> Question:
    tiles_n, panel = 8, rng.choice((1, 2, 4, 8))
    count = panel * rng.choice(
        [rows for rows in (2, 3, 4, 6, 8) if rows * panel <= 24 and (panel < 8 or rows < 4)]
    )
    tiles_m = 8
    taken = [order(tile, tiles_m, tiles_n, panel) for tile in range(count)]
    rows, columns = len({m for m, _ in taken}), len({n for _, n in taken})
    right = rows + columns
    return number(
        f"D has {tiles_m} x {tiles_n} tiles, in panels {panel} wide. {count} CTAs compute tiles 0 to "
        f"{count - 1} together. How many different tiles of A and of B do they load in a round of K, both "
        "added?",
        right,
        {
            2 * count: "That is every load; CTAs in a row share A, and CTAs in a column share B.",
            count: "Count rows and columns, not tiles.",
            rows * columns: "Rows and columns add up here.",
            rows: "That is A alone.",
            columns: "That is B alone.",
        },
        f"They cover {rows} row{'s' * (rows > 1)} and {columns} column{'s' * (columns > 1)} of D.",
        lambda answer: (
            *(
                Row.each(
                    f"m {m}",
                    _row(m, tiles_n),
                    lambda at: taken.index(at) if at in taken else "",
                    lambda at: "wgmma" * (at in taken),
                )
                for m in range(min(tiles_m, rows + 1))
            ),
            Row.one("loads", answer, here=True),
        ),
    )


def pair_row(rng: Random) -> Question:
    ctas, block_m = rng.choice((2, 2, 4)), rng.choice((64, 128, 256))
    pair, rank = rng.randrange(1, 9), rng.randrange(ctas)
    right = (pair * ctas + rank) * block_m
    return number(
        f"Clusters of {ctas} CTAs, one above the other; tiles have {block_m} rows. The scheduler hands out "
        f"row {pair} of clusters. At which row of D does rank {rank}'s tile begin?",
        right,
        {
            (pair + rank)
            * block_m: "The scheduler counts clusters, and each has more rows of tiles than one.",
            (pair * ctas + rank): "That counts tiles, not rows.",
            pair * ctas * block_m: "That is rank 0's.",
            (pair * ctas + rank + 1) * block_m: "Ranks count from 0.",
            (pair + rank * ctas) * block_m: "Pair and rank have changed places.",
        },
        f"({ctas} x {pair} + {rank}) x {block_m} = {right}.",
        lambda answer: tuple(
            Row.one(
                f"rank {one}",
                f"row {((pair * ctas + one) * block_m if one != rank else answer)}",
                "wgmma" * (one == rank),
                one == rank,
            )
            for one in range(ctas)
        ),
        99_999,
    )


def forth_and_back(rng: Random) -> Question:
    k_tiles, turn = rng.randrange(4, 13), rng.randrange(6)
    k = rng.randrange(k_tiles)
    right = k if turn % 2 == 0 else k_tiles - 1 - k
    return number(
        f"K has {k_tiles} tiles, 0 to {k_tiles - 1}. Tiles of D are counted from 0; even ones go through K "
        f"forwards, odd ones backwards. Which K tile does load {k} of tile {turn} fetch?",
        right,
        {
            k: "This one goes backwards.",
            k_tiles - 1 - k: "This one goes forwards.",
            k_tiles - k: "The last K tile is one below their number.",
        },
        f"{turn} is {'even, so it is' if turn % 2 == 0 else f'odd, so it is {k_tiles} - 1 - {k} ='} {right}.",
        lambda answer: (
            Row.each("load", range(k_tiles), here=[k]),
            Row.each(
                "K tile",
                range(k_tiles),
                lambda one: answer if one == k else one if turn % 2 == 0 else k_tiles - 1 - one,
                "load",
                [k],
            ),
        ),
    )


def cluster_rounds(rng: Random) -> Question:
    clusters, side = rng.choice((64, 66, 60, 32)), rng.choice((8, 10, 12, 16, 20, 24, 32))
    tiles = side * side
    right = ceil(tiles / clusters)
    return number(
        f"D has {side} x {side} = {tiles} cluster tiles, and {clusters} clusters of two CTAs share them. How "
        "many rounds?",
        right,
        {
            tiles // clusters: "The rest needs a round of its own.",
            ceil(tiles / (2 * clusters)): "A cluster's two CTAs compute one cluster tile together.",
            right + 1: "That is one round too many.",
        },
        f"{tiles} / {clusters} = {tiles / clusters:.2f}, rounded up.",
        lambda answer: (
            Row.one("rounds", answer, here=True),
            Row.one("have room for", f"{answer * clusters:,}", "fault" * (answer * clusters < tiles)),
            Row.one("tiles", f"{tiles:,}"),
        ),
    )
