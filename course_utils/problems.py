"""What a kernel computes: the tensors that a launch gets, as functions of the size, and the values that its
outputs must have.

The compilers ask for the signature, the emulator and the GPU for inputs and values, the timing for what runs
beside a kernel. Each of them takes any row of ``PROBLEMS``; a plain GEMM is the first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from course_utils import attention
from course_utils.artifact import Tensor

if TYPE_CHECKING:
    from torch import Generator
    from torch import Tensor as Values

Others = tuple[Tensor, ...]  # all tensors of a launch

LARGE = 1 << 22  # elements of a product
SIDE, K_TILE = 128, 64  # of a tile of D in the steps that tasks start from; columns of K in a stage
SCALED = 128  # elements of K, and rows of B, that share a scale of fp8 numbers
GROUPS, GROUP_ROWS = 4, 128  # of a grouped GEMM; what the rows of a group are a multiple of
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}
# of a sum of K products of N(0, 1) numbers in fp32: the error of each addition is below 2^-24 of a partial
# sum of size sqrt(K); wgmma truncates rather than rounds and keeps a few bits less, hence 2^-20
ABSOLUTE_PER_K = 2.0**-20
# wgmma keeps about 14 bits of a sum of fp8 products. On an H200 sums of 128 products of N(0, 1) numbers were
# off by at most 0.028, of a million; with a scale of each operand, of 2 at the most, by four times as much.
# Errors of several blocks add up as random steps do. This is twice that, and a sixtieth of a usual number
ABSOLUTE_OF_BLOCK = 0.25
# of each eight rows of a softmax, in turn: exp of the second kind is inf, and 0 of the others, unless their
# largest number is subtracted first. fp16 ends at 65,504
LEVELS = (0.0, 0.0, 0.0, 3000.0, 0.0, 0.0, -3000.0, -60000.0)
WIDE = 8192.0  # times a normal number: fp16 holds it, and not a sum of 64 products with another
SCORE_SCALE = 0.125  # of S = scale * Q K^T: 1 / sqrt(64), for every D


def normal(tensor: Tensor, others: Others, generator: Generator, device: str) -> Values:
    """Standard normal numbers, rounded to the tensor's dtype."""
    import torch

    values = torch.randn(*tensor.shape, generator=generator, device=device, dtype=torch.float32)
    return values.to(getattr(torch, tensor.dtype))


def product(A: Values, B: Values) -> Values:
    """``A @ B^T``, or of each of a batch, in fp32; in fp64 on a CPU where that is quick."""
    import torch

    wide = torch.float32 if A.is_cuda or A.shape[-2] * B.shape[-2] > LARGE else torch.float64
    return A.to(wide) @ B.to(wide).mT


@dataclass(frozen=True)
class Problem:
    """One thing to compute. ``function`` is what a learner's factory is called, ``takes`` its arguments.

    ``tensors`` of a size are those that a launch gets, in order, the ``outputs`` last. ``draw`` makes an
    input. ``values`` of the inputs are those that the outputs must have, in fp32 or better; ``absolute`` of K
    is the error that a sum may have beside the rounding of its output, and ``allowed`` of the inputs that
    error of each element, where it is not the same for all. ``require`` raises ValueError for a size that
    cannot be computed. ``given`` are arguments by name beside the size, to a factory that takes them.
    ``operands`` of the inputs are A (M x K) and B (N x K) of which the one output is the product: a wrong one
    is explained by them. ``mistaken`` are other values that a usual mistake leaves, each with the case of its
    sentence (``grading.words``); ``infinite`` is the case where a row is NaN or inf.
    So many of the inputs are ``multiplied`` by ``wgmma``, the first ones. ``zeroed``: outputs are zeros when
    the kernel begins, to be added to. ``any_shape``: a tensor may have another shape of as many elements.
    ``beside`` writes to its last argument what cuBLAS is timed on; ``timed`` are the values that a timed
    output must have, where it is not that.
    """

    name: str
    tensors: Callable[..., tuple[Tensor, ...]]
    values: Callable[..., tuple[Values, ...]]
    takes: str = "M, N, K"
    outputs: int = 1
    function: str = "gemm"
    draw: Callable[..., Values] = normal
    absolute: Callable[[int], float] = lambda K: ABSOLUTE_PER_K * K
    allowed: Callable[..., Values] | None = None
    require: Callable[..., None] | None = None
    given: tuple[tuple[str, object], ...] = ()
    operands: Callable[..., tuple[Values, Values]] | None = None
    mistaken: tuple[tuple[str, Callable[..., Values]], ...] = ()
    infinite: str = ""
    multiplied: int = 2
    zeroed: bool = False
    any_shape: bool = False
    beside: Callable[..., object] | None = None
    timed: Callable[..., Values] | None = None

    def signature(self, size: tuple[int, ...]) -> str:
        """The tensors in words: "three tensors, A, B and D"."""
        *names, last = (tensor.name for tensor in self.tensors(*size))
        return f"{COUNTS[len(names) + 1]} tensors, {', '.join(names)} and {last}"


