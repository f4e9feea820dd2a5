"""Drills on accumulators, roles and the hardware's scheduler: the answers counted a second time, from the
question's text alone.
"""

import re

import pytest

from course_utils.drills import accumulators, deck
from course_utils.drills.deck import DECK

SEEDS = 40


def numbers(text):
    return [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text)]


def drawn(function):
    """The questions of a drill, from its first notebook."""
    notebook = next(name for name, drills in DECK.items() if function in drills)
    return [deck.question(notebook, DECK[notebook].index(function) + 1, seed) for seed in range(SEEDS)]


def power(columns):
    return next(n for n in (32, 64, 128, 256, 512) if n >= columns)


def once(text):
    return power(numbers(text)[2])


def all_of_them(text):
    count, _, columns = numbers(text)[:3]
    return power(count * columns)


def begins(text):
    count, _, columns, _, tile = numbers(text)[:5]
    turns = list(range(count)) * (tile + 1)
    return turns[tile] * columns


def handed_out(text):
    begun = int(re.search(r"CTAs 0 to (\d+) have", text)[1]) + 1
    asked = re.search(r"order: CTA ([\d, ]+)\.", text)[1].split(", ")
    return begun + len(asked) - 1


def arrivals(text):
    _, tiles, k_tiles = numbers(text)[:3]
    barrier = re.search(r"come to (\w+),", text)[1]
    return {"acc_full": tiles, "acc_empty": tiles * 128}.get(barrier, tiles * k_tiles)


def ahead(text):
    stages, over = numbers(text)[:2]
    return max(k for k in range(over + 20) if k - stages <= over)


def not_over(text):
    _, landed, over, each = numbers(text)[:4]
    return each * len(range(over + 1, landed + 1))


def pairs(text):
    return 2 * sum(numbers(text)[:2])


@pytest.mark.parametrize(
    "drill, counted",
    [
        (accumulators.columns_over_tiles, once),
        (accumulators.ring_columns, all_of_them),
        (accumulators.columns_of_tile, begins),
        (accumulators.from_the_scheduler, handed_out),
        (accumulators.arrivals_of_tiles, arrivals),
        (accumulators.furthest_load, ahead),
        (accumulators.queued, not_over),
        (accumulators.barriers_of, pairs),
    ],
    ids=lambda one: one.__name__,
)
def test_a_count_from_the_text_gives_the_same_answer(drill, counted):
    for asked in drawn(drill):
        text = re.sub(r"fp\d+|Step \d", "0", asked.text) if counted is arrivals else asked.text
        assert counted(text) == asked.right, asked.text


def test_a_phase_is_as_many_commits_as_have_come_before():
    for asked in drawn(accumulators.phase_of_done):
        k_tiles, *place = numbers(asked.text)
        phase = place[1] * k_tiles + place[0] if "at K tile" in asked.text else place[0]
        assert asked.options[asked.right] == f"phase {phase}, parity {phase % 2}"


def test_the_role_that_fills_waits_by_the_other_parity():
    for asked in drawn(accumulators.parity_of_tile):
        count, tile = numbers(asked.text)[:2]
        parity = tile // count % 2 ^ ("MMA warp" in asked.text)
        assert asked.options[asked.right].endswith(f"[{tile % count}], parity {parity}")


def test_a_role_stops_at_what_the_late_one_would_have_done():
    for asked in drawn(accumulators.blocks_on):
        late, role = re.search(r"The ([\w ]+) has not begun.*does the ([\w ]+) stop", asked.text).groups()
        stages, accs, k_tiles = numbers(asked.text)[:3]
        multiplied = accs * k_tiles if late == "epilogue" else 0
        expected = {
            "load warp": f"empty[{multiplied % stages}]",
            "MMA warp": "full[0]" if late == "load warp" else "acc_empty[0]",
            "epilogue": "acc_full[0]",
        }
        assert asked.options[asked.right] == expected[role]


def test_requests_that_find_none_bring_nothing():
    assert accumulators.taken(4, 3, [0, 0, 1]) == [3, None, None]
