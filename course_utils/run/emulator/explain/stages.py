"""Which stage and which swizzle each side takes: where loads and those who multiply disagree, both are named.

A ring's order is 0, 1, 2, ... and again: who departs from it is to blame. All of it is read once a cluster
has ended, or cannot go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from course_utils.artifact import SWIZZLES
from course_utils.cause import Cause
from course_utils.run.emulator.core.memory import NOTHING_WRITTEN
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.accounts import turns
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.units.mbarrier import MBarrier, mbarriers
from course_utils.run.emulator.units.tensormaps import TensorMaps

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA, Cluster
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Warp

    Told: TypeAlias = tuple[
        int, str, tuple[MBarrier, ...]
    ]  # at which instruction, what, about which barriers

# Findings that a read of another stage than the one waited for leads to, and a load to another one.
READS = {"read-before-load", "uninitialised-read"}
LEADS = READS | {"overwrite-before-use", "overwrite-while-read", "deadlock", "phase-lapped"}


def lead(machine: Machine, cluster: Cluster) -> None:
    """Put what is wrong with a stage before what that leads to. Where nothing was found, keep a read of
    another stage than the one waited for: it explains wrong numbers.
    """
    first = next(iter(machine.findings.found.values()), None)
    if first is None and machine.mismatch is None and (told := _same_tiles(machine, cluster)):
        machine.mismatch = "same-tiles", told
    for cta in cluster.ctas:
        if first is None:
            if machine.mismatch is None and (told := _other_swizzle(machine, cta)):
                machine.mismatch = "swizzle-mismatch", told
            if (
                machine.mismatch is None
                and machine.facts.unread()
                and (told := _read_elsewhere(machine, cta))
            ):
                machine.mismatch = "stage-unread", told
            continue
        told = None
        if first.kind in LEADS:
            told = _load_elsewhere(machine, cta) or _other_turn(machine, cta)
        if told is None and first.kind in READS:
            told = _read_elsewhere(machine, cta)
        if told is not None:
            at, text, barriers = told
            machine.findings.add("stage-mismatch", at, text, barriers=barriers, first=True)
            return
        if first.kind == "uninitialised-read" and first.detail.endswith(NOTHING_WRITTEN):
            written = _unread(machine, cta)
            if written is not None:
                place = machine.findings.place(written)
                first.why = Cause(first.kind, "nothing reads a line's writes", {"line": place.line})
                first.notes += (Cause(first.kind, "what nothing reads", {"place": place}),)
                return


def _unread(machine: Machine, cta: CTA) -> int | None:
    """The one line of the author's whose copies or loads to shared memory nothing has read: an instruction of
    it. None where there is none, or several.
    """
    lines: dict[int, int] = {}
    taken = set()
    for at, offsets in cta.shared.wrote.items():
        line = machine.findings.place(at).line
        if cta.shared.anything_read(offsets):
            taken.add(line)
        lines.setdefault(line, at)
    for (name, offset), signals in cta.loaded.items():
        at = next(iter(signals.values()))[0]
        line = machine.findings.place(at).line
        if any(offset <= low < offset + cta.extents[name, offset] for _, low in cta.reads):
            taken.add(line)
        lines.setdefault(line, at)
    left = [at for line, at in lines.items() if line and line not in taken]
    return left[0] if len(left) == 1 else None


def _same_tiles(machine: Machine, cluster: Cluster) -> Told | None:
    """All CTAs of a cluster get the same tiles of each operand, by multicast."""
    first, *others = cluster.ctas
    names_of = {name for name, _ in first.boxes}
    if not others or len(names_of) < 2 or any(cta.boxes.keys() != first.boxes.keys() for cta in others):
        return None
    at = next(iter(first.boxes.values()))
    lines = sorted({machine.findings.place(at).line for at in first.boxes.values()})
    tiles = " and ".join(sorted(names_of))
    where = f" (lines {', '.join(map(str, lines))})" if all(lines) else ""
    text = f"multicast brings both CTAs of the cluster the same tiles of {tiles}{where}"
    return at, f"{text}: each has rows, or columns, of its own to load", ()


def _other_swizzle(machine: Machine, cta: CTA) -> Told | None:
    """A tile is loaded by a map of one swizzle, and read by a descriptor of another."""
    maps = {view.name: view.map for view in machine.unit(TensorMaps).given.values()}
    for name, offset in sorted(cta.loaded):
        for low, (swizzle, read) in cta.swizzles.items():
            if (
                name not in maps
                or maps[name].swizzle == swizzle
                or _loaded_at(cta, name, [offset], low) is None
            ):
                continue
            load, _ = next(iter(cta.loaded[name, offset].values()))
            theirs, its = SWIZZLES[maps[name].swizzle], SWIZZLES[swizzle]
            text = (
                f"TMA loads {name} with swizzle {theirs}, and wgmma{_line(machine, read)} reads it with {its}"
            )
            return load, f"{text}: do the map and the multiplication take one layout?", ()
    return None


def _line(machine: Machine, at: int) -> str:
    line = machine.findings.place(at).line
    return f" (line {line})" if line else ""


def _below(machine: Machine, wait: int, read: int) -> bool:
    """Does the author's line of a wait stand below that of a read?"""
    here, there = machine.findings.place(wait), machine.findings.place(read)
    return here.file == there.file and here.line > there.line > 0


