"""Case t6, scores of heads: both solutions at every kind of length, in fp16 and bf16; what they refuse; and
planted faults, each with its card.
"""

from functools import cache, partial

import pytest
import torch

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import kernels
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.problems import PROBLEMS
from course_utils.ptx import paths
from course_utils.run.emulator.launch import emulated
from tests.grading.mistakes import require_said

FP16, BF16 = "scores of heads", "scores of heads, bf16"
FAULTS = [fault for dsl in DSLS for fault in kernels(dsl, "t6").values()]
both_dsls = pytest.mark.parametrize("dsl", DSLS)


def solution(dsl, **chosen):
    return partial(load_factory(solution_path("t6", dsl), "scores"), **chosen)


@cache
def compiled(dsl, size, kind=FP16):
    dtype = PROBLEMS[kind].tensors(*size)[0].dtype
    return compile_factory(solution(dsl, dtype=dtype), dsl, size, kind)


def box_of(dsl, size, tensor):
    """The tensor's map: swizzle code, and what of its box is more than 1."""
    maps = {p.tensor: p.tensor_map for p in compiled(dsl, size).parameters if p.tensor_map}
    return maps[tensor].swizzle, [extent for extent in maps[tensor].box if extent > 1]


@both_dsls
@pytest.mark.parametrize(
    "size, kind",
    [
        ((2, 77, 136, 4, 2, 96), BF16),  # TMA stores S
        ((1, 130, 67, 3, 1, 128), BF16),  # threads do
        ((1, 1, 2, 2, 1, 64), FP16),
        ((2, 1, 200, 2, 2, 96), FP16),
    ],
)
def test_a_solution_is_right_at_any_length(dsl, size, kind):
    generator = torch.Generator().manual_seed(3)
    emulation, tried = emulated(compiled(dsl, size, kind), generator, 0, kind=kind, facts=False)
    assert emulation.ok and not emulation.findings and tried.ok, (emulation.findings, tried.found)


@both_dsls
@pytest.mark.parametrize("D, swizzle, columns", [(64, 3, 64), (96, 2, 32), (128, 3, 64)])
def test_a_row_of_d_is_as_many_boxes_as_its_swizzle_allows(dsl, D, swizzle, columns):
    size = 2, 77, 136, 4, 2, D
    assert box_of(dsl, size, "Q") == (swizzle, [columns, 128])
    assert box_of(dsl, size, "K") == (swizzle, [columns, 64])
    assert box_of(dsl, size, "S") == (3, [64, 128])
    loads = {copy.tensor: copy for copy in paths.copies(compiled(dsl, size)) if copy.direction == paths.LOAD}
    assert {name: (copy.rank, [*copy.paths]) for name, copy in loads.items()} == {
        name: (4, [paths.TENSOR]) for name in "QK"
    }


@both_dsls
@pytest.mark.parametrize(
    "size, says",
    [
        ((2, 77, 136, 5, 2, 64), "5 heads cannot share 2 heads of K evenly"),
        ((2, 77, 136, 4, 2, 72), "D = 72: this kernel takes 64, 96 or 128"),
    ],
)
def test_what_a_solution_does_not_take_is_refused(dsl, size, says):
    with pytest.raises(CompileError, match=says):
        compile_factory(solution(dsl), dsl, size, FP16)


def test_cute_dsl_refuses_a_tensor_of_one_row():
    with pytest.raises(CompileError, match="give Q and K a second row"):
        compile_factory(solution("cute"), "cute", (1, 5, 1, 2, 1, 64), FP16)


def test_the_check_tries_every_d_and_both_ways_out():
    row = steps.find("t6")
    emulated_sizes = [size for size, _ in row.emulated]
    for sizes in (emulated_sizes, row.check_sizes):
        assert {size[-1] for size in sizes} == {64, 96, 128}
        assert {size[2] % 8 == 0 for size in sizes} == {True, False}
        assert all(size[3] % size[4] == 0 for size in sizes)
    assert all(size[0] > 1 and size[3] > size[4] > 1 for size in emulated_sizes)


def test_a_tolerance_grows_with_d():
    absolute = PROBLEMS[FP16].absolute
    assert absolute(128) == 2 * absolute(64) > 0


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_card_of_a_planted_fault_is_true_and_at_the_line(fault):
    require_said(fault)


def test_both_languages_have_the_same_faults():
    """But for one each: a copy that leaves the path open, and a swizzle that has to be given twice."""
    plain, cute = ({*kernels(dsl, "t6")} for dsl in DSLS)
    assert (plain - cute, cute - plain) == ({"t6_plain_copy"}, {"t6_swizzles_differ"})
