"""What an instructor takes away, from records that nobody judged here."""

import csv
import json

import pytest

from course_utils.classroom import pages, reports
from course_utils.classroom.reports import FAULTS, HIDDEN, ODD_FILES, Graded
from course_utils.classroom.similar import FORM, PACKED, Group
from course_utils.classroom.submissions import Submission
from course_utils.grading.steps import EXERCISES
from course_utils.grading.verdict import MAP

WHOLE = sum(map(reports.worth, EXERCISES))


def record(points=9.0, diagnosis="", page="<p>page</p>", sandbox="bubblewrap", state="passed"):
    part = {"name": "results", "passed": state == "passed", "state": state, "detail": ""}
    return {
        "entry": {"sandbox": sandbox},
        "verdict": {"points": points, "diagnosis": diagnosis, "checks": [part]},
        "page": page,
    }


@pytest.fixture
def class_():
    ada = Submission("ada", {"step05-cute": "x", "step04-cute": "y", "t1-maps": "z"}, ["a finding"])
    eve = Submission("=eve", {"step05-cute": "x"})
    return [
        Graded(ada, {"step05-cute": record(), "step04-cute": record(4.666), "t1-maps": None}),
        Graded(eve, {"step05-cute": record(0.0, "<b>look</b>", sandbox="unsafe")}),
    ]


def rows(path):
    return {row["learner"]: row for row in csv.DictReader(open(path, newline=""))}


def test_grades_csv_has_a_row_a_learner(class_, tmp_path):
    reports.write_csv(tmp_path / "grades.csv", class_)
    found = rows(tmp_path / "grades.csv")
    assert list(found) == ["ada", "'=eve"]  # no spreadsheet computes a name
    ada = found["ada"]
    assert (ada["step05-cute"], ada["step04-cute"], ada["t1-maps"]) == ("9", "4.7", "fault")
    assert (ada["points"], ada["of"], ada["not judged"], ada["findings"]) == ("13.7", f"{WHOLE:g}", "1", "1")
    assert found["'=eve"]["sandbox"] == "unsafe"


def test_gradescope_gets_a_test_an_exercise(class_, tmp_path):
    reports.write_gradescope(tmp_path / "eve.json", class_[1])
    results = json.loads((tmp_path / "eve.json").read_text())
    assert len(results["tests"]) == len(EXERCISES) and results["score"] == 0
    told = {test["name"]: test for test in results["tests"]}
    assert told["step05-cute"] == {
        "name": "step05-cute",
        "score": 0.0,
        "max_score": 10,
        "output": "<b>look</b>",
        "output_format": "text",
    }
    assert told["step10-cute"]["output"] == "not handed in"


def test_gradescope_gets_no_score_of_what_the_machine_failed_at(class_, tmp_path):
    reports.write_gradescope(tmp_path / "ada.json", class_[0], ["step05-cute", "t1-maps"])
    right, fault = json.loads((tmp_path / "ada.json").read_text())["tests"]
    assert right["score"] == 9.0 and right["output"].startswith("all parts passed")
    assert "score" not in fault and "the machine that graded failed" in fault["output"]


def test_what_is_shown_is_what_somebody_handed_in(class_, tmp_path):
    """What is open for everybody is not: a notebook holds the exercises of both languages."""
    opened = {"step01-cute": record(0.0, state="open"), "step05-tilelang": record(0.0, state="open")}
    class_[0].records.update(opened)
    class_[1].records["step05-tilelang"] = record(1.0)
    exercises = reports.handed_in(class_)
    assert exercises == ["step04-cute", "step05-tilelang", "step05-cute", "t1-maps"]
    total = sum(map(reports.worth, exercises))
    reports.write_csv(tmp_path / "grades.csv", class_, exercises)
    pages.write(tmp_path / "ada.html", class_[0], exercises)
    reports.write_gradescope(tmp_path / "ada.json", class_[0], exercises)
    ada = rows(tmp_path / "grades.csv")["ada"]
    assert [name for name in ada if name in EXERCISES] == exercises and ada["of"] == f"{total}"
    page, tests = (
        (tmp_path / "ada.html").read_text(),
        json.loads((tmp_path / "ada.json").read_text())["tests"],
    )
    assert f"13.7 of {total}" in page and "not handed in" not in page and "step01" not in page
    assert [test["name"] for test in tests] == exercises


