"""Which stage and which swizzle each side takes: where loads and those who multiply disagree, both are named.

A ring's order is 0, 1, 2, ... and again: who departs from it is to blame. All of it is read once a cluster
has ended, or cannot go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from course_utils.artifact import SWIZZLES
from course_utils.cause import Cause
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.accounts import account
from course_utils.run.emulator.explain.facts import Facts
from course_utils.run.emulator.explain.findings import Findings
from course_utils.run.emulator.explain.places import Places
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.units.mbarrier import mbarriers
from course_utils.run.emulator.units.tensormaps import TensorMaps
from course_utils.run.emulator.units.tma import LoadIssued
from course_utils.run.emulator.units.wgmma import Issued, OperandRead
from course_utils.tma.layouts import UNIT

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Cluster, Warp
    from course_utils.run.emulator.units.mbarrier import MBarrier
    from course_utils.run.emulator.units.views import Coordinates

    Told: TypeAlias = tuple[
        int, str, dict[str, Any], tuple[MBarrier, ...]
    ]  # at which instruction, which case, its values, about which barriers

# Findings that a read of another stage than the one waited for leads to, and a load to another one.
READS = {"read-before-load", "uninitialised-read"}
LEADS = READS | {"overwrite-before-use", "overwrite-while-read", "deadlock", "phase-lapped"}


@dataclass(slots=True)
class Tiles:
    """What comes to the shared memory of one CTA, and what is multiplied there."""

    # by tensor and offset: the barriers that loads signal, with the load's instruction and warp
    loaded: dict[tuple[str, int], dict[MBarrier, tuple[int, Warp]]] = field(default_factory=dict)
    extents: dict[tuple[str, int], int] = field(default_factory=dict)  # the bytes that each takes
    # by where wgmma read: the swizzle of its descriptor, and where
    swizzles: dict[int, tuple[int, int]] = field(default_factory=dict)
    # what multicast brings, and its instruction
    boxes: dict[tuple[str, Coordinates], int] = field(default_factory=dict)
    # each fill by a warp of this CTA, in order
    fills: list[tuple[MBarrier, int, Warp]] = field(default_factory=list)
    # wgmma's reads, by the barrier waited for last and where they begin: the instruction
    reads: dict[tuple[MBarrier, int], int] = field(default_factory=dict)


class Stages:
    """Keeps the tiles of a cluster's CTAs. ``mismatch`` explains wrong numbers: at which instruction, what,
    and about which barriers.
    """

    def __init__(self, machine: Machine) -> None:
        self.mismatch: tuple[int, Cause, tuple[MBarrier, ...]] | None = None
        self._tiles: dict[CTA, Tiles] = {}
        machine.probe.listen(LoadIssued, self._load_issued)
        machine.probe.listen(OperandRead, self._operand_read)

    def of(self, cta: CTA) -> Tiles:
        return self._tiles.setdefault(cta, Tiles())

    def clear(self) -> None:
        """A cluster has ended."""
        self._tiles.clear()

    def _load_issued(self, event: LoadIssued) -> None:
        path, load, view = event.path, event.load, event.load.view
        tiles, barrier, key = self.of(load.cta), load.barrier, (view.name, load.offset)
        others = [one for one in account(barrier).loads if one is not load]
        mine = [one for one in others if one.path.warp is path.warp]
        again = (
            mine and mine[0].view is view and load.offset in [one.offset for one in mine]
        )  # round its loop
        if path.cta is load.cta and (not mine or again):
            tiles.fills.append((barrier, path.at, path.warp))
        tiles.loaded.setdefault(key, {}).setdefault(barrier, (path.at, path.warp))
        tiles.extents[key] = view.extent
        if event.multicast:
            tiles.boxes.setdefault((view.name, load.coordinates), path.at)

    def _operand_read(self, event: OperandRead) -> None:
        path, low = event.path, event.low * UNIT
        tiles = self.of(path.cta)
        if (waited := role(path.warp).waited) is not None:
            tiles.reads.setdefault((waited[0], low), path.at)
        tiles.swizzles.setdefault(low, (event.swizzle, path.at))


def _of(cta: CTA) -> Tiles:
    return cta.machine.unit(Stages).of(cta)


def lead(machine: Machine, cluster: Cluster) -> None:
    """Put what is wrong with a stage before what that leads to. Where nothing was found, keep a read of
    another stage than the one waited for: it explains wrong numbers.
    """
    findings = machine.unit(Findings)
    first = next(iter(findings.found.values()), None)
    if first is None:
        _explain(machine, cluster)
        return
    for cta in cluster.ctas:
        told = None
        if first.kind in LEADS:
            told = _load_elsewhere(machine, cta) or _other_turn(machine, cta)
        if told is None and first.kind in READS:
            told = _read_elsewhere(machine, cta)
        if told is not None:
            at, case, values, barriers = told
            findings.find(Cause("stage-mismatch", case, values), at, about=barriers, first=True)
            return
        if first.cause.case == "reads nothing" and first.why is None:
            written = _unread(machine, cta)
            if written is not None:
                place = findings.place(written)
                first.why = Cause(first.kind, "nothing reads a line's writes", {"line": place.line})
                first.notes += (Cause(first.kind, "what nothing reads", {"at": place}),)
                return


def _explain(machine: Machine, cluster: Cluster) -> None:
    """Keep the first thing that would explain wrong numbers."""
    stages = machine.unit(Stages)
    if stages.mismatch is not None:
        return
    told, kind = _same_tiles(machine, cluster), "same-tiles"
    for cta in cluster.ctas:
        if told is None:
            told, kind = _other_swizzle(machine, cta), "swizzle-mismatch"
        if told is None and machine.unit(Facts).unread():
            told, kind = _read_elsewhere(machine, cta), "stage-unread"
    if told is not None:
        at, case, values, barriers = told
        stages.mismatch = at, Cause(kind, case, values), barriers


def _unread(machine: Machine, cta: CTA) -> int | None:
    """The one line of the author's whose copies or loads to shared memory nothing has read: an instruction of
    it. None where there is none, or several.
    """
    lines: dict[int, int] = {}
    taken, tiles, shadow = set[int](), _of(cta), machine.unit(Races).of(cta.shared)
    for at, offsets in shadow.wrote.items():
        line = machine.unit(Places).place(at).line
        if shadow.anything_read(offsets):
            taken.add(line)
        lines.setdefault(line, at)
    for (name, offset), signals in tiles.loaded.items():
        at = next(iter(signals.values()))[0]
        line = machine.unit(Places).place(at).line
        if any(offset <= low < offset + tiles.extents[name, offset] for _, low in tiles.reads):
            taken.add(line)
        lines.setdefault(line, at)
    left = [at for line, at in lines.items() if line and line not in taken]
    return left[0] if len(left) == 1 else None


def _same_tiles(machine: Machine, cluster: Cluster) -> Told | None:
    """All CTAs of a cluster get the same tiles of each operand, by multicast."""
    boxes, *others = (_of(cta).boxes for cta in cluster.ctas)
    tensors = {name for name, _ in boxes}
    if not others or len(tensors) < 2 or any(other.keys() != boxes.keys() for other in others):
        return None
    lines = sorted({machine.unit(Places).place(at).line for at in boxes.values()})
    where = Cause("", "of lines", {"lines": ", ".join(map(str, lines))}) if all(lines) else None
    values = {"tensors": " and ".join(sorted(tensors)), "lines": where}
    return next(iter(boxes.values())), "the same tiles for both", values, ()


def _other_swizzle(machine: Machine, cta: CTA) -> Told | None:
    """A tile is loaded by a map of one swizzle, and read by a descriptor of another."""
    maps = {view.name: view.map for view in machine.unit(TensorMaps).given.values()}
    for name, offset in sorted(_of(cta).loaded):
        for low, (swizzle, read) in _of(cta).swizzles.items():
            if (
                name not in maps
                or maps[name].swizzle == swizzle
                or _loaded_at(cta, name, [offset], low) is None
            ):
                continue
            load, _ = next(iter(_of(cta).loaded[name, offset].values()))
            values = {
                "tensor": name,
                "loaded": SWIZZLES[maps[name].swizzle],
                "read": SWIZZLES[swizzle],
                "line": _line(machine, read),
            }
            return load, "loaded and read with two swizzles", values, ()
    return None


def _line(machine: Machine, at: int) -> Cause | None:
    """ " (line 12)", where an author's line is known."""
    place = machine.unit(Places).place(at)
    return Cause("", "in a line", {"at": place}) if place.line else None


