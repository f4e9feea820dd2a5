"""Find the bug: what is planted is what is told, a learner finds it by line and outcome, and bad input is met
in words.
"""

import json
import shutil
import sys

import pytest

from authoring import faults as recording
from authoring import sync
from course_utils import notebook
from course_utils.compile.factory import DSLS
from course_utils.compile.faults import blackwell, table
from course_utils.compile.load import BEGIN, END, solution_path
from course_utils.drills import bugs, faults
from course_utils.drills.show import DEAD
from course_utils.grading import steps
from course_utils.grading.steps import BLACKWELL_STEPS
from course_utils.recordings import progress, tracks
from tests import cells

STEPS = [f"step{number:02d}" for number in range(4, 11)]
OTHERS = ["a1", "a2"]  # notebooks of another ladder, with bugs of several cases
# no card is held against them in tests/grading: they are judged here
OWN = {
    "step08 cute 08 both roles stop a K tile early, CuTe DSL",
    "step08 tilelang 08 the producer waits for no empty stage",
    "step10 tilelang 10 the mask names three CTAs",
}
FAULTS = faults.planted()
BLACKWELL = sorted(
    {fault.step for fault in FAULTS} & set(BLACKWELL_STEPS)
)  # nothing of them has run on one by us

pytestmark = pytest.mark.usefixtures("own_folder")


def shown(*arguments, **options):
    """What ``find_the_bug`` displayed, as text and as HTML; it returns nothing."""
    result, *displayed = cells.shown(notebook.find_the_bug, *arguments, **options)
    assert result is None
    return displayed


# The table


def test_each_step_has_at_least_four_faults_in_each_language_and_more_than_one_outcome():
    for step in (*STEPS, *BLACKWELL):
        for dsl in DSLS:
            pool = faults.pool(step, dsl)
            outcomes = {fault.outcome for fault in pool}
            assert len(pool) >= 4 and len(outcomes) >= (3 if step in STEPS else 2), (step, dsl)
            assert len({faults.source(fault) for fault in pool}) == len({f.name for f in pool}) == len(pool)
    for number in OTHERS:
        for dsl in DSLS:
            pool = bugs._pool(number, dsl)
            assert len(pool) >= 3 and len({fault.outcome for fault in pool}) >= 3, (number, dsl)
    named = {steps.notebook_of(fault.step) for fault in FAULTS if fault.step not in (*STEPS, *BLACKWELL)}
    assert named == set(OTHERS)
    assert {fault.outcome for fault in FAULTS} == set(bugs.OUTCOMES)


def test_a_fault_is_a_mistake_that_tests_of_grading_judge():
    judged = {
        (one.step, one.dsl, faults.source(one))
        for one in (*table(), *blackwell())
        if one.fails not in (None, "compiles")
    }
    assert {str(f) for f in FAULTS if (f.step, f.dsl, faults.source(f)) not in judged} == OWN


def test_what_the_check_says_is_recorded_of_the_very_kernel():
    data = faults.recorded()
    assert set(data["faults"]) == {str(fault) for fault in FAULTS}
    assert set(data["provenance"]) == {"machine", "date", "versions"}
    stale = [str(fault) for fault in FAULTS if data["faults"][str(fault)]["digest"] != faults.digest(fault)]
    assert stale == [], "run python -m authoring.faults"
    assert all(len(entry["says"].split()) >= 6 for entry in data["faults"].values())


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=str(fault), marks=[] if str(fault) in OWN else [pytest.mark.thorough])
        for fault in FAULTS
    ],
)
def test_the_emulator_sees_the_outcome_and_the_card_is_the_recorded_one(fault):
    verdict, answer, _ = recording.emulated(fault)
    assert recording.outcome(answer) == fault.outcome
    says = faults.recorded()["faults"][str(fault)]["says"]
    assert plain(recording.sentence(verdict)) == plain(says)


def plain(text):
    """Without numbers of warps and CTAs: which comes first is the schedule's."""
    return [word for word in text.split() if not any(letter.isdigit() for letter in word)]


