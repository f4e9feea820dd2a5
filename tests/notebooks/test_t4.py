"""Notebook t4's claims about nvidia-cutlass-dsl 4.8.1, on the very kernel that its cells run, in the
emulator.
"""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import nbformat
import numpy as np
import pytest

from authoring import sync
from course_utils.compile import load as loading
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_sizes
from course_utils.compile.load import load_module, solution_path
from course_utils.grading.copy import check_copy
from course_utils.run.emulator.emulate import emulate

SHAPE = (256, 128)
SPARE = "            smem.allocate_array(cutlass.Float16, tile * tile)  # spare room\n"


@pytest.fixture(scope="module")
def source():
    """The notebook's cell with the kernel of many switches."""
    notebook = nbformat.read(sync.NOTEBOOKS / "t4_group_modes.ipynb", as_version=4)
    return next(cell.source for cell in notebook.cells if "def suspect(" in cell.source)


@pytest.fixture(scope="module")
def cell(source, tmp_path_factory):
    return loaded(source, tmp_path_factory.mktemp("t4") / "suspect.py")


def loaded(source, path):
    path.write_text(source)
    return load_module(path)


seen = {}  # what a kernel printed while it was traced


def compiled(copy):
    (made,) = compile_sizes(copy, "cute", [SHAPE], "copy")
    seen.update(line.split(": ", 1) for line in made.printed.splitlines() if ": " in line)
    return made.artifact


def run(kernel, seed=0):
    """An emulated launch, its findings by kind, and whether Y came out as X."""
    X = np.random.default_rng(seed).random(SHAPE).astype(np.float16)
    Y = np.zeros_like(X)
    emulation = emulate(kernel, {"X": X, "Y": Y}, seed)
    return emulation, {finding.kind: finding for finding in emulation.errors}, bool((X == Y).all())


def loads(kernel):
    return [line for line in kernel.ptx.splitlines() if ".2d.shared" in line]


def edited(path, tmp_path, *edits):
    """``copy`` of a solution with each text replaced by another."""
    return loaded(loading.edited(path.read_text(), *edits), tmp_path / "edited.py").copy


@pytest.mark.parametrize("grouped", [False, True])
def test_a_load_under_elect_one_is_ended_and_named(cell, grouped):
    """4.8.1: cute.copy with a TMA load elects over all 32 lanes, so inside elect_one it hangs, grouped or
    not.
    """
    emulation, found, _ = run(compiled(cell.suspect(grouped, nested=True)))
    assert (
        not emulation.finished
        and set(found) == {"absent-lanes"}
        and "31 lanes" in found["absent-lanes"].detail
    )


def test_ungrouped_modes_are_64_boxes(cell):
    """4.8.1: tma_partition takes mode 0 for the tile, and cute.copy loops over the rest, a whole box each
    time.
    """
    kernel = compiled(cell.suspect(grouped=False, nested=False))
    assert seen["X, partitioned"] == "(((64,64),1),64):(((1@0,0),0),1@1)"
    assert seen["S, partitioned"] == "(((64,64),1),64):(((1,0),0),64)"
    assert len(loads(kernel)) == 64 and {p.tensor_map.box_bytes for p in kernel.parameters} == {8192}
    offsets = [int(found) for found in re.findall(r"\[%r\d+\+(\d+)\]", "\n".join(loads(kernel)))]
    assert {b - a for a, b in zip(offsets, offsets[1:], strict=False)} == {128}


def test_the_tile_begins_1024_bytes_after_the_barrier(cell):
    """As the notebook reads %r4: the barrier, the tile, and the spare room behind it."""
    kernel = compiled(cell.suspect(grouped=True, nested=False))
    assert [(one.offset, one.size) for one in kernel.allocations] == [(0, 8), (1024, 8192), (9216, 8192)]


def test_grouped_modes_are_one_box(cell):
    """4.8.1: one mode, one box, one instruction."""
    kernel = compiled(cell.suspect(grouped=True, nested=False))
    assert seen["X, given"] == "((64,64)):((1@0,1@1))"
    assert seen["X, partitioned"] == "(((64,64),1)):(((1@0,1@1),0))" and len(loads(kernel)) == 1
    emulation, found, same = run(kernel)
    assert emulation.ok and not found and same


def test_the_four_kernels_as_an_h200_ran_them():
    """What the notebook says of the launches."""
    recorded = Path(__file__).parents[1] / "data" / "tma_hardware.json.gz"
    cases = json.loads(gzip.decompress(recorded.read_bytes()))["cases"]
    ends = Counter((one["copy"], one.get("error", one.get("wrong"))) for one in cases if one["group"] == "t4")
    assert ends == {
        ("grouped=True, nested=False", 0): 8,
        ("grouped=False, nested=False", "hangs"): 8,
        ("grouped=True, nested=True", "hangs"): 3,
        ("grouped=False, nested=True", "hangs"): 3,
    }


def test_the_copies_of_rank_1_as_an_h200_ran_them():
    recorded = Path(__file__).parents[1] / "data" / "tma_hardware.json.gz"
    cases = json.loads(gzip.decompress(recorded.read_bytes()))["cases"]
    rank_1 = [one for one in cases if one["group"] == "t4 rank 1"]
    ends = Counter((one["copy"], one.get("error", one.get("wrong"))) for one in rank_1)
    assert ends == {("rank 1, nested=False", 0): 8, ("rank 1, nested=True", "hangs"): 3}


