"""From an id of the course to its language, its solution, and the check that judges it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import copy, levels, maps, pair, plan, predictor, steps
from course_utils.grading.check_progress import OnProgress, ignored
from course_utils.grading.found import of_error
from course_utils.grading.steps import MapCase, PathCase, PlanCase
from course_utils.grading.verdict import Verdict, not_compiled
from course_utils.run.backends import TIME_LIMIT, Backend


def language(name: str, dsl: str | None) -> str:
    """The language that a command means: ``dsl``, or the first of those that the id is an exercise in;
    "maps", "paths" or "plan" of a case without a kernel.

    Raises ValueError for no such id, and where it is no exercise in ``dsl``.
    """
    steps.row(name)
    there = steps.languages(name)
    if dsl is None or dsl in there:
        return dsl or there[0]
    if there[0] not in steps.DSL_NAMES:
        raise ValueError(f"{name} has no kernel, so it is the same in both languages: leave out --dsl {dsl}")
    raise ValueError(f"{name} is an exercise in {steps.DSL_NAMES[there[0]]} only: try --dsl {there[0]}")


def solution(name: str, dsl: str) -> Path:
    """The file that solves an id in a language; of a kernel to repair, the solution that its fault was
    planted in. Raises CompileError where the checkout has none.
    """
    return solution_path(steps.solved_by(name), dsl)


def check(
    name: str,
    function: Any,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    on_progress: OnProgress = ignored,
) -> Verdict:
    """The verdict on what an exercise defines, by the check of its kind. The arguments are as
    ``gemm.check_gemm``'s; a case without a kernel needs no machine. Raises nothing.
    """
    if name in steps.MAP_CASES:
        return maps.check_maps(name, function)
    if name in steps.PLAN_CASES:
        return plan.check_plan(name, function)
    if name in steps.PATH_CASES:
        return predictor.check_paths(name, function)
    if name in steps.PAIR_CASES:
        return pair.check_pair(name, function, dsl, backend, time_limit, on_progress)
    by_kind = copy.check_copy if name in steps.COPY_CASES else levels.check_gemm
    return by_kind(name, function, dsl, backend, time_limit, on_progress)


def check_file(
    name: str,
    path: str | Path | None,
    dsl: str,
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    on_progress: OnProgress = ignored,
) -> Verdict:
    """As ``check``, of a Python file, the solution where it is None. One that does not run is a verdict too;
    raises ValueError for no such id.
    """
    row = steps.row(name)
    try:
        function = load_factory(path or solution(name, dsl), steps.function_of(name))
    except CompileError as error:
        if isinstance(row, MapCase):
            return maps.judge(row, (), str(error))
        if isinstance(row, PlanCase):
            return plan.judge(row, (), (), str(error))
        if isinstance(row, PathCase):
            return predictor.judge(row, (), (), (), str(error))
        return not_compiled(row, dsl, "compile", of_error(error))
    return check(name, function, dsl, backend, time_limit, on_progress)