def test_a_missing_statement_may_stand_wherever_it_does_the_same():
    for fault in FAULTS:
        lines, places = faults.source(fault).splitlines(), faults.elsewhere(fault)
        assert bool(places) == (fault.spread is not None), fault
        assert all(lines[number - 1].strip() for number in places), fault
    taken = next(f for f in FAULTS if f.name == "06 a while loop that takes no next tile")
    lines, places = faults.source(taken).splitlines(), faults.elsewhere(taken)
    assert "order.get_flat_coord(tile)" in lines[places[0] - 1]
    assert "commit_group()" in lines[places[-1] - 1] and len(places) == 10
    assert not any("for k_block" in lines[number - 1] for number in places)
    bug = bugs.Bug("06", 1, 1, taken)
    assert f"may stand after line {places[-1]}" in bugs.answered(bug, places[-1], 2).text


def test_a_verdict_that_asks_is_quoted_with_one_mark():
    for fault in FAULTS:
        assert "?.”" not in bugs._says(fault)


# What is shown


def marked(step, dsl):
    """The lines of a solution that its exercise leaves to the learner."""
    inside, found = False, set()
    for line in map(str.strip, solution_path(step, dsl).read_text().splitlines()):
        if line.startswith((BEGIN, END)):
            inside = line.startswith(BEGIN)
        elif inside and line.split("#")[0].strip():
            found.add(line.split("#")[0].strip())
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_kernel_that_is_shown_is_the_solution_but_for_the_fault(fault):
    text, broken = solution_path(fault.step, fault.dsl).read_text(), faults.source(fault).splitlines()
    right = faults.solution(fault.step, fault.dsl).splitlines()
    assert [line for line in right if line] == [
        code
        for line in sync.without_markers(text).split('"""\n', 1)[1].splitlines()
        if (code := line.split("#")[0].rstrip())
    ]
    parts, there = faults.changes(fault), faults.shown(fault)
    at_fault = {number for part in parts for number in part.lines}
    assert parts and at_fault <= set(there) <= set(range(1, len(broken) + 1))
    # the parts, put back from the last to the first, make the solution
    for part in reversed(parts):
        if part.broken:
            assert broken[part.lines[0] - 1 : part.lines[-1]] == list(part.broken)
            broken[part.lines[0] - 1 : part.lines[-1]] = part.right
        else:
            last = part.lines[-1]
            broken[last:last] = part.right
    assert broken == right
    # what is seen is the exercise, which the learner has written, and no line of a later step alone
    listing = {faults.source(fault).splitlines()[number - 1].strip() for number in there}
    mine = marked(fault.step, fault.dsl)
    added = {line.strip() for part in parts for line in part.broken}
    assert mine - listing <= {line.strip() for part in parts for line in part.right}
    own = {line.strip() for line in right}
    assert listing <= own | added
    assert not any("#" in line for line in listing)


@pytest.mark.parametrize("dsl", DSLS)
@pytest.mark.parametrize("step", STEPS)
def test_what_is_shown_does_not_depend_on_the_fault(step, dsl):
    """Each fault of a step shows the same lines of the solution."""
    views = set()
    for fault in faults.pool(step, dsl):
        broken = faults.source(fault).splitlines()
        lines = {broken[number - 1] for number in faults.shown(fault)}
        changed = [part for part in faults.changes(fault)]
        lines -= {line for part in changed for line in part.broken}
        lines |= {line for part in changed for line in part.right}
        views.add(frozenset(line.strip() for line in lines if line.strip()))
    whole = frozenset.union(*views)
    assert all(len(whole - view) <= 1 for view in views)


def answer(fault, more=0):
    return {"line": faults.changes(fault)[0].lines[0] + more, "outcome": fault.outcome}


