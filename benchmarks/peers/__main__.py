"""Time a peer beside cuBLAS at the shapes of step 11, on a machine with a Hopper GPU, from the repository.

    python -m benchmarks.peers cublaslt --out cublaslt.json [--seconds 200] [--only ragged] [--sustained]

A peer that is not installed is named as such. What is measured is saved after each shape. ``--sustained``
adds what 8192 takes once the GPU is hot; all bursts come before.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.peers import LARGE, SHAPES, NotInstalled
from course_utils.problems import PROBLEMS
from course_utils.recordings import bundle
from course_utils.run import backends, reference
from course_utils.run.gpu import timing

PEERS = ("cublaslt", "cutlass_dsl", "triton_persistent", "tileops_gemm")
Prepare = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Callable[[], torch.Tensor]]


class Problem(timing.Problem):
    """One GEMM whose kernel is a peer's. It has one set of inputs: at 8192 no operand fits into L2."""

    def __init__(self, prepare: Prepare, size: tuple[int, int, int], seed: int) -> None:
        M, N, K = size
        self.problem = PROBLEMS["gemm"]
        self.tensors = self.problem.tensors(M, N, K)
        self.generator = torch.Generator(device="cuda").manual_seed(seed)
        self.inputs = [[*reference.inputs(M, N, K, self.generator, "cuda")]]
        self.D = torch.empty(M, N, device="cuda", dtype=torch.float16)
        self.D_cublas = torch.empty_like(self.D)
        self.flush = torch.empty(timing.FLUSH_BYTES, device="cuda", dtype=torch.uint8)
        self.launch = prepare(*self.inputs[0], self.D)

    def run_kernel(self, index: int) -> None:
        self.D = self.launch()

    def run_cublas(self, index: int) -> None:
        super().run_cublas(0)


def burst(prepare: Prepare, size: tuple[int, int, int], seed: int, samples: int = 45) -> dict:
    """As ``timing.burst``. What a peer tunes or compiles at its first launch is done before."""
    pairs, spacers = [], []
    with timing.GpuState() as state:
        for turn in range(timing.ROUNDS):
            torch.cuda.empty_cache()
            spacers.append(torch.empty(turn * timing.SPACER_BYTES, device="cuda", dtype=torch.uint8))
            problem = Problem(prepare, size, seed + turn)
            for _ in range(3):
                problem.run_kernel(0)
                problem.run_cublas(0)
            torch.cuda.synchronize()
            pairs += [timing._burst_pair(problem, index) for index in range(samples // timing.ROUNDS)]
    return timing.summary(size, pairs, state, mode="burst")


def sustained(prepare: Prepare, size: tuple[int, int, int], seed: int) -> dict:
    """As ``timing.sustained``."""
    pairs, state = timing._sustained_pairs(Problem(prepare, size, seed), heat_seconds=4.0, samples=8)
    return timing.summary(size, pairs, state, mode="sustained")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--out", default="peers.json")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--only", nargs="+", default=[""], help="shapes whose name contains one of these")
    parser.add_argument("--sustained", action="store_true", help="8192 once more, hot")
    options = parser.parse_args()
    begin = time.monotonic()
    device, reason = backends.find_gpu()
    if device is None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    where = bundle.provenance(device, {})
    peer = importlib.import_module(f"benchmarks.peers.{options.peer}")
    entries: list[dict] = []
    wanted = [
        (name, size, burst) for name, size in SHAPES.items() if any(only in name for only in options.only)
    ]
    if options.sustained:
        wanted += [(name, size, sustained) for name, size in SHAPES.items() if size == LARGE]
    for name, size, measure in wanted:
        if time.monotonic() - begin > options.seconds:
            break
        found: dict = {"peer": options.peer, "shape": name, "size": size, "timing": None, "why": ""}
        try:
            found["timing"] = measure(peer.prepare, size, seed=len(entries))
        except NotInstalled as error:
            print(f"{options.peer} is not installed. {error}")
            return 0
        except (RuntimeError, ValueError, AssertionError) as error:  # this shape, and not all of them
            found["why"] = f"{type(error).__name__}: {error}"[:300]
        entries.append(found)
        Path(options.out).write_text(json.dumps({"provenance": where, "entries": entries}, indent=1))
        timed = found["timing"]
        said = f"{timed['tflops']:6.1f} TFLOP/s, {timed['ratio']:.3f} of cuBLAS" if timed else found["why"]
        print(
            f"{time.monotonic() - begin:4.0f} s  {options.peer:18} {name:16} {measure.__name__:9} {said}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
