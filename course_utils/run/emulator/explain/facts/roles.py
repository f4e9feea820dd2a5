"""Who does what by tcgen05: warps that load, threads that issue MMAs, warps that read tensor memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.k_tiles import KTiles
from course_utils.run.emulator.explain.results import Read, Results

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Warp


class Roles:
    """The warps of a cluster that read accumulators."""

    def __init__(self, machine: Machine) -> None:
        self.counts = Counter[str]()
        self._fills, self._k_tiles = machine.unit(Fills), machine.unit(KTiles)
        self._results = machine.unit(Results)
        self._columns = machine.artifact.chip.tensor_memory[1]
        self._readers: set[Warp] = set()
        machine.probe.listen(Read, self._read)

    def clear(self) -> None:
        """A cluster has ended."""
        self._readers.clear()

    def close(self, cta: CTA) -> None:
        """Does each warp that works for a CTA's part of D do one thing only? And how many columns of its
        tensor memory have sums?
        """
        readers = {warp for warp in self._readers if warp.cta is cta}
        if not readers:
            return
        loads = {
            issue.warp
            for issue in self._fills.issues
            for fill, _, _ in issue.targets
            if any(group.cta is cta for group in fill.readers)
        }
        multiplies = {group.warps[0] for group in self._k_tiles.of_group if group.cta is cta}
        self.counts["CTAs with sums"] += 1
        self.counts["CTAs with three roles"] += (
            bool(loads) and loads.isdisjoint(multiplies) and readers.isdisjoint(loads | multiplies)
        )
        self.counts["columns of tensor memory"] += self._columns
        self.counts["columns with sums"] += self._results.columns(cta)

    def _read(self, event: Read) -> None:
        self._readers.add(event.path.warp)
