"""Programs at the edges of what the emulator models, in CUDA C: each is right, or has one fault. ``told`` is
what is found under some schedule; schedules 0 to 8 hold back nobody, one CTA of a cluster, or one warp.
"""

import numpy as np
import pytest

from course_utils.artifact import Artifact, Parameter, Tensor
from course_utils.compile import nvrtc
from course_utils.run.emulator import emulate

COUNT, SEEDS = 1024, range(9)
HELPERS = r"""
typedef unsigned int u32; typedef unsigned long long u64; typedef unsigned short u16; typedef unsigned char u8;
#define DO(...) asm volatile(__VA_ARGS__ : "memory")
#define DEVICE static __device__ __forceinline__
DEVICE u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE void init(u64* b, u32 n) {
  DO("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n)); DO("fence.mbarrier_init.release.cluster;" ::);
}
DEVICE void arrive(u64* b) { DO("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(b))); }
DEVICE void expect(u64* b, u32 n) { DO("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at(b)), "r"(n)); }
DEVICE void wait(u64* b, u32 parity) {
  u32 done;
  do DO("{.reg .pred q; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [%1], %2; selp.u32 %0, 1, 0, q;}"
        : "=r"(done) : "r"(at(b)), "r"(parity)); while (!done);
}
DEVICE void load(void* to, const void* from, u64* b) {
  DO("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
     :: "r"(at(to)), "l"(from), "r"(at(b)));
}
DEVICE void store(void* to, const void* from) {
  DO("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" :: "l"(to), "r"(at(from)));
  DO("cp.async.bulk.commit_group;" ::); DO("cp.async.bulk.wait_group 0;" ::);
}
DEVICE void add(void* to, const void* from) {
  DO("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 256;" :: "l"(to), "r"(at(from)));
  DO("cp.async.bulk.commit_group;" ::); DO("cp.async.bulk.wait_group 0;" ::);
}
DEVICE void fence() { DO("fence.proxy.async;" ::); }
DEVICE void fence_shared() { DO("fence.proxy.async.shared::cta;" ::); }
DEVICE void copy(void* to, const void* from) { DO("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(to)), "l"(from)); }
DEVICE void copied() { DO("cp.async.wait_all;" ::); }
DEVICE void arrives() { DO("barrier.cluster.arrive.aligned;" ::); }
DEVICE void waits() { DO("barrier.cluster.wait.aligned;" ::); }
DEVICE u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEVICE u32 there(const void* p, u32 r) { u32 a; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(at(p)), "r"(r)); return a; }
DEVICE void send(u32 to, const void* from, u32 b) {
  DO("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" :: "r"(to), "r"(at(from)), "r"(b));
}
DEVICE void release(int* p, int v) { DO("st.release.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v)); }
DEVICE int acquire(int* p) { int v; DO("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p)); return v; }
DEVICE int look(int* p) { return *(volatile int*)p; }
"""  # noqa: E501
SHARED = "__shared__ __align__(128) int S[256]; u16* H = (u16*)S; u8* B = (u8*)S; (void)H; (void)B;\n"
BARRIER = "__shared__ u64 m; if (t == 0) init(&m, {}); __syncthreads();\n"


def program(code, threads=64, grid=1, cluster=1):
    """Thread t, lane l and warp w of CTA b; F and Y hold zeros, X[i] holds i."""
    head = "int t = threadIdx.x, b = blockIdx.x, w = t / 32, l = t % 32; (void)b; (void)w; (void)l;\n"
    source = f'{HELPERS}extern "C" __global__ void k(int* F, int* X, int* Y) {{\n{head}{code}\n}}\n'
    ptx, cubin, resources = nvrtc.compile_source(source, ())
    launch = (grid, 1, 1), (threads, 1, 1), (cluster, 1, 1), 0
    parameters = tuple(Parameter("pointer", name) for name in "FXY")
    tensors = tuple(Tensor(name, (COUNT,), "int32") for name in "FXY")
    return Artifact("cuda", "k", ptx, cubin, *launch, parameters, tensors, resources)


def told(code, seeds=SEEDS, **launch):
    """The kinds that are found under any schedule, and what Y holds after the last one."""
    artifact, kinds = program(code, **launch), set()
    for seed in seeds:
        F, X, Y = np.zeros(COUNT, np.int32), np.arange(COUNT, dtype=np.int32), np.zeros(COUNT, np.int32)
        found = emulate(artifact, {"F": F, "X": X, "Y": Y}, seed).findings
        kinds |= {(finding.severity == "error") * "error " + finding.kind for finding in found}
    return kinds, Y


