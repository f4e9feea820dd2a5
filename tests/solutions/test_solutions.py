"""Every solution shows what its step is about and fits the chip; every wrong kernel is caught where it says.

What only a run can show (right results, speed, the wrong kernels that say ``needs_gpu``) is tested on a
GPU elsewhere.
"""

import ast
import re
from functools import cache
from itertools import pairwise

import pytest

from course_utils.compile import load as loading
from course_utils.compile import nvrtc
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import kernels
from course_utils.compile.limits import require_fits
from course_utils.grading import conditions, maps
from course_utils.grading.gemm import check_gemm, judge
from course_utils.grading.steps import PARTS, STEPS
from course_utils.ptx import receipts
from course_utils.run.backends import Compiler, Launch
from tests.compile.called import CALLS, author, misplaced

WRONG = [fault for dsl in DSLS for fault in kernels(dsl).values()]
LINES = {"tilelang": 100, "cute": 182}  # at 96 columns
MORE_LINES = {"tilelang": 142, "cute": 237}  # of step 11, whose plans have seven fields
both_dsls = pytest.mark.parametrize("dsl", DSLS)
OUTCOMES = {"wrong", "race", "hang", "fault", "refused", "right"}
NEEDS_NO_GPU = {"compiles", "tensor maps", "instructions"}

REGISTERS = 64 * 1024  # of one SM


@cache
def solution(step, dsl):
    """A step's solution at the size that its receipt is taken from."""
    factory = loading.load_factory(loading.solution_path(step, dsl))
    return compile_factory(factory, dsl, STEPS[step].emulated[0][0])


def receipt(step, dsl):
    return receipts.read_ptx(solution(step, dsl).ptx)


def unmet(conditions_of, step, dsl):
    wanted = STEPS[conditions_of]
    found = conditions.unmet(receipt(step, dsl), solution(step, dsl), wanted.requires, wanted.forbids)
    return list(found.values())


def test_both_dsls_have_the_same_files_one_for_each_step():
    names = [[path.name for path in sorted((loading.SOLUTIONS / dsl).glob("step*.py"))] for dsl in DSLS]
    assert names[0] == names[1]
    assert [name[:6] for name in names[0]] == list(STEPS)


def test_the_step_table_says_what_each_author_decides():
    assert {step.id: set(step.owned) for step in STEPS.values()} == {step: set(DSLS) for step in STEPS}


@both_dsls
@pytest.mark.parametrize("step", STEPS)
def test_solution_file_is_short_and_says_what_it_is(step, dsl):
    source = loading.solution_path(step, dsl).read_text()
    assert len(source.splitlines()) <= (MORE_LINES if step == "step11" else LINES)[dsl]
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring.startswith(f"Step {int(step[4:])}: ") and "\n" not in docstring


@both_dsls
@pytest.mark.parametrize("step", STEPS)
def test_solution_shows_what_its_step_is_about(step, dsl):
    assert unmet(step, step, dsl) == []


@both_dsls
@pytest.mark.parametrize("step", STEPS)
def test_every_instruction_of_a_solution_has_the_line_that_called_for_it(step, dsl):
    """Wrong kernels are held to it where they are emulated. TileLang makes the same source with directives as
    without.
    """
    path, artifact = loading.solution_path(step, dsl), solution(step, dsl)
    assert artifact.python == {str(path): path.read_text()}
    assert misplaced(artifact) == set()
    found = {pattern for pattern in CALLS for opcode, _, _ in author(artifact) if re.match(pattern, opcode)}
    assert r"wgmma\.mma_async" in found and (step < "step04" or r"mbarrier\.try_wait" in found)
    if dsl == "tilelang":
        assert (
            artifact.source.endswith(plain_source(path, STEPS[step].emulated[0][0]))
            and "#line" not in artifact.source
        )
        assert len(artifact.origins) == len(artifact.source.split("\n"))


def plain_source(path, size):
    """What TileLang makes of a kernel when nobody asks for directives."""
    import tilelang

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": nvrtc.ARCH})
    with target:
        return tilelang.lower(loading.load_factory(path)(*size), target=target).kernel_source


@both_dsls
@pytest.mark.parametrize("step, following", [*pairwise(list(STEPS)[2:10])])
def test_the_step_before_does_not_do(step, following, dsl):
    assert unmet(following, step, dsl)


