"""What findings call things: barriers by the learner's names, warps by what they do, a CTA only where it is
another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from course_utils.cause import Warps, Who
from course_utils.ptx import paths
from course_utils.run.emulator.explain.accounts import account
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.explain.places import Places
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.units.mbarrier import MBarrier, mbarriers

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Warp

# TileLang's CUDA has a shared variable for each array of barriers, by the learner's name: empty_mem of empty.
_VARIABLE = re.compile(r"E\d+(\w+)_mem$")
# CuTe DSL's pipelines name none of their barriers: which one a call takes.
_CALLS = {
    "consumer_wait": "full",
    "consumer_try_wait": "full",
    "tma_bar_ptr": "full",
    "consumer_release": "empty",
    "producer_commit": "full",
}
Kinds: TypeAlias = "Callable[[CTA], dict[MBarrier, str]]"
# The line that makes a pipeline and initialises its barriers.
_PIPELINE = re.compile(r"[Pp]ipeline|\.create\(")
# ... and the line that initialises barriers of the author's own, by their name
_OWN = re.compile(r"mbarrier_init\(\s*(\w+)\s*[+,]")
# one that no load signals has the learner's name beside that of the ring
_ACCUMULATORS = re.compile(r"(\w+)\s*=\s*(?:pipeline\.)?PipelineUmmaAsync\.create\(")
# The line that initialises one alone has the learner's name.
_ALONE = re.compile(r"\bmbarrier_init\((\w+),")


def ordered(cta: CTA) -> list[MBarrier]:
    """A CTA's mbarriers in address order."""
    return sorted(mbarriers(cta).values(), key=lambda barrier: barrier.offset)


def of_barrier(barrier: MBarrier, kinds: Kinds | None = None) -> str:
    """``full[1]``: the learner's array and index, else full or empty by use, in address order. ``kinds`` is
    ``kinds_of``, or what remembers its answers.
    """
    array, index, count = _placed(barrier, kinds or kinds_of)
    python = "\n".join(barrier.cta.machine.artifact.python.values())
    alone = count == 1 and re.search(rf"\b{array}\b", python) and not re.search(rf"\b{array}\s*\[", python)
    return array if alone else f"{array}[{index}]"


def array_of(barrier: MBarrier, kinds: Kinds | None = None) -> str:
    """``full`` of ``full[1]``."""
    return _placed(barrier, kinds or kinds_of)[0]


def stage_of(barrier: MBarrier) -> tuple[str, int, int]:
    """Its array, its index there, and how many the array has."""
    return _placed(barrier, kinds_of)


def _placed(barrier: MBarrier, kinds_of: Kinds) -> tuple[str, int, int]:
    own = _given(barrier)
    if own is not None:
        return own
    kinds = kinds_of(barrier.cta)
    if barrier not in kinds:  # one that was initialised anew, or that is no mbarrier any more
        now = mbarriers(barrier.cta).get(barrier.offset)
        return _placed(now, kinds_of) if now else ("barrier", 0, 1)
    alike = [b for b in kinds if kinds[b] == kinds[barrier] and _given(b) is None]
    return kinds[barrier], alike.index(barrier), len(alike)


class Arrays:
    """Where each array of barriers that the learner named begins in shared memory, and how many it has."""

    def __init__(self, machine: Machine) -> None:
        self.named: dict[str, tuple[int, int]] = {}
        for variable in machine.program.kernel.variables:
            name = _VARIABLE.search(variable.name)
            place = machine.symbols.get(variable.name)
            if name and isinstance(place, tuple) and variable.size >= 8:
                self.named[name[1]] = place[1], variable.size // 8


def _arrays(cta: CTA) -> dict[str, tuple[int, int]]:
    return cta.machine.unit(Arrays).named


def _alike(one: MBarrier, other: MBarrier) -> bool:
    """Does one line of the author's initialise both?"""
    a, b = account(one).place, account(other).place
    return (a.line, a.file, a.code) == (b.line, b.file, b.code)


