"""The author's line of each instruction, in every solution of both DSLs."""

import re

import pytest

from course_utils.artifact import Artifact, Origin
from course_utils.compile import lines, nvrtc
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.load import load_factory, load_factory_source, solution_path
from course_utils.grading import steps
from tests.compile.called import CALLS, author, misplaced

SIZES = {"step01": (128, 128, 64), "step02": (128, 128, 320)}
SMALL = (256, 512, 320)  # as the emulator's tests have it, so that they share compiled kernels


@pytest.mark.parametrize("dsl", DSLS)
@pytest.mark.parametrize("step", steps.STEPS)
def test_every_instruction_of_a_solution_has_the_line_that_called_for_it(step, dsl):
    """Wrong kernels are held to it where they are emulated. TileLang makes the same source with directives as
    without.
    """
    path, size = solution_path(step, dsl), SIZES.get(step, SMALL)
    gemm = load_factory(path)
    artifact = compile_factory(gemm, dsl, size)
    assert artifact.python == {str(path): path.read_text()}
    assert misplaced(artifact) == set()
    found = {pattern for pattern in CALLS for opcode, _, _ in author(artifact) if re.match(pattern, opcode)}
    assert r"wgmma\.mma_async" in found and (step < "step04" or r"mbarrier\.try_wait" in found)
    if dsl == "tilelang":
        assert artifact.source.endswith(plain_source(gemm, size)) and "#line" not in artifact.source
        assert len(artifact.origins) == len(artifact.source.split("\n"))


def plain_source(gemm, size):
    """What TileLang makes of a kernel when nobody asks for directives."""
    import tilelang

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": nvrtc.ARCH})
    with target:
        return tilelang.lower(gemm(*size), target=target).kernel_source


@pytest.mark.parametrize("call, made", [("T.fence_proxy_async(", "fence_proxy_async();")])
def test_what_the_compiler_puts_back_is_told_from_what_the_author_wrote(call, made):
    """Not so for ``T.sync_threads()``: tilelang 0.1.15 makes barriers of its own of all of them."""
    source = solution_path("step04", "tilelang").read_text()
    without = "\n".join(line for line in source.splitlines() if not line.strip().startswith(call))
    for text, added in ((source, {False}), (without, {True})):
        artifact = compile_factory(load_factory_source(text, "step04"), "tilelang", SMALL)
        rows = zip(artifact.source.split("\n"), artifact.origins, strict=True)
        assert {origin.added for line, origin in rows if made in line} == added


def test_directives_are_read_and_taken_out():
    source = 'a();\n#line 7 "k.py"\nb();\nc();\n#line 9 "k.py"\n  full[0].init(1);\n  half[1].init(2);'
    text, origins = lines.read(source, {"full": ("k.py", 3)})
    assert text == "a();\nb();\nc();\n  full[0].init(1);\n  half[1].init(2);"
    one, two = Origin("k.py", 7), Origin("k.py", 7, added=True)
    assert origins == (None, one, two, Origin("k.py", 3), Origin("k.py", 9, added=True))


def test_inline_assembly_has_the_line_of_its_first():
    ptx = "\n".join(
        ["\t.loc\t1 5 8", "add;", "// begin inline asm", "{", ".reg .pred p;", "\t.loc\t1 22 8", "wait;"]
        + ["bra L;", "\t.loc\t1 24 8", "L:", "}", "// end inline asm", "\t.loc\t1 2 0", "elect;"]
    )
    assert lines.mended(ptx).count(".loc\t1 20 8") == 2
    assert "1 2 0" not in lines.mended(ptx) and "\t.loc\t1 5 8" in lines.mended(ptx)


def test_a_statement_is_quoted_to_its_last_bracket():
    text = "a = 1\nT.copy(\n    A,  # here\n    B,\n)\nb = f(\n"
    artifact = Artifact(
        *("cute", "k", "", b"", (1, 1, 1), (1, 1, 1), (1, 1, 1), 0, (), ()),
        resources=None,
        python={"k": text},
    )
    assert artifact.code(Origin("k", 2)) == "T.copy(A, B, )"
    assert [artifact.code(Origin("k", n)) for n in (1, 6, 7, 0, -3)] == ["a = 1", "b = f(", "", "", ""]
    assert artifact.code(Origin("other", 1)) == ""
