"""Sparse multiplications against products of the whole matrix in float64.

Which lane has the metadata of which row and columns is written here row by row, as CUTLASS's ELayout_64x16 to
64x64 have it.
"""

import numpy as np
import pytest

from course_utils.run.emulator import EmulatorError, emulate
from tests.run.emulator.kernels import (
    accumulated,
    described,
    filled,
    kernel,
    load_tile,
    own,
    registers_of_a,
    tile_map,
)
from tests.run.emulator.test_mma import BITS, matrix


def sparse(kind, rows, K, rng):
    """(A with its zeros, what is stored of it, its bits, the nibble of each chunk)."""
    whole, kept = (2, 1) if kind == "tf32" else (4, 2)
    stored, raw = matrix(kind, rows, K * kept // whole, rng)
    A, nibbles = np.zeros((rows, K)), np.zeros((rows, K // whole), np.uint32)
    for row in range(rows):
        for chunk in range(K // whole):
            places = sorted(rng.choice(whole, kept, replace=False))
            A[row, [whole * chunk + p for p in places]] = stored[row, kept * chunk : kept * chunk + kept]
            nibbles[row, chunk] = (4, 14)[places[0]] if kind == "tf32" else places[0] | places[1] << 2
    return A, raw, nibbles


KINDS = [("f16", 0), ("f16", 1), ("bf16", 0), ("tf32", 1), ("e4m3", 0), ("s8", 0)]


def in_lanes(nibbles, kind, selector):
    """The metadata register of each of a warp's 32 lanes, of 16 rows; rubbish where none is read."""
    words = np.full(32, 0xFFFFFFFF, np.uint32)
    chunks = nibbles.shape[1]

    def packed(row, begin, count):
        return sum(int(nibbles[row, begin + i]) << 4 * i for i in range(count))

    for lane in range(32):
        g, t = lane // 4, lane % 4
        if BITS[kind] == 8:
            words[lane] = packed(g + 8 * (t & 1), 8 * (t >> 1), 8)
        elif t // (chunks // 4) == selector:
            first = 4 * (t % (chunks // 4))
            words[lane] = packed(g, first, 4) | packed(g + 8, first, 4) << 16
    return words


def wgmma(kind, selector, from_registers):
    rng = np.random.default_rng(selector + from_registers)
    K = 512 // BITS[kind]
    A, a_raw, nibbles = sparse(kind, 64, K, rng)
    B, b_raw = matrix(kind, 64, K, rng)
    dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32}[BITS[kind]]
    a_bytes, b_bytes = (np.ascontiguousarray(raw.astype(dtype)).view(np.uint8) for raw in (a_raw, b_raw))
    added = "s32" if kind == "s8" else "f32"
    sums = [f"%f{i}" if added == "f32" else f"%r{100 + i}" for i in range(32)]
    flags = "" if added == "s32" else ", 1, 1" + ", 0" * (BITS[kind] == 16) * (2 - from_registers)
    words = "{%r10, %r11, %r12, %r13}"
    second = "add.s32 %r4, %r1, 4096;\n" + load_tile("%r4", "%r3", parameter=1)
    multiply = (
        f"wgmma.mma_async.sp.sync.aligned.m64n64k{K}.{added}.{kind}.{kind} {{{', '.join(sums)}}}, "
        f"{words if from_registers else '%rd6'}, %rd7, %r14, {selector}, 0{flags};\n"
    )
    body = (
        filled(2048 + 4096, load_tile("%r1", "%r3"), second)
        + f"{own(2, 16)}ld.global.v4.u32 {words}, [%rd1];\n"
        + f"{own(4, 4)}ld.global.u32 %r14, [%rd1];\n"
        + "shr.u32 %r5, %r1, 4;\ncvt.u64.u32 %rd5, %r5;\n"
        + f"or.b64 %rd6, %rd5, {3 << 62 | 16 << 32 | 1 << 16};\nadd.s64 %rd5, %rd5, 256;\n"
        + f"or.b64 %rd7, %rd5, {2 << 62 | 32 << 32 | 1 << 16};\nwgmma.fence.sync.aligned;\n"
        + multiply
        + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
        + own(3, 128)
        + "".join(f"st.global.b32 [%rd1+{4 * i}], {register};\n" for i, register in enumerate(sums))
    )
    E = np.concatenate([in_lanes(nibbles[16 * w : 16 * w + 16], kind, selector) for w in range(4)])
    out = np.zeros((128, 32), np.int32 if added == "s32" else np.float32)
    fragments = registers_of_a(np.ascontiguousarray(a_bytes).view(np.uint32))
    tensors = {"A": a_bytes, "B": b_bytes, "F": fragments, "OUT": out, "E": E}
    maps = [("A", tile_map((64, 32), (64, 32), 1, 0, 1)), ("B", tile_map((64, 64), (64, 64), 2, 0, 1))]
    artifact = kernel(body, tensors=described(tensors), maps=maps, pointers=["F", "OUT", "E"])
    return artifact, tensors, A @ B.T


@pytest.mark.parametrize("from_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("kind, selector", KINDS)
def test_sparse_wgmma(kind, selector, from_registers):
    artifact, tensors, wanted = wgmma(kind, selector, from_registers)
    result = emulate(artifact, tensors, seed=selector)
    assert result.ok, result.findings
    np.testing.assert_allclose(accumulated(tensors["OUT"]), wanted, rtol=1e-5, atol=1e-4)


def test_metadata_of_the_other_lanes_is_no_places():
    """Lanes that the selector does not name hold rubbish here, and so do these if it names them."""
    artifact, tensors, _ = wgmma("f16", 0, False)
    tensors["E"][:] = 0xFFFFFFFF
    result = emulate(artifact, tensors)
    assert [finding.kind for finding in result.errors] == ["sparse-metadata"]
    assert "multiply a sparse tile" in result.errors[0].detail or "multiplies" in result.errors[0].detail


def test_a_selector_that_there_is_not():
    artifact, tensors, _ = wgmma("s8", 1, False)
    with pytest.raises(EmulatorError, match=r"this form of `wgmma` .*the sparsity selector 1"):
        emulate(artifact, tensors)


def warp(shape, kind, selector):
    """One mma.sp of a warp."""
    rng = np.random.default_rng(selector)
    K, each = int(shape.partition("k")[2]), 32 // BITS[kind]
    A, a_raw, nibbles = sparse(kind, 16, K, rng)
    B, b_raw = matrix(kind, 8, K, rng)
    a_count, b_count = A.size // 64 // each, B.size // 32 // each
    a, b = np.zeros((32, a_count), np.uint32), np.zeros((32, b_count), np.uint32)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(a_count * each):
            row, column = g + 8 * (i // each % 2), t * each + i % each + 4 * each * (i // each // 2)
            a[lane, i // each] |= np.uint32(int(a_raw[row, column]) << i % each * BITS[kind])
        for i in range(b_count * each):
            column = t * each + i % each + 4 * each * (i // each)
            b[lane, i // each] |= np.uint32(int(b_raw[g, column]) << i % each * BITS[kind])
    added = "s32" if kind == "s8" else "f32"
    sums, zero = (
        (["%r60", "%r61", "%r62", "%r63"], "%r64") if kind == "s8" else (["%f0", "%f1", "%f2", "%f3"], "%f4")
    )
    body, lists = f"mov.u32 %r0, %tid.x;\nmov.b32 {zero}, 0;\n", []
    for n, held in enumerate((a, b, np.zeros((32, 1)))):
        names = [f"%r{10 + 10 * n + i}" for i in range(held.shape[1])]
        lists.append("{" + ", ".join(names) + "}" if n < 2 else names[0])
        body += own(n, 4 * len(names))
        body += "".join(f"ld.global.u32 {r}, [%rd1+{4 * i}];\n" for i, r in enumerate(names))
    body += (
        f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{added}.{kind}.{kind}.{added} "
        f"{{{', '.join(sums)}}}, {lists[0]}, {lists[1]}, {{{', '.join([zero] * 4)}}}, {lists[2]}, {selector};\n"
    )
    body += own(3, 16) + "".join(f"st.global.b32 [%rd1+{4 * i}], {r};\n" for i, r in enumerate(sums))
    out = np.zeros((32, 4), np.int32 if kind == "s8" else np.float32)
    tensors = {"A": a, "B": b, "E": in_lanes(nibbles, kind, selector), "OUT": out}
    artifact = kernel(body, threads=32, pointers=list(tensors), tensors=described(tensors))
    return artifact, tensors, A @ B.T


SHAPES = [
    ("m16n8k32", "f16", 1),
    ("m16n8k16", "bf16", 3),
    ("m16n8k16", "tf32", 0),
    ("m16n8k8", "tf32", 2),
    ("m16n8k64", "s8", 0),
]


@pytest.mark.parametrize("shape, kind, selector", SHAPES)
def test_sparse_mma_of_a_warp(shape, kind, selector):
    artifact, tensors, wanted = warp(shape, kind, selector)
    result = emulate(artifact, tensors)
    assert result.ok, result.findings
    D = np.zeros((16, 8))
    for lane in range(32):
        for i in range(4):
            D[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2] = tensors["OUT"][lane, i]
    np.testing.assert_allclose(D, wanted, rtol=1e-5, atol=1e-4)
