"""A kernel at the size that a GPU times, where there is none: it compiles, and has the plan that was run."""

from dataclasses import replace

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory, compile_sizes
from course_utils.compile.faults import table
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import real_size, steps
from course_utils.grading.gemm import check_gemm, judge
from course_utils.grading.words import text
from course_utils.problems import PROBLEMS
from course_utils.run.backends import Emulator, Launch

ROWS = steps.STEPS | steps.GEMM_CASES | steps.TASKS
SOLVED = [(name, dsl) for name in (*steps.STEPS, "t5", *steps.TASKS) for dsl in steps.DSL_NAMES]
QUICK = [("step05", "tilelang"), ("step09", "cute"), ("task08b", "tilelang"), ("task10b", "cute")]


def solution(name, dsl):
    return load_factory(solution_path(name, dsl), PROBLEMS[ROWS[name].problem].function)


def lacking(name, dsl, factory):
    """By name, in words: what a kernel lacks at its step's real size."""
    row = ROWS[name]
    sizes = [*(size for size, _ in row.emulated), row.real_size]
    *ran, real = [one.artifact for one in compile_sizes(factory, dsl, sizes, row.problem)]
    found = real_size.lacking(row, ran, Launch(row.real_size, real, row.problem))
    return {name: text(one.cause) for name, one in found.items()}


def of_two(dsl, short, long):
    """One solution up to K = 1400, and another above."""
    one, other = solution(short, dsl), solution(long, dsl)
    return lambda M, N, K: (one if K <= 1400 else other)(M, N, K)


def test_the_real_size_is_what_a_gpu_times_or_the_largest_that_it_checks():
    assert steps.STEPS["step05"].real_size == steps.TIMED_SIZES[0]
    assert steps.STEPS["step01"].real_size == (128, 128, 64)
    for row in ROWS.values():
        assert row.real_size in (*row.timed_sizes, *row.check_sizes)
        assert len(row.real_size) == len(row.emulated[0][0])


@pytest.mark.parametrize("name, dsl", QUICK)
def test_a_solution_has_one_plan(name, dsl):
    assert not lacking(name, dsl, solution(name, dsl))


@pytest.mark.thorough
@pytest.mark.parametrize("name, dsl", [one for one in SOLVED if one not in QUICK])
def test_every_solution_has_one_plan(name, dsl):
    try:
        factory = solution(name, dsl)
    except CompileError:
        pytest.skip("this one is of the other language")
    assert not lacking(name, dsl, factory)


def test_a_kernel_that_raises_at_its_real_size_is_no_right_one():
    right = solution("step05", "tilelang")

    def gemm(M, N, K):
        assert K <= 1400
        return right(M, N, K)

    verdict = check_gemm("step05", gemm, backend="compile")
    assert verdict.points == 0 and "gemm(4096, 4096, 4096) raised AssertionError" in verdict.diagnosis


@pytest.mark.parametrize(
    "step, other, dsl, words",
    [
        (
            "step05",
            "step04",
            "tilelang",
            "1 `mbarrier.init` (at M, N, K = 4096 x 4096 x 4096); where it ran, 2",
        ),
        ("step07", "step08", "cute", "has 8 `mbarrier.init`"),
        ("step08", "step09", "tilelang", "has a cluster of 2 x 1 x 1"),
        ("step09", "step10", "cute", "has 384 threads a CTA"),
    ],
)
def test_another_plan_at_the_real_size_is_told(step, other, dsl, words):
    found = lacking(step, dsl, of_two(dsl, step, other))
    told = found[real_size.PLAN]
    assert words in told and "give every size the same plan" in told


def test_what_a_step_requires_is_required_of_the_real_size_too():
    found = lacking("step05", "cute", of_two("cute", "step05", "step03"))
    assert found["expect-tx"].endswith("(at M, N, K = 4096 x 4096 x 4096)")


def test_step_11_has_a_plan_for_each_size():
    row = replace(ROWS["step11"], emulated=ROWS["step05"].emulated)
    sizes = [(256, 512, 64), (256, 512, 128)]
    ran, real = [one.artifact for one in compile_sizes(solution("step05", "cute"), "cute", sizes)]
    real = replace(real, cluster=(2, 1, 1))
    assert real_size.PLAN not in real_size.lacking(row, [ran], Launch(sizes[1], real))
    assert real_size.PLAN in real_size.lacking(ROWS["step05"], [ran], Launch(sizes[1], real))


BEGUN = [
    ("step05", "tilelang", "loads ahead up to K = 1280 alone", {"loads ahead"}),
    pytest.param("step10", "cute", "", set(), marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("step, dsl, name, lacks", BEGUN, ids=["a decoy", "a solution"])
def test_the_first_k_tiles_of_the_real_size_show_its_pipeline(step, dsl, name, lacks):
    (gemm,) = [fault.factory() for fault in table() if fault.name == name] or [solution(step, dsl)]
    row = ROWS[step]
    real = compile_factory(gemm, dsl, row.real_size)
    launch = Launch(row.real_size, real, ctas=(70,), k_tiles=real_size.K_TILES)
    answer = Emulator(schedules=(0,), tags=1).ask(launch)
    assert answer.ok and not answer.error and not answer.finished
    warpgroups = real.threads // 128 - 1 or 1
    assert answer.facts["K tiles"] <= 2 * warpgroups * (real_size.K_TILES + 1)
    found = real_size.lacking(row, [real], launch, answer.facts)
    assert set(found) == lacks
    for one in found.values():
        assert text(one.cause).endswith("(at M, N, K = 4096 x 4096 x 4096)"), text(one.cause)


def test_a_launch_that_shows_no_k_tile_lacks_what_they_would_show():
    row, small = ROWS["step05"], (128, 256, 128)
    artifact = compile_factory(solution("step05", "tilelang"), "tilelang", small)
    found = real_size.lacking(row, [artifact], Launch(small, artifact), {})
    assert set(found) == {"loads ahead", "two stages used"}
    assert "nothing of it was seen in a run" in text(found["loads ahead"].cause)


def test_only_steps_with_a_ring_of_k_tiles_are_begun():
    assert [name for name in ROWS if not real_size.begins(ROWS[name])] == [
        *("step01", "step02", "step03", "step04"),
        *("t3a", "t3c"),
        *("t5", "t6", "task08b"),
    ]


def test_what_the_real_size_does_not_show_costs_points_in_a_strict_judgement():
    row, small = replace(ROWS["step05"], emulated=(((128, 256, 320), None),)), (128, 256, 320)
    artifact = compile_factory(solution("step05", "tilelang"), "tilelang", small)
    machine = Emulator(schedules=(0,))
    launch = Launch(small, artifact, sums=True)
    answered = machine.run([launch])
    facts = answered[0][1].facts
    right = judge(row, "tilelang", machine, answered, strict=True, idle=[(launch, facts)])
    assert right.card is None
    late = facts | {"K tiles with loads 1 ahead": 0}
    verdict = judge(row, "tilelang", machine, answered, strict=True, idle=[(launch, late)])
    assert verdict.points < right.points and "needs loads ahead" in verdict.diagnosis