def _below(machine: Machine, wait: int, read: int) -> bool:
    """Does the author's line of a wait stand below that of a read?"""
    here, there = machine.unit(Places).place(wait), machine.unit(Places).place(read)
    return here.file == there.file and here.line > there.line > 0


def _slots(cta: CTA) -> dict[str, dict[int, int]]:
    """Of each tensor whose loads have filled all slots of its ring: the slot, by the offset in shared memory.
    A slot may take several loads, one after the other; of slots that lie between one another none is told.
    """
    rings = {}
    for name in sorted({name for name, _ in _of(cta).loaded}):
        places = {offset: signals for (other, offset), signals in _of(cta).loaded.items() if other == name}
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
        if all(waited in _of(cta).loaded[name, at] for waited, at in _reads_of(cta, name, slots)):
            continue  # each reads what was loaded for it, wherever that lies
        for offset, slot in slots.items():
            for barrier, (at, warp) in _of(cta).loaded[name, offset].items():
                read = _read_after(cta, barrier, name, slots)
                if slot == names.stage_of(barrier)[1] or read is None or read[1] == slot:
                    continue
                values = {
                    "who": names.who([warp], cta),
                    "tensor": name,
                    "barrier": names.plain(barrier),
                    "slot": slot,
                    "line": _line(machine, read[0]),
                    "read": read[1],
                }
                return at, "loaded into one slot, read from another", values, (barrier,)
    return None


