"""What happened, in emulated order, for a timeline: spans of work and waiting by warp, and arrivals on
barriers; and every event, with its barrier's numbers, for a figure that plays them.

Times count warp instructions executed so far by the whole machine: an order, not a duration on the chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from course_utils.run.emulator.core.threads import WaitBegan, WaitEnded
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.places import Place, Places
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.explain.work import CopyBegins, Piece, WriteBegins
from course_utils.run.emulator.units import mbarrier, tcgen05, tmem, wgmma
from course_utils.run.emulator.units.mbarrier import Arrived, BytesLanded, Expected, MBarrier, PhaseWait
from course_utils.run.emulator.units.sync import ProxyFenced, RegistersAsked, RegisterWait, ThreadWait
from course_utils.run.emulator.units.tma import LoadIssued, LoadLanded, StoreIssued, StoreRead, StoresWaited
from course_utils.run.emulator.units.wgmma import MultiplyIssued, Operation, Ran, operand_units
from course_utils.tma.layouts import UNIT

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path, Warp
    from course_utils.run.emulator.units.tma import Load, Store

LIMIT = 200_000  # spans and arrivals kept; events as well
COPY = "copy by threads"
MMA, COLUMNS = "tcgen05.mma", "columns"
TENSOR_CORE, TENSOR_MEMORY = "tensor core", "tensor memory"
UNITS = (TENSOR_CORE, TENSOR_MEMORY)  # what works for a whole CTA, beside its warps: lanes of their own


@dataclass(slots=True)
class Span:
    """``kind`` is "TMA load", "TMA store", "wgmma", "copy by threads", "epilogue" or "wait"; ``label`` the
    tensor, the shape or the barrier. Of ``UNITS``, by ``role``: "tcgen05.mma", and "columns" that are
    allocated.

    ``phase`` is the mbarrier's phase that a load signals or a wait is for, else None. ``at`` is the
    instruction's index.
    """

    cta: int
    warp: int
    role: str
    kind: str
    label: str
    begin: int
    end: int
    at: int
    phase: int | None = None


@dataclass(slots=True)
class Arrival:
    """A warp's arrival on ``barrier`` of CTA ``cta``: with the waits for the same phase, the edges of the
    timeline.
    """

    cta: int
    barrier: str
    phase: int
    by_cta: int
    by_warp: int
    time: int


@dataclass(slots=True)
class Event:
    """One thing that happened, in the ``cluster``-th cluster that ran. ``cta``, ``warp`` and ``role`` are
    whose it was (-1 and "" where nobody's), ``place`` the author's line.

    ``kind``: of an mbarrier ``what`` of CTA ``home``: "init" (``count`` arrivals a phase), "arrive"
    (``count`` arrivals), "expect" and "bytes" (``count`` bytes told of, and come), "flip" (``phase`` has
    ended). "wait" begins to wait and "pass" goes on: for an mbarrier (``parity``), or for ``what``.
    "load" is issued, of the part ``box`` of tensor ``what``, to ``offset`` of the shared memory of CTA
    ``home``, for ``barrier``; "loaded" has landed: ``key`` is the same for both. "wgmma" is issued and reads
    shared memory at ``reads``, "read" has run; "store" and "stored"; "copy by threads" and "epilogue", which
    last until ``end``; "fence", "registers" (``count`` a thread), and "finding" (``what``).
    On Blackwell "tcgen05.mma" and "ran", "commit" to the mbarrier ``what``, whose "arrive" has ``unit``;
    "alloc", "tcgen05.ld" and "dealloc" of the columns ``what``. ``unit`` is of ``UNITS``: whose work it is.
    """

    time: int
    kind: str
    cluster: int
    cta: int
    warp: int
    role: str
    place: Place
    what: str = ""
    home: int = -1
    barrier: str = ""
    phase: int | None = None
    parity: int | None = None
    count: int = 0
    box: tuple[tuple[int, int], ...] = ()  # (start, size) by axis, outermost first
    offset: int = -1
    size: int = 0  # bytes of shared memory that it takes
    reads: tuple[int, ...] = ()  # offsets of A and B, as far as they are in shared memory
    key: int = 0
    end: int = 0
    unit: str = ""


class Trace:
    """Where ``record`` is set, the events of every cluster are kept; else only those of clusters in which
    something was found.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine, self.record = machine, False
        self.spans: list[Span] = []
        self.arrivals: list[Arrival] = []
        self.events: list[Event] = []
        # of this cluster: spans of what ends by itself, and of work that goes on
        self._spans: dict[Load | Store | Operation | tcgen05.Operation | tuple, Span] = {}
        self._pieces: list[tuple[Span, Piece]] = []
        # the last spans' warps, and the barriers that label them; the last arrivals' barriers: unnamed as yet
        self._unnamed: list[tuple[Warp, MBarrier | None]] = []
        self._arrived: list[MBarrier] = []
        # of this cluster: time, kind, warp, instruction, what it is about, and a number
        self._noted: list[tuple[int, str, Warp | None, int, Any, int]] = []
        # warps that have issued tcgen05.mma, and the instructions that commit them
        self._issuers: set[Warp] = set()
        self._commits: set[int] = set()
        self._clusters = self._findings = 0
        listen, note = machine.probe.listen, self.note
        listen(LoadIssued, self._load_issued)
        listen(LoadLanded, self._load_landed)
        listen(StoreIssued, self._store_issued)
        listen(StoreRead, self._store_read)
        listen(StoresWaited, lambda event: note("pass", event.path, "the TMA stores"))
        listen(MultiplyIssued, self._multiply_issued)
        listen(Ran, self._ran)
        listen(tcgen05.Issued, self._mma_issued)
        listen(tcgen05.Completed, self._mma_completed)
        listen(tcgen05.CommitIssued, self._commit_issued)
        listen(tmem.Allocated, self._allocated)
        listen(tmem.Loaded, self._columns_loaded)
        listen(tmem.Freed, self._freed)
        listen(wgmma.WaitPassed, lambda event: note("pass", event.path, "wgmma"))
        listen(WriteBegins, lambda event: self._works(event, COPY if event.copies else "epilogue"))
        listen(CopyBegins, lambda event: self._works(event, COPY))
        listen(WaitBegan, self._wait_began)
        listen(WaitEnded, self._wait_ended)
        listen(mbarrier.WaitPassed, lambda event: note("pass", event.path, event.wait))
        listen(
            mbarrier.Initialised, lambda event: note("init", event.path, event.barrier, event.barrier.count)
        )
        listen(Arrived, self._arrive)
        listen(Expected, lambda event: note("expect", event.path, event.barrier, event.count))
        listen(BytesLanded, lambda event: note("bytes", event.path, event.barrier, event.count))
        listen(
            mbarrier.PhaseCompleted,
            lambda event: note("flip", event.path, event.barrier, event.barrier.phase),
        )
        listen(ProxyFenced, lambda event: note("fence", event.path, "fence.proxy.async"))
        listen(RegistersAsked, lambda event: note("registers", event.path, event.count))

    def note(self, kind: str, path: Path, what: Any, number: int = 0) -> None:
        """Something happened: see ``Event``. What it is called is found out once the cluster has run."""
        self._note(self.machine.executed, kind, path.warp, path.at, what, number)

    def _note(self, time: int, kind: str, warp: Warp, at: int, what: Any, number: int = 0) -> None:
        if len(self._noted) < LIMIT:
            self._noted.append((time, kind, warp, at, what, number))

    def begin(self, path: Path, kind: str, label: str | MBarrier, phase: int | None = None) -> Span:
        now = self.machine.executed
        text, barrier = (label, None) if isinstance(label, str) else ("", label)
        span = Span(path.cta.number, path.warp.index, "", kind, text, now, now, path.at, phase)
        if len(self.spans) < LIMIT:
            self.spans.append(span)
            self._unnamed.append((path.warp, barrier))
        return span

    def _begin_unit(self, path: Path, unit: str, kind: str, label: str, what: Any) -> None:
        """``what`` begins, in the lane of a unit of the path's CTA."""
        now = self.machine.executed
        span = Span(path.cta.number, -1, unit, kind, label, now, now, path.at)
        self._spans[what] = span
        if len(self.spans) < LIMIT:
            self.spans.append(span)
            self._unnamed.append((path.warp, None))

    def _end(self, what: Any) -> None:
        self._spans[what].end = self.machine.executed

    def _load_issued(self, event: LoadIssued) -> None:
        load = event.load
        self._spans[load] = self.begin(event.path, "TMA load", load.view.name, load.phase)
        self.note("load", event.path, load)

    def _load_landed(self, event: LoadLanded) -> None:
        self._end(event.load)
        self.note("loaded", event.load.path, event.load)

    def _store_issued(self, event: StoreIssued) -> None:
        self._spans[event.store] = self.begin(event.path, "TMA store", event.store.view.name)
        self.note("store", event.path, event.store)

    def _store_read(self, event: StoreRead) -> None:
        self._end(event.store)
        self.note("stored", event.path, event.store)

    def _multiply_issued(self, event: MultiplyIssued) -> None:
        op = event.operation
        self._spans[op] = self.begin(event.path, "wgmma", str(op.shape))
        self.note("wgmma", event.path, op)

    def _ran(self, event: Ran) -> None:
        op = event.operation
        self._end(op)
        self._note(self.machine.executed, "read", event.group.warps[0], op.at, op)

    def _mma_issued(self, event: tcgen05.Issued) -> None:
        self._issuers.add(event.path.warp)
        self._begin_unit(event.path, TENSOR_CORE, MMA, str(event.operation), event.operation)
        self.note(MMA, event.path, event.operation)

    def _mma_completed(self, event: tcgen05.Completed) -> None:
        op = event.operation
        self._end(op)
        self._note(self.machine.executed, "ran", op.path.warp, op.at, op)

    def _commit_issued(self, event: tcgen05.CommitIssued) -> None:
        self._commits.add(event.path.at)
        for barrier in event.barriers:
            self.note("commit", event.path, barrier)

    def _allocated(self, event: tmem.Allocated) -> None:
        path, memory = event.path, event.memory
        one = list(memory.allocations.values())[-1]  # the newest
        label = _columns(one.low, one.low + one.count)
        self._begin_unit(path, TENSOR_MEMORY, COLUMNS, label, (memory, one.low))
        self.note("alloc", path, label)

    def _columns_loaded(self, event: tmem.Loaded) -> None:
        self.note("tcgen05.ld", event.path, _columns(event.low, event.high))

    def _freed(self, event: tmem.Freed) -> None:
        self._end((event.memory, event.low))
        self.note("dealloc", event.path, _columns(event.low, event.high))

    def _works(self, event: WriteBegins | CopyBegins, kind: str) -> None:
        span = self.begin(event.path, kind, "D" if kind == "epilogue" else "a tile")
        self._pieces.append((span, event.piece))
        self.note(kind, event.path, span)

    def _wait_began(self, event: WaitBegan) -> None:
        path = event.path
        self._note(path.began, "wait", path.warp, path.at, event.reason)

    def _wait_ended(self, event: WaitEnded) -> None:
        path, reason = event.path, event.reason
        label: str | MBarrier = "wgmma"
        phase = None
        if isinstance(reason, PhaseWait):
            label, phase = reason.barrier, reason.barrier.phase - 1
        else:
            self.note("pass", path, reason)
            if isinstance(reason, ThreadWait):
                label = reason.barrier.label
        if self.machine.executed > path.began:
            self.begin(path, "wait", label, phase).begin = path.began

    def _arrive(self, event: Arrived) -> None:
        path, barrier = event.path, event.barrier
        self.note("arrive", path, barrier, event.count)
        if len(self.arrivals) < LIMIT:
            home, by = barrier.cta.number, (path.cta.number, path.warp.index)
            self.arrivals.append(Arrival(home, "", barrier.phase, *by, self.machine.executed))
            self._arrived.append(barrier)

    def found(self, finding: Finding, at: int) -> None:
        """Something was found."""
        self._noted.append((self.machine.executed, "finding", None, at, finding, 0))

    def name(self) -> None:
        """Put names in: a barrier's and a warp's role are known once the cluster has run."""
        for span, piece in self._pieces:
            span.end = piece.until
        kinds = cache(names.kinds_of)
        called = cache(lambda barrier: names.of_barrier(barrier, kinds))
        roles = {warp: role(warp).name() for warp, _ in self._unnamed}
        self._share_roles(roles)
        last = self.spans[len(self.spans) - len(self._unnamed) :]
        for span, (warp, barrier) in zip(last, self._unnamed, strict=True):
            span.role = span.role or roles[warp]
            if barrier is not None:
                span.label = called(barrier)
        arrivals = self.arrivals[len(self.arrivals) - len(self._arrived) :]
        for arrival, barrier in zip(arrivals, self._arrived, strict=True):
            arrival.barrier = called(barrier)
        findings = len(self.machine.unit(Findings).found)
        if self.record or findings > self._findings:
            self._tell(called, roles)
        self._clusters, self._findings = self._clusters + 1, findings
        self._noted.clear()
        self._unnamed.clear()
        self._arrived.clear()
        self._spans.clear()
        self._pieces.clear()
        self._issuers.clear()
        self._commits.clear()

    def _share_roles(self, roles: dict[Warp, str]) -> None:
        """Roles of a kernel with tcgen05.mma, whose warps multiply without holding sums: as they are where
        some warps only load, else one for all.
        """
        if not self._issuers:
            return
        split = any(name == "producer" and warp not in self._issuers for warp, name in roles.items())
        writing = {(span.cta, span.warp) for span, _ in self._pieces}
        for warp, name in roles.items():
            if not split:
                roles[warp] = "worker"
            elif warp in self._issuers:
                roles[warp] = "MMA"
            elif not name and (warp.cta.number, warp.index) in writing:
                roles[warp] = "epilogue"

    def _tell(self, called: Callable[[MBarrier], str], roles: dict[Warp, str]) -> None:
        """The events of the cluster that has run. ``called`` names an mbarrier; ``roles`` of warps grow."""
        for time, kind, warp, at, what, number in self._noted[: max(LIMIT - len(self.events), 0)]:
            place = self.machine.unit(Places).place(at)
            event = Event(time, kind, self._clusters, -1, -1, "", place, count=number)
            if warp is not None:
                if warp not in roles:
                    roles[warp] = role(warp).name()
                event.cta, event.warp, event.role = warp.cta.number, warp.index, roles[warp]
            if isinstance(what, PhaseWait):
                event.parity, what = what.parity, what.barrier
            if isinstance(what, MBarrier):
                event.what, event.home = called(what), what.cta.number
            elif kind in ("load", "loaded"):
                self._of_load(event, what, called)
            elif isinstance(what, Operation):
                _of_wgmma(event, what)
            elif isinstance(what, tcgen05.Operation):
                _of_mma(event, what)
            else:
                event.what = _called(what)
                event.end = what.end if isinstance(what, Span) else 0
            if kind in ("alloc", "dealloc"):
                event.unit = TENSOR_MEMORY
            if kind == "arrive" and at in self._commits:
                event.unit = TENSOR_CORE
            if kind == "flip":
                event.phase, event.count = number, 0
            self.events.append(event)

    def _of_load(self, event: Event, load: Load, called: Callable[[MBarrier], str]) -> None:
        event.place = self.machine.unit(Places).place(load.at)
        event.what, event.home, event.barrier = load.view.name, load.cta.number, called(load.barrier)
        event.phase, event.count, event.key = load.phase, load.view.bytes, id(load)
        event.offset, event.size = load.offset, load.view.extent
        event.box = load.view.box(load.coordinates)


def _of_wgmma(event: Event, op: Operation) -> None:
    operands = ((op.a, 64, op.shape.a_major, 1), (op.b, op.shape.N, op.shape.b_major, op.shape.slices))
    event.reads = tuple(operand_units(d, *of)[2] * UNIT for d, *of in operands if d is not None)
    event.what = str(op.shape)


def _of_mma(event: Event, op: tcgen05.Operation) -> None:
    (rows_of_a, rows_of_b), d = op.rows, op.descriptor
    operands = [(op.b, rows_of_b, d.b_major)]
    if not op.from_tmem:
        operands.insert(0, (op.a, rows_of_a, d.a_major))
    event.reads = tuple(operand_units(*one)[2] * UNIT for one in operands)
    event.what, event.unit, event.key = str(op), TENSOR_CORE, id(op)


def _columns(low: int, high: int) -> str:
    return f"{low} to {high - 1}"


def _called(what: Any) -> str:
    """What an event is about, in words."""
    if isinstance(what, str):
        return what
    if isinstance(what, Span):
        return what.label
    if isinstance(what, Finding):
        return what.kind
    if isinstance(what, ThreadWait):
        return what.barrier.label
    if isinstance(what, RegisterWait):
        return f"{what.wanted} registers per thread"
    view = getattr(what, "view", None)
    return "wgmma" if view is None else view.region_at(what.coordinates)
