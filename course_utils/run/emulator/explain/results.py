"""Whose sums a warp holds: of the ``wgmma`` that it issued last, or (tcgen05) of the MMA whose accumulator it
has read last out of tensor memory. Who has neither works before any result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from course_utils.run.emulator.core.order import AGENT_BITS
from course_utils.run.emulator.units import tcgen05, tmem
from course_utils.run.emulator.units.tcgen05 import Issuers
from course_utils.run.emulator.units.wgmma import Issued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Path, Warp
    from course_utils.run.emulator.units.tcgen05 import Issuer


@dataclass(slots=True)
class Read:
    """A warp reads an accumulator: the sums up to the MMA ``number`` of its issuer, for the first time."""

    path: Path
    issuer: Issuer
    number: int


class Taken:
    """What a warp has read last out of tensor memory, 0 before: the issuer of the last MMA into it, and the
    number of that.
    """

    def __init__(self, warp: Warp) -> None:
        self.code = 0


class Results:
    """By CTA the last MMA into each column of its tensor memory, by its number in ``issuers``."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._last: dict[CTA, np.ndarray] = {}  # of each column: the issuer's agent, and above it the number
        self._issuers: dict[tuple[CTA, int], Issuer] = {}
        machine.probe.listen(tcgen05.Issued, self._issued)
        machine.probe.listen(tmem.Loaded, self._loaded)

    def clear(self) -> None:
        """A cluster has ended."""
        self._last.clear()
        self._issuers.clear()

    def columns(self, cta: CTA) -> int:
        """Into how many columns of a CTA's tensor memory have MMAs written?"""
        return int(np.count_nonzero(self._last[cta])) if cta in self._last else 0

    def _issued(self, event: tcgen05.Issued) -> None:
        op = event.operation
        low, high = op.written
        for cta in op.ctas:
            if cta not in self._last:
                self._last[cta] = np.zeros(tmem.tensor_memory(cta).columns, np.int64)
            self._last[cta][low:high] = op.number << AGENT_BITS | op.issuer.agent
            self._issuers[cta, op.issuer.agent] = op.issuer

    def _loaded(self, event: tmem.Loaded) -> None:
        path = event.path
        if path.cta not in self._last:
            return
        code = int(self._last[path.cta][event.low : event.high].max(initial=0))
        taken = path.warp.unit(Taken)
        if code and taken.code != code:
            taken.code = code
            issuer = self._issuers[path.cta, code & (1 << AGENT_BITS) - 1]
            self.machine.probe.emit(Read(path, issuer, code >> AGENT_BITS))


def held(warp: Warp) -> int:
    """Tells one tile's sums that a warp holds from another's; 0 where it has none yet."""
    return warp.unit(Issued).count or warp.unit(Taken).code


def issued(warp: Warp) -> int:
    """How many multiplications has a warp issued?"""
    issuers = warp.unit(Issuers).by_lane.values()
    return warp.unit(Issued).count or max((one.time for one in issuers), default=0)
