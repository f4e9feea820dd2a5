"""An mbarrier through two phases: what is still to come, and which wait passes (PTX ISA, "mbarrier")."""

from __future__ import annotations

from dataclasses import dataclass

from course_utils.figures.moving.still import Cell, Row

KIB = 1024
PIECE = 64  # bytes that ``expect`` is a multiple of: quarters of 16


@dataclass(frozen=True)
class State:
    """An mbarrier after an event: its phase, and the arrivals and bytes that this phase still needs."""

    phase: int
    pending: int
    bytes: int

    def after(self, count: int, arrivals: int = 0, expected: int = 0, landed: int = 0) -> State:
        """The state after arrivals, an expect-tx or bytes; at zero and zero the phase ends."""
        pending, left = self.pending - arrivals, self.bytes + expected - landed
        if pending == 0 == left:
            return State(self.phase + 1, count, 0)
        return State(self.phase, pending, left)


def events(count: int, expect: int) -> list[tuple[str, dict[str, int]]]:
    """Words and numbers of each event: two rounds; in the second the bytes come before the arrivals."""
    half = expect // 2
    arrive = [
        (f"arrival {i + 1} of {count}" if count > 1 else "the producer arrives", {"arrivals": 1})
        for i in range(count)
    ]
    told = (f"expect_tx({expect:,}): the loads of A and B are issued", {"expected": expect})
    first = [told, *arrive]
    first += [(f"{part:,} bytes land", {"landed": part}) for part in (half // 2, half, half - half // 2)]
    second = [told, (f"{half:,} bytes land", {"landed": half}), (f"{half:,} bytes land", {"landed": half})]
    return [(f"init({count})", {}), *first, *second, *arrive, told]


def states(count: int, expect: int) -> list[State]:
    """The barrier after each event."""
    made = [State(0, count, 0)]
    for _, numbers in events(count, expect)[1:]:
        made.append(made[-1].after(count, **numbers))
    return made


def why(phase: int, parity: int) -> str:
    """Whether a wait for this parity passes in a phase, and why."""
    if phase & 1 == parity:
        return f"blocks: phase {phase}, of parity {parity}, is open"
    if phase == 0:
        return "passes: the phase before phase 0 counts as over"
    return f"passes: phase {phase - 1}, of parity {parity}, is over"


def happened(text: str, before: State | None, now: State) -> str:
    """An event with what it did to the barrier."""
    if before is None:
        return f"{text}. A new barrier is in phase 0."
    if now.phase > before.phase:
        return f"{text}. Both counts are at zero: phase {before.phase} is over, phase {now.phase} begins."
    if now.pending == 0:
        return f"{text}. No arrival is missing, but {now.bytes:,} bytes are: the phase stays open."
    if now.bytes == 0:
        missing = f"{now.pending} arrival{'s are' if now.pending > 1 else ' is'}"
        return f"{text}. No byte is missing, but {missing}: the phase stays open."
    return f"{text}."


def spans(values: list[int]) -> list[tuple[int, int, int]]:
    """(begin, end, value) of each run of equal values."""
    made: list[tuple[int, int, int]] = []
    for i, value in enumerate(values):
        if made and made[-1][2] == value:
            made[-1] = (made[-1][0], i + 1, value)
        else:
            made.append((i, i + 1, value))
    return made


def figure(count: int = 1, expect: int = 32_768) -> dict:
    """An mbarrier of ``count`` arrivals (1 to 4) that expects so many bytes in a phase."""
    if type(count) is not int or not 1 <= count <= 4:
        raise ValueError(f"count is a whole number of arrivals, 1 to 4, not {count!r}")
    if type(expect) is not int or expect <= 0 or expect % PIECE:
        raise ValueError(f"expect is a number of bytes, a multiple of {PIECE}, not {expect!r}")
    told, seen = events(count, expect), states(count, expect)
    phases = spans([one.phase for one in seen])
    rows = [
        Row(
            "phase",
            tuple(Cell(a, b, f"phase {p}, parity {p & 1}", ("even", "odd")[p & 1]) for a, b, p in phases),
        ),
        Row("arrivals to come", tuple(Cell(i, i + 1, str(s.pending), "pale") for i, s in enumerate(seen))),
        Row("KiB to come", tuple(Cell(i, i + 1, f"{s.bytes / KIB:g}", "pale") for i, s in enumerate(seen))),
    ]
    for parity in (0, 1):
        passes = spans([one.phase & 1 != parity for one in seen])
        cells = tuple(Cell(a, b, "passes" if p else "blocks", "paper" if p else "wait") for a, b, p in passes)
        rows.append(Row(f"wait for parity {parity}", cells))
    befores = [None, *seen]
    return {
        "title": f"One mbarrier, init({count})",
        "words": "Each column is an event. A phase completes when arrivals and bytes are both at zero. A "
        "wait names a parity: it blocks in phases of that parity and passes in the others.",
        "rows": rows,
        "count": count,
        "expect": expect,
        "says": [
            happened(text, before, now) for (text, _), before, now in zip(told, befores, seen, strict=False)
        ],
        "states": [(s.phase, s.pending, s.bytes) for s in seen],
        "why": [[why(s.phase, parity) for parity in (0, 1)] for s in seen],
        "steps": len(seen),
    }
