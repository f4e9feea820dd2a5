"""What this machine can do for the course, and what is missing, in words."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from course_utils.grading import checker

PACKAGE = "hopper-gemm-course"
ADVICE = "run `make venv` again, or `pip install -e .` in your own environment"


def findings() -> list[tuple[str, bool, str]]:
    """Rows of (what, fine or not, in words). Raises nothing."""
    return [_python(), *_packages(), *_compilers(), _gpu()]


def _python() -> tuple[str, bool, str]:
    fine = sys.version_info >= (3, 11)
    return "python", fine, platform.python_version() + ("" if fine else "; the course needs 3.11 or newer")


def _packages() -> list[tuple[str, bool, str]]:
    """One row for each package that is missing or outside its range, or one row when all are fine.

    The core's packages only: an extra that was not asked for is not missing.
    """
    try:
        wanted = [want for want in map(Requirement, requires(PACKAGE) or []) if want.marker is None]
    except PackageNotFoundError:
        return [("packages", False, f"the course itself is not installed; {ADVICE}")]
    rows = []
    for want in wanted:
        try:
            found = version(want.name).split("+")[0]
        except PackageNotFoundError:
            rows.append((want.name, False, f"missing, the course needs {want.specifier}; {ADVICE}"))
            continue
        if not want.specifier.contains(found, prereleases=True):
            rows.append(
                (want.name, False, f"{found} is installed, the course was tested with {want.specifier}")
            )
    return rows or [("packages", True, f"all {len(wanted)} as the course needs them")]


def _compilers() -> list[tuple[str, bool, str]]:
    """What TileLang's CUDA source goes through, and CuTe DSL, which carries its own compiler."""
    return [_nvrtc(), _cute()]


def _cute() -> tuple[str, bool, str]:
    try:
        from course_utils.compile.cute import import_cute

        import_cute()
    except Exception as error:
        return "cute", False, f"CuTe DSL does not load here: {error}; {ADVICE}"
    return "cute", True, "CuTe DSL loads; it carries its own compiler"


def _nvrtc() -> tuple[str, bool, str]:
    try:
        from course_utils.compile.nvrtc import compile_source

        compile_source('extern "C" __global__ void probe(float* x) { x[0] = 1.0f; }', [])
    except Exception as error:
        return "compiler", False, f"NVRTC does not work here: {error}"
    return "compiler", True, "NVRTC compiles for sm_90a: no CUDA toolkit is needed"


def _gpu() -> tuple[str, bool, str]:
    device, reason = checker.find_gpu()
    if device is None:
        return (
            "gpu",
            False,
            (
                f"{reason}: kernels are compiled, their receipts checked, and their PTX run in the emulator. "
                "TFLOP/s "
                "are shown as recorded on an H200. `course bundle` takes your kernels to a GPU machine."
            ),
        )
    busy = _busy(device)
    return (
        "gpu",
        not busy,
        f"{device['name']}, {device['sms']} SMs, driver {device['driver']}, CUDA "
        f"{device['cuda_driver']}{busy}",
    )


def _busy(device: dict) -> str:
    used = 1 - device["free_bytes"] / device["memory_bytes"]
    return f"; another program holds {used:.0%} of its memory, so timings may suffer" if used > 0.1 else ""
