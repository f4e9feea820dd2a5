"""``Emulation``: what one emulated launch did, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field

from course_utils.run.emulator.explain.findings import Finding
from course_utils.run.emulator.explain.timeline import Arrival, Event, Span


@dataclass
class Emulation:
    """What one emulated launch did. Outputs are in the tensors that were passed in.

    ``finished`` is False where the kernel could not come to its end; the last finding says why. ``executed``
    counts warp instructions. ``spans`` and ``arrivals`` are the timeline, in emulated order, and ``events``
    all that ``replay`` plays: of every cluster where it was recorded, else of those in which something was
    found. ``facts`` are the counts of ``facts``; where it did not finish, only those of instructions that
    ran. ``printed`` is what its threads printed.
    """

    finished: bool
    findings: list[Finding]
    executed: int
    seed: int
    spans: list[Span] = field(default_factory=list, repr=False)
    arrivals: list[Arrival] = field(default_factory=list, repr=False)
    events: list[Event] = field(default_factory=list, repr=False)
    facts: dict[str, int] = field(default_factory=dict, repr=False)
    printed: str = ""

    @property
    def errors(self) -> list[Finding]:
        return [f for f in self.findings if f.severity == "error"]

    @property
    def ok(self) -> bool:
        return self.finished and not self.errors
