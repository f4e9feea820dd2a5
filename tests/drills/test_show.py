"""What a learner meets: the form with its buttons, the plain form, and what is kept of the answers."""

import html as markup
import json
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from course_utils import notebook
from course_utils.drills import deck, picture, show
from course_utils.recordings import progress
from tests import cells

pytestmark = pytest.mark.usefixtures("own_folder")


def shown(*arguments, **options):
    """What ``drill`` displayed, as text and as HTML; it returns nothing."""
    result, *displayed = cells.shown(notebook.drill, *arguments, **options)
    assert result is None
    return displayed


def right(name, number, seed=0):
    asked = deck.question(name, number, seed)
    return asked.says(asked.right).partition(",")[0] if asked.kind == "choice" else asked.says(asked.right)


def wrong(name, number, seed=0):
    asked = deck.question(name, number, seed)
    return "ab"[asked.right == 0]


def test_nobody_there_gets_a_list_at_once_and_nothing_is_kept(tmp_path):
    text, html = shown("05")
    assert text.startswith('6 drills, under a minute each. drill("05", 1) asks one')
    assert html.count("<details>") == 6 and html.count("<svg") == 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["01b", "1b", "01b_layouts"])
def test_a_notebook_with_a_letter_goes_by_several_names(name):
    assert "16 drills" in shown(name)[0]


@pytest.mark.parametrize("name", [5, "5", "05", "05_pipeline", " 05"])
def test_a_notebook_goes_by_several_names(name):
    assert "6 drills" in shown(name)[0]


@pytest.mark.parametrize("name", list(deck.DECK))
def test_every_drill_can_be_asked_and_answered_in_plain_python(name):
    for number in range(1, len(deck.DECK[name]) + 1):
        text, html = shown(name, number)
        assert text.startswith(f"Drill {number} of") and "Answer with" in text
        assert html.count("<details>") == html.count("<svg") == 1  # a page that nobody can run
        text, html = shown(name, number, answer=right(name, number))
        assert text.startswith("Right.") and f"{number} of {len(deck.DECK[name])} drills" in text
        assert html.count("<svg") == 1 and "seed=1)" in text
    assert progress.drills() == {name: set(range(1, len(deck.DECK[name]) + 1))}


def test_a_wrong_answer_is_drawn_beside_the_right_one_and_not_kept():
    text, html = shown("05", 3, wrong("05", 3))
    assert text.startswith("Not ") and "Your answer:" in text and "Right is " in text
    assert html.count("<svg") == 2 and progress.drills() == {}


def test_another_seed_has_another_answer_and_counts_too():
    assert shown("05", 1, seed=1)[0] != shown("05", 1)[0]
    assert shown("05", 1, right("05", 1, 1), seed=1)[0].startswith("Right.")


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("99",), "no drills for '99'"),
        ((None,), "no drills for None"),
        (([],), "no drills"),
        (("00",), "no drills"),
        ((True,), "no drills"),
        (("05", 0), "drills 1 to 6"),
        (("05", 7), "drills 1 to 6"),
        (("05", "2"), "drills 1 to 6"),
        (("05", 1.0), "drills 1 to 6"),
        (("05", True), "drills 1 to 6"),
        (("05", 1, ""), "This asks for"),
        (("05", 1, []), "This asks for"),
        (("05", 1, "b"), "This asks for"),
        (("05", 1, 10**30), "This asks for"),
        (("05", 6, "a a b c"), "all letters in order"),
        (("05", 1, 3, -1), "seed is a whole number"),
        (("05", 1, 3, "x"), "seed is a whole number"),
        (("05", 1, 3, 10**20), "seed is a whole number"),
    ],
)
def test_bad_input_is_told_in_words(arguments, says):
    assert says in shown(*arguments)[0] and progress.drills() == {}


def test_answers_that_cannot_be_kept_are_answered_all_the_same(monkeypatch):
    def full(*_):
        raise OSError("no space")

    monkeypatch.setattr(progress, "keep_drill", full)
    text, _ = shown("05", 1, right("05", 1))
    assert text.startswith("Right.") and "could not be kept" in text and "no space" in text


def test_without_matplotlib_a_picture_is_text(monkeypatch):
    monkeypatch.setattr(picture, "colours", lambda: (_ for _ in ()).throw(ImportError()))
    assert "<pre>" in shown("05", 1, right("05", 1))[1]


def test_a_picture_is_for_either_theme():
    asked = deck.question("05", 1)
    drawn = picture.svg(asked.draw(asked.right), "words <here>")
    assert 'fill="currentColor"' in drawn and "white" not in drawn and "words &lt;here&gt;" in drawn
    assert "font:13px" in drawn


# The form


