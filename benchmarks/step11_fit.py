"""Fit step 11's model to recorded times, by linear least squares of relative errors.

    python benchmarks/step11_fit.py [solutions/measured/step11.json ...]

The model is a sum: of a launch, of the tensor cores' cycles, of the turns between tiles, of the rows that
TMA loads, and of what rows cost on top that lie across two lines of 128 bytes. Each has one factor, which is
fitted. Points above ``MOST`` FLOP are left out: there the power limit lowers the clock.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

RECORDED = Path(__file__).parents[1] / "solutions" / "measured" / "step11.json"
MOST = 1.5e12
block_K = 64


def terms(size: list[int], plan: dict) -> list[float]:
    """What the five factors multiply: launches, cycles, waves, rows, and rows across two lines."""
    M, N, K = size
    cluster = plan.get("cluster") or plan["cluster_M"]
    tiles = -(-M // (plan["block_M"] * cluster)) * -(-N // plan["block_N"])
    waves = -(-tiles // (plan["num_ctas"] // cluster))
    k_tiles = waves * -(-K // block_K)
    rows = k_tiles * (plan["block_M"] + plan["block_N"] / cluster)
    across = rows if K % block_K else 0
    return [1, k_tiles * 2 * plan["block_M"] * plan["block_N"] * block_K / 4096, waves, rows, across]


def usable(entry: dict) -> bool:
    """Whether the model is about this point: a burst, no cluster that waits for room, no L2 hints."""
    plan = entry["plan"]
    if entry["run"] != 1:  # later runs tried what this fit chose
        return False
    if not entry["timing"] or entry["mode"] != "burst" or any(plan.get("keep") or ()):
        return False
    if plan.get("cluster_N", 1) > 1 or (plan.get("cluster") or plan["cluster_M"]) > 2:
        return False
    lost = plan["block_M"], plan["block_N"]
    return lost != (256, 128) and 2 * np.prod(entry["size"], dtype=float) < MOST


def read(paths: list[str]) -> list[dict]:
    """The usable points of recordings."""
    entries = []
    for path in paths:
        entries += [entry for entry in json.loads(Path(path).read_text())["entries"] if usable(entry)]
    return entries


def fit(entries: list[dict]) -> tuple[dict[str, float], np.ndarray]:
    """The model's constants, Hz and cycles, and each point's relative error."""
    measured = np.array([entry["timing"]["seconds"] for entry in entries])
    matrix = np.array([terms(entry["size"], entry["plan"]) for entry in entries])
    factors = np.linalg.lstsq(matrix / measured[:, None], np.ones(len(entries)), rcond=None)[0]
    launch, cycle, turn, row, across = map(float, factors)
    found = {"CLOCK": 1 / cycle, "LAUNCH": launch / cycle, "TURN": turn / cycle, "ROW": row / cycle}
    return {**found, "lines": 1 + across / row}, matrix @ factors / measured - 1


def main(paths: list[str]) -> None:
    entries = read(paths or [str(RECORDED)])
    constants, errors = fit(entries)
    for name, value in constants.items():
        print(f"{name:8} {value:.3g}")
    off = float(np.sqrt((errors**2).mean()))
    print(f"{len(entries)} points, {off:.1%} off by root mean square, {abs(errors).max():.1%} at most:")
    for index in np.argsort(-abs(errors))[:10]:
        entry = entries[index]
        print(f"{errors[index]:+.1%}", *entry["size"], entry["dsl"], entry["name"])


if __name__ == "__main__":
    main(sys.argv[1:])
