"""Receipts: which instructions a compiled kernel contains, read from its PTX, and what the assembler
allotted.

Counts are of instructions in the text, not of executions: a loop counts once. The functions that a kernel may
call count with it. Instruction names follow the PTX ISA.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import Any

from course_utils.artifact import Artifact
from course_utils.ptx import added
from course_utils.ptx.families import Family, expects_bytes, family, reads_parameter
from course_utils.ptx.parser import Imm, Instr, Kernel, Reg, parse


@dataclass(frozen=True)
class Receipt:
    """What one kernel contains. Ranks, shapes and values map to counts."""

    # cp.async.bulk.tensor.<rank>d, global to shared
    tensor_loads: dict[int, int] = field(default_factory=dict)
    multicast_loads: dict[int, int] = field(default_factory=dict)  # the same with .multicast::cluster
    # cp.async.bulk.tensor.<rank>d, shared to global
    tensor_stores: dict[int, int] = field(default_factory=dict)
    bulk_1d: int = 0  # cp.async.bulk without a tensor map
    cp_async: int = 0  # cp.async, 4 to 16 bytes a thread
    wgmma: dict[str, int] = field(default_factory=dict)  # by shape and types, "m64n256k16.f32.f16.f16"
    wgmma_waits: dict[int, int] = field(default_factory=dict)  # wgmma.wait_group, by groups left in flight
    mbarrier_inits: int = 0
    # arrivals an mbarrier is initialised for, where constant
    mbarrier_counts: dict[int, int] = field(default_factory=dict)
    mbarrier_waits: int = 0
    expect_tx: int = 0
    arrives: int = 0
    remote_arrives: int = 0  # mbarrier.arrive in shared::cluster
    proxy_fences: int = 0  # fence.proxy.async
    setmaxnreg: dict[str, int] = field(default_factory=dict)  # "dec 40"
    cluster_barriers: int = 0  # barrier.cluster.wait
    cta_barriers: int = 0  # bar.sync, barrier.sync of the whole CTA
    named_barriers: int = 0  # the same with a thread count
    bulk_commits: int = 0
    bulk_waits: int = 0
    bulk_read_waits: int = 0  # those with .read: until shared memory has been read
    unawaited_store_loops: int = 0  # loops that issue TMA stores and never wait for them
    stmatrix: int = 0
    tmem_allocs: int = 0  # tcgen05.alloc
    tmem_frees: int = 0  # tcgen05.dealloc
    tmem_loads: dict[str, int] = field(default_factory=dict)  # by shape and repetitions, "32x32b.x128"
    tmem_stores: dict[str, int] = field(default_factory=dict)
    tmem_waits: int = 0  # tcgen05.wait::ld, ::st
    tcgen05_mma: dict[str, int] = field(default_factory=dict)  # by CTAs and kind, "cta_group::1 f16"
    tcgen05_commits: int = 0
    multicast_commits: int = 0  # those of them with .multicast::cluster
    tcgen05_fences: int = 0
    cluster_launches: int = 0  # clusterlaunchcontrol
    global_loads: int = 0
    global_stores: int = 0
    opcodes: int = 0  # kinds of instructions, each modifier told apart
    instructions: int = 0  # but for those that read parameters, and branches and exits without a modifier


def read_ptx(ptx: str, kernel: str = "") -> Receipt:
    """The receipt of the kernel of this name, or of the first one. Raises PtxError where there is none."""
    return read(parse(ptx, kernel))


def read(kernel: Kernel) -> Receipt:
    """The receipt of a kernel that has been parsed, also of one that the emulator cannot run."""
    bodies = [kernel.instructions, *kernel.functions]
    instructions = [i for body in bodies for i in body if _counts(i)]
    found: dict[Family, list[Instr]] = {kind: [] for kind in Family}
    for instruction in instructions:
        found[family(instruction)].append(instruction)
    number = {kind: len(members) for kind, members in found.items()}
    return Receipt(
        tensor_loads=_ranks(found[Family.TENSOR_LOAD]),
        multicast_loads=_ranks(found[Family.MULTICAST_LOAD]),
        tensor_stores=_ranks(found[Family.TENSOR_STORE]),
        bulk_1d=number[Family.BULK_LOAD] + number[Family.BULK_STORE] + number[Family.BULK_PEER],
        cp_async=number[Family.CP_ASYNC],
        wgmma=dict(Counter(_shape(i) for i in found[Family.WGMMA])),
        wgmma_waits=dict(Counter(_constant(i) for i in found[Family.WGMMA_WAIT])),
        mbarrier_inits=number[Family.MBARRIER_INIT],
        mbarrier_counts=dict(sum((_arrivals_expected(body) for body in bodies), Counter())),
        mbarrier_waits=number[Family.MBARRIER_WAIT],
        expect_tx=sum(expects_bytes(i) for i in instructions),
        arrives=number[Family.ARRIVE],
        remote_arrives=number[Family.REMOTE_ARRIVE],
        proxy_fences=number[Family.PROXY_FENCE],
        setmaxnreg=dict(Counter(f"{i.opcode[1]} {_constant(i)}" for i in found[Family.SETMAXNREG])),
        cluster_barriers=number[Family.CLUSTER_BARRIER],
        cta_barriers=number[Family.CTA_BARRIER],
        named_barriers=number[Family.NAMED_BARRIER],
        bulk_commits=number[Family.BULK_COMMIT],
        bulk_waits=number[Family.BULK_WAIT],
        bulk_read_waits=sum("read" in i.opcode for i in found[Family.BULK_WAIT]),
        unawaited_store_loops=sum(map(_unawaited_store_loops, bodies)),
        stmatrix=number[Family.STMATRIX],
        tmem_allocs=number[Family.TMEM_ALLOC],
        tmem_frees=number[Family.TMEM_FREE],
        tmem_loads=dict(Counter(".".join(i.opcode[4:6]) for i in found[Family.TMEM_LOAD])),
        tmem_stores=dict(Counter(".".join(i.opcode[4:6]) for i in found[Family.TMEM_STORE])),
        tmem_waits=number[Family.TMEM_WAIT],
        tcgen05_mma=dict(Counter(map(_kind, found[Family.TCGEN05_MMA]))),
        tcgen05_commits=number[Family.TCGEN05_COMMIT],
        multicast_commits=sum("multicast::cluster" in i.opcode for i in found[Family.TCGEN05_COMMIT]),
        tcgen05_fences=number[Family.TCGEN05_FENCE],
        cluster_launches=number[Family.CLUSTER_LAUNCH],
        global_loads=number[Family.GLOBAL_LOAD],
        global_stores=number[Family.GLOBAL_STORE],
        opcodes=len({i.opcode for i in instructions}),
        instructions=len(instructions),
    )


def _counts(i: Instr) -> bool:
    return len(i.opcode) > 1 and i.opcode[0] != "cvta" and not reads_parameter(i)


def _ranks(tensor_copies: list[Instr]) -> dict[int, int]:
    """``cp.async.bulk.tensor.2d`` and so on, by rank."""
    return dict(Counter(int(i.opcode[4][0]) for i in tensor_copies))


def _shape(wgmma: Instr) -> str:
    """``m64n256k16.f32.f16.f16``: the shape, and the types that follow it."""
    first = next(at for at, part in enumerate(wgmma.opcode) if part.startswith("m64n"))
    return ".".join(wgmma.opcode[first:])


def _kind(mma: Instr) -> str:
    """``cta_group::1 f16``: how many CTAs multiply, and the operands' kind."""
    words = {word.partition("::")[0]: word for word in mma.opcode}
    return f"{words.get('cta_group', '')} {words.get('kind', '').removeprefix('kind::')}".strip()


