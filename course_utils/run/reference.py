"""Is D right, and if not, what does the way it is wrong say? On torch tensors, CPU or GPU.

D is poisoned before a run with a NaN whose bits no arithmetic makes, so "never written" and "computed a NaN"
differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from course_utils.cause import Cause
from course_utils.problems import ABSOLUTE_PER_K, POISONS, PROBLEMS, product
from course_utils.run import gaps
from course_utils.run.words import safe_message

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
    """What one run's D is, against the reference. ``causes`` are empty where ``ok``; else they say what the
    values tell, and count what is wrong, in the order in which a reader wants them.
    """

    ok: bool
    wrong: int
    unwritten: int
    relative_norm: float
    max_error: float
    causes: tuple[Cause, ...] = ()


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
    absolute: float | torch.Tensor,
    partial: bool = False,
    operands: tuple[torch.Tensor, torch.Tensor] | None = None,
    mistaken: Sequence[tuple[str, Callable[[], torch.Tensor]]] = (),
    name: str = "D",
    infinite: str = "",
) -> Comparison:
    """Hold an output, M x N, against what it must be. ``absolute`` is the error that it, or each element of
    it, may have beside its rounding; ``partial`` as in ``compare``; ``operands``, ``mistaken`` and
    ``infinite`` explain a wrong one (see ``problems.Problem``); ``name`` is what the author calls it.
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
        return Comparison(True, 0, n_unwritten, norm, largest)
    ran = ~left if partial and unwritten is not left else None

    def causes() -> list[Cause]:
        usual = _usual_mistake(D, values, wrong, unwritten, mistaken) if n_wrong > n_unwritten else ""
        return _causes(D, operands, values, wrong, unwritten, norm, usual, infinite, ran)

    known = safe_message(causes, [Cause("count", "wrong-somewhere", {"wrong": n_wrong, "of": D.numel()})])
    named = tuple(replace(one, values={"tensor": name, **one.values}) for one in known)
    return Comparison(False, n_wrong, n_unwritten, norm, largest, named)


def _usual_mistake(
    D: torch.Tensor,
    right: torch.Tensor,
    wrong: torch.Tensor,
    unwritten: torch.Tensor,
    mistaken: Sequence[tuple[str, Callable[[], torch.Tensor]]],
) -> str:
    """The case of the first mistake whose values the wrong elements have, and if one can, the others too; ""
    where none has. Values that are about the right ones explain what is wrong only where they are that very
    number.
    """
    others, wrong = ~wrong, wrong & ~unwritten
    held, wanted, found = D[wrong], right[wrong], ""
    if not bool(torch.isfinite(held).all()):
        return ""
    for case, values in mistaken:
        would = values()
        theirs = would[wrong]
        small = _near(theirs, wanted.double())
        same = bool((theirs.to(D.dtype) == held).double().mean() > SAME) if small else False
        if same or not small and _near(theirs, held.double()):
            if _near(would[others], D[others].double()):
                return case
            found = found or case
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
    return Comparison(n_wrong == 0 and norm <= NORM, n_wrong, 0, norm, largest)


def _written_rows(
    D: torch.Tensor, values: torch.Tensor, unwritten: torch.Tensor, absolute: float | torch.Tensor
) -> Comparison | None:
    """What ``compare_values`` says of a few CTAs, from the rows alone that hold anything written; None where
    these are half of D, and where something is wrong.
    """
    written = (~unwritten).any(1)
    if 2 * _count(written) > len(written):
        return None
    ref, rows, left = _without(unwritten[written], values[written], D[written])
    absolute = absolute[written] if isinstance(absolute, torch.Tensor) else absolute
    wrong, norm, largest = _errors(rows, ref, left, absolute)
    if bool(wrong.any()) or not norm <= ROUNDING[D.dtype][1]:
        return None
    return Comparison(True, 0, 0, norm, largest)


