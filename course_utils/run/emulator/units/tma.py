"""The TMA engine: boxes of a tensor map between global and shared memory, swizzled, multicast, late and in
pieces.

PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "Tensor copy", "Tensors" (bounding boxes,
out-of-bounds access, swizzling modes). A load is issued by one thread and lands when the schedule says: in
pieces, out of order, each piece signalling its bytes to the mbarrier. A store reads shared memory as late as
its wait_group.read allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from course_utils.artifact import DATA_TYPES, SWIZZLE_BYTES
from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import addresses, memory
from course_utils.run.emulator.core.order import AGENT_BITS
from course_utils.run.emulator.core.state import Ends
from course_utils.run.emulator.core.threads import Touched
from course_utils.run.emulator.isa.arithmetic import UNSIGNED, split_type
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value, items_of
from course_utils.run.emulator.units import tensormaps
from course_utils.run.emulator.units.cp_async import waited_for
from course_utils.run.emulator.units.mbarrier import find_barrier, mbarriers
from course_utils.run.emulator.units.pixels import PixelView, View
from course_utils.run.emulator.units.red_async import ReductionIssued, same_cta
from course_utils.run.emulator.units.reductions import CLUSTER, GLOBAL, reduced, type_of_map
from course_utils.run.emulator.units.views import Coordinates, PlainView, TensorView, TiledView
from course_utils.tma.layouts import UNIT, base_alignment

if TYPE_CHECKING:
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Path, Warp
    from course_utils.run.emulator.units.mbarrier import MBarrier

_MODES = ("tile", "im2col")  # of a transfer, PTX ISA
COMMIT = "cp.async.bulk.commit_group"
Reduction: TypeAlias = tuple[str, str] | None  # the operation, and the type that it takes the bytes for
# where bulk copies go, and where from
_WAYS = {
    *(("global", "shared::cta"), ("shared::cluster", "global"), ("shared::cta", "global")),
    ("shared::cluster", "shared::cta"),
}


@dataclass(slots=True)
class LoadBegins:
    """A path is about to issue a load."""

    path: Path


@dataclass(slots=True)
class LoadTargeted:
    """A load is about to be issued that fills shared memory of ``cta`` from ``offset`` on, and signals
    ``barrier``.
    """

    path: Path
    view: View
    cta: CTA
    offset: int
    barrier: MBarrier


@dataclass(slots=True)
class LoadIssued:
    """A load is on its way into one CTA."""

    path: Path
    load: Load
    multicast: bool


@dataclass(slots=True)
class LoadsIssued:
    """All loads of one instruction and lane have been issued: one for each CTA."""

    path: Path
    loads: list[Load]
    multicast: bool


@dataclass(slots=True)
class LoadLanded:
    """The last bytes of a load have landed; its mbarrier has not been told of them."""

    load: Load


@dataclass(slots=True)
class SharedRead:
    """A bulk copy reads bytes ``low`` to ``high`` of shared memory. It is done once this phase of the
    mbarrier that it signals is.
    """

    path: Path
    region: memory.SharedMemory
    low: int
    high: int
    barrier: MBarrier
    phase: int


@dataclass(slots=True)
class StoreIssued:
    """A store was issued by a lane; it has not joined the lane's open stores yet."""

    path: Path
    store: Store
    lane: int


@dataclass(slots=True)
class StoreRead:
    """A store has read shared memory: ``path`` has waited for it, or ends."""

    path: Path
    store: Store


@dataclass(slots=True)
class StoresCommitted:
    """A commit_group: these stores form a group."""

    path: Path
    stores: list[Store]


@dataclass(slots=True)
class StoresAwaited:
    """A path is at a wait_group; its warp has not committed the stores in ``open``."""

    path: Path
    open: list[Store]


@dataclass(slots=True)
class StoresWaited:
    """A lane's wait_group has covered some stores."""

    path: Path


