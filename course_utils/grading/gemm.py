"""check_gemm(): a GEMM kernel of a step, part by part. It never raises.

The learner's factory is compiled in a child of this process; what is launched and timed is the Artifact
alone, by a backend. A factory or kernel that hangs or faults costs its own verdict and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from course_utils.artifact import Artifact
from course_utils.cause import Who, from_data
from course_utils.chips import HOME, Chip
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory, compile_sizes, takes_sm_count
from course_utils.grading import check, conditions, maps, real_size, refine, steps
from course_utils.grading.cards import sentence
from course_utils.grading.check import Answered
from course_utils.grading.check_progress import CheckProgress, OnProgress, ignored
from course_utils.grading.found import Found, found, place_of
from course_utils.grading.properties import PROPERTIES, Facts
from course_utils.grading.refine import Run, Wrong
from course_utils.grading.steps import Step
from course_utils.grading.verdict import NOT_REACHED, Part, Verdict, score
from course_utils.ptx import added, receipts
from course_utils.run.backends import TIME_LIMIT, Backend, Compiler, Emulator, Gpu, Launch, chip_of
from course_utils.run.protocol import Answer

UNSTEADY = 0.1  # spread of the paired ratios between their quartiles; an idle H200 stays within 0.02

# reads that a barrier or a fence of the compiler's orders: what the author's kernel lacks
UNORDERED = {
    "no proxy fence before the read": "fence-put-back",
    "no barrier orders read and write": "barrier-put-back",
}

Timed = Sequence[tuple[Artifact, str]]  # with "burst" or "sustained"
Lacks = dict[str, Found]  # what a step requires and a kernel lacks, by name


def check_gemm(
    step: str,
    factory: object,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    on_progress: OnProgress = ignored,
) -> Verdict:
    """Check one step: ``factory(M, N, K)`` returns the kernel. Every part is tried, the verdict never raises.

    ``backend`` is ``"gpu"`` (results and speed, not the order of what ran), ``"emulator"`` (all but speed),
    ``"compile"`` (no results either), ``"auto"``: the emulator, and after it the GPU where there is a Hopper
    one; or a backend itself.
    ``time_limit`` is seconds for a single run on the GPU. ``on_progress`` gets what is known so far, as a
    Verdict, from before the first compile on. Raises nothing; a wrong argument is a verdict too.
    """

    def judged(row: Step, machine: Backend, progress: CheckProgress, printed: list[str]) -> Verdict:
        machine, idle = _for_chip(row, machine), list[Launch]()

        def run(fewer_sms: bool) -> Answered:
            launches = _launches(row, factory, dsl, machine, printed, progress, idle, fewer_sms)
            return machine.run(launches, progress.on_answer)

        fewer_sms = row.fewer_sms is not None and machine.name == "emulator" and takes_sm_count(factory)
        try:
            answered = run(fewer_sms)
        except CompileError:
            if not (fewer_sms and printed):  # it does not compile for a whole chip, which comes first
                raise
            printed.clear()
            answered = run(False)
        answered = _on_a_whole_chip(row, factory, dsl, machine, answered, progress)
        after = machine.gpu if isinstance(machine, Emulator) else None
        timed = (
            []
            if after or machine.untimed_reason
            else _to_time(row, factory, dsl, progress, _chip(row, machine))
        )
        verdict = judge(row, dsl, machine, answered, timed, progress, False, [(one, None) for one in idle])
        if after and next(part for part in verdict.checks if part.name == "results").passed is not False:
            verdict = _on_the_gpu(row, verdict, factory, after, progress)
        return verdict

    return check.checked(step, steps.find, factory, dsl, backend, time_limit, on_progress, judged)


def _chip(step: Step, machine: Backend) -> Chip:
    """What a check of this step compiles for: the machine's chip, or the step's own."""
    return chip_of(machine) if step.chip == HOME else step.chip


def _for_chip(step: Step, machine: Backend) -> Backend:
    """The machine for a step of another chip than the GPU that is here: an emulator alone, or none at all."""
    if step.chip == HOME or machine.name == "compile":
        return machine
    if isinstance(machine, Gpu):
        return Compiler(
            f"not run: {step.id} is for a {step.chip.family} ({step.chip.arch}), which is not here"
        )
    if isinstance(machine, Emulator) and machine.gpu:
        return machine.alone(f"not run: there is no {step.chip.family} here")
    return machine


def _to_time(step: Step, factory: object, dsl: str, progress: CheckProgress, chip: Chip) -> Timed:
    if not step.speed_floor:
        return []
    size = step.timed_sizes[0]
    progress.start("speed", f"compiling {_words_of(size)}")
    return [(compile_factory(factory, dsl, size, step.problem, chip), "burst")]


def _on_the_gpu(step: Step, verdict: Verdict, factory: object, gpu: Gpu, progress: CheckProgress) -> Verdict:
    """The emulator's ``verdict``, with what the GPU says at sizes of its own. Raises CompileError."""
    progress.start("results", "compiling for the GPU")
    made = compile_sizes(factory, verdict.dsl, step.check_sizes, step.problem, gpu.chip)
    launches = [
        Launch(size, compiled.artifact, step.problem)
        for size, compiled in zip(step.check_sizes, made, strict=True)
    ]
    progress.start("results", "running on the GPU")
    results = _results(step, gpu, gpu.run(launches))
    timed = _to_time(step, factory, verdict.dsl, progress, gpu.chip) if results.passed else []
    lacks = any(part.passed is False for part in verdict.checks)
    speed, timing = _speed(step, gpu, results.passed, timed, progress, lacks)
    return check.joined(step, verdict, gpu, results, speed, timing)


