// A ring of stages that a bulk copy fills and threads read: a stage is refilled once its readers have let go
// of it, with a proxy fence before the refill or without one. Sizes: READERS, PIECES, ROUNDS, STAGES.
// READ, USE, HAND, REFILL, BANKS and FENCE choose the variant.
#define EACH (PIECES / READERS)
#if BANKS == 0
#define MINE(t, i) (((t) * 8 + (t) / (PIECES / 8)) % PIECES + (i) * 2)  // lanes meet in one bank
#else
#define MINE(t, i) ((t) + (i) * READERS)  // lanes lie side by side
#endif
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 at(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 b, u32 n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(b), "r"(n));
}
__device__ void arrive(u32 b) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(b) : "memory");
}
__device__ void wait(u32 b, u32 parity) {
  asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L; }"
               :: "r"(b), "r"(parity) : "memory");
}
__device__ void load(u32 to, const void *from, u32 b) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(b), "r"(PIECES * 16) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(PIECES * 16), "r"(b) : "memory");
}
__device__ void later() {  // about a round
  long long end = clock64() + 2000;
  while (clock64() < end) { }
}
struct Held { u32 w[4]; };
__device__ Held read(u32 from) {
  Held v;
#if READ == 0
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v.w[0]) : "r"(from) : "memory");
  v.w[1] = v.w[2] = v.w[3] = v.w[0];
#elif READ == 1
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "r"(from) : "memory");
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "r"(from) : "memory");
#endif
  return v;
}
__device__ u32 wrong_of(Held v, u32 first, u32 t, u32 i) {
#if READ == 2  // word j is of the row that lane 8 j + lane / 4 has named
  u32 bad = 0;
  for (u32 j = 0; j < 4; ++j) bad |= v.w[j] != first + MINE((t & ~31u) + 8 * j + t % 32 / 4, i);
  return bad;
#else
  u32 w = first + MINE(t, i);
  return v.w[0] != w || v.w[1] != w || v.w[2] != w || v.w[3] != w;
#endif
}

// given: ROUNDS tiles whose piece i of round r is r * PIECES + i + 1, four times
extern "C" __global__ void ring(const uint4 *given, u32 *wrong) {
  extern __shared__ __align__(128) uint4 tiles[];
  __shared__ u64 full[STAGES], empty[STAGES];
  u32 t = threadIdx.x, bad = 0;
  if (t == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      init(at(full + s), 1);
      init(at(empty + s), HAND == 2 ? READERS / 32 : READERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
#if HAND > 0
  if (t >= READERS) {  // the producer's warp
    if (t == READERS) for (u32 r = 0; r < ROUNDS; ++r) {
      u32 s = r % STAGES;
      if (r >= STAGES) {
        wait(at(empty + s), r / STAGES - 1 & 1);
#if REFILL == 1 && STAGES > 1
        wait(at(empty + (s + 1) % STAGES), (r - STAGES + 1) / STAGES & 1);
#elif REFILL == 1
        later();
#endif
#if FENCE == 1
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
      }
      load(at(tiles + s * PIECES), given + r * PIECES, at(full + s));
    }
    return;
  }
#else
  if (t == 0) for (u32 r = 0; r < STAGES; ++r) load(at(tiles + r * PIECES), given + r * PIECES, at(full + r));
#endif
  for (u32 r = 0; r < ROUNDS; ++r) {
    u32 s = r % STAGES, first = r * PIECES + 1, zero = 0;
    wait(at(full + s), r / STAGES & 1);
    // the slowest reader is in the last warp
    for (u32 d = 0; d < (t / 32) * ((r * 7 + blockIdx.x) % 5); ++d) __nanosleep(0);
    Held held[EACH];
    for (u32 i = 0; i < EACH; ++i) held[i] = read(at(tiles + s * PIECES + MINE(t, i)));
#if USE > 0
    for (u32 i = 0; i < EACH; ++i) bad += wrong_of(held[i], first, t, i);
#endif
#if USE == 2  // no piece has this bit, and the compiler does not know: the arrival waits for each value
    for (u32 i = 0; i < EACH; ++i) zero |= (held[i].w[0] | held[i].w[1] | held[i].w[2] | held[i].w[3]) >> 31;
#endif
#if HAND == 0
    asm volatile("bar.sync %0;" :: "r"(zero) : "memory");
    u32 behind = REFILL == 1 && STAGES > 1;
    if (t == 0 && r >= behind && r - behind + STAGES < ROUNDS) {
      u32 next = r - behind + STAGES;
#if REFILL == 1 && STAGES == 1
      later();
#endif
#if FENCE == 1
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
      load(at(tiles + next % STAGES * PIECES), given + next * PIECES, at(full + next % STAGES));
    }
#elif HAND == 1
    arrive(at(empty + s) + zero);
#else
    u32 offset = USE == 2 ? __any_sync(~0u, zero) : 0;
    __syncwarp();
    if (t % 32 == 0) arrive(at(empty + s) + offset);
#endif
#if USE == 0
    for (u32 i = 0; i < EACH; ++i) bad += wrong_of(held[i], first, t, i);
#endif
  }
  if (bad) atomicAdd(wrong, bad);
}
