"""What an H200 does where a proxy fence is missing, or stands on the other side of the barrier.

    python benchmarks/proxy_fence.py compile build/fences.zip                    # where NVRTC is
    python benchmarks/proxy_fence.py run build/fences.zip build/fences.json      # where the GPU is

Three hazards between ordinary accesses of threads (the generic proxy) and a bulk copy (the async proxy), each
with the fence left out, with one in every thread before the barrier, with one in the copy's thread after it,
and with one in that thread before it. A count is 16-byte pieces that came out wrong. PTX ISA 9.4, "membar,
fence": a proxy fence takes effect within a single thread, and composes with other synchronisation.
"""

from __future__ import annotations

import datetime
import json
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from course_utils.artifact import Artifact, Parameter, Tensor  # noqa: E402

HAZARDS = ("write then bulk store", "read then bulk load", "write then bulk load")
FENCES = (
    "none",
    "before the barrier, every thread",
    "after the barrier, the copy's thread",
    "before the barrier, the copy's thread",
)
HANDS = ("bar.sync", "mbarrier")  # how threads tell the copy's thread that they are done
THREADS, PIECES, ROUNDS, BLOCKS, LAUNCHES = 256, 1024, 64, 264, 200  # pieces of 16 bytes in a tile

SOURCE = r"""
#define EACH (PIECES / THREADS)
#define MINE(i) ((t * 8 + t / (PIECES / 8)) % PIECES + (i) * 2)  // pieces of a thread: lanes meet in one bank
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 at(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void init(u64 *b, u32 n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n));
}
__device__ void arrive(u64 *b) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(b)) : "memory");
}
__device__ void wait(u64 *b, u32 parity) {
  asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L; }"
               :: "r"(at(b)), "r"(parity) : "memory");
}
__device__ void load(void *to, const void *from, u64 *b) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
               :: "r"(at(b)), "r"(PIECES * 16) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(at(to)), "l"(from), "r"(PIECES * 16), "r"(at(b)) : "memory");
}
__device__ void store(void *to, const void *from) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(to), "r"(at(from)), "r"(PIECES * 16) : "memory");
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ void st(uint4 *to, u32 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" :: "r"(at(to)), "r"(v) : "memory");
}
__device__ uint4 ld(const uint4 *from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at(from)) : "memory");
  return v;
}
__device__ bool is(uint4 v, u32 w) { return v.x == w && v.y == w && v.z == w && v.w == w; }

// given: ROUNDS tiles whose piece i of round r is r * PIECES + i + 1; out: BLOCKS * ROUNDS tiles
extern "C" __global__ void __launch_bounds__(THREADS) hazard(const uint4 *given, uint4 *out, u32 *wrong) {
  extern __shared__ __align__(128) uint4 tile[];
  __shared__ u64 full, done;
  u32 t = threadIdx.x, bad = 0;
  if (t == 0) { init(&full, 1); init(&done, THREADS); asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  for (u32 r = 0; r < ROUNDS; ++r) {
    u32 first = r * PIECES + 1;
    // the copy's thread is in the first warp, the slowest writer or reader in the last
    for (u32 d = 0; d < (t / 32) * ((r * 7 + blockIdx.x) % 5); ++d) __nanosleep(0);
#if HAZARD == 0
    for (u32 i = 0; i < EACH; ++i) st(tile + MINE(i), first + MINE(i));
#elif HAZARD == 1
    if (r == 0 && t == 0) load(tile, given, &full);
    wait(&full, r & 1);
    uint4 held[EACH];  // looked at once the next load is on its way
    for (u32 i = 0; i < EACH; ++i) held[i] = ld(tile + MINE(i));
#else
    for (u32 i = 0; i < EACH; ++i) st(tile + MINE(i), 0);
#endif
#if FENCE == 1
    fence();
#elif FENCE == 3
    if (t == 0) fence();
#endif
#if HAND == 0
    __syncthreads();
#else
    arrive(&done);
#endif
    if (t == 0) {
#if HAND == 1
      wait(&done, r & 1);
#endif
#if FENCE == 2
      fence();
#endif
#if HAZARD == 0
      store(out + (blockIdx.x * (u64)ROUNDS + r) * PIECES, tile);
#elif HAZARD == 1
      if (r + 1 < ROUNDS) load(tile, given + (r + 1) * PIECES, &full);
#else
      load(tile, given + r * PIECES, &full);
#endif
    }
#if HAZARD == 1
    for (u32 i = 0; i < EACH; ++i) bad += !is(held[i], first + MINE(i));
#elif HAZARD == 2
    wait(&full, r & 1);
    for (u32 i = 0; i < EACH; ++i) bad += !is(ld(tile + MINE(i)), first + MINE(i));
#endif
#if HAZARD != 1
    __syncthreads();  // of the next round's writes: not what is looked at
#endif
  }
  if (bad) atomicAdd(wrong, bad);
}
"""


