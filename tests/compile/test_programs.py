"""Programs of two kernels as their launches; and what a TileLang host function is read for."""

import pytest
import torch

from course_utils.compile.errors import CompileError
from course_utils.compile.programs import _Host, _Unknown
from course_utils.grading import against

TWO_KERNELS = """
import tilelang.language as T


def kernel():
    @T.prim_func
    def twice(X: T.Tensor((128,), T.float32), Y: T.Tensor((128,), T.float32)):
        half = T.alloc_global((128,), T.float32)
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                half[i] = X[i] * 2.0
        with T.Kernel(2, threads=64) as block:
            for i in T.Parallel(64):
                Y[block * 64 + i] = half[block * 64 + i] + {added}

    return twice
"""


TWO_IN_CUTE = """
import cutlass
import cutlass.cute as cute


@cute.kernel
def twice(X: cute.Tensor, H: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    H[block * 64 + thread] = X[block * 64 + thread] * cutlass.Float32(2)


@cute.kernel
def backwards(H: cute.Tensor, Y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    Y[thread] = H[127 - thread] + cutlass.Float32({added})


def kernel():
    @cute.jit
    def main(X: cute.Tensor, H: cute.Tensor, Y: cute.Tensor):
        twice(X, H).launch(grid=(2, 1, 1), block=(64, 1, 1))
        backwards(H, Y).launch(grid=(1, 1, 1), block=(128, 1, 1))

    return main
"""


@pytest.mark.parametrize("added, right", [("1.0", True), ("1.5", False)])
def test_a_cute_program_of_two_kernels_runs_one_after_the_other(tmp_path, added, right):
    path = tmp_path / "twice.py"
    path.write_text(TWO_IN_CUTE.format(added=added))
    x = torch.arange(128, dtype=torch.float32)
    reference = against.Reference({"X": x}, {"H": 2 * x, "Y": (2 * x).flip(0) + 1})
    artifacts = against.compiled(path, reference)
    assert [(a.grid[0], a.block[0]) for a in artifacts] == [(2, 64), (1, 128)]
    assert ["twice" in a.kernel for a in artifacts] == [True, False]
    assert [[p.tensor for p in a.parameters] for a in artifacts] == [["X", "H"], ["H", "Y"]]
    assert against.compiled(path, reference) == artifacts  # out of the cache
    told = against.run(artifacts, reference, 0)
    assert told.ok is right
    assert right or [text.partition(":")[0] for text in told.wrong] == ["Y is wrong"]


@pytest.mark.parametrize("added, right", [("1.0", True), ("1.5", False)])
def test_a_program_of_two_kernels_keeps_what_lies_between_them(tmp_path, added, right):
    path = tmp_path / "twice.py"
    path.write_text(TWO_KERNELS.format(added=added))
    x = torch.arange(128, dtype=torch.float32)
    reference = against.Reference({"X": x}, {"Y": 2 * x + 1})
    artifacts = against.compiled(path, reference)
    assert [a.grid[0] for a in artifacts] == [1, 2] and len({a.kernel for a in artifacts}) == 2
    told = against.run(artifacts, reference, 0)
    assert told.ok is right
    assert right or told.wrong == [
        "Y is wrong: 128 of 128 elements. [0] is 1.5 and must be 1; [1] is 3.5 and must be 3; "
        "[2] is 5.5 and must be 5"
    ]


FLAT = """
import tilelang.language as T


def kernel():
    @T.prim_func
    def flat(X: T.Tensor((4, 32), T.float32), Y: T.Tensor((4, 32), T.float32)):
        with T.Kernel(2, threads=64) as block:
            x, y = T.reshape(X, (128,)), T.reshape(Y, (128,))
            i = block * 64 + T.get_thread_binding()
            y[i] = x[127 - i]

    return flat
"""


def test_a_reshaped_argument_is_its_tensor(tmp_path):
    path = tmp_path / "flat.py"
    path.write_text(FLAT)
    x = torch.arange(128, dtype=torch.float32).reshape(4, 32)
    reference = against.Reference({"X": x}, {"Y": x.flip(0, 1)})
    (artifact,) = against.compiled(path, reference)
    assert {parameter.tensor for parameter in artifact.parameters} == {"X", "Y"}
    assert against.run([artifact], reference, 0).ok


def test_the_host_function_is_read_with_the_values_of_a_call():
    from tilelang import tvm

    host = _Host({}, (), {"m": 1000, "few": -7, "scale": 0.5})
    size, few, other = (tvm.tirx.Var(name, "int64") for name in ("m", "few", "n"))
    scale = tvm.tirx.Var("scale", "float32")
    for expression, value in (
        (tvm.tirx.floordiv(size + 63, 64), 16),
        (tvm.tirx.floordiv(few, 2), -4),
        (tvm.tirx.truncmod(few, 2), -1),
        (tvm.tirx.Select(size < 64, other, tvm.tirx.const(64, "int64")), 64),
        (tvm.tirx.if_then_else(size > 64, size >> 3, other), 125),
        (tvm.tirx.likely(tvm.tirx.all(size > 1, few < 0)), 1),
        (tvm.tirx.Cast("int32", tvm.tirx.max(size, few)), 1000),
        (scale * 3, 1.5),
        (tvm.tirx.StringImm("name"), "name"),
        (7, 7),
    ):
        assert host.value(expression) == value, expression
    with pytest.raises(_Unknown, match="n"):
        host.value(size + other)
    with pytest.raises(CompileError, match="a size is n, which the host function does not tell"):
        host.number(other, "a size")
