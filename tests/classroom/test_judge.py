"""The judge: what it draws, what right kernels get, and kernels that are right only where one looks."""

import random
import resource
import signal
import time
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from course_utils.classroom import judge, randomize, sandbox
from course_utils.classroom.workshop import Made
from course_utils.compile.load import edited, solution_path
from course_utils.grading import gemm, predictor, steps
from course_utils.grading.verdict import still_open
from course_utils.ptx.form import form
from course_utils.run import client
from course_utils.run.backends import Launch
from course_utils.run.emulator.worker import _fault
from course_utils.run.protocol import Answer

ROOT = Path(__file__).parents[2]
needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason="no sandbox on this machine")
SEEDS = [f"seed {n}" for n in range(40)]


WHOLE = [row for row in (steps.STEPS | steps.GEMM_CASES).values() if row.id not in ("step11", "t6")]


def test_drawn_sizes_of_ragged_tables_are_ragged_and_as_large():
    row = steps.STEPS["step11"]
    for seed in SEEDS:
        made = randomize.step(row, seed)
        for (M, N, K), (m, n, k) in zip(
            [size for size, _ in row.emulated] + list(row.check_sizes),
            [size for size, _ in made.emulated] + list(made.check_sizes),
            strict=True,
        ):
            assert n % 8 == k % 8 == 0 and M * N <= m * n <= 1.12 * M * N
            assert bool(k % 64) == bool(K % 64) and (k // 64 == K // 64 or K % 64 == 0)
    assert len({randomize.step(row, seed).emulated for seed in SEEDS}) > 30


@pytest.mark.parametrize("row", WHOLE, ids=lambda row: row.id)
def test_drawn_sizes_are_good_for_what_the_tables_are(row):
    others = set()
    for seed in SEEDS:
        made = randomize.step(row, seed)
        assert made == randomize.step(row, seed)
        assert len(made.emulated) == len(row.emulated) and made.points == row.points
        for (M, N, K), (m, n, k) in zip(
            [size for size, _ in row.emulated] + list(row.check_sizes),
            [size for size, _ in made.emulated] + list(made.check_sizes),
            strict=True,
        ):
            others.add((m, n, k))
            assert M * N <= m * n <= max(1.12 * M * N, M * N + 256 * 256)
            assert (m, n) == (M, N) if M % 256 else m % 256 == n % 256 == 0 and m != n
            assert k % 64 == 0 and (k == 64) == (K == 64)
            assert k // 64 % 2 == K // 64 % 2  # a table has odd and even numbers of K tiles
            assert (k < 256) == (K < 256)  # shorter than a ring of four, or not
    fixed = row.id == "step01"
    assert len(others) == 1 if fixed else len(others) > len(row.emulated)


@pytest.mark.parametrize("task", steps.TASKS.values(), ids=lambda task: task.id)
def test_drawn_sizes_of_a_task_fit_it(task):
    """What a tile divides in the table it divides in what is drawn; a ragged M stays ragged."""
    for seed in SEEDS:
        made = randomize.step(task, seed)
        for (old, ctas), (new, some) in zip(task.emulated, made.emulated, strict=True):
            assert (ctas is None) == (some is None) and len(new) == len(old)
            if len(new) == 4:  # of a batch: its M is ragged
                assert new[0] == old[0] and new[2:] == old[2:] and abs(new[1] - old[1]) <= 16
                continue
            assert new[1] % 128 == 0 and (new[0] % 128 == 0 or old[0] % 128 > 0 or len(old) == 2)
            assert prod(new[:2]) <= 2.5 * prod(old[:2])


def test_drawn_sizes_of_heads_are_longer_sequences_that_are_stored_the_same_way():
    row, others = steps.GEMM_CASES["t6"], set()
    for seed in SEEDS:
        made = randomize.step(row, seed)
        assert [ctas is None for _, ctas in made.emulated] == [ctas is None for _, ctas in row.emulated]
        tables = ([size for size, _ in one.emulated] + list(one.check_sizes) for one in (row, made))
        for old, new in zip(*tables, strict=True):
            assert (new[0], *new[3:]) == (old[0], *old[3:]) and (new[1] == 1) == (old[1] == 1)
            assert 0 <= new[2] - old[2] <= 32 and (new[2] - old[2]) % 8 == 0 <= new[1] - old[1] <= 15
            others.add(new)
    assert len(others) > 100


@pytest.mark.parametrize("case", steps.COPY_CASES.values(), ids=lambda case: case.id)
def test_drawn_shapes_are_as_the_tables(case):
    for seed in SEEDS:
        for old, new in zip(case.shapes, randomize.copy(case, seed).shapes, strict=True):
            assert new[1:] == old[1:] and new[0] % old[0] == 0 and prod(new) <= 3 * prod(old)


def test_two_seeds_draw_differently():
    sizes = {randomize.step(steps.STEPS["step10"], seed).emulated for seed in SEEDS}
    assert len(sizes) > 20
    assert len({randomize.inputs(seed) for seed in SEEDS}) == len(SEEDS)
    assert len({randomize.schedules(seed, 2) for seed in SEEDS}) == len(SEEDS)
    random.seed(1)
    assert randomize.inputs("a") == randomize.inputs("a")


# -- kernels


def judged(name, dsl, source, seed="seed"):
    return judge.judge(name, dsl, source, seed).verdict


def solution(step, dsl="cute"):
    return solution_path(step, dsl).read_text()


def parts(verdict):
    return {part.name: round(part.points, 2) for part in verdict.checks}


EMPTY = """
import tilelang.language as T

def gemm(M, N, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), D: T.Tensor((M, N), "float16")):
        with T.Kernel(N // 128, M // 128, threads=128) as (n, m):
            D[m * 128, n * 128] = T.float16(0)

    return main
"""

# Another kernel wherever the course's own tables do not look.
TWO_FACED = """
{right}
right = gemm
{other}
other = gemm

def gemm(M, N, K):
    return right(M, N, K) if (M, N, K) in {sizes} else other(M, N, K)
"""


@needs_sandbox
@pytest.mark.parametrize("step", ["step03", pytest.param("step04", marks=pytest.mark.thorough)])
def test_an_empty_kernel_gets_nothing(step):
    verdict = judged(step, "tilelang", EMPTY)
    assert verdict.points == 0, parts(verdict)


BESIDE = """            row = T.get_thread_binding()
            total = T.alloc_local([1], T.float32)
            for j in T.serial(block_N):
                total[0] = 0.0
                for k in T.serial(K):
                    total[0] += T.cast(A[row, k], T.float32) * T.cast(B[j, k], T.float32)
                D[row, j] = T.cast(total[0], T.float16)
"""


@needs_sandbox
def test_a_wgmma_that_D_shows_nothing_of_gets_nothing():
    source = edited(solution("step01", "tilelang"), ("            T.copy(acc, D)\n", BESIDE))
    verdict = judged("step01", "tilelang", source)
    assert verdict.points == 0 and "needs all of D out of `wgmma`" in verdict.diagnosis


@pytest.mark.thorough
@needs_sandbox
def test_a_kernel_for_the_tables_sizes_is_another_at_the_drawn_ones():
    row = steps.STEPS["step05"]
    sizes = {size for size, _ in row.emulated} | set(row.check_sizes) | set(row.timed_sizes)
    source = TWO_FACED.format(right=solution("step05"), other=solution("step03"), sizes=sizes)
    verdict = judged("step05", "cute", source)
    assert parts(verdict)["instructions"] < 1.5 and parts(verdict)["results"] <= 2


@needs_sandbox
def test_a_kernel_that_waits_for_ever_has_shown_nothing_of_what_follows():
    source = edited(solution("step04"), ("mbarrier_init(full, 1)", "mbarrier_init(full, 2)"))
    verdict = judged("step04", "cute", source)
    assert parts(verdict)["results"] == 0 and parts(verdict)["instructions"] < 3


@needs_sandbox
def test_an_open_exercise_and_one_that_does_not_compile():
    verdict = judged("step05", "cute", "def gemm(M, N, K):\n    raise NotImplementedError")
    assert verdict.open and verdict.points == 0
    verdict = judged("step05", "cute", "def gemm(M, N, K):\n    return 1 / 0")
    assert verdict.points == 0 and "ZeroDivisionError" in verdict.diagnosis


def test_a_machine_without_memory_is_no_zero(monkeypatch, honest_step03):
    monkeypatch.setattr(
        judge.workshop, "make", lambda _, kind, dsl, sizes, *__, **___: Made((honest_step03,) * len(sizes))
    )
    answer, _ = _fault(MemoryError())
    monkeypatch.setattr(
        judge.Emulator, "run", lambda _, launches: [(launch, Answer(**answer)) for launch in launches]
    )
    with pytest.raises(judge.MachineFault, match="too little memory"):
        judged("step03", "cute", "")


def test_the_words_of_an_open_exercise_in_one_that_is_made_cost_nothing(monkeypatch, honest_step03):
    text = "this exercise is still open."
    made = Made(maps=steps.MAP_CASES["t1"].given, open=text, note="noted")
    monkeypatch.setattr(judge.workshop, "make", lambda *_, **__: made)
    found = judge.judge("t1", "maps", "", "seed")
    assert not found.verdict.open and len(found.verdict.checks) > 1 and found.note == "noted"
    monkeypatch.setattr(judge.workshop, "make", lambda *_, **__: Made(stage="trace", text="no", open=text))
    assert judged("t1", "maps", "").open and judged("step03", "cute", "").open
    monkeypatch.setattr(
        judge, "_emulated", lambda wanted, dsl, *_: still_open(wanted, dsl, "run", "emulated")
    )
    monkeypatch.setattr(
        judge.workshop,
        "make",
        lambda _, kind, dsl, sizes, *__, **___: Made((honest_step03,) * len(sizes), open=text),
    )
    assert judged("step03", "cute", "").diagnosis == "emulated."


def test_what_no_emulator_could_run_shows_nothing(honest_step03):
    launch = Launch(honest_step03.problem, honest_step03)
    verdict = gemm.judge(
        steps.STEPS["step03"], "cute", judge.Emulator(), [(launch, Answer(error="not_run", detail="no"))],
        strict=True,
    )  # fmt: skip
    assert parts(verdict)["results"] == 0 and parts(verdict)["instructions"] < 3
    lenient = gemm.judge(
        steps.STEPS["step03"], "cute", judge.Emulator(), [(launch, Answer(error="not_run", detail="no"))]
    )
    assert parts(lenient)["instructions"] == 3


@pytest.fixture(scope="module")
def honest_step03():
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import load_factory

    return compile_factory(load_factory(solution_path("step03", "cute")), "cute", (256, 256, 64))


@pytest.mark.parametrize("name", ["step03", "t2"])
def test_an_emulation_without_end_gets_nothing_and_one_without_a_processor_is_no_zero(
    name, monkeypatch, honest_step03
):
    monkeypatch.setattr(
        judge.workshop, "make", lambda _, kind, dsl, sizes, *__, **___: Made((honest_step03,) * len(sizes))
    )
    late = Late(110.0)
    monkeypatch.setattr(client, "worker", lambda _: late)
    assert judged(name, "cute", "def copy(): pass").points == 0 and late.asked == 1
    monkeypatch.setattr(client, "worker", lambda _: Late(3.0))
    with pytest.raises(judge.MachineFault, match="too busy"):
        judged(name, "cute", "def copy(): pass")


class Late:
    """A worker that never answers, and had a processor for ``work`` seconds."""

    twins = ()

    def __init__(self, work):
        self.work, self.asked = work, 0

    def start(self):
        pass

    def request(self, *_, **__):
        self.asked += 1
        raise client.WorkerTimeout(self.work)


def test_ptx_that_is_slow_to_read_is_given_up(monkeypatch, honest_step03):
    ptx = honest_step03.ptx.replace(".reg .b32", ".reg .pred %slow;\n\t.reg .b32", 1)
    many = "".join(f"$X{n}:\n\t@%slow bra \t$X0;\n" for n in range(1000))
    slow = replace(honest_step03, ptx=ptx.replace("\tret;", f"{many}\tret;"))
    monkeypatch.setattr(
        judge.workshop, "make", lambda _, kind, dsl, sizes, *__, **___: Made((slow,) * len(sizes))
    )
    monkeypatch.setattr(judge, "READING", 0.3)
    began = time.process_time()
    verdict = judged("step03", "cute", "")
    assert verdict.points == 0 and "was given up" in verdict.diagnosis
    assert time.process_time() - began < 20 and signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_a_source_is_marked_with_the_form_of_its_kernel(monkeypatch, honest_step03):
    monkeypatch.setattr(
        judge.workshop, "make", lambda _, kind, dsl, sizes, *__, **___: Made((honest_step03,) * len(sizes))
    )
    monkeypatch.setattr(judge, "_emulated", lambda wanted, dsl, *_: still_open(wanted, dsl, "run", ""))
    found = judge.judge("step03", "cute", "", "seed")
    assert found.ptx_form == form(honest_step03.ptx, honest_step03.kernel)
    marks = judge.marks("step03-cute", "exec('1')", found.ptx_form)
    assert (marks.form, marks.hidden) == (found.ptx_form, "runs text as code (exec, line 1)")
    monkeypatch.setattr(judge.workshop, "make", lambda *_, **__: Made(stage="trace", text="no"))
    assert judge.judge("step03", "cute", "", "seed").ptx_form == ""


def test_a_source_that_is_slow_to_compare_is_given_up(monkeypatch):
    def of(*_):
        while True:
            pass

    monkeypatch.setattr(judge, "READING", 0.2)
    monkeypatch.setattr(judge.similar, "of", of)
    marks = judge.marks("step03-cute", "", "form")
    assert (marks.form, marks.hidden) == ("form", "cannot be read within 0.2 s")


def test_memory_for_reading_is_limited(monkeypatch):
    monkeypatch.setattr(judge, "MEMORY", 1 << 28)
    monkeypatch.setattr(judge.workshop, "make", lambda *_, **__: bytearray(1 << 29))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert "GB of memory" in judged("step03", "cute", "").diagnosis
    assert judged("t1", "maps", "").points == 0
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@needs_sandbox
@pytest.mark.parametrize(
    "edit, points, words",
    [(("", ""), 10, ""), (("return cycles / CLOCK", "return None"), 0, "seconds must return a number")],
)
def test_a_model_is_judged_by_what_it_says_of_recorded_plans(edit, points, words):
    source = next((ROOT / "solutions" / "plan").glob("*.py")).read_text().replace(*edit)
    verdict = judged("plan11", "plan", source)
    assert verdict.points == points and words in verdict.diagnosis


@needs_sandbox
@pytest.mark.parametrize(
    "edit, points, words",
    [
        (("", ""), 10, ""),
        (('return "1-D bulk"', 'return "2-D bulk"'), 0, "must be one of 'one box'"),
        (('return "1-D bulk"', "return 1"), 0, "predict must return a string"),
    ],
)
def test_a_prediction_is_judged_by_recorded_paths_and_some_of_its_own(monkeypatch, edit, points, words):
    monkeypatch.setattr(predictor, "FRESH", 4)
    source = next((ROOT / "solutions" / "paths").glob("*.py")).read_text().replace(*edit)
    verdict = judged("t2b", "paths", source)
    assert verdict.points == points and words in verdict.diagnosis


@needs_sandbox
@pytest.mark.parametrize(
    "edit, points, words",
    [
        (("", ""), 10, ""),
        (("                T.mbarrier_expect_tx(full, tile * tile * 2)\n", ""), 2, "is right, and must show"),
        (("def control", "def controls"), 0, "there is no control(rows, columns)"),
    ],
)
def test_a_pair_is_judged_by_both_of_its_programs(edit, points, words):
    verdict = judged("t4b", "tilelang", solution("t4b", "tilelang").replace(*edit))
    assert verdict.points == points and words in verdict.diagnosis


@needs_sandbox
@pytest.mark.thorough
@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
@pytest.mark.parametrize("name", [*steps.STEPS, "t2", "t4", "t4b", "t5", "t6"])
def test_a_solution_loses_nothing_but_the_speed(name, dsl):
    if name == "t4" and dsl == "tilelang":
        pytest.skip("a case of CuTe DSL alone")
    row = steps.row(name)
    verdict = judged(name, dsl, solution(name, dsl), f"{name} {dsl}")
    timed = isinstance(row, steps.Step) and row.speed_floor
    assert verdict.points == pytest.approx(row.points * (0.9 if timed else 1.0)), verdict.diagnosis
