"""check_gemm(): a GEMM kernel of a step, part by part. It never raises.

The learner's factory is compiled in a child of this process; what is launched and timed is the Artifact
alone, by a backend. A factory or kernel that hangs or faults costs its own verdict and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from course_utils.artifact import Artifact
from course_utils.chips import Chip
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, NotYet, compile_factory, compile_sizes, open_places
from course_utils.grading import cards, conditions, hints, maps, steps
from course_utils.grading.cards import Card
from course_utils.grading.going import Going, Told, nobody
from course_utils.grading.steps import Step
from course_utils.grading.verdict import (
    NOT_REACHED,
    Part,
    Verdict,
    itself_failed,
    not_compiled,
    score,
    still_open,
    unchecked,
)
from course_utils.problems import PROBLEMS
from course_utils.ptx import added, receipts
from course_utils.ptx.receipts import Receipt
from course_utils.run import backends
from course_utils.run.backends import TIME_LIMIT, Backend, Emulator, Gpu, Launch, chip_of
from course_utils.run.protocol import Answer

UNSTEADY = 0.1  # spread of the paired ratios between their quartiles; an idle H200 stays within 0.02

Answered = Sequence[tuple[Launch, Answer]]
Timed = Sequence[tuple[Artifact, str]]  # with "burst" or "sustained"


def check_gemm(
    step: str,
    factory: object,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    told: Told = nobody,
) -> Verdict:
    """Check one step: ``factory(M, N, K)`` returns the kernel. Every part is tried, the verdict never raises.

    ``backend`` is ``"gpu"`` (results and speed, not the order of what ran), ``"emulator"`` (all but speed),
    ``"compile"`` (no results either), ``"auto"``: the emulator, and after it the GPU where there is a Hopper
    one; or a backend itself.
    ``time_limit`` is seconds for a single run on the GPU. ``told`` gets what is known so far, as a Verdict,
    from before the first compile on. Raises nothing; a wrong argument is a verdict too.
    """
    try:
        wanted = steps.find(step)
        if dsl not in DSLS:
            raise ValueError(f"there is no DSL {dsl!r}; the course has {', '.join(DSLS)}")
        machine = backends.choose(backend, time_limit)
    except ValueError as error:
        return unchecked(step, dsl, backend, str(error))
    except Exception as error:
        return itself_failed(step, dsl, backend, error)
    if isinstance(factory, NotYet):
        return still_open(wanted, dsl, machine.name, open_places(factory))
    printed: list[str] = []
    going = Going(wanted, dsl, machine.name, told)
    try:
        answered = machine.run(_launches(wanted, factory, dsl, machine, printed, going), going.hears)
        after = machine.gpu if isinstance(machine, Emulator) else None
        timed = [] if after or machine.lacks else _to_time(wanted, factory, dsl, going, chip_of(machine))
        verdict = judge(wanted, dsl, machine, answered, timed, going)
        if after and next(part for part in verdict.checks if part.name == "results").passed is not False:
            verdict = _on_the_gpu(wanted, verdict, factory, after, going)
        return replace(going.closed(verdict), printed=printed[0])
    except CompileError as error:
        if places := open_places(factory):
            return still_open(wanted, dsl, machine.name, places)
        verdict = not_compiled(wanted, dsl, machine.name, str(error))
        return replace(going.closed(verdict), printed=error.printed)
    except Exception as error:
        return itself_failed(step, dsl, machine.name, error)


def _to_time(step: Step, factory: object, dsl: str, going: Going, chip: Chip) -> Timed:
    if not step.speed_floor:
        return []
    size = step.timed_sizes[0]
    going.works("speed", f"compiling {_words_of(size)}")
    return [(compile_factory(factory, dsl, size, step.problem, chip), "burst")]


def _on_the_gpu(step: Step, verdict: Verdict, factory: object, gpu: Gpu, going: Going) -> Verdict:
    """The emulator's ``verdict``, with what the GPU says at sizes of its own. Raises CompileError."""
    going.works("results", "compiling for the GPU")
    made = compile_sizes(factory, verdict.dsl, step.check_sizes, step.problem, gpu.chip)
    launches = [
        Launch(size, compiled.artifact, step.problem)
        for size, compiled in zip(step.check_sizes, made, strict=True)
    ]
    going.works("results", "running on the GPU")
    results = _results(step, gpu, gpu.run(launches))
    timed = _to_time(step, factory, verdict.dsl, going, gpu.chip) if results.passed else []
    lacks = any(part.passed is False for part in verdict.checks)
    speed, timing = _speed(step, gpu, results.passed, timed, going, lacks)
    return _joined(step, verdict, gpu, results, speed, timing)


