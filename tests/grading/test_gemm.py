"""check(): points by part, and a verdict for whatever it is given. The GPU is a worker that answers from a
script.
"""

import ctypes
import functools
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, replace

import pytest

from course_utils.cause import Cause, data
from course_utils.compile import child, tilelang
from course_utils.compile import load as loading
from course_utils.compile.child import Compiled
from course_utils.compile.factory import NotYet
from course_utils.grading import gemm, steps, words
from course_utils.grading.gemm import check_gemm
from course_utils.grading.verdict import Part, Verdict, interrupted
from course_utils.run import backends, client
from course_utils.run.backends import Compiler, Emulator, Launch
from course_utils.run.client import WorkerDied, WorkerTimeout
from course_utils.run.protocol import Answer

DEVICE = {"name": "NVIDIA H200", "capability": [9, 0], "sms": 132}
RIGHT = {"ok": True, "relative_norm": 2e-4}
COUNTED = Cause("count", "wrong", {"wrong": 12, "of": 99, "percent": 12.1, "where": {"only_rows": [3]}})
SAID = "12 of 99 elements are wrong (12.1%), all in row 3."
WRONG = {"ok": False, "causes": [data(COUNTED)]}


def because(text):
    """Causes with these words."""
    return (Cause("text", "text", {"text": text}),)


# Right kernels, written in another way than the solutions.
PIPELINED = """
import tilelang.language as T

def gemm(M, N, K):
    block_M, block_N, block_K = 128, 256, 64

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(N // block_N, M // block_M, threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(acc)
            for k in T.Pipelined(K // block_K, num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
            T.copy(acc, D_shared)
            T.copy(D_shared, D[by * block_M, bx * block_N])

    return main
"""
SMALL_TILES = """
import tilelang.language as T

def gemm(M, N, K):
    block_M, block_N, block_K = 64, 64, 32

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(M // block_M, N // block_N, threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_N, block_K), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(acc)
            for k in range(K // block_K):
                T.copy(A[bx * block_M, k * block_K], A_shared)
                T.copy(B[by * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
            T.copy(acc, D[bx * block_M, by * block_N])

    return main
"""


def consumer_first():
    """Step 7 with its roles in the other order: threads 0 to 127 consume."""
    source = loading.solution_path("step07", "tilelang").read_text()
    for old, new in (("if thread < 128:", "if thread >= 128:"), ("if thread < 32:", "if thread < 160:")):
        assert source.count(old) == 1
        source = source.replace(old, new)
    return source


@functools.cache
def compiled(step):
    """A solution's Artifact at its step's first check size."""
    factory = loading.load_factory(loading.solution_path(step, "tilelang"))
    return tilelang.compile_kind(factory, "gemm", *steps.find(step).emulated[0][0])


def parts(verdict):
    return {part.name: part for part in verdict.checks}


def passed(verdict):
    return {name: part.passed for name, part in parts(verdict).items()}


# -- without a GPU


def compiled_by(monkeypatch, compile_one):
    """``check_gemm`` compiles with this function of factory, DSL and size, and in no child."""
    monkeypatch.setattr(gemm, "compile_factory", compile_one)
    monkeypatch.setattr(
        gemm,
        "compile_sizes",
        lambda step, dsl, sizes, *_: (Compiled(compile_one(step, dsl, size), "") for size in sizes),
    )


@pytest.fixture
def offline(monkeypatch):
    """A factory is the name of a step; its solution is compiled once, for the checker is what is tried."""
    compiled_by(monkeypatch, lambda step, dsl, size, *_: compiled(step))


class Scripted:
    """A machine that gives these answers, by size or else the same for every launch, and times nothing."""

    untimed_reason = "the reason nothing is timed"

    def __init__(self, answers, name="emulator"):
        self.answers, self.name = answers, name

    def run(self, launches, on_answer=lambda *_: None):
        by_size = self.answers if isinstance(self.answers, dict) else {}
        answered = []
        for launch in launches:
            answered.append((launch, by_size.get(launch.size, self.answers)))
            on_answer(*answered[-1])
        return answered

    def time(self, artifact, mode, kind="gemm"):
        pytest.fail("timed where nothing is")


@pytest.mark.parametrize("step", ["step01", "step05", "step10"])
def test_solution_gets_what_a_compiler_can_tell(step, offline):
    verdict = check_gemm(step, step, backend="compile")
    assert passed(verdict) == {
        "compiles": True,
        "tensor maps": True,
        "instructions": True,
        "results": None,
        "speed": None,
    }
    assert verdict.points == steps.find(step).points / 2
    assert (verdict.backend, verdict.diagnosis, verdict.timing) == ("compile", "", ())
    assert not verdict.passed and not verdict.failed


@pytest.mark.parametrize("step", steps.STEPS)
def test_parts_are_worth_the_step_in_tenths(step):
    verdict = check_gemm(step, None, backend="compile")
    worth = {part.name: part.max_points for part in verdict.checks}
    assert worth == {
        name: pytest.approx(steps.find(step).points * tenths / 10) for name, tenths in steps.PARTS.items()
    }
    assert verdict.max_points == steps.find(step).points
    assert verdict.points == 0


