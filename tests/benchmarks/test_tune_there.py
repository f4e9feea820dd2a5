"""Plans that are compiled here and timed there: which, in which order, and what becomes of what came back."""

import json
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from benchmarks import step11_fit, tune_there
from benchmarks.peers import SHAPES
from course_utils import plans
from course_utils.plans import Plan, choose
from course_utils.recordings import measured, model, step11_results
from course_utils.run.gpu import timing

SIZE = (4104, 4104, 4104)
WHERE = {"gpu": "NVIDIA H200", "driver": "580", "torch": "2.11", "date": "2026-12-01", "versions": {}}


def test_shapes_are_the_recorded_ones_and_ragged_ones_that_are_the_same_each_time():
    sizes = tune_there.shapes()
    assert set(SHAPES.values()) < set(sizes) and len(sizes) == len(set(sizes)) == 24 + 32
    assert sizes == tune_there.shapes() and set(tune_there.drawn()) == set(sizes[4:36])
    assert all(side % 8 == 0 for size in sizes for side in size)
    assert all(any(side % 64 for side in size) for size in sizes[:4])


@pytest.mark.parametrize("size", [SIZE, (8192, 8192, 8192), tune_there.drawn()[0]])
def test_each_shape_has_the_chosen_plan_and_in_one_language_another_tile(size):
    for dsl, count in tune_there.PLANS.items():
        found = tune_there.candidates(size, dsl)
        assert found[0] == choose(*size, dsl=dsl) and len(found) == count
        assert len({(plan[:2], plan.swapped) for plan in found}) == count


def test_kernels_of_a_file_are_compiled_instead(tmp_path):
    path = tmp_path / "points.json"
    path.write_text(json.dumps([["cute", SIZE, [128, 232, 2, 132, 8]]]))
    assert tune_there.wanted(path) == [("cute", SIZE, Plan(128, 232, 2, 132, 8))]


# -- there, without a GPU: kernels that take as long as they say


class Event:
    def __init__(self, seconds):
        self.seconds = seconds

    def elapsed_time(self, end):
        return (end.seconds - self.seconds) * 1e3


class Problem:
    """cuBLAS takes 2 us; a kernel's name is how many it takes, and it is wrong where that is 13."""

    def __init__(self, artifact, sets, seed):
        self.inputs, self.D, self.flush, self.ran = [[torch.zeros(1)] * 2], torch.zeros(1), torch.zeros(1), []

    def run_cublas(self, index):
        self.ran.append(2)

    def check(self):
        if self.ran[-1] == 13:
            raise timing.TimedOutputWrong("a timed output was wrong")

    def refresh(self, index):
        self.ran.append(0)

    def poison(self):
        pass

    unload = poison


class Kernel:
    def __init__(self, artifact, addresses):
        assert list(addresses) == ["A", "B", "D"]
        self.took = artifact.took

    def launch(self, stream):
        Problem.last.ran.append(self.took)

    def unload(self):
        pass


class Made:
    tensors = tuple(type("Tensor", (), {"name": name}) for name in "ABD")

    def __init__(self, took):
        self.took = took


@pytest.fixture
def gpu(monkeypatch):
    class Here(Problem):
        def __init__(self, *given):
            super().__init__(*given)
            Problem.last = self

    def elapsed(work):
        work()
        return Event(0.0), Event(Problem.last.ran[-1] * 1e-6)

    empty, stream = torch.empty, type("Stream", (), {"cuda_stream": 0})
    monkeypatch.setattr(timing, "smi_id", lambda: "0")
    monkeypatch.setattr(timing, "Problem", Here)
    monkeypatch.setattr(timing, "Kernel", Kernel)
    monkeypatch.setattr(timing, "elapsed", elapsed)
    monkeypatch.setattr(torch, "empty", lambda *shape, device, dtype: empty(1))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(tune_there.time, "sleep", lambda seconds: None)


def points(*took, size=SIZE):
    """A point for each kernel of an archive; its plan has as many columns as it takes us."""
    return [
        {
            "name": f"{one} us",
            "dsl": "cute",
            "size": list(size),
            "mode": "burst",
            "plan": {"block_M": 128, "block_N": one, "cluster": 2, "num_ctas": 132, "panel": 8},
            "drawn": size in tune_there.drawn(),
            "place": f"{size}/{one}",
        }
        for one in took
    ]


