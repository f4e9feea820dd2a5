"""Which plan of step 11 is worth what, at which size: a bundle to run on a GPU machine, each point beside
cuBLAS.

    python benchmarks/step11.py build/step11.pyz
    python step11.pyz --out step11.json [--seconds 340] [--only NAME]     # there

The most promising points come first, and results are saved after each: a run that is cut loses nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from course_utils.artifact import Artifact
from course_utils.recordings import bundle
from course_utils.run import backends

ROOT = Path(__file__).parents[1]
SQUARE, LARGE, OBLONG = (4096, 4096, 4096), (8192, 8192, 8192), (8192, 2304, 5120)
# the fixed set: M, N, K. In 7B and 70B layers M is the tokens of a batch, N what the layer puts out
SHAPES = {
    "square 2048": (2048, 2048, 2048),
    "square 3072": (3072, 3072, 3072),
    "square 4096": SQUARE,
    "square 5120": (5120, 5120, 5120),
    "square 6144": (6144, 6144, 6144),
    "square 8192": LARGE,
    "square 12288": (12288, 12288, 12288),
    "square 16384": (16384, 16384, 16384),
    "oblong": OBLONG,
    "oblong, deep": (4096, 4096, 11264),
    "tall": (16384, 2048, 4096),
    "tall, shallow": (32768, 1024, 2048),
    "wide": (2048, 16384, 4096),
    "wide, shallow": (1024, 32768, 2048),
    "7B qkv": (4096, 12288, 4096),
    "7B up": (4096, 11008, 4096),
    "7B down": (4096, 4096, 11008),
    "70B qkv": (4096, 10240, 8192),
    "70B up": (4096, 28672, 8192),
    "70B down": (4096, 8192, 28672),
    "ragged 4104": (4104, 4104, 4104),
    "ragged 5000": (5000, 3000, 2000),
    "ragged 8200": (8200, 2312, 5128),
    "ragged 7784": (7784, 4680, 3336),
}
EVICT_FIRST, EVICT_LAST = 0x12F0000000000000, 0x14F0000000000000  # createpolicy's, as CuTe DSL takes them
HINTS = {  # L2 policies of A, B and D
    "keep A and B": ("last", "last", "first"),
    "keep A": ("last", "first", "first"),
    "D first out": (None, None, "first"),
}
SLICES = {"epi_N": 32}  # for tiles that are no multiple of 64 wide, or leave room for a stage more

# name: the fields of the plan that differ from step 10's tile, cluster, CTAs and order
CANDIDATES: dict[str, dict[str, Any]] = {
    "step 10's form": {"overlap": False},
    "overlap": {},
    "overlap, cluster 4x1": {"cluster_M": 4},
    "overlap, 128x192, 132": {"block_N": 192, "num_ctas": 132},
    "overlap, 128x192, 132, five stages": {"block_N": 192, "num_ctas": 132, **SLICES},
    "overlap, 132": {"num_ctas": 132},
    "overlap, cluster 2x2": {"cluster_N": 2},
    "overlap, cluster 4x2": {"cluster_M": 4, "cluster_N": 2},
    "overlap, cluster 2x4": {"cluster_M": 2, "cluster_N": 4},
    "256x192, three stages": {"block_M": 256, "block_N": 192, "overlap": False, **SLICES},
    "256x192, cluster 1x1": {"block_M": 256, "block_N": 192, "cluster_M": 1, "overlap": False, **SLICES},
    "overlap, 256x128": {"block_M": 256, "block_N": 128},
    "overlap, 256x128, cluster 1x2": {"block_M": 256, "block_N": 128, "cluster_M": 1, "cluster_N": 2},
    "overlap, 128x192, cluster 4x1": {"block_N": 192, "cluster_M": 4},
    "overlap, 128x224, 132": {"block_N": 224, "num_ctas": 132, **SLICES},
    "overlap, 128x160, 132": {"block_N": 160, "num_ctas": 132, **SLICES},
    "overlap, no cluster, 132": {"cluster_M": 1, "num_ctas": 132},
    "overlap, keep A": {"keep": "keep A"},
    "overlap, cluster 4x1, keep A": {"cluster_M": 4, "keep": "keep A"},
    "overlap, keep A and B": {"keep": "keep A and B"},
    "overlap, D first out": {"keep": "D first out"},
    "overlap, panel 4": {"panel": 4},
    "overlap, panel 16": {"panel": 16},
    "overlap, K forwards": {"back": False},
    "overlap, three stages": {"max_stages": 3},
    "step 10's form, cluster 4x1": {"cluster_M": 4, "overlap": False},
}
MOST = list(CANDIDATES)
# what is tried in TileLang, whose cluster is of rows alone, and at the oblong size
BEST = MOST[:5]
SUSTAINED = ["overlap", "overlap, cluster 4x1"]
HANG_SECONDS = 30.0  # a sustained run takes half of it
Point = tuple[str, str, tuple[int, int, int], str]  # name, DSL, size, mode


def points(choose: Callable[..., Any]) -> list[tuple[Point, dict[str, Any]]]:
    """What is measured, the most promising first, with the plan's fields."""
    found: dict[Point, dict[str, Any]] = {}

    def add(names: list[str], dsl: str, size: tuple[int, int, int], mode: str = "burst") -> None:
        for name in names:
            found.setdefault((name, dsl, size, mode), CANDIDATES[name])

    for size in (SQUARE, LARGE, OBLONG):
        add(BEST, "cute", size)
    for size in (SQUARE, LARGE, OBLONG):
        add(BEST[:4], "tilelang", size)
    add(MOST, "cute", LARGE)
    add(SUSTAINED, "cute", LARGE, "sustained")
    add(SUSTAINED[-1:], "tilelang", LARGE, "sustained")
    add(MOST, "cute", SQUARE)
    add([name for name in MOST if re.search(r"\d{3}x\d{3}", name)], "cute", OBLONG)
    for size in sorted(SHAPES.values(), key=lambda size: size[0] * size[1] * size[2]):
        add(["overlap"], "cute", size)
        for widest in (2, 4):
            plan = choose(*size, widest)._asdict()
            plan.pop("keep")
            found.setdefault((f"chosen, clusters up to {widest}", "cute", size, "burst"), plan)
    for size in SHAPES.values():
        plan = choose(*size, 2)._asdict()
        plan.pop("keep")
        found.setdefault(("chosen, clusters up to 2", "tilelang", size, "burst"), plan)
    return list(found.items())


