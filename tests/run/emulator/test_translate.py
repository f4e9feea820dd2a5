"""A kernel made ready to run: where the ways of a branch meet, what can still be reached, what is refused."""

import numpy as np
import pytest

from course_utils.ptx.parser import PtxError, parse
from course_utils.run.emulator import emulate
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.isa.translate import Program
from course_utils.run.emulator.units.table import lower
from tests.run.emulator.kernels import described, kernel, own, ran


def program(body):
    return Program(parse(kernel(body).ptx), lower)


def meets(body):
    """Line of the body whose segment ends in a branch: line where its two ways meet, 0 for never."""
    made = program(body)
    first = made.kernel.instructions[0].line
    lines = [i.line - first + 1 for i in made.kernel.instructions]
    return {
        lines[end - 1]: lines[made.meets[begin]] if made.meets[begin] >= 0 else 0
        for begin, end in made.ends.items()
        if made.kernel.instructions[end - 1].guard and made.kernel.instructions[end - 1].target >= 0
    }


STEP = "add.s32 %r1, %r1, 1;\n"


@pytest.mark.parametrize(
    "body, expected",
    [
        (f"@%p1 bra A;\n{STEP}A:\n{STEP}ret;", {1: 4}),
        (f"@%p1 bra A;\n{STEP}bra B;\nA:\n{STEP}B:\n{STEP}ret;", {1: 7}),
        (f"A:\n{STEP}@%p1 bra A;\n{STEP}ret;", {2: 3}),
        (f"@%p1 bra A;\n{STEP}ret;\nA:\n{STEP}ret;", {1: 0}),
        (f"@%p1 bra A;\n{STEP}@%p2 bra B;\n{STEP}B:\n{STEP}A:\n{STEP}ret;", {1: 8, 3: 6}),
        (f"@%p1 bra A;\n{STEP}A:\n{STEP}B:\n{STEP}@%p2 bra C;\n{STEP}C:\nbra B;", {1: 4, 7: 10}),
    ],
)
def test_where_the_two_ways_of_a_branch_meet(body, expected):
    assert meets(body) == expected


def test_what_can_still_be_reached():
    made = program(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];\n"
        "@%p1 bra END;\nmbarrier.arrive.shared.b64 _, [%r1];\n"
        "END:\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;\nret;"
    )
    assert ahead(made).abilities(0) == {"load", "store", "arrive"}
    assert ahead(made).abilities(2) == {"arrive", "store"} and ahead(made).abilities(3) == {"store"}
    assert ahead(made).abilities(4) == ahead(made).abilities(-1) == ahead(made).abilities(99) == frozenset()


@pytest.mark.parametrize(
    "body, message",
    [
        (
            "call.uni helper, (%r1);",
            "PTX line [0-9]+: this form of `call` is not modelled by the emulator .*: call.uni helper",
        ),
        (
            "table: .branchtargets A;\nbrx.idx %r1, table;\nA:\nret;",
            "PTX line [0-9]+: `brx.idx` is not modelled",
        ),
        (".reg .v3 .f32 v;\nret;", "PTX line [0-9]+: a register type that is not modelled: .reg .v3 .f32 v"),
        ("mov.u32 %r1, 4*3;\nret;", "PTX line [0-9]+: an operand that is not PTX: 4[*]3"),
        ("@%r1 bra A;\nA:\nret;", "is not a predicate"),
        ("bra A;\nA:", "no instruction follows the label A"),
        (".tex .u32 t;\nret;", "a directive that is not modelled: .tex"),
    ],
)
def test_what_is_not_modelled_is_refused_by_its_line(body, message):
    with pytest.raises(PtxError, match=message):
        Program(parse(kernel(body).ptx.replace("\nret;\n}", "\n}")), lower)


TID, CTA = "mov.u32 %r1, %tid.x;\n", "mov.u32 %r2, %ctaid.x;\n"


