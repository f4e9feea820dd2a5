"""The judge: a submission's kernels, which it takes as data, to a verdict. It never imports the submission.

It asks the same questions as a check in a notebook, at sizes, inputs and schedules of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from course_utils.classroom import drawn, workshop
from course_utils.classroom.workshop import Made
from course_utils.grading import conditions, gemm, maps, steps
from course_utils.grading import copy as copies
from course_utils.grading.steps import CopyCase, MapCase, Step
from course_utils.grading.verdict import Verdict, not_compiled, still_open
from course_utils.run.backends import Backend, Emulator, Launch

SCHEDULES = 2  # of each small size


class MachineFault(RuntimeError):
    """This machine could not judge: no points follow from it, and it is tried again."""


@dataclass(frozen=True)
class Judged:
    """A verdict, and what the sandbox took for it: seconds, and bytes of memory."""

    verdict: Verdict
    seconds: float
    memory: int


def judge(name: str, dsl: str, source: str, seed: str, form: str = "bubblewrap") -> Judged:
    """Judge the source of one exercise: ``name`` is a step's or a case's, ``dsl`` "maps" for case 11.

    Raises MachineFault and SandboxError where the machine is at fault, and KeyError for no such exercise.
    """
    row = steps.row(name)
    if isinstance(row, MapCase):
        made = workshop.make(source, "maps", dsl, (), row.given, form)
        return Judged(maps.judge(row, made.maps, made.text, made.open), made.seconds, made.memory)
    wanted = drawn.step(row, seed) if isinstance(row, Step) else drawn.copy(row, seed)
    kind = "gemm" if isinstance(wanted, Step) else "copy"
    machine = Emulator(schedules=drawn.schedules(seed, SCHEDULES), seed=drawn.inputs(seed))
    plan = wanted.emulated if isinstance(wanted, Step) else tuple((shape, None) for shape in wanted.shapes)
    made = workshop.make(source, kind, dsl, [size for size, _ in plan], (), form)
    return Judged(_verdict(wanted, dsl, machine, made, source, kind, plan), made.seconds, made.memory)


def _verdict(
    wanted: Step | CopyCase,
    dsl: str,
    machine: Backend,
    made: Made,
    source: str,
    kind: str,
    plan: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...],
) -> Verdict:
    if made.open:
        return still_open(wanted, dsl, machine.name, made.open)
    if made.text:
        return not_compiled(wanted, dsl, machine.name, made.text)
    launches = [
        Launch(size, artifact, kind, ctas)
        for (size, ctas), artifact in zip(plan, made.artifacts, strict=True)
    ]
    answered = machine.run(launches)
    for _, answer in answered:
        if answer.error == "not_run" and "process died" in answer.detail:
            raise MachineFault(answer.detail)
    if not isinstance(wanted, Step):
        return copies.judge(wanted, dsl, machine, answered, source, strict=True)
    verdict = gemm.judge(wanted, dsl, machine, answered, strict=True)
    if conditions.idle(wanted.requires, (answer.facts or {} for _, answer in answered)):
        return replace(verdict, checks=tuple(replace(part, points=0.0) for part in verdict.checks))
    return verdict
