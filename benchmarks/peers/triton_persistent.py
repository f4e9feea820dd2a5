"""Triton's persistent matmul with TMA: the tutorial of the checkout that TRITON_HOME names, which tunes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.peers import NotInstalled, from_file

TUTORIAL = "python/tutorials/09-persistent-matmul.py"


def prepare(A: torch.Tensor, B: torch.Tensor, D: torch.Tensor) -> Callable[[], torch.Tensor]:
    home = os.environ.get("TRITON_HOME")
    if not home:
        raise NotInstalled("TRITON_HOME names no checkout of triton-lang/triton, of the installed release")
    tutorial = from_file(Path(home) / TUTORIAL, "Triton")

    def launch() -> torch.Tensor:
        return tutorial.matmul_tma_persistent(A, B, warp_specialize=False)

    launch()  # tunes
    return launch
