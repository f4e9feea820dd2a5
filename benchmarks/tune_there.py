"""Plans of step 11 on a GPU machine that has no DSL: compiled here, and timed there beside cuBLAS.

    python benchmarks/tune_there.py compile build/tune cute                    # and tilelang
    python benchmarks/tune_there.py pack build/tune                            # writes build/tune.pyz
    python3 tune.pyz --out tuned.json --seconds 330                            # there
    python benchmarks/tune_there.py record tuned.json                          # here
    python benchmarks/step11_fit.py --write

Each command continues where it was stopped.

The machine needs torch and cuda-bindings. The shapes are the 24 of ``peers`` and 32 ragged ones that a seed
draws, which no model may be fitted to. Each has the plan that the model chooses, and in CuTe DSL the quickest
of another tile by the model. With ``--points FILE`` a JSON list of DSL, size and plan is compiled and packed
instead: to learn what a new plan takes. In each round every plan and cuBLAS run once, on the same fresh
inputs, in a new order; a share of cuBLAS is the median over rounds. Results are written after each shape. A
plan that hangs or crashes costs its process, and says so in its entry. Last, one kernel and cuBLAS run on
inputs of several distributions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SPREADS = "normal", "uniform", "integers", "zeros"  # inputs of a kernel and of cuBLAS
SPREAD_AT = (4096, 4096, 4096), (8192, 8192, 8192)
SPREAD_ROUNDS, BUSY_SECONDS = 24, 0.4
SEED, DRAWN = 34, 32
SIDES = (1000, 9000), (1000, 9000), (512, 6000)  # of the ragged shapes' M, N and K, least and most
PLANS = {"cute": 2, "tilelang": 1}  # at each shape
ROUNDS, ALLOCATIONS = 36, 3
REST_SECONDS = 0.01  # after each launch: a burst's pair of them rests 0.02
PATIENCE = 25  # seconds of one shape's allocation, after which a launch hangs

Size = tuple[int, int, int]
Wanted = tuple[str, Size, Any]  # DSL, size and plan of a kernel


# -- here


def drawn() -> list[Size]:
    """The ragged shapes: sides are multiples of 8."""
    rng = random.Random(SEED)
    sides = [[8 * rng.randrange(least // 8, most // 8 + 1) for least, most in SIDES] for _ in range(DRAWN)]
    return [(M, N, K) for M, N, K in sides]


def shapes() -> list[Size]:
    """All shapes, the most informative first: the recorded ragged ones, the drawn ones, the others."""
    from benchmarks.peers import SHAPES

    recorded = sorted(SHAPES.values(), key=lambda size: all(side % 64 == 0 for side in size))
    ragged = [size for size in recorded if any(side % 64 for side in size)]
    return [*ragged, *drawn(), *recorded[len(ragged) :]]


def candidates(size: Size, dsl: str) -> list[Any]:
    """The plan that the model chooses, and the quickest of other tiles."""
    from course_utils.plans import choose, plans, powered

    found = [choose(*size, dsl=dsl)]
    for plan in sorted(plans(dsl=dsl), key=lambda plan: powered(*size, plan)):
        if (plan[:2], plan.swapped) not in [(one[:2], one.swapped) for one in found]:
            found.append(plan)
    return found[: PLANS[dsl]]


def wanted(path: Path | None) -> list[Wanted]:
    """DSL, size and plan of each kernel: those of the file, or of each shape; the chosen plans first."""
    from course_utils.plans import Plan

    if path:
        return [(dsl, tuple(size), Plan(*plan)) for dsl, size, plan in json.loads(path.read_text())]
    ranked = [
        (rank, dsl, size, plan)
        for dsl in PLANS
        for size in shapes()
        for rank, plan in enumerate(candidates(size, dsl))
    ]
    return [(dsl, size, plan) for _, dsl, size, plan in sorted(ranked, key=lambda one: one[0])]


def compile_all(folder: Path, dsl: str, kernels: list[Wanted]) -> None:
    """Compile what is not there yet."""
    from importlib import import_module

    from course_utils.compile.load import load_factory, solution_path

    compiler = import_module(f"course_utils.compile.{dsl}")
    compiler.prepare()
    gemm = load_factory(solution_path("step11", dsl))
    for _, size, plan in (one for one in kernels if one[0] == dsl):
        path = folder / _place(dsl, size, plan)
        if not path.exists():
            start = time.monotonic()
            made = compiler.compile_kind(partial(gemm, plan=plan), "gemm", *size).to_bytes()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".new").write_bytes(made)
            os.replace(path.with_suffix(".new"), path)
            print(path, f"{time.monotonic() - start:.1f} s", flush=True)


def pack(folder: Path, kernels: list[Wanted]) -> None:
    """Write the archive of what is compiled."""
    from course_utils.artifact import Artifact
    from course_utils.recordings import bundle, tuning

    path, points, versions = folder.with_suffix(".pyz"), [], {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        bundle.carry(archive)
        archive.write(__file__, "tune_there.py")
        archive.writestr("__main__.py", "import sys, tune_there\nsys.exit(tune_there.run())\n")
        for dsl, size, plan in kernels:
            place = _place(dsl, size, plan)
            if (folder / place).exists():
                archive.write(folder / place, place)
                made = Artifact.from_bytes((folder / place).read_bytes())
                versions[dsl] = made.versions
                (source,) = made.python.values()
                kernel = hashlib.sha256(source.encode()).hexdigest()[:16]
                point = tuning.untimed(dsl, size, plan, kernel)
                points.append({**point, "drawn": size in drawn(), "place": place})
        archive.writestr("points.json", json.dumps({"versions": versions, "points": points}))
    print(f"{path}: {len(points)} kernels, {len({tuple(p['size']) for p in points})} shapes, ", end="")
    print(f"{path.stat().st_size / 2**20:.1f} MiB")


def record(path: Path, folder: Path) -> None:
    """Put what came back into ``folder``: shapes of ``peers`` as a new run of step11.json, the drawn ones and
    the names of cuBLAS's kernels as ragged.json, and what inputs change as inputs.json. Raises MeasuredError.
    """
    from course_utils.plans import Plan, choose
    from course_utils.recordings import model

    found = model.read(path, form=model.Tuned)
    step_11 = json.loads((folder / "step11.json").read_text())
    run = max(entry.get("run", 1) for entry in step_11["entries"]) + 1
    for entry in found["entries"]:
        if not entry["drawn"]:
            taken = Plan(**entry["plan"]) == choose(*entry["size"], dsl=entry["dsl"])
            name = f"chosen: {entry['name']}" if taken else entry["name"]
            step_11["entries"].append({**entry, "name": name, "run": run})
    where = found["provenance"]
    step_11["runs"][str(run)] = f"{where['gpu']}, {where['date']}: all plans of a shape in one rotation"
    if where["date"] not in step_11["provenance"]["date"]:
        step_11["provenance"]["date"] += f" and {where['date']}"
    drawn_ones = [entry for entry in found["entries"] if entry["drawn"]]
    if inputs := found.pop("inputs", []):
        model.write(folder / "inputs.json", {"provenance": where, "entries": inputs})
    model.write(folder / "step11.json", step_11)
    model.write(folder / "ragged.json", {**found, "entries": drawn_ones})
    print(f"run {run} of step11.json: {len(found['entries']) - len(drawn_ones)} plans", end="; ")
    print(f"ragged.json: {len(drawn_ones)} plans of {len({tuple(e['size']) for e in drawn_ones})} shapes")


def _place(dsl: str, size: Size, plan: tuple) -> str:
    return f"artifacts/{dsl}/{'x'.join(map(str, size))}/{'_'.join(map(str, plan))}.zip"


# -- there


def run() -> int:
    """The archive's command: a process that times, and another one where it crashed or hung."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", default="tuned.json")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no shape after so many")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return {"names": names, "time": child, "spread": spread}[options.child](
            Path(options.out), options.seconds
        )
    deadline = time.time() + options.seconds  # of the clock: it goes to another process
    command = [sys.executable, sys.argv[0], "--out", options.out, "--seconds", str(deadline), "--child"]
    try:
        subprocess.run([*command, "names"], timeout=60)
    except subprocess.TimeoutExpired:
        print("the profiler took too long: the names of cuBLAS's kernels are not recorded", flush=True)
    code = subprocess.run([*command, "time"]).returncode
    while code not in (0, 2) and time.time() < deadline:
        print("the process ended early; another one goes on", flush=True)
        code = subprocess.run([*command, "time"]).returncode
    if code == 0:
        subprocess.run([*command, "spread"])
    return code


