"""The timing protocol: a kernel and cuBLAS alternate on one GPU in one process, and every timed output is
checked.

*Burst* is what a cool GPU does: each sample is one launch, on fresh inputs, after the L2 is flushed.
*Sustained* is what it does once power and heat limit it: both sides have run for seconds, each sample is the
second half of a batch of launches over rotating inputs, so that the clock is the one this side's own power
draw allows. The score is the median of the paired ratios, cuBLAS's time over the kernel's.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from course_utils.artifact import Artifact
from course_utils.problems import POISONS, PROBLEMS
from course_utils.run import reference
from course_utils.run.gpu.launch import Kernel

FLUSH_BYTES = 256 << 20  # four times the L2 of an H200, and twice that of any Hopper
INPUT_SETS = 4  # a sustained batch rotates over these, so no operand stays in L2 from launch to launch
BATCH_SECONDS = 0.4  # the power limit settles within 0.2 s, the half that is not timed
LEAD_CYCLES = (
    1_000_000  # the GPU spins this long first, so that Python has queued the launch before its turn comes
)
ROUNDS = (
    3  # allocations a burst is spread over: where the pages lie moves a figure by some tenths of a percent
)
SPACER_BYTES = 37 << 20  # kept between the rounds' allocations, so that they do not get the same pages again
REST_SECONDS = 0.02  # between burst samples, so that the power limit of a 700 W chip stays out of them
# of a timed D against what it must be, by its dtype: two roundings to fp16 apart, or to bf16
TIMED_NORMS = {torch.float16: 1e-3, torch.bfloat16: 8e-3}

Pairs = list[tuple[float, float]]  # seconds of the kernel and of cuBLAS, side by side


class TimedOutputWrong(RuntimeError):
    """A timed launch gave a wrong D."""


class Problem:
    """Device memory for one problem of ``problems.PROBLEMS`` with one output: ``sets`` of inputs, D of the
    kernel, D of cuBLAS, and the L2 flush.
    """

    def __init__(self, artifact: Artifact, sets: int, seed: int, kind: str = "gemm") -> None:
        self.problem, tensors = PROBLEMS[kind], artifact.tensors
        self.generator = torch.Generator(device="cuda").manual_seed(seed)
        self.inputs = [
            [self.problem.draw(tensor, tensors, self.generator, "cuda") for tensor in tensors[:-1]]
            for _ in range(sets)
        ]
        self.tensors = tensors
        self.D = torch.empty(tensors[-1].shape, device="cuda", dtype=getattr(torch, tensors[-1].dtype))
        self.D_cublas = torch.empty_like(self.D)
        names = [t.name for t in tensors]
        self.kernels = [
            Kernel(artifact, {n: t.data_ptr() for n, t in zip(names, [*given, self.D], strict=True)})
            for given in self.inputs
        ]
        self.flush = torch.empty(FLUSH_BYTES, device="cuda", dtype=torch.uint8)

    def refresh(self, index: int) -> None:
        for values, tensor in zip(self.inputs[index], self.tensors, strict=False):
            values.copy_(self.problem.draw(tensor, self.tensors, self.generator, "cuda"))
        self.last = index

    def run_kernel(self, index: int) -> None:
        self.kernels[index].launch(torch.cuda.current_stream().cuda_stream)

    def run_cublas(self, index: int) -> None:
        assert self.problem.beside is not None  # this kind is timed
        self.problem.beside(*self.inputs[index], self.D_cublas)
        self.last = index

    def poison(self) -> None:
        reference.bits(self.D).fill_(POISONS[self.tensors[-1].dtype])

    def unload(self) -> None:
        for kernel in self.kernels:
            kernel.unload()

    def check(self) -> None:
        """Raises TimedOutputWrong unless the last D of the kernel is what cuBLAS makes of the last inputs,
        within rounding.
        """
        timed = self.problem.timed
        expected = (self.D_cublas if timed is None else timed(*self.inputs[self.last])).float()
        norm = float((self.D.float() - expected).norm() / expected.norm())
        if not norm <= TIMED_NORMS[self.D.dtype]:
            raise TimedOutputWrong(f"a timed output was wrong (relative norm {norm:.1e})")


def burst(artifact: Artifact, seed: int, samples: int = 45, kind: str = "gemm") -> dict:
    """Time single launches. Returns TFLOP/s of both sides, the median paired ratio and its spread, and the
    GPU's state.

    The samples are spread over ROUNDS allocations. Raises TimedOutputWrong, DriverError and
    torch.cuda.OutOfMemoryError.
    """
    pairs, spacers = [], []
    with GpuState() as state:
        for turn in range(ROUNDS):
            torch.cuda.empty_cache()
            spacers.append(torch.empty(turn * SPACER_BYTES, device="cuda", dtype=torch.uint8))
            problem = Problem(artifact, 1, seed + turn, kind)
            try:
                for _ in range(3):
                    problem.run_kernel(0)
                    problem.run_cublas(0)
                torch.cuda.synchronize()
                pairs += [_burst_pair(problem, index) for index in range(-(-samples // ROUNDS))]
            finally:
                problem.unload()
    return summary(artifact.problem, pairs, state, mode="burst")


def _burst_pair(problem: Problem, index: int) -> tuple[float, float]:
    """Seconds of one launch of the kernel and one of cuBLAS, which goes first every other time."""
    problem.refresh(0)
    problem.poison()
    sides = [problem.run_kernel, problem.run_cublas]
    marks = {}
    for side in sides if index % 2 == 0 else reversed(sides):
        torch.cuda._sleep(LEAD_CYCLES)
        problem.flush.zero_()
        marks[side] = elapsed(partial(side, 0))
    torch.cuda.synchronize()
    problem.check()
    time.sleep(REST_SECONDS)
    kernel, cublas = (begin.elapsed_time(end) / 1e3 for begin, end in (marks[s] for s in sides))
    return kernel, cublas


def sustained(
    artifact: Artifact, seed: int, heat_seconds: float = 4.0, samples: int = 8, kind: str = "gemm"
) -> dict:
    """Time batches after ``heat_seconds`` of load. Returns and raises as ``burst``."""
    problem = Problem(artifact, INPUT_SETS, seed, kind)
    try:
        pairs, state = _sustained_pairs(problem, heat_seconds, samples)
    finally:
        problem.unload()
    return summary(artifact.problem, pairs, state, mode="sustained")


def _sustained_pairs(problem: Problem, heat_seconds: float, samples: int) -> tuple[Pairs, GpuState]:
    """Seconds a launch, of kernel and cuBLAS, for each pair of batches; and the GPU's state."""
    sides = [problem.run_kernel, problem.run_cublas]
    for side in sides:
        side(0)
    torch.cuda.synchronize()
    lengths = []
    for side in sides:
        begin, end = elapsed(partial(_batch, side, 8))
        torch.cuda.synchronize()
        lengths.append(max(1, round(8 * BATCH_SECONDS / 2 / (begin.elapsed_time(end) / 1e3))))
    order = list(zip(sides, lengths, strict=True))
    pairs: Pairs = []
    begin_heat = time.monotonic()
    with GpuState() as state:
        while len(pairs) < samples:
            heating = time.monotonic() - begin_heat < heat_seconds
            problem.poison()
            marks = {}
            for side, length in order if len(pairs) % 2 == 0 else reversed(order):
                _batch(side, length)
                marks[side] = elapsed(partial(_batch, side, length))
                side(0)  # both end on the same inputs, so that the two outputs can be compared
            torch.cuda.synchronize()
            problem.check()
            if heating:
                state.restart()
            else:
                kernel, cublas = (marks[s][0].elapsed_time(marks[s][1]) / 1e3 / n for s, n in order)
                pairs.append((kernel, cublas))
    return pairs, state


