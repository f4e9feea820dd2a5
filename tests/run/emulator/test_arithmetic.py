"""Lane arithmetic and control flow: small PTX programs against Python integers and NumPy, lane by lane."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.run.emulator.kernels import own, ran

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def lanes(body, result="%r9", inputs=(), bits=32, threads=32):
    """Run a body that leaves a value in ``result``; input arrays are in %r40, %r41 ... (or %rd). Returns all
    lanes'.
    """
    dtype, register = (np.uint32, "%r") if bits == 32 else (np.uint64, "%rd")
    tensors = {f"I{i}": np.array(values, dtype) for i, values in enumerate(inputs)}
    tensors["OUT"] = np.zeros(threads, dtype)
    text = "mov.u32 %r0, %tid.x;\n"
    for i in range(len(inputs)):
        text += f"{own(i, bits // 8)}ld.global.u{bits} {register}{40 + i}, [%rd1];\n"
    text += f"{body}\n{own(len(inputs), bits // 8)}st.global.u{bits} [%rd1], {result};\n"
    ran(text, tensors, threads=threads, pointers=list(tensors))
    return tensors["OUT"].tolist()


def signed(value, bits=32):
    return value - (1 << bits) if value >> (bits - 1) else value


BINARY = {
    "add.s32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: signed(a) * signed(b) >> 32,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.s32": lambda a, b: max(signed(a), signed(b)),
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> min(b, 64),
    "shr.s32": lambda a, b: signed(a) >> min(b, 64),
    "div.u32": lambda a, b: a // b if b else M32,
    "rem.u32": lambda a, b: a % b if b else a,
    "div.s32": lambda a, b: int(np.fix(signed(a) / signed(b))) if b else M32,
    "rem.s32": lambda a, b: signed(a) - signed(b) * int(np.fix(signed(a) / signed(b))) if b else a,
}
interesting = st.one_of(st.integers(0, M32), st.sampled_from([0, 1, 31, 32, 33, 0x7FFFFFFF, 0x80000000, M32]))


@settings(max_examples=12, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("opcode", BINARY)
def test_binary_integers(opcode, data):
    a, b = (data.draw(st.lists(interesting, min_size=32, max_size=32)) for _ in range(2))
    expected = [BINARY[opcode](x, y) & M32 for x, y in zip(a, b, strict=True)]
    assert lanes(f"{opcode} %r9, %r40, %r41;", inputs=(a, b)) == expected
    assert lanes(f"{opcode} %r9, %r40, {b[0]};", inputs=(a,)) == [BINARY[opcode](x, b[0]) & M32 for x in a]
    assert lanes(f"mov.u32 %r5, {a[0]};\n{opcode} %r9, %r5, {b[0]};")[0] == expected[0]


@settings(max_examples=25, deadline=None)
@given(a=interesting, b=interesting, c=interesting)
def test_uniform_and_differing_lanes_agree(a, b, c):
    """The same instructions on Python ints and on arrays: each lane gets the values by a load in one, as
    constants in the other.
    """
    body = """
