"""The Blackwell steps: what they ask for, what the step before lacks of it, and the cards of planted faults.

Nothing of this has run on a Blackwell by us.
"""

from functools import cache

import pytest
import torch

from course_utils.chips import BLACKWELL
from course_utils.classroom import randomize
from course_utils.compile import factory, load
from course_utils.compile.faults import blackwell
from course_utils.grading import conditions, gemm, steps
from course_utils.grading.steps import BLACKWELL_STEPS, DSL_NAMES
from course_utils.ptx import receipts
from course_utils.run import reference as results
from course_utils.run.backends import Compiler, Emulator, Gpu
from course_utils.run.emulator import emulate
from course_utils.run.emulator.sums import whose
from tests.grading.mistakes import require_said

NAMES = list(BLACKWELL_STEPS)
# several tiles for each CTA of a chip with four SMs, an odd number of K tiles, more than a ring has stages
SMALL = {"b01": (128, 128, 64), "b02": (128, 128, 320), **dict.fromkeys(NAMES[2:5], (256, 384, 320))}
SMALL |= {**dict.fromkeys(NAMES[5:8], (512, 640, 320)), "b09": (1024, 512, 320), "b10": (1024, 1024, 320)}
OTHERS = {"b01": (), "b02": ((128, 128, 64),), "b10": ((2048, 512, 128), (512, 1280, 64))}
SEEDS = 1, 5, 7
EVERY_RUN = {("b07", "cute"), ("b09", "tilelang")}
# of each step what the solution of the one before lacks
NEW = {
    "b04": {
        "tensor loads",
        "tensor stores",
        "expect-tx",
        "store wait",
        "operands of tcgen05 by TMA",
        "D once",
    },
    "b05": {"two stages used", "loads ahead of MMAs"},
    "b06": {"fixed grid"},
    "b07": {"three roles", "loads in the epilogue", "accumulator ring", "MMAs queued"},
    "b08": {"four stages used"},
    "b09": {"MMA of a pair", "multicast commit", "cluster barrier", "cluster of two", "products of pairs"},
    "b10": {"two MMA warps"},
}


def chip_of(step):
    return BLACKWELL.with_sms(4) if step >= "b06" else BLACKWELL


@cache
def compiled(step, dsl, size=None):
    made = load.load_factory(load.solution_path(step, dsl))
    return factory.compile_factory(made, dsl, size or SMALL[step], chip=chip_of(step))


def emulated(artifact, seed=0):
    A, B = results.inputs(*artifact.problem, torch.Generator().manual_seed(seed), "cpu")
    D = torch.full(artifact.problem[:2], results.POISON, dtype=torch.int16).view(torch.float16)
    return emulate(artifact, {"A": A, "B": B, "D": D}, seed), results.compare(D, A, B)


@cache
def facts_of(step, dsl):
    artifact = compiled(step, dsl)
    result, comparison = emulated(artifact)
    assert result.finished and result.findings == [], [str(one) for one in result.findings]
    assert comparison.ok, comparison.causes
    return result.facts | whose(artifact, "gemm", 0, 0, None, right=True)


def unmet(step, dsl, wanted):
    artifact, row = compiled(step, dsl), BLACKWELL_STEPS[wanted]
    receipt = receipts.read_ptx(artifact.ptx)
    return conditions.unmet(receipt, artifact, row.requires, row.forbids, facts_of(step, dsl))


def rungs():
    rare = pytest.mark.thorough
    return [
        pytest.param(step, dsl, marks=[rare] * ((step, dsl) not in EVERY_RUN), id=f"{step}-{dsl}")
        for step in NAMES
        for dsl in DSL_NAMES
    ]


@pytest.mark.parametrize("step, dsl", rungs())
def test_a_solution_is_right_and_shows_what_its_step_is_about(step, dsl):
    assert unmet(step, dsl, step) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("step, dsl", [(step, dsl) for step in NAMES for dsl in DSL_NAMES])
def test_a_solution_is_right_at_any_size_and_on_any_schedule(step, dsl):
    others = OTHERS.get(step, ((256, 512, 64), (512, 256, 448)))
    for size in (SMALL[step], *(one for one in others if step != "b09" or one[0] % 256 == 0)):
        for seed in SEEDS:
            result, comparison = emulated(compiled(step, dsl, size), seed)
            assert result.finished and result.findings == [], [str(one) for one in result.findings]
            assert comparison.ok, comparison.causes