def _launches(
    step: Step, factory: object, dsl: str, machine: Backend, printed: list[str], going: Going
) -> Iterator[Launch]:
    """What this machine is to run, compiled as it is asked for; ``printed`` gets what the factory printed,
    ``going`` the parts that are known once all are compiled.

    An emulator takes those first that take it longest, and runs of all CTAs before runs of a few: the pattern
    of their wrong elements says more.
    """
    plan: Sequence[tuple[tuple[int, ...], tuple[int, ...] | None]]
    if machine.name == "gpu":
        plan = [(size, None) for size in step.check_sizes]
    elif machine.name == "compile":
        plan = step.emulated[:1]
    else:
        plan = sorted(step.emulated, key=lambda run: (run[1] is not None, -run[0][0] * run[0][1]))
    made = compile_sizes(factory, dsl, [size for size, _ in plan], step.problem, chip_of(machine))
    launches = []
    for (size, ctas), compiled in zip(plan, going.compiling(made, len(plan)), strict=True):
        printed.append(compiled.printed)
        launches.append(Launch(size, compiled.artifact, step.problem, ctas))
        yield going.sends(launches[-1], len(plan))
    first = _first(step, launches)
    going.ends(_compiles(step, first), _tensor_maps(step, first))


def _first(step: Step, launches: Sequence[Launch]) -> Artifact:
    """The kernel whose receipt is read: at the size that shows most, where it is among these."""
    artifacts = {launch.size: launch.artifact for launch in launches}
    return artifacts.get(step.emulated[0][0], launches[0].artifact)


def _shows_most(first: Artifact, answered: Answered) -> tuple[Launch, Answer]:
    """The run of that kernel. It is of a few CTAs, each with several tiles where the grid persists: they tell
    what a barrier is good for as well as all CTAs of another size do, in a sixth of the time.
    """
    return next((launch, answer) for launch, answer in answered if launch.artifact is first)


def judge(
    step: Step,
    dsl: str,
    machine: Backend,
    answered: Answered,
    timed: Timed = (),
    going: Going | None = None,
    strict: bool = False,
) -> Verdict:
    """The verdict on a kernel that was run: ``answered`` are its launches, ``timed`` is what to time if it is
    right; ``going`` is told the parts. ``strict``: what was not seen to run is missing, also of a kernel that
    is wrong or did not come to its end.
    """
    going = going or Going(step, dsl, machine.name)
    going.works("instructions", "looking for the step's idea")
    first = _first(step, [launch for launch, _ in answered])
    receipt = receipts.read_ptx(first.ptx, first.kernel)
    unmet = _unmet(step, answered, first, receipt)
    unseen: dict[str, str] = {}
    if strict:
        seen = [(launch.artifact, answer.facts or {}) for launch, answer in answered]
        unseen = conditions.unseen(step.requires, seen)
    results = _results(step, machine, answered)
    own = conditions.asks_for_own(step.requires, first)
    if results.passed and own and (restored := _restored(machine, *_shows_most(first, answered))):
        unmet[conditions.OWN] = restored
    results = _gated(step, results, unmet | unseen)
    instructions = _instructions(step, answered, unmet, unseen, first, results.card)
    going.ends(instructions, results)
    lacks = instructions.passed is False
    speed, timing = _speed(step, machine, results.passed, timed, going, lacks)
    parts = (_compiles(step, first), _tensor_maps(step, first), instructions, results, speed)
    table = receipts.table(receipt, first)
    verdict = Verdict.of(step.id, dsl, machine.name, parts, step.whole, timing, table)
    answers = [answer for _, answer in answered]
    return replace(verdict, output=cards.output(answers), figure=cards.figure(answers))


