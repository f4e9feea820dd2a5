"""Notebook t5: what tilelang 0.1.15 and nvidia-cutlass-dsl 4.8.1 make of a TMA epilogue, and what its check
and emulator find.
"""

import re
from functools import cache

import pytest
import torch

from course_utils.cli import source
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import table
from course_utils.compile.load import load_factory, plant, solution_path
from course_utils.grading.gemm import check_gemm
from course_utils.ptx import paths as copies
from course_utils.ptx import receipts
from course_utils.run.emulator.launch import emulated

SIZE = (256, 256, 64)
FIRST_WAIT = {"tilelang": "T.tma_store_wait(1)", "cute": "cute.arch.cp_async_bulk_wait_group(1, read=True)"}
LAST_WAIT = {
    "tilelang": "            T.tma_store_wait(0)\n",
    "cute": "        if warp_idx == 0:\n            cute.arch.cp_async_bulk_wait_group(0, read=True)\n",
}
both_dsls = pytest.mark.parametrize("dsl", DSLS)
MEASURED = (
    "step08, D straight from registers",
    "step08, D staged whole, waited for at once",
    "step08, D in slices, one buffer, full wait",
    "step08, D in slices, two buffers",
)


@cache
def compiled(dsl, *edits, step="t5", size=SIZE):
    """The solution with these edits, compiled."""
    return compile_factory(plant(step, dsl, *edits), dsl, size)


def waits(artifact):
    """["wait_group.read 1", ...] of the PTX, without wgmma's."""
    return [" ".join(text.split()) for text in re.findall(r"bulk\.(wait_group[^;]*)", artifact.ptx)]


def found(artifact):
    """Kinds of findings of one emulated launch, and whether D came out right."""
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(0), 0)
    return {f.kind for f in emulation.findings}, tried.found.ok


@both_dsls
def test_solution_has_four_stores_a_read_wait_for_each_and_one_for_the_last(dsl):
    artifact = compiled(dsl)
    receipt = receipts.read_ptx(artifact.ptx)
    assert receipt.tensor_stores == {2: 4} and receipt.proxy_fences == receipt.bulk_commits == 4
    assert waits(artifact) == ["wait_group.read 1"] * 4 + ["wait_group.read 0"]
    D = next(p.tensor_map for p in artifact.parameters if p.tensor == "D")
    assert (D.box, D.swizzle) == ((32, 128), 2)


@both_dsls
def test_solution_takes_no_more_registers_than_step_5(dsl):
    """A slice is a choice of registers."""
    slices, whole = compiled(dsl).resources, compiled(dsl, step="step05").resources
    assert slices.registers <= whole.registers and slices.spill_stores == 0


