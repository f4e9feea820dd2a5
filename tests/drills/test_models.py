"""The small models against the emulator's own code, and answers against a count from the question's text."""

import json
import re
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.artifact import TensorMap
from course_utils.drills import barriers, deck, maps, memory, paths, ring, tiles
from course_utils.figures.tiles import order
from course_utils.recordings import measured
from course_utils.run.emulator.core.order import Order
from course_utils.run.emulator.core.probe import Probe
from course_utils.run.emulator.core.state import Holder
from course_utils.run.emulator.units.mbarrier import MBarrier, PhaseWait
from course_utils.tma.layouts import flattened, same_payload, swizzled
from course_utils.tma.rules import violations

SEEDS = 40


def nothing(*_, **__):
    """What happens around an mbarrier, and is not looked at here."""


def emulated_path():
    """One warp, in the emulator's words, with no machine around it."""
    order = Order(1)
    machine = SimpleNamespace(progress=0, probe=Probe())
    warp = Warp()
    warp.agent, warp.time, warp.clock = order.new_agent(), 0, order.clock()
    warp.tick = nothing
    cta = warp.cta = SimpleNamespace(cluster=SimpleNamespace(order=order), number=0)
    return SimpleNamespace(warp=warp, machine=machine, at=0, cta=cta, report=nothing)


class Warp(Holder):
    """A warp with what units keep on it, and nothing else."""


class Emulated:
    """The emulator's mbarrier, with one warp and nothing else around it."""

    def __init__(self, count, phases=0):
        self.path = emulated_path()
        self.barrier = MBarrier(self.path, self.path.cta, 0, count)
        for _ in range(phases):
            self.arrive(count)

    def arrive(self, times=1):
        self.barrier.arrive(self.path, times)

    def expect(self, number):
        self.barrier.expect(self.path, number)

    def land(self, number):
        self.barrier.landed(self.path, number, -1)

    def passes(self, parity):
        return PhaseWait(self.barrier, parity).holds()


EVENTS = st.lists(
    st.one_of(st.just(("arrive", 1)), st.tuples(st.sampled_from(("expect", "land")), st.integers(1, 4))),
    max_size=30,
)


@given(init=st.integers(1, 4), events=EVENTS)
@settings(max_examples=80, deadline=None)
def test_the_small_mbarrier_is_the_emulators(init, events):
    small, emulated = barriers.Barrier(init), Emulated(init)
    for event, number in events:
        if event == "arrive" and small.pending == 0:
            continue  # one too many is a finding there
        getattr(small, event)(number)
        getattr(emulated, event)(number)
        there = emulated.barrier
        assert (small.phase, small.pending, small.bytes) == (there.phase, there.pending, there.tx)
        assert [small.passes(parity) for parity in (0, 1)] == [emulated.passes(parity) for parity in (0, 1)]


@given(row=st.integers(0, 31), piece=st.integers(0, 7))
def test_a_piece_lies_where_the_whole_tiles_bytes_do(row, piece):
    bytes_ = swizzled(np.arange(32 * 128), 3)
    (first,) = np.flatnonzero(bytes_ == bytes_[row * 128 + piece * 16])
    assert first == row * 128 + piece * 16 and bytes_[first] // 128 == row
    assert memory.piece_of(row, piece, 3) == bytes_[first] % 128 // 16 == piece ^ row % 8


# What a question's text says, and a count of its answer that knows none of the drills' formulas


def ring_holds(stages, newest, stage):
    slots = {}
    for tile, slot in zip(range(newest + 1), (slot for _ in count() for slot in range(stages)), strict=False):
        slots[slot] = tile
    return slots[stage]


def wait_of(stages, tile):
    """Stage of a tile, and the parity whose wait blocks before it lands and passes after."""
    full = [Emulated(1) for _ in range(stages)]
    for earlier in range(tile):
        full[earlier % stages].arrive()
    stage = tile % stages
    parity = next(one for one in (0, 1) if not full[stage].passes(one))
    full[stage].arrive()
    assert full[stage].passes(parity)
    return f"stage {stage}, parity {parity}"


def may_ask(stages, last_free):
    free = stages + last_free + 1  # a stage at the beginning, and again for each that came back
    return free - 1


def waves(tiles_, workers):
    rounds = 0
    while tiles_ > 0:
        tiles_, rounds = tiles_ - workers, rounds + 1
    return rounds


def idle(tiles_, workers):
    while tiles_ > workers:
        tiles_ -= workers
    return workers - tiles_


def multiplied(k_tiles, stages, _, step):
    asked = list(range(k_tiles)) + [None] * stages
    return ([None] * (stages - 1) + asked)[step]


