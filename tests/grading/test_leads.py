"""What a verdict leads with: the learner's line, the size that names a cause; and no guess beside a race."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from course_utils.artifact import Artifact, Origin, Place, Resources, Tensor
from course_utils.cause import Cause
from course_utils.cli import kernel
from course_utils.grading import cards, lines, refine, words
from course_utils.grading.cards import Card
from course_utils.grading.refine import Wrong
from course_utils.grading.verdict import Part, Verdict
from course_utils.ptx import added, registers
from course_utils.ptx.registers import Move
from course_utils.run import gaps
from course_utils.run.protocol import Answer

TL, CUTE = "tilelang", "cute"
PLACE = {"rows": (0, 256), "columns": (0, 768), "tiles": 40, "of_tiles": 48, "ran": False}
COUNTED = Cause("count", "wrong", {"wrong": 82_632, "of": 196_608, "percent": 42.0, "where": PLACE})
PARTS = Cause("look", "parts-wrong")
BIAS = Cause("mistake", "bias-missing")


def test_a_card_without_a_line_gives_way_to_what_was_seen_at_one():
    missing, seen = (
        Card("This step needs a fence; found none."),
        Card("It reads.", Place("a.py", 3), kind="x"),
    )

    def lead(first: Card, second: Card) -> Card | None:
        parts = [
            Part(name, False, 0, 1, "", card=card)
            for name, card in (("instructions", first), ("results", second))
        ]
        return Verdict.of("step04", CUTE, "emulator", parts).card

    found = lead(missing, seen)
    assert found is not None and found.text == seen.text
    assert found.more == (f"Then: {missing.text}",)
    for first, second in (
        (replace(missing, where=Place("a.py", 1)), seen),  # it has one
        (missing, replace(seen, kind="")),  # numbers
        (missing, replace(seen, where=None)),
    ):
        assert (found := lead(first, second)) is not None and found.text == first.text


@pytest.mark.parametrize(
    "causes, vague, known",
    [
        ([COUNTED], True, [COUNTED]),
        ([COUNTED, PARTS], True, [COUNTED]),
        ([BIAS, COUNTED], False, [BIAS, COUNTED]),
        ([Cause("look", "every-tile"), COUNTED], True, [COUNTED]),
        ([Cause("corner", "corner-of-the-grid")], False, [Cause("corner", "corner-of-the-grid")]),
    ],
)
def test_a_count_and_a_guess_are_told_from_a_cause(causes, vague, known):
    assert refine.vague(causes) == vague == Wrong(causes=tuple(causes)).guesses
    assert refine.known(causes) == known


def test_no_guess_folds_below_a_race():
    race = Wrong(({"kind": "read-before-load"},), (COUNTED, PARTS))
    fence = replace(race, findings=({"kind": "proxy-fence"},))
    changed = Cause("memory", "input-changed", {"tensor": "A"})
    assert cards.beside(race, race.causes) == [COUNTED]
    assert cards.beside(race, [Cause("k", "two-indices"), COUNTED]) == [COUNTED]
    assert cards.beside(race, [changed, COUNTED]) == [changed, COUNTED]
    assert cards.beside(fence, fence.causes) == [*fence.causes]  # it leaves the numbers as they are
    assert cards.beside(Wrong(causes=(BIAS, COUNTED)), [COUNTED, PARTS]) == [COUNTED]


def holes(*slices: tuple[slice, slice], shape: tuple[int, int] = (256, 1000)) -> torch.Tensor:
    mask = torch.zeros(shape, dtype=torch.bool)
    for rows, columns in slices:
        mask[rows, columns] = True
    return mask


ALL = slice(None)


@pytest.mark.parametrize(
    "mask, said",
    [
        (
            holes(*((ALL, slice(at + 192, at + 208)) for at in (0, 208, 416, 624))),
            "Columns 192:208 of each 208 were never written: ",
        ),
        (
            holes(*((ALL, slice(at + 128, at + 208)) for at in (0, 208))),
            "of each 208 were never written, in tiles of columns 0:416 of D: ",
        ),
        (holes((ALL, slice(0, 416))), "Columns 0:416 of D were never written, and all others were: "),
        (holes((slice(100, 164), ALL)), "Rows 100:164 of D were never written, and all others were: "),
        (holes((slice(0, 64), slice(0, 64))), ""),
        (holes(*((ALL, slice(at, at + 8)) for at in range(0, 64, 16))), ""),  # a thread's part
    ],
)
def test_what_was_never_written_is_named_by_columns(mask, said):
    found = gaps.found(mask)
    assert (said == "") == (found is None)
    if found:
        assert said in words.text(replace(found, values={"tensor": "D", **found.values}))


@pytest.mark.parametrize(
    "numbers, said",
    [
        ([4], "K tile 4"),
        ([16, 17], "K tiles 16 and 17"),
        ([9, *range(11, 33)], "K tiles 9 and 11 to 32"),
        ([0, 2, 5], "K tiles 0, 2 and 5"),
    ],
)
def test_k_tiles_are_named_as_ranges(numbers, said):
    assert words.k_tiles(numbers) == said


SOURCE = """\
def gemm(M, N, K):
    rows, columns = M // block_M, N // block_N
    chunks = block_N // epi_N
    def store(c, tile):
        copy(c)
    def main():
        for k in unroll(peel):
            for c in unroll(k, {bound}):
                store(c, tile)
        for c in unroll(chunks):
            store(c, tile)
