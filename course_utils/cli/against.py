"""``course check --against`` and ``course trace --against``: any kernel, by a reference of its author's."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from course_utils.cli import EXIT_FAILED
from course_utils.cli.emulated import draw_run, say_run
from course_utils.cli.terminal import at_work, say
from course_utils.grading import against


def check(console: Console, file: str, reference_file: str, as_json: bool) -> int:
    """Emulate a kernel under several schedules, and hold what it writes against its reference."""
    from course_utils.run.emulator import EmulatorError

    said: list[str] = []
    runs: list[against.Outcome] = []
    with at_work(console, f"compiling {file}") as say_now:
        reference = against.load_reference(reference_file)
        artifacts = against.compiled(file, reference)
        for schedule in against.SCHEDULES:
            say_now(f"emulating {file}, schedule {schedule}")
            try:
                runs.append(against.run(artifacts, reference, schedule))
            except EmulatorError as error:
                raise ValueError(f"the emulator cannot run this: {error}") from error
            if not runs[-1].ok:
                break
    last, executed = runs[-1], sum(e.executed for outcome in runs for e in outcome.emulations)
    for emulation in last.emulations:
        said += [str(finding) for finding in emulation.findings]
        if emulation.printed:
            said.append(f"Printed by the kernel:\n{emulation.printed.rstrip()}")
    said += last.wrong
    names = " and ".join(reference.outputs)
    kernels = f"{len(artifacts)} kernel{'s' * (len(artifacts) > 1)}"
    ran = f"{kernels}, {len(runs)} schedule{'s' * (len(runs) > 1)}, {executed:,} warp instructions"
    if last.ok:
        said.append(f"{names} as in {Path(reference_file).name}: {ran}")
    else:
        said.append(f"not right under schedule {last.schedule}: {ran}")
    if as_json:
        console.out(json.dumps({"passed": last.ok, "schedules": len(runs), "said": said}, indent=1))
    else:
        for text in said:
            say(console, text)
    return 0 if last.ok else EXIT_FAILED


def trace(
    console: Console, file: str, reference_file: str, seed: int, out: str | None, perfetto: str | None
) -> int:
    """Emulate a kernel once, say what is wrong with it, and draw who waited for whom."""
    from course_utils.run.emulator import EmulatorError

    with at_work(console, f"compiling {file}") as say_now:
        reference = against.load_reference(reference_file)
        artifacts = against.compiled(file, reference)
        say_now(f"emulating {file}")
        try:
            outcome = against.run(artifacts, reference, seed, record=perfetto is not None)
        except EmulatorError as error:
            raise ValueError(f"the emulator cannot run this: {error}") from error
    for emulation in outcome.emulations:
        say_run(console, emulation, f"schedule {seed}")
    for text in outcome.wrong or ["its outputs are right"] * outcome.finished:
        say(console, text)
    draw_run(console, outcome.emulations[-1], f"{file}, schedule {seed}", out, perfetto)
    return 0 if outcome.ok else EXIT_FAILED
