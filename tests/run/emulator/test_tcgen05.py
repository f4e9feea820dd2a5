"""tcgen05.mma: D is right for each kind, shape, layout and place of its operands, on several schedules.

Nothing of this has run on a Blackwell by us.
"""

from functools import cache

import numpy as np
import pytest
import torch

from course_utils.chips import BLACKWELL
from course_utils.compile import load as loading
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.ptx import receipts
from course_utils.run import reference as results
from course_utils.run.emulator import EmulatorError, emulate
from course_utils.run.emulator.isa.elements import FP8_VALUES
from tests.run.emulator import blackwell as bw
from tests.run.emulator.kernels import by_thread_0, init, kernel, load_tile, tile_map, wait

SEEDS = (0, 1, 5)
SOLUTIONS = loading.SOLUTIONS / "blackwell"
SIZES = {"b01_single_tile": (128, 128, 64), "b04_tma": (256, 256, 192)}


def run(body, tensors, seed=0, **options):
    result = emulate(bw.blackwell(body, tensors, **options), tensors, seed)
    assert result.finished and result.findings == [], [str(one) for one in result.findings]


def shared_image(A, B):
    """What 128 threads copy to shared memory: A at byte 0, B at byte 8,192."""
    image = np.zeros(16384, np.uint8)
    image[: A.size], image[8192 : 8192 + B.size] = A, B
    return image


def numbers(rng, rows, kind):
    """A matrix of rows x 32 bytes of this type: its bits, and as float32."""
    if kind in FP8_VALUES:
        bits = (
            rng.integers(0, 0x40, (rows, 32)).astype(np.uint8)
            | rng.integers(0, 2, (rows, 32)).astype(np.uint8) << 7
        )
        return bits, FP8_VALUES[kind][bits]
    values = rng.standard_normal((rows, 16)).astype(np.float32)
    if kind == "bf16":
        bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32)
    half = values.astype(np.float16)
    return half, half.astype(np.float32)


def multiplied(A, B, N, body, seed, threads=128):
    """What each of 128 threads finds in its lane, N columns of it."""
    out = np.zeros((threads, N), np.float32)
    run(body, {"image": shared_image(A, B), "out": out}, seed)
    return out


def product(M, N, *multiplies, adds=""):
    """Begin, ``multiplies`` by one thread, wait, and every thread writes its lane out."""
    commit = by_thread_0("".join(multiplies) + bw.COMMIT, "MULTIPLIED")
    return bw.begun() + adds + commit + bw.WAITED + bw.load(N) + bw.WAIT_LD + bw.written(N) + bw.FREE


TYPES = {
    **{("f16", "f16"): ("f16", 0, 0), ("bf16", "bf16"): ("f16", 1, 1)},
    **{("e4m3", "e4m3"): ("f8f6f4", 0, 0), ("e5m2", "e4m3"): ("f8f6f4", 1, 0)},
}


