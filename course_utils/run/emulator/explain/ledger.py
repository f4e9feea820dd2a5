"""The ledger of mbarriers: the account of each as a row of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.accounts import account
from course_utils.run.emulator.units.mbarrier import MBarrier

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import Warp


ROWS = 12  # of a table


@dataclass(frozen=True, slots=True)
class Row:
    """One mbarrier in words, as a finding carries it."""

    barrier: str
    init: str
    ended: str
    arrivals: str
    bytes: str
    waiting: str


HEAD = Row("mbarrier", "counts", "phases ended", "arrivals of this phase", "bytes of this phase", "who waits")


def rows(barriers: Iterable[MBarrier]) -> tuple[Row, ...]:
    """The state of some mbarriers, in the order of their CTAs and addresses."""
    ordered = sorted(dict.fromkeys(barriers), key=lambda b: (b.cta.number, b.offset))
    several = len({b.cta for b in ordered}) > 1
    return tuple(_row(barrier, several) for barrier in ordered[:ROWS])


def _row(barrier: MBarrier, several: bool) -> Row:
    mine = account(barrier)
    came = max(barrier.count - barrier.pending, sum(mine.this_phase.values()))
    arrived = f"{came} of {barrier.count}"
    if mine.this_phase:
        arrived += f", by {names.who(mine.this_phase, barrier.cta)}"
    if mine.last_phase:
        by = names.who(mine.last_phase, barrier.cta)
        arrived += f"; {sum(mine.last_phase.values())} in the one before, by {by}"
    landed = f"{barrier.expected - barrier.tx:,} of {barrier.expected:,}" if mine.carries_bytes else "none"
    waits: dict[str, list[Warp]] = {}
    for path in barrier.waiting:
        wait = path.waits_for
        text = f"for parity {wait.parity}" if wait.parity is not None else f"for phase {wait.phase}"
        waits.setdefault(text, []).append(path.warp)
    waiting = "; ".join(f"{names.who(warps, barrier.cta)} {text}" for text, warps in waits.items())
    where = f" of CTA {barrier.cta.number}" if several else ""
    name, counts, ended = names.of_barrier(barrier) + where, str(barrier.count), str(barrier.phase)
    return Row(name, counts, ended, arrived, landed, waiting or "nobody")


def table(found: Iterable[Row]) -> str:
    """Rows as aligned text, with a head; nothing of none."""
    cells = [astuple(row) for row in found]
    if not cells:
        return ""
    cells.insert(0, astuple(HEAD))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
