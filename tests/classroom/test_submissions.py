"""What is read of what learners handed in: notebooks by cell ids, files by names, archives of platforms."""

import io
import json
import time
import zipfile
from pathlib import Path

import pytest

from course_utils.classroom.submissions import (
    EXERCISES,
    FILE_LIMIT,
    Handed,
    _printable_names,
    function_of,
    read,
    submission,
)

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def cell(source, grade_id=None, kind="code", **metadata):
    if grade_id:
        metadata["nbgrader"] = {"grade_id": grade_id}
    outputs = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": metadata, "source": source, **outputs}


def notebook(*cells, **fields):
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": list(cells)} | fields)


def of(text, name="05_pipeline.ipynb"):
    return submission("ada", [Handed(name, text if isinstance(text, bytes) else text.encode())])


KERNEL = "def gemm(M, N, K):\n    return 1"
CHECK = cell('check("step05", gemm)', "step05-tilelang-check")


def test_the_courses_own_notebooks_hold_every_exercise():
    files = [Handed(path.name, path.read_bytes()) for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
    made = submission("ada", files)
    assert set(made.sources) == set(EXERCISES) and not made.findings
    assert all(f"def {function_of(name)}(" in source for name, source in made.sources.items())


def test_a_cell_is_taken_by_its_id():
    other = cell("def gemm(): pass")
    made = of(notebook(other, cell(KERNEL, "step05-tilelang"), CHECK, other, cell(KERNEL, "step05-cute")))
    assert made.sources == {"step05-tilelang": KERNEL, "step05-cute": KERNEL}
    assert not made.findings


def test_a_patient_of_notebook_13_is_taken_by_the_courses_id():
    made = of(notebook(cell(KERNEL, course={"exercise": "case13a-tilelang"})))
    assert made.sources == {"case13a-tilelang": KERNEL}


def test_of_a_cell_that_is_there_twice_the_last_counts():
    made = of(
        notebook(cell("x = 1", "step05-tilelang"), cell(KERNEL, "step05-tilelang"), cell("", "step05-cute"))
    )
    assert made.sources["step05-tilelang"] == KERNEL
    assert "2 times; the last one counts" in made.findings[0]


def test_a_missing_cell_is_named():
    made = of(notebook(cell(KERNEL, "step05-tilelang"), CHECK))
    assert made.findings == ["05_pipeline.ipynb: the cell step05-cute is missing"]


def test_an_edited_check_is_told_and_changes_nothing():
    edited = cell("check = lambda *_: 10\ncheck('step05', gemm)", "step05-tilelang-check")
    made = of(notebook(cell(KERNEL, "step05-tilelang"), edited, cell(KERNEL, "step05-cute")))
    assert made.findings == ["the check of step05-tilelang was edited; it changes no grade"]


def test_a_cell_that_lost_its_id_is_found_above_its_check():
    made = of(notebook(cell("import os"), cell(KERNEL), cell("gemm(1, 2, 3)"), cell('check("step05", gemm)')))
    assert made.sources["step05-tilelang"] == KERNEL
    assert "has lost its id" in made.findings[0]
    made = of(notebook(cell(KERNEL), cell("check('step05', gemm, dsl='cute')")))
    assert set(made.sources) == {"step05-cute"}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"nbformat": 4}',
        b'{"cells": 3, "nbformat": 4, "nbformat_minor": 4}',
        b"[" * 200_000,
        b'{"nbformat": "4", "cells": []}',
        notebook({"cell_type": "code"}).encode(),
        notebook(cell(["a", 3])).encode(),
    ],
    ids=lambda text: text[:24].decode(errors="replace"),
)
def test_what_is_no_notebook_is_a_finding(text):
    made = of(text)
    assert not made.sources and made.findings


@pytest.mark.parametrize(
    "metadata",
    [
        {"nbgrader": 3},
        {"nbgrader": {"grade_id": ["a"]}},
        {"course": None},
        {"nbgrader": {"grade_id": "../x"}},
    ],
)
def test_odd_metadata_is_no_id(metadata):
    assert not of(notebook(cell(KERNEL, **metadata))).sources


