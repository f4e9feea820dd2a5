"""The quiz: twenty short questions with one right answer each, kept one by one, and a picture at the end."""

import json
import re
import sys

import pytest

from authoring import sync
from course_utils import notebook
from course_utils.drills import learner, picture, quiz
from course_utils.drills.quiz import END, ITEMS, NUMBERS, START, TOPICS
from course_utils.drills.show import DEAD
from course_utils.grading import steps
from course_utils.recordings import progress
from tests import cells

SEEDS = 40
WORDS = 60  # of a question with its options


@pytest.fixture(autouse=True)
def new_learner(own_folder):
    quiz._unkept.clear()
    learner._of_this_kernel.cache_clear()


def shown(*arguments, **options):
    """What ``quiz`` displayed, as text and as HTML; it returns nothing."""
    result, *displayed = cells.shown(notebook.quiz, *arguments, **options)
    assert result is None
    return displayed


def written(name, number, fine=True):
    """An answer as a person writes it."""
    asked = quiz.question(name, number, learner.number())
    if asked.kind == "number":
        return str(asked.right if fine else asked.right + 1)
    return "abcdefgh"[asked.right if fine else (asked.right + 1) % len(asked.options)]


def answer_all(name, wrong=()):
    for number in NUMBERS:
        progress.keep_answer(name, number, written(name, number, number not in wrong))


# The questions


def test_twenty_questions_cover_the_topics():
    assert len(ITEMS) == 20 and len({ask for _, ask in ITEMS}) == 20 and len(TOPICS) == 11
    there = {path.name.partition("_")[0] for path in sync.NOTEBOOKS.glob("*.ipynb")}
    assert {number for topic in TOPICS for number in topic.explained} <= there


@pytest.mark.parametrize("number", NUMBERS)
def test_a_question_is_short_has_one_answer_and_a_twin_with_other_numbers(number):
    faces = set()
    for seed in range(SEEDS):
        first, last = (quiz.question(name, number, seed) for name in (START, END))
        assert first.kind == last.kind and first.kind in ("choice", "number")
        assert (first.text, first.options) != (last.text, last.options)
        for asked in (first, last):
            assert len(" ".join((asked.text, *asked.options)).split()) < WORDS, asked.text
            assert picture.text(asked.draw(asked.right)) and asked.why.endswith(".")
            text = asked.says(asked.right).partition(",")[0] if asked.options else str(asked.right)
            assert asked.read(text) == asked.right
        again = quiz.question(END, number, seed)
        assert (again.text, again.options, again.right) == (last.text, last.options, last.right)
        faces.add((first.text, first.options))
    assert len(faces) > 3  # a class does not share a question, least of all twenty


def test_two_learners_share_few_questions():
    def faces(seed):
        asked = (quiz.question(START, number, seed) for number in NUMBERS)
        return [(one.text, one.options) for one in asked]

    mine = faces(0)
    assert all(sum(map(tuple.__eq__, mine, faces(seed))) < 8 for seed in range(1, 30))


def read(pattern, number, seed):
    asked = quiz.question(START, number, seed)
    found = re.search(pattern, asked.text)
    assert found, asked.text
    said = asked.options[asked.right] if asked.options else asked.right
    return (
        [int(one.replace(",", "")) for one in found.groups() if one.replace(",", "").isdigit()],
        said,
        asked,
    )


def test_threads_warps_and_time_are_what_a_count_comes_to():
    for seed in range(SEEDS):
        (threads, thread), said, _ = read(r"has (\d+) threads.*is thread (\d+)\?", 1, seed)
        warps = [range(first, first + 32) for first in range(0, threads, 32)]
        warp = next(number for number, own in enumerate(warps) if thread in own)
        assert said == f"warp {warp}, warpgroup {(warp - warp % 4) // 4}"

        (threads, bound), said, asked = read(r"has (\d+) threads.*“if thread [<>=]+ (\d+)”", 2, seed)
        come = [thread for thread in range(threads) if (thread < bound) == ("<" in asked.text)]
        assert said == len({thread - thread % 32 for thread in come})

        pattern = r"takes (\d+) GFLOP and moves (\d+) MB.*1,000 TFLOP/s and moves 5 TB/s"
        (work, data), said, _ = read(pattern, 20, seed)
        assert said * 1e-6 == pytest.approx(max(work * 1e9 / 1e15, data * 1e6 / 5e12))


# In plain Python


def test_a_quiz_is_answered_one_by_one_and_goes_on_where_it_was_left():
    text, html = shown()
    assert text.startswith("Question 1 of 20, threads and warps") and 'quiz("start", 1, "' in text
    for number in NUMBERS[:-1]:
        text, _ = shown("start", number, written(START, number))
        assert text.startswith(f"{number} of 20 answered.\nQuestion {number + 1} of 20")
    assert "Question 20 of 20" in shown("start")[0]  # as after a restart
    text, html = shown("start", 20, "?")
    assert "Before: 19 of 20 right." in text and "no points and is in no grade" in text
    assert "notebook 03" in text and "<svg" in html and html.count("<details>") == 1
    assert "2 of 2" in text and "0 of 1" in text


def test_the_end_shows_both_sides_by_topic(tmp_path):
    answer_all(START, wrong=range(1, 13))
    answer_all(END, wrong=(1,))
    (tmp_path / "07_warp_specialization.ipynb").write_text("{}")
    text, html = shown("end")
    assert "Before: 8 of 20, after: 19 of 20 right." in text
    assert re.search(r"ring +0 of 2 +2 of 2", text) and re.search(r"threads and warps +0 of 2 +1 of 2", text)
    assert "href='07_warp_specialization.ipynb'>" in html and "<li>threads and warps: 01 and" in html
    assert html.count("<svg") == 1 and "currentColor" in html


