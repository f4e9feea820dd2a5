"""The judge: a submission's kernels, which it takes as data, to a verdict. It never imports the submission.

It asks the same questions as a check in a notebook, at sizes, inputs and schedules of its own. The emulator
is asked first, since it alone sees what runs and in which order; then, where it is asked for, the GPU.
"""

from __future__ import annotations

import contextlib
import fcntl
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from course_utils import plans
from course_utils.artifact import Artifact
from course_utils.chips import HOME
from course_utils.classroom import provenance, randomize, similar, submissions, workshop
from course_utils.classroom.limits import TooMuch, limited
from course_utils.compile import cache
from course_utils.grading import conditions, gemm, maps, pair, predictor, real_size, reproducer, steps
from course_utils.grading import copy as copies
from course_utils.grading import plan as models
from course_utils.grading.found import of_text
from course_utils.grading.steps import CopyCase, MapCase, PairCase, PathCase, PlanCase, Row, Step
from course_utils.grading.verdict import Verdict, not_compiled, still_open
from course_utils.ptx.form import form as normal_form
from course_utils.ptx.parser import PtxError
from course_utils.recordings import measured
from course_utils.run import client
from course_utils.run.backends import TOO_BUSY, Backend, Emulator, Gpu, Launch, find_gpu
from course_utils.run.protocol import Answer

READING, MEMORY = 60.0, 4 << 30  # seconds of this process, and bytes, for what a submission made
SCHEDULES = 2  # of each small size
TOO_LITTLE = "too little memory to emulate"  # what the emulator's worker says of the machine
TIMINGS = 3  # of one kernel, until one is steady
CUBLAS_SHARE = 0.85  # of the TFLOP/s recorded on the same GPU; below, something else is on it
NEEDED = 8 << 30  # bytes of the GPU's memory; the largest check needs a third
# what a kernel can do to itself; whatever else ends a run on the GPU is the machine's
OWN_FAULTS = ("timeout", "timed_output", "refused", "CUDA_ERROR_")
MACHINE_FAULTS = (
    "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_NVLINK_UNCORRECTABLE", "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA_ERROR_SYSTEM_NOT_READY", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "CUDA_ERROR_NOT_INITIALIZED", "CUDA_ERROR_DEINITIALIZED", "CUDA_ERROR_OPERATING_SYSTEM",
    "CUDA_ERROR_NOT_SUPPORTED",
)  # fmt: skip

WITHOUT_GPU = (MapCase, PlanCase, PathCase, PairCase)  # judged alike wherever they are

Answered = list[tuple[Launch, Answer]]
Plan = tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]  # a size, and which CTAs: None for all


class MachineFault(RuntimeError):
    """This machine could not judge: no points follow from it, and it is tried again."""


@dataclass(frozen=True)
class Judged:
    """A verdict, and what the sandbox took for it: seconds, and bytes of memory. ``note`` is for whoever
    grades. ``ptx_form`` is the normal form of the kernel at the largest size, "" where there is none.
    """

    verdict: Verdict
    seconds: float
    memory: int
    note: str = ""
    ptx_form: str = ""


def judge(
    name: str, dsl: str, source: str, seed: str, form: str = "bubblewrap", backend: str = "emulator"
) -> Judged:
    """Judge the source of one exercise: ``name`` is a step's or a case's, ``dsl`` "maps" for case t1,
    "plan" for plan11, "paths" for t2b.

    ``backend`` "gpu" asks the emulator, and then the GPU of this machine. Raises MachineFault and
    SandboxError where the machine is at fault, and ValueError for no such exercise.
    """
    row = steps.row(name)
    if isinstance(row, Step) and row.chip != HOME:
        backend = "emulator"  # the GPU that is here is another chip
    if isinstance(row, Step):
        wanted: Row = randomize.step(row, seed)
    else:
        wanted = randomize.copy(row, seed) if isinstance(row, CopyCase) else row
    try:
        with limited(READING, MEMORY):
            judged, artifacts = _without_gpu(wanted, dsl, source, seed, form, backend)
    except (TooMuch, MemoryError, RecursionError):
        text = f"this was given up while it was read: it takes more than {READING:g} s"
        text += f" or {MEMORY >> 30} GB of memory"
        return Judged(nothing(name, dsl, backend, text), 0.0, 0)
    if backend != "gpu" or isinstance(wanted, WITHOUT_GPU) or not _right(judged.verdict):
        return judged
    _, checks, timed = _sizes(wanted, backend)
    kind = wanted.problem
    with client.Worker(client.GPU) as worker, _whole_gpu(worker) as device:
        launches = [Launch(size, artifacts[size], kind) for size in checks]
        timings = [Launch(size, artifacts[size], kind) for size in timed]
        answered = on_gpu(Gpu(worker=worker), launches, timings, recorded(device["name"]))
    if isinstance(wanted, Step):
        return replace(judged, verdict=gemm.together(wanted, judged.verdict, Gpu(), answered))
    return replace(judged, verdict=copies.together(wanted, judged.verdict, Gpu(), answered))