def test_a_person_gets_buttons_and_an_executor_none(person, monkeypatch):
    text, html = shown("05")
    assert show.DEAD in text and "6 drills" in html and "<details>" not in html
    person["content"]["allow_stdin"] = False
    assert "6 drills" in shown("05")[0]
    person.clear()
    assert "6 drills" in shown("05")[0]
    person["content"] = {"allow_stdin": True}
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert "6 drills" in shown("05")[0]


@pytest.fixture
def form():
    return show.Form("05", pytest.importorskip("ipywidgets"))


def test_a_drill_is_answered_by_buttons(form):
    form.entry.value = right("05", 1)
    form.answer.click()
    assert form.below.value.startswith("<p><b>Right.</b>") and "<svg" in form.below.value
    assert "(answered)" in form.head.value and form.answer.disabled
    assert progress.drills() == {"05": {1}}


def test_one_drill_of_a_notebook_is_a_form_of_its_own():
    form = show.Form("05", pytest.importorskip("ipywidgets"), 3, 1)
    asked = deck.question("05", 3, 1)
    assert (
        asked.text in form.head.value.replace("&#x27;", "'")
        and form.next not in form.box.children[2].children
    )
    form.again.click()
    assert (form.number, form.seed) == (3, 2)


def test_a_second_click_changes_nothing(form):
    form.entry.value = right("05", 1)
    form.answer.click()
    form.entry.value = "0"
    before = form.below.value
    form.answer.click()
    assert form.below.value == before


def test_an_option_is_chosen_or_its_letter_typed(form):
    for _ in range(2):
        form.next.click()
    radios, entry = form.field.children
    assert radios.value is None
    form.answer.click()
    assert "This asks for a letter" in form.below.value and not form.answer.disabled
    for typed, index in (("b", 1), (" A ", 0), ("z", None), ("", None)):
        entry.value = typed
        assert radios.index == index
    radios.index = form.asked.right
    assert entry.value == "abcd"[form.asked.right]
    form.answer.click()
    assert "<b>Right.</b>" in form.below.value


def test_enter_answers_as_the_button_does(form):
    form.entry.value = right("05", 1)
    form.entry._handle_string_msg(None, {"event": "submit"}, [])  # what the browser sends
    assert "<b>Right.</b>" in form.below.value


def test_again_asks_with_other_numbers(form):
    before = form.asked.text
    form.answer.click()
    form.again.click()
    assert form.asked.text != before and form.below.value == "" and not form.answer.disabled


def test_an_order_is_clicked_or_typed(form):
    for _ in range(9):  # clicks beyond the last stay there
        form.next.click()
    assert form.number == 6 and form.next.disabled and form.asked.kind == "order"
    *events, entry = form.field.children
    for place in form.asked.right:
        events[place].click()
        events[place].click()  # a second click adds nothing
    assert entry.value == form.asked.says(form.asked.right)
    form.answer.click()
    assert "<b>Right.</b>" in form.below.value
    events[0].click()
    assert entry.value == form.asked.says(form.asked.right)
    for _ in range(9):
        form.before.click()
    assert form.number == 1 and form.before.disabled


def test_words_of_a_question_are_no_markup(form):
    form.entry.value = "<script>"
    form.answer.click()
    assert "<script>" not in form.below.value and "&lt;script&gt;" in form.below.value


# What is kept


def test_drills_and_verdicts_stay_beside_each_other(tmp_path):
    file = tmp_path / "progress.json"
    file.write_text(
        json.dumps({"provenance": {}, "entries": [], "drills": {"05": [1], "07": "x", "08": [True, "2", 3]}})
    )
    assert progress.drills(file) == {"05": {1}, "08": {3}}
    assert progress.keep_drill("05", 3, file) == {1, 3}
    assert progress.read(file)["entries"] == [] and progress.drills(file)["05"] == {1, 3}


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"drills": 3}', '{"drills": [1]}', '{"entries": []}'])
def test_a_broken_file_costs_no_answer(tmp_path, broken):
    file = tmp_path / "progress.json"
    file.write_text(broken)
    assert progress.drills(file) == {}
    progress.keep_drill("05", 1, file)
    assert progress.drills(file) == {"05": {1}} and file.with_suffix(".broken").read_text() == broken


def test_a_saved_form_is_its_questions_on_a_page_that_shows_no_widget_and_is_small(person):
    pytest.importorskip("ipywidgets")
    InteractiveShell.instance()
    for call in (("01b",), ("05", 2)):
        with capture_output() as captured:
            notebook.drill(*call)
        data = captured.outputs[0].data
        assert "application/vnd.jupyter.widget-view+json" in data
        asked = deck.question(call[0], (*call, 1)[1])
        assert markup.escape(asked.text) in data["text/html"] and asked.text in data["text/plain"]
        assert len(json.dumps(data)) < 10_000
