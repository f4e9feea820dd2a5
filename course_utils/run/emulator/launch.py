"""One emulated launch on random inputs, with what it left held against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from course_utils.artifact import Artifact
from course_utils.run import trial
from course_utils.run.emulator.emulate import emulate
from course_utils.run.emulator.explain.emulation import Emulation
from course_utils.run.trial import Trial


def emulated(
    artifact: Artifact,
    generator: torch.Generator,
    schedule: int,
    ctas: Sequence[int] | None = None,
    kind: str = "gemm",
    signs: int | None = None,
    record: bool = False,
) -> tuple[Emulation, Trial]:
    """Emulate on the generator's next inputs under ``schedule``, a seed; ``ctas`` and ``record`` as in
    ``emulate``.

    Where ``ctas`` are named, only what was written is judged. ``signs`` is the seed of the signs by which
    ``wgmma`` multiplies its operands, and the reference with it: what did not come out of ``wgmma`` is then
    wrong. Raises EmulatorError.
    """
    done: list[Emulation] = []
    table = changed = None
    if signs is not None:
        table = np.random.default_rng(signs).choice(np.array([1, -1], np.int8), 1 << 16)
        changed = partial(_changed, torch.from_numpy(table))

    def run(tensors: dict) -> None:
        done.append(emulate(artifact, tensors, schedule, ctas=ctas, signs=table, record=record))

    some = ctas is not None
    tried = trial.tried(kind, artifact, generator, run, "cpu", partial=some, changed=changed)
    return done[0], tried


def _changed(signs: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """fp16 or e4m3 numbers, each by the sign of its bit pattern."""
    if values.dtype == torch.float8_e4m3fn:
        flipped = values.float() * signs[values.view(torch.uint8).int()]
        return flipped.to(values.dtype)
    return values * signs[values.view(torch.int16).int() & 0xFFFF]
