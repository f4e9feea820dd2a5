"""Instructions that public kernels use now and then, each against Python's integers or NumPy's floats."""

import numpy as np
import pytest

from course_utils.run.emulator import emulate
from course_utils.run.emulator.core.schedule import Schedule
from tests.run.emulator.kernels import by_thread_0, described, init, kernel, own, ran, wait
from tests.run.emulator.test_arithmetic import M32, lanes, signed

RNG = np.random.default_rng(7)
A, B, C = ([0, 1, M32, 0x7FFFFFFF, 0x80000000, *RNG.integers(0, 1 << 32, 27).tolist()] for _ in range(3))
B, C = B[::-1], C[3:] + C[:3]


def clamp(value, bits=32):
    return min(max(value, -(1 << bits - 1)), (1 << bits - 1) - 1)


def pairs(function):
    """A function of signed 16-bit integers, on both halves."""

    def both(a, b, _):
        halves = [
            function(signed(a >> s & 0xFFFF, 16), signed(b >> s & 0xFFFF, 16)) & 0xFFFF for s in (0, 16)
        ]
        return halves[0] | halves[1] << 16

    return both


def chosen(places):
    def pick(a, b, c):
        source = [v >> 8 * i & 255 for v in (a, b) for i in range(4)]
        return sum(source[place] << 8 * i for i, place in enumerate(places(c & 3)))

    return pick


INTEGERS = {
    "add.sat.s32 %r9, %r40, %r41": lambda a, b, c: clamp(signed(a) + signed(b)),
    "sub.sat.s32 %r9, %r40, %r41": lambda a, b, c: clamp(signed(a) - signed(b)),
    "max.relu.s32 %r9, %r40, %r41": lambda a, b, c: max(signed(a), signed(b), 0),
    "min.relu.s16x2 %r9, %r40, %r41": pairs(lambda a, b: max(min(a, b), 0)),
    "max.s16x2 %r9, %r40, %r41": pairs(max),
    "add.u16x2 %r9, %r40, %r41": pairs(lambda a, b: a + b),
    "mul24.lo.s32 %r9, %r40, %r41": lambda a, b, c: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24),
    "mad24.lo.u32 %r9, %r40, %r41, %r42": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "sad.s32 %r9, %r40, %r41, %r42": lambda a, b, c: c + abs(signed(a) - signed(b)),
    "bmsk.clamp.b32 %r9, %r40, %r41": lambda a, b, c: (1 << min(b, 32)) - 1 << min(a, 32),
    "bmsk.wrap.b32 %r9, %r40, %r41": lambda a, b, c: (1 << b % 32) - 1 << a % 32,
    "szext.wrap.s32 %r9, %r40, %r41": lambda a, b, c: signed(a & (1 << b % 32) - 1, b % 32) if b % 32 else 0,
    "szext.clamp.u32 %r9, %r40, %r41": lambda a, b, c: a & (1 << min(b, 32)) - 1,
    "bfind.shiftamt.u32 %r9, %r40": lambda a, b, c: 32 - a.bit_length() if a else M32,
    "set.lt.u32.s32 %r9, %r40, %r41": lambda a, b, c: M32 if signed(a) < signed(b) else 0,
    "slct.b32.s32 %r9, %r40, %r41, %r42": lambda a, b, c: a if signed(c) >= 0 else b,
    "prmt.b32.f4e %r9, %r40, %r41, %r42": chosen(lambda n: [n, n + 1, n + 2, n + 3]),
    "prmt.b32.b4e %r9, %r40, %r41, %r42": chosen(lambda n: [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8]),
    "prmt.b32.rc8 %r9, %r40, %r41, %r42": chosen(lambda n: [n] * 4),
    "prmt.b32.ecl %r9, %r40, %r41, %r42": chosen(lambda n: [max(n, i) for i in range(4)]),
    "prmt.b32.ecr %r9, %r40, %r41, %r42": chosen(lambda n: [min(n, i) for i in range(4)]),
    "prmt.b32.rc16 %r9, %r40, %r41, %r42": chosen(lambda n: [2 * (n & 1), 2 * (n & 1) + 1] * 2),
    "cvt.pack.sat.s8.s32.b32 %r9, %r40, %r41, %r42": lambda a, b, c: (
        (c & 0xFFFF) << 16 | (clamp(signed(a), 8) & 255) << 8 | clamp(signed(b), 8) & 255
    ),
    "cvt.pack.sat.u16.s32 %r9, %r40, %r41": lambda a, b, c: (
        min(max(signed(a), 0), 65535) << 16 | min(max(signed(b), 0), 65535)
    ),
}


