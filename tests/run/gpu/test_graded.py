"""The timing of grades: as a protocol, against rounds that only pretend; what a round finds, in a CPU's memory;
and on a Hopper GPU against kernels that would rather not multiply.

Those kernels are PTX, one thread an element of D, so that these tests need neither NVRTC nor a DSL.
"""

import random

import pytest
import torch

from course_utils.artifact import Artifact, Parameter, Resources, Tensor
from course_utils.run import backends, client
from course_utils.run.backends import Gpu, Launch
from course_utils.run.client import Worker
from course_utils.run.gpu import graded
from course_utils.run.gpu.graded import SIDES, WARM, Memory, Refused, measure
from course_utils.run.gpu.timing import ROUNDS

SAMPLES = 9


# -- the protocol


class Pretended:
    """A round that knows only what it is asked, in ``asked``; the kernel takes ``kernel`` seconds."""

    def __init__(self, asked, kernel=2e-3, wrong_at=None):
        self.asked, self.kernel, self.wrong_at = asked, kernel, wrong_at

    def fill(self, seeds):
        self.asked.append(("fill", seeds))

    def seconds(self, side):
        self.asked.append((side, None))
        return {"kernel": self.kernel, "cublas": 1e-3}[side]

    def check(self, seeds):
        self.asked.append(("check", seeds))
        if sum(what == "check" for what, _ in self.asked) == self.wrong_at:
            raise Refused("a timed output was wrong")

    def close(self):
        self.asked.append(("close", None))


def protocol(seed=1, samples=SAMPLES, **fields):
    """What was asked of all rounds, and the pairs."""
    asked = []
    return asked, measure(lambda turn: Pretended(asked, **fields), random.Random(seed), samples, 1e-6)


def test_each_round_is_made_anew_and_closed():
    turns = []
    measure(lambda turn: turns.append(turn) or Pretended([]), random.Random(1), SAMPLES, 0.0)
    assert turns == list(range(ROUNDS))
    asked, _ = protocol()
    assert [what for what, _ in asked].count("close") == ROUNDS and asked[-1][0] == "close"


def test_every_sample_is_filled_run_once_on_each_side_and_checked():
    asked, pairs = protocol()
    steps = [one for one in asked if one[0] != "close"]
    assert len(steps) == 4 * (SAMPLES + ROUNDS * WARM) and len(pairs) == SAMPLES
    for at in range(0, len(steps), 4):
        (first, given), *sides, (last, held) = steps[at : at + 4]
        assert (first, last) == ("fill", "check") and given == held
        assert {side for side, _ in sides} == set(SIDES)


def test_inputs_differ_in_every_sample_and_on_both_sides():
    asked, _ = protocol()
    seeds = [seed for what, given in asked if what == "fill" for seed in given.values()]
    assert len(set(seeds)) == len(seeds) == 2 * (SAMPLES + ROUNDS * WARM)
    assert protocol(seed=2)[0] != asked == protocol()[0]


def test_which_side_goes_first_is_drawn():
    asked, _ = protocol(samples=90)
    sides = [what for what, _ in asked if what in SIDES]
    first = "".join(side[0] for side in sides[::2])
    assert 30 < first.count("k") < len(first) - 30
    assert "kkk" in first and "ccc" in first  # and so not every other time


def test_seconds_are_the_kernels_and_cublas():
    assert protocol(kernel=5e-3)[1] == [(5e-3, 1e-3)] * SAMPLES


@pytest.mark.parametrize("sample", [1, WARM + 2, SAMPLES + ROUNDS * WARM], ids=["warm", "middle", "last"])
def test_one_wrong_sample_refuses_all_and_unloads(sample):
    asked = []
    with pytest.raises(Refused, match="wrong"):
        measure(lambda turn: Pretended(asked, wrong_at=sample), random.Random(1), SAMPLES, 0.0)
    assert asked[-1][0] == "close"


def test_above_the_roofline_is_refused():
    with pytest.raises(Refused, match="100 us at its highest clock"):
        measure(lambda turn: Pretended([], kernel=99e-6), random.Random(1), SAMPLES, 100e-6)


# -- what a round finds


