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
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.findings import Findings
from course_utils.run.emulator.explain.places import Place, Places, line_of, note
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

    # at which instruction, which case, its values, about which barriers
    Told: TypeAlias = tuple[int, str, dict[str, Any], tuple[MBarrier, ...]]

# Findings that a read of another stage than the one waited for leads to, and a load to another one.
READS = {"read-before-load", "uninitialised-read"}
LEADS = READS | {"overwrite-before-use", "overwrite-while-read", "deadlock", "phase-lapped"}


@dataclass(slots=True)
class Tiles:
    """What comes to the shared memory of one CTA, and what is multiplied there."""

    cta: CTA
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

    def place(self, at: int) -> Place:
        return self.cta.machine.unit(Places).place(at)

    def line(self, at: int) -> Cause | None:
        """ " (line 12)", where an author's line is known."""
        return line_of(self.place(at))

    def signals(self) -> dict[str, dict[int, dict[MBarrier, tuple[int, Warp]]]]:
        """What is loaded, by tensor and then by offset."""
        tensors: dict[str, dict[int, dict[MBarrier, tuple[int, Warp]]]] = {}
        for name, offset in sorted(self.loaded):
            tensors.setdefault(name, {})[offset] = self.loaded[name, offset]
        return tensors

    def brought(self, name: str, offsets: Iterable[int], low: int) -> int | None:
        """Where the load of this tensor began that has brought byte ``low``."""
        offset = max((offset for offset in offsets if offset <= low), default=None)
        return offset if offset is not None and low < offset + self.extents[name, offset] else None

    def reads_of(self, name: str, offsets: Iterable[int]) -> list[tuple[MBarrier, int, int]]:
        """Each multiplication that reads a tensor: the barrier waited for before it, its instruction, and
        where the load that it reads began.
        """
        begins = [(waited, at, self.brought(name, offsets, low)) for (waited, low), at in self.reads.items()]
        return [(waited, at, offset) for waited, at, offset in begins if offset is not None]


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
        return self._tiles.setdefault(cta, Tiles(cta))

    def clear(self) -> None:
        """A cluster has ended."""
        self._tiles.clear()

    def _load_issued(self, event: LoadIssued) -> None:
        path, load, view = event.path, event.load, event.load.view
        tiles, barrier, key = self.of(load.cta), load.barrier, (view.name, load.offset)
        mine = [one for one in account(barrier).loads if one is not load and one.path.warp is path.warp]
        # round its loop
        again = mine and mine[0].view is view and load.offset in [one.offset for one in mine]
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


def lead(machine: Machine, cluster: Cluster) -> None:
    """Put what is wrong with a stage before what that leads to. Where nothing was found, keep a read of
    another stage than the one waited for: it explains wrong numbers.
    """
    findings, stages = machine.unit(Findings), machine.unit(Stages)
    if (first := findings.first) is None:
        _explain(machine, cluster)
        return
    for tiles in map(stages.of, cluster.ctas):
        told = None
        if first.kind in LEADS:
            told = _load_elsewhere(tiles) or _other_turn(tiles)
        if told is None and first.kind in READS:
            told = _read_elsewhere(tiles)
        if told is not None:
            at, case, values, barriers = told
            findings.find(Cause("stage-mismatch", case, values), at, about=barriers, first=True)
            return
        if first.cause.case == "reads nothing" and first.why is None:
            if (written := _unread(tiles)) is not None:
                place = findings.place(written)
                first.why = Cause(first.kind, "nothing reads a line's writes", {"line": place.line})
                first.notes += (note("what nothing reads", place),)
                return


def _explain(machine: Machine, cluster: Cluster) -> None:
    """Keep the first thing that would explain wrong numbers."""
    stages = machine.unit(Stages)
    if stages.mismatch is not None:
        return
    every = [stages.of(cta) for cta in cluster.ctas]
    told, kind = _same_tiles(every), "same-tiles"
    for tiles in every:
        if told is None:
            told, kind = _other_swizzle(tiles), "swizzle-mismatch"
        if told is None and machine.unit(Fills).unread():
            told, kind = _read_elsewhere(tiles), "stage-unread"
    if told is not None:
        at, case, values, barriers = told
        stages.mismatch = at, Cause(kind, case, values), barriers


def _unread(tiles: Tiles) -> int | None:
    """The one line of the author's whose copies or loads to shared memory nothing has read: an instruction of
    it. None where there is none, or several.
    """
    lines: dict[int, int] = {}
    taken, shadow = set[int](), tiles.cta.machine.unit(Races).of(tiles.cta.shared)
    used = [(at, shadow.anything_read(offsets)) for at, offsets in shadow.wrote.items()]
    for (name, offset), signals in tiles.loaded.items():
        end = offset + tiles.extents[name, offset]
        used.append((next(iter(signals.values()))[0], any(offset <= low < end for _, low in tiles.reads)))
    for at, read in used:
        line = tiles.place(at).line
        if read:
            taken.add(line)
        lines.setdefault(line, at)
    left = [at for line, at in lines.items() if line and line not in taken]
    return left[0] if len(left) == 1 else None


def _same_tiles(every: list[Tiles]) -> Told | None:
    """All CTAs of a cluster get the same tiles of each operand, by multicast."""
    boxes, *others = (tiles.boxes for tiles in every)
    tensors = {name for name, _ in boxes}
    if not others or len(tensors) < 2 or any(other.keys() != boxes.keys() for other in others):
        return None
    lines = sorted({every[0].place(at).line for at in boxes.values()})
    where = Cause("", "of lines", {"lines": ", ".join(map(str, lines))}) if all(lines) else None
    values = {"tensors": " and ".join(sorted(tensors)), "lines": where}
    return next(iter(boxes.values())), "the same tiles for both", values, ()


