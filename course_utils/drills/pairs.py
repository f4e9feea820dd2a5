"""Questions on a pair of CTAs that multiplies as one on Blackwell, and on two MMA warps: who holds what, what
each barrier counts, which columns are in use. The rules are those of the emulator's units, which follow the
PTX ISA. Nothing of it has run on a Blackwell by us.
"""

from __future__ import annotations

from random import Random

from course_utils.chips import BLACKWELL
from course_utils.drills import tensor_memory
from course_utils.drills.barriers import mask
from course_utils.drills.budget import stages_in
from course_utils.drills.question import Question, Row, choice, number
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units import tcgen05, tmem

PAIR = 2
FP16, BLOCK_K = 2, 64  # bytes; columns of K in a stage
ALL_LANES, COLUMNS = BLACKWELL.tensor_memory


def place(row: int, column: int, M: int, N: int) -> tuple[int, int, int]:
    """CTA, lane and column that hold an element of a pair's M x N accumulator; it begins at column 0."""
    rows = M // PAIR
    fold, inside = divmod(column, N // tcgen05.folds(M, PAIR))
    return row // rows, int(tcgen05.lanes_of_rows(M, PAIR)[row % rows]) + fold * (ALL_LANES // 2), inside


def columns_of(M: int, N: int) -> int:
    """The columns that a pair's M x N accumulator takes in each of its CTAs."""
    return tcgen05.Accumulator(0, M, N, PAIR).width


def stage_bytes(M: int, N: int, K: int = BLOCK_K) -> int:
    """Bytes of A and B that one CTA of a pair holds of an M x N x K product."""
    return (M + N) // PAIR * K * FP16


# One MMA for two CTAs


def holder(rng: Random) -> Question:
    M, N = rng.choice((128, 256)), rng.choice((128, 256))
    row, column = rng.randrange(M), rng.randrange(N)
    right = place(row, column, M, N)
    cta, lane, inside = right
    half = ALL_LANES // 2
    where = (
        "each CTA holds 128 rows, one in each lane"
        if M == 256
        else f"each CTA holds 64 rows: columns 0 to {N // 2 - 1} in lanes 0 to 63, the rest above"
    )
    wrong = {
        (1 - cta, lane, inside): "The first half of the rows is CTA 0's.",
        (cta, (lane + half) % ALL_LANES, inside): "That is the other half of the lanes.",
        (cta, lane, (inside + N // 2) % N): "That is N / 2 columns away.",
        (int(column >= N // 2), lane, inside): "B is divided by columns of D, but D by rows.",
    }
    return choice(
        f"A pair multiplies M = {M}, N = {N}; {where}. Where is element ({row}, {column}) of D?",
        right,
        wrong,
        f"CTA {cta} has rows {cta * M // 2} to {(cta + 1) * M // 2 - 1}; row {row} is its row "
        f"{row % (M // 2)}, in lane {lane}, column {inside}.",
        lambda answer: (
            Row.told("CTA", range(PAIR), [answer[0]], "load", ("here", "-")),
            Row.one("lane", answer[1], "load", True),
            Row.one("column", answer[2], "load", True),
        ),
        rng,
        lambda one: f"CTA {one[0]}, lane {one[1]}, column {one[2]}",
    )


def expected(rng: Random) -> Question:
    M, N, K = rng.choice((128, 256)), rng.choice((64, 128, 192, 256)), rng.choice((32, 64))
    own = stage_bytes(M, N, K)
    right = PAIR * own
    return number(
        f"A pair multiplies M = {M}, N = {N}, in K tiles of {K}, fp16. Each CTA loads its half of A and its "
        "half of B; all bytes arrive on full of CTA 0. How many bytes does it expect in a phase?",
        right,
        {
            own: "Those are the bytes of one CTA; both CTAs' loads signal this barrier.",
            2 * right: "Each CTA loads half of B, and not all of it.",
            own + N * K * FP16 // 2: "CTA 1 loads half of A too.",
            own + M * K * FP16 // 2: "CTA 1 loads half of B too.",
            right // FP16: "That counts elements; each has two bytes.",
            (M + 2 * N) * K * FP16: "B lands once, half of it in each CTA.",
        },
        f"({M} + {N}) rows x {K} x {FP16} bytes, of both CTAs together.",
        lambda answer: (
            Row.each("A, rows", range(PAIR), lambda r: f"CTA {r}: {M // PAIR}", "load"),
            Row.each("B, rows", range(PAIR), lambda r: f"CTA {r}: {N // PAIR}", "load"),
            Row.one("full expects", f"{answer:,}", "fault" * (answer > right), True),
        ),
        999_999,
    )


def commit_mask(rng: Random) -> Question:
    ctas = rng.choice((2, 4, 8))
    rank = rng.randrange(ctas)
    first = rank & ~1
    right = mask((first, first + 1))
    wrong = {
        mask((rank,)): "That is one CTA; the stage of the other is free too.",
        mask((rank ^ 1,)): "That is the other CTA alone; the own stage is free too.",
        mask(range(ctas)): "Other pairs have MMAs of their own.",
        mask((first + 1, first + 2)): "A pair begins at an even rank.",
        mask((0, 1)): "Those are ranks 0 and 1.",
        PAIR: "That counts CTAs, and a mask has a bit for each.",
        first + 1: "That is a rank, and a mask has a bit for each.",
        0: "No CTA would be told.",
    }
    shown = range(ctas)[::-1]
    return choice(
        f"A cluster of {ctas} CTAs multiplies in pairs. A commit of the pair of rank {rank} is to arrive in "
        "both CTAs of that pair. Which multicast mask?",
        right,
        {value: words for value, words in wrong.items() if value < 1 << ctas},
        f"The pair is ranks {first} and {first + 1}: bits {first} and {first + 1}.",
        lambda answer: (
            Row.each("rank", shown, here=(first, first + 1)),
            Row.each("bit", shown, lambda r: answer >> r & 1, lambda r: "wait" * (answer >> r & 1)),
        ),
        rng,
        lambda value: f"0b{value:0{ctas}b}",
    )


_ARRIVE = {  # what arrives on which barrier in each phase, and how often
    "full of CTA 0: its own load thread, and bytes of both CTAs": 1,
    "empty of CTA 1: a multicast commit of the one MMA warp": 1,
    "acc_full of CTA 1: a multicast commit of the one MMA warp": 1,
    "empty of CTA 1: multicast commits of two MMA warps": 2,
    "acc_empty of CTA 0: every thread of an epilogue of four warps in each CTA": PAIR * 4 * LANES,
    "acc_empty of CTA 0: one thread of each of four warps, in each CTA": PAIR * 4,
    "acc_empty of CTA 0: one elected thread of the epilogue of each CTA": PAIR,
}


def arrivals(rng: Random) -> Question:
    what, right = rng.choice(sorted(_ARRIVE.items()))
    mmas = rng.choice((4, 8, 16))
    return number(
        f"A pair; each K tile takes {mmas} MMAs. In each phase these arrive on {what}. For how many arrivals "
        "is it initialised?",
        right,
        {
            right // PAIR: "Both CTAs arrive." if right % PAIR == 0 else "A phase needs an arrival.",
            right * PAIR: "That counts each of them twice.",
            mmas: "MMAs do not arrive. A commit does, once for all of them.",
            right + mmas: "MMAs do not arrive. A commit does, once for all of them.",
        },
        f"{right} arrival{'s' * (right > 1)} in each phase; bytes are counted apart.",
        lambda answer: (
            Row.one("init", answer, "fault" * (answer != right), True),
            Row.one("arrive", right, "wait"),
        ),
        1024,
    )


# Two MMA warps


def columns_in_use(rng: Random) -> Question:
    M, N = rng.choice((128, 256)), rng.choice((64, 128, 256))
    count = rng.choice((1, 2, 2, 3))
    while count * columns_of(M, N) > COLUMNS:
        count -= 1
    one = columns_of(M, N)
    right = count * one
    folded = "the second half of N in lanes 64 to 127" if M == 128 else "128 rows in 128 lanes"
    many = f"{count} accumulators of" if count > 1 else "one accumulator of"
    return number(
        f"A pair holds {many} M = {M}, N = {N} in fp32; in each CTA: {folded}. How many columns of tensor "
        "memory are in use in each CTA?",
        right,
        {
            count * N: "With M = 128 half of the columns lie in the other lanes.",
            2 * right: "Nothing is held twice.",
            right // 2: "N is whole in each CTA: D is divided by rows.",
            one: "That is one accumulator.",
            COLUMNS: "That is all there are.",
        },
        f"{count} x {N}" + (" / 2" if M == 128 else "") + f" = {right}.",
        lambda answer: (
            Row.each("accumulator", range(count), lambda i: f"{i * one} to {i * one + one - 1}", "wgmma"),
            Row.one("columns", f"{answer} of {COLUMNS}", "fault" * (answer > COLUMNS), True),
        ),
    )


def row_of_warp(rng: Random) -> Question:
    rank, warp = rng.randrange(PAIR), rng.randrange(2 * tmem.QUARTERS)
    consumer, quarter = divmod(warp, tmem.QUARTERS)
    lane = tensor_memory.first_lane(warp)
    right = (consumer * PAIR + rank) * ALL_LANES + lane
    return number(
        "A pair's tile of D: 256 rows of MMA warp 0, then 256 of MMA warp 1. CTA 0 has the first 128 of each."
        f" Warps 0 to 3 read the sums of MMA warp 0, warps 4 to 7 those of 1. Which is the first row that "
        f"warp {warp} of CTA {rank} reads?",
        right,
        {
            (rank * PAIR + consumer) * ALL_LANES + lane: "That is as if CTA 0 had the first 256 rows.",
            lane: "That is the lane.",
            rank * ALL_LANES + warp * LANES: "After four warps the lanes begin again, of other columns.",
            (consumer * PAIR + rank) * ALL_LANES: "That is the first row of its warpgroup.",
            consumer * PAIR * ALL_LANES + lane: "CTA 1 has the second 128 rows of each MMA.",
            warp * LANES: "Its lanes are those of the warp's number modulo 4.",
        },
        f"MMA warp {consumer}, CTA {rank}: from row {(consumer * PAIR + rank) * ALL_LANES} on; quarter "
        f"{quarter} begins {lane} further.",
        lambda answer: (
            Row.each("rows", range(4), lambda i: f"{i * ALL_LANES}", "load", [answer // ALL_LANES]),
            Row.each("MMA warp", range(4), lambda i: i // PAIR, "wgmma"),
            Row.each("CTA", range(4), lambda i: i % PAIR),
            Row.one("row", answer, "fault" * (answer >= 4 * ALL_LANES), True),
        ),
        2047,
    )


def furthest_load(rng: Random) -> Question:
    stages = rng.choice((3, 4, 4, 6))
    done = [rng.randrange(2, 9) for _ in range(2)]
    right = min(done) + stages
    return number(
        f"Two MMA warps read each stage of a ring of {stages}; empty counts both commits. Those of warp 0 "
        f"have arrived for its first {done[0]} K tiles, those of warp 1 for its first {done[1]}. How many K "
        "tiles may have been loaded by now?",
        right,
        {
            max(done) + stages: "A stage is free once both warps have left it.",
            sum(done) + stages: "Both warps read the same K tiles.",
            min(done): "The ring holds more tiles than those that are done.",
            stages: "Stages have come free since.",
            right + 1: "The last of them has no free stage.",
            right - 1: "One stage more is free.",
        },
        f"Both are done with {min(done)} K tiles, and {stages} stages hold the next ones.",
        lambda answer: (
            Row.each("warp 0", range(done[0]), look="wgmma"),
            Row.each("warp 1", range(done[1]), look="wgmma"),
            Row.one("loaded", answer, "fault" * (answer > right), True),
        ),
        99,
    )


def stages_of_pair(rng: Random) -> Question:
    consumers, N = rng.choice((1, 2, 2)), rng.choice((128, 256))
    out = rng.choice((16, 32))
    stage = stage_bytes(consumers * 256, N) >> 10
    room = BLACKWELL.shared >> 10
    right = (room - out) // stage
    whole = stage + (N // PAIR * BLOCK_K * FP16 >> 10)
    tiles = f"{consumers} tiles of A, each 256 x 64," if consumers > 1 else "a tile of A, 256 x 64,"
    return number(
        f"A stage of a pair: {tiles} and one of B, {N} x 64, in fp16; each CTA holds half of every tile. "
        f"Buffers for D take {out} KiB of a CTA's {room} KiB. How many stages fit?",
        right,
        {
            room // stage: "D's buffers need room too.",
            (room - out) // whole: "A CTA holds half of B's tile, not all of it.",
            (room - out) // (2 * stage): "Each CTA holds half of every tile.",
            right + 1: "The last one does not fit.",
            right - 1: "One more fits.",
        },
        f"A CTA's share of a stage is {stage} KiB: ({room} - {out}) / {stage} = {(room - out) / stage:.2f}.",
        lambda answer: stages_in(room, answer, stage, out),
        99,
    )
