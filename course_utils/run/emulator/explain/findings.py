"""Findings: what was found, where in the author's code, and where findings are gathered and merged."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from course_utils.artifact import GENERATED, Artifact, Origin, file_name
from course_utils.cause import Cause, sentence
from course_utils.ptx.parser import Kernel
from course_utils.run.emulator.explain import dsl_terms, ledger
from course_utils.run.emulator.explain.ledger import Row, table
from course_utils.run.emulator.explain.words import ADVICE, KINDS, SENTENCES, WITHOUT_ROLES
from course_utils.run.words import told

if TYPE_CHECKING:
    from course_utils.run.emulator.units.mbarrier import MBarrier

Detail: TypeAlias = str | Callable[[], str]  # a function makes the text when it is needed

_MERGED = "arrive_and_expect_tx("  # what TileLang makes of an arrival after copies


@dataclass(frozen=True)
class Place:
    """Where an instruction comes from: ``file``, ``line`` and ``code`` are the author's, "" and 0 where none
    is known; ``generated`` is the line of CUDA that the DSL made of it ("kernel.cu:81: tl::tma_load(...)").

    ``added``: the compiler put the instruction there by itself, after what the author's line became.
    """

    ptx: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    added: bool = False
    generated: str = ""

    def __str__(self) -> str:
        if not self.file:
            return self.generated or self.ptx
        text = f"{self.file}, line {self.line}" + (f": {self.code}" if self.code else "")
        return f"what the compiler added after {text}" if self.added else text


@dataclass
class Finding:
    """One thing found: its cause, and that in words, ``detail``. ``count`` merges equal findings of other
    warps and CTAs; the cause is the first one's.

    ``place`` is where. ``why`` is what explains it, found once its cluster had ended: it goes on the
    sentence. ``waiting`` is for deadlocks: a dict for each group of warps that wait alike, with
    ``role``, ``warps``, ``cta``, ``line``, ``at``, ``barrier`` and ``parity`` (where it is an mbarrier also
    ``phase``, ``arrivals_missing``, ``bytes_missing``), ``text``, ``could``: who could still have supplied
    what is missing, and ``lacks``: whether nobody can.
    """

    cause: Cause
    severity: str
    advice: str
    place: Place = field(default_factory=Place)
    count: int = 1
    # of a deadlock: one row for each group of waiting warps
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
    def detail(self) -> str:
        text = _worded(self.cause) + (_worded(self.why) if self.why else "")
        return dsl_terms.beside(text, self.dsl)

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


def _worded(cause: Cause) -> str:
    plain = f"{cause.kind.replace('-', ' ')}: the emulator has no words for this case"
    return told(lambda: sentence(cause, SENTENCES), plain)


class Findings:
    """Gathers findings and merges equal ones. Equal means the same kind, at the same place."""

    def __init__(self, kernel: Kernel, artifact: Artifact, has_roles: bool = True) -> None:
        self.has_roles = has_roles
        self.kernel, self.artifact, self.generated = kernel, artifact, artifact.source.splitlines()
        self.found: dict[tuple[str, str, str], Finding] = {}
        self.left_out = ""  # a kind that is found and not kept
        self._places: dict[int, Place] = {}
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
        usual = dsl_terms.beside(ADVICE.get(advice, usual), dsl) + dsl_terms.BESIDES.get((kind, dsl), "")
        finding = Finding(
            cause,
            severity,
            usual,
            self._place_of(at, origin),
            waiting=list(waiting),
            notes=tuple(notes),
            dsl=dsl,
            ledger=ledger.rows(about),
        )
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

    def _place_of(self, at: int, origin: Origin | None) -> Place:
        place = self.place(at)
        if origin is None:
            return place
        code = self.artifact.code(origin)
        return replace(place, file=file_name(origin.file), line=origin.line, code=code, added=False)

    def add(
        self,
        kind: str,
        at: int,
        detail: Detail,
        subject: str = "",
        waiting: Sequence[dict] = (),
        more: tuple[str, ...] = (),
        barriers: Iterable[MBarrier] = (),
        advice: str = "",
        first: bool = False,
        origin: Origin | None = None,
        plain: str = "",
    ) -> Finding:
        """``find`` for those who still make a sentence themselves."""
        if former := self.again(kind, at, subject, origin):
            return former
        otherwise = plain or f"{kind.replace('-', ' ')}: the emulator has no words for this case"
        text = told(detail, otherwise) if callable(detail) else detail
        return self.find(
            Cause(kind, "text", {"text": text}),
            at,
            subject=subject,
            waiting=waiting,
            notes=[Cause(kind, "text", {"text": one}) for one in more],
            about=barriers,
            advice=advice,
            first=first,
            origin=origin,
        )

    def lead(self, finding: Finding) -> None:
        """Put a finding before all others."""
        self.found = dict(sorted(self.found.items(), key=lambda item: item[1] is not finding))

    def ptx(self, at: int) -> str:
        instruction = self.kernel.instructions[at]
        text = (
            instruction.text
            if len(instruction.text) < 160
            else instruction.text[:110] + " ... " + instruction.text[-40:]
        )
        return f"PTX line {instruction.line}: {text}"

    def place(self, at: int) -> Place:
        """Where the instruction of this index comes from; nowhere for -1."""
        if at not in self._places:
            self._places[at] = self._place(at) if at >= 0 else Place()
        return self._places[at]

    def _place(self, at: int) -> Place:
        ptx, source = self.ptx(at), self.kernel.instructions[at].source
        if source is None:
            return Place(ptx)
        file, line = self.kernel.files.get(source[0], f"file {source[0]}"), source[1]
        generated = ""
        if file_name(file) == GENERATED:
            text = self.generated[line - 1].strip() if 0 < line <= len(self.generated) else ""
            text = text if len(text) <= 120 else text[:117] + "..."
            generated = f"{GENERATED}:{line}" + (f": {text}" if text else "")
        origin = self.artifact.author(file, line)
        if origin is None or generated and origin.file not in self.artifact.python:
            return Place(ptx, generated=generated)
        if origin.added and _MERGED in generated:
            origin = self._merged.get(line, origin)
        code = self.artifact.code(origin)
        return Place(ptx, file_name(origin.file), origin.line, code, origin.added, generated)

    def origin_with(self, text: str) -> Origin | None:
        """The author's line that has this text; None where none has, or several."""
        found = [
            Origin(file, number)
            for file, python in self.artifact.python.items()
            for number, line in enumerate(python.split("\n"), 1)
            if text in line.partition("#")[0]
        ]
        return found[0] if len(found) == 1 else None

    def line_with(self, text: str) -> str:
        """The author's line that has this text, as a place in words; "" where none has, or several."""
        found = self.origin_with(text)
        if found is None:
            return ""
        return str(Place(file=file_name(found.file), line=found.line, code=self.artifact.code(found)))

    def loop_of(self, instructions: Iterable[int]) -> tuple[Origin, str] | None:
        """The author's loop that these instructions come from, and its condition: the innermost `while` about
        most of them, as a `for` has an end, or else the innermost loop.
        """
        lines: dict[str, set[int]] = {}
        for source in {self.kernel.instructions[at].source for at in instructions}:
            if source is None:
                continue
            file, line = self.kernel.files.get(source[0], ""), source[1]
            origin = self.artifact.author(file, line)
            if origin is not None and not origin.added and origin.file in self.artifact.python:
                lines.setdefault(origin.file, set()).add(origin.line)
        for file, numbers in lines.items():
            try:
                tree = ast.parse(self.artifact.python[file])
            except SyntaxError:  # a cell with a magic
                continue
            loops = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.For | ast.While)
                and 2 * sum(node.lineno <= n <= (node.end_lineno or 0) for n in numbers) > len(numbers)
            ]
            if loops:
                loop = max(loops, key=lambda node: (isinstance(node, ast.While), node.lineno))
                test = loop.test if isinstance(loop, ast.While) else None
                condition = "" if test is None or isinstance(test, ast.Constant) else ast.unparse(test)
                return Origin(file, loop.lineno), condition
        return None

    @cached_property
    def _merged(self) -> dict[int, Origin]:
        """TileLang makes one call of an arrival and the bytes of the copies before it. Line of such a call,
        that no line of the author's is known for, to the author's arrival; none where their numbers differ.
        """
        origins = self.artifact.origins
        calls = [
            (line, origin)
            for line, (text, origin) in enumerate(zip(self.generated, origins, strict=False), 1)
            if _MERGED in text and origin is not None and origin.added
        ]
        known = {(origin.file, origin.line) for origin in origins if origin is not None and not origin.added}
        arrivals = [
            Origin(file, number)
            for file in dict.fromkeys(origin.file for _, origin in calls)
            for number, text in enumerate(self.artifact.python.get(file, "").split("\n"), 1)
            if "mbarrier_arrive(" in text.partition("#")[0] and (file, number) not in known
        ]
        if len(calls) != len(arrivals):
            return {}
        return {line: arrival for (line, _), arrival in zip(calls, arrivals, strict=True)}

    def all(self) -> list[Finding]:
        """Errors first, in the order in which they were found."""
        return sorted(self.found.values(), key=lambda f: f.severity != "error")
