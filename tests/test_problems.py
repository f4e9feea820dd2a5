"""The table of problems: its tensors, its inputs and its values, held against another way to compute them."""

import re

import pytest
import torch

from course_utils import attention as attention_module
from course_utils.artifact import Artifact, Resources
from course_utils.cause import Cause
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.grading import words as sentences
from course_utils.problems import GROUP_ROWS, PROBLEMS, SCALED
from course_utils.run import reference, trial

SIZES = {"M, N, K": (1024, 256, 256), "M, N": (32, 256), "*shape": (4, 8, 16)}
SIZES["batch, M, N, K"] = (3, 200, 256, 256)
SIZES["batch, sequence_q, sequence_k, heads, kv_heads, D"] = (2, 40, 72, 6, 2, 96)
ATTENTION = [kind for kind in PROBLEMS if "attention" in kind]


def said(found):
    """The causes of a trial, in words."""
    return sentences.text(*found.touched, *found.found.causes)


def artifact(problem, size=None):
    tensors = problem.tensors(*(size or SIZES[problem.takes]))
    launch = {"grid": (1, 1, 1), "block": (128, 1, 1), "cluster": (1, 1, 1), "dynamic_shared": 0}
    resources = Resources(32, 0, 0, 0, 0)
    return Artifact("python", "main", "", b"", **launch, parameters=(), tensors=tensors, resources=resources)


def right(kind, tensors):
    """What each problem is, in fp32 and in its own words."""
    wide = {name: tensor.float() for name, tensor in tensors.items()}
    if kind == "fp8 with scales":
        A, B = wide["A"].unflatten(1, (-1, SCALED)), wide["B"].unflatten(1, (-1, SCALED))
        blocks = torch.einsum("mbk,nbk->bmn", A, B).unflatten(2, (-1, SCALED))
        scales = torch.einsum("mb,nb->bmn", wide["scale_A"], wide["scale_B"])
        return {"D": (blocks * scales[..., None]).sum(0).flatten(1)}
    if kind == "batch":
        return {"D": torch.einsum("bmk,bnk->bmn", wide["A"], wide["B"])}
    if PROBLEMS[kind].any_shape:
        return {"Y": tensors["X"]}
    if kind == "softmax of rows":
        e = (wide["X"] - wide["X"].amax(1, keepdim=True)).exp()
        return {"Y": e / e.sum(1, keepdim=True)}
    if kind in ATTENTION:
        return {"O": by_tiles(kind, *[tensors[name] for name in "QKV"])}
    if kind.startswith("scores of heads"):
        Q, K = wide["Q"].unflatten(2, (2, 3)), wide["K"]  # three heads of Q share one of K
        return {"S": 0.125 * torch.einsum("bqgid,bkgd->bgiqk", Q, K).flatten(1, 2)}
    A, B = wide["A"], wide["B"]
    if kind == "groups":
        at = tensors["offsets"].tolist()
        return {"D": torch.cat([A[at[g] : at[g + 1]] @ B[g].T for g in range(4)])}
    D = torch.einsum("mk,kn->mn" if kind == "B K x N" else "mk,nk->mn", A, B)
    if kind == "bias and relu":
        D = torch.where(D + wide["bias"] > 0, D + wide["bias"], 0)
    return {name: D for name in tensors if name.startswith("D")}


def by_tiles(kind, Q, K, V, block=24, subtracted=True, rescaled=True, ulp=0):
    """Attention by an online softmax in fp32 with P as a kernel rounds it, a tile of keys at a time; each
    weight of a tile is off by ``ulp``, of the next by as much the other way.
    """
    group = Q.shape[2] // K.shape[2]
    q = Q.float().transpose(1, 2)
    k, v = (one.float().transpose(1, 2).repeat_interleave(group, 1) for one in (K, V))
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    seen = j <= i + (k.shape[2] - q.shape[2]) if "causal" in kind else torch.ones(len(i), len(j)).bool()
    top, total = torch.full_like(q[..., :1], -torch.inf), torch.zeros_like(q[..., :1])
    O = torch.zeros_like(q)  # noqa: E741
    for at in range(0, len(j), block):
        tile = slice(at, at + block)
        s = (q @ k[:, :, tile].mT / Q.shape[-1] ** 0.5).masked_fill(~seen[:, tile], -torch.inf)
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        base = torch.where(new == -torch.inf, 0, new) if subtracted else torch.zeros_like(new)
        p = (s - base).exp() * (1 + ulp * 2.0**-23)
        scale = (top - base).exp() if rescaled else torch.ones_like(top)
        total, top = total * scale + p.sum(-1, keepdim=True), new if subtracted else torch.zeros_like(new)
        O, ulp = O * scale + p.to(Q.dtype).float() @ v[:, :, tile], -ulp  # noqa: E741
    return (O / torch.where(total == 0, 1, total)).transpose(1, 2)