def together(step: Step, verdict: Verdict, machine: Backend, answered: Answered) -> Verdict:
    """The ``verdict`` on a kernel that is right where it was emulated, with what a GPU, ``machine``, says of
    it: results are right where both say so. Speed is of the launch that was timed, where there is one.
    """
    results = _results(step, machine, answered)
    timing = [answer.timing for _, answer in answered if answer.timing]
    speed = verdict.checks[-1]
    if not results.passed:
        speed = _untimed(step)
    elif timing:
        speed = _rate(step, timing[0])
    return _joined(step, verdict, machine, results, speed, timing)


def _joined(
    step: Step, verdict: Verdict, machine: Backend, results: Part, speed: Part, timing: list[dict]
) -> Verdict:
    """The emulator's ``verdict``, with a GPU's results and speed. What was emulated and right gives its
    points where the GPU agrees; what was not emulated in its time is the GPU's to say.
    """
    *parts, emulated, _ = verdict.checks
    if results.passed and emulated.passed:
        results = replace(emulated, detail=f"{emulated.detail}; on the GPU {results.detail}")
    parts += [results, speed]
    whole = Verdict.of(step.id, verdict.dsl, machine.name, parts, step.whole, timing, verdict.receipt)
    return replace(whole, printed=verdict.printed, output=verdict.output)


def _tensor_maps(step: Step, artifact: Artifact) -> Part:
    return maps.part(step, artifact, "tensor loads" in step.requires)


def _compiles(step: Step, artifact: Artifact) -> Part:
    made = artifact.resources
    spills = made.spill_stores + made.spill_loads
    shared = artifact.dynamic_shared + made.static_shared
    detail = (
        f"{made.registers} registers a thread, {spills or 'no'} bytes spilled, {shared:,} bytes of shared "
        "memory"
    )
    return score(step, "compiles", True, detail)


def _unmet(step: Step, answered: Answered, read: Artifact, receipt: Receipt) -> dict[str, str]:
    """What the step requires and the kernel lacks, at any size: by name, with a sentence. ``receipt`` is that
    of ``read``, which is one of them.

    The size that shows most tells first. Of another one with wrong results nothing is asked: they say more.
    """
    unmet: dict[str, str] = {}
    for launch, answer in sorted(answered, key=lambda run: run[0].artifact is not read):
        first = launch.artifact is read
        if not first and not answer.ok:
            continue
        found = conditions.told(
            receipt if first else receipts.read_ptx(launch.artifact.ptx, launch.artifact.kernel),
            launch.artifact,
            step.requires,
            step.forbids,
            answer.facts if answer.ok else None,
        )
        one = ", one K tile: look at what follows the K loop" * (
            launch.artifact.problem[2] <= conditions.BLOCK_K
        )
        where = "" if first else f" (at {_at(launch)}{one})"
        for name in found.keys() - unmet.keys():
            text, at, place = found[name].partition("\n  at ")
            unmet[name] = text + where + at + place
    return {name: unmet[name] for name in (*step.requires, *step.forbids) if name in unmet}