def _launches(
    step: Step,
    factory: object,
    dsl: str,
    machine: Backend,
    printed: list[str],
    progress: CheckProgress,
    idle: list[Launch],
    fewer_sms: bool,
) -> Iterator[Launch]:
    """What this machine is to run; ``printed`` gets what the factory printed, ``progress`` the parts that are
    known once all are compiled, and ``idle`` the size that only a GPU runs, where this is none.
    ``fewer_sms``: sizes of all CTAs come after those of a few, and for a chip of fewer SMs.
    """
    plan: check.Plan
    chip, fewer = _chip(step, machine), {}
    if machine.name == "gpu":
        plan = [(size, None) for size in step.check_sizes]
    elif machine.name == "compile":
        plan = step.emulated[:1]
    else:
        plan = _emulated(step.emulated)
        if fewer_sms and step.fewer_sms:
            plan = _emulated(step.on_fewer_sms)[::-1]
            fewer = {size: chip.with_sms(step.fewer_sms[1]) for size, ctas in plan if ctas is None}
    sizes = [size for size, _ in plan]
    more = [] if machine.name == "gpu" or step.real_size in sizes else [step.real_size]
    made = compile_sizes(factory, dsl, [*sizes, *more], step.problem, chip, fewer)

    def known(launches: list[Launch]) -> Sequence[Part]:
        idle.extend(launches[len(plan) :])
        first = _first(step, launches)
        return _compiles(step, first), _tensor_maps(step, first)

    first = step.emulated[0][0]
    return check.launches(plan, made, step.problem, progress, printed, known, first, more)


