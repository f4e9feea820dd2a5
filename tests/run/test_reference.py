"""What passes as a right D, what does not, and that each way to be wrong is described in its own words."""

import math

import pytest
import torch

from course_utils.grading import words as sentences
from course_utils.problems import numbered
from course_utils.run.reference import (
    NORM,
    POISON,
    RELATIVE,
    TILE,
    compare,
    compare_copy,
    compare_values,
    inputs,
    reference,
)


def said(found):
    """The causes of a comparison, in words."""
    return sentences.text(*found.causes)


def operands(M, N, K):
    return inputs(M, N, K, torch.Generator().manual_seed(K), "cpu")


def product(A, B):
    """A @ B^T in fp32."""
    return A.float() @ B.float().T


def part(k, count=1):
    """A @ B^T over ``count`` K tiles from the kth alone."""
    columns = slice(k * TILE, (k + count) * TILE)
    return product(A[:, columns], B[:, columns])


def add_up(A, B, dtype, chunk=16):
    """The sum over K as wgmma forms it, ``chunk`` columns at a time, with an accumulator of ``dtype``."""
    acc = torch.zeros(A.shape[0], B.shape[0], dtype=dtype)
    for k in range(0, A.shape[1], chunk):
        acc = (acc.float() + product(A[:, k : k + chunk], B[:, k : k + chunk])).to(dtype)
    return acc.half()


M, N, K = 256, 384, 512
A, B = operands(M, N, K)
RIGHT = product(A, B).half()


def unwritten(rows, columns):
    D = RIGHT.clone()
    D.view(torch.int16)[rows, columns] = POISON
    return D


def changed(rows, columns, value):
    D = RIGHT.clone()
    D[rows, columns] = value
    return D


def test_what_is_wrong_of_a_few_tiles_is_counted_among_those():
    """The CTAs that ran wrote two tiles, and one of them is wrong: half, whatever D's size is."""
    D = RIGHT.clone()
    D.view(torch.int16)[:] = POISON
    D[:TILE, : 2 * TILE] = RIGHT[:TILE, : 2 * TILE]
    D[:TILE, :TILE] = 0.5
    found = said(compare(D, A, B, partial=True))
    assert f"of {2 * TILE * TILE:,} elements are wrong (50%)" in found
    assert f"in 1 of the 2 tiles of {TILE} x {TILE} that ran." in found
    D[:TILE, :TILE] = RIGHT[:TILE, :TILE]
    D[3, 5] = 100
    assert f"1 of {2 * TILE * TILE:,} elements are wrong" in said(compare(D, A, B, partial=True))
    D[:TILE, : 2 * TILE] = torch.randn(TILE, 2 * TILE, generator=torch.Generator().manual_seed(1)).half()
    assert "Every tile is wrong" in said(compare(D, A, B, partial=True))


def assert_wrong(D, words, a=A, b=B):
    """D is refused, and its words have every one of ``words``."""
    found = compare(D, a, b)
    assert not found.ok
    missing = [word for word in words if word not in said(found)]
    assert not missing, f"{missing} not in: {said(found)}"
    return found


def test_of_a_few_ctas_only_what_they_wrote_is_judged_and_its_place_is_told():
    tile = torch.full((M, N), POISON, dtype=torch.int16).view(torch.float16)
    assert not compare(tile, A, B, partial=True).ok
    tile[64:128, 128:192] = RIGHT[64:128, 128:192]
    tile[192:, 320:] = RIGHT[192:, 320:]
    found = compare(tile, A, B, partial=True)
    assert found.ok and (found.wrong, found.unwritten) == (0, 0) and 0 < found.relative_norm < NORM
    assert not compare(tile, A, B).ok
    tile[200, 330] = 0
    found = compare(tile, A, B, partial=True)
    assert not found.ok and found.wrong == 1 and "row 200" in said(found)


@pytest.mark.parametrize("rows", [128, 256])  # few of D's, or all
@pytest.mark.parametrize("value", [None, 0.0, math.nan])
def test_values_of_a_few_ctas_are_judged_by_what_they_wrote(rows, value):
    some = torch.full((M, N), POISON, dtype=torch.int16).view(torch.float16)
    assert not compare_values(some, product(A, B), 2.0**-20 * K, partial=True).ok
    some[:rows, 128:192] = RIGHT[:rows, 128:192]
    if value is not None:
        some[77, 130] = value
    before = some.clone()
    found = compare_values(some, product(A, B), 2.0**-20 * K, partial=True)
    assert (found.ok, found.wrong, found.unwritten) == (value is None, int(value is not None), 0)
    assert found.relative_norm > 0 if value is None else "row 77" in said(found)
    assert torch.equal(some.view(torch.int16), before.view(torch.int16))


