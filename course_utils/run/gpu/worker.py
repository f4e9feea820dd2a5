"""The worker process: reads requests on stdin, answers on stdout, and dies rather than reuse a broken CUDA
context.

A request is two length-prefixed blocks, JSON and an Artifact's bytes (maybe empty); an answer is one JSON
block. No pickle crosses, so what a learner's process sends is data and never code.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from importlib.metadata import version
from math import prod

GUARD_ELEMENTS = 1 << 16  # fp16 elements on each side of D that no kernel may touch
RUNS = 2  # each on fresh inputs: a kernel that is right once and wrong once is wrong


def read_block(stream) -> bytes | None:
    """One length-prefixed block, or None at the end of the stream."""
    header = stream.read(8)
    if len(header) < 8:
        return None
    (length,) = struct.unpack("<Q", header)
    return stream.read(length)


def write_block(stream, data: bytes) -> None:
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def device() -> dict:
    """Name, compute capability, SM count, memory, driver and library versions of GPU 0."""
    import torch
    from cuda.bindings import driver

    properties = torch.cuda.get_device_properties(0)
    _, supported = driver.cuDriverGetVersion()
    free, total = torch.cuda.mem_get_info(0)
    return {
        "name": properties.name,
        "capability": [properties.major, properties.minor],
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
    import subprocess

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


def run(artifact, seed: int) -> dict:
    """Launch on fresh inputs and hold D against the reference, the guards and the inputs against what they
    were.
    """
    import torch

    from course_utils.run import reference as results
    from course_utils.run.gpu.launch import Kernel

    generator = torch.Generator(device="cuda").manual_seed(seed)
    M, N, K = artifact.problem
    names = [t.name for t in artifact.tensors]
    padded = torch.empty(M * N + 2 * GUARD_ELEMENTS, device="cuda", dtype=torch.float16)
    D = padded[GUARD_ELEMENTS:-GUARD_ELEMENTS].view(M, N)
    for _ in range(RUNS):
        A, B = results.inputs(M, N, K, generator, "cuda")
        before = A.clone(), B.clone()
        padded.view(torch.int16).fill_(results.POISON)
        kernel = Kernel(artifact, dict(zip(names, (A.data_ptr(), B.data_ptr(), D.data_ptr()), strict=True)))
        kernel.launch(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        kernel.unload()
        found = results.compare(D, A, B)
        answer = {
            "ok": found.ok,
            "wrong": found.wrong,
            "unwritten": found.unwritten,
            "relative_norm": found.relative_norm,
            "max_error": found.max_error,
            "diagnosis": found.diagnosis,
        }
        for name, tensor, old in zip("AB", (A, B), before, strict=True):
            if not torch.equal(tensor.view(torch.int16), old.view(torch.int16)):
                return answer | {"ok": False, "diagnosis": f"the kernel changed its input {name}"}
        guards = padded.view(torch.int16)[:GUARD_ELEMENTS], padded.view(torch.int16)[-GUARD_ELEMENTS:]
        for where, guard in zip(("before", "after"), guards, strict=True):
            touched = int((guard != results.POISON).sum())
            if touched:
                text = f"the kernel wrote {touched} elements {where} D: a row or column past the edge"
                return answer | {"ok": False, "diagnosis": text}
        if not found.ok:
            return answer
    return answer


def copy(artifact, seed: int) -> dict:
    """Launch a kernel that copies X to Y, on random bits, and hold Y against X."""
    import torch

    from course_utils.run import reference as results
    from course_utils.run.gpu.launch import Kernel

    x, y = artifact.tensors
    X = results.numbered(prod(x.shape), torch.Generator(device="cuda").manual_seed(seed), "cuda")
    before = X.clone()
    padded = torch.full(
        (prod(y.shape) + 2 * GUARD_ELEMENTS,), results.POISON, device="cuda", dtype=torch.int16
    ).view(torch.float16)
    Y = padded[GUARD_ELEMENTS:-GUARD_ELEMENTS]
    kernel = Kernel(artifact, {x.name: X.data_ptr(), y.name: Y.data_ptr()})
    kernel.launch(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    kernel.unload()
    found = results.compare_copy(Y.view(y.shape), before)
    answer = {"ok": found.ok, "diagnosis": found.diagnosis, "relative_norm": found.relative_norm}
    if not torch.equal(X.view(torch.int16), before.view(torch.int16)):
        return answer | {"ok": False, "diagnosis": f"the kernel changed its input {x.name}"}
    guards = torch.cat((padded[:GUARD_ELEMENTS], padded[-GUARD_ELEMENTS:])).view(torch.int16)
    if touched := int((guards != results.POISON).sum()):
        return answer | {"ok": False, "diagnosis": f"the kernel wrote {touched} elements outside {y.name}"}
    return answer


def serve(requests, answers) -> None:
    """Answer requests until the stream ends. After a CUDA error the answer says so and the process exits."""
    import torch

    from course_utils.artifact import Artifact
    from course_utils.run.gpu import timing
    from course_utils.run.gpu.launch import DriverError

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    work = {"run": run, "copy": copy, "burst": timing.burst, "sustained": timing.sustained}
    while (block := read_block(requests)) is not None:
        request = json.loads(block)
        blob = read_block(requests)
        fatal = False
        try:
            op = request.pop("op")
            answer = device() if op == "device" else work[op](Artifact.from_bytes(blob), **request)
        except torch.cuda.OutOfMemoryError as error:
            answer = {"error": "out_of_memory", "detail": _first_line(error)}
        except DriverError as error:
            answer, fatal = {"error": error.name, "detail": str(error)}, True
        except timing.TimedOutputWrong as error:
            answer = {"error": "timed_output", "detail": str(error)}
        except Exception as error:  # torch raises AcceleratorError, a RuntimeError, for a kernel that faulted
            answer, fatal = {"error": _cuda_error_name(error), "detail": _first_line(error)}, True
        write_block(answers, json.dumps(answer | {"fatal": fatal}).encode())
        if fatal:
            return


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
    }
    return next((name for phrase, name in words.items() if phrase in str(error)), type(error).__name__)


def main(serve) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing a library prints may reach the answers
    serve(sys.stdin.buffer, answers)
    answers.flush()
    os._exit(0)  # a broken context can hang in its destructors


if __name__ == "__main__":
    main(serve)
