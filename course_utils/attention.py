"""Attention forward, O = softmax(Q K^T / sqrt(D)) V of each head: its tensors, inputs that show mistakes, the
values in fp32 or better, and the error that they may have.

A query sees the keys up to its own place where it is *causal*; the last query and the last key have the same
place, whatever the two lengths are. A query that sees no key has zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log, sqrt
from typing import TYPE_CHECKING

from course_utils.artifact import Tensor
from course_utils.chips import HOME, Chip

if TYPE_CHECKING:
    from torch import Generator
    from torch import Tensor as Values

SIZES = "batch, sequence_q, sequence_k, heads, kv_heads, D"
HEAD_SIZES = 64, 96, 128  # D

# One query of four, in turn, has much of its weight on the last key that it sees, one on the first that it
# does not (where all are seen, on key 0); the scores of the third kind are all near LEVEL, of the fourth near
# -LEVEL. exp of LEVEL is inf in fp32 and of -LEVEL it is 0, so both fail a softmax without its maximum; and
# beside -LEVEL a key that is not there, whose score is 0, has all the weight.
LEVEL = 150.0
PEAK = 8.0  # by how much the score of the one key is above the others
CODE = 16  # columns of Q and K that say a key's place, by signs
LEVEL_KEY = 8.0  # K in the column of the level

# Of a P that was rounded, u of its value; of one below the smallest normal fp16, half of the smallest number
ROUNDED = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALLEST = {"float16": 2.0**-25, "bfloat16": 0.0}
# Errors of the keys are independent, each below its bound: their sum is below so many times the root of the
# sum of squares, by far
SPREAD = 4.0
# wgmma truncates a sum after each 16 products, at 2^-23 of it
SUM_STEP = 2.0**-23

Sees = Callable[[int, int, "Values", "Values"], "Values"]  # lengths, places of queries and keys, to booleans


def tensors(
    batch: int, sequence_q: int, sequence_k: int, heads: int, kv_heads: int, D: int, dtype: str = "float16"
) -> tuple[Tensor, ...]:
    """Q, K, V and O as models store them, a sequence's heads side by side."""
    keys = batch, sequence_k, kv_heads, D
    queries = batch, sequence_q, heads, D
    return (
        Tensor("Q", queries, dtype),
        *(Tensor(name, keys, dtype) for name in "KV"),
        Tensor("O", queries, dtype),
    )


