import tilelang.language as T

TM, TN, TK = 64, 256, 64
S = 3
AHEAD = S - 1
WIDTH = 2


def gemm(M, N, K, sm_count=132):
    """Oblong tiles, 64 x 256. One flat loop over all K tiles of all tiles of this CTA: loads run ahead.

    Tiles are numbered in panels of two columns, 512 numbers wide, downwards and upwards in turn.
    """
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps, across = K // TK, N // TN
    down = M // TM
    count = down * across
    panel = WIDTH * down  # tiles in a whole panel

    def place(t):
        """Row and column of tile number t; the last panel may be narrower."""
        start = t // panel * WIDTH
        width = T.min(WIDTH, across - start)
        inside = t % panel
        row = inside // width
        row = T.if_then_else(t // panel % 2 == 0, row, down - 1 - row)
        return row, start + inside % width

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(sm_count, threads=128) as cta:
            a = T.alloc_shared((S, TM, TK), T.float16)
            b = T.alloc_shared((S, TN, TK), T.float16)
            d = T.alloc_shared((TM, TN), T.float16)
            sums = T.alloc_fragment((TM, TN), T.float32)
            full = T.alloc_barrier([1] * S)
            total = (count - cta + sm_count - 1) // sm_count * steps

            for i in T.serial(total + AHEAD):
                if i < total:
                    r, c = place(cta + i // steps * sm_count)
                    ks = slice(i % steps * TK, i % steps * TK + TK)
                    T.tma_copy(A[r * TM : r * TM + TM, ks], a[i % S, :, :], barrier=full[i % S])
                    T.tma_copy(B[c * TN : c * TN + TN, ks], b[i % S, :, :], barrier=full[i % S])
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(full[i % S])
                if i >= AHEAD:
                    j = i - AHEAD
                    T.mbarrier_wait_parity(full[j % S], j // S % 2)
                    T.wgmma_gemm(
                        a[j % S, :, :], b[j % S, :, :], sums, transpose_B=True, clear_accum=(j % steps == 0)
                    )
                    T.wait_wgmma(0)
                    T.sync_threads()
                    if j % steps == steps - 1:
                        row, col = place(cta + j // steps * sm_count)
                        T.tma_store_wait(0)
                        T.sync_threads()
                        T.copy(sums, d)
                        T.fence_proxy_async()
                        T.sync_threads()
                        T.tma_copy(d, D[row * TM : row * TM + TM, col * TN : col * TN + TN])
            T.tma_store_wait(0)

    return main
