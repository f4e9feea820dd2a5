"""PTX text to instructions: names, scopes and labels; what is not PTX; what is PTX and means nothing here."""

import pytest

from course_utils.ptx.parser import Imm, Mem, PtxError, Reg, Sym, Vec, parse, signature


def module(body, head="", parameters=""):
    return f".version 8.8\n.target sm_90a\n.address_size 64\n{head}.visible .entry k({parameters})\n{{\n{body}\n}}\n"


DECLARED = ".reg .b32 %r<9>; .reg .pred %p<9>;\n"


def test_a_name_is_the_register_of_the_nearest_braces():
    body = "mov.u32 a, 1; { .reg .b32 a; mov.u32 a, 2; { mov.u32 a, 3; } } mov.u32 a, %r8; mov.u32 %r9, a;"
    kernel = parse(module(DECLARED + ".reg .b32 a;\n" + body))
    targets = [i.operands[0] for i in kernel.instructions]
    assert [target.index for target in targets[:4]] == [0, 1, 1, 0]
    assert targets[4] == Sym("%r9")  # %r<9> ends at %r8
    assert kernel.register_names == ["a", "a", "%r8"] and kernel.widths == [32, 32, 32]


def test_operands():
    body = (
        "ld.shared.u32 %r1, [%r2+-8];\nmov.b64 {%r1, _}, 0f3F800000;\nsetp.eq.s32 %p1|%p2, %r1, -0x10;\n"
        "st.shared.u32 [smem + 16], 010;\ncall (%r1), f, (%r2, 3);"
    )
    load, move, test, store, call = parse(module(DECLARED + body)).instructions
    assert load.operands == (Reg(0, 32), Mem(Reg(1, 32), -8))
    assert move.operands == (Vec((Reg(0, 32), None)), Imm(0x3F800000, True, 32))
    assert test.operands[0] == Vec((Reg(2, 1), Reg(3, 1))) and test.operands[2] == Imm(-16)
    assert store.operands == (Mem(Sym("smem"), 16), Imm(8))
    assert call.operands == (Vec((Reg(0, 32),)), Sym("f"), Vec((Reg(1, 32), Imm(3))))


def test_branches_lines_and_the_authors_lines():
    body = "LOOP:\n.loc 1 7 3\nmov.u32 %r1, 1;\n@!%p1 bra.uni LOOP; { bra LOOP; LOOP: ret; }"
    kernel = parse(module('.file 1 "/a/kernel.py"\n' + DECLARED + body))
    assert [i.target for i in kernel.instructions] == [-1, 0, 3, -1]
    assert [i.line for i in kernel.instructions] == [10, 11, 11, 11]
    assert kernel.instructions[0].source == (1, 7) and kernel.files == {1: "/a/kernel.py"}
    assert kernel.instructions[1].guard == (Reg(1, 1), True)


@pytest.mark.parametrize("text", ["// {", "/* { */", "/* // */", '.file 2 "/a//b/*.h"', '.file 2 "{ // "'])
def test_comments_and_strings_hide_nothing_after_them(text):
    kernel = parse(module(f"{DECLARED}{text}\nmov.u32 %r1, 1; // }}\nret;"))
    assert [i.name for i in kernel.instructions] == ["mov.u32", "ret"]
    assert [i.line for i in kernel.instructions] == [8, 9]


PARAMETERS = (
    ".param .u64 .ptr .global .align 16 a, .param .align 64 .b8 b[128], .param .f32 c, .param .b8 d[4]"
)


def test_signature():
    name, parameters = signature(module("not PTX at all", parameters=PARAMETERS))
    assert name == "k"
    assert [(p.name, p.size, p.align) for p in parameters] == [
        ("a", 8, 8),
        ("b", 128, 64),
        ("c", 4, 4),
        ("d", 4, 1),
    ]
    assert parse(module("ret;", parameters=PARAMETERS)).parameters == parameters
    assert signature(module("")) == ("k", [])
    two = module("ret;") + module("exit;").replace("entry k", "entry other")
    assert signature(two)[0] == "k" and signature(two, "other")[0] == "other"
    assert parse(two, "other").instructions[0].name == "exit"


