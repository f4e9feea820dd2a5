"""What happens before what: vector clocks over the warps and mbarriers of a cluster.

An agent is a warp or an mbarrier, and each has a clock of its own. A warp's ``seen[a]`` says how far into
agent a's history everything is ordered before this warp's next instruction (PTX ISA, "Memory Consistency
Model", causality order). A warp's ``fenced[a]`` says how much of that has also passed a proxy fence of shared
memory, so that the async proxy sees it ("Proxies"), and ``fenced_global[a]`` the same of global memory.
``hoped[a]`` is what it would have seen, if a fence that the ISA asks of one thread were not missing, or
another thread's; for that ``pushed[a]`` is what threads have fenced, and ``polled[a]`` what relaxed reads
have found.

Memory keeps for each word the code of its last writer: the agent, and its time then. A warp's own
writes carry the warp's time; a TMA load carries that of the mbarrier's phase which it will complete. One
comparison then answers whether a read is safe, whatever the schedule of this run: the race is found even
where the numbers came out right.

Clusters have agents of their own. What a clock knows of another cluster, which it has from words in global
memory alone, it keeps apart, in ``far``.
"""

from __future__ import annotations

import numpy as np

AGENT_BITS = 12
AGENT_MASK = (1 << AGENT_BITS) - 1
NEVER = 1 << 50  # a time that no clock reaches: an asynchronous write not yet waited for
STARTED = 1  # a warp's time as it begins: who has seen that knows that it runs
ROWS = 6
# How far an access or a fence reaches: the threads of its CTA, its cluster, or all. 0 is a weak access
CTA_SCOPE, CLUSTER_SCOPE, GPU_SCOPE = 1, 2, 3
SCOPES = {"cta": CTA_SCOPE, "cluster": CLUSTER_SCOPE, "gpu": GPU_SCOPE, "sys": GPU_SCOPE}


class Order:
    """The agents of one cluster, ``number`` among the launch's. Agent 0 is nobody: code 0 means never
    written, and counts as ordered.
    """

    def __init__(self, warps: int, number: int = 0) -> None:
        self.number = number
        self.size = warps + 64
        self.count = 1
        self.clocks: list[Clock] = []  # every clock handed out, so that all can grow

    def new_agent(self) -> int:
        self.count += 1
        if self.count > AGENT_MASK:
            raise ValueError("too many warps and mbarriers in one cluster for the emulator")
        if self.count > self.size:
            self.size *= 2
            for holder in self.clocks:
                holder.grow(self.size)
        return self.count - 1

    def clock(self) -> Clock:
        clock = Clock(self.size)
        self.clocks.append(clock)
        return clock


class Clock:
    """What its owner has seen, and what of that is fenced for the async proxy."""

    __slots__ = ("_rows", "seen", "fenced", "fenced_global", "hoped", "pushed", "polled", "far")

    def __init__(self, size: int) -> None:
        self._set(np.zeros((ROWS, size), np.int64))
        self.far: dict[int, Clock] | None = None  # of other clusters, by their number; never changed in place

    def _set(self, rows: np.ndarray) -> None:
        self._rows = rows
        self.seen, self.fenced, self.fenced_global, self.hoped, self.pushed, self.polled = rows

    def grow(self, size: int) -> None:
        wider = np.zeros((ROWS, size), np.int64)
        wider[:, : len(self.seen)] = self._rows
        self._set(wider)

    def join(self, other: Clock) -> None:
        """See all that ``other``, of this cluster, has seen."""
        if len(other.seen) != len(self.seen):
            other = self._level(other)
        np.maximum(self._rows, other._rows, out=self._rows)
        if other.far is not None:
            self._join_far(other.far)

    def _level(self, other: Clock) -> Clock:
        """``other``, as long as this one is then."""
        if len(self.seen) < len(other.seen):
            self.grow(len(other.seen))
        elif len(self.seen) > len(other.seen):
            other = other.copy()
            other.grow(len(self.seen))
        return other

    def _join_far(self, far: dict[int, Clock]) -> None:
        mine = dict(self.far or {})
        for number, clock in far.items():
            if number in mine and mine[number] is not clock:
                both = mine[number].copy()
                both.join(clock)
                clock = both
            mine[number] = clock
        self.far = mine

    def acquire(self, mine: int, other: Clock, number: int) -> None:
        """See what ``other``, a clock of cluster ``number``, has seen; this one is of cluster ``mine``."""
        if number == mine:
            self.join(other)
            return
        far = dict(other.far or {})
        if mine in far:
            self.join(far.pop(mine))
        alone = other.copy()
        alone.far = None
        self._join_far({**far, number: alone})

    def note(self, mine: int, other: Clock, number: int, row: str) -> None:
        """``acquire``, but only in a ``row``: "hoped" or "polled"."""
        self.acquire(mine, _only(other, row), number)

    def raise_to(self, row: str, to: str = "seen") -> None:
        """What one row has, this one has from here on, of other clusters too."""
        rows = getattr(self, row)
        np.maximum(rows, getattr(self, to), out=rows)
        if self.far is not None:
            self.far = {number: clock.copy() for number, clock in self.far.items()}
            for clock in self.far.values():
                clock.raise_to(row, to)

    def meet(self, other: Clock) -> None:
        """Keep what both have seen: for an operation that several warps issue together."""
        if len(self.seen) != len(other.seen):
            other = self._level(other)
        np.minimum(self._rows, other._rows, out=self._rows)

    def copy(self) -> Clock:
        clock = Clock.__new__(Clock)
        clock._set(self._rows.copy())
        clock.far = self.far
        return clock


def _only(clock: Clock, row: str) -> Clock:
    """A clock with nothing but this row: what ``clock`` has seen, or hopes to have."""
    alone = clock.copy()
    found = np.maximum(alone.seen, alone.hoped)
    alone._rows[:] = 0
    getattr(alone, row)[:] = found
    if clock.far is not None:
        alone.far = {number: _only(one, row) for number, one in clock.far.items()}
    return alone


def any_unordered(codes: np.ndarray, seen: np.ndarray) -> bool:
    """Is any of ``unordered`` true? Mostly one warp wrote all, and it is asked once."""
    if codes.ndim != 1:
        return bool(np.count_nonzero(unordered(codes, seen)))
    for code in set(codes.tolist()):
        if code >> AGENT_BITS > seen[code & AGENT_MASK]:
            return True
    return False


def unordered(codes: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Which of the writers' codes are not ordered before a reader who has seen ``seen``."""
    return (codes >> AGENT_BITS) > seen[codes & AGENT_MASK]
