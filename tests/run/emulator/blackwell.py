"""Hand-written PTX for sm_100a: tiles in shared memory, an accumulator in tensor memory, one MMA.

Nothing of this has run on a Blackwell by us.
"""

from dataclasses import replace

import numpy as np

from course_utils.chips import BLACKWELL
from tests.run.emulator.kernels import described, init, kernel, own, wait

DONE, KEPT = 16384, 16384 + 128  # shared bytes: mbarriers, and where tcgen05.alloc stores the address
BASE = 0x400  # of shared memory
BYTES = 32  # of a row: the K of one MMA
DONE_AT = f"add.s32 %r3, %r1, {DONE};\nadd.s32 %r5, %r1, {KEPT};\n"
ADDRESS = "ld.shared.u32 %r10, [%r5];\n"
PROXY = "fence.proxy.async;\n"
SYNC = "bar.sync 0;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n"
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;\n", "tcgen05.wait::st.sync.aligned;\n"


def by_warp_0(body, label="OTHERS"):
    return f"setp.ge.u32 %p2, %r0, 32;\n@%p2 bra {label};\n{body}{label}:\n"


def alloc(columns=32, group=1, at="%r5"):
    return f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [{at}], {columns};\n"


def dealloc(columns=32, group=1, address="%r10"):
    return f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 {address}, {columns};\n"


def load(count, shape="32x32b", address="%r10", first=40):
    registers = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}[shape] * count
    names = ", ".join(f"%r{first + i}" for i in range(registers))
    return f"tcgen05.ld.sync.aligned.{shape}.x{count}.b32 {{{names}}}, [{address}];\n"


def store(count, address="%r10", first=40):
    names = ", ".join(f"%r{first + i}" for i in range(count))
    return f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [{address}], {{{names}}};\n"


def tile(matrix):
    """A matrix of rows x 32 bytes as no-swizzle K-major core matrices: of 8 rows x 16 bytes, the two of a row
    128 bytes apart, groups of 8 rows 256.
    """
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(-1, 8, 2, 16)
    return np.ascontiguousarray(raw.transpose(0, 2, 1, 3)).reshape(-1)


def tile_along_rows(matrix):
    """The same of a matrix of rows x 16 halves whose rows are contiguous: core matrices of 8 rows x 8 K."""
    blocks = matrix.reshape(-1, 8, 2, 8)  # group of rows, row, half of K, k
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 1)).view(np.uint8).reshape(-1)


def descriptor(offset, leading=128, stride=256, version=1, swizzle=0):
    """Of a matrix at an offset of shared memory. PTX ISA, "Shared memory descriptor"."""
    fields = (BASE + offset) >> 4 | leading >> 4 << 16 | stride >> 4 << 32
    return fields | version << 46 | swizzle << 61


def instruction(M, N, a=0, b=0, negate=0, major=0, added=1):
    """PTX ISA, "Instruction descriptor". ``negate`` and ``major`` have a bit of A and one of B."""
    return added << 4 | a << 7 | b << 10 | negate << 13 | major << 15 | N >> 3 << 17 | M >> 4 << 24


def multiply(
    M, N, adds=0, kind="f16", group=1, target="%r10", bits=None, a=None, b=None, off="", before="", **fields
):
    """One MMA of A at shared byte 0 and B at 8,192, by the thread that runs this."""
    a_operand = a if isinstance(a, str) else "%rd10"
    a_bits = descriptor(0) if a is None or isinstance(a, str) else a
    lines = [
        f"mov.b64 %rd10, {a_bits};",
        f"mov.b64 %rd11, {descriptor(8192) if b is None else b};",
        f"mov.b32 %r11, {instruction(M, N, **fields) if bits is None else bits};",
        f"setp.ne.s32 %p3, {adds}, 0;",
        f"{before}tcgen05.mma.cta_group::{group}.kind::{kind} [{target}], {a_operand}, %rd11, %r11, "
        f"{off}%p3;",
    ]
    return "\n".join(lines) + "\n"


def copied(chunks):
    """Every thread copies ``chunks`` times 16 bytes of tensor 0 to shared memory."""
    lines = ["shl.b32 %r20, %r0, 4;", "add.s32 %r20, %r20, %r1;"]
    for i in range(chunks):
        lines.append(f"ld.global.v4.u32 {{%r21, %r22, %r23, %r24}}, [%rd1+{2048 * i}];")
        lines.append(f"st.shared.v4.u32 [%r20+{2048 * i}], {{%r21, %r22, %r23, %r24}};")
    return own(0, 16) + "\n".join(lines) + "\n"


def written(count, parameter=1, first=40):
    """Every thread stores its registers to its own row of a tensor."""
    stores = (f"st.global.u32 [%rd4+{4 * i}], %r{first + i};" for i in range(count))
    return own(parameter, 4 * count, "%rd4") + "\n".join(stores) + "\n"


FREE = SYNC + by_warp_0(dealloc(), "FREED")
FILLED = copied(8) + PROXY
WAITED = wait("[%r3]", 0, "DONE")


def begun(columns=32, barriers=(1,), filled=FILLED, allocate=None, group=1):
    """The mbarriers, the tiles and the accumulator, which every thread has in %r10."""
    relinquish = f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;\n"
    allocate = by_warp_0(alloc(columns, group) + relinquish, "ALLOCATED") if allocate is None else allocate
    return init(*barriers, first=DONE) + DONE_AT + filled + allocate + SYNC + ADDRESS


def blackwell(body, tensors, **options):
    """An Artifact of one PTX body for sm_100a, over these tensors by name."""
    options = {"pointers": list(tensors), "dynamic": 20480} | options
    return replace(kernel(body, tensors=described(tensors), **options), chip=BLACKWELL)