prmt.b32 %r9, {0}, {1}, 0x5410;
mad.lo.s32 %r9, %r9, {2}, {0};
bfe.u32 %r10, {1}, 5, 11;
add.s32 %r9, %r9, %r10;
bfe.s32 %r10, {2}, 3, 9;
xor.b32 %r9, %r9, %r10;
brev.b32 %r10, {1};
sub.s32 %r9, %r9, %r10;
popc.b32 %r10, {0};
clz.b32 %r11, {2};
mad.lo.s32 %r9, %r10, %r11, %r9;
lop3.b32 %r9, %r9, {1}, {2}, 0xe8;
shf.l.wrap.b32 %r9, %r9, {0}, 13;
bfi.b32 %r9, %r9, {1}, 4, 8;
selp.b32 %r10, %r9, {0}, 1;
mul.wide.s32 %rd9, {0}, {1};
mad.wide.u32 %rd9, {1}, {2}, %rd9;
shr.u64 %rd9, %rd9, 17;
cvt.u32.u64 %r12, %rd9;
add.s32 %r9, %r10, %r12;
setp.lt.s32 %p1, {0}, {1};
setp.ge.u32 %p2|%p3, {1}, {2};
and.pred %p4, %p1, %p2;
not.pred %p5, %p3;
@%p4 add.s32 %r9, %r9, 7;
@!%p5 xor.b32 %r9, %r9, {2};
cvt.s64.s32 %rd10, %r9;
shr.s64 %rd10, %rd10, 3;
mov.b64 {{%r13, %r14}}, %rd10;
mov.b64 %rd11, {{%r14, %r13}};
min.s64 %rd11, %rd11, %rd10;
cvt.u32.u64 %r9, %rd11;
"""
    constants = f"mov.u32 %r40, {a};\nmov.u32 %r41, {b};\nmov.u32 %r42, {c};\n"
    mixed = [[v, *([v ^ 0x5A5A] * 31)] for v in (a, b, c)]
    body = body.format("%r40", "%r41", "%r42")
    assert lanes(constants + body)[0] == lanes(body, inputs=mixed)[0]


@pytest.mark.parametrize(
    "body, wanted",
    [
        ("mov.u32 %r5, 0x12345678;\nmov.u32 %r6, 0x9abcdef0;\nprmt.b32 %r9, %r5, %r6, 0x7610;", 0x9ABC5678),
        ("mov.u32 %r5, 0x000000f0;\nbfe.s32 %r9, %r5, 4, 4;", M32),
        ("bfind.u32 %r9, 0x00100000;", 20),
        ("lop3.b32 %r9, 0xff00ff00, 0xf0f0f0f0, 0xcccccccc, 0x96;", 0xFF00FF00 ^ 0xF0F0F0F0 ^ 0xCCCCCCCC),
        ("mov.s32 %r5, -7;\nshr.s32 %r9, %r5, 1;", M32 - 3),
        ("mul.wide.s32 %rd9, -3, 5;", M64 - 14),
        ("mul.hi.u64 %rd9, 0xffffffffffffffff, 16;", 15),
        ("cvt.rn.f32.s32 %f1, -5;\nmov.b32 %r9, %f1;", struct.unpack("<I", struct.pack("<f", -5.0))[0]),
        ("mov.b32 %f1, 0f3F800000;\ncvt.f64.f32 %rd9, %f1;", struct.unpack("<Q", struct.pack("<d", 1.0))[0]),
    ],
)
def test_known_answers(body, wanted):
    bits, result = (64, "%rd9") if "%rd9" in body else (32, "%r9")
    assert lanes(body, result, bits=bits) == [wanted] * 32


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=64, max_size=64))
def test_floats(values):
    a, b = np.array(values[:32], np.float32), np.array(values[32:], np.float32)
    packed = [a.view(np.uint32).tolist(), b.view(np.uint32).tolist()]
    load = "mov.b32 %f1, %r40;\nmov.b32 %f2, %r41;\n"
    with np.errstate(all="ignore"):
        halves = np.stack([b.astype(np.float16), a.astype(np.float16)], 1).reshape(-1)
        for body, wanted in (
            ("add.f32 %f3, %f1, %f2;\nmov.b32 %r9, %f3;", a + b),
            ("mul.rn.f32 %f3, %f1, %f2;\nmov.b32 %r9, %f3;", a * b),
            ("cvt.rn.f16x2.f32 %r9, %f1, %f2;", halves),
            ("setp.lt.f32 %p1, %f1, %f2;\nselp.b32 %r9, 1, 0, %p1;", (a < b).astype(np.uint32)),
        ):
            assert lanes(load + body, inputs=packed) == wanted.view(np.uint32).tolist()


def test_conversions():
    import torch

    values = np.random.default_rng(0).standard_normal(32).astype(np.float32) * 1000
    load = "mov.b32 %f1, %r40;\n"
    raw = [values.view(np.uint32).tolist()]
    assert lanes(load + "cvt.rzi.s32.f32 %r9, %f1;", inputs=raw) == [int(v) & M32 for v in values]
    bf16 = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16).tolist()
    assert lanes(load + "cvt.rn.bf16.f32 %rs1, %f1;\ncvt.u32.u16 %r9, %rs1;", inputs=raw) == bf16


def test_divergence_reconverges_and_nests():
    body = """
