"""PTX text to instructions: one kernel of one module, with its registers numbered and its scopes and labels
resolved.

Follows the PTX ISA, "PTX Machine Model" to "State Spaces, Types, and Variables" and "Instruction Operands".
Read by hand: no package that is kept up reads PTX as Hopper has it, and ptxas says nothing of what it read.
Whatever ptxas accepts can be read here. What has no meaning here yet is kept as text and named in
``Kernel.unmodelled``, so that a kernel which the emulator refuses still has its receipt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

# fmt: off
WIDTHS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32,
    "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64,
    "b128": 128,
}
# fmt: on
# a string may hold what looks like a comment
_SKIPPED = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_DECLARED = re.compile(r"\.(reg|shared|local|param)\b((?:\s*\.\w+(?:\s+\d+)?)*)\s+(.*)", re.DOTALL)
_SHARED = re.compile(r"^[ \t]*(?:\.(?:extern|visible|weak)\s+)*(\.shared\s[^;]*);", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")
_FUNCTION = re.compile(
    r"\.func\b\s*(?:\.attribute\s*\([^{;]*?\)\s*\)?\s*)?(?:\([^)]*\)\s*)?([\w$%]+)[^{;]*\{"
)
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_STATEMENT = re.compile(r"(?:@\s*(!?)\s*([%$\w]+)\s+)?([a-z][\w.:]*)\s*(.*)")
# "bulk_group .L2::cache_hint [...]": NVCC sets a blank there
_MORE_OPCODE = re.compile(r"(\.[\w:.]+)\s+(.*)")
_ADDRESS = re.compile(r"([^+\-]+|-\d+)\s*([+\-]\s*[+\-]?\w+)?$")
_INTEGER = re.compile(r"-?\d+U?|-?0[xX][0-9a-fA-F]+U?|-?0[bB][01]+U?")
_OCTAL = re.compile(r"-?0\d+U?")
_FLOAT = re.compile(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}")
_SYMBOL = re.compile(r"([%$\w.]+)(?:\+(\d+))?")
_SPECIAL = re.compile(r"%[a-z_]\w*(\.[xyzw])?")
_NOT_READ = (".pragma", ".branchtargets", ".calltargets", ".callprototype", ".alias")
# What a part that is missing or malformed raises while it is read.
_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class PtxError(ValueError):
    """The PTX is malformed, or asks for something that the emulator does not model.

    The text names the line.
    """


@dataclass(frozen=True, slots=True)
class Reg:
    index: int
    width: int


@dataclass(frozen=True, slots=True)
class Imm:
    """An integer, or the bits of a float where ``is_float`` (of ``width`` bits)."""

    value: int
    is_float: bool = False
    width: int = 0


@dataclass(frozen=True, slots=True)
class Sym:
    """The address of a variable, a parameter, a function or a special register (its name begins with %)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """``{a, b}``, ``a|b``, or the arguments ``(a, b)`` of a call."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Mem:
    """``[base + offset]``, or a tensor operand ``[map, {coordinates}]``."""

    base: Any
    offset: int = 0
    coordinates: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    item: Reg


@dataclass(slots=True)
class Instr:
    """One instruction. ``opcode`` is split at the dots; ``guard`` is (register, negated) or None.

    ``operands`` are Reg, Imm, Sym, Vec, Mem, Not, or None for ``_``; a branch has none.
    """

    opcode: tuple[str, ...]
    operands: tuple[Any, ...]
    guard: tuple[Reg, bool] | None
    line: int
    text: str
    source: tuple[int, int] | None  # (file, line) in the author's code, from .loc
    target: int = -1  # of a branch: index of the instruction branched to

    @property
    def name(self) -> str:
        return ".".join(self.opcode)


@dataclass(slots=True)
class Variable:
    name: str
    space: str
    align: int
    size: int  # bytes; -1 where the launch decides (extern)


@dataclass(slots=True)
class Kernel:
    name: str
    parameters: list[Variable]
    variables: list[Variable]
    instructions: list[Instr]
    widths: list[int]  # of each register, by index
    register_names: list[str]
    files: dict[int, str] = field(default_factory=dict)
    functions: list[list[Instr]] = field(default_factory=list)  # that it may call; registers of their own
    unmodelled: list[str] = field(default_factory=list)  # a sentence, with its line, for what was not read


_PARTS = ("x", "y", "z", "w")  # of a vector register


class _Scope:
    """What is declared between two braces; a name that is not looked for in the braces around them."""

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        self.around: tuple[_Scope, ...] = (self, *parent.around) if parent else (self,)
        self.registers: dict[str, int] = {}  # name: width
        self.ranges: dict[str, tuple[int, int]] = {}  # stem of "%r<8>": width, count
        self.vectors: dict[str, int] = {}  # name of a .v2 or .v4, whose parts are registers: how many
        self.numbers: dict[str, int] = {}  # register: its index, once it has been used
        self.labels: dict[str, int] = {}  # name: index of the instruction that follows

    def register(self, name: str) -> tuple[_Scope, int] | None:
        """Where a register is declared, and its width."""
        stem = name.rstrip("0123456789")
        for scope in self.around:
            if name in scope.registers:
                return scope, scope.registers[name]
            if stem in scope.ranges and name != stem:
                width, count = scope.ranges[stem]
                return (scope, width) if int(name[len(stem) :]) < count else None
        return None

    def vector(self, name: str) -> int:
        """How many registers a name stands for; 0 of one that is no vector's."""
        return next((scope.vectors[name] for scope in self.around if name in scope.vectors), 0)

    def label(self, name: str) -> int | None:
        return next((scope.labels[name] for scope in self.around if name in scope.labels), None)