def _batch(side: Callable[[int], None], length: int) -> None:
    for i in range(length):
        side(i % INPUT_SETS)


def elapsed(work: Callable[[], object]) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Queue ``work`` between two events, which know its time once both have passed."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    return begin, end


def tflops(size: Sequence[int], seconds: float) -> float:
    """TFLOP/s of a GEMM of ``size`` M, N, K."""
    return 2 * math.prod(size) / seconds / 1e12


def summary(size: Sequence[int], pairs: Pairs, state: GpuState, mode: str) -> dict:
    """The fields of a timed run: TFLOP/s of both sides, the median paired ratio and its spread."""
    ratios = sorted(cublas / kernel for kernel, cublas in pairs)
    kernel = statistics.median(k for k, _ in pairs)
    cublas = statistics.median(c for _, c in pairs)
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "mode": mode,
        "size": list(size),
        "samples": len(pairs),
        "seconds": kernel,
        "tflops": tflops(size, kernel),
        "cublas_tflops": tflops(size, cublas),
        "tflops_quartiles": [
            tflops(size, t) for t in reversed(statistics.quantiles([k for k, _ in pairs], n=4))
        ][::2],
        "ratio": statistics.median(ratios),
        "ratio_quartiles": [quartiles[0], quartiles[2]],
        "gpu": state.summary(),
    }


class GpuState:
    """Clock (MHz), power (W) and temperature (C) while timing, read by nvidia-smi beside the run."""

    FIELDS = ("clocks.sm", "power.draw", "temperature.gpu")

    def __enter__(self) -> GpuState:
        self._lines: list[str] = []
        try:
            self._process: subprocess.Popen | None = subprocess.Popen(
                [
                    "nvidia-smi",
                    f"--query-gpu={','.join(self.FIELDS)}",
                    "--format=csv,noheader,nounits",
                    "-lms",
                    "100",
                    f"--id={smi_id()}",
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        except OSError:
            self._process = None
        self._since = time.monotonic()
        return self

    def restart(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._seconds = time.monotonic() - self._since
        if self._process:
            self._process.terminate()
            self._lines = self._process.communicate()[0].splitlines()

    def summary(self) -> dict:
        """Medians over the timed part; None without nvidia-smi, or of a run too short to be seen."""
        rows = []
        for line in self._lines[-max(1, round(self._seconds / 0.1)) :]:
            try:
                rows.append([float(v) for v in line.split(",")])
            except ValueError:
                continue
        columns = zip(*(r for r in rows if len(r) == 3), strict=True)
        medians = [statistics.median(c) for c in columns] or [None] * 3
        return dict(zip(("clock_mhz", "power_w", "temperature_c"), medians, strict=True))


def smi_id() -> str:
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
