"""Accesses outside their memory: which index is it that goes too far?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.artifact import WARP_THREADS, WARPGROUP_THREADS
from course_utils.cause import Cause
from course_utils.run.emulator.core.memory import SharedMemory, Tensor
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.ahead import ahead

if TYPE_CHECKING:
    from course_utils.run.emulator.core.memory import Region
    from course_utils.run.emulator.core.threads import Hazard, Path
    from course_utils.run.emulator.explain.findings import Finding, Findings


def outside(findings: Findings, hazard: Hazard) -> Finding:
    """An access by threads."""
    path, region, offset = hazard.path, hazard.values["region"], hazard.values["offset"]
    case = _asked(path, region, offset)
    ask = Cause("", case, {"threads": path.machine.artifact.threads}) if case else None
    values = {"who": names.who([path.warp], path.cta), "what": region.describe(offset), "ask": ask}
    return findings.find(Cause(hazard.kind, hazard.case, values), hazard.at)


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


def tile_outside(findings: Findings, hazard: Hazard) -> Finding:
    """A tile that TMA transfers."""
    cta, view, offset = (hazard.values[name] for name in ("cta", "view", "offset"))
    by_rank = hazard.path.cta.number >= (size := cta.cluster.size) > 1
    ask = Cause("", "a slice by the CTA's number", {"size": size}) if by_rank else Cause("", "a slot too few")
    values = {"tensor": view.name, "low": offset, "high": offset + view.extent}
    values |= {"size": cta.shared.size, "ask": ask}
    return findings.find(Cause(hazard.kind, hazard.case, values), hazard.at)


def descriptor_outside(findings: Findings, hazard: Hazard) -> Finding:
    """A matrix that wgmma reads. A ring that is too short explains it."""
    first = "ring-overrun" not in {kind for kind, _, _ in findings.found}
    values = dict(hazard.values)
    note = Cause("note", "the descriptor", {"descriptor": values.pop("descriptor")})
    return findings.find(Cause(hazard.kind, hazard.case, values), hazard.at, notes=[note], first=first)
