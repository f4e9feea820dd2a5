"""Case a1: attention. S stays in registers, P is a register operand, softmax is online."""

import tilelang.language as T

block_M, block_N = 64, 128  # queries of a CTA, which one warpgroup has; keys of a tile


def attention(batch, sequence_q, sequence_k, heads, kv_heads, D, causal=False, dtype="float16"):
    assert heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} heads of K evenly"
    assert D in (64, 96, 128), f"D = {D}: this kernel takes 64, 96 or 128"
    group = heads // kv_heads  # heads of Q that share a head of K and V
    q_tiles, k_tiles = T.ceildiv(sequence_q, block_M), T.ceildiv(sequence_k, block_N)
    later = sequence_k - sequence_q  # query i sees key j if j <= i + later, where causal
    to_log2 = D**-0.5 * 1.4426950408889634  # of softmax, and log2(e), so that exp2 gives exp
    infinity = T.infinity(T.float32)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, sequence_q, heads, D), dtype),
        K: T.Tensor((batch, sequence_k, kv_heads, D), dtype),
        V: T.Tensor((batch, sequence_k, kv_heads, D), dtype),
        O: T.Tensor((batch, sequence_q, heads, D), dtype),
    ):
        with T.Kernel(q_tiles, heads, batch, threads=128) as (m, head, b):
            Q_shared = T.alloc_shared((block_M, D), dtype)
            K_shared = T.alloc_shared((block_N, D), dtype)
            V_shared = T.alloc_shared((block_N, D), dtype)
            S = T.alloc_fragment((block_M, block_N), T.float32)
            P = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, D), T.float32)
            top = T.alloc_fragment((block_M,), T.float32)  # of each row so far
            last = T.alloc_fragment((block_M,), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)
            part = T.alloc_fragment((block_M,), T.float32)
            full = T.alloc_barrier([1] * 3)  # of Q, K and V
            rows = slice(m * block_M, (m + 1) * block_M)

            T.tma_copy(Q[b, rows, head, :], Q_shared, barrier=full[0])
            if T.shuffle_elect(128):
                T.mbarrier_arrive(full[0])
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(top, -infinity)
            T.mbarrier_wait_parity(full[0], 0)

            for n in T.serial(k_tiles):
                keys = slice(n * block_N, (n + 1) * block_N)
                T.tma_copy(K[b, keys, head // group, :], K_shared, barrier=full[1])
                T.tma_copy(V[b, keys, head // group, :], V_shared, barrier=full[2])
                if T.shuffle_elect(128):
                    T.mbarrier_arrive(full[1])
                    T.mbarrier_arrive(full[2])
                T.mbarrier_wait_parity(full[1], n & 1)
                T.wgmma_gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True)
                T.wait_wgmma(0)
                ### BEGIN SOLUTION: -inf for each score whose key is not there, or not seen
                for i, j in T.Parallel(block_M, block_N):
                    key = n * block_N + j
                    seen = key < sequence_k
                    if causal:
                        seen = seen and key <= m * block_M + i + later
                    S[i, j] = T.if_then_else(seen, S[i, j], -infinity)
                ### END SOLUTION

                ### BEGIN SOLUTION: the new maximum, its factor, weights, total, acc
                T.copy(top, last)
                T.reduce_max(S, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    # a row that has seen no key yet: -inf less -inf would be NaN
                    part[i] = T.if_then_else(top[i] == -infinity, 0, top[i] * to_log2)
                for i in T.Parallel(block_M):
                    last[i] = T.exp2(last[i] * to_log2 - part[i])
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] * to_log2 - part[i])
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * last[i] + part[i]
                for i, j in T.Parallel(block_M, D):
                    acc[i, j] *= last[i]
                ### END SOLUTION
                ### BEGIN SOLUTION: P, and acc += P V once V is there
                T.copy(S, P)
                T.mbarrier_wait_parity(full[2], n & 1)
                T.wgmma_gemm(P, V_shared, acc)
                T.wait_wgmma(0)
                ### END SOLUTION
                T.sync_threads()

            ### BEGIN SOLUTION: divide each row of acc by its total
            for i in T.Parallel(block_M):
                total[i] = T.if_then_else(total[i] == 0, 0, 1 / total[i])
            for i, j in T.Parallel(block_M, D):
                acc[i, j] *= total[i]
            ### END SOLUTION
            T.copy(acc, Q_shared)
            T.fence_proxy_async()
            T.sync_threads()
            T.tma_copy(Q_shared, O[b, rows, head, :])
            T.tma_store_wait(0)

    return main
