"""What commands say and draw of an emulated launch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from course_utils.cli import BUILD
from course_utils.cli.terminal import at_work, say

if TYPE_CHECKING:
    from course_utils.run.emulator import Emulation


def say_run(console: Console, emulation: Emulation, title: str) -> None:
    """How the launch ended, its findings, and what the kernel printed."""
    ended = "ended" if emulation.finished else "did not end"
    say(console, f"{title}: {emulation.executed:,} warp instructions, {ended}")
    for finding in emulation.findings:
        say(console, str(finding))
    if emulation.printed:
        say(console, f"Printed by the kernel:\n{emulation.printed.rstrip()}")


def draw_run(
    console: Console, emulation: Emulation, title: str, out: str | None, perfetto: str | None
) -> None:
    """Write the timeline as a picture, the events as Perfetto reads them, or both; build/trace.png if neither
    is named. Raises ValueError if there are no events, and OSError.
    """
    if perfetto is not None:
        _write_events(console, emulation, Path(perfetto))
    if out is None and perfetto is not None:
        return
    picture = Path(out or BUILD / "trace.png")
    with at_work(console, "drawing the timeline"):
        from course_utils.figures.timeline import timeline

        picture.parent.mkdir(parents=True, exist_ok=True)
        try:
            picture.write_bytes(timeline(emulation, title=title).png())
        except ValueError:  # threads alone worked
            say(console, "no picture: nothing asynchronous ran, no TMA, no wgmma, no wait at an mbarrier")
            return
    say(console, f"wrote {picture}")


def _write_events(console: Console, emulation: Emulation, out: Path) -> None:
    from course_utils.figures import perfetto

    events = perfetto.events(emulation)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))
    say(console, f"wrote {out}: open it at ui.perfetto.dev; a microsecond there is a warp instruction here")
