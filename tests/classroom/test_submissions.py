"""What is read of what learners handed in: notebooks by cell ids, files by names, archives of platforms."""

import io
import json
import os
import resource
import shutil
import signal
import time
import tracemalloc
import zipfile
from pathlib import Path
from textwrap import indent

import pytest

from course_utils.classroom import cells, files, submissions
from course_utils.classroom.files import FILE_LIMIT, Handed
from course_utils.classroom.submissions import _printable_names, function_of, given, read, submission
from course_utils.grading.steps import EXERCISES

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


def test_a_patient_of_notebook_t3_is_taken_by_the_courses_id():
    made = of(notebook(cell(KERNEL, course={"exercise": "t3a-tilelang"})))
    assert made.sources == {"t3a-tilelang": KERNEL}


def test_a_notebook_of_an_older_course_is_taken_under_the_names_of_today():
    """TMA's notebooks were 11 to 15, and their cases case11 to case15; step 11's notebook was 16."""
    copy = KERNEL.replace("gemm", "copy")
    made = of(
        notebook(
            cell(copy, "case12-tilelang"),
            cell('check_copy("case12", copy)', "case12-tilelang-check"),
            cell(copy, "case12-cute"),
            cell('check_copy("case12", copy, "cute")', "case12-cute-check"),
            cell(KERNEL, course={"exercise": "case13f-tilelang"}),
            cell(KERNEL.replace("gemm", "seconds"), "case16-plan"),
            cell('check_plan("case16", seconds)', "case16-plan-check"),
            cell("import os"),
            cell(KERNEL),
            cell('check("case15", gemm, "cute")'),
        )
    )
    assert list(made.sources) == ["plan11-plan", "t2-cute", "t2-tilelang", "t3f-tilelang", "t5-cute"]
    assert made.findings == [
        "05_pipeline.ipynb: the cell t5-cute has lost its id; the one above its check was taken"
    ]


def parts(*sources):
    """A notebook whose cell of step 5 is there several times, and what was made of it."""
    cells = [cell(source, "step05-tilelang") for source in sources]
    made = of(notebook(*cells, cell(KERNEL, "step05-cute")))
    assert len(made.findings) == 1 and f"{len(sources)} times" in made.findings[0]
    return made.sources["step05-tilelang"], made.findings[0]


def test_of_a_cell_that_is_there_twice_the_last_counts():
    old = KERNEL.replace("1", "0")
    assert parts(old, KERNEL)[0] == KERNEL
    source, told = parts(old, KERNEL, "", "gemm(1, 2, 3)")
    assert source == KERNEL and "the last one counts that defines gemm" in told


def test_a_cell_that_was_split_is_joined():
    """Both halves have its id."""
    head, body = KERNEL.split("\n")
    for sources in (("import os", KERNEL), ("", KERNEL, "\n  "), (head, body), (KERNEL, "def f():\n  pass")):
        source, told = parts(*sources)
        assert "of them were joined" in told or sources[0] == ""
        assert all(part.strip() in source for part in sources)
        names = {}
        exec(source, names)
        assert names["gemm"](1, 2, 3) == 1
    assert parts(KERNEL, "")[0] == KERNEL  # an empty half, and one that only tries the kernel out
    assert parts(KERNEL, "gemm(1, 2, 3).run()")[0] == KERNEL