@pytest.mark.parametrize("types", TYPES, ids=lambda types: f"{types[0]} {types[1]}")
@pytest.mark.parametrize("M, N", [(128, 16), (128, 32), (64, 8), (64, 16)])
def test_an_mma_multiplies_each_kind_and_shape(types, M, N):
    rng = np.random.default_rng(M + N)
    (a_bits, a), (b_bits, b) = numbers(rng, M, types[0]), numbers(rng, N, types[1])
    kind, a_code, b_code = TYPES[types]
    body = product(M, N, bw.multiply(M, N, kind=kind, bits=bw.instruction(M, N, a_code, b_code)))
    for seed in SEEDS:
        out = multiplied(bw.tile(a_bits), bw.tile(b_bits), N, body, seed)
        lanes = np.arange(128) if M == 128 else np.arange(64) % 16 + 32 * (np.arange(64) // 16)
        np.testing.assert_allclose(out[lanes], a @ b.T, rtol=1e-5, atol=1e-4)


def test_signs_sums_and_transposed_operands():
    rng = np.random.default_rng(1)
    (a_bits, a), (b_bits, b) = numbers(rng, 128, "f16"), numbers(rng, 16, "f16")
    plain = bw.multiply(128, 16)
    twice = product(128, 16, plain, bw.multiply(128, 16, adds=1))
    less = product(
        128,
        16,
        plain,
        plain.replace("0, 0;", "1, 0;").replace("f16", "f16"),
        bw.multiply(128, 16, adds=1, negate=1),
    )
    for seed in SEEDS:
        made = multiplied(bw.tile(a_bits), bw.tile(b_bits), 16, twice, seed)
        np.testing.assert_allclose(made, 2 * (a @ b.T), rtol=1e-5, atol=1e-4)
        made = multiplied(bw.tile(a_bits), bw.tile(b_bits), 16, less, seed)
        np.testing.assert_allclose(made, a @ b.T, rtol=1e-5, atol=1e-4)
    # A contiguous along M: the leading offset lies between halves of K, the stride between groups of rows
    along = bw.multiply(128, 16, a=bw.descriptor(0, 128, 256), major=1)
    made = multiplied(bw.tile_along_rows(a_bits), bw.tile(b_bits), 16, product(128, 16, along), 0)
    np.testing.assert_allclose(made, a @ b.T, rtol=1e-5, atol=1e-4)


def test_lanes_that_are_disabled_keep_what_they_hold():
    rng = np.random.default_rng(2)
    (a_bits, a), (b_bits, b) = numbers(rng, 128, "f16"), numbers(rng, 16, "f16")
    masks = "mov.b32 %r30, -1;\nmov.b32 %r31, 0;\n"  # lanes 32 to 63 are off
    second = bw.multiply(128, 16, adds=1, off="{%r31, %r30, %r31, %r31}, ")
    made = multiplied(
        bw.tile(a_bits), bw.tile(b_bits), 16, product(128, 16, bw.multiply(128, 16), masks + second), 0
    )
    wanted = a @ b.T * np.where(np.arange(128) // 32 == 1, 1, 2)[:, None]
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("M", [128, 64])
def test_a_comes_from_tensor_memory(M):
    """Threads put a row of A each into 8 columns behind the accumulator."""
    rng = np.random.default_rng(3)
    (a_bits, a), (b_bits, b) = numbers(rng, M, "f16"), numbers(rng, 16, "f16")
    lanes = np.arange(128) if M == 128 else np.arange(64) % 16 + 32 * (np.arange(64) // 16)
    rows = np.zeros((128, 8), np.uint32)
    rows[lanes] = a_bits.view(np.uint32)
    reads = "".join(f"ld.global.u32 %r{60 + i}, [%rd5+{4 * i}];\n" for i in range(8))
    reads = bw.own(2, 32, "%rd5") + reads + "add.s32 %r12, %r10, 16;\n" + bw.store(8, "%r12", 60)
    reads += bw.WAIT_ST + bw.SYNC
    for seed in SEEDS:
        out = np.zeros((128, 16), np.float32)
        tensors = {"image": shared_image(np.zeros(0, np.uint8), bw.tile(b_bits)), "out": out, "rows": rows}
        run(product(M, 16, bw.multiply(M, 16, a="[%r12]"), adds=reads), tensors, seed)
        np.testing.assert_allclose(out[lanes], a @ b.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape, count", [("32x32b", 4), ("16x64b", 4), ("16x128b", 2), ("16x256b", 1)])
def test_what_a_warp_stores_it_loads_in_any_shape(shape, count):
    """Lane l's column c holds 1000 l + c; a load of 16 lanes takes the lower half of the warp's 32."""
    width = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}[shape] * count
    values = "".join(f"mad.lo.u32 %r{60 + i}, %r0, 1000, {i};\n" for i in range(8))
    body = bw.begun(filled="") + values + bw.store(8, first=60) + bw.WAIT_ST
    registers = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}[shape] * count
    body += bw.load(count, shape) + bw.WAIT_LD + bw.written(registers, 0) + bw.FREE
    out = np.zeros((128, registers), np.uint32)
    run(body, {"out": out})
    height = 32 if shape == "32x32b" else 16
    for warp in range(4):
        held = np.sort(out[32 * warp : 32 * warp + 32].reshape(-1))
        lanes = np.arange(32 * warp, 32 * warp + height)
        assert (held == np.sort((lanes[:, None] * 1000 + np.arange(width)).reshape(-1))).all()


PAIRED = """
mov.u32 %r6, %cluster_ctarank;
mul.wide.u32 %rd20, %r6, {image};
mul.wide.u32 %rd21, %r6, {out};
"""
MEET = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"


def paired(M, N, columns, multicast=True):
    """Each CTA copies its tiles, the even one multiplies for both, and each writes its lanes out."""
    width = N if M == 256 else N // 2
    body = bw.init(1, first=bw.DONE) + bw.DONE_AT + PAIRED.format(image=16384, out=128 * width * 4)
    fill = bw.copied(8).replace("ld.global.v4", "add.s64 %rd1, %rd1, %rd20;\nld.global.v4", 1)
    body += fill + bw.PROXY + bw.by_warp_0(bw.alloc(columns, 2), "ALLOCATED") + bw.SYNC + bw.ADDRESS + MEET
    mask = "mov.b16 %rs1, 3;\n"
    commit = mask + bw.COMMIT.replace("group::1", "group::2").replace(
        "cluster.b64", "cluster.multicast::cluster.b64"
    )
    commit = commit.replace("[%r3]", "[%r3], %rs1")
    body += "setp.ne.u32 %p4, %r6, 0;\n@%p4 bra OTHER;\n"
    body += by_thread_0(bw.multiply(M, N, group=2) + commit, "MULTIPLIED") + "OTHER:\n"
    out = bw.written(width).replace("st.global", "add.s64 %rd4, %rd4, %rd21;\nst.global", 1)
    return (
        body
        + bw.WAITED
        + bw.load(width)
        + bw.WAIT_LD
        + out
        + MEET
        + bw.by_warp_0(bw.dealloc(columns, 2), "FREED")
    )


@pytest.mark.parametrize("M, N", [(256, 32), (128, 64)])
def test_a_pair_multiplies_what_both_ctas_hold(M, N):
    rng = np.random.default_rng(M)
    (a_bits, a), (b_bits, b) = numbers(rng, M, "f16"), numbers(rng, N, "f16")
    images = [
        shared_image(bw.tile(a_bits[M // 2 * r :][: M // 2]), bw.tile(b_bits[N // 2 * r :][: N // 2]))
        for r in (0, 1)
    ]
    width = N if M == 256 else N // 2
    for seed in SEEDS:
        out = np.zeros((2, 128, width), np.float32)
        tensors = {"image": np.stack(images), "out": out}
        run(paired(M, N, 32), tensors, seed, grid=(2, 1, 1), cluster=(2, 1, 1))
        made = (
            out.reshape(M, N)
            if M == 256
            else out.reshape(2, 2, 64, width).transpose(0, 2, 1, 3).reshape(M, N)
        )
        np.testing.assert_allclose(made, a @ b.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("opcode", ["2d.cta_group::2.shared::cluster", "2d.shared::cluster"])
def test_loads_of_both_ctas_signal_the_even_ones_barrier(opcode):
    """Each CTA of a pair loads its tile into its own memory; TileLang writes .cta_group first, CuTe last."""
    last = "" if "cta_group" in opcode else ".cta_group::2"
    load = load_tile("%r1", "%r4").replace("2d.shared::cta", opcode).replace("::bytes ", f"::bytes{last} ")
    body = (
        init(1) + "add.s32 %r3, %r1, 8192;\nand.b32 %r4, %r3, 0xFEFFFFFF;\nmov.u32 %r6, %cluster_ctarank;\n"
    )
    expect = "setp.eq.u32 %p4, %r6, 0;\n@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16384;\n"
    body += MEET + by_thread_0(expect + load, "LOADED")
    body += "setp.ne.u32 %p5, %r6, 0;\n@%p5 bra OTHER;\n" + wait("[%r3]", 0, "FULL") + "OTHER:\n" + MEET
    read = "shl.b32 %r7, %r0, 2;\nadd.s32 %r7, %r7, %r1;\nld.shared.u32 %r8, [%r7];\n"
    out = "shl.b32 %r9, %r6, 7;\nadd.s32 %r9, %r9, %r0;\nmul.wide.u32 %rd2, %r9, 4;\n"
    out += "ld.param.u64 %rd1, [k_param_1];\nadd.s64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r8;\n"
    A = np.arange(64 * 64, dtype=np.uint16).view(np.float16).reshape(64, 64)
    for seed in SEEDS:
        tensors = {"A": A, "out": np.zeros((2, 128), np.uint32)}
        options = {"maps": [("A", tile_map((64, 64), (64, 64), swizzle=0))], "pointers": ["out"]}
        run(body + read + out, tensors, seed, grid=(2, 1, 1), cluster=(2, 1, 1), **options)
        assert (tensors["out"] == A.reshape(-1).view(np.uint32)[:128]).all()


@cache
def solution(name, dsl):
    factory = loading.load_factory(SOLUTIONS / dsl / f"{name}.py")
    return compile_factory(factory, dsl, SIZES[name], chip=BLACKWELL)


def emulated(artifact, seed):
    A, B = results.inputs(*artifact.problem, torch.Generator().manual_seed(seed), "cpu")
    D = torch.full(artifact.problem[:2], results.POISON, dtype=torch.int16).view(torch.float16)
    return emulate(artifact, {"A": A, "B": B, "D": D}, seed), results.compare(D, A, B)


@pytest.mark.parametrize("dsl", DSLS)
@pytest.mark.parametrize("name", SIZES)
def test_solutions_are_right_on_any_schedule(name, dsl):
    artifact = solution(name, dsl)
    assert artifact.chip is BLACKWELL and ".target sm_100a" in artifact.ptx
    for seed in SEEDS:
        result, comparison = emulated(artifact, seed)
        assert result.finished and result.findings == [], [str(one) for one in result.findings]
        assert comparison.ok, comparison.causes


@pytest.mark.parametrize("dsl", DSLS)
def test_receipts_show_what_the_steps_are_about(dsl):
    one, tma = (receipts.read_ptx(solution(name, dsl).ptx) for name in SIZES)
    for receipt in (one, tma):
        assert receipt.tmem_allocs == receipt.tmem_frees == 1 and not receipt.wgmma
        assert set(receipt.tcgen05_mma) == {"cta_group::1 f16"}
        assert receipt.tcgen05_commits and receipt.tmem_loads == {"32x32b.x128": 1}
    assert not one.tensor_loads and not one.expect_tx
    assert tma.tensor_loads and tma.tensor_stores and tma.expect_tx


@pytest.mark.parametrize(
    "line, why",
    [
        ("tcgen05.shift.cta_group::1.down [%r1]", "came with Blackwell"),
        (
            "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r1], %rd10, %rd11, %r11, [%r1], [%r1], %p3",
            "came",
        ),
        ("tcgen05.mma.cta_group::1.kind::tf32 [%r1], %rd10, %rd11, %r11, %p3", "kind::tf32"),
        ("tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd10, %rd11, %r11, %p3", "ws"),
        ("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r1], 8", "16x32bx2"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {%r1, %r2}, [%r1]", "pack::16b"),
        ("tcgen05.cp.cta_group::1.128x256b [%r1], %rd10", "came with Blackwell"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(line, why):
    with pytest.raises(EmulatorError, match=r"PTX line \d+") as refused:
        run(line + ";\n", {"out": np.zeros(4, np.uint32)})
    assert why in str(refused.value) and line[:30] in str(refused.value)


@pytest.mark.parametrize(
    "fields, kind, what",
    [
        ({"bits": bw.instruction(128, 16, 5)}, "f8f6f4", "e2m1"),
        ({"added": 0}, "f16", "an accumulator of fp16"),
        ({"major": 1}, "f8f6f4", "a transposed fp8 operand"),
    ],
)
def test_what_an_instruction_descriptor_asks_for_may_be_refused(fields, kind, what):
    body = product(128, 16, bw.multiply(128, 16, kind=kind, **fields))
    with pytest.raises(EmulatorError, match=f"{what} of `tcgen05.mma` is not modelled"):
        run(body, {"image": np.zeros(16384, np.uint8), "out": np.zeros((128, 16), np.float32)})


def test_a_chip_without_tensor_memory_is_told():
    body = bw.begun(filled="")
    artifact = kernel(body, dynamic=20480)
    with pytest.raises(EmulatorError, match="NVIDIA H200 has no tensor memory"):
        emulate(artifact, {})