def started(out: Path, points: dict) -> dict:
    """What an earlier process left in the file, or results without entries."""
    if out.exists():
        return json.loads(out.read_text())
    from course_utils.recordings.bundle import provenance
    from course_utils.run import backends

    device, reason = backends.find_gpu()
    if device is None:
        print(f"cannot run: {reason}", file=sys.stderr)
        raise SystemExit(2)
    where = provenance(device, points["versions"])
    return {"provenance": where, "protocol": {"rounds": ROUNDS, "rest_seconds": REST_SECONDS}, "entries": []}


def write(out: Path, results: dict) -> None:
    """In one step: who reads the file never has half of one."""
    fresh = out.with_suffix(".new")
    fresh.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    os.replace(fresh, out)


def names(out: Path, deadline: float) -> int:
    """Record which kernel cuBLAS takes at each shape. This has a process of its own: a profiler disturbs
    times.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    with zipfile.ZipFile(sys.argv[0]) as archive:
        points = json.loads(archive.read("points.json"))
    results = started(out, points)
    sizes = list(dict.fromkeys(tuple(point["size"]) for point in points["points"]))
    if "cublas" in results:
        return 0

    def multiply() -> None:
        for M, N, K in sizes:
            A, B = (torch.ones(rows, K, device="cuda", dtype=torch.float16) for rows in (M, N))
            torch.matmul(A, B.T)
        torch.cuda.synchronize()

    multiply()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        multiply()
    kernels = sorted(seen.events(), key=lambda event: event.time_range.start)
    found = [event.name for event in kernels if "nvjet" in event.name or "gemm" in event.name.lower()]
    if len(found) != len(sizes):
        print(f"{len(found)} kernels of cuBLAS for {len(sizes)} shapes: their names are not recorded")
        return 1
    results["cublas"] = [
        {"size": list(size), "kernel": name} for size, name in zip(sizes, found, strict=True)
    ]
    write(out, results)
    return 0


def child(out: Path, deadline: float) -> int:
    """Time every shape that is not in the file yet."""
    from course_utils.artifact import Artifact

    with zipfile.ZipFile(sys.argv[0]) as archive:
        points = json.loads(archive.read("points.json"))
        results = started(out, points)
        for size in dict.fromkeys(tuple(point["size"]) for point in points["points"]):
            have = {_key(entry) for entry in results["entries"]}
            here = [point for point in points["points"] if tuple(point["size"]) == size]
            todo = [point for point in here if _key(point) not in have]
            if any(entry["timing"] for entry in results["entries"] if tuple(entry["size"]) == size):
                continue
            if not todo:
                continue
            if time.time() > deadline:
                print(f"{size} and what follows were left out: the time is over", flush=True)
                break
            artifacts = [Artifact.from_bytes(archive.read(point["place"])) for point in todo]
            failed = _Failed(out, results, todo)
            try:
                timings = timed(size, artifacts, failed)
            except RuntimeError as error:  # the driver's, torch's, or a wrong output
                failed(f"{type(error).__name__}: {error}"[:300])
            for point, timing in zip(todo, timings, strict=True):
                results["entries"].append(_entry(point, timing, ""))
                said = f"{timing['seconds'] * 1e6:,.1f} us, {timing['ratio']:.3f} of cuBLAS"
                print(f"{_words(point)}: {said}", flush=True)
            write(out, results)
    return 0


def spread(out: Path, deadline: float) -> int:
    """Time the first kernel of a size and cuBLAS on inputs of each distribution: single launches, and
    launches one after another, where the power limit counts.
    """
    from course_utils.artifact import Artifact

    with zipfile.ZipFile(sys.argv[0]) as archive:
        points = json.loads(archive.read("points.json"))
        results = started(out, points)
        for size in SPREAD_AT:
            point = next((one for one in points["points"] if tuple(one["size"]) == size), None)
            if point and not any(tuple(one["size"]) == size for one in results.get("inputs", [])):
                artifact = Artifact.from_bytes(archive.read(point["place"]))
                for mode in ("burst", "sustained"):
                    for row in _spread(artifact, mode):
                        entry = {"size": list(size), "dsl": point["dsl"], "plan": point["plan"], **row}
                        results.setdefault("inputs", []).append(entry)
                        print(*size, row["inputs"], mode, f"{row['timing']['ratio']:.3f}", flush=True)
                write(out, results)
    return 0


def _spread(artifact: Any, mode: str) -> list[dict]:
    """A row for each distribution, all timed in turns."""
    import torch

    from course_utils.run.gpu import timing

    here = timing.Problem(artifact, 1, SEED)
    memory = zip(artifact.tensors, [*here.inputs[0], here.D], strict=True)
    kernel = timing.Kernel(artifact, {tensor.name: values.data_ptr() for tensor, values in memory})
    stream = torch.cuda.current_stream().cuda_stream
    sides = [partial(kernel.launch, stream), partial(here.run_cublas, 0)]
    pairs: dict[str, list] = {kind: [] for kind in SPREADS}
    states = {}
    rounds = SPREAD_ROUNDS if mode == "burst" else 3
    for turn in range(rounds):
        for kind in SPREADS:
            for values in here.inputs[0]:
                _draw(values, kind)
            with timing.GpuState() as state:
                took = []
                for side in sides if turn % 2 else sides[::-1]:
                    side()
                    torch.cuda.synchronize()
                    if mode == "burst":
                        torch.cuda._sleep(timing.LEAD_CYCLES)
                        here.flush.zero_()
                        begin, end = timing.elapsed(side)
                        count = 1
                    else:
                        start, count = time.monotonic(), 0
                        while time.monotonic() - start < BUSY_SECONDS:  # the limit settles
                            for _ in range(20):
                                side()
                            torch.cuda.synchronize()
                            count += 20
                        begin, end = timing.elapsed(partial(_repeat, side, count))
                    torch.cuda.synchronize()
                    took.append(begin.elapsed_time(end) / 1e3 / count)
                    time.sleep(REST_SECONDS)
            pairs[kind].append(tuple(took if turn % 2 else took[::-1]))
            states[kind] = state
            if not torch.allclose(here.D.float(), here.D_cublas.float(), rtol=1e-2, atol=0.3):
                raise RuntimeError(f"a timed output was wrong on {kind} inputs")
    kernel.unload()
    here.unload()
    size = artifact.problem
    return [
        {"inputs": kind, "mode": mode, "timing": timing.summary(size, pairs[kind], states[kind], mode)}
        for kind in SPREADS
    ]


def _repeat(side: Any, count: int) -> None:
    for _ in range(count):
        side()


def _draw(values: Any, kind: str) -> None:
    """Fill a matrix: normal; uniform between -1 and 1; integers from -2 to 2; zeros."""
    if kind == "normal":
        values.normal_()
    elif kind == "uniform":
        values.uniform_(-1, 1)
    elif kind == "integers":
        values.random_(-2, 3)
    else:
        values.zero_()


class _Failed:
    """Writes down which plan crashed or hung, and ends the process: its context is of no use any more."""

    def __init__(self, out: Path, results: dict, todo: list[dict]) -> None:
        self.out, self.results, self.todo, self.at = out, results, todo, 0

    def __call__(self, why: str) -> None:
        point = self.todo[self.at]
        print(f"{_words(point)}: {why}", flush=True)
        self.results["entries"].append(_entry(point, None, why))
        write(self.out, self.results)
        os._exit(1)


def timed(size: Size, artifacts: list[Any], failed: _Failed) -> list[dict]:
    """Time all of one shape and cuBLAS in turns. Raises RuntimeError where a launch fails, or its output is
    not cuBLAS's; ``failed.at`` says which.
    """
    import torch

    from course_utils.run.gpu import timing

    rng = random.Random(SEED)
    seconds: list[list[float]] = []
    spacers = []
    with timing.GpuState() as state:
        for turn in range(ALLOCATIONS):
            torch.cuda.empty_cache()
            spacers.append(torch.empty(turn * timing.SPACER_BYTES, device="cuda", dtype=torch.uint8))
            clock = threading.Timer(PATIENCE, failed, ["it hangs, or the one before it does"])
            clock.daemon = True
            clock.start()
            try:
                seconds += _rounds(artifacts, rng, failed)
            finally:
                clock.cancel()
    return [
        timing.summary(size, [(row[n], row[-1]) for row in seconds], state, "burst")
        for n in range(len(artifacts))
    ]


def _rounds(artifacts: list[Any], rng: random.Random, failed: _Failed) -> list[list[float]]:
    """A share of the rounds, in memory of their own."""
    from course_utils.run.gpu import timing

    here = timing.Problem(artifacts[0], 1, rng.randrange(2**31))
    memory = zip(artifacts[0].tensors, [*here.inputs[0], here.D], strict=True)
    addresses = {tensor.name: values.data_ptr() for tensor, values in memory}
    here.run_cublas(0)  # what the first outputs are compared with
    kernels: list[Any] = []
    for failed.at, artifact in enumerate(artifacts):
        kernels.append(timing.Kernel(artifact, addresses))
        for _ in range(2):
            _launched(here, kernels[-1])
    found = [_round(here, kernels, rng, failed) for _ in range(ROUNDS // ALLOCATIONS)]
    for kernel in kernels:
        kernel.unload()
    here.unload()
    return found


def _round(here: Any, kernels: list[Any], rng: random.Random, failed: _Failed) -> list[float]:
    """Seconds of each kernel, and last of cuBLAS, once each on the same fresh inputs, in a new order."""
    here.refresh(0)
    here.run_cublas(0)  # what every output is compared with
    sides = [*kernels, None]
    took = [0.0] * len(sides)
    for index in rng.sample(range(len(sides)), len(sides)):
        failed.at = min(index, len(kernels) - 1)
        took[index] = _launched(here, sides[index])
        time.sleep(REST_SECONDS)
    return took


def _launched(here: Any, kernel: Any) -> float:
    """Seconds of one launch of a kernel, or of cuBLAS for None, after L2 was flushed."""
    import torch

    from course_utils.run.gpu import timing

    stream = torch.cuda.current_stream().cuda_stream
    here.poison()
    torch.cuda._sleep(timing.LEAD_CYCLES)
    here.flush.zero_()
    begin, end = timing.elapsed(partial(kernel.launch, stream) if kernel else partial(here.run_cublas, 0))
    torch.cuda.synchronize()
    if kernel:
        here.check()
    return begin.elapsed_time(end) / 1e3


def _entry(point: dict, timing: dict | None, why: str) -> dict:
    return {**{key: value for key, value in point.items() if key != "place"}, "timing": timing, "why": why}


def _key(entry: dict) -> tuple:
    return entry["dsl"], tuple(entry["size"]), tuple(entry["plan"].values())


def _words(point: dict) -> str:
    return f"{' x '.join(map(str, point['size']))}  {point['dsl']}  {point['name']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("compile", "pack", "record"))
    parser.add_argument("path", type=Path, help="the folder of kernels, or the file that came back")
    parser.add_argument("dsl", nargs="?", choices=sorted(PLANS))
    parser.add_argument("--points", type=Path, help="DSL, size and plan of each kernel, as JSON")
    options = parser.parse_args()
    if options.what == "pack":
        pack(options.path, wanted(options.points))
    elif options.what == "record":
        record(options.path, ROOT / "solutions" / "measured")
    elif options.dsl:
        compile_all(options.path, options.dsl, wanted(options.points))
    else:
        parser.error("compile needs a DSL")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
