"""What is wrong where a register's value counts that nothing has written, or that a wgmma may still write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from course_utils.cause import Cause
from course_utils.ptx.parser import Reg
from course_utils.run.emulator.core.loop import Failed
from course_utils.run.emulator.core.probe import StopEmulation
from course_utils.run.emulator.explain.accumulators import LastWaits
from course_utils.run.emulator.explain.hazards import find
from course_utils.run.emulator.explain.places import Places
from course_utils.run.emulator.units.wgmma import Pending

if TYPE_CHECKING:
    from course_utils.ptx.parser import Instr
    from course_utils.run.emulator.core.threads import Path


def failed(event: Failed) -> None:
    """An instruction takes the value of an accumulator in flight, or of a register never written."""
    path, at = event.path, event.at
    machine, registers = path.machine, path.warp.registers
    program = machine.program
    for register in program.lowered[at].reads(program.kernel.instructions[at]):
        if registers[register].__class__ is Pending:
            state = machine.unit(LastWaits).still_writes(path, registers[register].accumulator)
            if machine.unit(Places).place(at).added:
                path.at = _store_of(path, at)
            note = "the register", {"name": program.kernel.register_names[register]}
            values = {"who": path.warp, "state": state}
            find(path, "accumulator-before-wait", "reads the accumulator", values, notes=[note])
            raise StopEmulation
    if event.unwritten:
        first = event.unwritten[0]
        counts(path, *path.warp.undefined.get(first, (first, at)))


def counts(path: Path, register: int, at: int) -> NoReturn:
    """The value of a register that nothing has written counts: it was first used at an instruction."""
    kernel = path.machine.program.kernel
    path.at = _store_of(path, at)
    note = "the register", {"name": kernel.register_names[register]}
    values = {"who": path.warp, "use": Cause("", _unwritten(kernel.instructions[at]))}
    find(path, "uninitialised-register", "uses what nothing has written", values, notes=[note])
    raise StopEmulation


def _store_of(path: Path, at: int) -> int:
    """The store of what a conversion makes, else the instruction itself: the compiler may lift a conversion
    out of its loop, and then names another line for it.
    """
    program = path.machine.program
    instructions = program.kernel.instructions
    if instructions[at].opcode[0] != "cvt" or not isinstance(instructions[at].operands[0], Reg):
        return at
    made = instructions[at].operands[0].index
    for i, later in enumerate(instructions[at + 1 :], at + 1):
        if later.opcode[0] in ("st", "stmatrix") and made in program.lowered[i].reads(later):
            return i
    return at


def _unwritten(instruction: Instr) -> str:
    """What an instruction does with a register that has no value, as its author would say it: a case."""
    if instruction.opcode[0] in ("stmatrix", "st"):
        return "stores a part of a fragment"
    if instruction.opcode[0] == "cvt":
        return "converts a part of a fragment"
    return "uses a value in a register"
