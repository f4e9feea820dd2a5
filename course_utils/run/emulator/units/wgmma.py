"""wgmma: four warps multiply two tiles of shared memory into registers, asynchronously.

PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": register fragments, shared-memory matrix layout,
matrix descriptor, and the async proxy. An operation begins once all four warps of the warpgroup have issued
it. It reads shared memory when a warp's wait_group covers it, as late as hardware may; that wait ends the
reads for all four warps together, while each warp's accumulator registers become its own again only with its
own wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ReferenceType, ref

import numpy as np

from course_utils.artifact import SWIZZLE_BYTES, SWIZZLE_PATTERN_BYTES, WARP_THREADS, WARPGROUP_THREADS
from course_utils.ptx.parser import Imm, Instr, PtxError, Vec
from course_utils.run.emulator.core.memory import SHARED_BASE
from course_utils.run.emulator.core.threads import Wait
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED, vector
from course_utils.run.emulator.isa.elements import ELEMENT_BITS, Decoder, elements_of_slice
from course_utils.run.emulator.isa.lowered import InFlight, Lowered, Mask, Source, Value
from course_utils.run.emulator.isa.sparse import expanded, is_broken, nibbles
from course_utils.run.emulator.units.cp_async import waited_for
from course_utils.run.emulator.units.sync import all_lanes
from course_utils.tma.layouts import UNIT, swizzled

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.memory import SharedMemory
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Path, Warp

# Multiply-adds that OpenBLAS does in one thread; starting others costs more than it saves.
SMALL_PRODUCT = 1 << 18
DESCRIPTOR_SWIZZLES = (0, 3, 2, 1)  # a descriptor's 0 none, 1 128B, 2 64B, 3 32B as a tensor map's codes
WARPS = WARPGROUP_THREADS // WARP_THREADS


@dataclass(slots=True)
class FirstMultiply:
    """A warp is about to issue its first wgmma."""

    path: Path


@dataclass(slots=True)
class MultiplyIssued:
    """The first warp of a warpgroup has issued an operation; the others will join."""

    path: Path
    operation: Operation


@dataclass(slots=True)
class OperandRead:
    """All four warps have issued an operation: from here on hardware may read ``side`` ("A" or "B") of it,
    the ``units`` of 16 bytes from ``base`` on, all within ``low`` to ``high``.
    """

    path: Path
    group: Warpgroup
    operation: Operation
    number: int
    side: str
    rows: int
    major: bool
    descriptor: int
    base: int
    units: np.ndarray
    low: int
    high: int
    slices: int = 1

    def runs(self) -> tuple[tuple[int, int], ...]:
        """The bytes of whole swizzle patterns that it touches: (from, to) of each run of them."""
        return operand_runs(self.descriptor, self.rows, self.major, self.slices)

    @property
    def swizzle(self) -> int:
        """The descriptor's, as a tensor map's code."""
        return DESCRIPTOR_SWIZZLES[self.descriptor >> 62]


@dataclass(slots=True)
class Began:
    """An operation has begun: its operands have been told of."""

    path: Path
    group: Warpgroup
    operation: Operation
    number: int


@dataclass(slots=True)
class Ran:
    """An operation has read its operands, and has run."""

    group: Warpgroup
    operation: Operation


@dataclass(slots=True)
class Committed:
    """A commit_group of a warp: these operations form a group."""

    path: Path
    operations: list[Operation]


@dataclass(slots=True)
class Awaited:
    """A warp is at a wait_group that leaves so many ``groups``, which are the operations ``left``; it has not
    committed those in ``open``.
    """

    path: Path
    groups: int
    left: list[Operation]
    open: list[Operation]


@dataclass(slots=True)
class Waited:
    """A wait of this warp covers the first ``count`` operations of its warpgroup, of which ``operations``
    were not covered before.
    """

    path: Path
    count: int
    operations: list[Operation]


@dataclass(slots=True)
class WaitPassed:
    """A warp goes on from a wait_group at once."""

    path: Path


class Form(NamedTuple):
    """What a wgmma multiplies: m64nNk32 of e4m3 and e5m2 is (N, "e4m3", "e5m2", 1, False, False)."""

    N: int
    a: str
    b: str
    sign: int
    a_major: bool  # is A, and is B, contiguous along M or N
    b_major: bool
    selector: int = -1  # of the lanes that have the metadata of a sparse A; -1: A is dense

    @property
    def slices(self) -> int:
        """Of 32 bytes, that a row of B has; of a sparse A two are stored as one."""
        return 2 if self.selector >= 0 else 1

    @property
    def K(self) -> int:
        return elements_of_slice(self.a) * self.slices

    def __str__(self) -> str:
        return f"m64n{self.N}k{self.K}"


class Pending(InFlight):
    """What an accumulator register holds while its wgmma may still run. It can be moved, and nothing else."""

    __slots__ = ("accumulator", "warp", "index")

    def __init__(self, accumulator: Accumulator, warp: int, index: int) -> None:
        self.accumulator, self.warp, self.index = accumulator, warp, index


@lru_cache(maxsize=1024)
def operand_units(
    descriptor: int, rows: int, mn_major: bool, slices: int = 1
) -> tuple[int, np.ndarray, int, int]:
    """Where a descriptor's matrix of ``rows`` x 32 bytes lies: (base, units, lowest, one past the highest).

    Units are 16 bytes; those of the matrix are ``base + units``, counted from shared address 0x400: shape
    (rows, 2) where K is contiguous, (rows / 8, 16) where M or N is; with two ``slices`` of 32 bytes, as B of
    a sparse multiplication has them, twice as many columns. Fields: bits 0-13 start address, 16-29 leading
    and 32-45 stride byte offset, all in units; 49-51 base offset; 62-63 swizzle mode.
    """
    start, shared = descriptor & 0x3FFF, SHARED_BASE // UNIT
    leading, stride = descriptor >> 16 & 0x3FFF, descriptor >> 32 & 0x3FFF
    shift, mode = descriptor >> 49 & 7, descriptor >> 62
    swizzle = DESCRIPTOR_SWIZZLES[mode]
    width = max(SWIZZLE_BYTES[swizzle] // UNIT, 1)  # of one row of the layout
    if mn_major:
        chunk, k = np.arange(rows // 8)[:, None], np.arange(16 * slices)[None, :]
        if mode == 0:
            units = chunk * stride + k % 8 + k // 8 * leading
        else:
            units = chunk % width + chunk // width * leading + k % 8 * width + k // 8 * stride
    else:
        row, chunk = np.arange(rows)[:, None], np.arange(2 * slices)[None, :]
        units = row % 8 * width + row // 8 * stride + chunk * (leading if mode == 0 else 1)
        if mode == 3 and slices == 2:
            raise PtxError("a row of 64 bytes of B in a swizzle of 32 bytes is not modelled by the emulator")
    units = swizzled((start + units) * UNIT, swizzle, shift) // UNIT - shared
    low, high = int(units.min()), int(units.max()) + 1
    return low, units - low, low, high


@lru_cache(maxsize=1024)
def operand_runs(descriptor: int, rows: int, mn_major: bool, slices: int = 1) -> tuple[tuple[int, int], ...]:
    """The shared bytes of whole swizzle patterns that such a matrix touches: (from, to) of each run of them.

    Stages may lie between one another, so what lies between two runs is not read.
    """
    base, units, _, _ = operand_units(descriptor, rows, mn_major, slices)
    pattern = SWIZZLE_PATTERN_BYTES[DESCRIPTOR_SWIZZLES[descriptor >> 62]]
    touched = np.unique((base + units) * UNIT // pattern)
    runs = np.split(touched, np.flatnonzero(np.diff(touched) > 1) + 1)
    return tuple((int(run[0]) * pattern, (int(run[-1]) + 1) * pattern) for run in runs)


def operand(
    shared: SharedMemory,
    descriptor: int,
    rows: int,
    mn_major: bool,
    kind: str,
    decode: Decoder,
    slices: int = 1,
) -> np.ndarray:
    """The matrix behind a descriptor as numbers, rows x 32 bytes of ``kind``, or so many ``slices`` of them.
    Only halves can be MN-major.
    """
    base, units, _, _ = operand_units(descriptor, rows, mn_major, slices)
    taken = shared.units[base:].take(units.ravel(), axis=0)
    data: np.ndarray = taken.view(UNSIGNED[ELEMENT_BITS[kind]])
    if mn_major:
        data = data.reshape(rows // 8, 16 * slices, 8).transpose(0, 2, 1)
    return decode(np.ascontiguousarray(data)).reshape(rows, -1)


class Accumulator:
    """The accumulator of one warpgroup in one set of registers: D by warps, (4, 16, N).

    Register 4j + 2i + e of lane 4r + c is element (8i + r, 8j + 2c + e) of its warp's 16 rows. In an fp16
    accumulator two neighbours share a register. ``kind`` is f32, f16 or s32, whose sums float64 has exactly;
    those of s32.satfinite stop at the largest and the smallest.
    """

    def __init__(self, registers: tuple[int, ...], N: int, kind: str) -> None:
        self.registers, self.N, self.kind, self.half = registers, N, kind, kind == "f16"
        self.integer, self.saturates = kind.startswith("s32"), kind == "s32.satfinite"
        self.matrix: np.ndarray = np.empty((WARPS, 16, N), np.float64 if self.integer else np.float32)
        self.get = itemgetter(*registers)
        first = registers[0]
        self.slice = (
            slice(first, first + len(registers))
            if list(registers) == list(range(first, first + len(registers)))
            else None
        )
        self.pending = [tuple(Pending(self, w, i) for i in range(len(registers))) for w in range(WARPS)]
        self.reset()

    def reset(self) -> None:
        self.matrix[:] = 0
        self.holds: list[tuple | None] = [None] * WARPS  # what each warp's registers were given last
        self.in_flight = [0] * WARPS

    def put(self, R: list[Any], values: Sequence[Any]) -> None:
        if self.slice:
            R[self.slice] = values
        else:
            for register, value in zip(self.registers, values, strict=True):
                R[register] = value

    def fragment(self, w: int) -> list:
        """The registers of one warp."""
        block = self.matrix[w].reshape(2, 8, self.N // 8, 4, 2)
        if self.half:
            packed = np.ascontiguousarray(block.astype(np.float16).transpose(2, 0, 1, 3, 4)).view(np.uint32)
            return list(packed.reshape(self.N // 4, LANES))
        cells = np.ascontiguousarray(block.transpose(2, 0, 4, 1, 3))
        if self.integer:
            cells = cells.astype(np.int64).astype(np.uint32)  # the sum wraps
        return list(cells.view(np.uint32).reshape(self.N // 2, LANES))

    def set_block(self, w: int, values: Sequence[Value]) -> None:
        """The inverse of ``fragment``: start from what the registers hold."""
        cells = np.array([vector(v, 32) for v in values], np.uint32)
        if self.half:
            halves = cells.view(np.float16).reshape(self.N // 8, 2, 8, 4, 2).transpose(1, 2, 0, 3, 4)
            self.matrix[w] = halves.reshape(16, self.N)
        else:
            numbers = cells.view(np.int32 if self.integer else np.float32)
            floats = numbers.reshape(self.N // 8, 2, 2, 8, 4).transpose(1, 3, 0, 4, 2)
            self.matrix[w] = floats.reshape(16, self.N)


class Operation:
    """One wgmma.mma_async of a warpgroup, while its warps join and until it has run."""

    # fmt: off
    __slots__ = (
        "shape", "accumulator", "accumulate", "a", "b", "joined", "clock", "initial", "waiting", "fragments",
        "at", "metadata", "sources",
    )
    # fmt: on

    def __init__(
        self,
        shape: Form,
        accumulator: Accumulator,
        accumulate: bool,
        a: int | None,
        b: int,
        at: int,
        sources: tuple[int, ...],
    ) -> None:
        self.shape, self.accumulator, self.accumulate = shape, accumulator, accumulate
        self.a, self.b, self.at, self.joined = a, b, at, 0
        self.sources = sources  # the registers of A
        self.clock: Clock | None = None  # what all warps that have joined had seen
        self.initial: dict[int, Any] = {}  # by warp: the accumulator or the registers that it adds to
        self.fragments: dict[int, np.ndarray] = {}  # by warp: A, where it comes from registers
        self.metadata: dict[int, np.ndarray] = {}  # by warp: where the elements of a sparse A belong
        self.waiting: list[WgmmaWait] = []


class Issued:
    """The wgmmas of a warp, by their number in the warpgroup: ``count`` issued, those in no group, the groups
    not waited for, and what it waits for now. ``fenced``: has it run wgmma.fence? ``reading``: registers of A
    that they may still read, and how often. Of registers that ``fragments`` watches: the instruction that has
    ``written`` or ``read`` each since that fence, and the shape of the wgmma that has, with its instruction.
    """

    def __init__(self, warp: Warp) -> None:
        self.group = warp.cta.unit(Warpgroups).of(warp)
        self.fenced = False
        self.count = 0
        self.open: list[int] = []
        self.groups: list[list[int]] = []
        self.waits: list[list[int]] = []
        self.reading: Counter[int] = Counter()
        self.written: dict[int, int] = {}
        self.read: dict[int, int] = {}
        self.shapes: dict[int, tuple[str, int]] = {}


class Accumulators:
    """Of one cluster after another: accumulators by the CTA's rank, warpgroup, registers, N and kind; each
    with the CTA that has it, and that goes when it has ended. Clusters that take turns have their own.
    """

    def __init__(self, machine: Machine) -> None:
        self.used: dict[tuple, tuple[ReferenceType[CTA], Accumulator]] = {}


class Warpgroups:
    """A CTA's warpgroups, by number."""

    def __init__(self, cta: CTA) -> None:
        self.cta = cta
        self.groups: dict[int, Warpgroup] = {}

    def of(self, warp: Warp) -> Warpgroup:
        number = warp.index // WARPS
        if number not in self.groups:
            self.groups[number] = Warpgroup(self.cta, number)
        return self.groups[number]


