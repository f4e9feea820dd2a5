"""The timing protocol of a class's grades: "burst", against a kernel that owns the GPU.

A kernel can write wherever this process has memory, and keep what it likes in its module. So each round loads
the module and allocates memory anew; each sample has fresh inputs, others for cuBLAS than for the kernel, in
random order; and after each sample all of it is held against inputs generated again, and against the D of
these. A kernel is launched once on the same inputs, and that launch is the one that is timed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import prod
from typing import Protocol

import torch
from cuda.bindings import driver

from course_utils import chips
from course_utils.artifact import Artifact
from course_utils.problems import POISONS, PROBLEMS
from course_utils.run import reference
from course_utils.run.gpu import timing
from course_utils.run.gpu.launch import Kernel, checked
from course_utils.run.gpu.timing import (
    FLUSH_BYTES,
    LEAD_CYCLES,
    REST_SECONDS,
    ROUNDS,
    SPACER_BYTES,
    TIMED_NORMS,
    GpuState,
    Pairs,
)

SIDES = ("kernel", "cublas")
WARM = 3  # samples of each round that are checked and not counted
SEED_BITS = 63  # of one side's inputs of one sample: nobody guesses them


class Refused(RuntimeError):
    """A timed run that is no measurement of a GEMM. The text says why."""


class Round(Protocol):
    """What ``measure`` needs of one round: memory of both sides, and the kernel in it."""

    def fill(self, seeds: dict[str, int]) -> None:
        """Put each side's inputs into its memory, generated from its seed, and poison both outputs."""

    def seconds(self, side: str) -> float:
        """Time one launch of this side, from memory."""

    def check(self, seeds: dict[str, int]) -> None:
        """Raises Refused unless the inputs are still those of the seeds, and both outputs theirs."""

    def close(self) -> None:
        """Unload the kernel."""


class Memory:
    """The round on ``device``: each side has the problem's tensors at ``size`` of its own, D the last."""

    def __init__(self, size: tuple[int, ...], device: str = "cuda", kind: str = "gemm") -> None:
        self.problem, self.device = PROBLEMS[kind], device
        self.shapes = self.problem.tensors(*size)
        self.tensors = {
            side: [
                torch.empty(one.shape, device=device, dtype=getattr(torch, one.dtype)) for one in self.shapes
            ]
            for side in SIDES
        }
        self.kernel: Kernel | None = None

    def load(self, artifact: Artifact) -> Memory:
        """Load the kernel anew, over this memory. Raises DriverError. Returns itself."""
        self.flush = torch.empty(FLUSH_BYTES, device=self.device, dtype=torch.uint8)
        addresses = [tensor.data_ptr() for tensor in self.tensors["kernel"]]
        names = [tensor.name for tensor in artifact.tensors]
        self.kernel = Kernel(artifact, dict(zip(names, addresses, strict=True)))
        return self

    def fill(self, seeds: dict[str, int]) -> None:
        for side in SIDES:
            *inputs, D = self.tensors[side]
            for tensor, values in zip(inputs, self._inputs(seeds[side]), strict=True):
                tensor.copy_(values)
            reference.bits(D).fill_(POISONS[self.shapes[-1].dtype])

    def seconds(self, side: str) -> float:
        # lines that a kernel asked L2 to keep would outlive the flush, and be missing to cuBLAS
        checked(driver.cuCtxResetPersistingL2Cache(), "giving L2 back")
        torch.cuda._sleep(LEAD_CYCLES)
        self.flush.zero_()
        begin, end = timing.elapsed(self._launch if side == "kernel" else self._multiply)
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3

    def check(self, seeds: dict[str, int]) -> None:
        whose = {"kernel": "the kernel", "cublas": "cuBLAS"}
        for side in SIDES:
            *inputs, D = self.tensors[side]
            given = self._inputs(seeds[side])
            for shape, tensor, values in zip(self.shapes, inputs, given, strict=False):
                if not torch.equal(reference.bits(tensor), reference.bits(values)):
                    text = f"the input {shape.name} of {whose[side]} was changed while it was timed"
                    raise Refused(f"{text}: a kernel must not write to it")
            if side == "kernel" and self.problem.timed is not None:
                expected = self.problem.timed(*given).float()
            else:
                expected = self._beside(given, torch.empty_like(D)).float()
            norm = float((D.float() - expected).norm() / expected.norm())
            if not norm <= TIMED_NORMS[D.dtype]:
                raise Refused(f"a timed output of {whose[side]} was wrong (relative norm {norm:.1e})")
        time.sleep(REST_SECONDS)

    def close(self) -> None:
        if self.kernel is not None:
            self.kernel.unload()

    def _inputs(self, seed: int) -> list[torch.Tensor]:
        """The inputs of this seed, in memory of their own."""
        generator = torch.Generator(device=self.device).manual_seed(seed)
        return [self.problem.draw(one, self.shapes, generator, self.device) for one in self.shapes[:-1]]

    def _launch(self) -> None:
        assert self.kernel is not None  # load() was called
        self.kernel.launch(torch.cuda.current_stream().cuda_stream)

    def _multiply(self) -> None:
        *inputs, D = self.tensors["cublas"]
        self._beside(inputs, D)

    def _beside(self, inputs: list[torch.Tensor], D: torch.Tensor) -> torch.Tensor:
        assert self.problem.beside is not None  # this kind is timed
        self.problem.beside(*inputs, D)
        return D


