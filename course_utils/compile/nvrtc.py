"""CUDA C++ to PTX and cubin for sm_90a, through NVRTC and the CUDA headers of the package registry."""

from __future__ import annotations

import atexit
import re
import signal
import tempfile
from functools import cache
from importlib.metadata import files
from pathlib import Path

from course_utils.artifact import Resources
from course_utils.compile.errors import CompileError
from course_utils.compile.guard import interrupts

ARCH = "sm_90a"


def cuda_include_dirs() -> list[str]:
    """Include directories of the pinned ``nvidia-cuda-runtime`` and ``nvidia-cuda-cccl`` packages."""

    def folder_of(package: str, header: str) -> str:
        found = next(f for f in files(package) if str(f).endswith(header))
        return str(Path(str(found.locate()).removesuffix(header)).resolve())

    cccl = folder_of("nvidia-cuda-cccl", "cuda/std/version")
    # headers include each other as <cuda/std/...> and as <cccl/cuda/std/...>
    return [folder_of("nvidia-cuda-runtime", "cuda_runtime_api.h"), cccl, str(Path(cccl).parent)]


@cache
def _header_cache() -> str:
    """A folder for NVRTC's precompiled headers.

    They are good for this process only: the first kernel pays 1 s for them.
    """
    folder = tempfile.TemporaryDirectory(prefix="hopper-course-pch-")
    atexit.register(folder.cleanup)
    return folder.name


def compile_source(source: str, include_dirs: list[str]) -> tuple[str, bytes, Resources]:
    """Compile one kernel. Returns PTX, cubin and what ptxas allotted.

    Raises CompileError with the compiler's own lines where the source does not compile.
    """
    from cuda.bindings import nvrtc

    options = [
        f"--gpu-architecture={ARCH}",
        "-std=c++20",
        "-default-device",
        "-lineinfo",
        "--ptxas-options=-v",
        "-diag-suppress=20012",
        "-pch",
        f"-pch-dir={_header_cache()}",
    ]
    options += [f"-I{d}" for d in include_dirs]
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError("assemble", f"NVRTC could not start: {status.name}")
    try:
        with interrupts(
            signal.SIG_IGN
        ):  # else NVRTC takes SIGINT itself, and then hangs in it or ends the process
            (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = (
            _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            .decode(errors="replace")
            .rstrip("\0")
        )
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError("assemble", _first_errors(log) or f"NVRTC failed: {status.name}")
        ptx = _fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).decode().rstrip("\0")
        cubin = _fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return ptx, cubin, parse_ptxas_log(log)


def parse_ptxas_log(log: str) -> Resources:
    """Read ``ptxas -v``: registers, stack frame, spills, static shared memory, and its performance
    warnings.
    """

    def number(pattern: str) -> int:
        found = re.findall(pattern, log)
        return int(found[-1]) if found else 0

    warnings = dict.fromkeys(
        m.strip() for m in re.findall(r"ptxas (?:warning|info)\s*:\s*(\(C7\d+\).*)", log)
    )
    return Resources(
        registers=number(r"Used (\d+) registers"),
        stack_frame=number(r"(\d+) bytes stack frame"),
        spill_stores=number(r"(\d+) bytes spill stores"),
        spill_loads=number(r"(\d+) bytes spill loads"),
        static_shared=number(r"(\d+) bytes smem"),
        warnings=tuple(warnings),
    )


def _fetch(size_of, read, program) -> bytes:
    _, size = size_of(program)
    data = bytes(size)
    read(program, data)
    return data


def _first_errors(log: str) -> str:
    lines = [line for line in log.splitlines() if re.search(r"\b(error|fatal)\b", line)]
    return "\n".join(lines[:5])
