"""The emulator in a process of its own, which is asked as the GPU's worker is (``gpu.worker``): a learner's
process sends data.

One request runs one Artifact under one or more schedules, on fresh inputs each time, and holds D against the
reference.
"""

from __future__ import annotations

import json
from math import prod

from course_utils.run.gpu.worker import main, read_block, write_block


def run(artifact, seed: int, schedules: list[int], ctas: list[int] | None = None) -> dict:
    """Emulate on fresh inputs under each of ``schedules`` (seeds of the emulator); ``ctas`` None runs them
    all, -1 is the last one.

    The answer has ``ok``, ``relative_norm`` (of the last run), ``executed`` (warp instructions of all runs),
    and where something is wrong ``diagnosis``, ``finished`` and ``kinds`` (of the findings that are errors).
    """
    import torch

    from course_utils.run.emulator.gemm import emulate_gemm

    count = artifact.grid[0] * artifact.grid[1] * artifact.grid[2]
    some = None if ctas is None else [number % count for number in ctas]
    generator = torch.Generator().manual_seed(seed)
    executed = 0
    for schedule in schedules:
        emulation, found, changed = emulate_gemm(artifact, generator, schedule, some)
        executed += emulation.executed
        answer = {"ok": emulation.ok and found.ok, "relative_norm": found.relative_norm, "executed": executed}
        if not answer["ok"] or changed:
            return answer | _told(emulation, found, changed, schedule)
    return answer


def copy(artifact, seed: int, schedules: list[int]) -> dict:
    """Emulate a kernel that copies X to Y, on random bits, under each of ``schedules``.

    The answer is as ``run``'s.
    """
    import torch

    from course_utils.run import reference as results
    from course_utils.run.emulator.emulate import emulate

    x, y = artifact.tensors
    generator = torch.Generator().manual_seed(seed)
    executed = 0
    for schedule in schedules:
        X = results.numbered(prod(x.shape), generator, "cpu").view(x.shape)
        before = X.clone()
        Y = torch.full(y.shape, results.POISON, dtype=torch.int16).view(torch.float16)
        emulation = emulate(artifact, {x.name: X, y.name: Y}, schedule)
        found = results.compare_copy(Y, before)
        changed = [] if torch.equal(X.view(torch.int16), before.view(torch.int16)) else [x.name]
        executed += emulation.executed
        answer = {"ok": emulation.ok and found.ok, "relative_norm": found.relative_norm, "executed": executed}
        if not answer["ok"] or changed:
            return answer | _told(emulation, found, changed, schedule)
    return answer


def _told(emulation, found, changed: list[str], schedule: int) -> dict:
    """What is wrong with a run, in words: findings first, then the numbers."""
    texts = [
        f"{f.detail}{' (at ' + (f.source or f.ptx) + ')' if f.source or f.ptx else ''}. {f.advice}"
        for f in emulation.errors[:2]
    ]
    texts += [f"the kernel changed its input {name}" for name in changed]
    if emulation.finished and not found.ok:
        texts.append(found.diagnosis)
    if also := dict.fromkeys(f.kind for f in emulation.errors[2:]):
        texts.append(f"Also found: {', '.join(also)}; `course trace` tells them all.")
    return {
        "ok": False,
        "finished": emulation.finished,
        "kinds": [f.kind for f in emulation.errors],
        "diagnosis": f"{' '.join(texts)} (emulated schedule {schedule})",
    }


def serve(requests, answers) -> None:
    """Answer requests until the stream ends.

    What the emulator cannot run is an answer with ``error``, and no end.
    """
    from course_utils.artifact import Artifact
    from course_utils.run.emulator.emulate import EmulatorError

    while (block := read_block(requests)) is not None:
        request = json.loads(block)
        blob = read_block(requests)
        op = request.pop("op")
        try:
            work = {"run": run, "copy": copy}
            answer = (
                {"name": "emulator"} if op == "device" else work[op](Artifact.from_bytes(blob), **request)
            )
        except EmulatorError as error:
            answer = {"error": "emulator", "diagnosis": f"the emulator cannot run this kernel: {error}"}
        except MemoryError:
            answer = {
                "error": "out_of_memory",
                "diagnosis": "this machine has too little memory to emulate the kernel",
            }
        write_block(answers, json.dumps(answer).encode())


if __name__ == "__main__":
    main(serve)
