"""A persistent kernel first runs on ten SMs; where anything is wrong there, a whole chip decides."""

from math import prod

import pytest

from course_utils.compile.factory import takes_sm_count
from course_utils.compile.load import load_factory_source, solution_path
from course_utils.grading import steps
from course_utils.grading.gemm import check_gemm
from course_utils.run.backends import Emulator

FEW = [name for name, row in (steps.STEPS | steps.TASKS).items() if row.fewer_sms]


class Asked(Emulator):
    """The emulator, which keeps what it was asked for: size, and SMs of the chip."""

    def __init__(self):
        super().__init__()
        self.launches = []

    def ask(self, launch, worker=None):
        answer = super().ask(launch, worker)
        self.launches.append((launch.size, launch.artifact.chip.sms, answer.ok))
        return answer


def check(source, step="step08", dsl="tilelang"):
    machine = Asked()
    return check_gemm(step, load_factory_source(source, dsl), dsl, machine), machine.launches


def edited(old, new, step="step08", dsl="tilelang"):
    source = solution_path(step, dsl).read_text()
    assert old in source
    return source.replace(old, new)


def passed(verdict):
    return {part.name: part.passed for part in verdict.checks}


def test_a_right_kernel_runs_whole_on_ten_sms_alone():
    verdict, launches = check(edited("", ""))
    assert passed(verdict)["results"] and passed(verdict)["instructions"]
    on = {size: sms for size, sms, _ in launches}
    assert on == {size: 10 if ctas is None else 132 for size, ctas in steps.find("step08").on_fewer_sms}


def test_which_factories_take_a_number_of_sms():
    assert takes_sm_count(lambda M, N, K, sm_count=132: None)
    assert not takes_sm_count(lambda M, N, K: None)
    assert not takes_sm_count(min) and not takes_sm_count(None)


@pytest.mark.parametrize(
    "old, new",
    [
        pytest.param(
            "def gemm(M, N, K, sm_count=132):",
            "def gemm(M, N, K, sm_count=132):\n    sm_count = 132",
            marks=pytest.mark.thorough,
        ),
        # an order of tiles that only a whole chip has
        ("num_workers=sm_count", "num_workers=132 if sm_count == 132 else sm_count + 1"),
    ],
    ids=["its own grid", "wrong on ten SMs alone"],
)
def test_a_kernel_that_is_right_on_a_whole_chip_alone_is_right(old, new):
    verdict, launches = check(edited(old, new))
    assert passed(verdict)["results"] and passed(verdict)["instructions"]
    whole = {size: ok for size, sms, ok in launches if sms == 132}
    assert whole.keys() == dict(steps.find("step08").emulated).keys() and all(whole.values())


@pytest.mark.thorough
def test_a_wrong_kernel_is_told_by_what_a_whole_chip_shows():
    verdict, launches = check(edited("num_workers=sm_count", "num_workers=sm_count + 1"))
    part = next(part for part in verdict.checks if part.name == "results")
    assert part.passed is False
    assert {run.launch.artifact.chip.sms for run in part.runs} == {132}
    assert {sms for _, sms, ok in launches if not ok} == {10, 132}


@pytest.mark.parametrize("name", FEW)
def test_a_cta_on_ten_sms_has_more_tiles_than_another(name):
    row = steps.find(name)
    size, sms = row.fewer_sms
    assert sum(ctas is None for _, ctas in row.on_fewer_sms) == sum(ctas is None for _, ctas in row.emulated)
    *batch, M, N, _ = size
    tiles = prod(batch) * -(-M // 128) * -(-N // (160 if name == "step11" else 128))  # of its plan
    assert tiles > 2 * sms and tiles % sms


def test_a_kernel_that_compiles_for_a_whole_chip_alone_is_right():
    old = "def gemm(M, N, K, sm_count=132):"
    verdict, launches = check(edited(old, f"{old}\n    assert sm_count >= 114, 'a Hopper has more SMs'"))
    assert passed(verdict)["results"] and passed(verdict)["instructions"]
    assert {sms for _, sms, _ in launches} == {132}


def test_a_kernel_that_compiles_for_no_chip_says_so_once():
    old = "def gemm(M, N, K, sm_count=132):"
    verdict, launches = check(edited(old, f"{old}\n    raise ValueError('no tile fits')"))
    assert not passed(verdict)["compiles"] and "no tile fits" in str(verdict) and not launches