@pytest.fixture
def archive(gpu, monkeypatch, tmp_path):
    def put(*rows):
        with zipfile.ZipFile(tmp_path / "tune.pyz", "w") as file:
            file.writestr("points.json", json.dumps({"versions": {}, "points": rows}))
            for row in rows:
                file.writestr(row["place"], str(row["plan"]["block_N"]))
        monkeypatch.setattr(sys, "argv", [str(tmp_path / "tune.pyz")])
        monkeypatch.setattr(
            tune_there, "started", lambda out, points: _read(out) or {"provenance": WHERE, "entries": []}
        )
        return tmp_path / "tuned.json"

    monkeypatch.setattr("course_utils.artifact.Artifact.from_bytes", lambda data: Made(int(data)))
    return put


def _read(path: Path):
    return json.loads(path.read_text()) if path.exists() else None


def test_a_share_is_of_the_same_round_and_each_shape_is_timed_once(archive):
    out = archive(*points(4, 1), *points(8, size=(64, 64, 64)))
    assert tune_there.child(out, float("inf")) == 0
    found = model.read(out, form=model.Tuned)["entries"]
    assert [entry["timing"]["ratio"] for entry in found] == pytest.approx([0.5, 2.0, 0.25])
    assert [entry["timing"]["samples"] for entry in found] == [tune_there.ROUNDS] * 3
    assert "place" not in found[0]
    before = out.read_text()
    assert tune_there.child(out, float("inf")) == 0 and out.read_text() == before


def test_no_shape_begins_after_the_deadline(archive, capsys):
    out = archive(*points(4))
    assert tune_there.child(out, 0.0) == 0
    assert not out.exists() and "left out: the time is over" in capsys.readouterr().out


def test_a_plan_whose_output_is_wrong_is_named_and_the_others_are_timed_by_another_process(
    archive, monkeypatch
):
    def ends(code):
        raise SystemExit(code)

    monkeypatch.setattr(tune_there.os, "_exit", ends)
    out = archive(*points(4, 13, 8))
    with pytest.raises(SystemExit, match="1"):
        tune_there.child(out, float("inf"))
    (entry,) = _read(out)["entries"]
    assert entry["name"] == "13 us" and "a timed output was wrong" in entry["why"]
    assert tune_there.child(out, float("inf")) == 0
    assert [bool(one["timing"]) for one in _read(out)["entries"]] == [False, True, True]


# -- here again


def test_what_came_back_is_a_new_run_and_the_drawn_shapes_beside_it(archive, tmp_path, monkeypatch):
    taken, other = choose(*SIZE), Plan(128, 240, 2, 132, 8)
    rows = [*points(4, 8), *points(4, size=tune_there.drawn()[0])]
    for row, plan in zip(rows, (taken, other, taken), strict=True):
        row["plan"] = plan._asdict()
    out = archive(*rows)
    assert tune_there.child(out, float("inf")) == 0
    folder = tmp_path / "measured"
    folder.mkdir()
    (folder / "step11.json").write_text((measured.FOLDER / "step11.json").read_text())
    tune_there.record(out, folder)
    monkeypatch.setattr(measured, "FOLDER", folder)
    points_ = step11_results.load().points
    run = max(point.run for point in points_)
    assert [(p.plan, p.size, p.name[:6]) for p in points_ if p.run == run] == [
        (taken, SIZE, "chosen"),
        (other, SIZE, "8 us"),
    ]
    (drawn_one,) = model.read(folder / "ragged.json", form=model.Tuned)["entries"]
    assert tuple(drawn_one["size"]) == tune_there.drawn()[0]
    assert WHERE["date"] in measured.load("step11")["provenance"]["date"]


def test_fitted_constants_replace_those_of_the_text():
    text = "A = 1.0  # s\nLONG = 10_000\nBA = 3\n"
    assert (
        step11_fit.written(text, {"A": 6.2149e-06, "LONG": 98_765.4})
        == "A = 6.21e-6  # s\nLONG = 98_800\nBA = 3\n"
    )
    with pytest.raises(ValueError, match="0 lines that begin with NONE ="):
        step11_fit.written(text, {"NONE": 1.0})
    whole = Path(plans.__file__).read_text()
    here = {name: getattr(plans, name) for name in step11_fit.FACTORS}
    assert step11_fit.written(whole, here) == whole
