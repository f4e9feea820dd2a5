"""Questions on the way out of D: chunks, buffers, and what a wait for stores allows."""

from __future__ import annotations

from random import Random

from course_utils.drills.question import Cell, Question, Row, choice, number

HALF = 2  # bytes of an fp16


def read_by_then(rng: Random) -> Question:
    """Which stores have read their buffers when a wait returns."""
    newest, left = rng.randrange(3, 12), rng.choice((0, 1, 1, 2))
    right = newest - left
    return number(
        f"One thread has stored and committed chunks 0 to {newest}, a group each. Its wait_group.read {left} "
        "returns. Up to which chunk have the stores surely read their buffers?",
        right,
        {
            newest: "The newest may still be reading.",
            left: "The number says how many may be unfinished.",
            right - 1: "That is one too careful.",
        },
        f"Only the {'newest' if left == 1 else '2 newest'} may be unfinished: {newest} - {left} = {right}."
        if left
        else f"None may be unfinished, so {newest} has been read too.",
        lambda answer: (
            Row(
                "chunk",
                tuple(Cell(str(one), here=one == answer) for one in range(max(0, newest - 4), newest + 1)),
            ),
            Row(
                "",
                tuple(
                    Cell("read" if one <= answer else "perhaps", "store" * (one > answer))
                    for one in range(max(0, newest - 4), newest + 1)
                ),
            ),
        ),
    )


def wait_before_write(rng: Random) -> Question:
    """Which number belongs into the wait before a buffer is written again."""
    buffers, chunk = rng.choice((1, 2, 2, 3, 4)), rng.randrange(4, 12)
    right = buffers - 1
    return number(
        f"{buffers} buffer{'s' * (buffers > 1)} take chunks of D in turn, one store and one group each. "
        f"Chunk {chunk} is about to be written. The largest n for which wait_group.read n is enough?",
        right,
        {
            buffers: "Then the store that reads this very buffer may be unfinished.",
            right - 1: "That is enough too, and waits for a store that does no harm.",
            chunk % buffers: "That is the buffer's number.",
        },
        f"Chunk {chunk - buffers} read this buffer; the {right} newer one{'s' * (right != 1)} may still read "
        "their own."
        if right
        else f"Chunk {chunk - 1} read the only buffer, and it is the newest.",
        lambda answer: (
            Row(
                "store of chunk",
                tuple(Cell(str(one), here=one == chunk - buffers) for one in range(max(0, chunk - 4), chunk)),
            ),
            Row(
                "buffer",
                tuple(
                    Cell(str(one % buffers), "store", one % buffers == chunk % buffers)
                    for one in range(max(0, chunk - 4), chunk)
                ),
            ),
            Row(
                f"after {answer}",
                tuple(
                    Cell(
                        "read" if one < chunk - answer else "perhaps",
                        "fault" * (one >= chunk - answer and one % buffers == chunk % buffers),
                    )
                    for one in range(max(0, chunk - 4), chunk)
                ),
            ),
        ),
        99,
    )


def chunk_place(rng: Random) -> Question:
    """Where a chunk of D goes."""
    wide, buffers = rng.choice((16, 32, 64)), rng.choice((2, 2, 3))
    chunk, first = rng.randrange(2, 8), rng.choice((0, 128, 256, 512))
    at = first + chunk * wide
    right = chunk % buffers, at
    wrong = {
        (chunk, at): f"There are {buffers} buffers, taken in turn.",
        (
            chunk % buffers,
            first + chunk % buffers * wide,
        ): "That is the buffer's number, and D has a place for each chunk.",
        (chunk % buffers, chunk * wide): "The tile does not begin at column 0.",
        (chunk % buffers, first + chunk): "Chunks count in steps of their width.",
        ((chunk + 1) % buffers, at): "Chunks count from 0.",
        ((chunk + 1) % buffers, at + wide): "Chunks count from 0.",
    }
    return choice(
        f"A tile of D begins at column {first} and leaves in chunks of {wide} columns, through {buffers} "
        f"buffers in turn. Chunk {chunk}, counted from 0: which buffer, and from which column of D on?",
        right,
        wrong,
        f"{chunk} % {buffers} = {right[0]}, and {first} + {chunk} x {wide} = {at}.",
        lambda answer: (
            Row("chunk", tuple(Cell(str(one), here=one == chunk) for one in range(chunk - 2, chunk + 1))),
            Row(
                "buffer",
                tuple(
                    Cell(str(answer[0] if one == chunk else one % buffers), "store", one == chunk)
                    for one in range(chunk - 2, chunk + 1)
                ),
            ),
            Row(
                "column",
                tuple(
                    Cell(str(answer[1] if one == chunk else first + one * wide), here=one == chunk)
                    for one in range(chunk - 2, chunk + 1)
                ),
            ),
        ),
        rng,
        lambda one: f"buffer {one[0]}, column {one[1]}",
    )


