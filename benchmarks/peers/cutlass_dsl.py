"""CUTLASS's persistent GEMM in CuTe DSL, from the checkout that CUTLASS_HOME names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.peers import NotInstalled, from_file

EXAMPLE = "examples/python/CuTeDSL/hopper/dense_gemm_persistent.py"
TILE, CLUSTER, PANEL = (128, 256), (2, 1), 8


def prepare(A: torch.Tensor, B: torch.Tensor, D: torch.Tensor) -> Callable[[], torch.Tensor]:
    home = os.environ.get("CUTLASS_HOME")
    if not home:
        raise NotInstalled("CUTLASS_HOME names no checkout of NVIDIA/cutlass")
    example = from_file(Path(home) / EXAMPLE, "CUTLASS")
    import cutlass
    import cutlass.cute as cute
    from cuda.bindings import driver
    from cutlass.cute.runtime import from_dlpack

    kernel = example.HopperWgmmaGemmPersistentKernel(cutlass.Float32, TILE, CLUSTER, PANEL, True)
    tensors = [from_dlpack(tensor.unsqueeze(-1), assumed_align=16) for tensor in (A, B, D)]
    most = cutlass.utils.HardwareInfo().get_max_active_clusters(CLUSTER[0] * CLUSTER[1])
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    compiled = cute.compile(kernel, *tensors, most, stream)

    def launch() -> torch.Tensor:
        compiled(*tensors, stream)
        return D

    return launch
