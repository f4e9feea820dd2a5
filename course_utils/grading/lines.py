"""The author's line that wrong numbers point to: the store of D, the load of an operand, the multiplication,
the loop over K or over tiles. What it is about is told by the words of the diagnosis.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from course_utils.artifact import Artifact, Origin, file_name
from course_utils.ptx import paths
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import parse

STORE, SUMS, LOADS, MULTIPLICATION = "store", "sums", "loads", "wgmma"
LOOP, TILES = "loop over K", "loop over tiles"
ADDED, CUT = "where the bias is added", "which part of the bias"
# Words of a diagnosis, and what they are about: the first that is found. A group is the tensor.
ABOUT = (
    (r"ReLU after every K tile: is it", LOOP),
    (r"after every K tile|right but for its ReLU|order of its epilogue|rounded twice", ADDED),
    (r"\bbias\b", CUT),
    (r"loop ends too early|loop begins too late", LOOP),
    (r"does the loop over the slices|same 16 columns|accumulate flag|overwrote the sum", MULTIPLICATION),
    (r"its own product, transposed|twice its own product|tile's sum was not cleared", MULTIPLICATION),
    (r"does the tile loop|in the order of tiles", TILES),
    (
        r"does the store take|which tile does each store|never written|kernel wrote|mirror place"
        r"|places the store|stores? lies? outside",
        STORE,
    ),
    (r"TMA loads? lies? outside (\w+)", LOADS),
    (r"index cuts ([ABX])\b|([AB]) has only|slice of ([AB]) scaled|does ([AB])'s slice follow", LOADS),
    (r"index cuts the sums\?", SUMS),
    (r"same columns of K|slice of K scaled|index is off by one|slices follow one index", LOADS),
    (r"elements of Y differ", STORE),
)
SCHEDULER = "TileScheduler("  # sets out the order of tiles in TileLang

Line = tuple[str, int]  # a file's path and a line of it


def of_numbers(diagnosis: str, artifact: Artifact) -> tuple[str, str]:
    """The place ("kernel.py, line 42") and the code that a diagnosis of wrong numbers is about; "" where it
    points to none, or several lines do the same.
    """
    for words, what in ABOUT:
        if found := re.search(words, diagnosis):
            tensor = next(filter(None, found.groups()), "")
            if (line := _line(artifact, what, tensor)) is None:
                return "", ""
            return f"{file_name(line[0])}, line {line[1]}", artifact.code(Origin(*line))
    return "", ""


def of_map(tensor: str, artifact: Artifact) -> str:
    """The line that makes a tensor's map in CuTe DSL, as a place in words; "" where none, or several, do."""
    return _said(rf"make_tiled_tma_atom\(.*\W{tensor}\W", artifact)


def of_layout(tensor: str, artifact: Artifact) -> str:
    """The line that gives a tensor another layout, else the one that makes its map; as ``of_map``."""
    return _said(rf"make_tensor\({tensor}\W", artifact) or of_map(tensor, artifact)


def below(pattern: str, artifact: Artifact) -> str:
    """The one line with this pattern, as it stands below a text: without the operands of a long call; ""
    where there is none, or several.
    """
    found = [
        Origin(file, number)
        for file, python in artifact.python.items()
        for number, line in enumerate(python.split("\n"), 1)
        if pattern and re.search(pattern, line.partition("#")[0])
    ]
    if len(found) != 1:
        return ""
    code = re.sub(r"\((?:[^()]|\([^()]*\)){60,}\)?", "(...)", artifact.code(found[0]))
    return f"\n  at {file_name(found[0].file)}, line {found[0].line}: {code}"


def first(pattern: str, artifact: Artifact) -> str:
    """The first line with this pattern, as ``below``; "" where there is none."""
    for file, python in artifact.python.items():
        for number, line in enumerate(python.split("\n"), 1):
            if re.search(pattern, line.partition("#")[0]):
                return f"\n  at {file_name(file)}, line {number}: {artifact.code(Origin(file, number))}"
    return ""


def without_rank(artifact: Artifact, store: int) -> tuple[str, int, str]:
    """Where line ``store`` is in a function that takes a tile's place from its callers: the one statement
    that makes a row, or a column, without the CTA's rank. Its file, line and code; ("", 0, "") where there
    is none, or several.
    """
    for file, python in artifact.python.items():
        try:
            if not _calls(ast.parse(python), store):
                continue
        except SyntaxError:  # a cell with a magic
            continue
        for index in (r"\bm_idx\b", r"\bn_idx\b", r"\brow\b.*\* cluster\b"):
            statements = [
                (file_name(file), number, artifact.code(Origin(file, number)))
                for number, line in enumerate(python.split("\n"), 1)
                if re.search(index, line.partition("#")[0])
            ]
            left = [one for one in statements if not re.search(r"\brank\b", one[2])]
            if len(left) == 1:
                return left[0]
    return "", 0, ""