@both_dsls
def test_step_10_refuses_the_sizes_of_step_11(dsl):
    gemm = loading.load_factory(loading.solution_path("step10", dsl))
    with pytest.raises(CompileError, match="multiples of the cluster's tile"):
        compile_factory(gemm, dsl, STEPS["step11"].check_sizes[0])


@both_dsls
def test_step_11_refuses_what_tma_cannot_address(dsl):
    gemm = loading.load_factory(loading.solution_path("step11", dsl))
    with pytest.raises(CompileError, match="cannot address D: .* nearest one is 208 bytes"):
        compile_factory(gemm, dsl, (200, 100, 64))


@both_dsls
def test_steps_1_and_2_refuse_the_sizes_of_step_3(dsl):
    for step in ("step01", "step02"):
        gemm = loading.load_factory(loading.solution_path(step, dsl))
        with pytest.raises(CompileError, match="computes"):
            compile_factory(gemm, dsl, STEPS["step03"].check_sizes[0])


@both_dsls
@pytest.mark.parametrize("step", STEPS)
def test_solution_is_taken_as_it_is_by_ptxas(step, dsl):
    found = solution(step, dsl).resources
    assert (found.spill_stores, found.spill_loads, found.stack_frame, found.warnings) == (0, 0, 0, ())


@both_dsls
@pytest.mark.parametrize("step", STEPS)
def test_solution_has_legal_tensor_maps(step, dsl):
    assert maps.findings(solution(step, dsl)) == []
    kinds = {p.kind for p in solution(step, dsl).parameters} - {"scalar"}
    assert kinds == ({"pointer"} if "tensor loads" in STEPS[step].forbids else {"tensor_map"})


@both_dsls
@pytest.mark.parametrize("step", STEPS)
def test_solution_fits_an_sm(step, dsl):
    a = solution(step, dsl)
    require_fits(a.grid, a.block, a.cluster, a.dynamic_shared + a.resources.static_shared)
    assert a.threads % 128 == 0
    assert a.resources.registers * a.threads <= REGISTERS
    assert all(extent % of_cluster == 0 for extent, of_cluster in zip(a.grid, a.cluster, strict=True))


@both_dsls
@pytest.mark.parametrize("step", [s for s in STEPS if "setmaxnreg" in STEPS[s].requires])
def test_register_reallocation_fits_a_cta(step, dsl):
    asked = {kind: int(amount) for kind, amount in map(str.split, receipt(step, dsl).setmaxnreg)}
    a = solution(step, dsl)
    consumers = a.threads // 128 - 1
    assert asked["dec"] < a.resources.registers <= asked["inc"] <= 255
    assert 128 * (asked["dec"] + consumers * asked["inc"]) <= a.register_pool


@both_dsls
@pytest.mark.parametrize("step", STEPS)
def test_solution_scores_all_that_a_compile_can_tell(step, dsl):
    launches = [Launch(STEPS[step].emulated[0][0], solution(step, dsl))]
    verdict = judge(STEPS[step], dsl, Compiler("no run"), Compiler("no run").run(launches))
    expected = {name: "passed" if name in NEEDS_NO_GPU else "not run" for name in PARTS}
    assert {part.name: part.state for part in verdict.checks} == expected
    assert verdict.diagnosis == ""


@both_dsls
def test_there_are_wrong_kernels_for_every_step_from_four(dsl):
    assert {wrong.step for wrong in kernels(dsl).values()} >= set(list(STEPS)[3:])


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.dsl}-{wrong.name}")
def test_wrong_kernel(wrong):
    """It says what is wrong with it in allowed words."""
    assert wrong.what.endswith(".")
    assert wrong.step in STEPS and wrong.outcome in OUTCOMES
    assert wrong.says and all(words == words.lower() for words in wrong.says)
    assert wrong.fails in (NEEDS_NO_GPU if wrong.needs_gpu is False else {"results"})

    if wrong.fails == "compiles":  # the others are emulated elsewhere
        verdict = check_gemm(wrong.step, wrong.factory(), wrong.dsl, backend="compile")
        assert verdict.checks[0].state == "failed"
        assert all(words in verdict.diagnosis.lower() for words in wrong.says)
