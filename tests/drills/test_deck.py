"""Every drill of every notebook, over many seeds: one right answer, other numbers each time, short, quick."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.drills import deck, picture
from course_utils.drills.question import AnswerError

NOTEBOOKS = ["01", "01b", *(f"{n:02d}" for n in range(2, 12)), "11b", *(f"t{n}" for n in range(1, 7))]
NOTEBOOKS += [f"b{n:02d}" for n in range(1, 11)]
NOTEBOOKS += ["a1", "a2"]
PUZZLES = "01b"  # a notebook of puzzles, without an exercise
DRILLS = [(name, number) for name in deck.DECK for number in range(1, len(deck.DECK[name]) + 1)]
MOST_WORDS = 60
SEEDS = 40


def answers(asked):
    """Answers that a person may give: of a choice all, of a number the usual ones and the ends."""
    if asked.kind == "choice":
        return range(len(asked.options))
    if asked.kind == "order":
        return asked.right, tuple(reversed(asked.right))
    return {asked.right, 0, asked.limit, *(one for one in asked.mistakes if 0 <= one <= asked.limit)}


def test_each_notebook_has_three_to_seven_drills_of_its_own():
    assert list(deck.DECK) == NOTEBOOKS
    for name, drills in deck.DECK.items():
        least, most = (10, 16) if name == PUZZLES else (3, 7)
        assert least <= len(drills) <= most and len(set(drills)) == len(drills)


@pytest.mark.parametrize("name, number", DRILLS)
def test_a_drill_has_one_right_answer_and_says_what_is_wrong_with_the_others(name, number):
    for seed in range(SEEDS):
        asked = deck.question(name, number, seed)
        words = " ".join((asked.text, *asked.options)).split()
        assert len(words) < MOST_WORDS, asked.text
        assert asked.read(written(asked, asked.right)) == asked.right
        assert asked.right not in asked.mistakes or not asked.mistakes[asked.right]
        for answer in answers(asked):
            drawing = asked.draw(answer)
            assert picture.text(drawing) and len(drawing) <= 10
            assert max(len(row.cells) for row in drawing) <= 14
            assert asked.sentence(answer).endswith(".")
            if answer != asked.right and asked.kind != "number":
                assert asked.mistakes[answer], (asked.text, answer)
        if asked.kind == "choice":
            assert 2 <= len(asked.options) <= 4 and len(set(asked.options)) == len(asked.options)
            assert asked.read(asked.options[asked.right]) == asked.right
        elif asked.kind == "order":
            assert sorted(asked.right) == list(range(len(asked.options))) and len(asked.options) <= 5
            assert asked.right != tuple(sorted(asked.right))
        else:
            assert 0 <= asked.right <= asked.limit and all(asked.mistakes.values())
            assert asked.draw(asked.right) != asked.draw(asked.right + 1)


def written(asked, answer):
    """An answer as a person writes it."""
    return asked.says(answer).partition(",")[0] if asked.kind == "choice" else asked.says(answer)


@given(drill=st.sampled_from(DRILLS), seed=st.integers(0, 10**9))
@settings(max_examples=150, deadline=None)
def test_the_next_seed_gives_other_numbers(drill, seed):
    here, there = deck.question(*drill, seed), deck.question(*drill, seed + 1)
    assert (here.text, here.options) != (there.text, there.options)
    again = deck.question(*drill, seed)
    assert (here.text, here.options, here.right) == (again.text, again.options, again.right)


def test_right_answers_are_not_always_in_the_same_place():
    for name, number in DRILLS:
        rights = {str(deck.question(name, number, seed).right) for seed in range(SEEDS)}
        assert len(rights) > 1, (name, number)


@pytest.mark.parametrize("name, number", [("05", 0), ("05", 7), ("05", -1)])
def test_a_number_that_a_notebook_has_not(name, number):
    with pytest.raises(IndexError):
        deck.question(name, number)
    with pytest.raises(KeyError):
        deck.question("17", 1)


# fmt: off
BAD = [
    None, "", "  ", "z", "a b", 1.5, True, [], {}, b"a", "-1", "1e9", "9" * 40, "a" * 1000, "١", "<b>", "1*",
    "x",
]
# fmt: on


@pytest.mark.parametrize("answer", BAD, ids=repr)
def test_an_answer_that_is_none_is_told_what_to_write(answer):
    for name, number in DRILLS:
        with pytest.raises(AnswerError, match="This asks for"):
            deck.question(name, number).read(answer)


@pytest.mark.parametrize(
    "kind, answer, read",
    [
        ("number", "16,384", 16384),
        ("number", " 16 384 ", 16384),
        ("number", "2 * 128 x 64", 16384),
        ("number", 16384, 16384),
        ("choice", "B", 1),
        ("choice", " b ", 1),
        ("order", "b,a,d,c", (1, 0, 3, 2)),
        ("order", "bAdC", (1, 0, 3, 2)),
        ("order", "b > a > d > c", (1, 0, 3, 2)),
    ],
)
def test_an_answer_may_be_written_in_several_ways(kind, answer, read):
    name, number, count = {"number": ("04", 1, 0), "choice": ("04", 3, 4), "order": ("08", 5, 4)}[kind]
    questions = (deck.question(name, number, seed) for seed in range(20))
    asked = next(one for one in questions if not count or len(one.options) == count)
    assert asked.kind == kind and asked.read(answer) == read


def test_an_order_names_the_first_two_that_changed_places():
    asked = deck.question("08", 5)
    first, second, *rest = asked.right
    text = asked.sentence((second, first, *rest))
    assert f"Before “{asked.options[second]}” comes “{asked.options[first]}”" in text


def test_answers_take_no_time_and_no_compiler():
    """A drill compiles nothing and imports neither language; all of them together take under a second."""
    code = """
import sys, time
from course_utils.drills import deck, show
begin = time.process_time()
for name in deck.DECK:
    for number in range(1, len(deck.DECK[name]) + 1):
        asked = deck.question(name, number, 1)
        show._answered(asked, asked.right)._repr_html_()
took = time.process_time() - begin
heavy = {"tilelang", "cutlass", "torch", "tvm"} & set(sys.modules)
sys.exit(f"{took} {heavy}" if heavy or took > 2 else 0)
"""
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr
    begin = time.process_time()
    for name, number in DRILLS:
        deck.question(name, number, 3)
    assert time.process_time() - begin < 1