def policies(dsl: str, hint: str) -> tuple:
    """L2 policies of A, B and D as this DSL names them."""
    names = {"cute": {"first": EVICT_FIRST, "last": EVICT_LAST}}
    own = names.get(dsl, {"first": "evict_first", "last": "evict_last"})
    return tuple(own.get(policy) for policy in HINTS.get(hint, (None, None, None)))


def build(path: str) -> None:
    """Compile the points and write the archive."""
    from course_utils.compile.errors import CompileError
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import load_module

    step = {
        dsl: load_module(ROOT / "benchmarks" / "candidates" / f"step11_{dsl}.py")
        for dsl in ("cute", "tilelang")
    }
    root = ROOT / "course_utils"
    made: dict[tuple, str] = {}
    manifest = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        modules = [root / "__init__.py", root / "artifact.py"]
        for package in bundle.PACKAGES:
            modules += sorted((root / package).rglob("*.py"))
        for module in modules:
            archive.write(module, module.relative_to(ROOT).as_posix())
        archive.write(__file__, "step11.py")
        archive.writestr("__main__.py", "import sys, step11\nsys.exit(step11.run())\n")
        wanted = points(step["cute"].choose)
        for index, ((name, dsl, size, mode), fields) in enumerate(wanted):
            plan = step[dsl].Plan(**{**fields, "keep": policies(dsl, fields.get("keep", ""))})
            key = dsl, size, plan
            if key not in made:
                try:
                    artifact = compile_factory(partial(step[dsl].gemm, plan=plan), dsl, size)
                except CompileError as error:
                    print(f"left out: {name} {dsl} {size}: {error}", flush=True)
                    continue
                spilled = artifact.resources.spill_stores + artifact.resources.spill_loads
                if spilled or artifact.resources.warnings:
                    print(f"{name} {dsl} {size}: {spilled} bytes spilled, {artifact.resources.warnings}")
                made[key] = f"artifacts/{len(made)}.zip"
                archive.writestr(made[key], artifact.to_bytes())
            elif mode == "burst":  # the same plan under another name
                name_there = next(p["name"] for p in manifest if p["artifact"] == made[key])
                print(f"{name} {dsl} {size} is {name_there}", flush=True)
                continue
            manifest.append(
                {
                    "name": name,
                    "dsl": dsl,
                    "size": size,
                    "mode": mode,
                    "artifact": made[key],
                    "plan": plan._asdict(),
                    "model_us": round(step[dsl].seconds(*size, plan) * 1e6, 1),
                }
            )
            print(f"{index + 1} of {len(wanted)}: {dsl} {size} {name}", flush=True)
        archive.writestr("manifest.json", json.dumps(manifest, indent=1))
    print(f"{len(manifest)} points in {path}")