def _constant(i: Instr) -> int:
    """The value of an instruction's only operand, which the PTX ISA asks to be a constant."""
    return next((operand.value for operand in i.operands if isinstance(operand, Imm)), 0)


def _arrivals_expected(body: list[Instr]) -> Counter[int]:
    """How many mbarriers are initialised for how many arrivals, as far as these are constants."""
    constants: dict[Reg, int] = {}
    found: Counter[int] = Counter()
    for i in body:
        if i.opcode[0] == "mov" and len(i.operands) == 2 and isinstance(i.operands[0], Reg):
            target, source = i.operands
            if isinstance(source, Imm):
                constants[target] = source.value
            else:
                constants.pop(target, None)
        elif family(i) is Family.MBARRIER_INIT and len(i.operands) == 2:
            count = i.operands[1]
            if isinstance(count, Imm):
                found[count.value] += 1
            elif count in constants:
                found[constants[count]] += 1
    return found


def _unawaited_store_loops(body: list[Instr]) -> int:
    """Loops that contain a TMA store and no ``cp.async.bulk.wait_group``."""
    loops = ({family(body[at]) for at in loop} for loop in _loops(body))
    return sum(Family.TENSOR_STORE in loop and Family.BULK_WAIT not in loop for loop in loops)


def _loops(body: list[Instr]) -> list[set[int]]:
    """The instructions of each loop, one for each branch back: those between its target and it, on any way
    that does not pass the target again.
    """
    after = edges(body)
    before: list[list[int]] = [[] for _ in body]
    for at, following in enumerate(after):
        for to in following:
            before[to].append(at)
    loops = []
    for last, i in enumerate(body):
        if 0 <= i.target <= last and last in (ahead := reached(i.target, after)):
            loops.append(ahead & reached(last, before, i.target))
    return loops