@pytest.mark.parametrize(
    "body, fixed",
    [
        (f"{TID}shl.b32 %r3, %r1, 2;\nret;", [0, 1]),
        (f"{TID}mov.u32 %r4, smem;\nadd.s32 %r3, %r1, %r4;\nret;", [0, 1, 2]),
        (f"{CTA}shl.b32 %r3, %r2, 2;\nret;", []),
        (f"{TID}{CTA}add.s32 %r3, %r1, %r2;\nret;", [0]),
        (f"{TID}shl.b32 %r3, %r1, 2;\nadd.s32 %r3, %r1, 1;\nret;", [0]),  # written twice
        (f"{TID}@%p1 shl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r3, 1;\nret;", [0]),  # by some lanes
        (f"A:\nadd.s32 %r3, %r1, 1;\n{TID}@%p1 bra A;\nret;", [1]),  # before it has a value
        (f"@%p1 bra A;\n{TID}A:\nadd.s32 %r3, %r1, 1;\nret;", [1]),  # on one of two ways
        (f"{TID}@%p1 bra A;\nA:\nadd.s32 %r3, %r1, 1;\nret;", [0, 2]),
        ("mov.u32 %r1, %clock;\nadd.s32 %r3, %r1, 1;\nret;", []),
    ],
)
def test_what_is_fixed_for_the_warps_of_one_number(body, fixed):
    assert sorted(program(body).fixed) == fixed


def test_fixed_registers_are_those_of_the_warp_and_of_the_ctas_rank():
    """Each CTA of a cluster writes through an address in its own shared memory, twice round a loop."""
    store = f"""{TID}{CTA}mov.u32 %r3, smem;
shl.b32 %r4, %r1, 2;
add.s32 %r5, %r3, %r4;
mov.u32 %r6, 0;
A:
mad.lo.s32 %r7, %r2, 1000, %r1;
st.shared.u32 [%r5+512], %r7;
ld.shared.u32 %r8, [%r5+512];
add.s32 %r6, %r6, 1;
setp.lt.s32 %p1, %r6, 2;
@%p1 bra A;
mad.lo.s32 %r0, %r2, 64, %r1;
{own(0, 4)}st.global.u32 [%rd1], %r8;
"""
    Y = np.zeros((4, 64), np.uint32)
    ran(store, {"Y": Y}, pointers=["Y"], threads=64, grid=(4, 1, 1), cluster=(2, 1, 1))
    assert (Y == 1000 * np.arange(4)[:, None] + np.arange(64)).all()
    same = kernel(store, tensors=described({"Y": Y}), pointers=["Y"])
    made = Program(parse(same.ptx), lower)
    assert {3, 4} <= made.fixed and len(made.fixed_bases) == 2


def test_one_of_two_addresses_is_fixed():
    """A copy to shared memory, from an address that differs from round to round."""
    copied = f"""{TID}mov.u32 %r3, smem;
shl.b32 %r4, %r1, 4;
add.s32 %r5, %r3, %r4;
mov.u32 %r0, %r1;
{own(0, 16)}mov.u32 %r6, 0;
A:
cp.async.cg.shared.global [%r5+512], [%rd1], 16;
cp.async.wait_all;
add.s64 %rd1, %rd1, 512;
add.s32 %r6, %r6, 1;
setp.lt.s32 %p1, %r6, 2;
@%p1 bra A;
ld.shared.u32 %r8, [%r5+512];
{own(1, 4)}st.global.u32 [%rd1], %r8;
"""
    X, Y = np.arange(256, dtype=np.uint32), np.zeros(32, np.uint32)
    ran(copied, {"X": X, "Y": Y}, pointers=["X", "Y"], threads=32)
    assert Y.tolist() == X[128::4].tolist()


def test_a_register_without_a_value_is_found_though_its_sum_would_be_fixed():
    """Half of the CTAs give the base no value: what the others made of it is not theirs."""
    body = f"""{CTA}setp.gt.u32 %p1, %r2, 0;
@%p1 bra A;
{TID}A:
shl.b32 %r4, %r1, 2;
mov.u32 %r5, smem;
add.s32 %r6, %r5, %r4;
st.shared.u32 [%r6+4], %r2;
"""
    assert emulate(kernel(body, threads=32), {}).ok
    for seed in range(4):  # in either order
        assert not emulate(kernel(body, threads=32, grid=(2, 1, 1)), {}, seed).ok
