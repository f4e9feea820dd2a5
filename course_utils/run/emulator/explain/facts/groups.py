"""Who multiplies: a warpgroup by ``wgmma``, or the thread that issues tcgen05.mma for a CTA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from course_utils.artifact import WARP_THREADS, WARPGROUP_THREADS

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Warp
    from course_utils.run.emulator.units.tcgen05 import Issuer, Operation
    from course_utils.run.emulator.units.wgmma import Warpgroup


@dataclass(eq=False)
class MmaThread:
    """A thread that issues tcgen05.mma, for the part that ``cta`` has of each: of a pair there are two."""

    cta: CTA
    issuer: Issuer

    @property
    def warps(self) -> tuple[Warp, ...]:
        return (self.issuer.warp,)

    @property
    def number(self) -> int:
        return self.issuer.warp.index * WARP_THREADS // WARPGROUP_THREADS


Group: TypeAlias = "Warpgroup | MmaThread"


class Groups:
    """The threads that issue tcgen05.mma, for each CTA."""

    def __init__(self, machine: Machine) -> None:
        self._of: dict[tuple[Issuer, CTA], MmaThread] = {}

    def of(self, op: Operation, cta: CTA) -> MmaThread:
        return self._of.setdefault((op.issuer, cta), MmaThread(cta, op.issuer))