def edges(body: list[Instr]) -> list[list[int]]:
    """For each instruction, those that may follow it."""
    after = []
    for at, i in enumerate(body):
        following = [at + 1] if i.guard or i.opcode[0] not in ("bra", "ret", "exit") else []
        after.append([to for to in (*following, i.target) if 0 <= to < len(body)])
    return after


def reached(start: int, edges: list[list[int]], end: int = -1) -> set[int]:
    """Where the edges lead from ``start``, and not beyond ``end``."""
    found, waiting = {end} - {-1}, [start]
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += edges[at]
    return found


def arrivals(r: Receipt) -> str:
    """How many arrivals the mbarriers are initialised for, in brackets, as far as it is known."""
    known = ", ".join(
        f"{n} for {count} arrival{'s' if count != 1 else ''}"
        for count, n in sorted(r.mbarrier_counts.items())
    )
    return f" ({known})" if known else ""


def table(receipt: Receipt, artifact: Artifact) -> list[tuple[str, str]]:
    """The receipt as short rows, (what, how many), for a person."""
    r, res = receipt, artifact.resources

    def pairs(counts: dict[Any, int], form: str) -> list[str]:
        return [form.format(key, n) for key, n in sorted(counts.items(), key=str)]

    def named(**counts: int) -> str:
        return ", ".join(f"{name}: {n}" for name, n in counts.items() if n)

    ctas, loads = prod(artifact.cluster), pairs(r.tensor_loads, "rank {}: {}")
    grid = f"grid {' x '.join(map(str, artifact.grid))}, {artifact.threads} threads"
    copies = {"1-D bulk": r.bulk_1d, "cp.async": r.cp_async}
    copies |= {"ld.global": r.global_loads, "st.global": r.global_stores}
    rows = [
        ("launch", grid + (f", cluster of {ctas}" if ctas > 1 else "")),
        ("TMA loads", ", ".join(loads + pairs(r.multicast_loads, "rank {} multicast: {}"))),
        ("TMA stores", ", ".join(pairs(r.tensor_stores, "rank {}: {}"))),
        ("other copies", named(**copies)),
        ("wgmma", ", ".join(pairs(r.wgmma, "{}: {}"))),
        ("wgmma waits", ", ".join(pairs(r.wgmma_waits, "wait_group {}: {}"))),
        ("tcgen05.mma", ", ".join(pairs(r.tcgen05_mma, "{}: {}"))),
        (
            "tensor memory",
            named(alloc=r.tmem_allocs, dealloc=r.tmem_frees, wait=r.tmem_waits)
            + "".join(f", {row}" for row in pairs(r.tmem_loads, "ld {}: {}"))
            + "".join(f", {row}" for row in pairs(r.tmem_stores, "st {}: {}")),
        ),
        (
            "tcgen05 order",
            named(commit=r.tcgen05_commits, multicast=r.multicast_commits, fence=r.tcgen05_fences),
        ),
        ("cluster launch control", str(r.cluster_launches or "")),
        (
            "mbarriers",
            f"init {r.mbarrier_inits}{arrivals(r)}, wait {r.mbarrier_waits}, expect_tx {r.expect_tx}, "
            f"arrive {r.arrives}, remote arrive {r.remote_arrives}"
            if r.mbarrier_inits
            else "",
        ),
        ("proxy fences", str(r.proxy_fences or "")),
        ("setmaxnreg", ", ".join(r.setmaxnreg)),
        ("barriers", named(CTA=r.cta_barriers, named=r.named_barriers, cluster=r.cluster_barriers)),
        ("of these", added.summary(artifact)),
        (
            "registers",
            f"{res.registers} a thread at launch, spills {res.spill_stores + res.spill_loads} bytes",
        ),
        ("shared memory", f"{artifact.dynamic_shared:,} dynamic + {res.static_shared:,} static bytes"),
        ("ptxas says", "; ".join(res.warnings)),
    ]
    return [
        (name, text or "none")
        for name, text in rows
        if text or name in ("TMA loads", "TMA stores", "tcgen05.mma" if r.tcgen05_mma else "wgmma")
    ]
