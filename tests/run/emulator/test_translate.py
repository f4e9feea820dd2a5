"""A kernel made ready to run: where the ways of a branch meet, what can still be reached, what is refused."""

import pytest

from course_utils.ptx.parser import PtxError, parse
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.isa.translate import Program
from course_utils.run.emulator.units.table import lower
from tests.run.emulator.kernels import kernel


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
