"""Questions on the ring: stage and parity of a K tile, what a stage holds, and who gives back what."""

from __future__ import annotations

from random import Random

from course_utils.drills.barriers import Barrier
from course_utils.drills.question import Cell, Picture, Question, Row, choice, number

MOST_SHOWN = 12  # K tiles in a picture


def place(tile: int, stages: int) -> tuple[int, int]:
    """Stage and parity of K tile ``tile``, counted without a break: the formulas of steps 5 to 10."""
    return tile % stages, tile // stages & 1


def holds(newest: int, stages: int) -> dict[int, int]:
    """Which K tile each stage holds, or is being filled with, once tile ``newest`` has been asked for."""
    held = {}
    for tile in range(newest + 1):
        held[place(tile, stages)[0]] = tile
    return held


def line(tile: int, stages: int, answer: tuple[int, int]) -> Picture:
    """The K tiles around one, their stages and parities, and the answer in its place."""
    first = max(0, min(tile - stages, tile - MOST_SHOWN // 2))
    shown = range(first, max(tile + 2, first + 6))
    places = {one: answer if one == tile else place(one, stages) for one in shown}
    return (
        Row.each("K tile", shown, here=[tile]),
        Row.each("stage", shown, lambda one: places[one][0], "load", [tile]),
        Row.each("parity", shown, lambda one: places[one][1], "wait", [tile]),
    )


def boxes(held: dict[int, int], stages: int, marked: int, text: str | None = None) -> Picture:
    """The stages and what they hold; ``text`` stands in the marked one."""
    words = {stage: f"tile {held[stage]}" if stage in held else "empty" for stage in range(stages)}
    if text is not None:
        words[marked] = text
    return (
        Row.each("stage", words, here=[marked]),
        Row.each("holds", words, lambda stage: words[stage], "load", [marked]),
    )


def stage_and_parity(rng: Random) -> Question:
    stages = rng.choice((2, 2, 3, 4))
    tile = rng.randrange(stages, 5 * stages)
    stage, parity = right = place(tile, stages)
    wrong = {
        (stage, tile & 1): "k & 1 is right for one barrier; each of these sees every "
        f"{stages}{'nd' if stages == 2 else 'rd' if stages == 3 else 'th'} tile.",
        (stage, 1 - parity): "That is one round of the ring off.",
        ((stage + 1) % stages, parity): "That counts stages from 1.",
        (tile // stages % stages, stage & 1): "Remainder and quotient have changed places.",
        ((stage + 1) % stages, 1 - parity): "That is one tile and one round off.",
    }
    return choice(
        f"A ring of {stages} stages, each with a full barrier of its own. For K tile {tile}: which stage, "
        "and which parity does its wait name?",
        right,
        wrong,
        f"{tile} = {tile // stages} x {stages} + {stage}: stage {stage}, round {tile // stages}, and its "
        f"parity is {parity}.",
        lambda answer: line(tile, stages, answer),
        rng,
        lambda one: f"stage {one[0]}, parity {one[1]}",
    )


def ring_holds(rng: Random) -> Question:
    stages = rng.choice((2, 3, 4))
    newest = rng.randrange(stages, 4 * stages + 2)
    held = holds(newest, stages)
    stage = rng.choice([one for one in held if held[one] != newest])
    right = held[stage]
    return number(
        f"A ring of {stages} stages; K tiles go around it in order. The load of tile {newest} has just been "
        f"issued. Which tile is in stage {stage}, landed or in flight?",
        right,
        {
            newest: f"Tile {newest} went to stage {newest % stages}.",
            right - stages: "That one was there a round before, and is overwritten.",
            right + stages: "That one comes next, and its load is not issued yet.",
            stage: "That one was there in round 0.",
        },
        f"Stage {stage} takes every tile with {stage} left over from {stages}; the last up to {newest} is "
        f"{right}.",
        lambda answer: boxes(held, stages, stage, f"tile {answer}"),
    )


def multiplied_in_step(rng: Random) -> Question:
    stages, k_tiles = rng.choice((2, 2, 3, 4)), rng.randrange(5, 12)
    step = rng.randrange(stages - 1, k_tiles + stages - 1)
    right = step - (stages - 1)
    asked = f"issues the load of tile {step}" if step < k_tiles else "issues no load"

    def draw(answer: int) -> Picture:
        steps = range(max(0, step - 3), step + 2)
        return (
            Row.each("step", steps, here=[step]),
            Row.each("loads", steps, lambda one: str(one) if one < k_tiles else "-", "load"),
            Row.each(
                "multiplies",
                steps,
                lambda one: str(one - step + answer) if 0 <= one - step + answer < k_tiles else "-",
                "wgmma",
                [step],
            ),
        )

    return number(
        f"{k_tiles} K tiles, {stages} stages. Step i issues the load of tile i and multiplies the one issued "
        f"{stages - 1} step{'s' * (stages > 2)} ago. Step {step} {asked}. Which tile does it multiply?",
        right,
        {
            step: "The load of that tile has only just been issued.",
            step
            - stages: "That is one too far back: a load has the time of one step less than there are stages.",
            k_tiles - 1: "That is the last tile, which the last step multiplies.",
            right + 1: "That is one step ahead.",
        },
        f"{step} - {stages - 1} = {right}.",
        draw,
    )


def old_formula(rng: Random) -> Question:
    stages = rng.choice((2, 3, 4))
    tile = rng.randrange(1, 4 * stages)
    stage, parity = place(tile, stages)
    landed = rng.random() < 0.5
    barrier = Barrier(1, tile // stages + landed)
    passes = barrier.passes(tile & 1)
    right = (
        ("it passes, and rightly" if landed else "it passes before the tile is there")
        if passes
        else ("it waits for a later tile" if landed else "it blocks, and rightly")
    )
    wrong = {
        "it passes, and rightly": "Compare the parity with the phase that must be over.",
        "it passes before the tile is there": "A wait passes if the current phase has the other parity.",
        "it waits for a later tile": "A wait blocks only in a phase of its own parity.",
        "it blocks, and rightly": "A wait blocks only in a phase of its own parity.",
    }
    there = "has landed" if landed else "has not landed"
    return choice(
        f"A ring of {stages} stages, and a wait for K tile {tile} at full[{stage}] that names parity k & 1. "
        f"The tile {there}. What does the wait do?",
        right,
        {name: words for name, words in wrong.items() if name != right},
        f"full[{stage}] is in phase {barrier.phase}, and the wait names parity {tile & 1}. Tile {tile} comes "
        f"in round {tile // stages} of the ring, which has parity {parity}.",
        lambda answer: (
            Row.one("phase now", f"{barrier.phase}, parity {barrier.phase & 1}"),
            Row.one("wait", f"parity {tile & 1}", "wait"),
            Row.one("so", answer, here=True),
        ),
        rng,
    )


def across_tiles(rng: Random) -> Question:
    stages, k_tiles = rng.choice((2, 2, 3, 4)), rng.randrange(2, 8)
    turn, k = rng.randrange(1, 4), rng.randrange(k_tiles)
    count = turn * k_tiles + k
    right = place(count, stages)
    nth = ("first", "second", "third", "fourth")[turn]
    wrong = {
        place(k, stages): "The ring does not begin anew with a tile of D.",
        (right[0], 1 - right[1]): "That is one round of the ring off.",
        place(count + 1, stages): "That is one K tile too far: K tiles count from 0.",
        place(count - k_tiles, stages): "That is the same K tile of the tile of D before.",
        (right[0], count & 1): "The parity flips once a round of the ring, not with every K tile.",
        ((right[0] + 1) % stages, 1 - right[1]): "That is one stage and one round off.",
    }
    return choice(
        f"A persistent CTA, {stages} stages, {k_tiles} K tiles for each tile of D. K tile {k} of its {nth} "
        "tile of D: which stage and parity?",
        right,
        wrong,
        f"It has been through {turn} x {k_tiles} K tiles, so this is number {count} = {count // stages} x "
        f"{stages} + {right[0]}.",
        lambda answer: line(count, stages, answer),
        rng,
        lambda one: f"stage {one[0]}, parity {one[1]}",
    )


def unnoticed(k_tiles: int, stages: int) -> bool:
    """Does nobody notice that stage and parity begin anew at each tile of D?"""
    return place(k_tiles, stages) == place(0, stages)


def restart(rng: Random) -> Question:
    stages = rng.choice((2, 2, 3, 4))
    fine = 2 * stages * rng.randrange(1, 6)
    bad = [fine + 1, fine + stages, fine + stages // 2 + 1, fine - 1]
    there = {one: unnoticed(one, stages) for one in (fine, *bad)}
    (right,) = (one for one in there if there[one])

    def reason(one: int) -> str:
        stage, parity = place(one, stages)
        return (
            f"After {one} K tiles the ring is at stage {stage}, and the next tile begins at 0."
            if stage
            else f"After {one} K tiles the stage is 0 again, and the parity is {parity}."
        )

    return choice(
        f"A persistent kernel resets stage and parity to 0 at each tile of D. Its ring has {stages} "
        "stages. With how many K tiles is D still right?",
        right,
        {one: reason(one) for one in there if one != right},
        f"{right} K tiles are {right // stages} rounds of {stages}, an even number: stage and parity are "
        "where they began.",
        lambda answer: (
            Row.one("K tiles", answer, here=True),
            *(
                Row.one(f"then {name}", one, "fault" if one else look)
                for name, look, one in zip(
                    ("stage", "parity"), ("load", "wait"), place(answer, stages), strict=True
                )
            ),
        ),
        rng,
    )


def over_after_wait(rng: Random) -> Question:
    issued, left = rng.randrange(4, 15), rng.choice((0, 1, 1, 2))
    right = issued - left
    return number(
        f"A consumer has issued the products of K tiles 0 to {issued}, each a group of its own. "
        f"wait_wgmma({left}) returns. Up to which K tile are the products surely over?",
        right,
        {
            issued: "The newest may still run." if left else "",
            left: "The number says how many may still run, not which is over.",
            issued - left - 1: "That is one too careful: at most that many of the newest may run.",
            issued + 1: "Nobody has issued that one.",
        },
        f"Only the {'newest' if left == 1 else '2 newest'} may still run: {issued} - {left} = {right}."
        if left
        else f"None may still run, so {issued} is over too.",
        lambda answer: (
            Row.each("K tile", range(max(0, issued - 4), issued + 1), here=[answer]),
            Row.each(
                "",
                range(max(0, issued - 4), issued + 1),
                lambda one: "over" if one <= answer else "runs" if one <= issued else "",
                lambda one: "wgmma" * (answer < one <= issued),
            ),
        ),
    )


def free_stage(rng: Random) -> Question:
    stages, left = rng.choice((3, 4, 4, 6)), rng.choice((0, 1, 1))
    tile = rng.randrange(stages, 4 * stages)
    right = (tile - left) % stages
    return number(
        f"A ring of {stages} stages. The product of K tile {tile} has just been issued, and "
        f"wait_wgmma({left}) has returned. Which stage is the newest that may be released?",
        right,
        {
            tile % stages: f"That is the stage of tile {tile}, which may still be read.",
            (tile - left - 1) % stages: "That one was free a round before.",
            (tile + 1) % stages: "That is the stage of the next tile.",
        },
        f"Tile {tile - left} is the newest that is surely over, and {tile - left} % {stages} = {right}.",
        lambda answer: boxes(holds(tile, stages), stages, answer),
        99,
    )


def releases(rng: Random) -> Question:
    k_tiles, late, early = rng.randrange(1, 12), rng.random() < 0.5, rng.random() < 0.35
    condition = "in every round but the first" if late else "in every round"
    after = "once more after it" if not early else "not after it"
    loop = sum(1 for k in range(k_tiles) if k > 0 or not late)
    right = loop + (not early)
    said = (
        "That is right: as many as K tiles."
        if right == k_tiles
        else "That is one too many, and a stage is released twice."
        if right > k_tiles
        else "That is one too few, and the producer soon waits forever."
    )
    return number(
        f"A tile of D has {k_tiles} K tile{'s' * (k_tiles > 1)}. The consumer releases a stage {condition} "
        f"of the loop over k, and {after}. How many stages does it release?",
        right,
        {
            k_tiles: "It ought to be as many as K tiles; count what this one does.",
            k_tiles - 1: "Count the first round and the end.",
            k_tiles + 1: "Count the first round and the end.",
        },
        f"{loop} in the loop and {int(not early)} after it, for {k_tiles} K tile{'s' * (k_tiles > 1)}. "
        f"{said}",
        lambda answer: (
            Row.each("K tiles", range(k_tiles), look="load"),
            Row.each("given back", range(min(answer, 14)), look="wait"),
        ),
        99,
    )


def time_of_a_load(rng: Random) -> Question:
    stages = rng.choice((2, 3, 4, 5, 6))
    clocks = rng.choice((256, 512, 512, 1024))
    right = (stages - 1) * clocks
    return number(
        f"A ring of {stages} stages, and one K tile keeps the tensor cores busy for {clocks} clocks. How "
        "many clocks may a load take before the consumer has to wait?",
        right,
        {
            stages
            * clocks: "A stage is filled anew when its own tile has been multiplied: that time is gone.",
            clocks: "That is one K tile; more stages let it start earlier.",
            (stages - 2) * clocks: "That is one K tile too few.",
        },
        f"A load is issued when tile k - {stages} is over and needed when k - 1 is: {stages - 1} K tiles of "
        f"{clocks} clocks.",
        lambda answer: (
            Row(
                "multiplied",
                tuple(Cell(f"k - {stages - i}", "wgmma") for i in range(stages))
                + (Cell("k", "wgmma", True),),
            ),
            Row(
                "load of k",
                (Cell("ask"),)
                + tuple(Cell("", "load" if i < answer / clocks else "") for i in range(stages - 1))
                + (Cell("late" if answer > right else "there", "fault" * (answer > right)),),
            ),
        ),
        99_999,
    )


def may_fill(rng: Random) -> Question:
    stages = rng.choice((2, 3, 4, 6))
    given = rng.randrange(1, 4 * stages)
    right = given + stages - 1
    return number(
        f"A ring of {stages} stages. The consumer has released the stages of K tiles 0 to {given - 1}, and "
        "no more. What is the last K tile that the producer may load?",
        right,
        {
            given + stages: "Its stage still holds a tile that nobody released.",
            given: "The ring has more stages than one.",
            given - 1: "That one has been multiplied long ago.",
            given - 1 + stages - 1: "There is one more free stage.",
            stages - 1: "That is the first round; stages have come back since.",
        },
        f"{stages} tiles are in flight at most: {given} to {right}.",
        lambda answer: boxes(holds(min(answer, 999), stages), stages, answer % stages),
    )
