"""What the judge makes of a GPU's answers: who is at fault, which timing counts, and one verdict of two
machines.
"""

from dataclasses import replace

import pytest

from course_utils.artifact import Artifact, Resources
from course_utils.cause import Cause
from course_utils.classroom import judge as judging
from course_utils.classroom.judge import CUBLAS_SHARE, TIMINGS, MachineFault, on_gpu, recorded, unsteady
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import copy, gemm, steps
from course_utils.grading.verdict import Verdict, score
from course_utils.run import backends, client
from course_utils.run.backends import Emulator, Gpu, Launch
from course_utils.run.client import Worker, WorkerDied, WorkerNotUp, WorkerTimeout
from course_utils.run.protocol import Answer

SIZE = steps.TIMED_SIZES[0]
STEP = steps.find("step05")
KERNEL = Artifact(
    "cute",
    "gemm",
    ".visible .entry gemm() { ret; }",
    b"",
    (1, 1, 1),
    (128, 1, 1),
    (1, 1, 1),
    0,
    (),
    (),
    Resources(32, 0, 0, 0, 0),
)
CHECKS = [Launch(size, KERNEL) for size in STEP.check_sizes]
TIMED = [Launch(SIZE, KERNEL)]
RIGHT = Answer(ok=True, relative_norm=2e-4)
WRONG = Answer(wrong=7, causes=(Cause("text", "text", {"text": "7 elements are wrong."}),))
REFUSED = Answer(error="refused", detail="the input A of the kernel was changed while it was timed")


def timing(ratio=0.9, low=0.89, high=0.91, cublas=700.0):
    return {
        "mode": "graded", "size": list(SIZE), "tflops": ratio * cublas, "cublas_tflops": cublas,
        "ratio": ratio, "ratio_quartiles": [low, high],
    }  # fmt: skip


def timed(**fields):
    return Answer(ok=True, timing=timing(**fields))


class Machine:
    """A GPU that gives these answers, and counts what it times."""

    name, untimed_reason = "gpu", ""

    def __init__(self, timings=(), runs=None):
        self.timings, self.runs, self.modes = list(timings), runs or [RIGHT] * len(CHECKS), []

    def run(self, launches, on_answer=None):
        return list(zip(launches, self.runs, strict=False))

    def time(self, artifact, mode, kind="gemm"):
        self.modes.append(mode)
        return self.timings.pop(0)


# -- which timing counts


def test_a_steady_timing_is_taken_at_once():
    machine = Machine([timed(), timed(ratio=2.0)])
    (_, answer), *rest = on_gpu(machine, CHECKS, TIMED, 700.0)
    assert answer.timing["ratio"] == 0.9 and machine.modes == ["graded"]
    assert [launch for launch, _ in rest] == CHECKS


@pytest.mark.parametrize(
    "unsteady", [timed(low=0.7, high=0.95), timed(cublas=500.0)], ids=["spread", "slow GPU"]
)
def test_an_unsteady_timing_is_repeated_and_then_the_machines_fault(unsteady):
    machine = Machine([unsteady, unsteady, timed()])
    assert on_gpu(machine, CHECKS, TIMED, 700.0)[0][1] == timed() and len(machine.modes) == 3
    machine = Machine([unsteady] * TIMINGS + [timed()])
    with pytest.raises(MachineFault, match="the timing is unsteady"):
        on_gpu(machine, CHECKS, TIMED, 700.0)
    assert len(machine.modes) == TIMINGS


def test_a_refused_timing_is_not_repeated():
    machine = Machine([REFUSED, timed()])
    assert on_gpu(machine, CHECKS, TIMED, 700.0)[0][1] == REFUSED and len(machine.modes) == 1


def test_a_wrong_kernel_is_not_timed():
    machine = Machine(runs=[RIGHT, WRONG])
    assert [answer for _, answer in on_gpu(machine, CHECKS, TIMED, 700.0)] == [RIGHT, WRONG]
    assert not machine.modes


