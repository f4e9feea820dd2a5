"""What the check says of each planted fault of ``find_the_bug``, for course_utils/drills/recorded.json.

    python -m authoring.faults          # --new: those alone whose kernel has no entry yet

emulates each at its one size, which takes two minutes on two cores, and refuses to write where the emulator
sees something else than the outcome in the table. Again after a change of a solution, a fault or a card.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from dataclasses import replace

from course_utils.compile.factory import compile_factory
from course_utils.compile.faults import Fault
from course_utils.compile.load import load_factory_source
from course_utils.drills import faults
from course_utils.grading import steps
from course_utils.grading.gemm import judge
from course_utils.grading.verdict import Verdict
from course_utils.run.backends import Answer, Emulator, Launch

ENDLESS = {"deadlock", "livelock"}
# nothing orders two accesses, whatever the numbers are
UNORDERED = {
    "overwrite-while-read",
    "accumulator-before-wait",
    "accumulator-before-commit",
    "tmem-freed-early",
    "tmem-overwrite",
    "read-before-write",
    "exit-in-flight",
    "cluster-exit",
    "store-wait-elsewhere",
}
# the H200 ends such kernels: missing_empty_wait, load_never_advances and multicast_mask of solutions/wrong
FATAL = {"barrier-overrun", "cluster-rank", "phase-lapped"}


def emulated(fault: Fault) -> tuple[Verdict, Answer, dict[str, str]]:
    """The verdict on a fault at its size, what the emulator saw, and the versions that compiled it.

    Raises CompileError.
    """
    step = replace(steps.find(fault.step), emulated=((fault.size, fault.ctas),))
    factory = load_factory_source(faults.source(fault), "broken", steps.function_of(fault.step))
    chip = step.chip.with_sms(fault.sms or step.chip.sms)
    artifact = compile_factory(factory, fault.dsl, fault.size, step.problem, chip)
    machine = Emulator(seed=0)
    answered = machine.run([Launch(fault.size, artifact, step.problem, fault.ctas)])
    return judge(step, fault.dsl, machine, answered), answered[0][1], artifact.versions


def outcome(answer: Answer) -> str:
    """What the emulator saw, as an outcome."""
    kinds = set(answer.kinds)
    if kinds & FATAL:
        return "fault"
    if kinds & ENDLESS and not kinds & UNORDERED:
        return "hang"
    if answer.ok:
        return "right"
    return "race" if answer.kinds and answer.kinds[0] in UNORDERED else "wrong"


def sentence(verdict: Verdict) -> str:
    """The first sentence of the card."""
    return re.split(r"(?<=[.?!]) (?=[A-Z])", verdict.card.text if verdict.card else "", maxsplit=1)[0]


def main() -> int:
    """Write the file, or say which faults are something else. Returns the exit code."""
    found, versions, other = {}, {}, []
    kept = faults.recorded() if sys.argv[1:] == ["--new"] else {"faults": {}, "provenance": {"versions": {}}}
    versions |= kept["provenance"]["versions"]
    for fault in faults.planted():
        entry = kept["faults"].get(str(fault), {})
        if entry.get("digest") == faults.digest(fault):
            found[str(fault)] = entry
            continue
        verdict, answer, compiled = emulated(fault)
        versions |= compiled
        if outcome(answer) != fault.outcome or not sentence(verdict):
            other.append(f"{fault}: {fault.outcome} in the table, {answer.kinds}, {verdict.card}")
        found[str(fault)] = {"digest": faults.digest(fault), "says": sentence(verdict)}
    if other:
        print("\n".join(other), file=sys.stderr)
        return 1
    where = {"machine": "emulator", "date": datetime.date.today().isoformat(), "versions": versions}
    faults.RECORDED.write_text(json.dumps({"provenance": where, "faults": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