class Warpgroup:
    """The operations of four warps, in order. ``ran`` counts those that have run."""

    def __init__(self, cta: CTA, number: int) -> None:
        self.cta, self.number = cta, number
        self.operations: list[Operation] = []
        self.ran = 0
        self.accumulators: dict[tuple[int, ...], Accumulator] = {}

    @property
    def warps(self) -> list[Warp]:
        return self.cta.warps[self.number * WARPS : (self.number + 1) * WARPS]

    def fresh(self, registers: tuple[int, ...], N: int, kind: str) -> Accumulator:
        """An accumulator: that of the CTA of this rank in the cluster before, which has ended, or a new
        one.
        """
        key = self.cta.rank, self.number, registers, N, kind
        used = self.cta.machine.unit(Accumulators).used
        former, accumulator = used.get(key, (None, None))
        owner = former() if former else None
        if accumulator and (owner is None or owner.exited):
            accumulator.reset()
        else:
            accumulator = Accumulator(registers, N, kind)
        used[key] = ref(self.cta), accumulator
        return accumulator

    def run(self, count: int) -> None:
        """Run the first ``count`` operations: products of one accumulator are summed in one matrix
        product.
        """
        shared, decoders, tags = self.cta.shared, self.cta.machine.decoders, self.cta.machine.tags
        weight = tags.weight(self.cta.number, self.number) if tags else 1.0
        batch: dict[Accumulator, list[tuple[np.ndarray, np.ndarray]]] = {}
        operands: dict[tuple[int, int, bool, str, int], np.ndarray] = {}

        def flush(accumulator: Accumulator) -> None:
            parts = batch.pop(accumulator, None)
            if parts:
                left, right = (
                    np.concatenate(side, axis=1) if len(side) > 1 else side[0]
                    for side in zip(*parts, strict=True)
                )
                accumulator.matrix += left.reshape(WARPS, 16, -1) @ right.T
                if accumulator.saturates:
                    accumulator.matrix.clip(-(2.0**31), 2.0**31 - 1, out=accumulator.matrix)
                elif accumulator.half:
                    accumulator.matrix = accumulator.matrix.astype(np.float16).astype(np.float32)

        def fetch(descriptor: int, rows: int, mn_major: bool, kind: str, slices: int = 1) -> np.ndarray:
            key = descriptor, rows, mn_major, kind, slices
            if key not in operands:
                operands[key] = operand(shared, descriptor, rows, mn_major, kind, decoders[kind], slices)
            return operands[key]

        while self.ran < count:
            op = self.operations[self.ran]
            N, a_kind, b_kind, sign, a_major, b_major, _ = op.shape
            accumulator = op.accumulator
            if not op.accumulate:
                batch.pop(accumulator, None)
                accumulator.matrix[:] = 0
            elif op.initial or accumulator.half or accumulator.saturates:
                flush(accumulator)
                for w, values in op.initial.items():
                    if isinstance(values, Accumulator):
                        flush(values)
                        accumulator.matrix[w] = values.matrix[w]
                    else:
                        accumulator.set_block(w, values)
            left = (
                np.concatenate([op.fragments[w] for w in range(WARPS)])
                if op.a is None
                else fetch(op.a, 64, a_major, a_kind)
            )
            if op.metadata:
                blocks = [expanded(left[16 * w : 16 * w + 16], op.metadata[w], a_kind) for w in range(WARPS)]
                left = np.concatenate(blocks)
            parts = batch.setdefault(accumulator, [])
            factor = sign * weight
            parts.append(
                (
                    left * np.float32(factor) if factor != 1 else left,
                    fetch(op.b, N, b_major, b_kind, op.shape.slices),
                )
            )
            if 16 * N * left.shape[1] * (len(parts) + 1) > SMALL_PRODUCT:
                flush(accumulator)
            self.cta.machine.probe.emit(Ran(self, op))
            op.initial, op.fragments, op.metadata = {}, {}, {}
            self.ran += 1
        for accumulator in list(batch):
            flush(accumulator)


