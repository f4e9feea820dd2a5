"""Questions on the way out of D: chunks, buffers, and what a wait for stores allows."""

from __future__ import annotations

from random import Random

from course_utils.drills.question import Question, Row, choice, number

HALF = 2  # bytes of an fp16


def read_by_then(rng: Random) -> Question:
    newest, left = rng.randrange(3, 12), rng.choice((0, 1, 1, 2))
    right = newest - left
    shown = range(max(0, newest - 4), newest + 1)
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
            Row.each("chunk", shown, here=[answer]),
            Row.told("", shown, range(answer + 1, newest + 1), "store", ("perhaps", "read")),
        ),
    )


def wait_before_write(rng: Random) -> Question:
    buffers, chunk = rng.choice((1, 2, 2, 3, 4)), rng.randrange(4, 12)
    right = buffers - 1
    shown = range(max(0, chunk - 4), chunk)
    same = [one for one in shown if one % buffers == chunk % buffers]
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
            Row.each("store of chunk", shown, here=[chunk - buffers]),
            Row.each("buffer", shown, lambda one: one % buffers, "store", same),
            Row.each(
                f"after {answer}",
                shown,
                lambda one: "read" if one < chunk - answer else "perhaps",
                lambda one: "fault" * (one >= chunk - answer and one in same),
            ),
        ),
        99,
    )


def chunk_place(rng: Random) -> Question:
    wide, buffers = rng.choice((16, 32, 64)), rng.choice((2, 2, 3))
    chunk, first = rng.randrange(2, 8), rng.choice((0, 128, 256, 512))
    at = first + chunk * wide
    right = chunk % buffers, at
    shown = range(chunk - 2, chunk + 1)
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
            Row.each("chunk", shown, here=[chunk]),
            Row.each("buffer", shown, lambda n: answer[0] if n == chunk else n % buffers, "store", [chunk]),
            Row.each("column", shown, lambda n: answer[1] if n == chunk else first + n * wide, here=[chunk]),
        ),
        rng,
        lambda one: f"buffer {one[0]}, column {one[1]}",
    )


def buffer_bytes(rng: Random) -> Question:
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
            Row.each("buffers", range(buffers), lambda _: f"{rows * wide * HALF:,}", "store"),
            Row.one("bytes", f"{answer:,}", "fault" * (answer < right), True),
        ),
        1 << 24,
    )


SURE = {True: "sure", False: "perhaps"}


def weakest_wait(rng: Random) -> Question:
    newest = rng.randrange(2, 9)
    stored = newest - 1, newest
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

    def over(wait: str) -> tuple[int, ...]:
        return stored if wait.endswith("0") else stored[:1]

    return choice(
        f"A thread has stored chunks 0 to {newest}, each a group, through buffers of their own. It wants to "
        f"{want}. Which wait is enough and no longer than needed?",
        right,
        {name: words for name, words in said.items() if name != right},
        " ".join((reads, leaves)),
        lambda answer: (
            Row.each("chunk", stored, here=lambda one: str(one) in want),
            Row.each("buffer read", stored, lambda one: SURE[one in over(answer)], "store"),
            Row.each("D written", stored, lambda one: SURE[one in over(answer) and ".read" not in answer]),
        ),
        rng,
    )
