"""A model of what a launch takes, held against recorded times."""

import pytest

from course_utils import plans
from course_utils.compile.load import SOLUTIONS, load_module
from course_utils.grading import steps
from course_utils.grading.plan import check_plan

SOLUTION = load_module(SOLUTIONS / "plan" / "plan11_model.py").seconds


def parts(verdict):
    return {part.name: part.passed for part in verdict.checks}


def without_waves(M, N, K, plan):
    """As if the last wave took only its share."""
    tiles = M * N / (plan.block_M * plan.block_N) / plan.num_ctas
    return tiles * K * 2 * plan.block_M * plan.block_N / 4096 / plans.CLOCK


def without_l2(M, N, K, plan):
    """As if L2 brought any number of bytes."""
    clusters = -(-M // (plan.block_M * plan.cluster)) * -(-N // plan.block_N)
    waves = -(-clusters // (plan.num_ctas // plan.cluster))
    k_tile = 2 * plan.block_M * plan.block_N * 64 / 4096
    return (plans.LAUNCH + waves * (-(-K // 64) * k_tile + plans.TURN)) / plans.CLOCK


def in_cycles(*point):
    return SOLUTION(*point) * plans.CLOCK


def test_the_solution_has_all_points():
    verdict = check_plan("plan11", SOLUTION)
    assert verdict.passed and verdict.points == steps.points_of("plan11") == 10
    assert parts(verdict) == {"times": True, "order": True, "choice": True}
    assert check_plan("plan11", lambda *point: __import__("numpy").float64(SOLUTION(*point))).passed


@pytest.mark.parametrize(
    "seconds, passed, words",
    [
        (
            without_waves,
            (False, False, False),
            ["off in the middle", "Then: At ", "How many waves does each need?"],
        ),
        (without_l2, (False, False, False), ["worst at 4104 x 4104 x 4104", "no clusters"]),
        (in_cycles, (False, True, True), ["does not return seconds"]),
        (lambda M, N, K, plan: 1e-4, (False, False, False), ["knows the quicker of two plans in 0 of "]),
    ],
)
def test_a_wrong_model_is_told_where_it_is_worst(seconds, passed, words):
    verdict = check_plan("plan11", seconds)
    assert tuple(parts(verdict).values()) == passed
    for word in words:
        assert word in verdict.diagnosis
    assert len(str(verdict.card).split()) <= 40 and str(verdict) and verdict._repr_html_()


def test_units_are_blamed_only_where_all_times_are_off_alike():
    """As L2's rate taken for that of the whole chip makes them: more where L2 bounds."""
    said = check_plan("plan11", lambda *point: SOLUTION(*point) * (200 if point[0] < 5000 else 20)).diagnosis
    assert "off in the middle" in said and "does not return seconds" not in said


@pytest.mark.parametrize("value", [None, "1", float("nan"), float("inf"), 0, -1.0, [1.0]], ids=repr)
def test_what_is_no_time_is_refused(value):
    verdict = check_plan("plan11", lambda M, N, K, plan: value)
    assert verdict.points == 0 and "it must be a number above 0" in verdict.diagnosis


def test_what_raises_is_told_with_the_size():
    verdict = check_plan("plan11", lambda M, N, K, plan: 1 // 0)
    assert verdict.points == 0 and "raised ZeroDivisionError" in verdict.diagnosis
    assert check_plan("plan11", None).points == 0
    assert "raised SystemExit" in check_plan("plan11", lambda *_: exit()).diagnosis


def test_an_exercise_as_it_was_given_is_open():
    def seconds(M, N, K, plan):
        raise NotImplementedError("TODO 1")

    assert check_plan("plan11", seconds).open


@pytest.mark.parametrize("case", ["t5", "", None, 5])
def test_unknown_case_is_a_verdict(case):
    verdict = check_plan(case, SOLUTION)
    assert verdict.points == verdict.max_points == 0 and "plan11" in verdict.diagnosis
