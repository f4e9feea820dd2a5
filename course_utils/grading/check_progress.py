"""A check while it goes on: its parts as they become known, and what it is at, for whoever asked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from course_utils.compile.child import Compiled
from course_utils.grading import steps
from course_utils.grading.steps import CopyCase, PairCase, Step
from course_utils.grading.verdict import PENDING, WORKING, Part, Verdict, score
from course_utils.run.backends import Launch
from course_utils.run.protocol import Answer

RUNNING = {"emulator": "emulating", "gpu": "running"}

OnProgress = Callable[[Verdict], object]


def ignored(verdict: Verdict) -> None:
    """For a check whose progress nobody asked for."""


class CheckProgress:
    """What is known of a check so far. ``on_progress`` gets it as a Verdict after every change, in the thread
    of the check; what it raises is lost.

    A part's clock runs from the first word that it is worked at to its end. Parts overlap: one size is
    compiled while another is emulated.
    """

    def __init__(
        self, step: Step | CopyCase | PairCase, dsl: str, backend: str, on_progress: OnProgress = ignored
    ) -> None:
        self._step, self._dsl, self._backend, self._on_progress = step, dsl, backend, on_progress
        self._parts = {name: score(step, name, None, "", idle=PENDING) for name in steps.parts_of(step)}
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._sizes: list[str] = []  # of what was handed to the machine
        self._count = self._answers = 0

    def start(self, name: str, what: str) -> None:
        """The part ``name`` is worked at: ``what`` is being done."""
        self._began.setdefault(name, time.monotonic())
        before = self._parts[name]
        self._parts[name] = replace(before, detail=what, idle=WORKING)
        if self._parts[name] != before:
            self._report()

    def stop(self, name: str) -> None:
        """The work at a part has ended, though its outcome is not known yet."""
        now = time.monotonic()
        self._took.setdefault(name, now - self._began.setdefault(name, now))

    def finish(self, *parts: Part) -> None:
        """These parts are known."""
        for part in parts:
            if part.passed is not None:
                self.stop(part.name)
            self._parts[part.name] = self._timed(part)
        self._report()

    def compiling(self, made: Generator[Compiled, None, None], count: int) -> Iterator[Compiled]:
        """``made``, of ``count``: each is in progress from when it is asked for."""
        with contextlib.closing(made):
            for number in range(1, count + 1):
                self.start("compiles", f"compiling {number} of {count}")
                yield next(made)
        self.stop("compiles")

    def sends(self, launch: Launch, count: int) -> Launch:
        """A launch on its way to the machine, one of ``count``. A GPU begins when it has them all."""
        self._sizes.append(" x ".join(map(str, launch.size)))
        self._count = count
        if self._backend != "gpu" or len(self._sizes) == count:
            self._runs()
        return launch

    def on_answer(self, launch: Launch, answer: Answer) -> None:
        """A machine's answer."""
        self._answers += 1
        self._runs()
        if self._answers == self._count:
            self.stop("results")

    def _runs(self) -> None:
        verb, number = RUNNING.get(self._backend, ""), self._answers + 1
        if verb and number <= len(self._sizes):
            self.start("results", f"{verb} {self._sizes[number - 1]} ({number} of {self._count})")
        elif verb:
            self.start("results", f"{self._answers} of {self._count} done")

    def closed(self, verdict: Verdict) -> Verdict:
        """The check's verdict, with the seconds that each part took."""
        for part in verdict.checks:
            if part.passed is not None and part.name in self._began:
                self.stop(part.name)
        return replace(verdict, checks=tuple(self._timed(part) for part in verdict.checks))

    def _timed(self, part: Part) -> Part:
        took = self._took.get(part.name)
        return part if part.passed is None or took is None else replace(part, seconds=round(took, 2))

    def _report(self) -> None:
        with contextlib.suppress(Exception):
            self._on_progress(
                Verdict.of(self._step.id, self._dsl, self._backend, tuple(self._parts.values()))
            )
