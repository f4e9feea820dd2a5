"""Races in shared memory: who may read or overwrite what, held against what happens before what (``order``).

For each 4-byte word the *shadow* keeps who wrote it last and who read it last, as Order codes. What a TMA
load or cp.async will write counts as written once it is issued; what wgmma and TMA stores read is kept until
a wait covers it. A race is found on any schedule, also where this run's numbers came out right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.artifact import SWIZZLE_PATTERN_BYTES
from course_utils.cause import Cause
from course_utils.ptx.families import Family, family
from course_utils.run.emulator.core.memory import KNOWN, SharedMemory
from course_utils.run.emulator.core.order import (
    AGENT_BITS,
    AGENT_MASK,
    CLUSTER_SCOPE,
    CTA_SCOPE,
    NEVER,
    Clock,
    any_unordered,
    unordered,
)
from course_utils.run.emulator.core.probe import At
from course_utils.run.emulator.core.threads import CtaEnded, Touched, WarpEnded
from course_utils.run.emulator.core.undefined import NothingStored
from course_utils.run.emulator.explain import accumulators, names, refills
from course_utils.run.emulator.explain.accounts import account, all_from_one_cta
from course_utils.run.emulator.explain.accumulators import LastWaits
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.hazards import Note, find
from course_utils.run.emulator.explain.places import Places, line_of
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.explain.undefined import counts
from course_utils.run.emulator.units import cp_async, mbarrier, tcgen05, tma, wgmma
from course_utils.run.emulator.units.access import Atomic, Read, Write
from course_utils.run.emulator.units.mbarrier import barrier_of, mbarriers
from course_utils.run.emulator.units.red_async import ReductionIssued
from course_utils.run.emulator.units.tma import Load, Store, words_of
from course_utils.run.emulator.units.views import TensorView
from course_utils.tma.layouts import UNIT

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path, Warp
    from course_utils.run.emulator.isa.lowered import Value
    from course_utils.run.emulator.units.mbarrier import MBarrier
    from course_utils.run.emulator.units.pixels import View
    from course_utils.run.emulator.units.wgmma import Operation, Warpgroup

# what to try, by who may still read
_STILL_READS = {"store": "store still reads", "tcgen05": "MMA still reads"}
A_THREAD, A_STORE = Cause("", "a thread"), Cause("", "a TMA store")
A_REDUCTION = Cause("", "a reduction")


@dataclass(slots=True, eq=False)
class AsyncRead:
    """Shared memory that wgmma or a TMA store reads.

    ``done`` holds (agent, time) of each wait that covered it. ``missing`` is the commit_group that it lacked
    at a wait_group, which so passed it by, ``late`` that wait where the commit_group came after it, else -1.
    ``left`` is the last wait of a wgmma's that left its group running, and how many groups that leaves.
    Of a TMA store: ``store`` is its warp, ``unwaited`` whether that warp went on to the next use of the bytes
    without a wait, ``over`` the finding of another warp's write over it.
    """

    low: int
    high: int
    who: Cause
    at: int
    store: Warp | None = None
    last: int = 0
    missing: str = ""
    late: int = -1
    left: tuple[int, int] | None = None
    unwaited: bool = False
    over: Finding | None = None
    done: list[tuple[int, int]] = field(default_factory=list)

    def ordered_before(self, seen: np.ndarray) -> bool:
        return any(seen[agent] >= time for agent, time in self.done)


class Shadow:
    """What is known of one CTA's shared memory, of ``words`` of 4 bytes."""

    def __init__(self, words: int) -> None:
        self.written = np.zeros(words, np.int64)
        self.read = np.zeros(words, np.int64)
        self.taken = np.zeros(words, np.int64)  # what wgmma or a TMA store found written
        self.strong: np.ndarray | None = None  # the scope of a word's last write, 0 of a weak one
        # of each byte who wrote it last, where threads have written parts of words
        self.parts: np.ndarray | None = None
        self.used = False
        self.reset()

    def reset(self) -> None:
        if self.used:
            self.written[:] = 0
            self.read[:] = 0
            self.taken[:] = 0
        self.strong = self.parts = None
        self.used = True
        self.async_reads: dict[tuple, AsyncRead] = {}
        self.overwritten: list[AsyncRead] = []  # TMA stores whose bytes another warp wrote too soon
        # boxes that TMA stores from here: which warps, at which instruction each
        self.stored: dict[str, dict[Warp, int]] = {}
        # warps that commit TMA stores, and that wait for them, by instruction
        self.store_commits: dict[int, set[Warp]] = {}
        self.store_waits: dict[int, set[Warp]] = {}
        # where threads write, by instruction: a byte of each warp's
        self.wrote: dict[int, set[int]] = defaultdict(set)
        self.inits: dict[int, int] = {}  # of mbarriers, by their first word: the code that it then has
        self.written_by: dict[int, str] = {}  # how a warp wrote at a time, where not with ordinary stores
        self.loads_in_flight = 0
        self.was_read = False
        self.read_at: dict[int, int] = {}  # the last instruction that read, by code
        # the first write of threads over those of another warp, with no order: that one's agent, who, where
        self.clash: tuple[int, Warp, int] | None = None
        # the first store of a register that nothing has written: who, which, where it was first used
        self.without_value: tuple[Path, int, int] | None = None
        # other agents of the cluster that have used this memory: time, instruction, path of the last use
        self.touched: dict[int, tuple[int, int, Path]] = {}

    def mark(self, offsets: Value, count: int, scope: int) -> None:
        """These words are now of a write of this scope."""
        if self.strong is None:
            self.strong = np.zeros(len(self.written), np.uint8)
        strong, index = cells(self.strong, offsets, count)
        strong[index] = scope

    def parts_of(self, offsets: Value, count: int) -> np.ndarray:
        """Who wrote each byte last that accesses of ``count`` bytes, fewer than 4, take: a row for each."""
        first = np.atleast_1d(offsets)
        words = self.written[first >> 2][:, None]
        if self.parts is None:
            return np.broadcast_to(words, (len(first), count))
        parts = self.parts[first >> 2]
        # where the last write was of a part, that part says so
        parts = np.where((parts == words).any(1, keepdims=True), parts, words)
        return np.take_along_axis(parts, (first & 3)[:, None] + np.arange(count), 1)

    def write_parts(self, offsets: Value, count: int, code: int) -> None:
        """Accesses of ``count`` bytes write these; ``written`` has their words' new code only after this."""
        if self.parts is None:
            self.parts = np.repeat(self.written[:, None], 4, 1)
        first = np.atleast_1d(offsets)
        words = first >> 2
        former, whole = self.parts[words], self.written[words][:, None]
        self.parts[words] = np.where((former == whole).any(1, keepdims=True), former, whole)
        if count < 4:
            self.parts[words[:, None], (first & 3)[:, None] + np.arange(count)] = code
        else:
            self.parts.reshape(-1, count)[first // count] = code

    def anything_read(self, offsets: Iterable[int]) -> bool:
        """Has anything of what threads wrote here been read, by threads or by the async proxy?"""
        words = [offset >> 2 for offset in offsets]
        return bool((self.read[words] != 0).any() or (self.taken[words] == self.written[words]).any())

    def has_stored(self, warp: Warp, offset: int) -> bool:
        """Has this warp started a TMA store of what begins here?"""
        keys = ((key[0], key[1], key[-1]) for key in self.async_reads)
        return ("store", warp.agent, offset) in keys

    def take(self, path: Path, offset: int, words: slice | np.ndarray) -> tuple[int, int] | None:
        """A TMA store reads these 4-byte words. Where threads have written none of them since this warp
        stored them last, but as many others, that nothing has read: the bytes of those.
        """
        written, taken, warps = self.written[words], self.taken[words].copy(), path.cta.cluster.warps_end
        self.taken[words] = written
        ours = (written & AGENT_MASK) <= warps
        whole = ours.all() and written.all()
        if _is_new(written, taken, warps).any() or whole and not self.has_stored(path.warp, offset):
            return None
        found = np.flatnonzero(_is_new(self.written, self.taken, warps))
        return (int(found[0]) * 4, int(found[-1]) * 4 + 4) if len(found) >= len(written) else None


def _is_new(written: np.ndarray, taken: np.ndarray, warps: int) -> np.ndarray:
    """Which words have threads written since something took them?"""
    return (written != taken) & ((written & AGENT_MASK) <= warps)


def cells(shadow: np.ndarray, offsets: Value, count: int) -> tuple[np.ndarray, Value]:
    """(view, index): ``view[index]`` is the shadow of aligned accesses of ``count`` bytes, a power of two."""
    if count <= 4:
        return shadow, offsets >> 2
    return shadow.reshape(-1, count // 4), offsets >> count.bit_length() - 1


def _changes(event: Write | Atomic | cp_async.CopyIssued, shape: tuple[int, ...]) -> np.ndarray:
    """For each word of an event: does it become another one?"""
    if not isinstance(event, Write):
        return np.ones(shape, np.bool_)
    changed = event.changes()
    return np.broadcast_to(changed[:, None] if len(shape) > 1 else changed, shape)


class Races:
    """The shadows of a cluster's shared memories, and the findings that they lead to."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self._waits = machine, machine.unit(LastWaits)
        self.shadows: dict[SharedMemory, Shadow] = {}
        self.operands: list[tuple[np.ndarray, int, int]] = []
        self._reads: dict[Operation | Store, list[AsyncRead]] = {}
        self._labels: dict[Warpgroup, Cause] = {}
        self._ends: dict[CTA, Clock] = {}  # what the warps of a CTA had seen as they ended
        self._spans: dict[int, tuple[np.ndarray, int, int]] = {}  # of arrays of offsets, by id
        self._loads: dict[Load, int] = {}  # how often its warp had arrived on its mbarrier in its phase
        listen = machine.probe.listen
        listen(Read, self._read)
        listen(Write, self._write)
        listen(Atomic, self._atomic)
        listen(NothingStored, self._nothing_stored)
        listen(cp_async.CopyIssued, self._copy_issued)
        listen(cp_async.CopyLanded, self._copy_landed)
        listen(mbarrier.Initialised, self._initialised)
        listen(mbarrier.Named, self._named)
        listen(mbarrier.StoredAsync, self._stored_async)
        listen(ReductionIssued, self._reduction_issued)
        listen(tma.SharedRead, self._bulk_read)
        listen(tma.LoadTargeted, self._load_targeted)
        listen(tma.LoadIssued, self._load_issued)
        listen(tma.LoadLanded, self._load_landed)
        listen(tma.StoreIssued, self._store_issued)
        listen(tma.StoreRead, self._store_read)
        listen(tma.StoresCommitted, self._stores_committed)
        listen(tma.StoresAwaited, self._stores_awaited)
        listen(wgmma.OperandRead, self._operand_read)
        listen(wgmma.Committed, self._wgmma_committed)
        listen(wgmma.Awaited, self._wgmma_awaited)
        listen(wgmma.Waited, self._wgmma_waited)
        listen(tcgen05.OperandRead, self._read_by_thread)
        listen(Touched, self._touched)
        listen(WarpEnded, self._warp_ended)
        listen(CtaEnded, self._cta_ended)

    def of(self, shared: SharedMemory) -> Shadow:
        shadow = self.shadows.get(shared)
        if shadow is None:
            shadow = self.shadows[shared] = Shadow(len(shared.data) // 4)
        return shadow

    def clear(self, cluster: Cluster, alone: bool) -> None:
        """A cluster has ended."""
        for cta in cluster.ctas:
            if cta.shared in self.shadows:
                self.shadows[cta.shared].reset()
        if not alone:
            return
        self._reads.clear()
        self._labels.clear()
        self._ends.clear()
        self._loads.clear()

    # -- threads

    def _read(self, event: Read) -> None:
        """A generic-proxy read: everything it reads must be written, and ordered before it. A strong one need
        not be ordered after strong writes.
        """
        if event.region.__class__ is SharedMemory:
            path, shadow = event.path, self.of(event.region)
            if event.count < 4:
                codes = shadow.parts_of(event.offsets, event.count).ravel()
            else:
                written, index = cells(shadow.written, event.offsets, event.count)
                codes = written[index]
            if event.scope:
                codes = np.atleast_1d(codes)
                late = unordered(codes, path.warp.clock.seen)
                late &= self._apart(path, shadow, event.offsets, event.count, event.scope).reshape(late.shape)
                if np.count_nonzero(late):
                    self._unordered(path, int(codes[late].flat[0]), A_THREAD, (path.warp,))
                return
            self._check(path, shadow, codes, path.warp.clock.seen, None, A_THREAD)
            read, index = cells(shadow.read, event.offsets, event.count)
            read[index] = path.warp.code
            shadow.read_at[path.warp.code] = path.at
            shadow.was_read = True

    def _write(self, event: Write) -> None:
        """A generic-proxy write: nothing that is not ordered before may still use the bytes."""
        if event.region.__class__ is SharedMemory:
            self._written(event, self.of(event.region), event.scope)

    def _written(self, event: Write | Atomic | cp_async.CopyIssued, shadow: Shadow, scope: int = 0) -> None:
        path, offsets, count = event.path, event.offsets, event.count
        written, index = cells(shadow.written, offsets, count)
        codes, seen = written[index], path.warp.clock.seen
        if count < 4:
            codes = shadow.parts_of(offsets, count)
        begin = offsets if offsets.__class__ is int else int(offsets[0])
        shadow.wrote[path.at].add(begin)
        if any_unordered(codes, seen):
            late = unordered(codes, seen)
            self._over_a_write(event, shadow, np.atleast_1d(codes), np.atleast_1d(late))
        if shadow.was_read:
            read, _ = cells(shadow.read, offsets, count)
            codes = read[index]
            late = unordered(codes, seen)
            if np.count_nonzero(late):
                self._over_a_read(event, np.atleast_1d(codes), np.atleast_1d(late))
        if shadow.strong is not None or scope:
            shadow.mark(offsets, count, scope)
        if shadow.async_reads:
            low, high = begin, begin
            if offsets.__class__ is not int:
                low, high = self._span(offsets)
            self._overwrites(path, shadow, low, high + count, offsets)
        if count < 4 or shadow.parts is not None:
            shadow.write_parts(offsets, count, path.warp.code)
        written[index] = path.warp.code

    def _span(self, offsets: np.ndarray) -> tuple[int, int]:
        """The smallest offset and the largest. Threads use the same arrays again: ``SharedMemory.know``."""
        known = self._spans.get(id(offsets))
        if known is None or known[0] is not offsets:
            if len(self._spans) >= KNOWN:
                self._spans.clear()
            known = self._spans[id(offsets)] = offsets, int(offsets.min()), int(offsets.max())
        return known[1:]

    def _over_a_write(
        self, event: Write | Atomic | cp_async.CopyIssued, shadow: Shadow, codes: np.ndarray, late: np.ndarray
    ) -> None:
        """A warp writes over writes that nothing orders before: is it told? Two that store the same are not,
        nor two parts of one word, nor two strong ones that reach each other.
        """
        path, agents = event.path, codes & AGENT_MASK
        by_threads = late & (agents <= path.cta.cluster.warps_end) & (agents != path.warp.agent)
        if shadow.loads_in_flight and np.count_nonzero(agents > path.cta.cluster.warps_end):
            find(path, "write-unordered", "threads write what a load fills", {"who": path.warp})
        code = int(codes.flat[0])
        if by_threads.flat[0] and not shadow.clash:
            shadow.clash = code & AGENT_MASK, path.warp, path.at
        own = late & (codes >> AGENT_BITS >= NEVER) & (agents == path.warp.agent)
        if isinstance(event, Write) and np.count_nonzero(own):
            find(path, "write-unordered", "threads write what cp.async fills", {"who": path.warp})
        if not np.count_nonzero(by_threads):
            return
        by_threads = by_threads & _changes(event, codes.shape)
        if scope := getattr(event, "scope", 0):
            by_threads &= self._apart(path, shadow, event.offsets, event.count, scope)
        if np.count_nonzero(by_threads):
            writer = _agent(path.cta.cluster, int(agents[by_threads].flat[0]))
            values = {"who": path.warp, "writer": writer}
            find(path, "write-unordered", "two warps write", values)

    def _over_a_read(
        self, event: Write | Atomic | cp_async.CopyIssued, codes: np.ndarray, late: np.ndarray
    ) -> None:
        """A warp writes what another may still read."""
        path, agents = event.path, codes & AGENT_MASK
        late = late & (agents != path.warp.agent) & _changes(event, codes.shape)
        if event.count >= 4 and np.count_nonzero(late):
            reader = _agent(path.cta.cluster, int(agents[late].flat[0]))
            find(path, "read-before-write", "writes what another reads", {"who": path.warp, "reader": reader})

    def _apart(self, path: Path, shadow: Shadow, offsets: Value, count: int, scope: int) -> np.ndarray:
        """Which words' last writes are not morally strong with an access of this scope by ``path``?"""
        written, index = cells(shadow.written, offsets, count)
        codes = np.atleast_1d(written[index])
        apart = np.ones_like(codes, np.bool_)
        if shadow.strong is not None:
            strong, _ = cells(shadow.strong, offsets, count)
            far = ((codes & AGENT_MASK) - 1) // len(path.cta.warps) != path.cta.rank
            apart = np.minimum(strong[index], scope) < np.where(far, CLUSTER_SCOPE, CTA_SCOPE)
        return apart if count >= 4 else np.repeat(apart[:, None], count, 1)

    def _atomic(self, event: Atomic) -> None:
        if isinstance(event.region, SharedMemory):
            self._written(event, self.of(event.region), event.scope)
            self.of(event.region).written_by[event.path.warp.code] = "atomics"

    def _nothing_stored(self, event: NothingStored) -> None:
        """What holds a value that no register has counts as not written."""
        shadow = self.of(event.region)
        for offsets in event.offsets:
            shadow.written[offsets >> 2] = 0
        shadow.without_value = shadow.without_value or (event.path, event.register, event.first_used)

    def _copy_issued(self, event: cp_async.CopyIssued) -> None:
        shadow = self.of(event.region)
        self._written(event, shadow)
        written, index = cells(shadow.written, event.offsets, event.count)
        written[index] = NEVER << AGENT_BITS | event.path.warp.agent

    def _copy_landed(self, event: cp_async.CopyLanded) -> None:
        shadow, code = self.of(event.region), event.path.warp.code
        written, index = cells(shadow.written, event.offsets, event.count)
        written[index], shadow.written_by[code] = code, "cp.async"

    def _initialised(self, event: mbarrier.Initialised) -> None:
        shadow, first = self.of(event.barrier.cta.shared), event.barrier.offset >> 2
        words = slice(first, first + 2)
        code = shadow.inits[first] = event.path.warp.code
        shadow.written[words] = shadow.taken[words] = code

    def _named(self, event: mbarrier.Named) -> None:
        """An mbarrier is used. Has anything else been stored where it lies?"""
        path, barrier = event.path, event.barrier
        shadow, first = self.of(barrier.cta.shared), barrier.offset >> 2
        code, written = shadow.inits.get(first, 0), shadow.written
        if written[first] != code or written[first + 1] != code:
            agent = int(written[first if written[first] != code else first + 1]) & AGENT_MASK
            values = {"who": path.warp, "barrier": barrier, "writer": _agent(path.cta.cluster, agent)}
            find(path, "barrier-outside", "an mbarrier written over", values)

    def _stored_async(self, event: mbarrier.StoredAsync) -> None:
        written, index = cells(self.of(event.region).written, event.offset, event.count)
        written[index] = (event.phase + 1) << AGENT_BITS | event.barrier.agent

    def _reduction_issued(self, event: ReductionIssued) -> None:
        """What it finds must be written and ordered before it, by threads: other reductions may be under
        way.
        """
        path, shadow = event.path, self.of(event.region)
        words = slice(event.offset >> 2, (event.offset + event.count) >> 2)
        codes = shadow.written[words]
        found = codes[(codes & AGENT_MASK) <= path.cta.cluster.warps_end]
        if len(found):
            self._check(path, shadow, found, path.warp.clock.seen, None, A_REDUCTION)
        shadow.written[words] = (event.phase + 1) << AGENT_BITS | event.barrier.agent

    # -- a read, held against the last writers

    def _check(
        self,
        path: Path,
        shadow: Shadow,
        codes: np.ndarray,
        seen: np.ndarray,
        fenced: np.ndarray | None,
        reader: Cause,
        together: Sequence[Warp] = (),
    ) -> None:
        """Hold the last writers of what is read against the reader's clock; ``fenced`` is None for the
        generic proxy. ``together`` are the warps that read, where they are several: those at fault are named.
        """
        codes = np.atleast_1d(codes)
        late = unordered(codes, seen)
        if np.count_nonzero(late):  # of so few much quicker than ``any``
            self._unordered(path, int(codes[late][0]), reader, together or (path.warp,))
        elif fenced is not None:
            unfenced = unordered(codes, fenced)
            if np.count_nonzero(unfenced):
                code = int(codes[unfenced][0])
                agent, time = code & AGENT_MASK, code >> AGENT_BITS
                late_ones = [w for w in together or (path.warp,) if w.clock.fenced[agent] < time]
                writer = _agent(path.cta.cluster, agent)
                by = shadow.written_by.get(code, "ordinary stores")
                values = {"reader": reader, "who": late_ones or [path.warp], "writer": writer, "by": by}
                find(path, "proxy-fence", "no proxy fence before the read", values)
        if not codes.all():
            by_threads = bool(((codes != 0) & ((codes & AGENT_MASK) <= path.cta.cluster.warps_end)).any())
            self._read_nothing(path, shadow, reader, by_threads)

    def _unordered(self, path: Path, code: int, reader: Cause, warps: Sequence[Warp]) -> None:
        """What is read was written by the agent of this code, and nothing orders the two."""
        agent, time = code & AGENT_MASK, code >> AGENT_BITS
        late_ones = [warp for warp in warps if warp.clock.seen[agent] < time] or [path.warp]
        writer = _agent(path.cta.cluster, agent)
        values: dict[str, Any] = {"reader": reader, "who": late_ones, "writer": writer}
        if agent > path.cta.cluster.warps_end:
            self._read_before_load(path, agent, time - 1, values)
        elif time >= NEVER:
            values["who"] = path.warp
            find(path, "read-before-load", "read before cp.async has landed", values)
        else:
            find(path, "read-before-write", "no barrier orders read and write", values)

    def _read_nothing(self, path: Path, shadow: Shadow, reader: Cause, by_threads: bool) -> None:
        """The reader's line is to blame, or its wait for a load where no phase had ended by then.
        ``by_threads``: threads have written the rest of it.
        """
        if reader is not A_THREAD and shadow.without_value:
            counts(*shadow.without_value)
        values: dict[str, Any] = {"reader": reader, "who": path.warp}
        kind = "uninitialised-read"
        if reader is A_STORE and shadow.clash:
            agent, warp, at = shadow.clash
            writers = [*(w for w in path.cta.warps if w.agent == agent), warp]
            note = "the store", {"at": At(path.at)}
            values["writers"] = writers
            find(path, kind, "reads nothing, writers clash", values, at, notes=[note])
            return
        if by_threads:
            find(path, kind, "reads nothing in a part", values)
            return
        barrier, at = role(path.warp).waited or (None, -1)
        passed = account(barrier).waits.get(path.warp) if barrier else None
        if barrier is None or passed is None or passed.phases or passed.parity is None:
            find(path, kind, "reads nothing", values)
            return
        values |= {"barrier": barrier, "parity": passed.parity}
        notes = [("first wait's parity", {}), ("the read", {"at": At(path.at)})]
        find(path, kind, "reads nothing, first wait passed", values, at, about=(barrier,), notes=notes)

    def _read_before_load(self, path: Path, agent: int, phase: int, values: dict[str, Any]) -> None:
        """The reader's line is to blame, or its wait for that very barrier where that let it pass too
        early.
        """
        kind, barrier = "read-before-load", barrier_of(path.cta.cluster, agent)
        values["phase"] = phase
        passed = account(barrier).waits.get(values["who"][0]) if barrier else None
        if barrier is None or passed is None:
            about = () if barrier is None else (barrier,)
            finding = find(path, kind, "read with no wait for the load", values, about=about)
            finding.apart = barrier is not None
            return
        # as many waits as fills: this round's took place
        wrong = passed.count > phase and passed.parity != phase & 1
        line = line_of(self.machine.unit(Places).place(passed.at), ", of a line,")
        asked, behind = Cause("", "asked for a phase"), Cause("", "new barrier has passed")
        if passed.parity is not None:
            asked = Cause("", "asked for a parity", {"parity": passed.parity})
        if passed.phases:
            behind = Cause("", "phase had passed", {"phase": passed.phases - 1})
        values |= {"line": None if wrong else line, "asked": asked, "behind": behind}
        note = ("the read", {"at": At(path.at)}) if wrong else ("its last wait", {"at": At(passed.at)})
        at = passed.at if wrong else None
        case = "read after another phase's wait"
        finding = find(path, kind, case, values, at, about=(barrier,), notes=[note])
        if wrong and finding.count == 1:  # what it released too early comes of it
            self.machine.unit(Findings).lead(finding)

    # -- a write, held against who may still read

    def _overwrites(self, path: Path, shadow: Shadow, low: int, high: int, offsets: Value = None) -> None:
        """A write of [low, high) by ``path``, at ``offsets`` only where given: is every asynchronous reader
        done?
        """
        seen = path.warp.clock.seen
        for key, read in shadow.async_reads.items():
            if low < read.high and high > read.low and not read.ordered_before(seen):
                if offsets is None or np.any((offsets < read.high) & (offsets >= read.low)):
                    self._overwritten(path, shadow, read, low, high, key[0])

    def _overwritten(
        self, path: Path, shadow: Shadow, read: AsyncRead, low: int, high: int, kind_of_read: str
    ) -> None:
        findings, kind = self.machine.unit(Findings), "overwrite-while-read"
        values = {"who": path.warp, "reader": read.who}
        leaves = None
        if not read.done and read.left is not None:
            leaves = Cause("", "leaves groups running", {"count": read.left[1]})
        why, at = None, read.at
        if read.missing:
            why = Cause("", "in no group", {"instruction": read.missing})
        elif read.late >= 0:
            why, at = Cause("", "wait before the commit"), read.late
        elif leaves and read.left and not findings.has_roles:
            when = line_of(findings.place(path.at), "when a line writes")
            why, at = Cause("", "this wait leaves", {"leaves": leaves, "when": when}), read.left[0]
        if why:
            written: Note = "the write", {"at": At(path.at)}
            find(path, kind, "overwrites what is read", {**values, "why": why}, at, notes=[written])
            return
        ended = read.done and kind_of_read != "tcgen05"
        case = "the read has ended" if ended else "the read is not waited for"
        left = Cause("", "the wait leaves", {"leaves": leaves}) if leaves else None
        note: Note = case, {"leaves": left, "at": At(read.at), "low": low, "high": high}
        if read.store is path.warp:
            read.unwaited = not read.done
        what = Cause(kind, "overwrites what is read", {**values, "why": None})
        finding = self._early(path, what, note, advice=_STILL_READS.get(kind_of_read, ""))
        if read.store not in (None, path.warp) and read.over is None:
            read.over = finding
            shadow.overwritten.append(read)

    def _early(
        self,
        path: Path,
        what: Cause,
        reader: tuple[str, dict[str, Any]] | None = None,
        about: tuple[MBarrier, ...] = (),
        advice: str = "",
    ) -> Finding:
        """A stage is written too soon: what is to blame is the arrival that let this warp's last wait pass,
        where it came from another warp; else the write, with ``advice`` where that of its kind does not fit.
        A tcgen05.commit arrives once its MMAs have run, so it is not to blame.
        """
        kind, (barrier, waited_at) = what.kind, role(path.warp).waited or (None, -1)
        readers = [reader] if reader else []
        # a wait for a load releases nothing; and a first round's wait passes with no release at all
        released = None if barrier is None else account(barrier).released_by
        if released is not None and self._commits(released[1]):
            released = None
        if barrier is None or account(barrier).carries_bytes or released is None:
            has_roles = self.machine.unit(Findings).has_roles
            untold = has_roles and all(account(b).carries_bytes for b in mbarriers(path.cta).values())
            if untold and kind == "overwrite-before-use":
                advice = "no second barrier"
            values = dict(what.values)
            return find(path, kind, what.case, values, about=about, notes=readers, advice=advice)
        warp, at = released
        notes: list[Note] = [
            ("its wait for a barrier", {"barrier": barrier, "at": At(waited_at)}),
            ("the write", {"at": At(path.at)}),
            *readers,
        ]
        values = {"what": what, "barrier": barrier, "by": warp}
        case = "released too early"
        if (alone := all_from_one_cta(barrier)) is not None:
            case = "all arrivals from its own CTA" if alone is barrier.cta else "all from the other CTA"
        about = (*about, barrier)
        return find(path, kind, case, values, at, about=about, notes=notes, advice="released early")

    def _commits(self, at: int) -> bool:
        """Is an arrival that of a tcgen05.commit?"""
        return family(self.machine.program.kernel.instructions[at]) is Family.TCGEN05_COMMIT

    # -- TMA

    def _bulk_read(self, event: tma.SharedRead) -> None:
        path, shadow, clock = event.path, self.of(event.region), event.path.warp.clock
        codes = shadow.written[event.low >> 2 : event.high >> 2]
        who = Cause("", "a bulk copy")
        self._check(path, shadow, codes, clock.seen, clock.fenced, who)
        record = AsyncRead(event.low, event.high, who, path.at)
        record.done.append((event.barrier.agent, event.phase + 1))
        shadow.async_reads["copy", event.barrier.agent, event.phase, event.low] = record

    def _load_targeted(self, event: tma.LoadTargeted) -> None:
        """May the load be issued that fills this CTA's shared memory from ``low`` on?"""
        path, view, cta, low = event.path, event.view, event.cta, event.offset
        shadow, clock, high = self.of(cta.shared), path.warp.clock, low + view.extent
        written = shadow.written[low >> 2 : high >> 2]
        first = written[0]
        if first or (written != first).any():
            codes = written[:1] if (written == first).all() else written
            late = unordered(codes, clock.seen)
            if late.any():
                self._loads_over(event, int(codes[late][0]) & AGENT_MASK)
            elif unordered(codes, clock.fenced).any():
                find(path, "proxy-fence-overwrite", "loads over what threads wrote", {"who": path.warp})
        if shadow.was_read:
            codes = shadow.read[low >> 2 : high >> 2]
            if unordered(codes, clock.seen).any():
                self._early(path, Cause("overwrite-while-read", "loads over a read", {"who": path.warp}))
            elif (unfenced := unordered(codes, clock.fenced)).any():
                self._refills(path, shadow, codes[unfenced])
            codes[:] = 0
        if shadow.async_reads:
            self._overwrites(path, shadow, low, high)
            done = [
                key
                for key, read in shadow.async_reads.items()
                if low <= read.low and read.high <= high and read.ordered_before(clock.seen)
            ]
            for key in done:
                del shadow.async_reads[key]

    def _refills(self, path: Path, shadow: Shadow, codes: np.ndarray) -> None:
        """A load fills what threads have read, with no proxy fence between. On an H200 it came too soon only
        where it could follow at once what let it go, and where that did not wait for the value read:
        ``solutions/measured/proxy_fence_pipeline.json``.
        """
        codes = np.unique(codes)
        latest = codes >> AGENT_BITS >= path.warp.clock.seen[codes & AGENT_MASK]
        program, read_at = path.machine.program, [shadow.read_at[code] for code in codes[latest].tolist()]
        at_once = [at for at in read_at if not refills.waits_for_value(program, at)]
        if at_once:
            notes: list[Note] = [("the read", {"at": At(at_once[0])})]
            values = {"who": path.warp}
            find(path, "proxy-fence-overwrite", "loads over what threads read", values, notes=notes)
        else:
            find(path, "proxy-fence-refill", "loads over what threads read", {"who": path.warp})

    def _loads_over(self, event: tma.LoadTargeted, agent: int) -> None:
        """A load is issued over what this agent has written, or will, and nothing orders the two."""
        path, view, low = event.path, event.view, event.offset
        cluster = event.cta.cluster
        earlier = barrier_of(cluster, agent)
        values = {"who": path.warp, "writer": _agent(cluster, agent)}
        if earlier is not None and self._never_there(event, earlier):
            return
        if agent > cluster.warps_end:
            note = "shared bytes", {"low": low, "high": low + view.extent}
            about = tuple(filter(None, (earlier,)))
            self._early(path, Cause("overwrite-before-use", "loads before use", values), note, about)
        else:
            find(path, "write-unordered", "loads over what a warp writes", values)

    def _never_there(self, event: tma.LoadTargeted, earlier: MBarrier) -> bool:
        """A load writes what one for ``earlier`` brings, which nobody has waited for. Should it never have
        written there? Else it came too soon.
        """
        path, view, low, barrier = event.path, event.view, event.offset, event.barrier
        high = low + view.extent
        loads = account(earlier).loads
        old = next((one for one in loads if one.offset < high and low < one.offset + one.view.extent), None)
        if old is None or earlier is barrier and old.phase != barrier.phase:
            return False
        findings = self.machine.unit(Findings)
        about = tuple(dict.fromkeys((barrier, earlier)))
        spot: Note = "shared bytes", {"low": low, "high": high}
        notes: list[Note] = [("the other load", {"at": At(old.at)}), spot]
        if earlier is barrier:
            one, other = findings.place(old.at), findings.place(path.at)
            again = old.at == path.at or one.line > 0 and (one.file, one.line) == (other.file, other.line)
            arrived = account(barrier).this_phase.get(path.warp, 0)
            again |= old.view is view and self._loads.get(old) != arrived
            if again and old.path.warp is path.warp:  # it went round its ring too soon
                return False
            find(path, "load-twice", "two loads of one phase", _twice(event, old), about=about, notes=notes)
            return True
        over = _over(path.warp, earlier, view, barrier)
        if (old.view.name, old.offset) == (view.name, low):
            kind, case = "overwrite-before-use", "loads to the same place"
            find(path, kind, case, {"over": over}, about=about, notes=notes, advice="one slot")
            return True
        array, stage, count = names.stage_of(barrier)
        at, what = path.at, view.name
        apart = abs(low - old.offset)
        atom = SWIZZLE_PATTERN_BYTES[view.map.swizzle] if isinstance(view, TensorView) else 0
        if old.view.name == view.name and apart == atom and findings.artifact.dsl == "cute":
            # stages lie between one another in the tensor, and the map's box does not
            origin = findings.artifact.line(rf"layout_{what} =")
            values: dict[str, Any] = {"tensor": what, "apart": apart, "extent": view.extent}
            values |= {"old": names.plain(earlier), "new": names.plain(barrier)}
            case = "stages between one another"
            find(path, "ring-overrun", case, values, about=about, notes=notes, first=True, origin=origin)
            return True
        if names.stage_of(earlier)[1] > stage:  # then that one lies past its ring
            at, what = old.at, old.view.name
            over = _over(old.path.warp, barrier, old.view, earlier)
            notes = [("the other load", {"at": At(path.at)}), spot]
        first = "ring-overrun" not in {kind for kind, _, _ in findings.found}
        values = {"over": over, "array": array, "count": count, "tensor": what}
        find(path, "ring-overrun", "past its ring", values, at, about=about, notes=notes, first=first)
        return True

    def _load_issued(self, event: tma.LoadIssued) -> None:
        load = event.load
        shadow = self.of(load.cta.shared)
        code = (load.phase + 1) << AGENT_BITS | load.barrier.agent
        shadow.written[words_of(load.view, load.offset)] = code
        shadow.loads_in_flight += 1
        self._loads[load] = account(load.barrier).this_phase.get(event.path.warp, 0)

    def _load_landed(self, event: tma.LoadLanded) -> None:
        self.of(event.load.cta.shared).loads_in_flight -= 1

    def _store_issued(self, event: tma.StoreIssued) -> None:
        path, store = event.path, event.store
        view, offset, warp = store.view, store.offset, path.warp
        shadow, high = self.of(store.cta.shared), offset + view.extent
        words = words_of(view, offset)
        if other := shadow.take(path, offset, words):
            first, last = other
            values = {"tensor": view.name, "low": offset, "high": high, "first": first, "last": last}
            find(path, "stale-store", "stores what was not just written", values)
        self._check(path, shadow, shadow.written[words], warp.clock.seen, warp.clock.fenced, A_STORE)
        record = AsyncRead(offset, high, Cause("", "the TMA store of", {"tensor": view.name}), path.at, warp)
        self._reads[store] = [record]
        shadow.stored.setdefault(view.region_at(store.coordinates), {})[warp] = path.at
        key = "store", warp.agent, event.lane, offset
        former = shadow.async_reads.get(key)
        if former is not None and not former.done:
            former.unwaited = True
        shadow.async_reads[key] = record

    def _store_read(self, event: tma.StoreRead) -> None:
        warp = event.path.warp
        for record in self._reads.pop(event.store):
            record.done.append((warp.agent, warp.time))

    def _read_by(self, users: Sequence[Operation | Store]) -> Iterator[AsyncRead]:
        """What these have read of shared memory, as far as it is known."""
        return (record for user in users for record in self._reads.get(user, ()))

    def _stores_committed(self, event: tma.StoresCommitted) -> None:
        path = event.path
        self.of(path.cta.shared).store_commits.setdefault(path.at, set()).add(path.warp)
        for record in self._read_by(event.stores):
            record.missing = ""

    def _stores_awaited(self, event: tma.StoresAwaited) -> None:
        path = event.path
        self.of(path.cta.shared).store_waits.setdefault(path.at, set()).add(path.warp)
        for record in self._read_by(event.open):
            record.missing = tma.COMMIT

    # -- wgmma

    def taken_operands(self) -> list[tuple[np.ndarray, int, int]]:
        """Of the multiplication that has begun: for each operand in shared memory its writers' codes and its
        bytes; of a pair's those of the even CTA first.
        """
        operands, self.operands = self.operands, []
        return operands

    def _operand_read(self, event: wgmma.OperandRead) -> None:
        path, group, op = event.path, event.group, event.operation
        shadow, cta = self.of(path.cta.shared), path.cta
        assert op.clock is not None  # all four warps have joined
        seen, fenced = op.clock.seen, op.clock.fenced
        codes = shadow.written[event.base * 4 :: 4].take(event.units.ravel())
        if (codes == codes[0]).all():
            codes = codes[:1]
        agent, time = int(codes[0]) & AGENT_MASK, int(codes[0]) >> AGENT_BITS
        # nearly always one writer, ordered before: that is quickly seen
        if len(codes) > 1 or not codes[0] or seen[agent] < time or fenced[agent] < time:
            reader = Cause("", "operand of wgmma", {"side": event.side})
            self._check(path, shadow, codes, seen, fenced, reader, group.warps)
        low, high = event.low * UNIT, event.high * UNIT
        if agent <= cta.cluster.warps_end:  # threads wrote it
            words = slice(low // 4, high // 4)
            shadow.taken[words] = shadow.written[words]
        self.operands.append((codes, low, high))
        records = self._reads.setdefault(op, [])
        for first, end in event.runs():
            key = "wgmma", group.number, first, end
            record = shadow.async_reads.get(key)
            if record is None or record.done:
                record = shadow.async_reads[key] = AsyncRead(first, end, self._label(group), op.at)
            record.last = event.number
            records.append(record)

    def _read_by_thread(self, event: tcgen05.OperandRead) -> None:
        """A tcgen05.mma reads an operand until a commit that covers it is waited for."""
        path, op = event.path, event.operation
        shadow, clock = self.of(event.cta.shared), path.warp.clock
        codes = shadow.written[event.base * 4 :: 4].take(event.units.ravel())
        codes = codes[:1] if (codes == codes[0]).all() else np.unique(codes)
        reader = Cause("", "operand of tcgen05.mma", {"side": event.side})
        self._check(path, shadow, codes, clock.seen, clock.fenced, reader)
        low, high = event.low * UNIT, event.high * UNIT
        self.operands.append((codes, low, high))
        words = slice(low // 4, high // 4)
        shadow.taken[words] = shadow.written[words]
        for first, end in event.runs():
            record = AsyncRead(first, end, Cause("", "tcgen05.mma of", {"warps": path.warp}), op.at)
            record.done.append((op.issuer.agent, op.number))
            shadow.async_reads["tcgen05", op.issuer.agent, first, end] = record

    def _label(self, group: Warpgroup) -> Cause:
        """What a warpgroup's multiplications are called, once its warps have issued one."""
        if group not in self._labels:
            self._labels[group] = Cause("", "wgmma of", {"warps": names.who(group.warps, group.cta)})
        return self._labels[group]

    def _wgmma_committed(self, event: wgmma.Committed) -> None:
        for record in self._read_by(event.operations):
            if record.missing:
                record.missing, record.late = "", self._waits.of(event.path.warp).at

    def _wgmma_awaited(self, event: wgmma.Awaited) -> None:
        for record in self._read_by(event.open):
            record.missing = accumulators.COMMIT
        for record in self._read_by(event.left):
            record.left = event.path.at, event.groups

    def _wgmma_waited(self, event: wgmma.Waited) -> None:
        warp = event.path.warp
        for record in self._read_by(event.operations):
            if record.last <= event.count - 1:
                record.done.append((warp.agent, warp.time))

    # -- ends

    def _touched(self, event: Touched) -> None:
        """Another CTA of the cluster has used this one's shared memory: this one must not end before."""
        touched = self.of(event.cta.shared).touched
        if event.agent not in touched or event.time > touched[event.agent][0]:
            touched[event.agent] = event.time, event.path.at, event.path

    def _warp_ended(self, event: WarpEnded) -> None:
        cta, clock = event.path.cta, event.path.warp.clock
        if cta not in self._ends:
            self._ends[cta] = cta.cluster.order.clock()
        self._ends[cta].join(clock)

    def _cta_ended(self, event: CtaEnded) -> None:
        path, cta = event.path, event.cta
        shadow = self.of(cta.shared)
        if shadow.loads_in_flight:
            flying = (load for load, _, _ in self.machine.flying if isinstance(load, Load))
            load = next(load for load in flying if load.cta is cta)
            path.at = load.at
            values = {"cta": cta.number, "tensor": load.view.name}
            find(path, "exit-in-flight", "a CTA ends while a load is in flight", values)
        for key, read in shadow.async_reads.items():
            if key[0] == "copy" and not read.ordered_before(self._ends[cta].seen):
                case = "a CTA ends while it is copied from"
                find(path, "exit-in-flight", case, {"cta": cta.number}, read.at)
        for agent, (time, at, other) in shadow.touched.items():
            if self._ends[cta].seen[agent] < time:
                values = {"who": other.warp, "cta": cta.number}
                find(other, "cluster-exit", "a CTA may end before its use", values, at)


def _agent(cluster: Cluster, agent: int) -> Warp | MBarrier | str:
    """A warp or an mbarrier by its agent in Order."""
    for cta in cluster.ctas:
        for warp in cta.warps:
            if warp.agent == agent:
                return warp
    return barrier_of(cluster, agent) or "nobody"


def _over(warp: Warp, old: MBarrier, view: View, new: MBarrier) -> Cause:
    """A warp loads, for ``new``, over what ``old`` is told of."""
    values = {"who": warp, "old": names.plain(old), "tensor": view.name, "new": names.plain(new)}
    return Cause("", "loads over a barrier's bytes", values)


def _twice(event: tma.LoadTargeted, old: Load) -> dict[str, Any]:
    """Two loads of one phase write the same bytes: which, from where, and what to look at."""
    path, view = event.path, event.view
    findings, pair = path.machine.unit(Findings), path.cta.cluster.size > 1
    loads = []
    for one, at, what in ((old.path, old.at, old.view.name), (path, path.at, view.name)):
        who = f"CTA {one.cta.number}" if pair else names.who([one.warp], one.cta)
        line = line_of(findings.place(at), ", of a line")
        loads.append(Cause("", "a load by", {"tensor": what, "who": who, "line": line}))
    look = "is one too many"
    if old.view.name != view.name:
        look = "which buffer does each use"
    elif old.path.cta is not path.cta:
        look = "does each bring its half"
    earlier, later = loads
    barrier = names.plain(event.barrier)
    return {"barrier": barrier, "one": earlier, "other": later, "look": Cause("", look)}
