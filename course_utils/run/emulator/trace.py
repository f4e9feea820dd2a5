"""What happened, in emulated order, for a timeline: spans of work and waiting by warp, and arrivals on
barriers.

Times count warp instructions executed so far by the whole machine: an order, not a duration on the chip.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    def __init__(self, machine):
        self.machine, self.spans, self.arrivals, self._loads, self._roles, self._named = (
            machine,
            [],
            [],
            {},
            [],
            0,
        )

    def begin(self, path, kind, label, phase=None) -> Span:
        now = self.machine.executed
        span = Span(path.cta.number, path.warp.index, "", kind, label, now, now, path.at, phase)
        if len(self.spans) < LIMIT:
            self.spans.append(span)
            self._roles.append(path.warp)
        return span

    def end(self, span) -> None:
        if span is not None:
            span.end = self.machine.executed

    def issued(self, path, load) -> None:
        self._loads[id(load)] = self.begin(path, "TMA load", load.view.name, load.phase)

    def landed(self, load) -> None:
        self.end(self._loads.pop(id(load), None))

    def stored(self, path, store) -> None:
        self.end(store.span)

    def writes(self, path) -> None:
        """A warp that has multiplied writes results out: one epilogue span until it multiplies again."""
        warp = path.warp
        if warp.multiplies:
            if warp.epilogue is None or warp.epilogue[0] != warp.multiplies:
                warp.epilogue = warp.multiplies, self.begin(path, "epilogue", "D")
            warp.epilogue[1].end = self.machine.executed

    def waited(self, path) -> None:
        """A path goes on after a wait."""
        if self.machine.executed > path.began:
            reason = path.waits_for
            barrier = getattr(reason, "barrier", None)
            label = (
                barrier.label if hasattr(barrier, "label") else barrier if barrier is not None else "wgmma"
            )
            span = self.begin(
                path, "wait", label, getattr(barrier, "phase", 1) - 1 if hasattr(barrier, "phase") else None
            )
            span.begin = path.began

    def arrived(self, path, barrier) -> None:
        if len(self.arrivals) < LIMIT:
            self.arrivals.append(
                Arrival(
                    barrier.cta.number,
                    barrier,
                    barrier.phase,
                    path.cta.number,
                    path.warp.index,
                    self.machine.executed,
                )
            )

    def name(self) -> None:
        """Put names where objects stood: a barrier's and a warp's are known once the cluster has run."""
        for span, warp in zip(self.spans[len(self.spans) - len(self._roles) :], self._roles, strict=True):
            span.role = warp.role()
            if not isinstance(span.label, str):
                span.label = span.label.name()
        for arrival in self.arrivals[self._named :]:
            arrival.barrier = arrival.barrier.name()
        self._named = len(self.arrivals)
        self._roles.clear()
        self._loads.clear()
