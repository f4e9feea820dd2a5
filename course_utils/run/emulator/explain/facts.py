"""What a run shows of order: which loads were under way while which tile was multiplied, who stored D, what
ran.

A fact is a count, and most come in pairs: how often a thing could show, and how often it did. Order is
causality order (``order``) and not the order of this run, so every schedule gives the same counts: a load is
under way while a tile is multiplied if the multiplying warps need not have waited for it, and it need not
have waited until they were done.

A *fill* is one phase of an mbarrier with the tensor loads that signal it. A *K tile* is what a warpgroup
multiplies of one fill, or of one each for A and B; it ends where operands of other fills begin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest
from math import ceil, floor, prod
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from course_utils.artifact import WARP_THREADS, WARPGROUP_THREADS
from course_utils.ptx.families import Family, expects_bytes, family
from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core.memory import Tensor
from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.explain.work import Work, WriteBegins
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.access import Atomic
from course_utils.run.emulator.units.mbarrier import Arrived, mbarriers
from course_utils.run.emulator.units.sync import RegistersAsked
from course_utils.run.emulator.units.tma import BulkGroups, LoadsIssued, Store, StoreIssued, StoresWaited
from course_utils.run.emulator.units.views import TensorView
from course_utils.run.emulator.units.wgmma import Began, Issued, Waited, elements_of_slice

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path, Warp
    from course_utils.run.emulator.units.views import Coordinates
    from course_utils.run.emulator.units.wgmma import Warpgroup

WARPS = WARPGROUP_THREADS // WARP_THREADS
ROWS = 64  # of D, in one wgmma
AHEAD = 16  # K tiles after one in which a load in flight is looked for: more than a ring has stages
DISTANCES = (1, 3)  # K tiles that a step's loads are to be ahead: one fewer than its ring has stages
RINGS = (2, 4)  # stages that a step asks for
QUEUED = 0.2  # of a K tile's products that are in flight: it may have several groups
LARGEST_PART = 0.7  # of K that a CTA may have where several share it: two parts may be uneven
WINDOW = 16  # CTAs whose tiles are looked at together
# Rows and columns of tiles that they may read: panels of 2 to 8 tiles make 8 to 12, one row of 12 makes 14
SHARED = 12
# families whose instructions are counted as they run
COUNTED = {
    Family.TENSOR_LOAD,
    Family.MULTICAST_LOAD,
    Family.TENSOR_STORE,
    Family.TENSOR_REDUCE,
    Family.BULK_LOAD,
    Family.BULK_STORE,
    Family.BULK_WAIT,
    Family.CP_ASYNC,
    Family.GLOBAL_LOAD,
    Family.GLOBAL_STORE,
    Family.WGMMA,
    Family.WGMMA_WAIT,
    Family.PROXY_FENCE,
    Family.REMOTE_ARRIVE,
    Family.CLUSTER_BARRIER,
    Family.SETMAXNREG,
    Family.MBARRIER_INIT,
}


def counted(instruction: Instr) -> str:
    """The counter that an instruction adds to as it runs, "" for none."""
    kind = family(instruction)
    if expects_bytes(instruction):
        return "ran EXPECT_TX"
    return f"ran {kind.name}" if kind in COUNTED else ""


@dataclass(slots=True)
class Moment:
    """Where one warp stood: its agent and time, what it had seen, and how far the machine was."""

    agent: int
    time: int
    now: int
    seen: np.ndarray | None = None

    def after(self, other: Moment) -> bool:
        """Must ``other`` have been before?"""
        if self.agent == other.agent:
            return self.now > other.now
        return self.seen is not None and bool(self.seen[other.agent] >= other.time)


@dataclass(slots=True)
class Issue:
    """A tensor load: who issued it and when, and of each target the fill and the bytes."""

    warp: Warp
    moment: Moment
    targets: list[tuple[Fill, int, int]] = field(default_factory=list)
    multicast: bool = False

    def shared(self) -> bool:
        """Does it bring several CTAs what each of them multiplies?"""
        return len(self.targets) > 1 and all(fill.reads(low, high) for fill, low, high in self.targets)


@dataclass(slots=True)
class Fill:
    """The tensor loads of one phase of an mbarrier, and the parts of shared memory that wgmma read of it."""

    code: int  # as SharedMemory.written has it: the mbarrier, and its time once the phase ends
    cta: CTA
    issues: list[Issue] = field(default_factory=list)
    offsets: set[int] = field(default_factory=set)
    readers: set[Warpgroup] = field(default_factory=set)
    read: set[tuple[int, int]] = field(default_factory=set)
    # of each tensor, by the row where a box begins: how many it has, and from which byte to which it lies
    rows: dict[str, dict[int, tuple[int, int, int]]] = field(default_factory=dict)

    def leaves(self) -> bool:
        """Has it a load of which no wgmma has read anything?"""
        begins = sorted(self.offsets)
        taken = {bisect_right(begins, low) for low, _ in self.read}
        return not taken.issuperset(range(1, len(begins) + 1))

    def reads(self, low: int, high: int) -> bool:
        return any(low < end and begin < high for begin, end in self.read)

    def rows_read(self, tensor: str) -> int:
        """How many rows of a tensor has it of which wgmma read?"""
        count = 0.0
        for rows, low, high in self.rows.get(tensor, {}).values():
            at, taken = low, 0
            for begin, end in sorted(self.read):
                taken += max(0, min(end, high) - max(begin, at))
                at = max(at, end)
            count += rows * taken / (high - low)
        return round(count)


@dataclass(slots=True)
class KTile:
    """One K tile of a warpgroup.

    ``clock`` is what its four warps had all seen when they began, ``last`` the number of its last wgmma;
    ``first`` whether a tile of D begins with it, ``queued`` whether a good part of the one before was not yet
    waited for. ``begin`` is the number of its first wgmma, ``products`` how many it multiplies.
    """

    codes: tuple[int, ...]
    operands: list[tuple[int, int]]  # from which byte to which they lie, in the order of the codes
    clock: Clock
    first: bool
    queued: bool
    begin: int
    last: int
    products: int


@dataclass(slots=True)
class Flight:
    """A TMA store of a part of D: when its warp issued it, and when it had waited for it."""

    warp: Warp
    issued: Moment
    waited: Moment | None = None


@dataclass(slots=True)
class Slice:
    """A part of D that a warp stored by TMA. ``tile`` is how many wgmmas it had issued, ``time`` when it
    stored; ``filled`` whether it wrote on before it waited for the store, ``drained`` whether it has waited
    for all its stores, ``waited`` whether it did before it multiplied on.
    """

    tile: int
    time: int
    filled: bool = False
    drained: bool = False
    waited: bool = False


def _stages(tiles: Iterable[KTile]) -> int:
    """How many stages these K tiles came through."""
    return len({tuple(code & AGENT_MASK for code in tile.codes) for tile in tiles})


def _last_first(tiles: list[KTile]) -> int:
    """Where the last tile of D begins among these K tiles."""
    return max((n for n, tile in enumerate(tiles) if tile.first), default=0)


def _elements(view: TensorView, coordinates: Coordinates) -> int:
    """How many elements of its tensor a box has."""
    inside = view.slices(coordinates)
    return 0 if inside is None else prod(extent.stop - extent.start for extent in inside[1])


def _any_stored(stores: Iterable[Iterable[Store]]) -> bool:
    """Does one of these stores write something? A box may lie outside its tensor."""
    return any(
        not isinstance(store.view, TensorView) or _elements(store.view, store.coordinates)
        for some in stores
        for store in some
    )


def _in_flight(warp: Warp) -> bool:
    """Has this warp committed a store that it has not waited for?"""
    return _any_stored(group for groups in warp.unit(BulkGroups).groups.values() for group in groups)


class Facts:
    """Counts of one launch. ``counts`` are complete once the last cluster has ended."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.counts: Counter[str] = Counter()
        # how large the boxes are that were stored or added to: TMA cuts those of a tile at the edge
        self._boxes: dict[tuple[str, Coordinates], int] = {}
        self._stored: set[tuple[str, Coordinates]] = set()
        self._loaded: set[tuple[str, Coordinates]] = set()
        # K tiles that each CTA had multiplied for what it added to a box
        self._added: dict[tuple[str, Coordinates], Counter[int]] = {}
        self._first: dict[int, Coordinates] = {}  # where each CTA's first store to D begins
        self._taken: dict[int, int] = {}  # tiles of D by CTA
        self._multiplied_by: dict[int, int] = {}  # products of each CTA
        self._atomics = 0  # on tensors
        self._second = False  # whether a CTA has a second tile of D
        self._now = 0
        self._clear()
        machine.probe.listen(LoadsIssued, self._issued)
        machine.probe.listen(Began, self._multiplied)
        machine.probe.listen(Waited, self._waited)
        machine.probe.listen(WriteBegins, self._epilogue)
        machine.probe.listen(StoreIssued, self._store_issued)
        machine.probe.listen(StoresWaited, self._drained)
        machine.probe.listen(RegistersAsked, self._registers_asked)
        machine.probe.listen(Arrived, self._arrived)
        machine.probe.listen(Atomic, self._changed)

    def _clear(self) -> None:
        self._fills: dict[int, Fill] = {}  # of this cluster, by code
        self._issues: list[Issue] = []
        # arrivals on mbarriers that no load signals, by mbarrier and its phase
        self._arrivals: dict[int, dict[int, list[tuple[Warp, Moment]]]] = {}
        self._tiles: dict[Warpgroup, list[KTile]] = {}
        self._products: dict[Warpgroup, list[int]] = {}  # of each of its wgmmas
        self._waits: dict[Warp, list[tuple[int, Moment]]] = {}  # with how many wgmmas were done
        self._epilogues: dict[Warp, list[tuple[int, Moment]]] = {}  # with how many wgmmas were issued
        self._sums: Counter[Warp] = Counter()  # that it wrote out
        self._outputs: list[tuple[CTA, Moment]] = []  # tensor stores of CTAs that multiply nothing
        self._flights: list[Flight] = []
        self._slices: dict[Warp, Slice] = {}  # the last one that each warp stored
        self._registers: dict[tuple[CTA, bool], set[int]] = {}  # warps that gave (False) or took (True) some

    def _moment(self, path: Path, seen: bool = False) -> Moment:
        warp = path.warp
        self._now += 1
        return Moment(warp.agent, warp.time, self._now, warp.clock.seen.copy() if seen else None)

    # -- what the engines tell

    def _issued(self, event: LoadsIssued) -> None:
        """A tensor load was issued, to one CTA or to several."""
        view = event.loads[0].view if event.loads else None
        if not isinstance(view, TensorView):
            return
        issue = Issue(event.path.warp, self._moment(event.path, seen=True), multicast=event.multicast)
        self._issues.append(issue)
        for load in event.loads:
            code = (load.phase + 1) << AGENT_BITS | load.barrier.agent
            fill = self._fills.get(code)
            if fill is None:
                fill = self._fills[code] = Fill(code, load.cta)
            fill.issues.append(issue)
            fill.offsets.add(load.offset)
            if len(load.coordinates) > 1:
                box = view.map.extents[1], load.offset, load.offset + load.view.extent
                fill.rows.setdefault(view.name, {})[load.coordinates[1]] = box
            issue.targets.append((fill, load.offset, load.offset + load.view.extent))
        coordinates = event.loads[0].coordinates
        self._leaves("loads", view, coordinates, event.path.cta)
        if (view.name, coordinates) not in self._loaded:
            self._loaded.add((view.name, coordinates))
            self.counts[f"elements of {view.name} loaded"] += _elements(view, coordinates)

    def _multiplied(self, event: Began) -> None:
        """A wgmma begins."""
        group, op, n = event.group, event.operation, event.number
        products = ROWS * op.shape.N * elements_of_slice(op.shape.a)
        self.counts["products multiplied"] += products
        self._products.setdefault(group, []).append(products)
        reads = self.machine.unit(Races).taken_operands()
        codes: list[int] = []
        for written, low, high in reads:
            operand = written[:1].tolist() if len(written) == 1 else np.unique(written).tolist()
            self.counts["operands"] += 1
            self.counts["operands by TMA"] += all(code in self._fills for code in operand)
            for code in operand:
                if code in self._fills:
                    self._fills[code].read.add((low, high))
                    self._fills[code].readers.add(group)
            codes += operand
        if len(reads) == 1:
            self.counts["operands"] += 1
            self.counts["operands in registers"] += 1
        tiles = self._tiles.setdefault(group, [])
        key = tuple(codes)
        operands = [(low, high) for _, low, high in reads]
        if tiles and tiles[-1].codes == key:
            pairs = zip(tiles[-1].operands, operands, strict=True)
            tiles[-1].operands = [(min(a, c), max(b, d)) for (a, b), (c, d) in pairs]
            tiles[-1].last = n
            tiles[-1].products += products
            return
        assert op.clock is not None  # all four warps have joined
        # where registers were cleared instead, it adds to zeros
        anew = not op.accumulate or any(
            isinstance(values, list) and not np.any(values[0]) for values in op.initial.values()
        )
        self.counts["K tiles"] += 1
        self.counts["K tiles begun anew"] += anew
        # one that multiplies the same rows as the last one is of the same tile of D, with a sum of its own
        rows = self._rows(key)
        first = anew and not (tiles and rows and rows == self._rows(tiles[-1].codes))
        flying = [i for numbers in event.path.warp.unit(Issued).groups for i in numbers]
        queued = bool(tiles) and (
            sum(self._products[group][i] for i in flying) >= QUEUED * tiles[-1].products
        )
        tiles.append(KTile(key, operands, op.clock, first, queued, n, n, products))

    def _rows(self, codes: tuple[int, ...]) -> list[tuple[str, list[int]]]:
        """Which rows of which matrices these fills brought; none where a tile came another way."""
        if not all(code in self._fills for code in codes):
            return []
        fills = [self._fills[code] for code in dict.fromkeys(codes)]
        return sorted((name, sorted(rows)) for fill in fills for name, rows in fill.rows.items())

    def _waited(self, event: Waited) -> None:
        """A warp's wait covers some wgmmas of its warpgroup."""
        self._waits.setdefault(event.path.warp, []).append((event.count, self._moment(event.path)))

    def _epilogue(self, event: WriteBegins) -> None:
        """A warp that has multiplied begins to write results."""
        path, warp = event.path, event.path.warp
        self._epilogues.setdefault(warp, []).append((warp.unit(Issued).count, self._moment(path)))
        self._sums[warp] += not event.copies

    def _store_issued(self, event: StoreIssued) -> None:
        """A tensor store was issued, which adds or writes."""
        path, view, coordinates = event.path, event.store.view, event.store.coordinates
        if not isinstance(view, TensorView):
            return
        self._leaves("stores", view, coordinates, path.cta)
        key = view.name, coordinates
        self._boxes[key] = prod(view.map.extents)
        elements = _elements(view, coordinates)
        if not elements:
            return
        self._first.setdefault(path.cta.number, coordinates)
        open_stores = path.warp.unit(BulkGroups).open.values()
        if path.warp.unit(Issued).count and not _any_stored(open_stores):  # the first of its group
            self._slice(path.warp)
        self._flights.append(Flight(path.warp, self._moment(path, seen=True)))
        if not any(group.cta is path.cta for group in self._tiles):
            self._outputs.append((path.cta, self._moment(path, seen=True)))
        if event.store.adds:
            added = self._added.setdefault(key, Counter())
            added[path.cta.number] += self._k_tiles(path.cta)
            return
        self.counts["elements stored by TMA"] += elements
        if key not in self._stored:
            self._stored.add(key)
            self.counts["elements of D by TMA"] += elements

    def _k_tiles(self, cta: CTA) -> int:
        """How many K tiles has this CTA multiplied of its present tile of D?"""
        mine = [tiles for group, tiles in self._tiles.items() if group.cta is cta]
        return sum(len(tiles) - _last_first(tiles) for tiles in mine)

    def _leaves(self, kind: str, view: TensorView, coordinates: Coordinates, cta: CTA) -> None:
        """Count a box that leaves its tensor, by axis and by the CTA's rank, and keep where the farthest
        begins.
        """
        box = zip(coordinates, view.map.dims, view.map.steps, view.map.extents, strict=True)
        for axis, (at, dim, step, count) in enumerate(box):
            last = at + (count - 1) * step
            if kind == "stores" and axis == 1 and at < dim <= last + 1:
                self.counts["stores of the last row"] += 1
                self.counts["stores of the last row that TMA cuts"] += dim <= last
            if at < 0 or last >= dim:
                name = f"{kind} outside {view.name}, axis {axis}"
                self.counts[name] += 1
                self.counts[f"{name}, at"] = max(self.counts[f"{name}, at"], at, key=abs)
                self.counts[f"{name}, of"] = dim
                self.counts[f"{name}, rank {cta.rank}"] += 1

    def _slice(self, warp: Warp) -> None:
        tile, before = warp.unit(Issued).count, self._slices.get(warp)
        if before and before.tile != tile:
            self.counts["stores that a tile follows"] += 1
            self.counts["stores under the next tile"] += not before.waited
        if before and before.tile == tile:
            self.counts["slices after another"] += 1
            self.counts["slices filled while a store flies"] += before.filled or _in_flight(warp)
        self._slices[warp] = Slice(tile, self.machine.executed)

    def _drained(self, event: StoresWaited) -> None:
        """A warp has waited for TMA stores of its own."""
        warp = event.path.warp
        if not _in_flight(warp):
            for flight in self._flights:
                if flight.warp is warp and flight.waited is None:
                    flight.waited = self._moment(event.path)
        stored = self._slices.get(warp)
        if stored and not stored.drained:
            stored.drained = not _in_flight(warp)
            stored.waited |= stored.tile == warp.unit(Issued).count and stored.drained
            piece = self.machine.unit(Work).writes.get(warp)
            stored.filled |= piece is not None and piece.until > stored.time

    def _registers_asked(self, event: RegistersAsked) -> None:
        """A warp asks for registers, or gives some back: too late, once it has multiplied or loaded."""
        path, grows = event.path, event.grows
        if path.warp.unit(Issued).count or any(issue.warp is path.warp for issue in self._issues):
            return
        self._registers.setdefault((path.cta, grows), set()).add(path.warp.index)

    def _changed(self, event: Atomic) -> None:
        self._atomics += isinstance(event.region, Tensor)

    # -- what comes of it

    def close(self, cluster: Cluster) -> None:
        """A cluster has ended."""
        most = max((tile.products for tiles in self._tiles.values() for tile in tiles), default=0)
        for tiles in self._tiles.values():  # a small product beside them is none of the K tiles
            tiles[:] = [tile for tile in tiles if 2 * tile.products >= most]
        for group, tiles in self._tiles.items():
            self._second |= sum(tile.first for tile in tiles) > 1
            self._ring(group, tiles)
            self._ahead(group, tiles)
        self._own_barriers()
        self._rows_ahead()
        for issue in self._issues:
            if issue.multicast:
                self.counts["multicast loads"] += 1
                self.counts["multicast loads shared"] += issue.shared()
        self._stages_released()
        if cluster.size > 1:
            self._multicast_tiles()
        for cta in cluster.ctas:
            groups = [tiles for group, tiles in self._tiles.items() if group.cta is cta]
            self._rows_multiplied(cta)
            self._stores_under_work(cta)
            self.counts["CTAs"] += 1
            self.counts["CTAs with a tile"] += bool(groups)
            # consumers that share a tile have it each
            self._multiplied_by[cta.number] = sum(
                sum(self._products[group]) for group in self._products if group.cta is cta
            )
            self._taken[cta.number] = max((sum(tile.first for tile in tiles) for tiles in groups), default=0)
            if groups:
                # consumers may take turns; then a CTA with a single tile of D has nothing for the second
                if len(groups) > 1 or sum(tile.first for tile in groups[0]) > 1:
                    self.counts["CTAs that multiply"] += 1
                    self.counts["CTAs with two consumers"] += len(groups) > 1
                self._moved_registers(cta)
        # where a sum is never cleared, a warp has one above, and writes several out
        self.counts["sums of a warp"] = max(self.counts["sums of a warp"], *self._sums.values(), 0)
        self._clear()

    def unread(self) -> bool:
        """Has this cluster a fill that no wgmma has read?"""
        return any(fill.leaves() for fill in self._fills.values())

    def ran(self) -> dict[str, int]:
        """How often instructions ran, of a launch that did not come to its end."""
        return dict(self.machine.counts)

    def end(self) -> dict[str, int]:
        """The counts, once all clusters have run."""
        counts = self.counts
        counts.update(self.machine.counts)
        plain = LANES * counts["ran GLOBAL_STORE"] + counts["ran BULK_STORE"]  # at least as many elements
        counts["elements stored"] = counts["elements stored by TMA"] + plain + self._atomics
        others = any(counts[f"ran {name}"] for name in ("CP_ASYNC", "BULK_LOAD"))
        others |= self.machine.unit(Work).fetches.total() > 0
        through = 0 if others else counts["operands in registers"]  # of tiles that ldmatrix read
        counts["operands by TMA alone"] = counts["operands by TMA"] + through
        self._products_once()
        # of a tile that is stored at once, or by a warp that multiplies nothing
        for shown, chances in (
            ("slices filled while a store flies", "slices after another"),
            ("stores under the next tile", "stores that a tile follows"),
        ):
            if not counts[chances]:
                counts[chances], counts[shown] = (
                    counts["stores that work follows"],
                    counts["stores under work"],
                )
        self._read_by_threads()
        counts["CTAs that store"] = len(self._first)
        counts["boxes added to"] = len(self._added)
        parts = [(max(ctas.values()), ctas.total()) for ctas in self._added.values()]
        counts["boxes added to by several CTAs"] = sum(most < LARGEST_PART * whole for most, whole in parts)
        self._panels()
        self._rounds()
        counts["runs"] = 1
        return dict(counts)

    def _read_by_threads(self) -> None:
        """How often did TMA load, and how often did a warp read the first tensor instead? Of a product it is
        seen where its operands come from.
        """
        loads = self.counts["ran TENSOR_LOAD"] + self.counts["ran MULTICAST_LOAD"]
        self.counts["reads by TMA"] = self.counts["reads"] = loads
        if loads and not self.counts["products multiplied"]:
            self.counts["reads"] += self.machine.unit(Work).fetches[self.machine.artifact.tensors[0].name]

    def _products_once(self) -> None:
        """How many products are summed in what TMA stored? Of several outputs, those of one."""
        if not (self._boxes and self.counts["products multiplied"]):
            return
        sizes = Counter[str]()
        for (name, _), elements in self._boxes.items():
            sizes[name] += elements
        self.counts["products in D"] = max(sizes.values()) * self.machine.artifact.problem[2]

    def _rounds(self) -> None:
        """How many tiles does the busiest CTA take, and how many would it with a CTA on every SM?
        Unknown where not all CTAs ran. (No kernel of three tensors has a counter to draw tiles from.)
        """
        x, y, z = self.machine.artifact.grid
        if len(self._taken) < x * y * z:
            self._shares(x * y * z)
            return
        self.counts["tiles taken"] = sum(self._taken.values())
        self.counts["rounds"] = max(self._taken.values())
        self.counts["rounds of all SMs"] = -(-sum(self._taken.values()) // self.machine.artifact.chip.sms)

    def _shares(self, ctas: int) -> None:
        """Of a few CTAs that ran: how many take about as many tiles as all would, each with an even share?"""
        if not self.counts["products multiplied"]:
            return
        problem = self.machine.artifact.problem
        edge = any(extent % ROWS for extent in problem)  # tiles there multiply more than there is
        tile = max(products / max(self._taken[n], 1) for n, products in self._multiplied_by.items())
        even = prod(problem) / ctas / tile
        for products in self._multiplied_by.values():
            self.counts["CTAs looked at"] += 1
            self.counts["CTAs with their share"] += edge or floor(even) - 1 <= products / tile <= ceil(even)

    def _panels(self) -> None:
        """How many rows and columns of tiles do CTAs that run at one time read between them? Where each has
        one tile, all of D is read at one time in any order.
        """
        if not self._second:
            return
        numbers = [n for n in range(len(self._first)) if n in self._first]
        windows = [numbers[i : i + WINDOW] for i in range(len(numbers) - WINDOW + 1)]
        for window in windows:
            tiles = [self._first[n] for n in window]
            read = sum(len(set(axis)) for axis in zip(*tiles, strict=True))
            self.counts["neighbouring CTAs"] += 1
            self.counts["rows and columns of theirs"] += read
            self.counts["neighbouring CTAs that share"] += read <= SHARED

    def _ring(self, group: Warpgroup, tiles: list[KTile]) -> None:
        """Did it use as many stages, each with a barrier of its own, as the steps ask for? A K of fewer tiles
        needs no more stages than it has tiles.
        """
        stages = _stages(tiles)
        firsts = [i for i, tile in enumerate(tiles) if tile.first]
        longest = max((end - i for i, end in pairwise([0, *firsts, len(tiles)])), default=0)
        for count in RINGS:
            if longest >= count:
                self.counts[f"rings of {count} wanted"] += 1
                self.counts[f"stages of rings of {count}"] += stages
                self.counts[f"rings of {count}"] += stages >= count

    def _own_barriers(self) -> None:
        """Does each mbarrier signal the same part of shared memory in every phase?"""
        first: dict[int, set[int]] = {}
        for fill in sorted(self._fills.values(), key=lambda fill: fill.code):
            stage = first.setdefault(fill.code & AGENT_MASK, fill.offsets)
            self.counts["fills"] += 1
            self.counts["fills of their barrier's stage"] += fill.offsets == stage

    def _rows_multiplied(self, cta: CTA) -> None:
        """How many rows of A and of B do a CTA's warpgroups multiply in each K tile, between them?"""
        mine = [tiles for group, tiles in self._tiles.items() if group.cta is cta]
        for together in zip_longest(*mine):
            codes = {code for tile in together if tile for code in tile.codes}
            fills = [self._fills[code] for code in codes if code in self._fills]
            names = [tensor.name for tensor in self.machine.artifact.tensors[:2]]
            self.counts["K tiles of A and B"] += 1
            self.counts["K tiles of 256 and 128 rows"] += [
                sum(fill.rows_read(name) for fill in fills) for name in names
            ] == [256, 128]

    def _stores_under_work(self, cta: CTA) -> None:
        """Was anything multiplied while TMA stored, by whichever warp, where anything was after it began?"""
        work = [
            (tile, self._done(group.warps[0], tile.last))
            for group, tiles in self._tiles.items()
            if group.cta is cta
            for tile in tiles
        ]
        for flight in self._flights:
            if flight.warp.cta is not cta:
                continue
            others = [tile for tile, done in work if done is None or not flight.issued.after(done)]
            if others:
                waited = flight.waited
                self.counts["stores that work follows"] += 1
                self.counts["stores under work"] += any(
                    waited is None or tile.clock.seen[waited.agent] < waited.time for tile in others
                )

    def _rows_ahead(self) -> None:
        """Where nothing is multiplied: were the loads that a warp awaits for its next result under way while
        it stored one?
        """
        stored_by: dict[int, list[tuple[CTA, Moment]]] = {}
        for cta, stored in self._outputs:
            stored_by.setdefault(stored.agent, []).append((cta, stored))
        for (cta, stored), (_, following) in chain.from_iterable(map(pairwise, stored_by.values())):
            agents = {barrier.agent for barrier in mbarriers(cta).values()}
            seen, later = stored.seen, following.seen
            assert seen is not None and later is not None
            awaited = [
                fill
                for code, fill in self._fills.items()
                if (agent := code & AGENT_MASK) in agents and seen[agent] < code >> AGENT_BITS <= later[agent]
            ]
            if awaited:
                self.counts["results stored"] += 1
                self.counts["results stored with a load ahead"] += not any(
                    issue.moment.after(stored) for fill in awaited for issue in fill.issues
                )

    def _ahead(self, group: Warpgroup, tiles: list[KTile]) -> None:
        """Was a later load under way while a K tile was multiplied, a group in flight, the next tile's load
        free to go while results were written?
        """
        warps = group.cta.warps[group.number * WARPS : (group.number + 1) * WARPS]
        stages = _stages(tiles)
        for i, (tile, following) in enumerate(zip(tiles, tiles[1:], strict=False)):
            if following.first:
                began = [
                    moment
                    for warp in warps
                    for issued, moment in self._epilogues.get(warp, ())
                    if tile.last < issued <= following.begin
                ]
                if began:
                    self.counts["epilogues"] += 1
                    self.counts["epilogues with loads"] += self._free(following.codes, began)
                continue
            done = [self._done(warp, tile.last) for warp in warps]
            ends = [moment for moment in done if moment is not None]
            seen = tile.clock.seen
            self.counts["K tiles followed"] += 1
            self.counts["K tiles followed, one queued"] += following.queued
            in_flight = any(
                self._free(later.codes, ends)
                and any(seen[code & AGENT_MASK] < code >> AGENT_BITS for code in later.codes)
                for later in tiles[i + 1 : i + 1 + AHEAD]
            )
            for distance in DISTANCES:
                later = tiles[i + 1 : i + 1 + distance]
                fits = distance == 1 or distance < stages  # else it is the ring that is too short
                if fits and len(later) == distance and not any(one.first for one in later):
                    self.counts[f"K tiles with {distance} after them"] += 1
                    ahead = in_flight and self._free(later[-1].codes, ends)
                    self.counts[f"K tiles with loads {distance} ahead"] += ahead

    def _free(self, codes: Iterable[int], moments: list[Moment]) -> bool:
        """Were all loads of these fills issued without having to come after any of these moments?"""
        fills = [self._fills[code] for code in codes if code in self._fills]
        return bool(fills) and not any(
            issue.moment.after(moment) for fill in fills for issue in fill.issues for moment in moments
        )

    def _done(self, warp: Warp, n: int) -> Moment | None:
        """When this warp had waited for wgmma ``n``."""
        waits = self._waits.get(warp, [])
        at = bisect_right(waits, n, key=itemgetter(0))
        return waits[at][1] if at < len(waits) else None

    def _multicast_tiles(self) -> None:
        """Of which K tiles did A or B come by multicast?"""
        for tiles in self._tiles.values():
            for tile in tiles:
                self.counts["K tiles of clusters"] += 1
                self.counts["K tiles of clusters by multicast"] += len(tile.codes) == len(
                    tile.operands
                ) and any(
                    self._by_multicast(code, low, high)
                    for code, (low, high) in zip(tile.codes, tile.operands, strict=True)
                )

    def _by_multicast(self, code: int, low: int, high: int) -> bool:
        fill = self._fills.get(code)
        issues = [
            issue
            for issue in (fill.issues if fill else ())
            if any(of is fill and low < end and begin < high for of, begin, end in issue.targets)
        ]
        return bool(issues) and all(issue.multicast for issue in issues)

    def _stages_released(self) -> None:
        """Where a load writes over what wgmma has read: did arrivals on an mbarrier tell whoever issued it
        that those wgmmas were done? And where that was in another CTA, arrivals of that CTA's?
        """
        before: dict[tuple[CTA, int], Fill] = {}  # what was loaded to a place before
        for issue in self._issues:
            for fill, low, high in issue.targets:
                former = before.get((fill.cta, low))
                before[fill.cta, low] = fill
                if former is None or former is fill or not former.reads(low, high):
                    continue
                released = self._released(issue, former)
                self.counts["loads over a read stage"] += 1
                self.counts["loads over a stage that was released"] += released
                if fill.cta is not issue.warp.cta:
                    self.counts["loads over another CTA's read stage"] += 1
                    self.counts["loads over a stage that the other CTA released"] += released

    def _released(self, issue: Issue, fill: Fill) -> bool:
        """Had each warpgroup that multiplied of ``fill`` arrived on mbarriers, or had others of its CTA that
        knew it was done, before the load's issuer went on from them?
        """
        seen = issue.moment.seen
        assert seen is not None
        arrivals = [
            moment
            for agent, phases in self._arrivals.items()
            for warp, moment in phases.get(int(seen[agent]) - 1, ())
            if warp.cta is fill.cta
        ]
        for group in fill.readers:
            last = max((tile.last for tile in self._tiles[group] if fill.code in tile.codes), default=-1)
            done = [moment for warp in group.warps if (moment := self._done(warp, last))]
            if not any(arrival.after(moment) for arrival in arrivals for moment in done):
                return False
        return True

    def _arrived(self, event: Arrived) -> None:
        """Arrivals on an mbarrier that no load signals in this phase: one that releases a stage."""
        if not (event.barrier.expected or event.barrier.issued):
            phases = self._arrivals.setdefault(event.barrier.agent, {})
            moment = self._moment(event.path, seen=True)
            phases.setdefault(event.barrier.phase, []).append((event.path.warp, moment))

    def _moved_registers(self, cta: CTA) -> None:
        """Of the warpgroups whose loads are multiplied, and of those that multiply: how many gave registers
        back, and took some, with all four warps?
        """
        loading = {
            issue.warp.index // WARPS
            for issue in self._issues
            if issue.warp.cta is cta and any(fill.readers for fill, _, _ in issue.targets)
        }
        multiplying = {group.number for group in self._tiles if group.cta is cta}
        ways = ((False, "given back", loading, "who loads"), (True, "taken", multiplying, "who multiplies"))
        for grows, name, wanted, role in ways:
            warps = self._registers.get((cta, grows), set())
            reached = {index // WARPS for index in warps}
            whole = {g for g in reached if warps >= set(range(g * WARPS, (g + 1) * WARPS))}
            self.counts["registers to move"] += len(wanted)
            self.counts["registers moved by whole warpgroups"] += len(whole & wanted)
            self.counts[f"registers {name}, warpgroups"] += len(reached)
            self.counts[f"registers {name}, whole warpgroups"] += len(whole)
            self.counts[f"registers: {role}"] += len(wanted)
            self.counts[f"registers: {name} by {role}"] += len(whole & wanted)
        self.counts["CTAs with loads to multiply"] += bool(loading)
        self.counts["CTAs with a producer"] += bool(loading) and loading.isdisjoint(multiplying)
