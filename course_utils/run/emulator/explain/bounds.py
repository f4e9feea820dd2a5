"""Accesses outside their memory: which index is it that goes too far?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.artifact import WARP_THREADS, WARPGROUP_THREADS
from course_utils.cause import Cause
from course_utils.run.emulator.core.memory import Outside, SharedMemory, Tensor
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.explain.hazards import find
from course_utils.run.emulator.units.tma import TileOutside

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.memory import Region
    from course_utils.run.emulator.core.warp import Path


class Bounds:
    """Makes findings of accesses outside their memory."""

    def __init__(self, machine: Machine) -> None:
        machine.probe.listen(Outside, _outside)
        machine.probe.listen(TileOutside, _tile_outside)


def _outside(event: Outside) -> None:
    path, region, offset = event.path, event.region, event.offset
    case = _asked(path, region, offset)
    ask = Cause("", case, {"threads": path.machine.artifact.threads}) if case else None
    values = {"who": path.warp, "what": region.describe(offset), "ask": ask}
    find(path, "out-of-bounds", "an access", values)


def _asked(path: Path, region: Region, offset: int) -> str:
    """What to ask of an access outside: the case of a question."""
    artifact = path.machine.artifact
    if isinstance(region, SharedMemory):
        late = ahead(path.machine.program).has_roles and path.warp.index >= WARPGROUP_THREADS // WARP_THREADS
        return "a slice by the thread in the CTA" if late else ""
    if not isinstance(region, Tensor):
        return ""
    shapes = [tensor.shape for tensor in artifact.tensors]
    shape = next(tensor.shape for tensor in artifact.tensors if tensor.name == region.name)
    if len(shapes) < 3 or any(len(one) != 2 for one in (*shapes[:2], shapes[-1])):  # no matrix product
        return ""
    if artifact.grid == (1, 1, 1):
        return "shares of more than a tile"
    rows = offset // region.element // shape[-1]
    if any(shape[0] <= rows < other for other in artifact.problem):
        return "M and N or x and y mixed up" if artifact.grid[1] > 1 else "M and N mixed up"
    return "an index that counts tiles"


def _tile_outside(event: TileOutside) -> None:
    path, cta, view = event.path, event.cta, event.view
    by_rank = path.cta.number >= (size := cta.cluster.size) > 1
    ask = Cause("", "a slice by the CTA's number", {"size": size}) if by_rank else Cause("", "a slot too few")
    values = {
        "tensor": view.name,
        "low": event.offset,
        "high": event.offset + view.extent,
        "size": cta.shared.size,
        "ask": ask,
    }
    find(path, "out-of-bounds", "a TMA transfer outside", values)
