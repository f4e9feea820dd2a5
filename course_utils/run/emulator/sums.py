"""Whose sums an output holds: launches on a tagged tensor core, and which warpgroup's products, or which
CTA's, the numbers that they leave are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch

from course_utils.artifact import WARPGROUP_THREADS, Artifact
from course_utils.problems import PROBLEMS, Problem
from course_utils.run import reference, trial
from course_utils.run.emulator.emulate import emulate
from course_utils.run.emulator.isa.tags import Tags

SAMPLE = 1 << 12  # elements that are looked at
LARGE = 0.25  # of a usual element: what is smaller may be anybody's
ALL = 0.99  # of those elements: a few may agree by chance


def whose(
    artifact: Artifact, kind: str, seed: int, schedule: int, ctas: Sequence[int] | None
) -> dict[str, int]:
    """Of a right kernel, counts of elements of its first output that ``ctas`` have written: those looked at,
    those that ``wgmma`` made, and of these those of another warpgroup than most are of; or of no one CTA,
    where several add to the output. Empty for a problem without a product.

    Raises EmulatorError.
    """
    problem = PROBLEMS[kind]
    if not problem.multiplied:
        return {}
    if problem.zeroed:  # several CTAs add up
        made = _of(problem, artifact, Tags(seed), schedule, ctas)
        alone = _of(problem, artifact, Tags(seed, "CTA"), schedule, ctas)
        return {
            "elements of D looked at": made.total(),
            "elements of D by wgmma": made.total() - made[None],
            "elements of D by several CTAs": alone[None],
        }
    found = _of(problem, artifact, Tags(seed, "warpgroup"), schedule, ctas)
    one = found.total() - found[None]
    if one < ALL * found.total():  # several may have a part of K each
        made = _of(problem, artifact, Tags(seed), schedule, ctas)
        several = min(made.total() - made[None], found[None])
    else:
        several = 0
    most = max((count for number, count in found.items() if number is not None), default=0)
    return {
        "elements of D looked at": found.total(),
        "elements of D by wgmma": one + several,
        "elements of D by a second consumer": one + several - most,
    }


def _of(
    problem: Problem, artifact: Artifact, tags: Tags, schedule: int, ctas: Sequence[int] | None
) -> Counter[int | None]:
    """How many elements are whose: by the number of the weight, None where no weight makes them."""
    generator = torch.Generator().manual_seed(tags.seed)
    inputs, padded = trial.tensors(problem, artifact, generator, "cpu")
    outputs = trial.inside(artifact, padded)
    emulate(artifact, inputs | outputs, schedule, ctas=ctas, tags=tags)
    D = next(iter(outputs.values()))
    rows, columns = (~reference.unwritten_in(D)).nonzero(as_tuple=True)
    some = torch.randint(0, max(len(rows), 1), (SAMPLE if len(rows) else 0,), generator=generator)
    at = rows[some], columns[some]
    values, found = D[at].double(), Counter[int | None]()
    sums = _sums(problem, list(inputs.values()), tags, at)
    wanted = sums(1.0)
    left = wanted.abs() > LARGE * wanted.abs().mean()
    for number, weight in enumerate(_weights(artifact, tags)):
        wanted = sums(weight)
        bound = reference.bound(wanted, D.dtype, weight * problem.absolute(artifact.problem[2]))
        near = left & ((values - wanted).abs() <= bound)
        found[number] = int(near.sum())
        left &= ~near
    found[None] = int(left.sum())
    return found


def _weights(artifact: Artifact, tags: Tags) -> Iterator[float]:
    if tags.by == "warpgroup":
        yield from (tags.weight(0, number) for number in range(artifact.threads // WARPGROUP_THREADS))
    elif tags.by == "CTA":
        x, y, z = artifact.grid
        yield from (tags.weight(number, 0) for number in range(x * y * z))
    else:
        yield 1.0


def _sums(
    problem: Problem, inputs: list[torch.Tensor], tags: Tags, at: tuple[torch.Tensor, torch.Tensor]
) -> Callable[[float], torch.Tensor]:
    """The elements at these places as tagged products of a weight make them."""
    signs, many = torch.from_numpy(tags.signs), problem.multiplied
    taken = [[_signed(values, signs[:, i]) for values in inputs[:many]] for i in range(2)]
    if problem.operands:
        rows, columns = at
        pairs = [problem.operands(*one, *inputs[many:]) for one in taken]
        sums = torch.stack([(A[rows].double() * B[columns].double()).sum(1) for A, B in pairs]).sum(0)
        return lambda weight: sums * weight
    A, *others = (torch.cat(pair, -1).float() for pair in zip(*taken, strict=True))
    return lambda weight: problem.values(A * weight, *others, *inputs[many:])[0][at].double()


def _signed(values: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """fp16 or e4m3 numbers, each by the sign of its bit pattern."""
    if values.dtype == torch.float8_e4m3fn:
        flipped = values.float() * signs[values.view(torch.uint8).int()]
        return flipped.to(values.dtype)
    return values * signs[values.view(torch.int16).int() & 0xFFFF]
