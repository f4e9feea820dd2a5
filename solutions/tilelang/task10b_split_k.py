"""Task 10b: split-K. Four CTAs have a part of K each, and TMA adds up their sums."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages, ring = 2, 4
splits = 4  # CTAs that share a tile of D


def gemm(M, N, K):
    """D = A @ B^T, D in fp32, for few tiles and a long K: several CTAs share one tile of D.

    - The kernel takes A (M, K), B (N, K), both fp16, and D (M, N), fp32, in this order.
    - D is zeros when the kernel begins. Each CTA adds its sums, by a TMA store that adds.
    - K is at least 8 K tiles long; their number need not divide evenly.
    - Loads as in your step 5 or later: by TMA, through a ring.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 5
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, (
        "M, N and K must be multiples of the tile"
    )
    k_tiles = K // block_K

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float32),
    ):
        with T.Kernel(N // block_N, M // block_M, splits, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float32)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D
            # this CTA's K tiles: neighbours meet at the same number, whether it divides or not
            first, end = bz * k_tiles // splits, (bz + 1) * k_tiles // splits
            mine = end - first

            # step i loads tile i and multiplies the one asked for num_stages - 1 steps ago
            for i in T.serial(mine + num_stages - 1):
                if i < mine:
                    load = i % num_stages
                    ks = slice((first + i) * block_K, (first + i + 1) * block_K)
                    T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])
                    T.tma_copy(B[ns, ks], B_shared[load, :, :], barrier=full[load])
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(full[load])
                if i >= num_stages - 1:
                    k = i - (num_stages - 1)
                    stage = k % num_stages
                    T.mbarrier_wait_parity(full[stage], (k // num_stages) & 1)
                    operands = A_shared[stage, :, :], B_shared[stage, :, :]
                    T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))
                    T.wait_wgmma(0)
                    T.sync_threads()  # all warps together; the wait alone frees the stage

            T.copy(acc, D_shared)
            T.fence_proxy_async()
            T.sync_threads()
            T.atomic_add(D[ms, ns], D_shared, use_tma=True)

    return main
    ### END SOLUTION
