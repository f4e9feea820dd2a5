"""CUDA C++ to PTX and cubin, through NVRTC and the CUDA headers of the package registry."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache as once
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

from course_utils.artifact import GENERATED, Resources
from course_utils.chips import HOME, Chip
from course_utils.compile import cache, header
from course_utils.compile.errors import CompileError
from course_utils.ptx.parser import PtxError, parse

ARCH = HOME.arch  # of kernels for the course's own chip
FILE = "/kernel.cu"  # a relative name would put the current folder into the PTX
OPTIONS = ("-std=c++20", "-default-device", "-lineinfo", "--ptxas-options=-v", "-diag-suppress=20012")
PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")

Compiled = tuple[str, bytes, str]  # PTX, cubin, the compiler's log
_one_at_a_time = threading.Lock()  # NVRTC's memory for precompiled headers is one for all threads


@once
def cuda_include_dirs() -> tuple[str, ...]:
    """Include directories of the pinned ``nvidia-cuda-runtime`` and ``nvidia-cuda-cccl`` packages."""

    def folder_of(package: str, header: str) -> str:
        found = next(f for f in files(package) or () if str(f).endswith(header))
        return str(Path(str(found.locate()).removesuffix(header)).resolve())

    cccl = folder_of("nvidia-cuda-cccl", "cuda/std/version")
    # headers include each other as <cuda/std/...> and as <cccl/cuda/std/...>
    return folder_of("nvidia-cuda-runtime", "cuda_runtime_api.h"), cccl, str(Path(cccl).parent)


def compile_source(
    source: str,
    include_dirs: Sequence[str],
    headers: Sequence[str] = (),
    packages: Sequence[str] = (),
    chip: Chip = HOME,
) -> tuple[str, bytes, Resources]:
    """Compile one kernel for ``chip``, or find it in the cache. Returns PTX, cubin and what ptxas allotted.

    ``headers`` are included ahead of the source, and once for all kernels where the cache can keep them.
    ``packages`` own the files in ``include_dirs``: another version of one, and nothing that was kept is
    found. Raises CompileError with the compiler's own lines where the source does not compile.
    """
    ahead = "".join(f"#include <{header}>\n" for header in headers)
    text = f"{ahead}#pragma hdrstop\n#line 1\n{source}" if ahead else source
    options = [_architecture(chip), *OPTIONS, *(f"-I{folder}" for folder in include_dirs)]
    made_by = [f"{name} {_version(name)}" for name in (*PACKAGES, *packages)]
    made_by += _all_dates(include_dirs)
    key = cache.key_of("nvrtc", text, *options, *made_by)
    found = cache.load(key, Compiled)
    if found is None:
        with _one_at_a_time:
            found = _compile_with_headers(ahead, text, options, made_by)
        cache.store(key, found)
    ptx, cubin, log = found
    return ptx, cubin, parse_ptxas_log(log)


def prepare(include_dirs: Sequence[str]) -> None:
    """Import and look up what compiling with these folders needs, so that forked children need not."""
    import_module("cuda.bindings.nvrtc")
    _all_dates(include_dirs)
    if no_device():
        _ask_driver()


def no_device() -> bool:
    """Is there a driver here, and no GPU for it: a login node of a cluster, or a GPU that is hidden?"""
    if os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and any(Path("/dev").glob("nvidia[0-9]*")):
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@once
def _ask_driver() -> None:
    """Have NVRTC ask the driver once, in this process. There it comes back with nothing; in a forked child it
    would crash where torch has asked before (observed with driver 580, CUDA_VISIBLE_DEVICES empty).
    """
    _compile("", [_architecture(HOME), *OPTIONS])


def _architecture(chip: Chip) -> str:
    return f"--gpu-architecture={chip.arch}"


def _all_dates(include_dirs: Sequence[str]) -> list[str]:
    inner = {folder for folder in include_dirs for other in include_dirs if folder.startswith(f"{other}/")}
    return [_dates(folder) for folder in dict.fromkeys(include_dirs) if folder not in inner]


def _version(package: str) -> str:
    """Of an installed package; "" where it came in another way, as on a machine with a toolkit of its own."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@once
