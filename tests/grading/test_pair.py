"""The pair of programs for a bug report: a control that is right, and one edit that shows the given fault."""

from dataclasses import replace

import pytest

from course_utils.compile.factory import NotYet, compile_factory
from course_utils.compile.faults import kernels
from course_utils.compile.load import edited, load_factory_source, solution_path
from course_utils.grading import ids, pair, reproducer, steps
from course_utils.grading.pair import Tried, check_pair
from course_utils.grading.verdict import NOT_REACHED
from course_utils.run.backends import Emulator, Launch
from course_utils.run.protocol import Answer

CASE = steps.PAIR_CASES["t4b"]
PAIRS = {dsl: solution_path("t4b", dsl).read_text() for dsl in steps.DSL_NAMES}
EXPECT = "                T.mbarrier_expect_tx(full, tile * tile * 2)\n"
ARRIVE = "            if T.shuffle_elect(128):\n                T.mbarrier_arrive(full)\n"


def checked(source, dsl="tilelang", case="t4b"):
    return check_pair(case, load_factory_source(source, "pair", "broken"), dsl, "emulator")


def changed(dsl, *edits, of=("control", "broken")):
    """The solution with edits in both programs, or in one: each text stands once in a program."""
    begin, (control, broken) = PAIRS[dsl].split("def control")[0], halves(dsl)
    made = [
        edited(text, *edits) if name in of else text
        for name, text in (("control", control), ("broken", broken))
    ]
    return begin + "".join(made)


def halves(dsl):
    control, _, broken = PAIRS[dsl].partition("def broken")
    return "def control" + control.split("def control")[1], "def broken" + broken


def states(verdict):
    return {part.name: part.passed for part in verdict.checks}


# -- what both programs do


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
def test_the_solution_has_all_points_and_states_its_environment(dsl):
    verdict = ids.check_file("t4b", None, dsl)
    assert verdict.passed and verdict.points == CASE.points == 10
    package = pair.PACKAGE[dsl]
    version = dict(verdict.receipt)[package]
    assert f"{package} {version}" in verdict.checks[0].detail and version[0].isdigit()


@pytest.mark.parametrize("dsl", [pytest.param(dsl, marks=pytest.mark.thorough) for dsl in steps.DSL_NAMES])
def test_the_given_kernel_shows_the_fault_that_is_asked_for(dsl):
    fault = kernels(dsl)[CASE.faults[dsl]]
    made = compile_factory(fault.factory(), dsl, (128, 128, 128))
    ((_, answer),) = Emulator().run([Launch((128, 128, 128), made)])
    kind, case = CASE.shows[dsl]
    assert answer.kinds[0] == kind and case in set(pair._cases(answer.findings[0]))


BAD = [  # edits, of which programs, the parts' states from the first, words of the card
    ("fault too", [(ARRIVE, "")], ("control",), [False, True, None, None], "its only arrival"),
    ("no fault", [(EXPECT, "")], ("broken",), [True, False, None, None], "is right, and must show deadlock"),
    (
        "another fault",
        [(EXPECT, ""), (ARRIVE, "")],
        ("broken",),
        [True, False, None, None],
        "another fault than deadlock, as expect_bytes_too_many does",
    ),
    (
        "two edits",
        [("T.tma_store_wait(0)\n", "T.tma_store_wait(0)\n            T.sync_threads()\n")],
        ("broken",),
        [True, True, False, True],
        "2 edits, the longest of 1 lines: a pair differs by one edit of at most 3 lines",
    ),
    ("refused", [("return main", "return None")], ("control",), [False, True, None, None], "NoneType"),
    ("raises", [("return main", "raise KeyError(rows)")], ("broken",), [True, False, None, None], "KeyError"),
]


@pytest.mark.parametrize("name, edits, of, parts, says", BAD, ids=[row[0] for row in BAD])
def test_what_is_no_pair_is_told_why(name, edits, of, parts, says):
    verdict = checked(changed("tilelang", *edits, of=of))
    assert list(states(verdict).values()) == parts and not verdict.passed
    assert says in verdict.diagnosis.replace("\n", " "), verdict.diagnosis
    assert verdict.points == sum(part.max_points for part in verdict.checks if part.passed)
    if None in parts:
        assert [part.state for part in verdict.checks[2:]] == [NOT_REACHED] * 2


