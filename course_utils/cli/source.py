"""``course source``: what became of each line of a kernel, in generated CUDA, PTX or SASS."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from rich.console import Console

from course_utils.artifact import Artifact, Origin, file_name
from course_utils.cli.kernel import compiled
from course_utils.cli.terminal import at_work, say
from course_utils.grading import steps
from course_utils.ptx import added

_FILE = re.compile(r'//## File "([^"]+)", line (\d+)')

Lines = Iterator[tuple[str, Origin | None]]


def source(
    console: Console, what: str, dsl: str | None, size: str | None, form: str | None, line: int | None
) -> int:
    """Print a kernel's generated code under the author's lines that it comes from."""
    with at_work(console, f"compiling {what}"):
        artifact, *_ = compiled(what, dsl, size, steps.trace_size(what))
    form = form or ("cuda" if artifact.source else "ptx")
    lines = {"cuda": _cuda, "ptx": _ptx, "sass": _sass}[form](artifact)
    last = None
    for origin, group in groupby(lines, key=lambda one: one[1]):
        if line and (origin is None or origin.line != line):
            continue
        head = _head(artifact, origin)
        say(console, head if head != last else "    ...")
        last = head
        for text, _ in group:
            say(console, f"    {text}")
    if last is None:
        raise ValueError(f"nothing in the {form.upper()} comes from line {line}")
    return 0


def _head(artifact: Artifact, origin: Origin | None) -> str:
    if origin is None:
        return "from no line of yours"
    text = f"{file_name(origin.file)}, line {origin.line}: {artifact.code(origin)}".rstrip(": ")
    return f"{text}  [added by the compiler]" if origin.added else text


def _cuda(artifact: Artifact) -> Lines:
    if not artifact.source:
        raise ValueError("CuTe DSL writes no CUDA; ask for --ptx or --sass")
    yield from zip((text.strip() for text in artifact.source.split("\n")), artifact.origins, strict=True)


def _ptx(artifact: Artifact) -> Lines:
    return ((instruction.text, origin) for instruction, origin in added.authors(artifact))


def _sass(artifact: Artifact) -> Lines:
    """By nvdisasm. Raises ValueError where it is missing, or refuses the cubin.

    CuTe DSL's assembler counts the lines of inline assembly on from the author's: wgmma and waits stand a few
    lines too low (nvidia-cutlass-dsl 4.8.1). In PTX that is mended.
    """
    program = shutil.which("nvdisasm") or _packaged()
    if program is None:
        raise ValueError(
            "nvdisasm is not here: `pip install nvidia-cuda-nvdisasm`, or the CUDA toolkit, has it"
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(artifact.cubin)
        file.flush()
        ran = subprocess.run([program, "-c", "-gi", file.name], capture_output=True, text=True)
    if ran.returncode:
        raise ValueError(f"nvdisasm refused the kernel: {ran.stderr.strip()}")
    origin: Origin | None = None
    for line in ran.stdout.splitlines():
        if found := _FILE.search(line):  # of several, the last is what the others were inlined into
            origin = artifact.author(found[1], int(found[2]))
        elif found := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            yield found[1], origin


def _packaged() -> str | None:
    """nvdisasm of the Python package nvidia-cuda-nvdisasm, or None."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        found = next(f for f in files("nvidia-cuda-nvdisasm") or () if f.name == "nvdisasm")
    except (PackageNotFoundError, StopIteration):
        return None
    path = Path(str(found.locate()))
    path.chmod(path.stat().st_mode | 0o111)  # pip installs it without
    return str(path)
