"""What a check found: points by part, a diagnosis, and the timing; as text, JSON fields or HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from course_utils.grading import cards, steps
from course_utils.grading.cards import Card
from course_utils.grading.found import Found, of_text
from course_utils.grading.refine import Run
from course_utils.grading.steps import CopyCase, PairCase, Step

PASSED, FAILED, NOT_RUN, NOT_REACHED, OPEN = "passed", "failed", "not run", "not reached", "open"
PENDING, WORKING, STOPPED = "pending", "working", "stopped"
MAP = "symptom_map.md"  # beside the notebooks
FIRST = "Look here first"
VERSION = 1  # of the JSON form (docs/verdict.md): a key that changes its meaning makes another
STAR = "\u2605 from a blank page"


@dataclass(frozen=True)
class Part:
    """One part of a check. ``passed`` is None where it was not tried; it then gives no points, and ``idle``
    says why: this backend cannot (NOT_RUN), an earlier part failed (NOT_REACHED), nothing is written (OPEN),
    its turn comes (PENDING) or has come (WORKING), the learner stopped it (STOPPED).

    ``detail`` is its row's text. Where it failed, ``found`` is why, what leads first, and ``runs`` are the
    runs that were wrong, the one that tells most first; ``topic`` is the anchor of ``found`` in the symptom
    map. A Verdict adds the ``card`` that says it. ``seconds`` is how long it took, None where it was not
    tried or nobody looked at the clock.
    """

    name: str
    passed: bool | None
    points: float
    max_points: float
    detail: str
    found: tuple[Found, ...] = ()
    topic: str = ""
    runs: tuple[Run, ...] = ()
    idle: str = NOT_RUN
    seconds: float | None = None
    card: Card | None = None

    @property
    def state(self) -> str:
        return {True: PASSED, False: FAILED, None: self.idle}[self.passed]


@dataclass(frozen=True, repr=False)
class Verdict:
    """The outcome of one check of one step.

    ``card`` is the one next thing to look at, None where nothing failed. ``timing`` holds the measured runs
    of this check (see ``gpu.timing``), empty where nothing was timed. ``printed`` is what the learner's
    factory printed while it was traced, ``output`` what the kernel's threads printed in the emulator;
    ``figure`` what a figure plays of the run in which something was found, None where there is none.
    ``level`` is that of the exercise, one of ``steps.LEVELS``.
    """

    step: str
    dsl: str
    backend: str
    checks: tuple[Part, ...]
    card: Card | None = None
    timing: tuple[dict, ...] = ()
    receipt: tuple[tuple[str, str], ...] = field(default=())
    printed: str = ""
    output: str = ""
    figure: dict | None = field(default=None, compare=False)
    level: str = "write"

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
        """A verdict with a card for each failed part. It leads with the first one; the others fold below it.
        A card without a line gives way to what the emulator saw at one.

        ``whole``: one failed part costs all points.
        """
        parts = [replace(p, card=p.card or cards.of_part(p.found, p.topic, p.runs)) for p in parts]
        failed = [part for part in parts if part.passed is False]
        if whole and failed:
            parts = [replace(part, points=0.0) for part in parts]
        made = [part.card for part in failed if part.card]
        lead = made[0] if made else None
        if lead and not lead.where:
            lead = next((card for card in made if card.kind and card.where), lead)
        if lead and len(made) > 1:
            others = (card for card in made if card is not lead)
            lead = replace(lead, more=(*lead.more, *(f"Then: {card.full_text}" for card in others)))
        return cls(step, dsl, backend, tuple(parts), lead, tuple(timing), tuple(receipt))

    @property
    def diagnosis(self) -> str:
        """The card with all that folds below it, as text; empty where nothing failed."""
        return self.card.full_text if self.card else ""

    @property
    def open(self) -> bool:
        """There is nothing to judge yet: the exercise is as it was given."""
        return all(part.state == OPEN for part in self.checks)

    @property
    def doing(self) -> str:
        """What a check that goes on is at, in words; empty where it has ended."""
        return "; ".join(part.detail for part in self.checks if part.state == WORKING)

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
        """Some part was tried and failed, or nothing is written yet."""
        return any(part.passed is False for part in self.checks) or self.open

    def to_dict(self) -> dict:
        """The JSON form of a verdict, as docs/verdict.md has it."""
        return {
            "version": VERSION,
            "step": self.step,
            "dsl": self.dsl,
            "backend": self.backend,
            "level": self.level,
            "passed": self.passed,
            "points": self.points,
            "max_points": self.max_points,
            "checks": [_fields(part) for part in self.checks],
            "diagnosis": self.diagnosis,
            "card": self.card.to_dict() if self.card else None,
            "timing": list(self.timing),
            "receipt": [list(row) for row in self.receipt],
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        head = f"{self.step}  {self.dsl}  {self._score()}  (backend: {self.backend})"
        lines = [f"{self.step}  {self.dsl}  {OPEN}" if self.open else head]
        if self.card:
            lines.append(
                f"  {'' if self.open else FIRST + ': '}{str(self.card).replace(chr(10), chr(10) + '  ')}"
            )
            lines += [f"  {MAP}#{self.card.topic}"] if self.card.topic else []
        timed = any(part.seconds is not None for part in self.checks)
        for part in () if self.open else self.checks:
            worth = f"{number(part.points):>4}/{number(part.max_points):<4}" if _known(part) else ""
            took = f"{_seconds(part):>7}  " if timed else ""
            first, *below = part.detail.split("\n")
            lines.append(f"  {part.state:12}{part.name:14}{worth:9}  {took}{first}".rstrip())
            lines += [f"    {line}" for line in below]  # a warning of a part that passed
        if self.card and self.card.more:
            lines.append("  More:")
            lines += [f"    {line}" for text in self.card.more for line in text.splitlines()]
        if self.printed:
            lines += ["  Printed at trace time:", *(f"    {line}" for line in self.printed.splitlines())]
        if self.output:
            lines += ["  Printed by the kernel:", *(f"    {line}" for line in self.output.splitlines())]
        return "\n".join(lines)

    def _score(self) -> str:
        states = {part.state for part in self.checks}
        if states & {PENDING, WORKING}:
            return "checking ..."
        if STOPPED in states:
            return STOPPED
        score = f"{number(self.points)} of {number(self.max_points)} points"
        all_of_it = ", all that this machine can judge" if states == {PASSED, NOT_RUN} else ""
        if self.level == "blank" and not self.failed and self.points:
            return f"{score} {STAR}{all_of_it}"
        return f"{score}{'' if self.level == 'write' else f' at level {self.level}'}{all_of_it}"

    def _repr_html_(self) -> str:
        # white on a colour is readable in any theme; var(...) would not survive in a notebook that is not
        # trusted
        name = f"<b>{html.escape(self.step)}</b>, {html.escape(self.dsl)}"
        if self.open and self.card:
            return f"<p>{_badge(OPEN)} {name}: {_card(self.card)}</p>"
        left, narrow = "text-align:left;vertical-align:top", "vertical-align:top;white-space:nowrap"
        rows = "".join(
            f"<tr><td style='text-align:left;{narrow}'>{_badge(p.state)}</td><td "
            f"style='text-align:left;{narrow}'>{html.escape(p.name)}"
            f"</td><td style='{narrow}'>{f'{number(p.points)} / {number(p.max_points)}' * _known(p)}</td>"
            f"<td style='{left};white-space:pre-wrap'>{as_html(p.detail)}</td>"
            f"<td style='{narrow}'>{_seconds(p)}</td></tr>"
            for p in self.checks
        )
        look = fold = ""
        if self.card:
            look = f"<p style='max-width:60em'><b>{FIRST}:</b> {_card(self.card)}</p>"
        if self.card and self.card.more:
            lines = "".join(
                f"<li style='overflow-x:auto'><pre>{html.escape(text)}</pre></li>"
                if text in self.card.tables
                else f"<li style='white-space:pre-wrap'>{as_html(text)}</li>"
                for text in self.card.more
            )
            fold = (
                f"<details style='max-width:60em'><summary>More about it</summary><ul>{lines}</ul></details>"
            )
        printed = "".join(
            f"<p>{title}:</p><pre>{html.escape(text)}</pre>"
            for title, text in (
                ("Printed at trace time", self.printed),
                ("Printed by the kernel", self.output),
            )
            if text
        )
        return (
            f"<p>{name}: <b>{self._score()}</b> (backend: {html.escape(self.backend)})</p>"
            f"{look}<table>{rows}</table>{fold}{printed}"
        )


def _badge(state: str) -> str:
    colour = {PASSED: "#1a7f37", FAILED: "#b3261e", WORKING: "#0969da"}.get(state, "#59636e")
    style = f"background-color:{colour};color:#ffffff;padding:1px 6px;border-radius:3px"
    return f"<span style='{style}'>{state}</span>"


def _card(card: Card) -> str:
    where = f"<br>{html.escape(card.place)}" if card.place else ""
    code = f": <code>{html.escape(card.code)}</code>" if card.code else ""
    link = f" <a href='{MAP}#{card.topic}'>What this can mean</a>" if card.topic else ""
    return f"{as_html(card.text)}{where}{code}{link}"


def _fields(part: Part) -> dict:
    """The JSON form of a part: ``detail`` with all that was found in words, ``found`` the same as data."""
    names = ("name", "passed", "points", "max_points")
    detail = "\n".join(filter(None, (part.detail, part.card.full_text if part.card else "")))
    return {name: getattr(part, name) for name in names} | {
        "detail": detail,
        "seconds": part.seconds,
        "state": part.state,
        "found": [one.to_dict() for one in part.card.found] if part.card else [],
    }


def as_html(text: str) -> str:
    """Text as HTML, with what stands between backticks as code."""
    return re.sub("`([^`\n]+)`", r"<code>\1</code>", html.escape(text))


def _known(part: Part) -> bool:
    """Its points are known."""
    return part.max_points > 0 and part.state not in (PENDING, WORKING)


def _seconds(part: Part) -> str:
    return "" if part.seconds is None else f"{part.seconds:.1f} s"


def number(points: float) -> str:
    """As people write points: 9, 6.5, 1.25; 5.7 for what has no end."""
    exact = abs(points - round(points, 2)) < 1e-6
    return f"{round(points, 2 if exact else 1):g}"


def score(
    step: Step | CopyCase | PairCase,
    name: str,
    passed: bool | None,
    detail: str,
    *found: Found,
    topic: str = "",
    runs: tuple[Run, ...] = (),
    share: float = 1.0,
    idle: str = NOT_RUN,
) -> Part:
    """The part ``name`` of a step's or a copy's check.

    ``share`` of its points are given where it did not pass.
    """
    worth = steps.parts_of(step)[name]
    points = worth * share if passed or 0 < share < 1 else 0.0
    return Part(name, passed, points, worth, detail, found, topic, runs, idle)


def unchecked(name: object, dsl: object, backend: object, text: str) -> Verdict:
    """The verdict where there was nothing to check: no points of none. The arguments may be anything."""
    part = Part("compiles", False, 0, 0, "", (of_text(text),))
    return Verdict.of(str(name), str(dsl), str(backend), [part])


def itself_failed(name: object, dsl: object, backend: object, error: Exception) -> Verdict:
    """The verdict of a fault of the checker's own: it must not end a learner's notebook."""
    text = f"the checker itself failed ({type(error).__name__}: {error}); please report this with your kernel"
    return unchecked(name, dsl, backend, text)


def interrupted(name: str, dsl: str, known: Verdict | None = None) -> Verdict:
    """The verdict of a check that the learner stopped, with what was ``known`` by then. It gives no points,
    of none.
    """
    card = cards.of_found(of_text("you stopped this check; run it again for a verdict"))
    if known is None:
        return Verdict(name, dsl, "none", (Part("compiles", None, 0, 0, "", idle=STOPPED),), card)
    idle = {WORKING: STOPPED, PENDING: NOT_REACHED}
    parts = tuple(
        replace(part, points=0.0, max_points=0.0, idle=idle.get(part.idle, part.idle))
        for part in known.checks
    )
    found = tuple(part.card.full_text for part in parts if part.card)
    return Verdict(known.step, known.dsl, known.backend, parts, replace(card, more=(*card.more, *found)))


def not_compiled(step: Step | CopyCase | PairCase, dsl: str, backend: str, why: Found) -> Verdict:
    """The verdict of a kernel that could not be loaded or compiled."""
    first, *others = steps.parts_of(step)
    parts = [score(step, first, False, "", why, topic="compile")]
    parts += [score(step, name, None, "", idle=NOT_REACHED) for name in others]
    return Verdict.of(step.id, dsl, backend, parts)


def still_open(step: Step | CopyCase | PairCase, dsl: str, backend: str, text: str) -> Verdict:
    """The verdict of an exercise that is as it was given; ``text`` says where to write."""
    parts = tuple(score(step, name, None, "", idle=OPEN) for name in steps.parts_of(step))
    return to_write(step.id, dsl, backend, parts, text)


def to_write(name: str, dsl: str, backend: str, parts: tuple[Part, ...], text: str) -> Verdict:
    """The verdict of these open ``parts``; ``text`` says where to write."""
    return Verdict(name, dsl, backend, parts, cards.of_found(of_text(text)))
