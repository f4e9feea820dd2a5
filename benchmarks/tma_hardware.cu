// One TMA instruction of each form, on a tensor map that the host made: see tma_hardware.py.
struct alignas(64) Map {
  unsigned long long opaque[16];
};
struct Case {
  int coordinates[5];
  int filter[3];          // im2col: where in the filter
  int at;                 // the tile's first byte in shared memory
  int expected;           // bytes, more than the box has
  const Map *elsewhere;   // the map lies there, not among the parameters
  const uint4 *before;    // what shared memory holds at first
  uint4 *after;           // what it holds in the end
  int *told;              // bytes that the mbarrier counted, and where shared memory begins
};

constexpr int UNITS = 16384 / 16;
extern __shared__ __align__(1024) uint4 shared[];

__device__ unsigned begin(const Case &c) {
  for (int i = threadIdx.x; i < UNITS; i += blockDim.x) shared[i] = c.before[i];
  unsigned base = __cvta_generic_to_shared(shared), barrier = base + 16384;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    c.told[1] = base;
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  return base;
}

__device__ void expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// What is missing to the end of the phase is what the load has not counted.
__device__ void count(const Case &c, unsigned barrier) {
  for (long long start = clock64(); clock64() - start < 100000;) {
  }
  int missing = 0;
  for (unsigned done = 0; !done && missing <= c.expected; missing += !done) {
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier) : "memory");
    if (!done)
      asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  }
  c.told[0] = c.expected - missing;
}

__device__ void end(const Case &c) {
  __syncthreads();
  for (int i = threadIdx.x; i < UNITS; i += blockDim.x) c.after[i] = shared[i];
}

#define XY1 "{%2}"
#define XY2 "{%2, %3}"
#define XY3 "{%2, %3, %4}"
#define XY4 "{%2, %3, %4, %5}"
#define XY5 "{%2, %3, %4, %5, %6}"
#define F3 ", {%8}"
#define F4 ", {%8, %9}"
#define F5 ", {%8, %9, %10}"
#define OPERANDS                                                                                             \
  "r"(base + c.at), "l"(at), "r"(c.coordinates[0]), "r"(c.coordinates[1]), "r"(c.coordinates[2]),            \
      "r"(c.coordinates[3]), "r"(c.coordinates[4]), "r"(base + 16384)

#define LOAD(NAME, RANK, MODE, XY, FILTER)                                                                   \
  extern "C" __global__ void NAME(const __grid_constant__ Map map, const __grid_constant__ Case c) {         \
    unsigned base = begin(c);                                                                                \
    if (threadIdx.x == 0) {                                                                                  \
      const Map *at = c.elsewhere ? c.elsewhere : &map;                                                      \
      expect(base + 16384, c.expected);                                                                      \
      asm volatile("cp.async.bulk.tensor." RANK "d.shared::cluster.global." MODE                             \
                   "mbarrier::complete_tx::bytes [%0], [%1, " XY "], [%7]" FILTER ";" ::OPERANDS,            \
                   "h"((short)c.filter[0]), "h"((short)c.filter[1]), "h"((short)c.filter[2])                 \
                   : "memory");                                                                              \
      count(c, base + 16384);                                                                                \
    }                                                                                                        \
    end(c);                                                                                                  \
  }
LOAD(load1, "1", "", XY1, "")
LOAD(load2, "2", "", XY2, "")
LOAD(load3, "3", "", XY3, "")
LOAD(load4, "4", "", XY4, "")
LOAD(load5, "5", "", XY5, "")
LOAD(im2col3, "3", "im2col.", XY3, F3)
LOAD(im2col4, "4", "im2col.", XY4, F4)
LOAD(im2col5, "5", "im2col.", XY5, F5)

#define STORE(NAME, OPCODE, XY)                                                                              \
  extern "C" __global__ void NAME(const __grid_constant__ Map map, const __grid_constant__ Case c) {         \
    unsigned base = begin(c);                                                                                \
    if (threadIdx.x == 0) {                                                                                  \
      const Map *at = c.elsewhere ? c.elsewhere : &map;                                                      \
      asm volatile(OPCODE ".bulk_group [%1, " XY "], [%0];" ::OPERANDS : "memory");                          \
      asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");                \
      c.told[0] = 0;                                                                                         \
    }                                                                                                        \
    end(c);                                                                                                  \
  }
STORE(store1, "cp.async.bulk.tensor.1d.global.shared::cta", XY1)
STORE(store2, "cp.async.bulk.tensor.2d.global.shared::cta", XY2)
STORE(store3, "cp.async.bulk.tensor.3d.global.shared::cta", XY3)
STORE(store4, "cp.async.bulk.tensor.4d.global.shared::cta", XY4)
STORE(store5, "cp.async.bulk.tensor.5d.global.shared::cta", XY5)
STORE(im2col_store3, "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs", XY3)
STORE(im2col_store4, "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs", XY4)
STORE(im2col_store5, "cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs", XY5)
#define REDUCE(OP) STORE(reduce_##OP, "cp.reduce.async.bulk.tensor.2d.global.shared::cta." #OP ".tile", XY2)
REDUCE(add)
REDUCE(min)
REDUCE(max)
REDUCE(inc)
REDUCE(dec)
REDUCE(and)
REDUCE(or)
REDUCE(xor)
