"""Does a kernel look as if it were compiled from the source that was handed in?

A submission can trace a program that it got from elsewhere, or one that is assembly from its first line to
its last. What is odd is a reason for a person to look at the source, and takes no points.
"""

from __future__ import annotations

import ast
import re

from course_utils.artifact import Artifact
from course_utils.classroom.workshop import syntax_tree
from course_utils.compile import load
from course_utils.ptx.added import authors
from course_utils.ptx.families import TENSOR_COPIES, Family, family
from course_utils.ptx.parser import PtxError

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_PACKAGES = "/site-packages/"
# assembly that an author writes: in TileLang's CUDA, and in CuTe DSL's PTX, where the DSL has some of its own
_IN_CUDA = re.compile(r"\basm\b[^;]*?(wgmma|cp\.async|mbarrier|fence\.|bar\.)")
_IN_PTX = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.S)
LONGEST = 24  # instructions in one inline assembly of CuTe DSL's own


def odd(artifact: Artifact, source: str) -> str:
    """What is odd about a kernel of this source, in words; "" where nothing is."""
    cute = artifact.dsl == "cute"
    found = _of_cute(artifact, source) if cute else _of_tilelang(artifact, source)
    return found or _work_elsewhere(artifact, source)


def _of_cute(artifact: Artifact, source: str) -> str:
    """Places, lines with their columns, that PTX names and the source has no code at; and assembly."""
    own, starts = str(load.place(source, "cute")), _starts(source)
    files = dict(_FILE.findall(artifact.ptx))
    named = {(files.get(n, ""), int(line), int(column)) for n, line, column in _LOC.findall(artifact.ptx)}
    named = {place for place in named if place[1] and _PACKAGES not in place[0]}  # LLVM: line 0 is no place
    if wrong := [place for place in named if place[0] != own or place[1:] not in starts]:
        return f"{len(wrong)} of the {len(named)} places that its PTX names are no code of this source"
    longest = max((block.count(";") for block in _IN_PTX.findall(artifact.ptx)), default=0)
    return f"it has {longest} instructions in one inline assembly" if longest > LONGEST else ""


def _of_tilelang(artifact: Artifact, source: str) -> str:
    """Lines that the generated code names and the source has no code on; and assembly."""
    own, code = str(load.place(source, "tilelang")), {line for line, _ in _starts(source)}
    named = {(one.file, one.line) for one in artifact.origins if one and one.file}
    if wrong := [place for place in named if place[0] != own or place[1] not in code]:
        return f"{len(wrong)} of the {len(named)} lines that its program names are no code of this source"
    assembly = _IN_CUDA.search(artifact.source)
    return f"its CUDA has assembly of its own: {assembly[1]}" if assembly else ""


def _work_elsewhere(artifact: Artifact, source: str) -> str:
    """Does no line of the source become an instruction that multiplies, or else one that copies by TMA?"""
    own = str(load.place(source, artifact.dsl))
    try:
        found = list(authors(artifact))
    except PtxError:
        return ""
    for kinds in ({Family.WGMMA, Family.TCGEN05_MMA}, TENSOR_COPIES):
        origins = [origin for instruction, origin in found if family(instruction) in kinds]
        if origins:
            known = any(origin and origin.file == own for origin in origins)
            return "" if known else "no line of this source has become its instructions"
    return ""


def _starts(source: str) -> set[tuple[int, int]]:
    """(line, column) of all code in functions. A column counts characters, or the bytes of UTF-8."""
    lines = load.unified(source).split("\n")
    starts = set()
    for function in ast.walk(syntax_tree(source)):
        if not isinstance(function, ast.FunctionDef | ast.Lambda):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.expr | ast.stmt | ast.arg):
                text = lines[node.lineno - 1].encode()[: node.col_offset].decode(errors="replace")
                starts |= {(node.lineno, node.col_offset), (node.lineno, len(text))}
    return starts
