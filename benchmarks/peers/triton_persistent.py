"""A persistent Triton GEMM with TMA descriptors, in the manner of Triton's own tutorial; it tunes itself."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.peers import NotInstalled

try:
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:
    triton = None

PANEL = 8  # rows of tiles that neighbouring programs share


def _tiles_of(arguments: dict) -> None:
    """Give each descriptor the box of the configuration that is tried."""
    block_M, block_N, block_K = (arguments[name] for name in ("block_M", "block_N", "block_K"))
    arguments["A"].block_shape = [block_M, block_K]
    arguments["B"].block_shape = [block_N, block_K]
    arguments["D"].block_shape = [block_M, block_N]


if triton:

    @triton.autotune(
        configs=[
            triton.Config(
                {"block_M": block_M, "block_N": block_N, "block_K": 64},
                num_stages=num_stages,
                num_warps=8,
                pre_hook=_tiles_of,
            )
            for block_M, block_N in ((128, 256), (128, 128))
            for num_stages in (3, 4)
        ],
        key=["M", "N", "K"],
    )
    @triton.jit
    def _kernel(
        A,
        B,
        D,
        M,
        N,
        K,
        block_M: tl.constexpr,
        block_N: tl.constexpr,
        block_K: tl.constexpr,
        panel: tl.constexpr,
        programs: tl.constexpr,
    ):
        rows, columns = tl.cdiv(M, block_M), tl.cdiv(N, block_N)
        for tile in tl.range(tl.program_id(0), rows * columns, programs, flatten=True):
            first = tile // (panel * columns) * panel
            high = min(rows - first, panel)
            within = tile % (panel * columns)
            row, column = (first + within % high) * block_M, within // high * block_N
            acc = tl.zeros((block_M, block_N), dtype=tl.float32)
            for k in range(tl.cdiv(K, block_K)):
                a = A.load([row, k * block_K])
                b = B.load([column, k * block_K])
                acc = tl.dot(a, b.T, acc)
            D.store([row, column], acc.to(tl.float16))


def prepare(A: torch.Tensor, B: torch.Tensor, D: torch.Tensor) -> Callable[[], torch.Tensor]:
    if triton is None:
        raise NotInstalled("PyTorch's CUDA builds bring triton")
    (M, K), N = A.shape, B.shape[0]
    # any box: the configuration sets it
    descriptors = [TensorDescriptor.from_tensor(tensor, [64, 64]) for tensor in (A, B, D)]
    programs = torch.cuda.get_device_properties(A.device).multi_processor_count

    def launch() -> torch.Tensor:
        _kernel[(programs,)](*descriptors, M, N, K, panel=PANEL, programs=programs)
        return D

    launch()  # tunes
    return launch
