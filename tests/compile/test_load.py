"""A learner's file becomes a factory, or a CompileError that names the file and the line."""

import inspect
import sys
import tempfile
import traceback

import pytest

from course_utils.compile import load as loading
from course_utils.compile.errors import CompileError
from course_utils.grading.steps import STEPS

GOOD = "def gemm(M, N, K):\n    return M + N + K\n"


def write(folder, source, name="step.py"):
    path = folder / name
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return path


def refusal(path) -> str:
    with pytest.raises(CompileError) as caught:
        loading.load_factory(path)
    assert caught.value.stage == "load"
    return str(caught.value)


def test_loads_gemm(tmp_path):
    path = write(tmp_path, GOOD)
    for form in (path, str(path)):
        assert loading.load_factory(form)(1, 2, 3) == 6


def test_the_source_stays_readable(tmp_path):
    """TileLang reads a function's source again when it is traced."""
    assert inspect.getsource(loading.load_factory(write(tmp_path, GOOD))) == GOOD
    factory = loading.load_factory_source(GOOD, "notebook cell [3]")
    assert inspect.getsource(factory) == GOOD and factory(1, 2, 3) == 6
    assert loading.file_source(factory) == GOOD


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_where_pythons_own_end(end):
    """CuTe DSL takes a function's lines by their numbers: a form feed or U+2028 in a comment ends none."""
    source = "# a\x0cb\u2028c\x85d\x1ce\n\x0c\n\x0cdef gemm(M, N, K):\n    return M / 0\n"
    factory = loading.load_factory_source(source.replace("\n", end), "mine")
    assert loading.file_source(factory) == source
    lines, first = inspect.getsourcelines(factory)
    assert first == 3 and lines == ["\x0cdef gemm(M, N, K):\n", "    return M / 0\n"]
    assert loading.without_markers(source) == source


def test_a_source_may_wait_at_its_top_as_a_notebook_may(tmp_path):
    source = f"import asyncio\nawait asyncio.sleep(0)\n{GOOD}"
    assert loading.load_factory(write(tmp_path, source))(1, 2, 3) == 6
    with pytest.raises(CompileError, match="step.py, line 2: ZeroDivisionError"):
        loading.load_factory(write(tmp_path, "import asyncio\nawait asyncio.sleep(1 / 0)\n"))