def nothing(name: str, dsl: str, backend: str, text: str) -> Verdict:
    """The verdict on what could not be judged, which gives no points: ``text`` says why."""
    row = steps.row(name)
    if isinstance(row, MapCase):
        return maps.judge(row, (), text, "")
    if isinstance(row, PlanCase):
        return models.judge(row, (), (), text)
    if isinstance(row, PathCase):
        return predictor.judge(row, (), (), (), text)
    return not_compiled(row, dsl, backend, of_text(text))


def _without_gpu(
    wanted: Row, dsl: str, source: str, seed: str, form: str, backend: str
) -> tuple[Judged, dict[tuple[int, ...], Artifact]]:
    """The emulator's judgement, and the kernels by size."""
    if isinstance(wanted, MapCase):
        made = workshop.make(source, "maps", dsl, (), wanted.given, form)
        verdict = maps.judge(wanted, made.maps, made.text, made.open if made.text else "")
        return Judged(verdict, made.seconds, made.memory, made.note), {}
    if isinstance(wanted, PlanCase):
        made = workshop.make(source, "plan", dsl, (), (), form)
        verdict = models.judge(
            wanted, plans.recorded(), made.times, made.text, made.open if made.text else ""
        )
        return Judged(verdict, made.seconds, made.memory, made.note), {}
    if isinstance(wanted, PathCase):
        known = predictor.recorded()
        asked = predictor.fresh(seed, known)
        cases = [*(case for case, _ in known), *asked]
        made = workshop.make(source, "paths", dsl, (), (), form, cases)
        now = [] if made.text else predictor.compile_each(asked)
        verdict = predictor.judge(
            wanted, known, now, made.paths, made.text, made.open if made.text else "", asked
        )
        return Judged(verdict, made.seconds, made.memory, made.note), {}
    if isinstance(wanted, PairCase):
        return _pair(wanted, dsl, source, seed, form), {}
    few = isinstance(wanted, Step) and wanted.fewer_sms is not None and "sm_count" in source
    judged, artifacts, enough = _run(wanted, dsl, source, seed, form, backend, few)
    if enough:
        return judged, artifacts
    whole, artifacts, _ = _run(wanted, dsl, source, seed, form, backend)
    took, held = judged.seconds + whole.seconds, max(judged.memory, whole.memory)
    return replace(whole, seconds=took, memory=held), artifacts


def _run(
    wanted: Step | CopyCase, dsl: str, source: str, seed: str, form: str, backend: str, few: bool = False
) -> tuple[Judged, dict[tuple[int, ...], Artifact], bool]:
    """What the emulator makes of a kernel, the kernels by size, and whether that is the last word. ``few``:
    sizes of all CTAs are for a chip of fewer SMs; unless all is right there, a whole chip has the last word.
    """
    plan, checks, timed = _sizes(wanted, backend)
    real = randomize.real_size(wanted, seed) if isinstance(wanted, Step) and not timed else None
    sms: dict[tuple[int, ...], int] = {}
    if few and isinstance(wanted, Step) and wanted.fewer_sms:
        plan = (*wanted.on_fewer_sms, *plan[len(wanted.emulated) :])
        sms = {size: wanted.fewer_sms[1] for size, ctas in plan if ctas is None and size not in checks}
    whole = [
        size for size in (*(size for size, _ in plan), *checks, *timed, real) if size and size not in sms
    ]
    sizes = list(dict.fromkeys([*whole, *sms]))
    chip = wanted.chip if isinstance(wanted, Step) else HOME
    made = workshop.make(source, wanted.problem, dsl, sizes, (), form, sms=sms, chip=chip)
    if made.open and made.text:  # the same words may stand in a kernel that is written: a guard, a docstring
        verdict = still_open(wanted, dsl, backend, made.open)
        return Judged(verdict, made.seconds, made.memory, made.note), {}, True
    if made.text:
        verdict = not_compiled(wanted, dsl, backend, of_text(made.text, made.place, made.under))
        enough = not sms or made.traced < len(sizes) - len(sms)
        return Judged(verdict, made.seconds, made.memory, made.note), {}, enough
    artifacts = dict(zip(sizes, made.artifacts, strict=True))
    machine = _machine(seed)
    first = plan[0][0]
    launches = [Launch(size, artifacts[size], wanted.problem, ctas, size == first) for size, ctas in plan]
    idle = []
    if real and isinstance(wanted, Step):
        begins = real_size.K_TILES if real_size.begins(wanted) else None
        idle = [Launch(real, artifacts[real], wanted.problem, randomize.one_cta(seed), k_tiles=begins)]
    verdict = replace(_emulated(wanted, dsl, machine, launches, idle, source), backend=backend)
    note = "; ".join(filter(None, (made.note, _odd(artifacts, source))))
    ptx_form = _form(artifacts[max(whole, key=prod)])  # the least of it is unrolled there
    judged = Judged(verdict, made.seconds, made.memory, note, ptx_form)
    followed = all(prod(artifacts[size].grid) <= count for size, count in sms.items())
    flawless = all(part.passed is not False for part in verdict.checks)
    return judged, artifacts, not sms or followed and flawless


