"""The author's lines that a finding points to. Wrong numbers point to the store of D, the load of an operand,
the multiplication, the loop over K or over tiles, by their cause; a missing instruction to what it belongs
to.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course_utils.artifact import Artifact, Origin, Place
from course_utils.cause import Cause
from course_utils.ptx import paths
from course_utils.ptx.added import authors
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import PtxError, parse

STORE, SUMS, LOADS, MULTIPLICATION = "store", "sums", "loads", "wgmma"
LOOP, TILES = "loop over K", "loop over tiles"
ADDED, CUT = "where the bias is added", "which part of the bias"
# What a cause of wrong numbers is about, by its case: of several causes the first here leads.
_ABOUT = (
    (LOOP, "relu-in-the-loop"),
    (ADDED, "epilogue-in-the-loop bias-in-the-loop relu-missing relu-before-bias rounded-twice"),
    (CUT, "bias-missing bias-of-rows bias-of-the-first-tile bias-from-its-row bias-by-rows"),
    (LOOP, "ends-early begins-late"),
    (MULTIPLICATION, "slices-left-out slice-repeated never-accumulated overwritten"),
    (MULTIPLICATION, "own-transposed twice former-tile"),
    (TILES, "tiles-left tiles-left-by-clusters order-mixed-up"),
    (STORE, "corner corner-stacked corner-of-slices corner-of-a-tile corner-of-every-cta corner-of-the-grid"),
    (STORE, "order-covers edge-left-out columns-of-each columns-of-some band-of-columns band-of-rows"),
    (STORE, "nothing-written unwritten unwritten-of-them wrote-before wrote-after operand-stored mirror"),
    (STORE, "stored-elsewhere slices-stored-elsewhere moved-or-stored-elsewhere another-tile-added"),
    (STORE, "stores-outside stores-outside-of-a-rank store-of-other-tiles"),
    (LOADS, "loads-outside loads-outside-of-a-rank not-loaded"),
    (LOADS, "rows-of-A rows-of-B index-of-the-other slice-unscaled slice-stays"),
    (LOADS, "head-for-head heads-in-turn first-batch-of-K first-batch-of-Q K-heads-first Q-heads-first"),
    (SUMS, "moved"),
    (LOADS, "one-k-tile unscaled wrong-k-tiles two-indices"),
    (STORE, "copy copy-unwritten copy-and-gaps"),
)
ABOUT = {case: what for what, cases in _ABOUT for case in cases.split()}
# the operand whose loads a cause is about, where it is not the first one: the name of its value, or its name
OPERAND = {
    **{"rows-of-B": "B", "rows-of-A": "A", "first-batch-of-Q": "Q", "Q-heads-first": "Q"},
    **dict.fromkeys(("head-for-head", "heads-in-turn", "first-batch-of-K", "K-heads-first"), "K"),
}
# TileLang's order of tiles. Its place in PTX is index arithmetic, shared with that of each role's tile
SCHEDULER = r"TileScheduler\("


def of_numbers(causes: Sequence[Cause], artifact: Artifact) -> Place | None:
    """The line that causes of wrong numbers are about; None where they point to none, or several lines do the
    same.
    """
    known = [cause for cause in causes if cause.case in ABOUT]
    if not known:
        return None
    cause = min(known, key=lambda one: [*ABOUT].index(one.case))
    what, tensor = ABOUT[cause.case], ""
    if what == LOADS:
        tensor = OPERAND.get(cause.case) or cause.values.get("operand", "")
        if not tensor and cause.kind in ("outside", "unread"):
            tensor = cause.values["tensor"]
    line = _line(artifact, what, tensor)
    return None if line is None else artifact.place(line)


def of_map(tensor: str, artifact: Artifact) -> Place | None:
    """The line that makes a tensor's map in CuTe DSL; None where none, or several, do."""
    return _statement(rf"make_tiled_tma_atom\(.*\W{tensor}\W", artifact)


def of_layout(tensor: str, artifact: Artifact) -> Place | None:
    """The line that gives a tensor another layout, else the one that makes its map; as ``of_map``."""
    return _statement(rf"make_tensor\({tensor}\W", artifact) or of_map(tensor, artifact)


def one(pattern: str, artifact: Artifact) -> Place | None:
    """The one line with this pattern, without the operands of a long call; None where there is none, or
    several.
    """
    if (line := artifact.line(pattern)) is None:
        return None
    place = artifact.place(line)
    return replace(place, code=re.sub(r"\((?:[^()]|\([^()]*\)){60,}\)?", "(...)", place.code))


def first(pattern: str, artifact: Artifact) -> Place | None:
    """The first line with this pattern; None where there is none."""
    return next(map(artifact.place, artifact.lines(pattern)), None)


def of_families(artifact: Artifact, *families: Family, last: bool = False) -> Place | None:
    """The line of the kernel's first instruction of these families, which come in their order; of waits for
    stores, the one that follows a store most closely. None where it has none, or nobody knows. ``last``: the
    last of them.
    """
    try:
        known = [(family(instruction), origin) for instruction, origin in authors(artifact)]
    except PtxError:
        return None
    for kind in families:
        mine = [(at, origin) for at, (this, origin) in enumerate(known) if this is kind and origin]
        if kind is Family.BULK_WAIT:
            stores = [at for at, (this, _) in enumerate(known) if this is Family.TENSOR_STORE]
            behind = {at: min((at - s for s in stores if s < at), default=len(known)) for at, _ in mine}
            mine.sort(key=lambda that: behind[that[0]])
        for _, origin in mine[-1:] if last else mine[:1]:
            return artifact.place(origin)
    return None


