"""Find a step's solution and load ``gemm`` from a learner's file."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import io
import linecache
import sys
import tokenize
import traceback
import types
from collections.abc import Callable
from pathlib import Path

from course_utils.compile.errors import CompileError
from course_utils.compile.guard import text_of, time_limit
from course_utils.problems import PROBLEMS

LOAD_LIMIT = 60.0  # seconds a file may take to run, imports of the DSL included
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"  # around what a learner writes
SOLUTIONS = Path(__file__).parents[2] / "solutions"
NO_CODE = {  # tokens that are layout or comment
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def solution_path(step_id: str, dsl: str) -> Path:
    """The solution file of a step. Raises CompileError where the checkout has none."""
    folders = SOLUTIONS / dsl, SOLUTIONS / "blackwell" / dsl
    found = sorted(path for folder in folders for path in folder.glob(f"{step_id}_*.py"))
    if not found:
        raise CompileError(
            "load", f"this checkout has no {dsl} solution of {step_id} (looked in {SOLUTIONS / dsl})"
        )
    return found[0]


def code_lines(path: str | Path) -> int:
    """Lines of a Python file that hold code: no blank line, no comment, no docstring."""
    source = Path(path).read_text()
    lines = {
        number
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in NO_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def without_markers(source: str) -> str:
    """Python source with the lines of the markers left out."""
    return "".join(line for line in io.StringIO(source) if not line.strip().startswith((BEGIN, END)))


def load_module(path: str | Path) -> types.ModuleType:
    """Run a Python file as a module of its own. Raises CompileError with the line of the file that failed."""
    path = Path(path)
    source = read(path)
    linecache.checkcache(str(path))
    return _run(source, path)


def read(path: str | Path) -> str:
    """The text of a Python file. Raises CompileError where the path is none, or cannot be read."""
    path = Path(path)
    if path.is_dir():
        raise CompileError("load", f"{path} is a folder; name a Python file")
    if not path.is_file():
        raise CompileError("load", f"there is no file {path}")
    if path.is_symlink():  # what it leads to could be anybody's, and an error would quote it
        raise CompileError("load", f"{path} is a link; name the file that it leads to")
    if path.suffix != ".py":
        raise CompileError("load", f"{path.name} is not a Python file (its name does not end in .py)")
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError("load", f"{path.name} cannot be read: {error}") from error


def _run(source: str, path: Path) -> types.ModuleType:
    """Run Python source, as a module of its own, under the name of a file."""
    name = f"kernel_{abs(hash(str(path.resolve())))}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # inspect.getsource, which TileLang needs, looks the module up here
    # compiled here, past the bytecode cache, which takes a file edited twice in a second for the same one
    try:
        with time_limit(LOAD_LIMIT, f"running {path.name}"):
            code = compile(source, str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            waits = eval(code, module.__dict__)  # a coroutine where it awaits at its top, as a notebook may
            if inspect.iscoroutine(waits):
                asyncio.run(waits)
    except CompileError as error:
        raise CompileError("load", str(error)) from error
    except SyntaxError as error:
        raise CompileError(
            "load", f"{path.name}, line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from error
    except ModuleNotFoundError as error:
        raise CompileError(
            "load",
            f"{path.name} imports {error.name}, which is not installed here; `make venv` installs "
            "what the course needs",
        ) from error
    except (Exception, SystemExit) as error:
        lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f", line {lines[-1].lineno}" if lines else ""
        text = f"{path.name}{where}: {type(error).__name__}: {text_of(error)}"
        raise CompileError("load", text) from error
    return module


def load_factory(path: str | Path, wanted: str = "gemm") -> Callable:
    """What a Python file defines under the name ``wanted``. Raises CompileError."""
    return _defined(load_module(path), wanted)


def _defined(module: types.ModuleType, wanted: str) -> Callable:
    if not hasattr(module, wanted):
        name = Path(str(module.__file__)).name
        takes = {one.function: one.takes for one in PROBLEMS.values()}
        takes |= {
            "mend": "maps",
            "seconds": "M, N, K, plan",
            "predict": "shape, tile, dtype, consumer, asked",
            "broken": "rows, columns",
        }
        text = f"{name} defines no {wanted}; this file ends in `def {wanted}({takes[wanted]}): ...`"
        raise CompileError("load", text)
    return getattr(module, wanted)


def unified(source: str) -> str:
    """Source whose every line ends in \\n, whatever the machine that it was written on ended them with."""
    return io.StringIO(source, newline=None).read()


def load_factory_source(source: str, name: str, wanted: str = "gemm") -> Callable:
    """What Python source that is in no file defines under the name ``wanted``: "gemm", "mend" or
    another ``function`` of ``problems.PROBLEMS``.

    Raises CompileError, as if the file were kernel_NAME.py.

    The DSLs and tracebacks read the source again from linecache, where any file name will do, and its lines
    must end where Python's own end: a form feed ends none.
    """
    source = unified(source)
    return _defined(_run(source, keep(source, name)), wanted)


def place(source: str, name: str) -> Path:
    """The file that a source stands for which is in none."""
    digest = hashlib.sha256(unified(source).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return Path("/no-file", digest, "kernel_" + "".join(c if c.isalnum() else "_" for c in name) + ".py")


def keep(source: str, name: str) -> Path:
    """Have linecache know a source that is in no file, and return the file that it stands for."""
    source, path = unified(source), place(source, name)
    linecache.cache[str(path)] = (len(source), None, list(io.StringIO(source)), str(path))
    return path


def file_source(factory: Callable) -> str:
    """The whole of the file that ``factory`` stands in, whether it was ever written or not."""
    return "".join(linecache.getlines(inspect.getfile(factory)))


# -- edits of a solution


def edited(source: str, *edits: tuple[str, str], name: str = "the source") -> str:
    """``source`` after its edits, one after the other: each is (text that is there, text instead).

    Raises ValueError where a text is not there exactly once, so an edit cannot lose what it was made for.
    """
    for text, instead in edits:
        if source.count(text) != 1:
            raise ValueError(f"{name} has {source.count(text)} times, not once: {text}")
        source = source.replace(text, instead)
    return source


def plant(step_id: str, dsl: str, *edits: tuple[str, str], wanted: str = "gemm") -> Callable:
    """``gemm`` of a step's solution after its edits, or what else it defines: ``edited``, and loaded.

    Raises ValueError where a text is not there exactly once.
    """
    path = solution_path(step_id, dsl)
    source = edited(path.read_text(), *edits, name=path.name)
    return load_factory_source(source, f"{dsl} {step_id}", wanted)