@pytest.mark.parametrize(
    "name, source, exercise",
    [
        ("step05_cute.py", "", "step05-cute"),
        ("step05_tilelang_mine.py", "", "step05-tilelang"),
        ("cute/step10_multi_consumer.py", "", "step10-cute"),
        ("step07.py", "import cutlass\n", "step07-cute"),
        ("step07.py", "import tilelang.language as T\n", "step07-tilelang"),
        ("case11_contract.py", "", "case11-maps"),
        ("case13c.py", "from cutlass import cute\n", "case13c-cute"),
        ("Case14_cute.py", "", None),
        ("step99_cute.py", "", None),
        ("case14_tilelang.py", "", None),
        ("notes.py", "", None),
        ("step051.py", "", None),
    ],
)
def test_a_file_is_taken_by_its_name(name, source, exercise):
    made = submission("ada", [Handed(name, source.encode())])
    assert list(made.sources) == ([exercise] if exercise else [])
    assert bool(made.findings) == (exercise is None)


def test_a_class_of_folders_files_and_archives(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "step05_cute.py").write_text(KERNEL)
    (tmp_path / "bob.ipynb").write_text(
        notebook(cell(KERNEL, "step05-cute"), cell(KERNEL, "step05-tilelang"))
    )
    with zipfile.ZipFile(tmp_path / "cyd.zip", "w") as archive:
        archive.writestr("step01_cute.py", KERNEL)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "README.txt").write_text("no submission")
    class_ = read(tmp_path)
    assert [(one.learner, sorted(one.sources)) for one in class_] == [
        ("ada", ["step05-cute"]),
        ("bob", ["step05-cute", "step05-tilelang"]),
        ("cyd", ["step01-cute"]),
    ]


@pytest.mark.parametrize(
    "names, learners",
    [
        (["Ada L_17_assignsubmission_file/a/step05_cute.py", "Bob_18_assignsubmission_file/step05_cute.py"],
         ["Ada L_17", "Bob_18"]),
        (["lovelaceada_LATE_12_5678_step05_cute.py", "bob_1_2_step05_cute.py"], ["bob_1", "lovelaceada_12"]),
        (["ada/step05_cute.py", "bob/step05_cute.py", "__MACOSX/ada/._step05_cute.py"], ["ada", "bob"]),
        ([f"assignment_1_export/{name}" for name in
          ("submission_12/step05_cute.py", "submission_13/a/step05_cute.py", "submission_metadata.yml")],
         ["submission_12", "submission_13"]),
    ],
    ids=["Moodle", "Canvas", "folders", "Gradescope"],
)  # fmt: skip
def test_an_export_of_a_platform(tmp_path, names, learners):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name in names:
            archive.writestr(name, KERNEL)
    for place in (tmp_path / "export.zip", tmp_path):
        class_ = read(place)
        assert sorted(one.learner for one in class_) == sorted(learners)
        assert all(list(one.sources) == ["step05-cute"] for one in class_)


