"""Task 05a: bias and ReLU in the epilogue. The sums meet them in registers, before fp16."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages, ring = 2, 4


def gemm(M, N, K):
    """D = relu(A @ B^T + bias), where bias has N numbers: one for each column of D.

    - The kernel takes A (M, K), B (N, K), bias (N,) and D (M, N), in this order: fp16.
    - Add and compare in fp32: round once, on the way to D.
    - A and B come, and D leaves, as in your step 5: by TMA, through a ring of two.
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
        bias: T.Tensor((N,), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(N // block_N, M // block_M, threads=128) as (bx, by):
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D

            for i in T.serial(k_tiles + num_stages - 1):
                if i < k_tiles:
                    load = i % num_stages
                    ks = slice(i * block_K, (i + 1) * block_K)
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

            # each thread's part of the tile, where it lies: the bias goes by the column
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.max(acc[i, j] + T.cast(bias[n + j], T.float32), 0.0)
            T.copy(acc, D_shared)
            T.fence_proxy_async()
            T.sync_threads()
            T.tma_copy(D_shared, D[ms, ns])
            T.tma_store_wait(0)

    return main
    ### END SOLUTION
