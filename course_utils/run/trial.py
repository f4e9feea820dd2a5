"""One launch on fresh inputs, and what it left: the same trial on the GPU and in the emulator.

The output is poisoned and guarded on both sides before the launch. Inputs are held against what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import torch

from course_utils.artifact import Artifact, Tensor
from course_utils.run import reference
from course_utils.run.reference import Comparison

GUARD_ELEMENTS = 1 << 16  # fp16 elements on each side of the output that no kernel may touch

Launch = Callable[[dict[str, torch.Tensor]], None]  # takes the tensors by name, in the kernel's order
Changed = Callable[[torch.Tensor], torch.Tensor]  # A or B as a wgmma multiplies it that changes numbers
ELSEWHERE = (
    "D is A @ B^T, and it did not come out of `wgmma`: a judge's tensor cores multiply other numbers than "
    "lie in memory, and D shows nothing of it. Which instruction computed it?"
)


@dataclass(frozen=True)
class Trial:
    """What one launch left. ``touched`` has a sentence for each input and each guard that it wrote to."""

    found: Comparison
    touched: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.found.ok and not self.touched

    def fields(self) -> dict:
        """The fields of an ``Answer`` that both machines can fill."""
        found = self.found
        words = " ".join([f"{text}." for text in self.touched] + [found.diagnosis] * (not found.ok))
        return {
            "ok": self.ok,
            "relative_norm": found.relative_norm,
            "wrong": found.wrong,
            "unwritten": found.unwritten,
            "diagnosis": words,
        }


def gemm(
    artifact: Artifact,
    generator: torch.Generator,
    launch: Launch,
    device: str,
    partial: bool = False,
    changed: Changed | None = None,
) -> Trial:
    """D = A @ B^T on the generator's next A and B. ``partial``: some CTAs run, see ``reference.compare``;
    ``changed`` is what the machine's ``wgmma`` makes of A and B, and D is to be their product.
    """
    a, b, d = artifact.tensors
    given = dict(zip((a.name, b.name), reference.inputs(*artifact.problem, generator, device), strict=True))

    def compare(D: torch.Tensor, inputs: list[torch.Tensor]) -> Comparison:
        A, B = inputs
        if changed is None:
            return reference.compare(D, A, B, partial)
        found = reference.compare(D, changed(A), changed(B), partial)
        if not found.ok and reference.compare(D, A, B, partial).ok:
            return replace(found, diagnosis=ELSEWHERE)
        return found

    return _trial(d, given, launch, compare)


def copy(
    artifact: Artifact, generator: torch.Generator, launch: Launch, device: str, partial: bool = False
) -> Trial:
    """Y = X on random bits, none of them the poison. A copy is judged whole, ``partial`` or not."""
    x, y = artifact.tensors
    given = {x.name: reference.numbered(prod(x.shape), generator, device).view(x.shape)}
    return _trial(y, given, launch, lambda Y, inputs: reference.compare_copy(Y, *inputs))


KINDS = {"gemm": gemm, "copy": copy}


def _trial(
    output: Tensor,
    given: dict[str, torch.Tensor],
    launch: Launch,
    compare: Callable[[torch.Tensor, list[torch.Tensor]], Comparison],
) -> Trial:
    kept = {name: tensor.to("cpu", copy=True) for name, tensor in given.items()}  # out of a kernel's reach
    device = next(iter(given.values())).device
    count = prod(output.shape)
    bits = torch.full((count + 2 * GUARD_ELEMENTS,), reference.POISON, device=device, dtype=torch.int16)
    padded = bits.view(torch.float16)
    out = padded[GUARD_ELEMENTS:-GUARD_ELEMENTS].view(output.shape)
    launch({**given, output.name: out})
    before = {name: tensor.to(device) for name, tensor in kept.items()}
    touched = [
        f"the kernel changed its input {name}"
        for name, tensor in given.items()
        if not torch.equal(tensor.view(torch.int16), before[name].view(torch.int16))
    ]
    for where, guard in (("before", bits[:GUARD_ELEMENTS]), ("after", bits[-GUARD_ELEMENTS:])):
        if wrote := int((guard != reference.POISON).sum()):
            edge = "a row or column past the edge"
            touched.append(f"the kernel wrote {wrote} elements {where} {output.name}: {edge}")
    return Trial(compare(out, list(before.values())), tuple(touched))
