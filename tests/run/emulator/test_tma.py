"""TMA and wgmma against independent formulations: every swizzle, rank, offset and descriptor field, element
by element.
"""

import base64
import gzip
import json
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.artifact import DATA_TYPES, TensorMap
from course_utils.run.emulator import emulate
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.units.reductions import type_of_map
from course_utils.run.emulator.units.views import TensorView
from course_utils.run.emulator.units.wgmma import operand_units
from course_utils.tma import transfers
from tests.run.emulator.kernels import (
    accumulated,
    by_thread_0,
    described,
    filled,
    init,
    kernel,
    load_tile,
    own,
    ran,
    registers_of_a,
    tile_map,
    wait,
)

DATA = Path(__file__).parents[2] / "data"
BASE = 0x400  # the shared address of byte 0


def swizzled(address, swizzle):
    """A byte address after swizzling, bit by bit: bit 4 + i is flipped by bit 7 + i, for the mode's lowest 1,
    2 or 3 bits.
    """
    for i in range({0: 0, 1: 1, 2: 2, 3: 3}[swizzle]):
        if address >> (7 + i) & 1:
            address ^= 1 << (4 + i)
    return address


def dump(count):
    """Copy ``count`` bytes of shared memory to the tensor whose address is in %rd61, a word for each of 128
    threads in turn.
    """
    return f"""
shl.b32 %r60, %r0, 2;
DUMPING: setp.ge.s32 %p10, %r60, {count};
@%p10 bra DUMPED;
add.s32 %r61, %r60, %r1;
ld.shared.u32 %r62, [%r61];
cvt.u64.u32 %rd60, %r60;
add.s64 %rd60, %rd60, %rd61;
st.global.u32 [%rd60], %r62;
add.s32 %r60, %r60, 512;
bra DUMPING;
DUMPED:
"""


def box_in_shared(tensor, tensor_map, coordinates, seed=0, offset=0, whole=False):
    """The bytes that one TMA load leaves in shared memory at ``offset``, by the emulator; ``whole``: all of
    shared memory, which PREFILL has filled before.
    """
    count, before = (DUMP, PREFILL) if whole else (tensor_map.box_bytes, "")
    load = f"add.s32 %r4, %r1, {offset};\n" + load_tile("%r4", "%r3", *coordinates)
    body = filled(tensor_map.box_bytes, load, barrier=32768, before=before)
    body += "ld.param.u64 %rd61, [k_param_1];\n" + dump(count)
    out = np.zeros(count, np.uint8)
    options = {"maps": [("A", tensor_map)], "pointers": ["OUT"], "dynamic": 32776}
    ran(body, {"A": tensor, "OUT": out}, seed, **options)
    return out


