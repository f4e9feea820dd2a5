"""PTX text to instructions: one kernel of one module, with its registers numbered and its scopes and labels
resolved.

Follows the PTX ISA, "PTX Machine Model" to "State Spaces, Types, and Variables" and "Instruction Operands".
Only the entry's own body is read; functions that it would call are not modelled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

WIDTHS = {
    "pred": 1,
    "b8": 8,
    "u8": 8,
    "s8": 8,
    "b16": 16,
    "u16": 16,
    "s16": 16,
    "f16": 16,
    "bf16": 16,
    "b32": 32,
    "u32": 32,
    "s32": 32,
    "f32": 32,
    "f16x2": 32,
    "bf16x2": 32,
    "b64": 64,
    "u64": 64,
    "s64": 64,
    "f64": 64,
    "b128": 128,
}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"[%$\w.]+")
_DECLARED = re.compile(r"\.(reg|shared|local|param)\b((?:\s*\.\w+(?:\s+\d+)?)*)\s+(.*)", re.DOTALL)


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
    """The address of a variable, a parameter or a special register (its name begins with %)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    items: tuple


@dataclass(frozen=True, slots=True)
class Mem:
    """``[base + offset]``, or a tensor operand ``[map, {coordinates}]``."""

    base: object
    offset: int = 0
    coordinates: tuple = ()


@dataclass(frozen=True, slots=True)
class Not:
    item: Reg


@dataclass(slots=True)
class Instr:
    """One instruction. ``opcode`` is split at the dots; ``guard`` is (register, negated) or None."""

    opcode: tuple[str, ...]
    operands: tuple
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


class _Scope:
    def __init__(self, parent):
        self.parent, self.registers, self.ranges, self.labels = parent, {}, {}, {}

    def register(self, name):
        scope = self
        while scope:
            if name in scope.registers:
                return scope.registers[name]
            stem = name.rstrip("0123456789")
            if stem in scope.ranges and name != stem:
                width, count = scope.ranges[stem]
                return (name, width, scope) if int(name[len(stem) :]) < count else None
            scope = scope.parent
        return None

    def label(self, name):
        scope = self
        while scope:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None


def parse(ptx: str, kernel: str = "") -> Kernel:
    """The kernel of this name, or the only one.

    Raises PtxError where the text is not PTX that the emulator knows.
    """
    text = _COMMENT.sub(lambda m: "\n" * m.group(0).count("\n"), ptx)
    entries = list(re.finditer(r"\.entry\s+([\w$%]+)", text))
    chosen = [m for m in entries if not kernel or m.group(1) == kernel]
    if not chosen:
        raise PtxError(f"the PTX has no kernel {kernel}" if kernel else "the PTX has no kernel (.entry)")
    start = chosen[0]
    opened = text.find("{", start.end())
    if opened < 0:
        raise PtxError(f"the kernel {start.group(1)} has no body")
    reader = _Reader(text, text.count("\n", 0, opened) + 1)
    try:
        return _read(reader, text, ptx, start, opened)
    except (
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:  # a part that is missing or malformed
        if isinstance(error, PtxError):
            raise
        raise PtxError(f"PTX line {reader.line}: not PTX that the emulator can read ({error})") from error


def _read(reader, text, ptx, start, opened) -> Kernel:
    head = text[start.end() : opened]
    brackets = re.search(r"\((.*?)\)", head, re.DOTALL)
    parameters = [
        v
        for part in (brackets.group(1).split(",") if brackets and brackets.group(1).strip() else [])
        for v in reader.variables(part.strip())
    ]
    for match in re.finditer(
        r"^[ \t]*(?:\.(?:extern|visible|weak)\s+)*(\.shared\s[^;]*);", text[: start.start()], re.M
    ):
        reader.kernel_variables += reader.variables(match.group(1))
    reader.body(opened + 1)
    files = {int(n): name for n, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.M)}
    return Kernel(
        start.group(1),
        parameters,
        reader.kernel_variables,
        reader.instructions,
        reader.widths,
        reader.names,
        files,
    )


