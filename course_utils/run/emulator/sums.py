"""Whose sums an output holds: launches on a tagged tensor core, and which warpgroup's products, or which
CTA's, the numbers that they leave are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

import torch

from course_utils.artifact import WARP_THREADS, WARPGROUP_THREADS, Artifact
from course_utils.problems import PROBLEMS, Problem, product
from course_utils.run import reference, trial
from course_utils.run.emulator.emulate import emulate
from course_utils.run.emulator.isa.tags import Tags
from course_utils.run.reference import Comparison

SAMPLE = 1 << 12  # elements that are looked at
LARGE = 0.25  # of a usual element: what is smaller may be anybody's
ALL = 0.99  # of those elements: a few may agree by chance
# threads of a CTA in which several warpgroups may multiply, or several warps by tcgen05
CONSUMERS = 3 * WARPGROUP_THREADS
MMA_WARPS = 2 * WARPGROUP_THREADS
ELSEWHERE = 0.25  # of wgmma's products, those that an epilogue may have of its own


def whose(
    artifact: Artifact, kind: str, seed: int, schedule: int, ctas: Sequence[int] | None, right: bool = False
) -> dict[str, int]:
    """Of a right kernel, counts of elements of its first output that ``ctas`` have written: those looked at,
    those that ``wgmma`` made, and of these those of another warpgroup than most are of; or of no one CTA,
    where several add to the output. Of an element that several warpgroups sum, each has its share of K. Empty
    for a problem without a product. ``right``: it is known to be right with tags, so ``wgmma`` made it all.

    Raises EmulatorError.
    """
    problem = PROBLEMS[kind]
    if not problem.multiplied:
        return {}
    if right and artifact.threads < _several(artifact) and not problem.zeroed:
        count = prod(artifact.tensors[-1].shape)
        return {"elements of D looked at": count, "elements of D by wgmma": count}
    if problem.zeroed:  # several CTAs add up
        made = _of(problem, artifact, Tags(seed), schedule, ctas)
        alone = _of(problem, artifact, Tags(seed, "CTA"), schedule, ctas)
        return {
            "elements of D looked at": made.total(),
            "elements of D by wgmma": made.total() - made[None],
            "elements of D by several CTAs": alone[None],
        }
    found = _of(problem, artifact, Tags(seed, _unit(artifact)), schedule, ctas)
    looked_at = multiplied = found.total()
    most = max((count for number, count in found.items() if number is not None), default=0)
    if found[None] > (1 - ALL) * looked_at:  # several may have a part of K each
        made = _of(problem, artifact, Tags(seed), schedule, ctas)
        multiplied = min(made.total() - made[None], looked_at)
        shares = _shares(problem, artifact, seed, schedule, ctas)
        most = round(multiplied * max(shares) / (sum(shares) or 1.0))
    return {
        "elements of D looked at": looked_at,
        "elements of D by wgmma": multiplied,
        "elements of D by a second consumer": multiplied - most,
    }


def _shares(
    problem: Problem, artifact: Artifact, seed: int, schedule: int, ctas: Sequence[int] | None
) -> list[float]:
    """The share of each warpgroup, or warp, in the output: by how much that grows along itself where this one
    doubles its products. Sums of different parts of K are unlike each other, so each adds what it has of K.
    """
    shares = []
    for number in range(_units(artifact)):
        values, sums = _tagged(problem, artifact, Tags(seed, number), schedule, ctas)
        wanted = sums(1.0)
        shares.append(max(float(values.double() @ wanted / (wanted @ wanted)) - 1, 0.0))
    return shares


def by_wgmma(artifact: Artifact, kind: str, seed: int, schedule: int, ctas: Sequence[int] | None) -> bool:
    """Does a kernel that is right with tags multiply by ``wgmma`` without them too? Who also multiplies in
    another way can tell the two apart, and goes on as on a GPU where there are none. Raises EmulatorError.
    """
    problem = PROBLEMS[kind]
    if not problem.multiplied:
        return True
    generator = torch.Generator().manual_seed(seed)
    inputs, padded = trial.tensors(problem, artifact, generator, "cpu")
    outputs = trial.inside(artifact, padded)
    facts = emulate(artifact, inputs | outputs, schedule, ctas=ctas).facts
    written = int((~reference.unwritten_in(next(iter(outputs.values())))).sum())
    whole = facts.get("products multiplied", 0) >= ALL * written * artifact.problem[2]
    return whole and not elsewhere(facts)


def elsewhere(facts: Mapping[str, int]) -> bool:
    """Does a run multiply so much by other instructions than ``wgmma`` that D may be theirs?"""
    return facts.get("products otherwise", 0) > ELSEWHERE * facts.get("products multiplied", 0)


def nobody(artifact: Artifact) -> dict[str, int]:
    """The same of a kernel whose output ``wgmma`` did not make, though it is right: of all its elements."""
    return {"elements of D looked at": prod(artifact.tensors[-1].shape), "elements of D by wgmma": 0}


def _of(
    problem: Problem, artifact: Artifact, tags: Tags, schedule: int, ctas: Sequence[int] | None
) -> Counter[int | None]:
    """How many elements are whose: by the number of the weight, None where no weight makes them."""
    values, sums = _tagged(problem, artifact, tags, schedule, ctas)
    found = Counter[int | None]()
    wanted = sums(1.0)
    left = wanted.abs() > LARGE * wanted.abs().mean()
    for number, weight in enumerate(_weights(artifact, tags)):
        wanted = sums(weight)
        bound = reference.bound(wanted, values.dtype, weight * problem.absolute(artifact.problem[2]))
        near = left & ((values.double() - wanted).abs() <= bound)
        found[number] = int(near.sum())
        left &= ~near
    found[None] = int(left.sum())
    return found


def _tagged(
    problem: Problem, artifact: Artifact, tags: Tags, schedule: int, ctas: Sequence[int] | None
) -> tuple[torch.Tensor, Callable[[float], torch.Tensor]]:
    """Some elements that a launch with these tags leaves, and what they are where products have a weight."""
    generator = torch.Generator().manual_seed(tags.seed)
    inputs, padded = trial.tensors(problem, artifact, generator, "cpu")
    outputs = trial.inside(artifact, padded)
    emulate(artifact, inputs | outputs, schedule, ctas=ctas, tags=tags, record=None, facts=False)
    D = trial.matrix(next(iter(outputs.values())))
    rows, columns = (~reference.unwritten_in(D)).nonzero(as_tuple=True)
    some = torch.randint(0, max(len(rows), 1), (SAMPLE if len(rows) else 0,), generator=generator)
    at = rows[some], columns[some]
    return D[at], _sums(problem, list(inputs.values()), tags, at)


def _unit(artifact: Artifact) -> str:
    """Who multiplies: a warpgroup, or a thread of a warp by tcgen05."""
    return "warp" if "tcgen05" in artifact.chip.units else "warpgroup"


def _units(artifact: Artifact) -> int:
    """How many a CTA has."""
    each = WARP_THREADS if _unit(artifact) == "warp" else WARPGROUP_THREADS
    return artifact.threads // each


def _several(artifact: Artifact) -> int:
    """Threads of a CTA from which on several may multiply for one tile."""
    return MMA_WARPS if _unit(artifact) == "warp" else CONSUMERS


def _weights(artifact: Artifact, tags: Tags) -> Iterator[float]:
    if tags.by in ("warpgroup", "warp"):
        yield from (tags.weight(0, number) for number in range(_units(artifact)))
    elif tags.by == "CTA":
        x, y, z = artifact.grid
        yield from (tags.weight(number, 0) for number in range(x * y * z))
    else:
        yield 1.0


def compared(
    tags: Tags,
    problem: Problem,
    artifact: Artifact,
    out: dict[str, torch.Tensor],
    inputs: list[torch.Tensor],
    partial: bool,
) -> Comparison:
    """The outputs against what tagged products make of the inputs, all of weight 1."""
    if not problem.multiplied:
        return trial.compared(problem, artifact, out, inputs, partial)
    taken, rest = _taken(problem, inputs, tags), inputs[problem.multiplied :]
    absolute = 2 * problem.absolute(artifact.problem[2])
    if problem.operands:
        pairs = zip(*(problem.operands(*one, *rest) for one in taken), strict=True)
        A, B = (torch.cat(pair, 1) for pair in pairs)
        (D,) = out.values()
        if not problem.mistaken:
            return reference.compare(D, A, B, partial)
        return reference.compare_values(D, product(A, B), absolute, partial)
    both = [torch.cat(pair, -1).float() for pair in zip(*taken, strict=True)]
    found = [
        reference.compare_values(trial.matrix(values), trial.matrix(one), absolute, partial)
        for values, one in zip(out.values(), problem.values(*both, *rest), strict=True)
    ]
    return reference.several(found)


def _taken(problem: Problem, inputs: list[torch.Tensor], tags: Tags) -> list[list[torch.Tensor]]:
    """What is multiplied, as each of the two numbers that a tagged ``wgmma`` takes for one."""
    signs = torch.from_numpy(tags.signs)
    return [[_signed(values, signs[:, i]) for values in inputs[: problem.multiplied]] for i in range(2)]


def _sums(
    problem: Problem, inputs: list[torch.Tensor], tags: Tags, at: tuple[torch.Tensor, torch.Tensor]
) -> Callable[[float], torch.Tensor]:
    """The elements at these places as tagged products of a weight make them."""
    taken, many = _taken(problem, inputs, tags), problem.multiplied
    if problem.operands:
        rows, columns = at
        pairs = [problem.operands(*one, *inputs[many:]) for one in taken]
        sums = torch.stack([(A[rows].double() * B[columns].double()).sum(1) for A, B in pairs]).sum(0)
        return lambda weight: sums * weight
    A, *others = (torch.cat(pair, -1).float() for pair in zip(*taken, strict=True))
    return lambda weight: trial.matrix(problem.values(A * weight, *others, *inputs[many:])[0])[at].double()


def _signed(values: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """fp16 or e4m3 numbers, each by the sign of its bit pattern."""
    if values.dtype == torch.float8_e4m3fn:
        flipped = values.float() * signs[values.view(torch.uint8).int()]
        return flipped.to(values.dtype)
    return values * signs[values.view(torch.int16).int() & 0xFFFF]
