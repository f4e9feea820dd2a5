"""The tiles of D and who takes them: how many each CTA has, and whether CTAs that run at one time share rows
and columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from math import ceil, floor, gcd, prod, sqrt
from typing import TYPE_CHECKING

from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.k_tiles import ROWS, KTile, KTiles
from course_utils.run.emulator.explain.facts.stores import Stores

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA
    from course_utils.run.emulator.units.views import Coordinates

WINDOW = 16  # CTAs whose tiles are looked at together
# Rows and columns of tiles that they may read: panels of 2 to 8 tiles make 8 to 12, one row of 12 makes 14.
# A row of tiles of 64 x 256 brings less of A than a column of them of B: as many bytes may be read, too
SHARED = 12
NEAR = 8  # tiles from one tile to the next one in such an order: as wide as the widest panel
# Tiles of CTAs so far apart are rows apart in a panel that is narrower; row by row they are in one row, or in
# two where it ends
APART = 8


class Shares:
    """What each CTA of a launch takes of D, by its number."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.counts = Counter[str]()
        self._k_tiles, self._stores = machine.unit(KTiles), machine.unit(Stores)
        self._fills = machine.unit(Fills)
        # where the rows of A and of B begin that its first consumer multiplies for each of its tiles
        self._corners: dict[int, list[Coordinates]] = {}
        self._tiles: dict[int, int] = {}
        self._products: dict[int, int] = {}
        self._second = False  # whether a CTA has a second tile of D

    def close(self, cta: CTA) -> None:
        groups = self._k_tiles.of(cta)
        tiles = [sum(tile.first for tile in mine) for mine in groups]
        self.counts["CTAs"] += 1
        self.counts["CTAs with a tile"] += bool(groups)
        self._second |= any(count > 1 for count in tiles)
        # consumers that share a tile have it each
        self._tiles[cta.number] = max(tiles, default=0)
        self._products[cta.number] = self._k_tiles.products_of(cta)
        corners = [self._corner(tile) for tile in groups[0] if tile.first] if groups else []
        self._corners[cta.number] = [corner for corner in corners if corner]
        # consumers may take turns; then a CTA with a single tile of D has nothing for the second
        if len(groups) > 1 or tiles and tiles[0] > 1:
            self.counts["CTAs that multiply"] += 1
            self.counts["CTAs with two consumers"] += len(groups) > 1

    def _corner(self, tile: KTile) -> Coordinates | None:
        """Where the rows of A and of B begin that a K tile has, None where TMA did not bring both."""
        begins: dict[str, int] = {}
        for name, rows in self._fills.rows(tile.codes):
            begins[name] = min(rows[0], begins.get(name, rows[0]))
        names = [tensor.name for tensor in self.machine.artifact.tensors[:2]]
        return tuple(begins[name] for name in names) if begins.keys() >= set(names) else None

    def end(self) -> None:
        """The counts, once all clusters have run."""
        tiles = self._corners
        if any(len(corners) < self._tiles[number] for number, corners in tiles.items()):
            tiles = self._stores.tiles  # of which nobody tells what was multiplied for them
        if self._second:
            self._panels(tiles)
            self._neighbours(tiles)
        self._rounds()

    def _rounds(self) -> None:
        """How many tiles does the busiest CTA take, and how many would it with a CTA on every SM?
        Unknown where not all CTAs ran. (No kernel of three tensors has a counter to draw tiles from.)
        """
        x, y, z = self.machine.artifact.grid
        if len(self._tiles) < x * y * z:
            self._even(x * y * z)
            return
        self.counts["tiles taken"] = sum(self._tiles.values())
        self.counts["rounds"] = max(self._tiles.values())
        self.counts["rounds of all SMs"] = -(-sum(self._tiles.values()) // self.machine.artifact.chip.sms)

    def _even(self, ctas: int) -> None:
        """Of a few CTAs that ran: how many take about as many tiles as all would, each with an even share?"""
        artifact = self.machine.artifact
        if not (self._k_tiles.counts["products multiplied"] and artifact.has_problem):
            return
        M, N, K = artifact.problem
        sides = *artifact.tensors[-1].shape[-2:], K
        edge = any(side % ROWS for side in sides)  # tiles there multiply more than there is
        tile = max(products / max(self._tiles[n], 1) for n, products in self._products.items())
        even = M * N * self._k_tiles.padded(K) / ctas / tile
        for products in self._products.values():
            self.counts["CTAs looked at"] += 1
            self.counts["CTAs with their share"] += edge or floor(even) - 1 <= products / tile <= ceil(even)

    def _panels(self, tiles: Mapping[int, list[Coordinates]]) -> None:
        """How many rows and columns of tiles do CTAs that run at one time read between them, in the round
        where that is most? Where each has one tile, all of D is read at one time in any order.
        """
        found, sides = [], _sides(tiles)
        for turn in range(max(map(len, tiles.values()), default=0)):
            begun = [tiles[n][turn] for n in sorted(tiles) if len(tiles[n]) > turn]
            windows = [begun[i : i + WINDOW] for i in range(len(begun) - WINDOW + 1)]
            read = [_read(window, sides) for window in windows]
            if turn == 0 and read or len(read) >= WINDOW:  # of a few nobody can tell
                found.append((sum(count <= SHARED for count in read) / len(read), read))
        for _, read in sorted(found)[:1]:
            self.counts["neighbouring CTAs"] += len(read)
            self.counts["rows and columns of theirs"] += sum(read)
            self.counts["neighbouring CTAs that share"] += sum(count <= SHARED for count in read)

    def _neighbours(self, tiles: Mapping[int, list[Coordinates]]) -> None:
        """In each round, are the tiles near that a CTA and the next one take, and not in one row with that of
        the eighth one? (The step from one panel to the next is far.)
        """
        sides = _sides(tiles)
        for number, mine in tiles.items() if all(sides) else ():
            eighth = tiles.get(number + APART, ())
            for turn, (one, other) in enumerate(zip(mine, tiles.get(number + 1, ()), strict=False)):
                in_a_row = turn < len(eighth) and _in_a_row(_apart(one, eighth[turn], sides))
                self.counts["tiles of neighbours"] += 1
                self.counts["tiles of neighbours, near"] += (
                    sum(_apart(one, other, sides)) <= NEAR and not in_a_row
                )


def _sides(tiles: Mapping[int, list[Coordinates]]) -> list[int]:
    """Rows and columns of D in a tile, zeros where all tiles begin in one row, or in one column, and for a
    tensor of other than two dimensions.
    """
    corners = [corner for mine in tiles.values() for corner in mine]
    if any(len(corner) != 2 for corner in corners):
        return [0, 0]
    begins = [sorted({corner[axis] for corner in corners}) for axis in (0, 1)]
    return [gcd(*(b - a for a, b in pairwise(axis))) for axis in begins]


def _read(window: list[Coordinates], sides: list[int]) -> int:
    """Rows and columns of tiles that these tiles lie in, or as many of square tiles if those are fewer."""
    counts = [len(set(axis)) for axis in zip(*window, strict=True)]
    if not all(sides) or len(counts) != len(sides):
        return sum(counts)
    weighed = sum(count * side for count, side in zip(counts, sides, strict=True))
    return min(sum(counts), ceil(weighed / sqrt(prod(sides))))


def _apart(one: Coordinates, other: Coordinates, sides: list[int]) -> list[int]:
    """Rows and columns of tiles between two tiles of D of these ``sides``."""
    return [abs(one[axis] - other[axis]) // side for axis, side in enumerate(sides)]


def _in_a_row(apart: list[int]) -> bool:
    least, most = sorted(apart)
    return least <= 1 and most >= APART - 1
