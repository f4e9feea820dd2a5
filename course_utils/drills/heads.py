"""Questions on scores of heads: strides, shared heads of K, boxes of a row, edges, and what a swap proves."""

from __future__ import annotations

from random import Random

from course_utils.drills.question import Cell, Picture, Question, Row, choice, number

HALF = 2  # bytes of an fp16
STRIDE = 16  # bytes, of which the strides of a tensor map are multiples (cuTensorMapEncodeTiled)
ROWS = 64  # rows of K in a tile
WIDTHS = (64, 96, 128)  # D, the columns of a head


def row_stride(rng: Random) -> Question:
    heads, D = rng.randrange(2, 17), rng.choice(WIDTHS)
    sequence = 8 * rng.randrange(8, 64)
    right = heads * D * HALF
    return number(
        f"Q is [batch, sequence, heads, D], fp16: {sequence} positions, {heads} heads, D = {D}. How many "
        "bytes lie from a row of one head to its next row?",
        right,
        {
            D * HALF: "That is the next head of the same position.",
            heads * D: "That counts elements: one has 2 bytes.",
            sequence * D * HALF: "That is the stride of heads that come before the sequence.",
            sequence * heads * D * HALF: "That is the next batch.",
        },
        f"All heads of a position lie between: {heads} x {D} x {HALF} bytes.",
        lambda answer: (
            Row.each("a position", range(min(heads, 8)), lambda h: f"head {h}", "load"),
            Row.one("one row", f"{D * HALF} bytes"),
            Row.one("next row", f"{answer:,} bytes further", here=True),
        ),
        1 << 20,
    )


def head_of_K(rng: Random) -> Question:
    kv_heads, group = rng.choice((2, 3)), rng.choice((2, 3, 4))
    heads = kv_heads * group
    head = rng.randrange(1, heads)
    right = head // group
    return number(
        f"Q has {heads} heads, K has {kv_heads}. Neighbouring heads of Q share one of K. Which head of K "
        f"does head {head} of Q read?",
        right,
        {
            head: "K has fewer heads: a coordinate past the last one is zero-filled.",
            head % kv_heads: "That deals the heads out in turn; neighbours share.",
            head // kv_heads: f"Divide by the heads that share one, {group}, and not by K's heads.",
        },
        f"{group} heads share one, so it is {head} // {group} = {right}.",
        lambda answer: (
            Row.each("Q", range(heads), here=[head]),
            Row.each("K", range(heads), lambda h: h // group, lambda h: "load" * (h // group == answer)),
        ),
    )


def boxes_of_row(rng: Random) -> Question:
    D = rng.choice(WIDTHS)
    span = rng.choice([span for span in (128, 64, 32) if D * HALF % span == 0])
    right = D * HALF // span
    return number(
        f"A row of K has D = {D} halves. The map has the {span}-byte swizzle. How many boxes bring it?",
        right,
        {
            1: f"A row of a box has at most the swizzle's {span} bytes.",
            -(-D // span): f"A half has 2 bytes, so a box takes {span // HALF} of them.",
        },
        f"{D * HALF} bytes / {span} bytes. All of them signal one barrier.",
        lambda answer: (
            Row.one("row", f"{D * HALF} bytes"),
            Row.each("boxes", range(min(answer, 12)), lambda _: f"{span}", "load"),
            Row.one("in all", f"{answer * span:,} bytes", "fault" * (answer * span != D * HALF), True),
        ),
    )


def who_stores(rng: Random) -> Question:
    length = 8 * rng.randrange(9, 260) + rng.choice((0, 0, 1, 2, 3, 4, 6))
    pitch = length * HALF
    by_TMA, threads = "TMA can", "threads only"
    legal = pitch % STRIDE == 0
    right, wrong = (by_TMA, threads) if legal else (threads, by_TMA)
    rest = f"{pitch:,} bytes = {pitch // STRIDE} x {STRIDE} + {pitch % STRIDE}"
    why = f"A row of S has {rest}, and a map takes " + ("it." if legal else "no such stride.")
    mistake = {
        by_TMA: f"A stride has to be a multiple of {STRIDE} bytes.",
        threads: "The edge is no reason: TMA clips what it stores.",
    }

    def draw(answer: str) -> Picture:
        return (
            Row.one("row of S", f"{length} halves"),
            Row.one("stride", rest, "" if legal else "fault"),
            Row.one("stored by", answer, "store" * (answer == by_TMA), True),
        )

    return choice(
        f"S is fp16 with {length} columns, a row after the other. Who can store its tiles?",
        right,
        {wrong: mistake[wrong]},
        why,
        draw,
    )


def past_the_end(rng: Random) -> Question:
    sequence = ROWS * rng.randrange(1, 9) + rng.randrange(1, ROWS)
    merged, last = rng.random() < 0.4, rng.random() < 0.3
    inside = sequence % ROWS
    right = 0 if merged and not last else ROWS - inside
    which = "last" if last else "first"
    how = "batch and sequence as one dimension" if merged else "batch and sequence apart"
    brings = "zeros" if right else "rows of the next batch"
    return number(
        f"K has two batches of {sequence} rows; its map has {how}. Boxes have {ROWS} rows. How many rows of "
        f"the {which} batch's last box are zeros?",
        right,
        {
            inside: "Those are its own rows.",
            ROWS - inside: "The merged dimension continues: these are the next batch's rows.",
            0: "The map ends there, and TMA fills the rest of the box.",
        },
        f"{inside} rows are left; the other {ROWS - inside} of the box are {brings}.",
        lambda answer: (
            Row.one("boxes before", sequence // ROWS),
            Row.one("own rows", inside, "load"),
            Row.one("zeros", answer, here=True),
            Row.one("next batch", max(ROWS - inside - answer, 0), "fault" * (ROWS - inside - answer > 0)),
        ),
    )


IN_THE_COPY = {
    "K's map has exchanged strides": "The swap does not use K's map, so S would come right.",
    "K's load has no batch in its coordinate": "The swap has an address of its own, so S would come right.",
    "the barrier expects too few bytes of K": "The swap waits on no such barrier, so S would come right.",
}
ELSEWHERE = {
    "the scale is missing": "The swap changes only K's copy, so S would stay wrong.",
    "S's map merges batch and head": "The swap changes only K's copy, so S would stay wrong.",
    "Q's load has the wrong head": "The swap changes only K's copy, so S would stay wrong.",
}


def swap_proves(rng: Random) -> Question:
    mended = rng.random() < 0.5
    there, not_there = (IN_THE_COPY, ELSEWHERE) if mended else (ELSEWHERE, IN_THE_COPY)
    right = rng.choice(sorted(there))
    wrong = {one: not_there[one] for one in rng.sample(sorted(not_there), 2)}
    came = "right" if mended else "still wrong"

    def draw(answer: str) -> Picture:
        fits = answer in there
        return (
            Row("swapped", (Cell("K: map, box, coordinates, barrier", "load"),)),
            Row("kept", (Cell("Q"), Cell("product"), Cell("scale"), Cell("store of S"))),
            Row.one("fault", answer, "" if fits else "fault", True),
        )

    return choice(
        f"S is wrong. With K copied by threads, from an address of their own, S is {came}. Which fault fits?",
        right,
        wrong,
        f"S is {came}, so the fault is {'in what' if mended else 'not in what'} the swap replaced.",
        draw,
        rng,
    )