def check(code, kinds, **launch):
    """All of ``kinds``, and no error beside them. A warning has no "error" before its kind."""
    found, _ = told(code, **launch)
    wanted = {kind if kind in WARNINGS else f"error {kind}" for kind in kinds.split()}
    assert wanted <= found and (wanted or not found), found


WARNINGS = {"acquire-missing", "ended-lanes", "barrier-init-unfenced"}


# Polls: nobody is held back from a warp that only polls

FLAG = "__shared__ int f, d; if (t == 0) f = 0; __syncthreads();\n"
TAKES = "if (t == 32) { while (!look(&f)); __threadfence_block(); Y[0] = d; }"


@pytest.mark.parametrize(
    "code, kinds",
    [
        (FLAG + "if (t == 0) { d = X[3]; __threadfence_block(); *(volatile int*)&f = 1; }" + TAKES, ""),
        (FLAG + "if (t == 0) { d = X[3]; *(volatile int*)&f = 1; }" + TAKES, "read-before-write"),
        (  # what is polled for follows a load that is in flight
            SHARED + BARRIER.format(1) + FLAG + "if (t == 0) { expect(&m, 256); load(S, X, &m); wait(&m, 0); "
            "d = S[5]; __threadfence_block(); *(volatile int*)&f = 1; }" + TAKES,
            "",
        ),
    ],
)  # fmt: skip
def test_a_flag_in_shared_memory(code, kinds):
    check(code, kinds)


def test_a_flag_in_shared_memory_that_nobody_sets():
    check(FLAG + TAKES, "livelock", seeds=(0,))


# CTAs that run together: who polls may go on before who wrote


def test_a_flag_without_an_answer():
    sends = "if (t == 0) for (int i = 1; i < 5; i++) if (b == 0) { X[1] = i; release(F, i); ANSWER } else { "
    takes = "while (acquire(F) < i); Y[i] = X[1]; release(F + 1, i); }"
    both = sends + takes
    check(both.replace("ANSWER", ""), "read-before-write", grid=2)
    kinds, Y = told(both.replace("ANSWER", "while (acquire(F + 1) != i);"), grid=2)
    assert not kinds and Y[1:5].tolist() == [1, 2, 3, 4]


def test_a_read_behind_the_lock_is_found_though_others_read_since():
    """The last reader of an element is the CTA itself that writes it."""
    lock = "while (atomicCAS(F, 0, 1)); __threadfence(); X[0] = X[0] + 1; int v = READ; __threadfence(); atomicExch(F, 0); "  # noqa: E501
    body = f"if (t == 0) {{ {lock} Y[b] = SEEN; }}"
    check(body.replace("READ", "X[0]").replace("SEEN", "v"), "", grid=4)
    check(body.replace("READ", "0").replace("SEEN", "X[0] + v"), "read-before-write", grid=4)


LAST = """__shared__ int last; X[64 * b + t] = b; BEFORE
if (t == 0) { int n = atomicAdd(F, 1); last = n == gridDim.x - 1; AFTER } __syncthreads();
if (last) { BEHIND int sum = 0; for (int i = t; i < 64 * gridDim.x; i += 64) sum += X[i]; Y[t] = sum; }"""


@pytest.mark.parametrize(
    "before, after, behind, kinds",
    [
        ("__syncthreads(); __threadfence();", "__threadfence();", "", ""),
        ("__threadfence(); __syncthreads();", "__threadfence();", "", "acquire-missing"),
        ("__syncthreads(); __threadfence();", "", "__threadfence();", "acquire-missing"),
        ("__threadfence(); __syncthreads();", "", "__threadfence();", "acquire-missing"),
        ("__threadfence();", "__threadfence();", "", "read-before-write"),  # no barrier
        ("if (w) __threadfence(); __syncthreads();", "__threadfence();", "", "read-before-write"),
        ("__syncthreads();", "__threadfence();", "", "read-before-write"),
    ],
)
def test_fences_of_other_threads_than_the_isa_asks_are_a_warning(before, after, behind, kinds):
    """Threads fence and meet, and one of them counts: the ISA wants that one's fence, and people write this."""
    code = LAST.replace("BEFORE", before).replace("AFTER", after).replace("BEHIND", behind)
    check(code, kinds, grid=4)


# Parts of words


