"""When TMA pays: tiles by blocking loads, cp.async, TMA boxes and bulk copies; and what a profiler sees.

    python benchmarks/when_tma_pays.py compile build/pays.zip                # where the compilers are
    python benchmarks/when_tma_pays.py run build/pays.zip build/pays.json    # where the GPU is: times
    python benchmarks/when_tma_pays.py count build/pays.zip build/seen.json  # there, with ncu: counters

``run`` times each way at each tile size, over a matrix in DRAM and over one in L2, with the same threads,
CTAs and stages. Every launch's sum is compared with the matrix's. ``count`` reads ncu's TMA counters of three
TileLang copies of one matrix: a box, a 1-D bulk copy, and the fallback to threads. Both need cuda-bindings
and NumPy.
"""

import datetime
import json
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_utils.artifact import Artifact, Parameter, Tensor, TensorMap  # noqa: E402

WAYS = ("blocking loads", "cp.async", "TMA box", "bulk copy for each row")  # MODE of the CUDA file
TILES = [(rows, width) for rows in (64, 128) for width in (32, 64, 128, 256)]  # rows, bytes
PLACES = {"DRAM": (32_768, 1), "L2": (2_048, 16)}  # rows of the matrix, and passes over it
PITCH, THREADS, STAGES, CTAS = 8_192, 128, 3, 2 * 132
SAMPLES, WARM = 20, 3
ROWS, COLUMNS = 8_192, 512  # of the matrix of halves that is copied under the profiler
COPIES = {"box": (64, True), "1-D bulk copy": (512, True), "threads": (64, False)}  # columns, by TMA
BESIDE = ("smsp__inst_executed.sum", "dram__bytes_read.sum", "lts__t_bytes.sum", "gpu__time_duration.sum")
FALLBACK = (  # where ncu does not list what it knows
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
)


def streamed(mode: int, rows: int, width: int, height: int, passes: int, pitch=PITCH, ctas=CTAS) -> Artifact:
    """The kernel of a way and a tile, over a matrix of ``height`` rows."""
    from course_utils.compile import nvrtc

    names = {"MODE": mode, "ROWS": rows, "WIDTH": width, "PITCH": pitch, "THREADS": THREADS, "STAGES": STAGES}
    text = "".join(f"#define {name} {value}\n" for name, value in names.items())
    source = Path(__file__).with_suffix(".cu").read_text()
    ptx, cubin, resources = nvrtc.compile_source(text + source, ())
    tensor_map = TensorMap(0, (pitch, height), (pitch,), (width, rows), (1, 1))
    parameters = (
        Parameter("tensor_map", "X", tensor_map),
        Parameter("pointer", "X"),
        Parameter("pointer", "out"),
        Parameter("scalar", dtype="int32", value=height),
        Parameter("scalar", dtype="int32", value=passes),
    )
    tensors = (Tensor("X", (height, pitch), "uint8"), Tensor("out", (1,), "int32"))
    shared = (STAGES if mode else 1) * rows * width + 8 * STAGES
    launch = (ctas, 1, 1), (THREADS, 1, 1), (1, 1, 1), shared
    return Artifact("cuda", "stream", ptx, cubin, *launch, parameters, tensors, resources)


def copied(name: str) -> Artifact:
    """One of ``COPIES``, by TileLang. Raises ValueError where the compiler took another path."""
    import tilelang.language as T

    from course_utils.compile.factory import compile_factory
    from course_utils.ptx import paths

    columns, by_tma = COPIES[name]
    options = {"prefer_instruction": "tma"} if by_tma else {"disable_tma": True}

    def copy(d0, d1):
        @T.prim_func
        def main(X: T.Tensor((d0, d1), T.float16), Y: T.Tensor((d0, d1), T.float16)):
            with T.Kernel(d1 // columns, d0 // 16, threads=128) as (bx, by):
                S = T.alloc_shared((16, columns), T.float16)
                T.copy(X[by * 16 : by * 16 + 16, bx * columns : bx * columns + columns], S, **options)
                T.copy(S, Y[by * 16 : by * 16 + 16, bx * columns : bx * columns + columns], **options)

        return main

    made = compile_factory(copy, "tilelang", (ROWS, COLUMNS), "copy")
    wanted = {"box": paths.TENSOR, "1-D bulk copy": paths.BULK, "threads": paths.THREADS}[name]
    found = paths.copies(made, "")
    if len(found) != 2 or any(set(one.paths) != {wanted} for one in found):
        raise ValueError(f"{name}: {'; '.join(f'{one.tensor} took {one}' for one in found)}")
    return made


def compile_all(path: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, (height, passes) in PLACES.items():
            for mode in range(len(WAYS)):
                for rows, width in TILES:
                    made = streamed(mode, rows, width, height, passes)
                    archive.writestr(json.dumps([place, mode, rows, width]), made.to_bytes())
        for name in COPIES:
            archive.writestr(f"copy {name}", copied(name).to_bytes())
        print(f"{len(archive.namelist())} kernels")


def opened():
    """The driver with a context. Returns the module and a function that unpacks its results."""
    from cuda.bindings import driver

    from course_utils.run.gpu.launch import checked

    checked(driver.cuInit(0), "starting")
    gpu = checked(driver.cuDeviceGet(0), "the GPU")
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(gpu), "a context")), "a context")
    return driver, checked


def record(command: str, **fields: object) -> dict:
    driver, checked = opened()
    told = checked(driver.cuDeviceGetName(100, checked(driver.cuDeviceGet(0), "the GPU")), "the GPU")
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return {
        "recorded": datetime.date.today().isoformat(),
        "command": f"python benchmarks/when_tma_pays.py {command}",
        "commit": commit.stdout.strip(),
        "gpu": told.decode().rstrip("\0 "),
        "cuda_driver": checked(driver.cuDriverGetVersion(), "the driver"),
        **fields,
    }


