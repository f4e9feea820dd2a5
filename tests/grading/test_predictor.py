"""The path predictor: a learner's prediction held against the recorded grid, and against what is compiled
now.
"""

from collections import Counter

import pytest

from course_utils.compile import tile_copies
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_module, solution_path
from course_utils.compile.tile_copies import ASKED, BYTES, CONSUMERS, PATHS, READ_BY, Case, Outcome
from course_utils.grading import predictor, steps
from course_utils.grading.predictor import FRESH, NOW, check_paths

PREDICT = load_module(solution_path("t2b", "paths")).predict
KNOWN = predictor.recorded()


def as_predicted(case):
    """A compiler that the solution knows."""
    return Outcome(PREDICT(case.shape, case.tile, case.dtype, case.consumer, case.asked))


def checked(predict, compiled=as_predicted):
    return check_paths("t2b", predict, compiled, seed=1)


def points(verdict):
    return {part.name: round(part.points, 2) for part in verdict.checks}


def test_the_grid_has_all_ranks_types_and_ways_to_ask():
    cases = [case for case, _ in KNOWN]
    assert len(cases) == len(set(cases)) >= 300
    assert {len(case.shape) for case in cases} == {2, 3, 4, 5}
    assert {case.dtype for case in cases} == set(BYTES) and {case.consumer for case in cases} == set(
        CONSUMERS
    )
    assert {made.path for _, made in KNOWN} == set(PATHS) and {case.asked for case in cases} == set(ASKED)
    assert any(extent % own for case in cases for extent, own in zip(case.shape, case.tile, strict=True))
    assert any(max(case.tile) > 256 for case in cases) and any(case.row % 16 for case in cases)


def test_the_solution_has_all_points():
    verdict = checked(PREDICT)
    assert verdict.passed and verdict.points == steps.points_of("t2b") == 10
    assert points(verdict) == dict.fromkeys([*ASKED, NOW], 2)


@pytest.mark.parametrize("path", PATHS)
def test_a_constant_answer_has_no_points(path):
    assert checked(lambda *case: path).points == 0


def test_what_is_right_of_one_way_to_ask_has_its_points():
    def predict(shape, tile, dtype, consumer, asked):
        return PREDICT(shape, tile, dtype, consumer, asked) if asked == "TMA atom" else "error"

    made = points(checked(predict))
    assert made["TMA atom"] == 2 and made["T.copy"] == 0 and 2 <= sum(made.values()) < 4


def test_a_case_that_differs_is_told_with_its_reason():
    def predict(shape, tile, dtype, consumer, asked):
        path = PREDICT(shape, tile, dtype, consumer, asked)
        return "threads" if path == "error" else path

    verdict = checked(predict)
    part = next(part for part in verdict.checks if part.name == "T.tma_copy")
    assert part.passed is False and 0 < part.points < 2 and len(part.found) <= predictor.SHOWN
    text = str(verdict.card)
    assert "you say threads; TileLang raised an error: " in text and "no tensor map describes" in text
    assert len(text.split()) <= 45 and str(verdict) and verdict._repr_html_()


def test_the_record_cannot_be_looked_up():
    record = {case: made.path for case, made in KNOWN}

    def predict(*case):
        return record.get(Case(*case), "error")

    verdict = checked(predict)
    assert verdict.points < 1 and "write down the rules, not the record" in verdict.diagnosis


@pytest.mark.parametrize("value", [None, 1, "two boxes", "", ["one box"], b"one box", float("nan")], ids=repr)
def test_what_is_no_path_is_refused(value):
    verdict = checked(lambda *case: value)
    assert verdict.points == 0 and "it must be one of 'one box', " in verdict.diagnosis


def test_what_raises_is_told_with_the_case():
    verdict = checked(lambda *case: {}[case[2]])
    assert verdict.points == 0 and "raised KeyError" in verdict.diagnosis and "predict((" in verdict.diagnosis
    assert "raised SystemExit" in checked(lambda *case: exit()).diagnosis
    assert "raised TypeError" in checked(lambda shape: "threads").diagnosis
    assert checked(None).points == 0


def test_an_endless_loop_is_a_verdict(monkeypatch):
    monkeypatch.setattr(predictor, "LIMIT", 0.2)

    def predict(*case):
        while True:
            pass

    verdict = checked(predict)
    assert verdict.points == 0 and "did not end within 0.2 s" in verdict.diagnosis


def test_an_exercise_as_it_was_given_is_open():
    def predict(shape, tile, dtype, consumer, asked):
        raise NotImplementedError("TODO 1")

    assert checked(predict).open


@pytest.mark.parametrize("case", ["t2", "", None, 5])
def test_unknown_case_is_a_verdict(case):
    verdict = check_paths(case, PREDICT)
    assert verdict.points == verdict.max_points == 0 and "t2b" in verdict.diagnosis


def test_a_missing_compiler_leaves_a_part_untried():
    def missing(case):
        raise CompileError("load", "the package tilelang is missing here")

    last = checked(PREDICT, missing).checks[-1]
    assert last.name == NOW and last.passed is None and last.points == 0


def test_a_compile_that_takes_too_long_is_no_path(monkeypatch):
    """It says nothing of the tile: an error is the compiler's own answer."""
    monkeypatch.setattr(tile_copies.child, "LIMIT", 0.01)
    case = Case((64, 64), (32, 64), "float16", "threads", "T.copy")
    with pytest.raises(CompileError, match="did not end within 0.01 s"):
        tile_copies.outcome(case)
    assert predictor.compile_each([case]) == []


def test_fresh_cases_are_none_of_the_record_and_of_each_way_to_ask():
    one, other = (predictor.fresh(seed, KNOWN) for seed in ("a", "b"))
    assert len(one) == FRESH and one != other and not {case for case, _ in KNOWN} & {*one, *other}
    assert set(Counter(case.asked for case in one).values()) == {FRESH // len(ASKED)}


def test_every_recorded_path_has_a_reason():
    for case, made in KNOWN:
        reason = predictor.why(case, made)
        assert reason and reason != "threads copy it" and "\n" not in reason and len(reason.split()) <= 40
        if made.path in ("threads", "error") and case.dsl == "tilelang" and made.said:
            assert predictor.hinders(case)


@pytest.mark.parametrize(
    "fields, words",
    [
        (((8, 32), (2, 16, 64), "float16", "threads", "T.copy"), "one rank, 2 to 5"),
        (((8,), (8,), "float16", "threads", "T.copy"), "one rank, 2 to 5"),
        (((8, 0), (8, 4), "float16", "threads", "T.copy"), "above 0"),
        (((8, 8), (8, 4.0), "float16", "threads", "T.copy"), "whole numbers"),
        (((8, 8), (8, 8), "half", "threads", "T.copy"), "dtype is 'half'"),
        (((8, 8), (8, 8), "float16", "threads", "copy"), "asked is 'copy'"),
        (((8, 8), (8, 8), "float16", "pipelined gemm", "T.tma_copy"), "read by one of"),
        (((2, 8, 8), (2, 8, 8), "float16", "gemm", "T.tma_copy"), "no matrix"),
    ],
)
def test_what_is_no_case_says_which_there_are(fields, words):
    with pytest.raises(ValueError, match=words):
        Case(*fields)


@pytest.mark.parametrize("asked", ASKED)
def test_compiled_now_as_recorded(asked):
    """The installed compilers are those of the record: its first case of each way to ask, compiled again."""
    case, made = next((case, made) for case, made in KNOWN if case.asked == asked)
    assert tile_copies.outcome(case) == made and case.consumer in READ_BY[asked]
