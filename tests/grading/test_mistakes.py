"""What learners get wrong, and what the check says of it: every fault of ``solutions/wrong`` that a card is
held against, and mistakes that are no edits of a solution.

A name in brackets is the text that promises it: "01" to "t5" the notebook, "Predict" a question's answer
there, "row" a row of its table *What can go wrong*, "map" a row of the symptom map.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import NotYet, compile_factory
from course_utils.compile.faults import Fault, table
from course_utils.compile.load import edited, load_factory_source, load_module, plant, solution_path
from course_utils.grading import steps
from course_utils.grading.copy import check_copy
from course_utils.grading.gemm import check_gemm
from course_utils.grading.maps import check_maps
from tests.every_run import MISTAKES
from tests.grading.mistakes import require_said

TL, CUTE = "tilelang", "cute"


def judged() -> list:
    """Of those that a text promises every run has all that do not compile, and some of the others."""
    faults = [one for one in table() if one.fails is not None and not one.what and not one.put_back]
    assert {one.name for one in faults} >= MISTAKES
    refused = {one.name for one in faults if one.fails == "compiles" and "[" in one.name}
    rare = pytest.mark.thorough
    return [
        pytest.param(one, id=one.name, marks=[rare] * (one.name not in MISTAKES | refused)) for one in faults
    ]


@pytest.mark.parametrize("fault", judged())
def test_the_card_says_what_is_wrong(fault: Fault) -> None:
    require_said(fault)


FIRST = Path(__file__).parents[2] / "notebooks" / "00_start_here.ipynb"


@pytest.mark.parametrize(
    "line, says",
    [
        ("            T.copy(A, A_shared)\n", "Operand A of wgmma"),
        ("            T.copy(B, B_shared)\n", "A[0:64] @ A[0:64]^T"),
    ],
)
def test_the_first_kernel_without_a_copy_fails_results_alone(line, says):
    """The Predict question of notebook 00, and what it asks for next."""
    cells = json.loads(FIRST.read_text())["cells"]
    source = next("".join(cell["source"]) for cell in cells if "def gemm(" in "".join(cell["source"]))
    factory = load_factory_source(edited(source, (line, "")), "first")
    verdict = check_gemm("step01", factory, backend="emulator")
    states = {part.name: part.state for part in verdict.checks}
    assert [name for name, state in states.items() if state == "failed"] == ["results"], str(verdict)
    assert states["speed"] == "not reached" and says in verdict.card.text, str(verdict)


@pytest.mark.parametrize("dsl, other", [("tilelang", "cute"), ("cute", "tilelang")])
def test_the_other_cells_gemm_is_called_by_its_name(dsl, other):
    """A second cell defines `gemm` anew, and the first cell's check runs once more."""
    verdict = check_gemm("step03", plant("step03", other), dsl, backend="emulator")
    names = {"tilelang": "TileLang's", "cute": "CuTe DSL's"}
    said = f"Gemm is {names[other]}, and this checks {names[dsl]}. Run {names[dsl]} cell, then this one."
    assert verdict.card.text.lower() == said.lower()


@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
def test_a_check_before_its_cell_says_so(dsl):
    verdict = check_gemm("step01", NotYet("gemm"), dsl, backend="emulator")
    assert verdict.open and "the cell that defines gemm has not run yet" in str(verdict)


@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
def test_what_the_factory_prints_is_shown(dsl):
    factory = plant(
        "step01", dsl, ("def gemm(M, N, K):\n", "def gemm(M, N, K):\n    print('tile', M, N, K)\n")
    )
    assert "tile 128 128 64" in str(check_gemm("step01", factory, dsl, backend="compile"))


def test_a_copy_has_no_producer():
    nobody_waits = "            cute.arch.mbarrier_wait(full, 0)\n", ""
    verdict = check_copy("t4", plant("t4", CUTE, nobody_waits, wanted="copy"), CUTE, "emulator")
    assert "producer" not in verdict.card.text.lower()


# -- tensor maps: a field changed, and legal; or another rule broken