class BulkGroups(Ends):
    """A warp's stores by lane: those not committed, and the groups committed and not waited for."""

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.open: dict[int, list[Store]] = {}
        self.groups: dict[int, list[list[Store]]] = {}
        self.writes: dict[int, Writes] = {}  # of each lane

    def writes_of(self, lane: int) -> Writes:
        if lane not in self.writes:
            self.writes[lane] = Writes(self.warp.cta.cluster.order.new_agent())
        return self.writes[lane]

    def warp_ended(self, path: Path) -> None:
        """Stores that nobody has waited for still read."""
        if not (self.groups or self.open):
            return
        committed = [store for groups in self.groups.values() for group in groups for store in group]
        still_open = [store for stores in self.open.values() for store in stores]
        for store in committed + still_open:
            if not store.done:
                path.at = store.at
                case = "a warp ends with an open store" if store in still_open else "a warp ends with a store"
                path.report("exit-in-flight", case, who=path.warp, instruction=COMMIT)
                store.finish(path)


class Writes:
    """What a lane's stores write to global memory: an agent whose time is how many have been issued.
    ``groups`` are those times at each commit_group that no wait has covered, but those with ``.read``.
    """

    def __init__(self, agent: int) -> None:
        self.agent, self.time, self.groups = agent, 0, list[int]()

    def next(self) -> int:
        """The code of one more store."""
        self.time += 1
        return self.time << AGENT_BITS | self.agent

    def complete(self, clock: Clock, left: int) -> None:
        """PTX ISA, "Async proxy": what a completed operation has written is visible, as behind a fence."""
        if done := waited_for(self.groups, left):
            self.groups = self.groups[len(done) :]
            clock.seen[self.agent] = clock.fenced_global[self.agent] = done[-1]


class Load:
    """A TMA load on its way into one CTA: so many of its units are ``left`` to land."""

    # fmt: off
    __slots__ = (
        "path", "at", "view", "coordinates", "cta", "offset", "barrier", "phase", "data", "left",
    )
    # fmt: on

    def __init__(
        self,
        path: Path,
        view: View,
        coordinates: Coordinates,
        cta: CTA,
        offset: int,
        barrier: MBarrier,
        phase: int,
    ) -> None:
        self.path, self.at, self.view, self.coordinates = path, path.at, view, coordinates
        self.cta, self.offset, self.barrier, self.phase = cta, offset, barrier, phase
        self.data: np.ndarray | None = None  # read when the first piece lands
        self.left = view.units

    def land(self, begin: int, end: int) -> None:
        """Units [begin, end) of the box arrive, and their bytes are signalled."""
        data = self.data if self.data is not None else self.view.read(self.coordinates)
        self.place(data, begin, end)
        self.left -= end - begin
        self.data = data if self.left else None
        machine = self.cta.machine
        if not self.left:
            self.landed()
        machine.progress += 1
        at, self.path.at = self.path.at, self.at
        self.barrier.landed(self.path, (end - begin) * UNIT, self.phase)
        self.path.at = at

    def landed(self) -> None:
        """The last unit is there."""
        self.cta.machine.probe.emit(LoadLanded(self))

    def place(self, data: np.ndarray, begin: int, end: int) -> None:
        """Units [begin, end) of ``data`` into shared memory."""
        first = self.offset // UNIT
        if not isinstance(self.view, PlainView) and self.view.swizzle:
            where = self.view.places(first % 64)[begin:end]
            self.cta.shared.units[first - first % 64 :][where] = data[begin:end]
        else:
            self.cta.shared.units[first + begin : first + end] = data[begin:end]


class Store:
    """A TMA store: it reads shared memory when it is waited for, and no sooner. ``reduces``: the operation
    and the type of what is done with what is there.
    """

    __slots__ = ("view", "coordinates", "cta", "offset", "done", "at", "reduces", "code")

    def __init__(
        self,
        view: TiledView,
        coordinates: Coordinates,
        cta: CTA,
        offset: int,
        at: int,
        reduces: Reduction = None,
        code: int = 0,
    ) -> None:
        self.code = code  # of Order, for what it writes
        self.view, self.coordinates, self.cta, self.offset = view, coordinates, cta, offset
        self.at, self.done, self.reduces = at, False, reduces

    def finish(self, path: Path) -> None:
        if self.done:
            return
        self.done = True
        first, units = self.offset // UNIT, self.cta.shared.units
        if isinstance(self.view, TensorView) and self.view.swizzle:
            data = units[first - first % 64 :][self.view.places(first % 64)]
        else:
            data = units[first : first + self.view.units].copy()
        if self.reduces:
            self.view.reduce(self.coordinates, data, *self.reduces)
        else:
            self.view.write(self.coordinates, data)
        path.machine.probe.emit(StoreRead(path, self))


