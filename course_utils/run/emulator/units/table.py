"""The table of modelled instructions: opcode, the PTX ISA section that says what it does, and how it is
lowered here.

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


def lower(instruction: Instr) -> Lowered:
    """Raises PtxError for an instruction that is not modelled, with its line."""
    parts = instruction.opcode
    for length in range(min(len(parts), 5), 0, -1):
        row = TABLE.get(".".join(parts[:length]))
        if row:
            try:
                lowered = row[1](instruction)
                if not all(target is None or isinstance(target, Reg) for target in lowered.targets):
                    raise ValueError("a result that is not a register")
                return lowered
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
                StopIteration,
                TypeError,
                ValueError,
            ) as error:
                raise PtxError(
                    f"PTX line {instruction.line}: this form of `{parts[0]}` is not modelled by the emulator "
                    f"({error}): {instruction.text[:160]}"
                ) from error
    raise PtxError(
        f"PTX line {instruction.line}: `{instruction.name}` is not modelled by the emulator: "
        f"{instruction.text[:160]}"
    )


def _nothing(i: Instr) -> Lowered:
    return Lowered("nothing")


def _warp(function: Callable[..., Any], cut: bool = False) -> Builder:
    """A warp instruction without a result; all its operands are sources."""

    def build(i: Instr) -> Lowered:
        return Lowered(
            "warp", function, (), tuple((s, 64 if isinstance(s, Mem) else 32) for s in i.operands), cut=cut
        )

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


TABLE = {
    **VALUES,
    "cvta": ("cvta", _convert_address),
    "ld": ("ld, ld.global.nc", access.load),
    "ldu": ("ldu", access.load),
    "st": ("st, st.async", access.store),
    "st.async": ("st.async", mbarrier.store_async),
    "atom": ("atom", access.atomic),
    "red": ("red", access.atomic),
    "mapa": ("mapa", access.map_address),
    "getctarank": ("getctarank", access.cta_rank_of),
    "prefetch": ("prefetch, prefetchu", _nothing),
    "prefetchu": ("prefetch, prefetchu", _nothing),
    "discard": ("discard", _nothing),
    "applypriority": ("applypriority", _nothing),
    "createpolicy": ("createpolicy", lambda i: Lowered("value", lambda: 0, (i.operands[0],))),
    "cp.async": ("cp.async (non-bulk)", cp_async.copy),
    "cp.async.commit_group": ("cp.async.commit_group", cp_async.commit),
    "cp.async.wait_group": ("cp.async.wait_group", cp_async.wait),
    "cp.async.wait_all": ("cp.async.wait_all", cp_async.wait),
    "cp.async.mbarrier": ("cp.async.mbarrier.arrive", cp_async.arrive),
    "cp.async.bulk": ("cp.async.bulk", tma.bulk),
    "cp.async.bulk.prefetch": ("cp.async.bulk.prefetch", _nothing),
    "cp.async.bulk.tensor": ("cp.async.bulk.tensor", tma.tensor),
    "cp.reduce.async.bulk.tensor": ("cp.reduce.async.bulk.tensor", tma.tensor),
    "cp.async.bulk.commit_group": ("cp.async.bulk.commit_group", tma.commit),
    "cp.async.bulk.wait_group": ("cp.async.bulk.wait_group", tma.wait),
    "tensormap.replace": ("tensormap.replace", tensormaps.replace),
    "tensormap.cp_fenceproxy": ("tensormap.cp_fenceproxy", tensormaps.copy),
    # Warp-level: shuffles, votes, matrices
    "shfl.sync": ("shfl.sync", lanes.shuffle),
    "vote.sync": ("vote.sync", lanes.vote),
    "match": ("match.sync", lanes.match),
    "activemask": ("activemask", lanes.active_mask),
    "elect.sync": ("elect.sync", lanes.elect),
    "redux.sync": ("redux.sync", lanes.reduce),
    "ldmatrix": ("ldmatrix", access.load_matrix),
    "stmatrix": ("stmatrix", access.store_matrix),
    "movmatrix": ("movmatrix", lanes.transpose_matrix),
    "mma.sync": ("mma", mma.multiply),
    # Control Flow Instructions
    "call": ("call: vprintf", printf.call),
    "bra": ("bra", lambda i: Lowered("branch")),
    "ret": ("ret", lambda i: Lowered("exit")),
    "exit": ("exit", lambda i: Lowered("exit")),
    "trap": ("trap", _warp(lambda p, m: p.halt("trap", "trap", who=p.warp), cut=True)),
    "brkpt": ("brkpt", _nothing),
    "nanosleep": ("nanosleep", _nothing),
    "pmevent": ("pmevent", _nothing),
    "griddepcontrol": ("griddepcontrol", _nothing),
    # Parallel Synchronization and Communication Instructions
    "bar": ("bar, barrier", sync.cta_barrier),
    "bar.warp": ("bar.warp.sync", _nothing),
    "barrier": ("bar, barrier", sync.cta_barrier),
    "barrier.cluster": ("barrier.cluster", sync.cluster_barrier),
    "membar": ("membar, fence", _nothing),
    "fence": ("membar, fence", _nothing),
    "fence.proxy.async": ("membar, fence: proxy fence", sync.proxy_fence),
    "fence.proxy.async::generic": ("membar, fence: proxy fence", sync.proxy_fence),
    "fence.mbarrier_init": ("membar, fence", _warp(lambda p, m: mbarrier.fence(p))),
    "mbarrier": ("mbarrier", mbarrier.mbarrier),
    # Asynchronous Warpgroup Level Matrix Instructions
    "wgmma.mma_async": ("wgmma.mma_async", wgmma.multiply),
    "wgmma.fence": ("wgmma.fence", _warp(wgmma.fence)),
    "wgmma.commit_group": ("wgmma.commit_group", _warp(wgmma.commit, cut=True)),
    "wgmma.wait_group": ("wgmma.wait_group", wgmma.wait),
    # Miscellaneous Instructions
    "setmaxnreg": ("setmaxnreg", sync.set_registers),
}
