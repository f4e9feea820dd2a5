"""check_copy(): a kernel that copies X to Y through shared memory. Its path counts beside its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, NotYet, compile_sizes, open_places, source_of
from course_utils.grading import cards, conditions, maps, steps
from course_utils.grading.going import Going, Told, nobody
from course_utils.grading.steps import CopyCase
from course_utils.grading.verdict import (
    Part,
    Verdict,
    itself_failed,
    not_compiled,
    score,
    still_open,
    unchecked,
)
from course_utils.ptx import paths, receipts
from course_utils.run import backends
from course_utils.run.backends import TIME_LIMIT, Backend, Emulator, Launch
from course_utils.run.protocol import Answer


def check_copy(
    case: str,
    copy: object,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    told: Told = nobody,
) -> Verdict:
    """Check a case of ``steps.COPY_CASES``: ``copy(*shape)`` returns a kernel of X and Y.

    The arguments are as ``check_gemm``'s. Raises nothing; a wrong argument is a verdict too.
    """
    wanted = steps.COPY_CASES.get(case) if isinstance(case, str) else None
    known = (
        isinstance(dsl, str)
        and dsl in DSLS
        and not (isinstance(backend, str) and backend not in backends.NAMES)
    )
    if wanted is None or not known:
        text = (
            f"there is no copy {case!r}, no DSL {dsl!r} or no backend {backend!r}; the copies are "
            f"{', '.join(steps.COPY_CASES)}, the DSLs {', '.join(DSLS)}, the backends "
            f"{', '.join(backends.NAMES)}"
        )
        return unchecked(case, dsl, backend, text)
    try:
        machine = backends.choose(backend, time_limit)
    except Exception as error:
        return itself_failed(case, dsl, backend, error)
    if isinstance(copy, NotYet):
        return still_open(wanted, dsl, machine.name, open_places(copy))
    printed: list[str] = []
    going = Going(wanted, dsl, machine.name, told)
    try:
        answered = machine.run(_launches(wanted, copy, dsl, printed, going), going.hears)
        verdict = judge(wanted, dsl, machine, answered, source_of(copy))
        if isinstance(machine, Emulator) and machine.gpu and verdict.checks[-1].passed is not False:
            going.works("results", "running on the GPU")
            on_gpu = machine.gpu.run([launch for launch, _ in answered])
            verdict = together(wanted, verdict, machine.gpu, on_gpu)
        return replace(going.closed(verdict), printed=printed[0])
    except CompileError as error:
        if places := open_places(copy):
            return still_open(wanted, dsl, machine.name, places)
        verdict = going.closed(not_compiled(wanted, dsl, machine.name, str(error)))
        return replace(verdict, printed=error.printed)
    except Exception as error:
        return itself_failed(case, dsl, machine.name, error)


def judge(
    case: CopyCase,
    dsl: str,
    machine: Backend,
    answered: Sequence[tuple[Launch, Answer]],
    source: str,
    strict: bool = False,
) -> Verdict:
    """The verdict on a copy that was run: ``answered`` are its launches, ``source`` is the factory's own
    Python. ``strict``: a path that was not seen to run is none.
    """
    parts = [*_without_a_run(case, [launch for launch, _ in answered], source)]
    if strict and (unseen := _unseen(case, [answer for _, answer in answered])):
        card = cards.of_text(unseen, "tma")
        parts = [score(case, part.name, False, "", card if part.name == "path" else None) for part in parts]
    parts.append(_results(case, machine, answered))
    first = answered[0][0].artifact
    table = receipts.table(receipts.read_ptx(first.ptx), first)
    verdict = Verdict.of(case.id, dsl, machine.name, parts, receipt=table)
    answers = [answer for _, answer in answered]
    return replace(verdict, output=cards.output(answers), figure=cards.figure(answers))


def together(
    case: CopyCase, verdict: Verdict, machine: Backend, answered: Sequence[tuple[Launch, Answer]]
) -> Verdict:
    """The ``verdict`` on a copy that is right where it was emulated, with what a GPU, ``machine``, says."""
    *parts, emulated = verdict.checks
    results = _results(case, machine, answered)
    if results.passed and emulated.passed:
        results = replace(emulated, detail=f"{emulated.detail}; on the GPU {results.detail}")
    whole = Verdict.of(case.id, verdict.dsl, machine.name, [*parts, results], receipt=verdict.receipt)
    return replace(whole, printed=verdict.printed, output=verdict.output)


def _launches(case: CopyCase, copy: object, dsl: str, printed: list[str], going: Going) -> Iterator[Launch]:
    """What a machine is to run, compiled as it is asked for; ``printed`` gets what the factory printed."""
    made = going.compiling(compile_sizes(copy, dsl, case.shapes, "copy"), len(case.shapes))
    launches = []
    for shape, compiled in zip(case.shapes, made, strict=True):
        printed.append(compiled.printed)
        launches.append(Launch(shape, compiled.artifact, "copy"))
        yield going.sends(launches[-1], len(case.shapes))
    going.ends(*_without_a_run(case, launches, source_of(copy)))


def _without_a_run(case: CopyCase, launches: Sequence[Launch], source: str) -> tuple[Part, Part, Part]:
    """The parts that are known once all shapes are compiled."""
    first = launches[0].artifact
    return (
        score(case, "compiles", True, f"{first.resources.registers} registers a thread"),
        maps.part(case, first, "tensor TMA" in (case.load, case.store)),
        _path(case, launches, source),
    )


def _path(case: CopyCase, launches: Sequence[Launch], source: str) -> Part:
    """Did X and Y take the path that the case asks for, at every shape?"""
    told, missed = [], []
    for launch in launches:
        crossings = {(c.tensor, c.direction): c for c in paths.copies(launch.artifact, source)}
        for tensor, direction, path in (("X", paths.LOAD, case.load), ("Y", paths.STORE, case.store)):
            found = crossings.get((tensor, direction))
            told.append(f"{tensor}, {direction}: {found or 'no copy'}")
            if found is None or set(found.paths) != {path}:
                missed.append(_missed(launch, f"{tensor}, {direction}", paths.WORDS[path], found))
            elif direction == paths.LOAD and case.one_load and (pieces := _pieces(launch, tensor, found)):
                missed.append(_missed(launch, f"{tensor}, {direction}", "one load of a tile", pieces))
    row = "; ".join(dict.fromkeys(told))
    return score(
        case, "path", not missed, row, cards.of_text(missed[0], "tma", missed[1:]) if missed else None
    )


def _missed(launch: Launch, crossing: str, wanted: str, found: object) -> str:
    where = " x ".join(map(str, launch.size))
    return f"{crossing}: this case asks for {wanted}; the compiler made {found or 'no copy'} (at {where})"


def _pieces(launch: Launch, tensor: str, found: paths.Copy) -> str:
    """In what pieces a tile comes, in words; "" where it comes whole: by one load, and by a box of more than
    one of the outermost dimension, where the map has that.
    """
    boxes = [p.tensor_map.box for p in launch.artifact.parameters if p.tensor == tensor and p.tensor_map]
    thin = any(len(box) == len(launch.size) and box[-1] == 1 for box in boxes)
    if sum(found.paths.values()) == 1 and not thin:
        return ""
    return f"{found}, in boxes of {' and '.join(' x '.join(map(str, box[::-1])) for box in boxes)}"


def _unseen(case: CopyCase, answers: Sequence[Answer]) -> str:
    """Which way no thread was seen to take in some run, in words; empty where all were."""
    ways = (("X", case.load, "TENSOR_LOAD"), ("Y", case.store, "TENSOR_STORE"))
    for tensor, path, family in ways:
        if path == "tensor TMA" and not all((answer.facts or {}).get(f"ran {family}") for answer in answers):
            return f"This case asks for {paths.WORDS[path]} of {tensor}; no thread was seen to run one."
    return ""


def _results(case: CopyCase, machine: Backend, answered: Sequence[tuple[Launch, Answer]]) -> Part:
    """Were the bytes moved right at every shape? Not run where one of them could not be tried."""
    for launch, answer in answered:
        if answer.error == "not_run":
            return score(case, "results", None, answer.detail)
        if not answer.ok:
            at = f"{cards.ended(answer)} at {' x '.join(map(str, launch.size))}"
            card = cards.of_answer(
                conditions.not_loaded(conditions.located(answer), launch.artifact), launch.artifact
            )
            if answer.finished and (told := maps.disagree(launch.artifact)):
                text, line = told
                card = cards.of_text(f"{text}\n  at {line}" if line else text, "tma", (card.told,))
            return score(case, "results", False, at, card)
    prefix = "emulated: " * (machine.name == "emulator")
    return score(case, "results", True, f"{prefix}every element in its place, at {len(answered)} shapes")
