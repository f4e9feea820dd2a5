"""The table of modelled instructions: by opcode, how each is lowered here.

``TABLE`` is the one list of what the emulator executes; what is not in it is an error that names the PTX
line (``spellings`` has the reasons). The longest matching prefix of an opcode decides. A builder turns one
instruction into a ``Lowered``: a Python function and what it reads and writes. Functions of kind "value" see
values only; "warp" ones also get the path and its active lanes; "blocking" ones the next instruction too, and
may stop the path there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from course_utils.ptx.parser import Instr, Mem, Not, PtxError, Reg, Vec
from course_utils.run.emulator.core.memory import GENERIC_LOCAL, GENERIC_SHARED, PARAMETERS, RANK_SHIFT
from course_utils.run.emulator.isa import arithmetic as ar
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Builder, Lowered, Value
from course_utils.run.emulator.isa.values import VALUES, value
from course_utils.run.emulator.units import (
    access,
    barrier_red,
    carry,
    clc,
    cp_async,
    lanes,
    mbarrier,
    mma,
    printf,
    red_async,
    spellings,
    sync,
    tcgen05,
    tensormaps,
    tma,
    tmem,
    wgmma,
)

# what a builder raises of a form that it does not know
OTHER_FORM = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)


def lower(instruction: Instr) -> Lowered:
    """Raises PtxError for an instruction that is not modelled, with its line."""
    parts = instruction.opcode
    why = spellings.reason(parts)
    for length in range(min(len(parts), 5), 0, -1):
        build = TABLE.get(".".join(parts[:length]))
        if build:
            try:
                if word := spellings.unknown(parts, length):
                    raise ValueError(f".{word}: {why}" if why else f".{word}")
                lowered = build(_type_last(instruction))
                _check_operands(parts, lowered)
                return lowered
            except (*OTHER_FORM, struct.error) as error:
                raise PtxError(
                    f"PTX line {instruction.line}: this form of `{parts[0]}` is not modelled by the emulator "
                    f"({error}): {instruction.text[:160]}"
                ) from error
    raise PtxError(
        f"PTX line {instruction.line}: `{instruction.name}` is not modelled by the emulator"
        f"{f' ({why})' if why else ''}: {instruction.text[:160]}"
    )


def _type_last(instruction: Instr) -> Instr:
    """ptxas takes an opcode's words in any order; builders of values, loads and stores look for the type at
    its end. Raises ValueError where there is none.
    """
    opcode = instruction.opcode
    if opcode[0] not in _TYPED:
        return instruction
    types = [word for word in opcode[1:] if word in spellings.TYPES]
    if not types or len(types) > 1 and opcode[0] not in ("cvt", "set", "slct", "dp4a", "dp2a"):
        raise ValueError(f"{len(types) or 'no'} types")
    if opcode[-1] in spellings.TYPES:
        return instruction
    others = [word for word in opcode if word not in spellings.TYPES]
    return replace(instruction, opcode=(*others, *types))


def _addresses(opcode: tuple[str, ...]) -> int:
    """How many of the first sources may be addresses: what follows them is a value."""
    if opcode[0] in ("st", "stmatrix", "atom", "red"):
        return 2 if opcode[1] == "async" else 1
    return 9


def _check_operands(opcode: tuple[str, ...], lowered: Lowered) -> None:
    """Raises an error of ``OTHER_FORM`` where what ``lowered`` takes and gives is not what it can be."""
    if not all(target is None or isinstance(target, Reg) for target in lowered.targets):
        raise ValueError("a result that is not a register")
    for n, (operand, width) in enumerate(lowered.sources):
        inner = operand.item if isinstance(operand, Not) else operand
        if inner is None or isinstance(inner, Vec) and opcode[0] not in ("wgmma", "call"):
            raise ValueError("a vector or nothing as an operand")
        if isinstance(inner, Mem) and (lowered.kind in ("value", "copy") or n >= _addresses(opcode)):
            raise ValueError("an address as an operand")
        if not isinstance(inner, Reg):
            continue
        narrow = inner.width < width and lowered.kind == "value" and opcode[0] in _TYPED - {"cvt"}
        wide = inner.width > width and opcode[0] != "st" and (opcode[0] != "cvt" or width >= 32)
        if narrow or wide or (inner.width == 1) != (width == 1):
            raise ValueError(f"a register of {inner.width} bits as an operand")
    if lowered.kind == "value":
        key = opcode, len(lowered.targets), tuple(width for _, width in lowered.sources)
        if key not in _TRIED:
            assert lowered.function is not None
            with np.errstate(all="ignore"):
                lowered.function(*(False if width == 1 else 0 for _, width in lowered.sources))
                made = lowered.function(
                    *(np.zeros(LANES, ar.UNSIGNED[width]) for _, width in lowered.sources)
                )
            if len(made if lowered.unpack else (made,)) != len(lowered.targets):
                raise ValueError("another number of results")
            if len(_TRIED) < 10_000:
                _TRIED.add(key)


_TRIED: set[tuple] = set()  # forms of values that have been computed once
_TYPED = {name.partition(".")[0] for name in VALUES} - {"lop3", "prmt"} | {
    "ld",
    "ldu",
    "st",
    "addc",
    "subc",
    "madc",
}


def _warp(function: Callable[..., Any], cut: bool = False) -> Builder:
    """A warp instruction without a result; all its operands are sources."""

    def build(i: Instr) -> Lowered:
        sources = tuple((s, 64 if isinstance(s, Mem) else 32) for s in i.operands)
        return Lowered("warp", function, sources=sources, cut=cut)

    return build


def _convert_address(i: Instr) -> Lowered:
    """cvta: the generic address of a variable, or back. Parameters and tensors keep theirs."""
    space = next(p for p in i.opcode if p in ("global", "const", "param", "local") or p.startswith("shared"))
    _, bits = ar.split_type(i.opcode[-1])
    base = GENERIC_SHARED if space.startswith("shared") else GENERIC_LOCAL if space == "local" else 0
    if not base:
        return value(None, i, bits, copy=True)
    if i.opcode[1] == "to":
        return value(lambda a: a - base if a.__class__ is int else a - np.uint64(base), i, bits)
    return value(lambda a: a + base if a.__class__ is int else a.astype(np.uint64) + np.uint64(base), i, bits)


def _in_space(i: Instr) -> Lowered:
    """isspacep: is a generic address one of this space?"""
    (space,) = i.opcode[1:]
    low, high = {
        "global": (0, GENERIC_SHARED),
        "const": (0, 0),
        "local": (GENERIC_LOCAL, PARAMETERS),
        "param": (PARAMETERS, 1 << 63),
    }.get(space, (GENERIC_SHARED, GENERIC_LOCAL))
    own = space in ("shared", "shared::cta")

    def function(p: Any, m: Any, a: Value) -> Any:
        found = (a >= low) & (a < high)
        if own:
            rank = (
                a >> RANK_SHIFT & 0xFF if a.__class__ is int else a >> np.uint64(RANK_SHIFT) & np.uint64(0xFF)
            )
            found = found & (rank == p.cta.rank)
        return found

    target, address = i.operands
    return Lowered("warp", function, (target,), ((address, 64),))


# hints, waits that only take time, and orders that are kept here without them
_IDLE = (
    *("prefetch", "prefetchu", "discard", "applypriority", "brkpt", "nanosleep"),
    *("cp.async.bulk.prefetch", "cp.async.bulk.prefetch.tensor"),
)
_KEPT = (
    *("pmevent", "griddepcontrol.launch_dependents", "griddepcontrol.wait"),
    "fence.proxy",
    *("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"),
)
TABLE: dict[str, Builder] = {
    **VALUES,
    **dict.fromkeys((*_IDLE, *_KEPT), lambda i: Lowered("nothing")),
    **dict.fromkeys(("add.cc", "addc", "sub.cc", "subc", "mad.lo.cc", "mad.hi.cc", "madc"), carry.extended),
    "cvta": _convert_address,
    "isspacep": _in_space,
    "ld": access.load,
    "ldu": access.load,
    "st": access.store,
    "st.async": mbarrier.store_async,
    "red.async": red_async.reduce,
    "atom": access.atomic,
    "red": access.atomic,
    "mapa": access.map_address,
    "getctarank": access.cta_rank_of,
    "createpolicy": lambda i: Lowered("value", lambda: 0, (i.operands[0],)),
    "cp.async": cp_async.copy,
    "cp.async.commit_group": cp_async.commit,
    "cp.async.wait_group": cp_async.wait,
    "cp.async.wait_all": cp_async.wait,
    "cp.async.mbarrier": cp_async.arrive,
    "cp.async.bulk": tma.bulk,
    "cp.async.bulk.tensor": tma.tensor,
    "cp.reduce.async.bulk": tma.bulk,
    "cp.reduce.async.bulk.tensor": tma.tensor,
    "cp.async.bulk.commit_group": tma.commit,
    "cp.async.bulk.wait_group": tma.wait,
    "tensormap.replace": tensormaps.replace,
    "tensormap.cp_fenceproxy": tensormaps.copy,
    # Warp-level: shuffles, votes, matrices
    "shfl.sync": lanes.shuffle,
    "vote.sync": lanes.vote,
    "match": lanes.match,
    "activemask": lanes.active_mask,
    "elect.sync": lanes.elect,
    "redux.sync": lanes.reduce,
    "ldmatrix": access.load_matrix,
    "stmatrix": access.store_matrix,
    "movmatrix": lanes.transpose_matrix,
    "mma.sync": mma.multiply,
    "mma.sp": mma.multiply,
    "mma.sp::ordered_metadata": mma.multiply,
    # Control Flow Instructions
    "call": printf.call,
    "bra": lambda i: Lowered("branch"),
    "ret": lambda i: Lowered("exit"),
    "exit": lambda i: Lowered("exit"),
    "trap": _warp(lambda p, m: p.halt("trap", "trap", who=p.warp), cut=True),
    # Parallel Synchronization and Communication Instructions
    "bar": sync.cta_barrier,
    "barrier": sync.cta_barrier,
    **dict.fromkeys(("bar.red", "barrier.red", "bar.cta.red", "barrier.cta.red"), barrier_red.reduce),
    "bar.warp.sync": lanes.barrier,
    "barrier.cluster": sync.cluster_barrier,
    "fence": sync.fence,
    "membar": sync.fence,
    "membar.proxy": lambda i: Lowered("nothing"),
    "membar.proxy.async": sync.proxy_fence,
    "fence.proxy.async": sync.proxy_fence,
    "fence.proxy.async::generic": sync.proxy_fence,
    "fence.proxy.tensormap::generic": tensormaps.fence,
    "fence.mbarrier_init": _warp(lambda p, m: mbarrier.fence(p)),
    "mbarrier": mbarrier.mbarrier,
    "mbarrier.pending_count": mbarrier.mbarrier,
    # Asynchronous Warpgroup Level Matrix Instructions
    "wgmma.mma_async": wgmma.multiply,
    "wgmma.fence": _warp(wgmma.fence),
    "wgmma.commit_group": _warp(wgmma.commit, cut=True),
    "wgmma.wait_group": wgmma.wait,
    # TensorCore 5th Generation Family Instructions
    "tcgen05.alloc": tmem.alloc,
    "tcgen05.dealloc": tmem.dealloc,
    "tcgen05.relinquish_alloc_permit": tmem.relinquish,
    "tcgen05.ld": tmem.load,
    "tcgen05.st": tmem.store,
    **dict.fromkeys(("tcgen05.wait::ld", "tcgen05.wait::st"), tmem.wait),
    "tcgen05.mma": tcgen05.multiply,
    "tcgen05.commit": tcgen05.commit,
    "clusterlaunchcontrol.try_cancel.async": clc.try_cancel,
    "clusterlaunchcontrol.query_cancel": clc.query_cancel,
    # Miscellaneous Instructions
    "setmaxnreg": sync.set_registers,
}
