"""The transfer tasks: every solution gets all that an emulator can give, and every wrong kernel of
theirs what its row of solutions/wrong says.
"""

import ast
from functools import cache

import pytest

from authoring import sync
from course_utils.compile import load as loading
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import kernels
from course_utils.grading import conditions, steps
from course_utils.grading.gemm import judge
from course_utils.grading.properties import PROPERTIES
from course_utils.problems import PROBLEMS
from course_utils.run.backends import Compiler, Emulator, Launch

TASKS = [tuple(name.split("-")) for name in steps.EXERCISES if name.startswith("task")]
WRONG = [fault for dsl in DSLS for fault in kernels(dsl, "task").values()]
PLACE = {
    "task08b_empty_not_awaited": 0,
    "task10c_one_accumulator": 1,
}  # which launch of the table shows it, where the last does not
OUTCOMES = {"wrong", "race", "hang", "fault", "refused", "right"}
tasks = pytest.mark.parametrize("task, dsl", TASKS)
wrongs = pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.dsl}-{wrong.name}")


@cache
def launch(task, factory, dsl, place=-1):
    """One launch of the task's table: the smallest of them is the last."""
    row = steps.find(task)
    size, ctas = row.emulated[place]
    return Launch(size, compile_factory(factory, dsl, size, row.problem), row.problem, ctas)


def solution(task, dsl):
    return loading.load_factory(loading.solution_path(task, dsl), steps.function_of(task))


def judged(task, dsl, *launches):
    machine = Emulator(schedules=(0,))
    return judge(steps.find(task), dsl, machine, machine.run(launches))


@pytest.mark.thorough  # the solved notebooks ask for all points, TileLang's for `make thorough` too
@tasks
def test_a_solution_is_right_and_shows_what_its_task_is_about(task, dsl):
    verdict = judged(task, dsl, launch(task, solution(task, dsl), dsl))
    assert [(part.name, part.detail) for part in verdict.checks if part.passed is False] == []
    assert next(part for part in verdict.checks if part.name == "results").passed


@tasks
def test_a_solution_says_what_is_asked_and_nothing_of_how(task, dsl):
    source = loading.solution_path(task, dsl).read_text()
    assert ast.get_docstring(ast.parse(source)).startswith(f"Task {task[4:]}: ")
    given = sync.exercise(task, dsl)
    (function,) = (node for node in ast.parse(given).body if isinstance(node, ast.FunctionDef))
    assert function.name == steps.function_of(task) and ast.get_docstring(function)
    assert len(function.body) == 2 and isinstance(function.body[1], ast.Raise)  # no line of it is given


def test_a_task_has_points_of_its_own_and_no_place_on_the_ladder():
    assert not steps.TASKS.keys() & steps.STEPS.keys()
    assert all(task.points and not task.label and not task.owned for task in steps.TASKS.values())
    assert {steps.notebook_of(task) for task in steps.TASKS} <= {"05b", "08b", "10b"}
    assert [steps.notebook_of(one) for one in ("t3a", "step05", "plan11")] == ["t3", "05", "11b"]
    assert {task.problem for task in steps.TASKS.values()} <= set(PROBLEMS)
    assert {dsl for _, dsl in TASKS} == set(DSLS)


def test_every_task_has_two_wrong_kernels():
    counts = [wrong.step for wrong in WRONG]
    assert {task: counts.count(task) for task in steps.TASKS} == dict.fromkeys(steps.TASKS, 2)


@wrongs
def test_a_wrong_kernel_is_found_where_it_says(wrong):
    assert wrong.outcome in OUTCOMES and wrong.name.startswith(wrong.step)
    dsl, gemm = wrong.dsl, wrong.factory(steps.function_of(wrong.step))
    try:
        at = launch(wrong.step, gemm, dsl, PLACE.get(wrong.name, -1))
    except CompileError as error:
        assert wrong.fails == "compiles" and all(words in str(error) for words in wrong.says)
        return
    verdict = judged(wrong.step, dsl, at)
    failed = [part.name for part in verdict.checks if part.passed is False]
    assert failed[0] == wrong.fails and wrong.says and all(w in verdict.diagnosis for w in wrong.says)
    if wrong.needs_gpu and wrong.fails == "instructions":  # the PTX does not show it
        receipts = Compiler("only compiled")
        alone = judge(steps.find(wrong.step), dsl, receipts, receipts.run([at]))
        assert all(part.passed is not False for part in alone.checks)


def test_names_of_the_conditions_are_those_of_the_table():
    known = {*conditions.CONDITIONS, *PROPERTIES, conditions.OWN}
    for task in steps.TASKS.values():
        assert {*task.requires, *task.forbids} <= known and len(set(task.requires)) == len(task.requires)