def _emulated(plan: check.Plan) -> list[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """In the order in which an emulator takes them: those first that take it longest, and runs of all CTAs
    before runs of a few, since the pattern of their wrong elements says more.
    """
    return sorted(plan, key=lambda run: (run[1] is not None, -run[0][0] * run[0][1]))


def _on_a_whole_chip(
    step: Step, factory: object, dsl: str, machine: Backend, answered: Answered, progress: CheckProgress
) -> Answered:
    """``answered``, with runs on a whole chip in place of those on fewer SMs, if the kernel has a grid of its
    own, or anything is wrong with it: it may be right there alone, and a whole grid says more of where it is
    wrong. Raises CompileError.
    """
    chip, launched = _chip(step, machine), [launch for launch, _ in answered]
    few = [launch.artifact for launch in launched if launch.artifact.chip != chip]
    if not few or any(answer.error for _, answer in answered):
        return answered
    first, right = _first(step, launched), all(answer.ok for _, answer in answered)
    followed = all(math.prod(one.grid) <= one.chip.sms for one in few)
    if followed and right:
        if not any(conditions.lacking(step.requires, step.forbids, answered, first, False)):
            return answered
    sizes = [size for size, ctas in _emulated(step.emulated) if ctas is None]
    made = compile_sizes(factory, dsl, sizes, step.problem, chip)
    launches = [Launch(size, one.artifact, step.problem) for size, one in zip(sizes, made, strict=True)]
    progress.start("results", f"emulating {' and '.join(map(_words_of, sizes))}")
    return [*machine.run(launches), *(run for run in answered if run[0].artifact.chip == chip)]


def _first(step: Step, launches: Sequence[Launch]) -> Artifact:
    """The kernel whose receipt is read: at the size that shows most, where it is among these."""
    artifacts = {launch.size: launch.artifact for launch in launches}
    return artifacts.get(step.emulated[0][0], launches[0].artifact)


def judge(
    step: Step,
    dsl: str,
    machine: Backend,
    answered: Answered,
    timed: Timed = (),
    progress: CheckProgress | None = None,
    strict: bool = False,
    idle: Sequence[tuple[Launch, Facts | None]] = (),
) -> Verdict:
    """The verdict on a kernel that was run: ``answered`` are its launches, ``timed`` is what to time if it is
    right; ``progress`` gets the parts. ``strict``: what was not seen to run is missing, also of a kernel that
    is wrong or did not come to its end. ``idle`` are launches that were compiled, and that nobody runs to
    their end: with the facts of their first K tiles where somebody began them.
    """
    progress = progress or CheckProgress(step, dsl, machine.name)
    progress.start("instructions", "looking for the step's idea")
    first = _first(step, [launch for launch, _ in answered])
    receipt = receipts.read_ptx(first.ptx, first.kernel)
    results = _results(step, machine, answered)
    unmet, unseen = conditions.lacking(step.requires, step.forbids, answered, first, strict)
    if results.passed and conditions.asks_for_own(step.requires, first):
        unmet |= _restored(machine, next(run for run in answered if run[0].artifact is first))
    mbarriers = max((answer.facts or {}).get(conditions.MBARRIERS, 0) for _, answer in answered)
    for launch, facts in idle:
        there = real_size.lacking(step, [ran.artifact for ran, _ in answered], launch, facts, mbarriers)
        unmet |= {name: one for name, one in there.items() if name not in unmet}
    results = _gated(step, results, _share_met(step, unmet | unseen))
    instructions = _instructions(step, answered, unmet, unseen, first, results)
    progress.finish(instructions, results)
    lacks = instructions.passed is False
    speed, timing = _speed(step, machine, results.passed, timed, progress, lacks)
    parts = (_compiles(step, first), _tensor_maps(step, first), instructions, results, speed)
    table = receipts.table(receipt, first)
    return check.verdict(step, dsl, machine, parts, answered, table, timing)


def together(step: Step, verdict: Verdict, machine: Backend, answered: Answered) -> Verdict:
    """The ``verdict`` on a kernel that is right where it was emulated, with what a GPU, ``machine``, says of
    it: results are right where both say so. Speed is of the launch that was timed, where there is one.
    """
    results = _results(step, machine, answered)
    timing = [answer.timing for _, answer in answered if answer.timing]
    speed = _untimed(step) if not results.passed else _rate(step, timing[0]) if timing else None
    return check.joined(step, verdict, machine, results, speed, timing)


def _tensor_maps(step: Step, artifact: Artifact) -> Part:
    return maps.part(step, artifact, "tensor loads" in step.requires)


def _compiles(step: Step, artifact: Artifact) -> Part:
    made = artifact.resources
    spills = made.spill_stores + made.spill_loads
    shared = artifact.dynamic_shared + made.static_shared
    detail = (
        f"{made.registers} registers per thread, {spills or 'no'} bytes spilled, {shared:,} bytes of shared "
        "memory"
    )
    return score(step, "compiles", True, detail)


def _restored(machine: Backend, run: tuple[Launch, Answer]) -> Lacks:
    """What the author left out and the compiler put back: what is found without it. Nothing where no run can
    tell. A run of a few CTAs, each with several tiles where the grid persists, tells what a barrier is good
    for as well as all CTAs of another size do, in a sixth of the time.
    """
    launch, answer = run
    bare = added.without(launch.artifact) if answer.facts else None
    [(_, seen)] = machine.run([replace(launch, artifact=bare)]) if bare else [run]
    if not bare or not seen.findings:
        return {}
    finding = seen.findings[0]
    harm, place = from_data(finding), place_of(finding)
    if harm.case not in UNORDERED:
        full = finding["text"]
        brief = [full, *finding["sentences"][0]][-1]
        why = full.removeprefix(brief) if full.startswith(brief) else ""
        return {conditions.OWN: found("missing", "put-back", place, harm=brief, why=why)}
    anywhere = {name: one.anywhere if isinstance(one, Who) else one for name, one in harm.values.items()}
    return {conditions.OWN: found("missing", UNORDERED[harm.case], place, **anywhere)}


def _instructions(
    step: Step, answered: Answered, unmet: Lacks, unseen: Lacks, read: Artifact, results: Part
) -> Part:
    """Where the emulator saw the harm of what is missing in ``results``, that leads."""
    asked, share = len(step.requires) + len(step.forbids), _share_met(step, unmet | unseen)
    if unmet:
        name, lead = next(iter(unmet.items()))
        harm = results.runs[0].wrong.finding if results.runs else None
        seen_at = place_of(harm) if harm else None
        if lead.place is None and not (harm and seen_at and conditions.shown_by(name, harm["kind"])):
            lead = replace(lead, place=conditions.near(name, read) or seen_at)
        rest = {other: one for other, one in unseen.items() if other not in unmet}
        lacks = (unmet | {name: lead} | rest).values()
        detail = f"{len(lacks)} of {asked} missing"
        return score(step, "instructions", False, detail, *lacks, topic="missing", share=share)
    if unseen:  # why they did not run is what the results tell
        detail = f"{len(unseen)} of {asked} were not seen to run: {', '.join(unseen)}"
        failed = any(not answer.ok and not answer.error for _, answer in answered)
        why = [] if failed else [*unseen.values()][:1]
        return score(step, "instructions", False, detail, *why, topic="missing", share=share)
    detail = "all that the step requires survived the compiler"
    seen = any(answer.facts and answer.finished for _, answer in answered)
    if not seen and not PROPERTIES.keys().isdisjoint(step.requires):
        detail += "; their order was not checked: only the emulator can"
    return score(step, "instructions", True, detail)


def _share_met(step: Step, unmet: Lacks) -> float:
    """The share of what a step requires and forbids that a kernel meets."""
    return 1 - len(unmet) / (len(step.requires) + len(step.forbids))


def _gated(step: Step, results: Part, met: float) -> Part:
    """Right results are worth half of the share that is ``met``, where that is not all: the same numbers come
    from the step before, and from the first one. Nothing, where one failed part costs all points.
    """
    if not results.passed or met == 1:
        return results
    worth = "no points" if step.whole else f"{met / 2:.0%} of the points"
    detail = f"{results.detail}; {worth}, until it has what the step requires"
    return replace(results, points=results.points * met / 2, detail=detail)


def _results(step: Step, machine: Backend, answered: Answered) -> Part:
    """Right at every size, or what is wrong at which; not run where one of them could not be tried."""
    prefix = "emulated: " if machine.name == "emulator" else ""
    right, whole = 0, 0
    wrong: list[Run] = []
    for launch, answer in answered:
        if answer.error == "not_run":
            return score(step, "results", None, answer.detail)
        if answer.ok:
            right += 1
            whole += launch.ctas is None  # what a few CTAs leave out is not seen
            continue
        clipped = "exact maps" in step.requires
        wrong.append(Run(launch, answer, refine.refine(answer, launch.artifact, clipped)))
        if answer.error or not answer.finished:  # the next size would say the same
            break
    sizes = f"{right} size{'s' * (right != 1)}"
    if not wrong:
        last = answered[-1][1].relative_norm
        detail = f"{prefix}right at {sizes}, last relative error {last:.1e}"
        remarks = dict.fromkeys(remark for _, answer in answered for remark in answer.remarks)
        warnings = [f"Warning: {sentence(remark)}" for remark in remarks]
        return score(step, "results", True, "\n".join((detail, *warnings[:1])))
    ended = not wrong[-1].answer.error and wrong[-1].answer.finished
    detail = prefix + "; ".join(f"{check.ended(run.answer)} at {_words_of(run.launch.size)}" for run in wrong)
    if right:
        detail += f"; right at {sizes}"
    # a size at which the cause shows leads
    wrong.sort(key=lambda run: run.wrong.guesses)
    share = 0.5 * whole / len(answered) if ended else 0.0
    return score(step, "results", False, detail, runs=(*wrong,), share=share)


def _words_of(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))


