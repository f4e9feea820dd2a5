"""Sizes at which each wait, arrival, wrap and store of a solution comes three times: the table's own, and
those that a grading draws.
"""

import re
from collections import Counter
from math import prod

import pytest
import torch

from course_utils import plans
from course_utils.chips import HOME
from course_utils.classroom import randomize
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.run.emulator import emulate

ROWS = [row for name, row in (steps.STEPS | steps.TASKS).items() if name >= "step05"]
RINGS = [row for row in ROWS if row.id != "step11"]
SEEDS = range(50)


def tables(row):
    """What a check emulates, and what gradings draw."""
    return [row.emulated, *(randomize.step(row, str(seed)).emulated for seed in SEEDS)]


def constants(step):
    """The constants of a solution, those of a grid with them."""
    values = {"sm_count": HOME.sms, "cluster": 1, "splits": 1, "block_K": plans.BLOCK_K}
    for line in solution_path(step, "cute").read_text().splitlines():
        if re.match(r"(num_stages|cluster|block_M.*|rows|splits|    num_ctas) = ", line):
            exec(line.strip(), values)
    return values


def share(row, size):
    """(tiles of D, CTAs or clusters that take turns, K tiles of each tile, stages) at a size."""
    of = constants(row.id)
    if len(size) == 2:
        return -(-size[0] // of["rows"]), HOME.sms, 1, of["num_stages"]
    *batch, M, N, K = size
    tiles = prod(batch) * -(-M // of["block_M"]) * (N // of["block_N"]) // of["cluster"]
    workers = of.get("num_ctas", HOME.sms) // of["cluster"] if "fixed grid" in row.requires else tiles
    return tiles, workers, K // of["block_K"] // of["splits"], of["num_stages"]


@pytest.mark.parametrize("row", RINGS, ids=lambda row: row.id)
def test_each_stage_of_a_ring_is_filled_three_times(row):
    for table in tables(row):
        found = [share(row, size) for size, _ in table]
        assert any(-(-tiles // workers) * k // stages >= 3 for tiles, workers, k, stages in found)
        assert len(table[0][0]) == 2 or any(k > 2 * stages for _, _, k, stages in found)


@pytest.mark.parametrize(
    "row", [row for row in RINGS if "fixed grid" in row.requires], ids=lambda row: row.id
)
def test_a_cta_has_three_tiles_each_begun_at_another_stage_and_another_has_fewer(row):
    """Its first CTA runs at every size. K has fewer tiles than the ring has stages at some size too."""
    for table in tables(row):
        found = [share(row, size) for size, _ in table]
        assert any(
            tiles > 2 * workers and tiles % workers and k % 2 and k % stages
            for tiles, workers, k, stages in found
        )
        assert all(ctas is None or 0 in ctas for _, ctas in table)
        assert any(k < stages for _, _, k, stages in found)


def test_step_11_has_three_tiles_of_128_rows_to_send_under_the_next_one_three_of_256_and_two_of_192():
    for table in tables(steps.STEPS["step11"]):
        tiles, rounds = Counter(), Counter()
        for (M, N, K), _ in table:
            for dsl in DSLS:
                plan = plans.choose(M, N, K, dsl=dsl)
                most, (stages, _) = plans.waves(M, N, plan), plans.stages(plan)
                at = dsl, plan.block_M
                tiles[at] = max(tiles[at], most)
                rounds[at] = max(rounds[at], most * -(-K // plans.BLOCK_K) // stages)
        for dsl in DSLS:
            assert tiles[dsl, 128] > 3 and tiles[dsl, 256] >= 3 and tiles[dsl, 192] >= 2
        assert min(rounds.values()) >= 3


@pytest.mark.parametrize("dsl", DSLS)
def test_the_first_ctas_of_step_10_complete_each_phase_three_times(dsl):
    size, _ = steps.STEPS["step10"].emulated[0]
    artifact = compile_factory(load_factory(solution_path("step10", dsl)), dsl, size)
    tensors = {tensor.name: torch.zeros(tensor.shape, dtype=torch.float16) for tensor in artifact.tensors}
    run = emulate(artifact, tensors, ctas=[0])
    assert run.ok
    arrivals = Counter((arrival.cta, arrival.barrier) for arrival in run.arrivals)
    assert len(arrivals) == 2 * 8 and min(arrivals.values()) >= 3
    stores = Counter(span.cta for span in run.spans if span.kind == "TMA store")
    assert set(stores.values()) == {3 * 4}  # of a tile's four chunks
