"""Mistakes that learners make, planted in solutions, and the verdict that each gets at one emulated size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import plant
from course_utils.grading import steps
from course_utils.grading.gemm import judge
from course_utils.grading.verdict import Verdict, not_compiled
from course_utils.run.backends import Emulator, Launch

SIZE = (256, 512, 320)  # several tiles, five K tiles; one that other tests compile too


@dataclass(frozen=True)
class Mistake:
    """``edits`` of the solution of ``step``: each (text that is there once, text instead).

    ``part`` is the first part that fails, "" where all pass. The card (text, place and line) has every one of
    ``says`` and none of ``never``, in any case; ``line`` is what the quoted line has. ``size`` and ``ctas``
    are what is emulated.
    """

    step: str
    dsl: str
    edits: tuple[tuple[str, str], ...]
    part: str
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    line: str = ""
    size: tuple[int, int, int] = SIZE
    ctas: tuple[int, ...] | None = None


def planted(
    mistakes: Mapping[str, Any], not_yet: Mapping[str, str], doubled: Mapping[str, str] | None = None
) -> list:
    """A pytest parameter for each: a name says in brackets which row of a notebook or of the symptom map, or
    which question, it answers for. Those that answer for none are run by `make thorough` alone, and so are
    those in ``doubled``, by the name of one that has the same finding and words in the same DSL. Of those
    that run, `make test` has the first of each step; of those that do not compile, all.

    ``not_yet`` has why the card of one says something else today.
    """
    doubled = doubled or {}
    assert not_yet.keys() | doubled.keys() <= mistakes.keys()
    assert all("[" in other and other not in doubled for other in doubled.values())
    seen: set[str] = set()

    def every_run(name: str, mistake: Any) -> bool:
        if "[" not in name or name in doubled:
            return False
        if not isinstance(mistake, Mistake) or mistake.part == "compiles":
            return True
        first = mistake.step not in seen
        seen.add(mistake.step)
        return first

    return [
        pytest.param(
            mistake,
            id=name,
            marks=[pytest.mark.thorough] * (not every_run(name, mistake))
            + [pytest.mark.xfail(reason=not_yet.get(name), strict=True)] * (name in not_yet),
        )
        for name, mistake in mistakes.items()
    ]


def verdict_of(mistake: Mistake) -> Verdict:
    """The verdict on the planted kernel, by the emulator, at the one size."""
    step = replace(steps.find(mistake.step), emulated=((mistake.size, mistake.ctas),))
    machine = Emulator()
    try:
        gemm = plant(mistake.step, mistake.dsl, *mistake.edits)
        artifact = compile_factory(gemm, mistake.dsl, mistake.size, step.problem)
    except CompileError as error:
        return not_compiled(step, mistake.dsl, machine.name, str(error))
    answered = machine.run([Launch(mistake.size, artifact, step.problem, mistake.ctas)])
    return judge(step, mistake.dsl, machine, list(answered))


def require_said(mistake: Mistake) -> Verdict:
    """Judge it, and hold the card against what it must and must not say. Returns the verdict."""
    verdict = verdict_of(mistake)
    failed = [part.name for part in verdict.checks if part.passed is False]
    assert failed[:1] == [mistake.part][: bool(mistake.part)], str(verdict)
    card = verdict.card
    if card is None:
        assert not mistake.says and not mistake.line
        return verdict
    text = f"{card.text} {card.place} {card.code}"
    assert len(text.split()) <= 40, text
    missing = [words for words in mistake.says if words.lower() not in text.lower()]
    present = [words for words in mistake.never if words.lower() in text.lower()]
    assert not missing and not present, f"missing {missing}, present {present}:\n{verdict}"
    assert mistake.line in card.code, f"not at {mistake.line!r}:\n{verdict}"
    return verdict
