"""Why notebooks 08 to 10 say that a step is faster: what was counted and timed bears it out."""

import pytest

from course_utils.compile.factory import DSLS
from course_utils.grading import steps
from course_utils.notebook import records
from course_utils.recordings import measured
from tests.recordings.counted import LAUNCHES, label

SQUARES = (4096,) * 3, (8192,) * 3
OBLONG = (8192, 2304, 5120)
COUNTED = {place: launch["counters"] for place, launch in LAUNCHES.items()}
SHARES = {
    (label(entry), tuple(timing["size"])): timing["ratio"]
    for entry in measured.load("variants")["entries"]
    for timing in entry["timings"]
}
both_dsls = pytest.mark.parametrize("dsl", DSLS)
at_squares = pytest.mark.parametrize("size", SQUARES, ids=lambda size: size[0])


def less(counter, name, than, size, by=1.0):
    """Is a counter of one kernel under ``by`` times that of another?"""
    return COUNTED[name, size][counter] < by * COUNTED[than, size][counter]


def alike(counter, name, other, size, within):
    """Do two kernels differ in a counter by no more than this share?"""
    one, two = COUNTED[name, size][counter], COUNTED[other, size][counter]
    return abs(one - two) <= within * two


# -- notebook 08


@both_dsls
def test_no_step_from_4_on_adds_as_much_as_step_8(dsl):
    entries = {e["step"]: e for e in measured.load()["entries"] if e["dsl"] == dsl}
    reached = [
        [t["tflops"] for t in entries[step]["timings"]]
        for step in steps.STEPS
        if "step03" <= step <= "step10"
    ]
    for run in zip(*reached, strict=True):
        gains = [after - before for before, after in zip(run, run[1:], strict=False)]
        assert max(gains) == gains[4], "steps 4 to 10"


@both_dsls
@at_squares
def test_step_8_idles_less_at_a_lower_clock(size, dsl):
    before, after = COUNTED[f"step07 {dsl}", size], COUNTED[f"step08 {dsl}", size]
    assert 1 - after["tensor_active"] < 0.3 * (1 - before["tensor_active"])
    assert after["clock_hz"] < 0.9 * before["clock_hz"]
    assert after["seconds"] * after["tensor_active"] > 1.1 * before["seconds"] * before["tensor_active"]


@both_dsls
@at_squares
def test_depth_is_the_larger_part_of_step_8(size, dsl):
    ladder = {e["step"]: e for e in measured.load()["entries"] if e["dsl"] == dsl}
    shares = [next(t["ratio"] for t in ladder["step07"]["timings"] if tuple(t["size"]) == size)]
    shares += [SHARES[f"{name} {dsl}", size] for name in ("step07, four stages", "step08, unchanged")]
    assert shares[1] - shares[0] > shares[2] - shares[1] > 0


@both_dsls
@at_squares
def test_wide_panels_read_less_and_six_stages_keep_the_cores_busier(size, dsl):
    plain = f"step08, unchanged {dsl}"
    panels, stages = f"step08, panels of 8 tiles {dsl}", f"step08, six stages, panels of 8 {dsl}"
    assert less("dram_read_bytes", panels, plain, size, 0.8)
    assert alike("dram_read_bytes", stages, panels, size, 0.03)
    assert less("tensor_active", plain, panels, size)
    assert less("tensor_active", panels, stages, size)


# -- notebook 09


@at_squares
def test_step_9_idles_less_in_cute_and_is_hardly_shorter_in_tilelang(size):
    assert less("tensor_active", "step08 cute", "step09 cute", size, 0.96)
    assert alike("seconds", "step09 tilelang", "step08 tilelang", size, 0.01)


@both_dsls
@at_squares
@pytest.mark.parametrize("step", ["step09", "step10"])
def test_multicast_saves_neither_time_nor_clock_nor_bytes(step, size, dsl):
    with_it, without = f"{step}, unchanged {dsl}", f"{step}, no multicast {dsl}"
    assert alike("seconds", without, with_it, size, 0.01)
    assert alike("clock_hz", without, with_it, size, 0.01)
    assert alike("tma_load_bytes", without, with_it, size, 0.001)
    if step == "step09":
        assert alike("l2_bytes", without, with_it, size, 0.05)
    else:
        assert less("l2_bytes", without, with_it, size)


