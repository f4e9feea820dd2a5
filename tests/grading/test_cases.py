"""check_copy and check_maps: the path and the bytes of a copy, and tensor maps made legal, each with what is
wrong in words.
"""

from dataclasses import replace

import pytest
import torch

from course_utils.artifact import TensorMap
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.load import load_factory, load_factory_source, load_module, solution_path
from course_utils.grading import steps
from course_utils.grading import words as sentences
from course_utils.grading.copy import check_copy
from course_utils.grading.maps import check_maps, part
from course_utils.problems import COPIES, numbered
from course_utils.run import reference as results
from course_utils.tma.rules import violations

HEAD = "import tilelang.language as T\n\n\ndef gemm(d0, d1, d2):\n    b0, b1, b2 = 2, 16, 64\n\n    @T.prim_func\n"
SIGNATURE = "    def main(X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1, d2), T.float16)):\n"
BODY = """        with T.Kernel(T.ceildiv(d2, b2), d1 // b1, d0 // b0, threads=128) as (bx, by, bz):
            S = T.alloc_shared((b0, b1, b2), T.float16)
            full = T.alloc_barrier(1)
            T.tma_copy(X[bz * b0 : (bz + 1) * b0, by * b1 : (by + 1) * b1, bx * b2 : (bx + 1) * b2], S, barrier=full)
            if T.shuffle_elect(128):
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(S, Y[bz * b0 : (bz + 1) * b0, by * b1 : (by + 1) * b1, bx * b2 : (bx + 1) * b2])
    return main
"""
SOURCE = HEAD + SIGNATURE + BODY
OTHER_TYPES = {"float32": "Float32", "bfloat16": "BFloat16", "float8_e4m3fn": "Float8E4M3FN"}


def checked(source, *edits):
    """The parts of the emulated check of this copy, by name."""
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    verdict = check_copy("t2", load_factory_source(source, "copy"), "tilelang", "emulator")
    return verdict, {part.name: part for part in verdict.checks}


def test_a_right_copy_has_all_points():
    verdict, parts = checked(SOURCE)
    assert verdict.passed and verdict.points == steps.COPY_CASES["t2"].points
    assert (
        "tensor TMA, rank 3" in parts["path"].detail
        and "every element in its place" in parts["results"].detail
    )


@pytest.mark.parametrize("dsl", DSLS)
@pytest.mark.parametrize("dtype, cute", [*OTHER_TYPES.items()])
def test_a_copy_may_have_another_element_type(dsl, dtype, cute):
    """t2's solution with rows of 128 bytes: the same path, and every bit in its place."""
    columns = 128 // getattr(torch, dtype).itemsize
    source = solution_path("t2", dsl).read_text().replace("= 2, 16, 64", f"= 2, 16, {columns}")
    source = source.replace("T.float16", f"T.{dtype}").replace("cutlass.Float16", f"cutlass.{cute}")
    source = source.replace("slabs * rows * columns * 2", "4096")
    verdict = check_copy("t2", load_factory_source(source, "copy", "copy"), dsl, "emulator", dtype=dtype)
    assert verdict.points == 10 and "rank 3: 1" in verdict.checks[2].detail


def test_the_element_type_is_that_of_the_tensors():
    copy = load_factory_source(SOURCE, "copy")
    assert "X is float16; it must be float32" in check_copy("t2", copy, dtype="float32").diagnosis
    refused = check_copy("t2", copy, dtype="half")
    assert refused.max_points == 0 and "no element type of copies" in refused.diagnosis


@pytest.mark.parametrize("dtype", COPIES)
def test_copies_of_every_type_are_compared_bit_by_bit(dtype):
    X = numbered(4096, torch.Generator().manual_seed(0), "cpu", dtype)
    Y = X.clone()
    assert results.compare_copy(Y, X).ok and not results.unwritten_in(X).any()
    results.bits(Y)[7] ^= 1
    assert results.compare_copy(Y, X).wrong == 1


def test_threads_that_copy_lose_the_path_and_keep_the_rest():
    verdict, parts = checked(SOURCE, ("T.tma_copy(X", "T.copy(X"), ("S, barrier=full)", "S)"))
    assert parts["results"].passed
    assert parts["path"].passed is False and "through registers" in parts["path"].detail
    assert verdict.diagnosis.startswith("X, global to shared")


