"""Questions on mbarriers: arrivals, bytes, phases, and who arrives where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from course_utils.drills.question import Cell, Picture, Question, Row, choice, number
from course_utils.plans import BLOCK_K

HALF = 2  # bytes of an element
TILES = (64, 96, 128, 192, 256)
LARGEST = 1 << 24  # of a number of bytes that can be answered


@dataclass
class Barrier:
    """A small mbarrier (PTX ISA, "mbarrier"): its phase ends once arrivals and bytes are both at zero."""

    count: int
    phase: int = 0
    bytes: int = 0  # still to come; below zero where bytes land before they are expected
    pending: int = field(init=False)

    def __post_init__(self) -> None:
        self.pending = self.count

    def arrive(self, times: int = 1) -> None:
        self.pending -= times
        self._settle()

    def expect(self, count: int) -> None:
        self.bytes += count

    def land(self, count: int) -> None:
        self.bytes -= count
        self._settle()

    def passes(self, parity: int) -> bool:
        """Does a wait for this parity pass at once?"""
        return self.phase & 1 != parity

    def _settle(self) -> None:
        if self.pending == 0 == self.bytes:
            self.phase, self.pending = self.phase + 1, self.count


def phases(now: int) -> Picture:
    """The phases up to the present one, with their parities."""
    shown = range(max(0, now - 3), now + 1)
    return (
        Row.each("phase", shown, look=lambda one: "wait" * (one < now), here=[now]),
        Row.each("parity", shown, lambda one: one & 1, lambda one: "wait" * (one < now), [now]),
        Row.each("", shown, lambda one: "over" if one < now else "now", lambda one: "wait" * (one < now)),
    )


def passes(rng: Random) -> Question:
    phase, parity = rng.randrange(7), rng.randrange(2)
    barrier = Barrier(1, phase)
    ended = f"has ended {phase} phase{'s' * (phase > 1)}, and the next is open"
    state = ended if phase else "is new"
    right = barrier.passes(parity)
    words = {True: "passes at once", False: "blocks"}
    before = f"phase {phase - 1}" if phase else "the phase before phase 0, which counts as over"
    return choice(
        f"An mbarrier {state}. A wait for parity {parity}: does it pass?",
        right,
        {not right: "A wait names the parity of the phase that must be over, not of the current one."},
        f"The barrier is in phase {phase}, of parity {phase & 1}: a wait for {phase & 1} blocks, and one for "
        f"{1 - (phase & 1)} passes, because {before} is over.",
        lambda answer: (*phases(phase), Row.one("wait", f"parity {parity}: {words[answer]}", "wait", True)),
        label=words.__getitem__,
    )


def which_wait(rng: Random) -> Question:
    parity = rng.randrange(2)
    open_one, shut = 2 * rng.randrange(4) + 1 - parity, rng.sample(range(parity, 10, 2), 3)
    known = {count: Barrier(1, count) for count in (open_one, *shut)}
    (right,) = (count for count, barrier in known.items() if barrier.passes(parity))
    return choice(
        f"Four barriers, and at each a wait for parity {parity}. Which wait passes at once?",
        right,
        {
            count: f"That barrier is in phase {count}, of parity {parity}: just the phase that the wait "
            "blocks in."
            for count in shut
        },
        f"{right} phases have ended, so phase {right} is open. Its parity is {right & 1}, and the one "
        f"before, of parity {parity}, is over.",
        phases,
        rng,
        lambda count: f"the one with {count} phase{'s' * (count != 1)} over",
    )


def expected_bytes(rng: Random) -> Question:
    block_m, block_n = rng.choice(TILES), rng.choice(TILES)
    block_k = rng.choice((32, 64, 128))
    a, b = block_m * block_k, block_n * block_k
    right = HALF * (a + b)
    return number(
        f"One stage holds a tile of A, {block_m} x {block_k}, and one of B, {block_n} x {block_k}, both "
        "fp16. How many bytes does its full barrier expect in a phase?",
        right,
        {
            a + b: "That counts elements; TMA counts bytes, two for each fp16.",
            HALF * a: "That is A's tile alone, and both land on this barrier.",
            HALF * b: "That is B's tile alone, and both land on this barrier.",
            HALF * right: "That is two bytes too often: fp16 has two bytes, fp32 four.",
            block_m * block_n * HALF: "That is a tile of D, which no load brings.",
        },
        f"({block_m} + {block_n}) x {block_k} elements of {HALF} bytes are {right:,}.",
        lambda answer: (
            Row("lands", (Cell(f"A {HALF * a:,}", "load"), Cell(f"B {HALF * b:,}", "load"))),
            Row.one("expected", f"{answer:,}", here=True),
            Row.one(
                "never comes" if answer > right else "not expected",
                f"{abs(answer - right):,}",
                "fault" * (answer != right),
            ),
        ),
        LARGEST,
    )


def parity_of_round(rng: Random) -> Question:
    turn = rng.randrange(3, 40)
    barrier = Barrier(1, turn)  # the wait of round k blocks until phase k is over
    right = next(parity for parity in (0, 1) if not barrier.passes(parity))
    return choice(
        f"One barrier, one tile in each round, rounds count from 0. For which parity does round {turn} wait?",
        right,
        {1 - right: "That is a round off: it passes before the tile has landed, or asks for the next one."},
        f"Round 0 waits for parity 0, and the parity flips each round: {turn} & 1 is {turn & 1}.",
        lambda answer: (
            Row.each("round", range(-2, 2), lambda i: turn + i, here=[0]),
            Row.each("parity", range(-2, 2), lambda i: answer + i & 1, "wait", [0]),
        ),
        label=lambda parity: f"parity {parity}",
    )


def state(rng: Random) -> Question:
    tile = rng.choice((8192, 16384, 24576, 32768))
    count, first = rng.choice((1, 2)), rng.randrange(4)
    arrivals, landed = rng.choice(((count, 1), (count - 1, 2), (count, 2), (count - 1, 1)))
    barrier = Barrier(count, first)
    barrier.expect(2 * tile)
    for _ in range(landed):
        barrier.land(tile)
    if arrivals:
        barrier.arrive(arrivals)
    right = barrier.phase, barrier.pending, barrier.bytes
    left = count - arrivals, (2 - landed) * tile
    wrong = {
        (first, *left): "With both counts at zero a phase is over, and the next one begins.",
        (first + 1, count, 0): "A phase completes when both counts are at zero, not when one of them is.",
        (first, count, 2 * tile): "Arrivals and bytes are counted down as they come.",
        (first, left[0], tile if landed == 2 else 0): "Each landed tile takes its own bytes off, and no "
        "more.",
        (first, 0, left[1] or tile): "Bytes do not stand for arrivals.",
    }

    def label(one: tuple[int, int, int]) -> str:
        return f"phase {one[0]}; to come: {one[1]} arrival{'s' * (one[1] != 1)}, {one[2]:,} bytes"

    def draw(one: tuple[int, int, int]) -> Picture:
        phase = Row.one("phase", one[0], here=True)
        if one[0] != first:
            return phase, Row.one("arrivals", f"{count} to come"), Row.one("bytes", f"{one[2]:,} expected")
        arrived, there = range(one[1], count), range(one[2] // tile, 2)
        return (
            phase,
            Row.told("arrivals", range(count), arrived, "wait", ("in", "to come")),
            Row.told("bytes", range(2), there, "load", ("landed", "to come")),
        )

    threads = f"{arrivals} thread{'s' * (arrivals > 1)}" if arrivals else "nobody"
    some = f"Then {landed} of them land{'s' * (landed == 1)}, and {threads} arrive{'s' * (arrivals < 2)}."
    return choice(
        f"An mbarrier, init {count}, enters phase {first} and expects {2 * tile:,} bytes, two "
        f"tiles. {some} Its state?",
        right,
        wrong,
        f"It needed {count} arrival{'s' * (count > 1)} and {2 * tile:,} bytes; "
        + ("both have come." if right[0] > first else f"{left[0]} and {left[1]:,} are left."),
        draw,
        rng,
        label,
    )


ARRIVING = {  # who arrives in each round: arrivals
    "one elected thread of 128": 1,
    "one thread of each of 4 warps": 4,
    "every thread of one warp": 32,
    "one thread of each of 2 warpgroups": 2,
    "one thread of each of 8 warps": 8,
    "all 128 threads of a warpgroup": 128,
}


def counted(init: int, arrivals: int) -> Picture:
    """What becomes of a phase of a barrier whose init counts ``init``, and which gets ``arrivals``."""
    ends = "ends too early" if init < arrivals else "never ends"
    return (
        Row.one("init", init, here=True),
        Row.one("arrive", arrivals, "wait"),
        Row.one("then", *((ends, "fault") if init != arrivals else ("the phase can end", ""))),
    )


def arrival_count(rng: Random) -> Question:
    who, right = rng.choice(sorted(ARRIVING.items()))
    copies = rng.choice((2, 3, 4))
    return number(
        f"{copies} TMA loads signal full. In each round, after issuing them, {who} "
        f"arrive{'s' * who.startswith(('one elected', 'every'))}. For how many arrivals is full initialised?",
        right,
        {
            copies: "Loads bring bytes, not arrivals.",
            right + copies: "Loads bring bytes, not arrivals: they are not added.",
            128: "That counts threads, and not arrivals.",
            32: "That counts the threads of a warp, and not arrivals.",
            256: "That counts threads, and not arrivals.",
            1: "More than one of them arrives, and each arrival counts.",
        },
        f"An arrival is what a thread does: {right} of them, whatever the loads bring.",
        lambda answer: counted(answer, right),
        1024,
    )


def first_waits(rng: Random) -> Question:
    role, turn = rng.choice(("producer", "consumer")), rng.randrange(8)
    name = "empty" if role == "producer" else "full"
    # round r of the consumer needs phase r of full over, that of the producer phase r - 1 of empty
    needed = turn if role == "consumer" else turn - 1
    right = next(p for p in (0, 1) if Barrier(1, needed + 1).passes(p))
    shown = range(max(0, turn - 2), max(4, turn + 2))
    return choice(
        f"Rounds of the ring count from 0. For which parity does the {role} wait on {name}[s] in round "
        f"{turn}?",
        right,
        {
            1 - right: "That is the other role's parity."
            if turn
            else "On a new barrier a wait for 0 blocks and a wait for 1 passes."
        },
        f"In round {turn} "
        + (
            f"the tile of round {turn} must have landed: phase {turn}, parity {right}."
            if role == "consumer"
            else f"the consumer must have left round {turn - 1}: phase {turn - 1}, parity {right}."
            if turn
            else "nothing was ever in the stage: its wait must pass, and on a new barrier parity 1 does."
        ),
        lambda answer: (
            Row.each("round", shown, here=[turn]),
            Row.each("parity", shown, lambda one: one - turn + answer & 1, "wait", [turn]),
        ),
        label=lambda parity: f"parity {parity}",
    )


def blocked_phases(rng: Random) -> Question:
    first, parity = rng.randrange(6), rng.randrange(2)
    there = range(first, first + 4)
    right = tuple(one for one in there if not Barrier(1, one).passes(parity))
    other = tuple(one for one in there if one not in right)
    wrong = {
        other: "There the phase of that parity is the one before, and it is over.",
        right[:1]: "A parity does not say which phase is meant: it blocks in every other one.",
        tuple(
            one for one in there if one >= right[0]
        ): "A later phase of the other parity lets it pass again.",
    }
    return choice(
        f"Somebody waits for parity {parity}. In which of the phases {first} to {first + 3} would that "
        "block?",
        right,
        wrong,
        f"A wait for {parity} blocks while the barrier is in a phase of parity {parity}.",
        lambda answer: (
            Row.each("phase", there, here=answer),
            Row.each("parity", there, lambda one: one & 1, here=answer),
            Row.told("wait", there, answer, "wait", ("blocks", "passes")),
        ),
        rng,
        lambda some: " and ".join(map(str, some)) if len(some) < 3 else ", ".join(map(str, some)),
    )


def empty_count(rng: Random) -> Question:
    ctas, groups, by_warp = rng.choice((2, 4)), rng.choice((1, 2, 3)), rng.random() < 0.5
    each = 4 if by_warp else 1
    who = "one thread of each warp" if by_warp else "one thread of each warpgroup"
    right = ctas * groups * each
    return number(
        f"A cluster of {ctas} CTAs, each with {groups} consumer warpgroup{'s' * (groups > 1)}. Multicasts "
        f"fill a stage in all CTAs, and {who} arrives at every CTA's empty. For how many arrivals is one "
        "initialised?",
        right,
        {
            groups * each: "That is one CTA's consumers, and a multicast overwrites what the others read.",
            ctas: "That counts CTAs, and each sends more than one arrival.",
            ctas * groups: "Each warp sends an arrival of its own."
            if by_warp
            else "That counts each warpgroup once.",
            ctas * groups * 4: "That counts warps, and one thread speaks for a warpgroup.",
            ctas * groups * 128: "That counts threads, and not arrivals.",
            ctas * ctas * groups * each: "That is what arrives at the empty barriers of all CTAs together.",
        },
        f"{ctas} CTAs x {groups} warpgroup{'s' * (groups > 1)} x {each} = {right}.",
        lambda answer: (
            *(
                Row.each(f"CTA {cta}", range(groups), lambda _: f"{each} arrival{'s' * (each > 1)}", "wgmma")
                for cta in range(ctas)
            ),
            Row.one("init", answer, "" if answer == right else "fault", True),
        ),
        4096,
    )


def cluster_bytes(rng: Random) -> Question:
    block_m, block_n, ctas = rng.choice((64, 128)), rng.choice((128, 192, 256)), rng.choice((2, 4))
    a, b = (HALF * extent * BLOCK_K for extent in (block_m, block_n))
    return number(
        f"Each of {ctas} CTAs loads {block_m} x {BLOCK_K} of A for itself and multicasts 1/{ctas} of B's "
        f"tile of {block_n} x {BLOCK_K} to all, fp16. How many bytes does each CTA's full expect?",
        a + b,
        {
            a + b // ctas: "That is what a CTA asks for. The other parts of B land in it too.",
            ctas * (a + b): "That is all CTAs together; each has a full of its own.",
            a + ctas * b: "All of B lands here once, in parts.",
            ctas * a + b: "A is no multicast: the other CTAs' rows land elsewhere.",
            (a + b) // HALF: "That counts elements, and not bytes.",
        },
        f"{a:,} bytes of A and all {b:,} of B land in each CTA, whichever CTA issued the loads.",
        lambda answer: (
            Row.one("A lands", f"{a:,}", "load"),
            Row.each("B lands", range(ctas), lambda _: f"{b // ctas:,}", "load"),
            Row.one("expected", f"{answer:,}", "" if answer == a + b else "fault", True),
        ),
        LARGEST,
    )


def mask(ranks: Sequence[int]) -> int:
    """The multicast mask of some ranks: one bit for each."""
    return sum(1 << rank for rank in ranks)


def multicast_mask(rng: Random) -> Question:
    ctas = rng.choice((4, 4, 8))
    ranks = sorted(rng.sample(range(ctas), rng.choice((2, 2, 3))))
    right = mask(ranks)
    wrong = {
        mask(ranks) << 1: "Rank 0 is bit 0: this counts from 1.",
        mask(range(ctas)) ^ right: "These are the CTAs that get nothing.",
        ranks[-1]: "That is a rank, and a mask has a bit for each.",
        mask(ranks[1:]): f"Bit {ranks[0]} is missing.",
        len(ranks): "That counts the CTAs, and a mask names them.",
    }
    shown = range(ctas)[::-1]
    return choice(
        f"A cluster of {ctas} CTAs. A tile is to land in those of rank {', '.join(map(str, ranks[:-1]))} and "
        f"{ranks[-1]}. Which multicast mask?",
        right,
        {value: words for value, words in wrong.items() if 0 < value < 1 << ctas},
        f"Bit r stands for rank r: {' + '.join(str(1 << rank) for rank in ranks)} = {right}.",
        lambda answer: (
            Row.each("rank", shown, here=ranks),
            Row.each("bit", shown, lambda r: answer >> r & 1, lambda r: "load" * (answer >> r & 1), ranks),
        ),
        rng,
        lambda value: f"0b{value:0{ctas}b}",
    )


def writers(rank: int, loads: Mapping[int, Sequence[int]]) -> set[int]:
    """The ranks whose loads write into the stage of ``rank``. ``loads``: a rank, and where its loads land."""
    return {source for source, into in loads.items() if rank in into}


def release_to(rng: Random) -> Question:
    rank, source = rng.randrange(4), rng.randrange(4)
    everyone = rng.random() < 0.4
    loads = {one: range(4) if everyone or one == source else (one,) for one in range(4)}
    right = tuple(sorted(writers(rank, loads)))
    told = (
        "Every CTA multicasts a part of B's tile to all."
        if everyone
        else f"Only rank {source} multicasts B's tile to all; each CTA loads its own A."
    )
    wrong = {
        (rank,): "Others write into this CTA's stage too, and have to be notified that it is free.",
        tuple(sorted({rank, source})): "Every CTA that writes here has to be notified.",
        (0, 1, 2, 3): "The others write only to themselves: nothing of this consumer holds them up.",
        (source,): "Its own producer writes there too.",
        tuple(one for one in range(4) if one != rank): "Its own producer writes there too.",
    }
    return choice(
        f"A cluster of 4. {told} Rank {rank}'s consumer has left a stage. Which CTAs' empty barriers must it "
        "arrive on, at the least?",
        right,
        {some: words for some, words in wrong.items() if some},
        f"The producers of rank {', '.join(map(str, right))} write into rank {rank}'s stage, and each waits "
        "on its own barrier.",
        lambda answer: (
            Row.each("rank", range(4), here=[rank]),
            Row.told("writes here", range(4), right, "load"),
            Row.told("is told", range(4), answer, "wait"),
        ),
        rng,
        lambda some: "rank " + ", ".join(map(str, some)),
    )


def missing_bytes(rng: Random) -> Question:
    tile = rng.choice((8192, 16384, 24576))
    expects, brings = rng.choice(((3, 2), (2, 2), (4, 3), (2, 2), (2, 3)))
    count, arrive = rng.choice(
        ((1, 1), (2, 2), (4, 4)) if brings > expects else ((1, 1), (2, 1), (4, 4), (4, 1))
    )
    barrier = Barrier(count)
    barrier.expect(expects * tile)
    barrier.arrive(arrive)
    for _ in range(brings):
        barrier.land(tile)
    ends = barrier.phase > 0 and barrier.bytes >= 0
    right = (
        "bytes land that nobody expected"
        if brings > expects
        else "it ends"
        if ends
        else "arrivals are missing"
        if barrier.bytes == 0
        else "bytes are missing"
        if barrier.pending == 0
        else "arrivals and bytes are missing"
    )
    wrong = {
        "it ends": "One of the two counts is not at zero.",
        "arrivals are missing": "Compare the bytes too." if arrive < count else "All arrivals come.",
        "bytes are missing": "Compare the arrivals too." if brings < expects else "All bytes come.",
        "arrivals and bytes are missing": "One of the two counts gets to zero.",
        "bytes land that nobody expected": "No more bytes land than were expected.",
    }
    return choice(
        f"full was initialised for {count} and expects {expects * tile:,} bytes. {arrive} "
        f"thread{'s arrive' if arrive > 1 else ' arrives'}, and {brings} loads of {tile:,} bytes signal it. "
        "What becomes of the phase?",
        right,
        {name: words for name, words in wrong.items() if name != right},
        f"{count} - {arrive} = {count - arrive} arrivals and {expects * tile:,} - {brings * tile:,} = "
        f"{(expects - brings) * tile:,} bytes are left.",
        lambda answer: (
            Row.one("arrivals", f"{arrive} of {count}", "fault" * (arrive != count)),
            Row.one("bytes", f"{brings * tile:,} of {expects * tile:,}", "fault" * (brings != expects)),
            Row.one("so", answer, here=True),
        ),
        rng,
    )