def tried(kind, launch, size=None, **options):
    generator = torch.Generator().manual_seed(1)
    return trial.tried(kind, artifact(PROBLEMS[kind], size), generator, launch, "cpu", **options)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_right_values_pass_and_others_do_not(kind):
    def launch(tensors):
        for name, values in right(kind, tensors).items():
            tensors[name].copy_(values)

    def spoiled(tensors):
        launch(tensors)
        output = list(tensors.values())[-1]
        if PROBLEMS[kind].any_shape:  # torch subtracts no fp8
            reference.bits(output).view(-1)[5] ^= 1
        else:
            output.view(-1)[5] = 3.0 - output.view(-1)[5]

    assert tried(kind, launch).ok
    found = tried(kind, spoiled)
    assert not found.ok and found.found.wrong == 1
    assert not tried(kind, lambda tensors: None).ok


@pytest.mark.parametrize(
    "kind, case, values",
    [(name, case, values) for name, problem in PROBLEMS.items() for case, values in problem.mistaken],
)
def test_a_usual_mistake_is_told_by_its_values(kind, case, values):
    def launch(tensors):
        *inputs, output = tensors.values()
        output.copy_(values(*inputs))

    assert case in {cause.case for cause in tried(kind, launch).found.causes}


def test_an_input_that_was_written_is_told_whatever_its_type():
    def launch(tensors):
        tensors["D"].copy_(right("groups", tensors)["D"])
        tensors["offsets"][1] += 1

    assert tried("groups", launch).touched == (Cause("memory", "input-changed", {"tensor": "offsets"}),)


def test_offsets_are_fresh_ascend_and_are_multiples_of_a_tile():
    problem = PROBLEMS["groups"]
    tensors = problem.tensors(1536, 128, 64)
    generator = torch.Generator().manual_seed(0)
    drawn = [problem.draw(tensors[2], tensors, generator, "cpu").tolist() for _ in range(20)]
    assert all(one == sorted(one) and (one[0], one[-1]) == (0, 1536) for one in drawn)
    assert all(row % GROUP_ROWS == 0 for one in drawn for row in one) and len(set(map(tuple, drawn))) > 10


def test_a_signature_in_words():
    assert PROBLEMS["gemm"].signature((1, 1, 1)) == "three tensors, A, B and D"
    assert PROBLEMS["groups"].signature((1, 1, 1)) == "four tensors, A, B, offsets and D"


def test_fp32_that_was_bf16_is_not_fp32():
    def launch(tensors):
        values = right("D in two types", tensors)["D_fp32"].bfloat16()
        tensors["D_fp32"].copy_(values.float())
        tensors["D_bf16"].copy_(values)

    assert "rounded before D_fp32" in said(tried("D in two types", launch))


@pytest.mark.parametrize("start", [None, 0.0, -1000.0, -10000.0])
def test_a_softmax_needs_the_largest_number_of_each_row_searched_for_from_minus_infinity(start):
    """``start`` None subtracts nothing."""

    def launch(tensors):
        X = tensors["X"].float()
        top = 0 if start is None else X.amax(1, keepdim=True).clamp(min=start)
        e = (X - top).exp()
        tensors["Y"].copy_(e / e.sum(1, keepdim=True))

    told = said(tried("softmax of rows", launch))
    assert re.match(r"Row \d+ is NaN: is its largest number subtracted before exp", told)


def test_bf16_that_was_fp16_is_told():
    def launch(tensors):
        values = right("D in two types", tensors)["D_fp32"]
        tensors["D_fp32"].copy_(values)
        tensors["D_bf16"].copy_(values.half())

    assert "rounded to fp16, whose largest" in said(tried("D in two types", launch))


def test_what_a_tensor_core_rounds_is_right_and_one_sum_of_all_of_k_is_not():
    """14 bits of each block's sum, as an H200 keeps them; and the block scales of another block."""
    kind, rough = "fp8 with scales", 2.0**-13

    def rounded(tensors):
        D = right(kind, tensors)["D"]
        tensors["D"].copy_(D * (1 + rough) + 0.03)

    def first_scales(tensors):
        one = {name: tensor[:, :1].expand_as(tensor) for name, tensor in tensors.items() if "scale" in name}
        tensors["D"].copy_(right(kind, tensors | one)["D"])

    assert tried(kind, rounded).ok
    assert "scales of the first one" in said(tried(kind, first_scales))


