"""The program that launches what is counted: ``python -m course_utils.run.gpu.counted FOLDER count|power``.

It takes its launches from FOLDER/plan.json and says in FOLDER/done.jsonl which one it is at, so that whoever
started it knows which launch comes when, and which one it died of. With ``count`` it runs under ``ncu``, and
only the launch itself lies between cudaProfilerStart and Stop. With ``power`` nothing else runs beside it.
"""

from __future__ import annotations

import ctypes
import json
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from course_utils.artifact import Artifact
from course_utils.run.gpu import timing

WARM_LAUNCHES = 3
SETTLE_SECONDS = 0.4  # the power limit settles within 0.2 s
LOOP_SECONDS = 1.0  # of launches, over which power is read
BATCH_SECONDS = 0.05  # of launches that are queued at once


def main(folder: Path, how: str) -> int:
    """Work through the plan. Returns 1 where a launch failed: its CUDA context may be lost then."""
    torch.cuda.init()
    work = {"count": count, "power": power}[how]
    with open(folder / "done.jsonl", "a") as out:

        def say(**fields: object) -> None:
            print(json.dumps(fields), file=out, flush=True)

        for item in json.loads((folder / "plan.json").read_text()):
            say(index=item["index"])
            try:
                found = work(Artifact.load(folder / item["file"]), item["cublas"])
            except Exception as error:
                text = (str(error).splitlines() or [""])[0]
                say(index=item["index"], error=f"{type(error).__name__}: {text}")
                return 1
            say(index=item["index"], ended=True, **found)
    return 0


def count(artifact: Artifact, cublas: bool) -> dict:
    """One launch for ncu, on random inputs, held against the other side before and after.

    Raises TimedOutputWrong, DriverError and torch.cuda.OutOfMemoryError.
    """
    problem = timing.Problem(artifact, 1, secrets.randbits(31))
    side = problem.run_cublas if cublas else problem.run_kernel
    try:
        for _ in range(WARM_LAUNCHES):
            problem.poison()
            problem.run_kernel(0)
            problem.run_cublas(0)
        torch.cuda.synchronize()
        problem.check()
        torch.cuda.profiler.start()
        side(0)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        problem.check()
    finally:
        problem.unload()
    return {"symbol": None if cublas else artifact.kernel}


def power(artifact: Artifact, cublas: bool) -> dict:
    """A loop of launches over the inputs that a sustained run rotates.

    Returns seconds, watts and joules a launch, clock (MHz) and temperature (C); None where this machine does
    not say. Raises as ``count``.
    """
    problem = timing.Problem(artifact, timing.INPUT_SETS, secrets.randbits(31))
    side = problem.run_cublas if cublas else problem.run_kernel
    try:
        problem.run_kernel(0)
        problem.run_cublas(0)
        torch.cuda.synchronize()
        problem.check()
        took, many = _loop(side, SETTLE_SECONDS, 1)
        batch = max(1, round(BATCH_SECONDS / (took / many)))
        with timing.GpuState() as state:
            before = _millijoules()
            took, many = _loop(side, LOOP_SECONDS, batch)
            after = _millijoules()
    finally:
        problem.unload()
    seen = state.summary()
    joules = None if before is None or after is None else (after - before) / 1e3
    return {
        "power": {
            "seconds": took / many,
            "power_w": seen["power_w"] if joules is None else joules / took,
            "joules": None if joules is None else joules / many,
            "clock_mhz": seen["clock_mhz"],
            "temperature_c": seen["temperature_c"],
        }
    }


def _loop(side: Callable[[int], None], seconds: float, batch: int) -> tuple[float, int]:
    """Launch for so long, ``batch`` at a time. Returns the seconds that it took, and how many they were."""
    many, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        for _ in range(batch):
            side(many % timing.INPUT_SETS)
            many += 1
        torch.cuda.synchronize()
    return time.monotonic() - begin, many


def _millijoules() -> int | None:
    """What this GPU has taken since the driver was loaded, by NVML; None where NVML does not say."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
    calls: tuple[Callable[[], int], ...] = (
        nvml.nvmlInit_v2,
        lambda: nvml.nvmlDeviceGetHandleByUUID(timing.smi_id().encode(), ctypes.byref(device)),
        lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)),
    )
    return None if any(call() for call in calls) else energy.value


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