def of_stores(artifact: Artifact, every: bool) -> tuple[str, str]:
    """What decides which chunks of D are stored: a line as ``below``, or several, in words. Where one
    function stores a chunk, it is who calls it; ``every``: of all tiles, so what bounds all of those calls'
    loops.
    """
    if (line := _line(artifact, STORE, "")) is None:
        return "", ""
    file, number = line
    try:
        tree = ast.parse(artifact.python[file])
    except SyntaxError:  # a cell with a magic
        return "", ""
    calls = _calls(tree, number) or [number]
    if every and len(bound := _bounds(tree, calls)) == 1:
        calls = list(bound)
    if len(calls) > 1:
        *most, last = map(str, calls)
        return "", f" They are on lines {', '.join(most)} and {last}."
    return f"\n  at {file_name(file)}, line {calls[0]}: {artifact.code(Origin(file, calls[0]))}", ""


def _calls(tree: ast.Module, number: int) -> list[int]:
    """The lines that call the function in which this line is."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= number <= (node.end_lineno or 0)
    ]
    name = max(around, key=lambda node: node.lineno).name if around else ""
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    )


def _bounds(tree: ast.Module, calls: list[int]) -> set[int]:
    """The lines that set the names on which the bounds of the loops around all these lines depend."""
    shared: set[str] | None = None
    for number in calls:
        loops = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.For) and node.lineno <= number <= (node.end_lineno or 0)
        ]
        if not loops or not isinstance(around := max(loops, key=lambda node: node.lineno).iter, ast.Call):
            return set()
        names = {node.id for one in around.args for node in ast.walk(one) if isinstance(node, ast.Name)}
        shared = names if shared is None else shared & names
    return {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in (shared or set())
    }


def _said(pattern: str, artifact: Artifact) -> str:
    """The one statement with this pattern, as a place in words."""
    call = re.match(r"\w+", pattern)
    found = [
        Origin(file, number)
        for file, python in artifact.python.items()
        for number, line in enumerate(python.split("\n"), 1)
        if call and call[0] in line and re.search(pattern, artifact.code(Origin(file, number)))
    ]
    if len(found) != 1:
        return ""
    return f"{file_name(found[0].file)}, line {found[0].line}: {artifact.code(found[0])}"


def _line(artifact: Artifact, what: str, tensor: str) -> Line | None:
    """The one line that does it; loads of the first operand stand for those of both."""
    if what == TILES and (line := _line_with(artifact, SCHEDULER)):
        return line
    if what in (ADDED, CUT):
        texts = ("bias.iterator", "bias[") if what == CUT else ("bias[",)
        if line := next(filter(None, (_line_with(artifact, text) for text in texts)), None):
            return line
        what, tensor = LOADS, "bias"
    kernel = parse(artifact.ptx, artifact.kernel)
    instructions: Iterable[int]
    if what in (MULTIPLICATION, SUMS):
        wanted = Family.WGMMA if what == MULTIPLICATION else Family.STMATRIX
        instructions = (at for at, one in enumerate(kernel.instructions) if family(one) is wanted)
    else:
        stores, names = what in (STORE, TILES), [one.name for one in artifact.tensors]
        direction = paths.STORE if stores else paths.LOAD
        key = direction, tensor or names[-1 if stores else 0]
        instructions = paths.crossings(kernel, artifact).get(key, [])
        if stores and not instructions:  # those that add
            every = enumerate(kernel.instructions)
            instructions = [at for at, one in every if family(one) is Family.TENSOR_REDUCE]
    instructions = list(instructions)
    if what == SUMS and not instructions:  # plain stores to shared memory
        instructions = [
            at for at, one in enumerate(kernel.instructions) if one.opcode[:2] == ("st", "shared")
        ]
    lines = set()
    for source in {kernel.instructions[at].source for at in instructions}:
        origin = artifact.author(kernel.files.get(source[0], ""), source[1]) if source else None
        if origin is not None and not origin.added and origin.file in artifact.python:
            lines.add((origin.file, origin.line))
    if len(lines) != 1:
        return None
    [line] = lines
    if what in (LOOP, TILES):
        return _loop_around(artifact, *line, innermost=what == LOOP)
    return line


def _line_with(artifact: Artifact, text: str) -> Line | None:
    """The one line that has this text."""
    found = [
        (file, number)
        for file, python in artifact.python.items()
        for number, line in enumerate(python.split("\n"), 1)
        if text in line.partition("#")[0]
    ]
    return found[0] if len(found) == 1 else None


def _loop_around(artifact: Artifact, file: str, line: int, innermost: bool) -> Line | None:
    """The loop that a line is in: the innermost, or the outermost."""
    try:
        tree = ast.parse(artifact.python[file])
    except SyntaxError:  # a cell with a magic
        return None
    loops = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.While) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return (file, max(loops) if innermost else min(loops)) if loops else None
