"""Notebook 13: six kernels with one fault each, their symptoms and their repairs; what the two compilers put
back.
"""

import pytest

from authoring.sync import exercise
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory_source, solution_path
from course_utils.grading import steps
from course_utils.grading.gemm import check_gemm
from course_utils.run.backends import Emulator, Launch

SIZE = (256, 768, 320)
# What the check of the broken kernel says in the emulator, and the parts that fail.
SYMPTOMS = {
    "case13a": ("lacks 16,384 of 49,152 bytes", {"results"}),
    "case13b": ("parity of this round", {"results"}),
    "case13c": ("fence.proxy.async", {"instructions", "results"}),
    "case13d": ("wait_group", {"instructions", "results"}),
    "case13e": ("has not waited for", {"results"}),
    "case13f": ("same bytes", {"results"}),
}


def kernel(case, solved=False):
    """gemm of the notebook's cell, as given or repaired, and its DSL."""
    dsl = steps.REPAIRS[case][1]
    return load_factory_source(exercise(case, dsl, solved), case), dsl


QUICK = {"case13a", "case13c"}  # one of each DSL
CASES = [pytest.param(case, marks=[] if case in QUICK else pytest.mark.slow) for case in SYMPTOMS]


@pytest.mark.parametrize("case", CASES)
def test_a_broken_kernel_fails_with_its_symptom_and_no_points(case):
    gemm, dsl = kernel(case)
    verdict = check_gemm(case, gemm, dsl, "emulator")
    word, failing = SYMPTOMS[case]
    assert {part.name for part in verdict.checks if part.passed is False} == failing
    assert word in " ".join(part.detail for part in verdict.checks if part.passed is False)
    assert verdict.points == 0


@pytest.mark.parametrize("case", CASES)
def test_a_repaired_kernel_has_all_points(case):
    gemm, dsl = kernel(case, solved=True)
    verdict = check_gemm(case, gemm, dsl, "emulator")
    assert all(part.passed for part in verdict.checks if part.name != "speed")
    assert verdict.points == steps.points_of(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case, right, not_right",
    [
        ("case13b", [(256, 256, 64), (256, 256, 128)], [(256, 256, k) for k in (192, 256, 320)]),
        ("case13d", [(256, 768, 320)], [(4864, 2304, 64)]),
        (
            "case13e",
            [(256, 768, 320), *((4864, 2304, k) for k in (256, 512))],
            [(4864, 2304, k) for k in (64, 128, 192, 320)],
        ),
        ("case13f", [(256, 256, 256)], [(256, 256, 320)]),
    ],
)
def test_a_broken_kernel_is_right_at_some_sizes_only(case, right, not_right):
    """What the notebook's table of sizes shows."""
    gemm, dsl = kernel(case)

    def ok(size):
        return Emulator(schedules=(0,)).ask(Launch(size, compile_factory(gemm, dsl, size), ctas=(0, -1))).ok

    assert {size: ok(size) for size in [*right, *not_right]} == dict.fromkeys(right, True) | dict.fromkeys(
        not_right, False
    )


# -- what the compilers put back


def count(step, dsl, instruction, without=None):
    """How often an instruction is in a step's PTX, with every line that begins with ``without`` taken out of
    its source.
    """
    lines = solution_path(step, dsl).read_text().splitlines()
    kept = [line for line in lines if not without or not line.strip().startswith(without)]
    assert len(kept) < len(lines) or not without
    return compile_factory(load_factory_source("\n".join(kept), step), dsl, SIZE).ptx.count(instruction)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[] if step == "step04" else pytest.mark.slow)
        for step in steps.STEPS
        if step >= "step03"
    ],
)
def test_tilelang_puts_a_missing_proxy_fence_back(step):
    """tilelang 0.1.15: without ``T.fence_proxy_async()`` the kernels of steps 3 to 10 still fence."""
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
