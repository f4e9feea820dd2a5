"""Which plan of step 11 is worth what, at which size: a bundle to run on a GPU machine, each point beside
cuBLAS.

    python benchmarks/step11.py build/step11.pyz
    python step11.pyz --out step11.json [--seconds 280] [--only NAME]     # there
    python step11.pyz --counters --out counters.json                      # there, where ncu is

The most promising points come first, and results are saved after each: a run that is cut loses nothing.
Counters are those of the chosen plans and of cuBLAS, at three sizes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

from course_utils.artifact import Artifact
from course_utils.grading import words
from course_utils.plans import Plan, choose, plans, powered
from course_utils.recordings import bundle, counters
from course_utils.run import backends

ROOT = Path(__file__).parents[1]
Size = tuple[int, int, int]
SQUARE, LARGE, OBLONG = (4096, 4096, 4096), (8192, 8192, 8192), (8192, 2304, 5120)
COUNTED = SQUARE, LARGE, OBLONG
# the fixed set: M, N, K. In 7B and 70B layers M is the tokens of a batch, N what the layer puts out
# fmt: off
SHAPES: dict[str, Size] = {
    "square 2048": (2048, 2048, 2048), "square 3072": (3072, 3072, 3072), "square 4096": SQUARE,
    "square 5120": (5120, 5120, 5120), "square 6144": (6144, 6144, 6144), "square 8192": LARGE,
    "square 12288": (12288, 12288, 12288), "square 16384": (16384, 16384, 16384), "oblong": OBLONG,
    "oblong, deep": (4096, 4096, 11264), "tall": (16384, 2048, 4096), "tall, shallow": (32768, 1024, 2048),
    "wide": (2048, 16384, 4096), "wide, shallow": (1024, 32768, 2048), "7B qkv": (4096, 12288, 4096),
    "7B up": (4096, 11008, 4096), "7B down": (4096, 4096, 11008), "70B qkv": (4096, 10240, 8192),
    "70B up": (4096, 28672, 8192), "70B down": (4096, 8192, 28672), "ragged 4104": (4104, 4104, 4104),
    "ragged 5000": (5000, 3000, 2000), "ragged 8200": (8200, 2312, 5128), "ragged 7784": (7784, 4680, 3336),
}
# fmt: on
HUGE = SHAPES["square 12288"], SHAPES["square 16384"]
RAGGED = [size for name, size in SHAPES.items() if name.startswith("ragged")]
# where the model's first plans are so near each other that only a measurement says which is the quickest
CLOSE = [SHAPES[name] for name in ("square 3072", "square 6144", "70B up", "wide, shallow", "7B qkv")]
HILBERT = "Hilbert"
# what is in flight, as rows and columns of D: 8 x 8 clusters of 256 x 256 are a square of 2048, 5 x 13 of
# 512 x 192 one of 2560 x 2496, 10 x 13 tiles of 256 x 192 the same without clusters
HUGE_PLANS = (
    (128, 256, 2, 132, 8),
    (256, 192, 2, 132, 5),
    (256, 192, 1, 132, 10),
    (128, 256, 2, 132, 11),
    (128, 256, 2, 128, 8),
    (128, 256, 2, 128, 16),
    (128, 256, 2, 128, 4),
)
HOT_PLANS = (128, 256, 2, 128, 8), (256, 192, 1, 128, 10), (128, 256, 2, 132, 8)  # at LARGE, sustained
HANG_SECONDS = 30.0  # a sustained run takes half of it
Point = tuple[
    str, Size, str, tuple, str
]  # DSL, size, mode, the plan's fields, and the order if it is HILBERT


def points() -> dict[Point, str]:
    """What is measured, the most promising first, and its name."""
    found: dict[Point, str] = {}

    def add(dsl: str, size: Size, plan: tuple, mode: str = "burst", order: str = "") -> None:
        name = "{}x{}, cluster {}, {} CTAs, panel {}".format(*plan)
        name = f"{name.rpartition(',')[0]}, {order}" if order else name
        if plan == choose(*size) and not order:
            name = "chosen: " + name
        found.setdefault((dsl, size, mode, tuple(plan), order), name)

    by_work = sorted(SHAPES.values(), key=lambda size: size[0] * size[1] * size[2])
    for size in by_work:  # where the choice is another one than step 10's tile
        for dsl in ("cute", "tilelang"):
            if choose(*size) != Plan():
                add(dsl, size, choose(*size))
    for size in (*RAGGED, OBLONG):
        for plan in _ranking(size)[:4]:
            add("cute", size, plan)
    for size in HUGE:
        for plan in HUGE_PLANS[:3]:
            add("cute", size, plan)
        add("cute", size, Plan(), order=HILBERT)
        add("tilelang", size, HUGE_PLANS[1])
        for plan in HUGE_PLANS[3:]:
            add("cute", size, plan)
    for plan in HOT_PLANS:
        add("tilelang", LARGE, plan, "sustained")
    for size in by_work:
        for dsl in ("tilelang", "cute"):
            add(dsl, size, choose(*size))
    for size in CLOSE:
        for plan in _ranking(size)[:3]:
            add("cute", size, plan)
    return found


def _ranking(size: Size) -> list[tuple]:
    """The best plan of each tile by the model, the quickest first."""
    best: dict[tuple, tuple] = {}
    for plan in sorted(plans(), key=lambda plan: powered(*size, plan)):
        best.setdefault(plan[:2], plan)
    return list(best.values())


def build(path: str) -> None:
    """Compile the points and write the archive."""
    from course_utils.compile.errors import CompileError
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import load_module, solution_path

    step = {dsl: load_module(solution_path("step11", dsl)) for dsl in ("cute", "tilelang")}
    step[HILBERT] = load_module(solution_path("step11", "cute"))  # the same with another order of tiles
    step[HILBERT].panels = load_module(ROOT / "benchmarks" / "candidates" / "step11_hilbert.py").hilbert
    made: dict[tuple, str] = {}
    manifest = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        bundle.carry(archive)
        archive.write(__file__, "step11.py")
        archive.writestr("__main__.py", "import sys, step11\nsys.exit(step11.run())\n")
        wanted = points()
        for index, ((dsl, size, mode, fields, order), name) in enumerate(wanted.items()):
            plan, key = Plan(*fields), (dsl, size, fields, order)
            if key not in made:
                try:
                    factory = partial(step[order or dsl].gemm, plan=plan)
                    artifact = compile_factory(factory, dsl, size)
                except CompileError as error:
                    print(f"left out: {name} {dsl} {size}: {error}", flush=True)
                    continue
                spilled = artifact.resources.spill_stores + artifact.resources.spill_loads
                if spilled or artifact.resources.warnings:
                    print(f"{name} {dsl} {size}: {spilled} bytes spilled, {artifact.resources.warnings}")
                made[key] = f"artifacts/{len(made)}.zip"
                archive.writestr(made[key], artifact.to_bytes())
            manifest.append(
                {
                    "name": name,
                    "dsl": dsl,
                    "size": size,
                    "mode": mode,
                    "artifact": made[key],
                    "plan": plan._asdict(),
                    "order": order,
                    "model_us": round(powered(*size, plan) * 1e6, 1),
                }
            )
            print(f"{index + 1} of {len(wanted)}: {dsl} {size} {name}", flush=True)
        archive.writestr("manifest.json", json.dumps(manifest, indent=1))
    print(f"{len(manifest)} points in {path}")


def run() -> int:
    """The archive's command: time the points in order, as far as the time goes, or read counters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="step11.json")
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--only", default="", help="points whose name, DSL or size contains this")
    parser.add_argument("--counters", action="store_true", help="read counters of chosen plans by ncu")
    options = parser.parse_args()
    device, reason = backends.find_gpu()
    if device is None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    print(f"{device['name']}, driver {device['driver']}", flush=True)
    out = Path(options.out)
    with zipfile.ZipFile(sys.argv[0]) as archive:
        manifest = [
            {**point, "size": tuple(point["size"])} for point in json.loads(archive.read("manifest.json"))
        ]
        if options.counters:
            return _count(archive, manifest, device, out)
        wanted = [p for p in manifest if options.only in f"{p['name']} {p['dsl']} {_size(p)}"]
        entries = _time(archive, wanted, device, out, options.seconds)
    print(f"\n{len(entries)} points of {len(wanted)}, by size:")
    for entry in sorted(entries, key=lambda e: (e["mode"], e["size"], -_ratio(e))):
        print(_line(entry))
    return 0


