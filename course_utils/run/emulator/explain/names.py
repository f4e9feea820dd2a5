"""What findings call things: barriers by the learner's names, warps by what they do, a CTA only where it is
another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.cause import Warps, Who
from course_utils.ptx import paths

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Warp
    from course_utils.run.emulator.units.mbarrier import MBarrier

# TileLang's CUDA has a shared variable for each array of barriers, by the learner's name: empty_mem of empty.
_VARIABLE = re.compile(r"E\d+(\w+)_mem$")
# CuTe DSL's pipelines name none of their barriers: which one a call takes.
_CALLS = {
    "consumer_wait": "full",
    "consumer_try_wait": "full",
    "tma_bar_ptr": "full",
    "consumer_release": "empty",
}
# The line that makes a pipeline and initialises its barriers.
_PIPELINE = re.compile(r"[Pp]ipeline|\.create\(")


def of_barrier(barrier: MBarrier) -> str:
    """``full[1]``: the learner's array and index, else full or empty by use, in address order."""
    array, index, count = _placed(barrier)
    python = "\n".join(barrier.cta.machine.artifact.python.values())
    alone = count == 1 and re.search(rf"\b{array}\b", python) and not re.search(rf"\b{array}\s*\[", python)
    return array if alone else f"{array}[{index}]"


def array_of(barrier: MBarrier) -> str:
    """``full`` of ``full[1]``."""
    return _placed(barrier)[0]


def stage_of(barrier: MBarrier) -> tuple[str, int, int]:
    """Its array, its index there, and how many the array has."""
    return _placed(barrier)


def _placed(barrier: MBarrier) -> tuple[str, int, int]:
    own = _given(barrier)
    if own is not None:
        return own
    kinds = _kinds(barrier.cta)
    if barrier not in kinds:  # one that was initialised anew, or that is no mbarrier any more
        now = barrier.cta.mbarriers.get(barrier.offset)
        return _placed(now) if now else ("barrier", 0, 1)
    alike = [b for b in kinds if kinds[b] == kinds[barrier]]
    return kinds[barrier], alike.index(barrier), len(alike)


def arrays(machine: Machine) -> dict[str, tuple[int, int]]:
    """Where each array of barriers that the learner named begins in shared memory, and how many it has."""
    found = {}
    for variable in machine.program.kernel.variables:
        name = _VARIABLE.search(variable.name)
        place = machine.symbols.get(variable.name)
        if name and isinstance(place, tuple) and variable.size >= 8:
            found[name[1]] = place[1], variable.size // 8
    return found


def _given(barrier: MBarrier) -> tuple[str, int, int] | None:
    """Its array, its index and how many the array has, by the learner's name, where there is one."""
    for name, (first, count) in barrier.cta.machine.arrays.items():
        if first <= barrier.offset < first + 8 * count:
            return name, (barrier.offset - first) // 8, count
    return None


def _kinds(cta: CTA) -> dict[MBarrier, str]:
    """ "full" for mbarriers that count bytes, "empty" for those that are only arrived on: whole arrays, as
    they were initialised. Before any bytes are expected, by the role of those who wait. A kernel without
    roles or the word has no "empty".
    """
    machine, kinds, others = cta.machine, dict["MBarrier", str](), list["MBarrier"]()
    counts_bytes = any(b.carries_bytes for b in cta.mbarriers.values())
    barriers = sorted(cta.mbarriers.values(), key=lambda b: b.offset)
    python = machine.artifact.python.values()
    known = machine.program.has_roles or not python or any("empty" in text for text in python)
    for array in _initialised(barriers):
        half, odd = divmod(len(array), 2)
        if _PIPELINE.search(array[0].line[2]) and not odd:
            kinds |= dict.fromkeys(array[:half], "full") | dict.fromkeys(array[half:], "empty")
        elif counts_bytes:
            kind = "full" if any(b.carries_bytes for b in array) else "empty"
            for barrier in array:  # one that nobody has used yet is as those before it
                if barrier.carries_bytes or barrier.account.arrivals:
                    kind = "full" if barrier.carries_bytes else "empty"
                kinds[barrier] = kind if known or kind == "full" else "barrier"
        else:
            others += array
    if len(others) == 1:
        return kinds | {others[0]: "full"}
    waiting = [next((of_role(p.warp) for p in b.waiting), "") for b in others]
    if "producer" not in waiting or "consumer" not in waiting:
        return kinds | dict.fromkeys(others, "barrier")
    p, c = waiting.index("producer"), waiting.index("consumer")  # one array, then the other
    return kinds | {b: "full" if (i < p if c < p else i >= c) else "empty" for i, b in enumerate(others)}


