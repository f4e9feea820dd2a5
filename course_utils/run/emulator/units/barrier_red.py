"""barrier.red: threads meet at a named barrier, and each gets what all their predicates make together.

PTX ISA, "bar, barrier": .popc counts those that hold, .and and .or say whether all or any do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units import sync

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import Path

WORDS = {"popc": "u32", "and": "pred", "or": "pred"}  # what a reduction gives, by its name


class Votes:
    """What the threads bring that have come to a barrier, and where each of them wants the result."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.came: list[tuple[Path, int, int, Mask]] = []
        self.yes = self.all = 0

    def add(self, path: Path, register: int, width: int, mask: Mask, predicate: Value) -> None:
        lanes = np.full(LANES, True) if mask is None else mask
        self.came.append((path, register, width, mask))
        self.yes += int((lanes & predicate).sum())
        self.all += int(lanes.sum())

    def give(self) -> None:
        """The barrier is complete: all get what the votes make."""
        result = {"popc": self.yes, "and": self.yes == self.all, "or": self.yes > 0}[self.operation]
        for path, register, width, mask in self.came:
            path.write(register, result, width, mask)


def reduce(instruction: Instr) -> Lowered:
    """barrier{.cta}.red.OP{.aligned}.TYPE d, a{, b}, {!}c and bar.red: a barrier.sync that brings votes."""
    target, number, *count, predicate = instruction.operands
    operation = instruction.opcode[instruction.opcode.index("red") + 1]
    if instruction.opcode[-1] != WORDS[operation] or len(count) > 1:
        raise ValueError("another type or number of operands")
    opcode = tuple("sync" if part == "red" else part for part in instruction.opcode)
    inner = sync.cta_barrier(replace(instruction, opcode=opcode, operands=(number, *count)))
    assert inner.function is not None
    meet = inner.function

    def function(p: Path, m: Mask, following: int, vote: Value, where: Value, *count: Value) -> int:
        barrier = p.cta.unit(sync.NamedBarriers).at(memory.pick(where, memory.lanes_of(m)[0]))
        if barrier.votes is None:
            barrier.votes = Votes(operation)
        barrier.votes.add(p, target.index, target.width, m, vote)
        stopped: int = meet(p, m, following, where, *count)
        return stopped

    sources = (predicate, 1), *inner.sources
    return Lowered("blocking", function, sources=sources, cut=True, hidden_writes=(target.index,))