def _view_of(path: Path, address: int) -> TensorView | PixelView:
    """The tensor map behind a map operand's address."""
    machine = path.machine
    given = machine.unit(tensormaps.TensorMaps).given
    view = given.get(address - memory.PARAMETERS) or tensormaps.view_at(path, address)
    if view.broken:
        path.halt("tensor-map", "a broken tensor map", tensor=view.name, why=view.broken[0])
    return view


def words_of(view: View, offset: int) -> slice | np.ndarray:
    """The 4-byte words of shared memory that a tile at ``offset`` covers: a slice, or their numbers where
    rows leave gaps.
    """
    if isinstance(view, PlainView) or view.extent == view.bytes:
        return slice(offset >> 2, (offset + view.bytes) >> 2)
    first = offset // UNIT
    return ((first - first % 64 + view.places(first % 64))[:, None] * 4 + np.arange(4)).reshape(-1)


def _check_tile(path: Path, view: View, cta: CTA, offset: int) -> None:
    values: dict[str, Any] = {"tensor": view.name, "offset": offset}
    if offset % view.alignment:
        path.halt("misaligned", "a misaligned tile", alignment=view.alignment, **values)
    swizzle = view.swizzle
    if swizzle and offset % base_alignment(swizzle):
        values |= {"swizzle": SWIZZLE_BYTES[swizzle], "alignment": base_alignment(swizzle)}
        path.report("swizzle-alignment", "a swizzled tile", **values)
    if offset < 0 or offset + view.extent > cta.shared.size:
        path.halt("out-of-bounds", "a TMA transfer outside", view=view, cta=cta, offset=offset)


def _issue(
    path: Path,
    lane: int,
    view: View,
    coordinates: Coordinates,
    to: Value,
    signals: Value,
    multicast: Value,
    pair: bool = False,
) -> list[Load]:
    """Issue one load by one lane: where to, the mbarrier that it signals, and a multicast mask or None. One
    for each CTA. ``pair``: a multicast signals, in each CTA's pair, the CTA whose rank is as even as the
    mbarrier's. PTX ISA, "cp.async.bulk.tensor", .cta_group.
    """
    cluster, probe = path.cta.cluster, path.machine.probe
    home, offset = cluster.cta_of(path, memory.pick(to, lane))
    barrier_home, barrier_offset = cluster.cta_of(path, memory.pick(signals, lane))
    targets = [(home, barrier_home)]
    if multicast is not None:
        ranks = memory.pick(multicast, lane)
        if ranks >> cluster.size:
            path.halt("cluster-rank", "a multicast mask", who=path.warp, mask=ranks, size=cluster.size)
        if pair and cluster.size % 2:
            path.halt("cluster-rank", "a pair of one CTA loads", who=path.warp)
        ctas, odd = cluster.ctas, barrier_home.rank & 1
        owners = [ctas[cta.rank & ~1 | odd] if pair else cta for cta in ctas]
        targets = [(cta, owners[cta.rank]) for cta in ctas if ranks >> cta.rank & 1]
    probe.emit(LoadBegins(path))
    loads = []
    for cta, owner in targets:
        _check_tile(path, view, cta, offset)
        barrier = mbarriers(owner).get(barrier_offset)
        if barrier is None:
            case = "a load signals no mbarrier"
            path.halt("barrier-uninitialised", case, offset=barrier_offset, cta=owner.number)
        probe.emit(LoadTargeted(path, view, cta, offset, barrier))
        at_home = isinstance(view, PlainView) and multicast is None and cta is owner is path.cta
        phase = barrier.load_issued(path, view.bytes, documented=at_home)
        if cta is not path.cta:
            probe.emit(Touched(path, cta, barrier.agent, phase + 1))
        load = Load(path, view, coordinates, cta, offset, barrier, phase)
        loads.append(load)
        path.machine.fly(load, view.units)
        probe.emit(LoadIssued(path, load, multicast is not None))
    probe.emit(LoadsIssued(path, loads, multicast is not None))
    path.machine.progress += 1
    return loads