def test_a_line_and_an_outcome_are_right_or_not_each_by_itself():
    bug = bugs.drawn("08", "cute", 1, progress.learner())
    text, html = shown("08", "cute", 1, **answer(bug.fault))
    says = faults.recorded()["faults"][str(bug.fault)]["says"]
    assert text.startswith(f"Right, it is line {faults.changes(bug.fault)[0].lines[0]}.\nRight, ")
    assert says in text and "Repaired:" in text and "<pre" in html
    for part in faults.changes(bug.fault):
        assert all(line.strip() in text for line in (*part.broken, *part.right))
    other = next(name for name in bugs.OUTCOMES if name != bug.fault.outcome)
    text, _ = shown("08", "cute", 1, line=1, outcome=other)
    assert text.startswith("Not line 1: it is line") and f"\nNot {other}: {bug.fault.outcome}," in text


def test_missing_lines_are_the_line_before_them():
    fault = next(
        f for f in FAULTS if str(f) == "step06 tilelang 06 done is never counted on [row: right at K = 4096]"
    )
    (part,) = faults.changes(fault)
    before, line = faults.solution("step06", "tilelang").splitlines(), "                done = done + k_tiles"
    assert part.broken == () and part.right == (line,)
    assert part.lines[-1] == before.index(line) and faults.source(fault).splitlines()[part.lines[0] - 1]


def test_learners_meet_the_faults_in_an_order_of_their_own():
    orders = {
        tuple(bugs.drawn("05", "tilelang", number, whose).fault.name for number in range(1, 7))
        for whose in range(40)
    }
    assert len(orders) > 30 and len({order[0] for order in orders}) == 6
    assert all(len(set(order)) == 6 for order in orders)
    assert bugs.drawn("05", "tilelang", 7, 3) == bugs.drawn("05", "tilelang", 1, 3)


# When, and in which language


def points(**found):
    for dsl, share in found.items():
        path = progress.FILE
        kept = progress.read(path)
        entry = {"name": f"step08 {dsl}", "step": "step08", "dsl": dsl, "points": share, "max_points": 5.0}
        entry |= {"backend": "emulator", "passed": True, "checks": [], "diagnosis": "", "timings": []}
        entry |= {"receipt": []}
        path.write_text(json.dumps({"provenance": {}, "entries": [*kept["entries"], entry]}))


def test_a_part_of_a_solution_waits_for_half_of_the_points():
    text, _ = shown("08", "cute")
    assert "It shows once your own kernel has half of the points" in text and "cute." not in text
    assert "Bug 1 of" in shown("08", "cute", show=True)[0]
    points(cute=2.0)
    assert "half of the points" in shown("08", "cute")[0]


@pytest.mark.parametrize(
    "found, away, taken",
    [
        ({}, (), "TileLang"),
        ({"cute": 4.5}, (), "CuTe DSL"),
        ({"cute": 4.5, "tilelang": 4.5}, (), "TileLang"),
        ({"cute": 4.5, "tilelang": 4.5}, ("tilelang",), "CuTe DSL"),
        ({}, ("tilelang",), "CuTe DSL"),
        ({}, ("cute",), "TileLang"),
    ],
)
def test_the_language_is_the_one_that_somebody_does(tmp_path, found, away, taken):
    points(**found)
    there = json.loads((sync.NOTEBOOKS / "08_deeper_pipeline.ipynb").read_text())
    for cell, dsls in tracks.sections(there["cells"]):
        if dsls and dsls <= set(away):
            cell["metadata"][tracks.FOLDED] = True
    (tmp_path / "08_deeper_pipeline.ipynb").write_text(json.dumps(there))
    assert f"step 8 in {taken}" in shown("08", show=True)[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [1]}', '{"cells": [{}]}'])
def test_a_notebook_that_cannot_be_read_folds_nothing(tmp_path, text):
    (tmp_path / "08_deeper_pipeline.ipynb").write_text(text)
    assert "in TileLang" in shown("08", show=True)[0]