"""


def kernel_of(bound: str = "chunks", problem: tuple[int, int, int] = (1490, 1792, 64)) -> Artifact:
    M, N, K = problem
    python = {"/no/mine.py": SOURCE.format(bound=bound)}
    shapes = {"A": (M, K), "B": (N, K), "D": (M, N)}
    tensors = tuple(Tensor(name, shape, "float16") for name, shape in shapes.items())
    return Artifact(
        "cute", "k", "", b"", *[(1, 1, 1)] * 3, 0, (), tensors, Resources(166, 0, 0, 0, 0), python=python
    )


@pytest.mark.parametrize(
    "bound, every, lines_of_calls",
    [("chunks", True, [3]), ("chunks", False, [9, 11]), ("k + 1", True, [9, 11])],
)
def test_chunks_are_counted_where_the_author_counts_them(monkeypatch, bound, every, lines_of_calls):
    monkeypatch.setattr(lines, "_line", lambda *_: Origin("/no/mine.py", 5))
    places = lines.of_stores(kernel_of(bound), every)
    assert [place.line for place in places] == lines_of_calls
    if lines_of_calls == [3]:
        assert str(places[0]) == "mine.py, line 3: chunks = block_N // epi_N"


def corner(M, N, rows, columns):
    values = {"tensor": "D", "rows": (0, rows), "columns": (0, columns), "M": M, "N": N}
    return Cause("corner", "corner-of-the-grid", values)


@pytest.mark.parametrize(
    "problem, wrote, line",
    [
        ((1490, 1792, 64), (1408, 1792), 2),
        ((512, 512, 64), (256, 512), 0),  # whole tiles: something else
        ((1490, 1792, 64), (704, 1792), 0),  # half of it
    ],
)
def test_tiles_at_the_edge_are_told_from_a_wrong_grid(problem, wrote, line):
    causes = (corner(*problem[:2], *wrote), COUNTED)
    found = refine.refine(Answer(causes=causes), kernel_of(problem=problem))
    assert (
        found.place.line == line and found.causes[0].case == "edge-left-out"
        if line
        else (found.causes == causes)
    )


@pytest.mark.parametrize("sums, case", [(1, "another-tile"), (2, "former-tile")])
def test_a_warp_that_wrote_one_sum_has_no_former_one(sums, case):
    D = Cause("accumulator", "former-tile", {"rows": (0, 64), "A_rows": (64, 128)})
    answer = Answer(causes=(D,), facts={"runs": 2, "rounds": 2, "sums of a warp": 2 * sums})
    assert refine.refine(answer, kernel_of()).causes[0].case == case


OVERLAID = """\
  extern __shared__ uchar buf_dyn_shmem[];
  void* D_shared = ((void*)((char*)buf_dyn_shmem + 0));
  void* scratch = ((void*)((char*)buf_dyn_shmem + 0));
  for (int k = 0; k < 4; ++k) {
    ((half_t*)scratch)[0] = a;
    __syncthreads();
    b = ((half_t*)scratch)[1];
    __syncthreads();
  }
  b = ((half_t*)scratch)[0];
  __syncthreads();
  ((half_t*)D_shared)[0] = b;
  __syncthreads();
  tl::tma_store(D_desc, D_shared);
  tl::tma_store_wait<0>();
  __syncthreads();
  ((half_t*)D_shared)[0] = b;""".split("\n")


def test_a_barrier_between_buffers_that_share_bytes_is_the_compilers_affair():
    overlay = {at for at, line in enumerate(OVERLAID) if "__sync" in line and added._of_overlay(OVERLAID, at)}
    assert overlay == {10}  # the others keep accesses of one buffer apart, one of them from round to round


def test_a_move_that_leaves_too_few_registers_is_named(monkeypatch):
    few = kernel_of()
    ignored = (
        "(C7507) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements."
    )
    few = replace(few, resources=replace(few.resources, warnings=(ignored,)))
    moves = [
        Move("dec", 40, "producer", Place("a.py", 1, "dec")),
        Move("inc", 40, "consumer", Place("a.py", 2, "inc")),
    ]
    monkeypatch.setattr(registers, "moves", lambda _: iter(moves))
    found, place = registers.reallocated(few)
    assert (found.case, found.values["way"], place) == ("too-few-registers", "inc", moves[1].place)
    assert words.text(found).startswith("inc 40 by the consumer, whose code needs more than 40 registers")
    moves[1] = replace(moves[1], count=232)
    found, _ = registers.reallocated(few)
    assert "dec 40 by the producer, whose code needs more" in words.text(found)


@pytest.mark.parametrize(
    "name, takes, kinds",
    [
        ("mine.py", "A, B, D", ["gemm", "sums added up", "batch", "B K x N"]),
        ("mine.py", "A, B, bias, D", ["bias and relu"]),
        ("task10d_mine.py", "A, B, D", ["groups"]),
        ("mine.py", "P, Q", ["gemm"]),
    ],
)
def test_a_file_is_taken_for_what_its_tensors_say(tmp_path, name, takes, kinds):
    path = tmp_path / name
    path.write_text(f"def gemm(M, N, K):\n    def main({takes}): ...\n    return main\n")
    assert sorted(kernel._kinds(path)) == sorted(kinds) and kernel._kinds(path)[0] == kinds[0]


MACRO = """\
def store(m, D):
    T.tma_copy(D_shared, D[m : m + 128, 0:64])

