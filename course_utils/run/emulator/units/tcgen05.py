"""tcgen05.mma: one thread multiplies two tiles of shared memory into tensor memory, asynchronously; of a CTA
pair, those of both CTAs.

PTX ISA, "TensorCore 5th Generation Family Instructions": shared memory descriptor, instruction descriptor,
data path layouts, tcgen05.mma, .cp, .commit, and the memory consistency model of tcgen05. Operations of one
thread run in the order of their issue, once a commit that covers them lands, as late as the schedule says.
Sums are of float32, and not the chip's to the last bit. Nothing of this has run on a Blackwell by us.

A pair: each CTA gives half of the rows of A and half of those of B (columns of D), at one offset in its own
shared memory, and keeps its half of the rows of D (CUTLASS, ``mma_traits_sm100.hpp``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from course_utils.artifact import SWIZZLE_BYTES
from course_utils.ptx.parser import Instr, Mem, PtxError, Vec
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.threads import Touched
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED
from course_utils.run.emulator.isa.elements import ELEMENT_BITS
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Source, Value
from course_utils.run.emulator.units.mbarrier import find_barrier, mbarriers
from course_utils.run.emulator.units.tmem import COLUMN, CtaGroup, is_pair, tensor_memory
from course_utils.run.emulator.units.wgmma import DESCRIPTOR_SWIZZLES, operand, operand_units
from course_utils.tma.layouts import UNIT

if TYPE_CHECKING:
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Path, Warp
    from course_utils.run.emulator.units.mbarrier import MBarrier

SLICE_COLUMNS = 8  # of 32 bits, that a row of A takes in tensor memory: 32 bytes
VERSION = 0b001  # bits 46-48 of a descriptor
# operand types of each kind, by their code in the instruction descriptor
KINDS = {"f16": {0: "f16", 1: "bf16"}, "f8f6f4": {0: "e4m3", 1: "e5m2"}}
NARROW = {3: "e2m3", 4: "e3m2", 5: "e2m1"}  # of kind f8f6f4, and not modelled
SWIZZLES = (0, 2, 4, 6)  # bits 61-63: none, 128B, 64B, 32B
# M of one CTA and of a pair: what N must divide by, and its least
SHAPES = {(1, 64): 8, (1, 128): 16, (2, 128): 32, (2, 256): 32}
LARGEST_N = 256


@dataclass(slots=True)
class OperandRead:
    """An MMA is issued: from here on hardware may read ``side`` ("A" or "B") of it in the shared memory of
    ``cta``, the ``units`` of 16 bytes from ``base`` on, all within ``low`` to ``high``.
    """

    path: Path
    operation: Operation
    cta: CTA
    side: str
    descriptor: int
    rows: int
    major: bool
    base: int
    units: np.ndarray
    low: int
    high: int

    def runs(self) -> tuple[tuple[int, int], ...]:
        """The bytes that it touches, in whole rows of its swizzle: (from, to) of each run of them."""
        return _runs(self.descriptor, self.rows, self.major)


@lru_cache(maxsize=1024)
def _runs(descriptor: int, rows: int, major: bool) -> tuple[tuple[int, int], ...]:
    """``OperandRead.runs``. A swizzle moves bytes within a row of it, so a tile that begins at any row has
    its own bytes alone.
    """
    base, units, _, _ = operand_units(descriptor, rows, major)
    row = max(SWIZZLE_BYTES[DESCRIPTOR_SWIZZLES[descriptor >> 62]], UNIT)
    touched = np.unique((base + units) * UNIT // row)
    found = np.split(touched, np.flatnonzero(np.diff(touched) > 1) + 1)
    return tuple((int(run[0]) * row, (int(run[-1]) + 1) * row) for run in found)


@dataclass(slots=True)
class Issued:
    """An operation is issued: its accumulators are told of, and its operands in shared memory have been."""

    path: Path
    operation: Operation


@dataclass(slots=True)
class Completed:
    """An operation has run."""

    operation: Operation


@dataclass(slots=True)
class CommitIssued:
    """A commit is on its way to these mbarriers. ``issuer`` has issued ``issuer.time`` operations by now."""

    path: Path
    issuer: Issuer
    barriers: list[MBarrier]


class Form(NamedTuple):
    """What a tcgen05.mma says of itself: its kind, whether a pair multiplies, and whether A is in tensor
    memory.
    """

    kind: str
    pair: bool
    from_tmem: bool


class Descriptor(NamedTuple):
    """What the 32 bits of an instruction descriptor say of kinds f16 and f8f6f4."""

    M: int
    N: int
    a: int
    b: int
    sum: int  # 1 is fp32
    sign: int
    a_major: bool  # is A, and is B, contiguous along M or N
    b_major: bool
    rest: int  # bits that these kinds leave 0

    @staticmethod
    def of(bits: int) -> Descriptor:
        return Descriptor(
            (bits >> 24 & 31) << 4,
            (bits >> 17 & 63) << 3,
            bits >> 7 & 7,
            bits >> 10 & 7,
            bits >> 4 & 3,
            -1 if (bits >> 13 ^ bits >> 14) & 1 else 1,
            bool(bits >> 15 & 1),
            bool(bits >> 16 & 1),
            bits & 0b1111 | bits & 1 << 6 | bits & 1 << 23 | bits & 0b111 << 29,
        )


class Accumulator(NamedTuple):
    """Where D lies in each CTA's tensor memory: from ``low`` on, of so many M and N and CTAs."""

    low: int
    M: int
    N: int
    ctas: int

    @property
    def width(self) -> int:
        """Columns: a pair with M = 128 keeps half of N in the lower lanes and half in the upper ones."""
        return self.N // folds(self.M, self.ctas)