def test_a_tile_in_the_wrong_place_is_told_by_its_index():
    verdict, parts = checked(
        SOURCE,
        (
            "T.copy(S, Y[bz * b0 : (bz + 1) * b0, by * b1 : (by + 1) * b1",
            "T.copy(S, Y[bz * b0 : (bz + 1) * b0, 0 : b1",
        ),
    )
    assert parts["path"].passed and parts["results"].passed is False
    assert (
        "elements of Y differ from X" in parts["results"].card.full_text
        and "never written" in parts["results"].card.full_text
    )


def test_a_copy_that_hangs_is_a_verdict():
    _, parts = checked(
        SOURCE,
        (
            "T.mbarrier_wait_parity(full, 0)",
            "T.mbarrier_wait_parity(full, 1)\n"
            "            T.mbarrier_wait_parity(full, 0)\n            T.mbarrier_wait_parity(full, 1)",
        ),
    )
    assert parts["results"].passed is False and "wait" in parts["results"].card.text
    assert parts["results"].detail == "no end at 8 x 32 x 64"


def test_a_flattened_view_of_the_tensors_is_welcome():
    flat = SIGNATURE.replace("(d0, d1, d2)", "(d0 * d1, d2)")
    body = BODY.replace("bz * b0 : (bz + 1) * b0, by * b1 : (by + 1) * b1", "by * b1 : (by + 1) * b1")
    body = body.replace(
        "(T.ceildiv(d2, b2), d1 // b1, d0 // b0, threads=128) as (bx, by, bz)",
        "(T.ceildiv(d2, b2), d0 * d1 // b1, threads=128) as (bx, by)",
    ).replace("(b0, b1, b2)", "(b1, b2)")
    # a tile that is one piece of memory: tilelang 0.1.15 leaves TMA's map out
    whole_rows = checked(HEAD + flat + body)[1]["path"]
    assert whole_rows.passed is False and "1-D bulk copy" in whole_rows.detail
    assert checked(HEAD.replace("2, 16, 64", "2, 16, 32") + flat + body)[0].passed


@pytest.mark.parametrize(
    "copy, words",
    [
        (None, "copy is NoneType"),
        (lambda d0: 1, "copy(8, 32, 64) raised TypeError"),
        (lambda *shape: 1, "returned int"),
        (lambda *shape: exit(), "sys.exit"),
        (lambda *shape: 1 / 0, "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("dsl", DSLS)
def test_nonsense_is_a_verdict(copy, words, dsl):
    verdict = check_copy("t2", copy, dsl, "emulator")
    assert verdict.points == 0 and words in verdict.diagnosis


@pytest.mark.parametrize(
    "signature, words",
    [
        ("X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1), T.float16)", "Y has shape (8, 32)"),
        ("X: T.Tensor((d0, d1, d2), T.float32), Y: T.Tensor((d0, d1, d2), T.float16)", "X is float32"),
        ("Y: T.Tensor((d0, d1, d2), T.float16)", "two tensors, X and Y"),
    ],
)
def test_a_wrong_signature_is_named(signature, words):
    body = "        with T.Kernel(1, threads=128):\n            T.sync_threads()\n    return main\n"
    _, parts = checked(HEAD + f"    def main({signature}):\n" + body)
    assert parts["compiles"].passed is False and words in parts["compiles"].card.full_text


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("case99", None), "the copies are t2"),
        (([], None), "the copies are t2"),
        (("t2", None, "cuda"), "the course has tilelang, cute"),
        (("t2", None, []), "the course has tilelang, cute"),
        (("t2", None, "cute", "tpu"), "the backends are auto"),
    ],
)
def test_wrong_arguments_are_verdicts(arguments, words):
    verdict = check_copy(*arguments)
    assert verdict.max_points == 0 and words in verdict.diagnosis


def test_without_results_the_path_is_still_judged():
    told = []
    copy = load_factory_source(SOURCE, "copy")
    verdict = check_copy("t2", copy, "tilelang", "compile", on_progress=told.append)
    assert [part.passed for part in verdict.checks] == [True, True, True, None]
    count = len(steps.COPY_CASES["t2"].shapes)
    assert [so_far.doing for so_far in told] == [*(f"compiling {n + 1} of {count}" for n in range(count)), ""]
    assert told[-1].checks[:3] == verdict.checks[:3] and told[-1].checks[3].state == "pending"


