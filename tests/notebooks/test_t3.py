"""Notebook t3: kernels with one fault each and their repairs; what the two compilers put back."""

import pytest

from authoring.sync import exercise
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory_source, solution_path
from course_utils.grading import steps
from course_utils.grading.gemm import check_gemm

SIZE = (256, 768, 320)


@pytest.mark.thorough  # the runs of notebook t3, broken and repaired, hold the points of all six
@pytest.mark.parametrize("case", ["t3a", "t3c"])  # one of each DSL
def test_a_broken_kernel_has_no_points_and_its_repair_has_all(case):
    dsl = steps.REPAIRS[case][1]
    for solved, points in ((False, 0), (True, steps.points_of(case))):
        gemm = load_factory_source(exercise(case, dsl, solved), case)
        assert check_gemm(case, gemm, dsl, "emulator").points == points


# -- what the compilers put back


def count(step, dsl, instruction, without=None):
    """How often an instruction is in a step's PTX, with every line that begins with ``without`` taken out of
    its source.
    """
    lines = solution_path(step, dsl).read_text().splitlines()
    kept = [line for line in lines if not without or not line.strip().startswith(without)]
    assert len(kept) < len(lines) or not without
    return compile_factory(load_factory_source("\n".join(kept), step), dsl, SIZE).ptx.count(instruction)


@pytest.mark.parametrize("step", ["step03", "step10"])
def test_tilelang_puts_a_missing_proxy_fence_back(step):
    """tilelang 0.1.15: kernels without ``T.fence_proxy_async()`` still fence; the check tells."""
    assert count(step, "tilelang", "fence.proxy.async", "T.fence_proxy_async") >= 1


def test_tilelang_puts_missing_cta_barriers_back():
    """tilelang 0.1.15: step 4 without any ``T.sync_threads()`` has as many barriers as with them."""
    assert (
        count("step04", "tilelang", "bar.sync", "T.sync_threads")
        == count("step04", "tilelang", "bar.sync")
        > 0
    )


@pytest.mark.parametrize(
    "call, instruction",
    [
        ("T.tma_store_wait", "bulk.wait_group"),
        ("T.wait_wgmma", "wgmma.wait_group"),
        ("T.mbarrier_wait_parity", "mbarrier.try_wait.parity"),
    ],
)
def test_tilelang_puts_no_wait_back(call, instruction):
    """tilelang 0.1.15: waits for a store, for wgmma and for an mbarrier are the author's."""
    assert count("step04", "tilelang", instruction) > 0
    assert count("step04", "tilelang", instruction, call) == 0


@pytest.mark.parametrize(
    "call, instruction",
    [
        ("cute.arch.fence_view_async_shared", "fence.proxy.async"),
        ("cute.arch.sync_threads", "bar.sync"),
        ("cute.arch.cp_async_bulk_wait_group", "bulk.wait_group"),
    ],
)
def test_cute_puts_nothing_back(call, instruction):
    """nvidia-cutlass-dsl 4.8.1: what the source of step 4 leaves out is not in the PTX."""
    assert count("step04", "cute", instruction) > 0
    assert count("step04", "cute", instruction, call) == 0


def test_what_a_store_wait_waits_for():
    """tilelang 0.1.15 waits with .read, nvidia-cutlass-dsl 4.8.1 without where it is not asked for."""
    assert count("step04", "tilelang", "bulk.wait_group.read") == 1
    assert count("step04", "cute", "bulk.wait_group.read") == 0