def test_inputs_are_standard_normal_fp16_and_fresh():
    generator = torch.Generator().manual_seed(1)
    first, again = inputs(64, 128, 256, generator, "cpu"), inputs(64, 128, 256, generator, "cpu")
    assert [t.shape for t in first] == [(64, 256), (128, 256)]
    assert {t.dtype for t in first} == {torch.float16}
    assert abs(float(first[1].float().std()) - 1) < 0.02 and abs(float(first[1].float().mean())) < 0.02
    assert not torch.equal(first[0], again[0])


def test_reference_is_exact_to_fp64_on_a_cpu():
    assert reference(A, B).dtype == torch.float64
    assert torch.equal(reference(A, B), A.double() @ B.double().T)


@pytest.mark.parametrize("k", [64, 128, 320, 576, 1088, 2048, 4096, 8192])
def test_right_result_passes_with_margin(k):
    a, b = operands(128, 192, k)
    found = compare(add_up(a, b, torch.float32), a, b)
    assert found.ok and (found.wrong, found.unwritten, found.causes) == (0, 0, ())
    assert found.relative_norm < 0.75 * NORM
    assert 0 < found.max_error < 1


@pytest.mark.parametrize("k", [64, 128, 320, 1088, 4096, 8192])
def test_fp16_accumulation_is_refused_for_its_accumulator(k):
    a, b = operands(128, 192, k)
    found = assert_wrong(add_up(a, b, torch.float16), ["accumulator", "small everywhere"], a, b)
    assert found.relative_norm > NORM


def test_bf16_accumulation_is_refused_for_its_accumulator():
    assert_wrong(add_up(A, B, torch.bfloat16, chunk=K), ["accumulator"])  # a single rounding to 8 bits


def test_error_within_rounding_passes():
    exact = reference(A, B)
    assert compare((exact * (1 + RELATIVE / 8)).half(), A, B).ok
    assert compare((exact + 2.0**-14).half(), A, B).ok


def test_errors_just_past_rounding_are_refused():
    assert not compare((reference(A, B) * (1 + RELATIVE)).half(), A, B).ok
    one_ulp = torch.ones_like(RIGHT, dtype=torch.int16)
    one_ulp[:, ::2] = -1
    assert_wrong((RIGHT.view(torch.int16) + one_ulp).view(torch.float16), ["accumulator"])


def test_one_wrong_element_is_refused():
    found = assert_wrong(changed(5, 7, RIGHT[5, 7] + 3), ["1 of 98,304 elements", "row 5"])
    assert (found.wrong, found.unwritten) == (1, 0)
    assert found.max_error == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "rows, columns",
    [(5, 7), (slice(64, 128), slice(0, 64)), (slice(None), slice(None))],
    ids=["element", "tile", "all"],
)
def test_nan_and_inf_never_pass(value, rows, columns):
    D = changed(rows, columns, value)
    found = assert_wrong(D, [f"{int((~torch.isfinite(D)).sum()):,} of 98,304 elements"])
    assert found.unwritten == 0
    assert ("NaN" in said(found)) == math.isnan(value)
    assert "never written" not in said(found)


def test_a_d_smaller_than_a_tile_has_no_count_of_tiles():
    D = RIGHT[:48].clone()
    D[:8] += 1
    found = assert_wrong(D, ["in rows 0..7, columns 0..383"], A[:48])
    assert "0 of 0" not in said(found)


def test_nan_in_an_input_never_passes():
    poisoned = A.clone()
    poisoned[3, 3] = math.nan
    assert not compare(product(poisoned, B).half(), poisoned, B).ok


def test_unwritten_is_told_from_computed_nan():
    D = unwritten(slice(0, 64), slice(64, 128))
    D[128:192, 0:64] = math.nan
    found = assert_wrong(
        D,
        [
            "4,096 of 98,304 elements were never written, in rows 0..63, columns 64..127",
            "4,096 others are wrong, in rows 128..191, columns 0..63",
            "4,096 are NaN",
            "rows 0..63, columns 64..127",
        ],
    )
    assert (found.wrong, found.unwritten) == (8192, 4096)


