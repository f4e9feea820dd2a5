"""What notebooks 11 and 11b say of recorded counters and plans holds in the record."""

import json
import statistics

import pytest

from benchmarks import step11_fit
from course_utils import plans
from course_utils.figures import candidates
from course_utils.figures.candidates import NOISE
from course_utils.figures.moving import waves
from course_utils.grading.steps import DSL_NAMES
from course_utils.plans import Plan, choose
from course_utils.recordings import measured, step11_results
from tests.notebooks.test_reasons import CUBES, LARGE, OBLONG, SMALL
from tests.recordings.counted import grows, launch, read

both = pytest.mark.parametrize("dsl", ["tilelang", "cute"])
TRIED = measured.load("tried")["entries"]
TIMED_IN_TURNS = json.loads((measured.FOLDER / "candidates.json").read_text())["entries"]
CHANGES = {entry["name"] for entry in TIMED_IN_TURNS} - {"", "step 11"}


@both
@pytest.mark.parametrize("size", CUBES)
def test_steps_8_to_10_are_about_equally_busy_and_their_clock_is_lower_than_before(dsl, size):
    busy = [read(f"{step} {dsl}", size, "tensor_active") for step in ("step08", "step09", "step10")]
    assert max(busy) - min(busy) < 0.06
    assert grows(f"step04 {dsl}", f"step08 {dsl}", size, "clock_hz") < 0.9


@both
def test_step_10_moves_fewer_bytes_and_its_instructions_do_not_explain_its_clock(dsl):
    before, after = f"step09 {dsl}", f"step10 {dsl}"
    assert grows(before, after, SMALL, "clock_hz") > 1.03
    for counter in ("l2_bytes", "dram_read_bytes", "tma_load_bytes"):
        assert grows(before, after, SMALL, counter) < 0.9
    assert grows("step09 cute", "step10 cute", SMALL, "instructions") == pytest.approx(1, abs=0.02)


def test_watts_of_one_kernel_differ_by_as_much_as_those_of_two():
    of = {
        name: launch(name, SMALL)["power"]["power_w"]
        for name in ("step10 tilelang", "step10, unchanged tilelang")
    }
    two = [launch(f"{step} cute", SMALL)["power"]["power_w"] for step in ("step09", "step10")]
    assert abs(of["step10 tilelang"] - of["step10, unchanged tilelang"]) > abs(two[0] - two[1])


@both
@pytest.mark.parametrize("variant", ["no multicast", "K always forwards", "132 CTAs"])
def test_what_moves_other_bytes_is_as_busy_and_nothing_is_gained(variant, dsl):
    before, after = f"step10, unchanged {dsl}", f"step10, {variant} {dsl}"
    assert read(after, LARGE, "tensor_active") == pytest.approx(
        read(before, LARGE, "tensor_active"), abs=0.005
    )
    moved = [grows(before, after, LARGE, name) for name in ("l2_bytes", "dram_read_bytes")]
    assert any(abs(one - 1) > 0.02 for one in moved)
    assert 0.99 < grows(before, after, LARGE, "seconds") < 1.015


@both
def test_on_the_oblong_shape_step_10_has_the_higher_clock_and_is_slower(dsl):
    after = f"step10 {dsl}"
    assert grows(f"step09 {dsl}", after, OBLONG, "clock_hz") > 1.05
    assert grows("cuBLAS", after, OBLONG, "clock_hz") == pytest.approx(1, abs=0.005)
    assert all(grows(other, after, OBLONG, "seconds") > 1 for other in (f"step09 {dsl}", "cuBLAS"))


@both
def test_step_11_is_busier_than_step_10_at_a_lower_clock(dsl):
    assert grows(f"step10 {dsl}", f"step11 {dsl}", LARGE, "tensor_active") > 1.01
    assert 0.99 < grows(f"step10 {dsl}", f"step11 {dsl}", LARGE, "clock_hz") < 1


def test_waves_of_the_oblong_shape():
    wide, tall = (waves.count(8192, 2304, *tile, 2) for tile in ((128, 256), (256, 192)))
    assert (wide["tiles"], wide["waves"], tall["tiles"], tall["waves"]) == (288, 5, 192, 3)
    assert (5 * 128 * 256, 3 * 256 * 192) == (163_840, 147_456)


def test_a_plan_that_was_chosen_before_it_was_timed_was_a_fifth_slower():
    entries = json.loads((measured.FOLDER / "step11.json").read_text())["entries"]
    again = [e for e in entries if e.get("run") == 2 and e["timing"] and e["name"].startswith("chosen")]
    off = {tuple(e["size"]): e["model_us"] / e["timing"]["seconds"] / 1e6 for e in again if e["size"][2] % 64}
    worst = min(off, key=off.__getitem__)
    assert off[worst] < 0.8 and worst == (4104, 4104, 4104)


HUGE = (12288,) * 3