def flatten(slabs, rows, y, z):
    places = [(slab, row) for slab in range(slabs) for row in range(rows)]
    return places.index((z, y))


def over(rows, tall, y, z, _):
    beyond = sum(row // rows == z + 1 for row in range(z * rows + y, z * rows + y + tall))
    natural = TensorMap(6, (64, rows, 4), (128, 128 * rows), (64, tall, 1), (1, 1, 1), swizzle=3)
    if tall <= rows:  # the course's own count of every element
        assert same_payload(natural, flattened(natural), (0, y, z), (0, z * rows + y)) == (beyond == 0)
    return beyond


def accumulate(*words):
    total = 0
    for sign, product in re.findall(r"([=+])(\d)", words[0]):
        total = int(product) + (total if sign == "+" else 0)
    return total


def lies(tiles_m, tiles_n, panel, number):
    taken = []
    for left in range(0, tiles_n, panel):
        taken += [(m, n) for m in range(tiles_m) for n in range(left, min(left + panel, tiles_n))]
    assert taken[number] == order(number, tiles_m, tiles_n, panel)
    return f"({taken[number][0]}, {taken[number][1]})"


def strips(tiles_m, tiles_n, panel, number, *_):
    taken = [order(tile, tiles_m, tiles_n, panel) for tile in range(number)]
    return len({m for m, _ in taken}) + len({n for _, n in taken})


def share(ctas, tiles_, *rest):
    return sum(tile % ctas == rest[-1] for tile in range(tiles_))


def wgmmas(rows, columns, depth, *shape):
    return len(
        [
            1
            for _ in range(0, rows, shape[0])
            for _ in range(0, columns, shape[1])
            for _ in range(0, depth, shape[2])
        ]
    )


def bytes_of(*sizes):
    return np.zeros(sizes[0] * sizes[1], np.float16).nbytes + np.zeros(sizes[2] * sizes[3], np.float16).nbytes


def pairs(M, N, rows, columns, at_once, clusters):
    """Waves, tile by tile: a cluster of two has ``rows`` twice, one below the other."""
    high = rows * (2 if clusters == "clusters" else 1)
    tiles_ = [(m, n) for m in range(0, M, high) for n in range(0, N, columns)]
    return len(range(0, len(tiles_), at_once))


def theirs(M, N, columns, rows, across, down):
    """Waves of cuBLAS's clusters of two, tile by tile: its name says columns first."""
    clusters = [(m, n) for m in range(0, M, rows * down) for n in range(0, N, columns * across)]
    return len(range(0, len(clusters), 66))


def landed(rows, columns, *_):
    return np.zeros((rows, columns), np.float16).nbytes


def in_the_corner(M, N, rows, columns):
    tall, wide = (size - size // tile * tile for size, tile in ((M, rows), (N, columns)))
    return np.ones((M, N), bool)[M - tall :, N - wide :].sum()


def from_row_to_row(sequence, heads, D):
    Q = np.zeros((2, sequence, heads, D), np.float16)
    return Q[:, 1].__array_interface__["data"][0] - Q.__array_interface__["data"][0]


def dealt(heads, kv_heads, head):
    return np.repeat(range(kv_heads), heads // kv_heads)[head]


def pieces(D, span):
    return len(range(0, np.zeros(D, np.float16).nbytes, span))


def zeros(rows, how, box, which):
    """The last box of one of two batches, row by row: a merged map goes on with the next batch."""
    begin, end = (0, rows) if which == "first" else (rows, 2 * rows)
    there = range(2 * rows) if how == "as one dimension" else range(begin, end)
    at = begin + (rows - 1) // box * box
    return sum(row not in there for row in range(at, at + box))


def addressable(columns, name, *_):
    size = {"fp16": 2, "fp32": 4, "8-bit": 1}[name]
    return next(one for one in count(columns) if one * size % 16 == 0)


def row_held(which, lane, warp):
    """Rows of S in a warpgroup's registers, block by block of 8 rows, of four lanes each."""
    held = [(w, 16 * w + 8 * block + row, 4 * row + n) for w in range(4) for block in range(2)
            for row in range(8) for n in range(4)]  # fmt: skip
    rows = [row for w, row, one in held if (w, one) == (warp, lane)]
    return rows[0 if which == "first" else 1]


def softmax_total(before, total, count, score):
    """Weights of keys that add up to the total, and the new keys, under the larger maximum."""
    top = max(before, score)
    return total * 2.0 ** (before - top) + sum(2.0 ** (score - top) for _ in range(count))


def registers(keys, D):
    """Numbers of each kind of a tile, divided among 128 threads, two halves to a register."""
    return 64 * keys // 128 + 64 * keys // 2 // 128 + 64 * D // 128


def ring_stages(whole, queries, D, keys):
    bytes_of = lambda rows: np.zeros((rows, D), np.float16).nbytes  # noqa: E731
    return next(n for n in count() if bytes_of(queries) + (n + 1) * 2 * bytes_of(keys) > whole)


COUNTED = [  # notebook, drill, where the numbers stand in its text, what they come to
    ("01", 1, r"(\d+) rows of A, (\d+) rows of B, (\d+) of K.*takes (\d+) x (\d+) x (\d+)", wgmmas),
    ("04", 1, r"A, (\d+) x (\d+), and one of B, (\d+) x (\d+)", bytes_of),
    ("05", 1, r"ring of (\d+) .*tile (\d+) has.*stage (\d+)", ring_holds),
    ("05", 2, r"(\d+) K tiles, (\d+) stages.*issued (\d+) step.*\. Step (\d+) issues", multiplied),
    ("05", 3, r"ring of (\d+) .*K tile (\d+)", wait_of),
    ("06", 4, r"D has (\d+) x (\d+) tiles.*panels (\d+) .*number (\d+)", lies),
    ("06", 1, r"(\d+) CTAs share (\d+) tiles.*CTA (\d+) take", share),
    ("06", 5, r"D has (\d+) x (\d+) tiles.*panels (\d+) wide\. (\d+) CTAs", strips),
    ("07", 2, r"ring of (\d+) .*tiles 0 to (\d+)", may_ask),
    ("03", 4, r"= (\d+) tiles.*?(\d+) SMs", waves),
    ("03", 5, r"D has (\d+) tiles, and (\d+) SMs", idle),
    ("10", 5, r"= (\d+) cluster tiles, and (\d+) clusters", waves),
    ("11b", 1, r"D is (\d+) x (\d+)\..* are (\d+) x (\d+); (\d+) (clusters|CTAs)", pairs),
    ("11", 2, r"box of (\d+) rows x (\d+) halves", landed),
    ("11", 3, r"D is (\d+) x (\d+), and tiles are (\d+) x (\d+)", in_the_corner),
    ("11", 4, r"Rows of (\d+) (\S+) elements", addressable),
    ("11b", 3, r"D of (\d+) x (\d+) by `nvjet_sm90_hsh_(\d+)x(\d+)_64x4_(\d)x(\d)_", theirs),
    ("t2", 1, r"X has (\d+) slabs of (\d+) rows.*row (\d+) of slab (\d+)", flatten),
    ("t6", 1, r"(\d+) positions, (\d+) heads, D = (\d+)", from_row_to_row),
    ("t6", 2, r"Q has (\d+) heads, K has (\d+).*does head (\d+)", dealt),
    ("t6", 3, r"D = (\d+) halves.*the (\d+)-byte", pieces),
    (
        "t6",
        5,
        r"of (\d+) rows; .*sequence (as one dimension|apart)\. Boxes have (\d+) .*the (\w+) batch",
        zeros,
    ),
    ("a1", 1, r"row is the (\w+) one of lane (\d+) in warp (\d+)", row_held),
    ("a1", 2, r"maximum is (\d+), its total (\d+)\. .*has (\d+) keys? with score (\d+)", softmax_total),
    ("a1", 4, r"holds 64 x (\d+) scores .*64 x (\d+) of O", registers),
    ("a1", 5, r"have ([\d,]+) bytes\. .*is (\d+) x (\d+) halves; .*of (\d+) x", ring_stages),
    ("t2", 4, r"Slabs of (\d+) rows.*box of (\d+) rows.*row (\d+) of slab (\d+).*slab (\d+)", over),
]


@pytest.mark.parametrize("name, number, pattern, counted", COUNTED)
def test_the_answer_is_what_a_count_comes_to(name, number, pattern, counted):
    for seed in range(SEEDS):
        asked = deck.question(name, number, seed)
        found = [
            int(n) if (n := one.replace(",", "")).isdigit() else one
            for one in re.search(pattern, asked.text).groups()
        ]
        right = asked.options[asked.right] if asked.options else asked.right
        assert counted(*found) == right, asked.text


def test_the_quickest_tile_has_the_least_work_in_its_waves():
    for seed in range(SEEDS):
        asked = deck.question("11b", 2, seed)
        M, N = map(int, re.search(r"D is (\d+) x (\d+)", asked.text).groups())
        tiles_ = [tuple(map(int, option.split(" x "))) for option in asked.options]
        work = [pairs(M, N, *tile, 64, "clusters") * tile[0] * tile[1] for tile in tiles_]
        assert work.index(min(work)) == asked.right and sorted(work)[1] > 1.04 * min(work)


@pytest.mark.parametrize("name", ["01", "02"])
def test_what_the_flag_leaves(name):
    for seed in range(SEEDS):
        asked = deck.question(name, 2, seed)
        assert accumulate(asked.text) == asked.right


@pytest.mark.parametrize("name, number", [("04", 4), ("07", 3)])
def test_a_wait_passes_where_the_emulators_does(name, number):
    for seed in range(SEEDS):
        asked = deck.question(name, number, seed)
        ended, parity = re.search(r"(?:is new|has ended (\d+)).*parity (\d)", asked.text).groups()
        passes = Emulated(1, int(ended or 0)).passes(int(parity))
        assert asked.options[asked.right] == ("passes at once" if passes else "blocks")


def test_of_four_waits_one_passes():
    for seed in range(SEEDS):
        asked = deck.question("05", 4, seed)
        parity = int(re.search(r"parity (\d)", asked.text)[1])
        ended = [int(re.search(r"\d+", option)[0]) for option in asked.options]
        assert [Emulated(1, one).passes(parity) for one in ended].index(True) == asked.right
        assert sum(Emulated(1, one).passes(parity) for one in ended) == 1


def test_blocking_phases_are_the_emulators():
    for seed in range(SEEDS):
        asked = deck.question("t3", 2, seed)
        parity, first, last = map(int, re.search(r"parity (\d).*phases (\d+) to (\d+)", asked.text).groups())
        blocking = [one for one in range(first, last + 1) if not Emulated(1, one).passes(parity)]
        assert asked.options[asked.right] == " and ".join(map(str, blocking))


def test_the_state_is_the_emulators():
    pattern = r"init (\d).*phase (\d+) .*expects ([\d,]+) bytes.*Then (\d) of.*and (\d+|nobody)"
    for seed in range(SEEDS):
        asked = deck.question("04", 3, seed)
        init, phase, expected, landed, arrive = re.search(pattern, asked.text).groups()
        there = Emulated(int(init), int(phase))
        expected = int(expected.replace(",", ""))
        there.expect(expected)
        for _ in range(int(landed)):
            there.land(expected // 2)
        for _ in range(0 if arrive == "nobody" else int(arrive)):
            there.arrive()
        numbers = [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", asked.options[asked.right])]
        assert numbers == [there.barrier.phase, there.barrier.pending, there.barrier.tx]


def test_step_4s_parity_at_a_ring_does_what_the_emulators_barrier_does():
    pattern = r"ring of (\d+) .*K tile (\d+) .*The tile (has landed|has not landed)"
    for seed in range(SEEDS):
        asked = deck.question("05", 5, seed)
        stages, tile, landed = re.search(pattern, asked.text).groups()
        there = Emulated(1, sum(one % int(stages) == int(tile) % int(stages) for one in range(int(tile))))
        if landed == "has landed":
            there.arrive()
        passes = there.passes(int(tile) & 1)
        words = {
            (True, "has landed"): "it passes, and rightly",
            (True, "has not landed"): "it passes before the tile is there",
            (False, "has landed"): "it waits for a later tile",
            (False, "has not landed"): "it blocks, and rightly",
        }
        assert asked.options[asked.right] == words[passes, landed]


def test_a_restart_is_unnoticed_where_the_ring_has_come_round_twice():
    for seed in range(SEEDS):
        asked = deck.question("06", 6, seed)
        stages = int(re.search(r"has (\d) stages", asked.text)[1])
        same = [wait_of(stages, int(k_tiles)) == wait_of(stages, 0) for k_tiles in asked.options]
        assert same.index(True) == asked.right and sum(same) == 1


def test_a_roles_parity_lets_it_pass_just_when_the_other_has_been_there():
    for seed in range(SEEDS):
        asked = deck.question("07", 4, seed)
        role, turn = re.search(r"the (producer|consumer) .*round (\d+)", asked.text).groups()
        parity = int(asked.options[asked.right][-1])
        there = Emulated(1, max(0, int(turn) - (role == "producer")))
        if role == "consumer" or int(turn):
            assert not there.passes(parity)
            there.arrive()
        assert there.passes(parity)


RULES = [  # of a map, as the text has them: read anew here
    ("rows are no multiple of 16 bytes apart", lambda one: one["apart"] % 16),
    ("the address is no multiple of 16", lambda one: one["past"] % 16),
    ("the box has more than 256 rows", lambda one: one["rows"] > 256),
    ("a row of the box is no multiple of 16 bytes", lambda one: one["wide"] * one["size"] % 16),
    ("a row of the box is wider than the swizzle", lambda one: one["wide"] * one["size"] > one["span"]),
]


def test_a_map_is_legal_as_its_text_says():
    pattern = r"fp(\d\d) matrix .* rows (\d+) bytes apart.* The box: (\d+) columns, (\d+) rows, swizzle (\w+)"
    seen = set()
    for seed in range(6 * SEEDS):
        asked = deck.question("t1", 1, seed)
        bits, apart, wide, rows, swizzle = re.search(pattern, asked.text).groups()
        past = int(re.search(r"beginning (\d+)", asked.text)[1]) if "beginning" in asked.text else 0
        span = {"none": 1 << 20, "32B": 32, "64B": 64, "128B": 128}[swizzle]
        one = {
            "size": int(bits) // 8,
            "apart": int(apart),
            "past": past,
            "wide": int(wide),
            "rows": int(rows),
            "span": span,
        }
        broken = [words for words, rule in RULES if rule(one)] or ["legal"]
        assert broken == [asked.options[asked.right]], asked.text
        seen.add(broken[0])
    assert len(seen) == 6


def test_registers_asked_for_fit_in_one_option_only():
    for seed in range(SEEDS):
        asked = deck.question("10", 1, seed)
        consumers, each, pool = re.search(
            r"and (\d) consumer.*with (\d+) registers.*thread, ([\d,]+) in", asked.text
        ).groups()
        pool = int(pool.replace(",", ""))
        assert pool == 128 * (1 + int(consumers)) * int(each) <= 65_536
        totals = [
            128 * int(p) + 128 * int(consumers) * int(c)
            for p, c in (re.findall(r"\d+", o) for o in asked.options)
        ]
        assert [total <= pool for total in totals].index(True) == asked.right and sum(
            t <= pool for t in totals
        ) == 1
        assert all(
            int(one) % 8 == 0 and 24 <= int(one) <= 256
            for o in asked.options
            for one in re.findall(r"\d+", o)
        )


def test_a_mask_has_a_bit_for_each_rank():
    for seed in range(SEEDS):
        asked = deck.question("09", 2, seed)
        ranks = {int(one) for one in re.findall(r"\d", asked.text.split("rank", 1)[1])}
        bits = asked.options[asked.right][2:][::-1]
        assert {place for place, bit in enumerate(bits) if bit == "1"} == ranks


def test_tile_order_and_writers():
    assert maps.LEGAL == "legal" and tiles.WGMMA_M == 64
    assert barriers.writers(1, {0: (0, 1), 1: (1,)}) == {0, 1} and barriers.writers(
        0, {0: (0, 1), 1: (1,)}
    ) == {0}
    assert ring.holds(4, 3) == {0: 3, 1: 4, 2: 2}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_who_stores_a_row_of_scores_is_what_the_rules_of_its_map_say(seed):
    asked = deck.question("t6", 4, seed)
    columns = int(re.search(r"with (\d+) columns", asked.text)[1])
    made = TensorMap(6, (columns, 4096), (2 * columns,), (64, 64), (1, 1), swizzle=3)
    assert asked.options[asked.right] == ("threads only" if violations(made) else "TMA can")


def test_a_swap_tells_faults_of_the_copy_from_others():
    for seed in range(SEEDS):
        asked = deck.question("t6", 6, seed)
        mended = "is right" in asked.text
        of_K = [option.startswith(("K's", "the barrier")) for option in asked.options]
        assert [n for n, one in enumerate(of_K) if one == mended] == [asked.right]


def test_what_a_path_is_worth_is_what_was_recorded():
    data = json.loads((measured.FOLDER / "tma_pays.json").read_text())
    seconds = {(r["matrix"], r["rows"], r["bytes"], r["way"]): r["seconds"] for r in data["rows"]}
    ways = {words: way for way, words in paths.NAMES.items()}
    for seed in range(SEEDS):
        asked = deck.question("t2", 5, seed)
        found = re.search(
            r"of (\d+) rows x (\d+) bytes .*from (\w+), on.*do (.+) bring, beside (.+)\?", asked.text
        )
        rows, width, place, one, other = found.groups()
        times = [seconds[place, int(rows), int(width), ways[name]] for name in (one, other)]
        tenths = round(10 * times[1] / times[0], 6)
        right = asked.options[asked.right]
        assert {paths.LESS: tenths < 9, paths.SAME: 9 <= tenths < 11, paths.MORE: 11 <= tenths < 20,
                paths.FAR: tenths >= 20}[right]  # fmt: skip
