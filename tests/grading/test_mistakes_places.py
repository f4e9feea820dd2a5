"""Mistakes of place: barriers and tiles in shared memory, waits for stores in another warp, copies that are
no TMA; and what an assembler refuses, in words of ours.
"""

from __future__ import annotations

import pytest

from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory, plant, solution_path
from tests.grading.mistakes import Mistake, planted, require_said

FEW, FIVE, ONE = (256, 256, 128), (128, 128, 320), (128, 128, 64)
SECOND = {"size": (1536, 1792, 64), "ctas": (0, 1)}  # a CTA has two tiles of one K tile each

READ_WAIT = "cute.arch.cp_async_bulk_wait_group(0, read=True)"
C_SENT = """                    cute.copy(store_D, D_src, D_dst[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
"""
SLICE = "T.tma_copy(D_shared[c % 2, :, :], D"


def tilelang(step: str, part: str, *edits: tuple[str, str], **said: object) -> Mistake:
    return Mistake(step, "tilelang", edits, part, **said)


def cute(step: str, part: str, *edits: tuple[str, str], **said: object) -> Mistake:
    return Mistake(step, "cute", edits, part, **said)


SHARED = {
    "05 room for half of the pipeline's barriers [map: barrier-outside]": cute(
        "step05",
        "results",
        ("(cutlass.Int64, 2 * num_stages)", "(cutlass.Int64, num_stages)"),
        size=FIVE,
        says=(
            "warp 0 initialises an mbarrier behind the end of `barriers`, which has room for 2 (16 bytes)",
        ),
        line="barriers = smem.allocate_array(cutlass.Int64, num_stages)",
    ),
    "10 room for half of the pipeline's barriers": cute(
        "step10",
        "results",
        ("(cutlass.Int64, 2 * num_stages)", "(cutlass.Int64, num_stages)"),
        says=("behind the end of `barriers`, which has room for 4 (32 bytes)",),
        line="barriers = smem.allocate_array(cutlass.Int64, num_stages)",
    ),
    "05 the barriers lie in D's tile": cute(
        "step05",
        "results",
        (
            "barrier_storage=barriers",
            "barrier_storage=cute.recast_ptr(D_shared.iterator, dtype=cutlass.Int64)",
        ),
        size=FIVE,
        says=("initialises an mbarrier in D_shared, which holds a tile",),
    ),
    "02 A begins at a multiple of 128": cute(
        "step02",
        "instructions",
        ("layout_A.outer, 1024,", "layout_A.outer, 128,"),
        size=FIVE,
        says=("A_shared with an alignment of 128, where it needs 1,024",),
        line="A_shared = smem.allocate_tensor(",
    ),
    "04 A begins at a multiple of 512": cute(
        "step04",
        "instructions",
        ("layout_A.outer, 1024,", "layout_A.outer, 512,"),
        size=ONE,
        says=("A_shared with an alignment of 512, where it needs 1,024",),
        line="A_shared = smem.allocate_tensor(",
    ),
    "05 B begins at a multiple of 128, by luck of 1,024": cute(
        "step05",
        "instructions",
        ("layout_B.outer, 1024,", "layout_B.outer, 128,"),
        size=ONE,
        says=("B_shared with an alignment of 128, where it needs 1,024",),
        line="B_shared = smem.allocate_tensor(",
    ),
}

