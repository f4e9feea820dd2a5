"""Compile here, run there: one executable archive with compiled kernels, the checker and the runner.

The archive needs Python, torch and cuda-bindings on the GPU machine, and no DSL: what it carries are Artifacts.
"""

from __future__ import annotations

import datetime
import json
import sys
import zipfile
from pathlib import Path

from course_utils import steps
from course_utils.artifact import Artifact
from course_utils.verdict import Verdict

MAIN = "import sys\nfrom course_utils.bundle import main\nsys.exit(main())\n"
MODULES = ("__init__", "artifact", "bundle", "checker", "receipts", "results", "steps", "tensormap", "verdict",
           "compile/__init__", "compile/errors", "gpu/__init__", "gpu/client", "gpu/launch", "gpu/timing", "gpu/worker")
SUSTAINED_SIZES = tuple(size for size in steps.TIMED_SIZES if len(set(size)) == 1)


def write(path: str | Path, kernels: list[dict], compile_kernel, progress=lambda item: None) -> None:
    """Write a bundle. A kernel is a dict of ``name``, ``step``, ``dsl``, ``factory``, and ``timed``: whether to time it.

    ``compile_kernel(factory, dsl, size)`` makes an Artifact. Raises CompileError and OSError.
    """
    manifest = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        package = Path(__file__).parent
        for module in MODULES:
            archive.write(package / f"{module}.py", f"course_utils/{module}.py")
        archive.writestr("__main__.py", MAIN)
        for kernel in kernels:
            step = steps.find(kernel["step"])
            sizes = step.check_sizes + (step.timed_sizes if kernel["timed"] else ())
            versions = {}
            for size in dict.fromkeys(sizes):
                artifact = compile_kernel(kernel["factory"], kernel["dsl"], size)
                versions = artifact.versions
                archive.writestr(_entry(kernel["name"], size), artifact.to_bytes())
                progress((kernel["name"], size))
            manifest.append({key: kernel[key] for key in ("name", "step", "dsl", "timed")} | {"versions": versions})
        archive.writestr("manifest.json", json.dumps(manifest, indent=1))


def _entry(name: str, size) -> str:
    return f"artifacts/{name}/{'x'.join(map(str, size))}.zip"


def run(path: str | Path, time_limit: float, quick: bool = False, say=print) -> dict:
    """Check and time every kernel of a bundle on the GPU of this machine. Returns the results with their provenance.

    ``quick`` leaves the sustained runs out. Raises RuntimeError where there is no Hopper GPU.
    """
    from course_utils import checker

    device, reason = checker.find_gpu()
    if device is None:
        raise RuntimeError(reason)
    entries = []
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        say(f"{device['name']}, driver {device['driver']}, torch {device['torch']}: {len(manifest)} kernels")
        for kernel in manifest:
            step = steps.find(kernel["step"])
            prefix = f"artifacts/{kernel['name']}/"
            artifacts = {}
            for name in archive.namelist():
                if name.startswith(prefix):
                    size = tuple(int(n) for n in name.removeprefix(prefix).removesuffix(".zip").split("x"))
                    artifacts[size] = Artifact.from_bytes(archive.read(name))
            timed = {} if not kernel["timed"] else {
                size: ("burst", "sustained") if size in SUSTAINED_SIZES and not quick else ("burst",)
                for size in step.timed_sizes}
            verdict = checker.check_artifacts(step, kernel["dsl"], artifacts, "gpu", time_limit=time_limit, timed=timed)
            entries.append(entry(kernel["name"], verdict))
            say(summary(kernel["name"], verdict))
    return {"provenance": provenance(device, {k["dsl"]: k["versions"] for k in manifest}), "entries": entries}


def entry(name: str, verdict: Verdict) -> dict:
    """One kernel's part of a results file."""
    fields = verdict.to_dict()
    fields["timings"] = fields.pop("timing")
    return {"name": name, **fields}


def provenance(device: dict, versions: dict[str, dict]) -> dict:
    """Where results come from: GPU, driver, libraries, compilers and the day."""
    merged = {package: number for one in versions.values() for package, number in one.items()}
    keys = ("driver", "cuda_driver", "torch", "cublas_cuda", "sms", "memory_bytes")
    return {"gpu": device["name"], "date": datetime.date.today().isoformat(), "versions": merged,
            **{key: device[key] for key in keys}}


def summary(name: str, verdict: Verdict) -> str:
    """One kernel's line of the printed ladder."""
    results = next(part for part in verdict.checks if part.name == "results")
    runs = "  ".join(f"{'x'.join(map(str, t['size']))} {t['mode']} {t['tflops']:.1f} TFLOP/s, {t['ratio']:.3f} of cuBLAS"
                     for t in verdict.timing)
    return f"{name:28} {results.state:8} {runs or verdict.diagnosis.splitlines()[0][:160] if verdict.diagnosis or runs else ''}"


def main(argv: list[str] | None = None) -> int:
    """The command of the archive itself: ``python OUT.pyz --out results.json [--time-limit S] [--quick]``."""
    import argparse

    parser = argparse.ArgumentParser(description="Check and time the kernels of this archive on this machine's Hopper GPU.")
    parser.add_argument("--out", default="results.json", help="where to write the results (default: results.json)")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds one launch may take (default: 20)")
    parser.add_argument("--quick", action="store_true", help="leave out the sustained runs")
    options = parser.parse_args(argv)
    try:
        results = run(sys.argv[0], options.time_limit, options.quick,
                      say=lambda line: print(line, flush=True))
    except (RuntimeError, ModuleNotFoundError) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    Path(options.out).write_text(json.dumps(results, indent=1))
    print(f"wrote {options.out}; `course import {Path(options.out).name}` records it")
    return 0
