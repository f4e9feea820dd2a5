"""Does a kernel look like what its language's compiler makes of the source that was handed in?

CuTe DSL compiles in the process in which a submission runs, and that may send PTX from anywhere. Its marks
can be forged as well. So what is odd is a reason for a person to look at the source, and takes no points.
"""

from __future__ import annotations

import ast
import re

from course_utils.artifact import Artifact
from course_utils.classroom.workshop import syntax_tree
from course_utils.compile import load
from course_utils.grading.steps import DSL_NAMES
from course_utils.ptx.added import authors
from course_utils.ptx.families import TENSOR_COPIES, Family, family
from course_utils.ptx.parser import PtxError

# what the compilers write that requirements.lock pins: of nvidia-cutlass-dsl 4.8.1, and NVRTC 13.0 with
# TileLang's templates
MARKS = {
    "cute": {
        "its header": r"// Cuda compilation tools, release 13\.4, V13\.4\.59\n// Based on NVVM 23\.0\.0\n",
        "its version of PTX": r"(?m)^\.version 8\.8$",
        "its name of a kernel": r"\.entry kernel_cutlass_\w+\(",
        "its name of shared memory": r"\.shared \.align 1024 \.b8 __dynamic_shmem__0\[\];",
    },
    "tilelang": {
        "its header": r"// Cuda compilation tools, release 13\.0, V13\.0\.88\n// Based on NVVM 7\.0\.1\n",
        "its version of PTX": r"(?m)^\.version 9\.0$",
        "its templates": r'(?m)^\t\.file\t\d+ ".*/tl_templates/cuda/\w+\.h"$',
    },
}
_THREADS = re.compile(r"\.(?:req|max)ntid (\d+), (\d+), (\d+)")
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_PACKAGES = "/site-packages/"
_OWN_PTX = re.compile(r"\basm\b[^;]*(wgmma|cp\.async|mbarrier|fence\.|bar\.)")  # in TileLang's CUDA source


def odd(artifact: Artifact, source: str) -> str:
    """What is odd about a kernel of this source, in words; "" where nothing is."""
    found = []
    lacks = [name for name, mark in MARKS[artifact.dsl].items() if not re.search(mark, artifact.ptx)]
    threads = _THREADS.search(artifact.ptx)
    if threads is None or tuple(map(int, threads.groups())) != artifact.block:
        lacks.append("its number of threads")
    if lacks:
        found.append(f"it lacks what {DSL_NAMES[artifact.dsl]}'s compiler writes: {', '.join(lacks)}")
    if own := _OWN_PTX.search(artifact.source):
        found.append(f"its CUDA has PTX of its own: {own[1]}")
    places = _of_cute(artifact, source) if artifact.dsl == "cute" else _of_tilelang(artifact, source)
    if places:
        found.append(places)
    return "; ".join(found)


def _of_cute(artifact: Artifact, source: str) -> str:
    """How the places that PTX names, lines and columns, differ from where the source has code; "" where they
    do not.
    """
    own, starts = str(load.place(source, "cute")), _starts(source)
    files = dict(_FILE.findall(artifact.ptx))
    named = {(files.get(n, ""), int(line), int(column)) for n, line, column in _LOC.findall(artifact.ptx)}
    named = {place for place in named if place[1] and _PACKAGES not in place[0]}  # LLVM: line 0 is no place
    wrong = [place for place in named if place[0] != own or place[1:] not in starts]
    if wrong:
        return f"{len(wrong)} of the {len(named)} places that its PTX names are no code of this source"
    return _work_elsewhere(artifact, own, {line for line, _ in starts})


def _of_tilelang(artifact: Artifact, source: str) -> str:
    """How the lines of the generated code differ from where the source has code; "" where they do not."""
    own, code = str(load.place(source, "tilelang")), {line for line, _ in _starts(source)}
    named = {(one.file, one.line) for one in artifact.origins if one and one.file}
    wrong = [place for place in named if place[0] != own or place[1] not in code]
    if wrong:
        return f"{len(wrong)} of the {len(named)} lines that its program names are no code of this source"
    return _work_elsewhere(artifact, own, code)


def _work_elsewhere(artifact: Artifact, own: str, code: set[int]) -> str:
    """Is there an instruction that multiplies, or copies by TMA, of which no line of the source is known?"""
    try:
        found = list(authors(artifact))
    except PtxError:
        return ""
    for kinds in ({Family.WGMMA}, TENSOR_COPIES):
        origins = [origin for instruction, origin in found if family(instruction) in kinds]
        if origins:
            known = any(one and one.file == own and one.line in code for one in origins)
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
