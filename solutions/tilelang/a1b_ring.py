"""Case a1b: attention with a producer: K and V come to two consumers by rings."""

import tilelang.language as T

block_M, block_N = 128, 128  # queries of a CTA, keys of a tile
num_stages, consumers = 2, 2  # of K and of V each; warpgroups, of 64 queries each
rows_each = T.GemmWarpPolicy.FullRow  # a consumer has its share of the tile's rows
# ex2.approx of a subnormal argument costs three instructions more without .ftz
EXP2 = """
__device__ inline float exp2_ftz(float x) {
  float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;
}
"""


def attention(batch, sequence_q, sequence_k, heads, kv_heads, D, causal=False, dtype="float16"):
    assert heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} heads of K evenly"
    assert D in (64, 96, 128), f"D = {D}: this kernel takes 64, 96 or 128"
    group = heads // kv_heads  # heads of Q that share a head of K and V
    q_tiles, k_tiles = T.ceildiv(sequence_q, block_M), T.ceildiv(sequence_k, block_N)
    later = sequence_k - sequence_q  # query i sees key j if j <= i + later, where causal
    to_log2 = D**-0.5 * 1.4426950408889634  # of softmax, and log2(e), so that exp2 gives exp
    infinity = T.infinity(T.float32)

    @T.macro
    def exp2(x):
        return T.call_extern("float32", "exp2_ftz", x)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, sequence_q, heads, D), dtype),
        K: T.Tensor((batch, sequence_k, kv_heads, D), dtype),
        V: T.Tensor((batch, sequence_k, kv_heads, D), dtype),
        O: T.Tensor((batch, sequence_q, heads, D), dtype),
    ):
        with T.Kernel(q_tiles, heads, batch, threads=128 * (1 + consumers)) as (m, head, b):
            T.import_source(EXP2)
            Q_shared = T.alloc_shared((block_M, D), dtype)
            K_shared = T.alloc_shared((num_stages, block_N, D), dtype)
            V_shared = T.alloc_shared((num_stages, block_N, D), dtype)
            S = T.alloc_fragment((block_M, block_N), T.float32)
            P = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, D), T.float32)
            top = T.alloc_fragment((block_M,), T.float32)  # of each row so far
            last = T.alloc_fragment((block_M,), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)
            part = T.alloc_fragment((block_M,), T.float32)
            Q_full = T.alloc_barrier(1)
            K_full = T.alloc_barrier([1] * num_stages)  # one arrival by the producer, and bytes
            V_full = T.alloc_barrier([1] * num_stages)
            K_empty = T.alloc_barrier([consumers] * num_stages)  # an arrival by each consumer
            V_empty = T.alloc_barrier([consumers] * num_stages)
            thread = T.get_thread_binding()
            rows = slice(m * block_M, (m + 1) * block_M)

            if thread < 128:  # producer warpgroup, of which one warp works
                T.dec_max_nreg(24)
                if thread < 32:
                    ### BEGIN SOLUTION: Q, then K and V by turns, each by its own ring
                    T.tma_copy(Q[b, rows, head, :], Q_shared, barrier=Q_full)
                    if T.shuffle_elect(32):
                        T.mbarrier_arrive(Q_full)
                    for n in T.serial(k_tiles):
                        stage, parity = n % num_stages, (n // num_stages) & 1 ^ 1
                        keys = slice(n * block_N, (n + 1) * block_N)
                        T.mbarrier_wait_parity(K_empty[stage], parity)
                        K_part = K[b, keys, head // group, :]
                        T.tma_copy(K_part, K_shared[stage, :, :], barrier=K_full[stage])
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(K_full[stage])
                        T.mbarrier_wait_parity(V_empty[stage], parity)
                        V_part = V[b, keys, head // group, :]
                        T.tma_copy(V_part, V_shared[stage, :, :], barrier=V_full[stage])
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(V_full[stage])
                    ### END SOLUTION
            else:  # consumer warpgroups: 64 queries each
                T.inc_max_nreg(240)
                T.fill(acc, 0)
                T.fill(total, 0)
                T.fill(top, -infinity)
                T.mbarrier_wait_parity(Q_full, 0)
                for n in T.serial(k_tiles):
                    stage, parity = n % num_stages, (n // num_stages) & 1
                    ### BEGIN SOLUTION: wait for K, S = Q K^T, release K's stage
                    T.mbarrier_wait_parity(K_full[stage], parity)
                    operands = Q_shared, K_shared[stage, :, :], S
                    T.wgmma_gemm(
                        *operands, transpose_B=True, clear_accum=True, policy=rows_each
                    )
                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(K_empty[stage])
                    ### END SOLUTION
                    for i, j in T.Parallel(block_M, block_N):
                        key = n * block_N + j
                        seen = key < sequence_k
                        if causal:
                            seen = seen and key <= m * block_M + i + later
                        S[i, j] = T.if_then_else(seen, S[i, j], -infinity)

                    T.copy(top, last)
                    T.reduce_max(S, top, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        # a row that has seen no key yet: -inf less -inf would be NaN
                        part[i] = T.if_then_else(top[i] == -infinity, 0, top[i] * to_log2)
                    for i in T.Parallel(block_M):
                        last[i] = exp2(last[i] * to_log2 - part[i])
                    for i, j in T.Parallel(block_M, block_N):
                        S[i, j] = exp2(S[i, j] * to_log2 - part[i])
                    T.reduce_sum(S, part, dim=1)
                    for i in T.Parallel(block_M):
                        total[i] = total[i] * last[i] + part[i]
                    for i, j in T.Parallel(block_M, D):
                        acc[i, j] *= last[i]
                    T.copy(S, P)
                    ### BEGIN SOLUTION: wait for V, acc += P V, release V's stage
                    T.mbarrier_wait_parity(V_full[stage], parity)
                    T.wgmma_gemm(P, V_shared[stage, :, :], acc, policy=rows_each)
                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(V_empty[stage])
                    ### END SOLUTION

                for i in T.Parallel(block_M):
                    total[i] = T.if_then_else(total[i] == 0, 0, 1 / total[i])
                for i, j in T.Parallel(block_M, D):
                    acc[i, j] *= total[i]
                # each consumer writes its own rows, whose queries it has read
                T.copy(acc, Q_shared)
                T.fence_proxy_async()
                T.sync_threads(1, 128 * consumers)  # named barrier 1: the consumers only
                T.tma_copy(Q_shared, O[b, rows, head, :])
                T.tma_store_wait(0)

    return main
