"""An emulated launch as Chrome's trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing read.

"Trace Event Format" (Google): "X" is a span, "i" an instant, "C" a counter, "M" a name. A CTA is a process; a
role's loads, work and waits are threads of it. Spans of one thread must not overlap, so those that do get
threads of their own. A microsecond stands for one warp instruction of the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.run.emulator.explain.replay import Replay, replays
from course_utils.run.emulator.explain.timeline import COPY

if TYPE_CHECKING:
    from course_utils.run.emulator import Emulation

ROWS = {"TMA load": "loads", "wait": "waits"}  # any other kind is work


def events(emulation: Emulation) -> list[dict]:
    """The trace events of all clusters that were recorded, names first, then by time.

    Raises ValueError where nothing was recorded.
    """
    names: dict[tuple[int, str], int] = {}  # the number of each thread, by CTA and name
    found: list[dict] = []
    for played in replays(emulation):
        found += _spans(played, names)
        found += _instants(played, names)
        found += _counters(played)
    if not found:
        raise ValueError("the kernel did nothing that could be written: no load, no wait, no multiplication")
    found.sort(key=lambda event: event["ts"])
    ctas = sorted({event["pid"] for event in found})
    told = [_name("process_name", cta, 0, f"CTA {cta}") for cta in ctas]
    told += [_name("thread_name", cta, tid, name) for (cta, name), tid in names.items()]
    return told + found


def _name(what: str, pid: int, tid: int, name: str) -> dict:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _thread(names: dict[tuple[int, str], int], cta: int, name: str) -> int:
    return names.setdefault((cta, name), len(names) + 1)


def _spans(played: Replay, names: dict[tuple[int, str], int]) -> list[dict]:
    """The bars. Those of one row that overlap go to a thread of the next number."""
    found: list[dict] = []
    ends: dict[tuple[int, str], int] = {}
    places = list(played.places)
    for bar in sorted(played.bars, key=lambda bar: bar.begin):
        lane = played.lanes[bar.lane]
        row = f"{lane.name(played.roles)}: {ROWS.get(bar.kind, 'work')}"
        begin, end = played.steps[bar.begin]["time"], played.steps[bar.end]["time"]
        number = 1
        while ends.get((lane.cta, f"{row} {number}"), begin) > begin:
            number += 1
        ends[lane.cta, f"{row} {number}"] = end
        name = f"waits for {bar.label}" if bar.kind == "wait" else f"{bar.kind} {bar.label}"
        if bar.kind in ("epilogue", COPY):
            name = bar.kind
        args = {"line": str(places[bar.line])}
        if bar.stage is not None:
            name, args["stage"] = f"{name}, stage {bar.stage}", str(bar.stage)
        tid = _thread(names, lane.cta, f"{row} {number}" if number > 1 else row)
        found.append(
            {"ph": "X", "name": name, "cat": bar.kind, "pid": lane.cta, "tid": tid, "ts": begin}
            | {"dur": end - begin, "args": args}
        )
    return found


def _instants(played: Replay, names: dict[tuple[int, str], int]) -> list[dict]:
    """Each step, with its words."""
    found, places = [], list(played.places)
    for step in played.steps:
        lane = played.lanes[step["lane"]] if step["lane"] >= 0 else None
        name = "other warps" if lane is None else f"{lane.name(played.roles)}: events"
        tid = _thread(names, step["cta"], name)
        found.append(
            {"ph": "i", "s": "t", "name": step["text"], "cat": step["kind"], "pid": step["cta"], "tid": tid}
            | {"ts": step["time"], "args": {"line": str(places[step["line"]])}}
        )
    return found


def _counters(played: Replay) -> list[dict]:
    """The numbers of each mbarrier as they change."""
    found = []
    for (cta, name), states in played.barriers.items():
        for step, phase, arrived, come, expected in states:
            values = {"phase": phase, "arrivals": arrived, "bytes come": come, "bytes expected": expected}
            found += [
                {"ph": "C", "name": f"{name} {what}", "pid": cta, "tid": 0, "ts": played.steps[step]["time"]}
                | {"args": {what: value}}
                for what, value in values.items()
                if expected or come or not what.startswith("bytes")
            ]
    return found