def buffer_bytes(rng: Random) -> Question:
    """What the buffers of an epilogue take."""
    rows, wide, buffers = rng.choice((64, 128, 256)), rng.choice((16, 32, 64)), rng.choice((1, 2, 3, 4))
    right = rows * wide * HALF * buffers
    return number(
        f"A tile of {rows} rows of D leaves in fp16, {wide} columns at a time, through {buffers} "
        f"buffer{'s' * (buffers > 1)}. How many bytes of shared memory?",
        right,
        {
            right // HALF: "That counts elements, and not bytes.",
            right * HALF: "That is fp32; the buffer holds fp16.",
            right // buffers: "That is one buffer.",
        },
        f"{rows} x {wide} x {HALF} x {buffers} = {right:,}.",
        lambda answer: (
            Row("buffers", tuple(Cell(f"{rows * wide * HALF:,}", "store") for _ in range(buffers))),
            Row("bytes", (Cell(f"{answer:,}", "fault" * (answer < right), True),)),
        ),
        1 << 24,
    )


def weakest_wait(rng: Random) -> Question:
    """Which wait is needed, and no stronger one."""
    newest = rng.randrange(2, 9)
    wants = {
        f"write the buffer of chunk {newest - 1} again": "wait_group.read 1",
        f"write the buffer of chunk {newest} again": "wait_group.read 0",
        f"read what chunk {newest} stored to D": "wait_group 0",
        f"read what chunk {newest - 1} stored to D": "wait_group 1",
        "end the CTA": "wait_group.read 0",
    }
    want = rng.choice(sorted(wants))
    right = wants[want]
    reads = (
        "With .read it waits until shared memory has been read,"
        if ".read" in right
        else "Without .read it waits until D is written,"
    )
    leaves = f"and {right[-1]} leaves {'the newest group' if right.endswith('1') else 'no group'} out."
    said = {
        "wait_group.read 0": "It waits until every buffer has been read, and says nothing about D.",
        "wait_group.read 1": "The newest store may still read its buffer, and nothing is said about D.",
        "wait_group 0": "It waits until D is written; that is longer than needed.",
        "wait_group 1": "It waits for bytes in D, and leaves the newest store out.",
    }
    return choice(
        f"A thread has stored chunks 0 to {newest}, each a group, through buffers of their own. It wants to "
        f"{want}. Which wait is enough and no longer than needed?",
        right,
        {name: words for name, words in said.items() if name != right},
        " ".join((reads, leaves)),
        lambda answer: (
            Row("chunk", tuple(Cell(str(one), here=str(one) in want) for one in (newest - 1, newest))),
            Row(
                "buffer read",
                tuple(
                    Cell("sure" if one == newest - 1 or answer.endswith("0") else "perhaps", "store")
                    for one in (newest - 1, newest)
                ),
            ),
            Row(
                "D written",
                tuple(
                    Cell(
                        "sure"
                        if ".read" not in answer and (one == newest - 1 or answer.endswith("0"))
                        else "perhaps"
                    )
                    for one in (newest - 1, newest)
                ),
            ),
        ),
        rng,
    )