def _reads_of(cta: CTA, name: str, offsets: Iterable[int]) -> list[tuple[MBarrier, int]]:
    """Each barrier that a multiplication waited for, with where the load that it reads began."""
    begins = [(waited, _loaded_at(cta, name, offsets, low)) for waited, low in _of(cta).reads]
    return [(waited, offset) for waited, offset in begins if offset is not None]


def _read_after(cta: CTA, barrier: MBarrier, name: str, slots: dict[int, int]) -> tuple[int, int] | None:
    """A multiplication that reads a tensor after a wait for this barrier: where, and which slot."""
    for (waited, low), at in _of(cta).reads.items():
        offset = _loaded_at(cta, name, slots, low)
        if waited is barrier and offset is not None:
            return at, slots[offset]
    return None


def _loaded_at(cta: CTA, name: str, offsets: Iterable[int], low: int) -> int | None:
    """Where the load of this tensor began that has brought byte ``low``."""
    offset = max((offset for offset in offsets if offset <= low), default=None)
    return offset if offset is not None and low < offset + _of(cta).extents[name, offset] else None


def _read_elsewhere(machine: Machine, cta: CTA) -> Told | None:
    """A multiplication reads what loads for other barriers than the one that it waited for last bring."""
    for name in sorted({name for name, _ in _of(cta).loaded}):
        offsets = [offset for other, offset in _of(cta).loaded if other == name]
        stages = {barrier for offset in offsets for barrier in _of(cta).loaded[name, offset]}
        for (waited, low), at in _of(cta).reads.items():
            offset = _loaded_at(cta, name, offsets, low)
            if offset is None or waited not in stages or waited in _of(cta).loaded[name, offset]:
                continue
            barrier, (load, _) = next(iter(_of(cta).loaded[name, offset].items()))
            multiply = [warp for warp in cta.warps if warp.unit(Issued).count]
            waits = [at for warp in multiply for b, at in role(warp).takes if b is waited]
            values = {
                "tensor": name,
                "barrier": names.plain(barrier),
                "load": _line(machine, load),
                "waited": names.plain(waited),
                "wait": _line(machine, waits[0]) if waits else None,
            }
            below = bool(waits) and _below(machine, waits[0], at)
            case = "read before the round's wait" if below else "read after a wait for another"
            return at, case, values, (waited, barrier)
    return None


def _other_turn(machine: Machine, cta: CTA) -> Told | None:
    """The stages are waited for in another order than they are filled."""
    for array in dict.fromkeys(names.array_of(barrier) for barrier, _, _ in _of(cta).fills):
        fills = [fill for fill in _of(cta).fills if names.array_of(fill[0]) == array]
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
            values = {
                "takers": names.who(takers, cta),
                "waited": names.plain(waited),
                "loader": names.who([loader], cta),
                "filled": names.plain(filled),
                "nth": names.nth(i),
            }
            if stage != i % count:
                values["line"] = _line(machine, load)
                return wait, "waited for in another order", values, (filled, waited)
            values["line"] = _line(machine, wait)
            return load, "filled in another order", values, (filled, waited)
    return None


def _takers(machine: Machine, cta: CTA, array: str) -> dict[Warp, list[tuple[MBarrier, int]]]:
    """Who multiplies or will, and the barriers of this array that each has waited for, or waits for now."""
    takers = {}
    for warp in cta.warps:
        waits = [
            (p.waits_for.barrier, p.at) for b in mbarriers(cta).values() for p in b.waiting if p.warp is warp
        ]
        takes = [(b, at) for b, at in role(warp).takes + waits if b.cta is cta and names.array_of(b) == array]
        if takes and names.of_role(warp) != "producer":
            takers[warp] = takes
    return takers
