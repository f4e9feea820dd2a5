"""On a Hopper GPU: mma.sync, wgmma of each type, the conversions to and from fp8, vector atomics and dot
products of bytes give what the emulator gives; and what public kernels use now and then.

The kernels are those of the emulator's own tests, assembled by the driver.
"""

from dataclasses import replace

import numpy as np
import pytest

from course_utils.run.emulator import emulate
from course_utils.run.emulator.isa.elements import FP8_VALUES, to_fp8
from tests.run.emulator import test_arithmetic as arithmetic
from tests.run.emulator import test_elements as elements
from tests.run.emulator import test_instructions as instructions
from tests.run.emulator import test_mma as mma
from tests.run.emulator import test_reductions as reductions
from tests.run.emulator import test_sparse as sparse
from tests.run.emulator.kernels import described, kernel

pytestmark = pytest.mark.gpu
# what a tensor core's sums may differ by from float32's: it truncates, and of fp8 keeps fewer bits
APART = {"f32": 1e-3, "f16": 1e-2}


def on_gpu(artifact, arrays):
    """What the arrays hold after a launch on the GPU."""
    import torch

    from course_utils.run.gpu.launch import Kernel

    held = {
        name: torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).reshape(-1)).cuda()
        for name, array in arrays.items()
    }
    ready = replace(artifact, cubin=artifact.ptx.encode() + b"\0")
    loaded = Kernel(ready, {name: tensor.data_ptr() for name, tensor in held.items()})
    loaded.launch(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    return {name: held[name].cpu().numpy().view(a.dtype).reshape(a.shape) for name, a in arrays.items()}


def both(artifact, arrays):
    """The output of the GPU and of the emulator."""
    found = on_gpu(artifact, arrays)["OUT"]
    assert emulate(artifact, arrays).ok
    return found, arrays["OUT"]


@pytest.mark.parametrize("shape, a, b, added", mma.FORMS)
def test_mma(shape, a, b, added):
    artifact, arrays, _, read = mma.launched(shape, a, b, added)
    found, emulated = both(artifact, arrays)
    apart = APART.get(added, 0)
    np.testing.assert_allclose(read(found), read(emulated), rtol=apart, atol=apart)


@pytest.mark.parametrize("from_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("a, b, added", elements.FORMS)
def test_wgmma(a, b, added, from_registers):
    artifact, arrays, _ = elements.product((a, b), added, from_registers, twice=2)
    found, emulated = both(artifact, arrays)
    apart = 5 * APART.get(added, 0)
    np.testing.assert_allclose(found.astype(np.float64), emulated.astype(np.float64), rtol=apart, atol=apart)


INDEX = "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %tid.x;\nmad.lo.u32 %r0, %r0, 1024, %r1;\nmul.wide.u32 %rd2, %r0, 4;\n"


def many(body, words):
    """%r9 of a body for each of many words in %r40, on the GPU."""
    text = INDEX + "ld.param.u64 %rd1, [k_param_0];\nadd.s64 %rd1, %rd1, %rd2;\nld.global.u32 %r40, [%rd1];\n"
    text += body + "ld.param.u64 %rd1, [k_param_1];\nadd.s64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r9;\n"
    shape = words.shape
    artifact = kernel(
        text,
        threads=1024,
        grid=(len(words) // 1024, 1, 1),
        pointers=["X", "OUT"],
        tensors=[("X", shape, "uint32"), ("OUT", shape, "uint32")],
    )
    return on_gpu(artifact, {"X": words, "OUT": np.zeros(shape, np.uint32)})["OUT"]


@pytest.mark.parametrize("kind", elements.TYPES)
def test_conversions_to_and_from_fp8(kind):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)][:63488]
    near = np.concatenate([np.nextafter(halves, np.float32(sign * np.inf)) for sign in (1, -1)])
    for numbers in (halves, near):
        body = f"mov.b32 %f1, %r40;\ncvt.rn.satfinite.{kind}x2.f32 %rs1, %f1, %f1;\ncvt.u32.u16 %r9, %rs1;\n"
        found = many(body, numbers.view(np.uint32)) & 0xFF
        np.testing.assert_array_equal(found[~np.isnan(numbers)], to_fp8(kind, numbers)[~np.isnan(numbers)])
        assert set(found[np.isnan(numbers)].tolist()) <= {0x7F, 0xFF}
    pairs = np.arange(65536, dtype=np.uint32)
    found = many(f"cvt.u16.u32 %rs1, %r40;\ncvt.rn.f16x2.{kind}x2 %r9, %rs1;\n", pairs).view(np.float16)
    wanted = FP8_VALUES[kind][pairs.astype(np.uint16).view(np.uint8)].astype(np.float16)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mode", ["rna", "rn"])
def test_conversion_to_tf32(mode):
    words = np.random.default_rng(4).integers(0, 1 << 32, 65536, np.uint64).astype(np.uint32)
    words = words[~np.isnan(words.view(np.float32))][:64512]
    found = many(f"mov.b32 %f1, %r40;\ncvt.{mode}.tf32.f32 %r9, %f1;\n", words)
    from course_utils.run.emulator.isa.floats import convert_tf32

    np.testing.assert_array_equal(found & 0xFFFFE000, convert_tf32((mode,))(words))


@pytest.mark.parametrize("opcode", ["dp4a.s32.s32", "dp4a.u32.s32", "dp2a.lo.s32.u32", "dp2a.hi.u32.s32"])
def test_dot_products(opcode):
    words = np.random.default_rng(5).integers(0, 1 << 32, 32, np.uint64).astype(np.uint32)
    body = f"not.b32 %r41, %r40;\nmul.lo.u32 %r41, %r41, 77777;\n{opcode} %r9, %r40, %r41, %r40;\n"
    found = many(body, np.tile(words, 32))[:32]
    assert mma.lanes(body, inputs=[words.tolist()]) == found.tolist()


def test_vector_atomics():
    body = mma.ADDED + "mul.wide.u32 %rd2, %r0, 8;\nadd.s64 %rd1, %rd1, %rd2;\ncvt.rn.f32.u32 %f1, %r0;\n"
    body += "mov.b32 %f2, 0f40000000;\natom.global.add.v2.f32 {%f8, %f9}, [%rd1], {%f1, %f2};\n"
    artifact = kernel(body, threads=32, pointers=["OUT"], tensors=[("OUT", (32, 2), "float32")])
    found, emulated = both(artifact, {"OUT": np.ones((32, 2), np.float32)})
    np.testing.assert_array_equal(found, emulated)


# The emulator's own tests, on the GPU: what they hold against NumPy and Python is what it wrote


@pytest.fixture
def there(monkeypatch):
    """Tests of the emulator launch on the GPU."""

    def ran(body, tensors, seed=0, **options):
        found = on_gpu(kernel(body, tensors=described(tensors), **options), tensors)
        for name, array in tensors.items():
            array[...] = found[name]

    for module in (arithmetic, instructions, reductions):
        monkeypatch.setattr(module, "ran", ran)


@pytest.mark.parametrize("line", instructions.INTEGERS)
def test_integers(there, line):
    instructions.test_integers(line)


@pytest.mark.parametrize("name", ["add", "mul", "fma"])
@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding(there, name, mode):
    instructions.test_directed_rounding(name, mode)


@pytest.mark.parametrize(
    "test, given",
    [
        (instructions.test_carries_make_128_bits_of_two_registers, (False,)),
        (instructions.test_carries_make_128_bits_of_two_registers, (True,)),
        (instructions.test_products_with_carries, ()),
        (instructions.test_saturation_and_nan, ()),
        (instructions.test_pairs_of_halves, ()),
        (instructions.test_loads_and_stores_of_128_bits, (True,)),
        (instructions.test_barrier_red_counts_and_joins_predicates, ()),
        (instructions.test_barrier_red_of_some_warps_and_twice, ()),
        (instructions.test_pending_count_of_a_state, ()),
        (instructions.test_match_all, ()),
        (instructions.test_lanes_that_have_parted_meet_at_bar_warp_sync, (0,)),
        (instructions.test_spaces_of_generic_addresses, ()),
        (reductions.test_lanes_that_reduce_one_tile_reduce_it_each, ()),
        (reductions.test_inc_and_dec_wrap_at_their_limit, ()),
    ],
)
def test_what_public_kernels_use_now_and_then(there, test, given):
    test(*given)


@pytest.mark.parametrize(
    "operation, type_name", [(o, t) for o, types in reductions.GLOBAL.items() for t in types]
)
@pytest.mark.parametrize(
    "test", [reductions.test_bulk_reductions_into_global_memory, reductions.test_reductions_of_tiles]
)
def test_reductions(there, test, operation, type_name):
    test(operation, type_name)


@pytest.mark.parametrize("reduce", [reductions.BULK_CLUSTER, reductions.ASYNC], ids=["bulk", "red.async"])
@pytest.mark.parametrize("operation, type_name", reductions.WORDS)
def test_reductions_into_another_cta(there, reduce, operation, type_name):
    reductions.test_reductions_into_another_cta(reduce, operation, type_name)


@pytest.mark.parametrize("from_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("kind, selector", sparse.KINDS)
def test_sparse_wgmma(kind, selector, from_registers):
    artifact, arrays, _ = sparse.wgmma(kind, selector, from_registers)
    found, emulated = both(artifact, arrays)
    np.testing.assert_allclose(found.astype(np.float64), emulated.astype(np.float64), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("shape, kind, selector", sparse.SHAPES)
def test_sparse_mma(shape, kind, selector):
    artifact, arrays, _ = sparse.warp(shape, kind, selector)
    found, emulated = both(artifact, arrays)
    np.testing.assert_allclose(found.astype(np.float64), emulated.astype(np.float64), rtol=5e-3, atol=5e-3)
