"""What notebook t2 claims about tilelang 0.1.15 and nvidia-cutlass-dsl 4.8.1: how tiles of a 3-D tensor reach
shared memory.

A test that fails here says that the pinned release behaves in another way now, and that the notebook has to
say so.
"""

import inspect
import json
import textwrap
from functools import cache
from math import prod

import nbformat
import numpy as np
import pytest
import tilelang.language as T

from authoring import sync
from course_utils.artifact import TensorMap
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory, compile_sizes
from course_utils.compile.load import edited, load_factory, load_factory_source, load_module, solution_path
from course_utils.compile.tile_copies import Case, outcome, source
from course_utils.figures.tma_pays import LOOKS
from course_utils.grading import predictor, words
from course_utils.grading.copy import check_copy
from course_utils.grading.maps import findings
from course_utils.notebook import records
from course_utils.ptx import paths as copies
from course_utils.ptx.paths import BULK, LOAD, STORE, TENSOR, THREADS
from course_utils.recordings import measured
from course_utils.run.backends import Emulator, Launch
from course_utils.tma.layouts import LayoutError, flattened, same_payload

SHAPE = (8, 32, 64)


def left_open(b0, b1, b2):
    """T.copy both ways: the compiler chooses."""

    def copy(d0, d1, d2):
        @T.prim_func
        def main(X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1, d2), T.float16)):
            with T.Kernel(T.ceildiv(d2, b2), d1 // b1, d0 // b0, threads=128) as (bx, by, bz):
                S = T.alloc_shared((b0, b1, b2), T.float16)
                x, y, z = bx * b2, by * b1, bz * b0
                T.copy(X[z : z + b0, y : y + b1, x : x + b2], S)
                T.copy(S, Y[z : z + b0, y : y + b1, x : x + b2])

        return main

    return copy


def asks(b0, b1, b2):
    """T.copy that prefers TMA, both ways."""

    def copy(d0, d1, d2):
        @T.prim_func
        def main(X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1, d2), T.float16)):
            with T.Kernel(d2 // b2, d1 // b1, d0 // b0, threads=128) as (bx, by, bz):
                S = T.alloc_shared((b0, b1, b2), T.float16)
                x, y, z = bx * b2, by * b1, bz * b0
                T.copy(X[z : z + b0, y : y + b1, x : x + b2], S, prefer_instruction="tma")
                T.copy(S, Y[z : z + b0, y : y + b1, x : x + b2], prefer_instruction="tma")

        return main

    return copy


def insists(b0, b1, b2):
    """T.tma_copy both ways."""

    def copy(d0, d1, d2):
        @T.prim_func
        def main(X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1, d2), T.float16)):
            with T.Kernel(d2 // b2, d1 // b1, d0 // b0, threads=128) as (bx, by, bz):
                S = T.alloc_shared((b0, b1, b2), T.float16)
                full = T.alloc_barrier(1)
                x, y, z = bx * b2, by * b1, bz * b0
                T.tma_copy(X[z : z + b0, y : y + b1, x : x + b2], S, barrier=full)
                if T.shuffle_elect(128):
                    T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, 0)
                T.tma_copy(S, Y[z : z + b0, y : y + b1, x : x + b2])
                T.tma_store_wait(0)

        return main

    return copy