STORES = {
    "07 another warp waits for the store at the end": cute(
        "step07",
        "results",
        (
            "            if warp_idx == 4:\n                cute.arch.cp_async_bulk_wait_group(0)\n",
            "            if warp_idx == 5:\n                cute.arch.cp_async_bulk_wait_group(0)\n",
        ),
        size=FEW,
        says=("consumer warp 5 waits for TMA stores here, and has issued none: consumer warp 4 issues",),
        line="cp_async_bulk_wait_group(0)",
    ),
    "07 another warp commits the store": cute(
        "step07",
        "results",
        (C_SENT, C_SENT.replace("    cute.arch.cp", "if warp_idx == 5:\n                    cute.arch.cp")),
        size=FEW,
        says=("consumer warp 5 commits TMA stores here, and has issued none",),
        line="cp_async_bulk_commit_group()",
    ),
    "07 other warps wait until the store has read, TileLang": tilelang(
        "step07",
        "results",
        (
            "                    T.tma_store_wait(0)\n",
            "                    if thread >= 160:\n                        T.tma_store_wait(0)\n",
        ),
        says=("consumer warps 5-7 wait for TMA stores here, and have issued none: consumer warp 4",),
        line="T.tma_store_wait(0)",
        **SECOND,
    ),
    "t5 T.copy waits for its store": tilelang(
        "t5",
        "instructions",
        (SLICE, SLICE.replace("tma_copy", "copy")),
        size=FEW,
        says=("stores in flight; found `T.copy`, which waits for its store at once; `T.tma_copy` does not",),
        line="T.copy(D_shared[c % 2, :, :], D",
    ),
    "06 T.copy waits for its store": tilelang(
        "step06",
        "instructions",
        ("T.tma_copy(D_shared, D", "T.copy(D_shared, D"),
        says=("found `T.copy`, which waits for its store at once",),
        line="T.copy(D_shared, D",
        **SECOND,
    ),
    "04 T.copy of the sums stores by threads": tilelang(
        "step04",
        "instructions",
        ("T.tma_copy(D_shared, D[ms, ns])", "T.copy(acc, D[ms, ns])"),
        size=FEW,
        says=("TMA stores of D", "found none, but 64 plain `st.global`"),
        line="T.copy(acc, D[ms, ns])",
    ),
    "04 T.copy of A loads by threads": tilelang(
        "step04",
        "instructions",
        ("T.tma_copy(A[ms, ks], A_shared[0, :, :], barrier=full)", "T.copy(A[ms, ks], A_shared[0, :, :])"),
        size=FEW,
        says=("A and B by TMA alone",),
        line="T.copy(A[ms, ks], A_shared[0, :, :])",
    ),
    "01 D gets A's tile": tilelang(
        "step01",
        "results",
        ("T.copy(acc, D)", "T.copy(A_shared, D[:, 0:64])"),
        size=ONE,
        says=("D[0:64, 0:64] holds A[0:64, 0:64] itself: does the store take the sums, or A's tile?",),
        never=("x and y", "grid"),
        line="T.copy(A_shared, D[:, 0:64])",
    ),
    "01 half of the tile is stored": tilelang(
        "step01",
        "results",
        ("T.copy(acc, D)", "T.copy(acc[:, 0:64], D[:, 0:64])"),
        size=ONE,
        says=("wrote D[0:128, 0:64] alone, of 128 x 128: does the store take the whole tile?",),
        never=("x and y", "grid"),
    ),
}

REGISTERS = {
    f"07 {way} to {count} registers": tilelang(
        "step07",
        "compiles",
        (f"T.{way}_max_nreg({now})", f"T.{way}_max_nreg({count})"),
        size=FEW,
        says=(f"setmaxnreg takes a multiple of 8 from 24 to 256, and {count} is none.",),
        never=("ptxas", "Argument"),
        line=f"T.{way}_max_nreg({count})",
    )
    for way, now, count in (("inc", 232, 236), ("inc", 232, 264), ("dec", 40, 20), ("dec", 40, 16))
} | {
    f"07 {way} to {count} registers, CuTe DSL": cute(
        "step07",
        "compiles",
        (f"setmaxregister_{way}({now})", f"setmaxregister_{way}({count})"),
        size=FEW,
        says=("setmaxnreg takes a multiple of 8 from 24 to 256, and this is none.",),
        never=("op new register",),
        line=f"setmaxregister_{way}({count})",
    )
    for way, now, count in (("increase", 232, 264), ("decrease", 40, 20))
}

LAUNCH = {
    f"{step} no min_blocks_per_mp": cute(
        f"step{step}",
        "instructions",
        (launch, ""),
        size=size,
        says=("both ignored, for want of `min_blocks_per_mp=1` in the launch",),
        line="kernel(...).launch(...)",
    )
    for step, launch, size in (
        ("07", ", min_blocks_per_mp=1", FEW),
        ("08", ", min_blocks_per_mp=1", FEW),
        ("09", "            min_blocks_per_mp=1,\n", (256, 768, 576)),
    )
}

