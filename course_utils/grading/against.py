"""A kernel that is no exercise, in the emulator against a reference of its author's.

A reference is a Python file of two functions. ``inputs()`` returns the tensors that the kernel reads, by the
names of its arguments; ``outputs(...)`` takes them and returns what the kernel is to write, by name too.
NumPy arrays or torch tensors, both. ``TOLERANCE``, where the file has one, is the relative error allowed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course_utils.artifact import Artifact, Tensor
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_module
from course_utils.run.emulator import Emulation, emulate

SCHEDULES = (0, 1, 2)  # seeds of the emulator
UNTOUCHED = "of them never written"
ADDS = r"\b(cp\.reduce\.|(red|atom)\.\S*global)"  # what reads an output before it writes it
NAMED = 3  # wrong elements that are shown
# relative error that a kernel may have: some roundings of the type
TOLERANCES = {
    torch.float64: 1e-6,
    torch.float32: 1e-4,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float8_e4m3fn: 0.13,
    torch.float8_e5m2: 0.26,
}


@dataclass(frozen=True)
class Reference:
    """What a kernel reads, what it is to write, and the relative error allowed, None for the type's."""

    inputs: dict[str, torch.Tensor]
    outputs: dict[str, torch.Tensor]
    tolerance: float | None = None


@dataclass(frozen=True)
class Outcome:
    """One schedule's run. ``wrong`` has a sentence for each output that is not what it must be, and for each
    input that the kernel wrote to.
    """

    schedule: int
    emulations: list[Emulation]
    wrong: list[str]

    @property
    def finished(self) -> bool:
        return all(emulation.finished for emulation in self.emulations)

    @property
    def ok(self) -> bool:
        return all(emulation.ok for emulation in self.emulations) and not self.wrong


def load_reference(path: str | Path) -> Reference:
    """Read a reference file and compute its outputs. Raises CompileError, whose text says what it lacks."""
    module, name = load_module(path), Path(path).name
    make, compute = (getattr(module, wanted, None) for wanted in ("inputs", "outputs"))
    if not (callable(make) and callable(compute)):
        text = f"{name} needs two functions: inputs() and outputs(...), each returns tensors by name"
        raise CompileError("load", text)
    given = _tensors(make(), f"inputs of {name}")
    try:
        inspect.signature(compute).bind(**given)
    except TypeError as error:
        text = f"outputs of {name} does not take what inputs returns ({', '.join(given)}): {error}"
        raise CompileError("load", text) from error
    kept = {key: tensor.clone() for key, tensor in given.items()}
    wanted = _tensors(compute(**given), f"outputs of {name}")
    if both := given.keys() & wanted.keys():
        raise CompileError("load", f"{name} has {', '.join(sorted(both))} among its inputs and its outputs")
    return Reference(kept, wanted, getattr(module, "TOLERANCE", None))


def _tensors(given: Any, what: str) -> dict[str, torch.Tensor]:
    if not isinstance(given, Mapping) or not given:
        raise CompileError("load", f"{what} must be a dict of tensors by name, not {type(given).__name__}")
    found = {}
    for name, value in given.items():
        try:
            found[str(name)] = torch.as_tensor(value).detach().cpu().contiguous()
        except (TypeError, ValueError, RuntimeError) as error:
            raise CompileError("load", f"{what}: {name} is {type(value).__name__}, not a tensor") from error
    return found


def compiled(path: str | Path, reference: Reference) -> list[Artifact]:
    """The launches of ``kernel()`` of a Python file, which returns a TileLang PrimFunc or a ``@cute.jit``
    function whose arguments have the reference's names.

    Raises CompileError.
    """
    module, name = load_module(path), Path(path).name
    factory = getattr(module, "kernel", None)
    if not callable(factory):
        text = f"{name} defines no kernel(): it returns a TileLang PrimFunc, or a function under @cute.jit"
        raise CompileError("load", text)
    try:
        made = factory()
    except CompileError:
        raise
    except Exception as error:
        raise CompileError("trace", f"kernel() of {name} raised {type(error).__name__}: {error}") from error
    if type(made).__name__ == "PrimFunc":
        return _tilelang(made, reference)
    if getattr(made, "_decorator_kind", None) == "jit":
        return _cute(made, reference)
    text = f"kernel() of {name} returned {type(made).__name__}, not a PrimFunc or a function under @cute.jit"
    raise CompileError("signature", text)


