"""Case t6, S = scale * Q K^T: both kernels timed beside torch's ways to write it, on a GPU machine without a
DSL. An archive carries the kernels compiled.

    python -m benchmarks.scores_there build/scores.pyz
    python scores.pyz --out scores.json        # there: torch, cuda-bindings and msgspec are enough

All read Q and K as models store them, [batch, sequence, heads, D]. What is measured is saved after each pair.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import torch

from course_utils.artifact import Artifact
from course_utils.problems import PROBLEMS, SCORE_SCALE
from course_utils.recordings import bundle
from course_utils.run import backends
from course_utils.run.gpu import timing

DSLS = "tilelang", "cute"
FP16, BF16 = "scores of heads", "scores of heads, bf16"
# by name: what of ``problems.PROBLEMS``; batch, sequence_q, sequence_k, heads, kv_heads, D
SHAPES = {
    "D 128": (FP16, (2, 4096, 4096, 16, 16, 128)),
    "D 128, bf16": (BF16, (2, 4096, 4096, 16, 16, 128)),
    "D 128, grouped": (FP16, (2, 4096, 4096, 16, 4, 128)),
    "D 96": (FP16, (2, 4096, 4096, 16, 16, 96)),
    "D 64": (FP16, (2, 4096, 4096, 16, 16, 64)),
    "D 96, grouped, ragged": (FP16, (3, 3333, 4104, 12, 4, 96)),
    "D 128, grouped, odd rows": (FP16, (2, 2001, 4001, 16, 4, 128)),
}
SAMPLES = 30

Values: TypeAlias = torch.Tensor
Ready: TypeAlias = Callable[[Values, Values, Values], Callable[[], Values]]


def grouped(Q: Values, K: Values) -> tuple[Values, Values]:
    """Views: Q as (batch, kv_heads, group, sequence_q, D), K as (batch, kv_heads, 1, sequence_k, D)."""
    heads = Q.unflatten(2, (K.shape[2], -1))
    return heads.permute(0, 2, 3, 1, 4), K.transpose(1, 2)[:, :, None]


def matmul(Q: Values, K: Values, S: Values) -> Callable[[], Values]:
    """``torch.matmul`` of views; whatever copies it makes are timed, and so is the scaling of Q."""
    out = S.unflatten(1, (K.shape[2], -1))

    def launch() -> Values:
        left, right = grouped(Q * SCORE_SCALE, K)
        torch.matmul(left, right.mT, out=out)
        return S

    return launch


def einsum(Q: Values, K: Values, S: Values) -> Callable[[], Values]:
    """``torch.einsum`` of the tensors as they are stored."""

    def launch() -> Values:
        heads = (Q * SCORE_SCALE).unflatten(2, (K.shape[2], -1))
        return torch.einsum("bqgid,bkgd->bgiqk", heads, K).flatten(1, 2)

    return launch


def prepared(Q: Values, K: Values, S: Values) -> Callable[[], Values]:
    """The library's batched product alone: copies with the heads first were made before the clock started."""
    left, right = grouped(Q, K)
    right = right.expand(*left.shape[:3], *right.shape[3:])  # every head of Q has a copy of its head of K
    left, right = (one.contiguous().flatten(0, 2) for one in (left, right))
    out = S.flatten(0, 1)

    def launch() -> Values:
        torch.baddbmm(out, left, right.mT, beta=0, alpha=SCORE_SCALE, out=out)
        return S

    return launch


PEERS: dict[str, Ready] = {"matmul of views": matmul, "einsum": einsum, "baddbmm of copies": prepared}


class Problem(timing.Problem):
    """One size; in cuBLAS's place is a peer."""

    def __init__(self, artifact: Artifact, seed: int, kind: str, peer: Ready) -> None:
        super().__init__(artifact, 1, seed, kind)
        self.peer, self.S = peer, self.D_cublas.view(artifact.tensors[-1].shape)
        self.refresh(0)

    def refresh(self, index: int) -> None:
        super().refresh(index)
        Q, K = self.inputs[index]
        self.launch = self.peer(Q, K, self.S)

    def run_cublas(self, index: int) -> None:
        self.D_cublas = self.launch().view(self.D.shape)
        self.last = index


