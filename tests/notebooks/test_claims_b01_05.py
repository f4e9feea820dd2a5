"""What b01 to b05 say of their kernels' receipts, held against what the compilers make of them."""

from functools import cache

import pytest

from course_utils.chips import BLACKWELL
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.ptx import receipts

both = pytest.mark.parametrize(
    "dsl", [pytest.param(dsl, marks=[pytest.mark.thorough] * (dsl == "tilelang")) for dsl in DSLS]
)
FULL = 65_536  # registers of an SM of compute capability 10.0, as of all since 3.0


@cache
def compiled(name, dsl):
    row = steps.find(name)
    return compile_factory(load_factory(solution_path(name, dsl)), dsl, row.emulated[0][0], chip=row.chip)


@cache
def receipt(name, dsl):
    artifact = compiled(name, dsl)
    return dict(receipts.table(receipts.read_ptx(artifact.ptx), artifact))


@both
def test_b01_has_four_mmas_and_fewer_registers_than_step_1_on_hopper(dsl):
    rows = receipt("b01", dsl)
    assert rows["tcgen05.mma"].endswith(": 4") and rows["tcgen05 order"].startswith("commit: 1")
    assert rows["tensor memory"] == "alloc: 1, dealloc: 1, wait: 1, ld 32x32b.x128: 1"
    assert rows["mbarriers"].startswith("init 1 (1 for 1 arrival)")
    assert compiled("b01", dsl).resources.registers < compiled("step01", dsl).resources.registers


@both
def test_registers_let_three_ctas_of_b03_on_an_sm_and_columns_four(dsl):
    each = -(-compiled("b03", dsl).resources.registers // 8) * 8 * 128  # a warp gets them in eights
    assert FULL // each == 3
    assert BLACKWELL.tensor_memory[1] // 128 == 4


@both
def test_mbarriers_and_commits_of_b05(dsl):
    rows = receipt("b05", dsl)
    count = {"tilelang": 3, "cute": 5}[dsl]
    assert rows["mbarriers"].startswith(f"init {count} ({count} for 1 arrival)")
    if dsl == "cute":
        assert rows["tcgen05 order"] == "commit: 2"
