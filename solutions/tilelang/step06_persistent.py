"""Step 6: a persistent kernel. One CTA an SM loops over tiles, in an order that suits L2."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages, ring = 2, 4


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def gemm(M, N, K, sm_count=132):
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, (
        "M, N and K must be multiples of the tile"
    )
    k_tiles = K // block_K

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(sm_count, threads=128) as cta:
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)
            ### BEGIN SOLUTION: a count of K tiles that outlives a tile; the scheduler, started
            # K tiles multiplied in earlier tiles: stages and phases go on from there
            done = T.alloc_var(T.int32, init=0)
            tiles = T.PersistentTileScheduler(
                M // block_M, N // block_N, num_workers=sm_count, swizzle_size=4
            )
            tiles.init(cta)
            ### END SOLUTION

            while tiles.valid():
                m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                for i in T.serial(k_tiles + num_stages - 1):
                    if i < k_tiles:
                        ### BEGIN SOLUTION: the stage that this load goes to
                        load = (done + i) % num_stages
                        ### END SOLUTION
                        ks = slice(i * block_K, (i + 1) * block_K)
                        T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])
                        T.tma_copy(B[ns, ks], B_shared[load, :, :], barrier=full[load])
                        if T.shuffle_elect(128):
                            T.mbarrier_arrive(full[load])
                    if i >= num_stages - 1:
                        k = i - (num_stages - 1)
                        ### BEGIN SOLUTION: the stage of K tile k; wait until it has landed
                        stage = (done + k) % num_stages
                        T.mbarrier_wait_parity(full[stage], ((done + k) // num_stages) & 1)
                        ### END SOLUTION
                        operands = A_shared[stage, :, :], B_shared[stage, :, :]
                        T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))
                        T.wait_wgmma(0)
                        T.sync_threads()  # all warps together; the wait alone frees the stage
                ### BEGIN SOLUTION: count on; D out, once the last store has read; the next tile
                done = done + k_tiles

                T.tma_store_wait(0)  # the previous tile's store has read D_shared
                T.sync_threads()
                T.copy(acc, D_shared)
                T.fence_proxy_async()
                T.sync_threads()
                T.tma_copy(D_shared, D[ms, ns])
                tiles.next_tile()
                ### END SOLUTION
            T.tma_store_wait(0)

    return main
