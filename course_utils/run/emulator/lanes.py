"""Instructions of a warp's own lanes: loads and stores, atomics, shuffles, votes, elect, ldmatrix and
stmatrix.

PTX ISA, "Data Movement and Conversion Instructions", "Parallel Synchronization and Communication
Instructions", "Warp-level matrix load/store".
"""

from __future__ import annotations

import numpy as np

from course_utils.ptx.parser import Vec
from course_utils.run.emulator import memory
from course_utils.run.emulator.arithmetic import LANES, UNSIGNED, split_type, to_signed, vector, widen
from course_utils.run.emulator.floats import float_loader, round_to

_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "const")
_BIT = np.uint32(1) << np.arange(LANES, dtype=np.uint32)


def _space(opcode):
    found = next((p for p in opcode if p.partition("::")[0] in ("param",) or p in _SPACES), "generic")
    return "param" if found.startswith("param") else "global" if found == "const" else found


def _shape(instruction):
    """(space, kind, bits, vector length, checked) of a load or store."""
    kind, bits = split_type(instruction.opcode[-1])
    length = next((int(p[1:]) for p in instruction.opcode if p in ("v2", "v4", "v8")), 1)
    synchronising = any(
        p in ("volatile", "acquire", "release", "relaxed", "mmio") for p in instruction.opcode
    )
    return _space(instruction.opcode), kind, bits, length, not synchronising


def load(instruction):
    space, kind, bits, length, checked = _shape(instruction)
    target, address = instruction.operands
    targets = target.items if isinstance(target, Vec) else (target,)
    if len(targets) != length:
        raise ValueError("a vector of another length than the opcode says")
    wide = [t.width if t else bits for t in targets]
    extend = any(w > bits for w in wide)

    def function(p, m, a):
        values = memory.load(p, m, a, space, bits, length, checked)
        if extend:
            values = [widen(v, kind, bits, w) for v, w in zip(values, wide, strict=True)]
        return values if length > 1 else values[0]

    return {
        "kind": "warp",
        "function": function,
        "targets": targets,
        "sources": ((address, 64),),
        "unpack": length > 1,
        "cut": not checked,
    }


def store(instruction):
    space, kind, bits, length, checked = _shape(instruction)
    address, value = instruction.operands
    values = value.items if isinstance(value, Vec) else (value,)
    if len(values) != length:
        raise ValueError("a vector of another length than the opcode says")

    def function(p, m, a, *v):
        memory.store(p, m, a, space, bits, v, checked)

    return {
        "kind": "warp",
        "function": function,
        "sources": ((address, 64), *((v, bits) for v in values)),
        "cut": not checked,
    }