def in_two_dimensions(rows, columns, long_rows=False):
    """X as (d0 * d1, d2), or as (d0, d1 * d2); TMA preferred both ways."""

    def copy(d0, d1, d2):
        shape = (d0, d1 * d2) if long_rows else (d0 * d1, d2)

        @T.prim_func
        def main(X: T.Tensor(shape, T.float16), Y: T.Tensor(shape, T.float16)):
            with T.Kernel(shape[1] // columns, shape[0] // rows, threads=128) as (bx, by):
                S = T.alloc_shared((rows, columns), T.float16)
                x, y = bx * columns, by * rows
                T.copy(X[y : y + rows, x : x + columns], S, prefer_instruction="tma")
                T.copy(S, Y[y : y + rows, x : x + columns], prefer_instruction="tma")

        return main

    return copy


def pipelined(d0, d1, d2):
    @T.prim_func
    def main(X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1, d2), T.float16)):
        with T.Kernel(d1 // 16, threads=128) as by:
            S = T.alloc_shared((2, 16, d2), T.float16)
            for z in T.Pipelined(d0 // 2, num_stages=2):
                T.copy(X[z * 2 : z * 2 + 2, by * 16 : by * 16 + 16, 0:d2], S)
                T.copy(S, Y[z * 2 : z * 2 + 2, by * 16 : by * 16 + 16, 0:d2])

    return main


def made(copy, *shape, dsl="tilelang"):
    """The compiled kernel, and {direction: Copy}."""
    kernel = compile_factory(copy, dsl, shape, "copy")
    return kernel, {c.direction: c for c in copies.copies(kernel, textwrap.dedent(inspect.getsource(copy)))}


def maps(kernel):
    return [p.tensor_map for p in kernel.parameters if p.tensor_map]


def emulated(kernel):
    return Emulator(schedules=(0,)).ask(Launch(kernel.tensors[0].shape, kernel, "copy"))


# -- TileLang


def test_a_load_left_to_the_compiler_goes_through_registers_and_its_store_by_tma():
    kernel, found = made(left_open(2, 16, 64), *SHAPE)
    assert set(found[LOAD].paths) == {THREADS} and set(found[STORE].paths) == {TENSOR} and emulated(kernel).ok


def test_in_a_pipelined_loop_the_same_load_is_tma():
    assert set(made(pipelined, *SHAPE)[1][LOAD].paths) == {TENSOR}


@pytest.mark.parametrize("request_tma", [asks, insists])
@pytest.mark.parametrize(
    "tile, shape, path, boxes, box",
    [
        ((2, 16, 64), SHAPE, TENSOR, 1, (64, 16, 2)),
        ((2, 16, 256), (8, 32, 256), TENSOR, 8, (64, 16, 1)),  # a row wider than the swizzle's span is cut
        ((1, 16, 64), SHAPE, BULK, 1, None),  # whole rows of one slab: one piece of memory
        ((2, 32, 64), SHAPE, BULK, 1, None),  # two whole slabs
        ((4, 152, 64), (8, 304, 128), TENSOR, 1, (64, 152, 4)),
    ],
)
def test_a_tile_of_rank_3(request_tma, tile, shape, path, boxes, box):
    kernel, found = made(request_tma(*tile), *shape)
    assert [found[way].paths for way in (LOAD, STORE)] == [{path: boxes}] * 2
    assert [(m.rank, m.box, m.swizzle) for m in maps(kernel)] == ([(3, box, 3)] * 2 if box else [])
    assert [bool(found[way].finding) for way in (LOAD, STORE)] == [path == BULK] * 2
    assert emulated(kernel).ok


@pytest.mark.parametrize("request_tma", [asks, insists])
def test_rows_of_no_multiple_of_16_bytes_raise_where_tma_was_asked_for(request_tma):
    with pytest.raises(CompileError, match="TMA is not available"):
        made(request_tma(2, 16, 60), 8, 32, 60)
    _, found = made(left_open(2, 16, 60), 8, 32, 60)
    assert [set(found[way].paths) for way in (LOAD, STORE)] == [{THREADS}] * 2


def test_a_preference_for_tma_is_dropped_where_the_box_would_be_too_tall():
    kernel, found = made(asks(4, 304, 64), 8, 304, 128)
    assert [set(found[way].paths) for way in (LOAD, STORE)] == [{THREADS}] * 2 and found[LOAD].finding
    assert emulated(kernel).ok


def test_tma_copy_of_a_box_that_is_too_tall_raises():
    with pytest.raises(CompileError, match="box dim 304 .* exceeds the cap 256"):
        made(insists(4, 304, 64), 8, 304, 128)
    assert made(insists(2, 512, 64), 8, 512, 128)[1][LOAD].paths == {TENSOR: 4}  # cut into boxes of 256


@pytest.mark.parametrize("rows", [200, 300])
def test_copies_left_open_may_get_a_layout_that_is_none(rows):
    with pytest.raises(CompileError, match="indices are not independent"):
        made(left_open(4, rows, 64), 8, rows, 128)


def test_tma_copy_both_ways_takes_200_rows():
    assert made(insists(4, 200, 64), 8, 200, 128)[1][LOAD].paths == {TENSOR: 1}


@pytest.mark.parametrize("rows, swizzle", [(150, 0), (100, 0), (152, 3), (200, 3)])
def test_rows_of_a_slab_that_come_in_eights_are_swizzled(rows, swizzle):
    kernel, _ = made(asks(4, rows, 64), 8, 2 * rows, 128)
    assert [m.swizzle for m in maps(kernel)] == [swizzle] * 2


@pytest.mark.parametrize(
    "copy, shape, path, dims, box",
    [
        # the old cure makes whole rows one piece of memory
        (in_two_dimensions(16, 64), SHAPE, BULK, None, None),
        (in_two_dimensions(16, 32), SHAPE, TENSOR, (64, 256), (32, 16)),
        (in_two_dimensions(16, 64), (4, 48, 128), TENSOR, (128, 192), (64, 16)),
        (in_two_dimensions(8, 64, long_rows=True), (8, 32, 60), TENSOR, (1920, 8), (64, 8)),
    ],
)
def test_rewrites(copy, shape, path, dims, box):
    kernel, found = made(copy, *shape)
    assert set(found[LOAD].paths) == set(found[STORE].paths) == {path}
    assert [(m.dims, m.box) for m in maps(kernel)] == ([(dims, box)] * 2 if dims else [])
    assert emulated(kernel).ok


def test_whole_rows_that_wgmma_reads_stay_tensor_tma():
    gemm = load_factory(solution_path("step04", "tilelang"))
    found = copies.copies(compile_factory(gemm, "tilelang", (256, 256, 64)))
    assert [set(c.paths) for c in found] == [{TENSOR}] * 3


# -- CuTe DSL


@cache
def cute_source():
    return solution_path("t2", "cute").read_text()


def variant(folder, *edits):
    """``copy`` of the CuTe DSL solution with texts exchanged."""
    path = folder / "variant.py"
    path.write_text(edited(cute_source(), *edits))
    return load_module(path).copy


def test_cute_drops_the_remainder_of_a_stride_and_only_the_bytes_show_it():
    copy = load_module(solution_path("t2", "cute")).copy
    kernel, found = made(copy, 8, 32, 60, dsl="cute")
    assert set(found[LOAD].paths) == set(found[STORE].paths) == {TENSOR} and findings(kernel) == []
    assert [m.strides for m in maps(kernel)] == [(112, 3840), (112,)]
    answer = emulated(kernel)
    assert not answer.ok and answer.finished and "the first at [0, " in words.text(*answer.causes)


def test_grouped_modes_are_another_order_of_rows(tmp_path):
    flat = "Y = cute.make_tensor(Y.iterator, cute.make_layout((d0 * d1, d2), stride=(d2, 1)))"
    verdict = check_copy("t2", variant(tmp_path, (flat, "Y = cute.group_modes(Y, 0, 2)")), "cute", "emulator")
    assert {p.name: p.passed for p in verdict.checks} == {
        "compiles": True,
        "tensor maps": True,
        "path": True,
        "results": False,
    }
    kernel, _ = made(variant(tmp_path, (flat, "Y = cute.group_modes(Y, 0, 2)")), *SHAPE, dsl="cute")
    assert (maps(kernel)[1].dims, maps(kernel)[1].box) == ((64, 8, 32), (64, 8, 2))


# -- both


@pytest.mark.parametrize("dsl", DSLS)
def test_solution_gets_all_points_in_the_emulator(dsl):
    copy = load_module(solution_path("t2", dsl)).copy
    verdict = check_copy("t2", copy, dsl, "emulator")
    assert (verdict.points, verdict.max_points) == (10, 10), str(verdict)
    kernel, found = made(copy, *SHAPE, dsl=dsl)
    assert (found[LOAD].rank, found[LOAD].paths, found[STORE].rank, found[STORE].paths) == (
        3,
        {TENSOR: 1},
        2,
        {TENSOR: 2},
    )
    assert [m.box for m in maps(kernel)] == [(64, 16, 2), (64, 16)]


def test_path_left_to_the_compiler_costs_four_points_of_ten():
    verdict = check_copy("t2", left_open(2, 16, 64), "tilelang", "emulator")
    assert verdict.points == 6 and "plain loads and stores" in verdict.diagnosis


def test_which_boxes_flatten():
    def of(*box):
        return TensorMap(6, (64, 32, 8), (128, 4096), box, (1, 1, 1), swizzle=3)

    assert flattened(of(64, 32, 2)).box == (64, 64) and flattened(of(64, 16, 1)).box == (64, 16)
    with pytest.raises(LayoutError, match="not one run of rows"):
        flattened(of(64, 16, 2))
    edge = TensorMap(6, (64, 48, 4), (128, 6144), (64, 32, 1), (1, 1, 1), swizzle=3)
    assert same_payload(edge, flattened(edge), (0, 0, 1), (0, 48))
    assert not same_payload(edge, flattened(edge), (0, 32, 1), (0, 80))


# -- the predictor


def cell(id):
    notebook = nbformat.read(sync.NOTEBOOKS / "t2_three_d_to_two_d.ipynb", as_version=4)
    return next(cell.source for cell in notebook.cells if cell.id == id)


def test_what_the_tiles_of_the_predictor_become():
    """Three tiles with rows of 200 bytes, and two with rows of 256, in the cell's order."""
    asked = []
    exec(cell("t2trypaths"), {"paths_of": asked.extend})
    made = [outcome(Case(*values)) for values in asked]
    assert [one.path for one in made] == ["error", "threads", "one box", "one box", "several boxes"]
    assert "its strides are (192,) bytes; X has (200,)" in made[2].said and made[4].boxes == 2


def test_cute_cuts_an_extent_between_others_and_its_bytes_go_astray():
    """nvidia-cutlass-dsl 4.8.1: two boxes of 4 x 152 x 64 for a tile of 4 x 304 x 64 with plain rows."""
    case = Case((4, 304, 64), (4, 304, 64), "float16", "threads", "TMA atom")
    assert outcome(case).boxes == 2 and outcome(case).box == (4, 152, 64) and outcome(case).said == ""
    copy = load_factory_source(source(case), "case", "copy")
    (kernel,) = compile_sizes(lambda *shape: copy(), "cute", [case.shape], "copy")
    answer = emulated(kernel.artifact)
    assert findings(kernel.artifact) == [] and answer.finished and not answer.ok
    assert answer.wrong > prod(case.shape) / 2


def test_the_grid_has_the_notebooks_own_tiles():
    recorded = {case for case, _ in predictor.recorded()}
    for shape, tile in (
        ((8, 32, 64), (2, 16, 64)),
        ((8, 32, 60), (2, 16, 60)),
        ((8, 304, 128), (4, 304, 64)),
    ):
        assert {
            Case(shape, tile, "float16", "store", asked) for asked in ("prefer tma", "T.tma_copy")
        } <= recorded


def test_a_store_reads_rows_of_8_byte_elements_with_the_32b_swizzle_or_none():
    """None where rows do not come in eights; rows of 128 bytes have a swizzle that no map describes."""
    made = {
        case.tile: outcome
        for case, outcome in predictor.recorded()
        if (case.dtype, case.consumer, case.asked) == ("float64", "store", "T.tma_copy")
    }
    of = {tile: (made[tile].path, made[tile].swizzle) for tile in ((64, 4), (64, 8), (60, 8), (32, 16))}
    assert of == {
        (64, 4): ("one box", 32),
        (64, 8): ("several boxes", 32),
        (60, 8): ("one box", 0),
        (32, 16): ("error", 0),
    }


# -- when TMA pays


def rates():
    """GB/s by matrix, way, and (rows, bytes of a row)."""
    data = json.loads((measured.FOLDER / "tma_pays.json").read_text())
    found: dict[tuple, dict] = {}
    for row in data["rows"]:
        tiles = found.setdefault((row["matrix"], row["way"]), {})
        tiles[row["rows"], row["bytes"]] = row["gb_per_second"]
    return found


def test_what_the_text_says_of_the_recorded_ways():
    found = rates()
    for place in ("DRAM", "L2"):
        box, asynchronous, blocking, bulk = (found[place, way] for way in LOOKS)
        assert all(blocking[tile] < min(box[tile], asynchronous[tile]) for tile in box)
        assert all(bulk[tile] < min(box[tile], asynchronous[tile]) for tile in box)
        for rows in (64, 128):
            assert [blocking[rows, width] for width in (32, 64, 128, 256)] == sorted(
                blocking[rows, width] for width in (32, 64, 128, 256)
            )
            assert all(1.8 < bulk[rows, 2 * width] / bulk[rows, width] < 2 for width in (32, 64, 128))
        over = {width for (rows, width), rate in bulk.items() if rate > blocking[rows, width]}
        assert over == ({256} if place == "DRAM" else set())
    bulks = (found[place, "bulk copy for each row"] for place in ("DRAM", "L2"))
    assert all(abs(one / other - 1) < 0.02 for one, other in zip(*(b.values() for b in bulks), strict=True))
    box, asynchronous = (found["DRAM", way] for way in ("TMA box", "cp.async"))
    assert all(abs(box[tile] / asynchronous[tile] - 1) < 0.04 for tile in box)
    assert box[128, 256] / box[128, 128] < 1.05 < 1.3 < box[128, 64] / box[128, 32]
    box, asynchronous = (found["L2", way] for way in ("TMA box", "cp.async"))
    ahead = {tile for tile in box if box[tile] > 1.04 * asynchronous[tile]}
    assert ahead == set(box) - {(128, 256)} and abs(box[128, 256] / asynchronous[128, 256] - 1) < 0.04


def test_what_the_text_says_of_what_a_profiler_counted():
    data = json.loads((measured.FOLDER / "tma_seen.json").read_text())
    box, bulk, threads = (row["counters"] for row in data["rows"])
    assert [row["copy"] for row in data["rows"]] == ["box", "1-D bulk copy", "threads"]
    *moved, loads, stores, time = records.PROFILED
    assert all(one[name] == row["bytes"] for row in data["rows"][:2] for name in moved for one in (box, bulk))
    assert all(threads[name] == 0 for name in (*moved, loads, stores))
    assert box[loads] == 8 * bulk[loads] == box[stores] and threads[time] <= 1.02 * min(box[time], bulk[time])
    assert (box[loads], bulk[loads]) == tuple(np.prod(data["matrix"]) // (16 * wide) for wide in (64, 512))