def run(path: str, out: str) -> None:
    """Time every kernel: the median of ``SAMPLES`` launches, in rounds, so a GPU's warmth is shared."""
    from course_utils.run.gpu.launch import Kernel

    driver, checked = opened()
    rows = []
    with zipfile.ZipFile(path) as archive:
        for place, (height, passes) in PLACES.items():
            X = np.random.default_rng(2026).integers(0, 2**32, (height, PITCH // 4), np.uint32)
            wanted = int(X.sum(dtype=np.uint64)) * passes % 2**32
            there = {"X": X.nbytes, "out": 4}
            there = {name: int(checked(driver.cuMemAlloc(size), "memory")) for name, size in there.items()}
            checked(driver.cuMemcpyHtoD(there["X"], X.ctypes.data, X.nbytes), "copying")
            names = [
                name for name in archive.namelist() if name.startswith("[") and json.loads(name)[0] == place
            ]
            kernels = {name: Kernel(Artifact.from_bytes(archive.read(name)), there) for name in names}
            begin, end = (checked(driver.cuEventCreate(0), "an event") for _ in range(2))
            times: dict[str, list[float]] = {name: [] for name in names}
            for sample in range(WARM + SAMPLES):
                for name, kernel in kernels.items():
                    checked(driver.cuMemsetD32(there["out"], 0, 1), "clearing")
                    checked(driver.cuEventRecord(begin, 0), "timing")
                    kernel.launch(0)
                    checked(driver.cuEventRecord(end, 0), "timing")
                    checked(driver.cuEventSynchronize(end), "running")
                    got = np.zeros(1, np.uint32)
                    checked(driver.cuMemcpyDtoH(got.ctypes.data, there["out"], 4), "copying")
                    if int(got[0]) != wanted:
                        raise SystemExit(f"{name}: the sum is {int(got[0])} and must be {wanted}")
                    if sample >= WARM:
                        times[name].append(checked(driver.cuEventElapsedTime(begin, end), "timing") * 1e-3)
            for name in names:
                _, mode, tall, wide = json.loads(name)
                low, middle, high = statistics.quantiles(times[name], n=4)
                moved = X.nbytes * passes
                rows.append(
                    {"matrix": place, "way": WAYS[mode], "rows": tall, "bytes": wide, "seconds": middle}
                    | {"quartiles": [low, high], "gb_per_second": moved / middle / 1e9}
                )
                print(*rows[-1].values(), sep=", ", flush=True)
            for kernel in kernels.values():
                kernel.unload()
            for address in there.values():
                checked(driver.cuMemFree(address), "freeing")
    setting = {"threads": THREADS, "ctas": CTAS, "stages": STAGES, "pitch": PITCH, "samples": SAMPLES}
    Path(out).write_text(json.dumps(record("run", **setting, rows=rows), indent=1) + "\n")


def child(path: str, name: str) -> None:
    """One launch of a copy, for ncu; its bytes are compared after it."""
    from course_utils.run.gpu.launch import Kernel

    driver, checked = opened()
    X = np.random.default_rng(2026).integers(0, 2**16, (ROWS, COLUMNS), np.uint16)
    there = {key: int(checked(driver.cuMemAlloc(X.nbytes), "memory")) for key in ("X", "Y")}
    checked(driver.cuMemcpyHtoD(there["X"], X.ctypes.data, X.nbytes), "copying")
    with zipfile.ZipFile(path) as archive:
        kernel = Kernel(Artifact.from_bytes(archive.read(f"copy {name}")), there)
    kernel.launch(0)
    checked(driver.cuCtxSynchronize(), "running")
    Y = np.zeros_like(X)
    checked(driver.cuMemcpyDtoH(Y.ctypes.data, there["Y"], Y.nbytes), "copying")
    if not np.array_equal(X, Y):
        raise SystemExit(f"{name}: Y is wrong")


def count(path: str, out: str) -> None:
    """ncu's counters of each copy, cold. A metric that it does not know is left out. Raises NcuError."""
    from course_utils.run import ncu

    program = ncu.find()
    wanted = [f"{name}.sum" for name in sorted(ncu.known(program)) if "tma" in name] or list(FALLBACK)
    wanted += BESIDE
    rows = []
    for name in COPIES:
        while True:
            line = [program, "--csv", "--page", "raw", "--print-units", "base", "--cache-control", "all"]
            line += ["--metrics", ",".join(wanted), sys.executable, __file__, "child", path, name]
            done = subprocess.run(line, capture_output=True, text=True, timeout=300)
            unknown = set(ncu._UNKNOWN.findall(done.stdout + done.stderr))
            left = [metric for metric in wanted if metric.split(".")[0] not in unknown]
            if not unknown or left == wanted:
                break
            wanted = left
        found = ncu.read(done.stdout)
        if len(found) != 1:
            raise SystemExit(f"{name}: ncu printed {len(found)} rows: {(done.stdout + done.stderr)[-800:]}")
        rows.append({"copy": name, "bytes": 2 * ROWS * COLUMNS, "counters": found[0].values})
        print(name, {key: value for key, value in found[0].values.items() if value}, flush=True)
    shape = {"matrix": [ROWS, COLUMNS], "ncu": ncu.version(program)}
    Path(out).write_text(json.dumps(record("count", **shape, rows=rows), indent=1) + "\n")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    {"compile": compile_all, "run": run, "count": count, "child": child}[what](*rest)
