"""Case a2: attention in ping-pong: one consumer's softmax under the other one's products."""

import tilelang.language as T

num_stages = 2  # of K and of V each
L2_BYTES = 32 << 20  # of K and V that CTAs read at a time, where causal
# named barrier 5 + i: consumer i may issue its products; TileLang numbers its own from 3
turn_barrier = 5
rows_each = T.GemmWarpPolicy.FullRow  # a consumer has its share of the tile's rows
# ex2.approx of a subnormal argument costs three instructions more without .ftz; and a named
# barrier whose number is a variable
SOURCE = """
__device__ inline float exp2_ftz(float x) {
  float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;
}
__device__ inline void wait_for_turn(int barrier) {
  asm volatile("bar.sync %0, 256;" :: "r"(barrier) : "memory");
}
"""


def tile(D, causal):
    """block_M, block_N, registers of the producer and of consumers of 64 queries each."""
    if D == 64:
        return 192, 128, (32, 160)
    return 128, 128 if causal else 160, (24, 240)


def attention(
    batch, sequence_q, sequence_k, heads, kv_heads, D, causal=False, dtype="float16", plan=None
):
    assert heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} heads of K evenly"
    assert D in (64, 96, 128), f"D = {D}: this kernel takes 64, 96 or 128"
    block_M, block_N, registers = plan or tile(D, causal)
    consumers = block_M // 64
    group = heads // kv_heads  # heads of Q that share a head of K and V
    q_tiles, k_tiles = -(-sequence_q // block_M), -(-sequence_k // block_N)
    later = sequence_k - sequence_q  # query i sees key j if j <= i + later, where causal
    to_log2 = D**-0.5 * 1.4426950408889634  # of softmax, and log2(e), so that exp2 gives exp
    infinity = T.infinity(T.float32)
    # CTAs begin in this order: the longest tiles first, of as many heads as L2 holds
    section = max(1, L2_BYTES * group // (4 * sequence_k * D)) if causal else 1
    section = min(section, heads * batch)

    @T.macro
    def exp2(x):
        return T.call_extern("float32", "exp2_ftz", x)

    @T.macro
    def mask(S, m, n):
        """-inf for keys behind the last one, and for those that a query does not see."""
        for i, j in T.Parallel(block_M, block_N):
            key = n * block_N + j
            seen = key < sequence_k
            if causal:
                seen = seen and key <= m * block_M + i + later
            S[i, j] = T.if_then_else(seen, S[i, j], -infinity)

    @T.macro
    def softmax(S, top, sums, scale, part):
        """S to weights; what older weights, and so acc, have to be multiplied by."""
        T.copy(top, scale)
        T.reduce_max(S, top, dim=1, clear=False)
        for i in T.Parallel(block_M):
            # a row that has seen no key yet: -inf less -inf would be NaN
            part[i] = T.if_then_else(top[i] == -infinity, 0, top[i] * to_log2)
        for i in T.Parallel(block_M):
            scale[i] = exp2(scale[i] * to_log2 - part[i])
        for i, j in T.Parallel(block_M, block_N):
            S[i, j] = exp2(S[i, j] * to_log2 - part[i])
        # a lane has columns j and j + 1 of each eight: it adds up its own, without the others
        for i, j in T.Parallel(block_M, 8):
            sums[i, j] *= scale[i]
        for i, j in T.Parallel(block_M, 8):
            for c in T.unroll(block_N // 8):
                sums[i, j] += S[i, c * 8 + j]

    @T.prim_func
    def main(
        Q: T.Tensor((batch, sequence_q, heads, D), dtype),
        K: T.Tensor((batch, sequence_k, kv_heads, D), dtype),
        V: T.Tensor((batch, sequence_k, kv_heads, D), dtype),
        O: T.Tensor((batch, sequence_q, heads, D), dtype),
    ):
        with T.Kernel(q_tiles * heads * batch, threads=128 * (1 + consumers)) as cta:
            T.import_source(SOURCE)
            Q_shared = T.alloc_shared((block_M, D), dtype)
            K_shared = T.alloc_shared((num_stages, block_N, D), dtype)
            V_shared = T.alloc_shared((num_stages, block_N, D), dtype)
            S = T.alloc_fragment((block_M, block_N), T.float32)
            P = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, D), T.float32)
            top = T.alloc_fragment((block_M,), T.float32)  # of each row so far
            scale = T.alloc_fragment((block_M,), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)
            part = T.alloc_fragment((block_M,), T.float32)
            sums = T.alloc_fragment((block_M, 8), T.float32)
            Q_full = T.alloc_barrier(1)
            K_full = T.alloc_barrier([1] * num_stages)  # one arrival by the producer, and bytes
            V_full = T.alloc_barrier([1] * num_stages)
            K_empty = T.alloc_barrier([consumers] * num_stages)  # an arrival by each consumer
            V_empty = T.alloc_barrier([consumers] * num_stages)
            thread = T.get_thread_binding()

            first = cta // (section * q_tiles) * section
            count = T.min(section, heads * batch - first)
            inside = cta - first * q_tiles
            m = q_tiles - 1 - inside // count
            head, b = (first + inside % count) % heads, (first + inside % count) // heads
            rows = slice(m * block_M, (m + 1) * block_M)
            # tiles of keys that some query sees, one at least; those that all see
            ### BEGIN SOLUTION: key tiles that some query sees, that all see, and to mask
            end = T.min((m + 1) * block_M + later, sequence_k) if causal else sequence_k
            whole = T.min(m * block_M + later + 1, sequence_k) if causal else sequence_k
            some = T.max((T.max(end, 0) + block_N - 1) // block_N, 1)
            masked = T.max(some - T.max(whole, 0) // block_N, 1)
            ### END SOLUTION

            if thread < 128:  # producer warpgroup, of which one warp works
                T.dec_max_nreg(registers[0])
                if thread < 32:
                    T.tma_copy(Q[b, rows, head, :], Q_shared, barrier=Q_full)
                    if T.shuffle_elect(32):
                        T.mbarrier_arrive(Q_full)
                    for i in T.serial(some):
                        stage, parity = i % num_stages, (i // num_stages) & 1 ^ 1
                        n = some - 1 - i  # the last keys come first: what is masked lies there
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
            else:  # consumer warpgroups: 64 queries each
                T.inc_max_nreg(registers[1])
                me = thread // 128 - 1
                T.fill(acc, 0)
                T.fill(sums, 0)
                T.fill(top, -infinity)
                T.mbarrier_wait_parity(Q_full, 0)
                # turns alternate strictly: two arrivals before a wait would be taken for a pair
                ### BEGIN SOLUTION: the first turn: who hands it out, who waits
                if me == consumers - 1:
                    T.named_barrier_arrive(turn_barrier, 256)
                T.call_extern("handle", "wait_for_turn", turn_barrier + me)
                ### END SOLUTION
                for i in T.serial(some):
                    stage, parity = i % num_stages, (i // num_stages) & 1
                    T.mbarrier_wait_parity(K_full[stage], parity)
                    ### BEGIN SOLUTION: S, the turn to the next consumer, release K
                    operands = Q_shared, K_shared[stage, :, :], S
                    T.wgmma_gemm(
                        *operands, transpose_B=True, clear_accum=True, policy=rows_each
                    )
                    T.named_barrier_arrive(turn_barrier + (me + 1) % consumers, 256)
                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(K_empty[stage])
                    ### END SOLUTION
                    if i < masked:
                        mask(S, m, some - 1 - i)
                    softmax(S, top, sums, scale, part)
                    for r, j in T.Parallel(block_M, D):
                        acc[r, j] *= scale[r]
                    T.copy(S, P)
                    ### BEGIN SOLUTION: wait for V, then for the turn; acc += P V, release V
                    T.mbarrier_wait_parity(V_full[stage], parity)
                    # from here to this consumer's next S the tensor cores are its own
                    T.call_extern("handle", "wait_for_turn", turn_barrier + me)
                    T.wgmma_gemm(P, V_shared[stage, :, :], acc, policy=rows_each)
                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(V_empty[stage])
                    ### END SOLUTION

                ### BEGIN SOLUTION: hand on the turn once more
                T.named_barrier_arrive(turn_barrier + (me + 1) % consumers, 256)
                ### END SOLUTION
                T.reduce_sum(sums, total, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = T.if_then_else(total[i] == 0, 0, 1 / total[i])
                for i, j in T.Parallel(block_M, D):
                    acc[i, j] *= total[i]
                T.copy(acc, Q_shared)  # to each consumer's own rows, whose queries it has read
                T.fence_proxy_async()
                T.sync_threads(1, 128 * consumers)  # named barrier 1: the consumers only
                T.tma_copy(Q_shared, O[b, rows, head, :])
                T.tma_store_wait(0)

    return main
