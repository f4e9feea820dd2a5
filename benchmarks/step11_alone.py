"""What each change of step 11 is worth, alone: a bundle to run on a GPU machine, where all kernels of a size
take turns with cuBLAS and with step 11 as it is.

    python benchmarks/step11_alone.py build/alone.pyz
    python alone.pyz --out candidates.json [--seconds 200] [--only NAME] [--list]      # there
    cp candidates.json solutions/measured/                                             # here

Every kernel is first held against a right D, in a process that may hang. Results are saved after each size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_utils.artifact import Artifact
from course_utils.grading import words
from course_utils.plans import BLOCK_K, Plan, choose
from course_utils.recordings import bundle
from course_utils.run import backends
from course_utils.run.backends import Launch

if TYPE_CHECKING:
    from benchmarks.step11_edits import Change

ROOT = Path(__file__).parents[1]
Size = tuple[int, int, int]
SQUARE, LARGE, HUGE = (4096, 4096, 4096), (8192, 8192, 8192), (12288, 12288, 12288)
OBLONG, RAGGED = (8192, 2304, 5120), (4104, 4104, 4104)
BURSTS = SQUARE, RAGGED, LARGE, OBLONG, HUGE
SMALL = (648, 520, 1032)  # ragged, and some turns of the ring: checked only
SMALL_EVEN = (648, 520, 1024)  # for what needs K tiles that are a multiple of the stages
UNCHANGED = "step 11"
SAMPLES, REST_SECONDS = 30, 0.01  # of a burst; for each launch, so that the power limit stays out
HOT = (  # what is timed sustained too
    UNCHANGED,
    "waits that spin",
    "the ring's stages written out",
    "the last tile leaves through A's ring",
    "D by stmatrix",
    "L2 asked for 256 bytes",
    "all that may win",
)
HOT_SAMPLES, HEAT_SECONDS = 6, 4.0
CHECK_LIMIT = 8.0  # seconds for one launch that is checked
ROUND_LIMIT = 60.0  # seconds for one round of all kernels of a size: more is a hang
SHARED = 232_448 - 1024  # as step 11 has it


def stages(plan: Plan) -> int:
    """The stages of step 11's ring."""
    epi_N = 64 if plan.block_M == 128 else 32
    free = SHARED - 2 * plan.block_M * epi_N * 2
    return free // ((plan.block_M + plan.block_N) * BLOCK_K * 2)


def fits(change: Change, size: Size, plan: Plan) -> bool:
    """Can the change be made of this plan, at this size?"""
    if change.plan and size not in (SMALL, RAGGED, OBLONG):  # elsewhere the last wave is full, or nearly
        return False
    if change.overlap and (plan.block_M != 128 or plan.block_N % 64):
        return False
    return not change.stages or -(-size[2] // BLOCK_K) % stages(plan) == 0 == plan.block_N // 64 % stages(
        plan
    )


def build(path: str) -> None:
    """Compile all changes at all sizes that they fit, and write the archive."""
    from benchmarks.step11_edits import CHANGES, UNEDITED
    from course_utils.compile.errors import CompileError
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import plant

    manifest = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        bundle.carry(archive)
        archive.write(__file__, "step11_alone.py")
        archive.writestr("__main__.py", "import sys, step11_alone\nsys.exit(step11_alone.run())\n")
        for name, change in {UNCHANGED: UNEDITED, **CHANGES}.items():
            for dsl in ("cute", "tilelang"):
                edits = getattr(change, dsl)
                entry: dict[str, Any] = {"name": name, "dsl": dsl, "artifacts": {}, "why": ""}
                entry["plan"] = change.plan and change.plan._asdict()
                manifest.append(entry)
                if isinstance(edits, str):
                    entry["why"] = edits
                    continue
                gemm = plant("step11", dsl, *edits)
                for size in (SMALL_EVEN if change.stages else SMALL, *BURSTS):
                    plan = Plan(num_ctas=4) if size in (SMALL, SMALL_EVEN) else change.plan or choose(*size)
                    if not fits(change, size, plan):
                        continue
                    try:
                        artifact = compile_factory(partial(gemm, plan=plan), dsl, size)
                    except CompileError as error:
                        entry["why"] = str(error)
                        print(f"left out: {name} {dsl} {size}: {error}", flush=True)
                        break
                    if artifact.resources.spill_stores or artifact.resources.warnings:
                        print(f"{name} {dsl} {size}: {artifact.resources}", flush=True)
                    place = f"artifacts/{len(archive.namelist())}.zip"
                    archive.writestr(place, change.of(artifact).to_bytes())
                    entry["artifacts"][_words(size)] = place
                    entry["versions"] = artifact.versions
                print(f"{dsl:8} {name}: {' '.join(entry['artifacts']) or entry['why']}", flush=True)
        archive.writestr("manifest.json", json.dumps(manifest, indent=1))


def _words(size: Size) -> str:
    return "x".join(map(str, size))


