"""The verdict that a planted fault gets, by the emulator, at the one size of the table."""

from __future__ import annotations

from dataclasses import replace

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.compile.faults import Fault
from course_utils.grading import steps
from course_utils.grading.copy import check_copy
from course_utils.grading.found import of_error
from course_utils.grading.gemm import judge
from course_utils.grading.verdict import Verdict, not_compiled
from course_utils.run.backends import Emulator, Launch

SIZE = Fault.size


def verdict_of(fault: Fault) -> Verdict:
    """The verdict on the planted kernel; on a copy, at every shape that its check has."""
    if fault.step in steps.COPY_CASES:
        return check_copy(fault.step, fault.factory("copy"), fault.dsl, "emulator")
    step, machine = replace(steps.find(fault.step), emulated=((fault.size, fault.ctas),)), Emulator()
    chip = step.chip.with_sms(fault.sms or step.chip.sms)
    try:
        artifact = compile_factory(
            fault.factory(steps.function_of(fault.step)), fault.dsl, fault.size, step.problem, chip
        )
    except CompileError as error:
        return not_compiled(step, fault.dsl, machine.name, of_error(error))
    answered = machine.run([Launch(fault.size, artifact, step.problem, fault.ctas)])
    return judge(step, fault.dsl, machine, list(answered))


def require_said(fault: Fault) -> Verdict:
    """Judge it, and hold the card against what it must and must not say. Returns the verdict."""
    verdict = verdict_of(fault)
    failed = [part.name for part in verdict.checks if part.passed is False]
    assert failed[:1] == [fault.fails][: bool(fault.fails)], str(verdict)
    card = verdict.card
    if card is None:
        assert not fault.says and not fault.line
        return verdict
    text = f"{card.text} {card.place} {card.code}"
    assert len(text.split()) <= 40, text
    missing = [words for words in fault.says if words.lower() not in text.lower()]
    present = [words for words in fault.never if words.lower() in text.lower()]
    assert not missing and not present, f"missing {missing}, present {present}:\n{verdict}"
    assert fault.line in card.code, f"not at {fault.line!r}:\n{verdict}"
    return verdict
