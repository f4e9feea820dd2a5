"""mma.sync, vector atomics, dp2a and dp4a against products and sums of NumPy, element by element.

Where an element lies in the registers is written here as the PTX ISA has it, by element and not by word.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from course_utils.run.emulator import EmulatorError, emulate
from tests.run.emulator.kernels import described, kernel, own, ran
from tests.run.emulator.test_arithmetic import lanes

BITS = {
    "f64": 64,
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
}
NUMPY = {
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


def matrix(kind, rows, columns, rng):
    """(numbers in float64, bits of each)."""
    if kind not in NUMPY:
        low = -(1 << BITS[kind] - 1) if kind[0] == "s" else 0
        numbers = rng.integers(low, low + (1 << BITS[kind]), (rows, columns))
        return numbers.astype(np.float64), numbers.astype(np.int64) & (1 << BITS[kind]) - 1
    stored = rng.normal(size=(rows, columns)).astype(NUMPY[kind])
    if kind == "tf32":
        stored = (stored.view(np.uint32) & 0xFFFFE000).view(np.float32)
    raw = stored.view({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[BITS[kind]])
    return stored.astype(np.float64), raw.astype(np.int64)


def packed(raw, bits, count, place):
    """Registers of 32 lanes: element i of lane ``lane`` is ``raw[place(lane // 4, lane % 4, i)]``."""
    each = 32 // bits
    words = np.zeros((32, count), np.uint32)
    for lane in range(32):
        for i in range(count * each):
            words[lane, i // each] |= np.uint32(int(raw[place(lane // 4, lane % 4, i)]) << i % each * bits)
    return words


FORMS = [
    ("m16n8k16", "f16", "f16", "f32"),
    ("m16n8k16", "bf16", "bf16", "f32"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "f16", "f16", "f32"),
    ("m16n8k8", "tf32", "tf32", "f32"),
    ("m16n8k4", "tf32", "tf32", "f32"),
    ("m16n8k32", "e4m3", "e5m2", "f32"),
    ("m16n8k32", "s8", "u8", "s32"),
    ("m16n8k16", "s8", "s8", "s32"),
    ("m8n8k16", "u8", "s8", "s32"),
    ("m16n8k64", "s4", "u4", "s32"),
]


def launched(shape, a, b, added):
    """An Artifact of one mma, its tensors, the sums that it is to make, and how to read them."""
    rng = np.random.default_rng(len(a) + len(shape))
    M, K = int(shape[1:].partition("n")[0]), int(shape.partition("k")[2])
    each, blocks = 32 // BITS[a], M // 8
    a_count, b_count = M * K // 32 // each, 8 * K // 32 // each
    (A, a_raw), (B, b_raw) = matrix(a, M, K, rng), matrix(b, 8, K, rng)
    C = rng.integers(-9, 10, (M, 8)).astype(np.float64)

    def place_of_a(g, t, i):
        return g + 8 * (i // each % blocks), t * each + i % each + 4 * each * (i // each // blocks)

    def place_of_b(g, t, i):
        return g, t * each + i % each + 4 * each * (i // each)

    A_words, B_words = (
        packed(a_raw, BITS[a], a_count, place_of_a),
        packed(b_raw, BITS[b], b_count, place_of_b),
    )
    half = added == "f16"
    raw = C.astype({"f16": np.float16, "f32": np.float32, "s32": np.int32}[added])
    raw = raw.view(np.uint16 if half else np.uint32)
    count = blocks * (1 if half else 2)

    def place(g, t, i):
        return g + 8 * (i // 2), t * 2 + i % 2

    C_words = packed(raw, 16 if half else 32, count, place)
    body, first = "mov.u32 %r0, %tid.x;\n", 10
    registers = []
    for n, size in enumerate((a_count, b_count, count)):
        names = [f"%r{first + i}" for i in range(size)]
        first += size
        registers.append("{" + ", ".join(names) + "}")
        body += own(n, 4 * size)
        body += "".join(f"ld.global.u32 {name}, [%rd1+{4 * i}];\n" for i, name in enumerate(names))
    wide = added == "f32"
    if wide:  # ptxas wants f32 sums in f32 registers
        body += "".join(f"mov.b32 %f{i}, {name};\n" for i, name in enumerate(names))
        registers[2] = "{" + ", ".join(f"%f{i}" for i in range(count)) + "}"
    outs = [f"%f{20 + i}" if wide else f"%r{first + i}" for i in range(count)]
    out = "{" + ", ".join(outs) + "}"
    body += f"mma.sync.aligned.{shape}.row.col.{added}.{a}.{b}.{added} {out}, {', '.join(registers)};\n"
    body += own(3, 4 * count)
    body += "".join(f"st.global.b32 [%rd1+{4 * i}], {name};\n" for i, name in enumerate(outs))
    arrays = {"A": A_words, "B": B_words, "C": C_words, "OUT": np.zeros((32, count), np.uint32)}
    artifact = kernel(body, threads=32, pointers=list(arrays), tensors=described(arrays))

    def read(words):
        sums = words.view(np.float16 if half else np.float32 if wide else np.int32)
        D = np.zeros((M, 8))
        for lane in range(32):
            for i in range(sums.shape[1]):
                D[place(lane // 4, lane % 4, i)] = sums[lane, i]
        return D

    return artifact, arrays, A @ B.T + C, read


@pytest.mark.parametrize("shape, a, b, added", FORMS)
def test_mma_multiplies_what_its_fragments_hold(shape, a, b, added):
    artifact, arrays, wanted, read = launched(shape, a, b, added)
    result = emulate(artifact, arrays)
    assert result.ok, result.findings
    rounding = {"f32": 1e-5, "f16": 4e-3, "s32": 0}[added]
    np.testing.assert_allclose(read(arrays["OUT"]), wanted, rtol=rounding, atol=10 * rounding)


@pytest.mark.parametrize(
    "shape, M, K", [("m8n8k4", 8, 4), ("m16n8k4", 16, 4), ("m16n8k8", 16, 8), ("m16n8k16", 16, 16)]
)
def test_mma_of_doubles(shape, M, K):
    """PTX ISA, the .f64 fragments: a lane's i-th of A is row g + 8 (i mod m), column t + 4 (i div m)."""
    rng = np.random.default_rng(M + K)
    A, B, C = rng.normal(size=(M, K)), rng.normal(size=(8, K)), rng.normal(size=(M, 8))
    blocks = M // 8
    g, t = np.arange(32) // 4, np.arange(32) % 4
    a = np.stack([A[g + 8 * (i % blocks), t + 4 * (i // blocks)] for i in range(M * K // 32)], 1)
    b = np.stack([B[g, t + 4 * i] for i in range(K // 4)], 1)
    c = np.stack([C[g + 8 * (i // 2), 2 * t + i % 2] for i in range(2 * blocks)], 1)
    out = np.zeros_like(c)
    body, used, lists = ".reg .f64 %d<40>;\nmov.u32 %r0, %tid.x;\n", 0, []
    for n, held in enumerate((a, b, c)):
        names = [f"%d{used + i}" for i in range(held.shape[1])]
        used += len(names)
        lists.append("{" + ", ".join(names) + "}")
        body += own(n, 8 * len(names)) + "".join(
            f"ld.global.f64 {r}, [%rd1+{8 * i}];\n" for i, r in enumerate(names)
        )
    wanted = [f"%d{used + i}" for i in range(c.shape[1])]
    body += f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64 {{{', '.join(wanted)}}}, {', '.join(lists)};\n"
    body += own(3, 8 * len(wanted)) + "".join(
        f"st.global.f64 [%rd1+{8 * i}], {r};\n" for i, r in enumerate(wanted)
    )
    tensors = {"A": a, "B": b, "C": c, "OUT": out}
    ran(body, tensors, threads=32, pointers=list(tensors))
    D = np.zeros((M, 8))
    for i in range(2 * blocks):
        D[g + 8 * (i // 2), 2 * t + i % 2] = out[:, i]
    np.testing.assert_allclose(D, A @ B.T + C, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    "change, words",
    [
        ((".row.col.", ".col.row."), "another shape or layout"),
        (("mma.sync.aligned", "mma.sp.sync.aligned"), "this form of `mma`"),
        (("f32.f16.f16.f32 ", "f32.f16.f16.f32.rn "), "this form of `mma`"),
        ((".f32.f16.f16.f32 ", ".f32.f16.bf16.f32 "), "f16 by bf16 in f32"),
        (("m16n8k16", "m16n8k8"), "registers"),
    ],
)
def test_other_forms_of_mma_are_refused_by_name(change, words):
    artifact, arrays, _, _ = launched(*FORMS[0])
    artifact = replace(artifact, ptx=artifact.ptx.replace(*change))
    with pytest.raises(EmulatorError, match=words):
        emulate(artifact, arrays)


@pytest.mark.parametrize(
    "opcode, a, b, wanted",
    [
        ("dp4a.s32.s32", 0x80FF0102, 0x7F020304, -128 * 127 - 1 * 2 + 3 + 2 * 4),
        ("dp4a.u32.u32", 0x80FF0102, 0x7F020304, 128 * 127 + 255 * 2 + 3 + 2 * 4),
        ("dp4a.u32.s32", 0x80FF0102, 0xFF020304, -128 + 255 * 2 + 3 + 2 * 4),
        ("dp2a.lo.s32.s32", 0xFFFF0102, 0x7F02FE04, 0x102 * 4 + 2),
        ("dp2a.hi.s32.u32", 0xFFFF0102, 0xFF02FE04, 0x102 * 2 - 255),
    ],
)
def test_dot_products_of_bytes(opcode, a, b, wanted):
    body = f"mov.u32 %r1, {a};\nmov.u32 %r2, {b};\n{opcode} %r9, %r1, %r2, 1000;\n"
    assert set(lanes(body)) == {(1000 + wanted) & 0xFFFFFFFF}


def test_movmatrix_copysign_and_testp():
    rows = lanes("movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r40;\n", inputs=[[i for i in range(32)]])
    halves = np.arange(32, dtype=np.uint32).view(np.uint16).reshape(8, 8).T
    assert rows == np.ascontiguousarray(halves).view(np.uint32).reshape(-1).tolist()
    body = (
        "mov.b32 %f1, 0fC0000000;\nmov.b32 %f2, 0f3F800000;\ncopysign.f32 %f3, %f1, %f2;\nmov.b32 %r9, %f3;\n"
    )
    assert set(lanes(body)) == {0xBF800000}
    body = "mov.b32 %f1, %r40;\ntestp.infinite.f32 %p1, %f1;\nselp.u32 %r9, 1, 0, %p1;\n"
    words = [0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000] * 8
    assert lanes(body, inputs=[words]) == [1, 1, 0, 0] * 8


ADDED = "mov.u32 %r0, %tid.x;\nld.param.u64 %rd1, [k_param_0];\n"


def atomics(body, shape, dtype, start=0):
    out = np.full(shape, start, dtype)
    ran(ADDED + body, {"OUT": out}, threads=32, pointers=["OUT"])
    return out


@pytest.mark.parametrize("opcode", ["atom.global.add.v2.f32 {%f8, %f9}, ", "red.global.add.v2.f32 "])
@pytest.mark.parametrize("together", [True, False], ids=["places of their own", "one place"])
def test_vector_atomics_add_each_element(opcode, together):
    step = "mul.wide.u32 %rd2, %r0, 8;\nadd.s64 %rd1, %rd1, %rd2;\n" * together
    body = step + "cvt.rn.f32.u32 %f1, %r0;\nmov.b32 %f2, 0f40000000;\n" + opcode + "[%rd1], {%f1, %f2};\n"
    out = atomics(body * 1, (32, 2), np.float32, 1.0)
    if together:
        assert out[:, 0].tolist() == [1.0 + i for i in range(32)] and set(out[:, 1]) == {3.0}
    else:
        assert out[0].tolist() == [1.0 + sum(range(32)), 65.0] and (out[1:] == 1).all()


def test_atomics_of_pairs_of_halves_and_what_they_return():
    pair = int(np.array([1.5, -2.0], np.float16).view(np.uint32)[0])
    body = f"mov.b32 %r1, {pair};\natom.global.add.noftz.f16x2 %r2, [%rd1], %r1;\n"
    assert atomics(body, (4,), np.float16)[:2].tolist() == [48.0, -64.0]
    body = "mul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd1, %rd1, %rd2;\nmov.u32 %r1, 5;\n"
    body += "atom.global.max.u32 %r2, [%rd1], %r1;\nst.global.u32 [%rd1], %r2;\n"
    assert set(atomics(body, (32,), np.uint32, 7)) == {7}
