"""Step 5 by T.Pipelined: TileLang makes the ring, its barriers and the loads ahead of use."""

import tilelang.language as T

BM, BN, BK = 128, 128, 64


def gemm(M, N, K):
    assert M % BM == 0 and N % BN == 0 and K % BK == 0

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            a = T.alloc_shared((BM, BK), T.float16)
            b = T.alloc_shared((BN, BK), T.float16)
            d = T.alloc_shared((BM, BN), T.float16)
            c = T.alloc_fragment((BM, BN), T.float32)
            T.clear(c)
            for k in T.Pipelined(K // BK, num_stages=3):
                T.copy(A[by * BM, k * BK], a)
                T.copy(B[bx * BN, k * BK], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, d)
            T.copy(d, D[by * BM, bx * BN])

    return main