def require_attention(
    batch: int, sequence_q: int, sequence_k: int, heads: int, kv_heads: int, D: int, row_stride: int = 0
) -> None:
    """Raise ValueError where the kernels of attention cannot compute this size, with the nearest legal one.

    ``row_stride`` is the distance in elements from a row of Q to the next one of the same head, where it is
    not heads * D.
    """
    for name, length in (("batch", batch), ("sequence_q", sequence_q), ("sequence_k", sequence_k)):
        if length < 1:
            raise ValueError(f"{name} = {length}: there is nothing to compute. The shortest is 1")
    if D not in HEAD_SIZES:
        nearest = min(HEAD_SIZES, key=lambda legal: (legal < D, abs(legal - D)))
        advice = f"pad Q, K and V to {nearest} columns of zeros" if nearest > D else f"use D = {nearest}"
        raise ValueError(f"D = {D}: these kernels take 64, 96 or 128. The nearest is {nearest}: {advice}")
    if min(heads, kv_heads) < 1 or heads % kv_heads:
        legal = [count for count in range(1, max(heads, 1) + 1) if max(heads, 1) % count == 0]
        nearest = min(legal, key=lambda count: abs(count - kv_heads))
        raise ValueError(
            f"{heads} heads of Q cannot share {kv_heads} heads of K and V evenly. The nearest number of "
            f"heads of K and V is {nearest}"
        )
    if row_stride % 8:
        legal_stride = -(-row_stride // 8) * 8
        raise ValueError(
            f"TMA cannot address Q: rows that are {row_stride} elements apart are {2 * row_stride} bytes "
            f"apart, and strides are multiples of 16 bytes. The nearest one is {2 * legal_stride} bytes: "
            f"pad rows to {legal_stride} elements"
        )


def cycles(queries: int, keys: int, D: int, chip: Chip = HOME) -> tuple[float, float]:
    """Cycles of an SM for both products of a tile of scores, a multiply-add as 2 FLOP, and for its
    exponentials.

    Raises ValueError for a chip whose rates are not in the table of chips.
    """
    if not chip.flop_per_clock or not chip.exp2_per_clock:
        raise ValueError(f"{chip.name}: its FLOP or its exponentials per clock are not in the table of chips")
    return 4 * queries * keys * D / chip.flop_per_clock, queries * keys / chip.exp2_per_clock


def visible(
    m: int, block_M: int, block_N: int, sequence_q: int, sequence_k: int, causal: bool = True
) -> tuple[int, int, int]:
    """Of query tile ``m``: tiles of keys that there are, those that some of its queries see, and those that
    all of them see.
    """
    tiles, later = -(-sequence_k // block_N), sequence_k - sequence_q
    if not causal:
        return tiles, tiles, sequence_k // block_N
    end = min(max(min((m + 1) * block_M, sequence_q) + later, 0), sequence_k)
    whole = max(min(m * block_M + later + 1, sequence_k), 0)
    return tiles, -(-end // block_N), whole // block_N


def draw(causal: bool) -> Callable[..., Values]:
    """How inputs are drawn: normal numbers, and in ``CODE`` + 1 columns of Q and K what ``LEVEL`` tells."""

    def drawn(tensor: Tensor, others: tuple[Tensor, ...], generator: Generator, device: str) -> Values:
        import torch

        values = torch.randn(*tensor.shape, generator=generator, device=device, dtype=torch.float32)
        _, length, _, D = tensor.shape
        if tensor.name == "K":
            values[..., :CODE] = _codes(length, device)[:, None]
            values[..., CODE] = LEVEL_KEY
        if tensor.name == "Q":
            keys = others[1].shape[1]
            first = int(torch.randint(0, 4, (), generator=generator, device=device))
            place = torch.arange(length, device=device)
            kind = (place + first) % 4
            wanted = place + keys - length if causal else torch.full_like(place, keys - 1)
            wanted = torch.where(kind == 1, wanted + 1 if causal else 0, wanted).clamp(0, keys - 1)
            peaks = _codes(keys, device)[wanted] * (PEAK * sqrt(D) / CODE)
            values[..., :CODE] = torch.where((kind < 2)[:, None, None], peaks[:, None], values[..., :CODE])
            levels = torch.tensor([0.0, 0.0, LEVEL, -LEVEL], device=device) * (sqrt(D) / LEVEL_KEY)
            values[..., CODE] = levels[kind][:, None]
        return values.to(getattr(torch, tensor.dtype))

    return drawn


def _codes(count: int, device: str) -> Values:
    """A row of ``CODE`` signs for each place, always the same."""
    import torch

    bits = torch.randint(0, 2, (count, CODE), generator=torch.Generator().manual_seed(CODE))
    return bits.mul_(2).sub_(1).to(device, torch.float32)


def all_keys(sequence_q: int, sequence_k: int, query: Values, key: Values) -> Values:
    return (key < sequence_k) & (query < sequence_q)


def up_to_its_place(sequence_q: int, sequence_k: int, query: Values, key: Values) -> Values:
    return key <= query + (sequence_k - sequence_q)


def _a_key_late(sequence_q: int, sequence_k: int, query: Values, key: Values) -> Values:
    return key <= query + (sequence_k - sequence_q + 1)


def _a_key_early(sequence_q: int, sequence_k: int, query: Values, key: Values) -> Values:
    return key < query + (sequence_k - sequence_q)


def _from_the_first_key(sequence_q: int, sequence_k: int, query: Values, key: Values) -> Values:
    return key <= query


def _without_the_last(sequence_q: int, sequence_k: int, query: Values, key: Values) -> Values:
    return key < max(sequence_k - 1, query.new_tensor(1))


def weights(
    Q: Values, K: Values, sees: Sees, base: float = 1.0, padded: int = 1
) -> Iterator[tuple[Values, Values]]:
    """Of each batch the weights (heads, sequence_q, sequence_k) before the division by their sums, in fp64
    on a CPU and else in fp32, and the sums. ``base`` is a factor of the scores beside 1 / sqrt(D); zeros are
    keys up to a multiple of ``padded``.
    """
    import torch

    _, sequence_q, heads, D = Q.shape
    sequence_k, kv_heads = K.shape[1:3]
    wide = torch.float32 if Q.is_cuda else torch.float64
    query = torch.arange(sequence_q, device=Q.device)[:, None]
    key = torch.arange(sequence_k, device=Q.device)
    seen = sees(sequence_q, sequence_k, query, key)
    for of_Q, of_K in zip(Q.to(wide).transpose(1, 2), K.to(wide).transpose(1, 2), strict=True):
        scores = of_Q @ of_K.repeat_interleave(heads // kv_heads, 0).mT * (base / sqrt(D))
        scores.masked_fill_(~seen, -torch.inf)
        top = scores.amax(-1, keepdim=True)
        zeros = -sequence_k % padded
        top = top.clamp(min=0.0) if zeros else torch.where(top == -torch.inf, 0, top)
        made = scores.sub_(top).exp_()
        total = made.sum(-1, keepdim=True)
        yield made, total + zeros * (-top).exp() if zeros else total


def attend(
    sees: Sees = all_keys, base: float = 1.0, padded: int = 1, divided: bool = True
) -> Callable[..., Values]:
    """O of Q, K and V by such ``weights``."""

    def values(Q: Values, K: Values, V: Values) -> Values:
        import torch

        group, out = Q.shape[2] // V.shape[2], []
        for (made, total), of_V in zip(weights(Q, K, sees, base, padded), V, strict=True):
            product = made @ of_V.to(made.dtype).transpose(0, 1).repeat_interleave(group, 0)
            if divided:
                product /= torch.where(total == 0, 1, total)
            out.append(product.transpose(0, 1))
        return torch.stack(out)

    return values


def allowed(sees: Sees) -> Callable[..., Values]:
    """By how much each element of O may be off beside its own rounding.

    P is rounded, and the scores are off by as many steps as a sum of D products has; both change a weight by
    a share of it. The sum over the keys has a step for each 16 of them. So it is a multiple of the root of
    the sum of squares of a weight times V, by D and the length.
    """

    def values(Q: Values, K: Values, V: Values) -> Values:
        import torch

        name, D, keys = str(Q.dtype).removeprefix("torch."), Q.shape[-1], K.shape[1]
        share = SPREAD * (ROUNDED[name] + LEVEL * D / 16 * SUM_STEP) + keys / 16 * SUM_STEP
        smallest = SPREAD * SMALLEST[name]
        group, out = Q.shape[2] // V.shape[2], []
        for (made, total), of_V in zip(weights(Q, K, sees), V, strict=True):
            squares = of_V.to(made.dtype).square().transpose(0, 1).repeat_interleave(group, 0)
            off = (made.square() @ squares).sqrt_() * share
            off += squares.sum(-2, keepdim=True).sqrt() * smallest
            out.append((off / torch.where(total == 0, 1, total)).transpose(0, 1))
        return torch.stack(out)

    return values


def mistaken(causal: bool) -> tuple[tuple[str, Callable[..., Values]], ...]:
    """What usual mistakes leave, each with the case of its sentence."""
    sees = up_to_its_place if causal else all_keys
    masks: tuple[tuple[str, Sees], ...] = (("mask-last-key", _without_the_last),)
    if causal:
        masks = (
            ("mask-missing", all_keys),
            ("mask-a-key-late", _a_key_late),
            ("mask-a-key-early", _a_key_early),
            ("mask-first-key", _from_the_first_key),
        )
    return (
        ("attention-unscaled", lambda Q, K, V: attend(sees, sqrt(Q.shape[-1]))(Q, K, V)),
        ("attention-base-2", attend(sees, log(2))),
        ("attention-not-divided", attend(sees, divided=False)),
        *((case, attend(mask)) for case, mask in masks),
        *(("mask-of-the-last-tile", attend(sees, padded=rows)) for rows in (64, 128)),
        ("heads-in-turn", lambda Q, K, V: attend(sees)(Q, *_for_each_head(Q, (K, V), True))),
        ("head-for-head", lambda Q, K, V: attend(sees)(Q, *_for_each_head(Q, (K, V), False))),
        ("first-batch-of-K", lambda Q, K, V: attend(sees)(Q, K[:1].expand_as(K), V[:1].expand_as(V))),
    )


def _for_each_head(Q: Values, both: tuple[Values, ...], in_turn: bool) -> list[Values]:
    """K and V with a head for each of Q's: dealt out in turn, or zeros for heads that they lack."""
    heads = Q.shape[2]
    dealt = [one.repeat(1, 1, heads // one.shape[2], 1) for one in both]
    if not in_turn:
        for one, original in zip(dealt, both, strict=True):
            one[:, :, original.shape[2] :] = 0
    return dealt
