"""What happens before what: vector clocks over the warps and mbarriers of a cluster.

An agent is a warp or an mbarrier, and each has a clock of its own. A warp's ``seen[a]`` says how far into
agent a's history everything is ordered before this warp's next instruction (PTX ISA, "Memory Consistency
Model", causality order). A warp's ``fenced[a]`` says how much of that has also passed a proxy fence, so that
the async proxy sees it ("Proxies").

Shared memory keeps for each word the code of its last writer: the agent, and its time then. A warp's own
writes carry the warp's time; a TMA load carries that of the mbarrier's phase which it will complete. One
comparison then answers whether a read is safe, whatever the schedule of this run: the race is found even
where the numbers came out right.
"""

from __future__ import annotations

import numpy as np

AGENT_BITS = 12
AGENT_MASK = (1 << AGENT_BITS) - 1
NEVER = 1 << 50  # a time that no clock reaches: an asynchronous write not yet waited for


class Order:
    """The agents of one cluster. Agent 0 is nobody: code 0 means never written, and counts as ordered."""

    def __init__(self, warps: int) -> None:
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

    __slots__ = ("_both", "seen", "fenced")

    def __init__(self, size: int) -> None:
        self._set(np.zeros((2, size), np.int64))

    def _set(self, both: np.ndarray) -> None:
        self._both, self.seen, self.fenced = both, both[0], both[1]

    def grow(self, size: int) -> None:
        wider = np.zeros((2, size), np.int64)
        wider[:, : len(self.seen)] = self._both
        self._set(wider)

    def join(self, other: Clock) -> None:
        np.maximum(self._both, other._both, out=self._both)

    def meet(self, other: Clock) -> None:
        """Keep what both have seen: for an operation that several warps issue together."""
        if len(self.seen) != len(other.seen):
            self.grow(len(other.seen))
        np.minimum(self._both, other._both, out=self._both)

    def copy(self) -> Clock:
        clock = Clock.__new__(Clock)
        clock._set(self._both.copy())
        return clock


def unordered(codes: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Which of the writers' codes are not ordered before a reader who has seen ``seen``."""
    return (codes >> AGENT_BITS) > seen[codes & AGENT_MASK]
