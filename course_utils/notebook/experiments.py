"""What notebooks t2, t4 and t5 try: small kernels compiled, read and emulated. Nothing is graded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from course_utils.artifact import Artifact
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory, compile_sizes
from course_utils.compile.load import load_factory, solution_path
from course_utils.compile.tile_copies import Case, outcome, source
from course_utils.grading import predictor, steps
from course_utils.notebook.output import at_work, paragraph, tabled
from course_utils.run.emulator import Emulation, emulate

SHAPE = (256, 128)  # rows and columns of the X that a copy is tried with
SIZE = (512, 256, 128)  # M, N, K of a GEMM that is compiled and not run
FIRST = 3  # loads that are shown of many
WIDTH = 90  # columns of a line of PTX that are shown

Copies = dict[str, Callable]  # factories of copy kernels in CuTe DSL, by what to call them


def endings(copies: Copies, seeds: Sequence[int] = (0,)) -> None:
    """Run each copy in the emulator, once for each order of events that a seed draws: how it ends, and what
    is found. Raises nothing.
    """
    with at_work("compiling and emulating", "These copies cannot be tried") as place:
        rows = []
        for name, copy in copies.items():
            try:
                artifact, _ = _compiled(copy)
            except CompileError as error:
                rows.append([name, "", "does not compile", str(error)])
                continue
            for seed in seeds:
                run, same = _run(artifact, seed)
                end = "never ends" if not run.finished else "right" if same else "ends, Y is wrong"
                found = [f"{one.kind}: {one.detail}" for one in run.errors] or ["nothing"]
                rows.append([name, str(seed), end, found[0]])
                rows += [["", "", "", one] for one in found[1:]]
        place.finish(tabled(["", "order of events", "how it ends", "what the emulator finds"], rows))


def layouts_of(copies: Copies) -> None:
    """Show what each copy prints while it is traced: lines of "name: layout". Raises nothing."""
    with at_work("tracing", "These layouts cannot be shown") as place:
        rows = []
        for name, copy in copies.items():
            printed = [line.split(": ", 1) for line in _compiled(copy)[1].splitlines() if ": " in line]
            rows += [[name if n == 0 else "", *line] for n, line in enumerate(printed)]
        place.finish(tabled(["", "tensor", "layout"], rows))


def loads_of(copies: Copies) -> None:
    """Show how often each copy loads by TMA, how many bytes that brings, and its first loads: where to, the
    tensor map with its coordinates, and the barrier. Raises nothing.
    """
    with at_work("reading the PTX", "These loads cannot be shown") as place:
        rows = []
        for name, copy in copies.items():
            artifact, _ = _compiled(copy)
            lines = [line.strip() for line in artifact.ptx.splitlines() if ".2d.shared" in line]
            box = next(p.tensor_map.box_bytes for p in artifact.parameters if p.tensor_map)
            for n, line in enumerate(lines[:FIRST]):
                counted = [name, str(len(lines)), f"{len(lines) * box:,}"] if n == 0 else ["", "", ""]
                operands = line.partition("cache_hint ")[2].rpartition(",")[0]  # without the hint
                rows.append([*counted, operands])
        place.finish(tabled(["", "loads", "bytes that come", "the first of them"], rows))


def maps_of(copies: Copies) -> None:
    """Show the tensor map of X in each copy. Raises nothing."""
    with at_work("reading the tensor maps", "These tensor maps cannot be shown") as place:
        rows = []
        for name, copy in copies.items():
            artifact, _ = _compiled(copy)
            rows.append([name, next(str(p.tensor_map) for p in artifact.parameters if p.tensor_map)])
        place.finish(tabled(["", "tensor map of X"], rows))


def lines_of(factory: Callable, dsl: str, words: Sequence[str], after: str = "") -> None:
    """Show the lines of what a compiler made that hold one of ``words``, from the last ``after`` on: CUDA of
    TileLang, PTX of CuTe DSL. Raises nothing.
    """
    with at_work("compiling", "These lines cannot be shown") as place:
        artifact = _compiled(factory)[0] if dsl == "cute" else compile_factory(factory, dsl, SIZE)
        text = artifact.source or artifact.ptx
        text = text[text.rindex(after) :] if after else text
        found = [line.strip() for line in text.splitlines() if any(word in line for word in words)]
        rows = [[str(n), line[:WIDTH]] for n, line in enumerate(found, 1)]
        place.finish(tabled(["", "in this order"], rows))


def epilogues(*names: str) -> None:
    """Show the compiled epilogue of steps, in both DSLs: shared memory, how the accumulator reaches it, and
    which waits for stores there are. Raises nothing.
    """
    with at_work("compiling", "These epilogues cannot be shown") as place:
        rows = []
        for name in names:
            for dsl in DSLS:
                kernel = compile_factory(load_factory(solution_path(name, dsl)), dsl, SIZE)
                waits = [" ".join(one.split()) for one in re.findall(r"bulk\.(wait_group[^;]*)", kernel.ptx)]
                rows.append(
                    [
                        *(name, steps.DSL_NAMES[dsl], f"{kernel.dynamic_shared / 1024:.0f} KiB"),
                        *(str(kernel.ptx.count(word)) for word in ("stmatrix.sync", "st.shared")),
                        ", ".join(f"{waits.count(wait)} x {wait}" for wait in dict.fromkeys(waits)),
                    ]
                )
        head = ["", "DSL", "shared memory", "stmatrix", "st.shared", "waits for stores"]
        place.finish(tabled(head, rows))


def paths_of(cases: Sequence[Sequence]) -> None:
    """Compile tiles, each ``(shape, tile, dtype, consumer, asked)`` as ``predict`` takes them, and show the
    path of each and what decided it. Raises nothing.
    """
    with at_work("compiling", "The path cannot be told") as place:
        rows = []
        for number, values in enumerate(cases, 1):
            place.status(f"compiling {number} of {len(cases)}")
            case = Case(*values)
            try:
                made = outcome(case)
                rows.append([str(case), made.path, predictor.why(case, made)])
            except CompileError as error:
                rows.append([str(case), "no answer", error.text])
        place.finish(tabled(["tile", "path", "why"], rows))


def program_of(shape: tuple, tile: tuple, dtype: str, consumer: str, asked: str) -> None:
    """Show the program that stands for a case. Raises nothing."""
    with at_work("writing", "There is no such program") as place:
        place.finish(paragraph(source(Case(shape, tile, dtype, consumer, asked))))


def _compiled(copy: Callable) -> tuple[Artifact, str]:
    """A copy of SHAPE, and what it printed while it was traced. Raises CompileError."""
    (made,) = compile_sizes(copy, "cute", [SHAPE], "copy")
    return made.artifact, made.printed


def _run(artifact: Artifact, seed: int) -> tuple[Emulation, bool]:
    """One emulated launch, and whether Y came out as X."""
    X = np.random.default_rng(seed).random(SHAPE).astype(np.float16)
    Y = np.zeros_like(X)
    run = emulate(artifact, {"X": X, "Y": Y}, seed, facts=False)
    return run, bool((X == Y).all())
