"""A kernel at the size that a GPU times: compiled, and held against the sizes that were emulated.

An emulator runs small sizes. What it saw says something of a large one only if that has the same plan. A
class's judge also begins the large one: its first K tiles show whether its pipeline is the same too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile

from course_utils.artifact import Artifact, TensorMap
from course_utils.grading import conditions
from course_utils.grading.conditions import CONDITIONS
from course_utils.grading.found import Found, found
from course_utils.grading.properties import PROPERTIES, Facts
from course_utils.grading.steps import Step
from course_utils.problems import PROBLEMS
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import parse
from course_utils.ptx.receipts import read_ptx
from course_utils.run.backends import Launch

PLAN = "one plan"
K_TILES = 24  # that are begun: every stage of a ring is filled several times
# what they show; how much of D there is, and who takes which tile of it, nobody sees
_OF_K_TILES = {
    *("two stages used", "four stages used", "loads ahead", "loads three ahead", "group in flight"),
    *("producer", "stages released", "K tiles by multicast", "stages released by both CTAs"),
}
# a compiler decides on these by what it unrolls and what it keeps in registers
_OF_NO_PLAN = {
    Family.OTHER,
    Family.GLOBAL_LOAD,
    Family.GLOBAL_STORE,
    Family.LOCAL_STORE,
    Family.BULK_PREFETCH,
}


def begins(step: Step) -> bool:
    """Has it K tiles, and do the first ones show something of what the step requires?"""
    shown = _OF_K_TILES.intersection(map(_of_run, step.requires))
    return bool(PROBLEMS[step.problem].multiplied and shown)


def lacking(
    step: Step, emulated: Sequence[Artifact], real: Launch, facts: Facts | None = None, mbarriers: int = 0
) -> dict[str, Found]:
    """By name: what the step requires and the kernel lacks at its real size, and ``PLAN`` where that is
    another kernel than each of ``emulated``. Where a step has a plan for each size, only the first is asked.
    ``facts`` are those of its first K tiles, None where it was not begun; ``mbarriers`` is how many a CTA
    was seen to have at another size.
    """
    made = real.artifact
    receipt = read_ptx(made.ptx, made.kernel)
    lacks = conditions.unmet(receipt, made, step.requires, step.forbids, mbarriers=mbarriers)
    if "exact maps" not in step.requires and (another := _another_plan(step, emulated, made)):
        now, before = another
        lacks[PLAN] = found("missing", "another-plan", now=now, before=before)
    if facts is not None:
        lacks |= {name: one for name, one in _begun(step, made, facts).items() if name not in lacks}
    return {name: conditions.seen_at(one, real) for name, one in lacks.items()}


def _of_run(name: str) -> str:
    """The property of a run that a requirement is, or is there for; "" for none."""
    return name if name in PROPERTIES else CONDITIONS[name].run if name in CONDITIONS else ""


def _begun(step: Step, a: Artifact, facts: Facts) -> dict[str, Found]:
    """By name: what the first K tiles do not show. Of a run that found something before, that is all."""
    lacks: dict[str, Found] = {}
    for name in step.requires:
        idea = _of_run(name)
        if idea not in _OF_K_TILES or name in CONDITIONS and not CONDITIONS[name].applies_to(a):
            continue
        if not facts.get(PROPERTIES[idea].chances):
            lacks[name] = found("missing", "property-not-seen", requirement=idea)
        elif violated := PROPERTIES[idea].violation(idea, facts, a):
            lacks[name] = violated
    return lacks


def _another_plan(step: Step, emulated: Sequence[Artifact], real: Artifact) -> tuple[str, str] | None:
    """What the real size has of its own, and what the emulated ones have there; None where it has nothing."""
    for now, *before in zip(_plan(step, real), *(_plan(step, one) for one in emulated), strict=True):
        if now not in before:
            return now, " or ".join(dict.fromkeys(before))
    kinds = [_families(one) for one in emulated]
    for kind in sorted(_families(real) - set().union(*kinds)):
        return kind, "none"
    for kind in sorted(set.intersection(*kinds) - _families(real)):
        return f"no {kind}", "some"
    return None


def _plan(step: Step, a: Artifact) -> list[str]:
    """What a kernel decides for all tiles, in words. A persistent grid is a condition; what a CTA holds of a
    row is as long as the row.
    """
    receipt = read_ptx(a.ptx, a.kernel)
    maps = {p.tensor: p.tensor_map for p in a.parameters if p.tensor_map is not None}
    boxes = (f"{name} {_box(one)}" for name, one in maps.items())
    plan = [
        f"{a.threads} threads a CTA",
        f"a cluster of {' x '.join(map(str, a.cluster))}",
        f"{receipt.mbarrier_inits} `mbarrier.init`",
        f"`wgmma` of {', '.join(sorted(receipt.wgmma)) or 'no shape'}",
        f"`wgmma.wait_group` {', '.join(map(str, sorted(receipt.wgmma_waits))) or 'nowhere'}",
        f"`setmaxnreg` {', '.join(sorted(receipt.setmaxnreg)) or 'nowhere'}",
        f"boxes of {', '.join(boxes) or 'no map'}",
    ]
    if step.problem != "softmax of rows":
        plan.append(f"{a.dynamic_shared + a.resources.static_shared:,} bytes of shared memory")
    if "grid grows" in step.requires:
        plan.append(f"{conditions.tile_of_a_cta(a):,.0f} elements of D a CTA")
    return plan


def _box(of: TensorMap) -> str:
    """A map's box without outer modes of one: CuTe DSL leaves a mode out where the tensor has one of it, as
    of a single batch.
    """
    sizes = [str(size) for size in dropwhile(lambda size: size == 1, reversed(of.box))]
    return " x ".join(sizes) or "1"


def _families(a: Artifact) -> set[str]:
    found_there = {family(instruction) for instruction in parse(a.ptx, a.kernel).instructions}
    return {f"{one.name.lower().replace('_', ' ')} instructions" for one in found_there - _OF_NO_PLAN}
