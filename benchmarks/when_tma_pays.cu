// Tiles of a matrix into shared memory, and every word of them added up: see when_tma_pays.py.
// MODE 0: loads through registers, each awaited; 1: cp.async; 2: one TMA box; 3: a bulk copy for each row.
struct alignas(64) Map {
  unsigned long long opaque[16];
};
constexpr int TILE = ROWS * WIDTH, PIECES = TILE / 16, A_ROW = WIDTH / 16;
extern __shared__ __align__(1024) unsigned char shared[];

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }

struct Tiles {
  int across, all;
  __device__ int x(int t) const { return t % all % across * WIDTH; }
  __device__ int y(int t) const { return t % all / across * ROWS; }
};

__device__ void issue(const Map &map, const unsigned char *X, Tiles tiles, int t, int stage) {
  unsigned char *to = shared + stage * TILE;
  const unsigned char *from = X + (long long)tiles.y(t) * PITCH + tiles.x(t);
  unsigned full = at(shared + STAGES * TILE) + 8 * stage;
#if MODE == 1
  for (int i = threadIdx.x; i < PIECES; i += THREADS)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"(at(to + 16 * i)), "l"(from + (long long)(i / A_ROW) * PITCH + i % A_ROW * 16) : "memory");
#elif MODE >= 2
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(TILE) : "memory");
#if MODE == 2
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(to)), "l"(&map), "r"(tiles.x(t)), "r"(tiles.y(t)), "r"(full) : "memory");
#else
  if (threadIdx.x < 32) {
    __syncwarp();
    for (int r = threadIdx.x; r < ROWS; r += 32)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   ::"r"(at(to + r * WIDTH)), "l"(from + (long long)r * PITCH), "r"(WIDTH), "r"(full) : "memory");
  }
#endif
#endif
}

__device__ void arrived(int i) {
#if MODE == 1
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
  __syncthreads();
#elif MODE >= 2
  unsigned full = at(shared + STAGES * TILE) + 8 * (i % STAGES), done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(full), "r"(i / STAGES & 1) : "memory");
#endif
}

__device__ unsigned sum_of(int stage) {
  const uint4 *tile = reinterpret_cast<const uint4 *>(shared + stage * TILE);
  unsigned sum = 0;
  for (int i = threadIdx.x; i < PIECES; i += THREADS) sum += tile[i].x + tile[i].y + tile[i].z + tile[i].w;
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    stream(const __grid_constant__ Map map, const unsigned char *X, unsigned *out, int height, int passes) {
  Tiles tiles = {PITCH / WIDTH, PITCH / WIDTH * (height / ROWS)};
  int count = 0;
  for (int t = blockIdx.x; t < tiles.all * passes; t += gridDim.x) ++count;
  unsigned sum = 0;
#if MODE == 0
  for (int i = 0; i < count; ++i) {
    int t = blockIdx.x + i * gridDim.x;
    const unsigned char *from = X + (long long)tiles.y(t) * PITCH + tiles.x(t);
    uint4 *tile = reinterpret_cast<uint4 *>(shared);
#pragma unroll
    for (int j = threadIdx.x; j < PIECES; j += THREADS)
      tile[j] = *reinterpret_cast<const uint4 *>(from + (long long)(j / A_ROW) * PITCH + j % A_ROW * 16);
    __syncthreads();
    sum += sum_of(0);
    __syncthreads();
  }
#else
#if MODE >= 2
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(shared + STAGES * TILE) + 8 * stage) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
#endif
  for (int i = 0; i < STAGES; ++i) {
    if (i < count) issue(map, X, tiles, blockIdx.x + i * gridDim.x, i);
    if (MODE == 1) asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int i = 0; i < count; ++i) {
    arrived(i);
    sum += sum_of(i % STAGES);
    if (MODE >= 2) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // what was read, before TMA writes
    __syncthreads();
    if (i + STAGES < count) issue(map, X, tiles, blockIdx.x + (i + STAGES) * gridDim.x, i % STAGES);
    if (MODE == 1) asm volatile("cp.async.commit_group;" ::: "memory");
  }
#endif
  atomicAdd(out, sum);
}
