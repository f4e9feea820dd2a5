"""Registers that warpgroups give back and take, by what they do: load, or multiply."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from course_utils.artifact import WARP_THREADS, WARPGROUP_THREADS
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.k_tiles import KTiles
from course_utils.run.emulator.units.sync import RegistersAsked
from course_utils.run.emulator.units.wgmma import Issued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA

WARPS = WARPGROUP_THREADS // WARP_THREADS


class Registers:
    """Warps of a cluster that gave registers back (False) or took some (True), by CTA."""

    def __init__(self, machine: Machine) -> None:
        self.counts = Counter[str]()
        self._fills, self._k_tiles = machine.unit(Fills), machine.unit(KTiles)
        self._moved: dict[tuple[CTA, bool], set[int]] = {}
        machine.probe.listen(RegistersAsked, self._asked)

    def clear(self) -> None:
        """A cluster has ended."""
        self._moved.clear()

    def close(self, cta: CTA) -> None:
        """Of the warpgroups whose loads are multiplied, and of those that multiply: how many gave registers
        back, and took some, with all four warps?
        """
        loading = {
            issue.warp.index // WARPS
            for issue in self._fills.issues
            if issue.warp.cta is cta and any(fill.readers for fill, _, _ in issue.targets)
        }
        multiplying = {group.number for group in self._k_tiles.of_group if group.cta is cta}
        ways = ((False, "released", loading, "loading"), (True, "taken", multiplying, "multiplying"))
        for grows, name, wanted, role in ways:
            warps = self._moved.get((cta, grows), set())
            reached = {index // WARPS for index in warps}
            whole = {g for g in reached if warps >= set(range(g * WARPS, (g + 1) * WARPS))}
            self.counts["registers to move"] += len(wanted)
            self.counts["registers moved by whole warpgroups"] += len(whole & wanted)
            self.counts[f"registers {name}, warpgroups"] += len(reached)
            self.counts[f"registers {name}, whole warpgroups"] += len(whole)
            self.counts[f"registers: {role}"] += len(wanted)
            self.counts[f"registers: {name} by {role}"] += len(whole & wanted)
        self.counts["CTAs with loads to multiply"] += bool(loading)
        self.counts["CTAs with a producer"] += bool(loading) and loading.isdisjoint(multiplying)

    def _asked(self, event: RegistersAsked) -> None:
        """A warp asks for registers, or gives some back: too late, once it has multiplied or loaded."""
        path, grows = event.path, event.grows
        if path.warp.unit(Issued).count or any(issue.warp is path.warp for issue in self._fills.issues):
            return
        self._moved.setdefault((path.cta, grows), set()).add(path.warp.index)
