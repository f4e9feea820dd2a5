"""K tiles: what a warpgroup, or a thread by tcgen05, multiplies of one fill, or of one each for A and B, and
when it was done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from course_utils.run.emulator.core.probe import StopEmulation
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.groups import Group, Groups, MmaThread
from course_utils.run.emulator.explain.facts.moments import Moment, Moments
from course_utils.run.emulator.isa.elements import ELEMENT_BITS
from course_utils.run.emulator.units import tcgen05
from course_utils.run.emulator.units.wgmma import Began, Issued, Waited

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Warp

Reads: TypeAlias = list[tuple[list[int], int, int]]  # as ``Fills.operands`` has them, of one CTA

ROWS = 64  # of D, in one wgmma
QUEUED = 0.2  # of a K tile's products that are in flight: it may have several groups
FEW = 0.1  # of all products: as many may be no part of the K tiles


@dataclass(slots=True)
class KTile:
    """One K tile of a warpgroup, or of a thread that issues tcgen05.mma, which is said of wgmma here. It ends
    where operands of other fills begin.

    ``clock`` is what its four warps had all seen when they began, ``known`` what any of them had; ``first``
    whether a tile of D begins with it, ``flying`` how many products of wgmmas before it were not yet waited
    for then, and ``kept`` whether something was in flight before each of its own wgmmas. ``begin`` and
    ``last`` are the numbers of its first and its last wgmma, ``products`` how many it multiplies. ``sides``
    has for A and for B the rows of each part that a wgmma reads, by what tells it from others, ``rows`` those
    of A by those of B, of each two parts that meet.
    """

    codes: tuple[int, ...]
    operands: list[tuple[int, int]]  # from which byte to which they lie, in the order of the codes
    clock: Clock
    known: np.ndarray
    first: bool
    flying: int
    begin: int
    last: int
    products: int
    kept: bool = True
    sides: tuple[dict[object, int], dict[object, int]] = field(default_factory=lambda: ({}, {}))
    rows: dict[tuple[object, int], int] = field(default_factory=dict)

    def queued_behind(self, former: KTile) -> bool:
        """Was a good part of the K tile before still in flight when this one began, and something after?"""
        return self.kept and self.flying >= QUEUED * former.products


class KTiles:
    """The K tiles of a cluster's warpgroups, and the products of each of their wgmmas. Where a warpgroup
    begins one more than ``most``, it is ``enough``, and the run is over.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.counts = Counter[str]()
        self.most: int | None = None
        self.enough = False
        self._slice = self._deepest = 0  # of K, in elements: a wgmma's, and the largest K tile's
        self.of_group: dict[Group, list[KTile]] = {}
        self.products: dict[Group, list[int]] = {}
        self._last_reads: dict[tuple[Group, int], int] = {}  # of a fill, by its code
        self._waits: dict[Warp, list[tuple[int, Moment]]] = {}  # with how many wgmmas were done
        self._fills, self._moments = machine.unit(Fills), machine.unit(Moments)
        self._groups = machine.unit(Groups)
        machine.probe.listen(Began, self._multiplied)
        machine.probe.listen(tcgen05.Issued, self._issued)
        machine.probe.listen(Waited, self._waited)

    def clear(self) -> None:
        """A cluster has ended."""
        self.of_group.clear()
        self.products.clear()
        self._last_reads.clear()
        self._waits.clear()

    def of(self, cta: CTA) -> list[list[KTile]]:
        """Of each warpgroup of a CTA that multiplies, its K tiles."""
        return [tiles for group, tiles in self.of_group.items() if group.cta is cta]

    def every(self) -> Iterator[KTile]:
        for tiles in self.of_group.values():
            yield from tiles

    def products_of(self, cta: CTA) -> int:
        return sum(sum(products) for group, products in self.products.items() if group.cta is cta)

    def of_present(self, cta: CTA) -> int:
        """How many products has this CTA multiplied of its present tile of D?"""
        return sum(tile.products for tiles in self.of(cta) for tile in tiles[_last_first(tiles) :])

    def done(self, group: Group, n: int) -> list[Moment]:
        """When each warp of a group had waited for wgmma ``n``; of tcgen05 when that MMA had run, which only
        a commit tells.
        """
        if isinstance(group, MmaThread):
            return [Moment(group.issuer.agent, n + 1, n + 1)]
        found = []
        for warp in group.warps:
            waits = self._waits.get(warp, [])
            at = bisect_right(waits, n, key=itemgetter(0))
            if at < len(waits):
                found.append(waits[at][1])
        return found

    def drop_small(self) -> None:
        """Forget what is none: a few small products beside the K tiles."""
        for group, tiles in self.of_group.items():
            for tile in tiles:
                self._last_reads |= {(group, code): tile.last for code in tile.codes}
        most = self._largest()
        large = {group: _large(tiles, most) for group, tiles in self.of_group.items()}
        kept = sum(tile.products for tiles in large.values() for tile in tiles)
        if kept >= (1 - FEW) * sum(tile.products for tile in self.every()):
            self.of_group = large  # else they are K tiles of another depth

    def read_until(self, group: Group, code: int) -> list[Moment]:
        """When the warps of a group had waited for the last wgmma that reads a fill, or its MMA had run."""
        last = self._last_reads.get((group, code), -1)
        return self.done(group, last) if last >= 0 else []

    def _largest(self) -> int:
        return max((tile.products for tile in self.every()), default=0)

    def close(self, cluster_size: int) -> None:
        """Which K tiles add to the sum of the one before? Of which did A or B come by multicast?"""
        for tiles in self.of_group.values():
            self.counts["K tiles after a warpgroup's first"] += max(len(tiles) - 1, 0)
            self.counts["K tiles after a warpgroup's first, added"] += sum(not one.first for one in tiles[1:])
        for tile in self.every() if cluster_size > 1 else ():
            self.counts["K tiles of clusters"] += 1
            self.counts["K tiles of clusters by multicast"] += len(tile.codes) == len(tile.operands) and any(
                code in self._fills.by_code and self._fills.by_code[code].by_multicast(low, high)
                for code, (low, high) in zip(tile.codes, tile.operands, strict=True)
            )

    def slices(self, cta: CTA) -> dict[tuple[int, ...], float]:
        """How deep is each K tile of a CTA, by its fills, in slices of K of one wgmma? All of its warpgroups
        together multiply M x N x K; the parts of A that they read make M x K, those of B N x K.
        """
        found: dict[tuple[int, ...], float] = {}
        together: dict[tuple[int, ...], list[KTile]] = {}
        for tiles in self.of(cta):
            for tile in tiles:
                together.setdefault(tile.codes, []).append(tile)
        for codes, tiles in together.items():
            A, B = ({part: n for tile in tiles for part, n in tile.sides[i].items()} for i in range(2))
            found[codes] = sum(A.values()) * sum(B.values()) / sum(sum(tile.rows.values()) for tile in tiles)
        self._deepest = max(self._deepest, round(max(found.values(), default=0) * self._slice))
        return found

    def padded(self, K: int) -> int:
        """K with the zeros that TMA fills the last K tile up with."""
        return -(-K // self._deepest) * self._deepest if self._deepest else K

    def rows_multiplied(self, cta: CTA) -> None:
        """How many rows of A and of B do a CTA's warpgroups multiply in each K tile, between them?"""
        names = [tensor.name for tensor in self.machine.artifact.tensors[:2]]
        for together in zip_longest(*self.of(cta)):
            codes = {code for tile in together if tile for code in tile.codes}
            fills = [self._fills.by_code[code] for code in codes if code in self._fills.by_code]
            self.counts["K tiles of A and B"] += 1
            self.counts["K tiles of 256 and 128 rows"] += [
                sum(fill.rows_read(name) for fill in fills) for name in names
            ] == [256, 128]

    def _multiplied(self, event: Began) -> None:
        """A wgmma begins."""
        group, op, n = event.group, event.operation, event.number
        products, self._slice = ROWS * op.shape.N * op.shape.K, op.shape.K
        self.counts["products multiplied"] += products
        self.products.setdefault(group, []).append(products)
        [reads] = self._fills.operands
        tiles = self.of_group.setdefault(group, [])
        key = _key(reads)
        if _goes_on(tiles, key):
            _add(tiles[-1], reads, n, products)
            issued = event.path.warp.unit(Issued)
            tiles[-1].kept &= bool(issued.groups) or len(issued.open) > 1  # this one is among them
        else:
            assert op.clock is not None  # all four warps have joined
            # where registers were cleared instead, it adds to zeros
            anew = not op.accumulate or any(
                isinstance(values, list) and not np.any(values[0]) for values in op.initial.values()
            )
            groups = event.path.warp.unit(Issued).groups
            flying = sum(self.products[group][i] for numbers in groups for i in numbers)
            known = np.maximum.reduce([warp.clock.seen for warp in group.warps])
            self._next(tiles, reads, op.clock, known, anew, flying, n, products)
        _take(tiles[-1], reads, id(op.accumulator), ROWS, op.shape.N)

    def _issued(self, event: tcgen05.Issued) -> None:
        """A tcgen05.mma is issued. Each CTA of a pair gets its rows of D, of all columns."""
        op, n = event.operation, event.operation.number - 1
        rows, N, depth = op.rows[0], op.descriptor.N, 256 // ELEMENT_BITS[op.kinds[0]]
        products, self._slice = rows * N * depth, depth
        clock = event.path.warp.clock
        for cta, reads in zip(op.ctas, self._fills.operands, strict=True):
            group = self._groups.of(op, cta)
            self.counts["products multiplied"] += products
            self.counts["products multiplied by pairs"] += products * (len(op.ctas) - 1)
            self.products.setdefault(group, []).append(products)
            tiles = self.of_group.setdefault(group, [])
            if _goes_on(tiles, _key(reads)):
                _add(tiles[-1], reads, n, products)
            else:
                flying = sum(self.products[group][int(clock.seen[op.issuer.agent]) : -1])
                seen = clock.copy()
                self._next(tiles, reads, seen, seen.seen, not op.accumulates, flying, n, products)
            _take(tiles[-1], reads, op.accumulator.low, rows, N)

    def _next(
        self,
        tiles: list[KTile],
        reads: Reads,
        clock: Clock,
        known: np.ndarray,
        anew: bool,
        flying: int,
        n: int,
        products: int,
    ) -> None:
        """A K tile begins."""
        key = _key(reads)
        operands = [(low, high) for _, low, high in reads]
        self.counts["K tiles"] += 1
        self.counts["K tiles begun anew"] += anew
        # one that multiplies the same rows as the last one is of the same tile of D, with a sum of its own
        rows = self._fills.rows(key)
        both = len({name for name, _ in rows}) > 1  # of an A in registers nobody knows the rows
        first = anew and not (tiles and both and rows == self._fills.rows(tiles[-1].codes))
        if self.most is not None and len(_large(tiles, self._largest())) >= self.most:
            self.enough = True
            raise StopEmulation
        tiles.append(KTile(key, operands, clock, known, first, flying, n, n, products))

    def _waited(self, event: Waited) -> None:
        """A warp's wait covers some wgmmas of its warpgroup."""
        self._waits.setdefault(event.path.warp, []).append((event.count, self._moments.of(event.path)))


def _key(reads: Reads) -> tuple[int, ...]:
    return tuple(code for codes, _, _ in reads for code in codes)


def _goes_on(tiles: list[KTile], key: tuple[int, ...]) -> bool:
    return bool(tiles) and tiles[-1].codes == key


def _add(tile: KTile, reads: Reads, n: int, products: int) -> None:
    """One more multiplication of a K tile."""
    pairs = zip(tile.operands, reads, strict=True)
    tile.operands = [(min(a, low), max(b, high)) for (a, b), (_, low, high) in pairs]
    tile.last = n
    tile.products += products


def _take(tile: KTile, reads: Reads, accumulator: int, rows: int, N: int) -> None:
    """The parts of A and of B that a multiplication meets. An A that is not in shared memory is told by its
    sums and the part of B that it meets.
    """
    b_low = reads[-1][1]
    part = reads[0][1] if len(reads) > 1 else (accumulator, b_low)
    A, B = tile.sides
    A[part], B[b_low] = rows, max(N, B.get(b_low, 0))
    tile.rows[part, b_low] = max(rows * N, tile.rows.get((part, b_low), 0))


def _large(tiles: list[KTile], most: int) -> list[KTile]:
    return [tile for tile in tiles if 2 * tile.products >= most]


def _last_first(tiles: list[KTile]) -> int:
    """Where the last tile of D begins among these K tiles."""
    return max((n for n, tile in enumerate(tiles) if tile.first), default=0)
