"""Loads in im2col mode: against an H200's, and against a convolution's own indices."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from course_utils.artifact import Artifact, PixelMap
from course_utils.compile.tilelang import pixel_map_of
from course_utils.run.emulator import emulate
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.units.pixels import PixelView
from course_utils.tma.encoding import encode
from tests.run.emulator.kernels import by_thread_0, described, filled, init, kernel, own, ran

DATA = Path(__file__).parents[2] / "data"
HARDWARE = json.loads(gzip.decompress((DATA / "tma_hardware.json.gz").read_bytes()))["cases"]
LOADS = [case for case in HARDWARE if case.get("kernel", "") in ("im2col3", "im2col4", "im2col5")]


def recorded_map(case):
    data_type, dims, strides, _, steps, *codes = case["fields"]
    box, corners = (case["channels"], case["pixels"]), (tuple(case["lower"]), tuple(case["upper"]))
    return PixelMap(data_type, tuple(dims), tuple(strides), box, tuple(steps), *codes, *corners)


def test_every_recorded_load_is_the_emulators():
    """Ranks 3 to 5, corners, steps and offsets, a swizzle, each fill."""
    data = (np.arange(65_536, dtype=np.uint64) % 65_521 + 1).astype(np.uint16).view(np.uint8)
    for case in LOADS:
        view = PixelView("A", recorded_map(case), memory.Region("A", data))
        shared = np.full(16_384, 0xEE, np.uint8)
        where = view.places(0) if view.swizzle else slice(0, view.units)
        shared.view(np.uint64).reshape(-1, 2)[where] = view.read((*case["coordinates"], *case["filter"]))
        left = np.full(16_384, 0xEE, np.uint8)
        for at, text in case["left"]:
            left[at : at + len(text) // 2] = np.frombuffer(bytes.fromhex(text), np.uint8)
        assert view.bytes == case["bytes"] and np.array_equal(shared, left), case["fields"]
    assert len(LOADS) == 201


# A convolution of 3 x 2 over 2 images of 5 x 7 pixels with 16 channels, padded by 1: what filter tap (s, r) reads

IMAGES = np.arange(2 * 5 * 7 * 16, dtype=np.float16).reshape(2, 5, 7, 16)
TAPS, STEP = (3, 2), (2, 1)  # W, H
MAP = PixelMap(
    6, (16, 7, 5, 2), (32, 224, 1120), (16, 24), (1, *STEP, 1), swizzle=1, lower=(-1, -1), upper=(-1, 0)
)


def im2col(offset):
    """The rows of the matrix that tap ``offset`` (W, H) multiplies: an output pixel is one of them."""
    padded = np.pad(IMAGES, ((0, 0), (1, 1), (1, 1), (0, 0)))
    across, down = (
        range(0, n + 2 - taps + 1, step) for n, taps, step in zip((7, 5), TAPS, STEP, strict=True)
    )
    return np.array(
        [padded[n, h + offset[1], w + offset[0]] for n, h, w in itertools.product(range(2), down, across)]
    )


def load(offsets, where="0, -1, -1, 0", mode=".im2col"):
    more = f", {{{offsets}}}" if mode == ".im2col" else ""
    return (
        "mov.b64 %rd50, k_param_0;\ncvta.param.u64 %rd50, %rd50;\n"
        f"cp.async.bulk.tensor.4d.shared::cta.global{mode}.mbarrier::complete_tx::bytes "
        f"[%r1], [%rd50, {{{where}}}], [%r3]{more};\n"
    )


@pytest.mark.parametrize("offset", [(0, 0), (2, 1)])
def test_a_load_is_a_tap_of_a_convolution(offset):
    """Through shared memory, swizzled: thread i takes row i."""
    store = (
        own(1, 32)
        + "shl.b32 %r5, %r0, 5;\nshr.u32 %r6, %r0, 2;\nand.b32 %r6, %r6, 1;\nshl.b32 %r6, %r6, 4;\n"
    )
    for half in (0, 1):  # swizzle 32B: bit 4 of an address is flipped by bit 7
        store += f"xor.b32 %r7, %r6, {16 * half};\nadd.u32 %r7, %r7, %r5;\nadd.u32 %r7, %r7, %r1;\n"
        store += "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];\n"
        store += f"st.global.v4.u32 [%rd1+{16 * half}], {{%r10, %r11, %r12, %r13}};\n"
    out = np.zeros((24, 16), np.float16)
    body = filled(MAP.box_bytes, load(", ".join(map(str, offset)))) + store
    ran(body, {"A": IMAGES, "D": out}, maps=[("A", MAP)], pointers=["D"], threads=24)
    assert np.array_equal(out, im2col(offset)[:24])


@pytest.mark.parametrize(
    "made, body, words",
    [
        (MAP, load("0, 0", mode=""), "in tile mode, and it was made for the other"),
        (MAP, load("0, 0", where="1, -1, -1, 0"), "the first is 2 bytes into a row"),
        (PixelMap(6, (16, 7, 5, 2), (32, 224, 1120), (16, 2000), (1, 1, 1, 1), lower=(0, 0), upper=(0, 0)),
         load("0, 0"), "pixelsPerColumn"),
    ],
)  # fmt: skip
def test_a_load_that_the_map_does_not_allow(made, body, words):
    tensors = {"A": IMAGES}
    result = emulate(kernel(init(1) + "add.s32 %r3, %r1, 8192;\n" + by_thread_0(body), tensors=described(tensors),
                            maps=[("A", made)]), tensors)  # fmt: skip
    assert [finding.kind for finding in result.errors] == ["tensor-map"]
    assert words in result.errors[0].detail


def test_a_map_of_pixels_is_kept_and_is_no_tile():
    artifact = kernel("", tensors=described({"A": IMAGES}), maps=[("A", MAP)])
    assert Artifact.from_bytes(artifact.to_bytes()).parameters[0].tensor_map == MAP
    with pytest.raises(ValueError, match="im2col"):
        encode(MAP, 0)


def test_tilelangs_arguments():
    """As TileLang 0.1.15's runtime takes them: pixels come before channels, and there is an innermost stride."""
    flat = [0, 6, 4, 0, 16, 7, 5, 2, 2, 32, 224, 1120, 1, 2, 1, 1, -1, -1, -1, 0, 24, 16, 0, 1, 0, 0]
    assert pixel_map_of(flat, lambda value, what: value) == MAP
