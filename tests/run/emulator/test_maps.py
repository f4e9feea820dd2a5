"""Tensor maps that a kernel writes: which fences of the tensormap proxy are missing."""

import numpy as np
import pytest

from course_utils.run.emulator import emulate
from tests.run.emulator.kernels import described, init, kernel, tile_map, wait

A = np.arange(16 * 64, dtype=np.float16).reshape(16, 64)
BYTES = 8 * 64 * 2
START = init(1) + (
    "add.s32 %r3, %r1, 8192;\nmov.b64 %rd50, k_param_0;\ncvta.param.u64 %rd50, %rd50;\n"
    "ld.param.u64 %rd1, [k_param_1];\nsetp.gt.u32 %p1, %r0, 31;\nsetp.eq.u32 %p2, %r0, 32;\n"
    "setp.eq.u32 %p3, %r0, 0;\nmov.u32 %r40, %ctaid.x;\n"
)
COPY = (  # warp 0 writes the map that the launch has, a word a lane
    "shl.b32 %r5, %r0, 2;\ncvt.u64.u32 %rd3, %r5;\nadd.s64 %rd4, %rd50, %rd3;\n@!%p1 ld.b32 %r6, [%rd4];\n"
    "add.s64 %rd5, %rd1, %rd3;\n@!%p1 st.global.b32 [%rd5], %r6;\n"
)
RELEASE = "@!%p1 fence.proxy.tensormap::generic.release.gpu;\n"
MEET = "bar.sync 0;\n"
ACQUIRE = "@%p1 fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n"
REPLACE = "@%p3 tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 1, 8;\n"
LOAD = (  # thread 32
    f"@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {BYTES};\n"
    "@%p2 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
    "[%r1], [%rd1, {0, 0}], [%r3];\n"
) + wait("[%r3]", 0, "FULL")


def told(body, seeds=range(4)):
    """The findings under some schedules, by kind."""
    found = {}
    for seed in seeds:
        tensors = {"A": A.copy(), "W": np.zeros(256, np.uint8)}
        made = kernel(START + body, tensors=described(tensors), pointers=["W"], threads=64,
                      maps=[("A", tile_map((16, 64), (8, 64), 0))])  # fmt: skip
        result = emulate(made, tensors, seed)
        found.update({finding.kind: finding for finding in result.findings})
    return found


@pytest.mark.parametrize("change", [COPY, COPY + RELEASE + MEET + REPLACE])
def test_a_change_that_is_released_and_acquired_is_fine(change):
    assert told(change + RELEASE + MEET + ACQUIRE + LOAD) == {}


@pytest.mark.parametrize(
    "body, kind, words",
    [
        (COPY + MEET + ACQUIRE, "tensormap-fence", "release follows the change"),
        (COPY + RELEASE + MEET, "tensormap-fence", "acquire of it comes after"),
        (COPY + RELEASE + MEET + ACQUIRE.replace("rd1]", "rd1+128]"), "tensormap-fence", "acquire of it"),
        (COPY + ACQUIRE + RELEASE + MEET, "tensormap-fence", "acquire of it comes after"),
        (COPY + RELEASE + MEET + ACQUIRE + REPLACE + MEET, "tensormap-fence", "release follows the change"),
        (COPY + MEET + RELEASE + ACQUIRE, "tensormap-fence", "changed: no"),  # released behind the signal
        (COPY + RELEASE + ACQUIRE, "read-before-write", "nothing orders the two"),
    ],
)
def test_a_fence_that_is_missing(body, kind, words):
    found = told(body + LOAD, range(8))
    assert kind in found and words in found[kind].detail


def test_a_copy_from_shared_memory_releases_what_it_writes():
    shared = "@!%p1 ld.b32 %r6, [%rd4];\nadd.s32 %r7, %r1, 4096;\nadd.s32 %r7, %r7, %r5;\n"
    fill = COPY.partition("@!%p1")[0] + shared + "@!%p1 st.shared.b32 [%r7], %r6;\nbar.warp.sync -1;\n"
    copy = "add.s32 %r7, %r1, 4096;\n@!%p1 tensormap.cp_fenceproxy.global.shared::cta."
    copy += "tensormap::generic.release.gpu.sync.aligned [%rd1], [%r7], 128;\n"
    assert told(fill + copy + MEET + ACQUIRE + LOAD) == {}
    assert set(told(fill + copy + MEET + LOAD)) == {"tensormap-fence"}
