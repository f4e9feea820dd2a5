"""What an instruction is: the families that receipts count, paths follow and the emulator asks about.

Names follow the PTX ISA, "Instruction Set". A TMA copy is named for its direction: a load goes from global to
shared memory, a store from shared to global.
"""

from __future__ import annotations

from enum import Enum, auto

from course_utils.ptx.parser import Instr


class Family(Enum):
    TENSOR_LOAD = auto()  # cp.async.bulk.tensor
    MULTICAST_LOAD = auto()  # the same with .multicast::cluster
    TENSOR_STORE = auto()
    TENSOR_REDUCE = auto()  # cp.reduce.async.bulk.tensor, shared to global
    BULK_LOAD = auto()  # cp.async.bulk without a tensor map
    BULK_STORE = auto()
    BULK_PEER = auto()  # the same from one CTA's shared memory to another's
    BULK_PREFETCH = auto()  # cp.async.bulk.prefetch, with a tensor map or without
    BULK_COMMIT = auto()
    BULK_WAIT = auto()
    CP_ASYNC = auto()  # 4 to 16 bytes a thread
    WGMMA = auto()
    WGMMA_WAIT = auto()
    MBARRIER_INIT = auto()
    MBARRIER_WAIT = auto()  # try_wait, test_wait
    ARRIVE = auto()
    REMOTE_ARRIVE = auto()  # on an mbarrier in shared::cluster
    EXPECT_TX = auto()  # without an arrival
    PROXY_FENCE = auto()  # fence.proxy.async
    SETMAXNREG = auto()
    CLUSTER_BARRIER = auto()  # its wait
    CTA_BARRIER = auto()  # bar.sync, barrier.sync of the whole CTA
    NAMED_BARRIER = auto()  # the same with a thread count
    STMATRIX = auto()
    TMEM_ALLOC = auto()  # tcgen05.alloc
    TMEM_FREE = auto()  # tcgen05.dealloc
    TMEM_LOAD = auto()  # tcgen05.ld
    TMEM_STORE = auto()  # tcgen05.st
    TMEM_COPY = auto()  # tcgen05.cp, from shared memory
    TMEM_WAIT = auto()  # tcgen05.wait::ld, ::st
    TCGEN05_MMA = auto()
    TCGEN05_COMMIT = auto()
    TCGEN05_FENCE = auto()
    CLUSTER_LAUNCH = auto()  # clusterlaunchcontrol.try_cancel, .query_cancel
    GLOBAL_LOAD = auto()
    GLOBAL_STORE = auto()
    LOCAL_STORE = auto()
    OTHER = auto()


TENSOR_COPIES = {Family.TENSOR_LOAD, Family.MULTICAST_LOAD, Family.TENSOR_STORE, Family.TENSOR_REDUCE}


def family(i: Instr) -> Family:
    """The family of an instruction; OTHER for arithmetic, control flow and what no one asks about."""
    match i.opcode:
        case ("cp", "async", "bulk", *rest):
            return _bulk(rest)
        case ("cp", "async", "ca" | "cg", *_):
            return Family.CP_ASYNC
        case ("cp", "reduce", "async", "bulk", "tensor", *_):
            return Family.TENSOR_REDUCE
        case ("wgmma", "mma_async", *_):
            return Family.WGMMA
        case ("wgmma", "wait_group", *_):
            return Family.WGMMA_WAIT
        case ("mbarrier", "init", *_):
            return Family.MBARRIER_INIT
        case ("mbarrier", "try_wait" | "test_wait", *_):
            return Family.MBARRIER_WAIT
        case ("mbarrier", "arrive" | "arrive_drop", *rest):
            return Family.REMOTE_ARRIVE if "shared::cluster" in rest else Family.ARRIVE
        case ("mbarrier", "expect_tx", *_):
            return Family.EXPECT_TX
        case ("fence", "proxy", "async" | "async::generic", *_):
            return Family.PROXY_FENCE
        case ("setmaxnreg", *_):
            return Family.SETMAXNREG
        case ("barrier", "cluster", "wait", *_):
            return Family.CLUSTER_BARRIER
        case ("bar" | "barrier", "sync", *_) | ("bar" | "barrier", "cta", "sync", *_):
            return Family.NAMED_BARRIER if len(i.operands) > 1 else Family.CTA_BARRIER
        case ("stmatrix", *_):
            return Family.STMATRIX
        case ("tcgen05", what, *_):
            return _TCGEN05.get(what.partition("::")[0], Family.OTHER)
        case ("clusterlaunchcontrol", *_):
            return Family.CLUSTER_LAUNCH
        case ("ld" | "ldu", *rest) if "global" in rest:
            return Family.GLOBAL_LOAD
        case ("st", *rest) if "global" in rest:
            return Family.GLOBAL_STORE
        case ("st", *rest) if "local" in rest:
            return Family.LOCAL_STORE
    return Family.OTHER


_TCGEN05 = {
    "alloc": Family.TMEM_ALLOC,
    "dealloc": Family.TMEM_FREE,
    "ld": Family.TMEM_LOAD,
    "st": Family.TMEM_STORE,
    "cp": Family.TMEM_COPY,
    "wait": Family.TMEM_WAIT,
    "mma": Family.TCGEN05_MMA,
    "commit": Family.TCGEN05_COMMIT,
    "fence": Family.TCGEN05_FENCE,
}


def _bulk(rest: list[str]) -> Family:
    """The family of ``cp.async.bulk``, by what follows these words: the target's space, then the source's."""
    match rest:
        case ("prefetch", *_):
            return Family.BULK_PREFETCH
        case ("commit_group", *_):
            return Family.BULK_COMMIT
        case ("wait_group", *_):
            return Family.BULK_WAIT
        case ("tensor", _, "global", *_):
            return Family.TENSOR_STORE
        case ("tensor", *_):
            return Family.MULTICAST_LOAD if "multicast::cluster" in rest else Family.TENSOR_LOAD
        case ("global", *_):
            return Family.BULK_STORE
        case (_, "global", *_):
            return Family.BULK_LOAD
    return Family.BULK_PEER


def expects_bytes(i: Instr) -> bool:
    """Whether it tells an mbarrier how many bytes to expect; with an arrival or without."""
    return i.opcode[0] == "mbarrier" and "expect_tx" in i.opcode


def reads_parameter(i: Instr) -> bool:
    return i.opcode[0] == "ld" and any(part.partition("::")[0] == "param" for part in i.opcode)


def accesses_memory(i: Instr) -> bool:
    """Whether its operands are addresses, so that it loads something else than its operand holds."""
    return i.opcode[0].startswith(("st", "ld", "cp", "red", "atom"))
