"""Every solution shows what its step is about and fits the chip; every wrong kernel is caught where it says.

What only a run can show (right results, speed, the wrong kernels whose ``NEEDS_GPU`` is True) is tested on a GPU elsewhere.
"""

import ast
from functools import cache
from itertools import pairwise

import pytest

from course_utils import checker, loading, receipts
from course_utils.compile import tilelang as compiler
from course_utils.compile.errors import CompileError
from course_utils.steps import PARTS, STEPS

FOLDER = loading.SOLUTIONS / "tilelang"
WRONG = sorted((loading.SOLUTIONS / "wrong" / "tilelang").glob("*.py"))
OUTCOMES = {"wrong", "race", "hang", "fault", "right"}
NEEDS_NO_GPU = {"compiles", "tensor maps", "instructions"}

REGISTERS = 64 * 1024  # of one SM
REGISTERS_AFTER_SETMAXNREG = 64_512  # the most that a CTA's warps may ask for together; above it setmaxnreg waits for ever


@cache
def solution(step):
    """A step's solution at the size that its receipt is taken from."""
    return compiler.compile_gemm(loading.load_factory(loading.solution_path(step, "tilelang")), *STEPS[step].check_sizes[0])


def receipt(step):
    return receipts.read_ptx(solution(step).ptx)


def unmet(conditions_of, step):
    wanted = STEPS[conditions_of]
    return receipts.unmet(receipt(step), solution(step), wanted.requires, wanted.forbids)


def test_a_solution_for_each_step_and_no_other_file():
    assert [path.stem[:6] for path in sorted(FOLDER.glob("*.py"))] == list(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_solution_file_is_short_and_says_what_it_is(step):
    source = loading.solution_path(step, "tilelang").read_text()
    assert len(source.splitlines()) <= 100
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring.startswith(f"Step {int(step[4:])}: ") and "\n" not in docstring


@pytest.mark.parametrize("step", STEPS)
def test_solution_shows_what_its_step_is_about(step):
    assert unmet(step, step) == []


@pytest.mark.parametrize("step, following", [*pairwise(list(STEPS)[2:])])
def test_the_step_before_does_not_do(step, following):
    assert unmet(following, step)


def test_steps_1_and_2_refuse_the_sizes_of_step_3():
    for step in ("step01", "step02"):
        gemm = loading.load_factory(loading.solution_path(step, "tilelang"))
        with pytest.raises(CompileError, match="computes"):
            compiler.compile_gemm(gemm, *STEPS["step03"].check_sizes[0])


@pytest.mark.parametrize("step", STEPS)
def test_solution_is_taken_as_it_is_by_ptxas(step):
    found = solution(step).resources
    assert (found.spill_stores, found.spill_loads, found.stack_frame, found.warnings) == (0, 0, 0, ())


@pytest.mark.parametrize("step", STEPS)
def test_solution_has_legal_tensor_maps(step):
    assert checker.tensor_map_findings(solution(step)) == []
    kinds = {p.kind for p in solution(step).parameters}
    assert kinds == ({"pointer"} if "tensor loads" in STEPS[step].forbids else {"tensor_map"})


@pytest.mark.parametrize("step", STEPS)
def test_solution_fits_an_sm(step):
    a = solution(step)
    assert a.dynamic_shared + a.resources.static_shared <= compiler.SHARED_LIMIT
    assert a.threads <= compiler.THREAD_LIMIT and a.threads % 128 == 0
    assert a.resources.registers * a.threads <= REGISTERS
    assert all(extent % of_cluster == 0 for extent, of_cluster in zip(a.grid, a.cluster, strict=True))


@pytest.mark.parametrize("step", [s for s in STEPS if "setmaxnreg" in STEPS[s].requires])
def test_register_reallocation_fits_a_cta(step):
    asked = {kind: int(amount) for kind, amount in map(str.split, receipt(step).setmaxnreg)}
    a = solution(step)
    consumers = a.threads // 128 - 1
    assert asked["dec"] < a.resources.registers <= asked["inc"] <= 255
    assert 128 * (asked["dec"] + consumers * asked["inc"]) <= REGISTERS_AFTER_SETMAXNREG


@pytest.mark.parametrize("step", STEPS)
def test_solution_scores_all_that_a_compile_can_tell(step):
    artifacts = {STEPS[step].check_sizes[0]: solution(step)}
    verdict = checker.check_artifacts(STEPS[step], "tilelang", artifacts, "compile", "no run")
    expected = {name: "passed" if name in NEEDS_NO_GPU else "not run" for name in PARTS}
    assert {part.name: part.state for part in verdict.checks} == expected
    assert verdict.diagnosis == ""


def test_there_are_wrong_kernels_for_every_step_from_four():
    assert {loading.load_module(path).STEP for path in WRONG} >= set(list(STEPS)[3:])


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_wrong_kernel(path):
    """It says what is wrong with it in allowed words, compiles, and fails in no part but its own."""
    wrong = loading.load_module(path)
    assert ast.get_docstring(ast.parse(path.read_text())).endswith(".")
    assert wrong.STEP in STEPS and wrong.OUTCOME in OUTCOMES
    assert wrong.SAYS and wrong.SAYS == wrong.SAYS.lower()
    assert wrong.FAILS in (NEEDS_NO_GPU if wrong.NEEDS_GPU is False else {"results"})

    verdict = checker.check(wrong.STEP, wrong.gemm, "tilelang", backend="compile")
    states = {part.name: part.state for part in verdict.checks}
    assert states["compiles"] == "passed", verdict.diagnosis
    failed = [name for name, state in states.items() if state == "failed"]
    if wrong.NEEDS_GPU:
        assert (failed, verdict.diagnosis) == ([], "")
    else:
        assert failed == [wrong.FAILS]
        assert wrong.SAYS in verdict.diagnosis.lower()
