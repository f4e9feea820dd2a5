"""What a kernel's code may still do from an instruction on, as far as an explanation asks: load, multiply,
store, arrive, come to a barrier.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import Imm
from course_utils.ptx.paths import origins

if TYPE_CHECKING:
    from course_utils.run.emulator.isa.translate import Program

_ABILITIES = {
    **dict.fromkeys((Family.TENSOR_LOAD, Family.MULTICAST_LOAD, Family.BULK_LOAD), "load"),
    **dict.fromkeys((Family.TENSOR_STORE, Family.TENSOR_REDUCE, Family.BULK_STORE), "store"),
    **dict.fromkeys((Family.ARRIVE, Family.REMOTE_ARRIVE), "arrive"),
    Family.WGMMA: "wgmma",
    Family.TCGEN05_COMMIT: "arrive",
}


class Ahead:
    """The code of one program, by what lies ahead of an instruction."""

    def __init__(self, program: Program) -> None:
        self.program, self.kernel = program, program.kernel
        self._abilities: dict[int, frozenset[str]] = {}
        self._arrivals: dict[int, frozenset[int]] = {}

    def abilities(self, pc: int) -> frozenset[str]:
        """What can still be reached from an instruction: "load", "store", "wgmma", "arrive"."""
        if pc not in self._abilities:
            self._abilities[pc] = frozenset(filter(None, map(self._ability, self.program.reached(pc))))
        return self._abilities[pc]

    def _ability(self, i: int) -> str:
        return _ABILITIES.get(family(self.kernel.instructions[i]), "")

    @cached_property
    def has_roles(self) -> bool:
        """Are there loads that no wgmma comes after? Without roles, who loads a tile multiplies it too."""
        able = [self._ability(i) for i in range(len(self.kernel.instructions))]
        loads = (i for i, ability in enumerate(able) if ability == "load")
        return "wgmma" in able and any("wgmma" not in self.abilities(i) for i in loads)

    def arrivals(self, pc: int) -> frozenset[int]:
        """The arrivals on mbarriers that can still be reached from an instruction."""
        if pc not in self._arrivals:
            reached = self.program.reached(pc)
            self._arrivals[pc] = frozenset(i for i in reached if self._ability(i) == "arrive")
        return self._arrivals[pc]

    def comes_to(self, pc: int, number: int | None) -> bool:
        """Can a barrier of threads still be reached from an instruction: the named one of this number, or the
        cluster's for None? A number in a register may be any.
        """
        for i in self.program.reached(pc):
            opcode, operands = self.kernel.instructions[i].opcode, self.kernel.instructions[i].operands
            if opcode[0] not in ("bar", "barrier"):
                continue
            if "cluster" in opcode:
                if number is None and "arrive" in opcode:
                    return True
            elif number is not None:
                named = operands["red" in opcode]  # which has its result before
                if not isinstance(named, Imm) or named.value == number:
                    return True
        return False

    @cached_property
    def shared(self) -> dict[str, str]:
        """The variables in shared memory, each by its own name, as ``paths.origins`` takes them."""
        return {v.name: v.name for v in self.kernel.variables if v.space == "shared"}

    @cached_property
    def shared_origins(self) -> dict[int, set[str]]:
        """Register to the variables in shared memory that its value may be an address in."""
        return origins(self.kernel.instructions, self.shared)


@lru_cache(maxsize=8)
def ahead(program: Program) -> Ahead:
    return Ahead(program)
