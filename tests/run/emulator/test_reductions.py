"""Asynchronous reductions: each operation of each type against NumPy, and what orders them."""

import ml_dtypes
import numpy as np
import pytest

from course_utils.artifact import DATA_TYPES
from course_utils.run.emulator import EmulatorError, emulate
from course_utils.run.emulator.units.reductions import CLUSTER, GLOBAL
from tests.run.emulator.kernels import by_thread_0, described, init, kernel, own, ran, tile_map, wait

NUMPY = {
    **{
        "u32": np.uint32,
        "s32": np.int32,
        "b32": np.uint32,
        "u64": np.uint64,
        "s64": np.int64,
        "b64": np.uint64,
    },
    **{"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64},
}
REFERENCE = {
    "add": lambda old, new: old + new,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + np.uint32(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - np.uint32(1)),
}
SEEDS = range(3)


def numbers(type_name, count, rng):
    """Random bits of integers; floats whose sums round."""
    dtype = np.dtype(NUMPY[type_name])
    if type_name in ("f16", "bf16", "f32", "f64"):
        return (rng.normal(size=count) * 3).astype(dtype)
    found = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype).copy()
    found[: count // 4] %= dtype.type(5)  # so that inc and dec meet their limits
    return found


def raw(array):
    return array.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


# every thread brings 16 bytes of A, at %rd1, to shared memory
WRITTEN = (
    "mov.u32 %r0, %tid.x;\nmov.b32 %r1, smem;\n"
    + own(0, 16)
    + "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1];\nshl.b32 %r2, %r0, 4;\nadd.s32 %r2, %r2, %r1;\n"
    "st.shared.v4.u32 [%r2], {%r10, %r11, %r12, %r13};\n"
)
FENCED = "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
DONE = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"


def bulk(operation, type_name, size=2048, source="%r1"):
    noftz = ".noftz" * (operation == "add" and type_name in ("f16", "bf16"))
    return (
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{noftz}.{type_name} "
        f"[%rd5], [{source}], {size};\n"
    )


def pair(type_name, seed=0):
    rng = np.random.default_rng(seed)
    count = 2048 // np.dtype(NUMPY[type_name]).itemsize
    return numbers(type_name, count, rng), numbers(type_name, count, rng)


@pytest.mark.parametrize("operation, type_name", [(o, t) for o, types in GLOBAL.items() for t in types])
def test_bulk_reductions_into_global_memory(operation, type_name):
    A, D = pair(type_name)
    wanted = REFERENCE[operation](D, A).astype(D.dtype)
    out = raw(D).copy()
    body = (
        WRITTEN
        + FENCED
        + by_thread_0("ld.param.u64 %rd5, [k_param_1];\n" + bulk(operation, type_name) + DONE)
    )
    ran(body, {"A": raw(A).copy(), "D": out}, pointers=["A", "D"])
    np.testing.assert_array_equal(out, raw(wanted))


MAPPED = {
    "u32": "uint32",
    "s32": "int32",
    "u64": "uint64",
    "s64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
}
MAPPED |= {"f32": "float32", "f64": "float64", "b32": "uint32", "b64": "uint64"}


@pytest.mark.parametrize("operation, type_name", [(o, t) for o, types in GLOBAL.items() for t in types])
def test_reductions_of_tiles(operation, type_name):
    """Half of the tile lies outside the tensor, and is left out."""
    A, D = pair(type_name, 1)
    size = A.itemsize
    rows = 2048 // 32
    columns = 32 // size
    A, D = A.reshape(rows, columns), D.reshape(rows, columns)
    wanted = D.copy()
    wanted[rows // 2 :] = REFERENCE[operation](D[rows // 2 :], A[: rows // 2]).astype(D.dtype)
    out = raw(D).copy()
    made = tile_map(D.shape, D.shape, 0, DATA_TYPES.index(MAPPED[type_name]), size)
    store = (
        "mov.b64 %rd51, k_param_0;\ncvta.param.u64 %rd51, %rd51;\n"
        f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group "
        f"[%rd51, {{0, {rows // 2}}}], [%r1];\n"
    )
    body = WRITTEN.replace("k_param_0", "k_param_1") + FENCED + by_thread_0(store + DONE)
    ran(body, {"A": raw(A).copy(), "D": out}, maps=[("D", made)], pointers=["A"])
    np.testing.assert_array_equal(out, raw(wanted))


def test_lanes_that_reduce_one_tile_reduce_it_each():
    A, D = np.ones(512, np.float32), np.zeros(512, np.float32)
    body = WRITTEN + FENCED + "ld.param.u64 %rd5, [k_param_1];\nsetp.ge.s32 %p1, %r0, 3;\n@%p1 bra OVER;\n"
    ran(body + bulk("add", "f32") + DONE + "OVER:\n", {"A": A, "D": D}, pointers=["A", "D"])
    assert (D == 3).all()


def findings(body, tensors, seed=0, **options):
    result = emulate(kernel(body, tensors=described(tensors), **options), tensors, seed)
    return [(finding.kind, finding.detail) for finding in result.errors]


def reduced(before=FENCED, after=DONE, **form):
    A, D = pair("f32")
    reduce = "ld.param.u64 %rd5, [k_param_1];\n" + bulk("add", "f32", **form)
    return findings(WRITTEN + before + by_thread_0(reduce + after), {"A": A, "D": D}, pointers=["A", "D"])


def test_a_reduction_needs_a_proxy_fence_after_the_writes():
    assert {kind for kind, _ in reduced(before="bar.sync 0;\n")} == {"proxy-fence"}
    assert {kind for kind, _ in reduced(before="fence.proxy.async.shared::cta;\n")} == {"read-before-write"}


def test_a_reduction_is_waited_for_as_a_store_is():
    assert [kind for kind, _ in reduced(after="")] == ["exit-in-flight"]
    overwritten = "cp.async.bulk.commit_group;\nst.shared.u32 [%r1], %r0;\n" + DONE
    assert [kind for kind, _ in reduced(after=overwritten)] == ["overwrite-while-read"]
    assert reduced(after=DONE + "st.shared.u32 [%r1], %r0;\n") == []


@pytest.mark.parametrize("form", [{"size": 24}, {"size": 0}, {"source": "%r1+8"}])
def test_sizes_and_addresses_of_a_reduction(form):
    assert [kind for kind, _ in reduced(**form)] == ["misaligned"]


def test_a_tile_of_a_type_that_ptx_does_not_reduce():
    A, D = pair("f32")
    store = "mov.b64 %rd51, k_param_0;\ncp.reduce.async.bulk.tensor.1d.global.shared::cta.max.bulk_group "
    body = (
        WRITTEN.replace("k_param_0", "k_param_1")
        + FENCED
        + by_thread_0(store + "[%rd51, {0}], [%r1];\n" + DONE)
    )
    made = tile_map((512,), (256,), 0, 7, 4)
    found = findings(body, {"A": A, "D": D}, maps=[("D", made)], pointers=["A"])
    assert found == [("tensor-map", "warp 0 reduces into D by .max, which PTX does not have for float32")]


@pytest.mark.parametrize(
    "form",
    [
        "bulk_group.max.f32",
        "bulk_group.add.f16",
        "bulk_group.add.noftz.f32",
        "bulk_group.and.u32",
        "bulk_group.inc.u64",
        "bulk_group.mul.f32",
    ],
)
def test_reductions_that_ptx_does_not_have_are_refused_by_name(form):
    A, D = pair("f32")
    body = f"cp.reduce.async.bulk.global.shared::cta.{form} [%rd5], [%r1], 16;\n"
    with pytest.raises(
        EmulatorError, match=r"PTX line \d+: this form of `cp` is not modelled .*cp.reduce.async"
    ):
        findings(body, {"A": A, "D": D}, pointers=["A", "D"])


# Into another CTA's shared memory: both CTAs of a cluster reduce into the 256 bytes at 4096 of rank 0, and signal
# its mbarrier. Rank 0 writes what it finds to D.

CLUSTER_SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


def into_rank_0(reduce, filled=True, waits=True, fence="fence.proxy.async;\n"):
    start = "st.shared.u32 [%r4+4096], %r40;\n" * filled
    body = (
        init(1)
        + "add.s32 %r3, %r1, 8192;\nmov.u32 %r20, %cluster_ctarank;\nshl.b32 %r4, %r0, 2;\nadd.s32 %r4, %r4, %r1;\n"
        + own(0, 4)
        + "mul.wide.u32 %rd3, %r20, 256;\nadd.s64 %rd1, %rd1, %rd3;\nld.global.u32 %r10, [%rd1];\n"
        + own(1, 4)
        + "ld.global.u32 %r40, [%rd1];\nst.shared.u32 [%r4], %r10;\n"
        + start
        + fence
        + CLUSTER_SYNC
        + "mapa.shared::cluster.u32 %r5, %r1, 0;\nmapa.shared::cluster.u32 %r6, %r3, 0;\n"
        + "setp.ne.s32 %p2, %r20, 0;\nsetp.ne.s32 %p1, %r0, 0;\nor.pred %p3, %p1, %p2;\n"
        + "@!%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;\n"
        + reduce
        + "@%p2 bra OVER;\n"
        + wait("[%r3]", 0, "FULL") * waits
        + "ld.shared.u32 %r11, [%r4+4096];\nst.global.u32 [%rd1], %r11;\nOVER:\n"
        + CLUSTER_SYNC
    )
    return body


BULK_CLUSTER = (
    "add.s32 %r7, %r5, 4096;\n@!%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    ".{}.{} [%r7], [%r1], 256, [%r6];\n"
)
ASYNC = (
    "add.s32 %r7, %r5, 4096;\nshl.b32 %r8, %r0, 2;\nadd.s32 %r7, %r7, %r8;\n"
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{}.{} [%r7], %r10, [%r6];\n"
)
OPTIONS = {"threads": 64, "grid": (2, 1, 1), "cluster": (2, 1, 1), "pointers": ["A", "D"]}
WORDS = [(o, t) for o, types in CLUSTER.items() for t in types if t != "u64" and o not in ("inc", "dec")]


@pytest.mark.parametrize("reduce", [BULK_CLUSTER, ASYNC], ids=["bulk", "red.async"])
@pytest.mark.parametrize("operation, type_name", WORDS)
def test_reductions_into_another_cta(reduce, operation, type_name):
    rng = np.random.default_rng(0)
    A, D = (numbers(type_name, count, rng) for count in (128, 64))
    wanted = REFERENCE[operation](REFERENCE[operation](D, A[:64]), A[64:])
    for seed in SEEDS:
        out = raw(D).copy()
        ran(into_rank_0(reduce.format(operation, type_name)), {"A": raw(A), "D": out}, seed, **OPTIONS)
        np.testing.assert_array_equal(out, raw(wanted))


def one_cta(operation, value, start, cluster=2):
    """What one red.async of a cluster's first thread leaves of ``start``."""
    D = np.array([start], np.uint32)
    body = (
        init(1)
        + "add.s32 %r3, %r1, 8192;\nmov.u32 %r9, %cluster_ctarank;\nor.b32 %r0, %r0, %r9;\n"
        + by_thread_0(
            f"ld.param.u64 %rd1, [k_param_0];\nld.global.u32 %r5, [%rd1];\nst.shared.u32 [%r1], %r5;\nmov.u32 %r6, {value};\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4;\n"
            f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.u32 [%r1], %r6, [%r3];\n"
            + wait("[%r3]", 0, "ONE")
            + "ld.shared.u32 %r7, [%r1];\nst.global.u32 [%rd1], %r7;\n"
        )
    )
    ran(body, {"D": D}, pointers=["D"], grid=(cluster, 1, 1), cluster=(cluster, 1, 1))
    return int(D[0])


def test_red_async_needs_a_launch_with_clusters():
    """As an H200 with driver 580 has it: an illegal instruction."""
    with pytest.raises(AssertionError, match="red.async without a cluster"):
        one_cta("add", 5, 3, cluster=1)


def test_inc_and_dec_wrap_at_their_limit():
    assert [one_cta("inc", 5, start) for start in (0, 4, 5, 9)] == [1, 5, 0, 0]
    assert [one_cta("dec", 5, start) for start in (0, 4, 5, 9)] == [5, 3, 4, 5]


@pytest.mark.parametrize("reduce", [BULK_CLUSTER, ASYNC], ids=["bulk", "red.async"])
def test_a_reduction_into_another_cta_is_read_after_its_barrier(reduce):
    tensors = {"A": np.ones(128, np.uint32), "D": np.ones(64, np.uint32)}
    unwaited = into_rank_0(reduce.format("add", "u32"), waits=False)
    for seed in SEEDS:  # nor does anybody keep CTA 0 from ending before
        found = [kind for kind, _ in findings(unwaited, tensors, seed, **OPTIONS)]
        ends = ["exit-in-flight"] * (reduce is BULK_CLUSTER)  # the copies read memory of their CTAs
        assert found == ["read-before-load", *ends, "cluster-exit"]


def test_a_reduction_into_what_nothing_has_written():
    tensors = {"A": np.ones(128, np.uint32), "D": np.ones(64, np.uint32)}
    found = findings(into_rank_0(ASYNC.format("add", "u32"), filled=False), tensors, **OPTIONS)
    assert found[0][0] == "uninitialised-read" and "a reduction" in found[0][1]


def test_a_bulk_reduction_of_what_no_fence_has_made_visible():
    tensors = {"A": np.ones(128, np.uint32), "D": np.ones(64, np.uint32)}
    unfenced = into_rank_0(BULK_CLUSTER.format("add", "u32"), fence="fence.mbarrier_init.release.cluster;\n")
    assert "proxy-fence" in [kind for kind, _ in findings(unfenced, tensors, **OPTIONS)]


def test_a_reduction_that_signals_another_ctas_barrier():
    tensors = {"A": np.ones(128, np.uint32), "D": np.ones(64, np.uint32)}
    body = into_rank_0(ASYNC.format("add", "u32").replace("[%r6]", "[%r9]"))
    body = body.replace("mapa.shared::cluster.u32 %r6, %r3, 0;", "mapa.shared::cluster.u32 %r9, %r3, 1;")
    found = findings(body, tensors, **OPTIONS)
    assert found[-1][0] == "cluster-rank" and "an mbarrier of CTA 1: both must be one CTA's" in found[-1][1]


@pytest.mark.parametrize(
    "where, kind", [("%r7+2], %r10, [%r6", "misaligned"), ("%r7], %r10, [%r6+4", "misaligned")]
)
def test_addresses_of_red_async(where, kind):
    tensors = {"A": np.ones(128, np.uint32), "D": np.ones(64, np.uint32)}
    body = into_rank_0(ASYNC.format("add", "u32").replace("%r7], %r10, [%r6", where))
    assert findings(body, tensors, **OPTIONS)[-1][0] == kind