def test_links_and_what_is_too_large_are_not_read(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("password")
    ada = tmp_path / "class" / "ada"
    ada.mkdir(parents=True)
    (ada / "step05_cute.py").symlink_to(secret)
    (tmp_path / "class" / "bob").symlink_to(tmp_path)
    with open(ada / "step01_cute.py", "wb") as file:
        file.truncate(FILE_LIMIT + 1)
    class_ = read(tmp_path / "class")
    assert all(not one.sources for one in class_)
    assert "link" in class_[0].findings[1] and "32 MB" in class_[0].findings[0]


def _archive(*entries, **sizes):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, mode, text in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
    return data.getvalue()


@pytest.mark.parametrize(
    "data, word",
    [
        (_archive(("ada/../../step05_cute.py", 0o644, KERNEL)), "leads out"),
        (_archive(("/step05_cute.py", 0o644, KERNEL)), "leads out"),
        (_archive(("ada/step05_cute.py", 0o120777, "/etc/passwd")), "link"),
        (_archive(("ada/step05_cute.py", 0o644, b"\0" * (FILE_LIMIT + 1))), "unpacked are too much"),
        (b"PK\x03\x04 no archive", "no archive"),
        (b"", "no archive"),
    ],
    ids=["dots", "absolute", "link", "bomb", "broken", "empty"],
)
def test_a_hostile_archive_is_a_finding(tmp_path, data, word):
    (tmp_path / "export.zip").write_bytes(data)
    class_ = read(tmp_path)
    assert not any(one.sources for one in class_)
    assert any(word in text for one in class_ for text in one.findings)


def test_names_can_stand_in_a_table_and_on_a_disk(tmp_path):
    for name in ("=cmd|calc", "a\nb", "Ada", "ada", "x" * 200):
        (tmp_path / name).mkdir()
        (tmp_path / name / "step05_cute.py").write_text(KERNEL)
    names = [one.learner for one in read(tmp_path)]
    assert len({name.casefold() for name in names}) == len(names) == 5
    assert not any(c in name for name in names for c in "\n/|=")


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        read(tmp_path / "missing")
    with pytest.raises(ValueError, match="holds no submission"):
        read(tmp_path)


def test_an_archive_among_others_is_one_learners_whatever_names_stand_in_it(tmp_path):
    (tmp_path / "alice").mkdir()
    (tmp_path / "alice" / "step05_cute.py").write_text(KERNEL)
    moodle, canvas = "alice_1_assignsubmission_file/step05_cute.py", "alice_1_2_step05_cute.py"
    for name in ("alice/step05_cute.py", moodle, canvas):
        with zipfile.ZipFile(tmp_path / "mallory.zip", "w") as archive:
            archive.writestr(name, "stolen")
        found = {one.learner: one.sources for one in read(tmp_path)}
        assert set(found) == {"alice", "mallory"} and found["alice"] == {"step05-cute": KERNEL}


def test_a_link_to_an_archive_is_not_followed(tmp_path):
    for learner in ("alice", "mallory"):
        (tmp_path / learner).mkdir()
    with zipfile.ZipFile(tmp_path / "alice" / "work.zip", "w") as archive:
        archive.writestr("step05_cute.py", KERNEL)
    (tmp_path / "mallory" / "work.zip").symlink_to(tmp_path / "alice" / "work.zip")
    found = {one.learner: one.sources for one in read(tmp_path)}
    assert found["alice"] and not found["mallory"]


def test_a_member_that_is_broken_costs_itself_alone(tmp_path):
    data = bytearray(_archive(("a/step05_cute.py", 0o644, KERNEL * 50), ("b/step05_cute.py", 0o644, KERNEL)))
    data[40:60] = bytes(20)
    (tmp_path / "export.zip").write_bytes(bytes(data))
    found = {one.learner: one for one in read(tmp_path)}
    assert "cannot be unpacked" in found["a"].findings[0] and found["b"].sources


def test_names_are_made_quickly_and_fit_a_file(tmp_path):
    names = _printable_names([f"{chr(0x4E00 + n)}?" * 90 for n in range(2000)] + ["symptom_map", "?" * 50])
    assert len(set(names.values())) == 2002 and "symptom_map" not in names.values()
    assert max(len(f"{name}.html".encode()) for name in names.values()) < 200
    many = _printable_names(["/" * n for n in range(1, 3000)])
    assert len(set(many.values())) == 2999


@pytest.mark.parametrize("text", ["\n" * 300_000, "x" * 300_000, "check" * 60_000, "x=" * 100_000])
def test_a_long_cell_is_read_in_no_time(text):
    began = time.monotonic()
    of(notebook(cell(text)))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("exercise, other", [("step05-cute", "tilelang"), ("step05-tilelang", "cutlass")])
def test_a_source_that_names_the_other_language_is_for_a_person_to_see(exercise, other):
    step, _, dsl = exercise.partition("-")
    made = submission("ada", [Handed(f"{step}_{dsl}.py", f"import {other}\n{KERNEL}".encode())])
    assert made.sources.keys() == {exercise}
    assert made.findings == [
        f"{exercise} names {other}, the package of the other language: look at its source"
    ]
