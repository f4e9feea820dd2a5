"""Attention: every rung in both DSLs timed beside torch's scaled_dot_product_attention with cuDNN's and with
the flash backend, on a GPU machine without a DSL. An archive carries the kernels compiled.

    python -m benchmarks.attention build/attention.pyz [rung ...] [--plans=rung]
    python attention.pyz --out attention.json      # there: torch, cuda-bindings and msgspec are enough

Each output is held against the fp32 reference before its kernel is timed. A sample is one launch after the
L2 was flushed; kernel and cuDNN alternate. A process of its own launches the kernels; one that fails or hangs
costs its process, which begins anew at the next kernel, and the message is in the results. These are saved
after each kernel.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import torch

from course_utils.artifact import Artifact
from course_utils.problems import PROBLEMS
from course_utils.recordings import bundle
from course_utils.run import backends, reference
from course_utils.run.gpu import timing

DSLS = "tilelang", "cute"
SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "D 128": ("attention", (4, 4096, 4096, 16, 16, 128)),
    "D 128, causal": ("causal attention", (4, 4096, 4096, 16, 16, 128)),
    "D 128, 8192": ("attention", (2, 8192, 8192, 16, 16, 128)),
    "D 128, 8192, causal": ("causal attention", (2, 8192, 8192, 16, 16, 128)),
    "D 64": ("attention", (4, 4096, 4096, 16, 16, 64)),
    "D 64, causal": ("causal attention", (4, 4096, 4096, 16, 16, 64)),
    "D 96": ("attention", (4, 4096, 4096, 16, 16, 96)),
    "D 96, causal": ("causal attention", (4, 4096, 4096, 16, 16, 96)),
    "D 128, 16384, causal": ("causal attention", (1, 16384, 16384, 16, 16, 128)),
    "D 128, grouped, ragged, bf16, causal": ("causal attention, bf16", (3, 4001, 4001, 16, 4, 128)),
}
LADDER = 4  # of these shapes, the first ones, every rung is timed, and those of ``BEST`` at all
BEST = "a2b_", "a2c_"
# other tiles than a rung's own, with the registers of its roles, by D; "--plans" times them at these shapes
PLANS: dict[int, list[tuple[int, int, tuple[int, int]]]] = {
    128: [(128, 176, (24, 240)), (128, 144, (24, 240)), (128, 112, (24, 240))],
    96: [(192, 128, (32, 160)), (192, 96, (32, 160)), (128, 176, (24, 240)), (128, 144, (24, 240))],
    64: [(192, 96, (32, 160)), (128, 192, (24, 240)), (128, 160, (24, 240)), (128, 128, (24, 240))],
}
PLANNED = "D 128", "D 128, causal", "D 96", "D 96, causal", "D 64", "D 64, causal"
PEERS = "cuDNN", "flash"
SAMPLES = 15
START_SECONDS, JOB_SECONDS = 90.0, 30.0  # what a process may take to begin, and for a kernel

Values: TypeAlias = torch.Tensor
Job: TypeAlias = tuple[str, str, str]  # shape, rung, DSL; a peer's rung is its name, and it has no DSL


def rungs() -> dict[str, dict[str, Path]]:
    """The solution files of attention, by rung and DSL."""
    from course_utils.compile.load import SOLUTIONS

    found: dict[str, dict[str, Path]] = {}
    for dsl in DSLS:
        for path in sorted((SOLUTIONS / dsl).glob("a[12]*_*.py")):
            found.setdefault(path.stem, {})[dsl] = path
    return found


def build(path: str, chosen: list[str], plans: str = "") -> None:
    """Compile the rungs, all or those that begin so, at every shape, and the other ``PLANS`` of a rung, and
    write the archive.
    """
    from course_utils.compile.errors import CompileError
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import load_factory

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    jobs: list[Job] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        bundle.carry(archive)
        archive.write(__file__, "attention_there.py")
        archive.writestr("__main__.py", "import sys, attention_there\nsys.exit(attention_there.run())\n")
        for rung, files in rungs().items():
            if chosen and not rung.startswith(tuple(chosen)):
                continue
            names = [*SHAPES] if rung.startswith(BEST) else [*SHAPES][:LADDER]
            for dsl, name in product(files, names):
                kind, size = SHAPES[name]
                dtype = PROBLEMS[kind].tensors(*size)[0].dtype
                factory = load_factory(files[dsl], "attention")
                own = partial(factory, causal="causal" in kind, dtype=dtype)
                made = {rung: own}
                if plans and rung.startswith(plans) and name in PLANNED:
                    made |= {f"{rung} {M}x{N}": partial(own, plan=(M, N, r)) for M, N, r in PLANS[size[-1]]}
                for called, one in made.items():
                    job = name, called, dsl
                    jobs.append(job)
                    try:
                        archive.writestr(_place(job), compile_factory(one, dsl, size, kind).to_bytes())
                    except CompileError as error:
                        failed[_place(job)] = str(error)[:300]
                    print(*job, failed.get(_place(job), ""), flush=True)
        archive.writestr("jobs.json", json.dumps({"jobs": jobs, "failed": failed}))


def _place(job: Job) -> str:
    return "artifacts/" + "/".join(job) + ".zip"


def work(size: tuple[int, ...], causal: bool) -> int:
    """FLOP of both products; of a causal one half, as everybody counts."""
    batch, sequence_q, sequence_k, heads, _, D = size
    return 4 * batch * sequence_q * sequence_k * heads * D // (2 if causal else 1)


class Shape:
    """Inputs on a GPU, or for a test on the CPU; what must come of them, and the peers."""

    def __init__(self, name: str, seed: int, device: str = "cuda") -> None:
        kind, self.size = SHAPES[name]
        self.causal, problem = "causal" in kind, PROBLEMS[kind]
        generator = torch.Generator(device=device).manual_seed(seed)
        tensors = problem.tensors(*self.size)
        self.inputs = [problem.draw(one, tensors, generator, device) for one in tensors[:3]]
        self.O = torch.empty(tensors[3].shape, device=device, dtype=self.inputs[0].dtype)  # noqa: E741
        self.kind = kind
        self.flush = torch.empty(
            timing.FLUSH_BYTES if device == "cuda" else 0, device=device, dtype=torch.uint8
        )
        self.right: tuple[Values, Values] | None = None

    def wrong(self, O: Values) -> str:  # noqa: E741
        """What is wrong with this O; "" where nothing is."""
        if self.right is None:
            self.right = self._reference()
        values, allowed = self.right
        error = (O.float() - values).abs()
        off = int((~(error <= reference.bound(values, O.dtype, allowed))).sum())
        norm = float(error.nan_to_num(9.9).norm() / values.norm())
        ok = not off and norm <= reference.ROUNDING[O.dtype][1]
        return "" if ok else f"wrong: {off} of {O.numel()} elements, relative norm {norm:.1e}"

    def _reference(self) -> tuple[Values, Values]:
        """O and the error that each element may have, in fp32, head by head."""
        Q, K, V = self.inputs
        problem, group = PROBLEMS[self.kind], Q.shape[2] // K.shape[2]
        values, allowed = torch.empty_like(Q, dtype=torch.float32), torch.empty_like(Q, dtype=torch.float32)
        assert problem.allowed
        for b in range(len(Q)):
            for h in range(Q.shape[2]):
                one, k = (slice(b, b + 1), slice(None), slice(h, h + 1)), h // group
                keys = slice(b, b + 1), slice(None), slice(k, k + 1)
                given = Q[one], K[keys], V[keys]
                values[one], allowed[one] = problem.values(*given)[0], problem.allowed(*given)
        return values, allowed

    def peer(self, name: str) -> Callable[[], Values]:
        """A launch of torch's attention with one backend."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[name]
        Q, K, V = (one.transpose(1, 2) for one in self.inputs)
        shared = {"enable_gqa": True} if Q.shape[1] != K.shape[1] else {}

        def launch() -> Values:
            with sdpa_kernel(backend):
                made = torch.nn.functional.scaled_dot_product_attention(
                    Q, K, V, is_causal=self.causal, **shared
                )
            return made.transpose(1, 2)

        return launch

    def timed(self, sides: list[Callable[[], object]], samples: int = SAMPLES) -> list[list[float]]:
        """Seconds of each side, in samples that alternate; each after a flush of the L2."""
        for side in sides * 2:
            side()
        found: list[list[float]] = []
        for index in range(samples):
            marks = {}
            order = list(range(len(sides)))
            for i in order if index % 2 == 0 else order[::-1]:
                torch.cuda._sleep(timing.LEAD_CYCLES)
                self.flush.zero_()
                marks[i] = timing.elapsed(sides[i])
            torch.cuda.synchronize()
            found.append([marks[i][0].elapsed_time(marks[i][1]) / 1e3 for i in order])
            time.sleep(timing.REST_SECONDS)
        return found