@pytest.mark.parametrize(
    "ptx, message",
    [
        ("", "no kernel"),
        (".func f() { ret; }", "no kernel"),
        (module("ret;").replace("entry k", "entry other"), "no kernel k"),
        (".entry k()", "no body"),
        (".entry k(.params .u64 a)\n{ ret; }", "PTX line 2: a declaration that is not PTX"),
    ],
)
def test_no_kernel(ptx, message):
    for read in (parse, signature):
        with pytest.raises(PtxError, match=message):
            read(ptx, "k")


@pytest.mark.parametrize(
    "body, message",
    [
        ("{ ret;", "closing brace is missing"),
        ("mov.u32 %r1, 1", "PTX line 6: a statement without its semicolon"),
        ("\n123;", "PTX line 7: not an instruction: 123"),
        ("bra NOWHERE;", "PTX line 6: there is no label NOWHERE"),
        ("{ INSIDE: ret; } bra INSIDE;", "no label INSIDE"),
        (".shared;", "PTX line 6: a declaration that is not PTX"),
    ],
)
def test_text_that_is_not_ptx(body, message):
    with pytest.raises(PtxError, match=message):
        parse(module(body))


@pytest.mark.parametrize(
    "body, sentence",
    [
        (".reg .v3 .f32 v;", "a register type that is not modelled: .reg .v3 .f32 v"),
        (".reg .texref t;", "a register type that is not modelled: .reg .texref t"),
        (".tex .u32 t;", "a directive that is not modelled: .tex"),
        ("mov.u32 %r1, 4*3;", "an operand that is not PTX: 4*3"),
        ("mov.f32 %r1, -1.5;", "an operand that is not PTX: -1.5"),
        ("ld.shared.u32 %r1, [%r2+2*8];", "not an address: [%r2+2*8]"),
        ("@%r1 mov.u32 %r1, 4;", "the guard of `@%r1 mov.u32 %r1, 4` is not a predicate"),
        ("bra END; END:", "no instruction follows the label END"),
        ("ld.shared.u32 %r1, [%r1+8U];", "not PTX that the emulator can read"),
    ],
)
def test_what_means_nothing_here_is_named_and_the_rest_is_read(body, sentence):
    kernel = parse(module(f"{DECLARED}bar.sync 0;\n{body}"))
    (found,) = kernel.unmodelled
    assert found.startswith(f"PTX line 8: {sentence}")
    assert kernel.instructions[0].operands == (Imm(0),)
    assert len(kernel.instructions) == (1 if body.startswith(".") else 2)


@pytest.mark.parametrize(
    "body",
    [
        "call.uni (%r1), f, (%r2);",
        "proto: .callprototype (.param .b32 _) _ (.param .b64 _);\ncall (%r1), %r2, (%r3), proto;",
        "table: .branchtargets A, B;\nbrx.idx %r1, table;\nA:\nB:\nret;",
        "{ .param .b32 x; .param .b32 y[4]; st.param.b32 [x], %r1; ld.param.b32 %r2, [y+4]; }",
        '.pragma "nounroll";\n@ %p1 bra A;\nA:\ntcgen05.wait::ld.sync.aligned;',
    ],
)
def test_calls_and_tables_of_branches_are_read(body):
    assert parse(module(DECLARED + body)).unmodelled == []


def test_functions_are_read_with_registers_of_their_own():
    functions = (
        ".extern .func g(.param .b64 p);\n.func (.param .b32 r) f(.param .b32 n)\n"
        "{ .reg .b32 %r<3>; mov.u32 %r1, 1; AGAIN: bra AGAIN; }\n"
    )
    for ptx in (
        module(DECLARED + "mov.u32 %r5, 1;", functions),
        module(DECLARED + "mov.u32 %r5, 1;") + functions,
    ):
        kernel = parse(ptx)
        (function,) = kernel.functions
        assert [i.name for i in function] == ["mov.u32", "bra"] and function[1].target == 1
        assert len(kernel.instructions) == 1 and kernel.register_names == ["%r5"]
