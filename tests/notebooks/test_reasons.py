"""What notebooks 05 to 07 and 15 say of the recorded counters holds in the record."""

import pytest

from course_utils.recordings.counters import parts
from tests.recordings.counted import RECORDED, grows, launch, read

SMALL, LARGE, OBLONG = (4096,) * 3, (8192,) * 3, (8192, 2304, 5120)
CUBES = (SMALL, LARGE)
FIT = "as many CTAs an SM as fit"
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


@both
@pytest.mark.parametrize("size", CUBES)
def test_05_neighbours_overlap_too(size, dsl):
    alone, four, five = f"step05 {dsl}", f"step04, {FIT} {dsl}", f"step05, {FIT} {dsl}"
    assert grows(alone, four, size, "seconds") < 0.8 and grows(alone, four, size, "tensor_active") > 1.4
    assert grows(f"step04 {dsl}", alone, size, "seconds") < grows(four, five, size, "seconds") < 1


def test_05_three_neighbours_fit_and_in_cute_two_of_step_5():
    active = {
        (step, dsl): read(f"{step}, {FIT} {dsl}", SMALL, "warps_active")
        for step in ("step04", "step05")
        for dsl in ("tilelang", "cute")
    }
    assert 1 < active.pop(("step05", "cute")) <= 2 and all(2 < count <= 3 for count in active.values())


@both
def test_05_with_neighbours_a_large_size_is_bound_by_the_clock(dsl):
    five = f"step05, {FIT} {dsl}"
    assert read(five, LARGE, "tensor_active") > {"tilelang": 0.9, "cute": 0.88}[dsl]
    assert read(five, LARGE, "clock_hz") < 0.92 * read(five, SMALL, "clock_hz")
    assert grows(f"step10 {dsl}", five, SMALL, "l2_bytes") > 1.4


@both
@pytest.mark.parametrize("size", CUBES)
def test_06_moves_fewer_bytes_and_stands_idle_as_long(dsl, size):
    before, after = f"step05 {dsl}", f"step06 {dsl}"
    assert grows(before, after, size, "l2_bytes") < 0.75
    assert grows(before, after, size, "dram_read_bytes") < 0.85
    assert 0.93 < idle(after, size) / idle(before, size) < 1


@both
@pytest.mark.parametrize("size", CUBES)
def test_06_the_clock_in_a_loop_is_higher(size, dsl):
    before, after = (launch(f"{step} {dsl}", size)["power"]["clock_mhz"] for step in ("step05", "step06"))
    assert after > 1.04 * before


def test_06_watts_of_one_kernel_differ_by_nearly_as_much_as_those_of_two_steps():
    def apart(one, other):
        return abs(launch(one, SMALL)["power"]["power_w"] - launch(other, SMALL)["power"]["power_w"])

    dsls = "tilelang", "cute"
    steps = max(apart(f"step05 {dsl}", f"step06 {dsl}") for dsl in dsls)
    again = max(apart(f"{n} {dsl}", f"{n}, unchanged {dsl}") for n in ("step09", "step10") for dsl in dsls)
    assert again > 0.8 * steps


@both
def test_06_loses_on_an_oblong_d_where_it_reads_more_of_dram(dsl):
    before, after = f"step05 {dsl}", f"step06 {dsl}"
    assert grows(before, after, OBLONG, "seconds") > 1.02
    assert grows(before, after, OBLONG, "dram_read_bytes") > 1.5
    assert grows(before, after, OBLONG, "tensor_active") < 0.98
    assert grows(before, after, OBLONG, "clock_hz") == pytest.approx(1, abs=0.015)
    assert read(after, OBLONG, "dram_throughput") < 0.3


@both
def test_06_panels_of_three_read_most_and_wider_ones_win_it_back(dsl):
    of_three, of_four = (read(f"step06 {one}", OBLONG, "dram_read_bytes") for one in ("cute", "tilelang"))
    assert of_three > of_four
    wide = f"step06, panels of 8 tiles {dsl}"
    before, narrow, after = (
        read(name, OBLONG, "dram_read_bytes") for name in (f"step05 {dsl}", f"step06 {dsl}", wide)
    )
    assert narrow - after > (narrow - before) / 2
    assert read(wide, OBLONG, "seconds") < read(f"step05 {dsl}", OBLONG, "seconds")


@both
@pytest.mark.parametrize("size", CUBES)
def test_06_wider_panels_spare_dram_and_not_l2(size, dsl):
    before, after = f"step06 {dsl}", f"step06, panels of 8 tiles {dsl}"
    assert (
        0.96 < grows(before, after, size, "seconds") < grows(f"step05 {dsl}", before, size, "seconds") < 0.99
    )
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
    if size == LARGE:
        assert grows(before, after, size, "dram_read_bytes") == pytest.approx(1, abs=0.001)
    assert grows(before, after, size, "instructions") < 0.9 and idle(after, size) < idle(before, size)
    assert 0.45 < read(after, size, "tensor_active") < 0.55  # half of the time is waiting


EPILOGUES = {  # notebook t5's five, the least busy first
    "tilelang": (
        "step08, D straight from registers tilelang",
        "step08, D in slices, one buffer, full wait tilelang",
        "step08, D staged whole, waited for at once tilelang",
        "step08, D in slices, two buffers tilelang",
        "step08, unchanged tilelang",
    ),
    "cute": (
        "step08, D in slices, one buffer, full wait cute",
        "step08, D in slices, two buffers cute",
        "step08, D straight from registers cute",
        "step08, D staged whole, waited for at once cute",
        "step08, unchanged cute",
    ),
}
SLICES = EPILOGUES["cute"][:2]


@both
@pytest.mark.parametrize("size", [*CUBES, OBLONG])
def test_15_an_epilogue_costs_time_in_which_nobody_multiplies(size, dsl):
    names = EPILOGUES[dsl]
    active = [read(name, size, "tensor_active") for name in names]
    assert active == sorted(active)
    for name in names:
        more = 1.52 if name in SLICES else 1
        assert grows(names[-1], name, size, "instructions") == pytest.approx(more, abs=0.01)
        within = 0.08 if (size, dsl) == (SMALL, "cute") else 0.05
        assert grows(names[-1], name, size, "dram_read_bytes") == pytest.approx(1, abs=within)


@both
def test_15_the_clock_runs_the_other_way(dsl):
    clocks = [read(name, SMALL, "clock_hz") for name in EPILOGUES[dsl]]
    assert all(after < 1.001 * before for before, after in zip(clocks, clocks[1:], strict=False))
    assert clocks[0] > 1.03 * clocks[-1]


def test_15_registers_lose_most_in_tilelang_and_slices_in_cute():
    seconds = [read(name, SMALL, "seconds") for name in EPILOGUES["tilelang"]]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] - seconds[1] > seconds[1] - seconds[-1]
    one, two, registers, at_once, unchanged = (read(name, SMALL, "seconds") for name in EPILOGUES["cute"])
    assert one > registers and two > 0.99 * registers > 1.05 * at_once > 1.05 * unchanged


@both
def test_15_one_buffer_in_step_10_costs_next_to_nothing(dsl):
    for counter in ("seconds", "tensor_active", "clock_hz", "instructions", "l2_bytes", "dram_read_bytes"):
        after = f"step10, D staged in one buffer {dsl}"
        assert grows(f"step10, unchanged {dsl}", after, SMALL, counter) == pytest.approx(1, abs=0.011)