def _without(
    unwritten: torch.Tensor, ref: torch.Tensor, D: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The reference and D with what was never written as if it were right."""
    return ref.masked_fill(unwritten, 0), D.masked_fill(unwritten, 0), torch.zeros_like(unwritten)


def bound(ref: torch.Tensor, dtype: torch.dtype, absolute: float | torch.Tensor) -> torch.Tensor:
    """By how much an output of this type may differ from ``ref``."""
    return ref.abs().mul_(ROUNDING[dtype][0]).add_(absolute)


def _errors(
    D: torch.Tensor, ref: torch.Tensor, unwritten: torch.Tensor, absolute: float | torch.Tensor
) -> tuple[torch.Tensor, float, float]:
    """Which elements are wrong, the relative norm of the error, and its largest value."""
    error = (D.to(ref.dtype) - ref).abs_()  # in place: to ask for memory takes longer than to compute
    wrong = ~(error <= bound(ref, D.dtype, absolute))  # a NaN compares false, so it is wrong
    wrong |= unwritten
    finite = error.nan_to_num_(0.0, posinf=0.0)
    norm = math.inf if bool(unwritten.all()) else float(finite.norm() / ref.norm())
    return wrong, norm, float(finite.max())


def _causes(
    D: torch.Tensor,
    operands: tuple[torch.Tensor, torch.Tensor] | None,
    ref: torch.Tensor,
    wrong: torch.Tensor,
    unwritten: torch.Tensor,
    norm: float,
    usual: str = "",
    infinite: str = "",
    ran: torch.Tensor | None = None,
) -> list[Cause]:
    """What the values say of the cause, as far as it can be told, then how many elements are wrong, and
    where. ``usual`` is the case of a usual mistake that the values show, ``infinite`` that of a row that is
    not finite; ``ran`` is what the CTAs that ran wrote, where they were a few: wrong elements are counted
    among those.
    """
    total = D.numel() if ran is None else _count(ran)
    n_wrong, n_unwritten = _count(wrong), _count(unwritten)
    if n_unwritten == total:
        return [Cause("unwritten", "nothing-written")]
    if n_wrong == 0:
        return [_small_errors(norm, D.dtype, "-within-bounds")]
    corner, hint = _corner(~unwritten), _unwritten_hint(unwritten) if n_unwritten else None
    never = Cause("count", "unwritten", {"unwritten": n_unwritten, "of": total, "where": _where(unwritten)})
    if hint and n_unwritten == n_wrong:
        return [hint, never] if hint.kind in ("unwritten", "corner") else [never, hint]
    share = float(f"{100 * n_wrong / total:.3g}")
    found = [
        Cause(
            "count", "wrong", {"wrong": n_wrong, "of": total, "percent": share, "where": _where(wrong, ran)}
        )
    ]
    computed = wrong & ~unwritten
    if hint and corner:
        of_them = {"unwritten": n_unwritten, "where": _where(unwritten)}
        found = [hint, *found, Cause("count", "unwritten-of-them", of_them)]
    elif hint:
        others = {"wrong": n_wrong - n_unwritten, "where": _where(computed)}
        found = [never, hint, Cause("count", "others-wrong", others)]
    held = D[computed]
    if nans := _count(~torch.isfinite(held)):
        value = "NaN" if bool(torch.isnan(held).any()) else "inf"
        if infinite:
            row = int((computed & ~torch.isfinite(D)).any(1).nonzero()[0])
            return [Cause("not-finite", infinite, {"row": row, "value": value}), *found]
        found.append(Cause("not-finite", "not-finite", {"count": nans, "value": value}))
        if nans > 0.5 * _count(computed):
            return found
    off = (held.to(ref.dtype) - ref[computed]).abs() / ref.norm() * math.sqrt(total)
    typical = float(off.nan_to_num(9.9).median())
    if usual:
        found.insert(0, Cause("mistake", usual))
    elif typical < 0.02:
        at = 0 if D.dtype == torch.float32 else len(found)
        found.insert(at, _small_errors(norm, D.dtype))
    elif operands and (story := _operand_stored(D, *operands, computed)):
        found.insert(0, story)
    elif story := _story(D, operands, ref, computed, n_unwritten > 0):
        # what the values tell comes before where they are, and after what was never written
        found.insert(1 if n_unwritten and story.case != "mirror" else 0, story)
        if n_unwritten and corner and story.case in ("stored-elsewhere", "moved-or-stored-elsewhere"):
            found[0] = _unwritten_hint(unwritten, stacked=True)
            if story.values["rows"] == story.values.get("A_rows"):  # its own rows: the columns are wrong
                found[0] = Cause("corner", "corner", found[0].values)
                found[1] = replace(story, case="slices-stored-elsewhere")
    else:
        hint = _pattern_hint(computed, ran)
        found.insert(0 if hint.case == "every-tile" else len(found), hint)
    return found


def _story(
    D: torch.Tensor,
    operands: tuple[torch.Tensor, torch.Tensor] | None,
    ref: torch.Tensor,
    computed: torch.Tensor,
    gaps: bool,
) -> Cause | None:
    """What the first wrong tile holds instead; without the operands of a product, whether it was moved."""
    if operands is None:
        return _moved_story(D, ref, computed)
    return (
        _tile_story(D, *operands, ref, computed, gaps)
        or _zero_story(D, computed)
        or _moved_story(D, ref, computed)
        or _k_story(D, *operands, computed)
    )


def _small_errors(norm: float, dtype: torch.dtype, within: str = "") -> Cause:
    """``within`` is "-within-bounds" where no element alone is past its bound."""
    if dtype == torch.float32:
        return Cause("precision", f"fp32-rounded{within}", {"norm": norm})
    name, usual = ("bf16", 1.6e-3) if dtype == torch.bfloat16 else ("fp16", 2e-4)
    return Cause("precision", f"sums-rounded{within}", {"norm": norm, "dtype": name, "usual": usual})


def _where(mask: torch.Tensor, ran: torch.Tensor | None = None) -> dict:
    """Which rows, columns or tiles a mask covers; of those tiles that ``ran``."""
    rows, cols = mask.any(1).nonzero().flatten(), mask.any(0).nonzero().flatten()
    if len(rows) <= 2:
        return {"only_rows": rows.tolist()}
    if len(cols) <= 2:
        return {"only_columns": cols.tolist()}
    where = {"rows": (int(rows[0]), int(rows[-1]) + 1), "columns": (int(cols[0]), int(cols[-1]) + 1)}
    tiles = _tiles(mask)
    if not tiles.numel():
        return where
    of = tiles.numel() if ran is None else int(_tiles(ran).sum())
    return where | {"tiles": int(tiles.sum()), "of_tiles": of, "ran": ran is not None}


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


def _unwritten_hint(unwritten: torch.Tensor, stacked: bool = False) -> Cause:
    """What leaves such gaps; ``stacked``: what is missing was stored over something else."""
    M, N = unwritten.shape
    if found := _corner(~unwritten):
        rows, cols = found
        if stacked:
            case = "corner-stacked"
        elif rows % TILE or cols % TILE:
            case = "corner-of-slices"
        elif max(M, N) <= 2 * TILE:
            case = "corner-of-a-tile"
        else:
            case = "corner-of-every-cta" if rows < M and cols < N else "corner-of-the-grid"
        return Cause("corner", case, {"rows": (0, rows), "columns": (0, cols), "M": M, "N": N})
    tiles = _tiles(unwritten)
    full = _counts(unwritten) == TILE * TILE
    lacking = gaps.found(unwritten)
    if lacking and lacking.case == "columns-of-each":
        width = lacking.values["width"]
        if width in (2 * TILE, 4 * TILE) and not N % width:
            return lacking
    if bool((tiles == full).all()):
        return Cause("look", "tiles-missing")
    return lacking or Cause("look", "parts-missing")


def _pattern_hint(wrong: torch.Tensor, ran: torch.Tensor | None = None) -> Cause:
    """What the tiles that are wrong, of all or of those that ``ran``, say of the cause."""
    tiles = _tiles(wrong)
    n_wrong, touched = _count(wrong), int(tiles.sum())
    per_tile = n_wrong / max(touched, 1)
    if per_tile >= 0.9 * TILE * TILE:
        share = touched / max(tiles.numel() if ran is None else int(_tiles(ran).sum()), 1)
        return Cause("look", "some-tiles" if share < 0.98 else "every-tile")
    return Cause("look", "fragments" if per_tile <= 4 * TILE else "parts-wrong")


def _span(tile: int, width: int = TILE) -> tuple[int, int]:
    return tile * width, (tile + 1) * width


def _of_tile(i: int, j: int) -> dict:
    return {"rows": _span(i), "columns": _span(j)}


def _zero_story(D: torch.Tensor, wrong: torch.Tensor) -> Cause | None:
    """Explain the first wrong tile that holds nothing but zeros, as a load of what no tensor has does."""
    M, N = D.shape
    hit = (_counts(wrong & (D == 0)) > 0.99 * TILE * TILE).nonzero()
    if len(hit) == 0:
        return None
    i, j = (int(v) for v in hit[0])
    if i * TILE >= N or j * TILE >= M:
        short, other, has = ("B", "A", N) if i * TILE >= N else ("A", "B", M)
        values = {"operand": short, "other": other, "operand_rows": has}
        return Cause("zeros", "index-of-the-other", _of_tile(i, j) | values)
    return Cause("zeros", "zeros", _of_tile(i, j))


def _operand_stored(D: torch.Tensor, A: torch.Tensor, B: torch.Tensor, wrong: torch.Tensor) -> Cause | None:
    """Explain the first tile that is wrong all over by an operand's own elements."""
    hit = (_counts(wrong) > 0.9 * TILE * TILE).nonzero()
    if len(hit) == 0:
        return None
    i, j = (int(v) for v in hit[0])
    held = D[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
    for name, operand in (("A", A), ("B", B)):
        rows, K = len(operand) // TILE, operand.shape[1] // TILE
        blocks = operand[: rows * TILE, : K * TILE].reshape(rows, TILE, K, TILE).transpose(1, 2)
        same = (blocks == held.to(operand.dtype)).all(3).all(2).nonzero()
        if len(same):
            row, k = (int(v) for v in same[0])
            values = {"operand": name, "operand_rows": _span(row), "operand_columns": _span(k)}
            return Cause("misplaced", "operand-stored", _of_tile(i, j) | values)
    return None


def _tile_story(
    D: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    ref: torch.Tensor,
    wrong: torch.Tensor,
    gaps: bool = False,
) -> Cause | None:
    """Explain the first tile that is wrong all over by whole products of other rows: those of another tile,
    beside its own, transposed, or of one operand with itself. ``gaps``: others were never written.
    """
    M, N = ref.shape
    hit = (_counts(wrong) > 0.9 * TILE * TILE).nonzero()
    if len(hit) == 0 or M * N > SEARCHED:
        return None
    products = ref[: M // TILE * TILE, : N // TILE * TILE].double().cpu()
    products = products.reshape(M // TILE, TILE, N // TILE, TILE).transpose(1, 2)
    i, j = (int(v) for v in hit[0])
    rows, cols = slice(i * TILE, (i + 1) * TILE), slice(j * TILE, (j + 1) * TILE)
    held = D[rows, cols].double().cpu()
    if not bool(torch.isfinite(held).all()):
        return None

    def nearest(values: torch.Tensor) -> tuple[int, int] | None:
        off = (products - values).flatten(2).norm(dim=2) / values.norm()
        k = int(off.argmin())
        return divmod(k, off.shape[1]) if float(off.flatten()[k]) < 0.02 else None

    def cause(kind: str, case: str, at: tuple[int, int]) -> Cause:
        return Cause(kind, case, _of_tile(i, j) | {"A_rows": _span(at[0]), "B_rows": _span(at[1])})

    if other := nearest(held):
        return cause("misplaced", _misplaced((i, j), other, gaps), other)
    if other := nearest(held - products[i, j]):
        return cause("accumulator", "twice" if other == (i, j) else "former-tile", other)
    if other := nearest(held.T):
        return cause("transposed", "own-transposed" if other == (i, j) else "other-transposed", other)
    for name, other_name, operand in (("A", "B", A), ("B", "A", B)):
        for row, col in {(i, i), (i, j), (j, j)}:
            left, right = (operand[at * TILE : (at + 1) * TILE].double().cpu() for at in (row, col))
            if len(left) == len(right) == TILE and _near(left @ right.T, held):
                values = {"operand": name, "other": other_name, "left": _span(row), "right": _span(col)}
                return Cause("misplaced", "operand-twice", _of_tile(i, j) | values)
    return None


def _near(values: torch.Tensor, held: torch.Tensor) -> bool:
    return float((values - held).norm() / held.norm()) < 0.02


def _misplaced(own: tuple[int, int], other: tuple[int, int], gaps: bool) -> str:
    """Which operand, or the store, is at another tile's place: the store, where it left ``gaps``."""
    (i, j), (row, col) = own, other
    if (row, col) == (j, i):
        return "mirror"
    if gaps:
        return "stored-elsewhere"
    return "rows-of-B" if row == i else "rows-of-A" if col == j else "coordinates"


def _moved_story(D: torch.Tensor, ref: torch.Tensor, wrong: torch.Tensor) -> Cause | None:
    """Explain the first wrong tile by columns, or rows, that belong elsewhere in its rows, or columns."""
    hit = _tiles(wrong).nonzero()
    if len(hit) == 0:
        return None
    i, j = (int(v) * TILE for v in hit[0])
    return _moved(D, ref, wrong, i, j, "columns") or _moved(D.T, ref.T, wrong.T, j, i, "rows")


def _moved(
    D: torch.Tensor, ref: torch.Tensor, wrong: torch.Tensor, row: int, col: int, things: str
) -> Cause | None:
    """Of the tile at (row, col), the first run of wrong columns that belong elsewhere in its rows."""
    rows = slice(row, row + TILE)
    bad = wrong[rows, col : col + TILE].sum(0) > 0.9 * TILE
    if not bool(bad.any()):
        return None
    begin = col + int(bad.nonzero()[0])
    held, right = D[rows].to(ref.dtype), ref[rows]
    off = (right - held[:, begin : begin + 1]).norm(dim=0)
    source, count = int(off.nan_to_num(math.inf).argmin()), 0
    while begin + count < D.shape[1] and source + count < D.shape[1] and count < TILE:
        if source == begin or not _near(right[:, source + count], held[:, begin + count]):
            break
        count += 1
    if not count:
        return None
    here, across = (begin, begin + count), (row, row + TILE)
    rows_, columns = (across, here) if things == "columns" else (here, across)
    there = not bool(wrong[rows, source : source + count].any())  # in its own place too: it was cut twice
    return Cause(
        "misplaced",
        "moved" if there else "moved-or-stored-elsewhere",
        {"rows": rows_, "columns": columns, "axis": things, "belongs": (source, source + count)},
    )


def _k_story(D: torch.Tensor, A: torch.Tensor, B: torch.Tensor, wrong: torch.Tensor) -> Cause | None:
    """Explain the first wrong tile as a weighted sum of products of its K tiles."""
    hit = _tiles(wrong).nonzero()
    if len(hit) == 0:
        return None
    i, j = (int(v) for v in hit[0])
    rows, cols = slice(i * TILE, (i + 1) * TILE), slice(j * TILE, (j + 1) * TILE)
    a, b, held = (t.double().cpu() for t in (A[rows], B[cols], D[rows, cols]))
    if not bool(torch.isfinite(held).all()):
        return None
    found = (
        _weights(a, b, held, TILE)
        or _weights(a, b, held, SLICE)
        or _pairs(a, b, held, TILE)
        or _pairs(a, b, held, SLICE)
        or _unscaled(a, b, held)
        or _columns_of_k(a, b, held)
    )
    return found and replace(found, values=_of_tile(i, j) | dict(found.values))


def _fit(parts: torch.Tensor, target: torch.Tensor) -> list[int] | None:
    """The whole numbers by which ``parts`` (elements x terms) add up to ``target``; None where none do."""
    weights = torch.linalg.lstsq(parts, target[:, None]).solution.flatten()
    nearest = weights.round()
    residual = float((parts @ weights[:, None] - target[:, None]).norm() / target.norm())
    if residual > 0.02 or float((weights - nearest).abs().max()) > 0.05:
        return None
    return [int(w) for w in nearest]


def _weights(a: torch.Tensor, b: torch.Tensor, held: torch.Tensor, width: int) -> Cause | None:
    """As a sum of its own K tiles, ``width`` columns each: 0 is a tile missed, 2 one used twice."""
    steps, short = -(-a.shape[1] // width), a.shape[1] % width
    if not 2 <= steps <= 80:
        return None
    slices = [slice(k * width, (k + 1) * width) for k in range(steps)]  # the last may be short
    weights = _fit(torch.stack([(a[:, s] @ b[:, s].T).flatten() for s in slices], 1), held.flatten())
    if weights is None or all(w == 1 for w in weights):
        return None
    missing = [k for k, w in enumerate(weights) if w == 0]
    kept = [k for k in range(steps) if k not in missing]
    repeated: dict[str, list[int]] = {}  # by how often
    for k, w in enumerate(weights):
        if w not in (0, 1):
            repeated.setdefault(str(w), []).append(k)
    if width == SLICE:
        if kept == [steps - 1] and not repeated:
            return Cause("k", "never-accumulated", {"slice": SLICE})
        if len(kept) == 1 and repeated:
            return Cause("k", "slice-repeated", {"k": _span(kept[0], SLICE), "times": weights[kept[0]]})
        return _slices(kept) if not repeated else None
    if short and missing == [steps - 1] and not repeated:
        return Cause("k", "last-short", {"last": short})
    case = _lost(steps, missing, sum(map(len, repeated.values())))
    weighed = {"missing": missing, "repeated": repeated}
    return Cause("k", case, {"k_tiles": steps, "k_tile": TILE, "weights": weighed})


def _slices(kept: list[int]) -> Cause | None:
    """The same slices of each K tile, and no others, were multiplied."""
    each = TILE // SLICE
    inside = sorted({k % each for k in kept})
    if len(kept) % len(inside) or kept != [k for k in range(max(kept) + 1) if k % each in inside]:
        return None
    return Cause("k", "slices-left-out", {"slices": [_span(k, SLICE) for k in inside], "k_tile": TILE})


def _lost(steps: int, missing: list[int], repeated: int) -> str:
    """What usually makes these K tiles miss, or come more than once."""
    kept = steps - len(missing)
    if missing and not repeated:
        if missing == list(range(steps - 1)) and steps > 2:
            return "overwritten"
        if missing[0] == kept:
            return "ends-early"
        if missing == list(range(len(missing))):
            return "begins-late"
    return "one-k-tile" if kept == 1 and repeated == 1 else "wrong-k-tiles"


def _pairs(a: torch.Tensor, b: torch.Tensor, held: torch.Tensor, width: int) -> Cause | None:
    """As a sum of products of A's columns with others of B's: the two disagree on K."""
    steps = a.shape[1] // width
    if not 2 <= steps <= PAIRED:
        return None
    some = slice(0, TILE // 2)  # a quarter of the tile is enough, and quicker
    pairs = [(k, m) for k in range(steps) for m in range(steps)]

    def columns(operand: torch.Tensor, k: int) -> torch.Tensor:
        return operand[some, k * width : (k + 1) * width]

    parts = torch.stack([(columns(a, k) @ columns(b, m).T).flatten() for k, m in pairs], 1)
    weights = _fit(parts, held[some, some].flatten())
    odd = [pair for pair, weight in zip(pairs, weights or (), strict=False) if weight and pair[0] != pair[1]]
    if not odd:
        return None
    k, m = odd[0]
    used = [pair for pair, weight in zip(pairs, weights or (), strict=False) if weight]
    lost = [operand for operand, side in (("A", 0), ("B", 1)) if len({pair[side] for pair in used}) < steps]
    values = {"A_columns": _span(k, width), "B_columns": _span(m, width)}
    if len(lost) == 1:
        return Cause("k", "slice-stays", values | {"operand": lost[0]})
    return Cause("k", "two-indices", values)


def _unscaled(a: torch.Tensor, b: torch.Tensor, held: torch.Tensor) -> Cause | None:
    """As a sum of products of one operand's K tiles with any columns of the other's: those begin at k, where
    they should at ``TILE`` times k.

    A^T D B is large where a column of A and one of B were multiplied, so along the diagonal that a tile's
    columns make with those they met.
    """
    steps = a.shape[1] // TILE
    if not 2 <= steps <= PAIRED:
        return None
    met = a.T @ held @ b
    for this, other, where, one, two in (("A", "B", met, a, b), ("B", "A", met.T, b, a)):
        begins = [_met_at(where[k * TILE : (k + 1) * TILE]) for k in range(steps)]
        moved = [k for k, at in enumerate(begins) if at != k * TILE]
        parts = [one[:, k * TILE : (k + 1) * TILE] @ two[:, at : at + TILE].T for k, at in enumerate(begins)]
        product = torch.stack(parts).sum(0)
        if moved and _near(product if this == "A" else product.T, held):
            k = moved[0]
            met_columns = (begins[k], begins[k] + TILE)
            values = {f"{this}_columns": _span(k), f"{other}_columns": met_columns, "operand": other}
            return Cause("k", "slice-unscaled", values)
    return None


def _columns_of_k(a: torch.Tensor, b: torch.Tensor, held: torch.Tensor) -> Cause | None:
    """As a sum of products of its columns of K, some of them missing and others used more than once."""
    some, K = slice(0, TILE // 2), a.shape[1]
    if not TILE < K <= FITTED:
        return None
    weights = _fit((a[some, None, :] * b[None, :, :]).flatten(0, 1), held[some].flatten())
    if weights is None or 0 not in weights or max(weights) < 2:
        return None
    missing = weights.index(0)
    end = next((k for k in range(missing, K) if weights[k]), K)
    most = weights.index(max(weights))
    return Cause("k", "unscaled", {"k": (missing, end), "repeated": most, "times": weights[most]})


def _met_at(rows: torch.Tensor) -> int:
    """Where the diagonal of the largest sum begins, in a matrix of ``TILE`` rows."""
    sums = sum(rows[t, t : rows.shape[1] - TILE + t + 1] for t in range(TILE))
    return int(torch.as_tensor(sums).argmax())


def compare_copy(Y: torch.Tensor, X: torch.Tensor) -> Comparison:
    """Hold Y against X, of one element type and size, bit by bit and element by element in row-major
    order.
    """
    got, wanted, kept = bits(Y.reshape(-1)), bits(X.reshape(-1)), unwritten_in(Y.reshape(-1))
    differs, unwritten = got != wanted, _count(kept)
    wrong = _count(differs)
    if not wrong:
        return Comparison(True, 0, 0, 0.0, 0.0)
    first = int(differs.nonzero()[0])
    values = {
        "wrong": wrong,
        "of": got.numel(),
        "first_index": _index(first, Y.shape),
        "unwritten": unwritten,
    }
    if unwritten:
        values["unwritten_in"] = _box(kept.view(Y.shape))
    case = "copy-unwritten" if unwritten == wrong else "copy-and-gaps" if unwritten else "copy"
    if unwritten < wrong and first + 8 <= got.numel():
        places = (wanted.unfold(0, 8, 1) == got[first : first + 8]).all(1).nonzero().flatten().tolist()
        if len(places) == 1:
            values["belongs_index"] = _index(places[0], Y.shape)
    return Comparison(False, wrong, unwritten, math.inf, math.inf, (Cause("copy", case, values),))


def _box(mask: torch.Tensor) -> dict:
    """The smallest box that holds a mask, and whether it is full."""
    spans = []
    for axis in range(mask.dim()):
        others = [a for a in range(mask.dim()) if a != axis]
        hit = (mask.any(others) if others else mask).nonzero().flatten()
        spans.append((int(hit[0]), int(hit[-1]) + 1))
    return {"spans": spans, "full": _count(mask) == math.prod(end - begin for begin, end in spans)}


def _index(position: int, shape: Sequence[int]) -> list[int]:
    """A row-major position as an index: [3, 0, 64]."""
    index = []
    for extent in reversed(shape):
        index.append(position % extent)
        position //= extent
    return index[::-1]
