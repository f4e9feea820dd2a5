"""check_pair(): a control that is right, and the same program with one edit that shows a given fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_sizes, open_places
from course_utils.compile.load import file_source, load_factory_source
from course_utils.grading import check, refine, reproducer, steps
from course_utils.grading.check_progress import CheckProgress, OnProgress, ignored
from course_utils.grading.found import Found, found, of_error, of_text
from course_utils.grading.refine import Run
from course_utils.grading.reproducer import PAIR
from course_utils.grading.steps import PairCase
from course_utils.grading.verdict import NOT_REACHED, Part, Verdict, not_compiled, score, still_open
from course_utils.run.backends import TIME_LIMIT, Backend, Launch
from course_utils.run.protocol import Answer

CONTROL, BROKEN = PAIR
PACKAGE = {"tilelang": "tilelang", "cute": "nvidia-cutlass-dsl"}


@dataclass(frozen=True)
class Tried:
    """What became of one program: its launch and the emulator's answer, or ``why`` there is no kernel."""

    launch: Launch | None = None
    answer: Answer | None = None
    why: Found | None = None


def check_pair(
    case: str,
    broken: object,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    on_progress: OnProgress = ignored,
) -> Verdict:
    """Check a case of ``steps.PAIR_CASES``: ``broken(rows, columns)`` returns a copy of X to Y that shows the
    fault, and ``control``, which stands in the same cell or file, one that is right.

    An emulator runs both; a GPU is asked for neither, because what is broken may never end. ``backend``
    "compile" runs neither. The other arguments are as ``check_gemm``'s. Raises nothing.
    """
    machine = "emulator" if backend in ("auto", "gpu") else backend

    def judged(row: PairCase, machine: Backend, progress: CheckProgress, printed: list[str]) -> Verdict:
        printed.append("")
        try:
            texts = reproducer.programs(file_source(broken))  # type: ignore[arg-type]
        except (ValueError, OSError, TypeError) as error:
            return not_compiled(row, dsl, machine.name, of_text(str(error)))
        factories: dict[str, Any] = {}
        tried = {name: Tried() for name in PAIR}
        for name in PAIR:
            try:
                factories[name] = load_factory_source(texts[name], name, "copy")
            except CompileError as error:
                tried[name] = Tried(why=of_error(error))
        if places := list(filter(None, map(open_places, factories.values()))):
            return still_open(row, dsl, machine.name, places[0])
        progress.start("control", "compiling and emulating both programs")
        launches = {}
        for name, factory in factories.items():
            try:
                launches[name] = _launch(factory, dsl, row)
            except CompileError as error:
                tried[name] = Tried(why=of_error(error))
        tried |= answers(launches, machine)
        return judge(row, dsl, machine.name, texts, tried)

    return check.checked(case, _find, broken, dsl, machine, time_limit, on_progress, judged)


def _find(case: str) -> PairCase:
    if not isinstance(case, str) or case not in steps.PAIR_CASES:
        raise ValueError(f"there is no pair {case!r}; the pairs are {', '.join(steps.PAIR_CASES)}")
    return steps.PAIR_CASES[case]


def _launch(factory: Any, dsl: str, row: PairCase) -> Launch:
    with closing(compile_sizes(factory, dsl, [row.shape], row.problem)) as made:
        return Launch(row.shape, next(made).artifact, row.problem)


def answers(launches: Mapping[str, Launch], machine: Backend) -> dict[str, Tried]:
    """What a machine says of each program that was compiled."""
    answered = machine.run(list(launches.values()))
    return {name: Tried(*one) for name, one in zip(launches, answered, strict=False)}


def judge(
    row: PairCase, dsl: str, backend: str, texts: Mapping[str, str], tried: Mapping[str, Tried]
) -> Verdict:
    """The verdict on a pair: ``texts`` are its programs as ``reproducer.programs`` gives them, and ``tried``
    is what became of each.
    """
    parts = [_control(row, dsl, tried[CONTROL])]
    parts.append(_fault(row, dsl, tried[BROKEN]))
    if all(part.passed for part in parts):
        lines = [reproducer.statements(texts[name]) for name in PAIR]
        parts += [_of_point(row, reproducer.one_edit(*lines)), _short(row, dsl, lines, tried)]
    else:  # of two programs that are no pair yet, nothing more counts
        parts += [score(row, name, None, "", idle=NOT_REACHED) for name in ("one edit", "short")]
    made = Verdict.of(row.id, dsl, backend, parts)
    return replace(made, receipt=tuple(reproducer.versions().items()))


def _control(row: PairCase, dsl: str, tried: Tried) -> Part:
    """Is the control right?"""
    stated = f"{PACKAGE[dsl]} {reproducer.versions()[PACKAGE[dsl]]}"
    if tried.why:
        return score(row, "control", False, "", tried.why, topic="compile")
    launch, answer = tried.launch, tried.answer
    if launch is None or answer is None or answer.error == "not_run":
        return score(row, "control", None, answer.detail if answer else "")
    if answer.ok:
        return score(row, "control", True, f"right at {_at(row)}, with {stated}")
    run = Run(launch, answer, refine.of_copy(answer, launch.artifact))
    return score(row, "control", False, f"{check.ended(answer)} at {_at(row)}", runs=(run,))


def _fault(row: PairCase, dsl: str, tried: Tried) -> Part:
    """Does the broken program show the fault that is given, and not another?"""
    kind, case = row.shows[dsl]
    wanted = f"{kind}, as {row.faults[dsl]}"
    if tried.why:
        return score(row, "fault", False, "", tried.why, topic="compile")
    answer = tried.answer
    if answer is None or answer.error == "not_run":
        return score(row, "fault", None, answer.detail if answer else "")
    if answer.ok:
        return score(row, "fault", False, "", found("pair", "broken-is-right", wanted=wanted))
    first = answer.findings[0] if answer.findings else {}
    if first.get("kind") == kind and case in set(_cases(first)):
        return score(row, "fault", True, str(first["text"]))
    instead = f"{first['kind']}: {first['text']}" if first else "wrong numbers, and no finding"
    return score(row, "fault", False, "", found("pair", "another-fault", wanted=wanted, instead=instead))


def _cases(value: Any) -> Iterator[str]:
    """The cases of a finding and of the causes within it."""
    if isinstance(value, Mapping):
        if isinstance(value.get("case"), str):
            yield value["case"]
        for one in value.values():
            yield from _cases(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _cases(one)


def _of_point(row: PairCase, point: reproducer.Point) -> Part:
    why = () if point.passed else (of_text(point.detail),)
    return score(row, point.name, point.passed, point.detail if point.passed else "", *why)


def _short(row: PairCase, dsl: str, lines: Sequence[Sequence[str]], tried: Mapping[str, Tried]) -> Part:
    """Few lines, and one CTA."""
    ctas = max(prod(one.launch.artifact.grid) for one in tried.values() if one.launch)
    point = reproducer.short(lines[0], lines[1], row.lines[dsl])
    if ctas > 1:
        said = f"{ctas} CTAs at {_at(row)}: one is enough to show this fault"
        point = reproducer.Point("short", False, said)
    elif point.passed:
        point = replace(point, detail=f"{point.detail}, one CTA")
    return _of_point(row, point)


def _at(row: PairCase) -> str:
    return " x ".join(map(str, row.shape))
