"""The adversary: who runs next, and when asynchronous bytes land. Everything it decides follows from the
seed.

PTX promises no order between warps and none between asynchronous operations but what barriers and waits
impose. Each seed draws a character: some warps slow, short or long turns, TMA prompt or as late as can be,
whole or in many pieces. When no warp can run, bytes land; when none are left, every try_wait is let expire
once; and if nothing has changed after that, the program is deadlocked.
"""

from __future__ import annotations

import random
from typing import Any, Protocol, TypeAlias


class Lands(Protocol):
    """What is on its way: ``units`` of it land together, from one to before another."""

    def land(self, begin: int, end: int) -> None: ...


Flying: TypeAlias = tuple[Lands, int, int]  # which of its units land together


class Schedule:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.land_early = draw.choice((0.0, 0.0, 0.02, 0.2, 0.7))
        self.pieces = draw.choice((1, 2, 3, 6))
        self.slow_share = draw.choice((0.0, 0.2, 0.5))
        self.turn = draw.choice((1, 4, 16, 64))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def split(self, units: int) -> list[tuple[int, int]]:
        """Cut a load of so many units into pieces."""
        cuts = sorted(
            {0, units, *(self.random.randrange(units) for _ in range(self.random.randrange(self.pieces)))}
        )
        return list(zip(cuts, cuts[1:], strict=False))

    def take(self, items: list) -> Any:
        """Any one of a list, removed from it."""
        i = int(self.random.random() * len(items))
        items[i], items[-1] = items[-1], items[i]
        return items.pop()

    def next_path(self, ready: list) -> Any:
        if len(ready) == 1:
            return ready.pop()
        path = self.take(ready)
        if path.slow and self.random.random() < 0.9:  # a slow warp gives way nine times of ten
            other = self.take(ready)
            ready.append(path)
            return other
        return path
