// The smallest programs that have the faults of docs/found.md. FAULT names one; MENDED is 1 where it is put
// right. LATE makes some warps late, by LATE sleeps: it takes and gives no order.
#define EXIT_PEER 0
#define RING 1
#define REFILL 2
#define PREDICATE 3
#define LAST_SUM 4
#define ONE_BARRIER 5
#define NO_FENCE 6
#define EXIT_STORE 7
#define REUSE 8
#define EARLY 9
#define OWN_ROWS 10
#define TWICE 11
#define LAPPED 12
#define THREADS 256
#define PIECES 1024  // of 16 bytes, in a tile
#define ROUNDS 16
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 at(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void late(u32 n) { for (u32 i = 0; i < n * LATE; ++i) __nanosleep(64); }
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ u32 mapa(u32 address, u32 cta) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(cta));
  return there;
}
__device__ u32 ld_cluster(u32 there) {
  u32 v;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there) : "memory");
  return v;
}
__device__ void init(u64 *b, u32 n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n));
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
__device__ bool is(uint4 v, u32 w) { return v.x == w && v.y == w && v.z == w && v.w == w; }

// given: piece i of round r is r * PIECES + i + 1, four times
extern "C" __global__ void __launch_bounds__(THREADS) found(const uint4 *given, uint4 *out, u32 *wrong) {
  extern __shared__ __align__(1024) uint4 tile[];
  u32 t = threadIdx.x, bad = 0;

#if FAULT == EXIT_PEER  // mapa.py: a CTA reads another's shared memory, which may have ended
  u32 *mine = (u32 *)tile;
  if (t == 0) *mine = blockIdx.x + 1;
  cluster_sync();
  if (rank() == 1) late(blockIdx.x % 8);
  if (t == 0) bad = ld_cluster(mapa(at(mine), rank() ^ 1)) != (blockIdx.x ^ 1) + 1;
#if MENDED
  cluster_sync();
#endif

#elif FAULT == RING  // mapa.py with four CTAs: it waits for the one before it and reads the one after it
  u32 *mine = (u32 *)tile;
  __shared__ u64 ready;
  u32 r = rank(), next = (r + 1) % 4, read = MENDED ? (r + 3) % 4 : next;
  if (t == 0) { *mine = 0; init(&ready, 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  cluster_sync();
  if (t == 0) {
    late((blockIdx.x / 4 + r) % 4);
    *mine = blockIdx.x + 1;
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 :: "r"(mapa(at(&ready), next)) : "memory");
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.acquire.cluster.shared.b64 p, [%0], 0;"
                 " @!p bra L; }" :: "r"(at(&ready)) : "memory");
    bad = ld_cluster(mapa(at(mine), read)) != blockIdx.x / 4 * 4 + read + 1;
  }
  cluster_sync();

#elif FAULT == REFILL  // tma_pipeline_single_warp.py: a stage is filled again while it may still be read
  __shared__ u64 full[2];
  if (t == 0) { init(full, 1); init(full + 1, 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  if (t == 0) load(tile, given, full);
  for (u32 k = 0; k < ROUNDS; ++k) {
    u32 s = k % 2, next = (k + 1) % 2;
    if (t == 0 && k + 1 < ROUNDS) load(tile + next * PIECES, given + (k + 1) * PIECES, full + next);
    wait(full + s, k / 2 % 2);
    __syncthreads();
    late(t / 32);
    for (u32 i = t; i < PIECES; i += THREADS) bad += !is(tile[s * PIECES + i], k * PIECES + i + 1);
#if MENDED
    fence();
    __syncthreads();
#endif
  }

#elif FAULT == PREDICATE  // elementwise_apply.py: "in" is computed, and the store does not ask it
  u32 i = blockIdx.x * THREADS + t;
  bool in = i < gridDim.x * THREADS - THREADS / 2;
  if (!MENDED || in) out[i] = make_uint4(7, 7, 7, 7);

#elif FAULT == TWICE  // flash_bwd_preprocess.py: a tile has 64 values, and threads past it store the next tile's too
  u32 i = blockIdx.x * 64 + t;
  if ((!MENDED || t < 64) && i < gridDim.x * 64) out[i] = make_uint4(i + 1, i + 1, i + 1, i + 1);

#elif FAULT == LAPPED  // norm_fn_kernel.py: warps of the producer wait for a barrier that does not wait for them
  __shared__ u64 full, empty;
  if (t == 0) { init(&full, 1); init(&empty, THREADS - 128); asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  if (t < 128) {
    if (!MENDED || t < 32) for (u32 k = 0; k < ROUNDS; ++k) {
      if (t >= 32) late(1);
      wait(&empty, k % 2 ^ 1);
      if (t == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&full)) : "memory");
    }
  } else for (u32 k = 0; k < ROUNDS; ++k) {
    wait(&full, k % 2);
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&empty)) : "memory");
  }

