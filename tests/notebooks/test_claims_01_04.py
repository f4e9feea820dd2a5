"""What notebooks 01 to 04 say of the recorded counters is what the file holds."""

import pytest

from course_utils.grading import steps
from tests.recordings.counted import LAUNCHES, RECORDED

SMS = RECORDED["provenance"]["sms"]
FIT = ", as many CTAs an SM as fit"
OPERAND = {size: size * size * 2 for size in (4096, 8192)}  # bytes of A, and of B
both_dsls = pytest.mark.parametrize("dsl", steps.DSL_NAMES)


def launch(name, size):
    return LAUNCHES[name, (size,) * 3 if isinstance(size, int) else size]


def counted(name, size=4096):
    return launch(name, size)["counters"]


def idle(found):
    """Seconds in which the tensor pipe does nothing."""
    return found["seconds"] * (1 - found["tensor_active"])


@both_dsls
def test_one_tile_hardly_multiplies(dsl):
    assert counted(f"step01 {dsl}", (128, 128, 64))["tensor_active"] * SMS < 0.1
    assert counted("cuBLAS", (128, 128, 64))["tensor_active"] * SMS < 0.1


@both_dsls
def test_the_loop_of_step_2_multiplies_a_fifth_of_its_time(dsl):
    size = (128, 128, 4096)
    assert counted(f"step02 {dsl}", size)["tensor_active"] * SMS == pytest.approx(0.2, abs=0.03)
    assert counted(f"step03 {dsl}")["tensor_active"] == pytest.approx(0.2, abs=0.03)
    theirs = launch("cuBLAS", size)
    assert theirs["counters"]["tensor_active"] > 1 / SMS and "splitK" in theirs["kernel"]
    assert theirs["counters"]["seconds"] * 5 < counted(f"step02 {dsl}", size)["seconds"]


@both_dsls
@pytest.mark.parametrize("size", OPERAND)
def test_step_3_waits_and_its_threads_are_not_busy(size, dsl):
    found = counted(f"step03 {dsl}", size)
    assert idle(found) > 0.7 * found["seconds"] and found["issue_active"] < 0.1
    stalls = {name: value for name, value in found.items() if name.startswith("stalled_")}
    assert sorted(stalls, key=stalls.get)[:-3:-1] == ["stalled_long_scoreboard", "stalled_barrier"]


@both_dsls
def test_two_ctas_an_sm_do_the_same_work_in_less_time(dsl):
    one, two = counted(f"step03 {dsl}"), counted(f"step03{FIT} {dsl}")
    assert two["instructions"] == pytest.approx(one["instructions"], rel=0.01)
    assert two["l2_bytes"] == pytest.approx(one["l2_bytes"], rel=0.05)
    assert one["seconds"] > 1.5 * two["seconds"] and two["issue_active"] < 0.1
    assert two["tensor_active"] < 0.5 * counted("cuBLAS")["tensor_active"]
    assert 1 < two["warps_active"] <= 2 and one["warps_active"] <= 1


@pytest.mark.parametrize(
    "name, size, ctas",
    [
        ("step03 tilelang", 4096, 132),
        ("step03 cute", 4096, 132),
        ("step03 tilelang", 8192, 132),
        ("step03 cute", 8192, 132),
        (f"step03{FIT} tilelang", 4096, 264),
        (f"step03{FIT} cute", 4096, 264),
    ],
)
def test_each_wave_reads_b_from_memory_once(name, size, ctas):
    waves = -(-((size // 128) ** 2) // ctas)
    assert counted(name, size)["dram_read_bytes"] == pytest.approx((waves + 1) * OPERAND[size], rel=0.05)


@both_dsls
def test_alone_in_a_loop_step_3_keeps_its_clock_and_step_10_does_not(dsl):
    highest, limit = (RECORDED["provenance"][name] for name in ("max_clock_mhz", "power_limit_w"))
    power = launch(f"step03 {dsl}", 8192)["power"]
    assert power["clock_mhz"] == highest and power["power_w"] < limit
    for name in (f"step10 {dsl}", "cuBLAS"):
        assert launch(name, 8192)["power"]["clock_mhz"] < 0.8 * highest


@both_dsls
def test_step_4_halves_the_instructions_and_not_the_time(dsl):
    before, after = counted(f"step03 {dsl}"), counted(f"step04 {dsl}")
    assert after["instructions"] / before["instructions"] == pytest.approx(0.5, abs=0.05)
    assert 0.85 < after["seconds"] / before["seconds"] < 1
    assert after["l2_bytes"] == pytest.approx(before["l2_bytes"], rel=0.05)
    assert after["dram_read_bytes"] == pytest.approx(before["dram_read_bytes"], rel=0.05)
    saved = before["seconds"] - after["seconds"]
    assert idle(before) - idle(after) == pytest.approx(saved, rel=0.1)


@both_dsls
def test_with_room_step_4_gains_more_and_has_three_ctas_an_sm(dsl):
    gain = {
        s: counted(f"{s} {dsl}")["seconds"] / counted(f"{s}{FIT} {dsl}")["seconds"]
        for s in ("step03", "step04")
    }
    assert gain["step04"] > 1.2 * gain["step03"]
    found = counted(f"step04{FIT} {dsl}")
    assert 2 < found["warps_active"] <= 3 and found["tensor_active"] > 0.6
