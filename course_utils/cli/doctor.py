"""What this machine can do for the course, and what is missing, in words."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from rich.console import Console

from course_utils import chips
from course_utils.chips import BLACKWELL, HOME
from course_utils.classroom import sandbox
from course_utils.cli import EXIT_FAILED
from course_utils.cli.terminal import say
from course_utils.compile import cache
from course_utils.run import backends

PACKAGE = "hopper-gemm-course"
CUTE_LIBRARY = "_mlir/_mlir_libs/_cutlass_ir*.so"
OPTIONAL = ("gpu", "sandbox")
ADVICE = "run `make venv` again, or `pip install -e .` in your own environment"


def doctor(console: Console) -> int:
    """Say what there is, a line each. A missing GPU is no failure, nor is a sandbox: graders need one."""
    missing = False
    for name, fine, text in findings():
        say(console, f"{'ok' if fine else 'warning':7} {name:10} {text}")
        missing = missing or not (fine or name in OPTIONAL)
    return EXIT_FAILED if missing else 0


def clean(console: Console) -> int:
    """Empty the cache of compiled kernels, and say what that freed."""
    freed = cache.clean()
    say(console, f"freed {freed / 1e6:,.1f} MB in {cache.folder()}")
    return 0


def findings() -> Iterator[tuple[str, bool, str]]:
    """Rows of (what, fine or not, in words), each as soon as it is known; a sandbox, in which a Python is
    tried, comes last. It is for whoever grades a class, so a learner's environment has no row of it.

    Raises nothing.
    """
    yield _python()
    yield from _packages()
    yield _cache()
    yield _nvrtc()
    yield _gpu()
    yield _cute()
    if find_spec("nbgrader"):
        yield from _sandboxes()


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


def _cache() -> tuple[str, bool, str]:
    held = cache.contents()
    if held.problem:
        text = f"nothing can be kept in {held.path} ({held.problem}), so each kernel is compiled anew; set "
        return "cache", False, text + "XDG_CACHE_HOME to a folder that you can write to"
    text = f"{held.path} holds {held.size / 1e6:,.0f} MB: {held.kernels} compiled kernels"
    if held.headers:
        text += f" and {held.header_bytes / 1e6:,.0f} MB of precompiled headers"
    return "cache", True, text + f"; the most is {cache.LIMIT / 1e6:,.0f} MB, and `course clean` empties it"


def _cute() -> tuple[str, bool, str]:
    """Its compiler is a library, and this is what a machine may not load. To import the DSL takes a second,
    and says no more: what it needs of Python is among the packages.
    """
    try:
        found = find_spec("cutlass")
        folders = list(found.submodule_search_locations or ()) if found else []
        libraries = [one for folder in folders for one in Path(folder).glob(CUTE_LIBRARY)]
        if not libraries:
            return "cute", False, f"CuTe DSL's compiler is not installed; {ADVICE}"
        for library in libraries:
            ctypes.CDLL(str(library))
    except Exception as error:
        return "cute", False, f"CuTe DSL does not load here: {error}; {ADVICE}"
    return "cute", True, "the library of CuTe DSL loads; it is a compiler of its own"


def _nvrtc() -> tuple[str, bool, str]:
    """What TileLang's CUDA source goes through."""
    try:
        from course_utils.compile.nvrtc import compile_source

        compile_source('extern "C" __global__ void probe(float* x) { x[0] = 1.0f; }', [])
    except Exception as error:
        return "compiler", False, f"NVRTC does not work here: {error}"
    return "compiler", True, f"NVRTC compiles for {HOME.arch}: no CUDA toolkit is needed"


def _gpu() -> tuple[str, bool, str]:
    device, reason = backends.find_gpu()
    if device is None and (other := _blackwell()):
        return "gpu", True, other
    if device is None:
        home = HOME.name.removeprefix("NVIDIA ")
        return (
            "gpu",
            False,
            (
                f"{reason}: kernels are compiled, their receipts checked, and their PTX run in the emulator. "
                "TFLOP/s "
                f"are shown as recorded on an {home}. `course bundle` takes your kernels to a GPU machine; "
                f"they are compiled for the {HOME.sms} SMs of an {home}."
            ),
        )
    busy = _busy(device)
    return (
        "gpu",
        not busy,
        f"{chips.of_device(device)}, driver {device['driver']}, CUDA {device['cuda_driver']}: persistent "
        f"kernels have {device['sms']} CTAs here{busy}",
    )


def _blackwell() -> str:
    """What a Blackwell here is good for; empty where there is none."""
    device, _ = backends.find_any_gpu()
    if device is None or tuple(device["capability"]) != BLACKWELL.capability:
        return ""
    return (
        f"{chips.of_device(device)}, driver {device['driver']}, CUDA {device['cuda_driver']}: a check runs "
        "every kernel in the emulator here, because we have run no kernel on this chip. `course bundle "
        "out.pyz --step blackwell` makes an archive that runs steps b01 to b10 on it (docs/bundle.md)"
    )


def _sandboxes() -> list[tuple[str, bool, str]]:
    """Each form of sandbox that works, and what it lacks; where none does, each form and why."""
    problems = {form: sandbox.problem(form) for form in sandbox.PROGRAMS}
    works, fails = [], []
    for form, problem in problems.items():
        number = sandbox.version(form)
        name = f"{form} {number}".rstrip()
        if not problem:
            works.append(("sandbox", True, f"{name} works. It lacks {sandbox.LACKS[form]}"))
        else:
            advice = sandbox.NAMESPACES if number else f"{sandbox.GET[form]} brings it"
            text = f"{name} does not work: {problem}; {advice}. Only `course grade` needs a sandbox"
            fails.append(("sandbox", False, text))
    return works or fails


def _busy(device: dict) -> str:
    used = 1 - device["free_bytes"] / device["memory_bytes"]
    return f"; another program holds {used:.0%} of its memory, so timings may suffer" if used > 0.1 else ""
