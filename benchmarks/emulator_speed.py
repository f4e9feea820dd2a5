"""How fast the emulator is: warp instructions a second for every step, and how its time grows with the
problem.

    python benchmarks/emulator_speed.py [tilelang|cute]

Times are of one emulated launch in this process, compiling left out, the better of two runs after a first.
Growth is of one kernel from 8 to 128 tiles, and from 4 to 32 K tiles: time over instructions should stay
level.
"""

import resource
import sys
import time

import torch

from course_utils.compile import load as loading
from course_utils.compile.factory import compile_factory
from course_utils.grading.steps import STEPS
from course_utils.run import reference as results
from course_utils.run.emulator import emulate

SIZES = {"step01": (128, 128, 64), "step02": (128, 128, 256)}
SIZE = (256, 512, 256)
GROWTH = (
    (256, 512, 256),
    (512, 512, 256),
    (512, 1024, 256),
    (1024, 1024, 256),
    (2048, 1024, 256),
    (256, 512, 512),
    (256, 512, 1024),
    (256, 512, 2048),
)


def measure(step, dsl, size):
    """(emulation, seconds, right) of one step at one size."""
    artifact = compile_factory(loading.load_factory(loading.solution_path(step, dsl)), dsl, size)
    A, B = results.inputs(*size, torch.Generator().manual_seed(0), "cpu")
    best = float("inf")
    for run in range(3):
        D = torch.full((size[0], size[1]), results.POISON, dtype=torch.int16).view(torch.float16)
        start = time.perf_counter()
        emulation = emulate(artifact, {"A": A, "B": B, "D": D}, seed=0)
        if run:
            best = min(best, time.perf_counter() - start)
    return emulation, best, results.compare(D, A, B).ok


def row(label, size, emulation, seconds, right):
    marks = f"{len(emulation.findings)} findings" if emulation.findings else "no finding"
    print(
        f"{label:8} {' x '.join(map(str, size)):>18} {emulation.executed:>10,} {seconds:>8.2f} s "
        f"{emulation.executed / seconds:>10,.0f}/s  {'right' if right else 'WRONG'}, {marks}",
        flush=True,
    )


def main():
    dsl = sys.argv[1] if len(sys.argv) > 1 else "tilelang"
    print(f"{'':8} {'M x N x K':>18} {'warp instr':>10} {'time':>10} {'':>12}")
    for step in STEPS:
        size = SIZES.get(step, SIZE)
        row(step, size, *measure(step, dsl, size))
    print("growth")
    for size in GROWTH:
        row("step05", size, *measure("step05", dsl, size))
    print(
        f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB, torch and the compiler "
        "included"
    )


if __name__ == "__main__":
    main()