def expected_box(tensor, tensor_map, coordinates):
    """The same by walking the box's elements one by one."""
    size, out = tensor.dtype.itemsize, np.zeros(tensor_map.box_bytes, np.uint8)
    raw = tensor.reshape(-1).view(np.uint8)
    strides = (size, *tensor_map.strides)
    for linear, index in enumerate(np.ndindex(*reversed(tensor_map.box))):
        place = [c + i for c, i in zip(coordinates, reversed(index), strict=True)]
        at = swizzled(BASE + linear * size, tensor_map.swizzle) - BASE
        if all(0 <= p < d for p, d in zip(place, tensor_map.dims, strict=True)):
            offset = sum(p * s for p, s in zip(place, strides, strict=True))
            out[at : at + size] = raw[offset : offset + size]
    return out


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_box_of_any_rank_swizzle_and_place(data):
    rank = data.draw(st.integers(1, 5))
    size = data.draw(st.sampled_from([1, 2, 4]))
    swizzle = data.draw(st.integers(0, 3))
    row = data.draw(st.sampled_from([16, 32, 64, 128])) if swizzle == 0 else 16 << swizzle
    box = (row // size, *(data.draw(st.integers(1, 4)) for _ in range(rank - 1)))
    inner = 16 // size * data.draw(st.integers(1, 10))
    dims = (inner, *(data.draw(st.integers(1, 7)) for _ in range(rank - 1)))
    dtype = {1: "uint8", 2: "float16", 4: "float32"}[size]
    code = {1: 0, 2: 6, 4: 7}[size]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    tensor = rng.integers(0, 255, (*reversed(dims[1:]), dims[0] * size), dtype=np.uint8).view(dtype)
    strides = tuple(int(np.prod(dims[:i])) * size for i in range(1, rank))
    tensor_map = TensorMap(code, dims, strides, box, (1,) * rank, 0, swizzle)
    unit = 16 // size  # an inner coordinate begins at a multiple of 16 bytes
    coordinates = tuple(data.draw(st.integers(-3, d + 1)) for d in dims)
    coordinates = (coordinates[0] // unit * unit, *coordinates[1:])
    np.testing.assert_array_equal(
        box_in_shared(tensor, tensor_map, coordinates, data.draw(st.integers(0, 5))),
        expected_box(tensor, tensor_map, coordinates),
    )


def test_nan_fill_and_element_strides():
    tensor = np.arange(64, dtype=np.float16).reshape(4, 16)
    nan = TensorMap(6, (16, 4), (32,), (8, 4), (1, 1), 0, 0, 0, 1)
    out = box_in_shared(tensor, nan, (8, 2)).view(np.float16).reshape(4, 8)
    assert np.isnan(out[2:]).all() and (out[:2] == tensor[2:, 8:]).all()
    every_other = TensorMap(6, (16, 4), (32,), (16, 4), (1, 2), 0, 0)
    assert every_other.box_bytes == 2 * 16 * 2
    out = box_in_shared(tensor, every_other, (0, 0)).view(np.float16).reshape(2, 16)
    np.testing.assert_array_equal(out, tensor[::2])


@pytest.mark.parametrize("start, rows", [(0, [0, 2, 4]), (1, [1, 3]), (2, [2, 4])])
def test_a_box_in_steps_reaches_the_last_row_inside(start, rows):
    """Every other of five rows, in a box of three."""
    tensor = np.arange(1, 41, dtype=np.float16).reshape(5, 8)
    tensor_map = TensorMap(6, (8, 5), (16,), (8, 6), (1, 2), 0, 0)
    out = box_in_shared(tensor, tensor_map, (0, start)).view(np.float16).reshape(3, 8)
    np.testing.assert_array_equal(out[: len(rows)], tensor[rows])
    assert not out[len(rows) :].any()


@pytest.mark.parametrize("swizzle", range(4))
def test_a_store_is_the_inverse_of_a_load(swizzle):
    """Load a tile and store it elsewhere, half outside: what is inside arrives, and nothing else is
    touched.
    """
    columns = 64 if not swizzle else (8 << swizzle)
    A = np.random.default_rng(0).standard_normal((32, columns)).astype(np.float16)
    D = np.full((48, columns), 7, np.float16)
    store = """
mov.b64 %rd51, k_param_1;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd51, {0, 32}], [%r1];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
    body = filled(A.nbytes, load_tile("%r1", "%r3")) + by_thread_0(store)
    maps = [("A", tile_map(A.shape, A.shape, swizzle)), ("D", tile_map(D.shape, A.shape, swizzle))]
    ran(body, {"A": A, "D": D}, maps=maps)
    np.testing.assert_array_equal(D[32:], A[:16])
    assert (D[:32] == 7).all()


def multicast(mask):
    """The CTA of rank 0 multicasts 8 rows of A to the CTAs of ``mask``, of two; each copies what it has in
    shared memory to its part of OUT. OUT comes as zeros, and what no load brings is 0.
    """
    A = np.arange(1, 513, dtype=np.float16).reshape(8, 64)
    body = (
        init(1)
        + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        + """
add.s32 %r3, %r1, 8192;
mov.u32 %r20, %cluster_ctarank;
setp.ne.s32 %p1, %r0, 0;
shl.b32 %r22, 1, %r20;
and.b32 %r22, %r22, MASK;
setp.eq.s32 %p3, %r22, 0;
@%p1 bra LOADED;
@!%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
setp.ne.s32 %p2, %r20, 0;
@%p2 bra LOADED;
mov.b64 %rd50, k_param_0;
mov.u16 %rs1, MASK;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd50, {0, 0}], [%r3], %rs1;
LOADED:
@%p3 bra OVER;
"""
        + wait("[%r3]", 0, "FULL")
        + """
ld.param.u64 %rd61, [k_param_1];
mul.wide.u32 %rd62, %r20, 1024;
add.s64 %rd61, %rd61, %rd62;
"""
        + dump(1024)
        + "OVER:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    )
    artifact = kernel(
        body.replace("MASK", str(mask)),
        tensors=[("A", A.shape, "float16"), ("OUT", (2, 8, 64), "float16")],
        pointers=["OUT"],
        maps=[("A", tile_map(A.shape, A.shape, 0))],
        cluster=(2, 1, 1),
        grid=(2, 1, 1),
    )
    return artifact, A


@pytest.mark.parametrize("mask", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_multicast_brings_the_tile_and_its_bytes_to_every_cta_of_the_mask_and_to_no_other(seed, mask):
    artifact, A = multicast(mask)
    out = np.zeros((2, 8, 64), np.float16)
    result = emulate(artifact, {"A": A, "OUT": out}, seed)
    assert result.ok, result.findings
    for rank in range(2):
        np.testing.assert_array_equal(out[rank], A if mask >> rank & 1 else np.zeros_like(A))


def test_multicast_to_a_cta_that_is_not_there():
    artifact, A = multicast(7)
    result = emulate(artifact, {"A": A, "OUT": np.zeros((2, 8, 64), np.float16)})
    assert [finding.kind for finding in result.errors] == ["cluster-rank"]
    assert "multicasts to CTAs 0b111 of a cluster of 2" in result.errors[0].detail


def test_bulk_copies_without_a_map():
    A, D = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    load = """ld.param.u64 %rd1, [k_param_0];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r3];