def _described(names: list[str], reference: Reference) -> tuple[Tensor, ...]:
    """The kernel's tensors in its order. Raises CompileError where the names are not the reference's."""
    known = reference.inputs | reference.outputs
    if set(names) != set(known):
        text = f"the kernel takes {', '.join(names)}, and the reference has {', '.join(known)}"
        raise CompileError("signature", text + "; the names must be the same")
    dtypes = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in known.items()}
    return tuple(Tensor(name, tuple(known[name].shape), dtypes[name]) for name in names)


def _tilelang(prim_func: Any, reference: Reference) -> list[Artifact]:
    from course_utils.compile import programs, tilelang

    buffers = [prim_func.buffer_map[handle] for handle in prim_func.params]
    tensors = _described([str(buffer.name) for buffer in buffers], reference)
    for tensor, buffer in zip(tensors, buffers, strict=True):
        shape = tuple(int(extent) for extent in buffer.shape)
        dtype = str(buffer.dtype).replace("e4m3", "e4m3fn").replace("fnfn", "fn")
        if (shape, dtype) != (tensor.shape, tensor.dtype):
            text = f"{tensor.name} is {buffer.dtype} {shape} in the kernel, {tensor.dtype} {tensor.shape} in"
            raise CompileError("signature", f"{text} the reference")
    lowered = tilelang._lower(prim_func)
    if len(lowered.device_mod.functions) == 1:
        return [tilelang.compile_prim_func(prim_func)]  # which knows the author's lines
    return programs.launches(lowered, tensors, {})


def _cute(host: Any, reference: Reference) -> list[Artifact]:
    from course_utils.compile import cute

    return cute.compile_program(host, _described(list(inspect.signature(host).parameters), reference))


def run(artifacts: list[Artifact], reference: Reference, schedule: int, record: bool = False) -> Outcome:
    """Emulate the launches one after another under one schedule, and hold the outputs against the reference.

    Outputs hold NaN before, or all bits set where their type has none. ``record`` is as ``emulate`` has it.
    Raises EmulatorError.
    """
    tensors = {name: tensor.clone() for name, tensor in reference.inputs.items()}
    tensors |= {name: _poisoned(tensor) for name, tensor in reference.outputs.items()}
    for artifact in artifacts:  # what a program keeps between its kernels
        for tensor in artifact.tensors:
            if tensor.name not in tensors:
                tensors[tensor.name] = torch.zeros(tensor.shape, dtype=getattr(torch, tensor.dtype))
    done = []
    for artifact in artifacts:
        named = {tensor.name: tensors[tensor.name] for tensor in artifact.tensors}
        done.append(emulate(artifact, named, schedule, record=record, facts=False))
        if not done[-1].finished:
            return Outcome(schedule, done, [])
    wrong = [
        f"the kernel changed its input {name}"
        for name, before in reference.inputs.items()
        if not torch.equal(_bits(tensors[name]), _bits(before))
    ]
    for name, wanted in reference.outputs.items():
        if text := compare(tensors[name], wanted, reference.tolerance):
            if any(re.search(ADDS, artifact.ptx) for artifact in artifacts):
                text = text.replace(UNTOUCHED, f"{UNTOUCHED}, or added to the NaN that stood there")
            wrong.append(f"{name} is wrong: {text}")
    return Outcome(schedule, done, wrong)


def _poisoned(like: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(like)
    _bits(made).fill_(-1)  # of floats: a NaN
    return made


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype is torch.bool:
        return tensor.view(torch.int8)
    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def compare(got: torch.Tensor, wanted: torch.Tensor, tolerance: float | None = None) -> str:
    """What is wrong with an output, in words; "" where nothing is.

    Floats may be off by ``tolerance``, or by some roundings of their type, of their own size and of the
    tensor's; integers not at all. A NaN or an infinity has to be where the reference has it.
    """
    allowed = TOLERANCES.get(wanted.dtype, 0.0) if tolerance is None else tolerance
    one, other = got.to(torch.float64), wanted.to(torch.float64)
    finite = other.isfinite()
    size = float(other[finite].square().mean().sqrt()) if bool(finite.any()) else 0.0
    near = (one - other).abs() <= allowed * (other.abs() + size)
    same = (one == other) | (one.isnan() & other.isnan())
    bad = ~(same | (near & finite))
    count = int(bad.sum())
    if not count:
        return ""
    untouched = int(((_bits(got) == -1) & bad).sum())
    text = f"{count:,} of {bad.numel():,} elements"
    if untouched:
        text += f", {untouched:,} {UNTOUCHED}"
    places = [tuple(place.tolist()) for place in bad.nonzero()[:NAMED]]
    shown = "; ".join(f"{list(p)} is {one[p]:.5g} and must be {other[p]:.5g}" for p in places)
    return f"{text}. {shown}"
