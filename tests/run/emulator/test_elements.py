"""Number formats of the tensor core against torch's and ml_dtypes': every fp8 value, every rounding, and wgmma
of each type against a product in float64.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch

from course_utils.run.emulator import EmulatorError, emulate
from course_utils.run.emulator.isa.elements import ELEMENT_BITS, FP8_VALUES, to_fp8
from course_utils.run.emulator.isa.tags import Tags
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
from tests.run.emulator.test_arithmetic import lanes

TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("kind", TYPES)
def test_fp8_values_are_those_of_ml_dtypes(kind):
    bits = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(FP8_VALUES[kind], bits.view(TYPES[kind]).astype(np.float32))


@pytest.mark.parametrize("kind", TYPES)
def test_fp8_rounds_to_nearest_even_and_stops_at_the_largest(kind):
    """Every half, and every f32 halfway between two values or next to it: torch saturates in neither type, so
    what is too large is held against the largest value.
    """
    values = np.sort(FP8_VALUES[kind][np.isfinite(FP8_VALUES[kind])])
    halfway = (values[1:] + values[:-1]) / 2
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    near = (np.nextafter(halfway, np.float32(to)) for to in (np.inf, -np.inf))
    numbers = np.concatenate([halves, halfway, *near])
    clipped = np.nan_to_num(np.clip(numbers, values[0], values[-1]))
    wanted = np.where(np.isnan(numbers), 0x7F, clipped.astype(TYPES[kind]).view(np.uint8))
    np.testing.assert_array_equal(to_fp8(kind, numbers), wanted)


@pytest.mark.parametrize("kind", TYPES)
def test_cvt_packs_and_unpacks_pairs_of_fp8(kind):
    rng = np.random.default_rng(3)
    upper, lower = (rng.normal(size=32).astype(np.float32) * 30 for _ in range(2))
    low, high = (v.astype(TYPES[kind]).view(np.uint8).astype(np.uint32) for v in (lower, upper))
    pack = f"cvt.rn.satfinite.{kind}x2.f32 %rs1, %f1, %f2;\ncvt.u32.u16 %r9, %rs1;\n"
    move = "mov.b32 %f1, %r40;\nmov.b32 %f2, %r41;\n"
    words = upper.view(np.uint32), lower.view(np.uint32)
    np.testing.assert_array_equal(lanes(move + pack, inputs=words), high << 8 | low)
    positive = lanes(move + pack.replace("satfinite", "satfinite.relu"), inputs=words)
    np.testing.assert_array_equal(positive, np.where(upper < 0, 0, high) << 8 | np.where(lower < 0, 0, low))

    halves = np.stack([lower, upper], 1).astype(np.float16)
    packed = halves.view(np.uint32).reshape(32)
    narrow = f"cvt.rn.satfinite.{kind}x2.f16x2 %rs1, %r40;\ncvt.u32.u16 %r9, %rs1;\n"
    wanted = np.ascontiguousarray(halves.astype(TYPES[kind])).view(np.uint16).reshape(32)
    np.testing.assert_array_equal(lanes(narrow, inputs=(packed, packed)), wanted)
    widen = f"cvt.u16.u32 %rs1, %r40;\ncvt.rn.f16x2.{kind}x2 %r9, %rs1;\n"
    back = np.ascontiguousarray(halves.astype(TYPES[kind]).astype(np.float16)).view(np.uint32).reshape(32)
    np.testing.assert_array_equal(lanes(widen, inputs=(wanted.astype(np.uint32),)), back)
    one = np.full(32, packed[0])
    uniform = f"mov.b32 %f1, 0f40400000;\nmov.b32 %f2, 0fC3FA0000;\n{pack}"  # 3 and -500
    largest = {"e4m3": 0xFE, "e5m2": 0xE0}[kind]
    three = int(np.array(3, TYPES[kind]).view(np.uint8))
    assert set(lanes(uniform, inputs=(one, one))) == {three << 8 | largest}


def test_cvt_to_tf32_keeps_ten_bits_of_the_fraction():
    numbers = np.array([1 + 2**-11, 1 + 3 * 2**-11, -(1 + 2**-11), 1 + 2**-12, np.inf, 3.0] * 6, np.float32)
    body = "mov.b32 %f1, %r40;\ncvt.rna.tf32.f32 %r9, %f1;\n"
    words = [numbers.view(np.uint32)[:32]]
    made = np.array(lanes(body, inputs=words), np.uint32).view(np.float32)
    away = [1 + 2**-10, 1 + 2**-9, -(1 + 2**-10), 1, np.inf, 3.0] * 6
    np.testing.assert_array_equal(made, np.array(away, np.float32)[:32])
    even = np.array(lanes(body.replace("rna", "rn"), inputs=words), np.uint32).view(np.float32)
    np.testing.assert_array_equal(even[:3], np.array([1, 1 + 2**-9, -1], np.float32))


def operand(kind, rows, rng):
    """(the numbers in float64, their bytes as (rows, 32)) of one operand."""
    count = 32 * 8 // ELEMENT_BITS[kind]
    if kind in ("s8", "u8"):
        numbers = rng.integers(-128 if kind == "s8" else 0, 128 if kind == "s8" else 256, (rows, count))
        return numbers.astype(np.float64), numbers.astype(np.uint8)
    numbers = rng.normal(size=(rows, count)).astype(np.float32)
    if kind == "tf32":
        cut = (numbers.view(np.uint32) & 0xFFFFE000).view(np.float32)
        return cut.astype(np.float64), numbers.view(np.uint8).reshape(rows, 32)
    stored = numbers.astype(TYPES[kind])
    return stored.astype(np.float64), stored.view(np.uint8)


FORMS = [
    ("e4m3", "e4m3", "f32"),
    ("e5m2", "e4m3", "f32"),
    ("e4m3", "e5m2", "f16"),
    ("tf32", "tf32", "f32"),
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s8", "s8", "satfinite.s32"),
]


def product(kinds, added, from_registers, twice=1):
    """An Artifact of one 64 x 64 wgmma ``twice`` over, its tensors, and the sums it is to make."""
    rng = np.random.default_rng(len(added) + from_registers)
    (A, a_bytes), (B, b_bytes) = (operand(kind, 64, rng) for kind in kinds)
    depth = A.shape[1]
    count = 16 if added == "f16" else 32
    name = "%f{}" if added == "f32" else "%r1{:02}"
    sums = [name.format(i) for i in range(count)]
    integer = added.endswith("s32")
    flags = "" if integer else ", 1, 1"
    words = "{%r10, %r11, %r12, %r13}"
    left = words if from_registers else "%rd6"
    second = "add.s32 %r4, %r1, 2048;\n" + load_tile("%r4", "%r3", parameter=1)
    body = (
        filled(4096, load_tile("%r1", "%r3"), second)
        + f"{own(2, 16)}ld.global.v4.u32 {words}, [%rd1];\n"
        + "shr.u32 %r5, %r1, 4;\ncvt.u64.u32 %rd5, %r5;\n"
        + f"or.b64 %rd6, %rd5, {3 << 62 | 16 << 32 | 1 << 16};\nadd.s64 %rd5, %rd5, 128;\n"
        + f"or.b64 %rd7, %rd5, {3 << 62 | 16 << 32 | 1 << 16};\nwgmma.fence.sync.aligned;\n"
        + "".join(
            f"wgmma.mma_async.sync.aligned.m64n64k{depth}.{added}.{kinds[0]}.{kinds[1]} "
            f"{{{', '.join(sums)}}}, {left}, %rd7, {i}{flags};\n"
            for i in range(twice)
        )
        + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
        + own(3, 4 * count)
        + "".join(f"st.global.b32 [%rd1+{4 * i}], {register};\n" for i, register in enumerate(sums))
    )
    fragments = registers_of_a(np.ascontiguousarray(a_bytes).view(np.uint32))
    dtype = {"f16": "float16", "f32": "float32"}.get(added, "int32")
    tensors = {"A": a_bytes.copy(), "B": b_bytes.copy(), "F": fragments, "OUT": np.zeros((128, 32), dtype)}
    maps = [(n, tile_map((64, 32), (64, 32), 1, 0, 1)) for n in "AB"]
    artifact = kernel(body, tensors=described(tensors), maps=maps, pointers=["F", "OUT"])
    return artifact, tensors, twice * (A @ B.T)


@pytest.mark.parametrize("from_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("a, b, added", FORMS)
def test_wgmma_of_each_type(a, b, added, from_registers):
    artifact, tensors, wanted = product((a, b), added, from_registers, twice=2)
    result = emulate(artifact, tensors)
    assert result.ok, result.findings
    rounding = {"f32": 1e-5, "f16": 4e-3}.get(added, 0)
    np.testing.assert_allclose(accumulated(tensors["OUT"]), wanted, rtol=rounding, atol=rounding * 30)


def test_wgmma_takes_torch_fp8_tensors_and_names_the_type_in_its_span():
    artifact, tensors, _ = product(("e4m3", "e4m3"), "f32", False)
    fp8 = replace(artifact.tensors[0], dtype="float8_e4m3fn")
    artifact = replace(artifact, tensors=(fp8, *artifact.tensors[1:]))
    given = torch.from_numpy(tensors["A"]).view(torch.float8_e4m3fn)
    result = emulate(artifact, {**tensors, "A": given})
    assert result.ok and "m64n64k32" in {span.label for span in result.spans}


def test_tags_make_another_tensor_core_of_it_for_fp8_too():
    artifact, tensors, wanted = product(("e4m3", "e4m3"), "f32", False)
    tags = Tags(0)
    assert emulate(artifact, tensors, tags=tags).ok
    A, B = (torch.from_numpy(tensors[name]).view(torch.float8_e4m3fn).float().numpy() for name in "AB")
    signs = [tags.signs[tensors[name]] for name in "AB"]
    tagged = sum((A * signs[0][..., i]) @ (B * signs[1][..., i]).T for i in range(2))
    assert not np.allclose(accumulated(tensors["OUT"]), wanted)
    np.testing.assert_allclose(accumulated(tensors["OUT"]), tagged, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    "form, words",
    [
        (("m64n64k32.f32.e4m3.e4m3", "m64n64k16.f32.e4m3.e4m3"), "another shape than its types have"),
        (("m64n64k32.f32.e4m3.e4m3", "m64n64k32.f32.s8.s8"), "s8 by s8 in f32"),
        (("mma_async.sync", "mma_async.sp.sync"), "another shape than its types have"),
    ],
)
def test_other_forms_are_refused_by_name(form, words):
    artifact, tensors, _ = product(("e4m3", "e4m3"), "f32", False)
    with pytest.raises(EmulatorError, match=f"wgmma.* is not modelled by the emulator .{words}"):
        emulate(replace(artifact, ptx=artifact.ptx.replace(*form)), tensors)
