"""Mutants of the course's solutions, in PTX and in Python, and what the check says of each.

    python benchmarks/mutants.py --list                       how many there are of each kind
    python benchmarks/mutants.py --sample 150 --seed 0        draw, check, and write build/mutants.json
    python benchmarks/mutants.py --only "wait_group"          of some kinds
    python benchmarks/mutants.py --table build/mutants.json   the table that docs/emulator.md has

A mutant is a solution with one small edit. In PTX an edit goes to the instructions of one opcode that one
line of the author's became: to all of them, or to the first or the last where a loop is unrolled; at every
size alike. In Python it goes to one expression or statement between a solution's markers. Places are found by
opcode and by syntax: no kind knows a solution. A mutant is caught where the check of the step, at its own
sizes and under its own schedules, finds something. One that no compiler takes, or that compiles to the same
PTX, is not counted. ``EQUIVALENT`` says which of the missed ones do what the solution does, and why.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from course_utils.artifact import Artifact  # noqa: E402
from course_utils.compile.errors import CompileError  # noqa: E402
from course_utils.compile.factory import DSLS, compile_sizes  # noqa: E402
from course_utils.compile.load import BEGIN, END, load_factory_source, solution_path  # noqa: E402
from course_utils.grading import steps  # noqa: E402
from course_utils.grading.gemm import judge  # noqa: E402
from course_utils.ptx import added  # noqa: E402
from course_utils.ptx.parser import Instr, PtxError, parse  # noqa: E402
from course_utils.run.backends import Emulator, Launch  # noqa: E402

STEPS = (*list(steps.STEPS)[3:], *steps.TASKS)
SOLUTIONS = [(step, dsl) for step in STEPS for dsl in DSLS]
PYTHON_SHARE = 1 / 3  # of what is drawn
INPUTS = 0  # seed of the inputs, so that a run can be had again

# -- kinds of edits of PTX: opcode, pattern of the statement, what stands there instead

Edit = str | Callable[[re.Match], str]

OPERATIONS = {
    "arrive": r"mbarrier\.arrive\.(?!expect_tx)",
    "arrive.expect_tx": r"mbarrier\.arrive\.expect_tx",
    "expect_tx": r"mbarrier\.expect_tx",
    "mbarrier.init": r"mbarrier\.init",
    "fence.mbarrier_init": r"fence\.mbarrier_init",
    "fence.proxy.async": r"fence\.proxy\.async",
    "wgmma.fence": r"wgmma\.fence",
    "wgmma": r"wgmma\.mma_async",
    "wgmma.commit_group": r"wgmma\.commit_group",
    "wgmma.wait_group": r"wgmma\.wait_group",
    "TMA load": r"cp\.async\.bulk\.tensor\.\w+\.shared",
    "TMA store": r"cp\.(?:reduce\.)?async\.bulk\.tensor\.\w+\.global",
    "bulk.commit_group": r"cp\.async\.bulk\.commit_group",
    "bulk.wait_group": r"cp\.async\.bulk\.wait_group",
    "bar.sync": r"(?:bar|barrier)\.sync",
    "cluster barrier": r"barrier\.cluster",
    "stmatrix": r"stmatrix",
}
WAIT, ELECT, ON_MBARRIER = r"mbarrier\.try_wait", r"elect\.sync", r"mbarrier\.(?:try_wait|arrive|expect_tx)"
LOAD, STORE = OPERATIONS["TMA load"], OPERATIONS["TMA store"]
WGMMA_WAIT, BULK_WAIT = OPERATIONS["wgmma.wait_group"], OPERATIONS["bulk.wait_group"]
INIT, BYTES, BAR = OPERATIONS["mbarrier.init"], r"mbarrier\..*expect_tx", OPERATIONS["bar.sync"]
MOVED = [name for name in OPERATIONS if name != "wgmma"]  # which has a predicate of its own braces
ANY, NUMBER = r"(.*)", r"(.* )(\d+)()"
LAST, PARITY = r"(.*, )([%\w]+)()", r"(.*?\], )([%\w]+)(.*)"
ID, COUNT = r"(.*sync )([%\w]+)(.*)", r"(.*sync [%\w]+, )([%\w]+)()"
FIRST, NEXT, MASK = (
    r"(.*?\{)([%\w]+)(,.*)",
    r"(.*?\{[%\w]+, )([%\w]+)(.*)",
    r"(.*multicast.*\], )([%\w]+)(.*)",
)
ADDRESS = r"(.*? \[[%\w]+)(?:\+(\d+))?\](.*)"
BOUND = r"setp\.\w+\.[sub]\d+"


def other(how: str, bits: int = 32) -> str:
    """Instead of the operand in a pattern's second group, what an operation makes of it."""
    operation, number = how.split()
    typed = f"{operation}.{'s' if operation in ('add', 'sub') else 'b'}{bits}"
    return rf"{{ .reg .b{bits} changed; {typed} changed, \2, {number}; \1changed\3; }}"


