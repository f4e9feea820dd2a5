"""What notebook 16 says of recorded counters and plans holds in the record."""

import json

import pytest

from benchmarks import step11_fit
from course_utils import plans
from course_utils.figures.moving import waves
from course_utils.plans import Plan, choose
from course_utils.recordings import measured, tried
from tests.notebooks.test_reasons import CUBES, LARGE, OBLONG, SMALL, grows, launch, read

both = pytest.mark.parametrize("dsl", ["tilelang", "cute"])


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
    of = {name: launch(name, SMALL)["power"]["power_w"] for name in ("step10 tilelang", "step10, unchanged")}
    two = [launch(f"{step} cute", SMALL)["power"]["power_w"] for step in ("step09", "step10")]
    assert abs(of["step10 tilelang"] - of["step10, unchanged"]) > abs(two[0] - two[1])


@pytest.mark.parametrize("variant", ["no multicast", "K always forwards", "132 CTAs"])
def test_what_moves_other_bytes_is_as_busy(variant):
    after = f"step10, {variant}"
    assert read(after, LARGE, "tensor_active") == pytest.approx(
        read("step10, unchanged", LARGE, "tensor_active"), abs=0.005
    )
    moved = [grows("step10, unchanged", after, LARGE, name) for name in ("l2_bytes", "dram_read_bytes")]
    assert any(abs(one - 1) > 0.02 for one in moved)
    assert grows("step10, unchanged", after, LARGE, "seconds") == pytest.approx(1, abs=0.01)


@both
def test_on_the_oblong_shape_step_10_has_the_higher_clock_and_is_slower(dsl):
    for other in (f"step09 {dsl}", "cuBLAS"):
        assert grows(other, f"step10 {dsl}", OBLONG, "clock_hz") > 1
        assert grows(other, f"step10 {dsl}", OBLONG, "seconds") > 1


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


@both
def test_the_least_share_of_cublas_is_that_of_a_ragged_or_a_very_large_shape(dsl):
    found = {size: p for (one, size), p in tried.chosen(tried.load().points).items() if one == dsl}
    worst = min(found, key=lambda size: found[size].ratio)
    assert any(side % 64 for side in worst) or worst[0] > 8192


@both
def test_step_11_is_faster_than_cublas_on_most_shapes(dsl):
    """As the README and the site's first page say."""
    found = [p.ratio for (one, _), p in tried.chosen(tried.load().points).items() if one == dsl]
    assert len(found) == 24 and sum(ratio > 1 for ratio in found) > 12


@both
def test_where_a_line_is_long_step_10s_last_wave_was_nearly_empty(dsl):
    found = tried.chosen(tried.load().points)
    before = {
        (p.dsl, p.size): p.ratio
        for p in tried.load().points
        if (p.plan, p.rest, p.mode) == (Plan(), tried.Rest(), "burst")
    }
    gains = {at: p.ratio / before[at] for at, p in found.items() if at in before and at[0] == dsl}
    for (_, size), gain in gains.items():
        if gain > 1.08:
            made = waves.count(*size[:2], 128, 256, 2)
            assert made["idle"] / made["places"] > 0.1 or any(side % 256 for side in size[:2])


def test_at_16384_what_loads_less_for_each_flop_is_past_cublas():
    timed = {p.plan[:3]: p.ratio for p in tried.load().points if (p.dsl, p.size[0]) == ("cute", 16384)}
    assert timed[256, 192, 1] == pytest.approx(1.018, abs=5e-4)
    best = max(
        p.ratio
        for p in tried.load().points
        if (p.dsl, p.size[0], p.plan[:4]) == ("cute", 16384, (128, 256, 2, 132)) and p.rest.order == ""
        if p.plan.panel == 8
    )
    assert best == pytest.approx(0.965, abs=5e-4)
    assert choose(16384, 16384, 16384)[:3] == (256, 192, 1)


def test_counters_and_times_agree_on_a_byte():
    factors, _ = step11_fit.counted()
    assert [round(one) for one in factors[1:3]] == [11, 32]
    assert [round(700e12 * one) for one in (plans.L2_BYTE, plans.DRAM_BYTE)] == [8, 40]
    points = step11_fit.read_all()
    large = [2.0 * p.size[0] * p.size[1] * p.size[2] >= plans.MOST for p in points]
    off = step11_fit.held_out(points)
    first = [plans.seconds(*p.size, p.plan) / p.seconds - 1 for p in points]
    for wanted, side in ((True, (0.02, 0.05)), (False, (0.02, 0.02))):
        for errors, about in zip((off, first), side, strict=True):
            some = [error**2 for error, one in zip(errors, large, strict=True) if one == wanted]
            assert (sum(some) / len(some)) ** 0.5 == pytest.approx(about, abs=0.005)
