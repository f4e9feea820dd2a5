"""K tiles: what a warpgroup multiplies of one fill, or of one each for A and B, and when it was done."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from course_utils.run.emulator.core.probe import StopEmulation
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.moments import Moment, Moments
from course_utils.run.emulator.units.wgmma import Began, Issued, Waited

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Warp
    from course_utils.run.emulator.units.wgmma import Warpgroup

ROWS = 64  # of D, in one wgmma
QUEUED = 0.2  # of a K tile's products that are in flight: it may have several groups


@dataclass(slots=True)
class KTile:
    """One K tile of a warpgroup; it ends where operands of other fills begin.

    ``clock`` is what its four warps had all seen when they began, ``known`` what any of them had; ``first``
    whether a tile of D begins with it, ``queued`` whether a good part of the one before was not yet waited
    for then, and something was in flight before each of its own wgmmas. ``begin`` and ``last`` are the
    numbers of its first and its last wgmma, ``products`` how many it multiplies. ``sides`` has for A and for
    B the rows of each part that a wgmma reads, by what tells it from others, ``rows`` those of A by those of
    B, of each two parts that meet.
    """

    codes: tuple[int, ...]
    operands: list[tuple[int, int]]  # from which byte to which they lie, in the order of the codes
    clock: Clock
    known: np.ndarray
    first: bool
    queued: bool
    begin: int
    last: int
    products: int
    sides: tuple[dict[object, int], dict[object, int]] = field(default_factory=lambda: ({}, {}))
    rows: dict[tuple[object, int], int] = field(default_factory=dict)


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
        self.of_group: dict[Warpgroup, list[KTile]] = {}
        self.products: dict[Warpgroup, list[int]] = {}
        self._waits: dict[Warp, list[tuple[int, Moment]]] = {}  # with how many wgmmas were done
        self._fills, self._moments = machine.unit(Fills), machine.unit(Moments)
        machine.probe.listen(Began, self._multiplied)
        machine.probe.listen(Waited, self._waited)

    def clear(self) -> None:
        """A cluster has ended."""
        self.of_group.clear()
        self.products.clear()
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
        """How many K tiles has this CTA multiplied of its present tile of D?"""
        return sum(len(tiles) - _last_first(tiles) for tiles in self.of(cta))

    def done(self, warp: Warp, n: int) -> Moment | None:
        """When this warp had waited for wgmma ``n``."""
        waits = self._waits.get(warp, [])
        at = bisect_right(waits, n, key=itemgetter(0))
        return waits[at][1] if at < len(waits) else None

    def drop_small(self) -> None:
        """Forget what is none: a small product beside the K tiles."""
        most = self._largest()
        for tiles in self.of_group.values():
            tiles[:] = _large(tiles, most)

    def _largest(self) -> int:
        return max((tile.products for tile in self.every()), default=0)

    def close(self, cluster_size: int) -> None:
        """Of which K tiles did A or B come by multicast?"""
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
        reads = self._fills.operands
        key = tuple(code for codes, _, _ in reads for code in codes)
        operands = [(low, high) for _, low, high in reads]
        tiles = self.of_group.setdefault(group, [])
        if not (tiles and tiles[-1].codes == key):
            self._next(event, tiles, key, operands, products)
        else:
            pairs = zip(tiles[-1].operands, operands, strict=True)
            tiles[-1].operands = [(min(a, c), max(b, d)) for (a, b), (c, d) in pairs]
            tiles[-1].last = n
            tiles[-1].products += products
            issued = event.path.warp.unit(Issued)
            tiles[-1].queued &= bool(issued.groups) or len(issued.open) > 1  # this one is among them
        tile, (b_low, _) = tiles[-1], operands[-1]
        # A of registers is told by its sums and the part of B that it meets
        part = operands[0][0] if len(operands) > 1 else (id(op.accumulator), b_low)
        A, B = tile.sides
        A[part], B[b_low] = ROWS, max(op.shape.N, B.get(b_low, 0))
        tile.rows[part, b_low] = max(ROWS * op.shape.N, tile.rows.get((part, b_low), 0))

    def _next(
        self,
        event: Began,
        tiles: list[KTile],
        key: tuple[int, ...],
        operands: list[tuple[int, int]],
        products: int,
    ) -> None:
        """A K tile begins."""
        group, op, n = event.group, event.operation, event.number
        assert op.clock is not None  # all four warps have joined
        # where registers were cleared instead, it adds to zeros
        anew = not op.accumulate or any(
            isinstance(values, list) and not np.any(values[0]) for values in op.initial.values()
        )
        self.counts["K tiles"] += 1
        self.counts["K tiles begun anew"] += anew
        # one that multiplies the same rows as the last one is of the same tile of D, with a sum of its own
        rows = self._fills.rows(key)
        both = len({name for name, _ in rows}) > 1  # of an A in registers nobody knows the rows
        first = anew and not (tiles and both and rows == self._fills.rows(tiles[-1].codes))
        flying = [i for numbers in event.path.warp.unit(Issued).groups for i in numbers]
        queued = bool(tiles) and (sum(self.products[group][i] for i in flying) >= QUEUED * tiles[-1].products)
        known = np.maximum.reduce([warp.clock.seen for warp in group.warps])
        if self.most is not None and len(_large(tiles, self._largest())) >= self.most:
            self.enough = True
            raise StopEmulation
        tiles.append(KTile(key, operands, op.clock, known, first, queued, n, n, products))

    def _waited(self, event: Waited) -> None:
        """A warp's wait covers some wgmmas of its warpgroup."""
        self._waits.setdefault(event.path.warp, []).append((event.count, self._moments.of(event.path)))


def _large(tiles: list[KTile], most: int) -> list[KTile]:
    return [tile for tile in tiles if 2 * tile.products >= most]


def _last_first(tiles: list[KTile]) -> int:
    """Where the last tile of D begins among these K tiles."""
    return max((n for n, tile in enumerate(tiles) if tile.first), default=0)
