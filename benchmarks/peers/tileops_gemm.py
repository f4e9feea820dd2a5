"""TileOPs' GEMM, tuned by itself where its release can."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.peers import NotInstalled


def prepare(A: torch.Tensor, B: torch.Tensor, D: torch.Tensor) -> Callable[[], torch.Tensor]:
    try:
        from tileops import ops
    except ImportError as error:
        raise NotInstalled(f"pip install of tile-ai/TileOPs brings it ({error})") from error
    (M, K), N = A.shape, B.shape[0]
    if hasattr(ops, "GemmFwdOp"):  # newer releases know sizes by the call, and B as (N, K)
        gemm = ops.GemmFwdOp(tune=True)
    else:
        gemm = ops.GemmOp(M, N, K, trans_b=True, dtype=A.dtype, tune=True)
    gemm(A, B)  # compiles
    return lambda: gemm(A, B)
