"""What each choice in the ladder is worth: solutions with one thing changed, as a bundle to run on a GPU
machine.

    python benchmarks/variants.py build/variants.pyz
    python variants.pyz --quick --out variants.json         # there
    course import variants.json --as variants               # here

With --solutions behind OUT.pyz the ladder's kernels come first: one archive for the counters of all.

    python counters.pyz --counters --out counters.json      # there
    course import counters.json --as counters               # here
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from course_utils.cli.records import solution_kernels  # noqa: E402
from course_utils.compile.factory import DSLS, compile_factory  # noqa: E402
from course_utils.compile.faults import table  # noqa: E402
from course_utils.compile.load import plant  # noqa: E402
from course_utils.recordings import bundle, signing  # noqa: E402

UNCHANGED = "step08", "step09", "step10"  # recorded in the same run, to compare with


def kernels() -> list[dict]:
    """The variants of ``solutions/wrong``, as ``bundle.write`` takes them."""
    made = [(fault.name, fault.step, fault.dsl, fault.factory()) for fault in table() if fault.variant]
    made += [(f"{step}, unchanged", step, dsl, plant(step, dsl)) for step in UNCHANGED for dsl in DSLS]
    return [
        {"name": name, "step": step, "dsl": dsl, "timed": True, "factory": factory}
        for name, step, dsl, factory in made
    ]


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--solutions"]):
        raise SystemExit(__doc__)
    chosen = (solution_kernels(None, DSLS) if sys.argv[2:] else []) + kernels()
    key = signing.key(Path("build/bundle.key"))  # that of `course bundle`, for `course import`
    bundle.write(sys.argv[1], chosen, compile_factory, lambda item: print(*item, flush=True), key)