def test_it_needs_few_lines_and_one_cta():
    more = "".join(f"            T.sync_threads()  # {n}\n" for n in range(20))
    verdict = checked(
        changed("tilelang", ("            T.tma_store_wait(0)\n", f"            T.tma_store_wait(0)\n{more}"))
    )
    assert states(verdict) == {"control": True, "fault": True, "one edit": True, "short": False}
    assert "37 lines of statements: leave out what the fault does not need, down to 25" in verdict.diagnosis
    small = checked(PAIRS["tilelang"].replace("tile = 64", "tile = 32"))
    assert "4 CTAs at 64 x 64: one is enough to show this fault" in small.diagnosis


# -- what is no pair at all


@pytest.mark.parametrize(
    "source, says",
    [
        ("def broken(rows, columns):\n    pass\n", "there is no control(rows, columns)"),
        ("def control(r, c):\n    pass\n\n\nclass broken:\n    pass\n", "there is no broken(rows, columns)"),
        (
            "def made(r, c):\n    pass\n\n\ndef control(r, c):\n    return made(r, c)\n\n\n"
            "def broken(r, c):\n    return made(c, r)\n",
            "write made into control and into broken",
        ),
        (
            "f = lambda: 0\n\n\ndef control(r, c):\n    f()\n\n\ndef broken(r, c):\n    pass\n",
            "write a lambda into",
        ),
        ("def control(:\n", "this pair is not Python"),
    ],
)
def test_a_source_that_is_no_pair_is_told(source, says):
    with pytest.raises(ValueError, match=says.replace("(", r"\(").replace(")", r"\)")):
        reproducer.programs(source)


def test_a_program_stands_alone_and_keeps_its_lines():
    source = "import os\nx = 1\nprint(x)\n\n\ndef control(r, c):\n    return x\n\n\n"
    source += "@wraps\ndef broken(r, c):\n    return 2\n"
    made = reproducer.programs(source)
    assert made["control"] == "import os\nx = 1\n\n\n\ndef copy(r, c):\n    return x\n"
    assert made["broken"] == "import os\nx = 1\n" + "\n" * 7 + "@wraps\ndef copy(r, c):\n    return 2\n"


def test_what_is_as_it_was_given_is_open():
    given = "def control(rows, columns):\n    raise NotImplementedError('TODO 1')\n\n\n"
    given += "def broken(rows, columns):\n    raise NotImplementedError('TODO 2')\n"
    verdict = checked(given)
    assert verdict.open and verdict.points == 0 and "line 2 (TODO 1)" in verdict.diagnosis
    assert check_pair("t4b", NotYet("broken")).open


@pytest.mark.parametrize("case", ["t4", "t9", None, 3])
def test_a_case_that_is_no_pair_is_told(case):
    verdict = check_pair(case, None)
    assert verdict.max_points == 0 and "the pairs are t4b" in verdict.diagnosis


@pytest.mark.parametrize("broken", [None, 3, print])
def test_what_is_no_function_of_a_cell_is_told(broken):
    verdict = check_pair("t4b", broken, "cute", "emulator")
    assert verdict.points == 0 and verdict.max_points == 10 and verdict.checks[0].passed is False


# -- a verdict of what an emulator says, without one


@pytest.fixture(scope="module")
def launch():
    made = reproducer.programs(PAIRS["tilelang"])["control"]
    return pair._launch(load_factory_source(made, "control", "copy"), "tilelang", CASE)


def judged(control, broken, launch):
    tried = {name: Tried(launch, answer) for name, answer in (("control", control), ("broken", broken))}
    return pair.judge(CASE, "tilelang", "emulator", reproducer.programs(PAIRS["tilelang"]), tried)


def test_a_finding_has_to_be_of_the_given_kind_and_case(launch):
    right = Answer(ok=True)
    inner = {"kind": "deadlock", "case": "bytes missing", "values": {}}
    finding = {"kind": "deadlock", "case": "waits", "values": {"what": inner}, "text": "waits for bytes"}
    answer = Answer(finished=False, kinds=("deadlock",), findings=(finding,))
    assert judged(right, answer, launch).passed
    for other in ({"kind": "livelock"}, {"values": {"what": {**inner, "case": "arrivals missing"}}}):
        wrong = replace(answer, findings=({**finding, **other},))
        assert states(judged(right, wrong, launch))["fault"] is False
    assert states(judged(right, Answer(), launch))["fault"] is False  # wrong numbers, and no finding


def test_what_could_not_be_tried_is_neither_right_nor_wrong(launch):
    busy = Answer(error="not_run", detail="not run: this machine was too busy")
    verdict = judged(busy, busy, launch)
    assert set(states(verdict).values()) == {None} and verdict.points == 0 and not verdict.failed