@pytest.mark.parametrize(
    "run, expected, steady",
    [
        (timing(), 700.0, True),
        (timing(), 0.0, True),  # a GPU of which nothing was recorded
        (timing(cublas=900.0), 700.0, True),
        (timing(cublas=CUBLAS_SHARE * 700 + 1), 700.0, True),
        (timing(cublas=CUBLAS_SHARE * 700 - 1), 700.0, False),
        (timing(low=0.8, high=0.91), 700.0, False),
        (timing(low=0.8, high=float("nan")), 700.0, False),
    ],
)
def test_what_is_steady(run, expected, steady):
    assert (unsteady(run, expected) == "") == steady


def test_what_was_recorded_is_of_the_same_gpu():
    assert 600 < recorded("NVIDIA H200") < 900
    assert recorded("NVIDIA H100 PCIe") == 0.0


# -- who is at fault

OURS = [
    "not_run",
    "died",
    "out_of_memory",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_NO_DEVICE",
    "KeyError",
]
THEIRS = [
    "timeout",
    "refused",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_OUT_OF_MEMORY",
]


@pytest.mark.parametrize("error", OURS)
def test_a_fault_of_the_machine_is_no_answer(error):
    answer = Answer(error=error, detail="what it said")
    with pytest.raises(MachineFault, match="what it said"):
        on_gpu(Machine(runs=[RIGHT, answer]), CHECKS, TIMED, 0.0)
    with pytest.raises(MachineFault, match="what it said"):
        on_gpu(Machine([answer]), CHECKS, TIMED, 0.0)


@pytest.mark.parametrize("error", THEIRS)
def test_a_fault_of_the_kernel_is_its_own(error):
    answer = Answer(error=error, detail="x")
    assert on_gpu(Machine([answer]), CHECKS, TIMED, 0.0)[0][1] == answer
    assert on_gpu(Machine(runs=[answer]), CHECKS, TIMED, 0.0)[-1][1] == answer


class Asked:
    """A worker that answers so."""

    def __init__(self, answer):
        self.answer = answer

    def request(self, *_, **__):
        raise self.answer

    device = request


@pytest.mark.parametrize(
    "error, found",
    [
        (WorkerNotUp("no CUDA-capable device"), "not_run"),
        (OSError("no process left"), "not_run"),
        (WorkerDied("killed"), "died"),
        (WorkerTimeout(), "timeout"),
    ],
    ids=repr,
)
def test_a_process_that_does_not_start_blames_no_kernel(error, found):
    gpu = Gpu(worker=Asked(error))
    assert gpu.ask(CHECKS[0]).error == gpu.time(KERNEL, "graded").error == found


def test_a_worker_that_never_comes_up_says_so(monkeypatch):
    monkeypatch.setattr(client, "START_LIMIT", 0.2)
    with Worker("time") as worker, pytest.raises(WorkerNotUp):  # a module that answers nothing
        worker.request("run", KERNEL, 10.0)


@pytest.mark.skipif(backends._driver(), reason="there is a driver")
def test_without_a_gpu_nobody_is_judged():
    with pytest.raises(MachineFault, match="no NVIDIA driver"), Worker() as worker:
        with judging._whole_gpu(worker):
            pytest.fail("found one")


# -- one verdict of two machines


def emulated(step=STEP, share=1.0):
    """The emulator's verdict on a right kernel, with this share of the points for its results."""
    parts = [
        score(step, name, True, "emulated: right at 3 sizes")
        for name in steps.parts_of(step)
        if name != "speed"
    ]
    if share < 1:
        parts[-1] = score(step, "results", True, "half", share=share)
    if "speed" in steps.parts_of(step):
        parts.append(score(step, "speed", None, "not run: the emulator does not model time"))
    return Verdict.of(step.id, "cute", "gpu", parts)


def together(*answers, step=STEP):
    launches = [*TIMED, *CHECKS] if answers[0].timing or answers[0].error else CHECKS
    verdict = gemm.together(step, emulated(step), Gpu(), list(zip(launches, answers, strict=False)))
    return verdict, {part.name: part for part in verdict.checks}


