// Threads and a bulk copy on one tile of shared memory, with a proxy fence in one of four places or none.
// THREADS, PIECES and ROUNDS are sizes; HAZARD, FENCE and HAND choose the variant.
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
