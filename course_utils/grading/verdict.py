"""What a check found: points by part, a diagnosis, and the timing; as text, JSON fields or HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from course_utils.grading import steps
from course_utils.grading.steps import CopyCase, Step

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclass(frozen=True)
class Part:
    """One part of a check. ``passed`` is None where this backend cannot try it; it then gives no points."""

    name: str
    passed: bool | None
    points: float
    max_points: float
    detail: str
    hint: str = ""  # what to look at first, where ``detail`` says more than one thing

    @property
    def state(self) -> str:
        return {True: PASSED, False: FAILED, None: NOT_RUN}[self.passed]


@dataclass(frozen=True, repr=False)
class Verdict:
    """The outcome of one check of one step.

    ``diagnosis`` is the one next thing to look at, empty where nothing failed. ``timing`` holds the measured
    runs of this check (see ``gpu.timing``), empty where nothing was timed.
    """

    step: str
    dsl: str
    backend: str
    checks: tuple[Part, ...]
    diagnosis: str = ""
    timing: tuple[dict, ...] = ()
    receipt: tuple[tuple[str, str], ...] = field(default=())

    @classmethod
    def of(
        cls,
        step: str,
        dsl: str,
        backend: str,
        parts: Sequence[Part],
        whole: bool = False,
        timing: Sequence[dict] = (),
        receipt: Sequence[tuple[str, str]] = (),
    ) -> Verdict:
        """A verdict whose diagnosis is the first failed part's.

        ``whole``: one failed part costs all points.
        """
        failed = [part for part in parts if part.passed is False]
        if whole and failed:
            parts = [replace(part, points=0.0) for part in parts]
        look = next((part.hint or f"{part.name}: {part.detail}" for part in failed), "")
        return cls(step, dsl, backend, tuple(parts), look, tuple(timing), tuple(receipt))

    @property
    def points(self) -> float:
        return sum(part.points for part in self.checks)

    @property
    def max_points(self) -> float:
        return sum(part.max_points for part in self.checks)

    @property
    def passed(self) -> bool:
        """Every part was tried and passed."""
        return all(part.passed for part in self.checks)

    @property
    def failed(self) -> bool:
        """Some part was tried and failed."""
        return any(part.passed is False for part in self.checks)

    def to_dict(self) -> dict:
        """The JSON form of a verdict."""
        return {
            "step": self.step,
            "dsl": self.dsl,
            "backend": self.backend,
            "passed": self.passed,
            "points": self.points,
            "max_points": self.max_points,
            "checks": [{k: v for k, v in asdict(part).items() if k != "hint"} for part in self.checks],
            "diagnosis": self.diagnosis,
            "timing": list(self.timing),
            "receipt": [list(row) for row in self.receipt],
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [
            f"{self.step}  {self.dsl}  {self.points:g} of {self.max_points:g} points  (backend: "
            f"{self.backend})"
        ]
        for part in self.checks:
            lines.append(
                f"  {part.state:8} {part.name:14}{part.points:5g}/{part.max_points:<5g}{part.detail}"
            )
        if self.diagnosis:
            lines.append(f"  Look here first: {self.diagnosis}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        # white on a colour is readable in any theme; var(...) would not survive in a notebook that is not
        # trusted
        colours = {PASSED: "#1a7f37", FAILED: "#b3261e", NOT_RUN: "#59636e"}
        left, narrow = "text-align:left;vertical-align:top", "vertical-align:top;white-space:nowrap"
        rows = "".join(
            f"<tr><td style='text-align:left;{narrow}'><span "
            f"style='background-color:{colours[p.state]};color:#ffffff;"
            f"padding:1px 6px;border-radius:3px'>{p.state}</span></td><td "
            f"style='text-align:left;{narrow}'>{html.escape(p.name)}"
            f"</td><td style='{narrow}'>{_number(p.points)} / {_number(p.max_points)}</td>"
            f"<td style='{left};white-space:pre-wrap'>{as_html(p.detail)}</td></tr>"
            for p in self.checks
        )
        first = (
            "<p style='white-space:pre-wrap;max-width:60em'><b>Look here first:</b> "
            f"{as_html(self.diagnosis)}</p>"
        )
        look = first if self.diagnosis else ""
        return (
            f"<p><b>{html.escape(self.step)}</b>, {html.escape(self.dsl)}: <b>{_number(self.points)} of "
            f"{_number(self.max_points)} points</b> (backend: "
            f"{html.escape(self.backend)})</p><table>{rows}</table>{look}"
        )


def as_html(text: str) -> str:
    """Text as HTML, with what stands between backticks as code."""
    return re.sub("`([^`\n]+)`", r"<code>\1</code>", html.escape(text))


def _number(points: float) -> str:
    return f"{round(points, 2):g}"


def score(
    step: Step | CopyCase, name: str, passed: bool | None, detail: str, hint: str = "", share: float = 1.0
) -> Part:
    """The part ``name`` of a step's or a copy's check.

    ``share`` of its points are given where it did not pass.
    """
    worth = steps.parts_of(step)[name]
    points = worth * share if passed or 0 < share < 1 else 0.0
    return Part(name, passed, points, worth, detail, hint)


def unchecked(name: object, dsl: object, backend: object, text: str) -> Verdict:
    """The verdict where there was nothing to check: no points of none. The arguments may be anything."""
    return Verdict(str(name), str(dsl), str(backend), (Part("compiles", False, 0, 0, text),), text)


def itself_failed(name: object, dsl: object, backend: object, error: Exception) -> Verdict:
    """The verdict of a fault of the checker's own: it must not end a learner's notebook."""
    text = f"the checker itself failed ({type(error).__name__}: {error}); please report this with your kernel"
    return unchecked(name, dsl, backend, text)


def interrupted(name: str, dsl: str) -> Verdict:
    """The verdict of a check that the learner stopped."""
    text = "you stopped this check; run the cell again to repeat it"
    return Verdict(name, dsl, "none", (Part("compiles", None, 0, 0, text),), text)


def not_compiled(step: Step | CopyCase, dsl: str, backend: str, message: str) -> Verdict:
    """The verdict of a kernel that could not be loaded or compiled, with the reason in words."""
    parts = [
        score(
            step, name, False, message if name == "compiles" else "not reached: the kernel does not compile"
        )
        for name in steps.parts_of(step)
    ]
    return Verdict(step.id, dsl, backend, tuple(parts), message)
