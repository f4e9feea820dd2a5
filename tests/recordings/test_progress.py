"""What a learner reached is kept between sessions, and never lost to a worse check or a broken file."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from course_utils.figures import ladder as plots
from course_utils.grading.verdict import Part, Verdict
from course_utils.recordings import progress

DEVICE = {"name": "NVIDIA H200", "driver": "580"}
TIMING = {"mode": "burst", "size": [4096] * 3, "tflops": 700.0, "cublas_tflops": 720.0, "ratio": 0.97}


def verdict(points, step="step04", dsl="tilelang", timing=()):
    return Verdict(
        step,
        dsl,
        "emulator",
        (Part("results", points > 0, points, 10, ""),),
        "",
        timing,
        (("wgmma", str(points)),),
    )


@pytest.fixture
def file(tmp_path):
    return tmp_path / "progress.json"


def test_what_is_reached_lies_beside_the_notebooks_of_the_checkout(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert (progress.of_here(), progress.checkout()) == (progress.FILE, None)
    (folder / "00_start_here.ipynb").touch()
    assert progress.of_here() == folder / "progress.json"
    monkeypatch.chdir(tmp_path)
    assert progress.of_here() == folder / "progress.json"
    monkeypatch.chdir(folder)
    assert progress.of_here() == progress.FILE
    progress.keep(verdict(9), None)
    assert progress.find(progress.read(folder / "progress.json"), "step04", "tilelang")["points"] == 9


def test_nothing_kept_is_empty(file):
    assert progress.read(file) == {"provenance": {}, "entries": []}


def test_kept_verdict_comes_back(file):
    progress.keep(verdict(9), None, file)
    assert progress.find(progress.read(file), "step04", "tilelang")["points"] == 9
    assert progress.find(progress.read(file), "step04", "cute") is None


def test_better_or_equal_replaces_and_worse_does_not(file):
    for points, receipt in ((5, "5"), (9, "9"), (3, "9"), (9, "9")):
        progress.keep(verdict(points), None, file)
        assert progress.find(progress.read(file), "step04", "tilelang")["receipt"] == [["wgmma", receipt]]
    assert len(progress.read(file)["entries"]) == 1


def test_of_as_many_points_those_from_a_blank_page_stay(file):
    for level, points, kept in (
        ("write", 9, "write"),
        ("blank", 9, "blank"),
        ("write", 9, "blank"),
        ("write", 10, "write"),
    ):
        progress.keep(replace(verdict(points), level=level), None, file)
        assert progress.find(progress.read(file), "step04", "tilelang")["level"] == kept


def test_an_entry_without_a_level_is_read(file):
    progress.keep(verdict(9), None, file)
    entries = json.loads(file.read_text())
    del entries["entries"][0]["level"]
    file.write_text(json.dumps(entries))
    assert progress.find(progress.read(file), "step04", "tilelang")["points"] == 9
    progress.keep(replace(verdict(9), level="blank"), None, file)
    assert progress.find(progress.read(file), "step04", "tilelang")["level"] == "blank"


def test_points_add_up_by_dsl(file):
    for step, dsl, points in (("step01", "tilelang", 5), ("step02", "tilelang", 4), ("step01", "cute", 3)):
        progress.keep(verdict(points, step, dsl), None, file)
    kept = progress.read(file)
    assert (progress.points(kept, "tilelang"), progress.points(kept, "cute")) == (9, 3)


def test_timings_carry_where_they_were_measured_and_can_be_drawn(file):
    progress.keep(verdict(10, timing=(TIMING,)), DEVICE, file)
    progress.keep(verdict(5, "step01"), None, file)  # no timing: the GPU stays named
    kept = progress.read(file)
    assert kept["provenance"]["gpu"] == "NVIDIA H200"
    assert plots.ladder({"entries": []}, kept, "step04")


OLD = {  # of a course whose notebooks on TMA were 11 to 15, and that of step 11 was 16
    "provenance": {},
    "entries": [
        {"name": f"{step} {dsl}", "step": step, "dsl": dsl, "checks": [], "timings": [], "points": points}
        | {"receipt": [["wgmma", "8"]], "level": "write"}
        for step, dsl, points in (
            ("step11", "cute", 15.0),
            ("case11", "maps", 10.0),
            ("case12", "tilelang", 9.0),
            ("case13a", "tilelang", 5.0),
            ("case13f", "tilelang", 4.0),
            ("case14", "cute", 8.0),
            ("case15", "cute", 7.0),
            ("case16", "plan", 6.0),
        )
    ],
    "drills": {"05": [1], "11": [1, 2], "13": [6], "16": [2, 3]},
    "quiz": {"start": {"1": "b"}},
    "learner": 7,
}
TODAY = {"t1": 10, "t2": 9, "t3a": 5, "t3f": 4, "t4": 8, "t5": 7, "plan11": 6, "step11": 15}


def test_a_file_from_before_tma_had_notebooks_of_its_own_is_carried_over(file):
    file.write_text(json.dumps(OLD))
    renamed = {"05": {1}, "t1": {1, 2}, "t3": {6}, "11": {1}, "11b": {2}}
    assert progress.drills(file) == renamed
    for keep, drills, points in (
        (lambda: progress.keep(verdict(9), None, file), renamed, {"step04": 9}),
        (lambda: progress.keep_drill("11", 3, file), renamed | {"11": {1, 3}}, {"step04": 9}),
        (
            lambda: progress.keep(verdict(3, "t5", "cute"), None, file),
            renamed | {"11": {1, 3}},
            {"step04": 9},
        ),
    ):
        before = {e["step"]: e["points"] for e in progress.read(file)["entries"]}
        assert TODAY.items() <= before.items()
        keep()
        kept = progress.read(file)["entries"]
        assert {e["step"]: e["points"] for e in kept} == TODAY | points and len(kept) == len(TODAY) + 1
        assert all(e["name"] == f"{e['step']} {e['dsl']}" for e in kept)
        assert progress.drills(file) == drills
        assert progress.quiz(file) == {"start": {1: "b"}} and progress.learner(file) == 7


def test_drills_of_notebook_11_follow_it_into_its_two_sittings(file):
    file.write_text(json.dumps({"entries": [], "drills": {"05": [1], "11": [1, 4, 7, 9]}, "version": 2}))
    today = {"05": {1}, "11": {2}, "11b": {1, 3}}
    assert progress.drills(file) == today
    assert progress.keep_drill("11", 1, file) == {1, 2}
    assert progress.drills(file) == today | {"11": {1, 2}}


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"entries": 3}', '{"entries": [{"step": "step04"}], "provenance": {}}']
)
def test_broken_file_is_moved_aside(file, broken):
    file.write_text(broken)
    assert progress.read(file)["entries"] == []
    progress.keep(verdict(9), None, file)
    assert len(progress.read(file)["entries"]) == 1 and file.with_suffix(".broken").read_text() == broken


KEPT = {
    "name": "step04 tilelang",
    "step": "step04",
    "dsl": "tilelang",
    "checks": [],
    "timings": [TIMING],
    "points": 9.0,
    "receipt": [["wgmma", "8"]],
}


def without(key):
    return {k: v for k, v in KEPT.items() if k != key}


@pytest.mark.parametrize(
    "where",
    [3, {}, *(pytest.param(where, marks=pytest.mark.thorough) for where in ([], "H200", {"gpu": None}))],
)
@pytest.mark.parametrize(
    "entry",
    [
        None,
        3,
        "step04",
        {},
        *(without(key) for key in KEPT if key != "timings"),
        {**KEPT, "step": ["step04"]},
        {**KEPT, "dsl": {}},
        {**KEPT, "points": "nine"},
        {**KEPT, "receipt": 5},
        {**KEPT, "receipt": [["one"]]},
        {**KEPT, "checks": "none"},
    ],
)
def test_a_broken_entry_costs_itself_and_breaks_nothing(file, entry, where):
    fine = {**KEPT, "step": "step05"}
    file.write_text(json.dumps({"provenance": where, "entries": [fine, entry]}))
    kept = progress.read(file)
    assert kept["entries"] == [fine]
    assert plots.ladder({"entries": []}, kept) and progress.points(kept, "tilelang") >= 9
    progress.keep(verdict(9), None, file)
    assert progress.points(progress.read(file), "tilelang") == 18


@pytest.mark.parametrize(
    "timings",
    [
        5,
        None,
        [None, {}],
        [TIMING, {**TIMING, "tflops": math.nan}],
        [{**TIMING, "ratio": "x"}],
        [{**TIMING, "size": 4096}],
        [{**TIMING, "tflops_quartiles": [310, "x"]}],
    ],
)
def test_a_broken_timing_costs_no_points(file, timings):
    for entry in ({**KEPT, "timings": timings}, without("timings")):
        file.write_text(json.dumps({"provenance": {}, "entries": [entry]}))
        kept = progress.read(file)
        assert kept["entries"] == [{**KEPT, "timings": []}]
        assert plots.ladder({"entries": []}, kept)


def test_two_notebooks_at_once_lose_nothing(file):
    names = [f"step{n:02d}" for n in range(1, 11)]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda name: progress.keep(verdict(5, name), None, file), names))
    assert sorted(e["step"] for e in progress.read(file)["entries"]) == names


def test_file_is_json_with_one_entry_a_step(file):
    progress.keep(verdict(9), None, file)
    assert json.loads(file.read_text())["entries"][0]["name"] == "step04 tilelang"


def test_a_run_for_a_page_keeps_nothing_and_reads_nothing(file, monkeypatch):
    progress.keep(verdict(9), None, file)
    progress.keep_drill("05", 1, file)
    before = file.read_bytes()
    monkeypatch.setenv(progress.PAGE, "1")
    progress.keep(verdict(10), None, file)
    progress.keep_drill("05", 2, file)
    progress.keep_answer("start", 1, "b", file)
    assert progress.learner(file) == 0
    assert (progress.read(file)["entries"], progress.drills(file), progress.quiz(file)) == ([], {}, {})
    assert file.read_bytes() == before and not file.with_suffix(".broken").exists()