def _other_swizzle(tiles: Tiles) -> Told | None:
    """A tile is loaded by a map of one swizzle, and read by a descriptor of another."""
    maps = {view.name: view.map for view in tiles.cta.machine.unit(TensorMaps).given.values()}
    for name, offset in sorted(one for one in tiles.loaded if one[0] in maps):
        loaded = maps[name].swizzle
        for low, (swizzle, read) in tiles.swizzles.items():
            if loaded != swizzle and tiles.brought(name, [offset], low) is not None:
                load, _ = next(iter(tiles.loaded[name, offset].values()))
                values: dict[str, Any] = {
                    "tensor": name,
                    "loaded": SWIZZLES[loaded],
                    "read": SWIZZLES[swizzle],
                }
                values["line"] = tiles.line(read)
                return load, "loaded and read with two swizzles", values, ()
    return None


def _slots(places: dict[int, dict[MBarrier, tuple[int, Warp]]]) -> dict[int, int]:
    """Of a tensor whose loads have filled all slots of its ring: the slot, by the offset in shared memory. A
    slot may take several loads, one after the other; of slots that lie between one another none is told.
    """
    stages = {barrier for signals in places.values() for barrier in signals}
    loads, rest = divmod(len(places), len(stages))
    whole = len(stages) == names.stage_of(min(stages, key=lambda barrier: barrier.offset))[2]
    between = loads > 2 and not any(one.keys() & other.keys() for one, other in pairwise(places.values()))
    if not loads or rest or not whole or len(stages) == 1 or between:
        return {}
    return {offset: i // loads for i, offset in enumerate(places)}


def _load_elsewhere(tiles: Tiles) -> Told | None:
    """A load goes to another slot than that of the barrier that it signals, and a multiplication after a wait
    for that barrier reads another one.
    """
    for name, places in tiles.signals().items():
        slots = _slots(places)
        reads = tiles.reads_of(name, slots)
        if all(waited in places[offset] for waited, _, offset in reads):
            continue  # each reads what was loaded for it, wherever that lies
        for offset, slot in slots.items():
            for barrier, (at, warp) in places[offset].items():
                after = ((read, slots[begin]) for waited, read, begin in reads if waited is barrier)
                read, other = next(after, (-1, slot))
                if slot == names.stage_of(barrier)[1] or other == slot:
                    continue
                values = {"who": names.who([warp], tiles.cta), "tensor": name, "slot": slot, "read": other}
                values |= {"barrier": names.plain(barrier), "line": tiles.line(read)}
                return at, "loaded into one slot, read from another", values, (barrier,)
    return None


def _read_elsewhere(tiles: Tiles) -> Told | None:
    """A multiplication reads what loads for other barriers than the one that it waited for last bring."""
    for name, places in tiles.signals().items():
        stages = {barrier for signals in places.values() for barrier in signals}
        for waited, at, offset in tiles.reads_of(name, places):
            if waited not in stages or waited in places[offset]:
                continue
            barrier, (load, _) = next(iter(places[offset].items()))
            multiply = [warp for warp in tiles.cta.warps if warp.unit(Issued).count]
            wait = next((at for warp in multiply for b, at in role(warp).takes if b is waited), -1)
            values = {"tensor": name, "barrier": names.plain(barrier), "load": tiles.line(load)}
            values |= {"waited": names.plain(waited), "wait": tiles.line(wait)}
            here, there = tiles.place(wait), tiles.place(at)
            below = here.file == there.file and here.line > there.line > 0
            case = "read before the round's wait" if below else "read after a wait for another"
            return at, case, values, (waited, barrier)
    return None


def _other_turn(tiles: Tiles) -> Told | None:
    """The stages are waited for in another order than they are filled. Rings of different tensors have no
    order among each other, whatever array their barriers lie in.
    """
    brings: dict[MBarrier, set[str]] = {}
    for (name, _), barriers in tiles.loaded.items():
        for barrier in barriers:
            brings.setdefault(barrier, set()).add(name)

    def ring_of(barrier: MBarrier) -> tuple[str, frozenset[str]]:
        return names.array_of(barrier), frozenset(brings[barrier])

    for array, tensors in dict.fromkeys(ring_of(barrier) for barrier, _, _ in tiles.fills):
        fills = [fill for fill in tiles.fills if ring_of(fill[0]) == (array, tensors)]
        # a wait for what nobody has loaded is any ring's
        takers = {
            warp: mine
            for warp, takes in _takers(tiles.cta, array).items()
            if (mine := [take for take in takes if brings.get(take[0], tensors) == tensors])
        }
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
            values: dict[str, Any] = {
                "takers": names.who(takers, tiles.cta),
                "loader": names.who([loader], tiles.cta),
            }
            values |= {"waited": names.plain(waited), "filled": names.plain(filled), "nth": names.nth(i)}
            if stage != i % count:
                values["line"] = tiles.line(load)
                return wait, "waited for in another order", values, (filled, waited)
            values["line"] = tiles.line(wait)
            return load, "filled in another order", values, (filled, waited)
    return None


def _takers(cta: CTA, array: str) -> dict[Warp, list[tuple[MBarrier, int]]]:
    """Who multiplies or will, and the barriers of this array that each has waited for, or waits for now."""
    takers = {}
    waits = [(path, barrier) for barrier in mbarriers(cta).values() for path in barrier.waiting]
    for warp in cta.warps:
        now = [(barrier, path.at) for path, barrier in waits if path.warp is warp]
        takes = [(b, at) for b, at in role(warp).takes + now if b.cta is cta and names.array_of(b) == array]
        if takes and names.of_role(warp) != "producer":
            takers[warp] = takes
    return takers
