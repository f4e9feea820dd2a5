"""Does what comes after a read of shared memory wait for the value? Then the read is done once that is."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_utils.run.emulator.isa.translate import Program

# What tells other threads that a read is done
_TELLS = ("bar", "barrier")
_FAR = 400  # instructions


@lru_cache(maxsize=256)
def waits_for_value(program: Program, at: int) -> bool:
    """Does an instruction that stays ahead of the next arrival take a value computed from what instruction
    ``at`` has read: a branch, a store, a shuffle, or that arrival itself? A warp issues in order, so it
    stands there until the value has come. Arithmetic alone may be moved behind the arrival.
    """
    from_it = set(program.lowered[at].writes())
    for index in range(at + 1, min(at + _FAR, len(program.lowered))):
        instruction, lowered = program.kernel.instructions[index], program.lowered[index]
        taken = bool(from_it & set(lowered.reads(instruction)))
        if lowered.kind in ("value", "copy"):
            from_it = from_it | set(lowered.writes()) if taken else from_it - set(lowered.writes())
            continue
        if taken and not instruction.opcode[0].startswith("mma"):
            return True
        if instruction.opcode[0] in _TELLS or instruction.opcode[:2] == ("mbarrier", "arrive"):
            return False
    return False
