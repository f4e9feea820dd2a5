"""The author's line of each line of generated code: TileLang's CUDA source, and CuTe DSL's PTX.

TileLang keeps Python lines through its lowering, and its code generator can write them as ``#line``
directives (``tl.emit_line_directives``, 0.1.15). They are asked for, read and taken out again: the source
that is compiled is the same with and without. A line of the source that has no directive of its own was not
written by the author: the compiler added it, after the line that the last directive names.

CuTe DSL's PTX names lines of the author's file itself (nvidia-cutlass-dsl 4.8.1). Two kinds are wrong.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from course_utils.artifact import Origin, Place
from course_utils.compile.guard import at

SPANS = "TILELANG_ENABLE_IR_SPAN"  # TileLang reads it anew for each function that it builds
_DIRECTIVE = re.compile(r'#line (\d+) "(.*)"')
_EVERY_DIRECTIVE = re.compile(rf"^{_DIRECTIVE.pattern}$", re.M)
_LOC = re.compile(r"(\s*\.loc\s+\d+\s+)(\d+)\s+(\d+)(.*)")
_INIT = re.compile(r"(\w+?)(?:\[\d+\])?\.init\(")  # of an mbarrier
_BARRIER = re.compile(r"__syncthreads\(\)|tl::__sync_thread_partial\(")
_BARRIER_CALL = "sync_threads"
_PACKAGES = ("tilelang", "tvm", "cutlass")


@contextmanager
def of_the_author() -> Iterator[None]:
    """While a factory is traced, a statement of TileLang's own macros gets the author's line."""
    import tilelang
    from tilelang.language.eager.builder import Builder

    home, own = str(Path(tilelang.__file__).parent), Builder.set_fileline

    def set_fileline(self: Any, file: str, line: int, name: str) -> None:
        if file.startswith(home):
            callers = [caller for caller in self.macro_fileline_stack if not caller[0].startswith(home)]
            file, line, name = callers[-1] if callers else (file, line, name)
        own(self, file, line, name)

    Builder.set_fileline = set_fileline
    try:
        yield
    finally:
        Builder.set_fileline = own


@contextmanager
def directives() -> Iterator[None]:
    """While a kernel is lowered: write directives. What an operation is lowered to gets that operation's line
    only where TileLang's own lowering records none.
    """
    from tilelang import tvm

    before = os.environ.get(SPANS)
    os.environ[SPANS] = "0"
    try:
        with tvm.transform.PassContext(config={"tl.emit_line_directives": True}):
            yield
    finally:
        if before is None:
            del os.environ[SPANS]
        else:
            os.environ[SPANS] = before


def numbered(source: str, files: list[str]) -> str:
    """The source with directives that name each file by its place in ``files``.

    Raises ValueError for a file that is not among them.
    """
    return _EVERY_DIRECTIVE.sub(lambda found: f'#line {found[1]} "{files.index(found[2])}"', source)


def named(source: str, files: list[str]) -> str:
    """What ``numbered`` made, with the files' names again."""
    return _EVERY_DIRECTIVE.sub(lambda found: f'#line {found[1]} "{files[int(found[2])]}"', source)


def read(source: str, barriers: dict[str, tuple[str, int]]) -> tuple[str, tuple[Origin | None, ...]]:
    """The source without its directives, and where each of its lines comes from.

    ``barriers`` says where each mbarrier was allocated, (file, line) by name: their initialisation has no
    other line.
    """
    lines: list[str] = []
    origins: list[Origin | None] = []
    last: Origin | None = None
    own = False
    for text in source.split("\n"):
        if found := _DIRECTIVE.fullmatch(text):
            last, own = Origin(found[2], int(found[1])), True
            continue
        lines.append(text)
        place = barriers.get(found[1]) if (found := _INIT.search(text)) else None
        if place:
            origins.append(Origin(*place))
        else:
            origins.append(last if own or last is None else Origin(last.file, last.line, added=True))
        own = False
    return "\n".join(lines), tuple(origins)


def claimed(
    source: str, origins: tuple[Origin | None, ...], python: dict[str, str]
) -> tuple[Origin | None, ...]:
    """``origins``, with the author's own calls for those of TileLang's barriers that they stand for.

    TileLang 0.1.15 drops every ``T.sync_threads()`` and puts barriers where it finds that some are needed.
    One that it puts where a call stands, between the same two statements of the author's, is that call's.
    """
    calls = {file: _calls(text) for file, text in python.items()}
    own = sorted({(one.file, one.line) for one in origins if one and not one.added})
    made: list[Origin | None] = []
    last: Origin | None = None
    taken: set[int] = set()
    for text, origin in zip(source.split("\n"), origins, strict=True):
        if origin and not origin.added:
            last, taken = origin, set()
        elif origin and last and _BARRIER.search(text):
            after = [line for file, line in own if file == last.file and line > last.line]
            calls_here = [
                line for line in calls.get(last.file, ()) if last.line <= line <= min(after, default=line)
            ]
            mine = next((line for line in calls_here if line not in taken), None)
            if mine is not None:
                taken.add(mine)
                origin = Origin(last.file, mine)
        made.append(origin)
    return tuple(made)


