"""Tensor maps that a kernel changes in global memory: is each change fenced for the proxy that reads maps?

PTX ISA, "membar / fence" (fence.proxy.tensormap): the warp that changed a map releases the change, something
orders that before the warp that issues a transfer, and this one acquires the map, by its address. A change is
a tensormap.replace, a tensormap.cp_fenceproxy, which releases what it writes, or an ordinary store.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from course_utils.artifact import TENSOR_MAP_BYTES
from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK
from course_utils.run.emulator.explain.hazards import find
from course_utils.run.emulator.explain.owners import CODE, Owners
from course_utils.run.emulator.units.tensormaps import MapAcquired, MapReleased, MapUsed

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.memory import Tensor
    from course_utils.run.emulator.core.threads import Path, Warp


class MapOrder:
    """Changes of maps, by the codes of those who made them (see ``Owners``)."""

    def __init__(self, machine: Machine) -> None:
        self.owners = machine.unit(Owners)
        self.released: dict[int, list[int]] = {}  # of a warp, by its code without a time: when it released
        self.acquired: dict[tuple[Tensor, int, Warp], set[int]] = {}  # by who is to use the map
        machine.probe.listen(MapReleased, self._release)
        machine.probe.listen(MapAcquired, self._acquire)
        machine.probe.listen(MapUsed, self._use)

    def _release(self, event: MapReleased) -> None:
        warp = event.path.warp
        code = self.owners.code_of(event.path, warp.agent)
        self.released.setdefault(code, []).append(warp.time)
        warp.tick()

    def _acquire(self, event: MapAcquired) -> None:
        codes = self.owners.writers(event.region, event.offset, TENSOR_MAP_BYTES)
        key = event.region, event.offset, event.path.warp
        self.acquired[key] = {code for code in codes if self._is_released(event.path, code)}

    def _use(self, event: MapUsed) -> None:
        codes = self.owners.writers(event.region, event.offset, TENSOR_MAP_BYTES)
        path = event.path
        missed = codes - self.acquired.get((event.region, event.offset, path.warp), set())
        if not missed:
            return
        code = min(missed)
        values = {"who": path.warp, "what": event.region.name, "offset": event.offset}
        values["by"] = self.owners.who(path, code)
        if not self.owners.is_ordered(path, code):
            find(path, "read-before-write", "uses a map that is changed unordered", values)
        elif self._is_released(path, code):
            find(path, "tensormap-fence", "a map is used without an acquire", values)
        else:
            find(path, "tensormap-fence", "a map is used without a release", values)

    def _is_released(self, path: Path, code: int) -> bool:
        """Has the warp that made a change released it since, and does ``path`` come after that?"""
        warp, time = code & ~(CODE & ~AGENT_MASK), (code & CODE) >> AGENT_BITS
        times = self.released.get(warp, [])
        at = bisect_left(times, time)
        return at < len(times) and self.owners.is_ordered(path, warp | times[at] << AGENT_BITS)
