"""printf of device code: calls of vprintf, with a format and arguments in memory.

CUDA programming guide, "Formatted Output": conversions as C has them, arguments one after the other, each
aligned to its size. PTX calls one function alone here, and its format strings are ``.global`` variables.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np

from course_utils.ptx.parser import WIDTHS, Instr, Sym, Vec
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units.access import read_lanes

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path

LIMIT = 4000  # characters of a launch that are kept
LONGEST = 1024  # characters of one string argument, and the width of a field
_GLOBAL = re.compile(
    r"^\s*(?:\.visible\s+|\.weak\s+)?\.global\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$%]+)"
    r"(?:\[(\d*)\])?(?:\s*=\s*(?:\{([^}]*)\}|([^;{]+)))?\s*;",
    re.M,
)
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")


def constants(ptx: str) -> tuple[np.ndarray, dict[str, int]]:
    """The bytes of a module's ``.global`` variables, and where each begins. What is initialised with anything
    but integers stays zero.
    """
    data, places = bytearray(), dict[str, int]()
    for found in _GLOBAL.finditer(ptx):
        align, kind, name, extent, many, one = found.groups()
        if kind not in WIDTHS:
            continue
        size = max(WIDTHS[kind] // 8, 1)
        values = [v.strip() for v in (many or one or "").split(",")]
        numbers = [int(v) for v in values if re.fullmatch(r"-?\d+", v)]
        data += bytes(-len(data) % max(int(align or 1), size))
        places[name] = len(data)
        told = b"".join((n % (1 << 8 * size)).to_bytes(size, "little") for n in numbers)
        data += told.ljust(size * int(extent or 1), b"\0")
    return np.frombuffer(bytes(data) + bytes(-len(data) % 8), np.uint8).copy(), places


class Printed:
    """What the threads of one launch print: the first characters, and the number of lines left out."""

    def __init__(self, machine: Machine) -> None:
        self.kept: list[str] = []
        self.room, self.left_out = LIMIT, 0

    def add(self, text: str) -> None:
        if len(text) > self.room:
            self.left_out += max(text.count("\n"), 1)
            self.room = 0
        else:
            self.kept.append(text)
            self.room -= len(text)

    def __str__(self) -> str:
        text = "".join(self.kept)
        if not self.left_out:
            return text
        lines = f"... and {self.left_out:,} more line{'s' * (self.left_out > 1)}\n"
        return text + ("\n" if text and not text.endswith("\n") else "") + lines


def call(instruction: Instr) -> Lowered:
    """A call of vprintf(format, arguments), or of what a failed assert of device code calls."""
    *_, name, given = instruction.operands
    called = name.name if isinstance(name, Sym) else ""
    if called == "__assertfail":
        return Lowered("warp", _failed, sources=((given, 64),), cut=True)
    if called != "vprintf" or not isinstance(given, Vec) or len(given.items) != 2:
        raise ValueError("a call of another function than vprintf")

    def function(p: Path, m: Mask, arguments: Value) -> None:
        (texts,), (buffers,) = (read_lanes(p, m, a, "local", 64, 1) for a in arguments)
        lanes, printed = memory.lanes_of(m), p.machine.unit(Printed)
        p.machine.progress += 1
        for i, lane in enumerate(lanes):
            text = string_at(p, memory.pick(texts, lane))
            if not printed.room:  # the rest is only counted
                printed.left_out += max(text.count("\n"), 1) * (len(lanes) - i)
                return
            printed.add(formatted(p, text, memory.pick(buffers, lane), lane))

    return Lowered("warp", function, sources=((given, 64),), cut=True)


def _failed(path: Path, mask: Mask, arguments: Value) -> None:
    """__assertfail(condition, file, line, function, size of a character)."""
    condition, _, line, *_ = arguments
    lane = memory.lanes_of(mask)[0]
    (text,) = read_lanes(path, mask, condition, "local", 64, 1)
    (number,) = read_lanes(path, mask, line, "local", 32, 1)
    told = string_at(path, memory.pick(text, lane))
    path.halt("trap", "assert failed", who=path.warp, line=memory.pick(number, lane), text=told)


def string_at(path: Path, address: int) -> str:
    """The characters at an address up to the 0; a few words where there are none."""
    if not address:
        return "(null)"
    found = path.machine.global_region(address)
    if found is None:
        return "(no string)"
    region, base = found
    data = region.data[address - base : address - base + LONGEST].tobytes()
    return data.partition(b"\0")[0].decode(errors="replace")


def formatted(path: Path, text: str, buffer: int, lane: int) -> str:
    """A format with one lane's arguments put in. Conversions that C does not have stay as they are, arguments
    that no conversion takes are left out, and one that is missing is "?".
    """
    local = path.warp.local_memory()
    size, at = path.warp.local_size, max(buffer - memory.GENERIC_LOCAL, 0) if buffer else -1

    def take(code: str) -> int | float | None:
        nonlocal at
        width = struct.calcsize(code)
        at = -(-at // width) * width
        first, at = lane * size + at, at + width
        if first < 0 or at > size:
            return None
        return struct.unpack("<" + code, local.data[first : first + width].tobytes())[0]

    def star(given: str | None) -> str:
        if given != "*":
            return given or ""
        asked = take("i")
        return "" if asked is None else str(max(min(int(asked), LONGEST), -LONGEST))

    def put(found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        field = star(width)
        if precision is not None:
            field += "." + star(precision)
        field = re.sub(r"\d{5,}", str(LONGEST), field)
        wide = length in ("l", "ll", "j", "z", "t")
        if kind in "eEfFgGaA":
            value = take("d")
            if value is not None and kind in "aA":
                return float(value).hex()
        elif kind in "sp":
            value = take("Q")
        else:
            signed = kind in "di"
            value = take(("q" if signed else "Q") if wide else ("i" if signed else "I"))
        if value is None:
            return "?"
        if kind == "s":
            return f"%{flags}{field}s" % string_at(path, int(value))
        if kind == "p":
            return f"%{flags}{field}s" % f"{int(value):#x}"
        if kind == "c":
            return f"%{flags}{field}c" % chr(int(value) & 0xFF)
        if length in ("h", "hh"):
            bits = 16 if length == "h" else 8
            value = int(value) & (1 << bits) - 1
            value -= (value >> bits - 1 << bits) if kind in "di" else 0
        return f"%{flags}{field}{'d' if kind in 'iu' else kind}" % value

    return _CONVERSION.sub(put, text)
