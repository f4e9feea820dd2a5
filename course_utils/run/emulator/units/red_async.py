"""red.async: a reduction in another CTA's shared memory, which signals an mbarrier there with its bytes.

PTX ISA, "red.async": it is done where the phase ends, and its complete-tx has release semantics at cluster
scope, as that of st.async. Reductions of one word do not disturb each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import addresses, memory
from course_utils.run.emulator.core.threads import Touched
from course_utils.run.emulator.isa.arithmetic import split_type
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units.access import combine
from course_utils.run.emulator.units.mbarrier import MBarrier, find_barrier
from course_utils.run.emulator.units.reductions import CLUSTER

if TYPE_CHECKING:
    from course_utils.run.emulator.core.memory import SharedMemory
    from course_utils.run.emulator.core.threads import CTA, Path


@dataclass(slots=True)
class ReductionIssued:
    """A path has issued a reduction of ``count`` bytes at an offset of shared memory. It is done once this
    phase of the mbarrier that it signals is.
    """

    path: Path
    region: SharedMemory
    offset: int
    count: int
    barrier: MBarrier
    phase: int


def same_cta(path: Path, home: CTA, barrier: MBarrier) -> None:
    """A fault where an operation writes one CTA's shared memory and signals another's mbarrier."""
    if barrier.cta is not home:
        values = {"who": path.warp, "home": home.number, "cta": barrier.cta.number}
        path.halt("cluster-rank", "signals another CTA", **values)


def reduce(instruction: Instr) -> Lowered:
    """red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.OP.TYPE [a], b, [mbar]."""
    operation, type_name = instruction.opcode[-2:]
    if type_name not in CLUSTER.get(operation, ()):
        raise ValueError(f"{operation} of {type_name}")
    address, given, barrier = instruction.operands
    _, bits = split_type(type_name)
    change, count = combine(operation, type_name), bits // 8

    def function(p: Path, m: Mask, a: Value, b: Value, v: Value) -> None:
        if len(p.cta.cluster.ctas) == 1:  # observed on H200, driver 580
            p.halt("trap", "red.async without a cluster", who=p.warp)
        for lane in memory.lanes_of(m):
            target = find_barrier(p, memory.pick(b, lane), touches=False)
            home, offset = p.cta.cluster.cta_of(p, memory.pick(a, lane))
            same_cta(p, home, target)
            addresses.require_inside(p, home.shared, offset, count)
            phase = target.load_issued(p, count)
            p.machine.probe.emit(ReductionIssued(p, home.shared, offset, count, target, phase))
            view, index = home.shared.views[bits], offset // count
            view[index] = change(int(view[index]), memory.pick(v, lane), 0)
            if home is not p.cta:
                p.machine.probe.emit(Touched(p, home, target.agent, phase + 1))
            target.landed(p, count, phase)

    return Lowered("warp", function, sources=((address, 32), (barrier, 32), (given, bits)), cut=True)
