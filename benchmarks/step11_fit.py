"""Fit step 11's two models to recorded times, by least squares of relative errors.

    python benchmarks/step11_fit.py [--write]

The first (``seconds`` of ``course_utils.plans``, the learner's) is a sum: of a launch, of K tiles, of the
turns between tiles of D, and of the lines that TMA loads. Each has one factor, which is fitted. A K tile
takes what it multiplies, or what L2 takes to bring it, whichever is longer; bytes a cycle of L2 are tried one
by one. Points above ``MOST`` FLOP are left out: there the power limit lowers the clock.

The second (``powered``, which ``choose`` goes by) has energy in it: bytes of L2 and of DRAM take time of
their own. It is fitted to points of all sizes; ``L2_SPEED`` and ``THIN`` were found by trying, and stay.
What it is worth is said by shapes that it was not fitted to: each is held out once. Counters of other kernels
say what a byte takes in another way: one launch at the power limit is divided into FLOPs, bytes and cycles.
With ``--write`` the constants in ``course_utils.plans`` become the fitted ones.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from course_utils import plans
from course_utils.chips import HOME
from course_utils.plans import Plan
from course_utils.recordings import measured

SPEEDS = range(50, 100)  # of L2, bytes a cycle
ALL_FITTED = 7  # the last run of step11.json that the second is fitted to
BYTES = "L2_BYTE", "SPLIT_BYTE", "SECTOR_BYTE"  # by how rows begin
FACTORS = (
    *BYTES,
    "DRAM_BYTE",
    "STORED",
    "NARROW",
    "LONG_FLOP",
    "LONG_CLUSTER",
    "BETWEEN",
)  # of the second model


class Point(NamedTuple):
    """One recorded time; ``dsl`` and ``name`` say of what, ``run`` of which recording (0: `course tune`)."""

    size: tuple[int, int, int]
    plan: Plan
    seconds: float
    dsl: str
    name: str
    run: int


def read(path: Path = plans.RECORDED) -> list[Point]:
    """The points that the model is about, of the runs that it is fitted to."""
    tiles = {plan[:4] for plan in plans.plans()}
    found = []
    for entry in json.loads(path.read_text())["entries"]:
        size, plan = tuple(entry["size"]), plans.plan_of(entry)
        if (
            entry.get("run", 1) <= plans.FITTED
            and plan
            and plan[:4] in tiles
            and 2 * np.prod(size, dtype=float) < plans.MOST
        ):
            found.append(_point(size, plan, entry))
    return found


def read_all(last: int = ALL_FITTED) -> list[Point]:
    """Every recorded point of a tile that the plans have, of all sizes, of `course tune` and of ragged shapes
    too, of step11.json's runs up to the ``last``: those that the second model is fitted to.
    """
    tiles = {plan[:3] for plan in plans.plans()}
    found = []
    for name in ("step11", "tuned", "tuned_ragged"):
        for entry in measured.load(name)["entries"]:
            plan = plans.plan_of(entry)
            new = name != "step11" or entry.get("run", 1) <= last
            if new and plan and plan[:3] in tiles and plan.num_ctas in HOME.persistent_grids:
                found.append(_point(tuple(entry["size"]), plan, entry))
    return found


def _point(size: tuple[int, int, int], plan: Plan, entry: dict) -> Point:
    run = entry.get("run", 0)
    return Point(size, plan, entry["timing"]["seconds"], entry["dsl"], entry["name"], run)


def powered_terms(point: Point) -> list[float]:
    """What the second model's factors multiply: launches, cycles, bytes of L2 by how rows begin, bytes of
    DRAM, elements of D that leave between two tiles, FLOPs above ``MOST``, and of clusters, turns.
    """
    size, plan = point.size, point.plan
    loaded, fetched = plans.traffic(*size, plan)
    of_bytes = [loaded * (kind == plans.alignment(size[2])) for kind in range(len(BYTES))]
    waves = plans.waves(*size[:2], plan)
    long = max(0.0, 2.0 * np.prod(size, dtype=float) - plans.MOST)
    stored = [waves * some(plan) for some in (plans.stored_between, plans.stored_narrowly)]
    cycles = plans.busy_cycles(*size, plan)
    return [1, cycles, *of_bytes, fetched, *stored, long, long * (plan.cluster - 1), waves - 1]


def fit_powered(points: list[Point]) -> dict[str, float]:
    """The second model's constants, as ``course_utils.plans`` names them."""
    seconds = np.array([point.seconds for point in points])
    matrix = np.array([powered_terms(point) for point in points]) / seconds[:, None]
    scale = np.abs(matrix).mean(axis=0)
    factors = np.linalg.lstsq(matrix / scale, np.ones(len(points)), rcond=None)[0] / scale
    begin, cycle, *rest = map(float, factors)
    return {"BUSY_CLOCK": 1 / cycle, "BEGIN": begin, **dict(zip(FACTORS, rest, strict=True))}


def powered(constants: dict[str, float], point: Point) -> float:
    """The second model's time with these constants."""
    factors = [constants["BEGIN"], 1 / constants["BUSY_CLOCK"], *(constants[name] for name in FACTORS)]
    return float(np.dot(powered_terms(point), factors))


def held_out(points: list[Point]) -> np.ndarray:
    """Each point's relative error by a fit to all other shapes."""
    fits = {size: fit_powered([p for p in points if p.size != size]) for size in {p.size for p in points}}
    return np.array([powered(fits[point.size], point) / point.seconds - 1 for point in points])


def within(points: list[Point], errors: np.ndarray) -> float:
    """Root mean square of errors about those of their shape and DSL: all that a choice can suffer from."""
    groups: dict[tuple, list[float]] = {}
    for point, error in zip(points, errors, strict=True):
        groups.setdefault((point.size, point.dsl), []).append(float(np.log1p(error)))
    return float(np.sqrt(np.mean([(e - np.mean(some)) ** 2 for some in groups.values() for e in some])))