def _given(barrier: MBarrier) -> tuple[str, int, int] | None:
    """Its array, its index and how many the array has, by the learner's name, where there is one."""
    for name, (first, count) in _arrays(barrier.cta).items():
        if first <= barrier.offset < first + 8 * count:
            return name, (barrier.offset - first) // 8, count
    alone = _ALONE.search(account(barrier).place.code)
    if alone is None or account(barrier).carries_bytes:
        return None
    alike = [one for one in mbarriers(barrier.cta).values() if _alike(one, barrier)]
    return (alone[1], 0, 1) if alike == [barrier] else None


def kinds_of(cta: CTA) -> dict[MBarrier, str]:
    """ "full" for mbarriers that count bytes, "empty" for those that are only arrived on: whole arrays, as
    they were initialised. Before any bytes are expected, by the role of those who wait. A kernel without
    roles or the word has no "empty". One that counts no bytes has the name that its init gives it, if there
    is one.
    """
    machine, kinds, others = cta.machine, dict["MBarrier", str](), list["MBarrier"]()
    barriers = ordered(cta)
    seen = {barrier: account(barrier) for barrier in barriers}
    counts_bytes = any(one.carries_bytes for one in seen.values())
    python = machine.artifact.python.values()
    known = ahead(machine.program).has_roles or not python or any("empty" in text for text in python)
    for array in _initialised(barriers):
        half, odd = divmod(len(array), 2)
        if _PIPELINE.search(seen[array[0]].place.code) and not odd:
            own = "" if any(seen[b].carries_bytes for b in array) else _variable(seen[array[0]].place.code)
            kinds |= dict.fromkeys(array[:half], f"{own}full") | dict.fromkeys(array[half:], f"{own}empty")
        elif counts_bytes:
            kind = "full" if any(seen[b].carries_bytes for b in array) else "empty"
            for barrier in array:  # one that nobody has used yet is as those before it
                if seen[barrier].carries_bytes or seen[barrier].arrivals:
                    kind = "full" if seen[barrier].carries_bytes else "empty"
                kinds[barrier] = kind if known or kind == "full" else "barrier"
            own = _own(array[0], barriers)
            kinds |= {b: own for b in array if own and kinds[b] != "full"}
        else:
            others += array
    if len(others) == 1:
        return kinds | {others[0]: _own(others[0], barriers) or "full"}
    waiting = [next((of_role(p.warp) for p in b.waiting), "") for b in others]
    if "producer" not in waiting or "consumer" not in waiting:
        return kinds | {barrier: _own(barrier, barriers) or "barrier" for barrier in others}
    p, c = waiting.index("producer"), waiting.index("consumer")  # one array, then the other
    return kinds | {b: "full" if (i < p if c < p else i >= c) else "empty" for i, b in enumerate(others)}


def _variable(code: str) -> str:
    """ "accs." of the line that makes a pipeline of accumulators and calls it so; "" of any other."""
    made = _ACCUMULATORS.match(code)
    return f"{made[1]}." if made else ""


def _own(barrier: MBarrier, barriers: list[MBarrier]) -> str:
    """``done`` of ``mbarrier_init(done + i, 1)``; "" where the line names none, or one that also has full
    barriers.
    """

    def name(one: MBarrier) -> str:
        found = _OWN.search(account(one).place.code)
        return found[1] if found else ""

    loaded = {name(one) for one in barriers if account(one).carries_bytes}
    return "" if name(barrier) in loaded else name(barrier)


def _initialised(barriers: list[MBarrier]) -> list[list[MBarrier]]:
    """Arrays of mbarriers in address order: neighbours that one line of the author's initialises, with one
    count. A pipeline is one array: its full barriers, then as many empty ones; a line may make several.
    """
    arrays: list[list[MBarrier]] = []
    for barrier in barriers:
        last = arrays[-1][-1] if arrays else None
        if (
            last is not None
            and last.offset + 8 == barrier.offset
            and _alike(last, barrier)
            and account(barrier).place.line
            and (last.count == barrier.count or _PIPELINE.search(account(barrier).place.code))
            and not (last.count != arrays[-1][0].count == barrier.count)  # the next pipeline begins
        ):
            arrays[-1].append(barrier)
        else:
            arrays.append([barrier])
    return arrays


