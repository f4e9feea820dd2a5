"""Questions on attention: who holds a row of scores, the online softmax by numbers, masks, registers, rings
of K and V, tiles that a causal mask skips, named barriers, and the bound of the exponentials.
"""

from __future__ import annotations

import math
from random import Random

from course_utils.attention import HEAD_SIZES, cycles, visible
from course_utils.chips import HOME
from course_utils.drills.question import Cell, Picture, Question, Row, choice, number

HALF = 2  # bytes of an fp16
WARP, GROUP = 32, 128  # threads of a warp and of a warpgroup
NAN, INF = math.nan, math.inf


# a1


def row_of_lane(rng: Random) -> Question:
    """Where a thread's scores are: PTX ISA, wgmma, Register Fragments, accumulator D of m64."""
    warp, lane, lower = rng.randrange(4), rng.randrange(1, WARP), rng.random() < 0.5
    right = 16 * warp + lane // 4 + 8 * lower
    four = [lane // 4 * 4 + i for i in range(4)]
    which = "second" if lower else "first"
    return number(
        f"A warpgroup has S of 64 rows. A thread holds parts of two rows. Which row is the {which} one of "
        f"lane {lane} in warp {warp}?",
        right,
        {
            16 * warp + lane: "A row has its columns in four lanes, not in one.",
            lane // 4 + 8 * lower: "Each warp has 16 rows of its own.",
            16 * warp + lane // 4 + 8 * (not lower): "The two rows are 8 apart; this is the other one.",
            16 * warp + lane % 16: "Lanes 4r to 4r + 3 share row r, so divide by 4.",
        },
        f"Warp {warp} begins at row {16 * warp}, and lane {lane} is at {lane} // 4"
        f"{', 8 rows further down' if lower else ''}.",
        lambda answer: (
            Row.one("warp", f"rows {16 * warp} to {16 * warp + 15}"),
            Row.each("lanes that share the row", four, here=[lane]),
            Row.one("row", answer, "" if answer == right else "fault", True),
        ),
    )


def running_total(rng: Random) -> Question:
    steps, weight = rng.randrange(1, 4), rng.randrange(2, 6)
    total, rises = weight << steps, rng.random() < 0.75
    new = rng.randrange(1, 4)
    before = rng.randrange(2, 6)
    top = before + steps if rises else before
    right = (weight if rises else total) + new
    change = (
        f"so older sums are multiplied by 2^{before - top}" if rises else "so older sums stay as they are"
    )
    return number(
        f"In powers of 2: a row's maximum is {before}, its total {total}. The next tile has {new} "
        f"key{'s' * (new > 1)} with score {top}; its other weights round to 0. What is the total now?",
        right,
        {
            total + new: "The old total belongs to the older, smaller maximum.",
            (total << steps) + new: "The factor is 2^(old - new): older weights get smaller.",
            new: "Keys of earlier tiles count too.",
            weight: "The new keys add a weight of 1 each.",
        },
        f"The maximum is {top}, {change}; then each new key adds 2^0 = 1.",
        lambda answer: (
            Row.one("maximum", f"{before} to {top}"),
            Row.one("older total", weight if rises else total, "load"),
            Row.one("new keys", new, "load"),
            Row.one("total", answer, "" if answer == right else "fault", True),
        ),
    )


def masked_weight(rng: Random) -> Question:
    """What exp2 of a score less the maximum comes to, as fp32 has it."""
    top = -float(rng.randrange(20, 60))
    seen, empty = f"{top:g}", "-inf"
    kind = rng.choice(("no key", "no key, base 0", "zero", "infinity"))
    score, base, row = {
        "no key": (-INF, -INF, empty),
        "no key, base 0": (-INF, 0.0, empty),
        "zero": (0.0, top, seen),
        "infinity": (-INF, top, seen),
    }[kind]
    value = _exp2(score - base)
    right = _named(value)
    sentences = {
        "0": "A weight of 0 needs -inf less a finite number.",
        "1": "2^0 is 1, but the exponent is not 0 here.",
        "NaN": "NaN comes from -inf less -inf alone.",
        "far above 1": "The exponent is not far above 0 here.",
    }
    why = {
        "no key": "-inf - (-inf) is NaN, and NaN x 0 stays NaN in every sum.",
        "no key, base 0": "2^(-inf - 0) is 0: such a row has no weight at all.",
        "zero": f"2^(0 - {top:g}) is 2^{-top:g}: the masked key has all the weight.",
        "infinity": f"2^(-inf - {top:g}) is 0, whatever the maximum is.",
    }[kind]
    wrong = {one: sentences[one] for one in sentences if one != right}
    return choice(
        f"The largest score that a row has seen is {row}. The mask writes {score:g} for a key, and {base:g} "
        "is subtracted before exp2. Which weight does the key get?",
        right,
        wrong,
        why,
        lambda answer: (
            Row.one("score", f"{score:g}"),
            Row.one("less", f"{base:g}"),
            Row.one("weight", answer, "" if answer == right else "fault", True),
        ),
    )


def _exp2(x: float) -> float:
    return x if math.isnan(x) else 0.0 if x == -INF else 2.0**x


def _named(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return {0.0: "0", 1.0: "1"}.get(value, "far above 1")


def registers_of_thread(rng: Random) -> Question:
    D, keys = rng.choice(HEAD_SIZES), rng.choice((64, 96, 128, 160, 176))
    scores, acc, weights = 64 * keys // GROUP, 64 * D // GROUP, 64 * keys // GROUP // 2
    right = scores + acc + weights
    return number(
        f"A warpgroup holds 64 x {keys} scores in fp32, P of the same shape in fp16, and 64 x {D} of O in "
        "fp32. How many registers of a thread are that?",
        right,
        {
            scores + acc: "P has its own registers while the next S is computed.",
            2 * scores + acc: "Two halves fit one register.",
            scores + weights: "O's accumulator lives through the whole loop.",
            right * 2: "128 threads share each tile, not 64.",
        },
        f"S has {scores}, P half of that, {weights}, and O {acc}.",
        lambda answer: (
            Row("a thread", (Cell(f"S {scores}", "wgmma"), Cell(f"P {weights}"), Cell(f"O {acc}", "wgmma"))),
            Row.one("in all", answer, "" if answer == right else "fault", True),
        ),
    )


def stages_of_both(rng: Random) -> Question:
    D, queries, keys = rng.choice(HEAD_SIZES), rng.choice((128, 192)), rng.choice((64, 96, 128, 160))
    whole = HOME.shared
    Q, tile = queries * D * HALF, keys * D * HALF
    right = (whole - Q) // (2 * tile)
    return number(
        f"A CTA may have {whole:,} bytes. Q's tile is {queries} x {D} halves; K and V have tiles of {keys} x "
        f"{D}. How many stages of both fit, without barriers?",
        right,
        {
            (whole - Q) // tile: "A stage of K needs one of V beside it.",
            whole // (2 * tile): "Q's tile stays in shared memory too.",
            (whole - Q // 2) // tile: "A half has 2 bytes.",
        },
        f"({whole:,} - {Q:,}) // (2 x {tile:,}).",
        lambda answer: (
            Row.one("Q", f"{Q:,} bytes"),
            Row.one("K and V of a stage", f"{2 * tile:,} bytes", "load"),
            Row.one("stages", answer, "" if answer == right else "fault", True),
            Row.one("left", f"{whole - Q - 2 * tile * answer:,} bytes", "fault" * (answer > right)),
        ),
    )


def released(rng: Random) -> Question:
    consumers, by_warp = rng.choice((1, 2, 3)), rng.random() < 0.5
    what = rng.choice(("K", "V"))
    right = consumers * (4 if by_warp else 1)
    how = "one thread of each warp arrives" if by_warp else "one thread of each consumer arrives"
    return number(
        f"Consumer warpgroups: {consumers}. Each of them reads every tile of {what}. To release its stage, "
        f"{how}. What does the stage's empty barrier count?",
        right,
        {
            1: "The producer arrives on full; empty counts the consumers.",
            consumers * GROUP: "Only the elected threads arrive.",
            consumers * (1 if by_warp else 4): "Count arrivals: who arrives, a warp or a warpgroup?",
            right + 1: "The producer waits on empty and does not arrive there.",
        },
        f"{consumers} x {4 if by_warp else 1} arrivals: the slowest consumer decides.",
        lambda answer: (
            Row.each("consumers", range(consumers), lambda c: f"{4 if by_warp else 1}", "wgmma"),
            Row.one("empty counts", answer, "" if answer == right else "fault", True),
        ),
    )


# a2


def _causal(rng: Random) -> tuple[int, int, int, int, int]:
    block_M, block_N = rng.choice((128, 192)), rng.choice((64, 128))
    queries = block_M * rng.randrange(3, 9)
    keys = queries + block_N * rng.randrange(0, 5)
    return rng.randrange(0, queries // block_M), block_M, block_N, queries, keys


def _tiles(rng: Random) -> tuple[tuple[int, int, int, int, int], str]:
    m, block_M, block_N, queries, keys = given = _causal(rng)
    return given, (
        f"Causal: {queries} queries, {keys} keys; the last of both have one place. Tiles have {block_M} "
        f"queries and {block_N} keys."
    )


def _drawn(m: int, block_M: int, block_N: int, queries: int, keys: int) -> Row:
    tiles, some, whole = visible(m, block_M, block_N, queries, keys)
    few = range(max(0, min(whole - 2, tiles - 10)), tiles)[:10]
    looks = {"all": "load", "some": "wgmma", "none": ""}
    name = lambda n: "all" if n < whole else "some" if n < some else "none"  # noqa: E731
    return Row.each(f"key tiles from {few.start} on", few, name, lambda n: looks[name(n)])


def skipped(rng: Random) -> Question:
    given, text = _tiles(rng)
    m, block_M, block_N, queries, keys = given
    tiles, some, whole = visible(*given)
    right, later = tiles - some, keys - queries
    return number(
        f"{text} How many tiles of keys does query tile {m} skip?",
        right,
        {
            some: "Those are the tiles that it computes.",
            tiles - whole: "Tiles that some of its queries see are masked, not skipped.",
            tiles - -(-((m + 1) * block_M) // block_N): "Query i sees keys up to i + keys - queries.",
            tiles - m - 1: "Tiles of queries and tiles of keys are not equally long.",
        },
        f"Its last query sees {min((m + 1) * block_M + later, keys)} keys: {some} of {tiles} tiles.",
        lambda answer: (_drawn(*given), Row.one("skipped", answer, "" if answer == right else "fault", True)),
    )


def masked(rng: Random) -> Question:
    given, text = _tiles(rng)
    m, block_M, block_N, queries, keys = given
    tiles, some, whole = visible(*given)
    right, later = some - whole, keys - queries
    return number(
        f"{text} How many tiles of keys have to be masked for query tile {m}?",
        right,
        {
            1: "The diagonal crosses more than one tile here.",
            some: "A tile that all queries see needs no mask.",
            tiles - some: "A tile that no query sees is skipped.",
            tiles - whole: "Of these the last ones are seen by no query, and skipped.",
        },
        f"Its first query sees {m * block_M + later + 1} keys, so {whole} whole tiles; some see {some}.",
        lambda answer: (_drawn(*given), Row.one("masked", answer, "" if answer == right else "fault", True)),
    )


def named_count(rng: Random) -> Question:
    consumers = rng.choice((2, 3))
    case = rng.choice(("turn", "store", "all"))
    right = {"turn": 2 * GROUP, "store": GROUP, "all": consumers * GROUP}[case]
    who = {
        "turn": "One consumer arrives on it, and the next one waits on it for its turn",
        "store": "A consumer writes its own rows of O, meets on it, then one thread stores them",
        "all": "Consumers write O to one buffer, meet on it, then one thread stores all of it",
    }[case]
    return number(
        f"A kernel has a producer warpgroup and {consumers} consumers. {who}. How many threads does this "
        "named barrier count?",
        right,
        {
            GROUP: "Threads that arrive count as well as those that wait.",
            consumers * GROUP: "Only those that come to this barrier count.",
            (consumers + 1) * GROUP: "The producer does not come here, so nobody would ever pass.",
            2: "A named barrier counts threads; bar.sync and bar.arrive bring whole warps.",
            4: "It counts threads, not warps.",
        },
        {
            "turn": "128 threads arrive and 128 wait, however many consumers there are.",
            "store": "Its own 128 threads alone.",
            "all": f"{consumers} x {GROUP} threads.",
        }[case],
        lambda answer: (
            Row.each("consumers", range(consumers), lambda c: f"{GROUP} threads", "wgmma"),
            Row.one("counts", answer, "" if answer == right else "fault", True),
        ),
    )


def quickest(rng: Random) -> Question:
    D, queries, keys = rng.choice(HEAD_SIZES), rng.choice((64, 128, 192)), rng.choice((64, 128, 160))
    products, exponentials = map(int, cycles(queries, keys, D))
    overlapped = rng.random() < 0.5
    right = max(products, exponentials) if overlapped else products + exponentials
    how = "overlap perfectly" if overlapped else "never overlap"
    return number(
        f"A tile has {queries} queries, {keys} keys, D = {D}. An SM does {HOME.flop_per_clock:,} FLOP and "
        f"{HOME.exp2_per_clock} exponentials per cycle. Both products and the exponentials {how}. How many "
        "cycles does the tile take?",
        right,
        {
            products + exponentials: "Overlapped, the shorter one costs nothing.",
            max(products, exponentials): "One after the other, both count.",
            products // 2 + exponentials: "There are two products, and a multiply-add is 2 FLOP.",
            max(products // 2, exponentials): "There are two products, and a multiply-add is 2 FLOP.",
        },
        f"Products: {products:,} cycles. Exponentials: {exponentials:,}.",
        lambda answer: (
            Row.one("products", f"{products:,}", "wgmma"),
            Row.one("exponentials", f"{exponentials:,}"),
            Row.one("the tile", f"{answer:,}", "" if answer == right else "fault", True),
        ),
        10**6,
    )


def long_and_short(rng: Random) -> Question:
    """The tiles of a CTA's two turns in case a2c, where causal."""
    count = 2 * rng.randrange(3, 9)
    cta = rng.randrange(count // 2)
    block = 128
    m = [i // 2 + (1 - i % 2) * (count - 1 - i) for i in (2 * cta, 2 * cta + 1)]
    each = [visible(one, block, block, count * block, count * block)[1] for one in m]
    right = sum(each)
    return number(
        f"Causal, {count} tiles of 128 queries and as many of 128 keys. A head's query tiles come in the "
        f"order {count - 1}, 0, {count - 2}, 1, ...; CTA {cta} takes numbers {2 * cta} and {2 * cta + 1} of "
        "it, from 0. Through how many key tiles does it go?",
        right,
        {
            2 * cta + 1 + 2 * cta + 2: "That is the order 0, 1, 2, ...: its last CTA has the most.",
            count: "A query tile goes through its own key tile too.",
            2 * count: "Tiles that no query sees are skipped.",
            each[0]: "It has a long one and a short one.",
        },
        f"Query tile {m[0]} has {each[0]}, query tile {m[1]} has {each[1]}: the same sum for every CTA.",
        lambda answer: _pair(m, each, answer, right),
    )


def _pair(m: list[int], each: list[int], answer: int, right: int) -> Picture:
    return (
        Row.one(f"query tile {m[0]}", f"{each[0]} key tiles", "wgmma"),
        Row.one(f"query tile {m[1]}", f"{each[1]} key tiles", "wgmma"),
        Row.one("in all", answer, "" if answer == right else "fault", True),
    )