def measured(shape: Shape, job: Job, artifact: Artifact | None, cudnn: Callable | None) -> dict[str, Any]:
    """What one kernel, or one peer, did."""
    work_done = work(shape.size, shape.causal)
    if artifact is None:
        launch = shape.peer(job[1])
        if wrong := shape.wrong(launch()):
            return {"why": wrong}
        seconds = [one[0] for one in shape.timed([launch])]
        return {"tflops": work_done / statistics.median(seconds) / 1e12, "seconds": seconds}
    reference.bits(shape.O).fill_(reference.POISON)
    names = "Q", "K", "V", "O"
    pointers = {n: t.data_ptr() for n, t in zip(names, [*shape.inputs, shape.O], strict=True)}
    kernel = timing.Kernel(artifact, pointers)
    try:
        kernel.launch(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        found: dict[str, Any] = {"why": shape.wrong(shape.O), "registers": artifact.resources.registers}
        found["spills"] = artifact.resources.spill_stores
        sides: list[Callable[[], object]] = [lambda: kernel.launch(torch.cuda.current_stream().cuda_stream)]
        with timing.GpuState() as state:
            pairs = shape.timed([*sides, *([cudnn] if cudnn else [])])
        again = shape.wrong(shape.O)
    finally:
        kernel.unload()
    seconds = [pair[0] for pair in pairs]
    quartiles = statistics.quantiles(seconds, n=4)
    found |= {
        "why": found["why"] or again,
        "tflops": work_done / statistics.median(seconds) / 1e12,
        "tflops_quartiles": [work_done / one / 1e12 for one in (quartiles[2], quartiles[0])],
        "gpu": state.summary(),
    }
    if cudnn:
        ratios = [pair[1] / pair[0] for pair in pairs]
        found["cudnn_tflops"] = work_done / statistics.median(pair[1] for pair in pairs) / 1e12
        found["ratio"] = statistics.median(ratios)
        found["ratio_quartiles"] = statistics.quantiles(ratios, n=4)[::2]
    return found


def serve(begin: int, end_time: float) -> None:
    """Measure the archive's jobs from one on; a line of JSON for each."""
    shape: Shape | None = None
    cudnn: Callable | None = None
    with zipfile.ZipFile(sys.argv[0]) as archive:
        for number, job in list(enumerate(listed(archive)))[begin:]:
            if time.time() > end_time:
                return
            print(json.dumps({"begins": number}), flush=True)
            try:
                if shape is None or SHAPES[job[0]][1:] != (shape.size,) or SHAPES[job[0]][0] != shape.kind:
                    shape = cudnn = None
                    torch.cuda.empty_cache()
                    shape = Shape(job[0], seed=number)
                    with contextlib.suppress(RuntimeError):
                        cudnn = shape.peer("cuDNN")
                        cudnn()
                artifact = Artifact.from_bytes(archive.read(_place(job))) if job[2] else None
                found = measured(shape, job, artifact, cudnn)
            except (RuntimeError, ValueError, KeyError) as error:
                found = {"why": f"{type(error).__name__}: {error}"[:400]}
            print(json.dumps({"job": number, **found}), flush=True)
            try:
                torch.cuda.synchronize()
            except RuntimeError:  # a fault stays with the process
                return


def listed(archive: zipfile.ZipFile) -> list[Job]:
    """All jobs, shape by shape: the peers, then the kernels that could be compiled, best rung first."""
    found = json.loads(archive.read("jobs.json"))
    jobs = [tuple(job) for job in found["jobs"] if _place(tuple(job)) not in found["failed"]]
    order: list[Job] = []
    for name in SHAPES:
        order += [(name, peer, "") for peer in PEERS]
        order += sorted((job for job in jobs if job[0] == name), key=lambda job: job[1], reverse=True)
    return order


def supervised(command: list[str], count: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The lines of processes that measure ``count`` jobs; a new one begins where the last one stopped."""
    import queue
    import threading

    deadline, begin = time.time() + seconds, 0
    while begin < count and time.time() < deadline:
        process = subprocess.Popen(
            [*command, "--begin", str(begin), "--until", str(deadline)], stdout=subprocess.PIPE, text=True
        )
        lines: queue.Queue[str | None] = queue.Queue()

        def read(process: subprocess.Popen = process, lines: queue.Queue = lines) -> None:
            for line in process.stdout or ():
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        patience, running, ended = START_SECONDS, None, "its process ended"
        while True:
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                ended = f"no answer within {patience:g} s"
                process.kill()
                break
            if line is None:
                break
            said, patience = json.loads(line), JOB_SECONDS
            if "begins" in said:
                running = said["begins"]
            else:
                running, begin = None, said["job"] + 1
                yield said
        process.kill()
        process.wait()
        if running is None:  # it ended between two jobs
            if time.time() < deadline and begin < count and process.returncode != 0:
                return
            continue
        yield {"job": running, "why": ended}
        begin = running + 1


def run() -> int:
    """The archive's command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="attention.json")
    parser.add_argument("--seconds", type=float, default=230, help="begin no kernel after so long")
    parser.add_argument("--begin", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.begin is not None:
        serve(options.begin, options.until)
        return 0
    begin = time.monotonic()
    device, reason = backends.find_gpu()
    if device is None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    with zipfile.ZipFile(sys.argv[0]) as archive:
        jobs, failed = listed(archive), json.loads(archive.read("jobs.json"))["failed"]
        first = {dsl: next((job for job in jobs if job[2] == dsl), None) for dsl in DSLS}
        versions = {
            dsl: Artifact.from_bytes(archive.read(_place(job))).versions for dsl, job in first.items() if job
        }
    entries: list[dict[str, Any]] = [{"place": place, "why": why} for place, why in failed.items()]
    for found in supervised([sys.executable, sys.argv[0]], len(jobs), options.seconds):
        shape, rung, dsl = jobs[found.pop("job")]
        kind, size = SHAPES[shape]
        entries.append({"shape": shape, "rung": rung, "dsl": dsl, "kind": kind, "at": size} | found)
        where = bundle.provenance(device, versions)
        Path(options.out).write_text(json.dumps({"provenance": where, "entries": entries}, indent=1))
        speed = f"{found['tflops']:6.1f} TFLOP/s" if "tflops" in found else ""
        ratio = f", {found['ratio']:.3f} of cuDNN" if "ratio" in found else ""
        where_at = f"{time.monotonic() - begin:4.0f} s  {shape:38} {rung:18} {dsl:9}"
        print(f"{where_at} {speed}{ratio}  {found.get('why', '')}", flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    planned = [word.removeprefix("--plans=") for word in sys.argv[2:] if word.startswith("--plans=")]
    build(sys.argv[1], [word for word in sys.argv[2:] if not word.startswith("--")], *planned)
