"""A ring of stages in time: the producer fills, the consumer frees, with and without asking ahead.

A tick is no clock: a load takes three, a multiplication one, so that two, three and four stages all differ.
"""

from __future__ import annotations

from typing import NamedTuple

from course_utils.figures.moving.still import Cell, Row

TILES, LOAD, MULTIPLY = 8, 3, 1  # K tiles; ticks
STAGES = (2, 3, 4)
ORDERS = {"wait": "One after the other: ask, wait, multiply", "ahead": "Ask ahead"}
LOADING, READY, MULTIPLIED, FREE, EMPTY = range(5)


class Tile(NamedTuple):
    """The ticks at which a K tile is asked for, has landed, is multiplied, and is over."""

    asked: int
    landed: int
    begun: int
    over: int


def times(stages: int, ahead: bool) -> list[Tile]:
    """Each K tile's ticks. ``ahead``: asked for when its stage is free, else when the one before is over."""
    made: list[Tile] = []
    for tile in range(TILES):
        before = made[-1].over if made else 0
        free = made[tile - stages].over if tile >= stages else 0
        asked = free if ahead else before
        landed = asked + LOAD
        begun = max(landed, before)
        made.append(Tile(asked, landed, begun, begun + MULTIPLY))
    return made


def place(tile: int, stages: int) -> tuple[int, int]:
    """Stage of a K tile, and the parity that its wait on full names."""
    return tile % stages, tile // stages & 1


def frame(made: list[Tile], stages: int, tick: int) -> dict:
    """What each stage holds in a tick, the phases of its barriers, and where both roles are.

    ``slots``: tile (or -1), state, phase of full, phase of empty. ``producer``, ``consumer``: the next tile,
    its stage, the parity of the wait (on empty, on full), and whether the consumer multiplies; None when all
    is done.
    """
    slots = []
    for stage in range(stages):
        mine = range(stage, TILES, stages)
        asked = [tile for tile in mine if made[tile].asked <= tick]
        over = sum(made[tile].over <= tick for tile in mine)
        landed = sum(made[tile].landed <= tick for tile in mine)
        slots.append(
            (asked[-1] if asked else -1, _state(made[asked[-1]], tick) if asked else EMPTY, landed, over)
        )
    asks, done = (sum(getattr(one, end) <= tick for one in made) for end in ("asked", "over"))
    producer = consumer = None
    if asks < TILES:
        stage, parity = place(asks, stages)
        producer = (asks, stage, 1 - parity)
    if done < TILES:
        consumer = (done, *place(done, stages), int(made[done].begun <= tick))
    return {"slots": slots, "producer": producer, "consumer": consumer}


def _state(tile: Tile, tick: int) -> int:
    return sum(end <= tick for end in (tile.landed, tile.begun, tile.over))


def rows(made: list[Tile], stages: int) -> list[Row]:
    """A row for each stage, and one for the tensor cores."""
    lanes = []
    for stage in range(stages):
        cells = []
        for tile in range(stage, TILES, stages):
            one = made[tile]
            cells.append(Cell(one.asked, one.landed, f"load {tile}", "blue"))
            if one.begun > one.landed:
                cells.append(Cell(one.landed, one.begun, f"ready {tile}", "teal"))
            cells.append(Cell(one.begun, one.over, str(tile), "green"))
        lanes.append(Row(f"stage {stage}", tuple(cells)))
    busy = tuple(Cell(one.begun, one.over, str(tile), "green") for tile, one in enumerate(made))
    return [*lanes, Row("tensor cores", busy)]


def run(stages: int, ahead: bool) -> dict:
    """One order of asking: its rows, and a frame for each tick."""
    made = times(stages, ahead)
    ticks = made[-1].over
    return {
        "rows": rows(made, stages),
        "ticks": ticks,
        "frames": [frame(made, stages, tick) for tick in range(ticks + 1)],
    }


def figure(stages: int = 4, empty: bool = True) -> dict:
    """A ring that begins with so many stages (2 to 4). ``empty=False`` leaves the empty barriers out."""
    if type(stages) is not int or stages not in STAGES:
        raise ValueError(f"stages is 2, 3 or 4, not {stages!r}")
    if type(empty) is not bool:
        raise ValueError(f"empty is True or False, not {empty!r}")
    runs = {str(count): [run(count, order == "ahead") for order in ORDERS] for count in STAGES}
    first = runs[str(stages)]
    still = [
        row for name, one in zip(ORDERS.values(), first, strict=True) for row in (Row(name), *one["rows"])
    ]
    slow, fast = (one["ticks"] for one in first)
    return {
        "title": "A ring: the producer fills, the consumer frees",
        "words": f"{TILES} K tiles and {stages} stages; a load takes {LOAD} ticks, a multiplication "
        f"{MULTIPLY}. One after the other takes {slow} ticks, loading ahead {fast}.",
        "rows": still,
        "controls": [{"name": "stages", "kind": "choice", "value": str(stages), "of": list(runs)}],
        "orders": list(ORDERS.values()),
        "empty": empty,
        "tiles": TILES,
        "runs": runs,
        "steps": max(one["ticks"] for pair in runs.values() for one in pair) + 1,
    }
