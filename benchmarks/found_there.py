"""What an H200 does with the faults of docs/found.md: each smallest program, many times.

    python benchmarks/found_there.py compile build/found.zip                  # where NVRTC is
    python benchmarks/found_there.py run build/found.zip build/found.json     # where the GPU is

The programs are those of ``tests/data/found.cu``, as they stand and mended, with warps late by 0, 1, 8 and 64
sleeps. A program that hangs or crashes costs its own process. Written for each: how many of the launches were
wrong, and in how many elements, or that it hung or crashed.
"""

import datetime
import json
import select
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
LATE = (0, 1, 8, 64)
LAUNCHES = 200
PATIENCE = 15  # seconds of one variant
THREADS, PIECES, ROUNDS, CTAS = 256, 1024, 16, 1056
GUARD = 4096  # rows behind out


def variants() -> list[tuple[str, dict[str, int]]]:
    """(name, defines) of each program."""
    from tests.run.emulator.test_found import FAULTS

    found = []
    for fault in FAULTS:
        for copy in (1, 0) if fault == "NO_FENCE" else (1,):
            for mended in (0, 1):
                found += [(fault, {"MENDED": mended, "LATE": late, "COPY": copy}) for late in LATE]
    return found


def compile_all(path: str) -> None:
    from course_utils.artifact import Artifact, Parameter, Tensor
    from course_utils.compile import nvrtc
    from tests.run.emulator.test_found import FAULTS, SOURCE

    tensors = (
        Tensor("given", (ROUNDS * PIECES, 4), "int32"),
        Tensor("out", (CTAS * PIECES, 4), "int32"),
        Tensor("wrong", (1,), "int32"),
    )
    parameters = tuple(Parameter("pointer", tensor.name) for tensor in tensors)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for fault, defines in variants():
            _, cluster, _, tiles = FAULTS[fault]
            text = "".join(f"#define {key} {value}\n" for key, value in defines.items())
            ptx, cubin, resources = nvrtc.compile_source(f"{text}#define FAULT {fault}\n{SOURCE}", ())
            launch = (CTAS, 1, 1), (THREADS, 1, 1), (cluster, 1, 1), tiles * PIECES * 16
            made = Artifact("cuda", "found", ptx, cubin, *launch, parameters, tensors, resources)
            archive.writestr(json.dumps([fault, defines]), made.to_bytes())


def inputs(fault: str) -> tuple[np.ndarray, np.ndarray]:
    """given, and out before a launch, guard rows behind it."""
    given = np.repeat(np.arange(1, ROUNDS * PIECES + 1, dtype=np.int32)[:, None], 4, 1)
    out = np.zeros((CTAS * PIECES + GUARD, 4), np.int32)
    if fault == "NO_FENCE":  # a round's halves, from 2
        values = (0x4000 + (np.arange(ROUNDS, dtype=np.int32) << 6)) * 0x10001
        out[: ROUNDS * 128] = np.repeat(values, 128)[:, None]
    return given, out


def wrong_in(fault: str, out: np.ndarray, wrong: int) -> int:
    """How many elements came out wrong?"""
    if fault == "PREDICATE":  # what lies behind the tensor's end
        return int((out[CTAS * THREADS - THREADS // 2 :] != 0).any(-1).sum())
    if fault == "TWICE":
        tiles = CTAS * 64
        return int((out[:tiles] != np.arange(1, tiles + 1)[:, None]).any(-1).sum())
    if fault == "EXIT_STORE":
        stored = out[: CTAS * PIECES].reshape(CTAS, PIECES, 4)
        return int((stored != np.arange(1, CTAS + 1)[:, None, None]).any(-1).sum())
    return wrong


def child(path: str, names: list[str]) -> None:
    """Run these, and print a line of JSON for each."""
    from cuda.bindings import driver

    from course_utils.artifact import Artifact
    from course_utils.run.gpu.launch import Kernel, checked

    checked(driver.cuInit(0), "starting")
    gpu = checked(driver.cuDeviceGet(0), "the GPU")
    if not names:
        told = checked(driver.cuDeviceGetName(100, gpu), "the GPU").decode().rstrip("\0 ")
        print(json.dumps({"name": told, "cuda_driver": checked(driver.cuDriverGetVersion(), "the driver")}))
        return
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(gpu), "a context")), "a context")
    with zipfile.ZipFile(path) as archive:
        for name in names:
            fault, _ = json.loads(name)
            given, out = inputs(fault)
            here = {"given": given, "out": out.copy(), "wrong": np.zeros(1, np.int32)}
            there = {key: int(checked(driver.cuMemAlloc(a.nbytes), "memory")) for key, a in here.items()}
            checked(driver.cuMemcpyHtoD(there["given"], given.ctypes.data, given.nbytes), "copying")
            kernel = Kernel(Artifact.from_bytes(archive.read(name)), there)
            count = launches = 0
            stores = fault in ("PREDICATE", "EXIT_STORE", "TWICE")
            tries = LAUNCHES // 10 if stores else LAUNCHES
            for number in range(tries):
                if stores or not number:
                    checked(driver.cuMemcpyHtoD(there["out"], out.ctypes.data, out.nbytes), "copying")
                checked(driver.cuMemsetD32(there["wrong"], 0, 1), "clearing")
                kernel.launch(0)
                checked(driver.cuCtxSynchronize(), "running")
                for key in ("wrong", "out") if stores else ("wrong",):
                    to = here[key]
                    checked(driver.cuMemcpyDtoH(to.ctypes.data, there[key], to.nbytes), "copying")
                found = wrong_in(fault, here["out"], int(here["wrong"][0]))
                count, launches = count + found, launches + (found > 0)
            kernel.unload()
            for address in there.values():
                checked(driver.cuMemFree(address), "freeing")
            print(json.dumps({"launches": tries, "launches_wrong": launches, "wrong": count}), flush=True)


def tried(path: str, names: list[str]) -> list[dict]:
    """The outcome of each, from children; one that says nothing in time is killed."""
    outcomes: list[dict] = []
    while len(outcomes) < len(names):
        command = [sys.executable, __file__, "child", path, *names[len(outcomes) :]]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        ) as process:
            while len(outcomes) < len(names):
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
                line = process.stdout.readline() if ready else ""
                if not line:
                    break
                outcomes.append(json.loads(line))
            if len(outcomes) < len(names):
                if ready:
                    said = (process.stderr.read().strip() or "no word").splitlines()[-1]
                    outcomes.append({"crashed": said[:200]})
                else:
                    outcomes.append({"hung": PATIENCE})
            process.kill()
    return outcomes


def run_all(path: str, out: str) -> None:
    start, rows = time.perf_counter(), []
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for fault in dict.fromkeys(json.loads(name)[0] for name in names):
        mine = [name for name in names if json.loads(name)[0] == fault]
        for name, outcome in zip(mine, tried(path, mine), strict=True):
            rows.append({"fault": fault, **json.loads(name)[1], **outcome})
            print(*(f"{key} {value}" for key, value in rows[-1].items()), sep=", ", flush=True)
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    told = subprocess.run([sys.executable, __file__, "child", path], capture_output=True, text=True)
    record = {
        "recorded": datetime.date.today().isoformat(),
        "command": "python benchmarks/found_there.py run",
        "commit": commit.stdout.strip(),
        "device": json.loads(told.stdout or "{}"),
        "ctas": CTAS,
        "rows": rows,
    }
    Path(out).write_text(json.dumps(record, indent=1) + "\n")
    print(f"{len(rows)} programs, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "child":
        child(rest[0], rest[1:])
    else:
        {"compile": compile_all, "run": run_all}[what](*rest)
