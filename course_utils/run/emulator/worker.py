"""The emulator's worker process: runs Artifacts under seeded schedules, so that a learner's process only
sends data.
"""

from __future__ import annotations

from collections import Counter
from typing import IO

import torch

from course_utils.artifact import Artifact
from course_utils.run import protocol
from course_utils.run.emulator.emulate import Emulation, EmulatorError
from course_utils.run.emulator.launch import emulated


def run(
    artifact: Artifact, kind: str, seed: int, schedules: list[int], ctas: list[int] | None = None
) -> dict:
    """Emulate on fresh inputs under each of ``schedules`` (seeds of the emulator) while all is right.

    ``kind`` is of ``trial.KINDS``; ``ctas`` None runs them all, -1 is the last one. The answer's ``executed``
    counts the warp instructions of all runs, ``facts`` adds up what each saw.
    """
    count = artifact.grid[0] * artifact.grid[1] * artifact.grid[2]
    some = None if ctas is None else [number % count for number in ctas]
    generator = torch.Generator().manual_seed(seed)
    executed, facts = 0, Counter[str]()
    for schedule in schedules:
        emulation, tried = emulated(artifact, generator, schedule, some, kind)
        executed += emulation.executed
        facts.update(emulation.facts)
        answer = tried.fields() | {"executed": executed, "ok": emulation.ok and tried.ok}
        answer["facts"] = dict(facts) if emulation.finished else None
        if not answer["ok"]:
            told = _told(emulation, tried.touched, "" if tried.found.ok else tried.found.diagnosis)
            kinds = [finding.kind for finding in emulation.errors]
            words = f"{told} (emulated schedule {schedule})"
            return answer | {"finished": emulation.finished, "kinds": kinds, "diagnosis": words}
    return answer


def _told(emulation: Emulation, touched: tuple[str, ...], numbers: str) -> str:
    """What is wrong with a run, in words: findings first, then the numbers."""
    texts = [
        f"{f.detail}{' (at ' + (f.source or f.ptx) + ')' if f.source or f.ptx else ''}. {f.advice}"
        for f in emulation.errors[:2]
    ]
    texts += touched
    if emulation.finished and numbers:
        texts.append(numbers)
    if also := dict.fromkeys(f.kind for f in emulation.errors[2:]):
        texts.append(f"Also found: {', '.join(also)}; `course trace` tells them all.")
    return " ".join(texts)


def _fault(error: Exception) -> tuple[dict, bool]:
    if isinstance(error, EmulatorError):
        return {"error": "not_run", "detail": f"the emulator cannot run this kernel: {error}"}, False
    if isinstance(error, MemoryError):
        detail = "this machine has too little memory to emulate the kernel"
        return {"error": "not_run", "detail": detail}, False
    raise error


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the stream ends. What the emulator cannot run is an answer, and no end."""
    protocol.serve(requests, answers, {"run": run}, lambda: {"name": "emulator"}, _fault)


if __name__ == "__main__":
    protocol.main(serve)