def by(amount: int) -> Callable[[re.Match], str]:
    """Instead of the number in a pattern's second group, another one; below 0 there is none."""
    return lambda found: f"{found[1]}{max(0, int(found[2]) + amount)}{found[3]}"


def beyond(amount: int) -> Callable[[re.Match], str]:
    """An address in a pattern's first group, so many bytes beyond the offset in its second."""
    return lambda found: f"{found[1]}+{int(found[2] or 0) + amount}]{found[3]}"


PTX_EDITS: dict[str, dict[str, tuple[str, str, Edit]]] = {
    "an instruction dropped": {
        **{f"{name} dropped": (opcode, ANY, "") for name, opcode in OPERATIONS.items()},
        "mbarrier wait dropped": (WAIT, r".*? ([%\w]+), \[.*", r"setp.eq.u32 \1, 0, 0"),
        "setmaxnreg dropped": (r"setmaxnreg", ANY, ""),
    },
    "an instruction twice": {
        f"{name} twice": (opcode, ANY, r"\1; \1") for name, opcode in OPERATIONS.items()
    },
    "parity and phase": {
        "other parity": (WAIT, PARITY, other("xor 1")),
        "always parity 0": (WAIT, PARITY, other("and 0")),
        "always parity 1": (WAIT, PARITY, other("or 1")),
        "a flip left out": (r"xor\.b32", r"(.*?)xor(\.b32 .*), [%\w]+", r"\1mov\2"),
    },
    "arrivals and bytes": {
        "one arrival more to wait for": (INIT, LAST, other("add 1")),
        "one arrival fewer to wait for": (INIT, LAST, other("sub 1")),
        "bytes halved": (BYTES, LAST, other("shr 1")),
        "bytes doubled": (BYTES, LAST, other("shl 1")),
        "arrival without its bytes": (BYTES, r"(.*arrive)\.expect_tx(.*), [%\w]+", r"\1\2"),
        "all lanes of a warp": (ELECT, r".*?\|([%\w]+), .*", r"setp.eq.u32 \1, 0, 0"),
    },
    "groups in flight": {
        "wgmma.wait_group, one more": (WGMMA_WAIT, NUMBER, by(1)),
        "wgmma.wait_group, one fewer": (WGMMA_WAIT, NUMBER, by(-1)),
        "bulk.wait_group, one more": (BULK_WAIT, NUMBER, by(1)),
        "bulk.wait_group, one fewer": (BULK_WAIT, NUMBER, by(-1)),
        "only reads awaited": (BULK_WAIT, r"(.*wait_group)( .*)", r"\1.read\2"),
    },
    "barriers of threads": {
        "another barrier": (BAR, ID, other("add 1")),
        "a warp more": (BAR, COUNT, other("add 32")),
        "a warp fewer": (BAR, COUNT, other("sub 32")),
    },
    "another mbarrier or stage": {
        "another mbarrier": (ON_MBARRIER, ADDRESS, beyond(8)),
        "another mbarrier of a load": (LOAD, r"(.*\}\], \[[%\w]+)(?:\+(\d+))?\](.*)", beyond(8)),
        "another stage of a load": (LOAD, ADDRESS, beyond(16384)),
        "another place of stmatrix": (OPERATIONS["stmatrix"], ADDRESS, beyond(16)),
    },
    "clusters": {
        "multicast to the first CTA": (LOAD, MASK, other("and 1", 16)),
        "multicast to the second CTA": (LOAD, MASK, other("and 2", 16)),
        "no multicast": (LOAD, r"(.*)\.multicast::cluster(.*\]), [%\w]+(.*)", r"\1\2\3"),
        "an arrival at the other CTA": (r"mapa", LAST, other("xor 1")),
    },
    "coordinates": {
        "coordinates of a load swapped": (LOAD, r"(.*?\{)([%\w]+), ([%\w]+)(.*)", r"\1\3, \2\4"),
        "first coordinate of a load": (LOAD, FIRST, other("add 64")),
        "next coordinate of a load": (LOAD, NEXT, other("add 64")),
        "first coordinate of a store": (STORE, FIRST, other("add 64")),
        "next coordinate of a store": (STORE, NEXT, other("add 64")),
    },
    "bounds": {
        "a bound, one more": (BOUND, r"(.*, )(\d+)()", by(1)),
        "a bound, one fewer": (BOUND, r"(.*, )(\d+)()", by(-1)),
    },
    "registers and proxies": {
        "setmaxnreg, 8 more": (r"setmaxnreg", NUMBER, by(8)),
        "setmaxnreg, 8 fewer": (r"setmaxnreg", NUMBER, by(-8)),
        "a fence of global memory alone": (r"fence\.proxy\.async", r"(fence\.proxy\.async).*", r"\1.global"),
        "a fence of shared memory alone": (
            r"fence\.proxy\.async",
            r"(fence\.proxy\.async)()",
            r"\1.shared::cta",
        ),
    },
    "relaxed forms": {
        "relaxed arrive": (OPERATIONS["arrive"], r"(.*?r\.arrive)(\.shared.*)", r"\1.relaxed.cluster\2"),
        "relaxed wait": (WAIT, r"(.*\.parity)(\.shared.*)", r"\1.relaxed.cluster\2"),
        "relaxed cluster arrive": (
            r"barrier\.cluster\.arrive(?!.*relaxed)",
            r"(.*cluster\.arrive)(?:\.release)?(.*)",
            r"\1.relaxed\2",
        ),
    },
}
IN_PTX = {kind: edit for edits in PTX_EDITS.values() for kind, edit in edits.items()}
MOVES = {f"{name} moved {way}": (name, way) for name in MOVED for way in ("down", "up")}
WHICH = {"all": slice(None), "first": slice(1), "last": slice(-1, None)}
BRANCHES = ("bra", "ret", "exit", "call")