def half(name: str, *shape: int) -> Tensor:
    """An fp16 tensor."""
    return Tensor(name, shape, "float16")


def _gemm(M: int, N: int, K: int) -> tuple[Tensor, ...]:
    return half("A", M, K), half("B", N, K), half("D", M, N)


def _multiply(A: Values, B: Values, D: Values) -> None:
    import torch

    torch.matmul(A, B.T, out=D)


def _batched(A: Values, B: Values, D: Values) -> None:
    import torch

    torch.bmm(A, B.mT, out=D)


def _bias(M: int, N: int, K: int) -> tuple[Tensor, ...]:
    A, B, D = _gemm(M, N, K)
    return A, B, half("bias", N), D


def _twice(M: int, N: int, K: int) -> tuple[Tensor, ...]:
    A, B, _ = _gemm(M, N, K)
    return A, B, Tensor("D_fp32", (M, N), "float32"), Tensor("D_bf16", (M, N), "bfloat16")


def _wide_left(tensor: Tensor, others: Others, generator: Generator, device: str) -> Values:
    """Normal numbers, those of A so large that D is past fp16's end: it cannot go through fp16."""
    values = normal(tensor, others, generator, device)
    return values * WIDE if tensor.name == "A" else values


def _levels(tensor: Tensor, others: Others, generator: Generator, device: str) -> Values:
    """Normal numbers, some rows of them thousands above or below zero; which of each eight is drawn."""
    import torch

    M, N = tensor.shape
    first = int(torch.randint(0, len(LEVELS), (), generator=generator, device=device))
    levels = torch.tensor(LEVELS, device=device).roll(first).repeat(-(-M // len(LEVELS)))[:M, None]
    values = torch.randn(M, N, generator=generator, device=device, dtype=torch.float32)
    return (values + levels).to(getattr(torch, tensor.dtype))


def _groups(M: int, N: int, K: int) -> tuple[Tensor, ...]:
    A, _, D = _gemm(M, N, K)
    return A, half("B", GROUPS, N, K), Tensor("offsets", (GROUPS + 1,), "int32"), D


def _normal_or_offsets(tensor: Tensor, others: Others, generator: Generator, device: str) -> Values:
    """For int32 where each group's rows begin, and where the last one's end: multiples of ``GROUP_ROWS``."""
    if tensor.dtype != "int32":
        return normal(tensor, others, generator, device)
    import torch

    tiles = others[0].shape[0] // GROUP_ROWS
    cuts = torch.randint(0, tiles + 1, (GROUPS - 1,), generator=generator, device=device).sort().values
    ends = torch.tensor([0, tiles], device=device)
    return (torch.cat((ends[:1], cuts, ends[1:])) * GROUP_ROWS).to(torch.int32)


def _by_group(of: Callable[[Values, int], Values], A: Values, offsets: Values) -> Values:
    """The rows of all groups, one below the other; ``of`` the rows of A and the number of a group."""
    import torch

    at = offsets.tolist()
    return torch.cat([of(A[begin:end], g) for g, (begin, end) in enumerate(pairwise(at))])


def _a_tile_late(offsets: Values) -> Values:
    late = (offsets + GROUP_ROWS).clamp(max=int(offsets[-1]))
    late[0] = 0
    return late


def _k_tiles(A: Values, B: Values) -> Iterator[Values]:
    """The product of each of their K tiles."""
    for k in range(0, A.shape[1], K_TILE):
        yield product(A[:, k : k + K_TILE], B[:, k : k + K_TILE])


def _relu_of_each(A: Values, B: Values, bias: Values, biased: bool) -> Values:
    """Sums that met the ReLU after every K tile, and got their bias there too, or once at the end."""
    import torch

    sums = torch.zeros(1, device=bias.device)
    for part in _k_tiles(A, B):
        sums = (sums + part + bias * biased).relu()
    return sums if biased else (sums + bias).relu()


def _by_tile(bias: Values, M: int, of_rows: bool) -> Values:
    """For each element the bias whose number begins at its tile's first row and goes on by columns; or at its
    tile's first column, and goes on by rows.
    """
    import torch

    rows = torch.arange(M, device=bias.device)[:, None]
    columns = torch.arange(len(bias), device=bias.device)
    first, within = (rows, columns) if of_rows else (columns, rows)
    return bias[(first // SIDE * SIDE + within % SIDE) % len(bias)]


def _fp8(M: int, N: int, K: int) -> tuple[Tensor, ...]:
    blocks = K // SCALED
    return (
        Tensor("A", (M, K), "float8_e4m3fn"),
        Tensor("B", (N, K), "float8_e4m3fn"),
        Tensor("scale_A", (M, blocks), "float32"),
        Tensor("scale_B", (N // SCALED, blocks), "float32"),
        Tensor("D", (M, N), "bfloat16"),
    )


def _normal_or_scales(tensor: Tensor, others: Others, generator: Generator, device: str) -> Values:
    """For fp32 scales between a half and two, no powers of two: a block's neighbour has another one."""
    if tensor.dtype != "float32":
        return normal(tensor, others, generator, device)
    import torch

    return torch.rand(*tensor.shape, generator=generator, device=device).mul(2).sub(1).exp2()


def _scaled(A: Values, B: Values, scale_A: Values, scale_B: Values) -> tuple[Values, Values]:
    """A and B as fp32 numbers, by their scales: D is the product of these."""
    columns_A, columns_B = (scale.repeat_interleave(SCALED, 1) for scale in (scale_A, scale_B))
    return A.float() * columns_A, B.float() * columns_B.repeat_interleave(SCALED, 0)


def _scaled_mm(A: Values, B: Values, scale_A: Values, scale_B: Values, D: Values) -> None:
    """As many operations, with one scale for all of A and one for all of B. Raises RuntimeError where torch
    has no such product.
    """
    import torch

    if not hasattr(torch, "_scaled_mm"):
        raise RuntimeError(
            f"torch {torch.__version__} has no product of fp8 matrices to time beside this one"
        )
    torch._scaled_mm(A, B.T, scale_A[0, 0], scale_B[0, 0], out_dtype=D.dtype, out=D)


def _of_one_block(A: Values, B: Values, scale_A: Values, scale_B: Values, block: int) -> Values:
    """What comes of the scales of one block for all of K."""
    rows = scale_B[:, block].repeat_interleave(SCALED)
    return product(A.float(), B.float()) * scale_A[:, block, None] * rows


def _ones(scale: Values) -> Values:
    return scale.new_ones(scale.shape)


def _by_rows(scale_B: Values, M: int) -> Values:
    return scale_B.repeat_interleave(SCALED, 0).repeat(-(-M // (len(scale_B) * SCALED)), 1)[:M]


def _never_cleared(A: Values, B: Values, scale_A: Values, scale_B: Values) -> Values:
    """What comes of adding the running sum, scaled, after each block."""
    left, right = A.float(), B.float()
    rows = scale_B.repeat_interleave(SCALED, 0)
    total = running = product(left[:, :0], right[:, :0])
    for block in range(scale_A.shape[1]):
        columns = slice(block * SCALED, (block + 1) * SCALED)
        running = running + product(left[:, columns], right[:, columns])
        total = total + running * scale_A[:, block, None] * rows[:, block]
    return total


def _as_rows(bias: Values, M: int) -> Values:
    return bias.repeat(-(-M // len(bias)))[:M, None]


def _scores(
    batch: int, sequence_q: int, sequence_k: int, heads: int, kv_heads: int, D: int, dtype: str = "float16"
) -> tuple[Tensor, ...]:
    """Q and K as models store them, a sequence's heads side by side, and S by heads."""
    return (
        Tensor("Q", (batch, sequence_q, heads, D), dtype),
        Tensor("K", (batch, sequence_k, kv_heads, D), dtype),
        Tensor("S", (batch, heads, sequence_q, sequence_k), dtype),
    )


def _keys(Q: Values, K: Values) -> Values:
    """K (batch, kv_heads, sequence_k, D), each head once for every head of Q that shares it."""
    return K.transpose(1, 2).repeat_interleave(Q.shape[2] // K.shape[2], 1)


def _scores_of(Q: Values, keys: Values) -> Values:
    """S of Q as it is stored, and of ``_keys`` or what a mistake takes for them."""
    return product(Q.transpose(1, 2), keys) * SCORE_SCALE


def _heads_in_turn(Q: Values, K: Values) -> Values:
    """K's heads dealt out in turn: head % kv_heads."""
    return K.transpose(1, 2).repeat(1, Q.shape[2] // K.shape[2], 1, 1)


def _head_for_head(Q: Values, K: Values) -> Values:
    """K's head of the same number; zeros, which TMA brings, for heads that K lacks."""
    import torch

    batch, sequence, kv_heads, D = K.shape
    zeros = K.new_zeros(batch, Q.shape[2] - kv_heads, sequence, D)
    return torch.cat((K.transpose(1, 2), zeros), 1)


def _first_batch(Q: Values, K: Values) -> Values:
    return _keys(Q, K)[:1].expand(len(K), -1, -1, -1)


def _heads_first(values: Values) -> Values:
    """The bytes of (batch, sequence, heads, D) read as if they were (batch, heads, sequence, D)."""
    batch, sequence, heads, D = values.shape
    return values.reshape(batch, heads, sequence, D).transpose(1, 2)


def numbered(count: int, generator: Generator, device: str, dtype: str = "float16") -> Values:
    """``count`` elements of random bits, so that a few copied ones say where they came from."""
    import torch

    element = getattr(torch, dtype)
    bits = torch.randint(0, POISONS[dtype], (count,), generator=generator, device=device, dtype=torch.int32)
    return bits.to({1: torch.int8, 2: torch.int16, 4: torch.int32}[element.itemsize]).view(element)


def _bits(tensor: Tensor, others: Others, generator: Generator, device: str) -> Values:
    return numbered(prod(tensor.shape), generator, device, tensor.dtype).view(tensor.shape)


def _copy(name: str, dtype: str) -> Problem:
    """Y is X, bit by bit, in whatever shape its author sees it."""
    return Problem(
        name,
        lambda *shape: (Tensor("X", shape, dtype), Tensor("Y", shape, dtype)),
        lambda X: (X,),
        takes="*shape",
        function="copy",
        draw=_bits,
        multiplied=0,
        any_shape=True,
    )


def swapped(names: Sequence[str], tensors: Sequence[Tensor]) -> bool:
    """Whether an author's arguments have the tensors' names, and those of one rank stand where others of
    another rank are handed over.
    """
    ranks = {tensor.name: len(tensor.shape) for tensor in tensors}
    return ranks.keys() == set(names) and [ranks[name] for name in names] != [*ranks.values()]


# What an output holds before a launch: a NaN with a payload of our own, whose bits no arithmetic makes; fp8
# has one NaN, which no copied element is
POISONS = {"float16": 0x7DAD, "bfloat16": 0x7FAD, "float32": 0x7FADADAD, "float8_e4m3fn": 0x7F}
# by element type, the problem of a copy
COPIES = {"float16": "copy", **{name: f"copy of {name}" for name in ("bfloat16", "float32", "float8_e4m3fn")}}

PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("gemm", _gemm, lambda A, B: (product(A, B),), operands=lambda A, B: (A, B), beside=_multiply),
        Problem(
            "bias and relu",
            _bias,
            lambda A, B, bias: ((product(A, B) + bias).relu(),),
            mistaken=(
                ("bias-missing", lambda A, B, bias: product(A, B).relu()),
                ("bias-of-rows", lambda A, B, bias: (product(A, B) + _as_rows(bias, len(A))).relu()),
                (
                    "bias-of-the-first-tile",
                    lambda A, B, bias: (product(A, B) + bias[:128].repeat(len(bias) // 128)).relu(),
                ),
                (
                    "bias-from-its-row",
                    lambda A, B, bias: (product(A, B) + _by_tile(bias, len(A), True)).relu(),
                ),
                ("bias-by-rows", lambda A, B, bias: (product(A, B) + _by_tile(bias, len(A), False)).relu()),
                ("bias-by-rows", lambda A, B, bias: (product(A, B) + _as_rows(bias[:SIDE], len(A))).relu()),
                ("relu-missing", lambda A, B, bias: product(A, B) + bias),
                ("relu-before-bias", lambda A, B, bias: product(A, B).relu() + bias),
                ("epilogue-in-the-loop", lambda *inputs: _relu_of_each(*inputs, True)),
                (
                    "bias-in-the-loop",
                    lambda A, B, bias: (product(A, B) + bias * (A.shape[1] // K_TILE)).relu(),
                ),
                ("relu-in-the-loop", lambda *inputs: _relu_of_each(*inputs, False)),
                ("rounded-twice", lambda A, B, bias: (product(A, B).half().to(bias.dtype) + bias).relu()),
            ),
        ),
        Problem(
            "D in two types",
            _twice,
            lambda A, B: (product(A, B),) * 2,
            outputs=2,
            draw=_wide_left,
            absolute=lambda K: ABSOLUTE_PER_K * K * WIDE,
            infinite="past-fp16",
        ),
        Problem(
            "sums added up",
            lambda M, N, K: (*_gemm(M, N, K)[:2], Tensor("D", (M, N), "float32")),
            lambda A, B: (product(A, B),),
            operands=lambda A, B: (A, B),
            zeroed=True,
        ),
        Problem(
            "groups",
            _groups,
            lambda A, B, offsets: (_by_group(lambda rows, g: product(rows, B[g]), A, offsets),),
            draw=_normal_or_offsets,
            mistaken=(
                ("first-group", lambda A, B, offsets: product(A, B[0])),
                (
                    "group-before",
                    lambda A, B, offsets: _by_group(
                        lambda rows, g: product(rows, B[g]), A, _a_tile_late(offsets)
                    ),
                ),
            ),
            beside=lambda A, B, offsets, D: _multiply(A, B[0], D),  # as many operations in one GEMM
            timed=lambda A, B, offsets: _by_group(lambda rows, g: rows @ B[g].T, A, offsets),
        ),
        Problem(
            "batch",
            lambda batch, M, N, K: (half("A", batch, M, K), half("B", batch, N, K), half("D", batch, M, N)),
            lambda A, B: (product(A, B),),
            takes="batch, M, N, K",
            mistaken=(
                ("first-matrix-of-A", lambda A, B: product(A[:1].expand_as(A), B)),
                ("first-matrix-of-B", lambda A, B: product(A, B[:1].expand_as(B))),
            ),
            beside=_batched,
        ),
        Problem(
            "fp8 with scales",
            _fp8,
            lambda *inputs: (product(*_scaled(*inputs)),),
            draw=_normal_or_scales,
            absolute=lambda K: ABSOLUTE_OF_BLOCK * (K / SCALED) ** 0.5,
            operands=_scaled,
            mistaken=(
                ("scales-missing", lambda A, B, *_: product(A.float(), B.float())),
                ("not-cleared-between-blocks", _never_cleared),
                ("scales-of-the-last-block", lambda *inputs: _of_one_block(*inputs, -1)),
                ("scales-of-the-first-block", lambda *inputs: _of_one_block(*inputs, 0)),
                ("scale-B-missing", lambda A, B, a, b: product(*_scaled(A, B, a, _ones(b)))),
                ("scale-A-missing", lambda A, B, a, b: product(*_scaled(A, B, _ones(a), b))),
                (
                    "scale-B-by-rows",
                    lambda A, B, a, b: product(*_scaled(A, B, a * _by_rows(b, len(A)), _ones(b))),
                ),
                (
                    "scales-of-the-first-tile",
                    lambda A, B, a, b: product(*_scaled(A, B, a[:SCALED].repeat(len(A) // SCALED, 1), b)),
                ),
            ),
            beside=_scaled_mm,
            timed=lambda *inputs: product(*_scaled(*inputs)),
        ),
        Problem(
            "softmax of rows",
            lambda M, N: (half("X", M, N), half("Y", M, N)),
            lambda X: (X.double().softmax(1),),
            takes="M, N",
            function="softmax",
            draw=_levels,
            infinite="not-subtracted",
            absolute=lambda N: 2.0**-23,  # two steps of the smallest fp16 numbers
            multiplied=0,
            mistaken=(
                ("rows-not-divided", lambda X: (X.double() - X.double().amax(1, keepdim=True)).exp()),
                ("columns-add-up", lambda X: X.double().softmax(0)),
            ),
        ),
        *(
            Problem(
                name,
                functools.partial(_scores, dtype=dtype),
                lambda Q, K: (_scores_of(Q, _keys(Q, K)),),
                takes="batch, sequence_q, sequence_k, heads, kv_heads, D",
                function="scores",
                absolute=lambda D: ABSOLUTE_PER_K * D * SCORE_SCALE,
                mistaken=(
                    ("scale-missing", lambda Q, K: _scores_of(Q, _keys(Q, K)) / SCORE_SCALE),
                    ("scaled-twice", lambda Q, K: _scores_of(Q, _keys(Q, K)) * SCORE_SCALE),
                    ("head-for-head", lambda Q, K: _scores_of(Q, _head_for_head(Q, K))),
                    ("heads-in-turn", lambda Q, K: _scores_of(Q, _heads_in_turn(Q, K))),
                    ("first-batch-of-K", lambda Q, K: _scores_of(Q, _first_batch(Q, K))),
                    ("first-batch-of-Q", lambda Q, K: _scores_of(Q[:1].expand_as(Q), _keys(Q, K))),
                    ("K-heads-first", lambda Q, K: _scores_of(Q, _keys(Q, _heads_first(K)))),
                    ("Q-heads-first", lambda Q, K: _scores_of(_heads_first(Q), _keys(Q, K))),
                ),
            )
            for name, dtype in (("scores of heads", "float16"), ("scores of heads, bf16", "bfloat16"))
        ),
        *(
            Problem(
                f"{'causal ' * causal}attention{', bf16' * (dtype == 'bfloat16')}",
                functools.partial(attention.tensors, dtype=dtype),
                lambda Q, K, V, sees=sees: (attention.attend(sees)(Q, K, V),),
                takes=attention.SIZES,
                function="attention",
                draw=attention.draw(causal),
                allowed=attention.allowed(sees),
                require=attention.require_attention,
                given=(("causal", causal), ("dtype", dtype)),
                mistaken=attention.mistaken(causal),
                infinite="not-subtracted",
                multiplied=0,
            )
            for causal, sees in ((False, attention.all_keys), (True, attention.up_to_its_place))
            for dtype in ("float16", "bfloat16")
        ),
        Problem(
            "B K x N",
            lambda M, N, K: (half("A", M, K), half("B", K, N), half("D", M, N)),
            lambda A, B: (product(A, B.mT),),
            operands=lambda A, B: (A, B.mT),
        ),
        *(_copy(name, dtype) for dtype, name in COPIES.items()),
    )
}
