"""The plan that a name of cuBLAS's kernel says, and the waves of plans."""

import pytest

from course_utils.library import HEAD, cost, read, row
from course_utils.plans import Plan
from course_utils.recordings import measured

COOP_B = "nvjet_sm90_hsh_176x192_64x4_2x1_v_bz_coopB_TNN"


def test_the_name_says_tile_ring_cluster_and_how_consumers_share():
    plan = read(COOP_B)
    assert (plan.block_M, plan.block_N, plan.block_K, plan.num_stages) == (192, 176, 64, 4)
    assert (plan.cluster_M, plan.cluster_N, plan.order, plan.shared) == (1, 2, "v", "coopB")
    assert not plan.split_k


@pytest.mark.parametrize(
    "tile, size, tiles, waves",
    [
        ("176x192_64x4_2x1_v_bz_coopB_TNN", (4104, 4104), 528, 4),  # exactly four waves of 132
        ("256x152_64x4_1x1_h_bz_coopA_TNN", (5000, 3000), 396, 3),
        ("232x128_64x4_1x1_h_bz_coopA_TNN", (8200, 2312), 650, 5),
        ("256x128_64x4_1x2_h_bz_coopA_TNT", (4096, 4096), 512, 4),
    ],
)
def test_waves_of_the_librarys_tiles(tile, size, tiles, waves):
    made = cost(*size, read(f"nvjet_sm90_hsh_{tile}"))
    assert (made.tiles, made.waves) == (tiles, waves)


def test_a_last_wave_that_is_full_is_a_whole_one():
    assert cost(4104, 4104, read(COOP_B)).last == 1
    step_11 = cost(4104, 4104, Plan(128, 224, 2, 132))
    assert (step_11.tiles, step_11.waves) == (17 * 2 * 19, 5)
    assert step_11.last == pytest.approx(17 * 19 / 66 - 4)


def test_ctas_below_one_another_share_b_and_ctas_side_by_side_share_a():
    below = read("nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_TNT")
    assert cost(4096, 4096, below).bytes_per_flop == (128 + 256 / 2) / (128 * 256)
    assert cost(4096, 4096, below).bytes_per_flop == cost(4096, 4096, Plan()).bytes_per_flop
    beside = read("nvjet_sm90_hsh_256x128_64x4_2x1_h_bz_coopA_TNT")
    assert cost(4096, 4096, beside).bytes_per_flop == (128 / 2 + 256) / (128 * 256)


def test_a_split_k_has_no_consumers_that_share():
    plan = read("nvjet_sm90_hsh_64x32_64x16_2x4_h_bz_splitK_TNT")
    assert plan.split_k and plan.shared == "" and (plan.block_M, plan.block_N) == (32, 64)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "sm90_xmma_gemm_f16f16",
        "nvjet_sm100_hsh_256x128_64x4_1x2_h_bz",
        "nvjet_sm90_hsh_0x128_64x4_1x2_h_bz",
    ],
)
def test_a_name_of_another_family_has_no_plan(name):
    assert read(name) is None


def test_every_recorded_name_is_read():
    named = [one for entry in measured.load("counters")["entries"] for one in entry["launches"]]
    names = {one["kernel"] for one in named if "nvjet" in one["kernel"]}
    assert len(names) == 6 and all(map(read, names))


def test_a_row_has_a_cell_for_each_column():
    ours, theirs = (
        row("step 11", 4104, 4104, Plan(192, 176, 2, 132, 6)),
        row("cuBLAS", 4104, 4104, read(COOP_B)),
    )
    assert len(ours) == len(theirs) == len(HEAD)
    assert ours[1:] == ["192 x 176", "", "2 x 1", "528", "4", "100%", "8.29"]
    assert theirs[1:] == ["192 x 176", "64 x 4", "1 x 2", "528", "4", "100%", "8.05"]
