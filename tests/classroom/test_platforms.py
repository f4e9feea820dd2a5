"""Exports of learning platforms: a row for each person, with the id by which it takes grades back."""

import csv
import zipfile

import pytest

from course_utils.classroom import reports
from course_utils.classroom.platforms import submitters
from course_utils.classroom.reports import Graded
from course_utils.classroom.submissions import read

KERNEL = "def gemm(M, N, K):\n    return 1"
GRADESCOPE = """---
submission_12:
  :submitters:
  - :name: Ada Lovelace
    :sid: '0815'
    :email: ada@example.org
  - :name: "Bob: \\u00D6"
    :sid:
    :email: bob@example.org
  :created_at: 2026-10-01 17:17:55.456789000 Z
  :score: 3.0
  :results: !ruby/hash:ActiveSupport::HashWithIndifferentAccess
    tests:
    - name: "submission_99:"
submission_13:
  :submitters:
  - :name: Ada Lovelace
    :sid: '4711'
    :email: other@example.org
"""


def export(tmp_path, **contents):
    """An export as an archive, and as the folder that comes of it."""
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
        archive.extractall(tmp_path / "folder")
    return tmp_path / "export.zip", tmp_path / "folder"


def owners(place):
    return [(one.learner, one.id, one.handed_in) for one in read(place)]


def test_moodles_participants_keep_their_identifier(tmp_path):
    names = ["Ada Lovelace_12345_assignsubmission_file_", "Bob_Bo_7_assignsubmission_file_"]
    for place in export(tmp_path, **{f"{name}/step05_cute.py": KERNEL for name in names}):
        assert owners(place) == [("Ada Lovelace_12345", "12345", (names[0],)), ("Bob_Bo_7", "7", (names[1],))]


def test_moodles_files_without_folders_are_one_participants(tmp_path):
    files = [f"Ada_9_assignsubmission_file_step{n}_cute.py" for n in ("05", "06")]
    for place in export(tmp_path, **dict.fromkeys(files, KERNEL)):
        assert owners(place) == [("Ada_9", "9", tuple(files))]


def test_canvas_users_keep_their_id(tmp_path):
    files = ["lovelaceada_12345_67890_step05_cute.py", "lovelaceada_12345_67891_step06_cute.py"]
    files += ["lovelaceada_LATE_54321_7_step05_cute.py"]
    for place in export(tmp_path, **dict.fromkeys(files, KERNEL)):
        assert owners(place) == [
            ("lovelaceada_12345", "12345", tuple(files[:2])),
            ("lovelaceada_54321", "54321", (files[2],)),
        ]


def test_gradescopes_submitters_have_a_row_each(tmp_path):
    files = {f"assignment_1_export/submission_{n}/step05_cute.py": KERNEL for n in (12, 13, 14)}
    for place in export(tmp_path, **files, **{"assignment_1_export/submission_metadata.yml": GRADESCOPE}):
        class_ = read(place)
        assert [(one.learner, one.id, one.handed_in) for one in class_] == [
            ("Ada Lovelace_0815", "0815", ("submission_12",)),
            ("Bob_ \u00d6_bob@example.org", "bob@example.org", ("submission_12",)),
            ("Ada Lovelace_4711", "4711", ("submission_13",)),
            ("submission_14", "", ("submission_14",)),
        ]
        assert all(list(one.sources) == ["step05-cute"] for one in class_)
        class_[0].findings.append("about Ada")
        assert not class_[1].findings


def test_a_person_with_two_submissions_has_two_rows(tmp_path):
    twice = GRADESCOPE.replace("'4711'", "'0815'")
    files = {f"submission_{n}/step05_cute.py": KERNEL for n in (12, 13)}
    for place in export(tmp_path, **files, **{"submission_metadata.yml": twice}):
        assert [one.learner for one in read(place)][::2] == [
            "Ada Lovelace_0815", "Ada Lovelace_0815_submission_13"
        ]  # fmt: skip


def test_a_folder_with_numbers_in_its_name_is_no_platforms(tmp_path):
    for place in export(tmp_path, **{f"team_{n}_2_final/step05_cute.py": KERNEL for n in "12"}):
        assert owners(place) == [(f"team_{n}_2_final", "", (f"team_{n}_2_final",)) for n in "12"]


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\x00"])
def test_metadata_that_cannot_be_read_is_said_before_anybody_is_judged(tmp_path, text):
    files = {"submission_12/step05_cute.py": KERNEL, "submission_metadata.yml": text}
    for place in export(tmp_path, **files):
        with pytest.raises(ValueError, match="submission_metadata.yml cannot be read"):
            read(place)


@pytest.mark.parametrize("text", ["", "1", "- a", "submission_12: 1", "submission_12:\n  :submitters: 1\n"])
def test_metadata_without_people_names_nobody(text):
    assert submitters(text.encode()) == {}


def test_the_table_has_the_name_as_handed_in_and_computes_none(tmp_path):
    (tmp_path / "class" / '=HYPERLINK("x")').mkdir(parents=True)
    (tmp_path / "class" / '=HYPERLINK("x")' / "step05_cute.py").write_text(KERNEL)
    reports.write_csv(tmp_path / "grades.csv", [Graded(one, {}) for one in read(tmp_path / "class")])
    (row,) = csv.DictReader(open(tmp_path / "grades.csv", newline=""))
    assert row["handed in as"] == '\'=HYPERLINK("x")'
