"""Each row of X over its length, in CuTe DSL: a warp has a row, and its lanes add up by shuffles."""

import cutlass
import cutlass.cute as cute

ROWS, COLUMNS, WARPS = 32, 256, 4
LANES = 32


@cute.kernel
def unit_rows(X: cute.Tensor, Y: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    lane = thread % LANES
    row = block * WARPS + thread // LANES
    total = cutlass.Float32(0)
    for i in cutlass.range_constexpr(COLUMNS // LANES):
        value = X[row, i * LANES + lane].to(cutlass.Float32)
        total += value * value
    for step in cutlass.range_constexpr(5):
        total += cute.arch.shuffle_sync_bfly(total, offset=1 << step)
    scale = cute.math.rsqrt(total)
    for i in cutlass.range_constexpr(COLUMNS // LANES):
        value = X[row, i * LANES + lane].to(cutlass.Float32)
        Y[row, i * LANES + lane] = (value * scale).to(cutlass.Float16)


def kernel():
    @cute.jit
    def main(X: cute.Tensor, Y: cute.Tensor):
        unit_rows(X, Y).launch(grid=(ROWS // WARPS, 1, 1), block=(WARPS * LANES, 1, 1))

    return main
