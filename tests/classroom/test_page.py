"""The figures of the page on grading a class are the recorded ones."""

import json
from pathlib import Path

from course_utils.classroom import files, submissions, workshop

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_recorded_figures():
    page = (ROOT / "course_utils" / "classroom" / "README.md").read_text()
    found = json.loads((ROOT / "solutions" / "measured" / "classroom.json").read_text())
    sources, seconds = sum(found["kinds"].values()), found["run"]["seconds"]
    assert found["run"]["code"] == 0 and found["same_grades"] and not found["unexpected"]
    for words in (
        f"class of {found['learners']} learners",
        f"{sources:,} sources",
        f"{seconds / 60:.1f} minutes, {seconds / sources:.1f} s a source",
        f"{found['sandbox_seconds']['half']:.1f} s and {found['sandbox_memory_mb']['half']:.0f} MB",
        f"{found['sandbox_memory_mb']['most']:,.0f} MB at most",
    ):
        assert words in page, words


def test_the_page_has_the_recorded_figures_of_two_cores_now():
    page = (ROOT / "course_utils" / "classroom" / "README.md").read_text().replace("\n", " ")
    found = json.loads((ROOT / "solutions" / "measured" / "classroom_two.json").read_text())
    sources, seconds = sum(found["kinds"].values()), found["run"]["seconds"]
    assert found["run"]["code"] == 0 and not found["unexpected"] and found["jobs"] == 2
    for words in (
        f"{sources} sources of {found['learners']} learners took {seconds / 60:.1f} minutes on two cores",
        f"{seconds / sources:.1f} s a source",
        f"about {6000 * seconds / sources / 3600:.1f} hours for two cores",
    ):
        assert words in page, words


def test_the_page_has_the_recorded_figures_of_16_cores():
    page = (ROOT / "course_utils" / "classroom" / "README.md").read_text().replace("\n", " ")
    found = json.loads((ROOT / "solutions" / "measured" / "classroom_60.json").read_text())
    sources, seconds = sum(found["kinds"].values()), found["run"]["seconds"]
    assert found["run"]["code"] == 0 and not found["unexpected"] and len(found["killed"]) == 2
    for words in (
        f"A class of {found['learners']} learners, {sources:,} sources, took {seconds / 60:.1f} minutes",
        f"about {6000 * seconds / sources / 60:.0f} minutes for {found['jobs']}",
    ):
        assert words in page, words


def test_the_page_has_the_recorded_figures_of_a_gpu():
    page = (ROOT / "course_utils" / "classroom" / "README.md").read_text()
    found = json.loads((ROOT / "solutions" / "measured" / "classroom_gpu.json").read_text())
    each = found["seconds"] / len(found["sources"])
    assert found["points"] == 200
    for words in (
        f"took {found['seconds']} s, {each:.1f} s a source",
        f"about {6000 * each / 3600:.1f} hours for one such machine",
        f"about {6000 * each / 3600 / 8:.1f} hours for eight",
    ):
        assert words in page.replace("\n", " "), words


def test_the_page_has_the_limits_of_reading():
    page = (ROOT / "course_utils" / "classroom" / "README.md").read_text()
    for words in (
        f"{files.FILE_LIMIT >> 20} MB in a file, {files.LEARNER_LIMIT >> 20} MB and {files.FILES} files of",
        f"{submissions.CELLS:,} cells of code in a notebook",
        f"{submissions.COPIES} cells of one exercise",
        f"{submissions.SECONDS:g} s of processor time and {submissions.MEMORY >> 30} GB of memory",
        f"{workshop.SOURCE_LIMIT:,} characters of a source",
    ):
        assert words in page, words
