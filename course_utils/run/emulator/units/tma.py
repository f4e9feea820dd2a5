"""The TMA engine: boxes of a tensor map between global and shared memory, swizzled, multicast, late and in
pieces.

PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "Tensor copy", "Tensors" (bounding boxes,
out-of-bounds access, swizzling modes). A load is issued by one thread and lands when the schedule says: in
pieces, out of order, each piece signalling its bytes to the mbarrier. A store reads shared memory as late as
its wait_group.read allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from course_utils.artifact import (
    DATA_TYPES,
    ELEMENT_BYTES,
    FIRST_FLOAT_TYPE,
    SWIZZLE_BYTES,
    SWIZZLE_PATTERN_BYTES,
    TMA_ALIGNMENT,
    TensorMap,
)
from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.memory import AsyncRead
from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK, unordered
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.accounts import account
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units import tensormaps
from course_utils.run.emulator.units.cp_async import waited_for
from course_utils.run.emulator.units.mbarrier import MBarrier, barrier_of, mbarriers
from course_utils.tma.layouts import UNIT, base_alignment, row_pitch, swizzled, tile_bytes
from course_utils.tma.rules import violations

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA
    from course_utils.run.emulator.core.warp import Path
    from course_utils.run.emulator.explain.timeline import Span

COMMIT = "cp.async.bulk.commit_group"

# what a store that adds can add, by the map's data type
ADDED = {"float32": np.float32, "float16": np.float16, "int32": np.int32, "uint32": np.uint32}

Coordinates: TypeAlias = tuple[int, ...]  # of a box, innermost first; () where there is no map
Slices: TypeAlias = tuple[slice, ...]


@lru_cache(maxsize=256)
def swizzled_units(rows: int, row_units: int, swizzle: int, phase: int) -> np.ndarray:
    """Where each 16-byte unit of a box lands, relative to the 1,024-byte line that the tile starts in.

    The box has ``rows`` rows of ``row_units``; ``phase`` is the tile's first unit within that line (0 to 63).
    """
    row_starts = np.arange(rows)[:, None] * row_pitch(row_units * UNIT, swizzle)
    offsets = phase * UNIT + row_starts + np.arange(row_units) * UNIT
    return swizzled(offsets.reshape(-1), swizzle) // UNIT


class TensorView:
    """One tensor map of the launch over its tensor's bytes."""

    def __init__(self, name: str, tensor_map: TensorMap, region: memory.Region) -> None:
        self.name, self.map, self.region = name, tensor_map, region
        self.swizzle, self.alignment = tensor_map.swizzle, TMA_ALIGNMENT
        self.broken = [str(v) for v in violations(tensor_map)]
        if self.broken:
            return
        if tensor_map.interleave:
            self.broken.append("interleaved tensor maps are not modelled by the emulator")
            return
        t, size = tensor_map, ELEMENT_BYTES[tensor_map.data_type]
        strides = (size, *t.strides)
        last = sum((extent - 1) * stride for extent, stride in zip(t.dims, strides, strict=True)) + size
        if last > region.size:
            self.broken.append(f"it spans {last:,} bytes, and the tensor has {region.size:,}")
            return
        view = region.data[: region.size - region.size % size].view(f"u{size}")
        self.elements = np.lib.stride_tricks.as_strided(view, t.dims[::-1], strides[::-1])
        self.shape = t.extents[::-1]
        self.bytes = t.box_bytes
        self.units = self.bytes // UNIT
        self.row_units = t.extents[0] * size // UNIT
        # what the tile takes of shared memory: whole swizzle spans
        self.extent = tile_bytes(self.units // self.row_units, self.row_units * UNIT, t.swizzle)
        self.fill = 0
        if t.oob_fill == 1 and t.data_type >= FIRST_FLOAT_TYPE:
            self.fill = {
                2: 0x7FC0 if DATA_TYPES[t.data_type] == "bfloat16" else 0x7E00,
                4: 0x7FC00000,
                8: 0x7FF8 << 48,
            }[size]

    def places(self, phase: int) -> np.ndarray:
        """Where the box's units lie, swizzled: see ``swizzled_units``."""
        return swizzled_units(self.units // self.row_units, self.row_units, self.map.swizzle, phase)

    def slices(self, coordinates: Coordinates) -> tuple[Slices, Slices] | None:
        """The part of the box at these coordinates (innermost first) that lies inside: slices of tensor and
        of box.
        """
        inside, within = [], []
        extents = zip(coordinates, self.map.dims, self.map.steps, self.map.extents, strict=True)
        for start, dim, step, count in extents:
            first = max(0, -(start // step)) if start < 0 else 0
            stop = min(count, -(-(dim - start) // step)) if dim > start else 0
            if stop <= first:
                return None
            inside.append(slice(start + first * step, start + (stop - 1) * step + 1, step))
            within.append(slice(first, stop))
        return tuple(inside[::-1]), tuple(within[::-1])

    def read(self, coordinates: Coordinates) -> np.ndarray:
        """The box's bytes as (units, 2) 64-bit words, filled where the box leaves the tensor."""
        found = self.slices(coordinates)
        if found and all(w.stop - w.start == n for w, n in zip(found[1], self.shape, strict=True)):
            box = np.ascontiguousarray(self.elements[found[0]])
        else:
            box = np.full(self.shape, self.fill, self.elements.dtype)
            if found:
                inside, within = found
                box[within] = self.elements[inside]
        return box.reshape(-1).view(np.uint64).reshape(-1, 2)

    def write(self, coordinates: Coordinates, units: np.ndarray) -> None:
        if found := self.slices(coordinates):
            inside, within = found
            self.elements[inside] = units.reshape(-1).view(self.elements.dtype).reshape(self.shape)[within]

    def add(self, coordinates: Coordinates, units: np.ndarray) -> None:
        """Add the box to what the tensor holds there (cp.reduce.async.bulk.tensor, .add)."""
        if found := self.slices(coordinates):
            inside, within = found
            numbers = ADDED[DATA_TYPES[self.map.data_type]]
            box = np.ascontiguousarray(units.reshape(-1)).view(numbers).reshape(self.shape)
            held = np.ascontiguousarray(self.elements[inside]).view(numbers) + box[within]
            self.elements[inside] = held.view(self.elements.dtype)

    def region_at(self, coordinates: Coordinates) -> str:
        """The box at these coordinates as an index: "A[0:128, 64:128]"."""
        t = self.map
        ranges = [f"{c}:{c + n * s}" for c, n, s in zip(coordinates, t.extents, t.steps, strict=True)][::-1]
        outside = ", which lies outside it" if self.slices(coordinates) is None else ""
        return f"{self.name}[{', '.join(ranges)}]{outside}"

    def box(self, coordinates: Coordinates) -> tuple[tuple[int, int], ...]:
        """The box at these coordinates: where it starts and its size, by axis, outermost first."""
        t = self.map
        return tuple((c, n * s) for c, n, s in zip(coordinates, t.extents, t.steps, strict=True))[::-1]

    def claim(self, path: Path, coordinates: Coordinates) -> None:
        """The box is stored by this CTA."""
        region, t, size = self.region, self.map, ELEMENT_BYTES[self.map.data_type]
        found = self.slices(coordinates)
        if found is None or not isinstance(region, memory.Tensor) or region.element != size:
            return
        inside = found[0]
        strides = [stride // size * region.owners.itemsize for stride in (size, *t.strides)]
        owners = np.lib.stride_tricks.as_strided(region.owners, t.dims[::-1], strides[::-1])
        ranges = ", ".join(f"{s.start}:{s.stop}" for s in inside)
        region.claim(path, owners, inside, lambda: f"{self.name}[{ranges}]")


class PlainView:
    """Bytes of a bulk copy without a tensor map."""

    def __init__(self, region: memory.Region, offset: int, count: int) -> None:
        self.name, self.region, self.offset = region.name, region, offset
        self.bytes, self.extent, self.units = count, count, count // UNIT
        self.swizzle, self.alignment = 0, UNIT

    def read(self, coordinates: Coordinates) -> np.ndarray:
        return self.region.data[self.offset : self.offset + self.bytes].copy().view(np.uint64).reshape(-1, 2)

    def region_at(self, coordinates: Coordinates) -> str:
        """Its bytes in words."""
        return f"bytes {self.offset:,} to {self.offset + self.bytes:,} of {self.name}"

    def box(self, coordinates: Coordinates) -> tuple[tuple[int, int], ...]:
        """Its bytes, as ``TensorView.box``."""
        return ((self.offset, self.bytes),)

    def claim(self, path: Path, coordinates: Coordinates) -> None:
        """The bytes are stored by this CTA."""
        region = self.region
        if isinstance(region, memory.Tensor):
            low, high = self.offset // region.element, (self.offset + self.bytes) // region.element
            what = f"elements {low:,} to {high:,} of {self.name}"
            region.claim(path, region.owners, slice(low, high), lambda: what)

    def write(self, coordinates: Coordinates, units: np.ndarray) -> None:
        self.region.data[self.offset : self.offset + self.bytes] = units.reshape(-1).view(np.uint8)


class Load:
    """A TMA load on its way into one CTA. ``pieces`` are ranges of its units, still to land."""

    __slots__ = (
        "path",
        "at",
        "view",
        "coordinates",
        "cta",
        "offset",
        "barrier",
        "phase",
        "arrived",
        "data",
        "left",
    )

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
        self.arrived = account(barrier).this_phase.get(path.warp, 0)  # how often its warp had, in this phase
        self.data: np.ndarray | None = None  # read when the first piece lands
        self.left = view.units

    def land(self, begin: int, end: int) -> None:
        """Units [begin, end) of the box arrive, and their bytes are signalled."""
        data = self.data if self.data is not None else self.view.read(self.coordinates)
        first = self.offset // UNIT
        if isinstance(self.view, TensorView) and self.view.swizzle:
            where = self.view.places(first % 64)[begin:end]
            self.cta.shared.units[first - first % 64 :][where] = data[begin:end]
        else:
            self.cta.shared.units[first + begin : first + end] = data[begin:end]
        self.left -= end - begin
        self.data = data if self.left else None
        machine = self.cta.machine
        if not self.left:
            self.cta.shared.loads_in_flight -= 1
            machine.trace.landed(self)
        machine.progress += 1
        at, self.path.at = self.path.at, self.at
        self.barrier.landed(self.path, (end - begin) * UNIT, self.phase)
        self.path.at = at


class Store:
    """A TMA store: it reads shared memory when it is waited for, and no sooner. ``adds``: to what is
    there.
    """

    __slots__ = ("view", "coordinates", "cta", "offset", "record", "done", "at", "span", "adds")

    def __init__(
        self,
        view: View,
        coordinates: Coordinates,
        cta: CTA,
        offset: int,
        record: AsyncRead,
        at: int,
        adds: bool = False,
    ) -> None:
        self.view, self.coordinates, self.cta, self.offset, self.record, self.at = (
            view,
            coordinates,
            cta,
            offset,
            record,
            at,
        )
        self.done, self.adds = False, adds
        self.span: Span | None = None

    def finish(self, path: Path) -> None:
        if self.done:
            return
        self.done = True
        first, units = self.offset // UNIT, self.cta.shared.units
        if isinstance(self.view, TensorView) and self.view.swizzle:
            data = units[first - first % 64 :][self.view.places(first % 64)]
        else:
            data = units[first : first + self.view.units].copy()
        if self.adds and isinstance(self.view, TensorView):
            self.view.add(self.coordinates, data)
        else:
            self.view.write(self.coordinates, data)
        self.record.done.append((path.warp.agent, path.warp.time))
        path.machine.trace.stored(path, self)


View: TypeAlias = TensorView | PlainView
Flying: TypeAlias = tuple[Load, int, int]  # a load, and which of its units land together


def _view_of(path: Path, address: int) -> TensorView:
    """The tensor map behind a map operand's address."""
    machine = path.machine
    given = machine.unit(tensormaps.TensorMaps).given
    view = given.get(address - memory.PARAMETERS) or tensormaps.view_at(path, address)
    if view.broken:
        path.fault("tensor-map", f"the tensor map over {view.name}: {view.broken[0]}")
    return view


def _words(view: View, offset: int) -> slice | np.ndarray:
    """The 4-byte words of shared memory that a tile at ``offset`` covers: a slice, or their numbers where
    rows leave gaps.
    """
    if isinstance(view, PlainView) or view.extent == view.bytes:
        return slice(offset >> 2, (offset + view.bytes) >> 2)
    first = offset // UNIT
    return ((first - first % 64 + view.places(first % 64))[:, None] * 4 + np.arange(4)).reshape(-1)


def _check_tile(path: Path, view: View, cta: CTA, offset: int) -> None:
    if offset % view.alignment:
        path.fault(
            "misaligned",
            f"a TMA transfer of {view.name} uses shared address {offset:,}, which {view.alignment} does not "
            "divide: has its buffer this index, and does it begin at such a multiple?",
        )
    swizzle = view.swizzle
    if swizzle and offset % base_alignment(swizzle):
        path.find(
            "swizzle-alignment",
            lambda: (
                f"a tile of {view.name} with swizzle {SWIZZLE_BYTES[swizzle]}B starts at shared address "
                f"{offset:,}, which {base_alignment(swizzle):,} does not divide"
            ),
        )
    if offset < 0 or offset + view.extent > cta.shared.size:
        by_rank = path.cta.number >= (size := cta.cluster.size) > 1
        ask = f"does its slice go by the CTA's number, not its rank in the cluster of {size}"
        path.fault(
            "out-of-bounds",
            f"a TMA transfer of {view.name} uses shared bytes {offset:,} to {offset + view.extent:,} of "
            f"{cta.shared.size:,}: {ask if by_rank else 'has its buffer a slot for this stage'}?",
        )


def _check_target(path: Path, view: View, cta: CTA, low: int, barrier: MBarrier) -> None:
    """May a load for ``barrier`` be issued that fills this CTA's shared memory from ``low`` on?"""
    shared, clock, high = cta.shared, path.warp.clock, low + view.extent
    written = shared.written[low >> 2 : high >> 2]
    first = written[0]
    if first or (written != first).any():
        codes = written[:1] if (written == first).all() else written
        late = unordered(codes, clock.seen)
        if late.any():
            agent = int(codes[late][0]) & AGENT_MASK
            writer = names.agent_text(cta.cluster, agent, path.cta)
            earlier = barrier_of(cta.cluster, agent)
            if earlier is not None and _is_over(path, view, cta, low, barrier, earlier):
                pass
            elif agent > cta.cluster.warps_end:
                path.find_early_release(
                    "overwrite-before-use",
                    f"{path.name()} loads over the bytes of {writer} before anyone has used them",
                    f"shared bytes {low:,} to {high:,}",
                    tuple(filter(None, (earlier,))),
                )
            else:
                path.find(
                    "write-unordered",
                    lambda: (
                        f"{path.name()} loads over shared memory that {writer} writes: no barrier orders the "
                        "two"
                    ),
                )
        elif unordered(codes, clock.fenced).any():
            path.find(
                "proxy-fence-overwrite",
                lambda: (
                    f"{path.name()} loads over shared memory that threads wrote, and no fence.proxy.async is "
                    "between"
                ),
            )
    if shared.was_read:
        codes = shared.read[low >> 2 : high >> 2]
        if unordered(codes, clock.seen).any():
            path.find_early_release(
                "overwrite-while-read", f"{path.name()} loads over shared memory that threads may still read"
            )
        elif unordered(codes, clock.fenced).any():
            path.find(
                "proxy-fence-overwrite",
                lambda: (
                    f"{path.name()} loads over shared memory that threads read, and no fence.proxy.async is "
                    "between"
                ),
            )
        codes[:] = 0
    if shared.async_reads:
        shared.check_overwrite(path, low, high)
        done = [
            key
            for key, read in shared.async_reads.items()
            if low <= read.low and read.high <= high and read.ordered_before(clock.seen)
        ]
        for key in done:
            del shared.async_reads[key]


def _is_over(path: Path, view: View, cta: CTA, low: int, barrier: MBarrier, earlier: MBarrier) -> bool:
    """A load for ``barrier`` writes what one for ``earlier`` brings, which nobody has waited for. Should it
    never have written there? Else it came too soon.
    """
    overlap = (
        o for o in account(earlier).loads if o.offset < low + view.extent and low < o.offset + o.view.extent
    )
    old = next(overlap, None)
    if old is None or earlier is barrier and old.phase != barrier.phase:
        return False
    findings, name = path.machine.findings, names.of_barrier(barrier)
    others = (f"the other load: {findings.place(old.at)}", f"shared bytes {low:,} to {low + view.extent:,}")
    about = {barrier: None, earlier: None}
    over = f"{path.name()} loads over the bytes of {names.of_barrier(earlier)}: this load of {view.name} is for {name}"
    if earlier is barrier:
        one, other = findings.place(old.at), findings.place(path.at)
        again = old.at == path.at or one.line > 0 and (one.file, one.line) == (other.file, other.line)
        again |= old.view is view and old.arrived != account(barrier).this_phase.get(path.warp, 0)
        if again and old.path.warp is path.warp:  # it went round its ring too soon
            return False
        text = _twice_in_a_phase(path, view, old, name)
        findings.add("load-twice", path.at, text, more=others, barriers=about)
    elif (old.view.name, old.offset) == (view.name, low):
        text = f"{over}, and goes to the same place; which stage index has it?"
        findings.add("overwrite-before-use", path.at, text, more=others, barriers=about, advice="one slot")
    else:
        array, stage, count = names.stage_of(barrier)
        at, what = path.at, view.name
        apart = abs(low - old.offset)
        atom = SWIZZLE_PATTERN_BYTES[view.map.swizzle] if isinstance(view, TensorView) else 0
        if old.view.name == view.name and apart == atom and findings.artifact.dsl == "cute":
            # stages lie between one another in the tensor, and the map's box does not
            text = (
                f"loads of {what} for {names.of_barrier(earlier)} and {name} lie {apart:,} bytes apart, and each brings "
                f"{view.extent:,}: do {what}'s map and its tensor have one layout (`order`)?"
            )
            origin = findings.origin_with(f"layout_{what} =")
            findings.add("ring-overrun", at, text, more=others, barriers=about, first=True, origin=origin)
            return True
        if names.stage_of(earlier)[1] > stage:  # then that one lies past its ring
            at, what = old.at, old.view.name
            who = path.names([old.path.warp])
            over = f"{who} loads over the bytes of {name}: this load of {what} is for {names.of_barrier(earlier)}"
            others = (f"the other load: {findings.place(path.at)}", *others[1:])
        text = f"{over}, and {array} has {count} stages; has the ring of {what} as many slots?"
        first = "ring-overrun" not in {kind for kind, _, _ in findings.found}
        findings.add("ring-overrun", at, text, more=others, barriers=about, first=first)
    return True


def _twice_in_a_phase(path: Path, view: View, old: Load, barrier: str) -> str:
    """Two loads of one phase write the same bytes: which, from where, and what to look at."""
    texts = []
    for one, at, what in ((old.path, old.at, old.view.name), (path, path.at, view.name)):
        who = f"CTA {one.cta.number}" if path.cta.cluster.size > 1 else names.of_warps([one.warp], one.cta)
        line = path.machine.findings.place(at).line
        texts.append(f"{what} by {who}" + f", line {line}" * (line > 0))
    look = "is one too many?"
    if old.view.name != view.name:
        look = "which buffer has each?"
    elif old.path.cta is not path.cta:
        look = "does each bring its half, by rank?"
    return f"two loads of one phase of {barrier} write the same bytes: {', and '.join(texts)}; {look}"


def _issue(
    path: Path, lane: int, view: View, coordinates: Coordinates, to: Value, signals: Value, multicast: Value
) -> None:
    """Issue one load by one lane: where to, the mbarrier that it signals, and a multicast mask or None."""
    cluster = path.cta.cluster
    home, offset = cluster.cta_of(path, memory.pick(to, lane))
    barrier_home, barrier_offset = cluster.cta_of(path, memory.pick(signals, lane))
    targets = [(home, barrier_home)]
    if multicast is not None:
        ranks = memory.pick(multicast, lane)
        if ranks >> cluster.size:
            path.fault(
                "cluster-rank", f"{path.name()} multicasts to CTAs {ranks:#b} of a cluster of {cluster.size}"
            )
        targets = [(cta, cta) for cta in cluster.ctas if ranks >> cta.rank & 1]
    role(path.warp).loads += 1
    role(path.warp).issues(path.at)
    loads = []
    for cta, owner in targets:
        _check_tile(path, view, cta, offset)
        barrier = mbarriers(owner).get(barrier_offset)
        if barrier is None:
            path.fault(
                "barrier-uninitialised",
                f"a TMA load signals shared address {barrier_offset:,} of CTA {owner.number} as an mbarrier",
            )
        _check_target(path, view, cta, offset, barrier)
        phase = barrier.asked(path, view.bytes)
        cta.shared.written[_words(view, offset)] = (phase + 1) << AGENT_BITS | barrier.agent
        if cta is not path.cta:
            cta.touch(path, barrier.agent, phase + 1)
        cta.shared.loads_in_flight += 1
        load = Load(path, view, coordinates, cta, offset, barrier, phase)
        loads.append(load)
        if account(barrier).loads and account(barrier).loads[0].phase != phase:
            account(barrier).loads.clear()
        mine = [one for one in account(barrier).loads if one.path.warp is path.warp]
        again = mine and mine[0].view is view and offset in [one.offset for one in mine]  # round its loop
        if path.cta is cta and (not mine or again):
            cta.fills.append((barrier, path.at, path.warp))
        account(barrier).loads.append(load)
        cta.loaded.setdefault((view.name, offset), {}).setdefault(barrier, (path.at, path.warp))
        cta.extents[view.name, offset] = view.extent
        if multicast is not None:
            cta.boxes.setdefault((view.name, coordinates), path.at)
        path.machine.fly(load, view.units)
        path.machine.trace.issued(path, load)
    if isinstance(view, TensorView):
        path.machine.facts.issued(path, loads, multicast is not None)
    path.machine.progress += 1


def _release_store(
    path: Path, lane: int, view: View, coordinates: Coordinates, address: int, adds: bool = False
) -> None:
    cta, offset = path.cta.cluster.cta_of(path, address)
    _check_tile(path, view, cta, offset)
    warp = path.warp
    shared = cta.shared
    words = _words(view, offset)
    if other := shared.take(path, offset, words):
        path.find(
            "stale-store",
            lambda: (
                f"the TMA store of {view.name} reads shared bytes {offset:,}-{offset + view.extent:,}, but "
                f"threads have just written {other[0]:,}-{other[1]:,}; have both the same index?"
            ),
        )
    shared.check_codes(path, shared.written[words], warp.clock.seen, warp.clock.fenced, "a TMA store")
    record = AsyncRead(offset, offset + view.extent, f"the TMA store of {view.name}", path.at)
    record.store = warp
    shared.stored.setdefault(view.region_at(coordinates), {})[warp] = path.at
    former = shared.async_reads.get(("store", warp.agent, lane, offset))
    if former is not None and not former.done:
        former.unwaited = True
    shared.async_reads["store", warp.agent, lane, offset] = record
    store = Store(view, coordinates, cta, offset, record, path.at, adds)
    path.machine.trace.stores(path, store)
    if not adds:  # what several add up has no one author
        view.claim(path, coordinates)
    if isinstance(view, TensorView):
        path.machine.facts.stored(path, view, coordinates, adds)
    warp.bulk.setdefault(lane, []).append(store)
    role(warp).stores += 1
    path.machine.progress += 1


def tensor(instruction: Instr) -> Lowered:
    parts, operands = instruction.opcode, list(instruction.operands)
    rank = int(next(p for p in parts if p in ("1d", "2d", "3d", "4d", "5d"))[0])
    if (
        any(p.startswith(("im2col", "tile::")) for p in parts)
        or "cta_group::1" in parts
        or "cta_group::2" in parts
    ):
        raise ValueError("im2col, gather, scatter and CTA pairs")
    if any("cache_hint" in p for p in parts):
        operands.pop()
    adds = parts[1] == "reduce"
    if adds and "add" not in parts:
        raise ValueError("a reduction other than .add")
    if parts[5 + adds] == "global":
        target, source = operands

        def store(p: Path, m: Mask, where: Value, address: Value) -> None:
            seen = set()
            for lane in memory.lanes_of(m):
                view = _view_of(p, memory.pick(where[0], lane))
                coordinates = _coordinates(p, view, where[1], lane, rank)
                key = coordinates, memory.pick(address, lane)
                if adds and DATA_TYPES[view.map.data_type] not in ADDED:
                    p.fault("tensor-map", f"{p.name()} adds to {view.name}, whose type is not modelled")
                if key not in seen:  # lanes that store the same box to the same place store it once
                    seen.add(key)
                    _release_store(p, lane, view, coordinates, key[1], adds)

        return Lowered("warp", store, sources=((target, 64), (source, 32)), cut=True)
    target, source, barrier, *mask = operands
    if bool(mask) != ("multicast::cluster" in parts):
        raise ValueError("other operands than its opcode says")

    def load(
        p: Path, m: Mask, address: Value, where: Value, barrier_address: Value, ranks: Value = None
    ) -> None:
        for lane in memory.lanes_of(m):
            view = _view_of(p, memory.pick(where[0], lane))
            coordinates = _coordinates(p, view, where[1], lane, rank)
            _issue(p, lane, view, coordinates, address, barrier_address, ranks)

    return Lowered(
        "warp", load, sources=((target, 32), (source, 64), (barrier, 32), *((o, 16) for o in mask)), cut=True
    )


def _coordinates(path: Path, view: TensorView, values: Sequence[Value], lane: int, rank: int) -> Coordinates:
    if view.map.rank != rank or len(values) != rank:
        path.fault(
            "tensor-map",
            f"a {rank}d transfer uses the tensor map over {view.name}, whose rank is {view.map.rank}",
        )
    numbers = (memory.pick(v, lane) for v in values)
    return tuple(v - (1 << 32) if v >> 31 else v for v in numbers)


def bulk(instruction: Instr) -> Lowered:
    """cp.async.bulk: a run of bytes, a multiple of 16."""
    parts, operands = instruction.opcode, list(instruction.operands)
    if any("cache_hint" in p for p in parts):
        operands.pop()
    if "cp_mask" in parts:
        raise ValueError("a byte mask")
    to, source_space = parts[3], parts[4]

    def plain(p: Path, space: str, address: int, count: int) -> PlainView:
        if count % UNIT or not count:
            p.fault("misaligned", f"{p.name()} copies {count:,} bytes in bulk, which 16 does not divide")
        region, offset = memory.locate(p, None, address, space, UNIT)
        if offset + count > region.size:
            p.fault("out-of-bounds", lambda: f"{p.name()} copies {region.describe(offset + count - 1)}")
        return PlainView(region, offset, count)

    if to == "global":
        target, source, size = operands

        def store(p: Path, m: Mask, where: Value, address: Value, count: Value) -> None:
            for lane in memory.lanes_of(m):
                view = plain(p, "global", memory.pick(where, lane), memory.pick(count, lane))
                _release_store(p, lane, view, (), memory.pick(address, lane))

        return Lowered("warp", store, sources=((target, 64), (source, 32), (size, 32)), cut=True)
    target, source, size, barrier, *mask = operands

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
            view = plain(p, source_space, memory.pick(where, lane), memory.pick(count, lane))
            if isinstance(view.region, memory.SharedMemory):
                warp = p.warp
                codes = view.region.written[view.offset >> 2 : (view.offset + view.bytes) >> 2]
                view.region.check_codes(p, codes, warp.clock.seen, warp.clock.fenced, "a bulk copy")
            _issue(p, lane, view, (), address, barrier_address, ranks)

    return Lowered(
        "warp",
        load,
        sources=((target, 32), (source, 64), (size, 32), (barrier, 32), *((o, 16) for o in mask)),
        cut=True,
    )


def commit(instruction: Instr) -> Lowered:
    def function(p: Path, m: Mask) -> None:
        warp = p.warp
        p.cta.shared.store_commits.setdefault(p.at, set()).add(warp)
        for lane in memory.lanes_of(m) if warp.bulk or warp.bulk_groups else ():
            for store in warp.bulk.get(lane, ()):
                store.record.missing = ""
            if lane in warp.bulk or lane in warp.bulk_groups:
                warp.bulk_groups.setdefault(lane, []).append(warp.bulk.pop(lane, []))

    return Lowered("warp", function, cut=True)


def wait(instruction: Instr) -> Lowered:
    left = instruction.operands[0].value

    def function(p: Path, m: Mask) -> None:
        p.cta.shared.store_waits.setdefault(p.at, set()).add(p.warp)
        for store in (store for stores in p.warp.bulk.values() for store in stores):
            store.record.missing = COMMIT
        groups = p.warp.bulk_groups
        if not groups:
            return
        for lane in memory.lanes_of(m):
            mine = groups.get(lane, [])
            done = waited_for(mine, left)
            for store in (store for group in done for store in group):
                store.finish(p)
            if done:
                p.machine.trace.note("pass", p, "the TMA stores")
                groups[lane] = mine[len(done) :]
                p.machine.facts.drained(p.warp)

    return Lowered("warp", function, cut=True)