def _pair(wanted: PairCase, dsl: str, source: str, seed: str, form: str) -> Judged:
    """The judgement of a control and a broken kernel, each made in a sandbox of its own."""
    machine = _machine(seed)
    try:
        texts = reproducer.programs(source)
    except ValueError as error:
        return Judged(not_compiled(wanted, dsl, machine.name, of_text(str(error))), 0.0, 0)
    made = {
        name: workshop.make(text, wanted.problem, dsl, [wanted.shape], (), form)
        for name, text in texts.items()
    }
    launches = {
        name: Launch(wanted.shape, one.artifacts[0], wanted.problem)
        for name, one in made.items()
        if one.artifacts
    }
    tried = {
        name: pair.Tried(why=of_text(one.text, one.place, one.under))
        for name, one in made.items()
        if not one.artifacts
    }
    tried |= pair.answers(launches, machine)
    _hold_machine([one.answer for one in tried.values() if one.answer])
    if still := next((one.open for one in made.values() if one.open and one.text), ""):
        verdict = still_open(wanted, dsl, machine.name, still)
    else:
        verdict = pair.judge(wanted, dsl, machine.name, texts, tried)
    seconds, memory = sum(one.seconds for one in made.values()), max(one.memory for one in made.values())
    note = "; ".join(dict.fromkeys(one.note for one in made.values() if one.note))
    return Judged(verdict, seconds, memory, note)


def _machine(seed: str) -> Emulator:
    """The emulator with a seed's schedules, inputs and tags."""
    return Emulator(
        schedules=randomize.schedules(seed, SCHEDULES), seed=randomize.inputs(seed), tags=randomize.tags(seed)
    )


def _odd(artifacts: dict[tuple[int, ...], Artifact], source: str) -> str:
    """What a person should look at in kernels that came of a source; "" where they look like its own."""
    for size, artifact in artifacts.items():
        if told := provenance.odd(artifact, source):
            return f"was the kernel at {' x '.join(map(str, size))} compiled from this source? {told}"
    return ""


def _form(artifact: Artifact) -> str:
    try:
        return normal_form(artifact.ptx, artifact.kernel)
    except PtxError:
        return ""


def marks(exercise: str, source: str, ptx_form: str) -> similar.Marks:
    """What of this source is compared with others, read within the limits of whatever a submission made."""
    try:
        with limited(READING, MEMORY):
            return similar.of(source, submissions.given().get(exercise, ""), ptx_form)
    except (TooMuch, MemoryError, RecursionError):
        return similar.Marks(form=ptx_form, hidden=f"cannot be read within {READING:g} s")