@pytest.mark.parametrize("line", INTEGERS)
def test_integers(line):
    wanted = [INTEGERS[line](a, b, c) & M32 for a, b, c in zip(A, B, C, strict=True)]
    assert lanes(line + ";\n", inputs=(A, B, C)) == wanted


@pytest.mark.parametrize("minus", [False, True])
def test_carries_make_128_bits_of_two_registers(minus):
    """Four words each, with a carry from one to the next; lane by lane, also where lanes part."""
    name = "sub" if minus else "add"
    body = "".join(
        f"{name}{'c' * (i > 0)}{'.cc' * (i < 3)}.u32 %r{50 + i}, %r{40 + i}, %r{44 + i};\n" for i in range(4)
    )
    words = [RNG.choice([0, 1, M32, 0x80000000, 77], 32).tolist() for _ in range(8)]
    numbers = [
        [sum(words[4 * n + i][lane] << 32 * i for i in range(4)) for lane in range(32)] for n in (0, 1)
    ]
    for i in range(4):
        made = lanes(body, f"%r{50 + i}", inputs=words)
        sums = [(a - b if minus else a + b) % (1 << 128) for a, b in zip(*numbers, strict=True)]
        assert made == [total >> 32 * i & M32 for total in sums]


def test_products_with_carries():
    body = "mad.lo.cc.u32 %r50, %r40, %r41, %r42;\nmadc.hi.u32 %r51, %r40, %r41, 5;\n"
    totals = [a * b + c + (5 << 32) for a, b, c in zip(A, B, C, strict=True)]
    assert lanes(body, "%r50", inputs=(A, B, C)) == [total & M32 for total in totals]
    assert lanes(body, "%r51", inputs=(A, B, C)) == [total >> 32 & M32 for total in totals]


FLOATS = RNG.normal(size=(2, 32)).astype(np.float32) * np.float32(3)


def floats(body, *numbers):
    moves = "".join(f"mov.b32 %f{i + 1}, %r{40 + i};\n" for i in range(len(numbers)))
    words = [np.asarray(n, np.float32).view(np.uint32) for n in numbers]
    return np.array(lanes(moves + body + "mov.b32 %r9, %f9;\n", inputs=words), np.uint32).view(np.float32)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_directed_rounding(name, mode):
    a, b = FLOATS
    third = ", %f1" * (name == "fma")
    made = floats(f"{name}.{mode}.f32 %f9, %f1, %f2{third};\n", a, b)
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    exact = {"add": a + b, "mul": a * b, "fma": a * b + a}[name]
    near = exact.astype(np.float32)
    low = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
    high = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
    wanted = {"rm": low, "rp": high, "rz": np.where(exact > 0, low, high)}[mode]
    np.testing.assert_array_equal(made, wanted.astype(np.float32))