def test_an_empty_cell_leaves_the_one_above_its_check():
    made = of(notebook(cell("", "step05-tilelang"), cell(KERNEL), CHECK, cell(KERNEL, "step05-cute")))
    assert made.sources["step05-tilelang"] == KERNEL
    assert made.findings == [
        "05_pipeline.ipynb: the cell step05-tilelang is empty; the one above its check was taken"
    ]


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
    kernel = KERNEL.replace("gemm(", "gemm (")
    made = of(notebook(cell(kernel), cell("check('step05', gemm, dsl='cute')")))
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
        ("t1_contract.py", "", "t1-maps"),
        ("t3c.py", "from cutlass import cute\n", "t3c-cute"),
        ("T4_cute.py", "", "t4-cute"),
        ("t3_tilelang.py", "", None),
        ("t6_cute.py", "", "t6-cute"),
        ("t7_cute.py", "", None),
        ("a2b_overlap_cute.py", "", "a2b-cute"),
        ("a1_smith_cute.py", "", None),
        ("test5_cute.py", "", None),
        ("case13c.py", "from cutlass import cute\n", "t3c-cute"),
        ("Case_14_cute.py", "", "t4-cute"),
        ("b05_cute.py", "", "b05-cute"),
        ("tilelang/b10_two_mma_warps.py", "", "b10-tilelang"),
        ("b5_cute.py", "", None),
        ("b11_cute.py", "", None),
        ("bb05_cute.py", "", None),
        ("Step01_CuTe.PY", "", "step01-cute"),
        ("STEP05.py.txt", "", "step05-tilelang"),
        ("step01_cuteDSL.py", "", "step01-cute"),
        ("step01_executed.py", "import tilelang\n", "step01-tilelang"),
        ("acute/step01.py", "import tilelang\n", "step01-tilelang"),
        ("tilelang_and_cute/step01.py", "import cutlass\n", "step01-cute"),
        ("my tilelang work/cute/step01.py", "", "step01-cute"),
        ("step5_tilelang.py", "", "step05-tilelang"),
        ("step_05_tilelang.py", "", "step05-tilelang"),
        ("Step 05 cute.py", "", "step05-cute"),
        ("step-10-cute.py", "", "step10-cute"),
        ("step05/tilelang.py", KERNEL, "step05-tilelang"),
        ("cute/step05/gemm.py", KERNEL, "step05-cute"),
        ("step05/tilelang_helpers.py", "x = 1", None),
        ("05_pipeline_tilelang.py", "", "step05-tilelang"),
        ("11_past_the_library_cute.py", "", "step11-cute"),
        ("11_any_shape_tilelang.py", "", "step11-tilelang"),
        ("16_past_the_library_cute.py", "", None),
        ("t3_async_proxy_tilelang.py", "", None),
        ("plan11.py", "", "plan11-plan"),
        ("case16_plan.py", "", "plan11-plan"),
        ("cute/10.py", "", "step10-cute"),
        ("cute/t4_group_modes.py", "", "t4-cute"),
        ("t4cute.py", "", "t4-cute"),
        ("05_pipeline.py", "", None),
        ("step99_cute.py", "", None),
        ("t4_tilelang.py", "", None),
        ("notes.py", "", None),
        ("step051.py", "", None),
    ],
)
def test_a_file_is_taken_by_its_name(name, source, exercise):
    made = submission("ada", [Handed(name, source.encode())])
    assert list(made.sources) == ([exercise] if exercise else [])
    assert bool(made.findings) == (exercise is None)