"""
    store = """ld.param.u64 %rd2, [k_param_1];
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
    ran(filled(256, load) + by_thread_0(store), {"A": A, "D": D}, pointers=["A", "D"])
    np.testing.assert_array_equal(A, D)


# wgmma descriptors. A layout is written as "where is element (row, k)", from the tables of canonical layouts


def element_address(mode, mn_major, leading, stride, row, k):
    """Byte offset of one half from the descriptor's start, before swizzling; strides in bytes."""
    width = {0: 16, 1: 128, 2: 64, 3: 32}[mode]  # of one row of the pattern, bytes
    if not mn_major:
        inside = k * 2 if mode else k // 8 * leading + k % 8 * 2
        return row // 8 * stride + row % 8 * width + inside
    per_row = width // 2  # elements of M or N in one row of the pattern
    if mode == 0:
        return row // 8 * stride + row % 8 * 2 + k // 8 * leading + k % 8 * 16
    return row // per_row * leading + row % per_row * 2 + k // 8 * stride + k % 8 * width


@settings(max_examples=60, deadline=None)
@given(
    mode=st.integers(0, 3),
    mn_major=st.booleans(),
    rows=st.sampled_from([8, 64, 128, 256]),
    leading=st.integers(1, 200),
    stride=st.integers(1, 200),
    start=st.integers(64, 9000),
)
def test_descriptor_fields(mode, mn_major, rows, leading, stride, start):
    descriptor = start | leading << 16 | stride << 32 | mode << 62
    base, units, low, high = operand_units(descriptor, rows, mn_major)
    bits = {0: 0, 1: 3, 2: 2, 3: 1}[mode]
    rng = np.random.default_rng(start)
    for row, k in zip(rng.integers(0, rows, 20), rng.integers(0, 16, 20), strict=True):
        address = swizzled(
            start * 16 + element_address(mode, mn_major, leading * 16, stride * 16, int(row), int(k)), bits
        )
        unit = units[row // 8, k] if mn_major else units[row, k // 8]
        within = row % 8 * 2 if mn_major else k % 8 * 2
        assert (base + unit) * 16 + within == address - BASE
    assert low == base and high == base + units.max() + 1


@pytest.mark.parametrize("a_major, b_major", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_wgmma_multiplies_what_tma_loaded(a_major, b_major, dtype):
    """A: 64 x 16, B: 64 x 16 (N = 64), each K-major or MN-major, loaded by TMA with the swizzle that the
    descriptor names.
    """
    import torch

    generator = torch.Generator().manual_seed(a_major + 2 * b_major)
    kind = torch.float16 if dtype == "f16" else torch.bfloat16
    A, B = (torch.randn(64, 16, generator=generator).to(kind) for _ in range(2))
    stored = [(t.T.contiguous() if major else t.contiguous()) for t, major in ((A, a_major), (B, b_major))]
    swizzles = [3 if major else 1 for major in (a_major, b_major)]  # rows of 128 or of 32 bytes
    modes = [1 if major else 3 for major in (a_major, b_major)]
    strides = [(1024 if major else 256) // 16 for major in (a_major, b_major)]
    descriptors = [(modes[i] << 62 | strides[i] << 32 | 1 << 16) for i in range(2)]
    registers = ", ".join(f"%f{i}" for i in range(32))
    code = 6 if dtype == "f16" else 9
    second = "add.s32 %r4, %r1, 2048;\n" + load_tile("%r4", "%r3", parameter=1)
    body = (
        filled(4096, load_tile("%r1", "%r3"), second)
        + f"""
shr.u32 %r5, %r1, 4;
cvt.u64.u32 %rd5, %r5;
or.b64 %rd6, %rd5, {descriptors[0]};
add.s64 %rd5, %rd5, 128;
or.b64 %rd7, %rd5, {descriptors[1]};
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n64k16.f32.{dtype}.{dtype} {{{registers}}}, %rd6, %rd7, 0, 1, -1, {a_major}, {b_major};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
"""
        + own(2, 128)
        + "".join(f"st.global.f32 [%rd1+{4 * i}], %f{i};\n" for i in range(32))
    )
    shapes, out = [tuple(t.shape) for t in stored], torch.zeros(128, 32)
    maps = [(n, tile_map(s, s, w, code)) for n, s, w in zip("AB", shapes, swizzles, strict=True)]
    ran(body, {"A": stored[0], "B": stored[1], "OUT": out}, maps=maps, pointers=["OUT"])
    np.testing.assert_allclose(accumulated(out), -(A.float() @ B.float().T).numpy(), rtol=1e-4, atol=1e-4)


def test_wgmma_with_a_from_registers_and_an_fp16_accumulator():
    import torch

    generator = torch.Generator().manual_seed(5)
    A, B = torch.randn(64, 16, generator=generator).half(), torch.randn(8, 16, generator=generator).half()
    fragments = registers_of_a(A.numpy().view(np.uint32))
    body = (
        filled(256, load_tile("%r1", "%r3"))
        + f"""
shr.u32 %r5, %r1, 4;
cvt.u64.u32 %rd5, %r5;
or.b64 %rd6, %rd5, {3 << 62 | 16 << 32 | 1 << 16};
{own(1, 16)}ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd1];
mov.b32 %r20, 1006648320;
mov.b32 %r21, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {{%r20, %r21}}, {{%r10, %r11, %r12, %r13}}, %rd6, 1, 1, 1, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{own(2, 8)}st.global.v2.u32 [%rd1], {{%r20, %r21}};
"""
    )
    out, maps = torch.zeros(128, 4, dtype=torch.float16), [("B", tile_map((8, 16), (8, 16), 1))]
    ran(body, {"B": B, "F": fragments, "OUT": out}, maps=maps, pointers=["F", "OUT"])
    product = (A.float() @ B.float().T).numpy()
    ones = np.arange(64)[:, None] % 16 < 8  # the accumulator began as 0x3C003C00, two ones, and then 0
    np.testing.assert_allclose(accumulated(out), product + ones, atol=0.01)


MEASURED = json.loads((DATA / "tma_boxes.json").read_text())
DUMP = 16_384
PREFILL = f"""
shl.b32 %r60, %r0, 2;
FILLING: setp.ge.s32 %p10, %r60, {DUMP};
@%p10 bra FILLED;
add.s32 %r61, %r60, %r1;
mov.b32 %r62, 0xEEEEEEEE;
st.shared.u32 [%r61], %r62;
add.s32 %r60, %r60, 512;
bra FILLING;
FILLED:
fence.proxy.async;
bar.sync 0;
"""


@pytest.mark.parametrize(
    "case", MEASURED["cases"], ids=lambda c: "swizzle{6}-box{3}".format(*c["fields"]) + f"-at{c['offset']}"
)
def test_box_lies_in_shared_memory_as_on_an_h200(case):
    """Above all: rows of a box that is narrower than its swizzle span begin a whole span apart, and the gaps
    stay untouched.
    """
    data_type, dims, strides, box, steps, interleave, swizzle = case["fields"]
    tensor_map = TensorMap(
        data_type, tuple(dims), tuple(strides), tuple(box), tuple(steps), interleave, swizzle
    )
    shape = tuple(reversed(dims))
    tensor = (np.arange(np.prod(shape)) % 65521 + 1).astype(np.uint16).reshape(shape)
    out = box_in_shared(tensor, tensor_map, case["coordinates"], offset=case["offset"], whole=True)
    assert out.tobytes() == zlib.decompress(base64.b64decode(case["dump"]))


HARDWARE = json.loads(gzip.decompress((DATA / "tma_hardware.json.gz").read_bytes()))["cases"]


def view_of(case, data):
    data_type, dims, strides, box, steps, *codes = case["fields"]
    tensor_map = TensorMap(data_type, tuple(dims), tuple(strides), tuple(box), tuple(steps), *codes)
    view = TensorView("A", tensor_map, memory.Region("A", data[case.get("base", 0) :]))
    assert not view.broken
    return view


def units_of(view, at, shared):
    """The 16-byte pieces of a tile at byte ``at`` of shared memory, in the order of its box, as a place."""
    first, units = at // 16, shared.view(np.uint64).reshape(-1, 2)
    if view.swizzle:
        return units[first - first % 64 :], view.places(first % 64)
    return units, slice(first, first + view.units)


def left(case, before):
    after = before.copy()
    for at, text in case["left"]:
        piece = np.frombuffer(bytes.fromhex(text), np.uint8)
        after[at : at + len(piece)] = piece
    return after


GROUPS = (
    "fills", "element strides", "shared alignment", "global alignment", "drawn", "map elsewhere", "store",
    "reduction", "coordinates", "ragged", "bits",
)  # fmt: skip


def recorded(*kinds):
    """Launches that came to their end, on maps that are not interleaved, which the emulator refuses."""
    return [
        case
        for case in HARDWARE
        if case["group"] in GROUPS
        and case["kernel"].startswith(kinds)
        and "error" not in case
        and not case["fields"][5]
    ]


def words(count, step=1):
    """Bytes whose 16-bit words tell where they lie; a step of 40,503 gives floats of every size."""
    return (np.arange(count // 2, dtype=np.uint64) * step % 65_521 + 1).astype(np.uint16).view(np.uint8)


def test_every_recorded_load_is_the_emulators():
    """All element types, element strides, ragged edges, each fill, each alignment."""
    cases, wrong = recorded("load"), []
    for case in cases:
        view = view_of(case, words(131_072, 40_503 if "data" in case else 1))
        shared = np.full(16_384, 0xEE, np.uint8)
        units, where = units_of(view, case.get("at", 0), shared)
        units[where] = view.read(tuple(case["coordinates"]))
        if view.bytes != case["bytes"] or not np.array_equal(
            shared, left(case, np.full(16_384, 0xEE, np.uint8))
        ):
            wrong.append(case)
    assert len(cases) == 366 and {case["fields"][0] for case in cases} == set(range(13))
    assert wrong == []


def test_every_recorded_store_and_reduction_is_the_emulators():
    """All but the sums of the types that flush denormal numbers."""
    cases = recorded("store", "reduce")
    flushing = {DATA_TYPES.index(name) for name in ("float32_ftz", "tfloat32_ftz")}
    cases = [case for case in cases if "reduce" not in case["kernel"] or case["fields"][0] not in flushing]
    wrong, ragged = [], Counter()
    for case in cases:
        operation = case["kernel"].partition("reduce_")[2]
        type_name = type_of_map(operation, DATA_TYPES[case["fields"][0]]) if operation else ""
        before = words(131_072) if operation else np.full(131_072, 0xEE, np.uint8)
        data = before.copy()
        shared = words(16_384, 40_503 if operation or "data" in case else 1)
        view = view_of(case, data)
        units, where = units_of(view, case.get("at", 0), shared)
        if operation:
            view.reduce(tuple(case["coordinates"]), units[where], operation, type_name)
        else:
            view.write(tuple(case["coordinates"]), units[where])
        past = case["group"] == "ragged" and view.stored[0] > view.map.dims[0]
        ragged.update(["reduction" if operation else "store"] if past else [])
        if not np.array_equal(data, left(case, before)):
            wrong.append((case["kernel"], DATA_TYPES[case["fields"][0]], case["fields"], case["coordinates"]))
    assert wrong == [] and len(cases) == 215
    assert ragged == {"store": 52, "reduction": 16}  # each wrote whole pieces of 16 bytes


def test_a_recorded_launch_fails_where_the_contract_says_so():
    """Misaligned tiles, inner coordinates between pieces of 16 bytes, stores at negative coordinates."""
    count, alone = Counter(), Counter()
    for case in HARDWARE:
        kernel = case.get("kernel", "")
        if not kernel or "im2col" in kernel or case["fields"][5] or case["group"] == "map elsewhere":
            continue
        kind = next(kind for kind in ("load", "store", "reduce") if kernel.startswith(kind))
        operation = kernel.partition("reduce_")[2]
        at = case.get("at", 0)
        transfer = transfers.Transfer(kind, tuple(case["coordinates"]), at=at, operation=operation)
        rules = transfers.broken(view_of(case, words(131_072)).map, transfer)
        ends = {transfers.RULES[rule].ends for rule in rules}
        assert (case.get("error") in ends) if "error" in case else not rules
        count.update(rules)
        alone.update(rules if len(rules) == 1 else [])
    assert count == {"tile-alignment": 52, "inner-coordinate": 311, "store-coordinate": 84, "reduction": 71}
    told = {rule: text.source.partition("; ")[2] for rule, text in transfers.RULES.items()}
    assert {rule: f"{alone[rule]} launches" for rule in alone} == {
        rule: told[rule] for rule in told if told[rule]
    }


@pytest.mark.parametrize(
    "shape, coordinates, words",
    [
        ((16, 64), (4, 0), "the first is 8 bytes into a row"),
        ((16, 64), (-1, 0), "the first is -2 bytes into a row"),
        ((16, 64), (8, 0), ""),
        ((16, 64), (-8, -3), ""),
    ],
)
def test_an_inner_coordinate_begins_at_16_bytes(shape, coordinates, words):
    tensor_map = tile_map(shape, (4, 64), 0)
    body = filled(tensor_map.box_bytes, load_tile("%r1", "%r3", *coordinates))
    tensors = {"A": np.zeros(shape, np.float16)}
    result = emulate(kernel(body, tensors=described(tensors), maps=[("A", tensor_map)]), tensors)
    assert [finding.kind for finding in result.errors] == (["tensor-map"] if words else [])
    assert not words or words in result.errors[0].detail


def test_a_store_does_not_begin_at_a_negative_coordinate():
    store = """
mov.b64 %rd51, k_param_0;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd51, {0, -2}], [%r1];
"""
    tensors = {"D": np.zeros((16, 64), np.float16)}
    body = init(1) + by_thread_0(store)
    result = emulate(
        kernel(body, tensors=described(tensors), maps=[("D", tile_map((16, 64), (4, 64), 0))]), tensors
    )
    assert [finding.kind for finding in result.errors] == ["tensor-map"]
    assert "no coordinate of a store may be negative" in result.errors[0].detail


@pytest.mark.parametrize("operation", ["cp", "cp.reduce"])
@pytest.mark.parametrize("count, past", [(20, 8), (24, 0)])
def test_a_store_writes_whole_pieces_of_16_bytes(count, past, operation):
    """Of 20 halves the last 4 share a piece of 16 bytes with what lies behind."""
    added = ".add" if "reduce" in operation else ""
    store = f"""
mov.b64 %rd51, k_param_0;
{operation}.async.bulk.tensor.1d.global.shared::cta{added}.bulk_group [%rd51, {{0}}], [%r1];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
    tensors, tensor_map = {"D": np.zeros(count, np.float16)}, tile_map((count,), (32,), 0)
    result = emulate(
        kernel(init(1) + by_thread_0(store), tensors=described(tensors), maps=[("D", tensor_map)]), tensors
    )
    details = [finding.detail for finding in result.errors if finding.kind == "out-of-bounds"]
    assert bool(details) == bool(past)
    assert not past or f"all 16, {past} past its end" in details[0]
