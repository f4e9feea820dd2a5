"""What findings call things: barriers by the learner's names, warps by what they do, a CTA only where it is
another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_utils.run.emulator.barriers import MBarrier
    from course_utils.run.emulator.machine import CTA
    from course_utils.run.emulator.warp import Warp

_INIT = re.compile(r"(\w+)\[(\d+)\]\.init\(")  # TileLang's CUDA keeps the learner's names
# CuTe DSL's pipelines name none of their barriers: which one a call takes.
_CALLS = {
    "consumer_wait": "full",
    "consumer_try_wait": "full",
    "tma_bar_ptr": "full",
    "consumer_release": "empty",
}


def of_barrier(barrier: MBarrier) -> str:
    """``full[1]``: the learner's array and index, else full or empty by use, in address order."""
    array, index, count = _placed(barrier)
    python = "\n".join(barrier.cta.machine.artifact.python.values())
    alone = count == 1 and re.search(rf"\b{array}\b", python) and not re.search(rf"\b{array}\s*\[", python)
    return array if alone else f"{array}[{index}]"


def array_of(barrier: MBarrier) -> str:
    """``full`` of ``full[1]``."""
    return _placed(barrier)[0]


def _placed(barrier: MBarrier) -> tuple[str, int, int]:
    own = _given(barrier)
    if own is not None:
        return *own, sum(1 for b in barrier.cta.mbarriers.values() if (_given(b) or ("",))[0] == own[0])
    kinds = _kinds(barrier.cta)
    alike = [b for b in kinds if kinds[b] == kinds[barrier]]
    return kinds[barrier], alike.index(barrier), len(alike)


def _given(barrier: MBarrier) -> tuple[str, int] | None:
    """The name that the learner gave it, where the generated code has it."""
    found = _INIT.search(barrier.cta.machine.findings.generated_line(barrier.init_at))
    return (found[1], int(found[2])) if found else None


def _kinds(cta: CTA) -> dict[MBarrier, str]:
    """ "full" for mbarriers that count bytes, "empty" for those that are only arrived on. Before any bytes
    are expected, by the role of those who wait. A kernel without roles or the word has no "empty".
    """
    barriers = sorted(cta.mbarriers.values(), key=lambda b: b.offset)
    python = cta.machine.artifact.python.values()
    if any(b.carries_bytes for b in barriers):
        known = cta.machine.program.has_roles or not python or any("empty" in text for text in python)
        arrivals = "empty" if known else "barrier"
        return {b: "full" if b.carries_bytes else arrivals for b in barriers}
    if len(barriers) == 1:
        return dict.fromkeys(barriers, "full")
    waiting = [next((of_role(p.warp) for p in b.waiting), "") for b in barriers]
    if "producer" not in waiting or "consumer" not in waiting:
        return dict.fromkeys(barriers, "barrier")
    p, c = waiting.index("producer"), waiting.index("consumer")  # one array, then the other
    return {b: "full" if (i < p if c < p else i >= c) else "empty" for i, b in enumerate(barriers)}


def _arrays(cta: CTA) -> dict[str, list[int]]:
    """The offsets of each array of barriers."""
    arrays: dict[str, list[int]] = {}
    for barrier in cta.mbarriers.values():
        arrays.setdefault(_placed(barrier)[0], []).append(barrier.offset)
    return arrays


def array_meant(cta: CTA, at: int) -> str:
    """The barrier array that the author's line of an instruction takes; "" where it cannot be told."""
    findings = cta.machine.findings
    arrays = {given[0] for b in cta.mbarriers.values() if (given := _given(b))}
    if arrays:
        words = arrays & set(re.findall(r"(\w+)\[", findings.generated_line(at)))
        return words.pop() if len(words) == 1 else ""
    return next((array for call, array in _CALLS.items() if call in findings.place(at).code), "")


def strayed(barrier: MBarrier, at: int) -> str:
    """ "stage 2 of full, which has 2", where the code says full and the address is another array's."""
    own, cta = _given(barrier), barrier.cta
    meant = array_meant(cta, at) if own else ""
    if own is None or not meant or meant == own[0]:
        return ""
    offsets = _arrays(cta)[meant]
    return f"stage {(barrier.offset - min(offsets)) // 8} of {meant}, which has {len(offsets)}"


def outside(cta: CTA, at: int, offset: int) -> str:
    """ "stage 2 of full, which has 2" of an address that lies just past a barrier array, or before one; "" of
    any other.
    """
    arrays, meant = _arrays(cta), array_meant(cta, at)
    near = []
    for array, offsets in arrays.items():
        stage, count = (offset - min(offsets)) // 8, len(offsets)
        beyond = max(-stage, stage - count + 1)
        if offset % 8 == 0 and 0 < beyond <= max(8, count) and meant in ("", array):
            near.append((beyond, f"stage {stage} of {array}, which has {count}"))
    return min(near)[1] if near else ""


def of_role(warp: Warp) -> str:
    """Its role, where the kernel has roles: warps that load and never multiply."""
    role = warp.role() if warp.cta.machine.program.has_roles else ""
    return "" if role == "worker" else role


def of_warps(warps: Iterable[Warp], home: CTA) -> str:
    """ "consumer warps 4-7", and of which CTA where it is not ``home``."""
    groups: dict[tuple[str, CTA], list[int]] = {}
    for warp in warps:
        groups.setdefault((of_role(warp), warp.cta), []).append(warp.index)
    alike: dict[tuple[str, str], list[CTA]] = {}
    for (role, cta), numbers in groups.items():
        alike.setdefault((role, f"warp{'s' * (len(set(numbers)) > 1)} {spans(numbers)}"), []).append(cta)
    texts = []
    for (role, who), ctas in alike.items():
        where = f" of CTA{'s' * (len(ctas) > 1)} {spans(cta.number for cta in ctas)}"
        texts.append(f"{role} {who}{'' if ctas == [home] else where}".lstrip())
    return " and ".join(texts) or "nobody"


def spans(numbers: Iterable[int]) -> str:
    """0-3, 5 of [0, 1, 2, 3, 5]."""
    parts, numbers = [], sorted(set(numbers))
    while numbers:
        end = 0
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        parts.append(str(numbers[0]) if end == 0 else f"{numbers[0]}-{numbers[end]}")
        numbers = numbers[end + 1 :]
    return ", ".join(parts)
