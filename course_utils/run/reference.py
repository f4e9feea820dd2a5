"""Is D right, and if not, what does the way it is wrong say? On torch tensors, CPU or GPU.

D is poisoned before a run with a NaN whose bits no arithmetic makes, so "never written" and "computed a NaN"
differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from course_utils.problems import ABSOLUTE_PER_K, POISONS, PROBLEMS, product
from course_utils.run import gaps
from course_utils.run.words import told

POISON = POISONS["float16"]
RELATIVE = 2.0**-10  # twice the rounding of an fp32 sum to fp16, which is 2^-11 of the value
# rounding to fp16 spreads evenly over an ulp: 2.0e-4 in the relative norm, any K; fp16 accumulation is past
# 4e-4 at K = 256
NORM = 3.2e-4
# by the dtype of an output: the rounding of a value (as RELATIVE) and the relative norm. bf16 has three bits
# less than fp16. Nothing rounds a sum that stays in fp32: its norm is far below that of one that was rounded
ROUNDING = {
    torch.float16: (RELATIVE, NORM),
    torch.bfloat16: (8 * RELATIVE, 8 * NORM),
    torch.float32: (2.0**-20, NORM / 16),
}
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32}  # to look at elements of so many bytes
TILE = 64
SLICE = 16  # of K, in one wgmma of fp16
FITTED = 640  # columns of K that are weighed one by one
PAIRED = 20  # K tiles whose columns are tried against each other
SEARCHED = 5 << 20  # ... whose tiles are compared with one another: all that are emulated whole have fewer


@dataclass(frozen=True)
class Comparison:
    """What one run's D is, against the reference. ``diagnosis`` is empty where ``ok``."""

    ok: bool
    wrong: int
    unwritten: int
    relative_norm: float
    max_error: float
    diagnosis: str


