"""On a Hopper GPU: every way a kernel can go wrong ends in its verdict within its limit, and the next kernel
works.

The kernels are plain CUDA C++, one thread an element of D, so that these tests need NVRTC and no DSL.
"""

import functools
import re
import shutil
import time
from dataclasses import replace

import pytest

from course_utils.artifact import Artifact, Parameter, Tensor
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import hints, steps
from course_utils.grading import words as sentences
from course_utils.grading.gemm import check_gemm, judge
from course_utils.run import backends, client
from course_utils.run.backends import Gpu, Launch, find_gpu

pytestmark = pytest.mark.gpu

M, N, K = 256, 512, 128
TILE = 16

SOURCE = """
__device__ float widen(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ unsigned short narrow(float f) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }

extern "C" __global__ void gemm(unsigned short* A, unsigned short* B, unsigned short* D) {
    const long long M = MM, N = NN, K = KK;
    long long n = blockIdx.x * 16ll + threadIdx.x, m = blockIdx.y * 16ll + threadIdx.y;
    bool first = m == 0 && n == 0;
    float sum = 0.0f;
    for (long long k = 0; k < K; ++k) sum += widen(A[m * K + k]) * widen(B[n * K + k]);
    PLANT
    D[m * N + n] = narrow(sum);
}
"""

WRONG = {  # answered in the same process: the GPU is fine
    "one too many": ("sum += 1.0f;", "are wrong"),
    "not a number": ("if (m == 5) sum = __int_as_float(0x7fffffff);", "NaN"),
    "row left out": ("if (m == 7) return;", "never written, all in row 7"),
    "nothing written": ("return;", "wrote no element"),
    "past the end": ("if (first) D[M * N] = 0;", "wrote 1 elements after D"),
    "before the start": ("if (first) D[-1] = 0;", "wrote 1 elements before D"),
    "changes A": ("if (first) A[3] ^= 1;", "changed its input A"),
    "changes B": ("if (first) B[N * K - 1] ^= 1;", "changed its input B"),
}
FAULTS = {  # the context is lost: a fresh process must serve the next kernel
    "out of bounds": ("D[m * N + n + (1ll << 40)] = 0;", "illegal address"),
    "misaligned": ("*(volatile int*)((char*)D + 2) = 0;", "not aligned"),
    "trap": ('asm volatile("trap;");', "The kernel died|illegal instruction"),
}
HANG = 'while (true) asm volatile("nanosleep.u32 1000;");'
HANG_LIMIT = 3.0


@functools.cache
def kernel(plant="", size=(M, N, K)):
    """The right kernel with something planted before its store."""
    from course_utils.compile.nvrtc import compile_source

    source = SOURCE.replace("PLANT", plant)
    for name, extent in zip(("MM", "NN", "KK"), size, strict=True):
        source = source.replace(name, str(extent))
    ptx, cubin, resources = compile_source(source, [])
    m, n, _ = size
    return Artifact(
        dsl="tilelang",
        kernel="gemm",
        ptx=ptx,
        cubin=cubin,
        grid=(n // TILE, m // TILE, 1),
        block=(TILE, TILE, 1),
        cluster=(1, 1, 1),
        dynamic_shared=0,
        tensors=tensors(*size),
        parameters=tuple(Parameter("pointer", tensor=t) for t in "ABD"),
        resources=resources,
        source=source,
    )


def tensors(m, n, k):
    return Tensor("A", (m, k), "float16"), Tensor("B", (n, k), "float16"), Tensor("D", (m, n), "float16")


def run(artifact, limit=backends.TIME_LIMIT):
    """The answer, with what it means as its causes."""
    answer = Gpu(limit).ask(Launch((), artifact))
    return replace(answer, causes=tuple(hints.causes(answer, artifact)) or answer.causes)


def said(answer):
    return sentences.text(*answer.causes)


def pid():
    """The worker's process, after a right kernel has run in it."""
    assert run(kernel()).ok
    return client.worker(client.GPU)._process.pid


def test_finds_the_gpu():
    device, reason = find_gpu()
    assert reason == ""
    assert device["capability"] == [9, 0]
    assert (
        device["sms"] > 100 and device["l2_bytes"] > 0 and 0 < device["free_bytes"] <= device["memory_bytes"]
    )
    assert all(device[key] for key in ("name", "driver", "cuda_driver", "torch", "cublas_cuda"))


def test_right_kernel_is_right():
    answer = run(kernel())
    assert answer.ok and answer.wrong == answer.unwritten == 0
    assert answer.relative_norm < 3e-4


def test_seed_decides_the_inputs():
    errors = [
        client.worker(client.GPU).request("run", kernel(), 20.0, kind="gemm", seed=seed)["relative_norm"]
        for seed in (1, 1, 2)
    ]
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)
    assert errors[2] != pytest.approx(errors[0], rel=1e-6)


@pytest.mark.parametrize("plant, words", WRONG.values(), ids=WRONG)
def test_wrong_result_is_told_and_costs_no_process(plant, words):
    before = pid()
    answer = run(kernel(plant))
    assert not answer.ok and not answer.error
    assert words in said(answer)
    assert pid() == before