@pytest.mark.parametrize(
    "code, kinds",
    [
        ("H[2 * l + w] = t; __syncthreads(); Y[t] = H[2 * l + w];", ""),
        ("H[l] = t; __syncthreads(); Y[t] = H[l];", "write-unordered"),
        ("B[5] = w; __syncthreads(); Y[t] = B[5];", "write-unordered"),
        ("if (l == 0) { B[w] = w + 1; Y[w] = B[w]; }", ""),
        ("if (!t) S[0] = 0; __syncthreads(); if (t == 0) B[1] = 1; if (t == 32) Y[0] = B[2];", ""),
        ("if (!t) S[0] = 0; __syncthreads(); if (t == 0) B[1] = 1; if (t == 32) Y[0] = B[1];", "read-before-write"),
        ("if (!t) S[0] = 0; __syncthreads(); if (t == 0) B[1] = 1; if (t == 32) Y[0] = S[0];", "read-before-write"),
        ("if (t == 0) B[1] = 1; __syncthreads(); S[0] = 7; __syncthreads(); Y[t] = B[1];", ""),
        ("((u16*)X)[2 * l + w] = t;", ""),
        ("((u16*)X)[l] = t;", "write-unordered"),
        ("((int4*)S)[0] = make_int4(w, w, w, w); __syncthreads(); Y[t] = S[0];", "write-unordered"),
    ],
)  # fmt: skip
def test_two_warps_and_parts_of_a_word(code, kinds):
    check(SHARED + code, kinds)


@pytest.mark.parametrize("place, kinds", [("2 * t + b", ""), ("t", "stored-twice")])
def test_two_ctas_and_bytes_of_an_element(place, kinds):
    check(f"((u8*)X)[{place}] = b;", kinds, grid=2)


# Warps whose lanes have parted


@pytest.mark.parametrize(
    "code, kinds",
    [
        ("if (t >= 40) return; S[t] = t; __syncthreads(); Y[t] = S[39 - t];", ""),
        ("if (t >= 40) return; __syncwarp(); Y[t] = t;", ""),
        ("if (t >= 40) return; Y[t] = __shfl_xor_sync(~0u, t, 1);", "ended-lanes"),
        ("if (l < 16) Y[t] = __shfl_xor_sync(~0u, t, 1); __syncthreads();", "absent-lanes"),
        ("if (l < 16) { __syncthreads(); Y[t] = 1; } else { __syncthreads(); Y[t] = 2; }", "aligned"),
        ('if (l < 16) { DO("barrier.sync 1, 64;" ::); Y[t] = 1; } else { DO("barrier.sync 1, 64;" ::); Y[t] = 2; }', ""),
        ("u32 mask = l < 16 ? 0xffffu : 0xfffffff0u; Y[t] = __shfl_xor_sync(mask, t, 1);", "absent-lanes"),
    ],
)  # fmt: skip
def test_lanes_that_part(code, kinds):
    check(SHARED + code, kinds)