def test_steps_1_to_10_are_worth_a_hundred_points_and_step_11_has_its_own():
    assert sum(step.points for step in steps.STEPS.values() if step.id not in steps.PAST) == 100
    assert steps.STEPS.keys() - set(steps.PAST) == {f"step{n:02d}" for n in range(1, 11)}


def test_json_fields(offline):
    fields = check_gemm("step05", "step05", backend="compile").to_dict()
    fields.pop("receipt")
    assert list(fields) == [
        "version",
        "step",
        "dsl",
        "backend",
        "level",
        "passed",
        "points",
        "max_points",
        "checks",
        "diagnosis",
        "card",
        "timing",
    ]
    assert [list(check) for check in fields["checks"]] == [
        ["name", "passed", "points", "max_points", "detail", "seconds", "state", "found"]
    ] * 5
    assert (fields["step"], fields["dsl"], fields["backend"]) == ("step05", "tilelang", "compile")
    assert (fields["passed"], fields["points"], fields["max_points"]) == (False, 5, 10)
    assert [check["passed"] for check in fields["checks"]] == [True, True, True, None, None]
    assert fields["timing"] == []


def test_says_why_results_are_missing(offline, monkeypatch):
    monkeypatch.setattr(backends, "find_gpu", lambda: (None, "the reason there is none"))
    monkeypatch.setattr(Emulator, "ask", lambda *_: EMULATED_RIGHT)
    verdicts = {name: parts(check_gemm("step05", "step05", backend=name)) for name in backends.NAMES}
    assert verdicts["gpu"]["results"].detail == verdicts["gpu"]["speed"].detail == "the reason there is none"
    assert "only compiles" in verdicts["compile"]["results"].detail
    assert verdicts["auto"]["results"].passed and verdicts["emulator"]["results"].passed
    assert (
        "no Hopper GPU" in verdicts["auto"]["speed"].detail
        and "does not model time" in verdicts["emulator"]["speed"].detail
    )


# -- in the emulator


def emulated(answers, step="step05"):
    """A check whose emulator gives these answers, in the order of the step table's sizes."""
    sizes = [size for size, _ in steps.find(step).emulated]
    return check_gemm(step, step, backend=Scripted(dict(zip(sizes, answers, strict=True))))


EMULATED_RIGHT = Answer(ok=True, relative_norm=2e-4, executed=9)
RACE = Answer(relative_norm=2e-4, kinds=("proxy-fence",), causes=because("no fence"))
STUCK = Answer(finished=False, relative_norm=1.0, kinds=("deadlock",), causes=because("all wait"))
UNKNOWN = Answer(error="not_run", detail="the emulator cannot run this kernel: tcgen05")


def test_right_in_the_emulator_gives_all_points_but_speeds(offline, monkeypatch):
    verdict = emulated([EMULATED_RIGHT] * 3)
    assert passed(verdict) == {
        "compiles": True,
        "tensor maps": True,
        "instructions": True,
        "results": True,
        "speed": None,
    }
    assert (verdict.points, verdict.backend, verdict.diagnosis) == (9, "emulator", "")


def test_a_single_tile_has_all_its_points_from_the_emulator(offline, monkeypatch):
    verdict = emulated([EMULATED_RIGHT], "step01")
    assert verdict.passed and verdict.points == 5


def test_a_finding_is_a_failure_though_the_numbers_are_right(offline, monkeypatch):
    verdict = emulated([EMULATED_RIGHT, RACE, EMULATED_RIGHT])
    # of the two sizes that are right a few CTAs of one ran
    assert parts(verdict)["results"].points == pytest.approx(0.5 * 4 * 1 / 3)
    assert verdict.card.text == "no fence." and "256 x 512 x 1152" in verdict.diagnosis


def test_a_deadlock_gives_no_points_and_its_words(offline, monkeypatch):
    verdict = emulated([STUCK] * 3)
    assert parts(verdict)["results"].points == 0
    assert verdict.card.text == "all wait." and str(verdict).count("all wait") == 1


def test_whole_runs_are_told_before_runs_of_a_few_ctas(offline, monkeypatch):
    verdict = emulated(
        [
            replace(RACE, causes=because("some CTAs")),
            replace(RACE, causes=because("all CTAs")),
            EMULATED_RIGHT,
        ]
    )
    assert verdict.card.text == "all CTAs."


def test_what_the_emulator_cannot_run_is_not_held_against_the_learner(offline, monkeypatch):
    verdict = emulated([UNKNOWN] * 3)
    assert parts(verdict)["results"].passed is None and "tcgen05" in parts(verdict)["results"].detail
    assert not verdict.failed


