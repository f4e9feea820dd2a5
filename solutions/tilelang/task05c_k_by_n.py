"""Task 05c: B stored K x N. TMA brings it as it lies, and wgmma reads it MN-major."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages, ring = 2, 4


def gemm(M, N, K):
    """D = A @ B, where B is stored K x N: a row of B has one number for each column of D.

    - The kernel takes A (M, K), B (K, N) and D (M, N), in this order: fp16, row by row.
    - No thread moves a number of A or B: TMA brings the tile, and `wgmma` reads it where it
      landed.
    - All else as in your step 5: a ring of two, D by TMA.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 5
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, (
        "M, N and K must be multiples of the tile"
    )
    k_tiles = K // block_K

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((K, N), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(N // block_N, M // block_M, threads=128) as (bx, by):
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_K, block_N), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D

            # step i loads tile i and multiplies the one asked for num_stages - 1 steps ago
            for i in T.serial(k_tiles + num_stages - 1):
                if i < k_tiles:
                    load = i % num_stages
                    ks = slice(i * block_K, (i + 1) * block_K)
                    T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])
                    T.tma_copy(B[ks, ns], B_shared[load, :, :], barrier=full[load])
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(full[load])
                if i >= num_stages - 1:
                    k = i - (num_stages - 1)
                    stage = k % num_stages
                    T.mbarrier_wait_parity(full[stage], (k // num_stages) & 1)
                    operands = A_shared[stage, :, :], B_shared[stage, :, :]
                    T.wgmma_gemm(*operands, acc, clear_accum=(k == 0))
                    T.wait_wgmma(0)
                    T.sync_threads()  # all warps together; the wait alone frees the stage

            T.copy(acc, D_shared)
            T.fence_proxy_async()
            T.sync_threads()
            T.tma_copy(D_shared, D[ms, ns])
            T.tma_store_wait(0)

    return main
    ### END SOLUTION
