"""Counters of kernels as a recording, and what they say: a GEMM's time, taken apart.

    time = work / (tensor pipe active x clock x SMs x FLOP a clock and SM)

Work, SMs and FLOP a clock are given. So a kernel is slow for as many reasons as the tensor pipe has to stand
idle, and for the clock.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from course_utils.artifact import Artifact
from course_utils.chips import HOME
from course_utils.run import ncu
from course_utils.run.ncu import STALLED, STALLS

CUBLAS = "cublas"  # the step and the DSL of cuBLAS's entry
BUSY = 0.85  # the tensor pipe is the bound from here on: every good kernel of this course has 0.9
FULL = 0.70  # of DRAM or L2: above it, it is the bound
SLOW = 0.97  # of the highest clock: below it, the clock costs what is worth a word

Size = tuple[int, ...]
Say = Callable[[str], object]


@dataclass(frozen=True)
class Kernel:
    """What is counted: one kernel's artifacts by problem size."""

    name: str
    step: str
    dsl: str
    artifacts: dict[Size, Artifact]


@dataclass(frozen=True)
class Parts:
    """One launch's time taken apart. ``activity`` is a share of all cycles of all SMs; clocks are Hz, and
    ``max_clock`` is ``clock`` where the highest is not known.
    """

    work: int
    activity: float
    clock: float
    max_clock: float
    sms: int
    measured: float

    @property
    def floor(self) -> float:
        """Seconds with every tensor core at work in every cycle of the highest clock."""
        return self.work / (self.sms * HOME.flop_per_clock * self.max_clock)

    @property
    def slow(self) -> float:
        """Seconds that the clock adds to these by being lower than the highest."""
        return self.seconds * self.activity - self.floor

    @property
    def idle(self) -> float:
        """Seconds that the tensor pipe stands idle."""
        return self.seconds * (1 - self.activity)

    @property
    def seconds(self) -> float:
        """What the product says: ``measured`` is near it."""
        return self.work / (self.activity * self.clock * self.sms * HOME.flop_per_clock)


def parts(launch: dict, where: dict) -> Parts | None:
    """A launch taken apart, ``where`` being its recording's provenance; None where a counter is missing."""
    counters = launch["counters"]
    activity, clock, measured = (counters.get(name) for name in ("tensor_active", "clock_hz", "seconds"))
    if not activity or not clock or not measured:
        return None
    highest = (where.get("max_clock_mhz") or 0) * 1e6
    work = 2 * math.prod(launch["size"])
    return Parts(work, activity, clock, max(clock, highest), where["sms"], measured)


def bound(launch: dict, where: dict) -> str:
    """What bounds a launch, in one sentence or two."""
    found, counters = parts(launch, where), launch["counters"]
    if found is None:
        return "What bounds it is not known: tensor pipe, clock or time was not read."
    if found.activity >= BUSY:
        return (
            f"The tensor cores bound it: they work in {found.activity:.0%} of all cycles."
            f"{_clock_words(found, launch, where)}"
        )
    for name, words in (("dram_throughput", "DRAM"), ("l2_throughput", "L2")):
        if counters.get(name, 0) >= FULL:
            return (
                f"{words} bounds it: it moves {counters[name]:.0%} of what it can, and the tensor cores work "
                f"in {found.activity:.0%} of all cycles."
            )
    return (
        f"Waiting bounds it: the tensor cores work in {found.activity:.0%} of all cycles."
        f"{_stall_words(counters)}"
    )


def _clock_words(found: Parts, launch: dict, where: dict) -> str:
    if found.clock > SLOW * found.max_clock:
        return ""
    at_best = found.floor / found.activity * 1e6
    text = (
        f" What is left is the clock: {found.clock / 1e9:.2f} of {found.max_clock / 1e9:.2f} GHz; at the "
        f"highest it would take {at_best:,.0f} us and not {found.measured * 1e6:,.0f}."
    )
    watts = (launch.get("power") or {}).get("power_w")
    if watts and where.get("power_limit_w"):
        text += f" In a loop it takes {watts:.0f} of {where['power_limit_w']:.0f} W."
    return text


def _stall_words(counters: dict[str, float]) -> str:
    """What most warps wait for. The sum over all reasons is the number of warps that an issue finds."""
    waits = stalls(counters)
    if not waits:
        return ""
    reason, share = waits[0]
    return f" Of the warps there, {share:.0%} wait for {STALLS[reason]}."


def stalls(counters: dict[str, float]) -> list[tuple[str, float]]:
    """Why warps do not issue, the most frequent first: the reason, and its share of all warps there.

    Warps that have nothing to do count too: in a persistent kernel, all but one warp of a producer.
    """
    found = {reason: counters.get(STALLED + reason, 0.0) for reason in STALLS}
    total = sum(found.values())
    waits = [(r, v / total) for r, v in found.items() if r not in ("selected", "not_selected") and v > 0]
    return sorted(waits, key=lambda wait: -wait[1])