def array_meant(cta: CTA, at: int) -> str:
    """The barrier array whose address an instruction takes; "" where it cannot be told."""
    machine, named = cta.machine, _arrays(cta)
    if not named:
        code = machine.unit(Places).place(at).code
        array = next((array for call, array in _CALLS.items() if call in code), "")
        caller = re.search(r"(\w+)\.(?:consumer|producer)_", code)
        own = f"{caller[1]}.{array}" if caller else array
        return own if array and own in kinds_of(cta).values() else array
    code_ahead = ahead(machine.program)
    origins = code_ahead.shared_origins
    operands = machine.program.kernel.instructions[at].operands
    variables = set().union(*(paths.tensors_of(o, origins, code_ahead.shared) for o in operands))
    meant = {name[1] for variable in variables if (name := _VARIABLE.search(variable))}
    return meant.pop() if len(meant) == 1 and meant <= named.keys() else ""


@dataclass(frozen=True)
class Stage:
    """A stage of an array of mbarriers that has ``count``: "stage 2 of full"."""

    array: str
    stage: int
    count: int

    def __str__(self) -> str:
        return f"stage {self.stage} of {self.array}"


def strayed(barrier: MBarrier, at: int) -> Stage | None:
    """Stage 2 of full, which has 2, where an address that is made from full's is another array's."""
    named = _arrays(barrier.cta)
    if named and _given(barrier) is None:
        return None
    meant = array_meant(barrier.cta, at)
    if not meant or meant == array_of(barrier):
        return None
    if named:
        first, count = named[meant]
    else:  # the two arrays of one pipeline
        alike = [b for b in kinds_of(barrier.cta) if array_of(b) == meant and _alike(b, barrier)]
        if not alike or not _PIPELINE.search(account(barrier).place.code):
            return None
        first, count = min(b.offset for b in alike), len(alike)
    return Stage(meant, (barrier.offset - first) // 8, count)


def outside(cta: CTA, at: int, offset: int) -> Stage | None:
    """Stage 2 of full, which has 2, of an address that lies just past a barrier array, or before one."""
    known = dict(_arrays(cta))
    if not known:
        for barrier in ordered(cta):
            first, count = known.get(array_of(barrier), (barrier.offset, 0))
            known[array_of(barrier)] = first, count + 1
    meant, near = array_meant(cta, at), []
    for array, (first, count) in known.items():
        stage = (offset - first) // 8
        beyond = max(-stage, stage - count + 1)
        if offset % 8 == 0 and 0 < beyond <= max(8, count) and meant in ("", array):
            near.append((beyond, Stage(array, stage, count)))
    return min(near, key=lambda one: (one[0], str(one[1])))[1] if near else None


def of_role(warp: Warp) -> str:
    """Its role, where the kernel has roles: warps that load and never multiply."""
    name = role(warp).name() if ahead(warp.cta.machine.program).has_roles else ""
    return "" if name == "worker" else name


def who(warps: Iterable[Warp], home: CTA) -> Who:
    """Warps by role and number, and of which CTA where it is not ``home``."""
    groups: dict[tuple[str, CTA], list[int]] = {}
    for warp in warps:
        groups.setdefault((of_role(warp), warp.cta), []).append(warp.index)
    alike: dict[tuple[str, tuple[int, ...]], list[CTA]] = {}
    for (name, cta), numbers in groups.items():
        alike.setdefault((name, tuple(sorted(set(numbers)))), []).append(cta)
    return Who(
        tuple(
            Warps(name, numbers, () if ctas == [home] else tuple(sorted(cta.number for cta in ctas)))
            for (name, numbers), ctas in alike.items()
        )
    )


@dataclass(frozen=True)
class Barrier:
    """An mbarrier as a sentence has it: "full[1]", and of which CTA where it is not the one that the sentence
    is about.
    """

    name: str
    cta: int | None = None

    def __str__(self) -> str:
        return self.name + ("" if self.cta is None else f" of CTA {self.cta}")


def plain(one: MBarrier) -> Barrier:
    """An mbarrier, of whichever CTA."""
    return Barrier(of_barrier(one))


def barrier(one: MBarrier, home: CTA) -> Barrier:
    """An mbarrier, and its CTA where it is not ``home``."""
    return Barrier(of_barrier(one), None if one.cta is home else one.cta.number)


def times(count: int) -> str:
    """How often: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def nth(count: int) -> str:
    """The place of a thing that so many come before: first, 2nd, 3rd."""
    return {0: "first", 1: "2nd", 2: "3rd"}.get(count, f"{count + 1}th")
