"""The adversary: who runs next, and when asynchronous bytes land. Everything it decides follows from the
seed.

PTX promises no order between warps and none between asynchronous operations but what barriers and waits
impose. Each seed draws a character: some warps slow, short or long turns, TMA prompt or as late as can be,
whole or in many pieces. Two of three seeds hold one CTA of each cluster, or one warp of each CTA, back for as
long as anything else can go on and does not only poll, so that the others are a whole round ahead where
barriers let them. When no warp can run, bytes land; when none are left, every try_wait is let expire once;
and if nothing has changed after that, the program is deadlocked.
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
        # whom it holds back: two of three seeds somebody, and who is drawn apart from all else
        self.held, self.which = ("", "cta", "warp")[seed % 3], random.Random(~seed).random()

    def holds(self, rank: int, size: int, warp: int, warps: int) -> bool:
        """Is this warp, of the CTA of this rank in a cluster of ``size``, one that is held back?"""
        if self.held == "cta" and size > 1:
            return rank == int(self.which * size)
        return self.held != "" and warp == int(self.which * warps)

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

    def next_path(self, ready: list, idle: bool = False) -> Any:
        """Who runs next, removed from the list; one that is held where there is no other, or where the others
        have changed nothing for a while (``idle``).
        """
        if len(ready) == 1:
            return ready.pop()
        path = self.take(ready)
        if path.slow and self.random.random() < 0.9:  # a slow warp gives way nine times of ten
            other = self.take(ready)
            ready.append(path)
            path = other
        if path.held and not idle:
            for i, other in enumerate(ready):
                if not other.held:
                    ready[i] = path
                    return other
        return path