def _release_store(
    path: Path, lane: int, view: TiledView, coordinates: Coordinates, address: int, reduces: Reduction = None
) -> None:
    cta, offset = path.cta.cluster.cta_of(path, address)
    _check_tile(path, view, cta, offset)
    groups = path.warp.unit(BulkGroups)
    store = Store(view, coordinates, cta, offset, path.at, reduces, groups.writes_of(lane).next())
    path.machine.probe.emit(StoreIssued(path, store, lane))
    groups.open.setdefault(lane, []).append(store)
    path.machine.progress += 1


def tensor(instruction: Instr) -> Lowered:
    parts, operands = instruction.opcode, list(instruction.operands)
    rank = int(next(p for p in parts if p in ("1d", "2d", "3d", "4d", "5d"))[0])
    if any(p.startswith(("im2col_", "im2col::", "tile::")) for p in parts):
        raise ValueError("stores in im2col mode, gather and scatter")
    pair = "cta_group::2" in parts
    parts = tuple(p for p in parts if not p.startswith("cta_group"))  # DSLs write it at different places
    if any("cache_hint" in p for p in parts):
        operands.pop()
    operation = next((p for p in parts if p in GLOBAL), "") if parts[1] == "reduce" else ""
    if parts[1] == "reduce" and not operation:
        raise ValueError("no reduction")
    if parts[5 + bool(operation)] == "global":
        target, source = operands
        _check_coordinates(target, rank)

        def store(p: Path, m: Mask, where: Value, address: Value) -> None:
            seen = set()
            for lane in memory.lanes_of(m):
                view = _view_of(p, memory.pick(where[0], lane))
                coordinates = _coordinates(p, view, where[1], lane, rank, store=True)
                assert isinstance(view, TensorView)
                key = coordinates, memory.pick(address, lane)
                reduces = None
                if view.leaves_end(coordinates):
                    known: dict[str, Any] = {"who": p.warp, "tensor": view.name, "count": view.spilled}
                    p.report("out-of-bounds", "a store past the end", **known)
                if operation:
                    data_type = DATA_TYPES[view.map.data_type]
                    reduces = operation, type_of_map(operation, data_type)
                    if not reduces[1]:
                        values = {"operation": operation, "type": data_type, "tensor": view.name}
                        p.halt("tensor-map", "a reduction of another type", who=p.warp, **values)
                if (
                    key not in seen or reduces
                ):  # lanes that store the same box to the same place store it once
                    seen.add(key)
                    _release_store(p, lane, view, coordinates, key[1], reduces)

        return Lowered("warp", store, sources=((target, 64), (source, 32)), cut=True)
    pixels = "im2col" in parts
    target, source, barrier, *mask = operands
    offsets = items_of(mask.pop(0)) if pixels else ()
    _check_coordinates(source, rank)
    if pixels and len(offsets) != rank - 2:
        raise ValueError(f"{len(offsets)} offsets of {rank - 2}")
    if len(mask) != ("multicast::cluster" in parts):
        raise ValueError("other operands than its opcode says")

    def load(p: Path, m: Mask, address: Value, where: Value, barrier_address: Value, *more: Value) -> None:
        ranks = more[-1] if mask else None
        for lane in memory.lanes_of(m):
            view = _view_of(p, memory.pick(where[0], lane))
            coordinates = _coordinates(p, view, where[1], lane, rank, pixels=pixels)
            coordinates += tuple(memory.pick(o, lane) for o in more[: len(offsets)])
            _issue(p, lane, view, coordinates, address, barrier_address, ranks, pair)

    halves = ((o, 16) for o in (*offsets, *mask))
    return Lowered("warp", load, sources=((target, 32), (source, 64), (barrier, 32), *halves), cut=True)


