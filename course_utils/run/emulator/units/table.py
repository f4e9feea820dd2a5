"""The table of modelled instructions: by opcode, how each is lowered here.

``TABLE`` is the one list of what the emulator executes; what is not in it is an error that names the PTX
line. The longest matching prefix of an opcode decides. A builder turns one instruction into a ``Lowered``: a
Python function and what it reads and writes. Functions of kind "value" see values only; "warp" ones also get
the path and its active lanes; "blocking" ones the next instruction too, and may stop the path there. A
further engine (tcgen05 with its tensor memory) would be rows of this table, a module for the engine, and one
more space in ``memory``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_utils.ptx.parser import Instr, Mem, PtxError, Reg
from course_utils.run.emulator.core.memory import GENERIC_LOCAL, GENERIC_SHARED
from course_utils.run.emulator.isa import arithmetic as ar
from course_utils.run.emulator.isa.lowered import Builder, Lowered
from course_utils.run.emulator.isa.values import VALUES, value
from course_utils.run.emulator.units import (
    access,
    cp_async,
    lanes,
    mbarrier,
    mma,
    printf,
    sync,
    tensormaps,
    tma,
    wgmma,
)

# what a builder raises of a form that it does not know
OTHER_FORM = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)


def lower(instruction: Instr) -> Lowered:
    """Raises PtxError for an instruction that is not modelled, with its line."""
    parts = instruction.opcode
    for length in range(min(len(parts), 5), 0, -1):
        build = TABLE.get(".".join(parts[:length]))
        if build:
            try:
                lowered = build(instruction)
                if not all(target is None or isinstance(target, Reg) for target in lowered.targets):
                    raise ValueError("a result that is not a register")
                return lowered
            except OTHER_FORM as error:
                raise PtxError(
                    f"PTX line {instruction.line}: this form of `{parts[0]}` is not modelled by the emulator "
                    f"({error}): {instruction.text[:160]}"
                ) from error
    raise PtxError(
        f"PTX line {instruction.line}: `{instruction.name}` is not modelled by the emulator: "
        f"{instruction.text[:160]}"
    )


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


# hints, waits that only take time, and orders that are kept here without them
_IDLE = ("prefetch", "prefetchu", "discard", "applypriority", "cp.async.bulk.prefetch", "brkpt", "nanosleep")
_KEPT = ("pmevent", "griddepcontrol", "bar.warp", "membar", "fence")
TABLE: dict[str, Builder] = {
    **VALUES,
    **dict.fromkeys((*_IDLE, *_KEPT), lambda i: Lowered("nothing")),
    "cvta": _convert_address,
    "ld": access.load,
    "ldu": access.load,
    "st": access.store,
    "st.async": mbarrier.store_async,
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
    # Control Flow Instructions
    "call": printf.call,
    "bra": lambda i: Lowered("branch"),
    "ret": lambda i: Lowered("exit"),
    "exit": lambda i: Lowered("exit"),
    "trap": _warp(lambda p, m: p.halt("trap", "trap", who=p.warp), cut=True),
    # Parallel Synchronization and Communication Instructions
    "bar": sync.cta_barrier,
    "barrier": sync.cta_barrier,
    "barrier.cluster": sync.cluster_barrier,
    "fence.proxy.async": sync.proxy_fence,
    "fence.proxy.async::generic": sync.proxy_fence,
    "fence.mbarrier_init": _warp(lambda p, m: mbarrier.fence(p)),
    "mbarrier": mbarrier.mbarrier,
    # Asynchronous Warpgroup Level Matrix Instructions
    "wgmma.mma_async": wgmma.multiply,
    "wgmma.fence": _warp(wgmma.fence),
    "wgmma.commit_group": _warp(wgmma.commit, cut=True),
    "wgmma.wait_group": wgmma.wait,
    # Miscellaneous Instructions
    "setmaxnreg": sync.set_registers,
}
