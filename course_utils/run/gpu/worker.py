"""The GPU's worker process: runs and times Artifacts, and dies rather than reuse a broken CUDA context."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib.metadata import version
from typing import IO, Any

from course_utils import chips
from course_utils.artifact import Artifact
from course_utils.run import protocol

RUNS = 2  # each on fresh inputs: a kernel that is right once and wrong once is wrong


def _named() -> dict:
    """What ``chips.refusal`` asks of GPU 0."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    return {"name": properties.name, "capability": [properties.major, properties.minor]}


def device() -> dict:
    """Name, UUID, compute capability, SM count, memory, driver and library versions of GPU 0."""
    import torch
    from cuda.bindings import driver

    properties = torch.cuda.get_device_properties(0)
    _, supported = driver.cuDriverGetVersion()
    free, total = torch.cuda.mem_get_info(0)
    return {
        **_named(),
        "uuid": str(properties.uuid),
        "sms": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "memory_bytes": total,
        "free_bytes": free,
        "cuda_driver": f"{supported // 1000}.{supported % 1000 // 10}",
        "driver": _driver_release(),
        "torch": torch.__version__,
        "cublas_cuda": torch.version.cuda,
        "cuda_bindings": version("cuda-bindings"),
    }


def _driver_release() -> str:
    try:
        out = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return out.splitlines()[0].strip() if out.strip() else "unknown"


def run(artifact: Artifact, kind: str, seed: int) -> dict:
    """Launch on fresh inputs, RUNS times while all is right. ``kind`` is of ``problems.PROBLEMS``."""
    import torch

    from course_utils.run import trial
    from course_utils.run.gpu.launch import Kernel

    def launch(tensors: dict[str, torch.Tensor]) -> None:
        kernel = Kernel(artifact, {name: tensor.data_ptr() for name, tensor in tensors.items()})
        kernel.launch(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        kernel.unload()

    generator = torch.Generator(device="cuda").manual_seed(seed)
    for _ in range(RUNS):
        tried = trial.tried(kind, artifact, generator, launch, "cuda")
        if not tried.ok:
            break
    return tried.fields()


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the stream ends. After a CUDA error the answer says so and the process exits."""
    import torch

    from course_utils.run.gpu import graded, timing
    from course_utils.run.gpu.launch import DriverError

    def fault(error: Exception) -> tuple[dict, bool]:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            return {"error": "out_of_memory", "detail": _first_line(error)}, False
        if isinstance(error, timing.TimedOutputWrong):
            return {"error": "timed_output", "detail": str(error)}, False
        if isinstance(error, graded.Refused):
            return {"error": "refused", "detail": str(error)}, False
        if isinstance(error, DriverError):
            return {"error": error.name, "detail": str(error)}, True
        # torch raises AcceleratorError, a RuntimeError, for a kernel that faulted
        return {"error": _cuda_error_name(error), "detail": _first_line(error)}, True

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    modes: dict[str, Callable[..., dict]] = {
        "burst": timing.burst,
        "sustained": timing.sustained,
        "graded": graded.graded,
    }
    work = {"run": run} | {name: _timed(mode) for name, mode in modes.items()}
    here = _named()
    work = {name: on_its_chip(one, here) for name, one in work.items()}
    protocol.serve(requests, answers, work, device, fault)


def on_its_chip(op: Callable[..., dict], device: dict) -> Callable[..., dict]:
    """The operation for Artifacts of this GPU's compute capability; others get an answer that says why they
    never reached it.
    """

    def asked(artifact: Artifact, **fields: Any) -> dict:
        if reason := chips.refusal(artifact.chip, device):
            return {"error": "not_run", "detail": f"not run: {reason}"}
        return op(artifact, **fields)

    return asked


def _timed(mode: Callable[..., dict]) -> Callable[..., dict]:
    return lambda artifact, **fields: {"ok": True, "timing": mode(artifact, **fields)}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _cuda_error_name(error: Exception) -> str:
    """The runtime's words for a fault, as the driver's error name."""
    words = {
        "illegal memory access": "CUDA_ERROR_ILLEGAL_ADDRESS",
        "illegal instruction": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "misaligned address": "CUDA_ERROR_MISALIGNED_ADDRESS",
        "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
        "invalid address space": "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "device-side assert": "CUDA_ERROR_ASSERT",
        "hardware stack error": "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "invalid program counter": "CUDA_ERROR_INVALID_PC",
    }
    return next((name for phrase, name in words.items() if phrase in str(error)), type(error).__name__)


if __name__ == "__main__":
    protocol.main(serve)