def counted() -> tuple[np.ndarray, float, int]:
    """Picojoules of a FLOP, of a byte of L2 and of DRAM, and of an SM's cycle, by the counters of launches
    that keep tensor cores busy, each of which has 700 W; how far off they are, and how many launches.
    """
    rows, times = [], []
    for entry in measured.load("counters")["entries"]:
        for launch in entry["launches"]:
            c = launch["counters"]
            if max(launch["size"]) >= 4096 and c["tensor_active"] > 0.75:
                dram = c["dram_read_bytes"] + c["dram_write_bytes"]
                cycles = c["cycles"] * HOME.sms
                rows.append([2.0 * np.prod(launch["size"], dtype=float), c["l2_bytes"], dram, cycles])
                times.append(c["seconds"])
    matrix = np.array(rows) / np.array(times)[:, None]
    factors = np.linalg.lstsq(matrix, np.ones(len(times)), rcond=None)[0]
    return factors * 700e12, _rms(matrix @ factors - 1), len(times)


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt((errors**2).mean()))


def terms(size: tuple[int, int, int], plan: Plan, l2: float) -> list[float]:
    """What the factors multiply: launches, cycles of K tiles, waves, and lines."""
    M, N, K = size
    waves = plans.waves(M, N, plan)
    k_tiles = waves * -(-K // plans.BLOCK_K)
    lines = (plan.block_M + plan.block_N / plan.cluster) * (plans.LINES if K % plans.BLOCK_K else 1)
    multiply = 2 * plan.block_M * plan.block_N * plans.BLOCK_K / plans.FLOP_PER_CLOCK
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


def written(text: str, constants: dict[str, float]) -> str:
    """The text of ``course_utils.plans`` with these constants, to three digits. Raises ValueError where it
    lacks one.
    """
    for name, value in constants.items():
        rounded = float(f"{value:.3g}")
        figure = (
            f"{rounded:_.0f}"
            if 1e4 <= rounded < 1e6
            else f"{rounded:.0f}"
            if 10 <= rounded < 1e4
            else (f"{rounded:.3g}")
        )
        figure = re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), figure)
        text, count = re.subn(rf"^{name} = \S+", f"{name} = {figure}", text, flags=re.M)
        if count != 1:
            raise ValueError(f"plans.py has {count} lines that begin with {name} =")
    return text


def shares(entries: list[dict]) -> str:
    """What the chosen plans of recorded entries are worth: of cuBLAS, and against the best of their shape."""
    words = []
    for dsl in ("tilelang", "cute"):
        of: dict[tuple, dict[Plan, dict]] = {}
        for entry in entries:
            if entry["dsl"] == dsl and (plan := plans.plan_of(entry)):
                of.setdefault(tuple(entry["size"]), {})[plan] = entry["timing"]
        taken = {
            size: found[plans.choose(*size)] for size, found in of.items() if plans.choose(*size) in found
        }
        if taken:
            ratios = [timing["ratio"] for timing in taken.values()]
            lost = {
                size: timing["seconds"] / min(other["seconds"] for other in of[size].values()) - 1
                for size, timing in taken.items()
            }
            worst = max(lost, key=lost.__getitem__)
            mean = np.exp(np.log(ratios).mean())
            words.append(
                f"{dsl}: {len(taken)} of {len(of)} shapes have the chosen plan: {mean:.3f} of cuBLAS by "
                f"geometric mean, least {min(ratios):.3f}, {sum(r >= 1 for r in ratios)} not below 1; "
                f"at most {lost[worst]:.1%} slower than the best timed, at {' x '.join(map(str, worst))}"
            )
    return "\n".join(words)


def main() -> None:
    points = read()
    found_first, errors = fit(points)
    for name, value in found_first.items():
        print(f"{name:10} {value:.3g}")
    print(
        f"{len(points)} points, {_rms(errors):.1%} off by root mean square, {abs(errors).max():.1%} at most:"
    )
    for index in np.argsort(-abs(errors))[:10]:
        point = points[index]
        print(f"{errors[index]:+.1%}", *point.size, tuple(point.plan), point.dsl, point.name)
    points = read_all()
    constants = fit_powered(points)
    print()
    for name, value in constants.items():
        print(f"{name:10} {value:.3g}")
    models = {
        "the first model": np.array([plans.seconds(*p.size, p.plan) / p.seconds - 1 for p in points]),
        "the second": np.array([powered(constants, p) / p.seconds - 1 for p in points]),
        "the second, each shape held out": held_out(points),
    }
    for name, errors in models.items():
        print(
            f"{name}: {len(points)} points, {_rms(errors):.2%} off, {abs(errors).max():.1%} at most; "
            f"{within(points, errors):.2%} between plans of one shape"
        )
    factors, off, launches = counted()
    words = "pJ a FLOP, {:.1f} a byte of L2, {:.1f} of DRAM, {:.0f} a cycle of an SM"
    print(f"{launches} launches: {factors[0]:.2f} {words.format(*factors[1:])}; {off:.1%} off")
    newest = max(entry.get("run", 1) for entry in measured.load("step11")["entries"])
    runs = [entry for entry in measured.load("step11")["entries"] if entry.get("run", 1) == newest]
    print(f"\nrun {newest} of step11.json\n{shares(runs)}")
    print(f"ragged.json\n{shares(measured.load('ragged')['entries'])}")
    if "--write" in sys.argv[1:]:
        path = Path(plans.__file__)
        path.write_text(written(path.read_text(), found_first | constants))
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