def _sizes(
    wanted: Step | CopyCase, backend: str
) -> tuple[Plan, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """What is emulated, what the GPU checks, and what it times. A few CTAs of what is to be timed are
    emulated: it is to be the same kernel.
    """
    if not isinstance(wanted, Step):
        return tuple((shape, None) for shape in wanted.shapes), wanted.shapes, ()
    if backend != "gpu":
        return wanted.emulated, (), ()
    timed = wanted.timed_sizes[:1] if wanted.speed_floor else ()
    return ((*wanted.emulated, *((size, steps.FIRST_AND_LAST) for size in timed)), wanted.check_sizes, timed)


def _emulated(
    wanted: Step | CopyCase,
    dsl: str,
    machine: Backend,
    launches: Sequence[Launch],
    idle: Sequence[Launch],
    source: str,
) -> Verdict:
    """The verdict of the emulator, which only begins the ``idle`` ones, where there is something to see."""
    begun = [launch for launch in idle if launch.k_tiles is not None]
    ran = machine.run([*launches, *begun])
    answered, beginnings = ran[: len(launches)], ran[len(launches) :]
    _hold_machine([answer for _, answer in ran])
    stopped = any(answer.error for _, answer in answered)  # never seen to come to its end
    if not isinstance(wanted, Step):
        verdict = copies.judge(wanted, dsl, machine, answered, source, strict=True)
        return _nothing_of(verdict) if stopped else verdict
    seen = [
        *((launch, answer.facts or {}) for launch, answer in beginnings),
        *((launch, None) for launch in idle if launch.k_tiles is None),
    ]
    verdict = gemm.judge(wanted, dsl, machine, answered, strict=True, idle=seen)
    facts = [answer.facts or {} for _, answer in answered]
    if stopped or conditions.idle(wanted.requires, facts):
        return _nothing_of(verdict)
    return verdict


def _hold_machine(answers: Sequence[Answer]) -> None:
    """Raises MachineFault where the emulator's machine is at fault."""
    for answer in answers:
        if answer.error == "not_run" and (
            "process died" in answer.detail
            or answer.detail.startswith(TOO_BUSY)
            or TOO_LITTLE in answer.detail
        ):
            raise MachineFault(answer.detail)


def _nothing_of(verdict: Verdict) -> Verdict:
    return replace(verdict, checks=tuple(replace(part, points=0.0) for part in verdict.checks))


def _right(verdict: Verdict) -> bool:
    """The emulator found right results, of a kernel that has points to lose."""
    return verdict.points > 0 and any(part.name == "results" and part.passed for part in verdict.checks)


@contextlib.contextmanager
def _whole_gpu(worker: client.Worker) -> Iterator[dict]:
    """The GPU that this worker has, for it alone among those that grade on this machine: what the worker says
    of it. The worker ends before the next one's turn. Raises MachineFault where there is none to use.
    """
    device, reason = find_gpu(worker)
    if device is None:
        raise MachineFault(reason)
    place = cache.folder() / f"gpu-{device['uuid']}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        device, reason = find_gpu(worker)  # what is free now
        if device is None:
            raise MachineFault(reason)
        if device["free_bytes"] < NEEDED:
            free = device["free_bytes"] / (1 << 30)
            raise MachineFault(
                f"another process holds the memory of {device['name']}: {free:.1f} GB are free"
            )
        try:
            yield device
        finally:
            worker.close()


def on_gpu(machine: Backend, checks: Sequence[Launch], timed: Sequence[Launch], expected: float) -> Answered:
    """What the GPU says: of each of ``checks``, and in front of them of what is timed once they are right.

    ``expected`` are cuBLAS's TFLOP/s there. Raises MachineFault.
    """
    answered = machine.run(checks)
    for _, answer in answered:
        _hold(answer)
    if all(answer.ok for _, answer in answered):
        answered = [(launch, time(machine, launch, expected)) for launch in timed] + answered
    return answered


def time(machine: Backend, launch: Launch, expected: float) -> Answer:
    """A steady timed run, or what the kernel did instead. ``expected`` are cuBLAS's TFLOP/s. Raises
    MachineFault where no run is steady.
    """
    for _ in range(TIMINGS):
        answer = machine.time(launch.artifact, "graded", launch.kind)
        _hold(answer)
        if answer.timing is None:
            return answer
        problem = unsteady(answer.timing, expected)
        if not problem:
            return answer
    raise MachineFault(f"the timing is unsteady: {problem}")


def unsteady(run: dict, expected: float) -> str:
    """Why this timed run says nothing of its kernel; empty where it does."""
    low, high = run["ratio_quartiles"]
    if not high - low <= gemm.UNSTEADY:
        return f"half of the samples are outside {low:.2f} to {high:.2f} of cuBLAS"
    if run["cublas_tflops"] < CUBLAS_SHARE * expected:
        return f"cuBLAS reaches {run['cublas_tflops']:.0f} TFLOP/s, and {expected:.0f} were recorded"
    return ""


def recorded(gpu: str) -> float:
    """cuBLAS's TFLOP/s at the size that is timed, as the recorded ladder has them; 0 for another GPU."""
    ladder = measured.load()
    size = list(steps.TIMED_SIZES[0])
    found = [
        run["cublas_tflops"]
        for entry in ladder["entries"]
        for run in entry["timings"]
        if run["mode"] == "burst" and list(run["size"]) == size
    ]
    return statistics.median(found) if found and ladder["provenance"].get("gpu") == gpu else 0.0


def _hold(answer: Answer) -> None:
    """Raises MachineFault where this answer is no kernel's doing."""
    own = not answer.error or answer.error.startswith(OWN_FAULTS)
    if not own or answer.error in MACHINE_FAULTS:
        raise MachineFault(f"{answer.error}: {answer.detail}")
