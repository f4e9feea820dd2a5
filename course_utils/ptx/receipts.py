"""Receipts: which instructions a compiled kernel contains, read from its PTX, and what the assembler
allotted.

Counts are of instructions in the text, not of executions: a loop counts once. Instruction names follow the
PTX ISA.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from course_utils.artifact import Artifact

LARGEST_TILE = 256 * 256  # elements of D; no CTA of this course holds a larger accumulator
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# labels, a predicate, the opcode with its modifiers, the operands
_STATEMENT = re.compile(r"\s*(?:[\w$%]+:(?!:)\s*)*(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:[.:]{1,2}\w+)+)\s*(.*)")


@dataclass(frozen=True)
class Receipt:
    """What one kernel contains. Ranks, shapes and values map to counts."""

    tensor_loads: dict[int, int] = field(
        default_factory=dict
    )  # cp.async.bulk.tensor.<rank>d, global to shared
    multicast_loads: dict[int, int] = field(default_factory=dict)  # the same with .multicast::cluster
    tensor_stores: dict[int, int] = field(
        default_factory=dict
    )  # cp.async.bulk.tensor.<rank>d, shared to global
    bulk_1d: int = 0  # cp.async.bulk without a tensor map
    cp_async: int = 0  # cp.async, 4 to 16 bytes a thread
    wgmma: dict[str, int] = field(default_factory=dict)  # by shape and types, "m64n256k16.f32.f16.f16"
    wgmma_waits: dict[int, int] = field(default_factory=dict)  # wgmma.wait_group, by groups left in flight
    mbarrier_inits: int = 0
    mbarrier_counts: dict[int, int] = field(
        default_factory=dict
    )  # arrivals an mbarrier is initialised for, where constant
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
    global_loads: int = 0
    global_stores: int = 0
    opcodes: int = 0
    instructions: int = 0


def read_ptx(ptx: str) -> Receipt:
    """Count the instruction families of one PTX module."""
    text = _COMMENT.sub(" ", ptx)
    counts, tensor_loads, multicast, tensor_stores, wgmma, waits, maxnreg, arrivals = (
        Counter() for _ in range(8)
    )
    constants = dict(re.findall(r"\bmov\.[bsu]32\s+(%\w+),\s*(\d+)\s*;", text))
    opcodes = set()
    for line in re.split(r"[;\n{}]", text):
        match = _STATEMENT.match(line)
        if not match or match.group(1).startswith(("ld.param", "cvta")) or line.lstrip().startswith("."):
            continue
        opcode, operands = match.groups()
        opcodes.add(opcode)
        counts["instructions"] += 1
        if opcode.startswith("cp.async.bulk.tensor"):
            rank = int(re.search(r"\.(\d)d\b", opcode).group(1))
            if ".global.shared" in opcode:
                tensor_stores[rank] += 1
            elif "multicast" in opcode:
                multicast[rank] += 1
            else:
                tensor_loads[rank] += 1
        elif opcode.startswith("cp.async.bulk.commit_group"):
            counts["bulk_commits"] += 1
        elif opcode.startswith("cp.async.bulk.wait_group"):
            counts["bulk_waits"] += 1
            counts["bulk_read_waits"] += ".read" in opcode
        elif opcode.startswith("cp.async.bulk.") and "prefetch" not in opcode:
            counts["bulk_1d"] += 1
        elif opcode.startswith(("cp.async.ca", "cp.async.cg")):
            counts["cp_async"] += 1
        elif opcode.startswith("wgmma.mma_async"):
            wgmma[re.search(r"m\d+n\d+k\d+[\w.]*", opcode).group(0)] += 1
        elif opcode.startswith("wgmma.wait_group"):
            waits[int(operands.strip() or 0)] += 1
        elif opcode.startswith("mbarrier.init"):
            counts["mbarrier_inits"] += 1
            count = operands.rpartition(",")[2].strip()
            count = constants.get(count, count)
            if count.isdigit():
                arrivals[int(count)] += 1
        elif opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait")):
            counts["mbarrier_waits"] += 1
        elif opcode.startswith(("mbarrier.arrive", "mbarrier.expect_tx")):
            counts["expect_tx"] += "expect_tx" in opcode
            if opcode.startswith("mbarrier.arrive"):
                counts["remote_arrives" if "shared::cluster" in opcode else "arrives"] += 1
        elif opcode.startswith("fence.proxy.async"):
            counts["proxy_fences"] += 1
        elif opcode.startswith("setmaxnreg"):
            maxnreg[f"{opcode.split('.')[1]} {operands.strip()}"] += 1
        elif opcode.startswith("barrier.cluster.wait"):
            counts["cluster_barriers"] += 1
        elif opcode.startswith(("bar.sync", "barrier.sync", "barrier.cta.sync", "bar.cta.sync")):
            counts["named_barriers" if "," in operands else "cta_barriers"] += 1
        elif opcode.startswith("stmatrix"):
            counts["stmatrix"] += 1
        elif opcode.startswith("ld.global"):
            counts["global_loads"] += 1
        elif opcode.startswith("st.global"):
            counts["global_stores"] += 1
    return Receipt(
        tensor_loads=dict(tensor_loads),
        multicast_loads=dict(multicast),
        tensor_stores=dict(tensor_stores),
        wgmma=dict(wgmma),
        wgmma_waits=dict(waits),
        setmaxnreg=dict(maxnreg),
        opcodes=len(opcodes),
        mbarrier_counts=dict(arrivals),
        unawaited_store_loops=_unawaited_store_loops(text),
        **{
            name: counts[name]
            for name in (
                "bulk_1d",
                "cp_async",
                "mbarrier_inits",
                "mbarrier_waits",
                "expect_tx",
                "arrives",
                "remote_arrives",
                "proxy_fences",
                "cluster_barriers",
                "cta_barriers",
                "named_barriers",
                "bulk_commits",
                "bulk_waits",
                "bulk_read_waits",
                "stmatrix",
                "global_loads",
                "global_stores",
                "instructions",
            )
        },
    )


def _unawaited_store_loops(text: str) -> int:
    """Loops (a branch back to an earlier label) that contain a TMA store and no
    ``cp.async.bulk.wait_group``.
    """
    labels = {m.group(1): m.start() for m in re.finditer(r"^\s*(\$?\w+):", text, re.M)}
    loops = {
        (labels[m.group(1)], m.end())
        for m in re.finditer(r"\bbra(?:\.uni)?\s+(\$?\w+)", text)
        if labels.get(m.group(1), m.start()) < m.start()
    }
    bodies = [text[begin:end] for begin, end in loops]
    return sum(
        bool(re.search(r"bulk\.tensor\.\dd\.global\.shared", body)) and "bulk.wait_group" not in body
        for body in bodies
    )


@dataclass(frozen=True)
class Condition:
    """Something a step requires or forbids. ``found`` says in words what the kernel has instead."""

    sentence: str
    holds: Callable[[Receipt, Artifact], bool]
    found: Callable[[Receipt, Artifact], str]


def _ctas(artifact: Artifact) -> int:
    x, y, z = artifact.grid
    return x * y * z


def _tile_of_a_cta(artifact: Artifact) -> float:
    """Elements of D per CTA: one tile where the grid covers D, many where each CTA loops over tiles; NaN for
    no CTA.
    """
    M, N, _ = artifact.problem
    return M * N / _ctas(artifact) if _ctas(artifact) else math.nan


def _grid(r: Receipt, a: Artifact) -> str:
    return f"a grid of {' x '.join(map(str, a.grid))} for M, N = {a.problem[0]}, {a.problem[1]}"


def _loads(r: Receipt) -> int:
    return sum(r.tensor_loads.values()) + sum(r.multicast_loads.values())


CONDITIONS = {
    "wgmma": Condition(
        "`wgmma.mma_async` with an fp32 accumulator",
        lambda r, a: any(".f32." in shape for shape in r.wgmma),
        lambda r, a: ", ".join(r.wgmma) or "no wgmma",
    ),
    "one CTA": Condition("a grid of one CTA", lambda r, a: _ctas(a) == 1, _grid),
    "grid grows": Condition(
        "a grid that covers D, one tile a CTA", lambda r, a: _tile_of_a_cta(a) <= LARGEST_TILE, _grid
    ),
    "fixed grid": Condition(
        "a persistent grid: its size does not depend on M and N",
        lambda r, a: _tile_of_a_cta(a) > LARGEST_TILE,
        _grid,
    ),
    "tensor loads": Condition(
        "TMA loads, `cp.async.bulk.tensor` from global to shared",
        lambda r, a: _loads(r) > 0,
        lambda r, a: f"{_loads(r)} of them, {_other_loads(r)}",
    ),
    "tensor stores": Condition(
        "TMA stores of D, `cp.async.bulk.tensor` from shared to global",
        lambda r, a: sum(r.tensor_stores.values()) > 0,
        lambda r, a: f"none, but {r.global_stores} plain `st.global`",
    ),
    "expect-tx": Condition(
        "an mbarrier told how many bytes to expect, `expect_tx`",
        lambda r, a: r.expect_tx > 0,
        lambda r, a: "none",
    ),
    "proxy fence": Condition(
        "a `fence.proxy.async` between threads' writes to shared memory and TMA's read of them",
        lambda r, a: r.proxy_fences > 0,
        lambda r, a: "none",
    ),
    "store wait": Condition(
        "a `cp.async.bulk.wait_group` for the TMA stores, inside the loop where there is one, before "
        "their buffer is written again",
        lambda r, a: r.bulk_waits > 0 and r.unawaited_store_loops == 0,
        lambda r, a: "none" if not r.bulk_waits else "none in the loop that stores",
    ),
    "four stores": Condition(
        "D in slices: four TMA stores or more for a tile",
        lambda r, a: sum(r.tensor_stores.values()) >= 4,
        lambda r, a: str(sum(r.tensor_stores.values())),
    ),
    "read wait": Condition(
        "a `cp.async.bulk.wait_group.read`: a staging buffer is written again once it has been read",
        lambda r, a: r.bulk_read_waits > 0,
        lambda r, a: "none" if not r.bulk_waits else "none with .read",
    ),
    "two full barriers": Condition(
        "at least two mbarriers, one for each stage of the ring",
        lambda r, a: r.mbarrier_inits >= 2,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
    ),
    "empty barriers": Condition(
        "a full and an empty mbarrier for each stage: four for two stages",
        lambda r, a: r.mbarrier_inits >= 4,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
    ),
    "four stages": Condition(
        "four stages: eight mbarriers, four full and four empty",
        lambda r, a: r.mbarrier_inits >= 8,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
    ),
    "setmaxnreg": Condition(
        "register reallocation both ways, `setmaxnreg.dec` and `setmaxnreg.inc`, obeyed by ptxas",
        lambda r, a: (
            {v.split()[0] for v in r.setmaxnreg} == {"dec", "inc"}
            and not any("setmaxnreg" in w for w in a.resources.warnings)
        ),
        lambda r, a: (
            ", ".join([*r.setmaxnreg, *(w for w in a.resources.warnings if "setmaxnreg" in w)]) or "none"
        ),
    ),
    "wgmma in flight": Condition(
        "a `wgmma.wait_group` above 0, so that one group stays in flight",
        lambda r, a: any(n > 0 for n in r.wgmma_waits),
        lambda r, a: (
            f"`wgmma.wait_group` {', '.join(map(str, sorted(r.wgmma_waits)))} only"
            if r.wgmma_waits
            else "none"
        ),
    ),
    "multicast": Condition(
        "TMA multicast, `.multicast::cluster`",
        lambda r, a: sum(r.multicast_loads.values()) > 0,
        lambda r, a: "none",
    ),
    "remote arrive": Condition(
        "an arrival on the other CTA's barrier, `mbarrier.arrive.shared::cluster`",
        lambda r, a: r.remote_arrives > 0,
        lambda r, a: "none",
    ),
    "cluster barrier": Condition(
        "two `barrier.cluster`: after the barriers are initialised, and before a CTA exits. Instead of "
        "the second, the producer may wait once more for every `empty` (`producer_tail`)",
        lambda r, a: r.cluster_barriers >= 2 or r.cluster_barriers == 1 and _waits_for_all(r),
        lambda r, a: f"{r.cluster_barriers}, and no wait for every `empty`",
    ),
    "cluster of two": Condition(
        "a cluster of two CTAs",
        lambda r, a: a.cluster[0] * a.cluster[1] * a.cluster[2] == 2,
        lambda r, a: f"a cluster of {' x '.join(map(str, a.cluster))}",
    ),
    "three warpgroups": Condition(
        "three warpgroups or more: a producer and two consumers",
        lambda r, a: a.threads >= 384,
        lambda r, a: f"{a.threads} threads",
    ),
}


def _waits_for_all(r: Receipt) -> bool:
    """A wait for each stage, unrolled, beside the producer's and the consumer's own; half of the mbarriers
    are `empty`.
    """
    return r.mbarrier_waits >= 2 + r.mbarrier_inits // 2


def _other_loads(r: Receipt) -> str:
    others = {"1-D bulk copies": r.bulk_1d, "`cp.async`": r.cp_async, "plain `ld.global`": r.global_loads}
    found = ", ".join(f"{n} {name}" for name, n in others.items() if n)
    return f"but {found}" if found else "and no other copies"


def unmet(receipt: Receipt, artifact: Artifact, requires, forbids=()) -> list[str]:
    """One sentence for each condition that does not hold, or holds and should not."""
    sentences = []
    for name in requires:
        condition = CONDITIONS[name]
        if not condition.holds(receipt, artifact):
            sentences.append(f"needs {condition.sentence}; found {condition.found(receipt, artifact)}")
    for name in forbids:
        if CONDITIONS[name].holds(receipt, artifact):
            sentences.append(
                f"must do without {CONDITIONS[name].sentence}: this step is about what it costs not to have "
                "them"
            )
    return sentences


def arrivals(r: Receipt) -> str:
    """How many arrivals the mbarriers are initialised for, in brackets, as far as the PTX says it by a
    constant.
    """
    known = ", ".join(
        f"{n} for {count} arrival{'s' if count != 1 else ''}"
        for count, n in sorted(r.mbarrier_counts.items())
    )
    return f" ({known})" if known else ""


def table(receipt: Receipt, artifact: Artifact) -> list[tuple[str, str]]:
    """The receipt as short rows, (what, how many), for a person."""
    r, res = receipt, artifact.resources

    def pairs(counts: dict, form: str) -> list[str]:
        return [form.format(key, n) for key, n in sorted(counts.items(), key=str)]

    rows = [
        (
            "launch",
            f"grid {' x '.join(map(str, artifact.grid))}, {artifact.threads} threads"
            + (
                f", cluster of {artifact.cluster[0] * artifact.cluster[1] * artifact.cluster[2]}"
                if artifact.cluster != (1, 1, 1)
                else ""
            ),
        ),
        (
            "TMA loads",
            ", ".join(
                pairs(r.tensor_loads, "rank {}: {}") + pairs(r.multicast_loads, "rank {} multicast: {}")
            ),
        ),
        ("TMA stores", ", ".join(pairs(r.tensor_stores, "rank {}: {}"))),
        (
            "other copies",
            ", ".join(
                f"{name}: {n}"
                for name, n in (
                    ("1-D bulk", r.bulk_1d),
                    ("cp.async", r.cp_async),
                    ("ld.global", r.global_loads),
                    ("st.global", r.global_stores),
                )
                if n
            ),
        ),
        ("wgmma", ", ".join(pairs(r.wgmma, "{}: {}"))),
        ("wgmma waits", ", ".join(pairs(r.wgmma_waits, "wait_group {}: {}"))),
        (
            "mbarriers",
            f"init {r.mbarrier_inits}{arrivals(r)}, wait {r.mbarrier_waits}, expect_tx {r.expect_tx}, "
            f"arrive {r.arrives}, remote arrive {r.remote_arrives}"
            if r.mbarrier_inits
            else "",
        ),
        ("proxy fences", str(r.proxy_fences or "")),
        ("setmaxnreg", ", ".join(r.setmaxnreg)),
        (
            "barriers",
            ", ".join(
                f"{name}: {n}"
                for name, n in (
                    ("CTA", r.cta_barriers),
                    ("named", r.named_barriers),
                    ("cluster", r.cluster_barriers),
                )
                if n
            ),
        ),
        (
            "registers",
            f"{res.registers} a thread at launch, spills {res.spill_stores + res.spill_loads} bytes",
        ),
        ("shared memory", f"{artifact.dynamic_shared:,} dynamic + {res.static_shared:,} static bytes"),
        ("ptxas says", "; ".join(res.warnings)),
    ]
    return [
        (name, text or "none") for name, text in rows if text or name in ("TMA loads", "TMA stores", "wgmma")
    ]
