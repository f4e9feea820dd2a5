"""Questions on threads, warps and warpgroups, and on the time that a kernel takes at the least."""

from __future__ import annotations

from random import Random

from course_utils.drills.question import Question, Row, choice, number

WARP, WARPGROUP = 32, 128  # threads
MOVES = 5  # MB in a microsecond, 5 TB/s; the same chip computes 1 GFLOP in it


def place_of_thread(rng: Random) -> Question:
    groups = rng.choice((2, 3, 4))
    thread = rng.randrange(WARPGROUP + 1, groups * WARPGROUP)
    right = thread // WARP, thread // WARPGROUP
    wrong = {
        (right[0] % 4, right[1]): "Warps count on through the CTA, not from 0 in each warpgroup.",
        (right[0] + 1, right[1] + 1): "Both count from 0.",
        (right[0], right[0] // 2): "A warpgroup has four warps.",
        (thread // 64, thread // 256): "A warp has 32 threads, and a warpgroup 128.",
        (right[0], right[1] - 1): "That is the warpgroup before it.",
    }
    return choice(
        f"A CTA has {groups * WARPGROUP} threads. In which warp and which warpgroup is thread {thread}? All "
        "count from 0.",
        right,
        wrong,
        f"{thread} // 32 = {right[0]}, and {thread} // 128 = {right[1]}.",
        lambda answer: (
            Row.each("warpgroup", range(groups), look=lambda one: "wgmma" * (one == right[1])),
            Row.each(
                "warps",
                range(groups),
                lambda one: f"{4 * one}-{4 * one + 3}",
                here=lambda one: 4 * one <= answer[0] < 4 * one + 4,
            ),
            Row.one("so", f"warp {answer[0]}, warpgroup {answer[1]}", here=True),
        ),
        rng,
        lambda one: f"warp {one[0]}, warpgroup {one[1]}",
    )


def warps_that_come(rng: Random) -> Question:
    threads = rng.choice((128, 256, 384))
    bound = rng.randrange(8, threads - 8)
    below = rng.random() < 0.5
    first, last = (0, bound - 1) if below else (bound, threads - 1)
    warps, come = range(threads // WARP), range(first // WARP, last // WARP + 1)
    right = len(come)
    whole = (last + 1) // WARP - -(-first // WARP)
    return number(
        f"A CTA has {threads} threads. How many of its warps have at least one thread in the branch "
        f"“if thread {'<' if below else '>='} {bound}”?",
        right,
        {
            last - first + 1: "Those are threads.",
            whole: "A warp of which some threads come counts too.",
            right + 1: "That is one warp more than come.",
            threads // WARP: "Those are all warps of the CTA.",
        },
        f"Threads {first} to {last}: warps {first // WARP} to {last // WARP}.",
        lambda answer: (
            Row.each("warp", warps),
            Row.told("comes", warps, come, "wgmma"),
            Row.one("warps", answer, here=True),
        ),
        999,
    )


def at_least(rng: Random) -> Question:
    computes, moves = rng.randrange(20, 400, 10), MOVES * rng.randrange(10, 100)
    while computes == moves // MOVES:
        moves += MOVES
    times = computes, moves // MOVES
    right = max(times)
    slower = "computing" if times[0] == right else "moving bytes"
    return number(
        f"A product takes {computes} GFLOP and moves {moves} MB. The chip computes 1,000 TFLOP/s and moves "
        "5 TB/s. Both overlap perfectly. How many microseconds does it take at the least?",
        right,
        {
            sum(times): "That is one after the other, and they overlap.",
            min(times): "The other of the two takes longer, and the kernel ends with it.",
            computes * 1000: "1,000 TFLOP/s are 1 GFLOP in a microsecond.",
            moves: "5 TB/s are 5 MB in a microsecond.",
        },
        f"Computing takes {times[0]} and moving bytes {times[1]}: {slower} is the limit.",
        lambda answer: (
            Row.one("computing", times[0], "wgmma"),
            Row.one("moving bytes", times[1], "load"),
            Row.one("at the least", answer, "fault" * (answer < right), True),
        ),
        999_999,
    )
