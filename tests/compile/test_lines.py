"""The author's line of each line of generated code; solutions and wrong kernels are held to it elsewhere."""

import pytest

from course_utils.artifact import Artifact, Origin
from course_utils.compile import lines
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory_source, solution_path

SIZES = {"step01": (128, 128, 64), "step02": (128, 128, 320)}
SMALL = (256, 512, 320)  # as the emulator's tests have it, so that they share compiled kernels


@pytest.mark.parametrize("call, made", [("T.fence_proxy_async(", "fence_proxy_async();")])
def test_what_the_compiler_puts_back_is_told_from_what_the_author_wrote(call, made):
    """Not so for ``T.sync_threads()``: tilelang 0.1.15 makes barriers of its own of all of them."""
    source = solution_path("step04", "tilelang").read_text()
    without = "\n".join(line for line in source.splitlines() if not line.strip().startswith(call))
    for text, added in ((source, {False}), (without, {True})):
        artifact = compile_factory(load_factory_source(text, "step04"), "tilelang", SMALL)
        rows = zip(artifact.source.split("\n"), artifact.origins, strict=True)
        assert {origin.added for line, origin in rows if made in line} == added


# ways to call a barrier, and whether each is TileLang's
CALLS = {
    "import tilelang.language as T\nT.sync_threads()": True,
    "T.sync_threads()": True,  # of a cell whose import is in another one
    "from tilelang.language import *\nsync_threads()": True,
    "from tilelang.language import sync_threads as barrier\nbarrier()": True,
    "sync, fence = T.sync_threads, T.fence_proxy_async\nsync()": True,
    "one = T.sync_threads\ntwo = one\ntwo()": True,
    "sync = getattr(T, 'sync_threads')\nsync()": True,
    "class Ops:\n    sync = staticmethod(T.sync_threads)\nOps.sync()": True,
    "import importlib\nT = importlib.import_module('tilelang.language')\nT.sync_threads()": True,
    "def sync_threads():\n    T.sync_threads()": True,
    "T.tvm_storage_sync('shared')": True,
    "T.tvm_storage_sync('warp')": False,
    "T.sync_threads(3, 128)": False,
    "def sync_threads(): pass\nsync_threads()": False,
    "sync_threads = lambda: None\nsync_threads()": False,
    "class N:\n    sync_threads = staticmethod(lambda: None)\nN.sync_threads()": False,
    "import types\nT = types.SimpleNamespace(sync_threads=print)\nT.sync_threads()": False,
    "a = b\nb = a\na()": False,
    "(": False,
}


@pytest.mark.parametrize("text", CALLS)
def test_a_barrier_is_called_by_many_names(text):
    assert bool(lines._calls(text)) == CALLS[text]


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
