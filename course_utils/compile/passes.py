"""What CuTe DSL's compiler refuses without saying why: an operand that wgmma cannot read, a copy of another
tensor than its map's. A pass's error says "compiler pass failed" alone; what it refused, and where, is in the
diagnostics that the DSL collects. Seen on nvidia-cutlass-dsl 4.8.1.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from course_utils.artifact import Place
from course_utils.compile.guard import at, is_learners

_COPY = "src and dst need be "
SILENT = ("compiler pass failed", "NVVM backend compilation failed")
_PLACE = re.compile(r'"([^"]+)":(\d+):\d+')
_REFUSED = re.compile(r"failed to legalize operation '([\w.]+)'")
# of a descriptor: the operand's layout, the major mode that the MMA asks for, its element type and pointer
_OPERAND = re.compile(r'layout<"([^"]+):([^"]+)">.*?major<(k|mn)>.*?\(!cute\.ptr<(\w+), smem, (\S.*?)>\) ->')
_SWIZZLE = re.compile(r"S<(\d),(\d),(\d)>")
_FRAGMENT = re.compile(r"make_fragment_([AB])\(")
HALVES = ("f16", "bf16")
TYPES = {"f32": "fp32", "tf32": "tf32", "f64": "fp64", "i8": "int8", "ui8": "uint8", "i32": "int32"}
MODES = {"k": "K", "mn": "MN"}

Said = tuple[str, Place | None]


def told(error: BaseException, text: str, place: Place | None) -> Said | None:
    """What was refused in words that say what to change, with the author's line; None where ``text``, the
    DSL's own with its ``place``, says more.
    """
    if _COPY in text:
        return _other_view(error, place)
    return _refused(error) if text.startswith(SILENT) else None


def _other_view(error: BaseException, place: Place | None) -> Said | None:
    """A copy by a tensor map that got neither side as TMA sees it; None where one is: they are swapped."""
    found = re.search(r"copy\(\s*(\w+)", place.code) if place else None
    module = next((frame["module"] for frame in _frames(error) if "module" in frame), None)
    if not place or not found or module is None:
        return None
    line, atom = place.line, found[1]
    copies: list[str] = []
    paths: set[str] = set()

    def visit(op: Any) -> Any:
        where = _PLACE.search(str(op.location)) if op.name == "cute.copy" else None
        if where and int(where[2]) == line:
            copies.append(str(op))
            paths.add(where[1])
        return WalkResult.ADVANCE

    from cutlass._mlir.ir import WalkResult

    module.operation.walk(visit)
    if not copies or "coord_tensor" in copies[0]:
        return None
    path = paths.pop()
    made = _only(path, rf"^{atom}, \w+ = .*make_tiled_tma_atom\(")
    view = f" (`{made.text.split(' = ')[0].split(', ')[1]}`)" if made else ""
    said = (
        f"`{atom}` copies TMA's own view of the matrix, which make_tiled_tma_atom returns second{view}: the "
        f"copy in line {line} got another tensor."
    )
    return said, _at(path, made, line)


def _refused(error: BaseException) -> Said | None:
    """What a pass refused, from its diagnostics."""
    for diagnostic in _collected(error):
        place = _place(diagnostic)
        if "cute_nvgpu.make_gmma_smem_desc" in diagnostic and (found := _OPERAND.search(diagnostic)):
            return _operand(found, place)
        if refused := _REFUSED.search(diagnostic):
            said = f"no instruction does what this line asks of `{refused[1]}`: do types and layouts fit?"
            return said, at(*place) if place else None
        if place:
            return re.sub(r"^.*?\):\s+", "", diagnostic.split("\n")[0]), at(*place)
    return None


def _frames(error: BaseException) -> Iterator[dict[str, Any]]:
    """The names of each frame that an error, and those that it came of, went through."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        trace = now.__traceback__
        while trace is not None:
            yield trace.tb_frame.f_locals
            trace = trace.tb_next
        now = now.__cause__ or now.__context__


def _collected(error: BaseException) -> list[str]:
    """The diagnostics of the run of passes that ended in this error: the DSL keeps them in that frame."""
    sessions = (frame.get("diagnostic_session") for frame in _frames(error))
    session: Any = next((one for one in sessions if hasattr(one, "_collected_error_texts")), None)
    return list(session._collected_error_texts()) if session else []


def _place(diagnostic: str) -> tuple[str, int] | None:
    """The innermost line of the learner's that a diagnostic names."""
    for path, line in _PLACE.findall(diagnostic):
        if is_learners(path):
            return path, int(line)
    return None


@dataclass(frozen=True)
class _Statement:
    """An assignment in the author's file: its line and its text."""

    line: int
    text: str