m, n = (tiles.m_idx * cluster + rank) * block_M, tiles.n_idx * block_N
m_last = {made}
store(m_last, D)
"""


@pytest.mark.parametrize(
    "made, store, line",
    [
        ("tiles.m_idx * block_M", 2, 5),
        ("(tiles.m_idx * cluster + rank) * block_M", 2, 0),  # the store itself, then
        ("tiles.m_idx * block_M", 6, 0),  # no function that takes the place from its callers
    ],
)
def test_a_row_without_its_rank_is_told_where_it_is_made(made, store, line):
    artifact = replace(kernel_of(), python={"/no/mine.py": MACRO.format(made=made)})
    place = lines.without_rank(artifact, store)
    assert (place.line if place else 0) == line
    text = "CTAs 0 and 1 both store D[0:128, 0:64]; they are one cluster: does its row count the CTA's rank?"
    first = {
        "kind": "stored-twice",
        "case": "stored twice in a cluster",
        "text": text,
        "file": "mine.py",
        "line": store,
        "code": "",
    }
    answer = Answer(findings=({**first, "where": "mine.py", "more": []},))
    found = refine.refine(answer, artifact)
    assert found.findings[0]["line"] == (line or store)
    assert (found.findings == answer.findings) == (not line)


NAME = "stores outside D, axis 0"
FAR = {NAME: 8, f"{NAME}, at": 4288, f"{NAME}, of": 512}  # M and N mixed up would stay within the larger


@pytest.mark.parametrize(
    "grid, facts, said, never",
    [
        ((132, 1, 1), {"stores outside D, axis 1": 1}, "M and N mixed up in the order of tiles", "x and y"),
        (
            (132, 1, 1),
            FAR,
            "8 TMA stores lie outside D, one from column 4,288 of 512: does its index",
            "mixed up",
        ),
        ((132, 1, 1), {}, "do the tiles of all CTAs (by the grid, or order of tiles) cover D?", "mixed up"),
        ((4, 2, 1), {"stores outside D, axis 1": 1}, "x and y of the grid mixed up", "in the order"),
    ],
)
def test_a_persistent_grid_has_an_order_of_tiles_and_no_x_and_y(grid, facts, said, never):
    causes = (corner(512, 512, 256, 256), COUNTED)
    artifact = replace(kernel_of(problem=(512, 512, 64)), grid=grid)
    wrong = refine.refine(Answer(causes=causes, facts=facts), artifact)
    found = words.text(*(cause for cause in wrong.causes if cause.kind != "outside"))
    if "lie outside" in said:
        found = words.text(*wrong.causes)
    assert said in found and never not in found and found.endswith(words.text(COUNTED))
