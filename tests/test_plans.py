"""Plans of step 11: what was recorded of them, and what TMA cannot address."""

import json
import re

import pytest

from course_utils.chips import HOME
from course_utils.library import cost
from course_utils.plans import (
    Plan,
    choose,
    fitting,
    holds_two,
    plan_of,
    plans,
    powered,
    recorded,
    require_addressable,
    seconds,
    stages,
    traffic,
)

NEW = {"block_M": 128, "block_N": 240, "cluster": 2, "num_ctas": 132, "panel": 8}
OLD = {"block_M": 128, "block_N": 256, "cluster_M": 1, "num_ctas": 128, "panel": 4, "overlap": True}
TIMING = {"seconds": 2e-4}


def entry(plan, size=(4104, 4104, 4104), mode="burst", timing=TIMING, **fields):
    return {"plan": plan, "size": list(size), "mode": mode, "timing": timing, **fields}


@pytest.mark.parametrize(
    "M, N, K, words",
    [
        (
            4096,
            4096,
            4100,
            r"A and B: rows of 4100 .* 8200 bytes .* nearest one is 8208 bytes: .* 4104 elements",
        ),
        (4096, 1001, 64, r"D: rows of 1001 .* 2002 bytes .* 2016 bytes: pad rows to 1008"),
        (4096, 1001, 1001, "A and B"),
    ],
)
def test_what_tma_cannot_address_is_refused_with_the_nearest_stride(M, N, K, words):
    with pytest.raises(ValueError, match=words):
        require_addressable(M, N, K)


def test_any_number_of_rows_can_be_addressed():
    for M in (1, 7, 4099):
        require_addressable(M, 8, 8)


def test_plans_fit_the_kernel():
    for plan in [*plans(), *plans(dsl="tilelang")]:
        assert fitting(plan) == plan and plan.num_ctas in HOME.persistent_grids
        consumers, registers = (3, 160) if plan.block_M == 192 else (2, 240)
        sums = plan.block_M // (64 * consumers) * plan.block_N // 2  # fp32 registers of a consumer's thread
        old = sums // 2 * holds_two(plan)  # and D of the tile before
        assert sums + old <= registers - 12
        num_stages, epi_N = stages(plan, 231_424)
        tile, chunk = (plan.block_M + plan.block_N) * 128, plan.block_M * epi_N * 2
        assert num_stages >= 3 and num_stages * tile + 2 * chunk <= 231_424


def test_narrow_chunks_of_D_make_room_for_one_more_stage():
    assert stages(Plan(128, 256), 231_424) == (4, 64)
    assert stages(Plan(128, 208), 231_424) == (5, 32)
    assert stages(Plan(256, 152), 231_424) == (4, 16)
    assert stages(Plan(256, 192), 231_424) == (3, 32)


def test_only_one_language_swaps_roles_and_has_columns_in_eights():
    both = {dsl: plans(dsl=dsl) for dsl in ("cute", "tilelang")}
    assert set(both["tilelang"]) < set(both["cute"])
    assert all(fitting(plan, 16) == plan for plan in both["tilelang"])
    for plan in (Plan(128, 232), Plan(128, 256, swapped=True)):
        assert plan in both["cute"] or fitting(plan) == plan
        with pytest.raises(ValueError, match="columns are a multiple of 16.*roles are not swapped"):
            fitting(plan, 16)


def test_swapped_roles_are_the_same_plan_of_the_transposed_problem():
    for plan in (Plan(192, 168, 2, 132, 6), Plan(256, 184, 2, 132, 10, across=True)):
        turned = plan._replace(swapped=True)
        for model in (seconds, powered):
            assert model(5000, 3000, 2000, turned) == model(3000, 5000, 2000, plan)
    narrow = Plan(256, 152, 2, 132, 10)  # rows of 32 bytes leave slowly, and D^T has none
    assert powered(5000, 3000, 2000, narrow._replace(swapped=True)) < powered(3000, 5000, 2000, narrow)