and.b32 %r5, %r0, 3;
mov.u32 %r9, 0;
setp.lt.u32 %p1, %r5, 2;
@%p1 bra LOW;
add.s32 %r9, %r9, 100;
setp.eq.u32 %p2, %r5, 3;
@%p2 bra THREE;
add.s32 %r9, %r9, 20;
bra JOIN_HIGH;
THREE: add.s32 %r9, %r9, 30;
JOIN_HIGH: add.s32 %r9, %r9, 1;
bra JOIN;
LOW: add.s32 %r9, %r9, %r5;
JOIN: vote.sync.ballot.b32 %r6, 1, 0xffffffff;
popc.b32 %r6, %r6;
mad.lo.s32 %r9, %r6, 1000, %r9;
"""
    assert lanes(body) == [32000 + {0: 0, 1: 1, 2: 121, 3: 131}[lane & 3] for lane in range(32)]


def test_loops_with_a_trip_count_for_each_lane():
    body = """
mov.u32 %r9, 0;
mov.u32 %r5, 0;
AGAIN: setp.ge.u32 %p1, %r5, %r0;
@%p1 bra OUT;
add.s32 %r9, %r9, %r5;
add.s32 %r5, %r5, 1;
bra AGAIN;
OUT:
"""
    assert lanes(body) == [n * (n - 1) // 2 for n in range(32)]


def test_exits_of_some_lanes():
    body = (
        "mov.u32 %r9, 5;\nsetp.gt.u32 %p1, %r0, 9;\n@%p1 exit;\nactivemask.b32 %r5;\nadd.s32 %r9, %r9, %r5;\n"
    )
    assert lanes(body) == [5 + 0x3FF] * 10 + [0] * 22


def test_lanes_wait_for_lanes_of_their_own_warp():
    """Lane 1 waits at a barrier on which lane 0 arrives later: independent thread scheduling."""
    body = """
mov.b32 %r1, smem;
setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
setp.eq.u32 %p2, %r0, 1;
@%p2 bra WAITS;
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];
bra OVER;
WAITS: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;
@!%p3 bra WAITS;
OVER: mov.u32 %r9, 1;
"""
    assert lanes(body) == [1] * 32


@pytest.mark.parametrize(
    "body, of_lane",
    [
        ("shfl.sync.bfly.b32 %r9, %r0, 5, 31, -1;", lambda lane: lane ^ 5),
        ("shfl.sync.up.b32 %r9, %r0, 3, 0, -1;", lambda lane: lane if lane < 3 else lane - 3),
        ("shfl.sync.down.b32 %r9, %r0, 3, 31, -1;", lambda lane: lane + 3 if lane < 29 else lane),
        ("shfl.sync.idx.b32 %r9, %r0, 7, 31, -1;", lambda lane: 7),
        ("shfl.sync.idx.b32 %r9|%p1, %r0, 1, 6175, -1;", lambda lane: lane // 8 * 8 + 1),
        ("elect.sync %r8|%p1, -1;\nselp.b32 %r9, 1, 0, %p1;", lambda lane: int(lane == 0)),
        (
            "setp.gt.u32 %p1, %r0, 3;\nvote.sync.any.pred %p2, %p1, -1;\nselp.b32 %r9, 1, 0, %p2;",
            lambda lane: 1,
        ),
        ("redux.sync.add.s32 %r9, %r0, -1;", lambda lane: 496),
        ("and.b32 %r5, %r0, 1;\nmatch.any.sync.b32 %r9, %r5, -1;", lambda lane: 0x55555555 << (lane & 1)),
    ],
)
def test_shuffles_votes_and_elect(body, of_lane):
    assert lanes(body) == [of_lane(lane) for lane in range(32)]


def test_memory_round_trips():
    body = """