def folds(M: int, ctas: int) -> int:
    return 2 if (M, ctas) == (128, 2) else 1


@lru_cache(maxsize=8)
def lanes_of_rows(M: int, ctas: int) -> np.ndarray:
    """The lane of each row of D that one CTA keeps, of the first columns. PTX ISA, "Data Path Layout
    Organization": layouts A (256, pair), B (128, pair), D (128) and F (64). Where N is folded, the lane of
    the other columns is 64 more.
    """
    if (M, ctas) == (64, 1):
        rows = np.arange(64)
        return rows % 16 + LANES * (rows // 16)
    return np.arange(M // ctas)


@dataclass(eq=False, slots=True)
class Operation:
    """One tcgen05.mma, until it has run. ``a`` is a descriptor of shared memory or (``from_tmem``) an address
    of tensor memory; ``off`` are the lanes of each CTA that keep what they hold.
    """

    path: Path
    issuer: Issuer
    at: int
    ctas: tuple[CTA, ...]
    accumulator: Accumulator
    descriptor: Descriptor
    kinds: tuple[str, str]
    a: int
    from_tmem: bool
    b: int
    accumulates: bool
    off: np.ndarray  # [CTA, lane], or empty
    number: int  # among the issuer's, from 1

    @property
    def rows(self) -> tuple[int, int]:
        """Of A, and of B, that each CTA gives."""
        return self.descriptor.M // len(self.ctas), self.descriptor.N // len(self.ctas)

    @property
    def written(self) -> tuple[int, int]:
        """The columns of D: (from, to)."""
        return self.accumulator.low, self.accumulator.low + self.accumulator.width

    @property
    def a_columns(self) -> tuple[int, int] | None:
        """Those of A, where it comes from tensor memory."""
        low = self.a & COLUMN
        return (low, low + SLICE_COLUMNS) if self.from_tmem else None

    def __str__(self) -> str:
        return f"{self.descriptor.M} x {self.descriptor.N}"


class Issuer:
    """A thread that issues operations: an agent of Order, whose ``time`` is how many it has issued. ``clock``
    is what its warp had seen at the last of them, instruction ``at``; ``queue`` are those that have not run.
    """

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.agent, self.time, self.at = warp.cta.cluster.order.new_agent(), 0, -1
        self.clock: Clock | None = None
        self.queue: list[Operation] = []

    def issue(self, path: Path) -> int:
        """The number of one more operation."""
        self.time, self.at = self.time + 1, path.at
        self.clock = path.warp.clock.copy()
        path.machine.progress += 1
        return self.time

    def done(self) -> Clock | None:
        """What the completion of all operations so far tells: they have run, and what their issue came after.
        Results that a completed operation has written are visible as behind a fence. None before the first.
        """
        if self.clock is None:
            return None
        clock = self.clock.copy()
        clock.seen[self.agent] = clock.fenced[self.agent] = self.time
        return clock


class Issuers:
    """The issuers of a warp, by lane."""

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.by_lane: dict[int, Issuer] = {}

    def of(self, lane: int) -> Issuer:
        if lane not in self.by_lane:
            self.by_lane[lane] = Issuer(self.warp)
        return self.by_lane[lane]


def pair_of(path: Path) -> tuple[CTA, CTA]:
    """The CTAs of a path's pair, the even rank first. A fault where there is none, or one has ended."""
    cluster, first = path.cta.cluster, path.cta.rank & ~1
    if first + 1 >= cluster.size:
        path.halt("mma-descriptor", "a pair of one CTA multiplies", who=path.warp)
    ctas = cluster.ctas[first], cluster.ctas[first + 1]
    for cta in ctas:
        if cta.exited:
            path.halt("cluster-exit", "CTA has ended", who=path.warp, cta=cta.number)
    return ctas


def _one_thread(path: Path, mask: Mask, what: str) -> Sequence[int]:
    """The lanes that issue: one, or there is a finding."""
    lanes = memory.lanes_of(mask)
    if len(lanes) > 1:
        path.report("mma-issuers", "several threads issue", who=path.warp, count=len(lanes), what=what)
    return lanes


def multiply(instruction: Instr) -> Lowered:
    """tcgen05.mma of kinds f16 and f8f6f4. Raises ValueError for another."""
    opcode, operands = instruction.opcode, list(instruction.operands)
    kind = next((word.removeprefix("kind::") for word in opcode if word.startswith("kind::")), "")
    if kind not in KINDS:
        raise ValueError(f"kind {kind or 'of none'}")
    target, a, b, bits, *rest = operands
    off = rest.pop(0).items if rest and isinstance(rest[0], Vec) else ()
    if len(rest) != 1:
        raise ValueError("a scale of D")
    pair, from_tmem = is_pair(opcode), isinstance(a, Mem)
    if len(off) not in (0, 8 if pair else 4):
        raise ValueError("another number of masks of lanes")

    form = Form(kind, pair, from_tmem)

    def function(
        p: Path, m: Mask, target: Value, a: Value, b: Value, bits: Value, adds: Value, *off: Value
    ) -> None:
        for lane in _one_thread(p, m, "tcgen05.mma"):
            d, left, right, descriptor = (memory.pick(one, lane) for one in (target, a, b, bits))
            masks = np.array([memory.pick(one, lane) for one in off], np.uint32)
            issuer, accumulates = p.warp.unit(Issuers).of(lane), bool(memory.pick(adds, lane))
            _issue(p, issuer, form, d, left, right, descriptor, accumulates, masks)

    sources: tuple[Source, ...] = (target, 32), (a, 32 if from_tmem else 64), (b, 64), (bits, 32)
    sources += (rest[0], 1), *((one, 32) for one in off)
    return Lowered("warp", function, sources=sources, cut=True)


def _issue(
    p: Path,
    issuer: Issuer,
    form: Form,
    target: int,
    a: int,
    b: int,
    bits: int,
    accumulates: bool,
    masks: np.ndarray,
) -> None:
    ctas: tuple[CTA, ...] = pair_of(p) if form.pair else (p.cta,)
    descriptor = Descriptor.of(bits)
    kinds = _kinds(p, form.kind, descriptor)
    M, N = descriptor.M, descriptor.N
    step = SHAPES.get((len(ctas), M))
    if step is None or N % step or not step <= N <= LARGEST_N or descriptor.rest:
        values = {"who": p.warp, "bits": bits, "M": M, "N": N, "count": len(ctas)}
        p.halt("mma-descriptor", "no such shape", **values)
    if form.from_tmem and folds(M, len(ctas)) > 1:
        raise _unmodelled(p, "A in tensor memory and a pair with M = 128")
    accumulator = Accumulator(target & COLUMN, M, N, len(ctas))
    off = np.unpackbits(masks.view(np.uint8), bitorder="little").astype(np.bool_).reshape(-1, 128)
    p.machine.unit(CtaGroup).hold(p, form.pair)
    number = issuer.issue(p)
    # fmt: off
    operation = Operation(
        p, issuer, p.at, ctas, accumulator, descriptor, kinds, a, form.from_tmem, b, accumulates, off, number
    )
    # fmt: on
    rows_of_a, rows_of_b = operation.rows
    for cta in ctas:
        if not form.from_tmem:
            _read(p, operation, cta, "A", a, rows_of_a, descriptor.a_major)
        _read(p, operation, cta, "B", b, rows_of_b, descriptor.b_major)
        mine, (low, high) = tensor_memory(cta), operation.written
        taken = [(low, high, target >> 16)]
        if operation.a_columns:
            taken.append((*operation.a_columns, a >> 16))
        for low, high, lane in taken:
            if lane or not mine.holds(low, high):
                values = {"who": p.warp, "low": low, "high": high}
                p.halt("tmem-unallocated", "multiplies in what is not allocated", **values)
        if cta is not p.cta:
            p.machine.probe.emit(Touched(p, cta, issuer.agent, number))
    p.machine.probe.emit(Issued(p, operation))
    issuer.queue.append(operation)


def _kinds(p: Path, kind: str, descriptor: Descriptor) -> tuple[str, str]:
    """The types of A and B. Raises PtxError for those that are not modelled; a fault for what is none."""
    known = KINDS[kind]
    for code in (descriptor.a, descriptor.b):
        if kind == "f8f6f4" and code in NARROW:
            raise _unmodelled(p, NARROW[code])
        if code not in known or kind == "f16" and descriptor.a != descriptor.b:
            values = {"who": p.warp, "form": kind, "a": descriptor.a, "b": descriptor.b}
            p.halt("mma-descriptor", "no such types", **values)
    if descriptor.sum != 1:
        raise _unmodelled(p, "an accumulator of fp16")
    if kind == "f8f6f4" and (descriptor.a_major or descriptor.b_major):
        raise _unmodelled(p, "a transposed fp8 operand")
    return known[descriptor.a], known[descriptor.b]


def _unmodelled(p: Path, what: str) -> PtxError:
    instruction = p.machine.program.kernel.instructions[p.at]
    text = f"{what} of `tcgen05.mma` is not modelled by the emulator: {instruction.text[:160]}"
    return PtxError(f"PTX line {instruction.line}: {text}")


def _read(p: Path, op: Operation, cta: CTA, side: str, matrix: int, rows: int, major: bool) -> None:
    """An operand in the shared memory of one CTA."""
    if matrix >> 46 & 7 != VERSION or matrix >> 52 & 0x1FF or matrix >> 61 not in SWIZZLES:
        p.halt("mma-descriptor", "no matrix descriptor", who=p.warp, side=side, descriptor=matrix)
    base, units, low, high = operand_units(matrix, rows, major)
    if low < 0 or high * UNIT > cta.shared.size:
        values = {"side": side, "descriptor": matrix, "size": cta.shared.size}
        p.halt("mma-descriptor", "a matrix outside shared memory", low=low * UNIT, high=high * UNIT, **values)
    event = OperandRead(p, op, cta, side, matrix, rows, major, base, units, low, high)
    p.machine.probe.emit(event)


def run(operations: Sequence[Operation]) -> None:
    """Run operations of one issuer in order. Those that add to one accumulator, one after the other, are
    summed in one matrix product.
    """
    begin = 0
    while begin < len(operations):
        first, end = operations[begin], begin + 1
        while end < len(operations) and _goes_on(first, operations[end]):
            end += 1
        _sum(operations[begin:end])
        begin = end


def _goes_on(first: Operation, other: Operation) -> bool:
    same = (first.accumulator, first.ctas) == (other.accumulator, other.ctas)
    return same and other.accumulates and not (len(first.off) or len(other.off) or other.from_tmem)


def _sum(batch: Sequence[Operation]) -> None:
    first = batch[0]
    N, folded = first.descriptor.N, folds(first.descriptor.M, len(first.ctas))
    low, width = first.accumulator.low, first.accumulator.width
    lanes = lanes_of_rows(first.descriptor.M, len(first.ctas))
    machine = first.path.machine
    # B of a pair: rows of the even CTA, then of the odd one
    right = np.concatenate([_side(batch, cta, "B") for cta in first.ctas])
    for place, cta in enumerate(first.ctas):
        weight = machine.tags.weight(cta.number, first.path.warp.index) if machine.tags else 1.0
        left = _side(batch, cta, "A")
        product = (left * np.float32(weight) if weight != 1 else left) @ right.T
        cells = tensor_memory(cta).cells.view(np.float32)
        for fold in range(folded):
            rows = lanes + 64 * fold
            part = product[:, fold * width : (fold + 1) * width] if N != width else product
            if len(first.off):
                kept = ~first.off[place][rows]
                rows, part = rows[kept], part[kept]
            where = np.ix_(rows, np.arange(low, low + width))
            cells[where] = cells[where] + part if first.accumulates else part


def _side(batch: Sequence[Operation], cta: CTA, side: str) -> np.ndarray:
    """What one CTA gives to a batch of operations: rows of A or B, with all of its K beside each other."""
    decoders, parts = cta.machine.decoders, []
    for op in batch:
        d, (rows_of_a, rows_of_b) = op.descriptor, op.rows
        if side == "B":
            kind = op.kinds[1]
            parts.append(operand(cta.shared, op.b, rows_of_b, d.b_major, kind, decoders[kind]))
            continue
        kind = op.kinds[0]
        if op.a_columns:
            cells = tensor_memory(cta).cells[lanes_of_rows(d.M, len(op.ctas))]
            bits = np.ascontiguousarray(cells[:, slice(*op.a_columns)])
            part = decoders[kind](bits.view(UNSIGNED[ELEMENT_BITS[kind]])).reshape(rows_of_a, -1)
        else:
            part = operand(cta.shared, op.a, rows_of_a, d.a_major, kind, decoders[kind])
        parts.append(part * np.float32(d.sign) if d.sign < 0 else part)
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


class Commit:
    """A tcgen05.commit on its way: it arrives once the operations that its thread had issued have run."""

    def __init__(self, path: Path, issuer: Issuer, barriers: list[MBarrier]) -> None:
        self.path, self.at, self.issuer, self.barriers = path, path.at, issuer, barriers
        self.count, self.clock = issuer.time, issuer.done()

    def land(self, begin: int, end: int) -> None:
        queue = self.issuer.queue
        due = [operation for operation in queue if operation.number <= self.count]
        run(due)
        del queue[: len(due)]
        self.path.machine.progress += 1
        for operation in due:
            self.path.machine.probe.emit(Completed(operation))
        at, self.path.at = self.path.at, self.at
        for barrier in self.barriers:
            barrier.arrive_later(self.path, self.clock)
        self.path.at = at


def commit(instruction: Instr) -> Lowered:
    """tcgen05.commit.mbarrier::arrive::one: one arrival on an mbarrier, or (multicast) on that of each CTA in
    the mask at the same offset.
    """
    address, *mask = instruction.operands
    if len(mask) != ("multicast::cluster" in instruction.opcode):
        raise ValueError("other operands than its opcode says")

    def function(p: Path, m: Mask, address: Value, ranks: Value = None) -> None:
        for lane in _one_thread(p, m, "tcgen05.commit"):
            issuer = p.warp.unit(Issuers).of(lane)
            first = find_barrier(p, memory.pick(address, lane), touches=False)
            barriers = [first]
            if ranks is not None:
                barriers = _in_each(p, first, memory.pick(ranks, lane))
            for barrier in barriers:
                barrier.use(p)
                if barrier.cta is not p.cta:
                    p.machine.probe.emit(Touched(p, barrier.cta, issuer.agent, issuer.time))
            p.machine.probe.emit(CommitIssued(p, issuer, barriers))
            p.machine.fly(Commit(p, issuer, barriers), 1)
            p.machine.progress += 1

    return Lowered("warp", function, sources=((address, 32), *((one, 16) for one in mask)), cut=True)


def _in_each(p: Path, barrier: MBarrier, ranks: int) -> list[MBarrier]:
    cluster, found = p.cta.cluster, []
    if ranks >> cluster.size:
        p.halt("cluster-rank", "a multicast mask", who=p.warp, mask=ranks, size=cluster.size)
    for cta in cluster.ctas:
        if ranks >> cta.rank & 1:
            one = mbarriers(cta).get(barrier.offset)
            if one is None:
                values = {"offset": barrier.offset, "cta": cta.number}
                p.halt("barrier-uninitialised", "a commit signals no mbarrier", who=p.warp, **values)
            found.append(one)
    return found
