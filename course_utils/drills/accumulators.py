"""Questions on Blackwell's steps 6 to 8: accumulators that outlive a tile or form a ring, the roles that pass
them on, and tiles that the hardware hands out. The numbers come from the drills' mbarrier and ring, and from
the emulator's units, which follow the PTX ISA. Nothing of it has run on a Blackwell by us.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, cast

from course_utils.chips import BLACKWELL
from course_utils.drills import ring
from course_utils.drills.barriers import Barrier
from course_utils.drills.budget import stages_in
from course_utils.drills.question import Question, Row, choice, number
from course_utils.drills.tensor_memory import COLUMNS, SIZES, least_allocation
from course_utils.run.emulator.core.residents import Unstarted
from course_utils.run.emulator.isa.arithmetic import LANES

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine

EPILOGUE = 4 * LANES  # threads that read an accumulator, one row of D each
KIB = 1 << 10
ROLES = ("load warp", "MMA warp", "epilogue")

# One accumulator, tile after tile


def columns_over_tiles(rng: Random) -> Question:
    tiles, block_n = rng.randrange(3, 13), rng.choice((64, 96, 128, 256))
    right = least_allocation(block_n)
    return number(
        f"A persistent CTA computes {tiles} tiles of 128 x {block_n}, one after the other, in one "
        "accumulator. How many columns of tensor memory does it allocate in all?",
        right,
        {
            tiles * right: "The columns outlive a tile: the next one is multiplied in the same ones.",
            tiles * block_n: "The columns outlive a tile: the next one is multiplied in the same ones.",
            block_n: "An allocation has a power of two of columns.",
            2 * right: "That is a ring of two accumulators, which comes in the next step.",
            COLUMNS: "That is all that an SM has.",
        },
        f"One allocation of {right} columns before the first tile, and one dealloc after the last.",
        lambda answer: (
            Row.each("tile", range(min(tiles, 12)), look="wgmma"),
            Row.each("columns", SIZES, look=lambda n: "load" * (n == right), here=[answer]),
            Row.one("allocated", answer, "fault" * (answer != right), True),
        ),
        9999,
    )


def phase_of_done(rng: Random) -> Question:
    k_tiles, tile = rng.choice((3, 5, 6, 7)), rng.randrange(1, 6)
    each = rng.choice((True, False))
    k = rng.randrange(k_tiles) if each else k_tiles - 1
    phase = tile * k_tiles + k if each else tile
    when = "after each K tile" if each else "once per tile of D"
    where = f"at K tile {k} of " if each else "at the end of "
    wrong = {
        (k, k & 1): "A new tile of D resets no barrier.",
        (tile, tile & 1): "A commit after each K tile completes a phase for each.",
        (tile * k_tiles + k_tiles - 1, tile * k_tiles + k_tiles - 1 & 1): "One commit per tile of D "
        "completes one phase, however many K tiles there are.",
        (phase + 1, phase + 1 & 1): "Phases count from 0.",
        (phase, 1 - (phase & 1)): "A wait names the parity of the phase that has to complete.",
    }
    return choice(
        f"One thread commits to done {when}. A tile of D has {k_tiles} K tiles. Which phase does a CTA wait "
        f"for {where}its tile {tile}, and by which parity? All count from 0.",
        (phase, phase & 1),
        wrong,
        f"{f'{tile} x {k_tiles} + {k} = {phase}' if each else f'{tile} tiles came before'}: phase {phase}, "
        f"parity {phase & 1}.",
        lambda answer: (
            Row.each("tile of D", range(max(0, tile - 3), tile + 2), here=[tile]),
            Row.each("commits", range(max(0, phase - 3), phase + 2), lambda n: f"phase {n}", "wait", [phase]),
            Row.one("waits for", f"phase {answer[0]}, parity {answer[1]}", here=True),
        ),
        rng,
        lambda one: f"phase {one[0]}, parity {one[1]}",
    )


def taken(tiles: int, begun: int, requests: list[int]) -> list[int | None]:
    """The tile that each request of ``clusterlaunchcontrol.try_cancel`` brings, by the emulator's scheduler:
    of ``tiles`` CTAs the first ``begun`` run already. None where all have begun.
    """
    waiting = Unstarted(cast("Machine", None))  # it asks a machine for its room alone, in `begin`
    origins = [(tile, 0, 0) for tile in range(tiles)]
    waiting.origins, waiting.first, waiting.most = origins, set(origins[:begun]), tiles
    answers = [waiting.cancel() for _ in requests]
    return [one and one[0] for one in answers]


def from_the_scheduler(rng: Random) -> Question:
    begun, tiles = rng.choice((3, 4)), rng.randrange(9, 12)
    requests = [rng.randrange(begun) for _ in range(rng.randrange(3, 6))]
    brought = taken(tiles, begun, requests)
    place = len(requests) - 1
    right, who = brought[place], requests[place]
    assert right is not None  # there are more tiles than CTAs that have begun and requests
    wrong = {
        who + begun * requests.count(who): "That is the fixed grid of a persistent kernel, where a CTA adds "
        "the number of CTAs.",
        who + 1: "That CTA has begun and computes its own tile.",
        place: "Requests count from 0, and the first of them brings the first CTA that has not begun.",
        begun: "An earlier request has taken that one.",
        tiles - 1: "Others that have not begun come before it.",
    }
    return number(
        f"{tiles} CTAs, one per tile; CTAs 0 to {begun - 1} have begun. These ask for another tile, in this "
        f"order: CTA {', '.join(map(str, requests))}. If the hardware cancels the lowest number that has not "
        "begun, which tile does the last request bring?",
        right,
        {tile: words for tile, words in wrong.items() if 0 <= tile < tiles},
        f"The requests bring tiles {', '.join(map(str, brought))}, whoever asks.",
        lambda answer: (
            Row.each(
                "tile", range(tiles), look=lambda t: "wgmma" if t < begun else "load" * (t in brought),
                here=[answer],
            ),
            Row.each("asks", range(len(requests)), lambda i: f"CTA {requests[i]}"),
            Row.each("brings", range(len(requests)), lambda i: answer if i == place else brought[i],
                     here=[place]),
            Row.one("last", answer, "fault" * (answer != right), True),
        ),
        99,
    )  # fmt: skip


# A ring of accumulators


def ring_columns(rng: Random) -> Question:
    count, block_n = rng.choice((2, 2, 3, 4)), rng.choice((48, 64, 80, 96, 128))
    need = count * block_n
    right = least_allocation(need)
    return number(
        f"{count} accumulators of 128 x {block_n} in fp32 form a ring, in one allocation. How many columns "
        "does it have?",
        right,
        {
            need: "They fit, but an allocation has a power of two of columns.",
            block_n: "That is one of them.",
            least_allocation(block_n): "That is one of them.",
            count * least_allocation(block_n): "The power of two is of the whole, and not of each.",
            right // 2: f"{need} columns do not fit there.",
            right * 2: "Half as many are enough.",
            COLUMNS: "That leaves none to another CTA of the SM.",
        },
        f"{count} x {block_n} = {need}, and the next power of two from 32 on is {right}.",
        lambda answer: (
            Row.each("acc", range(count), lambda a: f"{a * block_n} to {a * block_n + block_n - 1}", "wgmma"),
            Row.each("may be", SIZES, look=lambda n: "load" * (n >= need), here=[answer]),
            Row.one("allocated", answer, "fault" * (answer < need), True),
        ),
        9999,
    )


def columns_of_tile(rng: Random) -> Question:
    count, block_n = rng.choice((2, 3, 4)), rng.choice((64, 96, 128))
    tile = rng.randrange(count, 5 * count)
    acc, _ = ring.place(tile, count)
    right = acc * block_n
    wrong = {
        tile * block_n: "The ring comes around: columns are used again.",
        acc: "That is the accumulator; each has as many columns as D's tile.",
        (tile + 1) % count * block_n: "Tiles count from 0.",
        tile // count % count * block_n: "That is by the round of the ring, and not by the place in it.",
        right + block_n - 1: "That is its last column.",
    }
    return number(
        f"A ring of {count} accumulators of 128 x {block_n} begins at column 0. At which column does the "
        f"accumulator of a CTA's tile {tile} begin? Tiles count from 0.",
        right,
        {column: words for column, words in wrong.items() if column >= 0},
        f"{tile} % {count} = {acc}, and {acc} x {block_n} = {right}.",
        lambda answer: (
            Row.each("tile", range(tile - count, tile + 1), here=[tile]),
            Row.each("acc", range(tile - count, tile + 1), lambda t: t % count, "wgmma", [tile]),
            Row.one("column", answer, "fault" * (answer != right), True),
        ),
        9999,
    )


def parity_of_tile(rng: Random) -> Question:
    count, tile = rng.choice((2, 2, 3)), rng.randrange(2, 12)
    acc, parity = ring.place(tile, count)
    role = rng.choice(("epilogue", "MMA warp"))
    if role == "MMA warp":  # waits for the release of the round before
        parity = 1 - parity
    barrier = {"epilogue": "acc_full", "MMA warp": "acc_empty"}[role]
    wrong = {
        (acc, 1 - parity): "acc_full is waited for by the parity of the round, acc_empty by the other one."
        if role == "epilogue"
        else "The MMA warp waits for the round before: in round 0 for parity 1, which passes.",
        (acc, tile & 1): "The parity follows the round of the ring, and not the tile.",
        ((acc + 1) % count, parity): "Tiles count from 0, and so do accumulators.",
        ((acc + 1) % count, 1 - parity): "That is one tile off, and one round.",
    }
    return choice(
        f"A ring of {count} accumulators. Which accumulator's {barrier} does the {role} wait on for a CTA's "
        f"tile {tile}, and by which parity? All count from 0.",
        (acc, parity),
        wrong,
        f"{tile} = {tile // count} x {count} + {acc}: accumulator {acc}, round {tile // count}"
        + (", whose parity it is." if role == "epilogue" else "; the round before has the other parity."),
        lambda answer: ring.line(tile, count, answer),
        rng,
        lambda one: f"{barrier}[{one[0]}], parity {one[1]}",
    )


# Roles


class Roles:
    """The three roles of step 7 on mbarriers of the drills: TMA lands, and MMAs are over, at once. ``idle``
    roles do nothing.
    """

    def __init__(self, k_tiles: int, stages: int, accs: int, idle: frozenset[str] = frozenset()) -> None:
        self.k_tiles, self.stages, self.accs, self.tiles = k_tiles, stages, accs, 4 * accs
        self.barriers = {
            **{f"full[{s}]": Barrier(1) for s in range(stages)},
            **{f"empty[{s}]": Barrier(1) for s in range(stages)},
            **{f"acc_full[{a}]": Barrier(1) for a in range(accs)},
            **{f"acc_empty[{a}]": Barrier(EPILOGUE) for a in range(accs)},
        }
        self.arrivals = dict.fromkeys(self.barriers, 0)
        runs = {"load warp": self._load, "MMA warp": self._multiply, "epilogue": self._store}
        self.at = {}  # the barrier that each role waits on
        working = {role: run() for role, run in runs.items() if role not in idle}
        waits = {role: next(run) for role, run in working.items()}
        while free := [role for role, (name, parity) in waits.items() if self.barriers[name].passes(parity)]:
            try:
                waits[free[0]] = next(working[free[0]])
            except StopIteration:
                del waits[free[0]]
        self.at = {role: name for role, (name, _) in waits.items()}

    def _arrive(self, name: str, times: int = 1) -> None:
        self.barriers[name].arrive(times)
        self.arrivals[name] += times

    def _load(self) -> Iterator[tuple[str, int]]:
        for it in range(self.tiles * self.k_tiles):
            stage, parity = ring.place(it, self.stages)
            yield f"empty[{stage}]", 1 - parity
            self._arrive(f"full[{stage}]")

    def _multiply(self) -> Iterator[tuple[str, int]]:
        for tile in range(self.tiles):
            acc, parity = ring.place(tile, self.accs)
            yield f"acc_empty[{acc}]", 1 - parity
            for it in range(tile * self.k_tiles, (tile + 1) * self.k_tiles):
                stage, parity = ring.place(it, self.stages)
                yield f"full[{stage}]", parity
                self._arrive(f"empty[{stage}]")
            self._arrive(f"acc_full[{acc}]")

    def _store(self) -> Iterator[tuple[str, int]]:
        for tile in range(self.tiles):
            acc, parity = ring.place(tile, self.accs)
            yield f"acc_full[{acc}]", parity
            self._arrive(f"acc_empty[{acc}]", EPILOGUE)


def blocks_on(rng: Random) -> Question:
    k_tiles, stages, accs = rng.choice((3, 5, 7)), rng.choice((2, 3, 4)), rng.choice((2, 3))
    late = rng.choice(ROLES)
    role = rng.choice([one for one in ROLES if one != late])
    found = Roles(k_tiles, stages, accs, frozenset({late}))
    right = found.at[role]
    reasons = {
        "load warp": "it loads until every stage is full, and then needs a stage to be released.",
        "MMA warp": "nothing has landed."
        if late == "load warp"
        else f"it has filled {accs} accumulators, and none has been read.",
        "epilogue": "no accumulator is complete.",
    }
    stage = ring.place(accs * k_tiles, stages)[0]
    options = ("full[0]", "empty[0]", "acc_full[0]", "acc_empty[0]", f"empty[{stage}]", f"full[{stage}]")
    wrong = {
        name: "The first wait on it passes: its parity is 1."
        if name.startswith(("empty", "acc_empty")) and not right.startswith(name.partition("[")[0])
        else "That is a different stage."
        if name.partition("[")[0] == right.partition("[")[0]
        else "This role does not wait there, or its phase has completed."
        for name in options
    }
    return choice(
        f"Three roles, {stages} stages, {accs} accumulators, {k_tiles} K tiles per tile of D. The {late} has "
        f"not begun; the others run as far as they can. On which barrier does the {role} stop?",
        right,
        wrong,
        f"{right}: {reasons[role]}",
        lambda answer: (
            *(Row.one(one, found.at.get(one, "has not begun"), "wait" * (one != late)) for one in ROLES),
            Row.one("answer", answer, "fault" * (answer != right), True),
        ),
        rng,
    )


def arrivals_of_tiles(rng: Random) -> Question:
    k_tiles, stages, accs = rng.choice((3, 5, 6, 8)), rng.choice((2, 3, 4)), rng.choice((2, 3))
    kind = rng.choice(("full", "empty", "acc_full", "acc_empty"))
    found = Roles(k_tiles, stages, accs)
    tiles = found.tiles
    right = sum(times for name, times in found.arrivals.items() if name.partition("[")[0] == kind)
    what = {
        "full": "full, of all stages",
        "empty": "empty, of all stages",
        "acc_full": "acc_full, of all accumulators",
        "acc_empty": "acc_empty, of all accumulators",
    }[kind]
    wrong = {
        tiles: "Stages are filled and released once per K tile.",
        tiles * k_tiles: "Accumulators are passed on once per tile of D.",
        EPILOGUE * tiles: "A commit, or the load warp, is one arrival.",
        4 * tiles: "The solution's epilogue arrives with every thread.",
        tiles * k_tiles * 4: "MMAs do not arrive; their commit does.",
        EPILOGUE: "That is one tile of D.",
    }
    return number(
        f"Step 7's roles compute {tiles} tiles of D, each of {k_tiles} K tiles, with {stages} stages and "
        f"{accs} accumulators. How many arrivals come to {what}?",
        right,
        wrong,
        f"{right:,}: " + {
            "full": "one thread of the load warp per K tile.",
            "empty": "one commit per K tile.",
            "acc_full": "one commit per tile of D.",
            "acc_empty": f"{EPILOGUE} threads per tile of D.",
        }[kind],
        lambda answer: (
            Row.one("tiles of D", tiles, "wgmma"),
            Row.one("K tiles", tiles * k_tiles, "load"),
            Row.one("arrivals", f"{answer:,}", "fault" * (answer != right), True),
        ),
        99_999,
    )  # fmt: skip


# Deeper


def furthest_load(rng: Random) -> Question:
    stages, over = rng.choice((2, 3, 4, 6)), rng.randrange(2, 20)
    right = over + stages
    return number(
        f"{stages} stages. The commit of K tile {over} is the last that has arrived; K tiles count from 0, "
        "without a break. What is the highest K tile whose load may be issued now?",
        right,
        {
            over + stages - 1: f"The stage of K tile {over} is free too.",
            over + stages + 1: f"Its stage still holds K tile {over + 1}.",
            over + 1: "That one has been loaded long since: the load warp runs ahead.",
            over: "That one has been multiplied.",
            stages: "That is the number of stages.",
        },
        f"K tile {right} goes where K tile {over} was: {over} + {stages}.",
        lambda answer: (
            Row.each("K tile", range(over, over + stages + 2), look="load", here=[answer]),
            Row.each("stage", range(over, over + stages + 2), lambda k: k % stages, here=[answer]),
            Row.one("loads up to", answer, "fault" * (answer != right), True),
        ),
    )


def queued(rng: Random) -> Question:
    stages, over = rng.choice((3, 4, 4, 5)), rng.randrange(2, 20)
    landed = over + rng.randrange(1, stages + 1)
    right = landed - over
    each = 4  # MMAs of a K tile of 64, in fp16
    return number(
        f"{stages} stages. K tiles up to {landed} have landed, and the commit of K tile {over} is the last "
        f"that has arrived. A K tile takes {each} MMAs. How many MMAs may be issued and not over?",
        each * right,
        {
            right: f"Those are K tiles; each has {each} MMAs.",
            each: "The MMA warp does not wait for the K tile before.",
            each * stages: "Not every stage has landed.",
            each * (right + 1): f"K tile {over} is over.",
            each * landed: "Most of those are over.",
            0: "The MMA warp issues what has landed, and waits for none of it.",
        },
        f"K tiles {over + 1} to {landed}, of {each} MMAs each.",
        lambda answer: (
            Row.each(
                "K tile",
                range(over, over + stages + 1),
                look=lambda k: "wait" if k <= over else "wgmma" * (k <= landed),
            ),
            Row.one("MMAs", answer, "fault" * (answer != each * right), True),
        ),
    )


def stages_beside_D(rng: Random) -> Question:
    block_m, block_n = rng.choice(((128, 128), (128, 256), (128, 192), (128, 64)))
    out = rng.choice((16, 32, 64))
    stage = (block_m + block_n) * 64 * 2 // KIB
    room = BLACKWELL.shared // KIB
    right = (room - out) // stage
    return number(
        f"A CTA's shared memory has {room} KiB. A stage holds {block_m} x 64 of A and {block_n} x 64 of B, "
        f"in fp16; D_shared takes {out} KiB, and the accumulators are in tensor memory. How many stages fit?",
        right,
        {
            room // stage: "D_shared needs room too.",
            (room - out - block_m * block_n * 4 // KIB) // stage: "Accumulators take none of it.",
            right + 1: "The last one does not fit.",
            right - 1: "One more fits.",
            2 * right: "fp16 takes two bytes, and a stage holds A and B.",
        },
        f"({room} - {out}) / {stage} = {(room - out) / stage:.2f}.",
        lambda answer: stages_in(room, answer, stage, out),
        99,
    )


def barriers_of(rng: Random) -> Question:
    stages, accs = rng.randrange(2, 8), rng.randrange(1, 4)
    right = len(Roles(1, stages, accs, frozenset(ROLES)).barriers)
    return number(
        f"Three roles, {stages} stages and a ring of {accs} accumulator{'s' * (accs > 1)}. How many "
        "mbarriers does a CTA initialise?",
        right,
        {
            2 * stages: "Accumulators are passed on by barriers too.",
            stages + accs: "Each needs one for either way: full and empty.",
            2 * stages + accs: "An accumulator has to be released too.",
            stages + 2 * accs: "A stage has to be released too.",
            3 * (stages + accs): "Barriers are per stage, and not per role.",
        },
        f"Two for each of {stages} stages, two for each of {accs}: {right}.",
        lambda answer: (
            Row.each("full, empty", range(stages), lambda s: "2", "load"),
            Row.each("acc_full, acc_empty", range(accs), lambda a: "2", "wgmma"),
            Row.one("mbarriers", answer, "fault" * (answer != right), True),
        ),
    )