def kernels():
    """(name, defines) of each variant."""
    for h, hazard in enumerate(HAZARDS):
        for f, fence in enumerate(FENCES):
            for s, hand in enumerate(HANDS):
                yield f"{hazard} | {fence} | {hand}", {"HAZARD": h, "FENCE": f, "HAND": s}


def artifact(defines: dict[str, int], blocks: int = BLOCKS, rounds: int = ROUNDS) -> Artifact:
    """One variant, compiled. Raises CompileError."""
    from course_utils.compile import nvrtc

    sizes = {"THREADS": THREADS, "PIECES": PIECES, "ROUNDS": rounds}
    tensors = (
        Tensor("given", (rounds * PIECES, 4), "int32"),
        Tensor("out", (blocks * rounds * PIECES, 4), "int32"),
        Tensor("wrong", (1,), "int32"),
    )
    parameters = tuple(Parameter("pointer", tensor.name) for tensor in tensors)
    text = "".join(f"#define {key} {value}\n" for key, value in (sizes | defines).items()) + SOURCE
    ptx, cubin, resources = nvrtc.compile_source(text, ())
    launch = (blocks, 1, 1), (THREADS, 1, 1), (1, 1, 1), PIECES * 16
    return Artifact("cuda", "hazard", ptx, cubin, *launch, parameters, tensors, resources)


def compile_all(path: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, defines in kernels():
            archive.writestr(name, artifact(defines).to_bytes())


def run_all(path: str, out: str) -> None:
    import torch

    from course_utils.run.gpu.launch import Kernel
    from course_utils.run.gpu.worker import device

    torch.cuda.init()
    pieces = torch.arange(1, ROUNDS * PIECES + 1, dtype=torch.int32, device="cuda")
    given = pieces[:, None].expand(-1, 4).contiguous()
    left = torch.zeros(BLOCKS, ROUNDS * PIECES, 4, dtype=torch.int32, device="cuda")
    wrong = torch.zeros(1, dtype=torch.int32, device="cuda")
    addresses = {"given": given.data_ptr(), "out": left.data_ptr(), "wrong": wrong.data_ptr()}
    rows = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            kernel = Kernel(Artifact.from_bytes(archive.read(name)), addresses)
            stores = name.startswith(HAZARDS[0])
            count = launches = 0
            for _ in range(LAUNCHES):
                wrong.zero_()
                if stores:
                    left.zero_()
                kernel.launch(torch.cuda.current_stream().cuda_stream)
                found = int((left != given).any(-1).sum()) if stores else int(wrong.item())
                count, launches = count + found, launches + (found > 0)
            kernel.unload()
            rows.append(
                dict(zip(("hazard", "fence", "hand"), name.split(" | "), strict=True))
                | {"pieces": LAUNCHES * BLOCKS * ROUNDS * PIECES, "wrong": count}
                | {"launches": LAUNCHES, "launches_wrong": launches}
            )
            print(f"{name:80} {count:>12,} wrong, in {launches} of {LAUNCHES} launches", flush=True)
    record = {
        "recorded": datetime.date.today().isoformat(),
        "command": "python benchmarks/proxy_fence.py run",
        "device": device(),
        "rows": rows,
    }
    Path(out).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["compile", path]:
            compile_all(path)
        case ["run", path, out]:
            run_all(path, out)
        case _:
            sys.exit(__doc__)