def test_scales_differ_from_block_to_block_and_are_no_powers_of_two():
    problem = PROBLEMS["fp8 with scales"]
    A, _, scale_A, *_ = tensors = problem.tensors(256, 256, 512)
    generator = torch.Generator().manual_seed(0)
    scales = problem.draw(scale_A, tensors, generator, "cpu")
    assert scales.shape == (256, 4) and 0.5 <= scales.min() < 0.6 < 1.7 < scales.max() <= 2
    assert (scales[:, 0] != scales[:, 1]).all() and (torch.frexp(scales)[0] != 0.5).all()
    values = problem.draw(A, tensors, generator, "cpu")
    assert values.dtype == torch.float8_e4m3fn and values.float().isfinite().all()


def attention(kind, **options):
    """A launch that leaves what ``by_tiles`` computes."""

    def launch(tensors):
        tensors["O"].copy_(by_tiles(kind, *[tensors[name] for name in "QKV"], **options))

    return launch


@pytest.mark.parametrize("kind", ATTENTION)
@pytest.mark.parametrize(
    "size",
    [
        (1, 1, 1, 1, 1, 64),
        (1, 1, 300, 2, 1, 96),
        (2, 77, 203, 4, 2, 128),
        (1, 90, 33, 2, 2, 64),  # a causal query without a key
        (1, 512, 2048, 1, 1, 128),
    ],
    ids=str,
)
def test_attention_with_a_rounded_p_is_right_at_any_length(kind, size):
    found = tried(kind, attention(kind), size)
    assert found.ok, said(found)


def test_attention_may_have_the_error_of_ex2_that_the_isa_allows():
    assert tried("attention", attention("attention", ulp=2), (1, 96, 300, 2, 1, 128)).ok


@pytest.mark.parametrize("kind", ATTENTION)
def test_attention_needs_its_maximum_and_every_rescale(kind):
    size = 1, 96, 160, 2, 1, 64
    assert "is its largest number subtracted before exp" in said(
        tried(kind, attention(kind, subtracted=False), size)
    )
    assert not tried(kind, attention(kind, rescaled=False), size).ok


@pytest.mark.parametrize("keys", [160, 2048])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_key_too_many_or_too_few_is_seen_in_each_fourth_query(dtype, keys):
    """A mask off by one changes few weights at a long sequence: inputs give these keys half of all weight."""
    tensors = attention_module.tensors(1, 256, keys, 1, 1, 64, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    given = [attention_module.draw(True)(one, tensors, generator, "cpu") for one in tensors[:3]]
    sees = attention_module.up_to_its_place
    right, bound = attention_module.attend(sees)(*given), attention_module.allowed(sees)(*given)
    for case, values in attention_module.mistaken(True):
        if case.startswith("mask-a-key"):
            off = ((values(*given) - right).abs() > 4 * bound).any(-1).float().mean()
            assert off > 0.2, (case, off)


def test_a_tolerance_of_attention_grows_with_d_and_is_smaller_where_many_keys_share_the_weight():
    bounds = {}
    for D, keys in ((64, 64), (128, 64), (64, 4096)):
        tensors = attention_module.tensors(1, 64, keys, 1, 1, D)
        ones = [torch.ones(tensor.shape, dtype=torch.float16) for tensor in tensors[:3]]
        bounds[D, keys] = float(attention_module.allowed(attention_module.all_keys)(*ones).max())
    assert bounds[64, 64] < bounds[128, 64] < 1.5 * bounds[64, 64]
    assert bounds[64, 64] / 9 < bounds[64, 4096] < bounds[64, 64] / 4  # as the root of the number of keys


@pytest.mark.parametrize(
    "size, says",
    [
        ((1, 0, 5, 2, 1, 64), r"sequence_q = 0: .* The shortest is 1"),
        ((1, 5, 0, 2, 1, 64), r"sequence_k = 0: .* The shortest is 1"),
        ((1, 5, 5, 2, 1, 72), r"D = 72: .* The nearest is 96: pad Q, K and V to 96"),
        ((1, 5, 5, 2, 1, 256), r"D = 256: .* The nearest is 128: use D = 128"),
        ((1, 5, 5, 6, 4, 64), r"6 heads of Q cannot share 4 heads .* nearest number .* is 3"),
        ((1, 5, 5, 2, 0, 64), r"2 heads of Q cannot share 0 heads .* nearest number .* is 1"),
        ((1, 5, 5, 2, 1, 64, 132), r"132 elements apart are 264 bytes .* pad rows to 136 elements"),
    ],
)
def test_an_attention_that_no_kernel_takes_is_refused_with_the_nearest_legal(size, says):
    with pytest.raises(ValueError, match=says):
        attention_module.require_attention(*size)


@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
def test_a_factory_is_not_called_for_a_size_that_is_refused(dsl):
    with pytest.raises(CompileError, match="D = 72: .* The nearest is 96"):
        compile_factory(lambda *size: 1 / 0, dsl, (1, 5, 5, 2, 1, 72), "attention")


def test_an_attention_of_one_query_and_one_key_is_legal():
    attention_module.require_attention(1, 1, 1, 4, 2, 96)