@lru_cache(maxsize=4)  # a verdict asks for the same kernel several times
def parse(ptx: str, kernel: str = "") -> Kernel:
    """The kernel of this name, or the first one, with the functions of its module. All who ask share it, and
    nobody changes it.

    Raises PtxError where the text is not PTX. What ptxas may accept and the emulator does not know is no
    error: it is in ``unmodelled``.
    """
    text = _bare(ptx)
    name, head, opened = _entry(text, kernel)
    reader = _Reader(text, opened)
    for match in _SHARED.finditer(text, 0, opened):
        reader.variables += _variables(match.group(1), _line(text, match.start()))
    reader.body()
    return Kernel(
        name,
        _parameters(head, _line(text, opened)),
        reader.variables,
        reader.instructions,
        reader.widths,
        reader.names,
        {int(n): path for n, path in re.findall(r'^[ \t]*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.M)},
        _functions(text),
        reader.unmodelled,
    )


def signature(ptx: str, kernel: str = "") -> tuple[str, list[Variable]]:
    """Name and parameters of the kernel that ``parse`` would read; its body is not looked at.

    Raises PtxError.
    """
    text = _bare(ptx)
    name, head, opened = _entry(text, kernel)
    return name, _parameters(head, _line(text, opened))


def entries(ptx: str) -> list[str]:
    """The names of the kernels in a module."""
    return _ENTRY.findall(_bare(ptx))


def _bare(ptx: str) -> str:
    """The text without comments and without what its strings say; the lines keep their numbers."""
    return _SKIPPED.sub(lambda m: '""' if m[0][0] == '"' else "\n" * m[0].count("\n"), ptx)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _entry(text: str, kernel: str) -> tuple[str, str, int]:
    """The kernel's name, what stands between it and the body, and where the body's brace opens."""
    start = next((m for m in _ENTRY.finditer(text) if not kernel or m.group(1) == kernel), None)
    if not start:
        raise PtxError(f"the PTX has no kernel {kernel}" if kernel else "the PTX has no kernel (.entry)")
    opened = text.find("{", start.end())
    if opened < 0:
        raise PtxError(f"the kernel {start.group(1)} has no body")
    return start.group(1), text[start.end() : opened], opened


def _parameters(head: str, line: int) -> list[Variable]:
    brackets = re.search(r"\((.*?)\)", head, re.DOTALL)
    parts = brackets.group(1).split(",") if brackets and brackets.group(1).strip() else []
    return [variable for part in parts for variable in _variables(part.strip(), line)]


def _variables(declaration: str, line: int) -> list[Variable]:
    match = _DECLARED.match(declaration)
    if not match:
        raise PtxError(f"PTX line {line}: a declaration that is not PTX: {declaration[:80]}")
    space, attributes, names = match.groups()
    attributes = attributes.partition(".ptr")[0]  # what follows .ptr is of the memory pointed to
    aligned = re.search(r"\.align\s+(\d+)", attributes)
    kinds = [kind for kind in re.findall(r"\.(\w+)", attributes) if kind in WIDTHS]
    width = WIDTHS[kinds[-1]] if kinds else 8
    found = []
    for name in names.split(","):
        array = re.match(r"\s*([\w$%]+)\s*((?:\[\d*\])*)", name)
        if not array:
            raise PtxError(f"PTX line {line}: a declaration that is not PTX: {declaration[:80]}")
        size = width // 8
        for extent in re.findall(r"\[(\d*)\]", array.group(2)):
            size = size * int(extent) if extent else -1
        align = max(int(aligned.group(1)) if aligned else 1, width // 8)
        found.append(Variable(array.group(1), space, align, size))
    return found


def _functions(text: str) -> list[list[Instr]]:
    """The body of each device function."""
    readers = [_Reader(text, match.end() - 1) for match in _FUNCTION.finditer(text)]
    for reader in readers:
        reader.body()
    return [reader.instructions for reader in readers]


class _Reader:
    """Reads one body, from its opening brace to the one that closes it."""

    def __init__(self, text: str, opened: int) -> None:
        self.text, self.position, self.line = text, opened + 1, _line(text, opened)
        self.variables: list[Variable] = []
        self.instructions: list[Instr] = []
        self.widths: list[int] = []  # of each register, by index
        self.names: list[str] = []
        self.unmodelled: list[str] = []
        self.inlined: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.branches: list[tuple[Instr, str, _Scope]] = []

    def fail(self, why: str) -> NoReturn:
        raise PtxError(f"PTX line {self.line}: {why}")

    def leave(self, why: str) -> None:
        """Note what is PTX, or may be, and means nothing here."""
        self.unmodelled.append(f"PTX line {self.line}: {why}")

    def body(self) -> None:
        for statement, scope, line, location in self.statements():  # every declaration before any operand
            self.line = line
            self.instructions.append(self.instruction(statement, scope, location))
        for instruction, name, scope in self.branches:
            self.line, target = instruction.line, scope.label(name)
            if target is None:
                self.fail(f"there is no label {name}")
            if target == len(self.instructions):
                self.leave(f"no instruction follows the label {name}")
            instruction.target = target

    def statements(self) -> list[tuple[str, _Scope, int, tuple[int, int] | None]]:
        """The instructions' texts, each with its scope, its line and its place in the author's code."""
        text, position = self.text, self.position
        scope = _Scope(None)
        found: list[tuple[str, _Scope, int, tuple[int, int] | None]] = []
        location: tuple[int, int] | None = None
        while True:
            end = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing too
            self.line += text.count("\n", position, end)
            position = end
            if position >= len(text):
                self.fail("the kernel's closing brace is missing")
            if text[position] == "{":
                scope, position = _Scope(scope), position + 1
            elif text[position] == "}":
                if scope.parent is None:
                    return found
                scope, position = scope.parent, position + 1
            elif text.startswith((".loc\t", ".loc ", ".file"), position):
                end = text.find("\n", position)
                end = len(text) if end < 0 else end
                if set(";{}") & set(text[position:end]):  # ptxas would take what follows for code
                    self.fail("something follows a .loc or a .file on its line")
                if not text.startswith(".file", position):
                    location = self.location(text[position:end])
                position = end
            elif label := _LABEL.match(text, position):
                scope.labels[label.group(1)] = len(found)
                position = label.end()
            else:
                end = text.find(";", position)
                if end < 0:
                    self.fail("a statement without its semicolon")
                statement = text[position:end]
                if statement.startswith("."):
                    self.declare(statement, scope)
                else:
                    found.append((statement, scope, self.line, location))
                self.line += statement.count("\n")
                position = end + 1

    def declare(self, statement: str, scope: _Scope) -> None:
        if statement.startswith(".reg"):
            match = re.match(r"\.reg\s*(?:\.v([24])\s*)?\.(\w+)\s+([^.].*)", statement, re.DOTALL)
            if not match or match.group(2) not in WIDTHS:
                return self.leave(f"a register type that is not modelled: {statement.strip()}")
            width = WIDTHS[match.group(2)]
            for name in match.group(3).split(","):
                name = name.strip()
                if match.group(1):
                    scope.vectors[name] = int(match.group(1))
                    scope.registers |= {f"{name}.{part}": width for part in _PARTS[: scope.vectors[name]]}
                elif counted := re.match(r"([\w$%]+)<(\d+)>", name):
                    scope.ranges[counted.group(1)] = (width, int(counted.group(2)))
                else:
                    scope.registers[name] = width
        elif statement.startswith((".shared", ".local", ".param")):
            self.variables += _variables(statement, self.line)
        elif not statement.startswith(_NOT_READ):
            self.leave(f"a directive that is not modelled: {statement.split()[0]}")

    def location(self, text: str) -> tuple[int, int] | None:
        """The author's line: a position in an inlined header is followed out to where it was called from."""
        match = _LOCATION.match(text)
        if not match:
            self.fail(f"not PTX that the emulator can read: {text[:80]}")
        numbers = [int(n) for n in match.groups() if n is not None]
        here = tuple(numbers[:3])
        if len(numbers) > 3:
            self.inlined[here] = tuple(numbers[3:])
        seen = set()
        while here in self.inlined and here not in seen:
            seen.add(here)
            here = self.inlined[here]
        return here[0], here[1]

    def instruction(self, statement: str, scope: _Scope, location: tuple[int, int] | None) -> Instr:
        text = " ".join(statement.split())
        match = _STATEMENT.match(text)
        if not match:
            self.fail(f"not an instruction: {text[:100]}")
        negated, guard, opcode, rest = match.groups()
        if more := _MORE_OPCODE.match(rest):
            opcode, rest = opcode + more.group(1), more.group(2)
        result = Instr(tuple(opcode.split(".")), (), None, self.line, text, location)
        try:
            if guard:
                register = self.value(guard, scope)
                if not isinstance(register, Reg) or register.width != 1:
                    self.fail(f"the guard of `{text[:100]}` is not a predicate")
                result.guard = (register, bool(negated))
            if result.opcode[0] == "bra":
                self.branches.append((result, rest.strip(), scope))
            else:
                result.operands = tuple(self.operand(part, scope) for part in _split(rest))
        except PtxError as error:
            self.unmodelled.append(str(error))
        except _MALFORMED as error:
            self.leave(f"not PTX that the emulator can read ({error})")
        return result

    def operand(self, text: str, scope: _Scope) -> Any:
        if text.startswith("["):
            inner = _split(text[1:-1])
            coordinates: tuple[Any, ...] = ()
            if len(inner) > 1:
                coordinates = (
                    self.operand(inner[1], scope).items
                    if inner[1].startswith("{")
                    else (self.value(inner[1], scope),)
                )
            address = _ADDRESS.match(inner[0].strip())
            if not address:
                self.fail(f"not an address: {text}")
            offset = 0
            if address.group(2):
                offset = int(address.group(2).replace(" ", "").replace("+-", "-"), 0)
            return Mem(self.value(address.group(1).strip(), scope), offset, coordinates)
        if text.startswith(("{", "(")):
            return Vec(tuple(self.operand(part, scope) for part in _split(text[1:-1])))
        if "|" in text:
            return Vec(tuple(self.value(part.strip(), scope) for part in text.split("|")))
        if text.startswith("!"):
            return Not(self.value(text[1:].strip(), scope))
        return self.value(text, scope)

    def value(self, text: str, scope: _Scope) -> Any:
        if text == "_":
            return None
        if _INTEGER.fullmatch(text):
            digits = text.rstrip("U")
            return Imm(int(digits, 8 if _OCTAL.fullmatch(text) else 0))
        if _FLOAT.fullmatch(text):
            return Imm(int(text[2:], 16), True, 32 if text[1] in "fF" else 64)
        if declared := scope.register(text):
            home, width = declared
            if text not in home.numbers:
                home.numbers[text] = len(self.widths)
                self.widths.append(width)
                self.names.append(text)
            return Reg(home.numbers[text], width)
        if count := scope.vector(text):
            return Vec(tuple(self.value(f"{text}.{part}", scope) for part in _PARTS[:count]))
        symbol = _SYMBOL.fullmatch(text)
        if not symbol or (text[0] == "%" and not _SPECIAL.fullmatch(text)):
            self.fail(f"an operand that is not PTX: {text[:80]}")
        return Sym(symbol.group(1), int(symbol.group(2) or 0))


def _split(text: str) -> list[str]:
    """The operands between commas that no bracket holds."""
    parts, depth, begin = [], 0, 0
    if "[" not in text and "{" not in text and "(" not in text:
        return [p.strip() for p in text.split(",")] if text.strip() else []
    for i, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[begin:i].strip())
            begin = i + 1
    if text[begin:].strip():
        parts.append(text[begin:].strip())
    return parts