def test_right_on_both_and_fast_gets_all():
    verdict, parts = together(timed(), *[RIGHT] * 5)
    assert verdict.passed and (verdict.points, verdict.backend) == (10, "gpu")
    assert "emulated: right" in parts["results"].detail and "on the GPU right at 6" in parts["results"].detail
    assert verdict.timing == (timing(),)


def test_right_and_slow_lacks_the_speed_alone():
    verdict, parts = together(timed(ratio=0.1, low=0.1, high=0.1), *[RIGHT] * 5)
    assert verdict.points == 9 and parts["speed"].passed is False and "slow" in verdict.diagnosis


def test_wrong_on_the_gpu_is_wrong():
    verdict, parts = together(RIGHT, RIGHT, WRONG)
    assert parts["results"].passed is False and parts["speed"].state == "not reached"
    assert parts["results"].points < parts["results"].max_points / 2


@pytest.mark.parametrize("answer", [REFUSED, Answer(error="timeout", detail="60")], ids=["refused", "hang"])
def test_what_is_refused_when_it_is_timed_is_wrong(answer):
    verdict, parts = together(answer, *[RIGHT] * 5)
    assert parts["results"].passed is False and parts["results"].points == 0
    assert parts["speed"].state == "not reached" and verdict.points == 5 and not verdict.timing
    if answer is REFUSED:
        assert "input A of the kernel was changed" in verdict.diagnosis


def test_half_of_the_results_stays_half():
    verdict = gemm.together(
        STEP, emulated(share=0.5), Gpu(), list(zip([*TIMED, *CHECKS], [timed()] + [RIGHT] * 5, strict=True))
    )
    assert {part.name: part.points for part in verdict.checks}["results"] == 2.0


def test_a_copy_is_right_where_both_say_so():
    case = steps.COPY_CASES["t2"]
    launches = [Launch(shape, KERNEL, "copy") for shape in case.shapes]
    verdict = copy.together(case, emulated(case), Gpu(), [(one, RIGHT) for one in launches])
    assert verdict.passed and verdict.points == 10 and verdict.backend == "gpu"
    verdict = copy.together(case, emulated(case), Gpu(), [(launches[0], RIGHT), (launches[1], WRONG)])
    assert verdict.points == 7


# -- what is compiled for which machine


def test_a_few_ctas_of_the_kernel_that_is_timed_are_emulated():
    plan, checks, timed = judging._sizes(STEP, "gpu")
    assert timed == (SIZE,) and plan[-1] == (SIZE, (0, -1)) and plan[:-1] == STEP.emulated
    assert checks == STEP.check_sizes
    assert judging._sizes(STEP, "emulator") == (STEP.emulated, (), ())
    assert judging._sizes(steps.find("step01"), "gpu")[2] == ()  # its speed is not the point


def test_only_what_the_emulator_found_right_is_asked_of_the_gpu():
    assert judging._right(emulated())
    wrong = [
        score(STEP, "results", False, "") if part.name == "results" else part for part in emulated().checks
    ]
    assert not judging._right(Verdict.of(STEP.id, "cute", "gpu", wrong))


@pytest.mark.slow
def test_another_kernel_at_another_size_loses():
    """Step 3's kernel, right and with no ring, at the second size, as it could be where it is timed."""
    small, other_size = (256, 768, 320), (512, 768, 192)
    wanted = replace(STEP, emulated=((small, None), (other_size, steps.FIRST_AND_LAST)))
    first, other = (
        compile_factory(load_factory(solution_path(step, "cute")), "cute", size)
        for step, size in (("step05", small), ("step03", other_size))
    )
    launches = [Launch(small, first), Launch(other_size, other, ctas=steps.FIRST_AND_LAST)]
    machine = Emulator(schedules=(1,), seed=1)
    honest = judging._emulated(
        replace(wanted, emulated=wanted.emulated[:1]), "cute", machine, launches[:1], [], ""
    )
    assert honest.points == 9
    verdict = judging._emulated(wanted, "cute", machine, launches, [], "")
    assert verdict.points < 6 and "at M, N, K = 512 x 768 x 192" in verdict.diagnosis
