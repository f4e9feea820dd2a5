"""``emulate``: one launch of an Artifact on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from course_utils.artifact import Artifact, Tensor
from course_utils.cause import Cause
from course_utils.ptx.parser import PtxError, parse
from course_utils.run.emulator.core import loop, memory
from course_utils.run.emulator.core.machine import Machine
from course_utils.run.emulator.core.memory import Tensor as TensorRegion
from course_utils.run.emulator.explain.emulation import Emulation
from course_utils.run.emulator.explain.facts.launch import counted
from course_utils.run.emulator.explain.listen import Explained, attach
from course_utils.run.emulator.isa.tags import Tags
from course_utils.run.emulator.isa.translate import Program
from course_utils.run.emulator.units import printf
from course_utils.run.emulator.units.fragments import watched
from course_utils.run.emulator.units.table import lower
from course_utils.run.emulator.units.tensormaps import TensorMaps

UNWRITTEN = "uninitialised-read"
LIMIT = 50_000_000  # warp instructions; the course's largest emulated check needs under one million
_STORAGE = {
    **{f"{kind}{bits}": np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{name: np.dtype(name) for name in ("float16", "float32", "float64", "bool")},
    **dict.fromkeys(("float8_e4m3", "float8_e4m3fn", "float8_e5m2"), np.dtype("uint8")),
    "bfloat16": np.dtype("uint16"),
}


class EmulatorError(ValueError):
    """The emulator cannot run this: PTX that it does not model, or arguments that do not fit the kernel."""


def emulate(
    artifact: Artifact,
    tensors: dict,
    seed: int = 0,
    limit: int = LIMIT,
    ctas: Iterable[int] | None = None,
    tags: Tags | None = None,
    record: bool | None = False,
    facts: bool = True,
    addresses: Mapping[str, int] | None = None,
    k_tiles: int | None = None,
) -> Emulation:
    """Run the kernel on ``tensors``: by name, NumPy arrays or CPU torch tensors of the artifact's shapes and
    dtypes.

    Outputs are written in place. The same seed gives the same run. ``limit`` is in warp instructions.
    ``ctas`` names the CTAs to run, by number, with the clusters they are in; None is all. Some of a
    persistent kernel's are enough to see what one tile leaves to the next. ``tags`` make another tensor core
    of it (see ``isa.tags``). ``record`` keeps the events of all clusters. Without ``facts`` the run has none.
    ``addresses`` says where tensors lie, for a kernel that reads addresses from memory or finds them within
    other parameters; else the emulator chooses. After ``k_tiles`` of one warpgroup the run is over, not
    finished, with the facts of what it has seen.
    A kernel whose one fault is to read shared memory that nothing has written runs again with other bytes
    there; where it stores the same, the fault is none.
    Raises EmulatorError for PTX that is not modelled (the text names the line) and for tensors that do not
    fit; what is wrong with the program itself is in the result's findings.
    """
    regions = {}
    for tensor in artifact.tensors:
        if tensor.name not in tensors:
            raise EmulatorError(f"the kernel takes a tensor {tensor.name}, which was not given")
        regions[tensor.name] = _region(tensor, tensors[tensor.name])
    if unknown := set(tensors) - set(regions):
        raise EmulatorError(f"the kernel takes no tensor {', '.join(sorted(unknown))}")
    given = {name: region.data.copy() for name, region in regions.items()}
    only = None if ctas is None else set(ctas)

    def run(filler: int, left_out: str = "") -> Emulation:
        fresh: dict[str, memory.Region] = {
            name: TensorRegion(name, r.data, r.describe, r.element) for name, r in regions.items()
        }
        program, constants = _program(artifact.ptx, artifact.kernel)
        places = addresses or {}
        machine = Machine(program, artifact, fresh, constants, seed, limit, only, tags, places, filler)
        return _run(machine, attach(machine, record, left_out, facts, k_tiles))

    try:
        done = run(memory.FILLERS[0])
        if done.finished and {finding.kind for finding in done.errors} == {UNWRITTEN}:
            return _counts(done, run, regions, given)
        return done
    except PtxError as error:
        raise EmulatorError(str(error)) from error


def _counts(
    done: Emulation,
    run: Callable[[int, str], Emulation],
    regions: Mapping[str, TensorRegion],
    given: Mapping[str, np.ndarray],
) -> Emulation:
    """Does what a run has read that nothing had written count? Where something is stored, and the same
    whatever shared memory held before, it does not: a right kernel may read rows beyond a tensor's end and
    store none of them. The run to believe is returned, and the tensors are as it leaves them.
    """
    stored = {name: region.data.copy() for name, region in regions.items()}

    def holds(wanted: Mapping[str, np.ndarray]) -> bool:
        return all(np.array_equal(region.data, wanted[name]) for name, region in regions.items())

    def put(wanted: Mapping[str, np.ndarray]) -> None:
        for name, region in regions.items():
            region.data[:] = wanted[name]

    if holds(given):
        return done
    for filler in memory.FILLERS[1:]:
        put(given)
        again = run(filler, UNWRITTEN)
        if not again.ok or not holds(stored):
            put(stored)
            return done
    return again


def _run(machine: Machine, explained: Explained) -> Emulation:
    for view in machine.unit(TensorMaps).given.values():
        if view.broken:
            values = {"tensor": view.name, "why": view.broken[0]}
            cause = Cause("tensor-map", "a broken tensor map", values)
            explained.findings.find(cause, -1, subject=view.name)
    finished = not explained.findings.found and loop.run(machine)
    found, trace = explained.found(finished), explained.trace
    traced = (trace.spans, trace.arrivals, trace.events) if trace else ([], [], [])
    whole = explained.facts and (finished or explained.facts.k_tiles.enough)
    facts = explained.facts.end() if whole and explained.facts else dict(machine.counts)
    printed = str(machine.unit(printf.Printed))
    return Emulation(finished, found, machine.executed, machine.seed, *traced, facts, printed)


@lru_cache(maxsize=8)
def _program(ptx: str, kernel: str) -> tuple[Program, tuple[np.ndarray, dict[str, int]]]:
    """The kernel ready to run, and the bytes of its module's variables."""
    return Program(parse(ptx, kernel), lower, counted, watched), printf.constants(ptx)


