"""``course tune`` on a GPU machine that has no DSL: an archive with the plans it would try, compiled.

    python benchmarks/tune_there.py build/tune.pyz
    python tune.pyz --out tuned.json           # there, once more after an interruption: it goes on
    course import tuned.json --as tuned --unsigned

The machine needs torch, cuda-bindings and msgspec. Compiled kernels are looked up; the rest is
``course tune``.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from functools import partial
from pathlib import Path

from course_utils.artifact import Artifact
from course_utils.plans import Plan
from course_utils.recordings import bundle, tuning
from course_utils.run import backends

DSLS = "tilelang", "cute"
PLANS = 4  # at each shape
SHAPES = (
    (4096, 4096, 4096),
    (4104, 4104, 4104),
    (8192, 2304, 5120),
    (4096, 28672, 8192),
    (12288, 12288, 12288),
    (16384, 16384, 16384),
)


def build(path: str) -> None:
    """Compile the plans and write the archive."""
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import load_factory, solution_path

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        bundle.carry(archive)
        archive.write(__file__, "tune_there.py")
        archive.writestr("__main__.py", "import sys, tune_there\nsys.exit(tune_there.run())\n")
        for dsl in DSLS:
            source = solution_path("step11", dsl)
            gemm = load_factory(source)
            archive.writestr(f"{dsl}.py", source.read_text())
            for size in SHAPES:
                for plan in tuning.candidates(size, PLANS):
                    artifact = compile_factory(partial(gemm, plan=plan), dsl, size)
                    archive.writestr(_place(dsl, size, plan), artifact.to_bytes())
                    print(dsl, size, tuning.name(plan), flush=True)


def _place(dsl: str, size: tuning.Size, plan: Plan) -> str:
    return f"artifacts/{dsl}/{'x'.join(map(str, size))}/{'_'.join(map(str, plan))}.zip"


def run() -> int:
    """The archive's command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="tuned.json")
    options = parser.parse_args()
    device, reason = backends.find_gpu()
    if device is None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    gpu, out = backends.Gpu(), Path(options.out)
    with zipfile.ZipFile(sys.argv[0]) as archive:

        def compiled(factory: partial, dsl: str, size: tuning.Size) -> Artifact:
            return Artifact.from_bytes(archive.read(_place(dsl, size, factory.keywords["plan"])))

        try:
            for size in SHAPES:
                for dsl in DSLS:
                    source = archive.read(f"{dsl}.py").decode()
                    tuning.tune(print, dsl, [size], PLANS, out, gpu, device, compiled, _say, source)
        except KeyboardInterrupt:
            print(f"Stopped. What was timed is in {out}; the same command goes on from there.")
            return 3
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build(sys.argv[1])