def without_rank(artifact: Artifact, store: int) -> Place | None:
    """Where line ``store`` is in a function that takes a tile's place from its callers: the one statement
    that makes a row, or a column, without the CTA's rank. None where there is none, or several.
    """
    for file in artifact.python:
        tree = _tree(artifact, file)
        if tree is None or not _calls(tree, store):
            continue
        # by names of the given text: PTX has what an index counts, and not that it should count the rank
        for index in (r"\bm_idx\b", r"\bn_idx\b", r"\brow\b.*\* cluster\b"):
            made = [artifact.place(line) for line in artifact.lines(index) if line.file == file]
            left = [place for place in made if not re.search(r"\brank\b", place.code)]
            if len(left) == 1:
                return left[0]
    return None


def of_stores(artifact: Artifact, every: bool) -> list[Place]:
    """The lines that decide which chunks of D are stored. Where one function stores a chunk, it is who calls
    it; ``every``: of all tiles, so what bounds all of those calls' loops.
    """
    line = _line(artifact, STORE, "")
    tree = None if line is None else _tree(artifact, line.file)
    if line is None or tree is None:
        return []
    calls = _calls(tree, line.line) or [line.line]
    if every and len(bound := _bounds(tree, calls)) == 1:
        calls = list(bound)
    return [artifact.place(Origin(line.file, number)) for number in calls]


def _tree(artifact: Artifact, file: str) -> ast.Module | None:
    """The author's file, parsed; None where it is no Python, as a cell with a magic."""
    try:
        return ast.parse(artifact.python[file])
    except SyntaxError:
        return None


def _around(tree: ast.Module, number: int, *kinds: type[ast.stmt]) -> list[Any]:
    """The statements of these kinds that a line is in, the innermost last."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, kinds))
    around = [node for node in nodes if node.lineno <= number <= (node.end_lineno or 0)]
    return sorted(around, key=lambda node: node.lineno)


def _calls(tree: ast.Module, number: int) -> list[int]:
    """The lines that call the function in which this line is."""
    around = _around(tree, number, ast.FunctionDef)
    name = around[-1].name if around else ""
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    )


def _bounds(tree: ast.Module, calls: list[int]) -> set[int]:
    """The lines that set the names on which the bounds of the loops around all these lines depend."""
    shared: set[str] | None = None
    for number in calls:
        loops = _around(tree, number, ast.For)
        if not loops or not isinstance(bound := loops[-1].iter, ast.Call):
            return set()
        names = {node.id for one in bound.args for node in ast.walk(one) if isinstance(node, ast.Name)}
        shared = names if shared is None else shared & names
    return {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in (shared or set())
    }


def _statement(pattern: str, artifact: Artifact) -> Place | None:
    """The one statement with this pattern."""
    call = re.match(r"\w+", pattern)
    lines = artifact.lines(call[0]) if call else []
    found = [line for line in lines if re.search(pattern, artifact.code(line))]
    return artifact.place(found[0]) if len(found) == 1 else None


def _line(artifact: Artifact, what: str, tensor: str) -> Origin | None:
    """The one line that does it; loads of the first operand stand for those of both."""
    if what == TILES and (line := artifact.line(SCHEDULER)):
        return line
    if what in (ADDED, CUT):
        # a load has the line of its loop over elements; the tensor's name is the signature's, and the same
        for use in (r"\bbias\.iterator", r"\bbias\[")[what == ADDED :]:
            if line := artifact.line(use):
                return line
        what, tensor = LOADS, "bias"
    kernel = parse(artifact.ptx, artifact.kernel)
    every = list(enumerate(kernel.instructions))

    def of_family(wanted: Family) -> list[int]:
        return [at for at, one in every if family(one) is wanted]

    if what == MULTIPLICATION:
        instructions = of_family(Family.WGMMA)
    elif what == SUMS:  # else plain stores to shared memory
        plain = (at for at, one in every if one.opcode[:2] == ("st", "shared"))
        instructions = of_family(Family.STMATRIX) or list(plain)
    else:
        stores, names = what in (STORE, TILES), [one.name for one in artifact.tensors]
        direction = paths.STORE if stores else paths.LOAD
        key = direction, tensor or names[-1 if stores else 0]
        instructions = list(paths.crossings(kernel, artifact).get(key, []))
        if stores and not instructions:  # those that add
            instructions = of_family(Family.TENSOR_REDUCE)
    lines = set()
    for source in {kernel.instructions[at].source for at in instructions}:
        origin = artifact.author(kernel.files.get(source[0], ""), source[1]) if source else None
        if origin is not None and not origin.added and origin.file in artifact.python:
            lines.add(origin)
    if len(lines) != 1:
        return None
    [line] = lines
    return _loop_around(artifact, line, innermost=what == LOOP) if what in (LOOP, TILES) else line


def _loop_around(artifact: Artifact, line: Origin, innermost: bool) -> Origin | None:
    """The loop that a line is in: the innermost, or the outermost."""
    tree = _tree(artifact, line.file)
    loops = _around(tree, line.line, ast.For, ast.While) if tree else []
    return Origin(line.file, loops[-1 if innermost else 0].lineno) if loops else None