class WgmmaWait(Wait):
    """A warp at wgmma.wait_group that the other warps of its warpgroup have not caught up with."""

    def __init__(self, group: Warpgroup, count: int, path: Path) -> None:
        self.group, self.count, self.path = group, count, path


def _scalar(path: Path, value: Value, what: str) -> int:
    if value.__class__ is int:
        return value
    if (value != value[0]).any():
        path.halt("wgmma-mismatch", "lanes differ", who=path.warp, what=what)
    return int(value[0])


# What wgmma multiplies, by the type of its sums: PTX ISA, wgmma.mma_async and wgmma.mma_async.sp.
_ADDED = {"f32": ("f16", "bf16", "tf32", "e4m3", "e5m2"), "f16": ("f16", "e4m3", "e5m2"), "s32": ("s8", "u8")}


def _form(instruction: Instr) -> tuple[Form, str]:
    """What a wgmma multiplies, and the type of its sums. Raises ValueError for a form that is not
    modelled.
    """
    parts, flags, selector = instruction.opcode, instruction.operands[4:], -1
    if parts[2] == "sp":  # with the metadata and its selector behind A and B
        parts, flags = parts[:2] + parts[3:], instruction.operands[6:]
        selector = instruction.operands[4].value
    shape, kinds = parts[4], [part for part in parts[5:] if part != "satfinite"]
    if parts[1:4] != ("mma_async", "sync", "aligned") or len(kinds) != 3:
        raise ValueError("no multiplication of two types")
    added, a_kind, b_kind = kinds
    if not {a_kind, b_kind} <= set(_ADDED.get(added, ())):
        raise ValueError(f"{a_kind} by {b_kind} in {added}")
    N = int(shape[4:].partition("k")[0])
    given = [flag.value for flag in flags]
    sign = given[0] * given[1] if len(given) > 1 else 1
    majors = [False] * (2 - len(given[2:])) + [bool(flag) for flag in given[2:]]  # A of registers has none
    if len(majors) > 2 or len(given) not in (0, 2, 3, 4):
        raise ValueError("another number of operands")
    form = Form(N, a_kind, b_kind, sign, majors[0], majors[1], selector)
    if shape != str(form) or ELEMENT_BITS[a_kind] != ELEMENT_BITS[b_kind] or not 8 <= N <= 256 or N % 8:
        raise ValueError("another shape than its types have")
    if any(majors) and ELEMENT_BITS[a_kind] != 16:
        raise ValueError("a transposed operand of another type than fp16 or bf16")
    return form, added + ".satfinite" * ("satfinite" in parts)