@pytest.fixture
def memory():
    """A round in a CPU's memory after both sides multiplied, and its seeds."""
    memory, seeds = Memory((64, 96, 32), "cpu"), {"kernel": 1, "cublas": 2}
    memory.fill(seeds)
    for side in SIDES:
        A, B, D = memory.tensors[side]
        assert torch.isnan(D).all()  # poisoned
        torch.matmul(A, B.T, out=D)
    return memory, seeds


def test_right_outputs_pass(memory):
    memory[0].check(memory[1])


def test_a_round_of_fp8_asks_for_the_scales_of_each_block():
    memory, seeds = Memory((128, 256, 256), "cpu", "fp8 with scales"), {"kernel": 1, "cublas": 2}
    memory.fill(seeds)
    for side in SIDES:
        *inputs, D = memory.tensors[side]
        assert D.dtype == torch.bfloat16 and torch.isnan(D).all()
        memory.problem.beside(*inputs, D)  # one scale for all of A, and one for all of B
    with pytest.raises(Refused, match="of the kernel was wrong"):
        memory.check(seeds)
    *inputs, D = memory.tensors["kernel"]
    D.copy_(memory.problem.timed(*inputs))
    memory.check(seeds)


def flip(tensor):
    tensor.view(torch.int16)[-1, -1] ^= 1


def nothing_written(memory):
    memory.tensors["kernel"][2].view(torch.int16).fill_(0x7DAD)


def taken_from_cublas(memory):
    memory.tensors["kernel"][2].copy_(memory.tensors["cublas"][2])


def all_zero(memory):
    for tensor in memory.tensors["kernel"]:
        tensor.zero_()


def a_row_left_out(memory):
    memory.tensors["kernel"][2][5] = 0