def _initialised(barriers: list[MBarrier]) -> list[list[MBarrier]]:
    """Arrays of mbarriers in address order: neighbours that one line of the author's initialises, with one
    count. A pipeline is one array: its full barriers, then as many empty ones.
    """
    arrays: list[list[MBarrier]] = []
    for barrier in barriers:
        last = arrays[-1][-1] if arrays else None
        if (
            last is not None
            and last.offset + 8 == barrier.offset
            and last.line == barrier.line
            and barrier.line[1]
            and (last.count == barrier.count or _PIPELINE.search(barrier.line[2]))
        ):
            arrays[-1].append(barrier)
        else:
            arrays.append([barrier])
    return arrays


def array_meant(cta: CTA, at: int) -> str:
    """The barrier array whose address an instruction takes; "" where it cannot be told."""
    machine = cta.machine
    if not machine.arrays:
        code = machine.findings.place(at).code
        return next((array for call, array in _CALLS.items() if call in code), "")
    origins = machine.program.shared_origins
    operands = machine.program.kernel.instructions[at].operands
    variables = set().union(*(paths.tensors_of(o, origins, machine.program.shared) for o in operands))
    meant = {name[1] for variable in variables if (name := _VARIABLE.search(variable))}
    return meant.pop() if len(meant) == 1 and meant <= machine.arrays.keys() else ""


def strayed(barrier: MBarrier, at: int) -> str:
    """ "stage 2 of full, which has 2", where an address that is made from full's is another array's."""
    machine = barrier.cta.machine
    if machine.arrays and _given(barrier) is None:
        return ""
    meant = array_meant(barrier.cta, at)
    if not meant or meant == array_of(barrier):
        return ""
    if machine.arrays:
        first, count = machine.arrays[meant]
    else:  # the two arrays of one pipeline
        alike = [b for b in _kinds(barrier.cta) if array_of(b) == meant and b.line == barrier.line]
        if not alike or not _PIPELINE.search(barrier.line[2]):
            return ""
        first, count = min(b.offset for b in alike), len(alike)
    return f"stage {(barrier.offset - first) // 8} of {meant}, which has {count}"


def outside(cta: CTA, at: int, offset: int) -> str:
    """ "stage 2 of full, which has 2" of an address that lies just past a barrier array, or before one; "" of
    any other.
    """
    known = dict(cta.machine.arrays)
    if not known:
        for barrier in sorted(cta.mbarriers.values(), key=lambda b: b.offset):
            first, count = known.get(array_of(barrier), (barrier.offset, 0))
            known[array_of(barrier)] = first, count + 1
    meant, near = array_meant(cta, at), []
    for array, (first, count) in known.items():
        stage = (offset - first) // 8
        beyond = max(-stage, stage - count + 1)
        if offset % 8 == 0 and 0 < beyond <= max(8, count) and meant in ("", array):
            near.append((beyond, f"stage {stage} of {array}, which has {count}"))
    return min(near)[1] if near else ""


def of_role(warp: Warp) -> str:
    """Its role, where the kernel has roles: warps that load and never multiply."""
    role = warp.role() if warp.cta.machine.program.has_roles else ""
    return "" if role == "worker" else role


def who(warps: Iterable[Warp], home: CTA) -> Who:
    """Warps by role and number, and of which CTA where it is not ``home``."""
    groups: dict[tuple[str, CTA], list[int]] = {}
    for warp in warps:
        groups.setdefault((of_role(warp), warp.cta), []).append(warp.index)
    alike: dict[tuple[str, tuple[int, ...]], list[CTA]] = {}
    for (role, cta), numbers in groups.items():
        alike.setdefault((role, tuple(sorted(set(numbers)))), []).append(cta)
    return Who(
        tuple(
            Warps(role, numbers, () if ctas == [home] else tuple(sorted(cta.number for cta in ctas)))
            for (role, numbers), ctas in alike.items()
        )
    )


def of_warps(warps: Iterable[Warp], home: CTA) -> str:
    """``who`` in words."""
    return str(who(warps, home))


@dataclass(frozen=True)
class Barrier:
    """An mbarrier as a sentence has it: "full[1]", and of which CTA where it is not the one that the sentence
    is about.
    """

    name: str
    cta: int | None = None

    def __str__(self) -> str:
        return self.name + ("" if self.cta is None else f" of CTA {self.cta}")
