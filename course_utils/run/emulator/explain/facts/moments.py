"""Where a warp stood, and what must have been before it: causality order (``order``), the same under every
schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path


@dataclass(slots=True)
class Moment:
    """Where one warp stood: its agent and time, what it had seen, and how far the machine was."""

    agent: int
    time: int
    now: int
    seen: np.ndarray | None = None

    def after(self, other: Moment) -> bool:
        """Must ``other`` have been before?"""
        if self.agent == other.agent:
            return self.now > other.now
        if self.seen is None or other.agent >= len(self.seen):  # one that came later
            return False
        return bool(self.seen[other.agent] >= other.time)


class Moments:
    """Numbers the moments of a launch, which order those of one warp."""

    def __init__(self, machine: Machine) -> None:
        self._now = 0

    def of(self, path: Path, seen: bool = False) -> Moment:
        """The present one of a warp; with what it has seen where ``seen``."""
        warp = path.warp
        self._now += 1
        return Moment(warp.agent, warp.time, self._now, warp.clock.seen.copy() if seen else None)