def _speed(
    step: Step,
    machine: Backend,
    right: bool | None,
    timed: Timed,
    progress: CheckProgress,
    lacks: bool = False,
) -> tuple[Part, list[dict]]:
    """The part of the speed, and the runs that were timed. ``lacks``: what the step is about is missing."""
    if right is None:
        idle = "not timed: speed is not what this one is about"
        return score(step, "speed", None, machine.untimed_reason if step.speed_floor else idle), []
    if not right:
        return _untimed(step), []
    if machine.untimed_reason and step.speed_floor:
        return score(step, "speed", None, machine.untimed_reason), []
    timing: list[dict] = []
    for artifact, mode in timed:
        progress.start("speed", f"timing {_words_of(artifact.problem)} beside cuBLAS")
        answer = machine.time(artifact, mode, step.problem)
        if answer.error == "not_run":
            return score(step, "speed", None, answer.detail), timing
        if answer.timing is None:
            run = Run(Launch(artifact.problem, artifact, step.problem), answer, Wrong(causes=answer.causes))
            return score(step, "speed", False, "", runs=(run,)), timing
        timing.append(answer.timing)
    if not step.speed_floor:
        text = "not timed: speed is not what this one is about"
        if not (step.whole and lacks):
            text += "; these points come with right results"
        return score(step, "speed", True, text), timing
    if not timing:
        return score(step, "speed", None, "not timed in this run"), timing
    return _rate(step, timing[0]), timing


def _untimed(step: Step) -> Part:
    return score(step, "speed", None, "not timed: a wrong result has no speed", idle=NOT_REACHED)


def _rate(step: Step, run: dict) -> Part:
    """A timed run, held against the step's floor."""
    floor = step.speed_floor or 0.0
    text = (
        f"{run['tflops']:.0f} TFLOP/s at {' x '.join(map(str, run['size']))}, {run['ratio']:.2f} of cuBLAS "
        f"({run['cublas_tflops']:.0f}); the step asks for {floor:.2f}"
    )
    low, high = run["ratio_quartiles"]
    if high - low > UNSTEADY:
        text += f". The timing is unsteady (half of the samples outside {low:.2f} to {high:.2f}): "
        text += "is another program on this GPU?"
    if run["ratio"] >= floor:
        return score(step, "speed", True, text)
    slow = found("slow", "slow", ratio=run["ratio"], floor=floor)
    return score(step, "speed", False, text, slow, topic="slow")
