"""Hand-written PTX as Artifacts, for the tests of the emulator."""

import numpy as np

from course_utils.artifact import Artifact, Parameter, Resources, Tensor, TensorMap
from course_utils.run.emulator import emulate

DECLARATIONS = """
.reg .pred %p<32>;
.reg .b16 %rs<32>;
.reg .b32 %r<200>;
.reg .f32 %f<200>;
.reg .b64 %rd<64>;
"""


def kernel(
    body,
    *,
    tensors=(),
    maps=(),
    pointers=(),
    static="",
    threads=128,
    grid=(1, 1, 1),
    cluster=(1, 1, 1),
    dynamic=16384,
    registers=32,
    source="",
):
    """An Artifact of one PTX body.

    ``tensors`` are (name, shape, dtype); parameters are the maps, then the pointers.
    """
    count = len(maps) + len(pointers)
    parameters = [
        f".param .align 64 .b8 k_param_{i}[128]" if i < len(maps) else f".param .u64 k_param_{i}"
        for i in range(count)
    ]
    ptx = f""".version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k({", ".join(parameters)})
{{
{DECLARATIONS}
{static}
{body}
ret;
}}
"""
    given = [Parameter("tensor_map", tensor=name, tensor_map=tensor_map) for name, tensor_map in maps]
    given += [Parameter("pointer", tensor=name) for name in pointers]
    return Artifact(
        dsl="ptx",
        kernel="k",
        ptx=ptx,
        cubin=b"",
        grid=grid,
        block=(threads, 1, 1),
        cluster=cluster,
        dynamic_shared=dynamic,
        parameters=tuple(given),
        tensors=tuple(Tensor(*t) for t in tensors),
        resources=Resources(registers, 0, 0, 0, 0),
        source=source,
    )


def tile_map(shape, box, swizzle=3, data_type=6, element_bytes=2):
    """A tensor map over a contiguous row-major tensor; ``shape`` and ``box`` are row-major too."""
    strides = []
    step = element_bytes
    for extent in reversed(shape[1:]):
        step *= extent
        strides.append(step)
    return TensorMap(data_type, shape[::-1], tuple(strides), box[::-1], (1,) * len(shape), 0, swizzle)


def by_thread_0(body, label="OVER"):
    """``body`` in thread 0 alone; the others go on behind it."""
    return f"setp.ne.s32 %p1, %r0, 0;\n@%p1 bra {label};\n{body}{label}:\n"


# One warp initialises the barriers at shared bytes 8192 on and makes them visible to all
def init(*counts, fence=True, sync=True, first=8192):
    lines = [
        "mov.u32 %r0, %tid.x;",
        "mov.b32 %r1, smem;",
        "setp.ne.s32 %p0, %r0, 0;",
        "@%p0 bra INITIALISED;",
    ]
    for i, count in enumerate(counts):
        lines += [f"add.s32 %r2, %r1, {first + 8 * i};", f"mbarrier.init.shared::cta.b64 [%r2], {count};"]
    lines.append("INITIALISED:")
    if fence:
        lines.append("fence.mbarrier_init.release.cluster;")
    if sync:
        lines.append("bar.sync 0;")
    return "\n".join(lines) + "\n"


def wait(address, parity, label):
    """A try_wait loop on ``[address]``."""
    return (
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p9, {address}, {parity};\n@!%p9 bra {label};\n"
    )


def load_tile(destination, barrier, *coordinates, parameter=0):
    """The load of a box at ``coordinates``, (0, 0) where none are given."""
    where = ", ".join(map(str, coordinates or (0, 0)))
    return (
        f"mov.b64 %rd50, k_param_{parameter};\ncvta.param.u64 %rd50, %rd50;\n"
        f"cp.async.bulk.tensor.{len(coordinates) or 2}d.shared::cta.global.mbarrier::complete_tx::bytes "
        f"[{destination}], [%rd50, {{{where}}}], [{barrier}];\n"
    )


def filled(count, *loads, barrier=8192, before=""):
    """A barrier at shared byte ``barrier``, address %r3; after what all do ``before`` thread 0 expects ``count``
    bytes of these ``loads``, and all wait for them.
    """
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {count};\n"
    made = init(1, first=barrier) + f"add.s32 %r3, %r1, {barrier};\n"
    return made + before + by_thread_0(expect + "".join(loads), "LOADED") + wait("[%r3]", 0, "FULL")


def own(parameter, size, register="%rd1"):
    """Into a register where thread %r0's own ``size`` bytes of a parameter's tensor begin."""
    offset = f"mul.wide.u32 %rd2, %r0, {size};\n"
    return f"ld.param.u64 {register}, [k_param_{parameter}];\n{offset}add.s64 {register}, {register}, %rd2;\n"


def described(tensors):
    """Arrays by name, as ``kernel`` takes its tensors."""
    return [(name, tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in tensors.items()]


def ran(body, tensors, seed=0, **options):
    """Emulate a kernel on ``tensors``, by name, that nothing is wrong with."""
    result = emulate(kernel(body, tensors=described(tensors), **options), tensors, seed)
    assert result.ok, result.findings


def accumulated(out):
    """The sums of wgmma from what 128 threads hold: PTX ISA, the wgmma.m64nN D fragment."""
    D = np.zeros((64, 2 * out.shape[1]))
    for thread in range(128):
        for i in range(out.shape[1]):
            row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
            D[row, i // 4 * 8 + thread % 4 * 2 + i % 2] = out[thread, i]
    return D


def registers_of_a(words):
    """The four registers of each of 128 threads that hold A of a wgmma, 64 rows of 8 ``words``."""
    fragments = np.zeros((128, 4), np.uint32)
    for thread in range(128):
        for i in range(4):
            row = thread // 32 * 16 + thread % 32 // 4 + i % 2 * 8
            fragments[thread, i] = words[row, thread % 4 + i // 2 * 4]
    return fragments