@both
def test_below_cublas_are_ragged_and_small_shapes_and_two_long_launches(dsl):
    found = {
        size: p
        for (one, size), p in step11_results.chosen(step11_results.load().points).items()
        if one == dsl
    }
    below = {size for size, p in found.items() if p.ratio < 1}
    ragged = {size for size in found if any(side % 64 for side in size)}
    longest = max(found, key=lambda size: size[2])
    assert len(ragged) == 4 and longest == (4096, 8192, 28672)
    tilelang = dsl == "tilelang"
    assert ragged & below == {(8200, 2312, 5128), *([(5000, 3000, 2000)] if tilelang else [])}
    small = {(3072,) * 3, *([(2048,) * 3] if tilelang else [])}
    assert below - ragged - small == ({longest, HUGE} if tilelang else {(4096, 12288, 4096)})
    assert len(found) - len(below) == {"tilelang": 18, "cute": 21}[dsl]
    mean = statistics.geometric_mean(p.ratio for p in found.values())
    assert mean == pytest.approx({"tilelang": 1.0128, "cute": 1.0177}[dsl], abs=5e-4)


@both
def test_ragged_shapes_that_nothing_was_fitted_to(dsl):
    """With the plans that were chosen before this record was: a later model was fitted to the 24 shapes'."""
    chosen = {}
    for entry in measured.load("ragged")["entries"]:
        if entry["dsl"] == dsl:
            chosen.setdefault(tuple(entry["size"]), entry["timing"]["ratio"])
    assert len(chosen) == {"tilelang": 32, "cute": 31}[dsl]
    mean = statistics.geometric_mean(chosen.values())
    assert mean == pytest.approx({"tilelang": 0.996, "cute": 1.011}[dsl], abs=5e-4)
    assert round(min(chosen.values()), 2) == 0.92


def test_at_2048_cute_dsl_takes_4_percent_less_time():
    found = step11_results.chosen(step11_results.load().points)
    ours, other = (found[dsl, (2048,) * 3].seconds for dsl in ("tilelang", "cute"))
    assert 1 - other / ours == pytest.approx(0.04, abs=0.005)


@both
def test_most_chosen_plans_are_recorded_in_the_newest_run(dsl):
    """It is later than the peers'. The model was fitted once more afterwards."""
    found = [p for (one, _), p in step11_results.chosen(step11_results.load().points).items() if one == dsl]
    assert sum(p.plan == choose(*p.size, dsl=dsl) for p in found) == 21 and {p.run for p in found} <= {6, 7}
    assert "peers" in measured.load("step11")["runs"]["4"]


def test_a_share_differs_from_run_to_run_and_most_at_12288():
    shares = {}
    for p in step11_results.load().points:
        if p.mode == "burst":
            shares.setdefault((p.dsl, p.size, p.plan, p.changed), {})[p.run] = p.ratio
    apart = {at: max(r.values()) / min(r.values()) - 1 for at, r in shares.items() if len(r) > 1}
    assert statistics.median(apart.values()) < 0.005
    assert (
        step11_results.spread(step11_results.load().points)
        == max(apart.values())
        == pytest.approx(0.036, abs=5e-4)
    )
    for dsl in DSL_NAMES:
        of = shares[dsl, HUGE, Plan(num_ctas=132), ()]
        assert round(of[3], 3) == 1.008 and round(of[4], 2) == 0.97


def test_at_12288_another_tile_is_past_cublas_in_every_run_that_has_both():
    tall, plan = Plan(256, 192, 1, 132, 10), Plan(num_ctas=132)
    huge = [
        p
        for p in step11_results.load().points
        if (p.dsl, p.size, p.mode, p.changed) == ("cute", HUGE, "burst", ())
    ]
    runs = {p.run: {q.plan: q.ratio for q in huge if q.run == p.run} for p in huge}
    both_in = {run: of for run, of in runs.items() if {tall, plan} <= of.keys()}
    assert sorted(both_in) == [2, 3, 5, 6]
    assert all(of[tall] > 1 and of[tall] > of[plan] - 0.001 for of in both_in.values())
    (taken,) = [p for p in huge if p.plan == choose(*HUGE)]
    assert taken.plan == Plan(128, 256, 1, 132) and round(taken.ratio, 3) == 1.016
    assert step11_results.peers().ratios["Triton 3.6.0"][HUGE] == pytest.approx(1, abs=0.002)


def gains(words, dsl):
    """By size, of what was tried."""
    found = next((one["gains"] for one in TRIED if (one["name"], one["dsl"]) == (words, dsl)), {})
    return {tuple(map(int, place.partition(" ")[0].split("x"))): gain for place, gain in found.items()}


RAGGED = (4104,) * 3
TALL_ONLY = {"idle producer warps exit at once": 0.03, "one warp of a consumer polls": -0.03}
BYTES = "L2 asked for 256 bytes"
SPLIT = "128 x 256, 132 CTAs, the last wave split along K"