def test_copies_are_compared_bit_by_bit():
    X = numbered(4096, torch.Generator().manual_seed(0), "cpu")
    assert results.compare_copy(X.clone(), X).ok
    assert not (X.view(torch.int16) == results.POISON).any()
    Y = X.clone().view(16, 256)
    Y[3, 64:128] = X.view(16, 256)[7, 0:64]
    found = results.compare_copy(Y, X.view(16, 256))
    assert found.wrong == 64 and "[3, 64], which holds what belongs at [7, 0]" in sentences.text(
        *found.causes
    )
    Y.view(torch.int16)[3, 64:128] = results.POISON
    assert "these were never written" in sentences.text(*results.compare_copy(Y, X).causes)


MEND = load_module(solution_path("t1", "maps")).mend
GIVEN = steps.MAP_CASES["t1"].given


def test_given_maps_are_illegal_each_by_another_rule():
    broken = [violations(one) for one in GIVEN]
    assert all(broken) and len({found[0].rule for found in broken}) == len(GIVEN)


def test_mended_maps_have_all_points():
    verdict = check_maps("t1", MEND)
    assert verdict.passed and verdict.points == steps.MAP_CASES["t1"].points


@pytest.mark.parametrize(
    "mend, passed, words",
    [
        (lambda maps: maps, 0, "must be"),
        (lambda maps: MEND(maps)[:-1], 0, "list of 8 maps"),
        (lambda maps: None, 0, "list of 8"),
        (lambda maps: [replace(m, l2_promotion=1) for m in MEND(maps)], 0, "2 fields were changed"),
        (lambda maps: [*MEND(maps)[:-1], 7], 7, "this is int"),
        (lambda maps: [MEND(maps)[0]] * 8, 1, "fields were changed"),
        (lambda maps: [replace(m, box=("a", "b")) for m in maps], 0, "must be an int"),
        (lambda maps: exit(), 0, "SystemExit"),
        (lambda: 1, 0, "TypeError"),
        (3, 0, "not callable"),
    ],
)
def test_what_is_wrong_with_a_mended_map_is_said(mend, passed, words):
    verdict = check_maps("t1", mend)
    assert sum(bool(part.passed) for part in verdict.checks) == passed and words in str(verdict)


@pytest.mark.parametrize("case", ["t2", [], None])
def test_no_case_with_maps_is_said(case):
    assert "the cases with tensor maps are t1" in check_maps(case, MEND).diagnosis


def test_what_a_copy_prints_while_it_is_traced_is_shown():
    gemm = load_factory_source(SOURCE.replace("    b0, b1", "    print('traced')\n    b0, b1"), "prints")
    assert "traced" in check_copy("t2", gemm, "tilelang", "compile").printed


def test_where_tma_is_asked_for_no_map_is_no_legal_map():
    gemm = load_factory(solution_path("step03", "tilelang"))
    artifact = compile_factory(gemm, "tilelang", (256, 512, 320))
    assert part(steps.STEPS["step03"], artifact, False).passed
    found = part(steps.STEPS["step04"], artifact, True)
    assert found.passed is False and found.points == 0 and found.found[0].cause.case == "no-map"


class TwoFaced(TensorMap):
    """A map that is another one each time it is asked."""

    def __getattribute__(self, name):
        return [(64, 128), (64, 512)] if name == "box" else super().__getattribute__(name)


@pytest.mark.parametrize("field, value", [("box", (64, 128.0)), ("box", [64, 128]), ("swizzle", True)])
def test_a_map_is_taken_for_what_it_is(field, value):
    right = load_module(solution_path("t1", "maps")).mend

    def one_changed(maps, change):
        return [change(maps[0]), *maps[1:]]

    wrong = check_maps("t1", lambda maps: one_changed(right(maps), lambda m: replace(m, **{field: value})))
    assert wrong.checks[0].passed is False and "must be an int" in wrong.checks[0].card.text
    two = check_maps("t1", lambda maps: one_changed(right(maps), lambda m: TwoFaced(**vars(m))))
    assert two.checks[0].passed is False and "TwoFaced" in two.checks[0].card.text
    assert two.checks[1].passed