@both_dsls
@at_squares
def test_l2_moves_fewer_bytes_than_arrive_without_any_cluster(size, dsl):
    counters = COUNTED[f"step08, unchanged {dsl}", size]
    assert counters["l2_bytes"] < 0.7 * counters["tma_load_bytes"]


@both_dsls
@at_squares
def test_a_cluster_has_a_price_and_the_order_saves_bytes(size, dsl):
    eight, nine = f"step08, unchanged {dsl}", f"step09, unchanged {dsl}"
    assert less("tensor_active", f"step09, four stages {dsl}", eight, size)
    assert less("dram_read_bytes", f"step09, no multicast {dsl}", eight, size, 0.7)
    assert less("dram_read_bytes", nine, f"step09, K always forwards {dsl}", size)
    assert less("dram_read_bytes", f"step08, panels of 8 tiles {dsl}", eight, size, 0.8)


def test_which_of_step_9_and_a_deeper_step_8_is_faster():
    """At 4096, in the run of the variants."""
    deep, nine = "step08, six stages, panels of 8", "step09, unchanged"
    rows = (nine, "step09, no multicast", "step09, K always forwards", "step09, four stages", deep)
    rows += "step08, unchanged", "step08, panels of 8 tiles"
    of = {dsl: {name: SHARES[f"{name} {dsl}", SQUARES[0]] for name in rows} for dsl in DSLS}
    assert max(of["tilelang"], key=of["tilelang"].get) == deep
    assert max(of["cute"].values()) - of["cute"][deep] < 0.01 > abs(of["cute"][nine] - of["cute"][deep])


@both_dsls
def test_watts_differ_most_between_two_recordings_of_one_kernel(dsl):
    one, two = (LAUNCHES[name, SQUARES[0]] for name in (f"step09 {dsl}", f"step09, unchanged {dsl}"))

    def apart(kind, name):
        return abs(one[kind][name] / two[kind][name] - 1)

    shown = [apart("counters", name) for name in records.COUNTED]
    assert max(*shown, apart("power", "clock_mhz")) < apart("power", "power_w")


# -- notebook 10


def test_cute_gains_by_the_clock_alone_and_tilelang_by_both():
    size = SQUARES[0]
    assert not less("tensor_active", "step09 cute", "step10 cute", size)
    assert less("tensor_active", "step09 tilelang", "step10 tilelang", size)


@both_dsls
@at_squares
def test_step_10_has_a_higher_clock_and_moves_fewer_bytes(size, dsl):
    before, after = f"step09 {dsl}", f"step10 {dsl}"
    assert less("clock_hz", before, after, size, 0.97)
    assert less("tma_load_bytes", after, before, size, 0.8)
    assert less("l2_bytes", after, before, size, 0.8)
    assert less("dram_read_bytes", after, before, size, 0.9)
    assert less("shared_wavefronts", after, before, size, 0.9)


@both_dsls
@at_squares
@pytest.mark.parametrize(
    "choice", ["no multicast", "K always forwards", "132 CTAs", "D staged in one buffer"]
)
def test_each_small_choice_of_step_10_is_worth_little(choice, size, dsl):
    before, after = f"step10, unchanged {dsl}", f"step10, {choice} {dsl}"
    assert alike("seconds", after, before, size, 0.015 if choice == "132 CTAs" else 0.01)
    if choice in ("K always forwards", "132 CTAs"):
        assert less("dram_read_bytes", before, after, size)


@both_dsls
def test_on_the_oblong_step_10_idles_more_and_its_clock_does_not_make_up_for_it(dsl):
    before, after = f"step09 {dsl}", f"step10 {dsl}"
    assert less("tensor_active", after, before, OBLONG, 0.95)
    assert less("clock_hz", before, after, OBLONG)
    assert less("seconds", before, after, OBLONG)
