"""What an instructor takes away, from records that nobody judged here."""

import csv
import json

import pytest

from course_utils.classroom import pages, reports, similar, submissions, workshop
from course_utils.classroom.reports import Graded
from course_utils.classroom.submissions import EXERCISES, Submission
from course_utils.compile.load import solution_path
from course_utils.grading.verdict import MAP

WHOLE = sum(map(reports.worth, EXERCISES))


def record(points=9.0, diagnosis="", page="<p>page</p>", sandbox="bubblewrap"):
    return {
        "entry": {"sandbox": sandbox},
        "verdict": {"points": points, "diagnosis": diagnosis},
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
    assert (ada["step05-cute"], ada["step04-cute"], ada["t1-maps"]) == ("9", "4.7", "")
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


def test_gradescope_says_of_a_right_kernel_what_was_not_tried(class_, tmp_path):
    parts = [{"name": "results", "passed": True, "detail": ""}]
    speed = {"name": "speed", "passed": None, "detail": "not run: the emulator knows no time"}
    class_[0].records["step05-cute"]["verdict"]["checks"] = parts
    class_[0].records["step04-cute"]["verdict"]["checks"] = [*parts, speed]
    reports.write_gradescope(tmp_path / "ada.json", class_[0])
    told = {test["name"]: test["output"] for test in json.loads((tmp_path / "ada.json").read_text())["tests"]}
    assert told["step05-cute"] == "all parts passed"
    assert told["step04-cute"] == (
        "all parts passed that were tried; not tried: speed (not run: the emulator knows no time)"
    )
    assert told["t1-maps"] == "handed in, and not judged yet"


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


def test_a_page_shows_what_a_learner_wrote_as_text(class_, tmp_path):
    class_[0].submission.findings.append("<script>alert(1)</script>")
    pages.write(tmp_path / "ada.html", class_[0])
    text = (tmp_path / "ada.html").read_text()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert f"13.7 of {WHOLE:g}" in text and "not judged yet" in text and "not handed in" in text
    assert text.count("<p>page</p>") == 2


def test_what_a_card_links_to_lies_beside_the_pages(class_, tmp_path):
    linked = record(page=f"<a href='{MAP}#races'>What this can mean</a>")
    pages.write(tmp_path / "ada.html", Graded(class_[0].submission, {"step05-cute": linked}))
    pages.write_symptoms(tmp_path)
    assert "href='symptom_map.html#races'" in (tmp_path / "ada.html").read_text()
    text = (tmp_path / "symptom_map.html").read_text()
    assert '<a id="races"' in text and "<table>" in text


SOLUTION = solution_path("step05", "cute").read_text()
OTHER = solution_path("step08", "cute").read_text()


def pair(one, other, given=""):
    class_ = [Submission("ada", {"step05-cute": one}), Submission("bob", {"step05-cute": other})]
    return similar.pairs(class_, {}, {"step05-cute": given})


def test_a_copy_is_seen_through_comments_and_layout():
    (found,) = pair(SOLUTION, "# mine\n" + SOLUTION.replace("\n\n", "\n\n\n"))
    assert (found.one, found.other, found.share) == ("ada", "bob", 1.0)


def test_another_kernel_is_none():
    assert not pair(SOLUTION, OTHER, given=submissions.given()["step05-cute"])


def test_what_everybody_was_given_does_not_count():
    assert not pair(SOLUTION, SOLUTION, given=SOLUTION)


def test_a_solution_is_named():
    found = similar.pairs([Submission("ada", {"step05-cute": SOLUTION})], {"step05-cute": SOLUTION}, {})
    assert [(one.one, one.other) for one in found] == [("the solution", "ada")]


def test_a_source_that_is_too_long_is_like_nothing():
    padded = SOLUTION + "#" * workshop.SOURCE_LIMIT
    assert not pair(padded, padded) and not similar.runs(padded)


@pytest.mark.parametrize("text", ["", "def (", "'''", "\0", "\ud800", "\t \t(" * 1000, "\\\n" * 1000])
def test_what_is_no_python_is_like_nothing(text):
    assert not pair(text, text)