ASSEMBLER = {
    "07 a named barrier past the last, CuTe DSL": cute(
        "step07",
        "compiles",
        ("NamedBarrier(1, 128)", "NamedBarrier(17, 128)"),
        size=FEW,
        says=("A CTA has 16 named barriers, 0 to 15",),
        line="NamedBarrier(17, 128)",
    ),
    "07 a named barrier of 100 threads, CuTe DSL": cute(
        "step07",
        "compiles",
        ("NamedBarrier(1, 128)", "NamedBarrier(1, 100)"),
        size=FEW,
        says=("its count is a multiple of 32 threads",),
        never=("PTX assembly",),
        line="NamedBarrier(1, 100)",
    ),
    "08 a wait that leaves eight groups": tilelang(
        "step08",
        "compiles",
        ("T.wait_wgmma(1)", "T.wait_wgmma(8)"),
        size=FEW,
        says=("leaves 0 to 7 groups in flight",),
        never=("static assertion", "hpp"),
        line="T.wait_wgmma(8)",
    ),
    "08 a wait that leaves -1 groups, CuTe DSL": cute(
        "step08",
        "compiles",
        ("warpgroup.wait_group(1)", "warpgroup.wait_group(-1)"),
        size=FEW,
        says=("as many groups in flight as it says: 0 or more",),
        line="warpgroup.wait_group(-1)",
    ),
    "t5 a wait for stores that leaves -1, CuTe DSL": cute(
        "t5",
        "compiles",
        ("cp_async_bulk_wait_group(1,", "cp_async_bulk_wait_group(-1,"),
        size=FEW,
        says=("as many groups in flight as it says: 0 or more",),
        line="cp_async_bulk_wait_group(-1,",
    ),
    "07 more threads than registers, CuTe DSL": cute(
        "step07",
        "compiles",
        ("block=(256, 1, 1)", "block=(1280, 1, 1)"),
        size=FEW,
        says=("48 registers a thread do not hold this kernel", "at most 1,024 threads"),
        never=("C7602",),
    ),
    "01 a function that CUDA does not know": tilelang(
        "step01",
        "compiles",
        ("T.copy(acc, D)", 'T.call_extern("handle", "unknown")\n            T.copy(acc, D)'),
        size=ONE,
        says=('The CUDA that TileLang makes of this kernel does not compile: identifier "unknown"',),
        line='T.call_extern("handle", "unknown")',
    ),
}
LINES = {
    "06 tiles row by row": tilelang(
        "step06",
        "instructions",
        ("swizzle_size=4", "swizzle_size=1"),
        size=(1536, 1792, 64),
        says=("an order of tiles for L2",),
        line="T.PersistentTileScheduler(",
    ),
    "06 a CTA for each tile, CuTe DSL": cute(
        "step06",
        "instructions",
        ("grid=(sm_count, 1, 1)", "grid=(tiles_M * tiles_N, 1, 1)"),
        size=(4864, 2304, 192),
        ctas=(0,),
        says=("needs a persistent grid", "684 x 1 x 1"),
        line="launch(grid=(tiles_M * tiles_N, 1, 1)",
    ),
    "07 one warp of the producer's four gives registers back, CuTe DSL": cute(
        "step07",
        "instructions",
        ("            cute.arch.setmaxregister_decrease(40)\n", ""),
        (
            "            if warp_idx == 0:\n                for tile in",
            "            if warp_idx == 0:\n                cute.arch.setmaxregister_decrease(40)\n"
            "                for tile in",
        ),
        size=FEW,
        says=("by all four warps of a warpgroup",),
        line="setmaxregister_decrease(40)",
    ),
    "10 two warpgroups are launched": tilelang(
        "step10",
        "instructions",
        ("threads = 128 * (1 + consumers)", "threads = 256"),
        says=("three warpgroups or more", "found 256 threads"),
        line="T.ClusterKernel(",
        size=(256, 512, 64),
    ),
    "07 wgmma takes B of stage 0 alone": tilelang(
        "step07",
        "results",
        ("B_shared[stage, :, :]\n", "B_shared[0, :, :]\n"),
        says=("wgmma reads B as loaded for full[0]", "the wait before it (line ", "is for full[1]"),
        never=("index cuts",),
        line="T.wgmma_gemm(",
        **SECOND,
    ),
    "09 full is a cluster barrier": tilelang(
        "step09",
        "results",
        ("full = T.alloc_barrier(", "full = T.alloc_cluster_barrier("),
        says=("expects 0 bytes", "`T.alloc_cluster_barrier` has rank 0 alone told", "`T.alloc_barrier`"),
        line="full = T.alloc_cluster_barrier(",
        size=(256, 768, 576),
    ),
    "05 the consumer's state counts a stage more, CuTe DSL": cute(
        "step05",
        "results",
        ("PipelineUserType.Consumer, num_stages)", "PipelineUserType.Consumer, num_stages + 1)"),
        size=FIVE,
        says=("uses stage 2 of full, which has 2",),
        line="pipe.consumer_wait(use)",
    ),
    "t5 every slice gets the first columns of the sums": tilelang(
        "t5",
        "results",
        ("acc[:, c * epi_N : (c + 1) * epi_N]", "acc[:, 0:epi_N]"),
        size=FEW,
        says=("D[0:64, 32:64] holds what belongs in columns 0:32: which index cuts the sums?",),
        line="T.copy(acc[:, 0:epi_N]",
    ),
    "t5 a slice is stored to the whole tile's columns": tilelang(
        "t5",
        "compiles",
        ("D[ms, part])", "D[ms, ns])"),
        size=FEW,
        says=("the two sides of this copy have other shapes",),
        line="T.tma_copy(D_shared[c % 2, :, :], D[ms, ns])",
    ),
}
MISTAKES = SHARED | STORES | REGISTERS | LAUNCH | ASSEMBLER | LINES


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}))
def test_what_the_check_says(mistake: Mistake) -> None:
    require_said(mistake)