@pytest.mark.parametrize(
    "error, words", [(WorkerDied("out of memory"), "died"), (WorkerTimeout(), "did not end within")], ids=repr
)
def test_an_emulator_that_dies_or_never_answers_is_a_verdict(error, words, offline, monkeypatch):
    monkeypatch.setattr(client, "worker", lambda _: FakeWorker(runs=(error,)))
    verdict = check_gemm("step01", "step01", backend="emulator")
    assert parts(verdict)["results"].passed is None and words in parts(verdict)["results"].detail
    assert not verdict.failed


@pytest.mark.parametrize("work, words", [(110.0, "did not end within"), (3.0, "too busy")])
def test_an_emulation_without_end_is_waited_for_once(work, words, offline, monkeypatch):
    worker = FakeWorker(runs=(WorkerTimeout(work),))
    monkeypatch.setattr(client, "worker", lambda _: worker)
    verdict = check_gemm("step03", "step03", backend="emulator")
    assert len(worker.asked) == 1 < len(steps.find("step03").emulated)
    assert parts(verdict)["results"].passed is None and words in parts(verdict)["results"].detail
    assert parts(verdict)["instructions"].passed and not verdict.failed


def test_the_emulators_process_really_runs_a_kernel():
    launch = Launch(steps.find("step01").check_sizes[0], compiled("step01"))
    answer = Emulator().ask(launch)
    assert answer.ok and answer.relative_norm < 3e-4 and answer.executed > 1000


def test_compile_backend_asks_for_no_gpu(offline, monkeypatch):
    monkeypatch.setattr(backends, "find_gpu", lambda: pytest.fail("asked for a GPU"))
    assert not check_gemm("step05", "step05", backend="compile").failed


def test_instructions_met_in_part_give_part_of_the_points(offline):
    verdict = check_gemm("step05", "step04", backend="compile")  # one barrier, where a ring needs two
    instructions = parts(verdict)["instructions"]
    wanted = len(steps.find("step05").requires)
    assert instructions.passed is False
    assert instructions.points == pytest.approx(instructions.max_points * (wanted - 1) / wanted)
    assert "at least two mbarriers" in verdict.diagnosis
    assert verdict.failed and verdict.points < 5


def test_forbidden_instructions_cost_points(offline):
    verdict = check_gemm("step03", "step05", backend="compile")
    assert 0 < parts(verdict)["instructions"].points < parts(verdict)["instructions"].max_points
    assert "must not have TMA loads" in verdict.diagnosis


def test_illegal_tensor_map_is_told(monkeypatch):
    artifact = compiled("step05")
    first = artifact.parameters[0]
    broken = replace(first, tensor_map=replace(first.tensor_map, strides=(642,)))
    step = steps.find("step05")
    artifact = replace(artifact, parameters=(broken, *artifact.parameters[1:]))
    answered = Compiler("no GPU").run([Launch(step.check_sizes[0], artifact)])
    verdict = gemm.judge(step, "tilelang", Compiler("no GPU"), answered)
    part = parts(verdict)["tensor maps"]
    assert part.passed is False and part.points == 0
    assert f"The map over {first.tensor}" in part.card.full_text and "642" in part.card.full_text