class _Reader:
    def __init__(self, text, line):
        self.text, self.line = text, line
        self.kernel_variables, self.instructions, self.widths, self.names = [], [], [], []
        self.numbers, self.inlined = {}, {}
        self.branches = []

    def fail(self, why):
        raise PtxError(f"PTX line {self.line}: {why}")

    def variables(self, declaration):
        match = _DECLARED.match(declaration)
        if not match:
            self.fail(f"a declaration that is not PTX: {declaration[:80]}")
        space, attributes, names = match.groups()
        align = int((re.search(r"\.align\s+(\d+)", attributes) or [0, 1])[1])
        kinds = [w for w in re.findall(r"\.(\w+)", attributes) if w in WIDTHS]
        width = WIDTHS[kinds[-1]] if kinds else 8
        found = []
        for name in names.split(","):
            array = re.match(r"\s*([\w$%]+)\s*((?:\[\d*\])*)", name)
            extents = re.findall(r"\[(\d*)\]", array.group(2))
            size = width // 8
            for extent in extents:
                size = -1 if not extent else size * int(extent)
            found.append(Variable(array.group(1), space, max(align, width // 8), size))
        return found

    def body(self, position):
        """Statements up to the brace that closes the kernel."""
        text, scope, pending, location = self.text, _Scope(None), [], None
        while True:
            space = re.compile(r"\s*").match(text, position)
            self.line += text.count("\n", position, space.end())
            position = space.end()
            if position >= len(text):
                self.fail("the kernel's closing brace is missing")
            if text[position] == "{":
                scope, position = _Scope(scope), position + 1
            elif text[position] == "}":
                scope, position = scope.parent, position + 1
                if scope is None:
                    break
            elif text.startswith((".loc\t", ".loc ", ".file"), position):
                end = text.index("\n", position)
                if not text.startswith(".file", position):
                    location = self.location(text[position:end])
                position = end
            elif label := re.compile(r"([\w$%]+)\s*:(?!:)").match(text, position):
                scope.labels[label.group(1)] = len(pending)
                position = label.end()
            else:
                end = text.find(";", position)
                if end < 0:
                    self.fail("a statement without its semicolon")
                statement = text[position:end]
                if statement.startswith("."):
                    self.declare(statement, scope)
                else:
                    pending.append((statement, scope, self.line, location))
                self.line += statement.count("\n")
                position = end + 1
        for statement, scope, self.line, location in pending:
            self.instructions.append(self.instruction(statement, scope, location))
        for instruction, name, scope in self.branches:
            self.line, target = instruction.line, scope.label(name)
            if target is None:
                self.fail(f"there is no label {name}")
            if target == len(self.instructions):
                self.fail(f"no instruction follows the label {name}")
            instruction.target = target

    def declare(self, statement, scope):
        if statement.startswith(".reg"):
            match = re.match(r"\.reg\s+\.(\w+)\s+(.*)", statement, re.DOTALL)
            if not match or match.group(1) not in WIDTHS:
                self.fail(f"a register type that is not modelled: {statement.strip()}")
            width = WIDTHS[match.group(1)]
            for name in match.group(2).split(","):
                name = name.strip()
                if counted := re.match(r"([\w$%]+)<(\d+)>", name):
                    scope.ranges[counted.group(1)] = (width, int(counted.group(2)))
                else:
                    scope.registers[name] = (name, width, scope)
        elif statement.startswith((".shared", ".local", ".param")):
            self.kernel_variables += self.variables(statement)
        elif not statement.startswith((".pragma", ".branchtargets", ".alias")):
            self.fail(f"a directive that is not modelled: {statement.split()[0]}")

    def location(self, text):
        """The author's line: a position in an inlined header is followed out to where it was called from."""
        match = re.match(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?", text)
        here = tuple(int(n) for n in match.groups()[:3])
        if match.group(4):
            self.inlined[here] = tuple(int(n) for n in match.groups()[3:])
        seen = set()
        while here in self.inlined and here not in seen:
            seen.add(here)
            here = self.inlined[here]
        return here[:2]

    def instruction(self, statement, scope, location):
        text = " ".join(statement.split())
        match = re.match(r"(?:@(!?)([%$\w]+)\s+)?([a-z][\w.:]*)\s*(.*)", text)
        if not match:
            self.fail(f"not an instruction: {text[:100]}")
        negated, guard, opcode, rest = match.groups()
        if extra := re.match(
            r"(\.[\w:.]+)\s+(.*)", rest
        ):  # "bulk_group .L2::cache_hint [...]": NVCC sets a blank there
            opcode, rest = opcode + extra.group(1), extra.group(2)
        if guard:
            guard = (self.value(guard, scope), bool(negated))
            if not isinstance(guard[0], Reg) or guard[0].width != 1:
                self.fail(f"the guard of `{text[:100]}` is not a predicate")
        result = Instr(
            tuple(opcode.replace("::", "__").split(".")), (), guard or None, self.line, text, location
        )
        result.opcode = tuple(part.replace("__", "::") for part in result.opcode)
        if result.opcode[0] == "bra":
            self.branches.append((result, rest.strip(), scope))
        elif result.opcode[0] in ("call", "brx"):
            self.fail(f"`{result.opcode[0]}` is not modelled: {text[:120]}")
        else:
            result.operands = tuple(self.operand(part, scope) for part in _split(rest))
        return result

    def operand(self, text, scope):
        if text.startswith("["):
            inner = _split(text[1:-1])
            coordinates = ()
            if len(inner) > 1:
                coordinates = (
                    self.operand(inner[1], scope).items
                    if inner[1].startswith("{")
                    else (self.value(inner[1], scope),)
                )
            address = re.match(r"([^+\-]+|-\d+)\s*([+\-]\s*[+\-]?\w+)?$", inner[0].strip())
            if not address:
                self.fail(f"not an address: {text}")
            offset = 0
            if address.group(2):
                compact = address.group(2).replace(" ", "").replace("+-", "-")
                offset = int(compact, 0)
            return Mem(self.value(address.group(1).strip(), scope), offset, coordinates)
        if text.startswith("{"):
            return Vec(tuple(self.operand(part, scope) for part in _split(text[1:-1])))
        if "|" in text:
            return Vec(tuple(self.value(part.strip(), scope) for part in text.split("|")))
        if text.startswith("!"):
            return Not(self.value(text[1:].strip(), scope))
        return self.value(text, scope)

    def value(self, text, scope):
        if text == "_":
            return None
        if re.fullmatch(r"-?\d+U?|-?0[xX][0-9a-fA-F]+U?|-?0[bB][01]+U?", text):
            return Imm(
                int(text.rstrip("U"), 0) if not re.fullmatch(r"-?0\d+U?", text) else int(text.rstrip("U"), 8)
            )
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}", text):
            return Imm(int(text[2:], 16), True, 32 if text[1] in "fF" else 64)
        declared = scope.register(text)
        if declared:
            name, width, home = declared
            key = (id(home), name)
            if key not in self.numbers:
                self.numbers[key] = len(self.widths)
                self.widths.append(width)
                self.names.append(name)
            return Reg(self.numbers[key], width)
        symbol = re.fullmatch(r"([%$\w.]+)(?:\+(\d+))?", text)
        if not symbol or (text[0] == "%" and not re.fullmatch(r"%[a-z_]\w*(\.[xyzw])?", text)):
            self.fail(f"an operand that is not PTX: {text[:80]}")
        return Sym(symbol.group(1), int(symbol.group(2) or 0))


def _split(text):
    """The operands between commas that no bracket holds."""
    parts, depth, begin = [], 0, 0
    if "[" not in text and "{" not in text:
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
