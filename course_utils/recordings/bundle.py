"""Compile here, run there: one executable archive with compiled kernels, the checker and the runner.

The archive needs Python, torch and cuda-bindings on the GPU machine, and no DSL: what it carries are
Artifacts.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import math
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from course_utils import chips
from course_utils.artifact import Artifact
from course_utils.chips import HOME
from course_utils.grading import copy, gemm, hints, steps
from course_utils.grading.steps import CopyCase, Step
from course_utils.grading.verdict import Verdict
from course_utils.recordings import counters, signing
from course_utils.run import backends
from course_utils.run.backends import TIME_LIMIT, Gpu, Launch

MAIN = "import sys\nfrom course_utils.recordings.bundle import main\nsys.exit(main())\n"
PACKAGES = ("ptx", "tma", "compile", "run", "grading", "recordings")  # what a check needs, whole
SIGNING = "signing.json"  # of an archive: which kernels it holds, and the key that signs their results
SUSTAINED_SIZES = tuple(size for size in steps.TIMED_SIZES if len(set(size)) == 1)


def write(
    path: str | Path,
    kernels: list[dict],
    compile_kernel: Callable[..., Artifact],
    progress: Callable[[tuple], object] = lambda item: None,
    own_key: bytes | None = None,
) -> None:
    """Write a bundle. A kernel is a dict of ``name``, ``step``, ``dsl``, ``factory``, and ``timed``: whether
    to time it.

    ``compile_kernel(factory, dsl, size, problem, chip)`` makes an Artifact. With ``own_key`` the archive
    carries a key that is derived from it for these kernels, and signs what it finds. Raises CompileError and
    OSError.
    """
    manifest, found = [], hashlib.sha256()
    with contextlib.ExitStack() as undo, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        undo.callback(Path(path).unlink)  # half an archive is none
        carry(archive)
        archive.writestr("__main__.py", MAIN)
        for kernel in kernels:
            row = steps.kernel_row(kernel["step"])
            versions = {}
            for size in sizes(row, kernel["timed"]):
                artifact = compile_kernel(
                    kernel["factory"], kernel["dsl"], size, row.problem, steps.chip_of(kernel["step"])
                )
                versions = artifact.versions
                blob = artifact.to_bytes()
                found.update(f"{_entry(kernel, size)} {len(blob)}\n".encode() + blob)
                archive.writestr(_entry(kernel, size), blob)
                progress((kernel["name"], size))
            manifest.append(
                {key: kernel[key] for key in ("name", "step", "dsl", "timed")} | {"versions": versions}
            )
        archive.writestr("manifest.json", json.dumps(manifest, indent=1))
        if own_key:
            bundle = found.hexdigest()
            key = signing.derived(own_key, bundle).decode()
            archive.writestr(SIGNING, json.dumps({"bundle": bundle, "key": key}))
        undo.pop_all()


def sizes(row: Step | CopyCase, timed: bool) -> list[tuple[int, ...]]:
    """The sizes that a bundle carries of a kernel."""
    more = timed_sizes(row) if timed and isinstance(row, Step) else ()
    return list(dict.fromkeys([*steps.sizes_of(row), *more]))


def timed_sizes(row: Step) -> tuple[tuple[int, ...], ...]:
    """The sizes that an archive times a kernel at. A check times no Blackwell step, because nobody here has
    the chip; a machine that has one times it at the sizes of the Hopper step of its number.
    """
    twin = steps.STEPS.get(f"step{row.id[1:]}") if row.chip != HOME else None
    return twin.timed_sizes if twin else row.timed_sizes


def carry(archive: zipfile.ZipFile) -> None:
    """Put what a check of Artifacts needs of the course into an archive."""
    root = Path(__file__).parents[1]
    names = ("__init__.py", "artifact.py", "cause.py", "chips.py", "plans.py", "attention.py", "problems.py")
    modules = [root / name for name in names]
    for package in PACKAGES:
        modules += sorted((root / package).rglob("*.py"))
    for module in modules:
        archive.write(module, f"course_utils/{module.relative_to(root).as_posix()}")


def _entry(kernel: dict, size: tuple[int, ...]) -> str:
    return f"artifacts/{kernel['dsl']}/{kernel['name']}/{'x'.join(map(str, size))}.zip"


def run(
    path: str | Path,
    time_limit: float,
    quick: bool = False,
    say: Callable[[str], object] = print,
    seconds: float = math.inf,
    keep: Callable[[dict], object] = lambda results: None,
) -> dict:
    """Check and time every kernel of a bundle on the GPU of this machine. Returns the results with their
    provenance; ``keep`` gets them after each kernel too, as far as they are.

    ``quick`` leaves the sustained runs out, and ``seconds`` those that would begin later than that: the
    largest size and the last step come first. Kernels for another chip than this GPU's are not run, and their
    entries say why. Raises RuntimeError where there is no GPU, and where it can run none of the kernels.
    """
    begin = time.monotonic()
    device, reason = backends.find_any_gpu()
    if device is None:
        raise RuntimeError(reason)
    gpu = Gpu(time_limit)
    entries: list[dict] = []
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        refused = {k["step"]: chips.refusal(steps.chip_of(k["step"]), device) for k in manifest}
        if all(refused.values()):
            raise RuntimeError("; ".join(dict.fromkeys(refused.values())))
        where = provenance(device, {k["dsl"]: k["versions"] for k in manifest})

        def kept() -> dict:
            results = _signed(path, {"provenance": where, "entries": entries})
            keep(results)
            return results

        say(f"{device['name']}, driver {device['driver']}, torch {device['torch']}: {len(manifest)} kernels")
        for kernel in manifest:
            row = steps.kernel_row(kernel["step"])
            artifacts = _artifacts(archive, kernel)
            answered = gpu.run(Launch(size, artifacts[size], row.problem) for size in steps.sizes_of(row))
            if isinstance(row, Step):
                sizes_timed = timed_sizes(row) if kernel["timed"] and not refused[kernel["step"]] else ()
                timed = [(artifacts[size], "burst") for size in sizes_timed]
                verdict = gemm.judge(row, kernel["dsl"], gpu, answered, timed)
            else:
                verdict = copy.judge(row, kernel["dsl"], gpu, answered, "")
            entries.append(entry(kernel["name"], verdict))
            kept()
            say(summary(entries[-1]))
        # the hot runs last, so that every burst is a cool one
        hot = [] if quick else _hot(manifest, entries)
        for index, (kernel, done, size) in enumerate(hot):
            if time.monotonic() - begin > seconds:
                say(f"{len(hot) - index} of {len(hot)} sustained runs were left out: {seconds:g} s are over")
                break
            answer = gpu.time(
                _artifacts(archive, kernel)[size], "sustained", steps.find(kernel["step"]).problem
            )
            if answer.timing is None:
                why = hints.text(answer, _artifacts(archive, kernel)[size])
                say(f"{kernel['name']:38} sustained at {'x'.join(map(str, size))} failed: {why}")
                continue
            done["timings"].append(answer.timing)
            done["timings"].sort(key=_place)
            kept()
            say(summary(done, "sustained"))
    return kept()


def _hot(manifest: list[dict], entries: list[dict]) -> list[tuple[dict, dict, tuple[int, ...]]]:
    """The sustained runs of kernels that were timed: each kernel, its entry, and the size."""
    found = [
        (kernel, done, size)
        for kernel, done in zip(manifest, entries, strict=True)
        if done["timings"]
        for size in timed_sizes(steps.find(kernel["step"]))
        if size in SUSTAINED_SIZES
    ]
    return sorted(found, key=lambda one: (one[2], one[0]["step"]), reverse=True)


def _place(timing: dict) -> tuple[bool, int]:
    """Where a timing stands in its entry: bursts as they were, then sustained runs by size."""
    hot = timing["mode"] == "sustained"
    return hot, timing["size"][0] if hot else 0


def count(
    path: str | Path,
    say: Callable[[str], object] = print,
    raw: Callable[[str], object] = lambda text: None,
    keep: Callable[[dict], object] = lambda results: None,
) -> dict:
    """Read the hardware counters of every kernel of a bundle that is timed, at the sizes that it is timed at.

    Returns the recording with its provenance; ``raw`` and ``keep`` as ``counters.measure`` has them. Raises
    RuntimeError where there is no Hopper GPU or no kernel for one, because ``counters`` knows Hopper's tensor
    pipe alone, and NcuError where counters cannot be read.
    """
    device, reason = backends.find_gpu()
    if device is None:
        raise RuntimeError(reason)
    kernels = []
    with zipfile.ZipFile(path) as archive:
        timed = [kernel for kernel in json.loads(archive.read("manifest.json")) if kernel["timed"]]
        manifest = [kernel for kernel in timed if steps.chip_of(kernel["step"]) == HOME]
        if timed and not manifest:
            raise RuntimeError(f"counters are read of kernels for a {HOME.family}, and this archive has none")
        for kernel in manifest:
            artifacts, sizes = _artifacts(archive, kernel), steps.find(kernel["step"]).timed_sizes
            named = (kernel["name"], kernel["step"], kernel["dsl"])
            kernels.append(counters.Kernel(*named, {size: artifacts[size] for size in sizes}))
    where = provenance(device, {k["dsl"]: k["versions"] for k in manifest})
    return _signed(path, counters.measure(kernels, where, say, raw, lambda found: keep(_signed(path, found))))


def _signed(path: str | Path, results: dict) -> dict:
    """The results with the archive's signature, where it carries a key."""
    with zipfile.ZipFile(path) as archive:
        if SIGNING not in archive.namelist():
            return results
        told = json.loads(archive.read(SIGNING))
    results = {**results, "provenance": {**results["provenance"], "bundle": told["bundle"]}}
    results = json.loads(json.dumps(results))  # as it will be read
    return {**results, "signature": signing.sign(told["key"].encode(), results)}


