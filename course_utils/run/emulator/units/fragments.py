"""Registers of wgmma that threads touch out of turn: after the wgmma.fence that should have ordered them, or
while a wgmma may still use them.

PTX ISA, "Asynchronous Multiply-and-Accumulate Instruction: wgmma.fence" and "wgmma.wait_group". A fence is
due between an access to a register by a thread and a wgmma that uses it, and between two wgmmas of different
shapes that use one accumulator register. From the wgmma to the wait_group that covers it nobody may access
its accumulator, or its fragments of A. Compilers move values between registers as they like, and ptxas makes
nothing of it, so a move is no access here: what it moves stays as ordered as it was.

Which instructions may break that is read off the kernel's text, once. Only those are looked at as they run,
and most kernels have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from course_utils.ptx.parser import Imm, Instr, Reg, Vec
from course_utils.run.emulator.core.loop import Failed
from course_utils.run.emulator.core.probe import At, StopEmulation
from course_utils.run.emulator.units.wgmma import WARPS, Issued, Pending

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import Path
    from course_utils.run.emulator.isa.lowered import Lowered
    from course_utils.run.emulator.isa.translate import Program

Watch: TypeAlias = Callable[["Path"], None]


class Access(NamedTuple):
    """What an instruction does to registers, as bit sets. ``shape`` is a wgmma's, whose accumulator it
    ``writes`` and whose A it ``reads``; of a move ``target`` and ``source`` are registers, -1 for none.
    """

    reads: int
    writes: int
    guarded: bool
    shape: str = ""
    target: int = -1
    source: int = -1


class State(NamedTuple):
    """At a point of the text, registers that some way to it leaves so: written or read by threads, or used
    by a wgmma of each shape, since the last fence; used by wgmmas that are not committed, or not waited for.
    """

    written: int
    read: int
    shapes: tuple[int, ...]
    open: int
    committed: int

    def joined(self, other: State) -> State:
        shapes = tuple(a | b for a, b in zip(self.shapes, other.shapes, strict=True))
        written, read = self.written | other.written, self.read | other.read
        return State(written, read, shapes, self.open | other.open, self.committed | other.committed)


def watched(program: Program) -> dict[int, Watch]:
    """What to call before an instruction runs, for those that need it."""
    instructions = program.kernel.instructions
    accesses = [_access(i, lowered) for i, lowered in zip(instructions, program.lowered, strict=True)]
    shapes = sorted({access.shape for access in accesses} - {""})
    if not shapes:
        return {}
    early, unordered = set[int](), 0  # instructions, and registers
    states = {begin: State(0, 0, (0,) * len(shapes), 0, 0) for begin in program.ends}
    waiting, seen = [0], set[int]()
    while waiting:
        begin = waiting.pop()
        seen.add(begin)
        state = states[begin]
        for i in range(begin, program.ends[begin]):
            access = accesses[i]
            used = access.reads | access.writes
            if access.shape:
                unordered |= _unordered(state, access, shapes)
            elif (access.writes if access.target >= 0 else used) & (state.open | state.committed):
                early.add(i)
            state = _after(state, instructions[i], access, shapes)
        for following in program.successors[begin]:
            joined = states[following].joined(state)
            if joined != states[following] or following not in seen:
                states[following] = joined
                waiting.append(following)
    return _watches(accesses, early, _sources(accesses, unordered))


def _access(instruction: Instr, lowered: Lowered) -> Access:
    reads, writes, guarded = lowered.reads(instruction), lowered.writes(), instruction.guard is not None
    if instruction.opcode[:2] == ("wgmma", "mma_async"):
        a = instruction.operands[1]
        fragments = [r.index for r in a.items] if isinstance(a, Vec) else []
        return Access(_bits(fragments), _bits(lowered.hidden_writes), guarded, instruction.opcode[4])
    if lowered.kind == "copy" and lowered.targets[0] is not None:
        source = lowered.sources[0][0]
        index = source.index if isinstance(source, Reg) else -1
        return Access(_bits(reads), _bits(writes), guarded, "", lowered.targets[0].index, index)
    return Access(_bits(reads), _bits(writes), guarded)


def _bits(registers: Iterable[int]) -> int:
    found = 0
    for register in registers:
        found |= 1 << register
    return found


def _registers(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _unordered(state: State, access: Access, shapes: list[str]) -> int:
    """Registers of a wgmma that no fence may have ordered."""
    other = 0
    for shape, used in zip(shapes, state.shapes, strict=True):
        other |= 0 if shape == access.shape else used
    return (access.reads | access.writes) & state.written | access.writes & (state.read | other)


def _after(state: State, instruction: Instr, access: Access, shapes: list[str]) -> State:
    parts = instruction.opcode[:2]
    if parts == ("wgmma", "fence"):
        return state._replace(written=0, read=0, shapes=(0,) * len(shapes))
    if parts == ("wgmma", "commit_group"):
        return state._replace(open=0, committed=state.committed | state.open)
    if parts == ("wgmma", "wait_group"):
        left = instruction.operands[0]
        return state._replace(committed=0) if isinstance(left, Imm) and not left.value else state
    if access.shape:
        used = tuple(
            bits | access.writes * (shape == access.shape)
            for shape, bits in zip(shapes, state.shapes, strict=True)
        )
        return state._replace(shapes=used, open=state.open | access.writes | access.reads)
    if access.target < 0:
        return state._replace(written=state.written | access.writes, read=state.read | access.reads)
    target, source = 1 << access.target, 1 << access.source if access.source >= 0 else 0
    kept = state.written if access.guarded else state.written & ~target
    return state._replace(
        written=kept | (target if state.written & source else 0),
        open=state.open | (target if state.open & source else 0),
        committed=state.committed | (target if state.committed & source else 0),
    )


def _sources(accesses: list[Access], registers: int) -> int:
    """These registers, and those that are moved to them."""
    moves = [access for access in accesses if access.target >= 0 and access.source >= 0]
    former = 0
    while former != registers:
        former = registers
        for move in moves:
            if registers >> move.target & 1:
                registers |= 1 << move.source
    return registers


def _watches(accesses: list[Access], early: set[int], unordered: int) -> dict[int, Watch]:
    found: dict[int, Watch] = {}
    for i, access in enumerate(accesses):
        reads, writes = (tuple(_registers(bits)) for bits in (access.reads, access.writes))
        if access.shape:
            if (access.reads | access.writes) & unordered:
                found[i] = _multiplies(i, access.shape, reads, writes)
        elif i in early or (access.reads | access.writes) & unordered:
            found[i] = _touches(i, access, reads, writes)
    return found


def _multiplies(at: int, shape: str, a: tuple[int, ...], accumulator: tuple[int, ...]) -> Watch:
    """Before a wgmma: have all its registers been ordered?"""

    def watch(path: Path) -> None:
        issued = path.warp.unit(Issued)
        if not issued.fenced:
            return  # said of the instruction itself
        for register in (*accumulator, *a):
            if register in issued.written:
                _told(path, "wgmma-fence", "written since the fence", "the write", issued.written[register])
                break
        else:
            for register in accumulator:
                if register in issued.read:
                    _told(path, "wgmma-fence-read", "read since the fence", "the read", issued.read[register])
                    break
        for register in accumulator:
            if issued.shapes.get(register, (shape, 0))[0] != shape:
                _told(path, "wgmma-fence", "another shape", "the other wgmma", issued.shapes[register][1])
                break
        issued.shapes |= dict.fromkeys(accumulator, (shape, at))
        for register in (*accumulator, *a):
            issued.written.pop(register, None)
            issued.read.pop(register, None)

    return watch


def _told(path: Path, kind: str, case: str, note: str, at: int) -> None:
    path.report(kind, case, notes=[(note, {"at": At(at)})], who=path.warp)


def _touches(at: int, access: Access, reads: tuple[int, ...], writes: tuple[int, ...]) -> Watch:
    """Before any other instruction: does a wgmma still use its registers? And these it leaves unordered."""
    moves, source = access.target >= 0, access.source

    def watch(path: Path) -> None:
        issued, R = path.warp.unit(Issued), path.warp.registers
        moves_on = moves and source >= 0 and R[source].__class__ is Pending
        for register in () if moves else reads:
            if R[register].__class__ is Pending:
                path.machine.probe.emit(Failed(path, at, []))
                raise StopEmulation
        for register in writes:
            if R[register].__class__ is Pending and not moves_on and not _moved_on(R, register):
                _hazard(path, "writes the accumulator", register)
                R[register] = 0
            if register in issued.reading:
                _hazard(path, "writes A", register)
        for register in () if moves else reads:
            if register in issued.reading:
                _hazard(path, "reads A", register)
        if not moves:
            issued.written |= dict.fromkeys(writes, at)
            issued.read |= dict.fromkeys((r for r in reads if _is_result(path, issued, r)), at)
        elif source in issued.written:
            issued.written[writes[0]] = issued.written[source]
        elif not access.guarded and path.mask is None:
            issued.written.pop(writes[0], None)

    return watch


def _hazard(path: Path, case: str, register: int) -> None:
    path.report("accumulator-before-wait", case, who=path.warp, register=register)


def _is_result(path: Path, issued: Issued, register: int) -> bool:
    """Does a register hold what a wgmma left there, and nothing that was moved in since?"""
    w, held = path.warp.index % WARPS, path.warp.registers[register]
    for accumulator in issued.group.accumulators.values():
        kept = accumulator.holds[w]
        if kept and register in accumulator.registers:
            return kept[accumulator.registers.index(register)] is held
    return False


def _moved_on(R: list, register: int) -> bool:
    """Does another register hold what this one does?"""
    return sum(value is R[register] for value in R) > 1
