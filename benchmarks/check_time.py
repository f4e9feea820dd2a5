"""How long `course check` takes without a GPU, and where the time goes.

    python benchmarks/check_time.py [STEP ...]          (default: step05)

Each row is a new process, in a cache of its own: empty, with the precompiled header only (so that the kernel
is an unseen one), or with all. The process then checks the same step again. The goals, on two idle cores with
a warm cache: 4 s for the process, 1.5 s for the second check. The second line of a row is the processor's
seconds in place of the clock's, which other programs on the machine disturb less; the emulator is a process
of its own, so it has them under `emulate` only, for both checks together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from course_utils.grading.steps import STEPS

RUNS = 3
CASES = {"tilelang": ("empty", "header", "warm"), "cute": ("empty", "warm")}
# fmt: off
COLUMNS = (
    "process", "again", "python", "course", "torch", "dsl", "trace", "compile", "child", "start", "rest",
    "emulate",
)
# fmt: on
MEANING = """
process  from the start of Python to its end, the second check not counted
again    the second check in this process
python   until the first line runs;  course: import of course_utils.cli
torch    import of torch, where the DSL needs it;  dsl: import of the DSL
trace    the factory and its lowering
compile  NVRTC; or CuTe DSL's compiler, most of its tracing included
child    a process to compile in: its fork and its end
start    the emulator's process, until it can be asked
rest     waiting for the emulator, parsing, the verdict
emulate  the emulator's answers, beside the compiler; of all its processes together"""

CHILD = """
import time
first = time.time()
import sys, json, contextlib, io, importlib, os, resource
laps = os.memfd_create("laps")  # the kernels are compiled in forked children, which write here too

def now(whole=True):
    # the clock; and the processor's seconds of this process, as a whole with its children that have ended
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), time.process_time() + whole * (used.ru_utime + used.ru_stime)

@contextlib.contextmanager
def lap(name, whole=False):
    before = now(whole)
    try:
        yield
    finally:
        os.write(laps, json.dumps([name, *(b - a for a, b in zip(before, now(whole)))]).encode() + b"\\n")

def spent():
    # what the laps since the last call took, by name: of the clock, and of the processor
    clock, cpu = {}, {}
    for line in os.pread(laps, 1 << 20, 0).splitlines():
        name, *parts = json.loads(line)
        for sums, part in zip((clock, cpu), parts):
            sums[name] = sums.get(name, 0) + part
    os.ftruncate(laps, 0)
    os.lseek(laps, 0, os.SEEK_SET)
    return clock, cpu

python = first - float(sys.argv[3]), now()[1]

def timed(owner, function, name):
    run = getattr(owner, function)
    def wrapped(*arguments, **named):
        with lap(name):
            return run(*arguments, **named)
    setattr(owner, function, wrapped)

step, dsl = sys.argv[1:3]
brings = {"tilelang": {"torch": "torch", "dsl": "tilelang"}, "cute": {"dsl": "cutlass.cute"}}[dsl]
with lap("course"):
    from course_utils import cli
from course_utils.compile import child, cute, load, nvrtc, tilelang
from course_utils.run import client
load_module = load.load_module
def load_all(path):  # once the check has begun, as its first line would
    for name, module in brings.items():
        if module not in sys.modules:
            with lap(name):
                importlib.import_module(module)
    return load_module(path)
load.load_module = load_all
if dsl == "tilelang":
    timed(tilelang, "_trace", "trace")
    timed(tilelang, "_lower", "trace")
    timed(nvrtc, "compile_source", "compile")
else:
    timed(cute, "_trace", "trace")
    timed(cute, "_compile", "compile")
timed(child._Child, "start", "child")
timed(child._Child, "close", "child")
timed(client.Worker, "_up", "start")
timed(client.Worker, "_ask", "emulate")
for name in ("check", "again"):
    with lap(name, whole=True), contextlib.redirect_stdout(io.StringIO()) as said:
        cli.main(["check", step, "--dsl", dsl, "--backend", "emulator", "--json"])
    if name == "check":
        (first_clock, first_cpu), cpu_then = spent(), now()[1]
first_clock["python"], first_cpu["python"] = python
for first, then in zip((first_clock, first_cpu), spent()):
    first["again"] = then["again"]
    known = ("torch", "dsl", "trace", "compile", "child")
    first["rest"] = first["check"] - sum(first.get(name, 0) for name in known)
first_clock["emulate"] -= first_clock["start"]
first_cpu["process"] = cpu_then
first_cpu["start"] = 0
first_cpu["all"] = now()[1]
verdict = json.loads(said.getvalue())
passed = all(part["passed"] is not False for part in verdict["checks"])
sys.__stdout__.write(json.dumps([passed, first_clock, first_cpu]))
cli.main = lambda: 0
cli.process()  # as the command ends
"""


def one_process(step: str, dsl: str, cache: Path) -> tuple[dict[str, float], dict[str, float]]:
    """The parts of one new process, in seconds of the clock and of the processor."""
    begin, before = time.time(), os.times()
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, step, dsl, repr(begin)],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    passed, clock, cpu = json.loads(ran.stdout)
    if not passed:
        raise SystemExit(f"{step} {dsl} did not pass its check")
    now = os.times()
    clock["process"] = time.time() - begin - clock["again"]
    both = now.children_user + now.children_system - before.children_user - before.children_system
    cpu["emulate"] = both - cpu["all"]
    return clock, cpu


def case(step: str, dsl: str, state: str, cache: Path) -> list[dict[str, float]]:
    """Medians of RUNS processes that each find the cache in this state; of the clock and of the
    processor.
    """
    runs = []
    for _ in range(RUNS):
        kept = cache / "hopper-gemm-course"
        if state == "empty":
            shutil.rmtree(kept, ignore_errors=True)
        elif state == "header":
            shutil.rmtree(kept / "kernels")
        runs.append(one_process(step, dsl, cache))
    return [
        {name: statistics.median(run[which].get(name, 0.0) for run in runs) for name in COLUMNS}
        for which in (0, 1)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="The time of `course check` without a GPU.")
    parser.add_argument("steps", nargs="*", choices=list(STEPS), default="step05", metavar="STEP")
    steps = parser.parse_args().steps
    names = [steps] if isinstance(steps, str) else steps
    print(f"medians of {RUNS}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'':28}" + "".join(f"{name:>8}" for name in COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        for step in names:
            for dsl, states in CASES.items():
                for state in states:
                    for unit, parts in zip(
                        ("clock", "cpu"), case(step, dsl, state, Path(folder)), strict=True
                    ):
                        first = f"{step} {dsl} {state}" if unit == "clock" else ""
                        row = "".join(f"{parts[name]:8.2f}" for name in COLUMNS)
                        print(f"{first:22} {unit:5}{row}", flush=True)
    print(MEANING)


if __name__ == "__main__":
    main()
