"""What TileLang's compiler infers of a kernel's layouts."""

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.inferred import layouts
from course_utils.compile.load import load_factory, solution_path
from course_utils.drills.layouts import holder
from course_utils.tma.layouts import swizzled


def staged(place):
    import tilelang.language as T

    def annotated(A_shared):
        if place:
            T.annotate_layout({A_shared: T.Layout((128, 64), place)})

    @T.prim_func
    def main(A: T.Tensor((128, 64), T.float16), D: T.Tensor((128, 64), T.float16)):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((128, 64), T.float16)
            annotated(A_shared)
            T.copy(A, A_shared)
            T.copy(A_shared, D)

    return main


def test_wgmmas_accumulator_and_tiles_are_the_hardwares():
    found = layouts(load_factory(solution_path("step01", "tilelang"))(128, 128, 64))
    assert set(found) == {"A_shared", "B_shared", "acc"}
    for row, column in ((0, 0), (9, 2), (63, 127)):
        (thread,) = found["acc"].map_forward_thread([row, column])
        (register,) = found["acc"].map_forward_index([row, column])
        assert (int(thread), int(register)) == holder(row, column)
        _, atom, inside = map(int, found["A_shared"].map_forward_index([row, column // 2]))
        assert 2 * (512 * atom + inside) == swizzled(128 * row + column // 2 * 2, 3)


def test_an_annotation_is_kept_and_nothing_is_made_up():
    assert layouts(staged(None)) == {}
    found = layouts(staged(lambda i, j: i * 72 + j))
    assert list(found) == ["A_shared"] and int(found["A_shared"].map_forward_index([1, 8])[0]) == 80


def test_a_kernel_that_does_not_lower_is_a_compile_error():
    import tilelang.language as T

    @T.prim_func
    def main(A: T.Tensor((128, 64), T.float16), D: T.Tensor((128, 128), T.float16)):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((128, 64), T.float16)
            T.annotate_layout({A_shared: T.Layout((128, 64), lambda i, j: i * 64 + j)})
            acc = T.alloc_fragment((128, 128), T.float32)
            T.copy(A, A_shared)
            T.wgmma_gemm(A_shared, A_shared, acc, transpose_B=True, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(acc, D)

    with pytest.raises(CompileError, match="Get different layout for A_shared"):
        layouts(main)
