"""How long `course check` takes without a GPU: the first check of a process, and the ones after it.

    python benchmarks/check_time.py [STEP [DSL [BACKEND]]]

The aim is under 5 s and under 2 s on two cores.
"""

import subprocess
import sys
import time

ONE = """
import time
begin = time.perf_counter()
from course_utils.grading.gemm import check_gemm
from course_utils.compile.load import load_factory, solution_path
factory = load_factory(solution_path("{step}", "{dsl}"))
for _ in range(4):
    check_gemm("{step}", factory, "{dsl}", backend="{backend}")
    print(f"{{time.perf_counter() - begin:.2f}}")
    begin = time.perf_counter()
"""


def main(step: str = "step10", dsl: str = "tilelang", backend: str = "emulator") -> None:
    for run in range(3):
        begin = time.perf_counter()
        command = [sys.executable, "-c", ONE.format(step=step, dsl=dsl, backend=backend)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        whole = time.perf_counter() - begin
        print(
            f"{step} {dsl} {backend}, process {run + 1}: first check {out[0]} s, then {', '.join(out[1:])} "
            "s; "
            f"process {whole:.2f} s"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