@pytest.mark.parametrize(
    "step, source",
    [("step03", SMALL_TILES), ("step05", PIPELINED), ("step07", consumer_first())],
    ids=["other tiles and grid order", "T.Pipelined", "consumer first"],
)
def test_kernel_written_another_way_is_as_good(step, source, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(source)
    verdict = check_gemm(step, loading.load_factory(path), backend="compile")
    assert verdict.points == steps.find(step).points / 2, str(verdict)


# -- it never raises


def assert_refused(verdict, *words):
    assert verdict.passed is False and verdict.failed is True
    assert verdict.points == 0
    for word in words:
        assert word in verdict.diagnosis
    assert str(verdict) and verdict._repr_html_() and verdict.to_dict()


@pytest.mark.parametrize("step", [None, 5, "", "step12", "step1", ["step01"], {}], ids=repr)
def test_unknown_step_is_a_verdict(step):
    assert_refused(check_gemm(step, None), *(["step01, step02"] if not isinstance(step, list | dict) else []))


@pytest.mark.parametrize("dsl", [None, "", "cuda", "TileLang", ["tilelang"]], ids=repr)
def test_unknown_dsl_is_a_verdict(dsl):
    assert_refused(check_gemm("step01", None, dsl), "there is no DSL", "tilelang")


@pytest.mark.parametrize("backend", [None, "", "cpu", 0, ["gpu"]], ids=repr)
def test_unknown_backend_is_a_verdict(backend):
    assert_refused(
        check_gemm("step01", None, backend=backend), "there is no backend", "auto, gpu, emulator, compile"
    )


def raises(error):
    def gemm(*_):
        raise error

    return gemm


def recurses(M, N, K):
    return recurses(M, N, K)


@pytest.mark.parametrize(
    "factory, words",
    [
        (None, "NoneType, not a function"),
        (5, "int, not a function"),
        ("gemm", "str, not a function"),
        (lambda: None, "TypeError"),
        (lambda M, N, K: None, "returned NoneType"),
        (lambda M, N, K: 5, "returned int"),
        (lambda M, N, K: "ptx", "returned str"),
        (raises(ValueError("block_K does not divide K")), "ValueError: block_K does not divide K"),
        (raises(AssertionError()), "AssertionError"),
        (raises(ImportError("no module of yours")), "no module of yours"),
        (raises(MemoryError()), "MemoryError"),
        (recurses, "RecursionError"),
        (raises(SystemExit(0)), "sys.exit()"),
        (lambda M, N, K: sys.exit("done"), "sys.exit()"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_factory_is_a_verdict(factory, words):
    verdict = check_gemm("step01", factory, backend="compile")
    assert_refused(verdict, words)
    assert passed(verdict) == dict.fromkeys(steps.PARTS) | {"compiles": False}
    assert {part.state for part in verdict.checks} == {"failed", "not reached"}
    assert (verdict.backend, verdict.max_points) == ("compile", 5)


def test_an_endless_factory_is_a_verdict(monkeypatch):
    def endless(M, N, K):
        while True:
            pass

    monkeypatch.setattr(child, "LIMIT", 0.2)
    assert_refused(check_gemm("step01", endless, backend="compile"), "did not end within 0.2 s")


def test_the_interrupt_key_ends_a_check(monkeypatch):
    tilelang.prepare()  # else it is its import, seconds in a new process, that is interrupted
    timer, real = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)), os.fork

    def fork():
        if child := real():
            timer.start()  # now: Python drops an interrupt that comes while it forks
        return child

    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
        patch.setattr(os, "fork", fork)
        check_gemm("step01", lambda M, N, K: time.sleep(60), backend="compile")
    assert_refused(check_gemm("step01", raises(KeyboardInterrupt()), backend="compile"), "KeyboardInterrupt")


def test_error_names_the_line_of_the_learner(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def gemm(M, N, K):\n    stages = 0\n    return K // stages\n")
    verdict = check_gemm("step01", loading.load_factory(path), backend="compile")
    assert_refused(verdict, "ZeroDivisionError", "mine.py, line 3", "return K // stages")


def test_a_factory_that_prints_and_deletes_is_a_verdict(tmp_path, monkeypatch, capfd):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "mine.py"
    path.write_text(
        "import os, shutil\n\ndef gemm(M, N, K):\n    os.write(1, b'chatter')\n    os.environ.clear()\n"
        f"    shutil.rmtree({str(folder)!r})\n    raise OSError('all gone')\n"
    )
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.chdir(folder)
    assert_refused(check_gemm("step01", loading.load_factory(path), backend="compile"), "OSError: all gone")
    assert "chatter" not in capfd.readouterr().out


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tilelang", None)
    assert_refused(
        check_gemm("step01", recurses, backend="compile"), "package tilelang is missing", "make venv"
    )


def test_a_fault_of_the_checker_is_a_verdict(offline, monkeypatch):
    monkeypatch.setattr(gemm, "judge", raises(RuntimeError("our own fault")))
    verdict = check_gemm("step01", "step01", backend="compile")
    assert_refused(verdict, "the checker itself failed", "our own fault")


def test_the_next_check_works(offline):
    check_gemm("step05", None)
    assert not check_gemm("step05", "step05", backend=Scripted(EMULATED_RIGHT)).failed


def test_html_escapes_what_a_learner_wrote():
    attack = "<script>alert('x')</script>"
    for verdict in (
        check_gemm("step01", raises(ValueError(attack)), backend="compile"),
        check_gemm(attack, None),
        check_gemm("step01", None, dsl=attack),
        check_gemm("step01", None, backend=attack),
    ):
        html = verdict._repr_html_()
        assert "<script" not in html and "&lt;script&gt;" in html


def test_text_and_html_say_every_part_and_the_diagnosis(offline):
    verdict = check_gemm("step05", "step04", backend="compile")
    for form in (str(verdict), verdict._repr_html_()):
        assert all(name in form for name in steps.PARTS)
        assert all(state in form for state in ("passed", "failed", "not run"))
        assert "Look here first" in form and "step05" in form and "of 10 points" in form
    assert "Look here first" not in str(check_gemm("step05", "step05", backend="compile"))


# -- told while it goes on


def states(so_far):
    return [part.state for part in so_far.checks]


def told_of(backend, step="step05"):
    """What a check of the step's solution tells, and its verdict."""
    told = []
    verdict = check_gemm(step, step, backend=backend, on_progress=told.append)
    return told, verdict


def test_a_check_tells_what_it_is_at_from_before_the_first_compile(monkeypatch):
    said = []
    compiled_by(monkeypatch, lambda step, dsl, size, *_: said.append(size) or compiled(step))
    check_gemm(
        "step05", "step05", backend=Scripted(EMULATED_RIGHT), on_progress=lambda v: said.append(v.doing)
    )
    sizes = [size for size, _ in steps.find("step05").emulated]
    first, *_, last = [n for n, one in enumerate(said) if one in sizes]
    assert said[:first] == ["compiling 1 of 4"] and "compiling 4 of 4; 3 of 3 done" in said[last:]


def test_rows_fill_as_parts_end(offline):
    told, verdict = told_of(Scripted(EMULATED_RIGHT))
    assert states(told[0]) == ["working", *["pending"] * 4]
    assert states(told[-1]) == ["passed"] * 4 + ["pending"] and not told[-1].doing
    known = [sum(state == "passed" for state in states(so_far)) for so_far in told]
    assert known == sorted(known)
    assert [part.detail for part in told[-1].checks[:4]] == [part.detail for part in verdict.checks[:4]]
    assert any("emulating 256 x 512 x 1152 (1 of 3)" in so_far.doing for so_far in told)
    assert not verdict.doing and "checking" in str(told[-1]) and "9 of 10" in str(verdict)


def test_each_part_that_was_tried_has_its_seconds(offline):
    verdict = check_gemm("step05", "step05", backend=Scripted(EMULATED_RIGHT))
    assert [part.seconds is None for part in verdict.checks] == [False] * 4 + [True]
    assert all(0 <= check["seconds"] < 60 for check in verdict.to_dict()["checks"][:4])
    assert all(f"{verdict.checks[0].seconds:.1f} s" in form for form in (str(verdict), verdict._repr_html_()))
    failed = check_gemm("step05", lambda *_: 5, backend="compile")
    assert failed.checks[0].passed is False and failed.to_dict()["checks"][1]["seconds"] is None


def test_what_is_told_may_raise_and_costs_nothing(offline):
    def told(so_far):
        calls.append(so_far)
        raise RuntimeError("no screen")

    calls = []
    verdict = check_gemm("step05", "step05", backend=Scripted(EMULATED_RIGHT), on_progress=told)
    assert verdict.points == 9 and len(calls) > 5


def test_text_of_a_check_that_goes_on_keeps_its_columns(offline):
    told, _ = told_of(Scripted(EMULATED_RIGHT))
    for so_far in told:
        rows = list(zip(so_far.checks, str(so_far).splitlines()[1:], strict=True))
        assert [row[14:28].rstrip() for _, row in rows] == list(steps.PARTS)
        assert len({row.index(part.detail) for part, row in rows if part.detail}) == 1
        assert all(len(row) <= 90 for part, row in rows if part.state == "working")
    assert {so_far._repr_html_().count("<tr>") for so_far in told} == {5}


def test_a_finding_leads_as_soon_as_it_is_known(monkeypatch):
    artifact = compiled("step05")
    first = artifact.parameters[0]
    broken = replace(first, tensor_map=replace(first.tensor_map, strides=(642,)))
    broken = replace(artifact, parameters=(broken, *artifact.parameters[1:]))
    compiled_by(monkeypatch, lambda *_: broken)
    told, _ = told_of(Scripted(EMULATED_RIGHT))
    assert states(told[-1])[1] == "failed" and "642" in told[-1].diagnosis
    stopped = interrupted("step05", "tilelang", told[-1])
    assert "you stopped" in stopped.card.text and "642" in stopped.diagnosis


def test_a_stopped_check_keeps_what_was_known(offline):
    told, _ = told_of(Scripted(EMULATED_RIGHT))
    halfway = next(so_far for so_far in told if states(so_far)[:3] == ["passed", "passed", "working"])
    stopped = interrupted("step05", "tilelang", halfway)
    assert states(stopped)[:3] == ["passed", "passed", "stopped"] and states(stopped)[-1] == "not reached"
    assert (stopped.points, stopped.max_points, stopped.doing) == (0, 0, "")
    for form in (str(stopped), stopped._repr_html_()):
        assert "stopped" in form and halfway.checks[0].detail in form and "points" not in form


def test_an_answer_is_told_in_the_callers_thread_while_the_next_is_compiled(monkeypatch):
    monkeypatch.setattr(Emulator, "ask", lambda self, *_: EMULATED_RIGHT)
    monkeypatch.setattr(backends, "warm_up", lambda *_: None)
    heard, deadline = [], time.monotonic() + 10

    def launches():
        yield Launch((1, 1, 1), None)
        while not heard and time.monotonic() < deadline:  # an answer is heard when the next one was compiled
            time.sleep(0.01)
            yield Launch((2, 2, 2), None)
        assert heard
        yield Launch((3, 3, 3), None)

    answered = Emulator().run(
        launches(), lambda launch, _: heard.append((launch.size, threading.get_ident()))
    )
    assert [size for size, _ in heard] == [launch.size for launch, _ in answered] and len(heard) > 1
    assert {thread for _, thread in heard} == {threading.get_ident()}


def test_a_cell_that_has_not_run_is_open_at_once():
    told = []
    verdict = check_gemm("step05", NotYet("gemm"), on_progress=told.append)
    assert verdict.open and not told


# -- with a GPU that answers from a script


class FakeWorker:
    """Gives the answers in turn, the last for ever; an exception is raised. Keeps what it was asked."""

    twins = ()

    def __init__(self, runs=(RIGHT,), timings=()):
        self.answers = {"run": [*runs], "burst": [*timings]}
        self.asked = []

    def request(self, op, artifact, limit, **fields):
        self.asked.append((op, limit, fields))
        left = self.answers[op]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def start(self):
        pass

    def count(self, op):
        return sum(asked == op for asked, *_ in self.asked)


def timing(ratio, spread=0.01):
    return {
        "mode": "burst",
        "size": [4096, 4096, 4096],
        "tflops": 700 * ratio,
        "cublas_tflops": 700.0,
        "ratio": ratio,
        "ratio_quartiles": [ratio - spread / 2, ratio + spread / 2],
    }


FAST = timing(1.0)
FLOOR = steps.find("step05").speed_floor
SIZES = steps.find("step05").check_sizes


def timed(run):
    """A worker's answer with this timing; an error or an exception is one already."""
    return {"ok": True, "timing": run} if isinstance(run, dict) and "error" not in run else run


@pytest.fixture
def gpu(monkeypatch, offline):
    """Checks a step's solution against a worker with these answers."""
    monkeypatch.setattr(backends, "find_gpu", lambda: (DEVICE, ""))

    def check(runs=(RIGHT,), timings=(FAST,), step="step05", **options):
        worker = FakeWorker(runs, [timed(run) for run in timings])
        monkeypatch.setattr(client, "worker", lambda _: worker)
        return check_gemm(step, step, **{"backend": "gpu"} | options), worker

    return check


@pytest.fixture
def both(monkeypatch, offline):
    """Checks a step by "auto" where there is a GPU: what the emulator's process says, and what the GPU's."""
    monkeypatch.setattr(backends, "find_gpu", lambda: (DEVICE, ""))

    def check(emulated, runs=(RIGHT,), timings=(FAST,), step="step05"):
        gpu = FakeWorker(runs, [timed(run) for run in timings])
        workers = {client.GPU: gpu, client.EMULATOR: FakeWorker([asdict(one) for one in emulated])}
        monkeypatch.setattr(client, "worker", workers.get)
        return check_gemm(step, step), gpu

    return check


def test_where_there_is_a_gpu_the_emulator_judges_order_and_the_gpu_speed(both):
    verdict, gpu = both([EMULATED_RIGHT])
    assert verdict.passed and (verdict.points, verdict.backend) == (10, "gpu")
    results = parts(verdict)["results"].detail
    assert "emulated: right at 3 sizes" in results and f"on the GPU right at {len(SIZES)} sizes" in results
    assert (gpu.count("run"), gpu.count("burst"), verdict.timing) == (len(SIZES), 1, (FAST,))


def test_what_the_emulator_finds_wrong_never_reaches_the_gpu(both):
    verdict, gpu = both([RACE])
    assert verdict.backend == "emulator" and passed(verdict)["results"] is False
    assert verdict.card.text == "no fence." and not gpu.asked
    assert parts(verdict)["speed"].state == "not reached"


def test_what_only_the_gpu_finds_wrong_is_wrong(both):
    verdict, gpu = both([EMULATED_RIGHT], [WRONG])
    assert verdict.backend == "gpu" and passed(verdict)["results"] is False
    assert verdict.card.text == SAID and gpu.count("burst") == 0


def test_what_was_not_emulated_is_the_gpus_to_say(both):
    verdict, gpu = both([UNKNOWN])
    assert verdict.passed and verdict.points == 10
    assert parts(verdict)["results"].detail.startswith(f"right at {len(SIZES)} sizes")


def test_right_and_fast_gets_all_points(gpu):
    verdict, worker = gpu()
    assert verdict.passed and not verdict.failed
    assert (verdict.points, verdict.backend, verdict.diagnosis) == (10, "gpu", "")
    assert verdict.timing == (FAST,)
    assert (worker.count("run"), worker.count("burst")) == (len(SIZES), 1)


def test_a_gpu_runs_when_all_is_compiled_and_then_times(gpu):
    said = []
    verdict, _ = gpu(on_progress=lambda so_far: said.append(so_far.doing))
    count = len(SIZES)
    assert said[:count] == [f"compiling {n} of {count}" for n in range(1, count + 1)]
    assert f"running {' x '.join(map(str, SIZES[0]))} (1 of {count})" in said[count]
    timed = " x ".join(map(str, steps.find("step05").timed_sizes[0]))
    assert said[-1].startswith("timing ") and f"compiling {timed}" in "".join(said)
    assert all(part.seconds is not None for part in verdict.checks)


def test_gpu_checks_compile_at_every_size(gpu, monkeypatch):
    sizes = []
    compiled_by(monkeypatch, lambda step, dsl, size, *_: sizes.append(size) or compiled(step))
    gpu()
    assert sizes == [*SIZES, steps.find("step05").timed_sizes[0]]


def test_every_run_has_its_own_seed_and_the_learners_time_limit(gpu):
    _, worker = gpu(time_limit=7.0)
    seeds = [fields["seed"] for _, _, fields in worker.asked]
    assert len(set(seeds)) == len(seeds)
    assert {limit for op, limit, _ in worker.asked if op == "run"} == {7.0}


@pytest.mark.parametrize("ratio, fast", [(FLOOR + 0.001, True), (FLOOR, True), (FLOOR - 0.001, False)])
def test_speed_is_held_against_the_floor(ratio, fast, gpu):
    verdict, _ = gpu(timings=[timing(ratio)])
    assert passed(verdict)["speed"] is fast
    assert verdict.points == (10 if fast else 9)
    assert f"{700 * ratio:.0f} TFLOP/s" in parts(verdict)["speed"].detail
    assert ("of cuBLAS" in verdict.diagnosis) is not fast


@pytest.mark.parametrize("spread, unsteady", [(0.02, False), (0.5, True)])
def test_an_unsteady_timing_is_told(spread, unsteady, gpu):
    verdict, _ = gpu(timings=[timing(1.0, spread)])
    assert ("unsteady" in parts(verdict)["speed"].detail) is unsteady


def test_single_tile_has_its_speed_points_with_right_results(gpu):
    verdict, worker = gpu(step="step01")
    assert verdict.passed and verdict.points == 5
    assert worker.count("burst") == 0


@pytest.mark.parametrize("wrong_at", range(len(SIZES)))
def test_wrong_at_one_size_gives_part_of_the_points_and_its_diagnosis(wrong_at, gpu):
    runs = [RIGHT] * len(SIZES)
    runs[wrong_at] = WRONG
    verdict, worker = gpu(runs)
    assert parts(verdict)["results"].points == pytest.approx(4 * 0.5 * (len(SIZES) - 1) / len(SIZES))
    assert passed(verdict)["results"] is False and parts(verdict)["speed"].state == "not reached"
    assert verdict.card.text == SAID
    assert f"at {' x '.join(map(str, SIZES[wrong_at]))}" in parts(verdict)["results"].detail
    assert (worker.count("run"), worker.count("burst")) == (len(SIZES), 0)
    assert "wrong result has no speed" in parts(verdict)["speed"].detail
    assert verdict.timing == ()


def test_wrong_everywhere_gives_no_points_for_results(gpu):
    verdict, _ = gpu([WRONG])
    assert parts(verdict)["results"].points == 0
    assert parts(verdict)["results"].detail.count("wrong at") == len(SIZES)
    assert verdict.points == 5


def assert_broken(verdict, worker, *words):
    """A kernel that hung or faulted at its second size: it is not run again and has no points for results and
    speed.
    """
    assert (worker.count("run"), worker.count("burst")) == (2, 0)
    assert passed(verdict) == {
        "compiles": True,
        "tensor maps": True,
        "instructions": True,
        "results": False,
        "speed": None,
    }
    assert verdict.points == verdict.max_points / 2
    assert " x ".join(map(str, SIZES[1])) in verdict.diagnosis
    told = " ".join(verdict.diagnosis.split())  # what does not fit on the card goes on below it
    for word in words:
        assert word in told


def test_a_hang_is_a_verdict_that_explains_deadlock(gpu):
    verdict, worker = gpu([RIGHT, WorkerTimeout()], time_limit=7.0)
    assert_broken(verdict, worker, "never ended (7 s)", "deadlock", "arrives", "parity")
    assert "cluster" not in verdict.diagnosis


def test_a_hang_in_a_cluster_asks_about_the_cluster(gpu):
    verdict, worker = gpu([RIGHT, WorkerTimeout()], step="step10")
    assert_broken(verdict, worker, "deadlock", "In a cluster")


def test_a_hang_without_a_barrier_is_no_deadlock(gpu):
    verdict, worker = gpu([RIGHT, WorkerTimeout()], step="step03")
    assert_broken(verdict, worker, "never ended", "no mbarrier")
    assert "deadlock" not in verdict.diagnosis


def test_a_hang_with_too_many_registers_says_so(gpu, monkeypatch):
    four = compiled("step07")
    registers = replace(four.resources, registers=128)
    greedy = replace(four, block=(512, 1, 1), resources=registers)  # three consumers at 232 registers
    compiled_by(monkeypatch, lambda *_: greedy)
    verdict, worker = gpu([RIGHT, WorkerTimeout()], step="step07")
    assert_broken(verdict, worker, "setmaxnreg asks for 94,208 registers", "65,536 at launch")


def test_a_dead_worker_is_a_verdict_with_its_last_words(gpu):
    verdict, worker = gpu([RIGHT, WorkerDied("Segmentation fault")])
    assert_broken(verdict, worker, "The GPU process died: Segmentation fault")


@pytest.mark.parametrize("name", words.FAULTS)
def test_a_known_fault_is_explained(name, gpu):
    verdict, worker = gpu([RIGHT, {"error": name, "detail": "said the driver"}])
    assert_broken(verdict, worker, words.FAULTS[name])


def test_an_unknown_fault_is_named(gpu):
    verdict, worker = gpu([RIGHT, {"error": "CUDA_ERROR_TOASTED", "detail": "launching the kernel: toasted"}])
    assert_broken(verdict, worker, "CUDA_ERROR_TOASTED", "launching the kernel: toasted")


def test_a_death_without_a_word_gets_causes_that_the_kernel_has(gpu):
    died = [RIGHT, {"error": "CUDA_ERROR_LAUNCH_FAILED", "detail": ""}]
    said = {step: gpu(died, step=step)[0].diagnosis for step in ("step03", "step05", "step10")}
    assert "mbarrier" not in said["step03"] and "cluster" not in said["step03"]
    assert "mbarrier" in said["step05"] and "cluster" not in said["step05"]
    assert "mbarrier" in said["step10"] and "cluster" in said["step10"]


@pytest.mark.parametrize(
    "answer, words",
    [
        ({"error": "timed_output", "detail": "x"}, "timed output was wrong"),
        ({"error": "CUDA_ERROR_ILLEGAL_ADDRESS", "detail": "x"}, "illegal address"),
        (WorkerTimeout(), "never ended (60 s)"),
        (WorkerDied("gone"), "died: gone"),
    ],
    ids=["wrong", "fault", "hang", "death"],
)
def test_failure_while_timed_costs_the_speed_points_alone(answer, words, gpu):
    verdict, _ = gpu(timings=[answer])
    assert passed(verdict) == {
        "compiles": True,
        "tensor maps": True,
        "instructions": True,
        "results": True,
        "speed": False,
    }
    assert verdict.points == 9
    assert words in verdict.diagnosis
    assert verdict.timing == ()


def test_a_full_ladder_run_keeps_every_timing(gpu, monkeypatch):
    step, artifact = steps.find("step05"), compiled("step05")
    worker = FakeWorker(timings=[timed(timing(ratio)) for ratio in (1.0, 0.1, 0.2)])
    monkeypatch.setattr(client, "worker", lambda _: worker)
    machine = backends.Gpu()
    answered = machine.run(Launch(size, artifact) for size in step.check_sizes)
    verdict = gemm.judge(step, "tilelang", machine, answered, [(artifact, "burst") for _ in step.timed_sizes])
    assert [run["ratio"] for run in verdict.timing] == [1.0, 0.1, 0.2]
    assert verdict.passed  # the first timed size is held against the floor


# -- the GPU that is here


@pytest.mark.parametrize(
    "answer, words",
    [
        (
            {"name": "NVIDIA A100", "capability": [8, 0]},
            "NVIDIA A100 has compute capability 8.0; the course's kernels need 9.0",
        ),
        ({"name": "NVIDIA B200", "capability": [10, 0]}, "10.0"),
        (WorkerTimeout(), "did not answer"),
        (WorkerDied("no CUDA-capable device is detected"), "no CUDA-capable device is detected"),
        (OSError("cannot start"), "cannot start"),
    ],
    ids=["A100", "B200", "silent", "dead", "not started"],
)
def test_a_gpu_that_cannot_be_used_has_a_reason(answer, words, monkeypatch):
    class Machine:
        def device(self):
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    monkeypatch.setattr(client, "worker", lambda _: Machine())
    device, reason = backends.find_gpu()
    assert device is None and words in reason


def test_without_a_driver_no_process_is_started(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(client, "worker", lambda _: pytest.fail("started a worker"))
    assert backends.find_gpu() == (None, "there is no NVIDIA driver here")


def test_one_worker_for_the_process():
    assert client.worker(client.GPU) is client.worker(client.GPU)


@pytest.mark.parametrize(
    "answer", [Answer.from_fields(WRONG), Answer(error="timeout", detail="8"), Answer(**RIGHT)]
)
def test_a_machine_with_sizes_of_its_own_asks_for_the_instructions_whatever_it_computed(answer, offline):
    """A GPU runs none of the emulated sizes; its first one is read, and said without its size."""
    verdict = check_gemm("step05", "step03", backend=Scripted(answer, "gpu"))
    part = next(part for part in verdict.checks if part.name == "instructions")
    assert part.passed is False and part.points < part.max_points
    assert part.card is not None and "(at M, N, K" not in part.card.full_text


def test_a_failed_part_of_a_whole_case_costs_all_points():
    parts = [Part("compiles", True, 1, 1, ""), Part("results", False, 0, 4, "")]
    in_parts, whole = (
        Verdict.of("t3a", "tilelang", "emulator", parts, whole=whole) for whole in (False, True)
    )
    assert [part.points for part in in_parts.checks] == [1, 0]
    assert [(part.passed, part.points) for part in whole.checks] == [(True, 0), (False, 0)]