def test_poison_is_a_nan_that_no_arithmetic_makes():
    poison = torch.tensor([POISON], dtype=torch.int16).view(torch.float16)
    assert torch.isnan(poison).all()
    zero, inf = torch.zeros(1, dtype=torch.float16), torch.full((1,), math.inf, dtype=torch.float16)
    for computed in (zero / zero, inf - inf, inf * zero, torch.tensor([math.nan]).half()):
        assert int(computed.view(torch.int16)) != POISON


def test_nothing_written():
    found = assert_wrong(unwritten(slice(None), slice(None)), ["wrote no element"])
    assert (found.wrong, found.unwritten, found.relative_norm) == (M * N, M * N, math.inf)


def test_skipped_tile():
    found = assert_wrong(
        unwritten(slice(128, 256), slice(256, 384)),
        [
            "16,384 of 98,304 elements were never written",
            "rows 128..255, columns 256..383",
            "4 of 24 tiles of 64 x 64",
            "Whole tiles are missing",
        ],
    )
    assert found.unwritten == found.wrong == 128 * 128


def test_half_of_each_tile_not_stored():
    right_half = torch.arange(N) % TILE >= TILE // 2
    assert_wrong(
        unwritten(slice(None), right_half), ["never written", "24 of 24 tiles", "Parts of tiles are missing"]
    )