def test_a_cluster_side_by_side_shares_the_rows_of_A():
    tall = Plan(256, 152, 2, 132, 10)
    assert traffic(4864, 4864, 4096, tall._replace(across=True))[0] < traffic(4864, 4864, 4096, tall)[0]
    assert [cost(608, 608, p).tiles for p in (tall, tall._replace(across=True))] == [4 * 4, 3 * 4]


@pytest.mark.parametrize(
    "plan, nearest",
    [
        (Plan(192, 208), (192, 192, 2, 128, 8)),  # more sums than three consumers' registers hold
        (Plan(256, 256), (256, 192, 2, 128, 8)),
        (Plan(320, 128), (256, 128, 2, 128, 8)),
        (Plan(128, 229), (128, 232, 2, 128, 8)),
        (Plan(128, 256, 4), (128, 256, 2, 128, 8)),
        (Plan(128, 256, 2, 131), (128, 256, 2, 130, 8)),
        (Plan(128, 256, 2, 1, 0), (128, 256, 2, 2, 1)),
    ],
)
def test_a_plan_that_the_kernel_cannot_have_is_refused_with_the_nearest(plan, nearest):
    with pytest.raises(ValueError, match=re.escape(f"nearest plan is {tuple(Plan(*nearest))}")):
        fitting(plan)
    assert fitting(Plan(*nearest)) == Plan(*nearest)


def test_one_k_tile_more_or_one_wave_more_takes_longer():
    plan = Plan()
    assert seconds(4096, 4096, 4096, plan) < seconds(4096, 4096, 4160, plan)
    assert seconds(4096, 4096, 4096, plan) < seconds(4097, 4096, 4096, plan)
    assert seconds(4000, 4096, 4096, plan) == seconds(4096, 4096, 4096, plan)


@pytest.mark.parametrize("size", [(1, 8, 8), (2, 100_000, 8), (100_000, 8, 8), (8, 8, 100_000)])
def test_there_is_a_plan_for_any_size(size):
    assert choose(*size) in plans()


def test_a_byte_takes_time_wherever_it_comes_in_time():
    size = (16384, 16384, 16384)
    narrow, wide = Plan(128, 128), Plan(128, 256)
    assert traffic(*size, narrow)[0] > 1.2 * traffic(*size, wide)[0]
    low, square = Plan(panel=1), Plan(panel=8)
    assert traffic(*size, low)[1] > 1.5 * traffic(*size, square)[1]
    assert powered(*size, low) > powered(*size, square)
    assert traffic(*size, square) == traffic(*size, square._replace(cluster=1, panel=16))


def test_a_matrix_is_fetched_once_at_least():
    assert traffic(128, 256, 64, Plan())[1] == 2 * (128 * 64 + 256 * 64 + 128 * 256)


def test_old_and_new_entries_are_read():
    assert plan_of(entry(NEW)) == Plan(128, 240, 2, 132, 8)
    assert plan_of(entry(OLD)) == Plan(128, 256, 1, 128, 4)


@pytest.mark.parametrize(
    "other",
    [
        entry(NEW, mode="sustained"),
        entry(NEW, timing=None),
        entry(NEW, order="Hilbert"),
        entry(OLD | {"overlap": False}),
        entry(OLD | {"back": False}),
        entry(OLD | {"max_stages": 3}),
        entry(OLD | {"keep": [None, 1, None]}),
        entry(OLD | {"cluster_N": 2}),
    ],
)
def test_what_is_no_plan_of_the_kernel_is_left_out(other):
    assert plan_of(other) is None


def test_the_quickest_of_a_plan_counts_and_what_power_bounds_does_not(tmp_path):
    path = tmp_path / "step11.json"
    entries = [
        entry(NEW, timing={"seconds": 3e-4}),
        entry(NEW),
        entry(NEW | {"cluster": 4}),
        entry(NEW, size=(16384, 16384, 16384)),
    ]
    path.write_text(json.dumps({"entries": entries}))
    assert recorded(path) == [((4104, 4104, 4104), Plan(128, 240, 2, 132, 8), 2e-4)]