def inputs(
    M: int, N: int, K: int, generator: torch.Generator, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """A: M x K and B: N x K, standard normal fp16."""
    gemm = PROBLEMS["gemm"]
    tensors = gemm.tensors(M, N, K)
    A, B = (gemm.draw(tensor, tensors, generator, device) for tensor in tensors[:2])
    return A, B


def reference(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """``A @ B^T``, see ``problems.product``."""
    return product(A, B)


def bits(values: torch.Tensor) -> torch.Tensor:
    """The elements' bits, as integers of their size."""
    return values.view(BITS[values.element_size()])


def unwritten_in(values: torch.Tensor) -> torch.Tensor:
    """Which elements still hold the poison."""
    return bits(values) == POISONS[str(values.dtype).removeprefix("torch.")]


def compare(D: torch.Tensor, A: torch.Tensor, B: torch.Tensor, partial: bool = False) -> Comparison:
    """Hold D (M x N fp16) against the reference of A (M x K) and B (N x K).

    ``partial``: only some CTAs ran, so what they did not write is not held against them, unless they wrote
    nothing at all.
    """
    # the tiles of a few CTAs are soon seen to be right; a wrong one is explained by its place in all of D
    if partial and (found := _written_tiles(D, A, B)) and found.ok:
        return found
    return compare_values(D, reference(A, B), ABSOLUTE_PER_K * A.shape[1], partial, (A, B))


SAME = 0.8  # of the wrong elements have the very number that a mistake would leave


def compare_values(
    D: torch.Tensor,
    values: torch.Tensor,
    absolute: float,
    partial: bool = False,
    operands: tuple[torch.Tensor, torch.Tensor] | None = None,
    mistaken: Sequence[tuple[str, Callable[[], torch.Tensor]]] = (),
    name: str = "D",
    infinite: str = "",
) -> Comparison:
    """Hold an output, M x N, against what it must be. ``absolute`` is the error that it may have beside its
    rounding; ``partial`` as in ``compare``; ``operands``, ``mistaken`` and ``infinite`` explain a wrong one
    (see ``problems.Problem``); ``name`` is what the author calls it.
    """
    left = unwritten = unwritten_in(D)
    if partial and not bool(unwritten.all()):
        if found := _written_rows(D, values, unwritten, absolute):
            return found
        values, D, unwritten = _without(unwritten, values, D)
    wrong, norm, largest = _errors(D, values, unwritten, absolute)
    n_wrong, n_unwritten = _count(wrong), _count(unwritten)
    ok = n_wrong == 0 and norm <= ROUNDING[D.dtype][1]
    if ok:
        return Comparison(True, 0, n_unwritten, norm, largest, "")
    ran = ~left if partial and unwritten is not left else None

    def diagnosis() -> str:
        story = _mistaken_story(D, values, wrong, unwritten, mistaken) if n_wrong > n_unwritten else ""
        return _diagnose(D, operands, values, wrong, unwritten, norm, story, infinite, ran)

    text = told(diagnosis, f"{n_wrong:,} of {D.numel():,} elements of D are wrong.")
    text = text if name == "D" else re.sub(r"\bD\b", name, text)
    return Comparison(False, n_wrong, n_unwritten, norm, largest, text)


def _mistaken_story(
    D: torch.Tensor,
    right: torch.Tensor,
    wrong: torch.Tensor,
    unwritten: torch.Tensor,
    mistaken: Sequence[tuple[str, Callable[[], torch.Tensor]]],
) -> str:
    """The words of the first mistake whose values the wrong elements have, and if one can, the others too; ""
    where none has. Values that are about the right ones explain what is wrong only where they are that very
    number.
    """
    others, wrong = ~wrong, wrong & ~unwritten
    held, wanted, found = D[wrong], right[wrong], ""
    if not bool(torch.isfinite(held).all()):
        return ""
    for words, values in mistaken:
        would = values()
        told = would[wrong]
        small = _near(told, wanted.double())
        same = bool((told.to(D.dtype) == held).double().mean() > SAME) if small else False
        if same or not small and _near(told, held.double()):
            if _near(would[others], D[others].double()):
                return words
            found = found or words
    return found


def several(found: Sequence[Comparison]) -> Comparison:
    """The comparison of several outputs: right where all are, and of the first that is not."""
    if len(found) == 1:
        return found[0]
    lead = next((one for one in found if not one.ok), found[0])
    return replace(
        lead,
        wrong=sum(one.wrong for one in found),
        unwritten=sum(one.unwritten for one in found),
        relative_norm=max(one.relative_norm for one in found),
        max_error=max(one.max_error for one in found),
    )


def _written_tiles(D: torch.Tensor, A: torch.Tensor, B: torch.Tensor) -> Comparison | None:
    """``compare`` of the tiles alone that hold anything written, without a diagnosis; None where D is not of
    whole tiles, and where they are none or half of it.
    """
    M, N = D.shape
    whole = not (M % TILE or N % TILE) and D.dtype == torch.float16
    if not whole or not D.is_contiguous() or D.storage_offset() % 4:
        return None
    four = POISON * 0x0001_0001_0001_0001  # elements at a time
    strips = (D.view(torch.int64) != four).view(M, N // TILE, TILE // 4).any(2)
    i, j = strips.view(M // TILE, TILE, N // TILE).any(1).nonzero(as_tuple=True)
    if not 0 < len(i) * TILE * TILE < D.numel() // 2:
        return None
    K = A.shape[1]
    tiles = D.view(M // TILE, TILE, N // TILE, TILE)[i, :, j]
    ref = reference(A.reshape(-1, TILE, K)[i], B.reshape(-1, TILE, K)[j])
    ref, tiles, unwritten = _without(unwritten_in(tiles), ref, tiles)
    wrong, norm, largest = _errors(tiles, ref, unwritten, ABSOLUTE_PER_K * K)
    n_wrong = _count(wrong)
    return Comparison(n_wrong == 0 and norm <= NORM, n_wrong, 0, norm, largest, "")


def _written_rows(
    D: torch.Tensor, values: torch.Tensor, unwritten: torch.Tensor, absolute: float
) -> Comparison | None:
    """What ``compare_values`` says of a few CTAs, from the rows alone that hold anything written; None where
    these are half of D, and where something is wrong.
    """
    written = (~unwritten).any(1)
    if 2 * _count(written) > len(written):
        return None
    ref, rows, left = _without(unwritten[written], values[written], D[written])
    wrong, norm, largest = _errors(rows, ref, left, absolute)
    if bool(wrong.any()) or not norm <= ROUNDING[D.dtype][1]:
        return None
    return Comparison(True, 0, 0, norm, largest, "")


def _without(
    unwritten: torch.Tensor, ref: torch.Tensor, D: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The reference and D with what was never written as if it were right."""
    return ref.masked_fill(unwritten, 0), D.masked_fill(unwritten, 0), torch.zeros_like(unwritten)


def _errors(
    D: torch.Tensor, ref: torch.Tensor, unwritten: torch.Tensor, absolute: float
) -> tuple[torch.Tensor, float, float]:
    """Which elements are wrong, the relative norm of the error, and its largest value."""
    error = (D.to(ref.dtype) - ref).abs_()  # in place: to ask for memory takes longer than to compute
    relative, _ = ROUNDING[D.dtype]
    bound = ref.abs().mul_(relative).add_(absolute)
    wrong = ~(error <= bound)  # a NaN compares false, so it is wrong
    wrong |= unwritten
    finite = error.nan_to_num_(0.0, posinf=0.0)
    norm = math.inf if bool(unwritten.all()) else float(finite.norm() / ref.norm())
    return wrong, norm, float(finite.max())


def _diagnose(
    D: torch.Tensor,
    operands: tuple[torch.Tensor, torch.Tensor] | None,
    ref: torch.Tensor,
    wrong: torch.Tensor,
    unwritten: torch.Tensor,
    norm: float,
    mistaken: str = "",
    infinite: str = "",
    ran: torch.Tensor | None = None,
) -> str:
    """What the values say of the cause, as far as it can be told, then how many elements are wrong, and
    where. ``mistaken`` are the words of a usual mistake that the values show, ``infinite`` what to ask of a
    row that is not finite; ``ran`` is what the CTAs that ran wrote, where they were a few: wrong elements are
    counted among those.
    """
    total = D.numel() if ran is None else _count(ran)
    n_wrong, n_unwritten = _count(wrong), _count(unwritten)
    if n_unwritten == total:
        return (
            "the kernel wrote no element of D. Does any thread reach the store, and is its guard ever true?"
        )
    if n_wrong == 0:
        return _small_errors(norm, "no element is past its bound, but ", D.dtype)
    share = f"of {total:,} elements"
    corner, hint = _corner(~unwritten), _unwritten_hint(unwritten) if n_unwritten else ""
    if n_unwritten == n_wrong:
        never = f"{n_wrong:,} {share} were never written, {_place(wrong)}."
        return f"{hint} {never}" if corner or hint.startswith(("Columns", "Rows")) else f"{never} {hint}"
    parts = [f"{n_wrong:,} {share} are wrong ({100 * n_wrong / total:.3g}%), {_place(wrong, ran)}."]
    if n_unwritten and corner:
        parts = [hint, *parts, f"{n_unwritten:,} of them were never written, {_place(unwritten)}."]
    elif n_unwritten:
        others = f"{n_wrong - n_unwritten:,} others are wrong, {_place(wrong & ~unwritten)}."
        parts = [f"{n_unwritten:,} {share} were never written, {_place(unwritten)}.", hint, others]
    computed = wrong & ~unwritten
    if _count(computed):
        held = D[computed]
        nans = _count(~torch.isfinite(held))
        if nans:
            kind = "NaN" if bool(torch.isnan(held).any()) else "inf"
            if infinite:
                row = int((computed & ~torch.isfinite(D)).any(1).nonzero()[0])
                return " ".join([f"Row {row} is {kind}: {infinite}", *parts])
            parts.append(
                f"{nans:,} are {kind}: something was read before it was loaded. Which stage does each load "
                "write, which does each wgmma read, and what has it waited for?"
            )
            if nans > 0.5 * _count(computed):
                return " ".join(parts)
        off = (held.to(ref.dtype) - ref[computed]).abs() / ref.norm() * math.sqrt(total)
        typical = float(off.nan_to_num(9.9).median())
        if mistaken:
            parts.insert(0, mistaken)
        elif typical < 0.02:
            at = 0 if D.dtype == torch.float32 else len(parts)
            parts.insert(at, _small_errors(norm, "", D.dtype))
        elif operands and (story := _operand_story(D, *operands, computed)):
            parts.insert(0, story)
        elif story := _story(D, operands, ref, computed, n_unwritten > 0):
            # what the values tell comes before where they are, and after what was never written
            parts.insert(1 if n_unwritten and _MIRROR not in story else 0, story)
            if n_unwritten and corner and _STORE in story:
                parts[0] = _unwritten_hint(unwritten, stacked=True)
                if re.search(r"D\[(\d+:\d+), .*A\[\1\]", story):  # its own rows: the columns are wrong
                    parts[0] = parts[0].partition(": does")[0] + "."
                    parts[1] = story.replace(f"{_STORE}?", f"{_STORE}, and does it count every slice?")
        else:
            hint = _pattern_hint(computed, ran)
            parts.insert(0 if hint.startswith("Every") else len(parts), hint)
    return " ".join(parts)


def _story(
    D: torch.Tensor,
    operands: tuple[torch.Tensor, torch.Tensor] | None,
    ref: torch.Tensor,
    computed: torch.Tensor,
    gaps: bool,
) -> str:
    """What the first wrong tile holds instead; without the operands of a product, whether it was moved."""
    if operands is None:
        return _moved_story(D, ref, computed)
    return (
        _tile_story(D, *operands, ref, computed, gaps)
        or _zero_story(D, computed)
        or _moved_story(D, ref, computed)
        or _k_story(D, *operands, computed)
    )


def _small_errors(norm: float, lead: str, dtype: torch.dtype) -> str:
    small = "The error is small" if not lead else f"{lead}the error is small"
    if dtype == torch.float32:
        told = f"{small} everywhere (relative norm {norm:.1e}, where fp32 sums have less than 1e-6)"
        return f"{told}: were the sums rounded on their way to D?"
    name, usual = ("bf16", "1.6e-3") if dtype == torch.bfloat16 else ("fp16", "2e-4")
    return (
        f"{lead}the error is small everywhere (relative norm {norm:.1e}, where rounding fp32 to {name} gives "
        f"{usual}): "
        "the sum itself lost precision. Is the accumulator fp32?"
    )


def _place(mask: torch.Tensor, ran: torch.Tensor | None = None) -> str:
    """Which rows, columns or tiles a mask covers, in a few words; of those tiles that ``ran``."""
    rows, cols = mask.any(1).nonzero().flatten(), mask.any(0).nonzero().flatten()
    tiles = _tiles(mask)
    whole = f"in rows {int(rows[0])}..{int(rows[-1])}, columns {int(cols[0])}..{int(cols[-1])}"
    if len(rows) <= 2:
        return f"all in row{'s' if len(rows) > 1 else ''} {', '.join(str(int(r)) for r in rows)}"
    if len(cols) <= 2:
        return f"all in column{'s' if len(cols) > 1 else ''} {', '.join(str(int(c)) for c in cols)}"
    if not tiles.numel():
        return whole
    if ran is not None:
        of = f"of the {int(_tiles(ran).sum())} tiles of {TILE} x {TILE} that ran"
        return f"{whole}, in {int(tiles.sum())} {of}"
    return f"{whole}, in {int(tiles.sum())} of {tiles.numel()} tiles of {TILE} x {TILE}"


def _count(mask: torch.Tensor) -> int:
    """How many elements a mask covers; ``mask.sum()`` takes a CPU twenty times as long."""
    return int(torch.count_nonzero(mask))


def _counts(mask: torch.Tensor) -> torch.Tensor:
    """How many elements of each tile a mask covers."""
    M, N = mask.shape
    m, n = M // TILE * TILE, N // TILE * TILE
    parts = mask[:m, :n].reshape(m // TILE, TILE, n // TILE, TILE)
    return parts.sum(1, dtype=torch.uint8).sum(2)  # bytes first: a sum of bools turns each into 8 bytes


def _tiles(mask: torch.Tensor) -> torch.Tensor:
    return _counts(mask) > 0


def _corner(mask: torch.Tensor) -> tuple[int, int] | None:
    """Its rows and columns, where a mask covers the upper left of D and nothing else."""
    rows, cols = int(mask.any(1).sum()), int(mask.any(0).sum())
    return (rows, cols) if bool(mask[:rows, :cols].all()) and _count(mask) == rows * cols else None


def _unwritten_hint(unwritten: torch.Tensor, stacked: bool = False) -> str:
    """What leaves such gaps; ``stacked``: what is missing was stored over something else."""
    M, N = unwritten.shape
    if found := _corner(~unwritten):
        rows, cols = found
        told = f"The kernel wrote D[0:{rows}, 0:{cols}] alone, of {M} x {N}:"
        if stacked:
            return f"{told} does every CTA, and every slice, store to its own place?"
        if rows % TILE or cols % TILE:
            return f"{told} do slices count elements, where a CTA's index counts tiles?"
        if max(M, N) <= 2 * TILE:
            return f"{told} does the store take the whole tile?"
        if rows < M and cols < N:
            return f"{told} does every CTA store to its own place, and does the grid cover D?"
        return (
            f"{told} are x and y of the grid mixed up, or M and N? Do tiles of all CTAs (by the grid, or "
            "order of tiles) cover D?"
        )
    tiles = _tiles(unwritten)
    full = _counts(unwritten) == TILE * TILE
    if columns := _columns(unwritten):
        begin, end, period = columns
        return (
            f"Columns {begin}:{end} of each {period} were never written: does the store take all of a tile, "
            "with all of its slices?"
        )
    if bool((tiles == full).all()):
        return (
            "Whole tiles are missing: does the grid, or the tile loop's bound, cover every tile, and does "
            "the tile "
            "divide M and N? Does the store's box cover the whole tile?"
        )
    return gaps.told(unwritten) or (
        "Parts of tiles are missing: does every thread store all of its elements, and does each wait for its "
        "store?"
    )


def _columns(unwritten: torch.Tensor) -> tuple[int, int, int] | None:
    """(begin, end, period) where the same columns of each tile, and nothing else, were never written: TILE
    times a power of 2 is the width of a tile.
    """
    cols, N = unwritten.any(0), unwritten.shape[1]
    if not bool(torch.equal(unwritten.all(0), cols)):
        return None
    for period in (2 * TILE, 4 * TILE):
        if N % period or N == period:
            continue
        every = cols.view(-1, period)
        if bool((every == every[0]).all()) and 0 < int(every[0].sum()) < period:
            hit = every[0].nonzero().flatten()
            begin, end = int(hit[0]), int(hit[-1]) + 1
            return (begin, end, period) if end - begin == len(hit) else None
    return None


def _pattern_hint(wrong: torch.Tensor, ran: torch.Tensor | None = None) -> str:
    """What the tiles that are wrong, of all or of those that ``ran``, say of the cause."""
    tiles = _tiles(wrong)
    n_wrong, touched = _count(wrong), int(tiles.sum())
    per_tile = n_wrong / max(touched, 1)
    if per_tile >= 0.9 * TILE * TILE:
        share = touched / max(tiles.numel() if ran is None else int(_tiles(ran).sum()), 1)
        if share < 0.98:
            return (
                "Some tiles are wholly wrong and the others right: look at the coordinates of A, B and D, "
                "and where a CTA computes several tiles, at what one leaves to the next."
            )
        return (
            "Every tile is wrong: look at coordinates, the columns of each slice, the operand order and the "
            "swizzle before the barriers."
        )
    if per_tile <= 4 * TILE:
        return (
            "A few rows or fragments of a tile are wrong: one thread's or one warp's part. That is a missing "
            "wait or "
            "fence between two owners of the same bytes, not arithmetic."
        )
    return (
        "Parts of tiles are wrong: does each slice or fragment take its own part of the sums, and go to its "
        "own place? If so, look for a missing wait, arrival or fence."
    )


def _span(tile: int, width: int = TILE) -> str:
    return f"{tile * width}:{(tile + 1) * width}"


def _zero_story(D: torch.Tensor, wrong: torch.Tensor) -> str:
    """Explain the first wrong tile that holds nothing but zeros, as a load of what no tensor has does."""
    M, N = D.shape
    hit = (_counts(wrong & (D == 0)) > 0.99 * TILE * TILE).nonzero()
    if len(hit) == 0:
        return ""
    i, j = (int(v) for v in hit[0])
    told = f"D[{_span(i)}, {_span(j)}] holds zeros:"
    if i * TILE >= N:
        return f"{told} B has only {N:,} rows. Does the index of A's rows cut it too?"
    if j * TILE >= M:
        return f"{told} A has only {M:,} rows. Does the index of B's rows cut it too?"
    return (
        f"{told} no K tile was multiplied, or an operand's tile lies outside its tensor, where TMA brings "
        "zeros. Is its index too large, or are M and N mixed up?"
    )


def _operand_story(D: torch.Tensor, A: torch.Tensor, B: torch.Tensor, wrong: torch.Tensor) -> str:
    """Explain the first tile that is wrong all over by an operand's own elements."""
    hit = (_counts(wrong) > 0.9 * TILE * TILE).nonzero()
    if len(hit) == 0:
        return ""
    i, j = (int(v) for v in hit[0])
    held = D[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
    for name, operand in (("A", A), ("B", B)):
        rows, K = len(operand) // TILE, operand.shape[1] // TILE
        blocks = operand[: rows * TILE, : K * TILE].reshape(rows, TILE, K, TILE).transpose(1, 2)
        same = (blocks == held.to(operand.dtype)).all(3).all(2).nonzero()
        if len(same):
            row, k = (int(v) for v in same[0])
            return (
                f"D[{_span(i)}, {_span(j)}] holds {name}[{_span(row)}, {_span(k)}] itself: does the store "
                f"take the sums, or {name}'s tile?"
            )
    return ""


def _tile_story(
    D: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    ref: torch.Tensor,
    wrong: torch.Tensor,
    gaps: bool = False,
) -> str:
    """Explain the first tile that is wrong all over by whole products of other rows: those of another tile,
    beside its own, transposed, or of one operand with itself. ``gaps``: others were never written.
    """
    M, N = ref.shape
    hit = (_counts(wrong) > 0.9 * TILE * TILE).nonzero()
    if len(hit) == 0 or M * N > SEARCHED:
        return ""
    products = ref[: M // TILE * TILE, : N // TILE * TILE].double().cpu()
    products = products.reshape(M // TILE, TILE, N // TILE, TILE).transpose(1, 2)
    i, j = (int(v) for v in hit[0])
    rows, cols = slice(i * TILE, (i + 1) * TILE), slice(j * TILE, (j + 1) * TILE)
    held = D[rows, cols].double().cpu()
    if not bool(torch.isfinite(held).all()):
        return ""

    def nearest(values: torch.Tensor) -> tuple[int, int] | None:
        off = (products - values).flatten(2).norm(dim=2) / values.norm()
        k = int(off.argmin())
        return divmod(k, off.shape[1]) if float(off.flatten()[k]) < 0.02 else None

    def product(at: tuple[int, int]) -> str:
        return f"A[{_span(at[0])}] @ B[{_span(at[1])}]^T"

    told = f"D[{_span(i)}, {_span(j)}] holds"
    if other := nearest(held):
        return f"{told} {product(other)}: {_misplaced((i, j), other, gaps)}"
    if other := nearest(held - products[i, j]):
        if other == (i, j):
            return f"{told} twice its own product: is it multiplied twice, or the sum not cleared between?"
        return f"{told} its own sum and {product(other)}: a former tile's sum was not cleared."
    if other := nearest(held.T):
        if other == (i, j):
            return (
                f"{told} its own product, transposed: are the two operands, or D's rows and columns, swapped?"
            )
        return f"{told} {product(other)}, transposed: an operand, D or a copy has the wrong order."
    for name, other_name, operand in (("A", "B", A), ("B", "A", B)):
        for row, col in {(i, i), (i, j), (j, j)}:
            left, right = (operand[at * TILE : (at + 1) * TILE].double().cpu() for at in (row, col))
            if len(left) == len(right) == TILE and _near(left @ right.T, held):
                return (
                    f"{told} {name}[{_span(row)}] @ {name}[{_span(col)}]^T: {name}'s tile lies where "
                    f"{other_name}'s belongs, or {other_name}'s was never copied."
                )
    return ""


def _near(values: torch.Tensor, held: torch.Tensor) -> bool:
    return float((values - held).norm() / held.norm()) < 0.02


_MIRROR, _STORE = "mirror place", "places the store"


def _misplaced(own: tuple[int, int], other: tuple[int, int], gaps: bool) -> str:
    """Which operand, or the store, is at another tile's place: the store, where it left ``gaps``."""
    (i, j), (row, col) = own, other
    if (row, col) == (j, i):
        return f"D's tile is stored at its {_MIRROR}, or both operands are cut by the other's index."
    if gaps:
        return f"that belongs at another place of D. Which index {_STORE}?"
    if row == i:
        return "these rows of B belong to another tile. Which index cuts B, or a slice of D?"
    if col == j:
        return "these rows of A belong to another tile. Which index cuts A, or a slice of D?"
    return "wrong coordinates, or what a former tile left."


def _moved_story(D: torch.Tensor, ref: torch.Tensor, wrong: torch.Tensor) -> str:
    """Explain the first wrong tile by columns, or rows, that belong at another place of the same rows, or
    columns.
    """
    hit = _tiles(wrong).nonzero()
    if len(hit) == 0:
        return ""
    i, j = (int(v) * TILE for v in hit[0])
    return _moved(D, ref, wrong, i, j, "columns") or _moved(D.T, ref.T, wrong.T, j, i, "rows")


def _moved(D: torch.Tensor, ref: torch.Tensor, wrong: torch.Tensor, row: int, col: int, things: str) -> str:
    """Of the tile at (row, col), the first run of wrong columns that belong elsewhere in its rows."""
    rows = slice(row, row + TILE)
    bad = wrong[rows, col : col + TILE].sum(0) > 0.9 * TILE
    if not bool(bad.any()):
        return ""
    begin = col + int(bad.nonzero()[0])
    held, right = D[rows].to(ref.dtype), ref[rows]
    off = (right - held[:, begin : begin + 1]).norm(dim=0)
    source, count = int(off.nan_to_num(math.inf).argmin()), 0
    while begin + count < D.shape[1] and source + count < D.shape[1] and count < TILE:
        if source == begin or not _near(right[:, source + count], held[:, begin + count]):
            break
        count += 1
    if not count:
        return ""
    here, own = f"{begin}:{begin + count}", f"{source}:{source + count}"
    place = f"D[{row}:{row + TILE}, {here}]" if things == "columns" else f"D[{here}, {row}:{row + TILE}]"
    there = not bool(wrong[rows, source : source + count].any())  # in its own place too: it was cut twice
    ask = "which index cuts the sums?" if there else f"which index cuts the sums, or {_STORE}?"
    return f"{place} holds what belongs in {things} {own}: {ask}"


def _k_story(D: torch.Tensor, A: torch.Tensor, B: torch.Tensor, wrong: torch.Tensor) -> str:
    """Explain the first wrong tile as a weighted sum of products of its K tiles."""
    hit = _tiles(wrong).nonzero()
    if len(hit) == 0:
        return ""
    i, j = (int(v) for v in hit[0])
    rows, cols = slice(i * TILE, (i + 1) * TILE), slice(j * TILE, (j + 1) * TILE)
    a, b, held = (t.double().cpu() for t in (A[rows], B[cols], D[rows, cols]))
    if not bool(torch.isfinite(held).all()):
        return ""
    name = f"D[{_span(i)}, {_span(j)}]"
    return (
        _weights(name, a, b, held, TILE)
        or _weights(name, a, b, held, SLICE)
        or _pairs(name, a, b, held, TILE)
        or _pairs(name, a, b, held, SLICE)
        or _unscaled(name, a, b, held)
        or _columns_of_k(name, a, b, held)
    )


def _fit(parts: torch.Tensor, target: torch.Tensor) -> list[int] | None:
    """The whole numbers by which ``parts`` (elements x terms) add up to ``target``; None where none do."""
    weights = torch.linalg.lstsq(parts, target[:, None]).solution.flatten()
    nearest = weights.round()
    residual = float((parts @ weights[:, None] - target[:, None]).norm() / target.norm())
    if residual > 0.02 or float((weights - nearest).abs().max()) > 0.05:
        return None
    return [int(w) for w in nearest]


def _weights(name: str, a: torch.Tensor, b: torch.Tensor, held: torch.Tensor, width: int) -> str:
    """As a sum of its own K tiles, ``width`` columns each: 0 is a tile missed, 2 one used twice."""
    steps, short = -(-a.shape[1] // width), a.shape[1] % width
    if not 2 <= steps <= 80:
        return ""
    slices = [slice(k * width, (k + 1) * width) for k in range(steps)]  # the last may be short
    weights = _fit(torch.stack([(a[:, s] @ b[:, s].T).flatten() for s in slices], 1), held.flatten())
    if weights is None or all(w == 1 for w in weights):
        return ""
    missing = [k for k, w in enumerate(weights) if w == 0]
    extra = {k: w for k, w in enumerate(weights) if w not in (0, 1)}
    kept = [k for k in range(steps) if k not in missing]
    if width == SLICE:
        if kept == [steps - 1] and not extra:
            return f"{name} holds the last {SLICE} columns of K alone: the accumulate flag was never set."
        if len(kept) == 1 and extra:
            return (
                f"{name} holds the same {SLICE} columns of K, {_span(kept[0], SLICE)}, {weights[kept[0]]} "
                "times: does the slice's index follow the loop?"
            )
        return _slices(name, kept) if not extra else ""
    if short and missing == [steps - 1] and not extra:
        return (
            f"{name} is the exact sum of its whole K tiles: the last K tile is short, {short} columns, and "
            "is left out. Does the count of K tiles round up?"
        )
    story = f"{name} is the exact sum of its {steps} K tiles of {TILE}"
    if missing:
        story += f", without {_k_tiles(missing)}"
    if extra:
        by_count: dict[int, list[int]] = {}
        for k, w in extra.items():
            by_count.setdefault(w, []).append(k)
        times = " and ".join(f"{_k_tiles(ks)} ({w} times)" for w, ks in by_count.items())
        story += (", and" if missing else ", but") + f" with {times}"
    return f"{story}: {_lost(steps, missing, extra)}."


def _k_tiles(numbers: list[int]) -> str:
    """In words, neighbours as a range: "K tile 5", "K tiles 16 and 17", "K tiles 0 to 8 and 13 to 17"."""
    ranges: list[list[int]] = []
    for k in numbers:
        if ranges and k == ranges[-1][-1] + 1:
            ranges[-1].append(k)
        else:
            ranges.append([k])
    spans = [
        text for one in ranges for text in ([f"{one[0]} to {one[-1]}"] if len(one) > 2 else map(str, one))
    ]
    return f"K tile{'s' * (len(numbers) > 1)} " + " and ".join(
        filter(None, (", ".join(spans[:-1]), spans[-1]))
    )


def _slices(name: str, kept: list[int]) -> str:
    """The same slices of each K tile, and no others, were multiplied."""
    each = TILE // SLICE
    inside = sorted({k % each for k in kept})
    if len(kept) % len(inside) or kept != [k for k in range(max(kept) + 1) if k % each in inside]:
        return ""
    columns = " and ".join(_span(k, SLICE) for k in inside)
    return (
        f"{name} holds columns {columns} of each {TILE} of K alone: does the loop over the slices take all?"
    )


def _lost(steps: int, missing: list[int], extra: dict[int, int]) -> str:
    """What usually makes these K tiles miss, or come more than once."""
    kept = steps - len(missing)
    if missing and not extra:
        if missing == list(range(steps - 1)) and steps > 2:
            return "every round overwrote the sum"
        if missing[0] == kept:
            return "the loop ends too early"
        if missing == list(range(len(missing))):
            return "the loop begins too late, or a later round overwrote the sum"
    if kept == 1 and len(extra) == 1:
        return "every round multiplied the same columns of K"
    return "a tile was read too early, too late or not at all, or its index is off by one"


def _pairs(name: str, a: torch.Tensor, b: torch.Tensor, held: torch.Tensor, width: int) -> str:
    """As a sum of products of A's columns with others of B's: the two disagree on K."""
    steps = a.shape[1] // width
    if not 2 <= steps <= PAIRED:
        return ""
    some = slice(0, TILE // 2)  # a quarter of the tile is enough, and quicker
    pairs = [(k, m) for k in range(steps) for m in range(steps)]

    def columns(operand: torch.Tensor, k: int) -> torch.Tensor:
        return operand[some, k * width : (k + 1) * width]

    parts = torch.stack([(columns(a, k) @ columns(b, m).T).flatten() for k, m in pairs], 1)
    weights = _fit(parts, held[some, some].flatten())
    odd = [pair for pair, weight in zip(pairs, weights or (), strict=False) if weight and pair[0] != pair[1]]
    if not odd:
        return ""
    k, m = odd[0]
    used = [pair for pair, weight in zip(pairs, weights or (), strict=False) if weight]
    lost = [operand for operand, side in (("A", 0), ("B", 1)) if len({pair[side] for pair in used}) < steps]
    ask = f"does {lost[0]}'s slice follow the loop?" if len(lost) == 1 else "do both slices follow one index?"
    told = f"In {name}, columns {_span(k, width)} of A are multiplied by columns {_span(m, width)} of B"
    return f"{told}: {ask}"


def _unscaled(name: str, a: torch.Tensor, b: torch.Tensor, held: torch.Tensor) -> str:
    """As a sum of products of one operand's K tiles with any columns of the other's: those begin at k, where
    they should at ``TILE`` times k.

    A^T D B is large where a column of A and one of B were multiplied, so along the diagonal that a tile's
    columns make with those they met.
    """
    steps = a.shape[1] // TILE
    if not 2 <= steps <= PAIRED:
        return ""
    met = a.T @ held @ b
    for this, other, where, one, two in (("A", "B", met, a, b), ("B", "A", met.T, b, a)):
        begins = [_met_at(where[k * TILE : (k + 1) * TILE]) for k in range(steps)]
        moved = [k for k, at in enumerate(begins) if at != k * TILE]
        parts = [one[:, k * TILE : (k + 1) * TILE] @ two[:, at : at + TILE].T for k, at in enumerate(begins)]
        product = torch.stack(parts).sum(0)
        if moved and _near(product if this == "A" else product.T, held):
            k = moved[0]
            columns = f"{begins[k]}:{begins[k] + TILE}"
            return (
                f"In {name}, columns {_span(k)} of {this} are multiplied by columns {columns} of {other}: is "
                f"the slice of {other} scaled by the tile's width?"
            )
    return ""


def _columns_of_k(name: str, a: torch.Tensor, b: torch.Tensor, held: torch.Tensor) -> str:
    """As a sum of products of its columns of K, some of them missing and others used more than once."""
    some, K = slice(0, TILE // 2), a.shape[1]
    if not TILE < K <= FITTED:
        return ""
    weights = _fit((a[some, None, :] * b[None, :, :]).flatten(0, 1), held[some].flatten())
    if weights is None or 0 not in weights or max(weights) < 2:
        return ""
    missing = weights.index(0)
    end = next((k for k in range(missing, K) if weights[k]), K)
    most = weights.index(max(weights))
    told = (
        f"In {name}, columns {missing}:{end} of K are left out, and column {most} comes {weights[most]} times"
    )
    return f"{told}: is the slice of K scaled by the tile's width?"


def _met_at(rows: torch.Tensor) -> int:
    """Where the diagonal of the largest sum begins, in a matrix of ``TILE`` rows."""
    sums = sum(rows[t, t : rows.shape[1] - TILE + t + 1] for t in range(TILE))
    return int(torch.as_tensor(sums).argmax())


def compare_copy(Y: torch.Tensor, X: torch.Tensor) -> Comparison:
    """Hold Y against X, bit by bit and element by element in row-major order; both are fp16 and of one size,
    of any shape.
    """
    got, wanted = Y.reshape(-1).view(torch.int16), X.reshape(-1).view(torch.int16)
    differs, unwritten = got != wanted, _count(got == POISON)
    wrong = _count(differs)
    if not wrong:
        return Comparison(True, 0, 0, 0.0, 0.0, "")
    first = int(differs.nonzero()[0])
    text = f"{wrong:,} of {got.numel():,} elements of Y differ from X, the first at {_index(first, Y.shape)}"
    if unwritten == wrong:
        text += f": these were never written, {_box(differs.view(Y.shape))}"
    else:
        if first + 8 <= got.numel():
            places = (wanted.unfold(0, 8, 1) == got[first : first + 8]).all(1).nonzero().flatten().tolist()
            if len(places) == 1:
                text += f", which holds what belongs at {_index(places[0], Y.shape)}"
        if unwritten:
            text += f"; {unwritten:,} were never written, {_box((got == POISON).view(Y.shape))}"
    return Comparison(False, wrong, unwritten, math.inf, math.inf, text + ".")


def _box(mask: torch.Tensor) -> str:
    """The smallest box that holds a mask: "all of Y[1:8, 0:32]", or "in" it where it is not full."""
    spans = []
    for axis in range(mask.dim()):
        others = [a for a in range(mask.dim()) if a != axis]
        hit = (mask.any(others) if others else mask).nonzero().flatten()
        spans.append((int(hit[0]), int(hit[-1]) + 1))
    full = _count(mask) == math.prod(end - begin for begin, end in spans)
    return f"{'all of' if full else 'in'} Y[{', '.join(f'{begin}:{end}' for begin, end in spans)}]"


def _index(position: int, shape: Sequence[int]) -> str:
    """A row-major position as an index: "[3, 0, 64]"."""
    index = []
    for extent in reversed(shape):
        index.append(position % extent)
        position //= extent
    return str(index[::-1])