@pytest.mark.parametrize("k", [0, 3, K // TILE - 1])
def test_missing_k_tile(k):
    assert_wrong(
        (product(A, B) - part(k)).half(),
        [f"without K tile {k}:", f"the exact sum of its {K // TILE} K tiles"],
    )


@pytest.mark.parametrize("k", [0, 3, K // TILE - 1])
def test_k_tile_used_twice(k):
    assert_wrong((product(A, B) + part(k)).half(), [f"with K tile {k} (2 times)", "D[0:64, 0:64]"])


def test_k_tile_in_place_of_another():
    assert_wrong(
        (product(A, B) + part(4) - part(5)).half(), ["without K tile 5, and with K tile 4 (2 times)"]
    )


def test_k_story_is_of_a_tile_that_is_wrong():
    D = RIGHT.clone()
    D[128:192, 64:] = (product(A, B) + part(3)).half()[128:192, 64:]
    assert_wrong(
        D,
        ["rows 128..191, columns 64..383", "5 of 24 tiles", "D[128:192, 64:128]", "with K tile 3 (2 times)"],
    )


def test_sum_goes_on_from_the_tile_before():
    D = RIGHT.clone()
    D[64:] += RIGHT[:-64]
    found = assert_wrong(
        D, ["its own sum and A[0:64] @ B[0:64]^T", "a former tile's sum was not cleared", "rows 64..255"]
    )
    assert "K tile" not in said(found)


def test_tile_of_another_place():
    D = changed(slice(128, 192), slice(64, 128), RIGHT[:64, :64])
    assert_wrong(D, ["1 of 24 tiles", "rows 128..191, columns 64..127"])


@pytest.mark.parametrize(
    "rows, columns, words",
    [
        (17, slice(None), "all in row 17."),
        (slice(17, 19), slice(None), "all in rows 17, 18."),
        (slice(None), 30, "all in column 30."),
        (slice(None), slice(30, 32), "all in columns 30, 31."),
    ],
)
def test_wrong_rows_and_columns(rows, columns, words):
    D = changed(rows, columns, RIGHT[rows, columns] + 2)
    assert_wrong(D, [words, "one thread's or one warp's part", "missing wait or fence"])


def test_transposed_output():
    a, b = operands(256, 256, 320)
    assert_wrong(
        product(b, a).half(),
        ["16 of 16 tiles", "holds its own product, transposed: are the two operands"],
        a,
        b,
    )
    tiles = product(a, b).half().reshape(4, TILE, 4, TILE).permute(0, 3, 2, 1).reshape(256, 256)
    assert_wrong(tiles, ["holds its own product, transposed"], a, b)


def test_one_k_tile_only():
    a, b = operands(128, 192, 64)
    assert compare(product(a, b).half(), a, b).ok
    half = product(a[:, :32], b[:, :32]).half()
    found = assert_wrong(half, ["6 of 6 tiles", "columns 0:16 and 16:32 of each 64 of K alone"], a, b)
    assert "K tile" not in said(found)
    assert_wrong(torch.zeros(128, 192, dtype=torch.float16), ["6 of 6 tiles"], a, b)


@pytest.mark.parametrize("D", [0 * RIGHT, 2 * RIGHT, -RIGHT], ids=["zeros", "doubled", "negated"])
def test_nothing_else_of_the_right_size_passes(D):
    found = assert_wrong(D, ["24 of 24 tiles"])
    assert found.relative_norm > 0.9


def test_sizes_that_no_tile_divides():
    a, b = operands(100, 72, 96)
    right = product(a, b).half()
    assert compare(right, a, b).ok
    wrong = right.clone()
    wrong[97:] = 3
    assert assert_wrong(wrong, ["rows 97..99"], a, b).wrong > 200


def test_values_that_name_their_cause():
    product_of = {
        (i, j): RIGHT[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
        for i in range(2)
        for j in range(3)
    }

    def own(a, b):
        return (a[:TILE].float() @ b[:TILE].float().T).half()

    last = (A[:, -16:].float() @ B[:, -16:].float().T).half()[:TILE, :TILE]
    for value, words in (
        (product_of[1, 2], "D[0:64, 0:64] holds A[64:128] @ B[128:192]^T: wrong coordinates"),
        (product_of[0, 0] + product_of[0, 1], "its own sum and A[0:64] @ B[64:128]^T: a former tile's sum"),
        (product_of[0, 1], "holds A[0:64] @ B[64:128]^T: these rows of B belong to another tile"),
        (product_of[1, 0], "holds A[64:128] @ B[0:64]^T: these rows of A belong to another tile"),
        (product_of[0, 0].T, "holds its own product, transposed"),
        (product_of[0, 1].T, "holds A[0:64] @ B[64:128]^T, transposed"),
        (own(A, A), "A's tile lies where B's belongs, or B's was never copied"),
        (own(B, B), "B's tile lies where A's belongs, or A's was never copied"),
        (4 * own(A[:, 16:32], B[:, 16:32]), "holds the same 16 columns of K, 16:32, 4 times"),
        (own(A[:, 64:], B[:, :-64]), "columns 64:128 of A are multiplied by columns 0:64 of B"),
        (own(A[:, :64], B[:, 64:128]), "columns 0:64 of A are multiplied by columns 64:128 of B"),
        (last, "holds the last 16 columns of K alone: the accumulate flag was never set"),
    ):
        assert_wrong(changed(slice(0, TILE), slice(0, TILE), value), [words])


def test_values_of_no_known_cause_are_left_to_their_pattern():
    noise = torch.randn(TILE, TILE, generator=torch.Generator().manual_seed(1)).half()
    found = assert_wrong(changed(slice(0, TILE), slice(0, TILE), noise), ["Some tiles are wholly wrong"])
    assert "Tile (" not in said(found)


@pytest.mark.parametrize(
    "missing, words",
    [
        ([0, 1, 2, 3, 4, 5, 6], "every round overwrote the sum"),
        ([7], "the loop ends too early"),
        ([6, 7], "the loop ends too early"),
        ([0], "the loop begins too late, or a later round overwrote the sum"),
        ([3], "a tile was read too early, too late or not at all"),
    ],
)
def test_k_tiles_that_miss_name_their_cause(missing, words):
    assert_wrong((product(A, B) - sum(part(k) for k in missing)).half(), [words])


def test_one_k_tile_in_every_round():
    assert_wrong(
        (8 * part(0)).half(), ["and with K tile 0 (8 times): every round multiplied the same columns"]
    )


@pytest.mark.parametrize(
    "rows, columns, words",
    [
        (M, 192, "D[0:256, 0:192] alone, of 256 x 384: are x and y of the grid mixed up"),
        (128, 128, "D[0:128, 0:128] alone, of 256 x 384: does every CTA store to its own place"),
        (129, 131, "do slices count elements, where a CTA's index counts tiles?"),
    ],
)
def test_what_alone_was_written_comes_first(rows, columns, words):
    D = unwritten(slice(None), slice(None))
    D[:rows, :columns] = RIGHT[:rows, :columns]
    assert_wrong(D, [words])
    D[:rows, :columns] += 9
    assert said(assert_wrong(D, [words])).startswith("The kernel wrote D[")


def test_what_belongs_elsewhere_names_its_place():
    moved = changed(slice(None), slice(32, 48), RIGHT[:, 96:112])
    words = "D[0:64, 32:48] holds what belongs in columns 96:112: which index slices the accumulator"
    assert said(assert_wrong(moved, [words])).startswith(words)
    moved = changed(slice(80, 96), slice(None), RIGHT[:16])
    assert_wrong(moved, ["D[80:96, 0:64] holds what belongs in rows 0:16"])


def test_slices_stored_over_each_other_are_told_by_what_nobody_wrote():
    D = unwritten(slice(None), slice(64, None))
    D[:, :64] = RIGHT[:, 64:128]
    found = assert_wrong(D, ["D[0:64, 0:64] holds A[0:64] @ B[64:128]^T: that belongs at another place of D"])
    words = "The kernel wrote D[0:256, 0:64] alone, of 256 x 384. D[0:64, 0:64] holds"
    assert "and does it count every slice?" in said(found)
    assert said(found).startswith(words)


def test_a_tile_at_its_mirror_place_is_told_beside_tiles_that_nobody_wrote():
    D = unwritten(slice(None), slice(256, None))
    D[:128, 128:256], D[128:, :128] = RIGHT[128:, :128], RIGHT[:128, 128:256]
    assert_wrong(D, ["D[0:64, 128:192] holds A[128:192] @ B[0:64]^T: D's tile is stored at its mirror place"])


def test_zeros_are_of_an_operand_that_lies_outside_its_tensor():
    zeros = changed(slice(64, 128), slice(0, 64), 0)
    words = "D[64:128, 0:64] holds zeros: no K tile was multiplied, or an operand's tile lies outside"
    assert said(assert_wrong(zeros, [words])).startswith(words)
    assert_wrong(changed(slice(None), slice(256, None), 0), ["holds zeros: A has only 256 rows"])
    found = compare(changed(slice(None), slice(256, None), 0).T, B, A)
    assert "D[256:320, 0:64] holds zeros: B has only 256 rows" in said(found)
    never = assert_wrong(changed(slice(64, 128), slice(0, 63), 0), [])
    assert "zeros" not in said(never)


def test_a_box_of_y_that_was_never_written_is_named():
    X = numbered(8 * 32 * 64, torch.Generator().manual_seed(0), "cpu").view(8, 32, 64)
    Y = X.clone()
    Y.view(torch.int16)[1:8, :, :] = POISON
    assert "these were never written, all of Y[1:8, 0:32, 0:64]." in said(compare_copy(Y, X))
    Y[2, 3, 4] = X[2, 3, 4]
    assert "never written, in Y[1:8, 0:32, 0:64]." in said(compare_copy(Y, X))
    Y[0, 0, 0] = X[0, 0, 1]
    assert "; 14,335 were never written, in Y[1:8, 0:32, 0:64]." in said(compare_copy(Y, X))
    flat = X.reshape(-1).clone()
    flat.view(torch.int16)[5:9] = POISON
    assert "all of Y[5:9]" in said(compare_copy(flat, X.reshape(-1)))


def test_the_first_wrong_element_of_a_copy_is_told_as_an_index():
    X = numbered(8 * 32 * 64, torch.Generator().manual_seed(0), "cpu").view(8, 32, 64)
    Y = X.clone()
    for place in ((1, 2, 3), (5, 6, 7)):
        Y[place] = X[0, 0, 0]
    told = said(compare_copy(Y, X))
    assert told.startswith("2 of 16,384 elements of Y differ from X, the first at [1, 2, 3]")


def test_errors_that_no_element_shows_are_too_large_together():
    """Each is within its bound, and all of them go the same way."""
    A, B = operands(128, 128, 64)
    D = (reference(A, B) * (1 + 0.45 * RELATIVE)).half()
    found = compare(D, A, B)
    assert not found.ok and found.wrong == 0 and found.relative_norm > NORM


@pytest.mark.parametrize("K", [72, 200])
def test_a_last_k_tile_that_is_short_and_left_out_is_told_by_the_values(K):
    A, B = operands(128, 128, K)
    whole = K // 64 * 64
    found = compare(reference(A[:, :whole], B[:, :whole]).half(), A, B)
    assert f"the last K tile is short, {K - whole} columns, and is left out" in said(found)


def test_of_two_mistakes_with_the_wrong_values_the_one_that_leaves_the_others_right_is_told():
    values, other = (torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    some = values.clone()
    some[:16] = other[:16]
    mistakes = [("first-group", lambda: other), ("group-before", lambda: some)]
    for mistaken in (mistakes, mistakes[::-1]):
        found = compare_values(some.half(), values, 1e-3, mistaken=mistaken)
        assert found.causes[0].case == "group-before"
    found = compare_values(some.half(), values, 1e-3, mistaken=mistakes[:1])
    assert found.causes[0].case == "first-group"