# -- and of Python

COMPARED = {"Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "=="}
COMPUTED = {
    **{"Add": "-", "Sub": "+", "Mult": "+", "FloorDiv": "%", "Mod": "//"},
    **{"BitAnd": "|", "BitOr": "&", "BitXor": "&"},
}
PYTHON_KINDS = (
    *("statement dropped", "statement twice", "statements swapped", "a number, one more"),
    *("a number, one fewer", "a comparison", "an operator", "another name", "a condition always holds"),
)

# Missed mutants that do what their solution does: a pattern of their text, and why. First kinds that are
# equivalent wherever they are missed.
EQUIVALENT = {
    r": (\S*fence\S*|bar\.sync|cluster barrier|\S*wait_group) twice": "the second finds nothing left to do",
    r": only reads awaited": "the kernel's end waits for the writes",
    r": setmaxnreg, 8 (more|fewer)": "the launch gave as many, and ptxas keeps within them",
    # and places
    r"step(07|11) tilelang .*: bar\.sync moved up": "all threads fence, and the one that stores after it",
    r"task08b tilelang .*: bar\.sync moved up": "the warp that fences its inits also issues the loads",
    r"step05 tilelang .*: fence\.mbarrier_init moved": "the warp that fences its inits also issues the loads",
    r"(step10|task08a) cute .*: mbarrier\.init moved": "it passes another init of the same thread",
    r"step05 tilelang .*: arrive\.expect_tx moved": "no phase ends without this arrival",
    r"task08b tilelang .*: setmaxnreg dropped": "registers that nobody needs",
    r"step09 tilelang .*: an arrival at the other": "two lanes tell two CTAs: they change places",
    r"step11 cute .*: wgmma\.wait_group dropped: .*\(first\)": "the one group at k = 0 may fly on",
    r"step06 tilelang .*: wgmma\.wait_group moved down": "one warp's wait is for the group of its warpgroup",
    r"step06 tilelang .*: bar\.sync dropped": "the compiler's: the author's barrier after the wait does",
    r"step04 tilelang .*: wgmma twice: .*\(first\)": "it overwrites: the first of the first K tile",
    r"step05 tilelang .*: TMA store moved down: .*\(first\)": "it passes the other store, before the commit",
    r"tilelang .*: a number, one more: 128 -> 129": "shuffle_elect counts whole warps",
    r"step09 cute .*: a number, one more: 1 -> 2": "other lanes arrive, as many at each CTA",
    r"step10 cute .*: statements swapped: free\.advance": "the two statements have nothing in common",
}


@dataclass(frozen=True)
class Mutant:
    """One edit. In PTX ``what`` is an opcode, and ``instead`` which of its instructions on the author's line;
    in Python they are texts, and ``span`` is where the first stands: line and column, twice.
    """

    step: str
    dsl: str
    kind: str
    line: int
    what: str
    instead: str
    span: tuple[int, int, int, int] | None = None

    @property
    def group(self) -> str:
        if self.span:
            return "Python"
        found = [group for group, edits in PTX_EDITS.items() if self.kind in edits]
        return found[0] if found else "an instruction moved"

    def __str__(self) -> str:
        place = f"{self.what} -> {self.instead}" if self.span else f"{self.what} ({self.instead})"
        return f"{self.step} {self.dsl} line {self.line}: {self.kind}: {' '.join(place.split())}"


class NoMutant(Exception):
    """There is nothing to edit here, or no compiler takes what comes of it, or it is the same program."""


# -- mutants of PTX


def of_line(artifact: Artifact) -> dict[tuple[int, str], list[int]]:
    """The indices of instructions, by the author's line (0 where nobody knows it) and the opcode."""
    found: dict[tuple[int, str], list[int]] = {}
    for index, (instruction, origin) in enumerate(added.authors(artifact)):
        found.setdefault((origin.line if origin else 0, instruction.name), []).append(index)
    return found


def ptx_mutants(step: str, dsl: str, artifact: Artifact) -> Iterator[Mutant]:
    kernel = parse(artifact.ptx, artifact.kernel)
    for (line, opcode), indices in of_line(artifact).items():
        first = kernel.instructions[indices[0]]
        kinds = [kind for kind in IN_PTX if after(first, kind) is not None]
        kinds += [kind for kind, (name, _) in MOVES.items() if re.match(OPERATIONS[name], opcode)]
        for kind in kinds:
            for which in WHICH if len(indices) > 1 else ("all",):
                yield Mutant(step, dsl, kind, line, opcode, which)


def after(instruction: Instr, kind: str) -> str | None:
    """The statement after an edit of this kind; None where it has nothing to edit."""
    opcode, pattern, instead = IN_PTX[kind]
    if not re.match(opcode, instruction.name) or not (found := re.fullmatch(pattern, instruction.text)):
        return None
    made = instead(found) if callable(instead) else found.expand(instead)
    return None if made == instruction.text else made and made + ";" * (not made.endswith("}"))


def mutated(artifact: Artifact, mutant: Mutant) -> Artifact:
    """The Artifact with other PTX; as it is where this size has no such instruction. Raises NoMutant."""
    instructions = parse(artifact.ptx, artifact.kernel).instructions
    indices = of_line(artifact).get((mutant.line, mutant.what), [])[WHICH[mutant.instead]]
    starts = [0, *(found.end() for found in re.finditer("\n", artifact.ptx))]

    def span(index: int) -> tuple[int, int]:
        instruction = instructions[index]
        text = r"\s+".join(map(re.escape, instruction.text.split()))
        found = re.compile(text + r"\s*;").search(artifact.ptx, starts[instruction.line - 1])
        assert found
        return found.span()

    edits: list[tuple[int, int, str]] = []
    for index in indices:
        if mutant.kind in MOVES:
            (begin, end), there = span(index), span(neighbour(instructions, index, MOVES[mutant.kind][1]))
            edits += [(begin, end, ""), (there[1], there[1], artifact.ptx[begin:end])]
            if there < (begin, end):
                edits[-1] = (there[0], there[0], artifact.ptx[begin:end])
        elif (instead := after(instructions[index], mutant.kind)) is not None:
            edits.append((*span(index), instead))
    ptx = artifact.ptx
    for begin, end, instead in sorted(edits, reverse=True):
        ptx = ptx[:begin] + instead + ptx[end:]
    return replace(artifact, ptx=ptx)


def neighbour(instructions: Sequence[Instr], index: int, way: str) -> int:
    """The next instruction of ``OPERATIONS`` that runs after this one, or before it, whatever branches do.

    Raises NoMutant.
    """
    targets = {one.target for one in instructions}
    rest = range(index + 1, len(instructions)) if way == "down" else range(index - 1, -1, -1)
    for n in rest:
        label = n if way == "down" else n + 1
        if label in targets or instructions[n].opcode[0] in BRANCHES:
            break
        if any(re.match(OPERATIONS[name], instructions[n].name) for name in MOVED):
            return n
    raise NoMutant("it has no neighbour to pass")


# -- mutants of Python


def python_mutants(step: str, dsl: str) -> Iterator[Mutant]:
    source = solution_path(step, dsl).read_text()
    lines = source.split("\n")
    open_at = [n for n, line in enumerate(lines, 1) if line.strip().startswith(BEGIN)]
    shut_at = [n for n, line in enumerate(lines, 1) if line.strip().startswith(END)]
    inside = {n for begin, end in zip(open_at, shut_at, strict=True) for n in range(begin, end)}
    for node in ast.walk(ast.parse(source)):
        for kind, what, instead in edits_of(node, inside):
            span = (what.lineno, what.col_offset, what.end_lineno or 0, what.end_col_offset or 0)
            if what.lineno in inside:
                yield Mutant(step, dsl, kind, span[0], text_at(lines, span), instead, span)


def edits_of(node: ast.AST, inside: set[int]) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """(kind, the node to replace, what stands there instead)."""
    for body in [getattr(node, name, None) for name in ("body", "orelse")]:
        for first, second in zip(body, body[1:], strict=False) if isinstance(body, list) else ():
            if first.lineno in inside and not {type(first), type(second)} & {ast.FunctionDef, ast.Return}:
                both = ast.Expr(first)
                ast.copy_location(both, first)
                both.end_lineno, both.end_col_offset = second.end_lineno, second.end_col_offset
                between = "\n" + " " * first.col_offset
                indented = [ast.unparse(one).replace("\n", between) for one in (second, first)]
                yield "statements swapped", both, between.join(indented)
    match node:
        case ast.Expr(value=ast.Call()):
            yield "statement dropped", node, "pass"
            yield "statement twice", node, f"{ast.unparse(node)}; {ast.unparse(node)}"
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names_in(value):
            yield "statement dropped", node, "pass"
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield "a number, one more", node, str(number + 1)
            yield "a number, one fewer", node, str(number - 1)
        case ast.Compare(left=left, ops=[how], comparators=[right]) if type(how).__name__ in COMPARED:
            instead = COMPARED[type(how).__name__]
            yield "a comparison", node, f"({ast.unparse(left)} {instead} {ast.unparse(right)})"
        case ast.BinOp(left=left, op=how, right=right) if type(how).__name__ in COMPUTED:
            instead = COMPUTED[type(how).__name__]
            yield "an operator", node, f"({ast.unparse(left)} {instead} {ast.unparse(right)})"
        case ast.If(test=test):
            yield "a condition always holds", test, "True"
        case ast.Call(args=args):
            names = [one for one in args if isinstance(one, ast.Name | ast.Subscript)]
            for one, instead in [(a, b) for a in names for b in names if ast.unparse(a) != ast.unparse(b)]:
                yield "another name", one, ast.unparse(instead)


def names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def text_at(lines: Sequence[str], span: tuple[int, int, int, int]) -> str:
    first, begin, last, end = span
    whole = [line.encode() for line in lines[first - 1 : last]]
    whole[-1] = whole[-1][:end]
    whole[0] = whole[0][begin:]
    return b"\n".join(whole).decode()


def source_of(mutant: Mutant) -> str:
    """The solution's file after an edit of its Python."""
    assert mutant.span
    first, begin, last, end = mutant.span
    lines = solution_path(mutant.step, mutant.dsl).read_text().encode().split(b"\n")
    made = lines[first - 1][:begin] + mutant.instead.encode() + lines[last - 1][end:]
    return b"\n".join([*lines[: first - 1], made, *lines[last:]]).decode()


# -- the check


def compiled(step: str, dsl: str, source: str) -> list[Launch]:
    """What the check of a step emulates, in its order, with all CTAs first. Raises NoMutant."""
    row = steps.find(step)
    plan = sorted(row.emulated, key=lambda run: (run[1] is not None, -run[0][0] * run[0][1]))
    try:
        factory = load_factory_source(source, f"{dsl} {step}", steps.function_of(step))
        made = [one.artifact for one in compile_sizes(factory, dsl, [size for size, _ in plan], row.problem)]
    except CompileError as error:
        raise NoMutant(f"does not compile: {error}") from error
    return [
        Launch(size, artifact, row.problem, ctas, size == row.emulated[0][0])
        for (size, ctas), artifact in zip(plan, made, strict=True)
    ]


@cache
def solution(step: str, dsl: str) -> list[Launch]:
    return compiled(step, dsl, solution_path(step, dsl).read_text())


def launches(mutant: Mutant) -> list[Launch]:
    """What its check emulates. Raises NoMutant."""
    right = solution(mutant.step, mutant.dsl)
    if mutant.span:
        found = compiled(mutant.step, mutant.dsl, source_of(mutant))
    else:
        found = [replace(one, artifact=mutated(one.artifact, mutant)) for one in right]
    if all(statements(a.artifact) == statements(b.artifact) for a, b in zip(found, right, strict=True)):
        raise NoMutant("it compiles to the same PTX")
    return found


def statements(artifact: Artifact) -> list[str]:
    return [instruction.text for instruction in parse(artifact.ptx, artifact.kernel).instructions]


def check(mutant: Mutant) -> tuple[str, str]:
    """(how the check catches it, what it says); "missed" where it does not. Raises NoMutant."""
    row, machine, answered = steps.find(mutant.step), Emulator(seed=INPUTS), []
    for launch in launches(mutant):
        answer = machine.ask(launch)
        answered.append((launch, answer))
        size = " x ".join(map(str, launch.size))
        if answer.error == "not_run" and answer.finished:
            raise NoMutant(answer.detail)
        if answer.findings:
            return "finding", f"{answer.findings[0]['text']} (at {size}, schedule {answer.schedule})"
        if not answer.ok:
            return "numbers" if answer.finished else "no end", f"{answer.wrong} wrong at {size}"
    verdict = judge(row, mutant.dsl, machine, answered)
    failed = [part for part in verdict.checks if part.passed is False]
    return ("requirement", verdict.diagnosis) if failed else ("missed", "")


# -- what is drawn, and the report


@cache
def mutants(step: str, dsl: str) -> dict[str, list[Mutant]]:
    """All mutants of a solution, by kind."""
    found: dict[str, list[Mutant]] = {}
    first = steps.find(step).emulated[0][0]
    artifact = next(one.artifact for one in solution(step, dsl) if one.size == first)
    for mutant in [*ptx_mutants(step, dsl, artifact), *python_mutants(step, dsl)]:
        found.setdefault(mutant.kind, []).append(mutant)
    return found


def drawn(seed: int, only: str = "") -> Iterator[Mutant]:
    """Mutants without end, none twice: any solution, Python once in three times, any kind that it has."""
    draws, seen = random.Random(seed), set[Mutant]()
    while True:
        in_python, of_solution = draws.random() < PYTHON_SHARE, mutants(*draws.choice(SOLUTIONS))
        kinds = {kind: of for kind, of in of_solution.items() if only in kind}
        kinds = {kind: of for kind, of in kinds.items() if (kind in PYTHON_KINDS) == in_python}
        if kinds and (mutant := draws.choice(kinds[draws.choice(sorted(kinds))])) not in seen:
            seen.add(mutant)
            yield mutant


def reason(row: dict) -> str:
    """Why a missed mutant does what its solution does; "" where nobody has said so."""
    text = str(Mutant(**row["mutant"]))
    return next((why for pattern, why in EQUIVALENT.items() if re.search(pattern, text)), "")


def table(rows: Sequence[dict]) -> str:
    """Markdown: for each group how many were drawn, caught, and missed, with those that are equivalent."""
    found: dict[str, Counter] = {}
    for row in rows:
        how = "equivalent" if row["how"] == "missed" and reason(row) else row["how"]
        found.setdefault(Mutant(**row["mutant"]).group, Counter())[how] += 1
    heads = "mutants", "by a finding", "by numbers", "by what is missing", "equivalent", "missed"
    text = [f"| what was changed | {' | '.join(heads)} |", "|---" * 7 + "|"]
    for group in (*[g for g in (*PTX_EDITS, "an instruction moved", "Python") if g in found], "all"):
        counts = sum(found.values(), Counter()) if group == "all" else found[group]
        of = counts["finding"] + counts["no end"], counts["numbers"], counts["requirement"]
        cells = (group, counts.total(), *of, counts["equivalent"], counts["missed"])
        text.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="count the mutants of each kind, run nothing")
    parser.add_argument("--table", type=Path, help="print the table of a report, run nothing")
    parser.add_argument("--sample", type=int, default=150, help="mutants to check")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--only", default="", metavar="TEXT", help="kinds whose name holds this text")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.json")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(arguments.table.read_text())["rows"]))
        return 0
    if arguments.list:
        counts = Counter[str]()
        for one in SOLUTIONS:
            counts.update({kind: len(of) for kind, of in mutants(*one).items() if arguments.only in kind})
        print(*(f"{count:6}  {kind}" for kind, count in counts.most_common()), sep="\n")
        return 0
    rows: list[dict] = []
    draws = drawn(arguments.seed, arguments.only)
    while len(rows) < arguments.sample:
        mutant, start = next(draws), time.monotonic()
        try:
            how, says = check(mutant)
        except (NoMutant, PtxError) as error:
            print(f"{'not counted':11}  {mutant}  ({' '.join(str(error).split())[:80]})", flush=True)
            continue
        seconds = round(time.monotonic() - start, 1)
        rows.append({"mutant": asdict(mutant), "how": how, "says": says, "seconds": seconds})
        why = reason(rows[-1]) if how == "missed" else says
        print(f"{how:11}  {mutant}  {' '.join(why.split())[:120]}  ({seconds} s)", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"seed": arguments.seed, "rows": rows}, indent=1) + "\n")
    print("\n" + table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