def _calls(text: str) -> list[int]:
    """Lines of a file's calls of ``T.sync_threads`` for the whole CTA or role."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a file that has changed under the factory's feet
        return []
    return sorted(
        node.lineno
        for name, node in called(tree)
        if (name == _BARRIER_CALL and not node.args)
        # what T.sync_threads() itself calls
        or (name == "tvm_storage_sync" and [getattr(one, "value", "") for one in node.args] == ["shared"])
    )


def called(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Each call in a module, by the name that the language has for what is called: behind a dot, imported by
    itself, or kept under another name. Calls of the module's own functions and objects are left out.
    """
    own: set[str] = set()
    names: dict[str, str] = {}  # what a name stands for in the language
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                if (node.module or "").startswith(_PACKAGES):
                    names[one.asname or one.name] = one.name
                else:
                    own.add(one.asname or one.name)
        elif isinstance(node, ast.Import):
            own.update(one.asname or one.name for one in node.names if not one.name.startswith(_PACKAGES))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _assigned(target, node.value, names, own)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
            _assigned(node.target, node.value, names, own)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            if node.func.id not in own:
                found.append((_stands_for(node.func.id, names), node))
        elif isinstance(node.func, ast.Attribute):
            root: ast.expr = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if not isinstance(root, ast.Name) or root.id not in own:
                found.append((node.func.attr, node))
            elif node.func.attr in names:  # kept in an object of the module's own
                found.append((_stands_for(node.func.attr, names), node))
    return found


def _assigned(target: ast.expr, value: ast.expr, names: dict[str, str], own: set[str]) -> None:
    """Note what the names of one assignment stand for."""
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for one, other in zip(target.elts, value.elts, strict=False):
            _assigned(one, other, names, own)
    elif isinstance(target, ast.Name):
        function = getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""
        if isinstance(value, ast.Call) and function == "staticmethod" and value.args:
            value = value.args[0]
        if isinstance(value, ast.Attribute):
            names[target.id] = value.attr
        elif isinstance(value, ast.Name):
            names[target.id] = value.id
        elif isinstance(value, ast.Call):
            told = [str(getattr(one, "value", "")) for one in value.args]
            if function == "getattr" and len(told) > 1:
                names[target.id] = told[1]
            elif not any(one.startswith(_PACKAGES) for one in told):  # importlib.import_module("...")
                own.add(target.id)
        else:
            own.add(target.id)


def _stands_for(name: str, names: dict[str, str]) -> str:
    """The name at the end of a chain of names."""
    for _ in range(len(names)):
        if names.get(name, name) == name:
            break
        name = names[name]
    return name


def barriers_of(prim_func: Any) -> dict[str, tuple[str, int]]:
    """Where each mbarrier of a traced function was allocated."""
    from tilelang import tvm
    from tilelang.ir import get_buffer_span

    found = {}

    def visit(node: Any) -> None:
        for buffer in getattr(node, "alloc_buffers", ()):
            span = get_buffer_span(buffer)
            if span is not None and "barrier" in str(buffer.scope()):
                found[str(buffer.name)] = (str(span.source_name.name), int(span.line))

    tvm.tirx.stmt_functor.post_order_visit(prim_func.body, visit)
    return found


def place_of(buffer: Any) -> Place | None:
    """The line of a traced function's argument; None where it is not told."""
    from tilelang.ir import get_buffer_span

    span = get_buffer_span(buffer)
    return at(str(span.source_name.name), int(span.line)) if span is not None else None


def mended(ptx: str) -> str:
    """CuTe DSL's PTX with the right lines: the assembler counts the lines of an inline assembly on from the
    author's, and what the DSL adds at column 0 is the first line of the kernel's host function.
    """
    lines, inside = [], -1
    for text in ptx.split("\n"):
        if text.strip() in ("// begin inline asm", "// end inline asm"):
            inside = 0 if "begin" in text else -1
        elif location := _LOC.fullmatch(text):
            if int(location[3]) == 0 and not location[4]:
                continue
            if inside > 0:
                text = f"{location[1]}{int(location[2]) - inside} {location[3]}{location[4]}"
        elif inside >= 0:
            inside += 1
        lines.append(text)
    return "\n".join(lines)


def texts(files: Iterable[str]) -> dict[str, str]:
    """The authors' files as they were when they were traced, without those of installed packages."""
    own = (file for file in dict.fromkeys(files) if "site-packages" not in file)
    return {file: text for file in own if (text := "".join(linecache.getlines(file)))}