def _time(
    archive: zipfile.ZipFile, wanted: list[dict], device: dict, out: Path, seconds: float
) -> list[dict]:
    """Each point's timing, or why it has none; written to ``out`` after each."""
    begin = time.monotonic()
    gpu, entries = backends.Gpu(), []
    hung: set[tuple[str, int]] = set()  # each would cost its time limit again
    backends.TIMING_LIMIT = HANG_SECONDS
    for point in wanted:
        form = point["dsl"], point["plan"]["cluster"]
        if form in hung:
            continue
        if time.monotonic() - begin > seconds - (14 if point["mode"] == "sustained" else 4):
            break
        artifact = Artifact.from_bytes(archive.read(point["artifact"]))
        answer = gpu.time(artifact, point["mode"])
        if answer.error == "timeout":
            hung.add(form)
        why = f"{answer.error} {answer.detail} {words.text(*answer.causes)}".strip()
        entries.append({**point, "timing": answer.timing, "why": "" if answer.timing else why})
        where = bundle.provenance(device, {point["dsl"]: artifact.versions})
        out.write_text(json.dumps({"provenance": where, "entries": entries}, indent=1))
        print(f"{time.monotonic() - begin:4.0f} s  {_line(entries[-1])}", flush=True)
    return entries


def _count(archive: zipfile.ZipFile, manifest: list[dict], device: dict, out: Path) -> int:
    """Counters of the chosen plans at ``COUNTED``, to ``out`` as far as they are read."""
    artifacts: dict[str, dict[Size, Artifact]] = {}
    versions = {}
    for point in manifest:
        if point["mode"] == "burst" and point["name"].startswith("chosen") and point["size"] in COUNTED:
            artifact = Artifact.from_bytes(archive.read(point["artifact"]))
            artifacts.setdefault(point["dsl"], {})[point["size"]] = artifact
            versions[point["dsl"]] = artifact.versions
    kernels = [counters.Kernel(f"step11 {dsl}", "step11", dsl, made) for dsl, made in artifacts.items()]
    where = bundle.provenance(device, versions)

    def say(line: str) -> None:
        print(line, flush=True)

    def keep(found: dict) -> None:
        out.write_text(json.dumps(found, indent=1))

    try:
        with open(out.with_suffix(".csv"), "w", buffering=1) as table:
            keep(counters.measure(kernels, where, say, table.write, keep))
    except RuntimeError as error:  # an NcuError is one
        print(f"cannot count: {error}", file=sys.stderr)
        return 2
    return 0


def _size(entry: dict) -> str:
    return "x".join(map(str, entry["size"]))


def _ratio(entry: dict) -> float:
    return entry["timing"]["ratio"] if entry["timing"] else 0.0


def _line(entry: dict) -> str:
    head = f"{_size(entry):18} {entry['dsl']:8} {entry['mode'][:5]} {entry['name']:44}"
    timing = entry["timing"]
    if not timing:
        return f"{head} {entry['why'][:120]}"
    low, high = timing["ratio_quartiles"]
    clock = timing["gpu"]["clock_mhz"]
    return (
        f"{head} {timing['seconds'] * 1e6:8.1f} us (model {entry['model_us']:7.1f}) {timing['tflops']:6.1f} "
        f"TFLOP/s, {timing['ratio']:.3f} of cuBLAS ({low:.3f} to {high:.3f}), {clock} MHz"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build(sys.argv[1])
