"""A GEMM's Artifact emulated on random inputs, and its D held against the reference."""

from __future__ import annotations

import torch

from course_utils.artifact import Artifact
from course_utils.run import reference as results
from course_utils.run.emulator.emulate import Emulation, emulate


def emulate_gemm(
    artifact: Artifact, generator: torch.Generator, seed: int, ctas=None
) -> tuple[Emulation, results.Comparison, list[str]]:
    """Emulate on the generator's next A and B, D poisoned; ``seed`` is the schedule's, ``ctas`` as in
    ``emulate``.

    Returns the emulation, D's comparison (of what was written, where ``ctas`` are named), and the names of
    changed inputs. Raises EmulatorError.
    """
    M, N, K = artifact.problem
    A, B = results.inputs(M, N, K, generator, "cpu")
    before = A.clone(), B.clone()
    D = torch.full((M, N), results.POISON, dtype=torch.int16).view(torch.float16)
    names = [t.name for t in artifact.tensors]
    emulation = emulate(artifact, dict(zip(names, (A, B, D), strict=True)), seed, ctas=ctas)
    changed = [
        name for name, tensor, old in zip("AB", (A, B), before, strict=True) if not torch.equal(tensor, old)
    ]
    return emulation, results.compare(D, A, B, partial=ctas is not None), changed