def measure(
    kernels: Sequence[Kernel],
    where: dict,
    say: Say = lambda text: None,
    raw: Say = lambda text: None,
    keep: Callable[[dict], object] = lambda recording: None,
    child: Sequence[str] | None = None,
) -> dict:
    """Read the counters of kernels, and of cuBLAS at each of their sizes. Returns the recording, unsigned.

    ``where`` is the provenance as ``bundle.provenance`` has it. ``raw`` hears what ncu printed, ``keep`` the
    recording as far as it is; ``child`` stands in for ``ncu.CHILD`` in tests. A launch that has
    no counters is left out, and why stands under "lost". Raises NcuError where none can be read.
    """
    child = ncu.CHILD if child is None else child
    program = ncu.find()
    where = {**where, "ncu": ncu.version(program), **limits()}
    items, places = _items(kernels)
    say(f"{where['gpu']}, driver {where['driver']}, ncu {where['ncu']}: counters of {len(items)} launches")
    lost: list[str] = []
    powers: dict[int, dict] = {}

    def known(found: ncu.Found) -> dict:
        return _recording(items, places, found, powers) | {"provenance": where, "lost": lost}

    def lose(text: str) -> None:
        say(text)
        lost.append(text)

    found = ncu.count(items, program, child, raw, lambda now: keep(known(now)))
    for index, why in found.failed.items():
        lose(f"{_named(items[index])} has no counters: {why}")
    if unknown := [name for name in ncu.COUNTERS if name not in found.metrics]:
        lose(f"this ncu does not know: {', '.join(unknown)}")
    say(f"power of {len(found.rows)} launches")
    for index, power in _powers(items, list(found.rows), child, lose):
        powers[index] = power
        keep(known(found))
    return known(found)


def _recording(
    items: Sequence[ncu.Item],
    places: Sequence[tuple[str, str, str]],
    found: ncu.Found,
    powers: dict[int, dict],
) -> dict:
    """What is found until now, in the form of a recording."""
    entries: dict[tuple[str, str], dict] = {}  # a variant has one name in both DSLs
    for index, (name, step, dsl) in enumerate(places):
        if index in found.rows:
            launch = {
                "size": list(items[index].artifact.problem),
                "kernel": found.rows[index].kernel,
                "counters": found.counters(index),
                "power": powers.get(index),
            }
            fields = {"name": name, "step": step, "dsl": dsl, "launches": []}
            entries.setdefault((name, dsl), fields)["launches"].append(launch)
    return {"metrics": found.metrics, "entries": list(entries.values())}


def _items(kernels: Sequence[Kernel]) -> tuple[list[ncu.Item], list[tuple[str, str, str]]]:
    """The launches, size by size with cuBLAS first, and whose each is: name, step, DSL."""
    items, places = [], []
    for size in dict.fromkeys(size for kernel in kernels for size in kernel.artifacts):
        having = [kernel for kernel in kernels if size in kernel.artifacts]
        items.append(ncu.Item("cuBLAS", having[0].artifacts[size], cublas=True))
        places.append(("cuBLAS", CUBLAS, CUBLAS))
        for kernel in having:
            told = kernel.name if kernel.dsl in kernel.name else f"{kernel.name} ({kernel.dsl})"
            items.append(ncu.Item(told, kernel.artifacts[size]))
            places.append((kernel.name, kernel.step, kernel.dsl))
    return items, places


def _powers(
    items: Sequence[ncu.Item], todo: list[int], child: Sequence[str], lose: Say
) -> Iterator[tuple[int, dict]]:
    """What each of these launches takes in a loop, without ncu. One that fails is told, and has none."""
    while todo:
        now, later = todo[: ncu.BATCH], todo[ncu.BATCH :]
        with ncu.plan(items, now) as folder:
            ncu.watched([*child, str(folder), "power"], folder / "done.jsonl", ncu.LAUNCH_LIMIT)
            done = ncu.reported(folder)
        if not done:
            lose("power was not read: the program that launches in a loop did not start")
            return
        yield from ((index, fields["power"]) for index, fields in done.items() if fields.get("power"))
        for index, why in ncu.failures(done, ncu.LAUNCH_LIMIT).items():
            lose(f"{_named(items[index])} has no power: {why}")
        todo = [index for index in now if index not in done] + later


def limits() -> dict:
    """The highest SM clock (MHz) and the power limit (W) that nvidia-smi names; None where it names none."""
    names = {"max_clock_mhz": "clocks.max.sm", "power_limit_w": "power.limit"}
    query = [f"--query-gpu={','.join(names.values())}", "--format=csv,noheader,nounits"]
    try:
        ran = subprocess.run(["nvidia-smi", *query], capture_output=True, text=True, timeout=20)
        values = [float(cell) for cell in ran.stdout.splitlines()[0].split(",")]
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return dict.fromkeys(names)
    return dict(zip(names, values, strict=False))


def _named(item: ncu.Item) -> str:
    return f"{item.name} at {'x'.join(map(str, item.artifact.problem))}"
