"""Where the emulator puts each element in tensor memory is where CuTe DSL says that it lies: an oracle that
nobody of this course wrote. A permutation that tcgen05.mma and tcgen05.ld share would not show in numbers.

Nothing of this has run on a Blackwell by us.
"""

import ast
import multiprocessing

import numpy as np
import pytest

from course_utils.chips import BLACKWELL
from course_utils.compile.cute import import_cute
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.tcgen05 import Accumulator, folds, lanes_of_rows
from course_utils.run.emulator.units.tmem import QUARTERS, fragment

# M, N and CTAs of an accumulator
SHAPES = (
    *((128, 128, 1), (128, 256, 1), (64, 128, 1), (64, 256, 1)),
    *((256, 256, 2), (256, 128, 2), (128, 128, 2), (128, 256, 2)),
)
FROM_TMEM = ((128, 128, 1), (64, 128, 1), (256, 256, 2))  # of A in tensor memory
LOADS = ("32x32b", "16x64b", "16x128b", "16x256b")
REPETITIONS = (1, 2, 4, 8)


@pytest.fixture(scope="module")
def cutes():
    """What CuTe DSL says, in a process of its own: this one forks compilers."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_traced)


def _traced():
    cute = import_cute(BLACKWELL)
    import cutlass
    from cutlass.cute.nvgpu import OperandMajorMode, tcgen05

    said, fp16, fp32, k_major = {}, cutlass.Float16, cutlass.Float32, OperandMajorMode.K
    groups = {1: tcgen05.CtaGroup.ONE, 2: tcgen05.CtaGroup.TWO}

    def mma(M, N, ctas, source):
        op = tcgen05.MmaF16BF16Op(fp16, fp32, (M, N, 16), groups[ctas], source, k_major, k_major)
        return cute.make_tiled_mma(op)

    @cute.jit
    def trace():
        for M, N, ctas in SHAPES:
            one = mma(M, N, ctas, tcgen05.OperandSource.SMEM)
            acc = one.make_fragment_C(one.partition_shape_C((M, N)))
            said["D", M, N, ctas] = str(acc.layout)
        for M, N, ctas in FROM_TMEM:
            one = mma(M, N, ctas, tcgen05.OperandSource.TMEM)
            said["A", M, N, ctas] = str(one.make_fragment_A(one.partition_shape_A((M, 16))).layout)
        one = mma(128, 128, 1, tcgen05.OperandSource.SMEM)
        tile = one.make_fragment_C(one.partition_shape_C((128, 128)))[(None, None), 0, 0]
        for shape in LOADS:
            for count in REPETITIONS:
                op = getattr(tcgen05, f"Ld{shape}Op")(getattr(tcgen05.Repetition, f"x{count}"))
                copy = tcgen05.make_tmem_copy(cute.make_copy_atom(op, fp32), tile)
                said[shape, count] = str(copy.layout_dst_tv_tiled)

    trace()
    return said


def evaluated(text):
    """Of a layout ``shape:stride``, the offsets by its first mode's two parts, [first, second]."""
    shape, stride = map(ast.literal_eval, text.split(":"))
    while isinstance(shape[0], tuple) and len(shape) != 2:  # ((M, N), 1, 1)
        shape, stride = shape[0], stride[0]

    def places(shape, stride):
        if not isinstance(shape, tuple):
            return np.arange(shape) * stride
        parts = [places(*one) for one in zip(shape, stride, strict=True)]
        made = parts[0]
        for part in parts[1:]:  # the first mode is the fastest
            made = (part[:, None] + made[None, :]).reshape(-1)
        return made

    first, second = (places(*one) for one in zip(shape, stride, strict=True))
    return first[:, None] + second[None, :]


@pytest.mark.parametrize("M, N, ctas", SHAPES)
def test_an_accumulator_lies_where_cute_says(cutes, M, N, ctas):
    address = evaluated(cutes["D", M, N, ctas])
    width = Accumulator(0, M, N, ctas).width
    rows, columns = lanes_of_rows(M, ctas)[:, None], np.arange(N)[None, :]
    assert address.shape == (M // ctas, N) and width * folds(M, ctas) == N
    assert (address >> 16 == rows + 64 * (columns // width)).all()
    assert (address & 0xFFFF == np.broadcast_to(columns % width, address.shape)).all()


@pytest.mark.parametrize("M, N, ctas", FROM_TMEM)
def test_operand_a_lies_where_cute_says(cutes, M, N, ctas):
    """Its addresses count halves of a column there."""
    address = evaluated(cutes["A", M, N, ctas])
    assert (address // 2 >> 16 == lanes_of_rows(M, ctas)[:, None]).all()
    assert (address & 0x1FFFF == np.arange(16)[None, :]).all()


@pytest.mark.parametrize("shape", LOADS)
@pytest.mark.parametrize("count", REPETITIONS)
def test_a_load_fills_the_registers_that_cute_says(cutes, shape, count):
    """CuTe counts the elements of what four warps load, a warp's the fastest, then lanes, then columns."""
    rows, columns, width = fragment(shape, count)
    number = evaluated(cutes[shape, count])
    height = int(rows.max()) + 1
    threads = np.arange(QUARTERS * LANES)
    assert number.shape == (len(threads), len(rows)) and width == int(columns.max()) + 1
    place = number // QUARTERS
    assert (number % QUARTERS == (threads // LANES)[:, None]).all()
    assert (place % height == rows.T[threads % LANES]).all()
    assert (place // height == columns.T[threads % LANES]).all()
