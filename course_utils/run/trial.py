"""One launch on fresh inputs, and what it left: the same trial on the GPU and in the emulator.

The output is poisoned and guarded on both sides before the launch. Inputs are held against what they were.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch

from course_utils.artifact import Artifact, Tensor
from course_utils.cause import Cause, data
from course_utils.problems import POISONS, PROBLEMS, Problem
from course_utils.run import reference
from course_utils.run.reference import BITS, Comparison

GUARD_ELEMENTS = 1 << 16  # elements on each side of an output that no kernel may touch

Launch = Callable[[dict[str, torch.Tensor]], None]  # takes the tensors by name, in the kernel's order
# holds outputs, by name, against what must come of inputs; "partial" as ``tried`` has it
Held = Callable[[Problem, Artifact, dict[str, torch.Tensor], list[torch.Tensor], bool], Comparison]


@dataclass(frozen=True)
class Trial:
    """What one launch left. ``touched`` has a cause for each input and each guard that it wrote to."""

    found: Comparison
    touched: tuple[Cause, ...]

    @property
    def ok(self) -> bool:
        return self.found.ok and not self.touched

    def fields(self) -> dict:
        """The fields of an ``Answer`` that both machines can fill."""
        found = self.found
        return {
            "ok": self.ok,
            "relative_norm": found.relative_norm,
            "wrong": found.wrong,
            "unwritten": found.unwritten,
            "causes": data([*self.touched, *found.causes]),
        }


def compared(
    problem: Problem,
    artifact: Artifact,
    out: dict[str, torch.Tensor],
    inputs: list[torch.Tensor],
    partial: bool,
) -> Comparison:
    """The outputs against what comes of the inputs."""
    if problem.any_shape:
        (Y,), (X,) = out.values(), inputs
        return reference.compare_copy(Y, X)
    operands = problem.operands(*inputs) if problem.operands else None
    if operands and not problem.mistaken:
        (D,) = out.values()
        return reference.compare(D, *operands, partial)

    def of(values: Callable[..., torch.Tensor]) -> torch.Tensor:
        return matrix(values(*inputs))

    mistaken = [(case, functools.partial(of, values)) for case, values in problem.mistaken]
    absolute: float | torch.Tensor = problem.absolute(artifact.problem[2])
    if problem.allowed:
        absolute = matrix(problem.allowed(*inputs))
    found = []
    for (name, values), wanted in zip(out.items(), problem.values(*inputs), strict=True):
        found.append(
            reference.compare_values(
                matrix(values), matrix(wanted), absolute, partial, operands, mistaken, name, problem.infinite
            )
        )
    return reference.several(found)


def matrix(values: torch.Tensor) -> torch.Tensor:
    """Several matrices as one: their rows below each other."""
    return values.flatten(0, -2)


def tried(
    kind: str,
    artifact: Artifact,
    generator: torch.Generator,
    launch: Launch,
    device: str,
    partial: bool = False,
    held: Held = compared,
) -> Trial:
    """A launch on the generator's next inputs; ``kind`` is of ``problems.PROBLEMS``.

    ``partial``: some CTAs run, see ``reference.compare``. A copy is judged whole, ``partial`` or not.
    ``held`` is another one than ``compared`` where a machine multiplies other numbers than lie in memory.
    """
    problem = PROBLEMS[kind]
    given, padded = tensors(problem, artifact, generator, device)
    kept = {name: tensor.to("cpu", copy=True) for name, tensor in given.items()}  # out of a kernel's reach
    out = inside(artifact, padded)
    launch(given | out)
    before = {name: tensor.to(device) for name, tensor in kept.items()}
    touched = [
        Cause("memory", "input-changed", {"tensor": name})
        for name, tensor in given.items()
        if not torch.equal(reference.bits(tensor), reference.bits(before[name]))
    ]
    for name, values in padded.items():
        kept_bits = reference.unwritten_in(values)
        for where, guard in (("before", kept_bits[:GUARD_ELEMENTS]), ("after", kept_bits[-GUARD_ELEMENTS:])):
            if wrote := int((~guard).sum()):
                touched.append(Cause("memory", f"wrote-{where}", {"count": wrote, "tensor": name}))
    return Trial(held(problem, artifact, out, list(before.values()), partial), tuple(touched))


def tensors(
    problem: Problem, artifact: Artifact, generator: torch.Generator, device: str
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The generator's next inputs by name, and memory for each output with its guards."""
    of_inputs, outputs = artifact.tensors[: -problem.outputs], artifact.tensors[-problem.outputs :]
    drawn = [problem.draw(tensor, artifact.tensors, generator, device) for tensor in of_inputs]
    given = {tensor.name: values for tensor, values in zip(of_inputs, drawn, strict=True)}
    return given, {tensor.name: _padded(tensor, device, problem.zeroed) for tensor in outputs}


def inside(artifact: Artifact, padded: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The outputs, between their guards."""
    shapes = {tensor.name: tensor.shape for tensor in artifact.tensors}
    return {n: kept[GUARD_ELEMENTS:-GUARD_ELEMENTS].view(shapes[n]) for n, kept in padded.items()}


def _padded(output: Tensor, device: str, zeroed: bool) -> torch.Tensor:
    """Memory for an output between two guards, poisoned; an output to be added to is zeros."""
    dtype = getattr(torch, output.dtype)
    count = prod(output.shape) + 2 * GUARD_ELEMENTS
    bits = torch.full((count,), POISONS[output.dtype], device=device, dtype=BITS[dtype.itemsize])
    if zeroed:
        bits[GUARD_ELEMENTS:-GUARD_ELEMENTS] = 0
    return bits.view(dtype)