def _artifacts(archive: zipfile.ZipFile, kernel: dict) -> dict[tuple[int, ...], Artifact]:
    prefix = _entry(kernel, ()).removesuffix(".zip")
    paths = [path for path in archive.namelist() if path.startswith(prefix)]
    sizes = [
        tuple(int(n) for n in path.removeprefix(prefix).removesuffix(".zip").split("x")) for path in paths
    ]
    return {size: Artifact.from_bytes(archive.read(path)) for size, path in zip(sizes, paths, strict=True)}


def entry(name: str, verdict: Verdict) -> dict:
    """One kernel's part of a results file."""
    fields = verdict.to_dict()
    fields["timings"] = fields.pop("timing")
    return {"name": name, **fields}


def provenance(device: dict, versions: dict[str, dict]) -> dict:
    """Where results come from: GPU, driver, libraries, compilers and the day."""
    merged = {package: number for one in versions.values() for package, number in one.items()}
    keys = ("driver", "cuda_driver", "torch", "cublas_cuda", "cuda_bindings", "sms", "memory_bytes")
    return {
        "gpu": device["name"],
        "date": datetime.date.today().isoformat(),
        "versions": merged,
        **{key: device.get(key) for key in keys},
    }


def summary(entry: dict, mode: str = "burst") -> str:
    """One kernel's line of the printed ladder."""
    results = next(part for part in entry["checks"] if part["name"] == "results")
    state = {True: "right", False: "wrong", None: "not run"}[results["passed"]]
    runs = "  ".join(
        f"{'x'.join(map(str, t['size']))} {t['tflops']:.1f} ({t['ratio']:.3f})"
        for t in entry["timings"]
        if t["mode"] == mode
    )
    said = results["detail"].removeprefix("not run: ") if results["passed"] is None else entry["diagnosis"]
    words = f"{mode} TFLOP/s (of cuBLAS): {runs}" if runs else said.split("\n")[0][:160]
    return f"{entry['name']:38} {state:8} {words}"


