"""Findings: what was found, where in the author's code, and where findings are gathered and merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from course_utils.artifact import Origin, file_name
from course_utils.cause import Cause, Sentences, filled, forms, sentence
from course_utils.run.emulator.explain import dsl_terms, ledger
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.explain.ledger import Row, table
from course_utils.run.emulator.explain.places import Place, Places
from course_utils.run.emulator.explain.words import ADVICE, KINDS, SENTENCES, WITHOUT_ROLES
from course_utils.run.words import safe_message

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.units.mbarrier import MBarrier


@dataclass
class Finding:
    """One thing found: its cause, and that in words, ``detail``. ``count`` merges equal findings of other
    warps and CTAs; the cause is the first one's.

    ``place`` is where. ``why`` is what explains it, found once its cluster had ended: it goes on the
    sentence. ``waiting`` is for deadlocks: a dict for each group of warps that wait alike, with ``role``,
    ``warps``, ``cta``, ``line``, ``text`` and ``barrier``, where that is an mbarrier also with ``parity``,
    ``phase``, ``arrivals_missing`` and ``bytes_missing``.
    """

    cause: Cause
    severity: str
    advice: str
    place: Place = field(default_factory=Place)
    count: int = 1
    waiting: list[dict] = field(default_factory=list)
    notes: tuple[Cause, ...] = ()  # what else there is to say, a sentence each
    why: Cause | None = None
    dsl: str = ""  # whose calls its words name
    ledger: tuple[Row, ...] = ()  # the mbarriers that it is about
    apart: bool = False  # no count of arrivals is its cause

    @property
    def kind(self) -> str:
        return self.cause.kind

    @property
    def sentences(self) -> list[list[str]]:
        """``detail``, sentence by sentence: each in full, and shorter and shorter."""
        text = _worded(self.cause, filled) + (_worded(self.why, filled) if self.why else "")
        return forms(dsl_terms.beside(text, self.dsl))

    @property
    def detail(self) -> str:
        return " ".join(one[0] for one in self.sentences)

    @property
    def more(self) -> tuple[str, ...]:
        return tuple(_worded(note) for note in self.notes)

    def __str__(self) -> str:
        where = str(self.place)
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return (
            f"{self.severity}: {self.kind}: {self.detail}{times}"
            + (f"\n  at {where}" if where else "")
            + "".join(f"\n  {text}" for text in self.more)
            + f"\n  {self.advice}"
            + "".join(f"\n  {line}" for line in table(self.ledger).splitlines())
        )


def _worded(cause: Cause, words: Callable[[Cause, Sentences], str] = sentence) -> str:
    plain = f"{cause.kind.replace('-', ' ')}: the emulator has no words for this case"
    return safe_message(lambda: words(cause, SENTENCES), plain)


class Findings:
    """Gathers findings and merges equal ones. Equal means the same kind, at the same place."""

    def __init__(self, machine: Machine) -> None:
        self.has_roles, self.artifact = ahead(machine.program).has_roles, machine.artifact
        self.places = machine.unit(Places)
        self.found: dict[tuple[str, str, str], Finding] = {}
        self.left_out = ""  # a kind that is found and not kept
        self.heard: Callable[[Finding, int], object] = lambda finding, at: None  # of each new one

    def find(
        self,
        cause: Cause,
        at: int,
        *,
        subject: str = "",
        about: Iterable[MBarrier] = (),
        notes: Iterable[Cause] = (),
        waiting: Sequence[dict] = (),
        advice: str = "",
        first: bool = False,
        origin: Origin | None = None,
    ) -> Finding:
        """A new finding, or an equal one that was found before. ``at`` is the instruction's index (-1: none),
        ``about`` the mbarriers that it is about. ``advice`` names one of ``ADVICE`` in place of that of its
        kind, ``first`` puts it before all others, ``origin`` is the author's line where it is not the
        instruction's.
        """
        if former := self.again(cause.kind, at, subject, origin):
            return former
        kind, dsl = cause.kind, self.artifact.dsl
        severity, usual = KINDS[kind]
        if not self.has_roles:
            usual = WITHOUT_ROLES.get(kind, usual)
        usual = dsl_terms.beside(ADVICE.get(advice, usual), dsl) + dsl_terms.BESIDES.get(f"{kind} {dsl}", "")
        finding = Finding(cause, severity, usual, self._place_of(at, origin), dsl=dsl)
        finding.waiting, finding.notes = list(waiting), tuple(notes)
        finding.ledger = ledger.rows(about)
        if kind == self.left_out:
            return finding
        self.found[kind, str(finding.place), subject] = finding
        self.heard(finding, at)
        if first:
            self.lead(finding)
        return finding

    def again(self, kind: str, at: int, subject: str = "", origin: Origin | None = None) -> Finding | None:
        """An equal finding that was found before, and is now counted once more."""
        former = self.found.get((kind, str(self._place_of(at, origin)), subject))
        if former is not None:
            former.count += 1
        return former

    def place(self, at: int) -> Place:
        """Where the instruction of this index comes from; nowhere for -1."""
        return self.places.place(at)

    def _place_of(self, at: int, origin: Origin | None) -> Place:
        place = self.place(at)
        if origin is None:
            return place
        code = self.artifact.code(origin)
        return replace(place, file=file_name(origin.file), line=origin.line, code=code, added=False)

    @property
    def first(self) -> Finding | None:
        """What leads now."""
        return next(iter(self.found.values()), None)

    def lead(self, finding: Finding) -> None:
        """Put a finding before all others."""
        self.found = dict(sorted(self.found.items(), key=lambda item: item[1] is not finding))

    def all(self) -> list[Finding]:
        """Errors first, in the order in which they were found."""
        return sorted(self.found.values(), key=lambda f: f.severity != "error")
