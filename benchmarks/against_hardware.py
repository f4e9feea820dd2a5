"""Hold the emulator against an H200: the same kernels on the same inputs, D beside D.

    python benchmarks/against_hardware.py compile build/kernels.zip     # where the DSLs are
    python benchmarks/against_hardware.py run build/kernels.zip build/hardware.npz      # where the GPU is
    python benchmarks/against_hardware.py compare build/kernels.zip build/hardware.npz  # where you like

The last writes solutions/measured/emulator.json: for each solution and size how far the two lie apart, and
for each wrong kernel what the emulator found beside what the H200 did (``wrong.json``).
"""

import datetime
import json
import sys
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
SIZES = ((256, 768, 320), (512, 256, 64), (768, 512, 448))
ONE_TILE = {"step01": ((128, 128, 64),), "step02": ((128, 128, 320), (128, 128, 64), (128, 128, 448))}
SEED = 20


def inputs(size):
    """A and B of one size, the same on any machine: NumPy's PCG64 is."""
    M, N, K = size
    generator = np.random.default_rng([SEED, M, N, K])
    return (
        generator.standard_normal((M, K), np.float32).astype(np.float16),
        generator.standard_normal((N, K), np.float32).astype(np.float16),
    )


def compile_all(path: str) -> None:
    from course_utils.compile import load as loading
    from course_utils.compile.factory import DSLS, compile_factory
    from course_utils.grading import steps

    with zipfile.ZipFile(path, "w") as archive:
        for dsl in DSLS:
            for step in steps.STEPS:
                factory = loading.load_factory(loading.solution_path(step, dsl))
                for size in ONE_TILE.get(step, SIZES):
                    artifact = compile_factory(factory, dsl, size)
                    archive.writestr(f"{step} {dsl} {'x'.join(map(str, size))}", artifact.to_bytes())
                print(step, dsl, flush=True)


def run_all(path: str, out: str) -> None:
    import torch

    from course_utils.artifact import Artifact
    from course_utils.run.gpu.launch import Kernel
    from course_utils.run.gpu.worker import device

    found = {"device": np.array(json.dumps(device()))}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            artifact = Artifact.from_bytes(archive.read(name))
            M, N, _ = artifact.problem
            A, B = (torch.from_numpy(a).cuda() for a in inputs(artifact.problem))
            D = torch.full((M, N), float("nan"), dtype=torch.float16, device="cuda")
            addresses = {t.name: x.data_ptr() for t, x in zip(artifact.tensors, (A, B, D), strict=True)}
            Kernel(artifact, addresses).launch(torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
            found[name] = D.cpu().numpy()
    np.savez_compressed(out, **found)
    print(f"{len(found) - 1} runs")


def compare_all(path: str, hardware: str) -> None:
    from course_utils.artifact import Artifact
    from course_utils.recordings import measured
    from course_utils.run.emulator import emulate

    there = np.load(hardware)
    device = json.loads(str(there["device"]))
    entries = []
    with zipfile.ZipFile(path) as archive:
        versions = {}
        for name in archive.namelist():
            artifact = Artifact.from_bytes(archive.read(name))
            versions |= artifact.versions
            M, N, K = artifact.problem
            A, B = inputs(artifact.problem)
            D = np.full((M, N), np.nan, np.float16)
            result = emulate(artifact, {"A": A, "B": B, "D": D}, seed=0)
            exact = A.astype(np.float64) @ B.astype(np.float64).T
            other = there[name]
            apart = np.abs(ordered(D) - ordered(other))
            step, dsl, _ = name.split()
            # elements that cancel to nearly nothing have tiny ulps: beside those, look at the differences and
            # the errors
            entries.append(
                {
                    "step": step,
                    "dsl": dsl,
                    "size": [M, N, K],
                    "executed": result.executed,
                    "finished": result.finished,
                    "findings": [f.kind for f in result.findings],
                    "elements": M * N,
                    "differ": int((apart > 0).sum()),
                    "largest_ulp": int(apart.max()),
                    "largest_difference": largest(D - other.astype(np.float64)),
                    "largest_error_emulator": largest(D - exact),
                    "largest_error_h200": largest(other - exact),
                }
            )
            last = entries[-1]
            print(name, last["differ"], last["largest_ulp"], last["largest_difference"], flush=True)
    keys = ("driver", "cuda_driver", "torch", "cuda_bindings")
    provenance = {
        "gpu": device["name"],
        "date": datetime.date.today().isoformat(),
        "versions": versions,
        **{key: device[key] for key in keys},
    }
    target = ROOT / "solutions" / "measured" / "emulator.json"
    wrong = wrong_kernels(measured.load("wrong"))
    record = {"provenance": provenance, "solutions": entries, "wrong": wrong}
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {target}")


def largest(difference) -> float:
    return float(np.abs(difference).max())


def ordered(a):
    """fp16 bit patterns as integers in the order of the numbers, so that a difference of one is one ulp."""
    bits = a.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def wrong_kernels(recorded: dict) -> list[dict]:
    """What a check in the emulator says of each wrong kernel, beside what the H200 did."""
    from course_utils.compile.errors import CompileError
    from course_utils.compile.factory import DSLS, compile_factory
    from course_utils.compile.faults import kernels
    from course_utils.grading import steps
    from course_utils.run import backends

    h200 = {entry["name"]: entry for entry in recorded["entries"]}
    rows, machine = [], backends.Emulator()
    for dsl in DSLS:
        for name, wrong in kernels(dsl).items():
            kinds, right, ended = set(), True, True
            try:
                for size, ctas in steps.find(wrong.step).emulated:
                    artifact = compile_factory(wrong.factory(), dsl, size)
                    answer = machine.ask(backends.Launch(size, artifact, ctas=ctas))
                    kinds |= set(answer.kinds)
                    right, ended = right and answer.ok, ended and answer.finished
            except CompileError:
                continue
            entry = h200[f"{name} {dsl}"]
            results = next(part for part in entry["checks"] if part["name"] == "results")
            rows.append(
                {
                    "name": name,
                    "dsl": dsl,
                    "step": wrong.step,
                    "emulator_right": right,
                    "emulator_ended": ended,
                    "kinds": sorted(kinds),
                    "h200_right": results["passed"],
                    "h200": results["detail"].split("\n")[0][:200],
                }
            )
            print(rows[-1]["name"], dsl, right, sorted(kinds), results["passed"], flush=True)
    return rows


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"compile": compile_all, "run": run_all, "compare": compare_all}[command](*arguments)
