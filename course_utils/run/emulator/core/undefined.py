"""Registers that nothing has written. Their bits may be anything, and to compute with them is no fault: a
compiler computes ahead of a test, and selects what counts afterwards. It is one to store such a value to
global memory, to take it for an address or to branch on it. In shared memory, what holds such a value counts
as not written: rows beyond a tensor's end go there and back, and nobody stores them.

A register without a value holds None. ``carried`` gives None to what is computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import Imm, Mem, Not, Reg, Sym
from course_utils.run.emulator.core import addresses, memory
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import space_of

if TYPE_CHECKING:
    from course_utils.ptx.parser import Instr
    from course_utils.run.emulator.core.memory import SharedMemory
    from course_utils.run.emulator.core.threads import Path
    from course_utils.run.emulator.isa.lowered import Lowered, Value

# What lanes exchange, in their first operand
_EXCHANGES = ("shfl", "vote", "redux", "match", "movmatrix")
# Where one operand says which bits of another count
_BITWISE = ("and", "or", "xor", "lop3", "prmt", "bfi", "shf")
_EACH_BYTE = 0x0101010101010101


@dataclass(slots=True)
class NothingStored:
    """A store to shared memory of what has no value, at each of ``offsets``: a ``register`` that nothing has
    written, used first at instruction ``first_used``.
    """

    path: Path
    region: SharedMemory
    offsets: list[Value]
    register: int
    first_used: int


def carried(path: Path, at: int, unwritten: list[int]) -> int:
    """The instruction to go on at, where this one only computes with registers that nothing has written; -1
    where it does more.
    """
    program, registers = path.machine.program, path.warp.registers
    instruction, lowered = program.kernel.instructions[at], program.lowered[at]
    if instruction.opcode[0] == "st" and _kept(path, at, unwritten):
        return at + 1
    if instruction.opcode[0] in _EXCHANGES and _exchanged(path, at, unwritten):
        return at + 1
    if lowered.kind != "value" or instruction.guard and instruction.guard[0].index in unwritten:
        return -1
    if instruction.opcode[-1] != "pred" and instruction.opcode[0] in _BITWISE:
        known = [r for r in _registers(lowered) if registers[r.index] is not None]
        if known:  # any bits do, for good
            for register in _registers(lowered):
                if registers[register.index] is None:
                    registers[register.index] = _filler(path, register.width)
            return at
    value = _known_anyway(path, instruction, lowered)
    origin = path.warp.undefined.get(unwritten[0], (unwritten[0], at))
    for target in lowered.targets:
        if target is not None and _replaces(path, instruction, target):
            registers[target.index] = value
            path.warp.undefined[target.index] = origin
    return at + 1


def _exchanged(path: Path, at: int, unwritten: list[int]) -> bool:
    """Give the lanes of a warp what has no value from each other. Says whether that is all that has none."""
    instruction, lowered = path.machine.program.kernel.instructions[at], path.machine.program.lowered[at]
    (given, width), *others = lowered.sources
    rest = [_value(path, operand, bits) for operand, bits in others]
    mask = _active(path, instruction)
    if mask is False or _value(path, given, width) is not None or any(value is None for value in rest):
        return False
    assert lowered.function is not None
    found = lowered.function(path, mask, width > 1 and _filler(path, width), *rest)
    origin = path.warp.undefined.get(unwritten[0], (unwritten[0], at))
    for n, target in enumerate(lowered.targets):
        if target is None:
            continue
        if n:  # of a shuffle: whether there is such a lane
            path.write(target.index, found[n], target.width, mask)
        elif _replaces(path, instruction, target):
            path.warp.registers[target.index] = None
            path.warp.undefined[target.index] = origin
    return True


def _active(path: Path, instruction: Instr) -> Any:
    """The lanes that run it, as masks are; False where its guard has no value."""
    if not instruction.guard:
        return path.mask
    register, negated = instruction.guard
    holds = path.warp.registers[register.index]
    return False if holds is None else path.lanes() & (np.logical_not(holds) if negated else holds)


def _kept(path: Path, at: int, unwritten: list[int]) -> bool:
    """Store to shared memory what has a value, and leave the rest as not written. Says whether it could."""
    instruction, lowered = path.machine.program.kernel.instructions[at], path.machine.program.lowered[at]
    address, *values = (_value(path, operand, width) for operand, width in lowered.sources)
    if address is None or not any(value is None for value in values):
        return False
    mask = _active(path, instruction)
    if mask is False:
        return False
    bits = lowered.sources[1][1]
    space, count = space_of(instruction.opcode), bits // 8 * len(values)
    region, offsets = addresses.locate(path, mask, address, space, count)
    if not isinstance(region, memory.SharedMemory):
        return False
    assert lowered.function is not None
    filler = _filler(path, bits)
    lowered.function(path, mask, address, *(filler if value is None else value for value in values))
    empty = [offsets + i * (bits // 8) for i, value in enumerate(values) if value is None]
    origin = path.warp.undefined.get(unwritten[0], (unwritten[0], at))
    path.machine.probe.emit(NothingStored(path, region, empty, *origin))
    return True


def _filler(path: Path, width: int) -> int:
    """The bits of this run for what has none."""
    return path.machine.filler * _EACH_BYTE & ((1 << width) - 1)


def _registers(lowered: Lowered) -> list[Reg]:
    return [operand for operand, _ in lowered.sources if isinstance(operand, Reg)]


def _replaces(path: Path, instruction: Instr, target: Reg) -> bool:
    """Does this write leave nothing of what the register held? Else it keeps that: those lanes may count."""
    if instruction.guard:
        return False
    return path.mask is None or not (path.protect and path.protect[target.index])


def _known_anyway(path: Path, instruction: Instr, lowered: Lowered) -> Value:
    """A result that does not hang on the operand without a value; None where it does."""
    operands = [_value(path, operand, width) for operand, width in lowered.sources]
    lanes = path.lanes()
    name = instruction.opcode[0]
    if name == "selp":
        a, b, predicate = operands
        if predicate is None:
            return None
        chosen = np.broadcast_to(predicate, LANES)[lanes]
        if chosen.all() or not chosen.any():
            return a if chosen.all() else b
        return b if a is None else a  # lanes that have none may have this
    if name in ("and", "or"):  # of predicates
        for value in operands:
            if value is not None:
                known = np.broadcast_to(value, LANES)[lanes]
                if (known == (name == "or")).all():
                    return name == "or"
    return None


def _value(path: Path, operand: Any, width: int) -> Value:
    if isinstance(operand, Reg):
        return path.warp.registers[operand.index]
    if isinstance(operand, Mem):
        base = _value(path, operand.base, 64)
        if isinstance(operand.base, Sym):
            base = path.warp.special[operand.base.name] + operand.base.offset
        return None if base is None else base + operand.offset
    if isinstance(operand, Not):
        value = _value(path, operand.item, width)
        return None if value is None else not value if value.__class__ is bool else ~value
    return operand.value & ((1 << width) - 1) if isinstance(operand, Imm) else None