def _check_coordinates(operand: Any, rank: int) -> None:
    if len(operand.coordinates) != rank:
        raise ValueError(f"{len(operand.coordinates)} coordinates of {rank}")


def _coordinates(
    path: Path,
    view: TensorView | PixelView,
    values: Sequence[Value],
    lane: int,
    rank: int,
    store: bool = False,
    pixels: bool = False,
) -> Coordinates:
    if isinstance(view, PixelView) != pixels:
        path.halt("tensor-map", "another mode", who=path.warp, tensor=view.name, asks=_MODES[pixels])
    if view.map.rank != rank or len(values) != rank:
        path.halt("tensor-map", "another rank", rank=rank, tensor=view.name, has=view.map.rank)
    numbers = (memory.pick(v, lane) for v in values)
    coordinates = tuple(v - (1 << 32) if v >> 31 else v for v in numbers)
    known: dict[str, Any] = {"who": path.warp, "tensor": view.name, "coordinates": str(coordinates)}
    if coordinates[0] * view.element % UNIT:  # both limits: tma.transfers
        path.halt("tensor-map", "an inner coordinate", bytes=coordinates[0] * view.element, **known)
    if store and min(coordinates) < 0:
        path.halt("tensor-map", "a store coordinate", **known)
    return coordinates


def _plain(p: Path, space: str, address: int, count: int) -> PlainView:
    if count % UNIT or not count:
        p.halt("misaligned", "a bulk copy's size", who=p.warp, count=count)
    region, offset = addresses.locate(p, None, address, space, UNIT)
    if offset + count > region.size:
        what = region.describe(offset + count - 1)
        p.halt("out-of-bounds", "a bulk copy outside", who=p.warp, what=what)
    return PlainView(region, offset, count)


def _shared_read(
    path: Path, view: PlainView, region: memory.SharedMemory, barrier: MBarrier, phase: int
) -> None:
    low = view.offset
    path.machine.probe.emit(SharedRead(path, region, low, low + view.bytes, barrier, phase))


def bulk(instruction: Instr) -> Lowered:
    """cp.async.bulk: a run of bytes, a multiple of 16; and cp.reduce.async.bulk to global memory."""
    parts, operands = instruction.opcode, list(instruction.operands)
    if any("cache_hint" in p for p in parts):
        operands.pop()
    if "cp_mask" in parts:
        raise ValueError("a byte mask")
    reduces: Reduction = None
    if parts[1] == "reduce":
        parts = parts[:1] + parts[2:]
        reduces = next(p for p in parts if p in GLOBAL), parts[-1]
        if parts[-1] not in (GLOBAL if parts[3] == "global" else CLUSTER)[reduces[0]]:
            raise ValueError(f"{reduces[0]} of {parts[-1]}")
        if (parts[-1] in ("f16", "bf16") and reduces[0] == "add") != ("noftz" in parts):
            raise ValueError(".noftz, which an addition of halves has, and no other")
        if parts[3] != "global":
            return _reduce_in_cluster(operands, reduces)
    to, source_space = parts[3], parts[4]
    if (to, source_space) not in _WAYS:
        raise ValueError(f"{to} from {source_space}")

    if to == "global":
        target, source, size = operands

        def store(p: Path, m: Mask, where: Value, address: Value, count: Value) -> None:
            for lane in memory.lanes_of(m):
                view = _plain(p, "global", memory.pick(where, lane), memory.pick(count, lane))
                _release_store(p, lane, view, (), memory.pick(address, lane), reduces)

        return Lowered("warp", store, sources=((target, 64), (source, 32), (size, 32)), cut=True)
    target, source, size, barrier, *mask = operands
    if len(mask) != ("multicast::cluster" in parts):
        raise ValueError("other operands than its opcode says")

    def load(
        p: Path,
        m: Mask,
        address: Value,
        where: Value,
        count: Value,
        barrier_address: Value,
        ranks: Value = None,
    ) -> None:
        for lane in memory.lanes_of(m):
            view = _plain(p, source_space, memory.pick(where, lane), memory.pick(count, lane))
            for one in _issue(p, lane, view, (), address, barrier_address, ranks):
                if isinstance(view.region, memory.SharedMemory):
                    _shared_read(p, view, view.region, one.barrier, one.phase)

    return Lowered(
        "warp",
        load,
        sources=((target, 32), (source, 64), (size, 32), (barrier, 32), *((o, 16) for o in mask)),
        cut=True,
    )