def test_ungrouped_copy_hangs_or_ends_wrong(cell):
    """The two orders of events that the notebook shows: 63 boxes too many, and a barrier that never comes out
    even.
    """
    kernel = compiled(cell.suspect(grouped=False, nested=False))
    hung, found, _ = run(kernel, 0)
    assert not hung.finished and {"expect-tx", "overwrite-before-use"} < set(found)
    assert "516,096 bytes that came" in found["deadlock"].detail
    ended, found, same = run(kernel, 15)
    assert (
        ended.finished and not same and {"expect-tx", "overwrite-before-use", "exit-in-flight"} <= set(found)
    )


def test_without_spare_room_the_boxes_run_over_shared_memory(source, tmp_path):
    assert source.count(SPARE) == 1
    emulation, found, _ = run(
        compiled(loaded(source.replace(SPARE, ""), tmp_path / "tight.py").suspect(False, False))
    )
    assert not emulation.finished and "out-of-bounds" in found


def test_an_ungrouped_k_major_tile_is_refused_for_its_alignment(cell):
    """4.8.1: the second mode's stride is one element, which no TMA address can be; the words say nothing of
    grouping.
    """
    with pytest.raises(
        CompileError, match=r"stride at mode 1 is 16 bits, not a multiple of the required 128-bit"
    ) as error:
        compiled(cell.suspect(grouped=False, nested=False, direct=False))
    assert "tma_partition" in str(error.value) and "group" not in str(error.value)


def test_the_map_is_the_same_and_coordinates_follow_it(cell):
    """4.8.1: (columns, rows) and (rows, columns) make one tensor map; the load's coordinates are in the map's
    order.
    """
    maps, coordinates = [], []
    for direct, strides in ((True, "1@0,1@1"), (False, "1@1,1@0")):
        kernel = compiled(cell.suspect(grouped=True, nested=False, direct=direct))
        assert seen["X, given"] == f"((64,64)):(({strides}))" and run(kernel)[2]
        maps.append(kernel.parameters[0].tensor_map)
        coordinates.append(re.search(r"\{(%r\d+), (%r\d+)\}", loads(kernel)[0]).groups())
    assert maps[0] == maps[1] and maps[0].dims == (128, 256)
    assert coordinates[0] == coordinates[1][::-1]


def test_swizzles_that_disagree_exchange_pieces_of_a_row(cell):
    verdict = check_copy(
        "t4", cell.suspect(True, False, direct=False, load_swizzled=True), "cute", "emulator"
    )
    assert [part.passed for part in verdict.checks] == [True, True, True, False]
    assert "first at [1, 0], which holds what belongs at [1, 8]" in verdict.diagnosis


def test_a_load_elects_and_a_store_does_not(cell):
    """4.8.1: one elect.sync for the barrier's init, one for the expect, one in the load's cute.copy, none in
    the store's.
    """
    ptx = compiled(cell.suspect(grouped=True, nested=False)).ptx
    order = re.findall(r"elect\.sync|mbarrier\.init|expect_tx|bulk\.tensor\.2d\.(?:shared|global)", ptx)
    assert order == [
        "elect.sync",
        "mbarrier.init",
        "elect.sync",
        "expect_tx",
        "elect.sync",
        "bulk.tensor.2d.shared",
        "bulk.tensor.2d.global",
    ]


def test_solution_has_all_points():
    verdict = check_copy("t4", load_module(solution_path("t4", "cute")).copy, "cute", "emulator")
    assert verdict.points == 10


@pytest.mark.parametrize(
    "edit, words",
    [
        (("S_tile = cute.group_modes(S, 0, 2)", "S_tile = S"), "same size in the first rank"),
        (
            ("load_dst, load_src = ", "load_src, load_dst = "),
            "src must be CoordTensorType and dst CuteMemRefType",
        ),
    ],
)
def test_words_of_the_symptom_table(edit, words, tmp_path):
    """4.8.1: what the compiler says of a tile grouped on one side only, and of the two results exchanged."""
    verdict = check_copy("t4", edited(solution_path("t4", "cute"), tmp_path, edit), "cute", "emulator")
    assert verdict.points == 0 and words in verdict.diagnosis


@pytest.mark.thorough
def test_a_mode_that_fell_out_brings_the_first_row_of_tiles_each_time(tmp_path):
    """What a row of the table of symptoms says: a coordinate with stride 0 never moves."""
    lost = "X = cute.make_tensor(X.iterator, cute.make_layout(X.shape, stride=(0, X.stride[1])))"
    line = "        X_tile = cute.group_modes("
    verdict = check_copy(
        "t4",
        edited(solution_path("t4", "cute"), tmp_path, (line, f"        {lost}\n{line}")),
        "cute",
        "emulator",
    )
    assert "The loads bring 4,096 of X's 8,192 elements" in str(verdict)
    assert "the first at [64, 0], which holds what belongs at [0, 0]" in str(verdict)


@pytest.fixture(scope="module")
def rank_1(source, tmp_path_factory):
    """The notebook's copy of rank 1, below the names that the cell of switches imports."""
    notebook = nbformat.read(sync.NOTEBOOKS / "t4_group_modes.ipynb", as_version=4)
    text = next(cell.source for cell in notebook.cells if "def rank_1(" in cell.source)
    text = f"{source.partition('def suspect(')[0]}{text.partition('endings(')[0]}"
    return loaded(text, tmp_path_factory.mktemp("t4") / "rank_1.py").rank_1


def test_the_control_of_rank_1_hangs_for_the_same_election_and_is_right_without_it(rank_1):
    """4.8.1: one mode, nothing to group, and the report's program never launched it."""
    emulation, found, _ = run(compiled(rank_1(True)))
    assert not emulation.finished and set(found) == {"absent-lanes"}
    emulation, found, same = run(compiled(rank_1(False)))
    assert emulation.finished and not found and same


LINE = "            cute.copy(load_X, load_src, load_dst, tma_bar_ptr=full)"
