"""The timing protocol, as far as it is arithmetic: medians, ratios and nvidia-smi's lines. The rest needs a
GPU.
"""

import types

import pytest

from course_utils.run.gpu import timing
from course_utils.run.gpu.timing import GpuState, Problem, summary, tflops

IDLE = {"clock_mhz": None, "power_w": None, "temperature_c": None}


class Bound:
    """A kernel that only counts how often it was unloaded."""

    def __init__(self):
        self.unloaded = 0

    def unload(self):
        self.unloaded += 1


SIZE = (4096, 2048, 1024)
STATE = types.SimpleNamespace(summary=lambda: {"clock_mhz": 1700.0, "power_w": 400.0, "temperature_c": 45.0})


def test_tflops_are_two_operations_a_product():
    assert tflops(SIZE, 1e-3) == pytest.approx(2 * 4096 * 2048 * 1024 / 1e-3 / 1e12)


def test_a_kernel_in_half_of_cublas_time_has_ratio_two():
    run = summary(SIZE, [(1e-3, 2e-3)] * 5, STATE, "burst")
    assert run["ratio"] == pytest.approx(2)
    assert run["ratio_quartiles"] == pytest.approx([2, 2])
    assert run["tflops"] == pytest.approx(2 * run["cublas_tflops"])
    assert (run["mode"], run["size"], run["samples"], run["seconds"]) == (
        "burst",
        [4096, 2048, 1024],
        5,
        1e-3,
    )
    assert run["gpu"] == STATE.summary()


def test_ratio_is_the_median_of_pairs_not_the_ratio_of_medians():
    pairs = [(1.0, 1.0), (2.0, 4.0), (9.0, 3.0)]  # ratios 1, 2, 1/3; medians 2 and 3
    run = summary(SIZE, pairs, STATE, "burst")
    assert run["ratio"] == 1.0
    assert run["tflops"] / run["cublas_tflops"] == pytest.approx(3 / 2)


def test_one_slow_sample_moves_no_median():
    steady = summary(SIZE, [(1e-3, 1e-3)] * 9, STATE, "burst")
    disturbed = summary(SIZE, [(1e-3, 1e-3)] * 8 + [(1.0, 1e-3)], STATE, "burst")
    assert disturbed["tflops"] == steady["tflops"]
    assert disturbed["ratio"] == steady["ratio"]


def test_quartiles_rise_and_hold_the_median_between_them():
    run = summary(SIZE, [(t * 1e-3, 2e-3) for t in (1, 2, 3, 4, 5, 6, 7)], STATE, "burst")
    for low, middle, high in (
        (run["tflops_quartiles"][0], run["tflops"], run["tflops_quartiles"][1]),
        (run["ratio_quartiles"][0], run["ratio"], run["ratio_quartiles"][1]),
    ):
        assert low < middle < high


def test_unload_frees_every_kernel():
    problem = types.SimpleNamespace(kernels=[Bound(), Bound()])
    Problem.unload(problem)
    assert [kernel.unloaded for kernel in problem.kernels] == [1, 1]


@pytest.fixture
def smi(monkeypatch):
    """Runs GpuState over lines that nvidia-smi is to have printed, for so many seconds, restarted at one of
    them.
    """

    def watch(lines, seconds=10.0, restart_at=None):
        process = types.SimpleNamespace(
            terminate=lambda: None, communicate=lambda: ("\n".join(lines) + "\n", None)
        )
        clock = iter([0.0, seconds] if restart_at is None else [0.0, restart_at, seconds])
        monkeypatch.setattr(timing, "smi_id", lambda: "GPU-0")
        monkeypatch.setattr(
            timing,
            "subprocess",
            types.SimpleNamespace(Popen=lambda *_, **__: process, PIPE=None, DEVNULL=None),
        )
        monkeypatch.setattr(timing, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
        with GpuState() as state:
            if restart_at is not None:
                state.restart()
        return state.summary()

    return watch


def test_state_is_the_median_of_each_column(smi):
    assert smi(["1980, 300.10, 40", "1755, 690.50, 61", "1700, 650.00, 60"]) == {
        "clock_mhz": 1755,
        "power_w": 650.0,
        "temperature_c": 60,
    }


def test_state_is_read_from_the_timed_part_alone(smi):
    lines = ["1980, 100, 30"] * 60 + [
        "1400, 690, 65"
    ] * 20  # one line each 0.1 s; timed from the sixth second
    assert smi(lines, seconds=8.0, restart_at=6.0) == {"clock_mhz": 1400, "power_w": 690, "temperature_c": 65}


@pytest.mark.parametrize(
    "lines",
    [[], ["No devices were found"], ["[N/A], [N/A], [N/A]"], ["1980, 300"], [""], ["1980, 300, 40, 5"]],
    ids=["nothing", "words", "not available", "cut off", "empty line", "another driver's columns"],
)
def test_lines_that_say_nothing_give_none(smi, lines):
    assert smi(lines) == IDLE


def test_a_line_cut_off_at_the_end_is_left_out(smi):
    assert smi(["1980, 300, 40", "1980, 300, 40", "17"])["clock_mhz"] == 1980


def test_state_is_none_where_nvidia_smi_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(timing, "smi_id", lambda: "GPU-0")
    monkeypatch.setenv("PATH", str(tmp_path))
    with GpuState() as state:
        state.restart()
    assert state.summary() == IDLE


def test_nvidia_smi_ends_with_the_run(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nwhile :; do echo '1980, 300, 40'; sleep 0.05; done\n")
    program.chmod(0o755)
    monkeypatch.setattr(timing, "smi_id", lambda: "GPU-0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with GpuState() as state:
        state._process.stdout.read(1)  # it runs
    assert state._process.poll() is not None
    assert state.summary()["temperature_c"] == 40