class ReducingLoad(Load):
    """Bytes of one CTA on their way into what another CTA's shared memory holds."""

    __slots__ = ("reduces",)
    reduces: tuple[str, str]

    def landed(self) -> None:
        """Nobody is told: it is no load of a tile."""

    def place(self, data: np.ndarray, begin: int, end: int) -> None:
        _, bits = split_type(self.reduces[1])
        held = self.cta.shared.units[self.offset // UNIT + begin : self.offset // UNIT + end]
        numbers: np.ndarray = held.reshape(-1).view(UNSIGNED[bits])
        given: np.ndarray = np.ascontiguousarray(data[begin:end]).reshape(-1).view(UNSIGNED[bits])
        numbers[:] = reduced(*self.reduces, numbers, given)


def _reduce_in_cluster(operands: Sequence[Any], reduces: tuple[str, str]) -> Lowered:
    """cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.OP.TYPE."""
    target, source, size, barrier = operands

    def function(
        p: Path, m: Mask, address: Value, where: Value, count: Value, barrier_address: Value
    ) -> None:
        for lane in memory.lanes_of(m):
            view = _plain(p, "shared::cta", memory.pick(where, lane), memory.pick(count, lane))
            assert isinstance(view.region, memory.SharedMemory)
            home, offset = p.cta.cluster.cta_of(p, memory.pick(address, lane))
            _check_tile(p, view, home, offset)
            signalled = find_barrier(p, memory.pick(barrier_address, lane), touches=False)
            same_cta(p, home, signalled)
            phase = signalled.load_issued(p, view.bytes)
            _shared_read(p, view, view.region, signalled, phase)
            p.machine.probe.emit(ReductionIssued(p, home.shared, offset, view.bytes, signalled, phase))
            if home is not p.cta:
                p.machine.probe.emit(Touched(p, home, signalled.agent, phase + 1))
            load = ReducingLoad(p, view, (), home, offset, signalled, phase)
            load.reduces = reduces
            p.machine.fly(load, view.units)
            p.machine.progress += 1

    sources = (target, 32), (source, 32), (size, 32), (barrier, 32)
    return Lowered("warp", function, sources=sources, cut=True)


def commit(instruction: Instr) -> Lowered:
    def function(p: Path, m: Mask) -> None:
        bulk = p.warp.unit(BulkGroups)
        lanes = [lane for lane in memory.lanes_of(m) if lane in bulk.open or lane in bulk.groups]
        stores = [store for lane in lanes for store in bulk.open.get(lane, ())]
        p.machine.probe.emit(StoresCommitted(p, stores))
        for lane in lanes:
            bulk.groups.setdefault(lane, []).append(bulk.open.pop(lane, []))
            writes = bulk.writes_of(lane)
            writes.groups.append(writes.time)

    return Lowered("warp", function, cut=True)


def wait(instruction: Instr) -> Lowered:
    left, whole = instruction.operands[0].value, "read" not in instruction.opcode

    def function(p: Path, m: Mask) -> None:
        bulk, probe = p.warp.unit(BulkGroups), p.machine.probe
        probe.emit(StoresAwaited(p, [store for stores in bulk.open.values() for store in stores]))
        for lane in memory.lanes_of(m) if bulk.groups else ():
            if whole and lane in bulk.writes:
                bulk.writes[lane].complete(p.warp.clock, left)
            mine = bulk.groups.get(lane, [])
            done = waited_for(mine, left)
            for store in (store for group in done for store in group):
                store.finish(p)
            if done:
                bulk.groups[lane] = mine[len(done) :]
                probe.emit(StoresWaited(p))

    return Lowered("warp", function, cut=True)