def _restored(machine: Backend, launch: Launch, answer: Answer) -> str:
    """What the author left out and the compiler put back: what is found without it. "" where nothing is, or
    where no run can tell.
    """
    bare = added.without(launch.artifact) if answer.facts else None
    if bare is None:
        return ""
    [(_, seen)] = machine.run([replace(launch, artifact=bare)])
    if not seen.findings:
        return ""
    found = seen.findings[0]
    what = "fence" if found["kind"] == "proxy-fence" else "barrier"
    text = re.sub(r" of CTA \d+", "", found["text"])  # any of them does the same
    harm, *whys = re.split(r": |, and (?=no )", text, maxsplit=1)
    why = " ".join(whys)
    return (
        f"needs a {what} that your code lacks here and {steps.DSL_NAMES[launch.artifact.dsl]} put back. "
        f"Without it {harm}.{f' {cards.sentence(why)}' if why else ''}"
        f"\n  at {found['file']}, line {found['line']}: {found['code']}"
    )


def _instructions(
    step: Step,
    answered: Answered,
    unmet: dict[str, str],
    unseen: dict[str, str],
    read: Artifact,
    wrong: Card | None,
) -> Part:
    """``wrong`` is what the results say: where the emulator saw the harm of what is missing, that leads."""
    asked = len(step.requires) + len(step.forbids)
    share = 1 - len(unmet | unseen) / asked
    if unmet:
        first, *others = unmet.values()
        name, harm = next(iter(unmet)), wrong if wrong and wrong.kind and wrong.place else None
        if "\n  at " not in first and not (harm and conditions.shown_by(name, harm.kind)):
            first += conditions.near(name, read) or (f"\n  at {harm.place}: {harm.code}" if harm else "")
        others += [text for name, text in unseen.items() if name not in unmet]
        also = [cards.stopped(f"This step also {text}") for text in others]
        card = cards.of_text(f"This step {first}", "missing", also)
        return score(step, "instructions", False, f"{len(unmet | unseen)} of {asked} missing", card, share)
    if unseen:  # why they did not run is what the results tell
        detail = f"{len(unseen)} of {asked} were not seen to run: {', '.join(unseen)}"
        failed = any(not answer.ok and not answer.error for _, answer in answered)
        why = None if failed else cards.of_text(f"This step {next(iter(unseen.values()))}", "missing")
        return score(step, "instructions", False, detail, why, share)
    detail = "all that the step is about survived the compiler"
    seen = any(answer.facts and answer.finished for _, answer in answered)
    if not seen and not conditions.PROPERTIES.keys().isdisjoint(step.requires):
        detail += "; their order was not looked at, only the emulator sees it"
    return score(step, "instructions", True, detail)


def _gated(step: Step, results: Part, unmet: dict[str, str]) -> Part:
    """Right results are worth half where something is unmet: the same numbers come from the step before.
    Nothing, where one failed part costs all points.
    """
    if not results.passed or not unmet:
        return results
    worth = "no points" if step.whole else "half the points"
    detail = f"{results.detail}; {worth}, as long as what the step is about is missing"
    return replace(results, points=results.points / 2, detail=detail)