@pytest.mark.parametrize("plant, words", FAULTS.values(), ids=FAULTS)
def test_fault_is_told_and_the_next_kernel_works(plant, words):
    before = pid()
    answer = run(kernel(plant))
    assert answer.error.startswith("CUDA_ERROR_")
    assert re.search(words, said(answer))
    assert pid() != before


def test_hang_ends_at_its_limit_and_the_next_kernel_works():
    before = pid()
    began = time.monotonic()
    answer = run(kernel(HANG), HANG_LIMIT)
    assert HANG_LIMIT <= time.monotonic() - began < HANG_LIMIT + 5
    assert answer.error == "timeout"
    assert "never ended (3 s)" in said(answer) and "no mbarrier" in said(answer)
    assert pid() != before


def test_hang_of_one_worker_does_not_stop_another():
    from course_utils.run.client import Worker, WorkerTimeout

    with Worker() as other:
        with pytest.raises(WorkerTimeout):
            other.request("run", kernel(HANG), HANG_LIMIT, kind="gemm", seed=0)
        assert run(kernel()).ok


@pytest.mark.parametrize(
    "change, words",
    [
        ({"block": (2048, 1, 1)}, "driver refused"),
        ({"dynamic_shared": 300_000}, "driver refused"),
        ({"cubin": b"no cubin"}, ""),
        ({"kernel": "another"}, ""),
    ],
    ids=["too many threads", "too much shared memory", "broken cubin", "no such kernel"],
)
def test_refused_launch_is_told_and_the_next_kernel_works(change, words):
    answer = run(replace(kernel(), **change))
    assert answer.error.startswith("CUDA_ERROR_")
    assert said(answer) and words in said(answer)
    assert pid()


def test_out_of_memory_costs_no_process():
    before = pid()
    answer = run(replace(kernel(), tensors=tensors(1 << 20, N, 1 << 20)))
    assert answer.error == "out_of_memory" and "nvidia-smi" in said(answer)
    assert pid() == before


def assert_timed(run, mode, samples):
    assert (run["mode"], run["size"]) == (mode, [M, N, K])
    assert run["samples"] >= samples
    assert run["tflops"] == pytest.approx(2 * M * N * K / run["seconds"] / 1e12)
    assert run["tflops"] > 0 and run["cublas_tflops"] > 0
    for name in ("tflops", "ratio"):
        low, high = run[f"{name}_quartiles"]
        assert 0.999999 * low <= run[name] <= 1.000001 * high
    assert set(run["gpu"]) == {"clock_mhz", "power_w", "temperature_c"}


def test_burst_says_speed_spread_and_clocks():
    answer = Gpu().time(kernel(), "burst").timing
    assert_timed(answer, "burst", 30)
    if shutil.which("nvidia-smi"):
        assert (
            answer["gpu"]["clock_mhz"] > 300
            and answer["gpu"]["power_w"] > 0
            and 0 < answer["gpu"]["temperature_c"] < 110
        )


def test_sustained_says_the_same():
    assert_timed(
        client.worker(client.GPU).request("sustained", kernel(), 60.0, seed=1, heat_seconds=0.5, samples=4)[
            "timing"
        ],
        "sustained",
        4,
    )


def test_a_slower_kernel_has_a_lower_ratio():
    slow = kernel('for (int i = 0; i < 1000; ++i) asm volatile("nanosleep.u32 1000;");')
    ratios = [Gpu().time(one, "burst").timing["ratio"] for one in (slow, kernel())]
    assert ratios[0] < 0.5 * ratios[1]


@pytest.mark.parametrize("op", ["burst", "sustained"])
def test_wrong_timed_output_has_no_speed_and_costs_no_process(op):
    before = pid()
    answer = Gpu().time(kernel("if (m == 7) return;"), op)
    assert answer.error == "timed_output"
    assert answer.timing is None
    assert pid() == before


def test_hang_while_timed_ends_at_its_limit(monkeypatch):
    monkeypatch.setattr(backends, "TIMING_LIMIT", HANG_LIMIT)
    answer = Gpu().time(kernel(HANG), "burst")
    assert answer.error == "timeout"
    assert pid()


def test_verdict_of_a_plain_kernel_lacks_the_instructions_alone():
    step = steps.find("step03")
    answered = Gpu().run(Launch(size, kernel(size=size)) for size in step.check_sizes)
    timed = [(kernel(size=step.timed_sizes[0]), "burst")]
    verdict = judge(step, "tilelang", Gpu(), answered, timed)
    parts = {part.name: part.passed for part in verdict.checks}
    assert parts == {
        "compiles": True,
        "tensor maps": True,
        "instructions": False,
        "results": True,
        "speed": False,
    }
    assert "wgmma" in verdict.diagnosis
    assert verdict.timing[0]["size"] == [4096, 4096, 4096]


@pytest.mark.parametrize("dsl, package", [("tilelang", "tilelang"), ("cute", "cutlass")])
@pytest.mark.parametrize("step", ["step01", "step05", "step10"])
def test_solution_gets_all_its_points(step, dsl, package):
    pytest.importorskip(package, reason="solutions are compiled here")
    verdict = check_gemm(step, load_factory(solution_path(step, dsl)), dsl, backend="gpu")
    assert verdict.passed, str(verdict)
    assert verdict.points == steps.find(step).points