@pytest.mark.parametrize(
    "arguments, options, says",
    [
        (("03",), {}, "There are no bugs for '03'"),
        ((None,), {}, "no bugs for None"),
        (([],), {}, "no bugs"),
        ((True,), {}, "no bugs"),
        (("08", "cuda"), {}, 'There is no language \'cuda\' here: "tilelang" or "cute"'),
        (("08", []), {}, "no language"),
        (("08", "cute", 0), {}, "from 1"),
        (("08", "cute", "2"), {}, "from 1"),
        (("08", "cute", True), {}, "from 1"),
        (("08", "cute"), {"line": "x", "outcome": "race"}, "a whole number"),
        (("08", "cute"), {"line": 3}, "a letter, a to e"),
        (("08", "cute"), {"line": 3, "outcome": "<b>"}, "a letter, a to e"),
        (("08", "cute"), {"line": 3, "outcome": []}, "a letter, a to e"),
        (("08", "cute"), {"line": -3, "outcome": "race"}, "a whole number"),
    ],
)
def test_bad_input_is_told_in_words(arguments, options, says):
    assert says in shown(*arguments, **options)[0]


@pytest.mark.parametrize("name", [8, "8", "08", "08_deeper_pipeline"])
def test_a_notebook_goes_by_several_names(name):
    assert "step 8" in shown(name)[0]


@pytest.mark.parametrize("name", list(bugs.OUTCOMES))
def test_an_outcome_is_a_word_or_a_letter(name):
    letter = "abcde"[list(bugs.OUTCOMES).index(name)]
    assert shown("08", "cute", line=1, outcome=name) == shown("08", "cute", line=1, outcome=letter)
    glossary = (sync.NOTEBOOKS / "glossary.md").read_text()
    assert f"*{name}*: {bugs.OUTCOMES[name].split(';')[0]}" in glossary


@pytest.mark.parametrize("broken", [None, "", "{", "{}", '{"faults": 3, "provenance": {}}'])
def test_without_the_record_the_answer_stands(tmp_path, monkeypatch, broken):
    file = tmp_path / "recorded.json"
    if broken is not None:
        file.write_text(broken)
    monkeypatch.setattr(faults, "RECORDED", file)
    text, _ = shown("08", "cute", line=1, outcome="race")
    assert "is not recorded" in text and "Repaired:" in text


# The form


def test_a_person_gets_a_form_and_a_page_one_sentence(person, monkeypatch):
    text, html = shown("08", show=True)
    assert DEAD in text and "Bug 1 of" in text and "Bug 1 of" in html  # also where nothing but text is shown
    person["content"]["allow_stdin"] = False
    assert (
        shown("08", show=True)[0]
        == "The kernel of step 8, with one planted fault: run this cell to look for it."
    )
    person["content"]["allow_stdin"] = True
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert "Bug 1 of" in shown("08", show=True)[0]


def test_a_bug_is_answered_by_buttons_and_followed_by_another():
    form = bugs.Form(bugs.drawn("08", "cute", 1, progress.learner()), pytest.importorskip("ipywidgets"))
    first = form.bug.fault
    form.answer.click()
    assert "a whole number" in form.below.value and not form.answer.disabled
    form.line.value = "3"
    form.answer.click()
    assert "a letter, a to e" in form.below.value
    form.outcome.value = "<script>"
    form.answer.click()
    assert "<script>" not in form.below.value
    form.line.value, form.outcome.value = str(answer(first)["line"]), bugs._letter(first.outcome)
    form.answer.click()
    assert form.below.value.count("Right, ") == 2 and form.answer.disabled
    before = form.below.value
    form.line.value = "1"
    form.answer.click()
    assert form.below.value == before
    form.another.click()
    assert form.bug.fault != first and form.below.value == "" and not form.answer.disabled


def test_nothing_of_it_is_kept_but_the_learners_number(tmp_path):
    shown("08", "cute", line=1, outcome="race")
    assert set(json.loads(progress.FILE.read_text())) == {"version", "provenance", "entries", "learner"}
    shutil.rmtree(tmp_path)
    assert "Bug" in shown("08", "cute", show=True)[0]  # no folder to keep anything in
