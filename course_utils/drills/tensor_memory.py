"""Questions on Blackwell's tensor memory: its lanes and columns, who reads them, what an MMA takes, and what
a commit covers. The numbers come from the emulator's units, which follow the PTX ISA. Nothing of it has run
on a Blackwell by us.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random

import numpy as np

from course_utils.chips import BLACKWELL
from course_utils.drills.barriers import Barrier, counted
from course_utils.drills.question import Picture, Question, Row, choice, number
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units import tcgen05, tmem

ALL_LANES, COLUMNS = BLACKWELL.tensor_memory
FP16, FP32 = 2, 4  # bytes
SLICE_K = tcgen05.SLICE_COLUMNS * FP32 // FP16  # of K that one MMA of 16-bit elements multiplies
SIZES = (32, 64, 128, 256, 512)


def first_lane(warp: int) -> int:
    """The first of the 32 lanes that warp ``warp`` of a CTA reads and writes."""
    return warp % tmem.QUARTERS * LANES


def least_allocation(columns: int) -> int:
    """The least number of columns that one allocation may have and that holds ``columns``."""
    return next(n for n in range(columns, COLUMNS + 1) if tmem.may_be_allocated(n, COLUMNS))


def covered(issued: str, number: int) -> int:
    """How many MMAs are surely over once the ``number``-th commit, from 1, has arrived; ``issued`` has M for
    an MMA and C for a commit, all of one thread.
    """
    before = list(accumulate(one == "M" for one in issued))
    commits = [place for place, one in enumerate(issued) if one == "C"]
    return before[commits[number - 1]]


def quarters(lane: int) -> Picture:
    """The four quarters of the lanes, and an answer's."""
    return (
        Row.each(
            "lanes",
            range(tmem.QUARTERS),
            lambda q: f"{LANES * q} to {LANES * q + LANES - 1}",
            "load",
            [lane // LANES],
        ),
        Row.each("warp", range(tmem.QUARTERS), lambda q: f"{q}, {q + 4}, ...", here=[lane // LANES]),
        Row.one("answer", lane, "fault" * (lane >= ALL_LANES), True),
    )


# Lanes and columns


def lane_of(rng: Random) -> Question:
    M = rng.choice((64, 64, 128))
    row, column = rng.randrange(20, M), rng.randrange(1, 128)
    right = int(tcgen05.lanes_of_rows(M, 1)[row])
    where = "row m is in lane m" if M == 128 else "each quarter of the lanes holds 16 rows, in its first 16"
    wrong = {
        row: "With M = 64 the rows are spread over all four quarters, 16 in each.",
        column: "That is the column.",
        row % 16: "That is the place within a quarter.",
        row // 2: "Rows are not packed: a lane has one row at most.",
        row + 64: "There is no second half here: one CTA multiplies.",
        row % LANES: "That is the place within a quarter of 32 lanes.",
    }
    return number(
        f"An accumulator of M = {M} in tensor memory: {where}. In which lane is element ({row}, {column})?",
        right,
        {lane: words for lane, words in wrong.items() if lane < ALL_LANES},
        f"Lane {right}" + ("." if M == 128 else f": {row} % 16 + {LANES} x ({row} // 16)."),
        quarters,
        ALL_LANES - 1,
    )


def warp_reads(rng: Random) -> Question:
    warps = rng.choice((4, 8, 8, 12))
    warp = rng.randrange(warps)
    right = first_lane(warp)
    return number(
        f"A CTA of {warps} warps. Which is the first of the 32 lanes that warp {warp} may read?",
        right,
        {
            warp: "That is the warp's number; it reads 32 lanes.",
            warp * LANES: f"After four warps the quarters begin again: there are {ALL_LANES} lanes.",
            right + LANES: "Warps count from 0.",
            0: "Only warps 0, 4, 8 and so on begin at lane 0.",
            warp % 4 * 16: "A quarter has 32 lanes.",
        },
        f"Warp {warp} of its warpgroup is number {warp % 4}: {warp % 4} x {LANES} = {right}.",
        quarters,
        511,
    )


def reader_of(rng: Random) -> Question:
    row, column = rng.randrange(LANES, ALL_LANES), rng.randrange(1, 128)
    lanes, columns, _ = tmem.fragment("32x32b", 128)
    quarter, inside = divmod(row, LANES)
    ((register, thread),) = np.argwhere((lanes == inside) & (columns == column)).tolist()
    right = (quarter * LANES + thread, register)
    wrong = {
        (thread, register): f"Warp 0 reads lanes 0 to 31, and lane {row} is in quarter {quarter}.",
        (column, row): "A thread has one lane, and a register for each column.",
        (right[0], register // 2): "Each register has one fp32: nothing is packed.",
        (row // 4 * 4, register): "That is how wgmma spreads rows; here a thread has a whole row.",
    }
    return choice(
        "Four warps read 128 lanes x 128 columns with tcgen05.ld.32x32b.x128. Which thread of 128, and which "
        f"of its registers, has row {row}, column {column}?",
        right,
        wrong,
        f"Lane {row} is the {inside}-th of quarter {quarter}, so thread {right[0]}; a register per column.",
        lambda answer: (
            Row.one("warp", answer[0] // LANES, "load"),
            Row.one("thread", answer[0], here=True),
            Row.one("register", answer[1], here=True),
        ),
        rng,
        lambda one: f"thread {one[0]}, register {one[1]}",
    )


def address_of(rng: Random) -> Question:
    base, warp, column = rng.choice((0, 128, 256)), rng.randrange(1, 4), rng.choice((16, 32, 64, 96))
    lane = first_lane(warp)
    right = lane << 16 | base + column
    wrong = {
        base + column << 16 | lane: "The lane is in the upper 16 bits, the column in the lower.",
        warp << 16 | base + column: "The upper half counts lanes, and not warps.",
        lane << 16 | column: "The allocation does not begin at column 0.",
        lane << 16 | (base + column) * FP32: "An address counts columns, and not bytes.",
        lane << 16 | base: "That is the first column of the allocation.",
    }
    return choice(
        f"An allocation begins at column {base}. What is the address of lane {lane}, column {column} of it?",
        right,
        wrong,
        f"Lane {lane} is 0x{lane:x}, column {base} + {column} is 0x{base + column:x}.",
        lambda answer: (
            Row.one("lane", answer >> 16, "load", True),
            Row.one("column", answer & tmem.COLUMN, "load", True),
        ),
        rng,
        lambda address: f"0x{address:08x}",
    )


def allocation(rng: Random) -> Question:
    parts = rng.choice(((80,), (96,), (20,), (192,), (128, 64), (48,), (256, 32), (160,), (24,), (256, 128)))
    need = sum(parts)
    right = least_allocation(need)
    what = " and ".join(f"128 x {one}" for one in parts)
    many = len(parts) > 1
    return number(
        f"A kernel holds {'accumulators' if many else 'an accumulator'} of {what} in fp32. How many columns "
        "of tensor memory does it allocate, in one allocation?",
        right,
        {
            need: "An allocation has a power of two of columns, and at least 32.",
            max(32, -(-need // 32) * 32): "A multiple of 32 is not enough: it must be a power of two.",
            right * 2: "Half as many are enough.",
            COLUMNS: "That is all there are; no other CTA of the SM gets any.",
            128: "That is the number of lanes, which nobody allocates.",
            need // 2: "A column has one fp32 in each lane: nothing is packed.",
            1 << need.bit_length() - 1: "That is the power of two below, which does not hold them.",
        },
        f"{need} columns are in use, and the next power of two from 32 on is {right}.",
        lambda answer: (
            Row.each("may be", SIZES, look=lambda n: "load" * (n >= need), here=[answer]),
            Row.one("in use", need),
            Row.one("allocated", answer, "fault" * (answer < need), True),
        ),
        9999,
    )


def ctas_with_columns(rng: Random) -> Question:
    count, ctas = rng.choice((64, 128, 128, 256)), rng.randrange(2, 9)
    right = min(ctas, COLUMNS // count)
    return number(
        f"{ctas} CTAs of one SM want {count} columns of tensor memory each, and none frees any. How many get "
        "theirs at once?",
        right,
        {
            ctas: f"An SM has {COLUMNS} columns for all of its CTAs.",
            ALL_LANES // count: "That divides the lanes; an allocation takes columns, in all lanes.",
            COLUMNS // count: "There are not so many CTAs.",
            1: "The SM has room for more than one.",
            ctas - right: "Those are the CTAs that wait.",
        },
        f"{COLUMNS} / {count} = {COLUMNS // count}; alloc blocks in any other CTA until columns are free.",
        lambda answer: (
            Row.told("CTA", range(ctas), range(answer), "load", ("has", "waits")),
            Row.one("columns", f"{answer * count} of {COLUMNS}", "fault" * (answer > right), True),
        ),
        99,
    )


# Multiplications


def mma_count(rng: Random) -> Question:
    M, N, K = rng.choice((64, 128, 128)), rng.choice((64, 128, 256)), rng.choice((32, 64, 128))
    tiles = rng.choice((1, 1, 2))
    rows, right = tiles * M, tiles * K // SLICE_K

    def slices(i: int, answer: int) -> Row:
        """The MMAs of M rows, those that an answer counts in colour."""
        along = range(K // SLICE_K)
        before = i * len(along)
        return Row.each(
            f"rows {M * i}", along, lambda k: f"k {SLICE_K * k}", lambda k: "wgmma" * (before + k < answer)
        )

    return number(
        f"A tile: {rows} rows of A, {N} rows of B, {K} of K, all fp16. One tcgen05.mma takes {M} x {N} x "
        f"{SLICE_K}. How many does one thread issue?",
        right,
        {
            2 * right: "That is with M = 64 of wgmma, or half of the K of one MMA.",
            128 * right: "One thread issues for the whole CTA; the others wait for the commit.",
            K // SLICE_K if tiles > 1 else 1: "That is one slice of K."
            if tiles == 1
            else f"That is {M} rows; A has {rows}.",
            4 * right: "Warps do not share the work: one thread issues it all.",
            N // SLICE_K: "N is whole in one MMA; slices are of K.",
        },
        (f"{rows} / {M} = {tiles}, times " if tiles > 1 else "") + f"{K} / {SLICE_K} = {K // SLICE_K}.",
        lambda answer: (
            *(slices(i, answer) for i in range(tiles)),
            Row.one("MMAs", answer, "fault" * (answer > right), True),
        ),
    )


def legal(M: int, N: int) -> bool:
    """May one CTA multiply M x N in one tcgen05.mma of 16-bit elements, if the columns are there?"""
    step = tcgen05.SHAPES.get((1, M))
    return step is not None and N % step == 0 and step <= N <= tcgen05.LARGEST_N


def legal_shape(rng: Random) -> Question:
    pool = [(M, N) for M in (32, 64, 96, 128, 192, 256) for N in (4, 8, 24, 40, 100, 136, 200, 256, 264, 512)]
    good = [one for one in pool if legal(*one)]
    bad = [one for one in pool if not legal(*one)]
    right, wrong = rng.choice(good), rng.sample(bad, 8)

    def words(M: int, N: int) -> str:
        if (1, M) not in tcgen05.SHAPES:
            return f"M = {M}: one CTA has 64 or 128 rows."
        if N > tcgen05.LARGEST_N:
            return f"N = {N}: at most {tcgen05.LARGEST_N} columns."
        return f"N = {N} is no multiple of {tcgen05.SHAPES[1, M]}, which M = {M} needs."

    return choice(
        "Which M x N can one tcgen05.mma of one CTA multiply, of fp16 operands?",
        right,
        {one: words(*one) for one in wrong},
        f"M = {right[0]}, and N = {right[1]} is a multiple of {tcgen05.SHAPES[1, right[0]]}, at most "
        f"{tcgen05.LARGEST_N}.",
        lambda answer: (
            Row.one("M", answer[0], "wgmma" if (1, answer[0]) in tcgen05.SHAPES else "fault", True),
            Row.one("N", answer[1], "wgmma" if legal(*answer) else "fault", True),
        ),
        rng,
        lambda one: f"{one[0]} x {one[1]}",
    )


# Commits


def commit_covers(rng: Random) -> Question:
    groups = [rng.randrange(1, 5) for _ in range(3)]
    issued = "C".join("M" * count for count in groups)  # two commits
    wanted = rng.choice((1, 2))
    right = covered(issued, wanted)
    total = sum(groups)
    return number(
        f"One thread issues, in order: {' '.join({'M': 'MMA', 'C': 'commit'}[one] for one in issued)}. "
        f"The barrier of commit {wanted} has just completed. How many MMAs are surely over?",
        right,
        {
            total: "MMAs issued after a commit are not covered by it.",
            groups[wanted - 1]: "A commit covers all earlier MMAs of its thread, not only those since the "
            "last commit.",
            right - 1: "The MMA just before the commit is covered too.",
            right + 1: "The MMA after the commit is not covered.",
            wanted: "That counts commits, and not MMAs.",
            0: "An arrival of a commit says that MMAs are over.",
        },
        f"{right} MMAs were issued before commit {wanted}.",
        lambda answer: (
            Row.each(
                "issued",
                range(len(issued)),
                lambda i: {"M": "MMA", "C": "commit"}[issued[i]],
                lambda i: "wait" if issued[i] == "C" else "wgmma" * (issued[: i + 1].count("M") <= answer),
            ),
            Row.one("over", answer, "fault" * (answer > right), True),
        ),
    )


def commit_parity(rng: Random) -> Question:
    turn, name = rng.randrange(3, 40), rng.choice(("done", "the commit's barrier"))
    barrier = Barrier(1, turn)  # the wait of round k blocks until the commit of round k has arrived
    right = next(parity for parity in (0, 1) if not barrier.passes(parity))
    return choice(
        f"One thread commits to {name} after each K tile, and all wait for it in the same round. Rounds "
        f"count from 0. Which parity does round {turn} wait for?",
        right,
        {1 - right: "That is a round off: the wait passes while this K tile is still multiplied."},
        f"Each commit completes one phase, so round {turn} needs phase {turn}: {turn} & 1 = {right}.",
        lambda answer: (
            Row.each("K tile", range(-2, 2), lambda i: turn + i, "wgmma", here=[0]),
            Row.each("parity", range(-2, 2), lambda i: answer + i & 1, "wait", [0]),
        ),
        label=lambda parity: f"parity {parity}",
    )


def commits_of(rng: Random) -> Question:
    k_tiles, stages = rng.randrange(3, 10), rng.choice((2, 2, 3, 4))
    stage = rng.randrange(stages)
    right = len(range(stage, k_tiles, stages))
    return number(
        f"{k_tiles} K tiles go around {stages} stages. After the MMAs of each tile one thread commits to "
        f"empty of that tile's stage. How many phases of empty[{stage}] complete?",
        right,
        {
            k_tiles: "Each commit goes to the stage of its own tile.",
            stages: "That is the number of stages.",
            right * (64 // SLICE_K): "A commit covers all MMAs of a tile: it arrives once.",
            k_tiles // stages: "Stages take turns from 0, so the first ones may have one tile more.",
            right + 1: "No phase completes before the first commit: a new barrier is in phase 0.",
        },
        f"Tiles {', '.join(map(str, range(stage, k_tiles, stages)))} go to stage {stage}."
        if right
        else f"No tile goes to stage {stage}.",
        lambda answer: (
            Row.each("K tile", range(k_tiles), here=lambda k: k % stages == stage),
            Row.each("stage", range(k_tiles), lambda k: k % stages, "wgmma", lambda k: k % stages == stage),
            Row.one("phases", answer, here=True),
        ),
    )


def freed_by(rng: Random) -> Question:
    stages = rng.choice((2, 3, 4))
    tile = rng.randrange(stages, 4 * stages)
    right = tile - stages
    return number(
        f"A ring of {stages} stages. Before the load of K tile {tile} may be issued, the commit of one "
        "earlier tile must have arrived. Which tile's?",
        right,
        {
            tile - 1: "Its MMAs read a different stage.",
            tile: "That tile has not been loaded yet.",
            tile - stages + 1: "That tile is in the next stage, which may still be read.",
            tile - stages - 1: "That one is over too, but its stage is a different one.",
            0: "Tile 0 was overwritten long ago." if right else "",
        }
        | {tile % stages: "That is a stage, and not a tile."},
        f"Tile {tile} goes where tile {right} was: {tile} - {stages}.",
        lambda answer: (
            Row.each("K tile", range(max(0, tile - 6), tile + 1), here=[answer]),
            Row.each("stage", range(max(0, tile - 6), tile + 1), lambda k: k % stages, "load", [answer]),
            Row.one("waits for", answer, here=True),
        ),
    )


# Arrivals

_FOUR_WARPS = 4 * LANES
SIGNALS = {  # what arrives on a barrier in each phase, and how often
    "tcgen05.commit, by one elected thread": 1,
    "one elected thread that has issued two TMA loads": 1,
    "one thread of each of 4 warps that have read an accumulator": 4,
    "all 128 threads that have read an accumulator": _FOUR_WARPS,
    "two commits, one by each of two MMA warps": 2,
}


def arrivals(rng: Random) -> Question:
    what, right = rng.choice(sorted(SIGNALS.items()))
    mmas = rng.choice((4, 8, 16))
    return number(
        f"In each phase of a barrier {mmas} MMAs are issued, and these arrive on it: {what}. For how many "
        "arrivals is it initialised?",
        right,
        {
            mmas: "MMAs do not arrive. A commit does, once for all of them.",
            mmas + right: "MMAs do not arrive. A commit does, once for all of them.",
            LANES: "A commit is one arrival, by the thread that issues it.",
            _FOUR_WARPS: "Threads that only wait do not arrive.",
            0: "A phase needs at least one arrival.",
            1: "More than one of them arrives.",
        },
        f"{right} arrival{'s' * (right > 1)} in each phase, however many MMAs and bytes there are.",
        lambda answer: counted(answer, right),
        1024,
    )
