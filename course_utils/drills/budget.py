"""Questions on what a CTA has: registers, shared memory, threads."""

from __future__ import annotations

from random import Random

from course_utils.chips import HOME
from course_utils.drills.question import Picture, Question, Row, choice, number

WARPGROUP, HALF = 128, 2  # threads, and bytes of an fp16


def accumulator_registers(rng: Random) -> Question:
    small = (64, 64), (64, 128), (64, 256), (128, 64), (128, 128)
    large = (128, 192), (128, 256), (256, 128)  # of two warpgroups
    block_m, block_n = tile = rng.choice((*small, *large, (192, 128)))
    groups = 1 + (tile in large)
    threads = groups * WARPGROUP
    right = block_m * block_n // threads
    return number(
        f"A {block_m} x {block_n} tile of fp32 accumulators, held by {groups} warpgroup{'s' * (groups > 1)}. "
        "How many registers per thread is that?",
        right,
        {
            right // 2: "That is two sums in a register: fp16, and these are fp32.",
            right * groups: "That is one warpgroup for all of the tile.",
            block_m * block_n // 32: "That is one warp; a warpgroup has four.",
            block_n: "Rows are spread over threads too.",
        },
        f"{block_m} x {block_n} sums of one register each, over {threads} threads: {right}.",
        lambda answer: (
            Row.one("sums", f"{block_m * block_n:,}", "wgmma"),
            Row.one("threads", threads),
            Row.one("each", answer, "fault" * (answer > 255), True),
            Row.one("of at most", "255"),
        ),
        9999,
    )


def register_budget(rng: Random) -> Question:
    consumers = rng.choice((1, 2, 2, 2, 3))
    each = rng.choice({1: (112, 120, 128), 2: (160, 168, 168), 3: (112, 120, 128)}[consumers])
    pool = WARPGROUP * (1 + consumers) * each
    low = rng.choice((24, 32, 40))
    most = (pool // WARPGROUP - low) // consumers // 8 * 8

    def total(one: tuple[int, int]) -> int:
        return WARPGROUP * (one[0] + consumers * one[1])

    right = low, most
    wrong = {
        one: f"That is {total(one):,}, and the pool has {pool:,}: somebody waits for registers that nobody "
        "releases."
        for one in (
            (low, most + 8),
            (low + 16, most + 8),
            (low + 8 * (consumers + 1), most),
            (low + 8, most + 16),
        )
        if total(one) > pool and one[1] <= 256
    }
    return choice(
        f"A producer and {consumers} consumer warpgroup{'s' * (consumers > 1)} of 128 threads start with "
        f"{each} registers per thread, {pool:,} in all. setmaxnreg sets (producer, consumer) registers per "
        "thread. Which pair takes no more than there are?",
        right,
        wrong,
        f"128 x {low} + {128 * consumers} x {most} = {total(right):,}, of {pool:,}.",
        lambda answer: (
            Row.one("producer", f"{WARPGROUP * answer[0]:,}", "load"),
            *(Row.one(f"consumer {i + 1}", f"{WARPGROUP * answer[1]:,}", "wgmma") for i in range(consumers)),
            Row.one("together", f"{total(answer):,}", "fault" * (total(answer) > pool), True),
            Row.one("pool", f"{pool:,}"),
        ),
        rng,
        lambda one: f"({one[0]}, {one[1]})",
    )


def stages_that_fit(rng: Random) -> Question:
    block_m, block_n = rng.choice(((128, 128), (128, 256), (256, 128), (128, 192), (64, 256)))
    out = rng.choice((16, 32, 64))
    stage = (block_m + block_n) * 64 * HALF >> 10
    room = HOME.shared >> 10
    right = (room - out) // stage
    return number(
        f"A stage holds tiles of A, {block_m} x 64, and B, {block_n} x 64, in fp16: {stage} KiB. Buffers for "
        f"D take {out} KiB, and a CTA has {room} KiB. How many stages fit?",
        right,
        {
            room // stage: "D's buffers need room too.",
            right + 1: "The last one does not fit.",
            right - 1: "One more fits.",
        },
        f"({room} - {out}) / {stage} = {(room - out) / stage:.2f}.",
        lambda answer: stages_in(room, answer, stage, out),
        99,
    )


def stages_in(room: int, stages: int, stage: int, out: int) -> Picture:
    """``stages`` of so many KiB and D's buffers, held against the ``room`` of a CTA."""
    total = stages * stage + out
    return (
        Row.each(
            "stages",
            range(min(stages, 12)),
            lambda _: stage,
            lambda i: "load" if (i + 1) * stage + out <= room else "fault",
        ),
        Row.one("D", out, "store"),
        Row.one("KiB in all", total, "fault" * (total > room), True),
        Row.one("of", room),
    )


def role_of_thread(rng: Random) -> Question:
    thread = rng.choice((5, 40, 100, 127, 128, 150, 200, 255, 256, 300, 383))
    group = thread // WARPGROUP
    names = (
        "the producer's warp",
        "nothing: it ends",
        "consumer 1, rows 0 : 64",
        "consumer 2, rows 64 : 128",
    )
    right = names[0 if thread < 32 else group + 1]
    wrong = {
        names[0]: "The producer is warp 0, threads 0 to 31.",
        names[1]: "Only warps 1 to 3 have nothing to do.",
        names[2]: "Consumer 1 is warpgroup 1, threads 128 to 255.",
        names[3]: "Consumer 2 is warpgroup 2, threads 256 to 383.",
    }
    return choice(
        "384 threads: warpgroup 0 is the producer's, and only its warp 0 works; 1 and 2 are consumers with "
        f"64 rows each of a 128 x 256 tile. What does thread {thread} work at?",
        right,
        {name: words for name, words in wrong.items() if name != right},
        f"{thread} // 128 = {group}"
        + (f", and {thread} // 32 = {thread // 32} is its warp." if not group else "."),
        lambda answer: (
            Row.each("warpgroup", range(3), here=[group]),
            Row.each(
                "threads",
                range(3),
                lambda one: f"{one * 128} to {one * 128 + 127}",
                lambda one: ("load", "wgmma", "wgmma")[one],
                [group],
            ),
            Row.one("so", answer, here=True),
        ),
        rng,
    )
