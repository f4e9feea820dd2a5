"""Mistakes that one shape of the problem shows and another hides, and right kernels without the idea."""

from __future__ import annotations

import pytest

from course_utils.compile.load import edited, load_factory_source, plant, solution_path
from course_utils.grading import steps
from course_utils.grading.copy import check_copy
from course_utils.grading.gemm import check_gemm
from tests.grading.mistakes import Mistake, planted, require_said

TL, CUTE = "tilelang", "cute"
EVEN = (256, 512, 384)  # six K tiles
TILES = {"size": (1536, 1792, 64), "ctas": (0,)}  # of step 6: CTA 0 has two

STORE = "                T.tma_copy(D_shared, D[ms, ns])\n"
COMMIT = "                cute.arch.cp_async_bulk_commit_group()\n"
LOADS = (
    "            for s in {}(slabs):\n                T.tma_copy(X[z + s, y : y + rows, x : x + columns], {}"
)
ELECTED = "                with cute.arch.elect_one():\n                    cute.arch.mbarrier_arrive_and"
BOX = "            T.tma_copy(X[z : z + slabs, y : y + rows, x : x + columns], S, barrier=full)\n"

MISTAKES = {
    # -- right with an odd number of K tiles
    "07 K forth and back by the count of K tiles": Mistake(
        "step07",
        TL,
        (
            (
                "ks = slice(k * block_K, (k + 1) * block_K)",
                "j = T.if_then_else(it % 2 == 0, k, k_tiles - 1 - k)\n"
                "                            ks = slice(j * block_K, (j + 1) * block_K)",
            ),
        ),
        "results",
        size=EVEN,
    ),
    "09 K forth and back by the count of K tiles": Mistake(
        "step09", TL, (("tiles.current_iter % 2 == 0", "it % 2 == 0"),), "results", size=EVEN
    ),
    "10 forth turns with each K tile": Mistake(
        "step10",
        CUTE,
        (
            (
                "                        load.advance()\n                    forth = not forth\n",
                "                        load.advance()\n                        forth = not forth\n",
            ),
        ),
        "results",
        size=EVEN,
    ),
    # -- an mbarrier that begins anew
    "04 the barrier is initialised in every round": Mistake(
        "step04",
        CUTE,
        (
            (
                ELECTED,
                ELECTED.replace(
                    "mbarrier_arrive_and", "mbarrier_init(full, 1)\n" + ELECTED.partition("\n")[2]
                ),
            ),
        ),
        "results",
        says=("warp 0 initialises full again",),
        never=("the emulator's process died",),
        line="mbarrier_init(full, 1)",
    ),
    # -- registers that do not move
    "10 the consumers take fewer registers than they have": Mistake(
        "step10",
        CUTE,
        (("setmaxregister_increase(232)", "setmaxregister_increase(160)"),),
        "instructions",
        says=("inc 160", "could have 168"),
        line="setmaxregister_increase(160)",
        size=(256, 1024, 64),
    ),
    "10 the producer keeps more registers than it has": Mistake(
        "step10",
        TL,
        (("T.dec_max_nreg(40)", "T.dec_max_nreg(176)"),),
        "instructions",
        says=("dec 176", "could have 168"),
        line="T.dec_max_nreg(176)",
        size=(256, 1024, 64),
    ),
    # -- a store that nothing runs under
    "06 the store is waited for at once, TileLang": Mistake(
        "step06",
        TL,
        ((STORE, STORE + "                T.tma_store_wait(0)\n"),),
        "instructions",
        says=("under the next tile's loads", "not at once"),
        line="T.tma_store_wait(0)",
        **TILES,
    ),
    "06 the store is waited for at once, CuTe DSL": Mistake(
        "step06",
        CUTE,
        ((COMMIT, COMMIT + "                cute.arch.cp_async_bulk_wait_group(0)\n"),),
        "instructions",
        says=("under the next tile's loads", "not at once"),
        line="cute.arch.cp_async_bulk_wait_group(0)",
        **TILES,
    ),
}


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}))
def test_the_verdict_is_the_causes(mistake):
    require_said(mistake)


def test_every_step_is_emulated_and_run_at_odd_and_even_numbers_of_k_tiles():
    for row in steps.STEPS.values():
        emulated, checked = ([size for size, _ in row.emulated], row.check_sizes)
        for sizes in (emulated, checked) if row.id != "step01" else ():
            assert {K // 64 % 2 for *_, K in sizes if K > 64} == {0, 1}, row.id


def copied(*edits):
    """The emulated check of case t2 in TileLang, with these edits."""
    source = edited(solution_path("t2", TL).read_text(), *edits)
    verdict = check_copy("t2", load_factory_source(source, "mine", "copy"), TL, "emulator")
    return verdict, {part.name: part.passed for part in verdict.checks}


@pytest.mark.parametrize("loop", ["T.unroll", pytest.param("T.serial", marks=pytest.mark.thorough)])
def test_a_tile_of_x_that_comes_by_two_loads_loses_the_path(loop):
    verdict, parts = copied((BOX, LOADS.format(loop, "S[s, :, :], barrier=full)\n")))
    assert parts["results"] and not parts["path"]
    assert "one load of a tile" in verdict.diagnosis and "1 x 16 x 64" in verdict.card.told


def test_a_grid_that_leaves_out_the_last_columns_is_wrong():
    verdict, parts = copied(("T.ceildiv(d2, columns)", "d2 // columns"))
    assert parts == {"compiles": True, "tensor maps": True, "path": True, "results": False}
    assert "4 x 48 x 96" in str(verdict)


@pytest.mark.thorough
def test_a_swizzled_tile_that_starts_within_its_pattern_is_remarked():
    """TMA and wgmma both swizzle by the address in shared memory, so the numbers are right; the alignment
    that the tile was asked for costs points.
    """
    mistake = Mistake("step04", CUTE, (("layout_A.outer, 1024,", "layout_A.outer, 128,"),), "instructions")
    results = next(part for part in require_said(mistake).checks if part.name == "results")
    assert results.passed and "a tile of A with swizzle 128B starts at shared address 128" in results.detail


@pytest.mark.thorough
@pytest.mark.parametrize(
    "dsl, edits",
    [
        (TL, (("epi_N = 32", "epi_N = 64"),)),
        (CUTE, (("epi_N = 32", "epi_N = 64"), ("SmemLayoutAtomKind.K_SW64", "SmemLayoutAtomKind.K_SW128"))),
    ],
)
def test_two_slices_are_slices(dsl, edits):
    verdict = check_gemm("t5", plant("t5", dsl, *edits), dsl, "emulator")
    assert not verdict.failed and verdict.points == 10
