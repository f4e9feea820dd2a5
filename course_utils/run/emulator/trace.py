"""What happened, in emulated order, for a timeline: spans of work and waiting by warp, and arrivals on
barriers.

Times count warp instructions executed so far by the whole machine: an order, not a duration on the chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.run.emulator.barriers import MBarrier, PhaseWait
from course_utils.run.emulator.threads import ThreadWait

if TYPE_CHECKING:
    from course_utils.run.emulator.machine import Machine
    from course_utils.run.emulator.tma import Load, Store
    from course_utils.run.emulator.warp import Path, Warp

LIMIT = 200_000  # spans and arrivals kept


@dataclass(slots=True)
class Span:
    """``kind`` is "TMA load", "TMA store", "wgmma", "epilogue" or "wait"; ``label`` the tensor, the shape or
    the barrier.

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


class Trace:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.spans: list[Span] = []
        self.arrivals: list[Arrival] = []
        self._loads: dict[int, Span] = {}  # by the load's id
        # the last spans' warps, and the barriers that label them; the last arrivals' barriers: unnamed as yet
        self._unnamed: list[tuple[Warp, MBarrier | None]] = []
        self._arrived: list[MBarrier] = []

    def begin(self, path: Path, kind: str, label: str | MBarrier, phase: int | None = None) -> Span:
        now = self.machine.executed
        text, barrier = (label, None) if isinstance(label, str) else ("", label)
        span = Span(path.cta.number, path.warp.index, "", kind, text, now, now, path.at, phase)
        if len(self.spans) < LIMIT:
            self.spans.append(span)
            self._unnamed.append((path.warp, barrier))
        return span

    def end(self, span: Span | None) -> None:
        if span is not None:
            span.end = self.machine.executed

    def issued(self, path: Path, load: Load) -> None:
        self._loads[id(load)] = self.begin(path, "TMA load", load.view.name, load.phase)

    def landed(self, load: Load) -> None:
        self.end(self._loads.pop(id(load), None))

    def stored(self, path: Path, store: Store) -> None:
        self.end(store.span)

    def writes(self, path: Path) -> None:
        """A warp that has multiplied writes results out: one epilogue span until it multiplies again."""
        warp = path.warp
        if warp.multiplies:
            if warp.epilogue is None or warp.epilogue[0] != warp.multiplies:
                warp.epilogue = warp.multiplies, self.begin(path, "epilogue", "D")
                self.machine.facts.epilogue(path)
            warp.epilogue[1].end = self.machine.executed

    def waited(self, path: Path) -> None:
        """A path goes on after a wait."""
        if self.machine.executed > path.began:
            reason = path.waits_for
            label: str | MBarrier = "wgmma"
            phase = None
            if isinstance(reason, PhaseWait):
                label, phase = reason.barrier, reason.barrier.phase - 1
            elif isinstance(reason, ThreadWait):
                label = reason.barrier.label
            self.begin(path, "wait", label, phase).begin = path.began

    def arrived(self, path: Path, barrier: MBarrier) -> None:
        if len(self.arrivals) < LIMIT:
            by, now = path.warp, self.machine.executed
            self.arrivals.append(
                Arrival(barrier.cta.number, "", barrier.phase, path.cta.number, by.index, now)
            )
            self._arrived.append(barrier)

    def name(self) -> None:
        """Put names in: a barrier's and a warp's role are known once the cluster has run."""
        last = self.spans[len(self.spans) - len(self._unnamed) :]
        for span, (warp, barrier) in zip(last, self._unnamed, strict=True):
            span.role = warp.role()
            if barrier is not None:
                span.label = barrier.name()
        for arrival, barrier in zip(
            self.arrivals[len(self.arrivals) - len(self._arrived) :], self._arrived, strict=True
        ):
            arrival.barrier = barrier.name()
        self._unnamed.clear()
        self._arrived.clear()
        self._loads.clear()