@pytest.mark.parametrize("dsl, used", [("cute", "@cute.jit\n"), ("tilelang", "@T.prim_func\n")])
def test_a_file_that_imports_both_languages_is_of_the_one_it_uses(dsl, used):
    imports = "import tilelang.language as T\nfrom cutlass import cute, Float16\nimport cutlass.cute\n"
    made = submission("ada", [Handed("step01.py", f"{imports}{used * 2}{KERNEL}".encode())])
    assert list(made.sources) == [f"step01-{dsl}"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_source_has_one_form_of_line_ends(encoding, end):
    source = KERNEL.replace("\n", end)
    made = submission("ada", [Handed("step01_cute.py", source.encode(encoding))])
    book = of(notebook(cell(source, "step05-cute")).encode(encoding))
    assert made.sources == {"step01-cute": KERNEL} and book.sources == {"step05-cute": KERNEL}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_notebook_of_another_version_is_read(version):
    cells = [cell(["def gemm(M, N, K):\n", "    return 1"], "step05-cute"), None, {"cell_type": "code"}]
    book = {"nbformat": version, "nbformat_minor": 0, "metadata": {}, "cells": cells}
    if version == 3:
        cells[0]["input"] = cells[0].pop("source")
        book["worksheets"] = [{"cells": book.pop("cells")}]
    assert of(json.dumps(book)).sources == {"step05-cute": KERNEL}


MAGICS = """%%time
%matplotlib inline
!pip install \\
  something
files = !ls
home = %env HOME
%time kernel = max(0, \\
  1)
text = '''
%a "
!b
'''
rest = (7
% 4)
long = 7 \\
% 5
if rest:
    %timeit 1
def gemm(M, N, K):
    return text, rest, long, files, kernel
gemm?
?gemm
"""


def test_lines_that_only_a_notebook_runs_are_left_out_of_a_cell():
    made = of(notebook(cell(MAGICS, "step05-tilelang"), cell(KERNEL, "step05-cute")))
    source, names = made.sources["step05-tilelang"], {}
    exec(source, names)
    assert names["gemm"](1, 2, 3) == ('\n%a "\n!b\n', 3, 2, None, 1)
    assert source.split("\n").index("def gemm(M, N, K):") == MAGICS.split("\n").index("def gemm(M, N, K):")
    assert len(made.findings) == 1 and "9 in all; the first is '%%time'" in made.findings[0]


@pytest.mark.parametrize("source", [indent(KERNEL, "    "), ">>> " + KERNEL.replace("\n", "\n... ")])
def test_a_cell_that_was_pasted_is_taken_as_a_notebook_takes_it(source):
    assert of(notebook(cell(source, "step05-cute"))).sources == {"step05-cute": KERNEL}


def test_no_source_of_the_courses_is_changed():
    for path in sorted((NOTEBOOKS.parent / "solutions").rglob("*.py")):
        assert cells.python(path.read_text()) == (path.read_text(), [])


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
        (["c/ada step05_cute.PY", "c/bob/Step05_cute.py", "c/grades.csv"], ["ada step05_cute", "bob"]),
        (["a_step05_cute.py", "b_step05_cute.py", "README.txt"], ["a_step05_cute", "b_step05_cute"]),
        (["ada\\step05_cute.py", "bob\\x\\step05_cute.py"], ["ada", "bob"]),
    ],
    ids=["Moodle", "Canvas", "folders", "Gradescope", "a folder of files", "files", "Windows"],
)  # fmt: skip
def test_an_export_of_a_platform(tmp_path, names, learners):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name in names:
            archive.writestr(name, KERNEL)
    for place in (tmp_path / "export.zip", tmp_path):
        class_ = read(place)
        assert sorted(one.learner for one in class_) == sorted(learners)
        assert all(list(one.sources) == ["step05-cute"] for one in class_)


CLASS = {
    "Ada_1_assignsubmission_file/ada.zip": "zip",
    "Bob_2_assignsubmission_file/step05_cute.py": "",
    "Cyd_3_assignsubmission_file/Step05_CuTe.PY": "",
    "Dan_4_assignsubmission_file/notes.txt": "notes.txt: left out, as it is no notebook",
    "Eve_5_assignsubmission_file/work.7z": "work.7z: left out, as it is no notebook",
    "Fay_6_assignsubmission_file/A.IPYNB": "A.IPYNB is no notebook",
    "Gus_7_assignsubmission_file/": "no exercise was found",
}


def test_no_learner_vanishes(tmp_path):
    inner = _archive(("cute/step05.py", 0o644, KERNEL), ("b.png", 0o644, ""), ("c.zip", 0o644, _archive()))
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        for name, text in CLASS.items():
            archive.writestr(name, inner if text == "zip" else "" if name[-1] == "/" else KERNEL)
    from_archive = read(tmp_path / "class.zip")
    with zipfile.ZipFile(tmp_path / "class.zip") as archive:
        archive.extractall(tmp_path / "class")
    assert read(tmp_path / "class") == from_archive
    assert [one.learner[:3] for one in from_archive] == [name[:3] for name in CLASS]
    for one, text in zip(from_archive, CLASS.values(), strict=True):
        if text in ("", "zip"):
            assert list(one.sources) == ["step05-cute"]
        else:
            assert one.findings[0].startswith(text)
    assert from_archive[0].findings == [
        "ada.zip/b.png: left out, as it is no notebook, Python file or zip archive"
    ]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("wrap", ["", "class/"])
def test_what_begins_with_a_dot_is_told(tmp_path, zipped, wrap):
    names = (".ada/step05_cute.py", ".bob.ipynb", ".git/hooks/a.py", ".cfg/settings", "._cyd.ipynb",
             "cyd/.work/step01_cute.py", "cyd/.work/step02_cute.py", "cyd/.ipynb_checkpoints/a.ipynb",
             "cyd/step05_cute.py", "dan/step05_cute.py")  # fmt: skip
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        for name in names:
            archive.writestr(wrap * zipped + name, KERNEL)
    if not zipped:
        with zipfile.ZipFile(tmp_path / "class.zip") as archive:
            archive.extractall(tmp_path / "class")
    found = read(tmp_path / ("class.zip" if zipped else "class"))
    assert {one.learner: one.findings[:1] for one in found} == {
        "ada": [f".ada: {files.DOTTED}"],
        "bob.ipynb": [f".bob.ipynb: {files.DOTTED}"],
        "cyd": [f".work: {files.DOTTED}"],
        "dan": [],
    }
    assert found[2].sources.keys() == found[3].sources.keys() == {"step05-cute"}