class Recording:
    """What is found, written to ``out`` whenever something is added."""

    def __init__(self, out: Path, device: dict, manifest: list[dict]) -> None:
        versions = {entry["dsl"]: entry["versions"] for entry in manifest if entry.get("versions")}
        self.out, self.data = out, {"provenance": bundle.provenance(device, versions), "entries": []}

    def add(self, *entries: dict) -> None:
        self.data["entries"] += entries
        self.out.write_text(json.dumps(self.data, indent=1))


def run() -> int:
    """The archive's command: check every kernel, then time them in turns."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="candidates.json")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument(
        "--only", default="", help="changes whose name contains this, beside step 11 as it is"
    )
    parser.add_argument("--list", action="store_true", help="say what is in the archive, and run nothing")
    options = parser.parse_args()
    begin = time.monotonic()
    with zipfile.ZipFile(sys.argv[0]) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        wanted = [e for e in manifest if options.only in e["name"] or e["name"] == UNCHANGED]
        if options.list:
            for entry in wanted:
                print(f"{entry['dsl']:8} {entry['name']}: {' '.join(entry['artifacts']) or entry['why']}")
            return 0
        device, reason = backends.find_gpu()
        if device is None:
            print(f"cannot run: {reason}", file=sys.stderr)
            return 2
        print(f"{device['name']}, driver {device['driver']}", flush=True)
        recording = Recording(Path(options.out), device, manifest)
        right = list(_right(archive, wanted, recording))
        print(f"{time.monotonic() - begin:4.0f} s  {len(right)} kernels are right", flush=True)
        for mode, size in (("burst", SQUARE), ("burst", RAGGED), ("burst", LARGE), ("sustained", LARGE),
                           ("burst", OBLONG), ("burst", HUGE)):  # fmt: skip
            for dsl in ("cute", "tilelang"):
                if time.monotonic() - begin > options.seconds - (28 if mode == "sustained" else 12):
                    print(f"no time is left for {mode} {_words(size)} {dsl}", flush=True)
                    continue
                chosen = [e for e in right if e["dsl"] == dsl and _words(size) in e["artifacts"]]
                chosen = [e for e in chosen if mode == "burst" or e["name"] in HOT]
                if UNCHANGED not in [e["name"] for e in chosen]:
                    print(f"step 11 itself is not right: {mode} {_words(size)} {dsl}", file=sys.stderr)
                    continue
                _time(archive, chosen, mode, size, recording)
                print(f"{time.monotonic() - begin:4.0f} s", flush=True)
    return 0


def _right(archive: zipfile.ZipFile, wanted: list[dict], recording: Recording) -> Iterator[dict]:
    """Those whose D is right, at a small size and at a large one; why not goes to ``recording``."""
    gpu = backends.Gpu(CHECK_LIMIT)
    for entry in wanted:
        why = entry["why"]
        for size in list(entry["artifacts"])[:2] if not why else ():
            artifact = Artifact.from_bytes(archive.read(entry["artifacts"][size]))
            answer = gpu.ask(Launch(artifact.problem, artifact))
            if not answer.ok:
                why = f"{size}: {answer.error} {answer.detail} {words.text(*answer.causes)}".strip()
                break
        if why:
            print(f"not timed: {entry['dsl']} {entry['name']}: {why[:200]}", flush=True)
            recording.add({"name": entry["name"], "dsl": entry["dsl"], "timing": None, "why": why})
        else:
            yield entry


def _time(archive: zipfile.ZipFile, chosen: list[dict], mode: str, size: Size, recording: Recording) -> None:
    """All kernels of a size, in turns; a hang ends the process, and what was written stays."""
    artifacts = {e["name"]: Artifact.from_bytes(archive.read(e["artifacts"][_words(size)])) for e in chosen}
    dsl, work = chosen[0]["dsl"], _bursts if mode == "burst" else _batches

    def hung() -> None:
        print(f"a launch hangs: {mode} {_words(size)} {dsl}", file=sys.stderr, flush=True)
        os._exit(3)

    watch = threading.Timer(ROUND_LIMIT, hung)
    watch.daemon = True
    watch.start()
    try:
        times, state = work(artifacts)
    except RuntimeError as error:  # a wrong D and a driver's error are ones
        print(f"{mode} {_words(size)} {dsl}: {error}", file=sys.stderr, flush=True)
        recording.add({"name": "", "dsl": dsl, "size": size, "mode": mode, "timing": None, "why": str(error)})
        return
    finally:
        watch.cancel()
    plans = {e["name"]: e["plan"] or choose(*size)._asdict() for e in chosen}
    found = [_entry(name, dsl, size, mode, plans[name], times, state) for name in artifacts]
    recording.add(*found)
    for entry in found:
        timing, beside = entry["timing"], entry["beside"]
        low, high = beside["quartiles"]
        print(
            f"{mode[:5]} {_words(size):18} {dsl:8} {entry['name']:38} {timing['tflops']:6.1f} TFLOP/s, "
            f"{timing['ratio']:.4f} of cuBLAS, {beside['ratio']:.4f} of step 11 ({low:.4f} to {high:.4f})",
            flush=True,
        )


Times = dict[str, list[float]]  # seconds by name, "" is cuBLAS


def _entry(name: str, dsl: str, size: Size, mode: str, plan: dict, times: Times, state: Any) -> dict:
    import statistics

    from course_utils.run.gpu import timing

    pairs = list(zip(times[name], times[""], strict=True))
    gains = [old / new for old, new in zip(times[UNCHANGED], times[name], strict=True)]
    low, _, high = statistics.quantiles(gains, n=4)
    return {
        "name": name,
        "dsl": dsl,
        "size": list(size),
        "mode": mode,
        "plan": plan,
        "timing": timing.summary(size, pairs, state, mode),
        "beside": {"ratio": statistics.median(gains), "quartiles": [low, high]},
        "why": "",
    }


def _sides(problem: Any, artifacts: dict[str, Artifact]) -> tuple[dict[str, Callable[[int], None]], list]:
    """What launches each kernel, and cuBLAS, on the problem's tensors; and the kernels, to be unloaded."""
    import torch

    from course_utils.run.gpu.launch import Kernel

    kernels = {
        name: [
            Kernel(one, dict(zip("ABD", (t.data_ptr() for t in (*given, problem.D)), strict=True)))
            for given in problem.inputs
        ]
        for name, one in artifacts.items()
    }

    def launch(name: str, index: int) -> None:
        kernels[name][index].launch(torch.cuda.current_stream().cuda_stream)

    sides: dict[str, Callable[[int], None]] = {name: partial(launch, name) for name in artifacts}
    return {"": problem.run_cublas, **sides}, [one for all_of in kernels.values() for one in all_of]


