"""Notebook t6: what counts, paths and the swap say of its broken kernels."""

import json

import pytest

from course_utils.compile.factory import DSLS
from course_utils.compile.faults import kernels
from course_utils.compile.load import edited, solution_path
from course_utils.notebook import suspects
from course_utils.notebook.records import recorded_scores
from course_utils.notebook.suspects import (
    BY_THREADS,
    SUSPECTS,
    evidence,
    explanations,
    suspect,
    suspects_of,
    swapped,
)
from course_utils.recordings import measured

ELSEWHERE = "t6_merged_rows", "t6_scale_missing"  # the fault is not in the copy of K
QUICK = ("t6_batch_missing", "cute"), ("t6_scale_missing", "tilelang")
EVERY = [
    pytest.param(name, dsl, marks=[pytest.mark.thorough] * ((name, dsl) not in QUICK))
    for dsl in DSLS
    for name in suspects_of(dsl)
]


@pytest.mark.parametrize("name, dsl", EVERY)
def test_the_swap_mends_what_is_wrong_with_the_copy_of_k_and_nothing_else(name, dsl):
    assert swapped(kernels(dsl, "t6")[name]).startswith("wrong" if name in ELSEWHERE else "right")


@pytest.mark.parametrize("dsl", DSLS)
def test_every_fault_can_be_swapped(dsl):
    """The edits of a fault and of the swap are of different places."""
    for name in suspects_of(dsl):
        fault = kernels(dsl, "t6")[name]
        both = edited(solution_path("t6", dsl).read_text(), *fault.edits, *BY_THREADS[dsl])
        assert both not in (fault.source(), edited(solution_path("t6", dsl).read_text(), *BY_THREADS[dsl]))


def test_counts_tell_a_missing_batch():
    _, rows = evidence(kernels("cute", "t6")["t6_batch_missing"])
    shown = dict(rows)
    assert shown["K loaded"] == "11,264 of its 22,528 elements"
    assert shown["path of K, global to shared"] == "tensor TMA, rank 4: 1"
    assert shown["boxes that begin past an edge"] == "none" and shown["S"].startswith("wrong: 52,7")


def test_a_path_tells_a_plain_copy_that_costs_no_byte():
    _, rows = evidence(kernels("tilelang", "t6")["t6_plain_copy"])
    shown = dict(rows)
    assert shown["S"] == "right" and shown["K loaded"] == "0 of its 22,528 elements"
    assert shown["path of K, global to shared"].startswith("plain loads and stores")


def test_only_the_map_tells_a_swizzle_that_differs():
    _, rows = evidence(kernels("cute", "t6")["t6_swizzles_differ"])
    shown = dict(rows)
    assert shown["path of K, global to shared"] == "tensor TMA, rank 4: 1"
    assert shown["K loaded"] == "22,528 of its 22,528 elements" and shown["S"].startswith("wrong")
    assert "swizzle none" in shown["map of K"] and "swizzle 128B" in shown["map of Q"]


def test_what_the_text_says_of_the_recorded_times(capsys):
    entries = json.loads((measured.FOLDER / "scores.json").read_text())["entries"]
    ratios, seconds = {}, {}
    for entry in entries:
        key = entry["shape"], entry["peer"]
        ratios.setdefault(key, []).append(round(entry["timing"]["ratio"], 2))
        seconds.setdefault(entry["shape"], []).append(entry["timing"]["seconds"])
    assert ratios["D 128", "matmul of views"] == [1.39, 1.38]
    assert ratios["D 64", "matmul of views"] == [1.05, 1.06]
    assert ratios["D 128", "baddbmm of copies"] == [0.92, 0.92]
    assert ratios["D 64", "baddbmm of copies"] == [0.84, 0.85]
    assert ratios["D 128, grouped, odd rows", "matmul of views"] == [0.71, 0.66]
    assert max(seconds["D 64"]) < 1.05 * min(seconds["D 128"])
    recorded_scores()
    shown = capsys.readouterr().out
    assert shown.count("\nD ") == 14 and "over baddbmm of copies" in shown and "NVIDIA H200" in shown


@pytest.mark.parametrize("number, guess, says", [(0, None, "suspects 1 to 7"), (1, 9, "from 1 to 7, not 9")])
def test_a_number_that_is_none_is_told(capsys, number, guess, says):
    suspect(number, guess)
    assert says in capsys.readouterr().out


def test_a_guess_is_held_against_the_fault(capsys, monkeypatch):
    monkeypatch.setattr(suspects, "evidence", lambda fault: (["", ""], []))
    monkeypatch.setattr(suspects, "swapped", lambda fault: "right")
    right = explanations("cute").index(kernels("cute", "t6")[SUSPECTS[0]].what) + 1
    for guess in (right, right % 7 + 1):
        suspect(1, guess, "cute")
        said = capsys.readouterr().out
        assert ("Your guess is right" in said) == (guess == right)
        assert "head // group" in said  # the lines that were changed
