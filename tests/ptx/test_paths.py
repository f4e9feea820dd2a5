"""Which path a copy took, read from the PTX, and whether it is what the source asked for."""

from dataclasses import replace

import pytest

from course_utils.artifact import Artifact, Parameter, Resources, Tensor, TensorMap
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.load import load_factory, load_factory_source, solution_path
from course_utils.compile.nvrtc import compile_source
from course_utils.ptx import paths as copies
from course_utils.ptx.parser import PtxError
from course_utils.ptx.paths import BULK, CP_ASYNC, LOAD, MULTICAST, STORE, TENSOR, THREADS, passed_by_value

MAP = TensorMap(6, (64, 128), (128,), (64, 64), (1, 1), swizzle=3)
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 copy_param_0, .param .align 64 .b8 copy_param_1[128], .param .u32 copy_param_2)
{
.reg .b64 %rd<20>; .reg .b32 %r<20>; .reg .pred %p<4>; .reg .b16 %rs<4>;
ld.param.u64 %rd1, [copy_param_0];
cvta.to.global.u64 %rd2, %rd1;
mov.b64 %rd3, copy_param_1;
"""


def artifact(body):
    """A kernel of X (a pointer), Y (a tensor map) and a scalar."""
    parameters = (
        Parameter("pointer", "X"),
        Parameter("tensor_map", "Y", MAP),
        Parameter("scalar", dtype="int32", value=1),
    )
    return Artifact(
        dsl="cute",
        kernel="copy",
        ptx=HEAD + body + "\nret;\n}\n",
        cubin=b"",
        grid=(1, 1, 1),
        block=(128, 1, 1),
        cluster=(1, 1, 1),
        dynamic_shared=0,
        parameters=parameters,
        resources=Resources(1, 0, 0, 0, 0),
        tensors=(Tensor("X", (128, 64), "float16"), Tensor("Y", (128, 64), "float16")),
        versions={},
    )


@pytest.mark.parametrize(
    "body, tensor, direction, path",
    [
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd3, "
            "{%r2, %r3}], [%r4];",
            "Y",
            LOAD,
            TENSOR,
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%r1], [%rd3, {%r2, %r3}], [%r4], %rs1;",
            "Y",
            LOAD,
            MULTICAST,
        ),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r2, %r3}], [%r1];",
            "Y",
            STORE,
            TENSOR,
        ),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 1024, [%r4];",
            "X",
            LOAD,
            BULK,
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 1024;", "X", STORE, BULK),
        ("cp.async.cg.shared.global [%r1], [%rd2], 16;", "X", LOAD, CP_ASYNC),
        ("ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd2 + 16];", "X", LOAD, THREADS),
        ("st.global.b32 [%rd2], %r5;", "X", STORE, THREADS),
    ],
)
def test_path_of_each_instruction(body, tensor, direction, path):
    (copy,) = copies.copies(artifact(body))
    assert (copy.tensor, copy.direction, copy.paths) == (tensor, direction, {path: 1})


def test_address_is_followed_through_arithmetic_and_a_loop():
    body = """mul.wide.s32 %rd4, %r1, 2;
add.s64 %rd5, %rd4, %rd2;
LOOP:
add.s64 %rd6, %rd5, 128;
mov.b64 %rd5, %rd6;
ld.global.b32 %r5, [%rd6];
bra LOOP;"""
    (copy,) = copies.copies(artifact(body))
    assert (copy.tensor, copy.paths) == ("X", {THREADS: 1})


def test_a_loaded_value_is_not_the_address_it_was_loaded_from():
    body = "ld.global.b64 %rd7, [%rd2];\nst.global.b32 [%rd7], %r1;"
    load, store = copies.copies(artifact(body))
    assert (load.tensor, store.tensor) == ("X", "?")


def test_a_copy_between_ctas_does_not_cross():
    body = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r2], 1024, [%r4];"
    assert copies.copies(artifact(body)) == []


def test_what_the_emulator_does_not_model_hides_no_copy():
    body = "call.uni helper, (%r1);\nld.global.b32 %r5, [%rd2];\nst.global.f32 [%rd2+2*8], %r5;"
    load, store = copies.copies(artifact(body))
    assert (load.tensor, load.paths) == ("X", {THREADS: 1})
    assert (store.tensor, store.paths) == ("?", {THREADS: 1})


def test_a_prefetch_is_no_copy():
    assert (
        copies.copies(
            artifact(
                "prefetch.tensormap [%rd3];\n"
                "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd3, {%r2, %r3}];"
            )
        )
        == []
    )


@pytest.mark.parametrize(
    "call, expected",
    [
        ("T.tma_copy(A[0:4, 0:8], S, barrier=b)", {(LOAD, "A"): TENSOR}),
        ("T.tma_copy(A[0:4, 0:8], S[0, :, :], barrier=b, cluster_mask=3)", {(LOAD, "A"): MULTICAST}),
        ("T.tma_copy(S, D[0:4, 0:8])", {(STORE, "D"): TENSOR}),
        ('T.copy(A[0:4, 0:8], S, prefer_instruction="tma")', {(LOAD, "A"): TENSOR}),
        ("T.copy(A[0:4, 0:8], S)", {}),
        (
            "cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), A, layout, tile)",
            {(LOAD, "A"): TENSOR},
        ),
        (
            "cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SMulticastOp(), A, layout, tile, 2)",
            {(LOAD, "A"): MULTICAST},
        ),
        (
            "cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), D, layout, tile)",
            {(STORE, "D"): TENSOR},
        ),
        (
            "g2s, s2g = CopyBulkTensorTileG2SOp(), CopyBulkTensorTileS2GOp()\n"
            "x = make_tiled_tma_atom(g2s, A, layout, tile)\ny = make_tiled_tma_atom(s2g, D, layout, tile)",
            {(LOAD, "A"): TENSOR, (STORE, "D"): TENSOR},
        ),
        (
            "both = CopyBulkTensorTileG2SMulticastOp()\nx = make_tiled_tma_atom(both, A, layout, tile, 2)",
            {(LOAD, "A"): MULTICAST},
        ),
        ("make_tiled_tma_atom(nobody, A, layout, tile)", {(LOAD, "A"): TENSOR}),
        ("T.tma_copy(other, S)", {}),
        ("T.tma_copy()", {}),
        ("def broken(", {}),
        ("", {}),
    ],
)
def test_what_a_source_asks_for(call, expected):
    assert copies.asked(call, ["A", "D"]) == expected


def test_asked_for_and_not_had_is_a_finding():
    body = "ld.global.b32 %r5, [%rd2];"
    (copy,) = (
        c for c in copies.copies(artifact(body), "T.tma_copy(X[0:4, 0:8], S, barrier=b)") if c.tensor == "X"
    )
    assert copy.finding == (
        "X, global to shared: the source asks for tensor TMA, and the compiler made plain loads and stores, "
        "through registers"
    )
    assert copies.copies(artifact(body))[0].finding == ""


def test_asked_for_and_gone_altogether_is_a_finding():
    (copy,) = copies.copies(artifact(""), "T.tma_copy(X[0:4, 0:8], S, barrier=b)")
    assert "no copy at all" in copy.finding


@pytest.mark.parametrize("dsl", DSLS)
@pytest.mark.parametrize(
    "step, loads, store",
    [("step03", THREADS, THREADS), ("step04", TENSOR, TENSOR), ("step09", MULTICAST, TENSOR)],
)
def test_paths_of_the_solutions(step, loads, store, dsl):
    path = solution_path(step, dsl)
    found = copies.copies(compile_factory(load_factory(path), dsl, (256, 512, 320)), path.read_text())
    assert [(c.tensor, c.direction) for c in found] == [("A", LOAD), ("B", LOAD), ("D", STORE)]
    assert loads in found[1].paths and store in found[2].paths and [c.finding for c in found] == ["", "", ""]
    assert [c.rank for c in found] == ([2, 2, 2] if step != "step03" else [0, 0, 0])


WHOLE_TILE = """
import tilelang.language as T

def gemm(M, N, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((M, K), T.float16)
            full = T.alloc_barrier(1)
            T.tma_copy(A[0:M, 0:K], S, barrier=full)
            if T.shuffle_elect(128):
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(S, D[0:M, 0:K])
    return main
"""


def test_silent_fallback_of_tilelang_is_found():
    """tilelang 0.1.15 turns a tma_copy of whole rows into a 1-D bulk copy: no tensor map, no swizzle, no word
    about it.
    """
    kernel = compile_factory(load_factory_source(WHOLE_TILE, "whole tile"), "tilelang", (64, 128, 128))
    load = next(c for c in copies.copies(kernel, WHOLE_TILE) if (c.tensor, c.direction) == ("A", LOAD))
    assert load.paths == {BULK: 1} and "1-D bulk copy" in load.finding


SOURCE = """
struct alignas(%d) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void load(%s CUtensorMap map, float *out) {
  extern __shared__ __align__(1024) char smem[];
  unsigned tile = (unsigned)__cvta_generic_to_shared(smem), full = tile + 8192;
  %s
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%%0], [%%1, {%%2, %%3}], [%%4];"
               :: "r"(tile), "l"(%s), "r"(0), "r"(0), "r"(full) : "memory");
  out[threadIdx.x] = smem[threadIdx.x];
}
"""


def loading(declared, before="", address="&map", alignment=64):
    """A kernel of NVRTC's that loads one box, with the map's parameter declared and its address taken as
    given.
    """
    ptx, cubin, resources = compile_source(SOURCE % (alignment, declared, before, address), [])
    map_of_a = TensorMap(6, (64, 64), (128,), (64, 64), (1, 1), swizzle=3)
    return Artifact(
        "cuda",
        "load",
        ptx,
        cubin,
        (1, 1, 1),
        (128, 1, 1),
        (1, 1, 1),
        16384,
        (Parameter("tensor_map", "A", map_of_a), Parameter("pointer", "OUT")),
        (Tensor("A", (64, 64), "float16"), Tensor("OUT", (128,), "float32")),
        resources,
    )


@pytest.mark.parametrize(
    "declared, before, address",
    [
        ("const __grid_constant__", "", "&map"),
        (
            "const __grid_constant__",
            'const char *p = (const char *)&map; asm volatile("prefetch.tensormap [%0];" :: "l"(p));',
            "p",
        ),
    ],
)
def test_a_grid_constant_map_is_read_where_it_was_passed(declared, before, address):
    artifact = loading(declared, before, address)
    assert passed_by_value(artifact) == [] and artifact.resources.stack_frame == 0


@pytest.mark.parametrize(
    "declared, before, address",
    [
        ("", "", "&map"),
        ("const", "", "&map"),
        ("const __grid_constant__", "CUtensorMap mine = map;", "&mine"),
    ],
)
def test_a_map_without_grid_constant_is_copied_to_local_memory(declared, before, address):
    artifact = loading(declared, before, address)
    (sentence,) = passed_by_value(artifact)
    assert "copy of A's tensor map in local memory" in sentence and "__grid_constant__" in sentence
    assert artifact.resources.stack_frame >= 128


def test_a_map_that_no_tensor_copy_takes():
    (sentence,) = passed_by_value(loading("const __grid_constant__", address="out"))
    assert sentence == "no tensor copy takes its map from the parameter that holds A's tensor map"


def test_a_map_that_is_not_aligned():
    (sentence,) = passed_by_value(loading("const __grid_constant__", alignment=8))
    assert (
        sentence
        == "the parameter for A's tensor map has 128 bytes, aligned to 8; a tensor map has 128, aligned to 64"
    )


def test_ptx_that_is_not_the_launch():
    artifact = loading("const __grid_constant__")
    with pytest.raises(PtxError, match="2 parameters, its launch 1"):
        passed_by_value(replace(artifact, parameters=artifact.parameters[:1]))
    with pytest.raises(PtxError):
        passed_by_value(replace(artifact, ptx="not PTX"))


@pytest.mark.parametrize("dsl", DSLS)
def test_both_dsls_pass_their_maps_by_value(dsl):
    artifact = compile_factory(load_factory(solution_path("step04", dsl)), dsl, (256, 512, 320))
    assert [p.kind for p in artifact.parameters].count("tensor_map") == 3 and passed_by_value(artifact) == []
