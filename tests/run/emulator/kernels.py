"""Hand-written PTX as Artifacts, for the tests of the emulator."""

from course_utils.artifact import Artifact, Parameter, Resources, Tensor, TensorMap

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
    return TensorMap(
        data_type, tuple(reversed(shape)), tuple(strides), tuple(reversed(box)), (1,) * len(shape), 0, swizzle
    )


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


def load_tile(destination, barrier, x=0, y=0, parameter=0):
    return (
        f"mov.b64 %rd50, k_param_{parameter};\ncvta.param.u64 %rd50, %rd50;\n"
        f"cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [{destination}], "
        f"[%rd50, {{{x}, {y}}}], [{barrier}];\n"
    )
