"""Rings of stages: how deep they are, and whether loads, wgmma groups and epilogues overlap in them."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise, takewhile
from math import floor
from typing import TYPE_CHECKING, TypeAlias

from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.groups import Group, MmaThread
from course_utils.run.emulator.explain.facts.k_tiles import KTile, KTiles
from course_utils.run.emulator.explain.facts.moments import Moment, Moments
from course_utils.run.emulator.explain.results import Read, held, issued
from course_utils.run.emulator.explain.work import WriteBegins

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Warp
    from course_utils.run.emulator.units.tcgen05 import Issuer

Stage: TypeAlias = tuple[int, ...]

AHEAD = 16  # K tiles after one in which a load in flight is looked for: more than a ring has stages
SLICES = 4  # of K in one of the course's K tiles: 128 bytes of a row
# Stages that a step asks for, and how many of those K tiles they hold at least: two smaller ones are a ring
# too, but a deeper one has to hold more
RINGS = {2: 1, 4: 4}
DISTANCE = 3  # of those K tiles that the loads of a deep ring are ahead


class Rings:
    """What overlaps in the rings of a cluster."""

    def __init__(self, machine: Machine) -> None:
        self.counts = Counter[str]()
        self._fills, self._k_tiles = machine.unit(Fills), machine.unit(KTiles)
        self._moments = machine.unit(Moments)
        self._epilogues: dict[Warp, list[tuple[int, Moment]]] = {}  # with how many wgmmas were issued
        # of tcgen05, by issuer, CTA and the number of an MMA: warps begin to read, and to write, its sums
        self._reads: dict[tuple[Issuer, CTA, int], list[Moment]] = {}
        self._reading: dict[Warp, tuple[Issuer, int]] = {}
        self._writes: dict[tuple[Issuer, CTA, int], list[Moment]] = {}
        self._sums: Counter[Warp] = Counter()  # that it wrote out
        machine.probe.listen(WriteBegins, self._epilogue)
        machine.probe.listen(Read, self._read)

    def clear(self) -> None:
        """A cluster has ended."""
        self._epilogues.clear()
        self._sums.clear()
        self._reads.clear()
        self._reading.clear()
        self._writes.clear()

    def close(self, cta: CTA) -> None:
        slices = self._k_tiles.slices(cta)
        for group, tiles in self._k_tiles.of_group.items():
            if group.cta is cta:
                depths = [slices[tile.codes] / SLICES for tile in tiles]
                stages: dict[Stage, float] = {}
                for tile, depth in zip(tiles, depths, strict=True):
                    stages[_stage(tile)] = max(depth, stages.get(_stage(tile), 0.0))
                self._depth(tiles, depths, stages)
                self._overlaps(group, tiles, depths, stages)
        # where a sum is never cleared, a warp has one above, and writes several out
        self.counts["sums of a warp"] = max(self.counts["sums of a warp"], *self._sums.values(), 0)

    def _epilogue(self, event: WriteBegins) -> None:
        """A warp that has multiplied begins to write results."""
        path, warp = event.path, event.path.warp
        moment = self._moments.of(path)
        if warp in self._reading and held(warp) != issued(warp):
            issuer, number = self._reading[warp]
            self._writes.setdefault((issuer, path.cta, number), []).append(moment)
        else:
            self._epilogues.setdefault(warp, []).append((issued(warp), moment))
        self._sums[warp] += not event.copies

    def _read(self, event: Read) -> None:
        """A warp begins to read an accumulator."""
        path = event.path
        self._reading[path.warp] = event.issuer, event.number
        key = event.issuer, path.cta, event.number
        self._reads.setdefault(key, []).append(self._moments.of(path))

    def _written(self, group: Group, tile: KTile, following: KTile) -> list[Moment]:
        """When warps began to write the results of a tile of D that ends with this K tile."""
        if isinstance(group, MmaThread):
            return self._writes.get((group.issuer, group.cta, tile.last + 1), [])
        return [
            moment
            for warp in group.warps
            for count, moment in self._epilogues.get(warp, ())
            if tile.last < count <= following.begin
        ]

    def _multiplies_under_reads(self, group: Group, tile: KTile, following: KTile) -> None:
        """Need the next tile's first MMA not have waited until the sums of this one were read?"""
        reads = (
            self._reads.get((group.issuer, group.cta, tile.last + 1))
            if isinstance(group, MmaThread)
            else None
        )
        if reads:
            self.counts["accumulators read"] += 1
            self.counts["accumulators read under MMAs"] += all(
                following.known[moment.agent] < moment.time for moment in reads
            )

    def _depth(self, tiles: list[KTile], depths: list[float], stages: dict[Stage, float]) -> None:
        """Did a warpgroup use as many stages as the steps ask for? A K of fewer tiles needs no more stages
        than it has tiles.
        """
        firsts = [i for i, tile in enumerate(tiles) if tile.first]
        spans = [*pairwise([0, *firsts, len(tiles)])]
        longest = max((min(end - i, sum(depths[i:end])) for i, end in spans), default=0)
        held = sum(stages.values())
        for count, least in RINGS.items():
            if longest >= count:
                used = min(len(stages), floor(count * held / least))
                self.counts[f"rings of {count} wanted"] += 1
                self.counts[f"stages of rings of {count}"] += used
                self.counts[f"rings of {count}"] += used >= count

    def _overlaps(
        self, group: Group, tiles: list[KTile], depths: list[float], stages: dict[Stage, float]
    ) -> None:
        """Was a later load under way while a K tile was multiplied, a group in flight, and were loads of the
        next tile of D, for half of the ring, free to go while results were written?
        """
        deep, half = sum(stages.values()) > DISTANCE, max(len(stages) // 2, 1)
        # of each K tile, by tiles of D: is any load in flight, and is the next one's free to go
        by_tile: list[list[tuple[bool, bool]]] = [[]]
        for i, (tile, following) in enumerate(zip(tiles, tiles[1:], strict=False)):
            if following.first:
                by_tile.append([])
                self._multiplies_under_reads(group, tile, following)
                if began := self._written(group, tile, following):
                    rest = takewhile(lambda one: not one.first, tiles[i + 2 : i + 1 + half])
                    self.counts["epilogues"] += 1
                    self.counts["epilogues with loads"] += all(
                        self._fills.free(one.codes, began) for one in (following, *rest)
                    )
                continue
            ends = self._k_tiles.done(group, tile.last)
            seen = tile.clock.seen
            self.counts["K tiles followed"] += 1
            self.counts["K tiles followed, one queued"] += following.queued_behind(tile)
            in_flight = any(
                self._fills.free(later.codes, ends)
                and any(seen[code & AGENT_MASK] < code >> AGENT_BITS for code in later.codes)
                for later in tiles[i + 1 : i + 1 + AHEAD]
            )
            later = [*takewhile(lambda one: not one.first, tiles[i + 1 : i + 1 + AHEAD])]
            by_tile[-1].append((in_flight, self._fills.free(following.codes, ends)))
            sums = accumulate(depths[i + 1 : i + 1 + len(later)])
            far = next((one for one, depth in zip(later, sums, strict=True) if depth >= DISTANCE), None)
            if deep and far:  # else it is the ring that is too short
                self.counts["K tiles with 3 after them"] += 1
                self.counts["K tiles with loads 3 ahead"] += (
                    in_flight
                    and self._fills.free(far.codes, ends)
                    and not self._fills.awaited(tile.codes, following.codes)
                )
        # a ring that is filled in batches runs dry after each: so a K tile counts with those of half a ring
        for seen_of in by_tile:
            self.counts["K tiles with 1 after them"] += len(seen_of)
            self.counts["K tiles with loads 1 ahead"] += sum(
                in_flight and all(free for _, free in seen_of[i : i + half])
                for i, (in_flight, _) in enumerate(seen_of)
            )


def _stage(tile: KTile) -> Stage:
    """Which stage a K tile came through: its mbarriers."""
    return tuple(code & AGENT_MASK for code in tile.codes)
