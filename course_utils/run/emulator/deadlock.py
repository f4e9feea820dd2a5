"""Why nothing goes on: each waiting warp, what it waits for, what that lacks, and who could still have
supplied it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from course_utils.artifact import REGISTER_LIMIT
from course_utils.run.emulator.arithmetic import LANES
from course_utils.run.emulator.barriers import PhaseWait
from course_utils.run.emulator.threads import RegisterWait, ThreadWait
from course_utils.run.emulator.wgmma import WgmmaWait

if TYPE_CHECKING:
    from course_utils.run.emulator.barriers import MBarrier
    from course_utils.run.emulator.machine import Cluster, Machine
    from course_utils.run.emulator.warp import Path


def describe(machine: Machine, cluster: Cluster) -> None:
    """Record the finding: "register-budget" where a warpgroup waits for registers, else "deadlock"."""
    paths = sorted(
        machine.waiting, key=lambda p: (_RANK.get(type(p.waits_for), 9), p.cta.number, p.warp.index)
    )
    alike: dict[tuple, dict[str, Any]] = {}
    for path in paths:
        row = _row(path)
        key = row["cta"], row["role"], row["text"], row["line"]
        if key in alike:
            alike[key]["warps"].append(path.warp.index)
        else:
            alike[key] = row
    rows = sorted(alike.values(), key=lambda row: -row["lacks"])  # first who lacks what nobody can bring
    told = [_told(row) for row in rows]
    text = told[0] if told else "no warp waits, and none can run"
    others = tuple(f"{one}: {row['line']}" for one, row in zip(told[1:ROWS], rows[1:], strict=False))
    if len(rows) > ROWS:
        others += (f"{len(rows) - ROWS} more groups of warps wait",)
    at = rows[0]["blame"] if rows else -1
    hungry = [p for p in paths if isinstance(p.waits_for, RegisterWait)]
    if hungry:
        cta = hungry[0].cta
        asking = {p.warp: p.waits_for.wanted for p in hungry if p.cta is cta}
        total = sum(asking.get(w, w.register_count) * LANES for w in cta.warps)
        machine.findings.add(
            "register-budget",
            hungry[0].at,
            f"setmaxnreg asks for {total:,} registers in all, and a CTA has {REGISTER_LIMIT:,}",
            waiting=rows,
            more=tuple(f"{one}: {row['line']}" for one, row in zip(told[:ROWS], rows, strict=False)),
        )
        return
    more = [rows[0]["could"]] if rows and rows[0]["could"] else []
    if rows and at != rows[0]["at"]:
        text += f", and its init counts {rows[0]['count']}"
        more.append(f"the wait: {rows[0]['line']}")
    machine.findings.add("deadlock", at, text, waiting=rows, more=(*more, *others))


ROWS = 6  # groups of waiting warps that the text names; Finding.waiting has them all
_RANK = {RegisterWait: 0, PhaseWait: 1, WgmmaWait: 2, ThreadWait: 3}


def _told(row: dict) -> str:
    return f"{_who(row['role'], row['warps'], row['cta'])} wait{'s' * (len(row['warps']) == 1)} {row['text']}"


def _who(role: str, warps: list[int], cta: int) -> str:
    return f"{role} warp{'s' if len(warps) > 1 else ''} {_spans(warps)} of CTA {cta}".lstrip()


def _row(path: Path) -> dict:
    reason = path.waits_for
    row = {
        "role": path.warp.role(path.pc),
        "warps": [path.warp.index],
        "cta": path.cta.number,
        "line": str(path.machine.findings.place(path.at)),
        "at": path.at,
        "blame": path.at,  # the instruction that is to blame, as far as can be told
        "lacks": 0,  # 2: bytes that no load brings; 1: arrivals beyond those that came
        "barrier": "",
        "parity": None,
        "could": "",
        "text": "",
    }
    if isinstance(reason, PhaseWait):
        row.update(_phase(reason, path))
    elif isinstance(reason, ThreadWait):
        barrier = reason.barrier
        row.update(
            barrier=barrier.label,
            text=f"at {barrier.label}, where {barrier.arrived} of {reason.needed} threads are",
        )
    elif isinstance(reason, RegisterWait):
        row["text"] = (
            f"for {reason.wanted} registers a thread, holding {path.warp.register_count}; "
            f"{path.cta.registers_free:,} of the CTA's are free"
        )
    elif isinstance(reason, WgmmaWait):
        joined = reason.group.operations[reason.count - 1].joined
        row["text"] = f"for a wgmma that {joined} of the 4 warps of its warpgroup have issued"
    return row


def _phase(reason: PhaseWait, path: Path) -> dict:
    barrier = reason.barrier
    missing = []
    if barrier.pending:
        missing.append(f"{barrier.pending} of {barrier.count} arrivals")
    if barrier.tx > 0:
        missing.append(f"{barrier.tx:,} of {barrier.expected:,} bytes")
    elif barrier.tx < 0:
        missing.append(f"an expect-tx for {-barrier.tx:,} bytes that came")
    parity = f"parity {reason.parity}" if reason.parity is not None else f"phase {reason.phase}"
    where = "" if barrier.cta is path.cta else f" of CTA {barrier.cta.number}"
    partial = 0 < barrier.pending < barrier.count
    busy = {other.warp for other in path.machine.waiting}
    text = (
        f"for {barrier.name()}{where}, {parity}: its phase {barrier.phase} lacks "
        f"{' and '.join(missing) or 'nothing'}"
    )
    return {
        "barrier": barrier.name(),
        "parity": reason.parity,
        "phase": barrier.phase,
        "arrivals_missing": barrier.pending,
        "bytes_missing": barrier.tx,
        "text": text,
        "could": _could(barrier, path),
        "count": barrier.count,
        # all who arrive wait for what this wait holds up: it is the count that is wrong
        "blame": barrier.init_at if partial and barrier.arrivers.keys() <= busy else path.at,
        "lacks": 2 if barrier.pending == 0 else int(partial),
    }


def _could(barrier: MBarrier, path: Path) -> str:
    """Who has arrived before, or else who has an arrive still ahead; and what they do now."""
    if barrier.pending == 0:
        return "no load that signals it is in flight"
    busy = {p.warp: p for p in path.machine.waiting}
    others = list(barrier.arrivers)
    if not others:
        # who fills a stage, or who empties it
        wanted = "load" if barrier.name().startswith("full") else "wgmma"
        program = path.machine.program
        able = {p.warp: program.abilities(p.pc) for p in path.machine.waiting if p.warp is not path.warp}
        able = {warp: can for warp, can in able.items() if "arrive" in can}
        others = [warp for warp, can in able.items() if wanted in can] or list(able)
    if not others:
        return "nobody has arrived on it, and nobody is left who could"
    groups: dict[tuple[str, bool, int], list[int]] = {}
    for warp in others:
        role = warp.role(busy[warp].pc if warp in busy else None)
        groups.setdefault((role, warp in busy, warp.cta.number), []).append(warp.index)
    states = {
        (True, True): "waits too",
        (True, False): "wait too",
        (False, True): "has ended",
        (False, False): "have ended",
    }
    words = ", ".join(
        f"{_who(role, warps, cta)}, which {states[waits, len(warps) == 1]}"
        for (role, waits, cta), warps in groups.items()
    )
    return ("arrivals came from " if barrier.arrivers else "arrivals could come from ") + words


def _spans(numbers: Iterable[int]) -> str:
    """0-3, 5 of [0, 1, 2, 3, 5]."""
    parts, numbers = [], sorted(set(numbers))
    while numbers:
        end = 0
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        parts.append(str(numbers[0]) if end == 0 else f"{numbers[0]}-{numbers[end]}")
        numbers = numbers[end + 1 :]
    return ", ".join(parts)