def run() -> int:
    """The archive's command: time the points in order, as far as the time goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="step11.json")
    parser.add_argument("--seconds", type=float, default=340)
    parser.add_argument("--only", default="", help="points whose name, DSL or size contains this")
    parser.add_argument("--room", action="store_true", help="say how many clusters run at one time")
    options = parser.parse_args()
    if options.room:
        print(json.dumps(_clusters_at_once()))
        return 0
    begin = time.monotonic()
    device, reason = backends.find_gpu()
    if device is None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    gpu, entries = backends.Gpu(), []
    hung: set[tuple[str, int, int]] = set()
    backends.TIMING_LIMIT = HANG_SECONDS
    room = _room()
    print(f"{device['name']}, driver {device['driver']}; clusters that run at one time, by size: {room}")
    with zipfile.ZipFile(sys.argv[0]) as archive:
        for point in json.loads(archive.read("manifest.json")):
            size = "x".join(map(str, point["size"]))
            if options.only not in f"{point['name']} {point['dsl']} {size}":
                continue
            if time.monotonic() - begin > options.seconds - (14 if point["mode"] == "sustained" else 4):
                break
            form = point["dsl"], point["plan"]["cluster_M"], point["plan"]["cluster_N"]
            if form in hung:  # each would cost its time limit again
                continue
            artifact = Artifact.from_bytes(archive.read(point["artifact"]))
            answer = gpu.time(artifact, point["mode"])
            if answer.error == "timeout":
                hung.add(form)
            why = f"{answer.error} {answer.detail} {answer.diagnosis}".strip()
            entries.append({**point, "timing": answer.timing, "why": "" if answer.timing else why})
            where = bundle.provenance(device, {point["dsl"]: artifact.versions})
            found = {"provenance": where, "clusters_at_once": room, "entries": entries}
            Path(options.out).write_text(json.dumps(found, indent=1))
            print(f"{time.monotonic() - begin:4.0f} s  {_line(entries[-1])}", flush=True)
    print(f"\n{len(entries)} points, by size:")
    for entry in sorted(entries, key=lambda e: (e["mode"], e["size"], -_ratio(e))):
        print(_line(entry))
    return 0


def _room() -> dict[str, int]:
    """``_clusters_at_once``, by a process of its own, which alone holds the GPU's context; empty where it
    fails.
    """
    command = [sys.executable, sys.argv[0], "--room"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        print("clusters not counted within 60 s")
        return {}
    if done.returncode:
        print(f"clusters not counted: {done.stderr[-300:]}")
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def _clusters_at_once() -> dict[str, int]:
    """By a cluster's CTAs: how many such clusters of this kernel the GPU runs at one time. A grid of more
    leaves a part of it to a second round.
    """
    import torch
    from cuda.bindings import driver

    from course_utils.run.gpu.launch import Kernel, checked

    memory = torch.empty(1 << 28, device="cuda", dtype=torch.uint8)
    found = {}
    with zipfile.ZipFile(sys.argv[0]) as archive:
        for point in json.loads(archive.read("manifest.json")):
            artifact = Artifact.from_bytes(archive.read(point["artifact"]))
            size = str(artifact.cluster[0])
            if size in found or artifact.cluster == (1, 1, 1):
                continue
            kernel = Kernel(artifact, {tensor.name: memory.data_ptr() for tensor in artifact.tensors})
            asked = driver.cuOccupancyMaxActiveClusters(kernel.function, kernel.config)
            found[size] = checked(asked, "counting clusters")
    return found


def _ratio(entry: dict) -> float:
    return entry["timing"]["ratio"] if entry["timing"] else 0.0


def _line(entry: dict) -> str:
    size = "x".join(map(str, entry["size"]))
    head = f"{size:18} {entry['dsl']:8} {entry['mode'][:5]} {entry['name']:36}"
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