def _slots(cta: CTA) -> dict[str, dict[int, int]]:
    """Of each tensor whose loads have filled all slots of its ring: the slot, by the offset in shared memory.
    A slot may take several loads, one after the other; of slots that lie between one another none is told.
    """
    rings = {}
    for name in sorted({name for name, _ in cta.loaded}):
        places = {offset: signals for (other, offset), signals in cta.loaded.items() if other == name}
        stages = {barrier for signals in places.values() for barrier in signals}
        loads, rest = divmod(len(places), len(stages))
        whole = len(stages) == names.stage_of(min(stages, key=lambda barrier: barrier.offset))[2]
        offsets = sorted(places)
        between = loads > 2 and not any(places[a].keys() & places[b].keys() for a, b in pairwise(offsets))
        if loads and not rest and whole and len(stages) > 1 and not between:
            rings[name] = {offset: i // loads for i, offset in enumerate(offsets)}
    return rings


def _load_elsewhere(machine: Machine, cta: CTA) -> Told | None:
    """A load goes to another slot than that of the barrier that it signals, and a multiplication after a wait
    for that barrier reads another one.
    """
    for name, slots in _slots(cta).items():
        if all(waited in cta.loaded[name, at] for waited, at in _reads_of(cta, name, slots)):
            continue  # each reads what was loaded for it, wherever that lies
        for offset, slot in slots.items():
            for barrier, (at, warp) in cta.loaded[name, offset].items():
                read = _read_after(cta, barrier, name, slots)
                if slot == names.stage_of(barrier)[1] or read is None or read[1] == slot:
                    continue
                text = (
                    f"{names.of_warps([warp], cta)} loads {name} for {names.of_barrier(barrier)} into slot {slot}, and "
                    f"wgmma{_line(machine, read[0])} reads slot {read[1]} after the wait for "
                    f"{names.of_barrier(barrier)}: which stage index has each?"
                )
                return at, text, (barrier,)
    return None


def _reads_of(cta: CTA, name: str, offsets: Iterable[int]) -> list[tuple[MBarrier, int]]:
    """Each barrier that a multiplication waited for, with where the load that it reads began."""
    begins = [(waited, _loaded_at(cta, name, offsets, low)) for waited, low in cta.reads]
    return [(waited, offset) for waited, offset in begins if offset is not None]


def _read_after(cta: CTA, barrier: MBarrier, name: str, slots: dict[int, int]) -> tuple[int, int] | None:
    """A multiplication that reads a tensor after a wait for this barrier: where, and which slot."""
    for (waited, low), at in cta.reads.items():
        offset = _loaded_at(cta, name, slots, low)
        if waited is barrier and offset is not None:
            return at, slots[offset]
    return None


def _loaded_at(cta: CTA, name: str, offsets: Iterable[int], low: int) -> int | None:
    """Where the load of this tensor began that has brought byte ``low``."""
    offset = max((offset for offset in offsets if offset <= low), default=None)
    return offset if offset is not None and low < offset + cta.extents[name, offset] else None


def _read_elsewhere(machine: Machine, cta: CTA) -> Told | None:
    """A multiplication reads what loads for other barriers than the one that it waited for last bring."""
    for name in sorted({name for name, _ in cta.loaded}):
        offsets = [offset for other, offset in cta.loaded if other == name]
        stages = {barrier for offset in offsets for barrier in cta.loaded[name, offset]}
        for (waited, low), at in cta.reads.items():
            offset = _loaded_at(cta, name, offsets, low)
            if offset is None or waited not in stages or waited in cta.loaded[name, offset]:
                continue
            barrier, (load, _) = next(iter(cta.loaded[name, offset].items()))
            waits = [
                at
                for warp in cta.warps
                for b, at in turns(warp).takes
                if b is waited and role(warp).multiplies
            ]
            wait = _line(machine, waits[0]) if waits else ""
            loaded = f"{names.of_barrier(barrier)}{_line(machine, load)}"
            if waits and _below(machine, waits[0], at):
                text = (
                    f"wgmma reads {name} as loaded for {loaded}, and the last wait by then was for "
                    f"{names.of_barrier(waited)}, in the round before: the wait{wait} stands below the read"
                )
                return at, text, (waited, barrier)
            text = (
                f"wgmma reads {name} as loaded for {loaded}, and the wait before it{wait} is for "
                f"{names.of_barrier(waited)}: which stage index has each?"
            )
            return at, text, (waited, barrier)
    return None


def _other_turn(machine: Machine, cta: CTA) -> Told | None:
    """The stages are waited for in another order than they are filled."""
    for array in dict.fromkeys(names.array_of(barrier) for barrier, _, _ in cta.fills):
        fills = [fill for fill in cta.fills if names.array_of(fill[0]) == array]
        takers = _takers(machine, cta, array)
        if not takers:
            continue
        takes = next(iter(takers.values()))
        for i in range(min(len(fills), *map(len, takers.values()))):
            filled, load, loader = fills[i]
            waited, wait = takes[i]
            if any(mine[i][0] is not waited for mine in takers.values()):
                break  # they share the ring
            if filled is waited:
                continue
            _, stage, count = names.stage_of(waited)
            nth = {0: "first", 1: "2nd", 2: "3rd"}.get(i, f"{i + 1}th")
            waits = (
                f"{names.of_warps(takers, cta)} wait{'s' * (len(takers) == 1)} for {names.of_barrier(waited)}"
            )
            loads = f"{names.of_warps([loader], cta)} fills {names.of_barrier(filled)}"
            ends = "does each count its stages alike?"
            if stage != i % count:
                text = f"{waits} as the {nth} stage, and {loads} as the {nth}{_line(machine, load)}: {ends}"
                return wait, text, (filled, waited)
            text = f"{loads} as the {nth} stage, and {waits} as the {nth}{_line(machine, wait)}: {ends}"
            return load, text, (filled, waited)
    return None


def _takers(machine: Machine, cta: CTA, array: str) -> dict[Warp, list[tuple[MBarrier, int]]]:
    """Who multiplies or will, and the barriers of this array that each has waited for, or waits for now."""
    takers = {}
    for warp in cta.warps:
        waits = [
            (p.waits_for.barrier, p.at) for b in mbarriers(cta).values() for p in b.waiting if p.warp is warp
        ]
        takes = [
            (b, at) for b, at in turns(warp).takes + waits if b.cta is cta and names.array_of(b) == array
        ]
        if takes and names.of_role(warp) != "producer":
            takers[warp] = takes
    return takers
