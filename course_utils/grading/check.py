"""How a check of a kernel goes, whatever it is of: compile, run, judge, a verdict for what stops it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from course_utils.compile.child import Compiled
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, NotYet, open_places
from course_utils.grading.check_progress import CheckProgress, OnProgress
from course_utils.grading.found import of_error
from course_utils.grading.steps import CopyCase, PairCase, Step
from course_utils.grading.verdict import Part, Verdict, itself_failed, not_compiled, still_open, unchecked
from course_utils.run import backends
from course_utils.run.backends import Backend, Launch
from course_utils.run.protocol import Answer

Answered: TypeAlias = Sequence[tuple[Launch, Answer]]
Plan: TypeAlias = Sequence[tuple[tuple[int, ...], tuple[int, ...] | None]]  # sizes, and CTAs of each

Row = TypeVar("Row", Step, CopyCase, PairCase)

# Findings of a kernel that never ends; any other that stops one is a fault.
ENDLESS = {"deadlock", "livelock", "register-budget", "instruction-limit", "absent-lanes"}


def checked(
    name: str,
    find: Callable[[str], Row],
    factory: object,
    dsl: str,
    backend: str | Backend,
    time_limit: float,
    on_progress: OnProgress,
    judged: Callable[[Row, Backend, CheckProgress, list[str]], Verdict],
) -> Verdict:
    """The verdict that ``judged`` gives of a row of the steps, on a machine; it gets a list for what the
    factory prints. Raises nothing: a wrong argument, a kernel that does not compile and a fault of the
    checker's own are verdicts too.
    """
    try:
        row = find(name)
        if dsl not in DSLS:
            raise ValueError(f"there is no DSL {dsl!r}; the course has {', '.join(DSLS)}")
        machine = backends.choose(backend, time_limit)
    except ValueError as error:
        return unchecked(name, dsl, backend, str(error))
    except Exception as error:
        return itself_failed(name, dsl, backend, error)
    if isinstance(factory, NotYet):
        return still_open(row, dsl, machine.name, open_places(factory))
    printed: list[str] = []
    progress = CheckProgress(row, dsl, machine.name, on_progress)
    try:
        verdict = judged(row, machine, progress, printed)
        return replace(progress.closed(verdict), printed=printed[0])
    except CompileError as error:
        if places := open_places(factory):
            return still_open(row, dsl, machine.name, places)
        verdict = not_compiled(row, dsl, machine.name, of_error(error))
        return replace(progress.closed(verdict), printed=error.printed)
    except Exception as error:
        return itself_failed(name, dsl, machine.name, error)


def launches(
    plan: Plan,
    made: Generator[Compiled, None, None],
    kind: str,
    progress: CheckProgress,
    printed: list[str],
    known: Callable[[list[Launch]], Sequence[Part]],
    sums_of: tuple[int, ...] = (),
    idle: Sequence[tuple[int, ...]] = (),
) -> Iterator[Launch]:
    """What a machine is to run, compiled as it is asked for; ``printed`` gets what the factory printed.
    ``known`` of all launches are the parts that are known before one has run. ``sums_of`` is the size at
    which it is seen whose sums an output holds. After them ``made`` has those of the sizes ``idle``, which no
    machine runs: ``known`` gets them too, of no CTA.
    """
    compiled = []
    every = [*plan, *((size, ()) for size in idle)]
    for (size, ctas), one in zip(every, progress.compiling(made, len(every)), strict=True):
        printed.append(one.printed)
        compiled.append(Launch(size, one.artifact, kind, ctas, size == sums_of))
        if size not in idle:
            yield progress.sends(compiled[-1], len(plan))
    progress.finish(*known(compiled))


def ended(answer: Answer) -> str:
    """How a run that is wrong came to its end, in a word or two."""
    if answer.error:
        return "no end" if answer.error == "timeout" else "ended with an error"
    if answer.finished:
        return "wrong"
    return "no end" if not answer.kinds or ENDLESS.intersection(answer.kinds) else "stopped by a fault"


def verdict(
    row: Step | CopyCase,
    dsl: str,
    machine: Backend,
    parts: Sequence[Part],
    answered: Answered,
    receipt: Sequence[tuple[str, str]],
    timing: Sequence[dict] = (),
) -> Verdict:
    """The verdict on a kernel that was run: its ``parts``, what it printed in the first run that is wrong,
    else in the first one, and what a figure plays of the first run that has something.
    """
    whole = isinstance(row, Step) and row.whole
    made = Verdict.of(row.id, dsl, machine.name, parts, whole, timing, receipt)
    answers = [answer for _, answer in answered]
    printed = (answer.printed for answer in sorted(answers, key=lambda one: one.ok) if answer.printed)
    figures = (answer.figure for answer in answers if answer.figure)
    return replace(made, output=next(printed, ""), figure=next(figures, None))


def joined(
    row: Step | CopyCase,
    verdict: Verdict,
    gpu: Backend,
    results: Part,
    speed: Part | None = None,
    timing: Sequence[dict] = (),
) -> Verdict:
    """The emulator's ``verdict``, with a GPU's results and speed: results are right where both say so. What
    was emulated and right gives its points where the GPU agrees; what was not emulated in its time is the
    GPU's to say.
    """
    emulated = next(part for part in verdict.checks if part.name == "results")
    if results.passed and emulated.passed:
        results = replace(emulated, detail=f"{emulated.detail}; on the GPU {results.detail}")
    new = {"results": results, "speed": speed}
    parts = [new.get(part.name) or part for part in verdict.checks]
    whole = isinstance(row, Step) and row.whole
    both = Verdict.of(row.id, verdict.dsl, gpu.name, parts, whole, timing, verdict.receipt)
    return replace(both, printed=verdict.printed, output=verdict.output)
