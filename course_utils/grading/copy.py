"""check_copy(): a kernel that copies X to Y through shared memory. Its path counts beside its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_sizes, open_places, source_of
from course_utils.grading import cards, maps, steps
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
from course_utils.run.backends import TIME_LIMIT, Backend, Launch
from course_utils.run.protocol import Answer


def check_copy(
    case: str,
    copy: object,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
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
    name = backend
    try:
        machine = backends.choose(backend, time_limit)
        name = machine.name
        source = source_of(copy)
        made = list(compile_sizes(copy, dsl, wanted.shapes, "copy"))
        launches = [
            Launch(shape, one.artifact, "copy") for shape, one in zip(wanted.shapes, made, strict=True)
        ]
        answered = machine.run(launches)
        first = launches[0].artifact
        parts = (
            score(wanted, "compiles", True, f"{first.resources.registers} registers a thread"),
            maps.part(wanted, first, "tensor TMA" in (wanted.load, wanted.store)),
            _path(wanted, launches, source),
            _results(wanted, machine, answered),
        )
        table = receipts.table(receipts.read_ptx(first.ptx), first)
        output = cards.output(answer for _, answer in answered)
        verdict = Verdict.of(case, dsl, machine.name, parts, receipt=table)
        return replace(verdict, output=output, printed=made[0].printed)
    except CompileError as error:
        if places := open_places(copy):
            return still_open(wanted, dsl, str(name), places)
        return replace(not_compiled(wanted, dsl, str(name), str(error)), printed=error.printed)
    except Exception as error:
        return itself_failed(case, dsl, name, error)


def _path(case: CopyCase, launches: Sequence[Launch], source: str) -> Part:
    """Did X and Y take the path that the case asks for, at every shape?"""
    told, missed = [], []
    for launch in launches:
        crossings = {(c.tensor, c.direction): c for c in paths.copies(launch.artifact, source)}
        for tensor, direction, path in (("X", paths.LOAD, case.load), ("Y", paths.STORE, case.store)):
            found = crossings.get((tensor, direction))
            told.append(f"{tensor}, {direction}: {found or 'no copy'}")
            if found is None or set(found.paths) != {path}:
                missed.append(
                    f"{tensor}, {direction}: this case asks for {paths.WORDS[path]}; the compiler made "
                    f"{found or 'no copy'} (at {' x '.join(map(str, launch.size))})"
                )
    row = "; ".join(dict.fromkeys(told))
    return score(
        case, "path", not missed, row, cards.of_text(missed[0], "tma", missed[1:]) if missed else None
    )


def _results(case: CopyCase, machine: Backend, answered: Sequence[tuple[Launch, Answer]]) -> Part:
    """Were the bytes moved right at every shape? Not run where one of them could not be tried."""
    for launch, answer in answered:
        if answer.error == "not_run":
            return score(case, "results", None, answer.detail)
        if not answer.ok:
            ended = "wrong" if answer.finished else "no end"
            at = f"{ended} at {' x '.join(map(str, launch.size))}"
            return score(case, "results", False, at, cards.of_answer(answer, launch.artifact))
    prefix = "emulated: " * (machine.name == "emulator")
    return score(case, "results", True, f"{prefix}every element in its place, at {len(answered)} shapes")