def _results(step: Step, machine: Backend, answered: Answered) -> Part:
    """Right at every size, or what is wrong at which; not run where one of them could not be tried."""
    prefix = "emulated: " if machine.name == "emulator" else ""
    right, whole, wrong = 0, 0, []
    for launch, answer in answered:
        if answer.error == "not_run":
            return score(step, "results", None, answer.detail)
        if answer.ok:
            right += 1
            whole += launch.ctas is None  # what a few CTAs leave out is not seen
            continue
        if "exact maps" in step.requires:
            told = conditions.at_the_edge(answer, launch.artifact)
        else:
            told = conditions.left_over(conditions.located(answer), launch.artifact)
            told = conditions.last_left_out(conditions.added_up(told, launch.artifact), launch.artifact)
        for blames in (
            conditions.order_of_tiles,
            conditions.rank_left_out,
            conditions.shared_rows,
            maps.stored_otherwise,
            maps.one_buffer,
        ):
            told = blames(told, launch.artifact)
        wrong.append((launch, _in_memory(told, launch.artifact)))
        if answer.error or not answer.finished:  # the next size would say the same
            break
    sizes = f"{right} size{'s' * (right != 1)}"
    if not wrong:
        last = answered[-1][1].relative_norm
        detail = f"{prefix}right at {sizes}, last relative error {last:.1e}"
        remarks = dict.fromkeys(remark for _, answer in answered for remark in answer.remarks)
        return score(step, "results", True, "; ".join((detail, *list(remarks)[:1])))
    ended = not wrong[-1][1].error and wrong[-1][1].finished
    detail = prefix + "; ".join(f"{cards.ended(answer)} at {_size(launch)}" for launch, answer in wrong)
    if right:
        detail += f"; right at {sizes}"
    # a size at which the cause shows leads
    wrong.sort(key=lambda run: conditions.guesses(run[1]))
    (launch, answer), *others = wrong
    said = [
        (at, _words(other, at) if other.findings or other.error else cards.beside(answer, other.diagnosis))
        for at, other in others
    ]
    also = [f"at {_at(at)}: {words}" for at, words in said if words]
    schedule = "" if answer.schedule is None else f", emulated schedule {answer.schedule}"
    also.append(f"Seen at {_at(launch)}{schedule}.")
    card = cards.of_answer(answer, launch.artifact, also)
    return score(step, "results", False, detail, card, 0.5 * whole / len(answered) if ended else 0.0)


def _in_memory(answer: Answer, artifact: Artifact) -> Answer:
    """The answer, whose first finding says why registers of a running wgmma are used where the cause is that
    the sums have no fixed registers and lie in local memory.
    """
    if not answer.findings or not artifact.resources.stack_frame:
        return answer
    first, *others = answer.findings
    if first["kind"] != "accumulator-before-wait":
        return answer
    if re.search(r"wgmma_ss<[^;]*desc_b[^;]*threadIdx", artifact.source):
        shape = next(iter(receipts.read_ptx(artifact.ptx).wgmma), "").partition(".")[0]
        text = (
            f"each consumer warpgroup has a share of the tile's columns ({shape}), not of its rows, and "
            "slices are no fixed registers of it. Registers that a wgmma may still write go to memory"
        )
    else:
        text = (
            "sums lie in local memory, for want of a constant index: their registers are copied there while "
            "a wgmma may still write them"
        )
    return replace(
        answer, findings=({**first, "text": text, "more": [first["text"], *first["more"]]}, *others)
    )


def _size(launch: Launch) -> str:
    return _words_of(launch.size)


def _at(launch: Launch) -> str:
    """The size with its letters: "M, N, K = 256 x 512 x 64"."""
    return f"{PROBLEMS[launch.kind].takes} = {_size(launch)}"


def _words_of(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))


def _words(answer: Answer, launch: Launch) -> str:
    return answer.findings[0]["text"] if answer.findings else hints.words(answer, launch.artifact)


def _speed(
    step: Step, machine: Backend, right: bool | None, timed: Timed, going: Going, lacks: bool = False
) -> tuple[Part, list[dict]]:
    """The part of the speed, and the runs that were timed. ``lacks``: what the step is about is missing."""
    if right is None:
        idle = "not timed: speed is not what this one is about"
        return score(step, "speed", None, machine.lacks if step.speed_floor else idle), []
    if not right:
        return _untimed(step), []
    if machine.lacks and step.speed_floor:
        return score(step, "speed", None, machine.lacks), []
    timing: list[dict] = []
    for artifact, mode in timed:
        going.works("speed", f"timing {_words_of(artifact.problem)} beside cuBLAS")
        answer = machine.time(artifact, mode, step.problem)
        if answer.error == "not_run":
            return score(step, "speed", None, answer.detail), timing
        if answer.timing is None:
            return score(step, "speed", False, "", cards.of_answer(answer, artifact)), timing
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
    slow = f"It is right, and slow: {run['ratio']:.2f} of cuBLAS; the step asks for {floor:.2f}."
    card = cards.of_text(f"{slow} Compare your receipt with the step's.", "slow")
    return score(step, "speed", False, text, card)
