"""CUTLASS's persistent GEMM in CuTe DSL, from the checkout that CUTLASS_HOME names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.peers import NotInstalled, from_file

EXAMPLE = "examples/python/CuTeDSL/**/hopper/**/dense_gemm_persistent.py"  # it has moved once
TILE, CLUSTER, PANEL = (128, 256), (2, 1), 8


def prepare(A: torch.Tensor, B: torch.Tensor, D: torch.Tensor) -> Callable[[], torch.Tensor]:
    home = os.environ.get("CUTLASS_HOME")
    if not home:
        raise NotInstalled("CUTLASS_HOME names no checkout of NVIDIA/cutlass")
    found = sorted(Path(home).glob(EXAMPLE)) or [Path(home) / EXAMPLE]
    example = from_file(found[0], "CUTLASS")
    import cutlass
    import cutlass.cute as cute
    from cuda.bindings import driver
    from cutlass.cute.runtime import from_dlpack

    kernel = example.HopperWgmmaGemmPersistentKernel(cutlass.Float32, TILE, CLUSTER, PANEL, True)
    # the example wants a batch's mode, the last and slowest
    batches = [tensor[None].permute(1, 2, 0) for tensor in (A, B, D)]
    tensors = [from_dlpack(t, assumed_align=16).mark_layout_dynamic(leading_dim=1) for t in batches]
    most = cutlass.utils.HardwareInfo().get_max_active_clusters(CLUSTER[0] * CLUSTER[1])
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    compiled = cute.compile(kernel, *tensors, most, stream)

    def launch() -> torch.Tensor:
        compiled(*tensors, stream)
        return D

    return launch
