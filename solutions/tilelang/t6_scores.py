"""Case t6: S = scale * Q K^T of each head, Q and K read in place by rank-4 tensor maps."""

import tilelang.language as T

block_M, block_N = 128, 64  # rows of Q and rows of K in a tile of S
num_stages = 2


def scores(batch, sequence_q, sequence_k, heads, kv_heads, D, scale=0.125, dtype="float16"):
    assert heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} heads of K evenly"
    assert D in (64, 96, 128), f"D = {D}: this kernel takes 64, 96 or 128"
    group = heads // kv_heads  # heads of Q that share a head of K
    q_tiles, k_tiles = T.ceildiv(sequence_q, block_M), T.ceildiv(sequence_k, block_N)
    by_TMA = sequence_k % 8 == 0  # else a row of S is no multiple of 16 bytes: no legal map

    @T.prim_func
    def main(
        Q: T.Tensor((batch, sequence_q, heads, D), dtype),
        K: T.Tensor((batch, sequence_k, kv_heads, D), dtype),
        S: T.Tensor((batch, heads, sequence_q, sequence_k), dtype),
    ):
        with T.Kernel(q_tiles, heads, batch, threads=160) as (m, head, b):
            Q_shared = T.alloc_shared((block_M, D), dtype)
            K_shared = T.alloc_shared((num_stages, block_N, D), dtype)
            S_shared = T.alloc_shared((2, block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            Q_full = T.alloc_barrier(1)
            full = T.alloc_barrier([1] * num_stages)  # one arrival by the producer, and bytes
            empty = T.alloc_barrier([1] * num_stages)  # one arrival by the consumer warpgroup
            thread = T.get_thread_binding()
            ms = slice(m * block_M, (m + 1) * block_M)  # rows of Q and of S

            if thread < 128:  # consumer warpgroup
                T.mbarrier_wait_parity(Q_full, 0)
                for n in T.serial(k_tiles):
                    stage, buffer = n % num_stages, n % 2
                    ns = slice(n * block_N, (n + 1) * block_N)  # columns of S
                    T.mbarrier_wait_parity(full[stage], (n // num_stages) & 1)
                    operands = Q_shared, K_shared[stage, :, :]
                    T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=True)
                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(empty[stage])
                    for i, j in T.Parallel(block_M, block_N):
                        acc[i, j] *= scale
                    ### BEGIN SOLUTION: store S's tile: by TMA, or by threads if no map can
                    if by_TMA:
                        T.tma_store_wait(1)  # all but the newest store have read their buffer
                        T.sync_threads(1, 128)  # named barrier 1: the consumer's threads only
                        T.copy(acc, S_shared[buffer, :, :])
                        T.fence_proxy_async()
                        T.sync_threads(1, 128)
                        T.tma_copy(S_shared[buffer, :, :], S[b, head, ms, ns])
                    else:
                        T.copy(acc, S[b, head, ms, ns])
                    ### END SOLUTION
                T.tma_store_wait(0)
            else:  # producer warp
                ### BEGIN SOLUTION: load Q's tile once, then each tile of this group's K head
                T.tma_copy(Q[b, ms, head, :], Q_shared, barrier=Q_full)
                if T.shuffle_elect(32):
                    T.mbarrier_arrive(Q_full)
                for n in T.serial(k_tiles):
                    stage = n % num_stages
                    # a new barrier has parity 1 behind it: round 0 does not wait
                    T.mbarrier_wait_parity(empty[stage], (n // num_stages) & 1 ^ 1)
                    rows = slice(n * block_N, (n + 1) * block_N)
                    T.tma_copy(
                        K[b, rows, head // group, :], K_shared[stage, :, :], barrier=full[stage]
                    )
                    if T.shuffle_elect(32):
                        T.mbarrier_arrive(full[stage])
                ### END SOLUTION

    return main