def less_precise(memory):
    A, B, D = memory.tensors["kernel"]
    D.copy_(A.to(torch.float8_e4m3fn).half() @ B.T)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda m: flip(m.tensors["kernel"][0]), "input A of the kernel was changed"),
        (lambda m: flip(m.tensors["kernel"][1]), "input B of the kernel was changed"),
        (lambda m: flip(m.tensors["cublas"][0]), "input A of cuBLAS was changed"),
        (lambda m: flip(m.tensors["cublas"][1]), "input B of cuBLAS was changed"),
        (lambda m: m.tensors["cublas"][2].zero_(), "output of cuBLAS was wrong"),
        (lambda m: m.tensors["kernel"][2].zero_(), "output of the kernel was wrong"),
        (all_zero, "input A of the kernel was changed"),
        (nothing_written, "output of the kernel was wrong"),
        (taken_from_cublas, "output of the kernel was wrong"),
        (a_row_left_out, "output of the kernel was wrong"),
        (less_precise, "output of the kernel was wrong"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_a_kernel_did_instead_is_refused(memory, change, words):
    change(memory[0])
    with pytest.raises(Refused, match=words):
        memory[0].check(memory[1])


def test_the_output_of_the_sample_before_is_wrong(memory):
    memory, seeds = memory
    D = memory.tensors["kernel"][2].clone()
    seeds = {"kernel": 3, "cublas": 4}
    memory.fill(seeds)
    A, B, out = memory.tensors["cublas"]
    torch.matmul(A, B.T, out=out)
    memory.tensors["kernel"][2].copy_(D)
    with pytest.raises(Refused, match="output of the kernel"):
        memory.check(seeds)


# -- on a GPU

M, N, K = 256, 512, 128
TILE = 16

PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 16 .b8 seen[{outputs}];
.visible .global .align 16 .b8 kept[{bytes}];
.visible .entry gemm(.param .u64 gA, .param .u64 gB, .param .u64 gD)
{{
  .reg .pred p, q;
  .reg .b16 a, b, h;
  .reg .f32 x, y, sum;
  .reg .b32 m, n, t, k, r;
  .reg .b64 A, B, D, pa, pb, pd, pk, ps, w, v;
  ld.param.u64 A, [gA];
  ld.param.u64 B, [gB];
  ld.param.u64 D, [gD];
  mov.u32 r, %ctaid.x;
  mov.u32 n, %tid.x;
  mad.lo.u32 n, r, 16, n;
  mov.u32 r, %ctaid.y;
  mov.u32 m, %tid.y;
  mad.lo.u32 m, r, 16, m;
  mad.lo.u32 t, m, {N}, n;        // this thread's element of D
  mad.wide.u32 pd, t, 2, D;
  mov.u64 pk, kept;
  mad.wide.u32 pk, t, 2, pk;      // a place for it that outlives the launch
  mov.u64 ps, seen;
  cvt.u64.u32 w, t;
  add.u64 ps, ps, w;
  ld.global.u8 r, [ps];
  setp.ne.u32 q, r, 0;            // this is not the first launch
  mov.u32 r, 1;
  st.global.u8 [ps], r;
  {before}
  mul.lo.u32 r, m, {K};
  mad.wide.u32 pa, r, 2, A;
  mul.lo.u32 r, n, {K};
  mad.wide.u32 pb, r, 2, B;
  mov.f32 sum, 0f00000000;
  mov.u32 k, 0;
more:
  ld.global.b16 a, [pa];
  ld.global.b16 b, [pb];
  cvt.f32.f16 x, a;
  cvt.f32.f16 y, b;
  fma.rn.f32 sum, x, y, sum;
  add.u64 pa, pa, 2;
  add.u64 pb, pb, 2;
  add.u32 k, k, 1;
  setp.lt.u32 p, k, {K};
  @p bra more;
  cvt.rn.f16.f32 h, sum;
  st.global.b16 [pd], h;
  st.global.b16 [pk], h;
  {after}
  ret;
}}
"""

BESIDE = 2 * M * N  # cuBLAS's tensors lie behind D
# what stands before the product, what after its store, and what is said of it
ATTACKS = {
    "zeros in A, B and D": (
        f"""
  mov.u16 h, 0;
  setp.lt.u32 p, t, {M * K};
  mad.wide.u32 pa, t, 2, A;
  @p st.global.b16 [pa], h;
  setp.lt.u32 p, t, {N * K};
  mad.wide.u32 pb, t, 2, B;
  @p st.global.b16 [pb], h;
  st.global.b16 [pd], h;
  ret;""",
        "",
        "input A of the kernel was changed",
    ),
    "D of the first launch": (
        "@q ld.global.b16 h, [pk]; @q st.global.b16 [pd], h; @q ret;",
        "",
        "output of the kernel was wrong",
    ),
    "nothing from the second launch on": ("@q ret;", "", "output of the kernel was wrong"),
    "nothing at all": ("ret;", "", "output of the kernel was wrong"),
    "a tenth of the rows left out": (
        f"setp.ge.u32 p, m, {M - M // 10}; @p ret;",
        "",
        "output of the kernel was wrong",
    ),
    "an input changed after use": (
        "",
        "or.b32 r, m, n; setp.eq.u32 p, r, 0; ld.global.b16 a, [A]; xor.b16 a, a, 1; @p st.global.b16 [A], a;",
        "input A of the kernel was changed",
    ),
    "zeros into cuBLAS's inputs": (
        "",
        f"mov.u16 h, 0; setp.lt.u32 p, t, {M * K + N * K}; @p st.global.b16 [pd+{BESIDE}], h;",
        "of cuBLAS was changed|CUDA_ERROR_ILLEGAL_ADDRESS",
    ),
    "a search upwards for memory that is not its own": (
        "",
        f"""
  mov.u32 k, 0;
search:
  mul.wide.u32 w, k, {2 * M * N};
  add.u64 v, pd, w;
  add.u64 v, v, {BESIDE};
  mov.u16 h, 0;
  st.global.b16 [v], h;
  add.u32 k, k, 1;
  setp.lt.u32 p, k, 6;
  @p bra search;""",
        "of cuBLAS was|CUDA_ERROR_ILLEGAL_ADDRESS",
    ),
    "cuBLAS's own D": (
        f"ld.global.b16 h, [pd+{2 * (M * N + M * K + N * K)}]; st.global.b16 [pd], h; ret;",
        "",
        "output of the kernel was wrong|CUDA_ERROR_ILLEGAL_ADDRESS",
    ),
    "an address of nobody": ("mov.u64 v, 64; st.global.b16 [v], h;", "", "CUDA_ERROR_ILLEGAL_ADDRESS"),
}


def kernel(before="", after="", size=(M, N, K)):
    """The right kernel with something planted; the driver assembles it."""
    m, n, k = size
    ptx = PTX.format(N=n, K=k, outputs=m * n, bytes=2 * m * n, before=before, after=after)
    return Artifact(
        dsl="cute",
        kernel="gemm",
        ptx=ptx,
        cubin=ptx.encode() + b"\0",
        grid=(n // TILE, m // TILE, 1),
        block=(TILE, TILE, 1),
        cluster=(1, 1, 1),
        dynamic_shared=0,
        parameters=tuple(Parameter("pointer", t) for t in "ABD"),
        tensors=(
            Tensor("A", (m, k), "float16"), Tensor("B", (n, k), "float16"), Tensor("D", (m, n), "float16")
        ),
        resources=Resources(32, 0, 0, 0, 0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def gpu():
    """A worker of these tests' own: what is graded shares none."""
    with Worker(client.GPU) as worker:
        yield Gpu(worker=worker)


@pytest.mark.gpu
def test_a_right_kernel_is_timed(gpu):
    answer = gpu.time(kernel(), "graded")
    assert answer.ok and not answer.error, answer
    run = answer.timing
    assert (run["mode"], run["size"]) == ("graded", [M, N, K])
    assert run["samples"] >= 45 and min(run["ratio"], run["cublas_tflops"], run["tflops"]) > 0


@pytest.mark.gpu
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_gets_a_speed(attack, gpu):
    before, after, words = ATTACKS[attack]
    answer = gpu.time(kernel(before, after), "graded")
    assert answer.timing is None and not answer.ok
    told = f"{answer.error}: {answer.detail}"
    assert any(word in told for word in words.split("|")), told
    assert answer.error == "refused" or answer.error.startswith("CUDA_ERROR_")
    right = gpu.time(kernel(), "graded")  # and the next one is served
    assert right.ok, right


@pytest.mark.gpu
def test_a_kernel_that_never_ends_is_killed(gpu, monkeypatch):
    monkeypatch.setattr(backends, "TIMING_LIMIT", 5.0)
    answer = gpu.time(kernel("hang: nanosleep.u32 1000; bra hang;"), "graded")
    assert answer.error == "timeout"
    monkeypatch.undo()
    assert gpu.time(kernel(), "graded").ok


@pytest.mark.gpu
@pytest.mark.parametrize("attack", ["zeros in A, B and D", "an input changed after use", "nothing at all"])
def test_it_is_wrong_at_a_check_size_too(attack, gpu):
    before, after, _ = ATTACKS[attack]
    answer = gpu.ask(Launch((M, N, K), kernel(before, after)))
    assert not answer.ok and not answer.error


@pytest.mark.gpu
def test_a_kernel_that_overwrites_what_it_could_be_held_against_is_wrong(gpu):
    """A, B and whatever lies upwards of them become zeros, as does D."""
    sweep = f"""
  mov.u32 k, 0;
  mov.u16 h, 0;
sweep:
  mul.wide.u32 w, k, {2 * M * N};
  mad.wide.u32 v, t, 2, w;
  add.u64 v, v, A;
  st.global.b16 [v], h;
  add.u32 k, k, 1;
  setp.lt.u32 p, k, 2;
  @p bra sweep;
  st.global.b16 [pd], h;
  ret;"""
    answer = gpu.ask(Launch((M, N, K), kernel(sweep)))
    assert not answer.ok


@pytest.mark.gpu
def test_the_roofline_is_that_of_a_hopper():
    size = (4096, 4096, 4096)
    limit = 2 * 4096**3 / graded._least_seconds(size) / 1e12
    assert 600 < limit < 1300  # TFLOP/s, of an H100 PCIe and of an H200 at 1,980 MHz
    assert 2 * graded._least_seconds(size, "float8_e4m3fn") == pytest.approx(graded._least_seconds(size))
