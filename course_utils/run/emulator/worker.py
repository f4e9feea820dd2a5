"""The emulator's worker process: runs Artifacts under seeded schedules, so that a learner's process only
sends data.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from typing import IO

import torch

from course_utils.artifact import Artifact
from course_utils.cause import data
from course_utils.problems import PROBLEMS
from course_utils.run import protocol
from course_utils.run.emulator.emulate import EmulatorError
from course_utils.run.emulator.explain.emulation import Emulation
from course_utils.run.emulator.explain.findings import Finding
from course_utils.run.emulator.explain.ledger import table
from course_utils.run.emulator.explain.replay import replay
from course_utils.run.emulator.isa.tags import Tags
from course_utils.run.emulator.launch import begun, emulated
from course_utils.run.emulator.sums import by_wgmma, elsewhere, nobody, whose

FIGURE_LIMIT = 400_000  # characters of what a figure plays
PLAYED = 2_000_000  # warp instructions, at most, of a run that a figure plays; the course's need half of it


def run(
    artifact: Artifact,
    kind: str,
    seed: int,
    schedules: list[int],
    ctas: list[int] | None = None,
    sums: bool = False,
    tags: int | None = None,
    figure: bool = False,
    k_tiles: int | None = None,
) -> dict:
    """Emulate on fresh inputs under each of ``schedules`` (seeds of the emulator) while all is right.

    ``kind`` is of ``problems.PROBLEMS``; ``ctas`` None runs them all, -1 is the last one. The answer has in
    ``executed`` the warp instructions of all runs, in ``facts`` what each saw, added up, and in ``printed``
    what the last one printed.
    ``tags`` is the seed of those that the runs have. Where D is right without them alone, or much is
    multiplied beside ``wgmma``, its products come from elsewhere. ``sums``: of a right kernel, ``facts`` has
    whose sums its output holds (see ``sums.whose``).
    ``figure``: of a run in which something was found, what a figure plays (see ``replay``).
    ``k_tiles``: under the first schedule the launch only begins (see ``launch.begun``), and the answer has no
    more than what was seen.
    """
    count = artifact.grid[0] * artifact.grid[1] * artifact.grid[2]
    some = None if ctas is None else [number % count for number in ctas]
    generator = torch.Generator().manual_seed(seed)
    if k_tiles is not None:
        tagged = None if tags is None else Tags(tags + schedules[0])
        beginning = begun(artifact, generator, schedules[0], some, kind, k_tiles, tagged)
        return {
            "executed": beginning.executed,
            "ok": not beginning.errors,
            "finished": beginning.finished,
            "facts": beginning.facts,
        }
    executed, facts = 0, Counter[str]()
    for schedule in schedules:
        drawn = generator.get_state()
        tagged = None if tags is None else Tags(tags + schedule)
        emulation, tried = emulated(artifact, generator, schedule, some, kind, record=None, tags=tagged)
        if tagged and emulation.finished and not tried.ok:  # without them it is seen what is wrong
            tagged = None
            emulation, tried = emulated(
                artifact, generator.set_state(drawn), schedule, some, kind, record=None
            )
            facts.update(nobody(artifact) if emulation.ok and tried.ok else {})
        executed += emulation.executed
        facts.update(emulation.facts)
        answer = tried.fields() | {"executed": executed, "ok": emulation.ok and tried.ok}
        answer["facts"] = dict(facts)
        answer["printed"] = emulation.printed
        warnings = (finding for finding in emulation.findings if finding.severity == "warning")
        answer["remarks"] = [f"{finding.detail} ({finding.place})" for finding in warnings]
        if not answer["ok"]:
            told = emulation.errors or [f for f in emulation.findings if f.severity == "cause"]
            played = None
            if figure and told and emulation.executed <= PLAYED:  # the same run again, with its timeline
                again, _ = emulated(artifact, generator.set_state(drawn), schedule, some, kind, tags=tagged)
                played = _played(again, artifact, kind, schedule)
            return answer | {
                "finished": emulation.finished,
                "kinds": [finding.kind for finding in told],
                "findings": [fields_of(finding) for finding in told],
                "causes": answer["causes"] if emulation.finished else [],
                "schedule": schedule,
                "figure": played,
            }
        if sums:
            one = seed + schedule, schedule, some and some[:1]
            facts.update(whose(artifact, kind, *one, right=tagged is not None))
            if tagged and not by_wgmma(artifact, kind, *one):
                facts.update(nobody(artifact))
            answer["facts"] = dict(facts)
    if PROBLEMS[kind].multiplied and elsewhere(facts):
        answer["facts"] |= nobody(artifact)
    return answer


def _played(emulation: Emulation, artifact: Artifact, kind: str, schedule: int) -> dict | None:
    """The run as a figure plays it; None where no CTA did anything, or it would be too much to send."""
    size = artifact.tensors[-1].shape if PROBLEMS[kind].any_shape else artifact.problem
    title = f"This run at {' x '.join(map(str, size))}, emulated schedule {schedule}"
    try:
        played = replay(emulation, title=title)
    except ValueError:
        return None
    return played if len(json.dumps(played)) <= FIGURE_LIMIT else None


def fields_of(finding: Finding) -> dict:
    """A finding as data: its cause's ``kind``, ``case`` and ``values``, ``why``: the cause that explains it,
    or None; in words ``text``, its ``sentences``, each in full and shorter and shorter, and ``advice``; the
    author's ``file``, ``line`` and ``code``, ``where``, all of it in words, and ``ledger``, a table of the
    mbarriers that it is about.
    """
    return {
        "kind": finding.kind,
        "case": finding.cause.case,
        "values": data(finding.cause.values),
        "why": data(finding.why),
        "text": finding.detail,
        "sentences": finding.sentences,
        "advice": finding.advice,
        "more": list(finding.more),
        "where": str(finding.place),
        "ledger": table(finding.ledger),
        **asdict(finding.place),
    }


def _fault(error: Exception) -> tuple[dict, bool]:
    if isinstance(error, EmulatorError):
        return {"error": "not_run", "detail": f"the emulator cannot run this kernel: {error}"}, False
    if isinstance(error, MemoryError):
        detail = "this machine has too little memory to emulate the kernel"
        return {"error": "not_run", "detail": detail}, False
    # a fault of the emulator's own; who asks for this kernel again would only meet it again
    detail = f"the emulator failed at this kernel ({type(error).__name__}: {error}); please report it"
    return {"error": "not_run", "detail": detail}, True


def _device() -> dict:
    return {"name": "emulator", "pid": os.getpid()}


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the stream ends. What the emulator cannot run is an answer, and no end."""
    protocol.serve(requests, answers, {"run": run}, _device, _fault)


if __name__ == "__main__":
    protocol.main(serve)