def graded(artifact: Artifact, seed: int, samples: int = 45, kind: str = "gemm") -> dict:
    """Time single launches. Returns as ``timing.burst``.

    Raises Refused, DriverError and torch.cuda.OutOfMemoryError.
    """
    spacers = []
    size = *artifact.tensors[-1].shape, artifact.problem[-1]  # with the batch, where there is one

    def opened(turn: int) -> Memory:
        torch.cuda.empty_cache()
        spacers.append(torch.empty(turn * SPACER_BYTES, device="cuda", dtype=torch.uint8))
        return Memory(size, kind=kind).load(artifact)

    least = _least_seconds(artifact.problem, artifact.tensors[0].dtype)
    with GpuState() as state:
        pairs = measure(opened, random.Random(seed), samples, least)
    return timing.summary(artifact.problem, pairs, state, mode="graded")


def measure(opened: Callable[[int], Round], draws: random.Random, samples: int, least: float) -> Pairs:
    """Seconds of the kernel and of cuBLAS in each sample, all of them checked, over ROUNDS rounds.

    ``opened`` makes a round, ``least`` is seconds below which no GPU can do it. Raises Refused.
    """
    pairs: Pairs = []
    for turn in range(ROUNDS):
        current = opened(turn)
        try:
            taken = [_sample(current, draws, least) for _ in range(WARM - (-samples // ROUNDS))]
        finally:
            current.close()
        pairs += taken[WARM:]
    return pairs


def _sample(current: Round, draws: random.Random, least: float) -> tuple[float, float]:
    seeds = {side: draws.getrandbits(SEED_BITS) for side in SIDES}
    current.fill(seeds)
    took = {side: current.seconds(side) for side in draws.sample(SIDES, len(SIDES))}
    current.check(seeds)
    if took["kernel"] < least:
        text = (
            f"{took['kernel'] * 1e6:.0f} us for what takes this GPU {least * 1e6:.0f} us at its highest clock"
        )
        raise Refused(f"the kernel took {text}: what was timed is no whole GEMM")
    return took["kernel"], took["cublas"]


def _least_seconds(size: tuple[int, int, int], dtype: str = "float16") -> float:
    """Seconds that this GPU needs at the least: all SMs at the highest clock that the driver names. Of fp8
    they multiply twice as much as of fp16.
    """
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE
    kilohertz = checked(driver.cuDeviceGetAttribute(attribute, 0), "asking for the highest clock")
    gpu = torch.cuda.get_device_properties(0)
    chip = chips.chip(gpu.name, (gpu.major, gpu.minor), gpu.multi_processor_count)
    flop_per_clock = chip.flop_per_clock * (2 if dtype.startswith("float8") else 1)
    return 2 * prod(size) / (chip.sms * flop_per_clock * kilohertz * 1e3)