#elif FAULT == LAST_SUM  // example_mla_decode_ws.py: one group writes the sums last, another reads them last
  u32 *sums = (u32 *)tile;
  if (t < 128) sums[t] = 0;
  __syncthreads();
  if (t < 128) sums[t] = t + 1;
#if MENDED
  __syncthreads();
#endif
  if (t >= 128) { late(1); bad = sums[t - 128] != t - 127; }

#elif FAULT == ONE_BARRIER  // sparse_mla_fwd_seesaw.py: two groups of 128 threads meet at barrier 3 each
  u32 *values = (u32 *)tile + t / 128 * 128, i = t % 128;
  for (u32 k = 0; k < ROUNDS; ++k) {
    late((t / 32 + k) % 8);
    values[i] = k;
    asm volatile("bar.sync %0, 128;" :: "r"(MENDED ? 3 + t / 128 : 3) : "memory");
    bad += values[(i + 32) % 128] != k;
    asm volatile("bar.sync %0, 128;" :: "r"(MENDED ? 3 + t / 128 : 3) : "memory");
  }

// NO_FENCE: bmm.py: wgmma reads what cp.async wrote (COPY 1; 0: threads), and no proxy fence
// OWN_ROWS: flash_fwd_sm90.py: wgmma reads what four warps wrote, and each warp waited for itself alone
#elif FAULT == NO_FENCE || FAULT == OWN_ROWS
  uint4 *a = tile, *b = tile + 128;  // 64 x 16 and 8 x 16 halves, all of a round's alike
  const u32 one = 0x3c003c00;
  if (t < 16) b[t] = make_uint4(one, one, one, one);
  fence();
  __syncthreads();
  if (t < 128) for (u32 k = 0; k < ROUNDS; ++k) {
    u32 v = (0x4000 + (k << 6)) * 0x10001;  // 2 and more
    late((t / 32 + k) % 4);
    if (FAULT == NO_FENCE && COPY) asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;"
                           :: "r"(at(a + t)), "l"(out + k * 128 + t) : "memory");
    else a[t] = make_uint4(v, v, v, v);  // of the 16 rows of its warp
    if (FAULT == OWN_ROWS || MENDED) fence();
    if (FAULT == NO_FENCE || MENDED) asm volatile("bar.sync 1, 128;" ::: "memory");
    else __syncwarp();
    u64 from_a = (u64)(at(a) >> 4) | 8ull << 16 | 16ull << 32, from_b = (u64)(at(b) >> 4) | 8ull << 16 | 16ull << 32;
    float d[4];
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 0, 1, 1, 0, 0;\n"
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) : "l"(from_a), "l"(from_b) : "memory");
    float want = 16 * (2 + k * 0.125f);
    bad += d[0] != want || d[1] != want || d[2] != want || d[3] != want;
    asm volatile("bar.sync 1, 128;" ::: "memory");
  }

#elif FAULT == REUSE  // 06_softmax.py: one array holds the maxima, then the sums, and a warp may read late
  u32 *shared = (u32 *)tile, w = t / 32;
  if (t % 32 == 0) shared[w] = w + 1;
  __syncthreads();
  if (t == 0) for (u32 i = 1; i < THREADS / 32; ++i) shared[0] = max(shared[0], shared[i]);
  __syncthreads();
  late(w);
  bad = shared[0] != THREADS / 32;
#if MENDED
  __syncthreads();
#endif
  if (t % 32 == 0) shared[w] = 100;

#elif FAULT == EARLY  // w4a16.py: the consumer releases a stage, and wgmma reads it afterwards (here: threads)
  __shared__ u64 full[2], empty[2];
  if (t == 0) {
    for (u32 i = 0; i < 2; ++i) { init(full + i, 1); init(empty + i, THREADS - 32); }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  for (u32 k = 0; k < ROUNDS; ++k) {
    u32 s = k % 2;
    if (t == 0) {
      wait(empty + s, k / 2 % 2 ^ 1);
      load(tile + s * PIECES, given + k * PIECES, full + s);
    } else if (t >= 32) {
      wait(full + s, k / 2 % 2);
#if !MENDED
      asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(empty + s)) : "memory");
#endif
      late(t / 32);
      for (u32 i = t - 32; i < PIECES; i += THREADS - 32)
        bad += !is(tile[s * PIECES + i], k * PIECES + i + 1);
#if MENDED
      fence();
      asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(empty + s)) : "memory");
#endif
    }
  }

#elif FAULT == EXIT_STORE  // fmha.py: a CTA ends while its last TMA store may still read its shared memory
  for (u32 i = t; i < PIECES; i += THREADS) { u32 v = blockIdx.x + 1; tile[i] = make_uint4(v, v, v, v); }
  fence();
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(out + (u64)blockIdx.x * PIECES), "r"(at(tile)), "r"(PIECES * 16) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#if MENDED
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
  }
#endif
  if (bad) atomicAdd(wrong, bad);
}