def multiply(instruction: Instr) -> Lowered:
    form, added = _form(instruction)
    target, a, b, *rest = instruction.operands
    metadata, accumulate = (None, rest[0]) if form.selector < 0 else (rest[0], rest[2])
    if metadata is not None:
        nibbles(np.zeros(LANES, np.uint32), form.selector, form.a, form.K)  # is there such a selector?
    from_registers = isinstance(a, Vec)
    registers = tuple(r.index for r in target.items)
    fragments = tuple(r.index for r in a.items) if from_registers else ()
    if len(registers) != form.N // (4 if added == "f16" else 2):
        raise ValueError("another number of accumulator registers than its shape has")

    def function(p: Path, m: Mask, a_value: Value, b_value: Value, adds: Value, places: Value = None) -> None:
        all_lanes(p, m, "wgmma")
        warp, probe = p.warp, p.machine.probe
        issued = warp.unit(Issued)
        if not issued.fenced:
            p.report("wgmma-fence", "no wgmma.fence", who=warp)
        if not issued.count:
            probe.emit(FirstMultiply(p))
        adds = adds if adds.__class__ is bool else bool(_scalar(p, adds, "scale-d predicates"))
        group = issued.group
        w, n = warp.index % WARPS, issued.count
        a_bits = None if from_registers else _scalar(p, a_value, "descriptors")
        b_bits = _scalar(p, b_value, "descriptors")
        accumulator = group.accumulators.get(registers)
        if accumulator is None:
            accumulator = group.accumulators[registers] = group.fresh(registers, form.N, added)
        if n == len(group.operations):
            group.operations.append(Operation(form, accumulator, adds, a_bits, b_bits, p.at, fragments))
        op = group.operations[n]
        if (op.shape, op.accumulator, op.accumulate, op.a, op.b) != (form, accumulator, adds, a_bits, b_bits):
            p.halt("wgmma-mismatch", "warps differ", who=warp, number=n)
        issued.count += 1
        issued.open.append(n)
        R = warp.registers
        held = accumulator.get(R)
        kept = accumulator.holds[w]
        same = kept is not None and held[0] is kept[0] and _identical(held, kept)
        if adds and not same:
            op.initial[w] = _starts_from(p, held, w)
        if held is not accumulator.pending[w] and not (same and kept is accumulator.pending[w]):
            accumulator.put(R, accumulator.pending[w])
            accumulator.holds[w] = accumulator.pending[w]
        accumulator.in_flight[w] += 1
        if from_registers:
            op.fragments[w] = _a_fragment(a_value, form.a, p.machine.decoders[form.a])
            issued.reading.update(fragments)
        if places is not None:
            op.metadata[w] = nibbles(vector(places, 32), form.selector, form.a, form.K)
            if is_broken(op.metadata[w], form.a):
                p.report("sparse-metadata", "metadata of no two places", who=warp)
        op.joined += 1
        if op.clock is None:
            op.clock = warp.clock.copy()
            probe.emit(MultiplyIssued(p, op))
        else:
            op.clock.meet(warp.clock)
        if op.joined == WARPS:
            _begin(p, group, op, n)

    sources: tuple[Source, ...] = ((a, 32 if from_registers else 64), (b, 64), (accumulate, 1))
    sources += () if metadata is None else ((metadata, 32),)
    return Lowered("warp", function, sources=sources, hidden_reads=registers, hidden_writes=registers)