TALL, ODD_STRIDE, ODD_ROW, NARROW_SPAN, INTEGER_NAN, FAR_STEPS, LARGE, LATER_CHIP = range(8)
MAPS = {
    "a box of 8 rows": (TALL, {"box": (64, 8)}, "its box of 512 elements is small"),
    "a box of 8 x 1": (TALL, {"box": (8, 1)}, "a row of 16 bytes has a swizzle of 128 bytes"),
    "one row too many": (TALL, {"box": (64, 257)}, "Found: boxDim[1] = 257"),
    "a stride rounded down": (ODD_STRIDE, {"strides": (2048,)}, "its rows overlap"),
    "a stride of 0": (ODD_STRIDE, {"strides": (0,)}, "its rows overlap"),
    "a smaller extent, the stride as it was": (ODD_STRIDE, {"dims": (1024, 512)}, "multiple of 16"),
    "another element type": (ODD_ROW, {"data_type": 7}, "describes another tensor"),
    "a span that is still too narrow": (NARROW_SPAN, {"swizzle": 1}, "must fit in the swizzle"),
    "no swizzle": (NARROW_SPAN, {"swizzle": 0}, "has no swizzle"),
    "floats for whole numbers": (INTEGER_NAN, {"data_type": 7}, "describes another tensor"),
    "one step too far": (FAR_STEPS, {"element_strides": (1, 9)}, "Found: elementStrides"),
    "a smaller row": (LARGE, {"box": (32, 256, 8)}, "a row of 64 bytes has a swizzle of 128 bytes"),
    "no swizzle on the later chip's map": (LATER_CHIP, {"swizzle": 0}, "has no swizzle"),
    "rows twice as far apart": (TALL, {"box": (64, 256), "strides": (16384,)}, "2 fields were changed"),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_that_is_not_worth_its_points(name):
    number, fields, says = MAPS[name]
    right = load_module(solution_path("t1", "maps")).mend

    def mend(maps):
        mended = right(maps)
        mended[number] = replace(maps[number], **fields)
        return mended

    verdict = check_maps("t1", mend)
    assert [part.passed for part in verdict.checks].count(False) == 1
    assert verdict.checks[number].passed is False
    assert says in verdict.card.text and len(str(verdict.card).split()) <= 40


# -- what notebooks say of compilers


COPY_3D = """import tilelang.language as T


def gemm(d0, d1, d2):
    @T.prim_func
    def main(X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1, d2), T.float16)):
        with T.Kernel(d0 // {slabs}, threads=128) as b:
            S = T.alloc_shared(({slabs}, {rows}, {columns}), T.float16)
            full = T.alloc_barrier(1)
            z = b * {slabs}
            {load}
            T.copy(S, Y[z : z + {slabs}, 0:{rows}, 0:{columns}])
    return main
"""
BY_TMA = "T.tma_copy(X[z : z + {slabs}, 0:{rows}, 0:{columns}], S, barrier=full)"


@pytest.mark.parametrize(
    "shape, tile, load, says",
    [
        ((8, 32, 60), (2, 16, 60), BY_TMA, "TMA is not available"),
        ((8, 304, 128), (4, 304, 64), BY_TMA, "exceeds the cap 256"),
        (
            (8, 400, 64),
            (2, 200, 64),
            "T.copy(X[z : z + {slabs}, 0:{rows}, 0:{columns}], S)",
            "Mapped indices are not independent",
        ),
    ],
)
def test_a_copy_that_has_no_kernel(shape, tile, load, says):
    """Notebook t2's rows that quote TileLang: a stride, a box, and T.copy both ways."""
    names = dict(zip(("slabs", "rows", "columns"), tile, strict=True))
    source = COPY_3D.format(load=load.format(**names), **names)
    with pytest.raises(CompileError, match=says):
        compile_factory(load_factory_source(source, "copy"), TL, shape, "copy")


def test_one_arrive_in_the_ptx_of_either_ring():
    """Notebook 7's Predict: four warps or one thread arrive, by one instruction either way."""
    for name in ("step07", "raw07"):
        ptx = compile_factory(plant(name, CUTE), CUTE, (256, 256, 320)).ptx
        assert ptx.count("mbarrier.arrive.shared") == 1
        assert ptx.count("mbarrier.arrive.expect_tx") == 1


LOADS = (
    "            for s in {}(slabs):\n                T.tma_copy(X[z + s, y : y + rows, x : x + columns], {}"
)
BOX = "            T.tma_copy(X[z : z + slabs, y : y + rows, x : x + columns], S, barrier=full)\n"


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
    assert "one load of a tile" in verdict.diagnosis and "1 x 16 x 64" in verdict.card.full_text


def test_a_grid_that_leaves_out_the_last_columns_is_wrong():
    verdict, parts = copied(("T.ceildiv(d2, columns)", "d2 // columns"))
    assert parts == {"compiles": True, "tensor maps": True, "path": True, "results": False}
    assert "4 x 48 x 96" in str(verdict)


@pytest.mark.thorough
def test_a_swizzled_tile_that_starts_within_its_pattern_is_remarked():
    """TMA and wgmma both swizzle by the address in shared memory, so the numbers are right; the alignment
    that the tile was asked for costs points.
    """
    edits = (("layout_A.outer, 1024,", "layout_A.outer, 128,"),)
    fault = Fault("A starts within its pattern", "step04", CUTE, edits, fails="instructions")
    results = next(part for part in require_said(fault).checks if part.name == "results")
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