def test_saturation_and_nan():
    a = np.array([-1, 0.25, 3, np.nan] * 8, np.float32)
    np.testing.assert_array_equal(floats("add.sat.f32 %f9, %f1, 0f3F000000;\n", a), [0, 0.75, 1, 0] * 8)
    np.testing.assert_array_equal(floats("cvt.sat.f32.f32 %f9, %f1;\n", a), [0, 0.25, 1, 0] * 8)
    np.testing.assert_array_equal(floats("max.f32 %f9, %f1, 0f3F800000;\n", a), [1, 1, 3, 1] * 8)
    np.testing.assert_array_equal(floats("max.NaN.f32 %f9, %f1, 0f3F800000;\n", a), [1, 1, 3, np.nan] * 8)
    large = np.array([1e6, -1e6, np.inf, 2.5] * 8, np.float32)
    body = "mov.b32 %f1, %r40;\ncvt.rn.satfinite.f16x2.f32 %r9, %f1, %f1;\n"
    halves = np.array(lanes(body, inputs=[large.view(np.uint32)]), np.uint32).view(np.float16)
    assert halves[::2].tolist() == halves[1::2].tolist() == [65504, -65504, 65504, 2.5] * 8


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_powers_of_two_are_within_the_bound_of_the_isa(ftz):
    """PTX ISA 9.7.3.21, ex2: at most 2 ulp from the rounded result, and these results of its table."""

    def made(values):
        return floats(f"ex2.approx{ftz}.f32 %f9, %f1;\n", np.array(values, np.float32))

    scores = np.linspace(-126, 127, 32).astype(np.float32)
    exact = np.exp2(scores.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert (np.abs(made(scores).astype(np.float64) - exact) <= 2.5 * ulp).all()
    given = [-np.inf, -0.0, 0.0, np.inf, np.nan, 128.0, -151.0, 1.0]
    np.testing.assert_array_equal(made(given * 4), [0, 1, 1, np.inf, np.nan, np.inf, 0, 2] * 4)
    np.testing.assert_array_equal(made([-130.0] * 32), 2.0**-130)  # also with .ftz, as ``spellings`` tells


def test_pairs_of_halves():
    pair = np.array([[1.5, -2], [-0.5, 4]] * 16, np.float16)
    words = [pair.view(np.uint32).reshape(32)]
    zero = np.arange(32, dtype=np.uint32).view(np.float16).reshape(32, 2)  # %r0 as halves: 0 or next to it

    def made(line):
        return np.array(lanes(line + ";\n", inputs=words), np.uint32).view(np.float16).reshape(32, 2)

    np.testing.assert_allclose(made("ex2.approx.f16x2 %r9, %r40"), np.exp2(pair), rtol=1e-3)
    np.testing.assert_array_equal(
        made("fma.rn.relu.f16x2 %r9, %r40, %r40, %r40"), np.maximum(pair * pair + pair, 0)
    )
    np.testing.assert_array_equal(made("set.gt.f16x2.f16x2 %r9, %r40, %r0"), (pair > zero).astype(np.float16))


# Loads and stores of 128 bits


@pytest.mark.parametrize("own_lanes", [False, True], ids=["all", "some"])
def test_loads_and_stores_of_128_bits(own_lanes):
    T = RNG.integers(0, 1 << 62, (32, 2)).astype(np.uint64)
    D = np.zeros((32, 2), np.uint64)
    body = (
        ".reg .b128 %w<3>;\nmov.u32 %r0, %tid.x;\nmov.b32 %r1, smem;\nshl.b32 %r2, %r0, 4;\nadd.s32 %r2, %r2, %r1;\n"
        + own(0, 16)
        + "setp.lt.u32 %p1, %r0, 7;\n@%p1 bra OVER;\n" * own_lanes
        + "ld.global.b128 %w1, [%rd1];\nst.shared.b128 [%r2], %w1;\nld.shared.b128 %w2, [%r2];\n"
        "mov.b128 {%rd10, %rd11}, %w2;\nadd.s64 %rd10, %rd10, 1;\nmov.b128 %w1, {%rd11, %rd10};\n"
        + own(1, 16)
        + "st.global.b128 [%rd1], %w1;\nOVER:\n"
    )
    ran(body, {"T": T, "D": D}, threads=32, pointers=["T", "D"])
    first = 7 * own_lanes
    np.testing.assert_array_equal(D[first:], np.stack([T[:, 1], T[:, 0] + 1], 1)[first:])
    assert not D[:first].any()


def kinds(body, seed=0, tensors=None, **options):
    tensors = tensors or {"D": np.zeros(256, np.uint32)}
    options = {"pointers": list(tensors)} | options
    result = emulate(kernel(body, tensors=described(tensors), **options), tensors, seed)
    return {finding.kind: finding.detail for finding in result.errors}


def test_128_bits_lie_at_multiples_of_16():
    body = ".reg .b128 %w<2>;\nld.param.u64 %rd1, [k_param_0];\nld.global.b128 %w1, [%rd1+8];\n"
    assert "accesses 16 bytes at offset 8, which 16 does not divide" in kinds(body)["misaligned"]


# Barriers that reduce


def votes(instruction, threads=128, predicate="setp.lt.u32 %p1, %r0, 37;\n", before=""):
    """What each thread gets."""
    out = np.zeros(threads, np.uint32)
    body = (
        f"mov.u32 %r0, %tid.x;\n{predicate}{before}{instruction}\n"
        + own(0, 4)
        + "st.global.u32 [%rd1], %r9;\n"
    )
    for seed in range(3):
        ran(body, {"D": out}, seed, threads=threads, pointers=["D"])
    return set(out.tolist())


def test_barrier_red_counts_and_joins_predicates():
    assert votes("barrier.cta.red.popc.aligned.u32 %r9, 1, %p1;") == {37}
    assert votes("bar.red.popc.u32 %r9, 1, 128, !%p1;") == {91}
    for operation, when_some, when_all in (("and", 0, 1), ("or", 1, 1)):
        red = f"barrier.red.{operation}.pred %p2, 0, %p1;\nselp.u32 %r9, 1, 0, %p2;"
        assert votes(red) == {when_some}
        assert votes(red, predicate="setp.lt.u32 %p1, %r0, 999;\n") == {when_all}
        assert votes(red, predicate="setp.gt.u32 %p1, %r0, 999;\n") == {0}


def test_barrier_red_of_some_warps_and_twice():
    """Two warps meet; and a second round begins its count anew."""
    part = "setp.ge.u32 %p3, %r0, 64;\n@%p3 bra OVER;\n"
    twice = "bar.red.popc.u32 %r9, 2, 64, %p1;\nadd.s32 %r8, %r9, 0;\nbar.red.popc.u32 %r9, 2, 64, %p1;\n"
    assert votes(part + twice + "add.s32 %r9, %r9, %r8;\nbra END;\nOVER: mov.u32 %r9, 74;\nEND:") == {74}


def test_barrier_red_orders_as_a_barrier_does_and_waits_for_all():
    write = "mov.u32 %r0, %tid.x;\nmov.b32 %r1, smem;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r2, %r2, %r1;\nst.shared.u32 [%r2], %r0;\n"
    read = "xor.b32 %r3, %r0, 127;\nshl.b32 %r3, %r3, 2;\nadd.s32 %r3, %r3, %r1;\nld.shared.u32 %r4, [%r3];\n"
    red = "setp.eq.u32 %p1, %r0, 3;\nbar.red.popc.u32 %r9, 1, %p1;\n"
    assert kinds(write + red + read) == {} and "read-before-write" in kinds(write + read)
    missing = "setp.ge.u32 %p3, %r0, 96;\n@%p3 bra OVER;\n" + red.replace("1, %p1", "1, 128, %p1") + "OVER:\n"
    assert "96 of 128 threads" in kinds("mov.u32 %r0, %tid.x;\n" + missing)["deadlock"]


def test_pending_count_of_a_state():
    """The arrivals that were pending before each of four: the mbarrier counts four."""
    body = (
        init(4)
        + "add.s32 %r3, %r1, 8192;\n"
        + by_thread_0(
            "ld.param.u64 %rd1, [k_param_0];\n"
            + "".join(
                f"mbarrier.arrive.shared::cta.b64 %rd10, [%r3];\nmbarrier.pending_count.b64 %r9, %rd10;\n"
                f"st.global.u32 [%rd1+{4 * i}], %r9;\n"
                for i in range(5)
            )
            + "mov.b64 %rd11, 0;\nONE: mbarrier.try_wait.shared::cta.b64 %p2, [%r3], %rd11;\n@!%p2 bra ONE;\n"
        )
    )
    out = np.zeros(8, np.uint32)
    ran(body, {"D": out}, pointers=["D"])
    assert out[:5].tolist() == [4, 3, 2, 1, 4]


# Warps whose lanes part


def test_match_all():
    body = "and.b32 %r2, %r0, MASK;\nmatch.all.sync.b32 %r3|%p1, %r2, -1;\nselp.u32 %r4, 1, 0, %p1;\nadd.s32 %r9, %r3, %r4;\n"
    assert set(lanes(body.replace("MASK", "0"))) == {0} and set(lanes(body.replace("MASK", "1"))) == {0}
    alone = body.replace("MASK", "0").replace("add.s32 %r9, %r3, %r4", "mov.b32 %r9, %r3")
    assert set(lanes(alone)) == {M32}
    wide = "cvt.u64.u32 %rd4, %r0;\nshr.u64 %rd4, %rd4, 4;\nshl.b64 %rd4, %rd4, 40;\nmatch.any.sync.b64 %r9, %rd4, -1;\n"
    assert lanes(wide) == [0xFFFF] * 16 + [0xFFFF0000] * 16


PARTED = """
setp.lt.u32 %p1, %r0, 16;
@%p1 bra LOW;
st.shared.u32 [%r2], %r5;
bar.warp.sync MASK;
bra MET;
LOW:
bar.warp.sync MASK;
xor.b32 %r3, %r0, 16;
shl.b32 %r3, %r3, 2;
add.s32 %r3, %r3, %r1;
ld.shared.u32 %r9, [%r3];
MET:
"""
LANE = "mov.b32 %r1, smem;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r2, %r2, %r1;\nadd.s32 %r5, %r0, 100;\nmov.u32 %r9, 0;\n"


@pytest.mark.parametrize("seed", range(6))
def test_lanes_that_have_parted_meet_at_bar_warp_sync(seed):
    """They come to it at different places; what the one half has stored the other reads behind it."""
    out = np.zeros(32, np.uint32)
    body = (
        "mov.u32 %r0, %tid.x;\n"
        + LANE
        + PARTED.replace("MASK", "-1")
        + own(0, 4)
        + "st.global.u32 [%rd1], %r9;\n"
    )
    ran(body, {"D": out}, seed, threads=32, pointers=["D"])
    assert out.tolist() == [116 + lane for lane in range(16)] + [0] * 16


def test_bar_warp_sync_does_not_wait_for_lanes_that_have_ended():
    body = "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p1, %r0, 16;\n@%p1 bra LOW;\nret;\nLOW:\nbar.warp.sync -1;\n"
    for seed in range(6):
        assert kinds(body, seed, threads=32) == {}


def test_lanes_that_never_come_to_bar_warp_sync():
    """Half of them wait for an mbarrier that nobody arrives on."""
    body = init(1) + "add.s32 %r3, %r1, 8192;\nsetp.lt.u32 %p1, %r0, 16;\n@%p1 bra LOW;\n"
    body += wait("[%r3]", 0, "EMPTY") + "bra END;\nLOW:\nbar.warp.sync -1;\nEND:\n"
    found = emulate(kernel(body, tensors=[("D", (8,), "uint32")], threads=32), {"D": np.zeros(8, np.uint32)})
    waits = [row["text"] for row in found.errors[0].waiting]
    assert found.errors[0].kind == "deadlock" and "for lanes 16-31 of its warp at bar.warp.sync" in waits


def test_spaces_of_generic_addresses():
    body = "cvta.shared.u64 %rd3, smem;\nld.param.u64 %rd4, [k_param_0];\nmov.u32 %r9, 0;\n"
    for i, (space, register) in enumerate(
        [("shared", 3), ("global", 4), ("shared::cluster", 3), ("global", 3), ("shared", 4), ("local", 3)]
    ):
        body += f"isspacep.{space} %p1, %rd{register};\n@%p1 or.b32 %r9, %r9, {1 << i};\n"
    assert set(lanes(body)) == {0b111}


# Schedules


def apart(held):
    """Seeds that hold back one CTA of a cluster, or one warp of each CTA."""
    return [seed for seed in range(40) if Schedule(seed).held == held]


COUNTED = """
mov.u32 %r0, %tid.x;
mov.u32 %r20, %cluster_ctarank;
shr.u32 %r21, %r0, 5;
ld.param.u64 %rd1, [k_param_0];
mov.u32 %r5, 0;
AGAIN:
and.b32 %r6, %r0, 31;
setp.ne.s32 %p1, %r6, 0;
@!%p1 atom.global.add.u32 %r7, [%rd1], 1;
add.s32 %r5, %r5, 1;
setp.lt.u32 %p2, %r5, 150;
@%p2 bra AGAIN;
shl.b32 %r8, %r20, 2;
add.s32 %r8, %r8, %r21;
mul.wide.u32 %rd2, %r8, 4;
add.s64 %rd2, %rd2, %rd1;
@!%p1 st.global.u32 [%rd2+4], %r7;
"""


@pytest.mark.parametrize("held", ["cta", "warp"])
def test_a_schedule_holds_one_back_until_nobody_else_can_go_on(held):
    """Each warp counts 150 times: who is held back counts after all the others have."""
    for seed in apart(held)[:4]:
        out = np.zeros(9, np.uint32)
        ran(COUNTED, {"D": out}, seed, threads=128, grid=(2, 1, 1), cluster=(2, 1, 1), pointers=["D"])
        last = out[1:].reshape(2, 4)
        which = Schedule(seed).which
        mine = last[int(2 * which)] if held == "cta" else last[:, int(4 * which)]
        assert mine.max() == 8 * 150 - 1 and sorted(last.reshape(-1))[: 8 - mine.size] == sorted(
            set(last.reshape(-1)) - set(mine)
        )
        assert min(mine) > (8 - mine.size) * 150


def test_who_is_held_back_is_drawn_apart():
    """Seeds mean what they meant: the other decisions are drawn as before."""
    assert {Schedule(seed).held for seed in range(3)} == {"", "cta", "warp"}
    drawn = Schedule(5).random.getstate()
    Schedule(5).holds(0, 2, 1, 4)
    assert Schedule(5).random.getstate() == drawn
