"""What notebooks 05 to 07 and 15 say of the recorded counters holds in the record."""

import pytest

from course_utils.recordings.counters import parts
from tests.recordings.counted import RECORDED, grows, launch, read

SMALL, LARGE, OBLONG = (4096,) * 3, (8192,) * 3, (8192, 2304, 5120)
CUBES = (SMALL, LARGE)
FIT = "as many CTAs an SM as fit tilelang"
TILES_OF_A_CTA = {SMALL: 8, LARGE: 32}  # of the busiest, as notebook 07 says


def idle(name, size):
    return parts(launch(name, size), RECORDED["provenance"]).idle


both = pytest.mark.parametrize("dsl", ["tilelang", "cute"])


@both
@pytest.mark.parametrize("size", CUBES)
def test_05_gains_idle_time_and_nothing_else(dsl, size):
    before, after = f"step04 {dsl}", f"step05 {dsl}"
    assert 0.5 < grows(before, after, size, "seconds") < 0.6
    assert idle(after, size) < 0.45 * idle(before, size)
    assert grows(before, after, size, "dram_read_bytes") == pytest.approx(1, abs=0.01)
    assert 1.9 < grows(before, after, size, "instructions") < 2.2


@pytest.mark.parametrize("size", [*CUBES, OBLONG])
def test_05_neighbours_overlap_too(size):
    alone, four, five = "step05 tilelang", f"step04, {FIT}", f"step05, {FIT}"
    assert grows(alone, four, size, "seconds") < 0.8 and grows(alone, four, size, "tensor_active") > 1.4
    assert grows("step04 tilelang", alone, size, "seconds") < grows(four, five, size, "seconds") < 1


def test_05_with_neighbours_a_large_size_is_bound_by_the_clock():
    five = f"step05, {FIT}"
    assert read(five, LARGE, "tensor_active") > 0.9
    assert read(five, LARGE, "clock_hz") < 0.92 * read(five, SMALL, "clock_hz")
    assert grows("step10 tilelang", five, SMALL, "l2_bytes") > 1.4


@both
@pytest.mark.parametrize("size", CUBES)
def test_06_moves_fewer_bytes_and_stands_idle_as_long(dsl, size):
    before, after = f"step05 {dsl}", f"step06 {dsl}"
    assert grows(before, after, size, "l2_bytes") < 0.75
    assert grows(before, after, size, "dram_read_bytes") < 0.85
    assert 0.93 < idle(after, size) / idle(before, size) < 1


def test_06_power_in_a_loop_says_nothing():
    watts = {
        (step, dsl): launch(f"{step} {dsl}", SMALL)["power"]["power_w"]
        for step in ("step05", "step06")
        for dsl in ("tilelang", "cute")
    }
    assert watts["step06", "tilelang"] < watts["step05", "tilelang"]
    assert watts["step06", "cute"] > watts["step05", "cute"]


@both
def test_06_loses_on_an_oblong_d_where_it_reads_more_of_dram(dsl):
    before, after = f"step05 {dsl}", f"step06 {dsl}"
    assert grows(before, after, OBLONG, "seconds") > 1.02
    assert grows(before, after, OBLONG, "dram_read_bytes") > 1.5
    assert grows(before, after, OBLONG, "tensor_active") < 0.98
    assert grows(before, after, OBLONG, "clock_hz") == pytest.approx(1, abs=0.01)
    assert read(after, OBLONG, "dram_throughput") < 0.3


def test_06_panels_of_three_read_most_and_panels_of_eight_win_it_back():
    of_three, of_four = (read(f"step06 {dsl}", OBLONG, "dram_read_bytes") for dsl in ("cute", "tilelang"))
    eight = "step06, panels of 8 tiles tilelang"
    before = read("step05 tilelang", OBLONG, "dram_read_bytes")
    assert of_three > of_four and of_four - read(eight, OBLONG, "dram_read_bytes") > (of_four - before) / 2
    assert read(eight, OBLONG, "seconds") < read("step05 tilelang", OBLONG, "seconds")


@pytest.mark.parametrize("size", CUBES)
def test_06_wider_panels_spare_dram_and_not_l2(size):
    before, after = "step06 tilelang", "step06, panels of 8 tiles tilelang"
    assert 0.97 < grows(before, after, size, "seconds") < 0.99
    assert grows(before, after, size, "dram_read_bytes") < 0.8 and grows(before, after, size, "l2_bytes") > 1


@both
def test_07_saves_more_for_a_tile_with_more_k_tiles(dsl):
    saved = {
        size: (read(f"step06 {dsl}", size, "seconds") - read(f"step07 {dsl}", size, "seconds")) / tiles
        for size, tiles in TILES_OF_A_CTA.items()
    }
    assert saved[LARGE] > 1.5 * saved[SMALL] > 0


@both
@pytest.mark.parametrize("size", CUBES)
def test_07_has_the_clock_and_the_bytes_of_step_6(dsl, size):
    before, after = f"step06 {dsl}", f"step07 {dsl}"
    assert grows(before, after, size, "clock_hz") == pytest.approx(1, abs=0.01)
    assert grows(before, after, size, "dram_read_bytes") == pytest.approx(1, abs=0.04)
    assert grows(before, after, size, "instructions") < 0.9 and idle(after, size) < idle(before, size)
    assert 0.45 < read(after, size, "tensor_active") < 0.55  # half of the time is waiting


EPILOGUES = (  # notebook 15's five, from slow to fast
    "step08, D straight from registers tilelang",
    "step08, D in slices, one buffer, full wait tilelang",
    "step08, D staged whole, waited for at once tilelang",
    "step08, D in slices, two buffers tilelang",
    "step08, unchanged tilelang",
)


@pytest.mark.parametrize("size", [*CUBES, OBLONG])
def test_15_an_epilogue_costs_time_in_which_nobody_multiplies(size):
    active = [read(name, size, "tensor_active") for name in EPILOGUES]
    assert active == sorted(active)
    for name in EPILOGUES:
        assert grows(EPILOGUES[-1], name, size, "instructions") == pytest.approx(1, abs=0.005)
        assert grows(EPILOGUES[-1], name, size, "dram_read_bytes") == pytest.approx(1, abs=0.05)


def test_15_the_clock_runs_the_other_way_and_registers_lose_most():
    seconds = [read(name, SMALL, "seconds") for name in EPILOGUES]
    clocks = [read(name, SMALL, "clock_hz") for name in EPILOGUES]
    assert clocks == sorted(clocks, reverse=True) and seconds == sorted(seconds, reverse=True)
    assert seconds[0] - seconds[1] > seconds[1] - seconds[-1]


def test_15_one_buffer_in_step_10_costs_next_to_nothing():
    for counter in ("seconds", "tensor_active", "clock_hz", "instructions", "l2_bytes", "dram_read_bytes"):
        assert grows(
            "step10, unchanged tilelang", "step10, D staged in one buffer tilelang", SMALL, counter
        ) == pytest.approx(1, abs=0.011)