def test_groups_of_a_warp_exchange_at_once():
    code = "u32 mask = 0xffu << (l & 24); int v = t; for (int o = 4; o; o /= 2) v += __shfl_xor_sync(mask, v, o);\n"
    code += "__syncwarp(mask); Y[t] = v + 1000 * __popc(__ballot_sync(mask, l & 1)) + 10000 * __reduce_add_sync(mask, 1);"
    kinds, Y = told(code)
    assert not kinds
    assert Y[:64].tolist() == [sum(range(t // 8 * 8, t // 8 * 8 + 8)) + 84000 for t in range(64)]


# mbarriers, copies and the cluster

PAIR = {"grid": 2, "cluster": 2}
SENT = """__shared__ u64 m; __shared__ __align__(128) int S[64], D[64]; S[t] = t + b;
if (t == 0) { init(&m, 1); expect(&m, 256); } fence(); arrives(); waits();
if (t == 0) send(there(D, rank() ^ 1), S, there(&m, rank() ^ 1));
"""


@pytest.mark.parametrize(
    "code, kinds",
    [
        (SENT + "wait(&m, 0); Y[64 * b + t] = D[t]; arrives(); waits();", ""),
        (SENT + "wait(&m, 0); arrives(); waits(); S[t] = 0;", ""),
        (SENT + "__syncthreads(); S[t] = 0; wait(&m, 0); arrives(); waits();", "overwrite-while-read"),
        (SENT + "wait(&m, 0);", "exit-in-flight"),
        ("arrives(); Y[64 * b + t] = 1; waits(); arrives(); waits();", ""),
        (
            "if (w == 0 || b == 0) { arrives(); waits(); } else arrives(); arrives(); waits();",
            "cluster-barrier",
        ),
        ("if (w == 0) arrives(); waits();", "cluster-barrier"),
    ],
)
def test_pairs_of_ctas(code, kinds):
    check(code, kinds, **PAIR)


@pytest.mark.parametrize(
    "code, kinds",
    [
        ("arrive(&m); wait(&m, 0); __syncthreads(); if (t == 0) m = 7; __syncthreads(); Y[t] = (int)m;", ""),
        ("if (t == 0) m = 7; __syncthreads(); arrive(&m); wait(&m, 0);", "barrier-outside"),
    ],
)
def test_what_is_stored_over_an_mbarrier(code, kinds):
    check(BARRIER.format(64) + code, kinds)


@pytest.mark.parametrize(
    "code, kinds",
    [
        ("copy(&S[t], &X[t]); copied(); S[t] = 5; __syncthreads(); Y[t] = S[t];", ""),
        ("copy(&S[t], &X[t]); S[t] = 5; copied(); __syncthreads(); Y[t] = S[t];", "write-unordered"),
        ("Y[t] = t; __syncthreads(); copy(&S[t], &Y[63 - t]); copied(); X[t] = S[t];", ""),
        ("Y[t] = t; copy(&S[t], &Y[63 - t]); copied(); X[t] = S[t];", "read-before-write"),
    ],
)
def test_copies_of_threads(code, kinds):
    check(SHARED + code, kinds)


@pytest.mark.parametrize("store", ["store", "add"])
@pytest.mark.parametrize("fenced, kinds", [("fence", ""), ("fence_shared", "proxy-fence")])
def test_a_tma_store_over_what_threads_stored_needs_a_fence_of_global_memory(store, fenced, kinds):
    check(f"{SHARED}S[t] = t; Y[t] = 5; {fenced}(); __syncthreads(); if (t == 0) {store}(Y, S);", kinds)


def test_the_low_half_of_a_wide_register_is_stored():
    kinds, Y = told("u64 v = (u64)X[t] * 0x100000003; Y[t] = (int)v;")
    assert not kinds and Y[:64].tolist() == [3 * t for t in range(64)]


# mbarriers whose init a barrier of the CTA orders, and no fence

UNFENCED = '__shared__ u64 m; if (t == 0) DO("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&m)));\n'
LOADED = "if (t == 32) { expect(&m, 256); LOAD; } wait(&m, 0); Y[t] = S[t];"
FROM_PEER = "send(there(S + 64, rank() ^ 1), S, there(&m, rank() ^ 1))"


@pytest.mark.parametrize(
    "meet, load, cluster, kinds",
    [
        ("__syncthreads();", "load(S, X, &m)", 1, "barrier-init-unfenced"),  # as libcu++ shows it
        ("", "load(S, X, &m)", 1, "barrier-init-race"),
        ("arrives(); waits();", FROM_PEER, 2, "barrier-init-race"),  # an mbarrier of another CTA
    ],
)
def test_a_bulk_copy_behind_an_init_without_a_fence(meet, load, cluster, kinds):
    body = SHARED + "S[t] = t; fence();\n" + UNFENCED + meet + LOADED.replace("LOAD", load)
    found, _ = told(body + "arrives(); waits();", grid=cluster, cluster=cluster)
    assert any(kinds in one for one in found) and ("error barrier-init-race" in found) == ("race" in kinds)


MEMCPY_ASYNC = r"""
#include <cuda/barrier>
#include <cooperative_groups.h>
extern "C" __global__ void k(int* F, int* X, int* Y) {
  __shared__ alignas(128) int tile[256];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  auto block = cooperative_groups::this_thread_block();
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  block.sync();
  cuda::memcpy_async(block, tile, X, cuda::aligned_size_t<16>(sizeof(tile)), bar);
  bar.arrive_and_wait();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) Y[i] = tile[255 - i];
}
"""


@pytest.mark.thorough
def test_memcpy_async_of_the_programming_guide_is_right():
    ptx, cubin, resources = nvrtc.compile_source(MEMCPY_ASYNC, nvrtc.cuda_include_dirs())
    launch = (1, 1, 1), (64, 1, 1), (1, 1, 1), 0
    tensors = tuple(Tensor(name, (COUNT,), "int32") for name in "FXY")
    parameters = tuple(Parameter("pointer", name) for name in "FXY")
    artifact = Artifact("cuda", "k", ptx, cubin, *launch, parameters, tensors, resources)
    for seed in range(3):
        F, X, Y = np.zeros(COUNT, np.int32), np.arange(COUNT, dtype=np.int32), np.zeros(COUNT, np.int32)
        found = emulate(artifact, {"F": F, "X": X, "Y": Y}, seed)
        assert found.finished and not found.errors
        assert Y[:256].tolist() == list(range(255, -1, -1))
