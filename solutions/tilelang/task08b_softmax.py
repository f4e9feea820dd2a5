"""Task 08b: a row softmax over a TMA ring. The roles of step 8, and a warp for each row."""

import tilelang.language as T

rows, width = 16, 64  # of X in a stage; of a box, in columns
num_stages = 4


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def softmax(M, N, sm_count=132):
    """Y[i, j] = exp(X[i, j]) / sum over j of exp(X[i, j]): each row of Y adds up to 1.

    - The kernel takes X (M, N) and Y (M, N), in this order, fp16; compute in fp32.
    - M is a multiple of 16 and N of 256, up to 1,024. Subtract a row's largest number first.
    - A producer brings rows by TMA through four stages; consumers compute; Y leaves by TMA.
    - A grid of 132 CTAs, each with a share of the rows.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 8
    assert M % rows == 0 and N % width == 0, "M and N must be multiples of a box"
    boxes, mine = N // width, N // 32  # boxes of a row; numbers of a row that a lane has

    @T.prim_func
    def main(X: T.Tensor((M, N), T.float16), Y: T.Tensor((M, N), T.float16)):
        with T.Kernel(sm_count, threads=256) as cta:
            X_shared = T.alloc_shared((num_stages, boxes, rows, width), T.float16)
            Y_shared = T.alloc_shared((boxes, rows, width), T.float16)
            x = T.alloc_local((mine,), T.float32)
            most = T.alloc_var(T.float32)
            total = T.alloc_var(T.float32)
            full = T.alloc_barrier([1] * num_stages)  # one arrival by the producer, and bytes
            empty = T.alloc_barrier([128] * num_stages)  # every thread of the consumer
            thread = T.get_thread_binding()
            rounds = T.ceildiv(M // rows, sm_count)  # of the busiest CTA

            if thread < 128:  # producer warpgroup, of which one warp works
                T.dec_max_nreg(40)
                if thread < 32:
                    for it in T.serial(rounds):
                        if cta + it * sm_count < M // rows:
                            stage = it % num_stages
                            m = (cta + it * sm_count) * rows
                            T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                            for c in T.unroll(boxes):
                                T.tma_copy(
                                    X[m : m + rows, c * width : (c + 1) * width],
                                    X_shared[stage, c, :, :],
                                    barrier=full[stage],
                                )
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
            else:  # consumer warpgroup: each warp has four of the rows
                T.inc_max_nreg(232)
                warp, lane = (thread - 128) // 32, thread % 32
                for it in T.serial(rounds):
                    if cta + it * sm_count < M // rows:
                        stage = it % num_stages
                        m = (cta + it * sm_count) * rows
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        T.tma_store_wait(0)
                        T.sync_threads(1, 128)  # Y_shared is free
                        for r in T.serial(rows // 4):
                            row = r * 4 + warp
                            most = -T.infinity(T.float32)
                            for j in T.unroll(mine):
                                x[j] = X_shared[stage, j // 2, row, j % 2 * 32 + lane]
                                most = T.max(most, x[j])
                            most = T.warp_reduce_max(most)
                            total = 0.0
                            for j in T.unroll(mine):
                                x[j] = T.exp(x[j] - most)
                                total = total + x[j]
                            total = T.warp_reduce_sum(total)
                            for j in T.unroll(mine):
                                Y_shared[j // 2, row, j % 2 * 32 + lane] = x[j] / total
                        T.fence_proxy_async()  # before TMA reads Y_shared, or writes this stage
                        T.mbarrier_arrive(empty[stage])
                        T.sync_threads(1, 128)
                        for c in T.unroll(boxes):
                            T.tma_copy(
                                Y_shared[c, :, :], Y[m : m + rows, c * width : (c + 1) * width]
                            )
                T.tma_store_wait(0)

    return main
    ### END SOLUTION