def _starts_from(p: Path, held: Sequence[Any], w: int) -> Accumulator | list[Value]:
    """What a wgmma adds to where its registers do not hold its own last sums: another accumulator in flight,
    or plain values.
    """
    source = _renamed(held, w)
    if source is not None:
        return source
    if any(v.__class__ is Pending for v in held):
        p.halt("accumulator-before-wait", "accumulates onto another wgmma", who=p.warp)
    if any(v is None for v in held):
        p.report("accumulator-uninitialised", "adds to registers without a value", who=p.warp)
    return [0 if v is None else v for v in held]


def _identical(held: Sequence[Any], kept: Sequence[Any]) -> bool:
    try:
        return held == kept  # identity decides first, item by item; arrays that differ raise
    except ValueError:
        return False


def _renamed(held: Sequence[Any], w: int) -> Accumulator | None:
    """The accumulator whose registers, all in flight, were moved here in order: a compiler's copy is only a
    renaming.
    """
    if held[0].__class__ is not Pending:
        return None
    source = held[0].accumulator
    return source if len(held) == len(source.registers) and _identical(held, source.pending[w]) else None


def _a_fragment(values: Sequence[Value], kind: str, decode: Decoder) -> np.ndarray:
    """A from registers: register i of lane 4r + c holds row r + 8 (i % 2), the word c + 4 (i / 2) of it: two
    halves or four bytes.
    """
    words = np.array([vector(v, 32) for v in values], np.uint32).reshape(2, 2, 8, 4).transpose(1, 2, 0, 3)
    bits: np.ndarray = np.ascontiguousarray(words).reshape(16, 8).view(UNSIGNED[ELEMENT_BITS[kind]])
    return decode(bits).reshape(16, -1)