def test_archives_in_archives_have_an_end(tmp_path):
    data = _archive(("step05_cute.py", 0o644, KERNEL))
    for _ in range(files.DEEP):
        data = _archive(("a.zip", 0o644, data))
    (tmp_path / "ada.zip").write_bytes(data)
    (tmp_path / "bob.7z").write_bytes(b"")
    ada, bob = read(tmp_path)
    assert not ada.sources and "archives in one another" in ada.findings[0]
    assert not bob.sources and "bob.7z" in bob.findings[0]


def test_a_learners_limits_are_over_all_of_their_archives(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LEARNER_LIMIT", 3 << 20)
    for learner in ("ada", "bob"):
        for n in range(4):
            (tmp_path / learner).mkdir(exist_ok=True)
            entry = (f"step0{n + 1}_cute.py", 0o644, b"#" * (1 << 20))
            (tmp_path / learner / f"{n}.zip").write_bytes(_archive(entry))
    for one in read(tmp_path):
        assert len(one.sources) == 3 and "more than 3 MB in all" in one.findings[0]


def test_files_of_a_learner_are_counted_and_those_left_out_are_named(tmp_path):
    entries = [(f"{n}/step01_cute.py", 0o644, KERNEL) for n in range(files.FILES + 1)]
    pictures = [(f"{n:03}.png", 0o644, "") for n in range(files.NAMED + 7)]
    (tmp_path / "ada.zip").write_bytes(_archive(*entries))
    (tmp_path / "bob.zip").write_bytes(_archive(*pictures, ("step01_cute.py", 0o644, KERNEL)))
    ada, bob = read(tmp_path)
    assert ada.sources and f"more than {files.FILES} notebooks" in ada.findings[0]
    assert bob.sources and len(bob.findings) == files.NAMED + 1
    assert bob.findings[-1] == "7 more files were left out"


def test_an_archive_that_lists_too_many_files_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LIST_LIMIT", 100)
    (tmp_path / "ada").mkdir()
    entries = [(f"{n}/step01_cute.py", 0o644, KERNEL) for n in range(2)]
    (tmp_path / "ada" / "work.zip").write_bytes(_archive(*entries))
    (ada,) = read(tmp_path)
    assert not ada.sources and ada.findings[0] == "work.zip: left out, as it lists too many files"


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


def test_a_notebook_of_checks_is_read_in_no_time():
    """Each check looks for the definition above it."""
    made = of(notebook(cell("x\n" * (1 << 20)), *[cell('check("step01")\n' * 500)] * 4))
    assert not made.sources


def test_objects_of_a_notebook_are_not_multiplied():
    tracemalloc.start()
    of(notebook(metadata={"a": [{}] * 100_000}))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20 << 20


@pytest.mark.parametrize("text", ["\n" * 300_000, "x" * 300_000, "check" * 60_000, "x=" * 100_000])
def test_a_long_cell_is_read_in_no_time(text):
    began = time.monotonic()
    of(notebook(cell(text)))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("kind", ["cells", "files"])
def test_many_copies_of_an_exercise_are_not_all_looked_at(tmp_path, monkeypatch, kind):
    """Each is parsed, to know which of them counts."""
    if kind == "files":
        monkeypatch.setattr(submissions, "SECONDS", 0.5)
    long = [f"{KERNEL}\n" + f"x = [{n}]\n" * 500 for n in range(400)]
    if kind == "cells":
        book = notebook(*[cell(one, "step05-cute") for one in long])
        (tmp_path / "ada.ipynb").write_text(book)
    else:
        for n, one in enumerate(long):
            (tmp_path / "ada" / str(n)).mkdir(parents=True)
            (tmp_path / "ada" / str(n) / "step05_cute.py").write_text(one)
    began = time.process_time()
    (ada,) = read(tmp_path)
    assert ada.sources and time.process_time() - began < 3
    told = "400 times; the last 50 were looked at" if kind == "cells" else "reading these files takes more"
    assert any(told in text for text in ada.findings)


@pytest.mark.parametrize("limit, value", [("SECONDS", 0.2), ("MEMORY", 1 << 28)])
def test_reading_has_a_clock_and_a_limit_of_memory(tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(submissions, limit, value)
    add = submissions._add

    def too_much(made, handed):
        while made.learner == "ada" and limit == "SECONDS":
            pass
        if made.learner == "ada":
            bytearray(2 * value)
        add(made, handed)

    monkeypatch.setattr(submissions, "_add", too_much)
    for learner in ("ada", "bob"):
        (tmp_path / f"{learner}.ipynb").write_text(notebook(cell(KERNEL, "step05-cute")))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    ada, bob = read(tmp_path)
    assert not ada.sources and "reading these files takes more than" in ada.findings[0]
    assert bob.sources
    assert (
        signal.getitimer(signal.ITIMER_PROF) == (0, 0) and resource.getrlimit(resource.RLIMIT_DATA) == before
    )


def test_cells_of_a_notebook_are_counted(monkeypatch):
    monkeypatch.setattr(submissions, "CELLS", 3)
    made = of(notebook(*[cell("x = 1")] * 3, cell(KERNEL, "step05-cute")))
    assert not made.sources and "has 4 cells of code; those after 3 were left out" in made.findings[0]


@pytest.mark.parametrize("exercise, other", [("step05-cute", "tilelang"), ("step05-tilelang", "cutlass")])
def test_a_source_that_names_the_other_language_is_for_a_person_to_see(exercise, other):
    step, _, dsl = exercise.partition("-")
    made = submission("ada", [Handed(f"{step}_{dsl}.py", f"import {other}\n{KERNEL}".encode())])
    assert made.sources.keys() == {exercise}
    told = f"{exercise} names {other}, the package of the other language"
    assert not made.findings and made.concerns == [("other language", told)]


GIVEN = given()["step05-tilelang"]
MINE = (NOTEBOOKS.parent / "solutions/tilelang/step05_pipeline.py").read_text()
OWN = MINE + "\nown = 1\n"


def book(*sources, exercise="step05-tilelang"):
    return notebook(*[cell(source, exercise) for source in sources], cell(KERNEL, "step05-cute"))


@pytest.mark.parametrize(
    "handed, counts",
    [
        ({"05_pipeline (1).ipynb": book(OWN), "05_pipeline.ipynb": book(GIVEN)}, "05_pipeline (1).ipynb"),
        ({"05_pipeline-Copy1.ipynb": book(OWN), "05_pipeline.ipynb": book("")}, "05_pipeline-Copy1.ipynb"),
        ({"my/step05_tilelang.py": OWN, "nb/05.ipynb": book(GIVEN)}, "my/step05_tilelang.py"),
        ({"step05_tilelang.py": OWN, "~step05_tilelang.py": "# note"}, "step05_tilelang.py"),
        ({"step05_tilelang.py": OWN, "step05_tilelang_backup.py": MINE}, "step05_tilelang.py"),
        ({"step05_tilelang.py": OWN, "test_step05_tilelang.py": "import step05"}, "step05_tilelang.py"),
        ({"step05_tilelang.py": GIVEN + "# seen", "step05_tilelang_old.py": OWN}, "step05_tilelang_old.py"),
        ({"a.ipynb": book(OWN), "b.ipynb": book(GIVEN.replace("TODO 1", "TODO: 1"))}, "a.ipynb"),
        ({"step05_tilelang.py": OWN, "step05_tilelang_2.py": "def gemm(:"}, "step05_tilelang.py"),
        ({"nb/05.ipynb": book(OWN), "solutions/tilelang/step05_pipeline.py": MINE}, "nb/05.ipynb"),
        ({"nb/05.ipynb": book(GIVEN), "solutions/tilelang/step05_a.py": MINE}, "nb/05.ipynb"),
        ({"nb/05.ipynb": book(GIVEN), "solutions/step05_tilelang.py": KERNEL},
         "solutions/step05_tilelang.py"),
        ({"solutions/tilelang/step05_pipeline.py": MINE}, "solutions/tilelang/step05_pipeline.py"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", [1, -1])
def test_what_is_given_undefined_or_kept_aside_displaces_no_work(handed, counts, order):
    made = submission("ada", [Handed(name, text.encode()) for name, text in handed.items()][::order])
    assert made.places["step05-tilelang"][-1] == counts
    others = [name for name in handed if name != counts]
    told = [text for text in made.findings if "more than once" in text]
    assert len(told) == len(others)
    text = handed[counts]
    assert made.sources["step05-tilelang"] == (
        OWN if text.startswith("{") and "own = 1" in text else GIVEN if text.startswith("{") else text
    )


def test_a_copy_of_the_given_cell_below_the_solved_one_does_not_count():
    assert parts(OWN, GIVEN)[0] == OWN
    assert "neither as it was given nor open" in parts(OWN, GIVEN, "")[1]


def test_a_kernel_in_a_cell_of_its_own_counts_over_the_given_one():
    made = of(notebook(cell(GIVEN, "step05-tilelang"), cell(OWN), CHECK, cell(KERNEL, "step05-cute")))
    assert made.sources["step05-tilelang"] == OWN and "is as it was given" in made.findings[0]
    made = of(notebook(cell(KERNEL, "step05-tilelang"), cell(OWN), CHECK, cell(KERNEL, "step05-cute")))
    assert made.sources["step05-tilelang"] == KERNEL


@pytest.mark.parametrize(
    "own, below, counts",
    [("order", "blank", 1), ("write", "blank", 1), ("write", "order", 0), ("order", "order", 0)],
)
def test_a_kernel_at_a_higher_level_counts_over_the_one_with_the_id(own, below, counts):
    texts = [f"# level: {own}\n{OWN}", f"# level: {below}\n{OWN}"]
    made = of(notebook(cell(texts[0], "step05-tilelang"), cell(texts[1]), CHECK, cell(KERNEL, "step05-cute")))
    assert made.sources["step05-tilelang"] == texts[counts]
    assert any("is at a lower level" in text for text in made.findings) is bool(counts)


def completed(source, *above):
    """A notebook's exercise with cells above it, run as it was taken; what ``gemm`` answers, and the text."""
    made = of(
        notebook(*map(cell, above), cell(source, "step05-tilelang"), CHECK, cell(KERNEL, "step05-cute"))
    )
    names = {}
    exec(made.sources["step05-tilelang"], names)
    return names["gemm"](1, 2, 3), made


@pytest.mark.parametrize(
    "above, value, answer",
    [
        (["import math\nfrom os import path as p\nblock_M, n = 128, 2"], "block_M, p.sep, math.pi", None),
        (["a = 1", "def twice(x):\n    return x * two", "two = 2", "a = 5"], "twice(a)", 10),
        (["a = 1\na += 2", "a = a * 2"], "a", 6),
        (["a = [1]", "a[0] = 4\nunused = 1 / 0\nprint(1 / 0)"], "a[0]", 4),
        (["from math import *"], "sqrt(4)", 2),
        (["from functools import cache", "@cache\ndef one(): return 1"], "one()", 1),
        (["a = 3", "a = check('step05', gemm)", "def f(:", "%time b = 4"], "a + b", 7),
        (["a: int = 3", "a: str"], "a", 3),
    ],
)
def test_what_an_exercise_uses_of_cells_above_is_put_in_front(above, value, answer):
    got, made = completed(f"def gemm(M, N, K):\n    return {value}", *above)
    assert answer is None or got == answer
    assert len(made.findings) == 1 and "put in front" in made.findings[0]
    assert all(word not in made.sources["step05-tilelang"] for word in ("unused", "print", "check", "b = 9"))


def test_what_an_exercise_defines_or_a_notebook_has_is_not_put_in_front():
    source = (
        "from __future__ import annotations\nn = 1\ndef gemm(M, N, K):\n    check(1)\n    return n, M, len"
    )
    book = notebook(
        cell("from course_utils.notebook import check\nn = M = 2"),
        cell(source, "step05-tilelang"),
        cell(KERNEL, "step05-cute"),
    )
    assert of(book).sources["step05-tilelang"] == source and not of(book).findings
    got, made = completed(source.replace("n, M", "k, M").replace("    check(1)\n", ""), "k = 7")
    assert got[0] == 7 and made.sources["step05-tilelang"].startswith("from __future__")


def test_a_constant_between_an_exercise_and_its_check_is_put_in_front_and_none_below_it():
    source = "def gemm(M, N, K):\n    return block_M"
    book = [cell(source, "step05-tilelang"), cell("block_M = 64"), CHECK, cell("block_M = 32")]
    made = of(notebook(*book, cell(KERNEL, "step05-cute")))
    assert made.sources["step05-tilelang"] == f"block_M = 64\n{source}"


@pytest.mark.parametrize("text", ["-" * 50_000 + "1", "a" + ".b" * 50_000, "\0", "a = 1" + "+1" * 50_000])
def test_cells_that_cannot_be_parsed_give_no_names(text):
    above = cells.with_names("def gemm(): return a", [text])
    assert above == ("def gemm(): return a", []) and cells.with_names(text, ["a = 1"])[1] == []


@pytest.mark.parametrize("zipped", [False, True])
def test_installed_packages_and_other_files_cost_no_exercise(tmp_path, zipped):
    names = [f"env/lib/m{n:03}.py" for n in range(files.FILES + 9)]
    names += ["venv/pyvenv.cfg", "venv/bin/step06_cute.py", "lib/site-packages/a/step07_cute.py"]
    ada = tmp_path / "class" / "ada"
    for name in [*names, "work/step05_cute.py"]:
        (ada / name).parent.mkdir(parents=True, exist_ok=True)
        (ada / name).write_text(KERNEL)
    if zipped:
        packed = [(str(path.relative_to(ada)), 0o644, KERNEL) for path in ada.rglob("*") if path.is_file()]
        (tmp_path / "class" / "bob.zip").write_bytes(_archive(*packed))
    made = read(tmp_path / "class")[-1]
    assert list(made.sources) == ["step05-cute"] and len(made.findings) < 12
    assert sum("installed packages" in text for text in made.findings) == 2
    assert any("more Python files were left out" in text for text in made.findings)


def test_a_path_that_is_too_long_costs_itself_alone(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "step05_cute.py").write_text(KERNEL)
    inner = os.open(tmp_path / "ada", os.O_RDONLY)
    for _ in range(22):
        os.mkdir("a" * 200, dir_fd=inner)
        outer, inner = inner, os.open("a" * 200, os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)
    (ada,) = read(tmp_path)
    assert list(ada.sources) == ["step05-cute"] and "cannot be read" in ada.findings[0]
    shutil.rmtree(tmp_path / "ada")


@pytest.mark.parametrize(
    "names, learners",
    [
        (["doe_123_456_step01_cute.py", "doe_123_457_step02_cute.py", "roe_LATE_4_8_step01_cute.py"],
         ["doe_123", "roe_4"]),
        (["export/submission_1/step01_cute.py", "export/submission_2/step01_cute.py", "export/a.yml"],
         ["submission_1", "submission_2"]),
        (["submitted/ada/ladder/step05_cute.py", "submitted/bob/ladder/step05_cute.py"], ["ada", "bob"]),
        (["ada/kernels/step01_cute.py", "ada/notes/step02_cute.py"], ["ada"]),
    ],
    ids=["Canvas", "Gradescope", "nbgrader", "one learner"],
)  # fmt: skip
def test_an_unzipped_export(tmp_path, names, learners):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(KERNEL)
    class_ = read(tmp_path)
    assert [one.learner for one in class_] == learners and all(one.sources for one in class_)


@pytest.mark.parametrize(
    "names",
    [
        ["kernels/step01_cute.py", "notes/step02_cute.py"],
        ["week1/step01_cute.py", "week2/step02_cute.py"],
        ["step01_cute.py", "other/step02_cute.py"],
        ["step01/cute.py", "step02/cute.py"],
        ["ada/step01_cute.py", "ada/again/step02_cute.py"],
    ],
)
def test_an_archive_of_work_is_one_learners(tmp_path, names):
    (tmp_path / "ada.zip").write_bytes(_archive(*[(name, 0o644, KERNEL) for name in names]))
    (ada,) = read(tmp_path)
    assert ada.learner == "ada" and sorted(ada.sources) == ["step01-cute", "step02-cute"]


def test_a_file_alone_is_one_learners(tmp_path):
    (tmp_path / "ada").mkdir()
    for name, learner in {"step01_cute.py": "ada", "bob step01 cute.PY": "bob step01 cute"}.items():
        (tmp_path / "ada" / name).write_text(KERNEL)
        (made,) = read(tmp_path / "ada" / name)
        assert made.learner == learner and list(made.sources) == ["step01-cute"]