mov.b32 %r1, smem;
shl.b32 %r2, %r0, 4;
add.s32 %r2, %r2, %r1;
add.s32 %r3, %r0, 1;
st.shared.v4.u32 [%r2], {%r0, %r3, %r0, %r3};
cvt.u64.u32 %rd5, %r2;
cvta.shared.u64 %rd5, %rd5;
ld.v2.u32 {%r5, %r6}, [%rd5+8];
ld.shared.u8 %rs1, [%r2+4];
cvt.u32.u16 %r7, %rs1;
atom.shared.add.u32 %r8, [%r1+600], 2;
mad.lo.s32 %r9, %r5, 10000, %r6;
mad.lo.s32 %r9, %r7, 1000000, %r9;
"""
    body = body.replace("atom", "mov.u32 %r11, 0;\nst.shared.u32 [%r1+600], %r11;\natom")
    assert lanes(body) == [(n + 1) * 1000000 + n * 10000 + n + 1 for n in range(32)]
    local = (
        ".local .align 8 .b8 depot[8];\n"
        + "mov.u64 %rd5, depot;\nst.local.u32 [%rd5+4], %r0;\nld.local.u32 %r9, [%rd5+4];\n"
    )
    assert lanes(local) == list(range(32))


def test_cp_async_lands_at_its_wait():
    body = (
        own(0, 4)
        + """
mov.b32 %r1, smem;
shl.b32 %r2, %r0, 2;
add.s32 %r2, %r2, %r1;
cp.async.ca.shared.global [%r2], [%rd1], 4;
cp.async.commit_group;
cp.async.wait_group 0;
ld.shared.u32 %r9, [%r2];
"""
    )
    values = [random.Random(1).getrandbits(32) for _ in range(32)]
    assert lanes(body, inputs=(values,)) == values


def test_a_vector_register_and_its_parts():
    """PTX ISA, "Vectors": declared as one, written part by part, named whole."""
    body = """
.reg .v2 .b32 pair;
mov.b32 %r1, smem;
shl.b32 %r2, %r0, 3;
add.s32 %r1, %r1, %r2;
mov.b32 pair.x, %r0;
mov.b32 pair.y, 7;
st.shared.v2.b32 [%r1], pair;
ld.shared.v2.b32 pair, [%r1];
mad.lo.s32 %r9, pair.x, 10, pair.y;
"""
    assert lanes(body) == [10 * lane + 7 for lane in range(32)]


@pytest.mark.parametrize("by", ["size", "predicate"])
def test_each_lane_of_cp_async_copies_its_own_number_of_bytes(by):
    """The rest is zero; what copies nothing may point anywhere, and what copies less may lie at the end."""
    body = (
        own(0, 4)
        + """
mov.b32 %r1, smem;
shl.b32 %r2, %r0, 2;
add.s32 %r2, %r2, %r1;
mov.u32 %r9, -1;
st.shared.u32 [%r2], %r9;
and.b32 %r3, %r0, 3;
setp.eq.u32 %p1, %r3, 0;
@%p1 add.s64 %rd1, %rd1, 1000000;
"""
    )
    body += {
        "size": "cp.async.ca.shared.global [%r2], [%rd1], 4, %r3;\n",
        "predicate": "cp.async.ca.shared.global [%r2], [%rd1], 4, %p1;\n",
    }[by]
    body += "cp.async.wait_all;\nld.shared.u32 %r9, [%r2];\n"
    values = [random.Random(1).getrandbits(32) for _ in range(32)]
    kept = [lane % 4 if by == "size" else 4 * (lane % 4 > 0) for lane in range(32)]
    wanted = [value & (1 << 8 * n) - 1 for value, n in zip(values, kept, strict=True)]
    assert lanes(body, inputs=(values,)) == wanted


def test_matrices_of_eight_by_eight():
    """stmatrix then ldmatrix.trans: element (r, c) of each 8 x 8 matrix comes back at (c, r)."""
    body = """
mov.b32 %r1, smem;
shl.b32 %r2, %r0, 4;
add.s32 %r2, %r2, %r1;
shl.b32 %r3, %r0, 17;
shl.b32 %r4, %r0, 1;
or.b32 %r3, %r3, %r4;
add.s32 %r3, %r3, 65536;
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r3, %r3, %r3, %r3};
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r5, %r6, %r7, %r9}, [%r2];
"""
    # lane 4r + c holds 2 (4r + c) and 2 (4r + c) + 1: its elements count up row by row
    matrix = np.arange(64).reshape(8, 8)
    moved = matrix.T
    pairs = [moved[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2].tolist() for lane in range(32)]
    assert lanes(body) == [low | high << 16 for low, high in pairs]