def _begin(p: Path, group: Warpgroup, op: Operation, n: int) -> None:
    """All four warps have issued the operation: from here on hardware may read its operands."""
    shared, probe = p.cta.shared, p.machine.probe
    p.machine.progress += 1
    N, _, _, _, a_major, b_major, _ = op.shape
    sides = (op.a, 64, a_major, "A", 1), (op.b, N, b_major, "B", op.shape.slices)
    for descriptor, rows, major, side, slices in sides:
        if descriptor is None:
            continue
        base, units, low, high = operand_units(descriptor, rows, major, slices)
        if low < 0 or high * UNIT > shared.size:
            p.halt(
                "wgmma-descriptor",
                "a descriptor leads outside",
                side=side,
                descriptor=descriptor,
                low=low * UNIT,
                high=high * UNIT,
                size=shared.size,
            )
        probe.emit(
            OperandRead(p, group, op, n, side, rows, major, descriptor, base, units, low, high, slices)
        )
    probe.emit(Began(p, group, op, n))
    waiting, op.waiting = op.waiting, []
    for wait in waiting:
        if group.operations[wait.count - 1].joined == WARPS:
            _finish(wait.path, group, wait.count)
            wait.path.wake()
        else:
            group.operations[wait.count - 1].waiting.append(wait)


