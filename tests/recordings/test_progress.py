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
