"""One emulated launch on random inputs, with what it left held against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from course_utils.artifact import Artifact
from course_utils.problems import PROBLEMS
from course_utils.run import trial
from course_utils.run.emulator import sums
from course_utils.run.emulator.emulate import emulate
from course_utils.run.emulator.explain.emulation import Emulation
from course_utils.run.emulator.isa.tags import Tags
from course_utils.run.trial import Trial


def emulated(
    artifact: Artifact,
    generator: torch.Generator,
    schedule: int,
    ctas: Sequence[int] | None = None,
    kind: str = "gemm",
    record: bool | None = False,
    tags: Tags | None = None,
    facts: bool = True,
) -> tuple[Emulation, Trial]:
    """Emulate on the generator's next inputs under ``schedule``, a seed; ``ctas``, ``record`` and ``facts``
    as in ``emulate``.

    Where ``ctas`` are named, only what was written is judged; with ``tags``, by what tagged products make.
    Raises EmulatorError.
    """
    done: list[Emulation] = []

    def run(tensors: dict) -> None:
        done.append(emulate(artifact, tensors, schedule, ctas=ctas, record=record, tags=tags, facts=facts))

    held = partial(sums.compared, tags) if tags else trial.compared
    tried = trial.tried(kind, artifact, generator, run, "cpu", ctas is not None, held)
    return done[0], tried


def begun(
    artifact: Artifact,
    generator: torch.Generator,
    schedule: int,
    ctas: Sequence[int] | None,
    kind: str,
    k_tiles: int,
    tags: Tags | None = None,
) -> Emulation:
    """The beginning of a launch on the generator's next inputs: until a warpgroup has multiplied so many
    ``k_tiles``, else all of it. Nobody looks at its results. Raises EmulatorError.
    """
    inputs, padded = trial.tensors(PROBLEMS[kind], artifact, generator, "cpu")
    given = inputs | trial.inside(artifact, padded)
    return emulate(artifact, given, schedule, ctas=ctas, tags=tags, record=None, k_tiles=k_tiles)