@pytest.mark.thorough
def test_step_10_needs_no_min_blocks_per_mp():
    """At 384 threads ptxas 13.0 keeps both setmaxnreg: 168 registers a thread are all that fit, so it knows
    the count at entry (SASS of sm_90a has USETMAXREG twice).
    """
    require_said(cute("step10", "", ("            min_blocks_per_mp=1,\n", "")))


def test_allocations_of_a_cute_kernel():
    """Offset, bytes, alignment, swizzle 128B of each, in order: they make up the launch's shared memory."""
    made = compile_factory(load_factory(solution_path("step05", "cute")), "cute", FEW)
    found = [(one.offset, one.size, one.alignment, one.swizzle) for one in made.allocations]
    ring = 4 * 128 * 64 * 2
    assert found == [
        (0, 32, 8, 0),
        (1024, ring, 1024, 3),
        (1024 + ring, ring, 1024, 3),
        (1024 + 2 * ring, 32768, 1024, 3),
    ]
    assert made.allocations[-1].end == made.dynamic_shared
    assert list(map(made.name_of, made.allocations)) == ["barriers", "A_shared", "B_shared", "D_shared"]


def test_the_fields_of_a_struct_are_allocations():
    edits = (
        (
            "        smem = SmemAllocator()\n",
            "        smem = SmemAllocator()\n"
            "        @cute.struct\n        class Storage:\n"
            "            first: cute.struct.MemRange[cutlass.Int64, 2]\n"
            "            barriers: cute.struct.MemRange[cutlass.Int64, 4]\n\n"
            "        storage = smem.allocate(Storage)\n",
        ),
        (
            "barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)",
            "barriers = storage.barriers.data_ptr()",
        ),
    )
    made = compile_factory(plant("step05", "cute", *edits), "cute", FEW)
    assert [(one.offset, one.size) for one in made.allocations[:2]] == [(0, 16), (16, 32)]