def _operand(found: re.Match, place: tuple[str, int] | None) -> Said:
    """Why wgmma cannot read an operand in shared memory, at the line that gives it what it has."""
    path, line = place or ("", 0)
    fragment = next((one for one in _assignments(path) if one.line == line), None)
    code = fragment.text if fragment else linecache.getline(path, line)
    side = _FRAGMENT.search(code)
    which = f"operand {side[1]} of wgmma" if side else "an operand of wgmma"
    name = _tensor(code)
    what = f"{which}, {name}," if name else which
    made = _of_name(path, name)
    layout = _layout_name(made)
    shaped = _of_name(path, layout)
    _, strides, asked, element, pointer = found.groups()
    swizzle = _SWIZZLE.search(pointer)
    has = _contiguous(strides)
    if element not in HALVES:
        said = (
            f"{what} holds {TYPES.get(element, element)}, and this MMA takes fp16: allocate it as `Float16`."
        )
        return said, _at(path, made, line)
    if has and has != asked and swizzle:
        own = "K" if has == "k" else "M or N"
        said = (
            f"the MMA asks for {which} as `OperandMajorMode.{MODES[asked]}`, and in its layout {own} is "
            f"contiguous: an atom `{MODES[has]}_SW128` is for `OperandMajorMode.{MODES[has]}`."
        )
        odd = rf"OperandMajorMode\.{MODES[asked]}\b" if asked == "mn" else r"\bMN_(?:SW|INTER)"
        return said, _at(path, _only(path, odd), line)
    if swizzle is None and layout and f"{layout}.outer" in (made.text if made else ""):
        said = (
            f"{what} is allocated without a swizzle, and its layout needs one: give it `{layout}.inner` too."
        )
        return said, _at(path, made, line)
    if swizzle is None:
        said = (
            f"{what} has a plain layout, and wgmma reads a swizzled one: "
            "`tile_to_shape` of an atom such as `K_SW128` makes it."
        )
        return said, _at(path, shaped or made, line)
    own = f"S<{','.join(swizzle.groups())}>"
    if swizzle[2] + swizzle[3] == "43" and swizzle[1] in "123":
        said = f"{what} has the swizzle {own}, {(16 << int(swizzle[1]))}B, and a layout of another one: "
    else:
        said = f"{what} has the swizzle {own}, which is none of wgmma's: "
    said += "take `.outer` and `.inner` of one layout that `tile_to_shape` makes."
    return said, _at(path, made if made and "make_swizzle" in made.text else shaped or made, line)


def _contiguous(strides: str) -> str:
    """The dimension of an operand that is contiguous in its layout: "k", "mn", or "" where none is."""
    try:
        rows, columns = ast.literal_eval(strides)[0]
    except (SyntaxError, ValueError, TypeError):
        return ""
    for stride, name in ((columns, "k"), (rows, "mn")):
        while isinstance(stride, tuple):
            stride = stride[0]
        if stride == 1:
            return name
    return ""


def _tensor(code: str) -> str:
    """The name in the innermost brackets of a fragment's line: the tensor that it is of."""
    found = re.search(r"\(([A-Za-z_]\w*)[^()]*\)", code)
    return found[1] if found else ""


def _layout_name(made: _Statement | None) -> str:
    """The layout that an allocation is given, by its name."""
    if made is None:
        return ""
    found = re.search(r"\b(\w+)\.outer\b", made.text) or re.search(r"\b(\w*layout\w*)\b", made.text)
    return found[1] if found else ""


def _assignments(path: str) -> Iterator[_Statement]:
    """Each assignment of a file, with its text in one line."""
    text = "".join(linecache.getlines(path)) if path else ""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a cell with a magic
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            segment = ast.get_source_segment(text, node) or ""
            yield _Statement(node.lineno, re.sub(r"\s+", " ", segment))


def _of_name(path: str, name: str) -> _Statement | None:
    """The one assignment to a name, alone or among others."""
    wanted = re.compile(rf"^(?:\w+, )*{re.escape(name)}(?:, \w+)* = ")
    found = [one for one in _assignments(path) if name and wanted.search(one.text)]
    return found[0] if len(found) == 1 else None


def _only(path: str, pattern: str) -> _Statement | None:
    """The one assignment with this pattern."""
    found = [one for one in _assignments(path) if re.search(pattern, one.text)]
    return found[0] if len(found) == 1 else None


def _at(path: str, statement: _Statement | None, line: int) -> Place | None:
    """Where it is: the statement, or else the line that the compiler named."""
    number = statement.line if statement else line
    return at(path, number) if path and number else None
