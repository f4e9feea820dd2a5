"""TileOPs' GEMM in its default configuration.

Releases from July 2026 have no other. Those before tune themselves over 288, each compiled for each size,
which TILEOPS_TUNE=1 asks for: hours for all shapes.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from benchmarks.peers import NotInstalled


def prepare(A: torch.Tensor, B: torch.Tensor, D: torch.Tensor) -> Callable[[], torch.Tensor]:
    try:
        from tileops import ops
    except ImportError as error:
        raise NotInstalled(f"pip install of tile-ai/TileOPs brings it ({error})") from error
    operation = ops.GemmFwdOp if hasattr(ops, "GemmFwdOp") else ops.GemmOp
    gemm = operation(trans_b=True, tune=os.environ.get("TILEOPS_TUNE") == "1")
    gemm(A, B)  # compiles
    return lambda: gemm(A, B)
