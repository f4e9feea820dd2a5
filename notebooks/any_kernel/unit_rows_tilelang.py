"""Each row of X over its length, in TileLang: a CTA has eight rows, and TMA brings and takes them."""

import tilelang.language as T

ROWS, COLUMNS, BLOCK = 32, 256, 8


def kernel():
    @T.prim_func
    def unit_rows(X: T.Tensor((ROWS, COLUMNS), T.float16), Y: T.Tensor((ROWS, COLUMNS), T.float16)):
        with T.Kernel(ROWS // BLOCK, threads=128) as block:
            tile = T.alloc_shared((BLOCK, COLUMNS), T.float16)
            row = T.alloc_fragment((BLOCK, COLUMNS), T.float32)
            squares = T.alloc_fragment((BLOCK, COLUMNS), T.float32)
            total = T.alloc_fragment((BLOCK,), T.float32)
            T.copy(X[block * BLOCK, 0], tile, prefer_instruction="tma")
            T.copy(tile, row)
            for i, j in T.Parallel(BLOCK, COLUMNS):
                squares[i, j] = row[i, j] * row[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i, j in T.Parallel(BLOCK, COLUMNS):
                row[i, j] = row[i, j] / T.sqrt(total[i])
            T.copy(row, Y[block * BLOCK, 0])

    return unit_rows
