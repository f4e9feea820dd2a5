"""Stores of D: its boxes, which CTAs add to them, and what goes on while TMA stores.

A *slice* is what one commit group stores. It belongs to the tile of D whose sums it has: of the warpgroups
that wrote it to shared memory, after as many wgmmas.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from course_utils.artifact import WARP_THREADS, WARPGROUP_THREADS
from course_utils.ptx.families import Family, family
from course_utils.run.emulator.core.memory import Tensor
from course_utils.run.emulator.explain.facts.boxes import any_stored, elements, leaves
from course_utils.run.emulator.explain.facts.k_tiles import KTiles
from course_utils.run.emulator.explain.facts.moments import Moment, Moments
from course_utils.run.emulator.explain.races import cells
from course_utils.run.emulator.explain.results import held, issued
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.access import Atomic, Write
from course_utils.run.emulator.units.tma import BulkGroups, Store, StoreIssued, StoresWaited
from course_utils.run.emulator.units.views import TensorView

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Path, Warp
    from course_utils.run.emulator.units.views import Coordinates

WARPS = WARPGROUP_THREADS // WARP_THREADS
STORES = Family.TENSOR_STORE, Family.TENSOR_REDUCE
LARGEST_PART = 0.7  # of K that a CTA may have where several share it: two parts may be uneven


@dataclass(slots=True)
class Written:
    """A warp has written results to shared memory. ``tile`` is its warpgroup, and what that held
    (``results.held``).
    """

    moment: Moment
    tile: tuple[int, int]


class LastWrites:
    """Of each 4-byte word of a CTA's shared memory: which of ``made`` wrote what it holds, by number from 1;
    0 where that is stored already, or of no write that is told.
    """

    def __init__(self, words: int) -> None:
        self.made: list[Written] = []
        self.last = np.zeros(words, np.int32)

    def take(self, low: int, high: int) -> list[tuple[Written, int]]:
        """The writes that these bytes hold and nothing has stored yet, each with how many words."""
        words = self.last[low >> 2 : high >> 2]
        numbers, counts = np.unique(words[words > 0], return_counts=True)
        words[:] = 0
        return [(self.made[n - 1], count) for n, count in zip(numbers.tolist(), counts.tolist(), strict=True)]


@dataclass(slots=True)
class Slice:
    """What a warp stores by TMA in one group: the writes that it holds, each with how many words, when the
    store was issued, and when the warp had waited for it, having issued so many wgmmas (``multiplied``).
    """

    warp: Warp
    issued: Moment
    stores: list[Store] = field(default_factory=list)
    written: list[tuple[Written, int]] = field(default_factory=list)
    waited: Moment | None = None
    multiplied: int = 0

    def tile(self) -> frozenset[tuple[int, int]]:
        return frozenset(one.tile for one, _ in self.written)

    def written_under(self, other: Slice) -> bool:
        """Was most of what it holds written while TMA could still store the other one, and after that was
        issued?
        """
        waited = other.waited
        under = sum(
            words
            for one, words in self.written
            if not other.issued.after(one.moment) and not (waited and one.moment.after(waited))
        )
        return 2 * under > sum(words for _, words in self.written)


class Stores:
    """The tensor stores of a launch. ``tiles`` is where the first one of each tile of D begins, by CTA."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.counts = Counter[str]()
        self.tiles: dict[int, list[Coordinates]] = {}
        # how large the boxes are that were stored or added to: TMA cuts those of a tile at the edge
        self._boxes: dict[tuple[str, Coordinates], int] = {}
        self._stored: set[tuple[str, Coordinates]] = set()
        # products that each CTA had multiplied for what it added to a box
        self._added: dict[tuple[str, Coordinates], Counter[int]] = {}
        self._atomics = 0  # on tensors
        self._written: dict[CTA, LastWrites] = {}
        self._slices: dict[CTA, list[Slice]] = {}
        self._begun: set[tuple[int, frozenset[tuple[int, int]]]] = set()  # CTAs and tiles that they store
        self._k_tiles, self._moments = machine.unit(KTiles), machine.unit(Moments)
        if any(family(instruction) in STORES for instruction in machine.program.kernel.instructions):
            machine.probe.listen(Write, self._wrote)
        machine.probe.listen(StoreIssued, self._issued)
        machine.probe.listen(StoresWaited, self._waited)
        machine.probe.listen(Atomic, self._changed)

    def clear(self) -> None:
        """A cluster has ended."""
        self._written.clear()
        self._slices.clear()

    def close(self, cta: CTA) -> None:
        """What went on while TMA stored: was the next slice of a tile written, or a K tile multiplied?"""
        slices = self._slices.get(cta, [])
        for i, one in enumerate(slices):
            following = next((other for other in slices[i + 1 :] if other.warp is one.warp), None)
            works = self._work_under(cta, one)
            if following and following.tile() == one.tile():
                before = reversed(slices[i : slices.index(following)])
                former = next(other for other in before if other.tile() == one.tile())
                flies = works or following.written_under(former)
                self.counts["slices after another"] += 1
                self.counts["slices filled while a store flies"] += flies
            elif works is not None:
                self.counts["stores that a tile follows"] += 1
                self.counts["stores under the next tile"] += works

    def _work_under(self, cta: CTA, one: Slice) -> bool | None:
        """Was a K tile begun while TMA stored a slice, by whichever warps? None where none was after it."""
        after = False
        for group, tiles in self._k_tiles.of_group.items():
            for tile in tiles if group.cta is cta else ():
                done = self._k_tiles.done(group, tile.last)[:1]
                if done and one.issued.after(done[0]):
                    continue
                after = True
                if one.waited is None:
                    return True
                if one.warp in group.warps:
                    if one.multiplied > tile.begin:
                        return True
                elif tile.known[one.waited.agent] < one.waited.time:
                    return True
        return False if after else None

    def end(self) -> None:
        """The counts, once all clusters have run."""
        counts, ran = self.counts, self.machine.counts
        plain = LANES * ran["ran GLOBAL_STORE"] + ran["ran BULK_STORE"]  # at least as many elements
        counts["elements stored"] = counts["elements stored by TMA"] + plain + self._atomics
        if not counts["slices after another"]:  # a tile is stored at once
            counts["slices after another"] = counts["stores that a tile follows"]
            counts["slices filled while a store flies"] = counts["stores under the next tile"]
        counts["CTAs that store"] = len(self.tiles)
        counts["boxes added to"] = len(self._added)
        parts = [(max(ctas.values()), ctas.total()) for ctas in self._added.values()]
        counts["boxes added to by several CTAs"] = sum(most < LARGEST_PART * whole for most, whole in parts)
        multiplied = self._k_tiles.counts["products multiplied"] and self.machine.artifact.has_problem
        if self._boxes and multiplied:
            counts["products in D"] = self._sizes() * self._k_tiles.padded(self.machine.artifact.problem[2])

    def _sizes(self) -> int:
        """How many elements have the boxes that TMA stored? Of several outputs, those of one."""
        sizes = Counter[str]()
        for (name, _), count in self._boxes.items():
            sizes[name] += count
        return max(sizes.values())

    def _issued(self, event: StoreIssued) -> None:
        """A tensor store was issued, which adds or writes."""
        path, view, coordinates = event.path, event.store.view, event.store.coordinates
        if not isinstance(view, TensorView):
            return
        leaves(self.counts, "stores", view, coordinates, path.cta)
        key = view.name, coordinates
        self._boxes[key] = prod(view.map.extents)
        count = elements(view, coordinates)
        if not count:
            return
        self._slice(path, event.store)
        if reduces := event.store.reduces:
            if reduces[0] == "add":
                added = self._added.setdefault(key, Counter())
                added[path.cta.number] += self._k_tiles.of_present(path.cta)
            return
        self.counts["elements stored by TMA"] += count
        if key not in self._stored:
            self._stored.add(key)
            self.counts["elements of D by TMA"] += count

    def _wrote(self, event: Write) -> None:
        """A warp that has multiplied writes to shared memory."""
        path, warp = event.path, event.path.warp
        count = held(warp)
        if count and event.region is path.cta.shared:
            writes = self._written.get(path.cta)
            if writes is None:
                writes = self._written[path.cta] = LastWrites(len(path.cta.shared.data) // 4)
            tile = warp.index // WARPS, count
            writes.made.append(Written(self._moments.of(path, seen=True), tile))
            last, index = cells(writes.last, event.offsets, event.count)
            last[index] = len(writes.made)

    def _slice(self, path: Path, store: Store) -> None:
        """A store is issued: it begins a slice, or goes with its group's."""
        slices = self._slices.setdefault(path.cta, [])
        open_stores = path.warp.unit(BulkGroups).open.values()
        mine = next((one for one in reversed(slices) if one.warp is path.warp), None)
        if mine is None or not any_stored(open_stores):
            mine = Slice(path.warp, self._moments.of(path, seen=True))
            slices.append(mine)
        mine.stores.append(store)
        if path.cta in self._written:
            mine.written += self._written[path.cta].take(store.offset, store.offset + store.view.extent)
        if (path.cta.number, mine.tile()) not in self._begun:
            self._begun.add((path.cta.number, mine.tile()))
            self.tiles.setdefault(path.cta.number, []).append(store.coordinates)

    def _waited(self, event: StoresWaited) -> None:
        """A warp has waited for TMA stores of its own."""
        warp = event.path.warp
        for one in self._slices.get(event.path.cta, ()):
            if one.warp is warp and one.waited is None and all(store.done for store in one.stores):
                one.waited = self._moments.of(event.path)
                one.multiplied = issued(warp)

    def _changed(self, event: Atomic) -> None:
        self._atomics += isinstance(event.region, Tensor) * np.size(event.offsets)
