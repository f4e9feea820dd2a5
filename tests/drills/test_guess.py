"""Guesses about tensor maps, by buttons and from a list."""

from types import SimpleNamespace

import pytest

from course_utils.artifact import TensorMap
from course_utils.drills import guess, show
from tests import cells

LEGAL = TensorMap(6, (1024, 4096), (2048,), (64, 128), (1, 1), swizzle=3), 0
ILLEGAL = TensorMap(6, (1024, 4096), (2048,), (64, 257), (1, 1), swizzle=3), 0


def shown(*arguments):
    result, text, _ = cells.shown(guess.predict, *arguments)
    assert result is None
    return text


def test_guesses_from_a_list_are_held_against_the_rules():
    text = shown([LEGAL, ILLEGAL, ILLEGAL], ["illegal", "illegal", None])
    first, second, rule, third = text.splitlines()
    assert first.endswith("legal, and you said illegal") and second.endswith("illegal, as you said")
    assert "1 to 256" in rule and third.endswith("guess first")


@pytest.mark.parametrize("guesses", [(), None, 3, "legal", [None], ["maybe", []], [None] * 9])
def test_what_is_no_guess_asks_for_one(guesses):
    assert shown([LEGAL, ILLEGAL], guesses).count("guess first") == 2


@pytest.mark.parametrize("questions", [None, [3], [(None, 0)], [LEGAL[0]]])
def test_what_is_no_question_is_told_in_words(questions):
    assert "cannot be held" in shown(questions, ["legal"])


def test_nobody_guesses_nothing():
    assert shown([], []) == ""


def test_a_person_gets_buttons_and_one_guess_each(monkeypatch):
    widgets = pytest.importorskip("ipywidgets")
    parent = {"content": {"allow_stdin": True}}
    monkeypatch.setattr(show, "get_ipython", lambda: SimpleNamespace(kernel=None, get_parent=lambda: parent))
    assert "guess first" not in shown([LEGAL], [None]) and "as you said" in shown([LEGAL], ["legal"])
    words, pair, *_ = guess._buttons([ILLEGAL, LEGAL], widgets).children
    pair.value = "legal"
    assert "illegal, and you said legal" in words.value and "1 to 256" in words.value and pair.disabled
    pair.value = "illegal"
    assert "and you said legal" in words.value