def _dates(folder: str) -> str:
    """A sum over names, sizes and dates of a folder's files: an edited header makes a new kernel."""
    found = sha256()
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            status = os.stat(os.path.join(path, name))
            found.update(f"{path}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _compile_with_headers(ahead: str, text: str, options: list[str], made_by: list[str]) -> Compiled:
    precompiled = _precompiled(ahead, options, made_by) if ahead else None
    if precompiled is None:
        return _compile(text, options)
    try:
        ptx, cubin, log = _compile(text, [*options, f"-use-pch={precompiled}"])
    except CompileError:
        if precompiled.exists():
            raise
        return _compile(text, options)  # another process removed the header; or the kernel is as wrong now
    used = [line for line in log.splitlines() if "using precompiled header file" in line]
    if not used:  # NVRTC did not take it
        precompiled.unlink(missing_ok=True)
    return ptx, cubin, "\n".join(line for line in log.splitlines() if line not in used)


def _precompiled(ahead: str, options: list[str], made_by: list[str]) -> Path | None:
    """The precompiled header of the lines ``ahead``, made now if need be; None where there can be none."""
    _load()
    address = header.heap(_take_heap)
    if not address:
        return None
    key = cache.key_of("header", ahead, address, *options, *made_by)

    def create(path: Path) -> bool:
        try:
            _compile(f"{ahead}#pragma hdrstop\n", [*options, f"-create-pch={path}"])
        except CompileError:
            return False
        return path.is_file()

    return header.path_of(key) or header.make(key, create)


@once
def _load() -> None:
    """Load NVRTC itself wherever Linux puts it: beside the heap it would move that."""
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()


def _take_heap() -> None:
    with contextlib.suppress(CompileError):  # it takes its memory, and then misses the file
        _compile("", [_architecture(HOME), *OPTIONS, "-use-pch=/nonexistent/header"])


def _compile(text: str, options: list[str]) -> Compiled:
    from cuda.bindings import nvrtc

    status, program = nvrtc.nvrtcCreateProgram(text.encode(), FILE.encode(), 0, [], [])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError("assemble", f"NVRTC could not start: {status.name}")
    try:
        with _stack_limit_kept():
            (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        said = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log = said.decode(errors="replace").rstrip("\0").replace(FILE, Path(FILE).name)
        ptx = _fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).decode().rstrip("\0")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            text = _first_errors(log) or f"NVRTC failed: {status.name}"
            raise CompileError("assemble", text, line=_refused(log, ptx))
        cubin = _fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return ptx, cubin, log


@contextlib.contextmanager
def _stack_limit_kept() -> Iterator[None]:
    """NVRTC lifts the limit of the stack, and leaves it so. Linux lays out the memory of a child that
    inherits this in another way, and there no header is where it was.
    """
    limit = resource.getrlimit(resource.RLIMIT_STACK)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, limit)


def parse_ptxas_log(log: str) -> Resources:
    """Read ``ptxas -v``: registers, stack frame, spills, static shared memory, its warnings."""

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


def _fetch(size_of: Callable, read: Callable, program: Any) -> bytes:
    _, size = size_of(program)
    data = bytes(size)
    read(program, data)
    return data


def _first_errors(log: str) -> str:
    lines = [line for line in log.splitlines() if re.search(r"\b(error|fatal)\b", line)]
    lines = [re.sub(r"^/\S+/(?=[^/\s]+\(\d+\): )", "", line) for line in lines]  # a header of a package
    return "\n".join(lines[:5])


def _refused(log: str, ptx: str) -> int:
    """The line of the source that NVRTC refuses, or ptxas, by its line of ``ptx``; 0 where neither says."""
    if found := re.search(rf"{GENERATED}\((\d+)\): error|at line (\d+) of {GENERATED}", log):
        return int(found[1] or found[2])
    found = re.search(r"ptx input, line (\d+); error", log)
    if found is None:
        return 0
    try:
        kernel = parse(ptx)
    except PtxError:
        return 0
    for instruction in kernel.instructions:
        if instruction.line == int(found[1]) and instruction.source:
            file, line = instruction.source
            return line if Path(kernel.files.get(file, "")).name == GENERATED else 0
    return 0
