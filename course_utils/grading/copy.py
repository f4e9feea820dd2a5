"""check_copy(): a kernel that copies X to Y through shared memory. Its path counts beside its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from course_utils.compile.factory import compile_sizes, source_of
from course_utils.grading import check, maps, refine, steps
from course_utils.grading.check import Answered
from course_utils.grading.check_progress import CheckProgress, OnProgress, ignored
from course_utils.grading.found import Found, found
from course_utils.grading.refine import Run
from course_utils.grading.steps import CopyCase
from course_utils.grading.verdict import Part, Verdict, score
from course_utils.problems import COPIES
from course_utils.ptx import paths, receipts
from course_utils.run.backends import TIME_LIMIT, Backend, Emulator, Launch
from course_utils.run.protocol import Answer


def check_copy(
    case: str,
    copy: object,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    on_progress: OnProgress = ignored,
    dtype: str = "float16",
) -> Verdict:
    """Check a case of ``steps.COPY_CASES``: ``copy(*shape)`` returns a kernel of X and Y.

    ``dtype`` is the element type of both, of ``problems.COPIES``; the other arguments are as
    ``check_gemm``'s. Raises nothing; a wrong argument is a verdict too.
    """

    def judged(row: CopyCase, machine: Backend, progress: CheckProgress, printed: list[str]) -> Verdict:
        answered = machine.run(_launches(row, copy, dsl, printed, progress), progress.on_answer)
        verdict = judge(row, dsl, machine, answered, source_of(copy))
        if isinstance(machine, Emulator) and machine.gpu and verdict.checks[-1].passed is not False:
            progress.start("results", "running on the GPU")
            on_gpu = machine.gpu.run([launch for launch, _ in answered])
            verdict = together(row, verdict, machine.gpu, on_gpu)
        return verdict

    return check.checked(
        case, lambda name: _find(name, dtype), copy, dsl, backend, time_limit, on_progress, judged
    )


def _find(case: str, dtype: str) -> CopyCase:
    if not isinstance(case, str) or case not in steps.COPY_CASES:
        raise ValueError(f"there is no copy {case!r}; the copies are {', '.join(steps.COPY_CASES)}")
    if dtype not in COPIES:
        raise ValueError(f"{dtype!r} is no element type of copies; these are {', '.join(COPIES)}")
    return replace(steps.COPY_CASES[case], problem=COPIES[dtype])


def judge(
    case: CopyCase, dsl: str, machine: Backend, answered: Answered, source: str, strict: bool = False
) -> Verdict:
    """The verdict on a copy that was run: ``answered`` are its launches, ``source`` is the factory's own
    Python. ``strict``: a path that was not seen to run is none.
    """
    parts = [*_without_a_run(case, [launch for launch, _ in answered], source)]
    if strict and (unseen := _unseen(case, [answer for _, answer in answered])):
        parts = [
            score(case, part.name, False, "", *[unseen] * (part.name == "path"), topic="tma")
            for part in parts
        ]
    parts.append(_results(case, machine, answered))
    first = answered[0][0].artifact
    table = receipts.table(receipts.read_ptx(first.ptx), first)
    return check.verdict(case, dsl, machine, parts, answered, table)


def together(case: CopyCase, verdict: Verdict, machine: Backend, answered: Answered) -> Verdict:
    """The ``verdict`` on a copy that is right where it was emulated, with what a GPU, ``machine``, says."""
    return check.joined(case, verdict, machine, _results(case, machine, answered))


def _launches(
    case: CopyCase, copy: object, dsl: str, printed: list[str], progress: CheckProgress
) -> Iterator[Launch]:
    """What a machine is to run; ``printed`` gets what the factory printed."""
    made, source = compile_sizes(copy, dsl, case.shapes, case.problem), source_of(copy)
    plan: check.Plan = [(shape, None) for shape in case.shapes]
    return check.launches(
        plan, made, case.problem, progress, printed, lambda launches: _without_a_run(case, launches, source)
    )


def _without_a_run(case: CopyCase, launches: Sequence[Launch], source: str) -> tuple[Part, Part, Part]:
    """The parts that are known once all shapes are compiled."""
    first = launches[0].artifact
    return (
        score(case, "compiles", True, f"{first.resources.registers} registers per thread"),
        maps.part(case, first, "tensor TMA" in (case.load, case.store)),
        _path(case, launches, source),
    )


def _path(case: CopyCase, launches: Sequence[Launch], source: str) -> Part:
    """Did X and Y take the path that the case asks for, at every shape?"""
    seen: list[str] = []
    missed: list[Found] = []

    def miss(launch: Launch, crossing: str, wanted: str, instead: object) -> None:
        values = {"crossing": crossing, "wanted": wanted, "instead": str(instead), "shape": list(launch.size)}
        missed.append(found("path", "path", **values))

    for launch in launches:
        crossings = {(c.tensor, c.direction): c for c in paths.copies(launch.artifact, source)}
        for tensor, direction, path in (("X", paths.LOAD, case.load), ("Y", paths.STORE, case.store)):
            crossing, copied = f"{tensor}, {direction}", crossings.get((tensor, direction))
            seen.append(f"{crossing}: {copied or 'no copy'}")
            if copied is None or set(copied.paths) != {path}:
                miss(launch, crossing, paths.WORDS[path], copied or "no copy")
            elif direction == paths.LOAD and case.one_load and (pieces := _pieces(launch, tensor, copied)):
                miss(launch, crossing, "one load of a tile", pieces)
    row = "; ".join(dict.fromkeys(seen))
    return score(case, "path", not missed, row, *missed, topic="tma")


def _pieces(launch: Launch, tensor: str, copied: paths.Copy) -> str:
    """In what pieces a tile comes, in words; "" where it comes whole: by one load, and by a box of more than
    one of the outermost dimension, where the map has that.
    """
    boxes = [p.tensor_map.box for p in launch.artifact.parameters if p.tensor == tensor and p.tensor_map]
    thin = any(len(box) == len(launch.size) and box[-1] == 1 for box in boxes)
    if sum(copied.paths.values()) == 1 and not thin:
        return ""
    return f"{copied}, in boxes of {' and '.join(' x '.join(map(str, box[::-1])) for box in boxes)}"


def _unseen(case: CopyCase, answers: Sequence[Answer]) -> Found | None:
    """Which way no thread was seen to take in some run; None where all were."""
    ways = (("X", case.load, "TENSOR_LOAD"), ("Y", case.store, "TENSOR_STORE"))
    for tensor, path, family in ways:
        if path == "tensor TMA" and not all((answer.facts or {}).get(f"ran {family}") for answer in answers):
            return found("path", "path-not-seen", wanted=paths.WORDS[path], tensor=tensor)
    return None


def _results(case: CopyCase, machine: Backend, answered: Answered) -> Part:
    """Were the bytes moved right at every shape? Not run where one of them could not be tried."""
    for launch, answer in answered:
        if answer.error == "not_run":
            return score(case, "results", None, answer.detail)
        if not answer.ok:
            at = f"{check.ended(answer)} at {' x '.join(map(str, launch.size))}"
            why = maps.disagree(launch.artifact) if answer.finished else None
            runs = (Run(launch, answer, refine.of_copy(answer, launch.artifact)),)
            return score(case, "results", False, at, *filter(None, [why]), topic="tma", runs=runs)
    prefix = "emulated: " * (machine.name == "emulator")
    return score(case, "results", True, f"{prefix}every element in its place, at {len(answered)} shapes")
