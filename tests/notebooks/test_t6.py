"""Notebook t6: what counts, paths and the swap say of its broken kernels."""

import pytest

from course_utils.compile.factory import DSLS
from course_utils.compile.faults import kernels
from course_utils.compile.load import edited, solution_path
from course_utils.notebook import suspects
from course_utils.notebook.suspects import BY_THREADS, SUSPECTS, evidence, explanations, suspect, swapped

ELSEWHERE = "t6_merged_rows", "t6_scale_missing"  # the fault is not in the copy of K
QUICK = ("t6_batch_missing", "cute"), ("t6_scale_missing", "tilelang")
EVERY = [
    pytest.param(name, dsl, marks=[pytest.mark.thorough] * ((name, dsl) not in QUICK))
    for name in SUSPECTS
    for dsl in DSLS
]


@pytest.mark.parametrize("name, dsl", EVERY)
def test_the_swap_mends_what_is_wrong_with_the_copy_of_k_and_nothing_else(name, dsl):
    assert swapped(kernels(dsl, "t6")[name]).startswith("wrong" if name in ELSEWHERE else "right")


@pytest.mark.parametrize("dsl", DSLS)
def test_every_fault_can_be_swapped(dsl):
    """The edits of a fault and of the swap are of different places."""
    for name in SUSPECTS:
        fault = kernels(dsl, "t6")[name]
        both = edited(solution_path("t6", dsl).read_text(), *fault.edits, *BY_THREADS[dsl])
        assert both not in (fault.source(), edited(solution_path("t6", dsl).read_text(), *BY_THREADS[dsl]))


def test_counts_tell_a_missing_batch():
    _, rows = evidence(kernels("cute", "t6")["t6_batch_missing"])
    shown = dict(rows)
    assert shown["K loaded"] == "11,264 of its 22,528 elements"
    assert shown["path of K, global to shared"] == "tensor TMA, rank 4: 1"
    assert shown["boxes that begin past an edge"] == "none" and shown["S"].startswith("wrong: 52,7")


@pytest.mark.parametrize("number, guess, says", [(0, None, "suspects 1 to 6"), (1, 9, "from 1 to 6, not 9")])
def test_a_number_that_is_none_is_told(capsys, number, guess, says):
    suspect(number, guess)
    assert says in capsys.readouterr().out


def test_a_guess_is_held_against_the_fault(capsys, monkeypatch):
    monkeypatch.setattr(suspects, "evidence", lambda fault: (["", ""], []))
    monkeypatch.setattr(suspects, "swapped", lambda fault: "right")
    right = explanations("cute").index(kernels("cute", "t6")[SUSPECTS[0]].what) + 1
    for guess in (right, right % 6 + 1):
        suspect(1, guess, "cute")
        said = capsys.readouterr().out
        assert ("Your guess is right" in said) == (guess == right)
        assert "head // group" in said  # the lines that were changed