@pytest.mark.parametrize(
    "count", [pytest.param(0, marks=pytest.mark.thorough), 1, pytest.param(2, marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize(
    "dsl, call, waiting",
    [
        ("tilelang", "T.tma_store_wait({n})", "wait_group.read {n}"),
        ("tilelang", "T.tma_store_wait({n}, read=False)", "wait_group {n}"),
        ("cute", "cute.arch.cp_async_bulk_wait_group({n}, read=True)", "wait_group.read {n}"),
        ("cute", "cute.arch.cp_async_bulk_wait_group({n})", "wait_group {n}"),
    ],
)
def test_what_a_wait_becomes(dsl, call, waiting, count):
    """TileLang waits with .read unless told otherwise, CuTe DSL waits in full unless told otherwise; both
    keep the number.
    """
    artifact = compiled(dsl, (FIRST_WAIT[dsl], call.format(n=count)))
    assert waits(artifact)[:4] == [waiting.format(n=count)] * 4


@pytest.mark.parametrize(
    "dsl, edits, kind",
    [
        ("tilelang", [(FIRST_WAIT["tilelang"], "pass")], "overwrite-while-read"),
        ("tilelang", [("wait(1)", "wait(2)")], "overwrite-while-read"),
        ("tilelang", [(LAST_WAIT["tilelang"], "")], "exit-in-flight"),
        ("cute", [(FIRST_WAIT["cute"], "pass")], "overwrite-while-read"),
        ("cute", [("wait_group(1,", "wait_group(2,")], "overwrite-while-read"),
        ("cute", [(LAST_WAIT["cute"], "")], "exit-in-flight"),
        (
            "cute",
            [
                (
                    "            if warp_idx == 0:\n                cute.arch.cp_async_bulk_wait_group(1",
                    "            if warp_idx == 1:\n                cute.arch.cp_async_bulk_wait_group(1",
                )
            ],
            "overwrite-while-read",
        ),
        ("cute", [("                cute.arch.cp_async_bulk_commit_group()\n", "")], "overwrite-while-read"),
        ("cute", [("            cute.arch.fence_view_async_shared()\n", "")], "proxy-fence"),
    ],
    ids=[
        "no wait",
        "wait 2",
        "no last wait",
        "no wait (C)",
        "wait 2 (C)",
        "no last wait (C)",
        "another warp waits (C)",
        "no commit (C)",
        "no fence (C)",
    ],
)
def test_what_is_left_out_is_found(dsl, edits, kind):
    kinds, right = found(compiled(dsl, *edits))
    assert kind in kinds
    assert right or kind in ("overwrite-while-read", "exit-in-flight", "proxy-fence")


def test_a_loop_that_is_not_written_out_puts_the_sums_into_local_memory():
    """nvidia-cutlass-dsl 4.8.1. TileLang's T.serial does not show it: its C++ compiler unrolls four rounds by
    itself.
    """
    loop = "cutlass.{}(block_N // epi_N{})"
    rolled = compiled("cute", (loop.format("range_constexpr", ""), loop.format("range", ", unroll=1")))
    assert "st.local" in rolled.ptx and rolled.resources.stack_frame >= 128 * 2
    assert "st.local" not in compiled("cute").ptx and compiled("cute").resources.stack_frame == 0


def test_wait_after_the_barrier_is_found():
    """In CuTe DSL: the warps that do not wait write into a buffer that TMA still reads."""
    wait = "            if warp_idx == 0:\n                cute.arch.cp_async_bulk_wait_group(1, read=True)\n"
    meet = "            cute.arch.sync_threads()\n"
    kinds, _ = found(compiled("cute", (wait + meet, meet + wait)))
    assert "overwrite-while-read" in kinds


def test_tilelang_orders_the_buffer_and_never_waits():
    """tilelang 0.1.15 adds barriers and a fence between threads' writes and a TMA store, and no wait for the
    store.
    """
    text = "            T.fence_proxy_async()\n            T.sync_threads()\n"
    artifact = compiled("tilelang", (text, ""), ("            T.tma_store_wait(0)\n", ""), step="step05")
    end = artifact.source[artifact.source.rindex("wait_wgmma") :]
    order = re.findall(r"__syncthreads|stmatrix|fence_proxy_async|tma_store\b|tma_store_wait", end)
    assert order[-5:] == ["__syncthreads", "stmatrix", "__syncthreads", "fence_proxy_async", "tma_store"]
    assert waits(artifact) == [] and found(artifact)[0] == {"exit-in-flight"}


def test_tilelang_puts_D_on_top_of_the_ring_where_it_can():
    """tilelang 0.1.15: D_shared shares memory with the ring in step 5, which is done with it, and not in step
    8.
    """
    ring = 4 * (128 + 128) * 64 * 2
    shared = {step: compiled("tilelang", step=step).dynamic_shared for step in ("step05", "t5", "step08")}
    assert shared == {"step05": ring, "t5": ring, "step08": ring + 128 * 128 * 2}


def stores_to_shared(artifact):
    return artifact.ptx.count("stmatrix.sync"), len(re.findall(r"\bst\.shared", artifact.ptx))


def test_tilelang_uses_stmatrix_for_whole_fragments_to_whole_tiles_only():
    """tilelang 0.1.15; CuTe DSL's copy atom is the author's."""
    assert stores_to_shared(compiled("tilelang", step="step05")) == (16, 0)
    assert stores_to_shared(compiled("tilelang")) == (0, 64)
    third_axis = [
        ("D_shared = T.alloc_shared((block_M", "D_shared = T.alloc_shared((1, block_M"),
        ("T.copy(acc, D_shared)", "T.copy(acc, D_shared[0, :, :])"),
        ("copy(D_shared, D", "copy(D_shared[0, :, :], D"),
    ]
    assert stores_to_shared(compiled("tilelang", *third_axis, step="step05")) == (0, 64)
    assert stores_to_shared(compiled("cute"))[0] == 16


# what the notebook's end proposes: a slice in a fragment of its own, and two buffers of two names
NAMED = (
    (
        "            D_shared = T.alloc_shared((2, block_M, epi_N), T.float16)\n",
        "            D_0 = T.alloc_shared((block_M, epi_N), T.float16)\n"
        "            D_1 = T.alloc_shared((block_M, epi_N), T.float16)\n"
        "            piece = T.alloc_fragment((block_M, epi_N), T.float32)\n",
    ),
    (
        "                T.copy(acc[:, c * epi_N : (c + 1) * epi_N], D_shared[c % 2, :, :])\n"
        "                T.fence_proxy_async()\n"
        "                T.sync_threads()\n",
        "                T.copy(acc[:, c * epi_N : (c + 1) * epi_N], piece)\n",
    ),
    (
        "                T.tma_copy(D_shared[c % 2, :, :], D[ms, part])\n",
        "".join(
            f"                {branch}:\n"
            f"                    T.copy(piece, {buffer})\n"
            "                    T.fence_proxy_async()\n"
            "                    T.sync_threads()\n"
            f"                    T.tma_copy({buffer}, D[ms, part])\n"
            for branch, buffer in (("if c % 2 == 0", "D_0"), ("else", "D_1"))
        ),
    ),
)


def test_a_whole_fragment_and_named_buffers_bring_stmatrix_back():
    assert stores_to_shared(compiled("tilelang", *NAMED)) == (16, 0)
    verdict = check_gemm("t5", plant("t5", "tilelang", *NAMED), "tilelang", "emulator")
    assert verdict.points == 10


@both_dsls
def test_check_asks_for_slices_and_a_read_wait(dsl):
    """Step 5's epilogue has two stores in one group; its wait is a .read in TileLang and none in CuTe DSL."""
    verdict = check_gemm("t5", load_factory(solution_path("step05", dsl)), dsl, "compile")
    detail = next(part.card.full_text for part in verdict.checks if part.name == "instructions")
    assert "two groups of TMA stores" in detail and (".read" in detail) == (dsl == "cute")


def variant(name, dsl, size):
    (found,) = (one for one in table() if one.variant and (one.name, one.dsl) == (name, dsl))
    return compile_factory(found.factory(), dsl, size)


@pytest.mark.parametrize(
    "name, stores, plain, waiting",
    [
        (MEASURED[0], {}, 64, []),
        (MEASURED[1], {2: 2}, 0, ["wait_group 0"]),
        (MEASURED[2], {2: 4}, 0, ["wait_group 0"] * 4 + ["wait_group.read 0"]),
        (MEASURED[3], {2: 4}, 0, ["wait_group.read 1"] * 4 + ["wait_group.read 0"]),
    ],
)
def test_measured_variants_are_what_they_say_and_right(name, stores, plain, waiting):
    artifact = variant(name, "tilelang", (256, 256, 320))
    receipt = receipts.read_ptx(artifact.ptx)
    assert (receipt.tensor_stores, receipt.global_stores, waits(artifact)) == (stores, plain, waiting)
    assert (
        stores_to_shared(artifact) == ((16, 0) if stores else (0, 0)) and artifact.resources.spill_stores == 0
    )
    assert found(artifact) == (set(), True)


def test_in_cute_slices_change_the_machine_code_of_the_k_loop():
    """Descriptors of wgmma come from ordinary registers, by an R2UR each: nvidia-cutlass-dsl 4.8.1."""
    moves = {}
    size = (4096, 4096, 4096)
    made = {"unchanged": compile_factory(plant("step08", "cute"), "cute", size)}
    made |= {name: variant(name, "cute", size) for name in MEASURED[2:]}
    for name, artifact in made.items():
        lines = source._sass(artifact)
        text = [line for line, _ in lines]
        products = [at for at, line in enumerate(text) if "HGMMA" in line]
        moves[name] = sum("R2UR" in line for line in text[products[0] : products[-1]])
    unchanged, *slices = moves.values()
    assert unchanged == 0 and min(slices) > 20


def test_plain_copies_of_a_register_tile_need_plain_coordinates():
    """tilelang 0.1.15: from a scheduler's m and n it makes stores of two bytes, each behind a bounds
    check.
    """
    out = (
        "                    T.copy(acc, D[m : m + block_M, n : n + block_N])\n                    "
        "tiles.next_tile()\n"
    )
    (straight,) = (one for one in table() if (one.name, one.dsl) == (MEASURED[0], "tilelang"))
    whole_tile_leaves = straight.edits[1][0]
    gemm = plant("step08", "tilelang", (whole_tile_leaves, out))
    artifact = compile_factory(gemm, "tilelang", (256, 256, 320))
    assert artifact.ptx.count("st.global.u16") == 128
    store = next(c for c in copies.copies(artifact) if c.direction == copies.STORE)
    assert store.paths == {copies.THREADS: 128}
