"""Plans tried on a GPU: the most promising first, each saved at once, none tried twice."""

import json
import threading

import pytest

from course_utils.compile.errors import CompileError
from course_utils.plans import choose, powered
from course_utils.recordings import model, tuning
from course_utils.recordings.model import MeasuredError
from course_utils.run.protocol import Answer

H200 = {"name": "NVIDIA H200", "driver": "580", "torch": "2.11", "capability": [9, 0], "sms": 132}
SIZE = (4104, 4104, 4104)


class Made:
    versions = {"tilelang": "0.1.15"}

    def __init__(self, plan, size):
        self.plan, self.size = plan, size


class Machine:
    """Takes as long as the model says; ``after`` so many plans somebody presses Ctrl-C."""

    def __init__(self, after=100, fails=()):
        self.after, self.fails, self.asked = after, fails, []

    def time(self, made, mode):
        if len(self.asked) == self.after:
            raise KeyboardInterrupt
        self.asked.append(made.plan)
        if made.plan in self.fails:
            return Answer(error="timeout", detail="30")
        timing = {"mode": mode, "size": list(made.size), "tflops": 700.0, "cublas_tflops": 720.0}
        return Answer(timing=timing | {"ratio": 0.97, "seconds": powered(*made.size, made.plan)})


def compiled(factory, dsl, size):
    return Made(factory.keywords["plan"], size)


def tune(
    path, machine, count=3, shapes=(SIZE,), device=H200, source="def gemm", compiled=compiled, said=None
):
    said = [] if said is None else said
    return tuning.tune(print, "tilelang", shapes, count, path, machine, device, compiled, said.append, source)


def test_the_most_promising_plans_are_timed_and_kept(tmp_path):
    said, machine = [], Machine()
    found = tune(tmp_path / "tuned.json", machine, said=said)
    assert machine.asked == tuning.candidates(SIZE, 3, dsl="tilelang")
    assert model.read(tmp_path / "tuned.json", form=model.Tuned) == found
    assert found["provenance"]["versions"] == Made.versions and found["provenance"]["gpu"] == "NVIDIA H200"
    best = tuning.best(found, "tilelang", SIZE)
    assert powered(*SIZE, choose(*SIZE, dsl="tilelang")) < 1.015 * best["timing"]["seconds"]
    assert len(said) == 3 and "0.970 of cuBLAS" in said[0] and list(tmp_path.glob("*.new")) == []


def test_a_run_that_was_interrupted_goes_on_where_it_was(tmp_path):
    path, first = tmp_path / "tuned.json", Machine(after=2)
    with pytest.raises(KeyboardInterrupt):
        tune(path, first)
    assert len(json.loads(path.read_text())["entries"]) == 2
    second = Machine()
    assert len(tune(path, second)["entries"]) == 3
    assert first.asked + second.asked == tuning.candidates(SIZE, 3, dsl="tilelang")


def test_another_kernel_or_shape_is_timed_anew_and_what_had_no_time_too(tmp_path):
    path, (first, *_) = tmp_path / "tuned.json", tuning.candidates(SIZE, 1, dsl="tilelang")
    found = tune(path, Machine(fails=(first,)), count=1)
    assert found["entries"][0]["timing"] is None and "timeout" in found["entries"][0]["why"]
    assert tuning.best(found, "tilelang", SIZE) is None
    again = Machine()
    assert len(tune(path, again, count=1)["entries"]) == 1 and again.asked == [first]
    other = Machine()
    assert len(tune(path, other, count=1, source="def gemm another")["entries"]) == 2 and other.asked == [
        first
    ]
    wide = Machine()
    tune(path, wide, count=1, shapes=[SIZE, (2048, 2048, 2048)])
    assert len(wide.asked) == 1


def test_a_plan_that_does_not_compile_has_no_time_and_says_why(tmp_path):
    def broken(factory, dsl, size):
        raise CompileError("trace", "no such tile")

    said = []
    found = tune(tmp_path / "tuned.json", Machine(), count=1, compiled=broken, said=said)
    assert "no such tile" in found["entries"][0]["why"] and "no time: " in said[0]


def test_the_plans_of_a_shape_compile_side_by_side_and_before_one_is_timed(tmp_path):
    together, machine = threading.Barrier(2, timeout=10), Machine()

    def waits(factory, dsl, size):
        assert machine.asked == []
        together.wait()
        return compiled(factory, dsl, size)

    tune(tmp_path / "tuned.json", machine, count=2, compiled=waits)
    assert machine.asked == tuning.candidates(SIZE, 2, dsl="tilelang")


def test_times_of_another_gpu_are_not_mixed(tmp_path):
    tune(tmp_path / "tuned.json", Machine(), count=1)
    with pytest.raises(MeasuredError, match="NVIDIA H200, and this GPU is NVIDIA H100: .* --out"):
        tune(tmp_path / "tuned.json", Machine(), device=H200 | {"name": "NVIDIA H100"})


def test_a_file_that_is_something_else_is_left_alone(tmp_path):
    path = tmp_path / "tuned.json"
    path.write_text("{}")
    with pytest.raises(MeasuredError):
        tune(path, Machine())
    assert path.read_text() == "{}"
