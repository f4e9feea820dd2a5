"""The program under ncu: which launch is counted, and what it says while it works. No GPU is needed."""

import json
import time

import pytest
import torch

from course_utils.run import ncu
from course_utils.run.gpu import counted, timing
from course_utils.run.ncu import Item
from tests.run.test_ncu import artifact


@pytest.fixture
def calls(monkeypatch):
    """What is called of the problem and of torch, in order; nothing reaches a GPU."""
    made = []

    class Problem:
        def __init__(self, _artifact, sets, _seed):
            made.append(f"memory of {sets}")

        def run_kernel(self, index):
            made.append("kernel")

        def run_cublas(self, index):
            made.append("cuBLAS")

        def poison(self):
            pass

        def check(self):
            made.append("check")

        def unload(self):
            made.append("unload")

    monkeypatch.setattr(timing, "Problem", Problem)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: time.sleep(0.001))
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: made.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: made.append("stop"))
    return made


@pytest.mark.parametrize("cublas, side", [(False, "kernel"), (True, "cuBLAS")])
def test_one_launch_is_counted_between_two_checks(cublas, side, calls):
    assert counted.count(artifact(), cublas) == {"symbol": None if cublas else "main"}
    assert calls[-6:] == ["check", "start", side, "stop", "check", "unload"] and calls.count("start") == 1


@pytest.mark.parametrize("millijoules, watts", [([1000, 3000], 2.0 / 0.05), ([None, None], 600.0)])
def test_power_is_the_energy_of_the_loop_else_what_nvidia_smi_says(millijoules, watts, calls, monkeypatch):
    state = {"clock_mhz": 1500.0, "power_w": 600.0, "temperature_c": 50.0}
    monkeypatch.setattr(counted, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(counted, "LOOP_SECONDS", 0.05)
    monkeypatch.setattr(counted, "_millijoules", lambda: millijoules.pop(0))
    monkeypatch.setattr(timing.GpuState, "__enter__", lambda self: self)
    monkeypatch.setattr(timing.GpuState, "__exit__", lambda *_: None)
    monkeypatch.setattr(timing.GpuState, "summary", lambda self: state)
    power = counted.power(artifact(), cublas=False)["power"]
    assert power["power_w"] == pytest.approx(watts, rel=0.2) and power["clock_mhz"] == 1500.0
    assert (power["joules"] is None) == (watts == 600.0) and calls[-1] == "unload"


def test_each_launch_is_named_before_and_after(calls):
    with ncu.plan([Item("cuBLAS", artifact(), cublas=True), Item("mine", artifact())], [0, 1]) as folder:
        assert counted.main(folder, "count") == 0
        lines = [json.loads(line) for line in (folder / "done.jsonl").read_text().splitlines()]
    assert lines == [
        {"index": 0},
        {"index": 0, "ended": True, "symbol": None},
        {"index": 1},
        {"index": 1, "ended": True, "symbol": "main"},
    ]


def test_after_a_fault_nothing_else_is_launched(calls, monkeypatch):
    def broken(_artifact, cublas):
        raise RuntimeError("CUDA error: an illegal memory access\nmore")

    monkeypatch.setattr(counted, "count", broken)
    with ncu.plan([Item("one", artifact()), Item("two", artifact())], [0, 1]) as folder:
        assert counted.main(folder, "count") == 1
        done = ncu.reported(folder)
    assert done == {0: {"error": "RuntimeError: CUDA error: an illegal memory access"}}
    assert ncu.failures(done, 1.0) == {0: "RuntimeError: CUDA error: an illegal memory access"}