def successions():
    rare = pytest.mark.thorough
    for before, step in zip(NAMES, NAMES[1:], strict=False):
        for dsl in DSL_NAMES:
            if step in NEW:
                marks = [rare] * ((before, dsl) not in EVERY_RUN)
                yield pytest.param(before, step, dsl, marks=marks, id=f"{before}-as-{step}-{dsl}")


@pytest.mark.parametrize("before, step, dsl", list(successions()))
def test_the_step_before_lacks_what_is_new(before, step, dsl):
    lacks = set(unmet(before, dsl, step))
    assert lacks >= NEW[step]
    assert lacks - NEW[step] <= {"empty barriers"}  # TileLang's steps 5 and 6 have one barrier for all stages


def judged():
    """Every run has those that no compiler takes, and one for each kind of finding of tcgen05."""
    kinds, found = set(), []
    for fault in blackwell():
        new = fault.fails == "results" and fault.finds and fault.finds[0] not in kinds
        new = new and fault.finds[0].startswith(("tmem", "accumulator", "commit", "mma"))
        kinds.update(fault.finds[:1])
        marks = [pytest.mark.thorough] * (not new)
        found.append(pytest.param(fault, marks=marks, id=str(fault)))
    return found


@pytest.mark.parametrize("fault", judged())
def test_the_card_says_what_is_wrong(fault):
    require_said(fault)


def test_there_are_faults_of_each_step_in_both_languages():
    of = {(fault.step, fault.dsl) for fault in blackwell()}
    assert of == {(step, dsl) for step in NAMES for dsl in DSL_NAMES}
    assert sum(bool(fault.line) for fault in blackwell()) >= 60


def test_the_table():
    assert [step.points for step in BLACKWELL_STEPS.values()] == [5, 5, 10, 10, 10, 10, 15, 5, 15, 15]
    for name, step in BLACKWELL_STEPS.items():
        assert step.chip is BLACKWELL and step.speed_floor is None and steps.row(name) is step
        assert steps.languages(name) == tuple(DSL_NAMES)
        rows = 512 if name == "b10" else 256
        for seed in "12345":
            drawn = randomize.step(step, seed)
            every = [size for size, _ in drawn.emulated if name not in ("b01", "b02")]
            assert all(M % rows == 0 and N % 256 == 0 for M, N, _ in every)


def test_the_page_of_solutions_has_every_kernel_with_its_points():
    page = (load.SOLUTIONS.parent / "docs" / "solutions.md").read_text().splitlines()
    for name, step in BLACKWELL_STEPS.items():
        [row] = [line for line in page if line.startswith(f"| {name} |")]
        for dsl in DSL_NAMES:
            assert f"](../{load.solution_path(name, dsl).relative_to(load.SOLUTIONS.parent)})" in row
        assert row.endswith(f"| {step.points} |")


def test_a_step_for_another_chip_runs_in_the_emulator_alone():
    row, gpu = BLACKWELL_STEPS["b05"], Gpu()
    alone = gemm._for_chip(row, Emulator("", gpu=gpu))
    assert isinstance(alone, Emulator) and alone.gpu is None
    refused = gemm._for_chip(row, gpu)
    assert isinstance(refused, Compiler) and "b05 is for a Blackwell (sm_100a)" in refused.untimed_reason
    assert gemm._for_chip(steps.STEPS["step05"], gpu) is gpu


@pytest.mark.parametrize("dsl", DSL_NAMES)
def test_what_a_class_hands_in_is_compiled_for_the_steps_chip(dsl):
    size = SMALL["b05"]
    made = load.load_factory(load.solution_path("b05", dsl))
    traced = [one.artifact for one in factory.trace_sizes(made, dsl, [size], "gemm", {size: BLACKWELL})]
    [one] = factory.compile_traced(traced, dsl, [size], "gemm", BLACKWELL)
    assert one.artifact.chip is BLACKWELL and ".target sm_100a" in one.artifact.ptx
