"""Registers of wgmma that threads touch out of turn: PTX ISA, wgmma.fence and wgmma.wait_group."""

import pytest

from course_utils.ptx.parser import parse
from course_utils.run.emulator.isa.translate import Program
from course_utils.run.emulator.units.fragments import watched
from course_utils.run.emulator.units.table import lower
from tests.run.emulator.kernels import kernel
from tests.run.emulator.test_findings import COMMIT, MULTIPLY, READY, USE, WG_FENCE, WG_WAIT, kinds

ADDS = MULTIPLY.replace("%rd30, 0, 1", "%rd30, 1, 1")
DONE = COMMIT + WG_WAIT
WRITE = "add.f32 %f2, %f2, %f3;\n"
FROM_REGISTERS = ADDS.replace(
    "}, %rd30, %rd30, 1, 1, 1, 0, 0", "}, {%r50, %r51, %r52, %r53}, %rd30, 1, 1, 1, 0"
)
FILL_A = "".join(f"add.s32 %r{50 + i}, %r0, {i};\n" for i in range(4))
BYTES = ADDS.replace("k16.f32.f16.f16", "k32.f32.e4m3.e4m3").replace("1, 1, 1, 0, 0;", "1, 1, 1;")
FIRST = WG_FENCE + MULTIPLY + DONE
WARP_0 = "setp.gt.u32 %p7, %r0, 31;\n"


def found(body):
    return kinds(kernel(READY + body))


@pytest.mark.parametrize(
    "body",
    [
        FIRST + ADDS + DONE + USE,  # in order, of one shape
        FIRST + WRITE + WG_FENCE + ADDS + DONE + USE,
        FIRST + USE + WG_FENCE + ADDS + DONE + USE,
        WG_FENCE + "mov.f32 %f0, 0f00000000;\n" * 2 + MULTIPLY + DONE + USE,  # a compiler's move
        FIRST + "add.f32 %f9, %f0, 0f3F800000;\n" + WG_FENCE + "mov.f32 %f0, %f9;\n" + ADDS + DONE + USE,
        FIRST + WG_FENCE + BYTES + DONE + USE,
        FILL_A
        + WG_FENCE
        + MULTIPLY
        + FROM_REGISTERS
        + DONE
        + FILL_A
        + WG_FENCE
        + FROM_REGISTERS
        + DONE
        + USE,
        FILL_A + WG_FENCE + MULTIPLY + FROM_REGISTERS + FROM_REGISTERS + DONE + USE,  # A is only read
        # a zero that stands for the accumulator and for scale-d, as in FlashAttention's backward
        WG_FENCE + "mov.f32 %f0, 0f00000000;\nsetp.ne.f32 %p6, %f0, %f0;\n" + MULTIPLY + DONE + USE,
    ],
)
def test_registers_in_their_turn_are_fine(body):
    assert found(body) == {}


@pytest.mark.parametrize(
    "body, note",
    [
        (FIRST + WRITE + ADDS + DONE, "the write: PTX line"),
        (FIRST + WARP_0 + "@!%p7 " + WRITE + ADDS + DONE, "the write: PTX line"),  # by one warp
        (FIRST + "add.f32 %f9, %f0, 0f3F800000;\nmov.f32 %f0, %f9;\n" + ADDS + DONE, "the write: PTX line"),
        (WG_FENCE + FILL_A + MULTIPLY + FROM_REGISTERS + DONE, "the write: PTX line"),
        (
            FILL_A + WG_FENCE + MULTIPLY + FROM_REGISTERS + DONE + FILL_A + FROM_REGISTERS + DONE,
            "the write: ",
        ),
        (FIRST + BYTES + DONE, "the other wgmma: PTX line"),
    ],
)
def test_a_fence_is_due_after_each_write_of_the_registers_of_a_wgmma(body, note):
    """ptxas puts the missing fence there itself (C7519), which nobody promises."""
    (finding,) = found(body).values()
    assert (finding.kind, finding.severity) == ("wgmma-fence", "error")
    assert "wgmma.mma_async" in finding.place.ptx and finding.more[0].startswith(note)


def test_a_fence_ends_with_the_next_write_and_not_with_the_first_wgmma():
    """The line is that of the wgmma that lacks the fence, in a loop with one fence before it."""
    loop = "mov.b32 %r60, 0;\nROUND:\n" + ADDS + DONE + WRITE
    loop += "add.s32 %r60, %r60, 1;\nsetp.lt.s32 %p6, %r60, 3;\n@%p6 bra ROUND;\n"
    assert set(found(FIRST + loop)) == {"wgmma-fence"}
    assert found(FIRST + loop.replace("ROUND:\n", "ROUND:\n" + WG_FENCE)) == {}


def test_a_read_alone_is_a_warning():
    """ptxas adds no fence there and says nothing."""
    (finding,) = found(FIRST + USE + ADDS + DONE).values()
    assert (finding.kind, finding.severity) == ("wgmma-fence-read", "warning")
    assert finding.more[0].startswith("the read: ")


A_IN_FLIGHT = FILL_A + WG_FENCE + MULTIPLY + FROM_REGISTERS + COMMIT
MOVED = "mov.f32 %f40, %f3;\n"  # what a compiler's renaming looks like


@pytest.mark.parametrize(
    "body, words",
    [
        (A_IN_FLIGHT + "add.s32 %r51, %r51, 1;\n" + WG_WAIT, "writes to registers of A"),
        (A_IN_FLIGHT + "mov.b32 %r51, 1;\n" + WG_WAIT, "writes to registers of A"),
        (A_IN_FLIGHT + "add.s32 %r60, %r51, 1;\n" + WG_WAIT, "reads registers of A"),
        (A_IN_FLIGHT + WG_WAIT.replace(" 0;", " 1;") + FILL_A + WG_WAIT, "leaves 1 group in flight"),
        (WG_FENCE + MULTIPLY + MOVED + "mov.f32 %f0, 0f00000000;\n" + DONE, "writes to the accumulator"),
        (
            WG_FENCE + MULTIPLY + COMMIT + "cvt.f32.s32 %f0, %r0;\n" + WG_WAIT,
            "no wgmma.wait_group is between",
        ),
        (WG_FENCE + MULTIPLY + WG_WAIT + "cvt.f32.s32 %f0, %r0;\n" + DONE, "no wgmma.commit_group put it"),
        (WG_FENCE + MULTIPLY + COMMIT + "setp.lt.f32 %p6, %f0, %f1;\n" + WG_WAIT, "reads the accumulator"),
    ],
)
def test_registers_that_a_wgmma_may_still_use(body, words):
    (finding,) = (f for f in found(body).values() if f.kind != "wgmma-fence")
    assert (finding.kind, finding.severity) == ("accumulator-before-wait", "error")
    assert words in finding.detail and "wgmma" not in finding.place.ptx
    assert finding.more[0].startswith("the register: %")


def test_registers_are_free_again_after_their_own_wait():
    """A group later than theirs may still run."""
    other = MULTIPLY.replace("%f0, %f1, %f2, %f3", "%f4, %f5, %f6, %f7")
    covered = WG_WAIT.replace(" 0;", " 1;") + FILL_A + USE + WG_WAIT
    assert found(A_IN_FLIGHT + other + COMMIT + covered) == {}


def test_a_kernel_in_order_costs_nothing():
    """No instruction of it is watched."""

    def count(body):
        return len(Program(parse(kernel(READY + body).ptx, "k"), lower, watched=watched).watched)

    assert count(FIRST + USE + WG_FENCE + ADDS + DONE + USE) == 0 < count(FIRST + WRITE + ADDS + DONE)
