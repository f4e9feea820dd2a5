"""Fit step 11's model to recorded times, by least squares of relative errors.

    python benchmarks/step11_fit.py [solutions/measured/step11.json]

The model (``course_utils.plans``) is a sum: of a launch, of K tiles, of the turns between tiles of D, and of
the lines that TMA loads. Each has one factor, which is fitted. A K tile takes what it multiplies, or what L2
takes to bring it, whichever is longer; bytes a cycle of L2 are tried one by one. Points above ``MOST`` FLOP
are left out: there the power limit lowers the clock.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from course_utils import plans
from course_utils.plans import Plan

SPEEDS = range(50, 100)  # of L2, bytes a cycle


class Point(NamedTuple):
    """One recorded time; ``dsl`` and ``name`` say of what."""

    size: tuple[int, int, int]
    plan: Plan
    seconds: float
    dsl: str
    name: str


def read(path: Path = plans.RECORDED) -> list[Point]:
    """The points that the model is about."""
    tiles = {plan[:4] for plan in plans.plans()}
    found = []
    for entry in json.loads(path.read_text())["entries"]:
        size, plan = tuple(entry["size"]), plans.plan_of(entry)
        if plan and plan[:4] in tiles and 2 * np.prod(size, dtype=float) < plans.MOST:
            found.append(Point(size, plan, entry["timing"]["seconds"], entry["dsl"], entry["name"]))
    return found


def terms(size: tuple[int, int, int], plan: Plan, l2: float) -> list[float]:
    """What the factors multiply: launches, cycles of K tiles, waves, and lines."""
    M, N, K = size
    clusters = -(-M // (plan.block_M * plan.cluster)) * -(-N // plan.block_N)
    waves = -(-clusters // (plan.num_ctas // plan.cluster))
    k_tiles = waves * -(-K // plans.BLOCK_K)
    lines = (plan.block_M + plan.block_N / plan.cluster) * (plans.LINES if K % plans.BLOCK_K else 1)
    multiply = 2 * plan.block_M * plan.block_N * plans.BLOCK_K / plans.FLOP_A_CYCLE
    return [1, k_tiles * max(multiply, lines * plans.LINE_BYTES / l2), waves, k_tiles * lines]


def fit(points: list[Point]) -> tuple[dict[str, float], np.ndarray]:
    """The model's constants, as ``course_utils.plans`` names them, and each point's relative error."""
    measured = np.array([point.seconds for point in points])
    fits = []
    for l2 in SPEEDS:
        matrix = np.array([terms(point.size, point.plan, l2) for point in points])
        factors = np.linalg.lstsq(matrix / measured[:, None], np.ones(len(points)), rcond=None)[0]
        errors = matrix @ factors / measured - 1
        fits.append((float((errors**2).mean()), l2, factors, errors))
    _, l2, factors, errors = min(fits, key=lambda one: one[0])
    launch, cycle, turn, row = map(float, factors)
    found = {"CLOCK": 1 / cycle, "LAUNCH": launch / cycle, "TURN": turn / cycle, "ROW": row / cycle}
    return {**found, "L2": float(l2)}, errors


def main(paths: list[str]) -> None:
    points = read(Path(paths[0]) if paths else plans.RECORDED)
    constants, errors = fit(points)
    for name, value in constants.items():
        print(f"{name:8} {value:.3g}")
    off = float(np.sqrt((errors**2).mean()))
    print(f"{len(points)} points, {off:.1%} off by root mean square, {abs(errors).max():.1%} at most:")
    for index in np.argsort(-abs(errors))[:10]:
        point = points[index]
        print(f"{errors[index]:+.1%}", *point.size, tuple(point.plan), point.dsl, point.name)


if __name__ == "__main__":
    main(sys.argv[1:])
