"""Rows that nobody multiplies: is the load of later ones under way while some are stored?"""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK
from course_utils.run.emulator.explain.facts.boxes import elements
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.k_tiles import KTiles
from course_utils.run.emulator.explain.facts.moments import Moment, Moments
from course_utils.run.emulator.units.mbarrier import mbarriers
from course_utils.run.emulator.units.tma import StoreIssued
from course_utils.run.emulator.units.views import TensorView

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA


class Rows:
    """Tensor stores of CTAs that multiply nothing."""

    def __init__(self, machine: Machine) -> None:
        self.counts = Counter[str]()
        self._fills, self._k_tiles = machine.unit(Fills), machine.unit(KTiles)
        self._moments = machine.unit(Moments)
        self._outputs: list[tuple[CTA, Moment]] = []
        machine.probe.listen(StoreIssued, self._store_issued)

    def clear(self) -> None:
        """A cluster has ended."""
        self._outputs.clear()

    def close(self) -> None:
        """Were the loads that a warp awaits for its next result under way while it stored one?"""
        stored_by: dict[int, list[tuple[CTA, Moment]]] = {}
        for cta, stored in self._outputs:
            stored_by.setdefault(stored.agent, []).append((cta, stored))
        for (cta, stored), (_, following) in chain.from_iterable(map(pairwise, stored_by.values())):
            agents = {barrier.agent for barrier in mbarriers(cta).values()}
            seen, later = stored.seen, following.seen
            assert seen is not None and later is not None
            awaited = [
                fill
                for code, fill in self._fills.by_code.items()
                if (agent := code & AGENT_MASK) in agents and seen[agent] < code >> AGENT_BITS <= later[agent]
            ]
            if awaited:
                self.counts["results stored"] += 1
                self.counts["results stored with a load ahead"] += not any(
                    issue.moment.after(stored) for fill in awaited for issue in fill.issues
                )

    def _store_issued(self, event: StoreIssued) -> None:
        view, cta = event.store.view, event.path.cta
        if not isinstance(view, TensorView) or not elements(view, event.store.coordinates):
            return
        if not self._k_tiles.of(cta):
            self._outputs.append((cta, self._moments.of(event.path, seen=True)))