def test_source_in_no_file_is_read_again_and_leaves_nothing_behind(tmp_path, monkeypatch):
    """Two sources of one name stay two; a traceback and an error name their lines."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sources = [f"block = {n}\n\n\ndef gemm(M, N, K):\n    return block / M\n" for n in (64, 96)]
    factories = [loading.load_factory_source(source, "mine") for source in sources]
    assert [loading.file_source(factory) for factory in factories] == sources
    assert [factory(1, 0, 0) for factory in factories] == [64, 96]
    with pytest.raises(ZeroDivisionError) as caught:
        factories[0](0, 0, 0)
    line = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (line.filename.rsplit("/")[-1], line.lineno, line.line) == (
        "kernel_mine.py",
        5,
        "return block / M",
    )
    with pytest.raises(CompileError, match="kernel_mine.py, line 2: ZeroDivisionError"):
        loading.load_factory_source("x = 1\ny = 1 / 0\n", "mine")
    with pytest.raises(CompileError, match="kernel_mine.py defines no gemm"):
        loading.load_factory_source("", "mine")
    assert list(tmp_path.iterdir()) == []


def test_an_edit_finds_its_text_exactly_once():
    assert loading.edited("a = 1\n", ("a", "b"), ("b = 1", "b = 2")) == "b = 2\n"
    assert loading.edited("a = 1\n") == "a = 1\n"
    for text, times in (("1", 2), ("3", 0)):
        with pytest.raises(ValueError, match=f"^mine.py has {times} times, not once: {text}$"):
            loading.edited("a = 1\nb = 1\n", (text, "x"), name="mine.py")
    with pytest.raises(ValueError, match="step01_single_tile.py has 0 times, not once: warps"):
        loading.plant("step01", "tilelang", ("warps", "T"))


def test_files_of_one_name_are_two_modules(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = loading.load_factory(write(tmp_path / "a", "block = 1\ndef gemm(M, N, K):\n    return block\n"))
    second = loading.load_factory(write(tmp_path / "b", "block = 2\ndef gemm(M, N, K):\n    return block\n"))
    assert (first(0, 0, 0), second(0, 0, 0)) == (1, 2)
    assert "block = 1" in inspect.getsource(sys.modules[first.__module__])


@pytest.mark.parametrize("name", ["cell", "a b/c.d", "../up", ""])
def test_source_of_any_name(name):
    assert loading.load_factory_source(GOOD, name)(1, 2, 3) == 6


def test_a_file_may_have_any_name(tmp_path):
    assert loading.load_factory(write(tmp_path, GOOD, "my step-07 (new).py"))(1, 2, 3) == 6


def test_an_edited_file_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for block in (64, 96):  # the same length, within the same second
        path = write(tmp_path, f"def gemm(M, N, K):\n    return {block}\n")
        factory = loading.load_factory(path)
        assert factory(0, 0, 0) == block
        assert str(block) in inspect.getsource(factory)


@pytest.mark.parametrize(
    "source, words",
    [
        ("x = 1\ndef gemm(:\n    pass\n", ["step.py, line 2", "invalid syntax", "def gemm(:"]),
        ("x = 1\n  y = 2\n", ["step.py, line 2", "unexpected indent"]),
        ("x = 1\n\0\n", ["step.py", "null bytes"]),
        ("x = 'é'\n".encode("latin-1"), ["step.py", "utf-8"]),
        ("x = 1\ny = 1 / 0\n", ["step.py, line 2", "ZeroDivisionError: division by zero"]),
        ("def f():\n    raise KeyError('stage')\n\n\nf()\n", ["step.py, line 2", "KeyError: 'stage'"]),
        # of the learner's lines, the last
        ("import json\n\njson.loads('{')\n", ["step.py, line 3", "JSONDecodeError"]),
        ("import no_such_package.part\n", ["step.py imports no_such_package", "make venv"]),
        ("from math import nothing\n", ["step.py", "ImportError", "nothing"]),
        ("def gem(M, N, K):\n    pass\n", ["step.py defines no gemm", "def gemm(M, N, K)"]),
        ("", ["step.py defines no gemm"]),
    ],
)
def test_bad_file(tmp_path, source, words):
    text = refusal(write(tmp_path, source))
    assert [word for word in words if word not in text] == [], text
    assert len(text.splitlines()) <= 3


def test_relative_path_names_the_line_too(tmp_path, monkeypatch):
    write(tmp_path, "x = 1\ny = 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert "step.py, line 2" in refusal("step.py")


def test_a_file_that_exits_is_a_reason_and_no_exit(tmp_path):
    assert "step.py" in refusal(write(tmp_path, "import sys\n\nsys.exit(3)\n"))


def test_missing_files(tmp_path):
    assert refusal(tmp_path / "none.py") == f"there is no file {tmp_path / 'none.py'}"
    assert "is a folder" in refusal(tmp_path)
    for name in ("notes.txt", "step"):
        assert "not a Python file" in refusal(write(tmp_path, GOOD, name))


def test_a_failed_file_can_be_mended(tmp_path):
    refusal(write(tmp_path, "x = \n"))
    assert loading.load_factory(write(tmp_path, GOOD))(1, 2, 3) == 6


@pytest.mark.parametrize("step", STEPS)
def test_every_step_has_one_tilelang_solution(step):
    path = loading.solution_path(step, "tilelang")
    assert path.is_file() and path.name.startswith(f"{step}_")
    assert len(list(path.parent.glob(f"{step}_*.py"))) == 1


@pytest.mark.parametrize("step, dsl", [("step99", "tilelang"), ("step04", "no_such_dsl"), ("", "tilelang")])
def test_missing_solution(step, dsl):
    with pytest.raises(CompileError, match=f"no {dsl} solution of {step}") as caught:
        loading.solution_path(step, dsl)
    assert caught.value.stage == "load"


def test_a_file_that_never_ends_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "LOAD_LIMIT", 0.3)
    assert "did not end within 0.3 s" in refusal(write(tmp_path, "while True:\n    pass\n"))


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("not python at all\n")
    (tmp_path / "mine.py").symlink_to(tmp_path / "secret")
    with pytest.raises(CompileError, match="is a link") as refused:
        loading.load_factory(tmp_path / "mine.py")
    assert "not python" not in str(refused.value)
