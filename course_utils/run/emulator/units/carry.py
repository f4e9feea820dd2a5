"""Integers wider than a register: what adds and subtracts with the carry of the instruction before.

PTX ISA, "Extended-Precision Arithmetic Instructions": add.cc, addc, sub.cc, subc, mad.cc, madc. The condition
code is a bit of each thread's own, which nothing else reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED, split_type, to_signed
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import Path, Warp


class Carry:
    """The condition code of each lane of a warp."""

    def __init__(self, warp: Warp) -> None:
        self.bits = [0] * LANES


def extended(instruction: Instr) -> Lowered:
    """add{c}, sub{c} and mad{c}.lo or .hi, with .cc where the carry is kept."""
    name, type_name = instruction.opcode[0], instruction.opcode[-1]
    kind, bits = split_type(type_name)
    target, *sources = instruction.operands
    if bits not in (32, 64) or len(sources) != (3 if name.startswith("mad") else 2):
        raise ValueError("another type or number of operands")
    takes, keeps, high = name.endswith("c"), "cc" in instruction.opcode, "hi" in instruction.opcode
    minus, full = name.startswith("sub"), (1 << bits) - 1

    def function(p: Path, m: Mask, *values: Value) -> np.ndarray:
        carry = p.warp.unit(Carry).bits
        result: np.ndarray = np.zeros(LANES, UNSIGNED[bits])
        for lane in memory.lanes_of(m):
            a, b, *rest = (memory.pick(value, lane) for value in values)
            if rest:
                if kind == "s":
                    a, b = to_signed(a, bits), to_signed(b, bits)
                a, b = (a * b >> bits * high) & full, rest[0]
            given = carry[lane] if takes else 0
            total = a - b - given if minus else a + b + given
            result[lane] = total & full
            if keeps:
                carry[lane] = int(not 0 <= total <= full)
        return result

    return Lowered("warp", function, (target,), tuple((source, bits) for source in sources))