def _bursts(artifacts: dict[str, Artifact]) -> tuple[Times, Any]:
    """Single launches on fresh inputs behind a flushed L2, in an order that turns; every D is checked."""
    import torch

    from course_utils.run.gpu import timing

    times: Times = {name: [] for name in ("", *artifacts)}
    spacers = []
    with timing.GpuState() as state:
        for turn in range(timing.ROUNDS):
            torch.cuda.empty_cache()
            spacers.append(torch.empty(turn * timing.SPACER_BYTES, device="cuda", dtype=torch.uint8))
            problem = timing.Problem(artifacts[UNCHANGED], 1, int.from_bytes(os.urandom(3), "big"))
            sides, kernels = _sides(problem, artifacts)
            try:
                for side in sides.values():
                    side(0)
                names = list(sides)
                for index in range(SAMPLES // timing.ROUNDS):
                    problem.refresh(0)
                    problem.run_cublas(0)
                    at = index * 5 % len(names)
                    for name in names[at:] + names[:at]:
                        times[name].append(_burst(problem, sides[name], name))
            finally:
                torch.cuda.synchronize()
                problem.unload()
                for kernel in kernels:
                    kernel.unload()
    return times, state


def _burst(problem: Any, side: Callable[[int], None], name: str) -> float:
    import torch

    from course_utils.run.gpu import timing

    problem.poison()
    torch.cuda._sleep(timing.LEAD_CYCLES)
    problem.flush.zero_()
    first, last = timing.elapsed(partial(side, 0))
    torch.cuda.synchronize()
    if name:
        _require_right(problem, name)
    time.sleep(REST_SECONDS)
    return first.elapsed_time(last) / 1e3


def _require_right(problem: Any, name: str) -> None:
    try:
        problem.check()
    except RuntimeError as error:
        raise RuntimeError(f"{name}: {error}") from None


def _batches(artifacts: dict[str, Artifact]) -> tuple[Times, Any]:
    """The second half of batches of launches, after some seconds of load."""
    import torch

    from course_utils.run.gpu import timing

    problem = timing.Problem(artifacts[UNCHANGED], timing.INPUT_SETS, int.from_bytes(os.urandom(3), "big"))
    sides, kernels = _sides(problem, artifacts)
    times: Times = {name: [] for name in sides}
    try:
        first, last = timing.elapsed(partial(timing._batch, sides[UNCHANGED], 8))
        torch.cuda.synchronize()
        length = max(1, round(8 * timing.BATCH_SECONDS / 2 / (first.elapsed_time(last) / 1e3)))
        begin, names = time.monotonic(), list(sides)
        with timing.GpuState() as state:
            while time.monotonic() - begin < HEAT_SECONDS:
                timing._batch(sides[UNCHANGED], length)
                torch.cuda.synchronize()
            state.restart()
            for index in range(HOT_SAMPLES):
                at = index * 5 % len(names)
                problem.run_cublas(0)
                for name in names[at:] + names[:at]:
                    problem.poison()
                    timing._batch(sides[name], length)
                    marks = timing.elapsed(partial(timing._batch, sides[name], length))
                    sides[name](0)  # the inputs whose D by cuBLAS is known
                    torch.cuda.synchronize()
                    if name:
                        _require_right(problem, name)
                    times[name].append(marks[0].elapsed_time(marks[1]) / 1e3 / length)
    finally:
        torch.cuda.synchronize()
        problem.unload()
        for kernel in kernels:
            kernel.unload()
    return times, state


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.path.insert(0, str(ROOT))
    build(sys.argv[1])
