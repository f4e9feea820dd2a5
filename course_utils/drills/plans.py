"""Questions on step 11: waves of a plan, the quickest of some tiles, and D's edge."""

from __future__ import annotations

from random import Random

from course_utils.artifact import ELEMENT_BYTES, TensorMap
from course_utils.chips import HOME
from course_utils.drills.question import Cell, Question, Row, choice, number
from course_utils.library import cost, read
from course_utils.plans import BLOCK_K
from course_utils.tma.rules import violations

HALF = 2  # bytes of an fp16
RAGGED = (8, 16, 24, 40, 56, 72, 104)  # what a size is above a multiple of 128


def ceil_div(size: int, by: int) -> int:
    """How many pieces of at most ``by``."""
    return -(-size // by)


def plan_waves(M: int, N: int, tile: tuple[int, int], cluster: int, ctas: int) -> int:
    """Rounds of tiles that the busiest cluster has; its CTAs lie one below another."""
    tiles = ceil_div(M, tile[0] * cluster) * ceil_div(N, tile[1])
    return ceil_div(tiles, ctas // cluster)


def waves(rng: Random) -> Question:
    tile, cluster = rng.choice(((128, 256), (128, 192), (256, 192))), rng.choice((1, 2))
    M, N = (128 * rng.randrange(16, 48) + rng.choice(RAGGED) for _ in range(2))
    ctas = rng.choice(HOME.persistent_grids)
    right, at_once = plan_waves(M, N, tile, cluster, ctas), ctas // cluster
    down, across = ceil_div(M, tile[0] * cluster), ceil_div(N, tile[1])
    inside = M // (tile[0] * cluster) * (N // tile[1])
    what = "clusters of two, one CTA below the other," if cluster == 2 else "CTAs"
    return number(
        f"D is {M} x {N}. Tiles are {tile[0]} x {tile[1]}; {at_once} {what} share them. How many waves?",
        right,
        {
            inside // at_once: "The part past the edge is work too, and a part of a wave is one.",
            ceil_div(inside, at_once): "Tiles that extend past the edge are tiles too.",
            down * across // at_once: "The rest needs a wave of its own.",
            ceil_div(down * across * cluster, at_once): "A cluster takes two tiles at a time.",
        },
        f"{down} x {across} = {down * across} {'pairs of tiles' if cluster == 2 else 'tiles'} / {at_once}, "
        "rounded up.",
        lambda answer: (
            Row("down", (Cell(f"{M} / {tile[0] * cluster}"), Cell(str(down), "wgmma"))),
            Row("across", (Cell(f"{N} / {tile[1]}"), Cell(str(across), "wgmma"))),
            Row.one("to do", f"{down * across:,}"),
            Row.one("waves", answer, here=True),
            Row.one("room for", f"{answer * at_once:,}", "fault" * (answer * at_once < down * across)),
        ),
    )


TILES = ((128, 256), (128, 224), (128, 192), (128, 160))


def quickest(rng: Random) -> Question:
    while True:
        M, N = 256 * rng.randrange(8, 33), 256 * rng.randrange(5, 33)
        shown = rng.sample(TILES, 3)
        cost = {tile: plan_waves(M, N, tile, 2, 128) * tile[0] * tile[1] for tile in shown}
        right = min(cost, key=cost.__getitem__)
        rest = sorted(cost.values())
        if rest[1] > 1.05 * rest[0]:
            break
    count = {tile: plan_waves(M, N, tile, 2, 128) for tile in shown}
    return choice(
        f"D is {M} x {N}; 64 clusters of two CTAs, one below the other. A wave takes as long as its tile is "
        "large. Which tile is done first?",
        right,
        {
            tile: f"{count[tile]} waves of {tile[0] * tile[1]:,} are {cost[tile]:,}."
            for tile in shown
            if tile != right
        },
        f"{count[right]} waves of {right[0] * right[1]:,} elements are {cost[right]:,}, the least.",
        lambda answer: tuple(
            Row(
                _by(tile),
                (
                    Cell(f"{count[tile]} waves", "wgmma", tile == answer),
                    Cell(f"{cost[tile]:,}", "" if cost[tile] == cost[right] else "wait"),
                ),
            )
            for tile in shown
        ),
        rng,
        _by,
    )


def _by(tile: tuple[int, int]) -> str:
    return f"{tile[0]} x {tile[1]}"


def expected_at_the_edge(rng: Random) -> Question:
    rows = rng.choice((64, 128, 192, 256))
    there, left = rng.randrange(8, rows, 8), 8 * rng.randrange(1, 8)
    right = rows * BLOCK_K * HALF
    return number(
        f"A box of {rows} rows x {BLOCK_K} halves extends past the edge of A: {there} of its rows and {left} "
        "of its columns are there. How many bytes does the load count on its mbarrier?",
        right,
        {
            there * left * HALF: "That is what it reads; what it fills with zeros lands too.",
            there * BLOCK_K * HALF: "Columns beyond the edge land as zeros too, and so do rows.",
            rows * left * HALF: "Columns beyond the edge land as zeros too.",
            rows * BLOCK_K: "That counts elements, and each has two bytes.",
        },
        f"The whole box lands, zeros included: {rows} x {BLOCK_K} x {HALF} = {right:,}.",
        lambda answer: (
            Row.one("of A", f"{there} x {left}", "load"),
            Row.one("zeros", f"{rows * BLOCK_K - there * left:,} halves"),
            Row.one("lands", f"{right:,} bytes", "load"),
            Row.one("expected", f"{answer:,}", "" if answer == right else "fault", True),
        ),
        1 << 20,
    )


def written_at_the_edge(rng: Random) -> Question:
    tile = rng.choice(((128, 256), (128, 192), (256, 192)))
    M = tile[0] * rng.randrange(4, 20) + 8 * rng.randrange(1, tile[0] // 8)
    N = tile[1] * rng.randrange(4, 20) + 8 * rng.randrange(1, tile[1] // 8)
    rows, columns = M % tile[0], N % tile[1]
    right = rows * columns
    return number(
        f"D is {M} x {N}, and tiles are {tile[0]} x {tile[1]}. The last tile, in the corner, extends past "
        "both edges. How many elements of D does TMA write for it?",
        right,
        {
            tile[0] * tile[1]: "What lies beyond the edge is dropped.",
            rows * tile[1]: "Columns beyond the edge are dropped too.",
            tile[0] * columns: "Rows beyond the edge are dropped too.",
            (tile[0] - rows) * (tile[1] - columns): "That is the part past both edges.",
        },
        f"{M} leaves {rows} rows, {N} leaves {columns} columns: {right:,}.",
        lambda answer: (
            Row.one("rows", f"{rows} of {tile[0]}", "store"),
            Row.one("columns", f"{columns} of {tile[1]}", "store"),
            Row.one("written", f"{answer:,}", "" if answer == right else "fault", True),
        ),
        1 << 20,
    )


TYPES = {"fp16": 6, "fp32": 7, "8-bit": 0}  # the driver's codes


def next_legal(rng: Random) -> Question:
    name = rng.choice(("fp16", "fp16", "fp32", "8-bit"))
    code, size = TYPES[name], ELEMENT_BYTES[TYPES[name]]
    columns = rng.randrange(1000, 9000)
    right = next(one for one in range(columns, columns + 16) if legal(code, one))
    step = 16 // size
    return number(
        f"Rows of {columns} {name} elements lie one behind the other. Which is the next length, from "
        f"{columns} on, whose rows TMA can address?",
        right,
        {
            columns: f"{columns} x {size} = {columns * size} bytes, and {columns * size % 16} is left over.",
            ceil_div(columns, 16) * 16: f"16 bytes are {step} elements.",
            ceil_div(columns, BLOCK_K)
            * BLOCK_K: "The tile's width does not matter: a load may pass the edge.",
            columns // step * step: "That is shorter.",
        },
        f"Rows begin at multiples of 16 bytes: the next multiple of {step} elements.",
        lambda answer: (
            Row.one("elements", answer, here=True),
            Row.one("bytes", f"{answer * size:,}", "load"),
            Row.one("over 16", f"{answer * size % 16} left", "fault" * (answer * size % 16 > 0)),
        ),
        99_999,
    )


def legal(data_type: int, columns: int) -> bool:
    """Does TMA take a matrix whose rows of ``columns`` elements touch?"""
    pitch = columns * ELEMENT_BYTES[data_type]
    box = 16 // ELEMENT_BYTES[data_type], 64
    return not violations(TensorMap(data_type, (columns, 4096), (pitch,), box, (1, 1)))


LIBRARY_TILES = ("176x192", "256x128", "192x192", "320x128", "256x152", "232x128")


def library_waves(rng: Random) -> Question:
    tile, cluster = rng.choice(LIBRARY_TILES), rng.choice(("1x2", "2x1"))
    name = f"nvjet_sm90_hsh_{tile}_64x4_{cluster}_h_bz_coopA_TNT"
    plan = read(name)
    assert plan is not None
    M, N = (128 * rng.randrange(16, 48) + rng.choice(RAGGED) for _ in range(2))
    right, at_once = cost(M, N, plan).waves, HOME.sms // 2
    high, wide = plan.block_M * plan.cluster_M, plan.block_N * plan.cluster_N
    down, across = ceil_div(M, high), ceil_div(N, wide)
    swapped = plan._replace(
        block_M=plan.block_N, block_N=plan.block_M, cluster_M=plan.cluster_N, cluster_N=plan.cluster_M
    )
    return number(
        f"cuBLAS multiplies a D of {M} x {N} by `{name}`, on {HOME.sms} SMs. How many waves?",
        right,
        {
            cost(M, N, swapped).waves: "cuBLAS counts columns first: the first number is columns of D.",
            ceil_div(down * across, HOME.sms): "A cluster of two takes two SMs.",
            down * across // at_once: "The rest needs a wave of its own.",
            ceil_div(ceil_div(M, plan.block_M) * ceil_div(N, plan.block_N), at_once): "A cluster takes two "
            "tiles at once.",
        },
        f"A cluster has {high} rows and {wide} columns: {down} x {across} = {down * across} / {at_once}, "
        "rounded up.",
        lambda answer: (
            Row("down", (Cell(f"{M} / {high}"), Cell(str(down), "wgmma"))),
            Row("across", (Cell(f"{N} / {wide}"), Cell(str(across), "wgmma"))),
            Row.one("clusters", f"{down * across:,}"),
            Row.one("waves", answer, here=True),
            Row.one("room for", f"{answer * at_once:,}", "fault" * (answer * at_once < down * across)),
        ),
    )