def _region(tensor: Tensor, given: Any) -> TensorRegion:
    """The bytes of an array, shared and not copied."""
    if hasattr(given, "data_ptr"):
        import torch

        if given.is_cuda:
            raise EmulatorError(f"{tensor.name} is on a GPU; the emulator takes CPU tensors")
        stored = {
            torch.bfloat16: torch.uint16,
            torch.float8_e4m3fn: torch.uint8,
            torch.float8_e5m2: torch.uint8,
        }
        given = given.detach().view(stored.get(given.dtype, given.dtype)).numpy()
    if not isinstance(given, np.ndarray):
        raise EmulatorError(
            f"{tensor.name} is {type(given).__name__}; it must be a NumPy array or a CPU torch tensor"
        )
    wanted = _STORAGE.get(tensor.dtype)
    if wanted is None:
        raise EmulatorError(f"{tensor.name} is {tensor.dtype}, which the emulator does not know")
    if given.shape != tuple(tensor.shape) or given.dtype != wanted:
        raise EmulatorError(
            f"{tensor.name} is {given.dtype} {given.shape}; the kernel was compiled for {tensor.dtype} "
            f"{tuple(tensor.shape)}"
        )
    if not given.flags.c_contiguous or not given.flags.writeable:
        raise EmulatorError(f"{tensor.name} must be contiguous, row by row, and writable")
    size, shape = given.dtype.itemsize, given.shape

    def describe(offset: int) -> str:
        element = offset // size
        if 0 <= element < given.size:
            index = ", ".join(str(int(i)) for i in np.unravel_index(element, shape))
            return f"{tensor.name}[{index}]"
        at = f" (row {element // shape[1]:,}, column {element % shape[1]:,})" if len(shape) == 2 else ""
        extents = " x ".join(map(str, shape))
        return f"element {element:,} of {tensor.name}{at}, which has the shape {extents or '()'}"

    return TensorRegion(tensor.name, given.reshape(-1).view(np.uint8), describe, size)
