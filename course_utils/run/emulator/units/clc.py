"""clusterlaunchcontrol: a CTA asks for the place of a cluster that has not begun, which then never does.

PTX ISA, "Parallel Synchronization and Communication Instructions: clusterlaunchcontrol.try_cancel" and
".query_cancel". The answer is 16 opaque bytes in shared memory, by the async proxy, and a complete-tx of 16
on an mbarrier. Nothing of this has run on a Blackwell by us. It is taken for granted that as many clusters
as the chip has room for begin by themselves; a request takes the next one of the others, and fails where
there is none. After a request that has failed a cluster may make no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import addresses, memory
from course_utils.run.emulator.core.residents import Unstarted
from course_utils.run.emulator.core.threads import Touched
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value, items_of
from course_utils.run.emulator.units.mbarrier import MBarrier, StoredAsync, find_barrier, mbarriers
from course_utils.run.emulator.units.red_async import same_cta

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path

BYTES = 16
WORDS = BYTES // 4
_DONE = 1 << 96  # of an answer: a cluster is cancelled; below it 32 bits each of x, y and z of its first CTA


class Requests:
    """Has a request of this cluster failed?"""

    def __init__(self, cluster: Cluster) -> None:
        self.failed = False


class Answer:
    """An answer on its way to one CTA's shared memory."""

    def __init__(self, path: Path, cta: CTA, offset: int, barrier: MBarrier, answer: int) -> None:
        self.path, self.cta, self.offset, self.barrier, self.answer = path, cta, offset, barrier, answer
        self.phase = barrier.load_issued(path, BYTES)

    def land(self, begin: int, end: int) -> None:
        view, first = self.cta.shared.views[32], self.offset // 4
        for i in range(WORDS):
            view[first + i] = self.answer >> 32 * i & 0xFFFFFFFF
        shared, barrier = self.cta.shared, self.barrier
        self.path.machine.probe.emit(StoredAsync(shared, self.offset, BYTES, barrier, self.phase))
        barrier.landed(self.path, BYTES, self.phase)


def try_cancel(instruction: Instr) -> Lowered:
    """clusterlaunchcontrol.try_cancel.async [answer], [mbarrier], of this CTA or (multicast) of each one of
    its cluster.
    """
    address, barrier = instruction.operands
    to_all = "multicast::cluster::all" in instruction.opcode

    def function(p: Path, m: Mask, a: Value, b: Value) -> None:
        for lane in memory.lanes_of(m):
            target = find_barrier(p, memory.pick(b, lane), touches=False)
            home, offset = p.cta.cluster.cta_of(p, memory.pick(a, lane))
            same_cta(p, home, target)
            if offset % BYTES:
                p.halt("misaligned", "answer of a request not aligned", who=p.warp, offset=offset)
            addresses.require_inside(p, home.shared, offset, BYTES)
            answer = _request(p)
            for cta in p.cta.cluster.ctas if to_all else (home,):
                own = mbarriers(cta).get(target.offset)
                if own is None:
                    values = {"offset": target.offset, "cta": cta.number}
                    p.halt("barrier-uninitialised", "a commit signals no mbarrier", who=p.warp, **values)
                one = Answer(p, cta, offset, own, answer)
                if cta is not p.cta:
                    p.machine.probe.emit(Touched(p, cta, own.agent, one.phase + 1))
                p.machine.fly(one, 1)
            p.machine.progress += 1

    return Lowered("warp", function, sources=((address, 32), (barrier, 32)), cut=True)


def _request(p: Path) -> int:
    """Cancel a cluster, if there is one. A fault after a request that has failed."""
    mine = p.cta.cluster.unit(Requests)
    if mine.failed:
        p.halt("cancel-after-failure", "asks again", who=p.warp)
    origin = p.machine.unit(Unstarted).cancel()
    if origin is None:
        mine.failed = True
        return 0
    return _DONE | sum(at << 32 * i for i, at in enumerate(origin))


def query_cancel(instruction: Instr) -> Lowered:
    """clusterlaunchcontrol.query_cancel: of an answer, whether a cluster is cancelled, or where it begins."""
    target, answer = instruction.operands
    what = instruction.opcode[2]
    if what == "is_canceled":

        def cancelled(h: Value) -> Value:
            found = _each(h, lambda one: one >> 96)
            return bool(found) if isinstance(found, int) else found.astype(np.bool_)

        return Lowered("value", cancelled, (target,), ((answer, 128),))
    axes = range(3) if what == "get_first_ctaid" else ("xyz".index(what[-1]),)
    shifts = [32 * axis for axis in axes]

    def function(h: Value) -> Value:
        parts = [_each(h, partial(_word, shift)) for shift in shifts]
        return (*parts, 0) if len(axes) > 1 else parts[0]

    targets = items_of(target)
    return Lowered("value", function, targets, ((answer, 128),), unpack=len(targets) > 1)


def _word(shift: int, answer: int) -> int:
    return answer >> shift & 0xFFFFFFFF


def _each(h: Value, part: Callable[[int], int]) -> Value:
    """A part of an answer, in each lane."""
    return part(h) if isinstance(h, int) else np.array([part(int(one)) for one in h], np.uint32)