def burst(artifact: Artifact, seed: int, kind: str, peer: Ready) -> dict:
    """As ``timing.burst``, with a peer in cuBLAS's place; and the bytes a second of Q, K and S, each once."""
    pairs, spacers = [], []
    with timing.GpuState() as state:
        for turn in range(timing.ROUNDS):
            torch.cuda.empty_cache()
            spacers.append(torch.empty(turn * timing.SPACER_BYTES, device="cuda", dtype=torch.uint8))
            problem = Problem(artifact, seed + turn, kind, peer)
            try:
                for _ in range(3):
                    problem.run_kernel(0)
                    problem.run_cublas(0)
                torch.cuda.synchronize()
                pairs += [timing._burst_pair(problem, index) for index in range(SAMPLES // timing.ROUNDS)]
            finally:
                problem.unload()
            del problem
    made = timing.summary(artifact.problem, pairs, state, mode="burst")
    moved = 2 * sum(prod(tensor.shape) for tensor in artifact.tensors)
    peer_tflops = made.pop("cublas_tflops")
    return made | {"peer_tflops": peer_tflops, "bytes_per_second": moved / made["seconds"]}


def _place(dsl: str, name: str) -> str:
    return f"artifacts/{dsl}/{name}.zip"


def build(path: str) -> None:
    """Compile both kernels at every shape and write the archive."""
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import load_factory, solution_path

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        bundle.carry(archive)
        archive.write(__file__, "scores_there.py")
        archive.writestr("__main__.py", "import sys, scores_there\nsys.exit(scores_there.run())\n")
        for dsl in DSLS:
            scores = load_factory(solution_path("t6", dsl), "scores")
            for name, (kind, size) in SHAPES.items():
                dtype = PROBLEMS[kind].tensors(*size)[0].dtype
                artifact = compile_factory(partial(scores, dtype=dtype), dsl, size, kind)
                archive.writestr(_place(dsl, name), artifact.to_bytes())
                print(dsl, name, flush=True)


def run() -> int:
    """The archive's command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="scores.json")
    parser.add_argument("--seconds", type=float, default=500, help="begin no pair after so long")
    options = parser.parse_args()
    device, reason = backends.find_gpu()
    if device is None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    begin = time.monotonic()
    entries: list[dict[str, Any]] = []
    with zipfile.ZipFile(sys.argv[0]) as archive:
        wanted = [(name, dsl, peer) for name in SHAPES for peer in PEERS for dsl in DSLS]
        for name, dsl, peer in wanted:
            if time.monotonic() - begin > options.seconds:
                break
            kind, size = SHAPES[name]
            found: dict[str, Any] = {"timing": None, "why": ""}
            artifact = Artifact.from_bytes(archive.read(_place(dsl, name)))
            try:
                found["timing"] = burst(artifact, len(entries), kind, PEERS[peer])
            except (RuntimeError, ValueError) as error:  # this pair, and not all of them
                found["why"] = f"{type(error).__name__}: {error}"[:300]
            entries.append({"shape": name, "dsl": dsl, "peer": peer, "kind": kind, "at": size} | found)
            where = bundle.provenance(device, {})
            Path(options.out).write_text(json.dumps({"provenance": where, "entries": entries}, indent=1))
            timed = found["timing"]
            said = (
                f"{timed['tflops']:6.1f} TFLOP/s, {timed['ratio']:.3f} of the peer" if timed else found["why"]
            )
            print(f"{time.monotonic() - begin:4.0f} s  {name:26} {dsl:9} {peer:18} {said}", flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build(sys.argv[1])