def atomic(instruction):
    """atom and red: lane by lane, in lane order."""
    opcode = instruction.opcode
    operation = next(
        p for p in opcode[1:] if p in ("add", "exch", "cas", "min", "max", "inc", "dec", "and", "or", "xor")
    )
    if any(p.startswith(("v2", "v4", "v8", "noftz")) and p != "noftz" for p in opcode):
        raise ValueError("a vector atomic")
    type_name, space = opcode[-1], _space(opcode)
    kind, bits = split_type(type_name)
    is_float = kind in ("f", "bf")

    def one(old, value, other):
        if operation == "exch":
            return value
        if operation == "cas":
            return other if old == value else old
        if operation in ("and", "or", "xor"):
            return {"and": old & value, "or": old | value, "xor": old ^ value}[operation]
        if operation == "inc":
            return 0 if old >= value else old + 1
        if operation == "dec":
            return value if old == 0 or old > value else old - 1
        if is_float:
            load_float, save = float_loader(type_name), round_to(type_name)
            a, b = load_float(old), load_float(value)
            return save(a + b if operation == "add" else min(a, b) if operation == "min" else max(a, b))
        if kind == "s" and operation in ("min", "max"):
            a, b = to_signed(old, bits), to_signed(value, bits)
            return (min(a, b) if operation == "min" else max(a, b)) & ((1 << bits) - 1)
        return {"add": old + value, "min": min(old, value), "max": max(old, value)}[operation] & (
            (1 << bits) - 1
        )

    def function(p, m, address, value, other=0):
        results = np.zeros(LANES, UNSIGNED[bits])
        for lane in memory.lanes_of(m):
            at = memory.pick(address, lane)
            region, offset = memory.locate(p, None, at, space, bits // 8)
            view = region.views[bits]
            old = int(view[offset // (bits // 8)])
            view[offset // (bits // 8)] = one(old, memory.pick(value, lane), memory.pick(other, lane))
            if isinstance(region, memory.SharedMemory):
                region.written[offset >> 2] = p.warp.code
            results[lane] = old
        p.machine.progress += 1
        return results

    results = int(opcode[0] == "atom")
    targets, operands = instruction.operands[:results], instruction.operands[results:]
    return {
        "kind": "warp",
        "function": function,
        "targets": targets,
        "cut": True,
        "sources": ((operands[0], 64), *((v, bits) for v in operands[1:])),
    }


def map_address(instruction):
    """mapa: the address of the same variable in another CTA of the cluster."""
    target, address, rank = instruction.operands
    generic = "shared::cluster" not in instruction.opcode
    _, bits = split_type(instruction.opcode[-1])

    def function(a, r):
        base = memory.GENERIC_SHARED if generic else 0
        if a.__class__ is int and r.__class__ is int:
            return ((a - base) & 0xFFFFFF | r << memory.RANK_SHIFT) + base
        a, r = vector(a, bits), vector(r, 32).astype(UNSIGNED[bits])
        return ((a & UNSIGNED[bits](0xFFFFFF)) | (r << UNSIGNED[bits](memory.RANK_SHIFT))) + UNSIGNED[bits](
            base
        )

    return {
        "kind": "value",
        "function": function,
        "targets": (target,),
        "sources": ((address, bits), (rank, 32)),
    }


def cta_rank_of(instruction):
    target, address = instruction.operands

    def function(a):
        rank = (
            a >> memory.RANK_SHIFT & 0xFF
            if a.__class__ is int
            else (a >> a.dtype.type(memory.RANK_SHIFT)) & a.dtype.type(255)
        )
        return rank if rank.__class__ is int else rank.astype(np.uint32)

    return {"kind": "value", "function": function, "targets": (target,), "sources": ((address, 64),)}


# Lanes together


def shuffle(instruction):
    mode = instruction.opcode[2]
    target, value, index, clamp, members = instruction.operands
    targets = target.items if isinstance(target, Vec) else (target,)
    own = np.arange(LANES)

    def function(p, m, a, b, c, members):
        if m is not None:
            _ballot(p, m, True, members)
        if mode == "idx" and a.__class__ is int:
            return (a, True) if len(targets) > 1 else a
        b, c = (np.asarray(v, np.int64) for v in (b, c))
        segment, limit = (c >> 8) & 31, c & 31
        low, high = own & segment, (own & segment) | (limit & ~segment)
        b = b & 31
        source, valid = {
            "up": (own - b, own - b >= high),
            "down": (own + b, own + b <= high),
            "bfly": (own ^ b, (own ^ b) <= high),
            "idx": (low | (b & ~segment), (low | (b & ~segment)) <= high),
        }[mode]
        source = np.where(valid, source, own)
        result = vector(a, 32)[source]
        if mode == "idx" and (source == source[0]).all():
            result = int(result[0])
        return (result, valid) if len(targets) > 1 else result

    return {
        "kind": "warp",
        "function": function,
        "targets": targets,
        "unpack": len(targets) > 1,
        "sources": ((value, 32), (index, 32), (clamp, 32), (members, 32)),
    }


def _ballot(p, m, predicate, members):
    """Lanes that say yes, and lanes that are asked.

    A .sync instruction waits for every lane that its mask names.
    """
    lanes = p.lanes() if m is None else m
    member = np.full(LANES, True) if members == 0xFFFFFFFF else (_BIT & np.uint32(members)) != 0
    absent = int((member & ~lanes & p.warp.alive).sum())
    if absent:
        p.fault(
            "absent-lanes",
            f"{p.name()} waits for {absent} lanes that its mask names and that took another branch",
        )
    return lanes & member & (
        predicate if isinstance(predicate, np.ndarray) else np.full(LANES, predicate)
    ), lanes & member


def vote(instruction):
    mode = instruction.opcode[2]
    target, predicate, members = instruction.operands

    def function(p, m, value, members):
        yes, asked = _ballot(p, m, value, members)
        if mode == "ballot":
            return int(_BIT[yes].sum())
        return {
            "any": bool(yes.any()),
            "all": bool((yes == asked).all()),
            "uni": bool((yes == asked).all() or not yes.any()),
        }[mode]

    return {
        "kind": "warp",
        "function": function,
        "targets": (target,),
        "sources": ((predicate, 1), (members, 32)),
    }


def match(instruction):
    if instruction.opcode[1] != "any":
        raise ValueError("match.all")
    target, value, members = instruction.operands

    def function(p, m, value, members):
        _, asked = _ballot(p, m, True, members)
        value = vector(value, 32)
        return np.array([int(_BIT[asked & (value == value[lane])].sum()) for lane in range(LANES)], np.uint32)

    return {
        "kind": "warp",
        "function": function,
        "targets": (target,),
        "sources": ((value, 32), (members, 32)),
    }


def active_mask(instruction):
    def function(p, m):
        return 0xFFFFFFFF if m is None else int(_BIT[m].sum())

    return {"kind": "warp", "function": function, "targets": instruction.operands}


_LEADERS = [np.arange(LANES) == lane for lane in range(LANES)]


def elect(instruction):
    """elect.sync: the lowest active lane of the mask leads."""
    target, members = instruction.operands

    def function(p, m, members):
        if m is None and members == 0xFFFFFFFF:
            return 0, _LEADERS[0]
        _, asked = _ballot(p, m, True, members)
        leader = int(np.flatnonzero(asked)[0])
        return leader, _LEADERS[leader]

    return {
        "kind": "warp",
        "function": function,
        "targets": target.items,
        "unpack": True,
        "sources": ((members, 32),),
    }


def reduce(instruction):
    operation, type_name = instruction.opcode[2], instruction.opcode[-1]
    kind, bits = split_type(type_name)
    target, value, members = instruction.operands
    functions = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }

    def function(p, m, value, members):
        _, asked = _ballot(p, m, True, members)
        values = vector(value, bits)[asked]
        return (
            int(functions[operation].reduce(to_signed(values, bits) if kind == "s" else values)) & 0xFFFFFFFF
        )

    return {
        "kind": "warp",
        "function": function,
        "targets": (target,),
        "sources": ((value, 32), (members, 32)),
    }


# Matrices of 8 x 8 halves: lane i gives the address of row i, lane 4r + c holds elements 2c and 2c + 1 of row
# r


def _matrix(instruction):
    count = next(int(p[1:]) for p in instruction.opcode if p in ("x1", "x2", "x4"))
    if instruction.opcode[-1] != "b16" or "m8n8" not in instruction.opcode:
        raise ValueError("another shape than m8n8 of b16")
    return count, "trans" in instruction.opcode, _space(instruction.opcode)


_ROW, _COLUMN = np.arange(LANES) // 4, np.arange(LANES) % 4


def _matrix_rows(p, m, address, space, count):
    """(region, offsets of the 8 * count rows). A row is 16 bytes."""
    if m is not None and not m.all():
        p.fault("aligned", f"{p.name()} runs ldmatrix or stmatrix with some of its lanes")
    region, offsets = memory.locate(p, None, vector(address, 32)[: 8 * count], space, 16)
    return region, np.asarray(offsets)


def load_matrix(instruction):
    count, transposed, space = _matrix(instruction)
    target, address = instruction.operands
    targets = target.items if isinstance(target, Vec) else (target,)

    def function(p, m, a):
        region, rows = _matrix_rows(p, m, a, space, count)
        region.before_read(p, rows, 16)
        values = []
        for i in range(count):
            row = rows[8 * i : 8 * i + 8]
            if transposed:
                halves = region.views[16][(row[:, None] >> 1) + np.arange(8)].T.copy()
                values.append(halves.view(np.uint32)[_ROW, _COLUMN])
            else:
                values.append(region.views[32][(row[_ROW] >> 2) + _COLUMN])
        return values if len(targets) > 1 else values[0]

    return {
        "kind": "warp",
        "function": function,
        "targets": targets,
        "unpack": len(targets) > 1,
        "sources": ((address, 32),),
    }


def store_matrix(instruction):
    count, transposed, space = _matrix(instruction)
    address, value = instruction.operands
    values = value.items if isinstance(value, Vec) else (value,)

    def function(p, m, a, *v):
        region, rows = _matrix_rows(p, m, a, space, count)
        region.before_write(p, rows, 16)
        p.machine.progress += 1
        p.machine.trace.writes(p)
        for i in range(count):
            row, data = rows[8 * i : 8 * i + 8], vector(v[i], 32)
            if transposed:
                halves = np.ascontiguousarray(data).view(np.uint16).reshape(8, 8).T
                region.views[16][(row[:, None] >> 1) + np.arange(8)] = halves
            else:
                region.views[32][(row[_ROW] >> 2) + _COLUMN] = data

    return {"kind": "warp", "function": function, "sources": ((address, 32), *((v, 32) for v in values))}
