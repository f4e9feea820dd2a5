"""Task 10c beside torch's fp8 products, on a GPU machine without a DSL: with one scale for each operand, with
that and fast accumulation, and with the scales by blocks that the task has.

    course bundle build/task10c.pyz --step task10c           # here; carry it there, beside this checkout
    python -m benchmarks.scales_there task10c.pyz --out scales.json

The protocol is ``run.gpu.timing``'s burst. Scales are laid out as torch asks before the clock runs.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import torch

from course_utils.artifact import Artifact
from course_utils.problems import PROBLEMS
from course_utils.recordings.bundle import provenance
from course_utils.run import backends
from course_utils.run.gpu import timing

KIND, SIZES = "fp8 with scales", ("4096x4096x4096", "8192x8192x8192")
LAID_OUT: dict[int, torch.Tensor] = {}  # scales by column, by the address of the task's own


def by_column(scale: torch.Tensor) -> torch.Tensor:
    kept = LAID_OUT.setdefault(scale.data_ptr(), scale.T.contiguous())
    return kept.T


def by_blocks(
    A: torch.Tensor, B: torch.Tensor, scale_A: torch.Tensor, scale_B: torch.Tensor, D: torch.Tensor
) -> None:
    torch._scaled_mm(A, B.T, by_column(scale_A), scale_B.T, out_dtype=D.dtype, out=D)


def fast(
    A: torch.Tensor, B: torch.Tensor, scale_A: torch.Tensor, scale_B: torch.Tensor, D: torch.Tensor
) -> None:
    one = scale_A[0, 0], scale_B[0, 0]
    torch._scaled_mm(A, B.T, *one, out_dtype=D.dtype, use_fast_accum=True, out=D)


SIDES = {"one scale": PROBLEMS[KIND].beside, "one scale, fast accumulation": fast, "by blocks": by_blocks}


def measured(path: Path) -> dict:
    """Each kernel of the bundle beside each product. Raises RuntimeError where there is no Hopper GPU."""
    device, reason = backends.find_gpu()
    if device is None:
        raise RuntimeError(reason)
    entries = []
    with zipfile.ZipFile(path) as archive:
        kernels = [k for k in json.loads(archive.read("manifest.json")) if k["step"] == "task10c"]
        for kernel in kernels:
            for size in SIZES:
                name = f"artifacts/{kernel['dsl']}/{kernel['name']}/{size}.zip"
                artifact = Artifact.from_bytes(archive.read(name))
                for side, beside in SIDES.items():
                    LAID_OUT.clear()
                    PROBLEMS["beside"] = replace(PROBLEMS[KIND], beside=beside)
                    timed = timing.burst(artifact, seed=7, kind="beside")
                    entries.append({"name": kernel["name"], "dsl": kernel["dsl"], "beside": side} | timed)
                    print(f"{kernel['name']:20} {size} {side:30} {timed['ratio']:.3f}")
    return {"provenance": provenance(device, {k["dsl"]: k["versions"] for k in kernels}), "entries": entries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.write_text(json.dumps(measured(given.bundle), indent=1))


if __name__ == "__main__":
    main()