def main(argv: list[str] | None = None) -> int:
    """The command of the archive itself: ``python OUT.pyz --out results.json [--time-limit S] [--quick]
    [--seconds S]``, or ``--counters --out counters.json``."""
    import argparse

    parser = argparse.ArgumentParser(
        description="Check and time the kernels of this archive on this machine's GPU: a Hopper, or for the "
        "Blackwell track a B200."
    )
    parser.add_argument(
        "--out", default="results.json", help="where to write the results (default: results.json)"
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=TIME_LIMIT,
        help=f"seconds one launch may take (default: {TIME_LIMIT:g})",
    )
    parser.add_argument("--quick", action="store_true", help="leave out the sustained runs")
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="begin no sustained run after so many; the largest and the last steps come first (default: all)",
    )
    parser.add_argument(
        "--counters",
        action="store_true",
        help="read hardware counters by ncu instead; its table goes to OUT.csv",
    )
    options = parser.parse_args(argv)
    out = Path(options.out)

    def say(line: str) -> None:
        print(line, flush=True)

    def keep(results: dict) -> None:
        out.write_text(json.dumps(results, indent=1))

    try:
        if options.counters:
            with open(out.with_suffix(".csv"), "w", buffering=1) as table:
                keep(count(sys.argv[0], say, table.write, keep))
        else:
            run(sys.argv[0], options.time_limit, options.quick, say, options.seconds, keep)
    except (RuntimeError, ModuleNotFoundError) as error:  # an NcuError is a RuntimeError
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    recorded_as = " --as counters" if options.counters else ""
    print(f"wrote {out}; `course import {out.name}{recorded_as}` records it")
    return 0