@both
def test_threads_that_wait_otherwise_change_nothing_but_where_tiles_have_256_rows(dsl):
    for words in ("waits that spin", "waits without a time hint", "one lane of a warp polls"):
        assert all(abs(gain) < 0.006 for gain in gains(words, dsl).values())
    for words, worth in TALL_ONLY.items():
        if (words, dsl) != ("idle producer warps exit at once", "cute"):  # they do in its step 11
            found = gains(words, dsl)
            tall = found.pop(OBLONG)
            assert tall == pytest.approx(worth if dsl == "tilelang" else 0, abs=0.003)
            assert all(abs(gain) < 0.005 for gain in found.values())


@both
def test_the_rest_of_the_changes_are_within_a_percent(dsl):
    for words in CHANGES - TALL_ONLY.keys():
        if "132 CTAs" not in words:
            found = gains(words, dsl)
            if words == BYTES:
                assert -0.085 < found.pop(RAGGED) < -0.055
            assert all(abs(gain) < 0.01 for gain in found.values()), words


def test_a_split_last_wave_gains_and_is_behind_a_tile_that_fits():
    split, whole = (gains(words, "cute")[OBLONG] for words in (SPLIT, SPLIT.rpartition(",")[0]))
    assert (1 + split) / (1 + whole) - 1 == pytest.approx(0.075, abs=5e-4) and split < -NOISE


@both
def test_step_11_is_faster_than_cublas_on_most_shapes(dsl):
    """As the README and the site's first page say."""
    found = [
        p.ratio for (one, _), p in step11_results.chosen(step11_results.load().points).items() if one == dsl
    ]
    assert len(found) == 24 and sum(ratio > 1 for ratio in found) > 12


@both
def test_where_a_line_is_long_step_10s_last_wave_was_nearly_empty(dsl):
    found = step11_results.chosen(step11_results.load().points)
    before = {
        (p.dsl, p.size): p.ratio
        for p in step11_results.load().points
        if (p.plan, p.changed, p.mode) == (Plan(), (), "burst")
    }
    gains = {at: p.ratio / before[at] for at, p in found.items() if at in before and at[0] == dsl}
    for (_, size), gain in gains.items():
        if gain > 1.08:
            made = waves.count(*size[:2], 128, 256, 2)
            assert made["idle"] / made["places"] > 0.1 or any(side % 256 for side in size[:2])


def test_at_16384_what_loads_less_for_each_flop_is_past_cublas():
    """In one run."""
    huge = [p for p in step11_results.load().points if p.size[0] == 16384 == p.size[1] and p.run == 3]
    timed = {p.plan: p for p in huge if p.dsl == "tilelang"}
    tall, wide = timed[choose(16384, 16384, 16384)], timed[Plan(num_ctas=132)]
    assert tall.plan[:4] == (256, 192, 1, 132) and tall.ratio > 1 > wide.ratio
    assert 1 - tall.seconds / wide.seconds == pytest.approx(0.03, abs=0.005)


def test_what_the_table_says_of_256_x_192_at_12288_and_16384():
    head, rows = candidates.table(measured.load("tried"))
    rows = [r for r in rows if r[0].startswith("256 x 192") and "132 CTAs" in r[0] and r[1] == "CuTe DSL"]
    for size, least, most in (("12288", 3, 5), ("16384", 5, 7)):
        found = [float(row[head.index(size)].strip("%")) for row in rows]
        assert [round(min(found)), round(max(found))] == [least, most]


def test_cutlass_is_far_behind_where_columns_of_tiles_are_no_multiple_of_its_panel():
    cutlass = step11_results.peers().ratios["CUTLASS"]
    assert {s for s, ratio in cutlass.items() if ratio < 0.9} == {s for s in cutlass if -(-s[1] // 256) % 8}
    assert round(cutlass[OBLONG], 2) == 0.39 and -(-OBLONG[1] // 256) == 9


def test_counters_and_times_agree_on_a_byte():
    factors, _, count = step11_fit.counted()
    assert [round(one) for one in factors[1:3]] == [12, 33] and count == 129
    assert [round(700e12 * one) for one in (plans.L2_BYTE, plans.DRAM_BYTE)] == [10, 32]
    points = step11_fit.read_all()
    large = [2.0 * p.size[0] * p.size[1] * p.size[2] >= plans.MOST for p in points]
    off = step11_fit.held_out(points)
    first = [plans.seconds(*p.size, p.plan) / p.seconds - 1 for p in points]
    for wanted, side in ((True, (0.02, 0.05)), (False, (0.02, 0.03))):
        for errors, about in zip((off, first), side, strict=True):
            some = [error**2 for error, one in zip(errors, large, strict=True) if one == wanted]
            assert (sum(some) / len(some)) ** 0.5 == pytest.approx(about, abs=0.005)


def test_of_the_three_sizes_that_are_printed_only_4096_keeps_the_tile_of_step_10():
    tiles = {M: choose(M, N, K)[:3] for M, N, K in ((8192, 2304, 5120), (4104,) * 3, (4096,) * 3)}
    assert [M for M, tile in tiles.items() if tile == (128, 256, 2)] == [4096]
    assert choose(4096, 4096, 4096).num_ctas == 128 and 16 * 16 == 4 * 128 // 2