def test_the_end_alone_has_no_before():
    answer_all(END)
    text, html = shown("end")
    assert "After: 20 of 20 right." in text and "before" not in text.lower() and "<details>" not in html


def test_only_the_first_answer_counts():
    shown("start", 1, written(START, 1, fine=False))
    assert "the first one counts" in shown("start", 1, written(START, 1))[0]
    assert quiz.right(START, learner.number()) == {1: False}


def test_points_and_ladder_know_nothing_of_it():
    answer_all(START)
    kept = progress.read()
    assert kept["entries"] == [] and not any(progress.points(kept, dsl) for dsl in steps.DSL_NAMES)
    assert progress.drills() == {}


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("middle",), "There is no quiz 'middle'"),
        ((None,), "no quiz None"),
        (([],), "no quiz"),
        ((5,), "no quiz 5"),
        (("start", 0), "questions 1 to 20"),
        (("start", 21), "questions 1 to 20"),
        (("start", "2"), "questions 1 to 20"),
        (("start", True), "questions 1 to 20"),
        (("start", None, "a"), "questions 1 to 20"),
        (("start", 1, ""), "This asks for"),
        (("start", 1, []), "This asks for"),
        (("start", 1, "z"), "This asks for"),
        (("start", 1, "<b>"), "This asks for"),
        (("start", 2, "a"), "This asks for"),
        (("start", 2, 10**30), "This asks for"),
    ],
)
def test_bad_input_is_told_in_words_and_not_kept(arguments, says):
    assert says in shown(*arguments)[0] and progress.quiz() == {}


# The file


@pytest.mark.parametrize(
    "broken",
    ["", "{", "[]", '{"quiz": 3, "learner": "x"}', '{"quiz": {"start": [1]}, "learner": -1}', "[" * 9999],
)
def test_a_broken_file_costs_what_was_in_it_and_no_more(tmp_path, broken):
    file = tmp_path / "progress.json"
    file.write_text(broken)
    assert "Question 1 of 20" in shown("start")[0]
    assert file.with_suffix(".broken").read_text() == broken
    shown("start", 1, "?")
    assert progress.quiz() == {"start": {1: "?"}} and "Question 2 of 20" in shown("start")[0]


def test_what_is_whole_stands_beside_what_is_not(tmp_path):
    file = tmp_path / "progress.json"
    answers = {"1": "a", "2": 3, "x": "a", "9" * 5000: "a", "21": "a", "3": "no answer"}
    file.write_text(json.dumps({"entries": [], "learner": 5, "quiz": {"start": answers, "end": 4}}))
    assert set(quiz.given(START)) == {1, 3} and quiz.given(END) == {}
    assert quiz.right(START, 5)[3] is False and learner.number() == 5
    progress.keep_drill("05", 1)
    assert progress.drills() == {"05": {1}} and set(quiz.given(START)) == {1, 3} and learner.number() == 5


def full(*_, **__):
    raise OSError("no space")


def test_answers_that_cannot_be_kept_last_as_long_as_the_kernel(monkeypatch):
    monkeypatch.setattr(progress, "keep_answer", full)
    monkeypatch.setattr(progress, "learner", full)
    first = shown("start")[0]
    assert shown("start")[0] == first
    text, _ = shown("start", 1, written(START, 1))
    assert "no space" in text and "until the kernel ends" in text and "Question 2 of 20" in text
    assert quiz.right(START, learner.number()) == {1: True}


def test_a_file_that_nobody_may_read_is_no_end(tmp_path):
    (tmp_path / "progress.json").mkdir()
    assert "Question 1 of 20" in shown("start")[0]


# The form


def test_a_person_gets_buttons_and_a_page_one_sentence(person, monkeypatch, tmp_path):
    person["content"]["allow_stdin"] = False
    text, _ = shown("start")
    assert text.startswith("20 questions, under ten minutes.") and list(tmp_path.iterdir()) == []
    person["content"]["allow_stdin"] = True
    assert DEAD in shown("start")[0] and "Question 1 of 20" in shown("start")[1]
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert "Question 1 of 20" in shown("start")[0]


def test_a_quiz_by_buttons_goes_on_after_a_restart_and_ends_in_the_picture():
    widgets = pytest.importorskip("ipywidgets")
    form = quiz.Form(START, widgets)
    answer, unknown = form.buttons.children
    answer.click()
    assert "This asks for" in form.below.value and form.number == 1
    for number in NUMBERS[:10]:
        assert form.number == number and "<script" not in form.head.value
        form.entry.value = written(START, number)
        answer.click()
    form = quiz.Form(START, widgets)
    answer, unknown = form.buttons.children
    assert form.number == 11
    for _ in NUMBERS[10:]:
        unknown.click()
    assert "Before: 10 of 20 right." in form.below.value and "<svg" in form.below.value
    assert form.field.children == () and not form.open
    unknown.click()
    assert len(quiz.given(START)) == 20


def test_a_question_that_was_answered_in_another_cell_is_passed_over():
    form = quiz.Form(START, pytest.importorskip("ipywidgets"))
    shown("start", 1, "?")
    form.entry.value = written(START, 1)
    form.buttons.children[0].click()
    assert form.number == 2 and "the first one counts" in form.below.value
    assert quiz.given(START) == {1: "?"}