def fence(p: Path, m: Mask) -> None:
    issued = p.warp.unit(Issued)
    issued.fenced = True
    issued.written.clear()
    issued.read.clear()
    issued.shapes.clear()


def _operations(issued: Issued, numbers: Iterable[int]) -> list[Operation]:
    """Operations of a warp, by their numbers."""
    return [issued.group.operations[n] for n in numbers]


def commit(p: Path, m: Mask) -> None:
    issued = p.warp.unit(Issued)
    p.machine.probe.emit(Committed(p, _operations(issued, issued.open)))
    issued.groups.append(issued.open)
    issued.open = []


def wait(instruction: Instr) -> Lowered:
    left = instruction.operands[0].value if isinstance(instruction.operands[0], Imm) else 0

    def function(p: Path, m: Mask, following: int) -> Any:
        all_lanes(p, m, "wgmma.wait_group")
        issued = p.warp.unit(Issued)
        groups = issued.groups
        done = waited_for(groups, left)
        kept = (n for numbers in groups[len(done) :] for n in numbers)
        p.machine.probe.emit(Awaited(p, left, _operations(issued, kept), _operations(issued, issued.open)))
        numbers = [n for group in done for n in group]
        if not numbers:
            issued.groups = groups[len(done) :]
            return following
        group, count = issued.group, numbers[-1] + 1
        issued.waits = done
        if group.operations[count - 1].joined < WARPS:
            waits = WgmmaWait(group, count, p)
            group.operations[count - 1].waiting.append(waits)
            return p.wait(following, waits)
        _finish(p, group, count)
        p.machine.probe.emit(WaitPassed(p))
        return following

    return Lowered("blocking", function, cut=True)


def _finish(p: Path, group: Warpgroup, count: int) -> None:
    """A wait of this warp covers the first ``count`` operations."""
    warp, issued = p.warp, p.warp.unit(Issued)
    w = warp.index % WARPS
    done = [group.operations[n] for numbers in issued.waits for n in numbers]
    issued.groups = issued.groups[len(issued.waits) :]
    if group.ran < count:
        group.run(count)
    p.machine.progress += 1
    p.machine.probe.emit(Waited(p, count, done))
    touched: dict[Accumulator, None] = {}
    for op in done:
        op.accumulator.in_flight[w] -= 1
        touched[op.accumulator] = None
        if op.sources:
            issued.reading -= Counter(op.sources)
    R, program = warp.registers, p.machine.program
    for accumulator in touched:
        if accumulator.in_flight[w]:
            continue
        values = accumulator.fragment(w)
        accumulator.put(R, values)
        accumulator.holds[w] = tuple(values)
        for register in program.moved:
            value = R[register]
            if value.__class__ is Pending and value.accumulator is accumulator:
                R[register] = values[value.index]