def test_where_everything_is_open_that_is_shown():
    opened = [
        Graded(Submission("ada"), {"step05-cute": record(0.0, state="open")}),
        Graded(Submission("b"), {}),
    ]
    assert reports.handed_in(opened) == ["step05-cute"] and reports.handed_in(opened[1:]) == []


def test_findings_come_with_what_a_person_has_to_look_at_first(class_, tmp_path):
    class_[1].submission.concerns += [(HIDDEN, "step05-cute unpacks bytes"), (FAULTS, "=step05-cute")]
    counts = reports.write_findings(tmp_path / "findings.csv", class_)
    found = [tuple(row.values()) for row in csv.DictReader(open(tmp_path / "findings.csv", newline=""))]
    assert found == [
        (FAULTS, "'=eve", "'=step05-cute"),
        (HIDDEN, "'=eve", "step05-cute unpacks bytes"),
        (ODD_FILES, "ada", "a finding"),
    ]
    assert counts == {FAULTS: 1, HIDDEN: 1, ODD_FILES: 1}
    pages.write(tmp_path / "eve.html", class_[1])
    assert "unpacks bytes" not in (tmp_path / "eve.html").read_text()  # that is between teacher and learner


def test_a_group_that_is_alike_is_one_row(tmp_path):
    group = Group("step05-cute", {PACKED: ["dan"], FORM: ["ada", "bob"]}, None, 1, (4, 3))
    reports.write_alike(tmp_path / "alike.csv", [group])
    (row,) = csv.DictReader(open(tmp_path / "alike.csv", newline=""))
    assert list(row.values()) == [
        "step05-cute", PACKED, "3", "code hidden: dan; same PTX, another text: ada, bob", "", "1", "4", "3"
    ]  # fmt: skip


def test_gradescope_says_of_a_right_kernel_what_was_not_tried(class_, tmp_path):
    parts = [{"name": "results", "passed": True, "detail": ""}]
    speed = {"name": "speed", "passed": None, "detail": "not run: the emulator does not model time"}
    class_[0].records["step05-cute"]["verdict"]["checks"] = parts
    class_[0].records["step04-cute"]["verdict"]["checks"] = [*parts, speed]
    reports.write_gradescope(tmp_path / "ada.json", class_[0])
    told = {test["name"]: test["output"] for test in json.loads((tmp_path / "ada.json").read_text())["tests"]}
    assert told["step05-cute"] == "all parts passed"
    assert told["step04-cute"] == (
        "all parts passed that were tried; not tried: speed (not run: the emulator does not model time)"
    )
    assert told["t1-maps"] == reports.NOT_JUDGED


@pytest.mark.thorough
def test_nbgraders_gradebook_gets_the_points(class_, tmp_path):
    from nbgrader.api import Gradebook

    url = f"sqlite:///{tmp_path}/gradebook.db"
    assert reports.write_gradebook(url, "ladder", class_) == 3
    assert reports.write_gradebook(url, "ladder", class_) == 3  # again, over itself
    with Gradebook(url) as book:
        assert book.find_submission("ladder", "ada").score == pytest.approx(13.7)
        assert book.find_submission("ladder", "=eve").score == 0
        assert book.find_assignment("ladder").max_score == sum(map(reports.worth, EXERCISES))
    url = f"sqlite:///{tmp_path}/one.db"
    assert reports.write_gradebook(url, "ladder", class_, ["step05-cute"]) == 2
    with Gradebook(url) as book:
        assert book.find_assignment("ladder").max_score == 10


def test_a_page_shows_what_a_learner_wrote_as_text(class_, tmp_path):
    class_[0].submission.findings.append("<script>alert(1)</script>")
    pages.write(tmp_path / "ada.html", class_[0])
    text = (tmp_path / "ada.html").read_text()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert f"13.7 of {WHOLE:g}" in text and "handed in and not judged" in text and "not handed in" in text
    assert text.count("<p>page</p>") == 2


def test_what_a_card_links_to_lies_beside_the_pages(class_, tmp_path):
    linked = record(page=f"<a href='{MAP}#races'>What this can mean</a>")
    pages.write(tmp_path / "ada.html", Graded(class_[0].submission, {"step05-cute": linked}))
    pages.write_symptoms(tmp_path)
    assert "href='symptom_map.html#races'" in (tmp_path / "ada.html").read_text()
    text = (tmp_path / "symptom_map.html").read_text()
    assert '<a id="races"' in text and "<table>" in text
