"""An emulated launch as a figure plays it: steps in order, and what each mbarrier and each stage held after
every one.

``replay`` makes plain data of an Emulation's events: a worker can send it, a page can hold it as JSON. A step
is one thing that a reader looks at: what the warps of one role did together is one step, and so are the
wgmmas of one K tile.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, TypeAlias

from course_utils.cause import Warps
from course_utils.run.emulator.explain.timeline import COLUMNS, COPY, MMA, UNITS

if TYPE_CHECKING:
    from course_utils.run.emulator.explain.emulation import Emulation
    from course_utils.run.emulator.explain.findings import Finding
    from course_utils.run.emulator.explain.places import Place
    from course_utils.run.emulator.explain.timeline import Event

MOST = 1500  # steps of one figure: those up to the fault, or the first ones
CTAS = 2  # drawn at once: a pair of a cluster
TOGETHER = {"init", "wait", "pass", "arrive", "registers", "fence", "wgmma", "read", "epilogue", COPY}
TOGETHER |= {"tcgen05.ld"}
IDLE = {"init", "registers", "fence"}  # what warps do that have no work of their own
_INDEX = re.compile(r"(.+)\[(\d+)\]$")

Spot: TypeAlias = tuple[int, str]  # an mbarrier or a tensor's ring: CTA and name
Slot: TypeAlias = tuple[int, str, int]  # one stage of a ring
Box: TypeAlias = tuple[tuple[int, int], ...]  # start and size by axis


@dataclass
class Lane:
    """One role of one CTA, or (group -1) one of its units."""

    cta: int
    group: int
    role: str
    warps: set[int] = field(default_factory=set)

    def name(self, roles: bool) -> str:
        """As the figure calls it; ``roles``: some warps only load."""
        if self.role in UNITS:
            return self.role
        who = _warps("", self.warps)
        return f"{self.role}, {who}" if roles and self.role else who


@dataclass(eq=False)
class Fill:
    """What one stage of a ring holds: the boxes of the loads for one phase, and those still on their way."""

    barrier: str
    phase: int
    boxes: list[Box] = field(default_factory=list)
    flying: set[int] = field(default_factory=set)
    readers: set[int] = field(default_factory=set)  # lanes that multiply it now
    released: bool = False  # its empty barrier's phase has ended since

    def tile(self) -> str:
        """ "(0, 3)": which tile of its tensor, counted in tiles of this size; else its first element."""
        whole = tuple(
            (min(s for s, _ in axis), max(s + n for s, n in axis) - min(s for s, _ in axis))
            for axis in zip(*self.boxes, strict=True)
        )
        if any(start % size for start, size in whole):
            return f"from ({', '.join(str(start) for start, _ in whole)})"
        return f"({', '.join(str(start // size) for start, size in whole)})"


@dataclass
class Bar:
    """A span of work or of waiting, in steps. ``level`` is its row among those of its lane."""

    lane: int
    line: int  # its place, by its number among the places
    kind: str
    begin: int
    end: int
    label: str
    stage: int | None = None
    level: int = 0
    until: int = 0  # the time at which it ends, where only that is known
    tiles: dict[str, str] = field(default_factory=dict)  # by tensor, of a load
    fills: list[Fill] = field(default_factory=list)  # what a multiplication reads
    left: int = 0  # its wgmmas that have not run


def _warps(role: str, numbers: Iterable[int]) -> str:
    return str(Warps(role, tuple(numbers)))


class Replay:
    """Plays the events of some CTAs once, and keeps each step and what it changed."""

    def __init__(self, events: Sequence[Event], ctas: Sequence[int], roles: bool) -> None:
        self.ctas, self.roles = list(ctas), roles
        self.events = [e for e in events if e.cta in ctas or e.home in ctas or e.kind == "finding"]
        self.lanes = self._lanes()
        self._lane = {(one.cta, one.group, one.role): i for i, one in enumerate(self.lanes)}
        self._offsets, self.stages = self._rings()
        self.steps: list[dict] = []
        self.bars: list[Bar] = []
        self.places: dict[Place, int] = {}
        self.barriers: dict[Spot, list[list[int]]] = {}  # [step, phase, arrived, come, expected] each
        self.counts: dict[Spot, int] = {}
        self.slots: dict[Slot, list[list]] = {
            (cta, name, stage): [[0, "empty", "", ""]]
            for (cta, name), count in self.stages.items()
            for stage in range(count)
        }
        # the last arrival of each lane in a phase, by barrier and phase: lane and step; and from there to the
        # first wait of another lane that it lets go: [step, lane, step, lane]
        self.edges: list[list[int]] = []
        self._arrivals: dict[tuple[Spot, int], dict[int, int]] = {}
        self._let_go: set[tuple[Spot, int, int]] = set()
        self.found: dict[tuple[str, str], int] = {}  # the step of each finding, by kind and place
        self._fills: dict[Slot, Fill] = {}
        self._loads: dict[int, tuple[Slot, Bar]] = {}
        self._waits: dict[tuple[int, str, int], tuple[set[int], Bar]] = {}
        self._multiplies: dict[int, tuple[Bar, list[Slot]]] = {}  # the K tile that a lane has issued last
        self._runs: dict[tuple[int, tuple[int, ...]], list[tuple[Bar, list[Slot]]]] = {}
        self._stores: dict[tuple[int, int, str], Bar] = {}
        self._held: dict[tuple[int, str], Bar] = {}  # columns of tensor memory, by CTA
        for event, following in zip_longest(self.events, self.events[1:]):
            if event.kind == "finding":
                self._finding(event, following)
            else:
                getattr(self, "_" + event.kind.split()[0].replace(".", "_"))(event)
        self._close()

    def _lanes(self) -> list[Lane]:
        """A lane for each role that does something, or else for each that waits; producers above their
        consumers.
        """
        lanes: dict[tuple[int, int, str], Lane] = {}
        mine = [e for e in self.events if e.role and e.cta in self.ctas]
        busy = [e for e in mine if e.kind not in IDLE and (e.kind not in ("wait", "pass") or e.home >= 0)]
        for e in busy or mine:
            key = e.cta, e.warp // 4, e.role
            lanes.setdefault(key, Lane(*key)).warps.add(e.warp)
        units = dict.fromkeys((e.cta, e.unit) for e in self.events if e.unit and e.cta in self.ctas)
        lanes |= {(cta, -1, unit): Lane(cta, -1, unit) for cta, unit in units}
        order = ["producer", "", *UNITS]  # any other role is like none
        return sorted(
            lanes.values(),
            key=lambda lane: (lane.cta, order.index(lane.role if lane.role in order else ""), lane.group),
        )

    def _rings(self) -> tuple[dict[Spot, dict[int, tuple[int, int]]], dict[Spot, int]]:
        """Of each tensor that is loaded into a CTA: stage and bytes of each place in shared memory; and how
        many stages it has. A stage takes as many places as the loads for one phase of a barrier.
        """
        places: dict[Spot, dict[int, int]] = {}
        fills: dict[tuple[Spot, str, int | None], set[int]] = {}
        for e in self.events:
            if e.kind == "load":
                spot = e.home, e.what
                places.setdefault(spot, {})[e.offset] = e.size
                fills.setdefault((spot, e.barrier, e.phase), set()).add(e.offset)
        rings, stages = {}, {}
        for spot, sizes in places.items():
            each = max(len(found) for (other, *_), found in fills.items() if other == spot)
            ordered, pitch = sorted(sizes), each * max(sizes.values())
            numbers = [(offset - ordered[0]) // pitch for offset in ordered]
            if max(numbers) >= 16:  # places that are no ring
                numbers = [i // each for i in range(len(ordered))]
            rings[spot] = {o: (n, sizes[o]) for o, n in zip(ordered, numbers, strict=True)}
            stages[spot] = max(numbers) + 1
        return rings, stages

    def lane_of(self, row: dict) -> int:
        """The lane of a waiting group of warps; -1 for warps that do nothing else."""
        for number, lane in enumerate(self.lanes):
            here = (lane.cta, lane.group) == (row["cta"], row["warps"][0] // 4)
            if here and row["role"] in ("", lane.role) and lane.warps.issuperset(row["warps"]):
                return number
        return -1

    # -- a step

    def _line(self, event: Event) -> int:
        return self.places.setdefault(event.place, len(self.places))

    def _who(self, event: Event) -> int:
        return self._lane.get((event.cta, event.warp // 4, event.role), -1)

    def _works_at(self, event: Event) -> int:
        """The lane of the work itself: the unit's, else that of the warp that issued it."""
        return self._lane.get((event.cta, -1, event.unit), -1) if event.unit else self._who(event)

    def _called(self, lanes: Iterable[int]) -> str:
        """Warps, or a unit, by their lanes."""
        lanes = list(lanes)
        units = [self.lanes[lane].role for lane in lanes if self.lanes[lane].role in UNITS]
        warps = {warp for lane in lanes for warp in self.lanes[lane].warps}
        return " and ".join([*units, *([_warps("", warps)] if warps else [])])

    def _step(self, event: Event, text: str, together: object = None) -> dict:
        """Add a step, or take the event into the last one where that is ``together`` with it."""
        lane = self._who(event)
        key = None if together is None else (event.kind, event.cta, lane, together)
        last = self.steps[-1] if self.steps else None
        if last is not None and key is not None and last["key"] == key and event.kind in TOGETHER:
            last["warps"].add(event.warp)
            last["count"] += 1
            return last
        line = self._line(event)
        step = {"time": event.time, "kind": event.kind, "lane": lane, "cta": event.cta, "key": key}
        step |= {"warps": {event.warp}, "count": 1, "text": text, "line": line}
        self.steps.append(step)
        return step

    def _bar(self, event: Event, kind: str, label: str, stage: int | None = None, until: int = 0) -> Bar:
        """A span that begins now, drawn where its warp has a lane."""
        bar = Bar(self._works_at(event), self._line(event), kind, self._now, -1, label, stage, until=until)
        if bar.lane >= 0:
            self.bars.append(bar)
        return bar

    @property
    def _now(self) -> int:
        """The step that what happens now belongs to: the last one."""
        return max(len(self.steps) - 1, 0)

    def _of(self, event: Event) -> str:
        """ "full[0]", with its CTA where that is not the event's own."""
        where = f" of CTA {event.home}" * (event.home not in (-1, event.cta) and event.cta >= 0)
        return f"{event.what}{where}"

    # -- mbarriers

    def _change(self, event: Event, **values: int) -> list[int]:
        """The barrier's numbers after this step."""
        spot = event.home, event.what
        states = self.barriers.setdefault(spot, [[0, 0, 0, 0, 0]])
        last = states[-1]
        if last[0] != self._now:
            last = [self._now, *last[1:]]
            states.append(last)
        for i, name in enumerate(("phase", "arrived", "come", "expected"), 1):
            last[i] = values.get(name, last[i])
        return last

    def _last(self, event: Event) -> list[int]:
        return self.barriers.get((event.home, event.what), [[0, 0, 0, 0, 0]])[-1]

    def _init(self, event: Event) -> None:
        self.counts[event.home, event.what] = event.count
        self._step(event, "{n} mbarriers are initialised", "init")
        self._change(event)

    def _arrive(self, event: Event) -> None:
        last, expected = self._last(event), None
        if self.steps and self.steps[-1]["key"] == ("expect", event.cta, event.warp, event.what):
            expected = self.steps.pop()
            for states in self.barriers.values():
                if states[-1][0] > self._now and (len(states) == 1 or states[-2][0] < self._now):
                    states[-1][0] = self._now
        text = f"{{who}} arrive{{s}} on {self._of(event)}"
        if event.unit:
            text = f"the commit of {{who}} arrives on {self._of(event)}: the MMAs before it are over"
        if expected is not None:
            text += f" and expect{{s}} {expected['count']:,} bytes"
        self._step(event, text, None if expected is not None else (event.home, event.what))
        self._change(event, arrived=last[2] + event.count)
        by = self._arrivals.setdefault(((event.home, event.what), last[1]), {})
        by[self._works_at(event)] = self._now

    def _expect(self, event: Event) -> None:
        last = self._last(event)
        step = self._step(event, f"{{who}} tells {self._of(event)} to expect {event.count:,} bytes")
        step["count"] = event.count
        step["key"] = ("expect", event.cta, event.warp, event.what)
        self._change(event, expected=last[4] + event.count)

    def _bytes(self, event: Event) -> None:
        come = self._last(event)[3] + event.count
        told = self._last(event)[4]
        text = f"{event.count:,} bytes arrive at {event.what} of CTA {event.home}: {come:,} of {told:,}"
        self._step(event, text)
        self._change(event, come=come)

    def _flip(self, event: Event) -> None:
        phase = event.phase or 0
        text = (
            f"phase {phase} of {event.what} of CTA {event.home} ends: waits for parity {phase & 1} pass, "
            f"those for parity {1 - (phase & 1)} do not"
        )
        self._step(event, text)
        carries = any(state[4] or state[3] for state in self.barriers.get((event.home, event.what), []))
        self._change(event, phase=phase + 1, arrived=0, come=0, expected=0)
        index = _INDEX.fullmatch(event.what)
        if not carries and index:  # nobody needs what this stage held
            for slot, fill in self._fills.items():
                if slot[0] == event.home and slot[2] == int(index[2]) and not fill.flying:
                    fill.released = True
                    self._hold(slot, "early" if fill.readers else "free")

    # -- waiting

    def _wait(self, event: Event) -> None:
        lane = self._who(event)
        if event.home >= 0:
            parity = "" if event.parity is None else f", parity {event.parity}"
            text = f"{{who}} wait{{s}} for {self._of(event)}{parity}"
            self._step(event, text, (event.home, event.what, event.parity))
        key = lane, event.what, event.home
        if lane < 0:
            return
        if key not in self._waits:
            self._waits[key] = set(), self._bar(event, "wait", self._of(event))
        self._waits[key][0].add(event.warp)

    def _pass(self, event: Event) -> None:
        text = f"{{who}} pass{{es}} {{their}} wait for {self._of(event)}"
        self._step(event, text, (event.home, event.what))
        lane, spot = self._who(event), (event.home, event.what)
        phase = self._last(event)[1] - 1
        if event.home >= 0 and lane >= 0 and (spot, phase, lane) not in self._let_go:
            self._let_go.add((spot, phase, lane))
            come = self._arrivals.get((spot, phase), {})
            self.edges += [[step, by, self._now, lane] for by, step in come.items() if by not in (-1, lane)]
        key = lane, event.what, event.home
        if key in self._waits:
            warps, bar = self._waits[key]
            warps.discard(event.warp)
            if not warps:
                bar.end = self._now
                del self._waits[key]

    # -- loads, multiplications, stores

    def _load(self, event: Event) -> None:
        lane, stage = self._who(event), self._offsets[event.home, event.what][event.offset][0]
        slot = event.home, event.what, stage
        fill = self._fills.get(slot)
        if fill is None or (fill.barrier, fill.phase) != (event.barrier, event.phase):
            fill = self._fills[slot] = Fill(event.barrier, event.phase or 0)
        fill.boxes.append(event.box)
        fill.flying.add(event.key)
        part = ", ".join(f"{start}:{start + size}" for start, size in event.box)
        to = f" of CTA {event.home}" * (event.cta != event.home)
        text = f"{{who}} loads {event.what}[{part}] into stage {stage}{to}, for {event.barrier}"
        self._step(event, text)
        self._hold(slot, "loading")
        flying = (bar for _, bar in self._loads.values())
        bar = next((bar for bar in flying if (bar.lane, bar.label) == (lane, event.barrier)), None)
        if bar is None:
            bar = self._bar(event, "TMA load", event.barrier, stage)
        self._loads[event.key] = slot, bar
        bar.tiles[event.what] = f"{event.what}{fill.tile()}"

    def _loaded(self, event: Event) -> None:
        slot, bar = self._loads.pop(event.key)
        fill = self._fills[slot]
        fill.flying.discard(event.key)
        if not any(other is bar for _, other in self._loads.values()):
            bar.end = self._now + 1
        if not fill.flying and (fill.barrier, fill.phase) == (event.barrier, event.phase):
            self._hold(slot, "loaded", 1)

    def _hold(self, slot: Slot, state: str, later: int = 0) -> None:
        """What a stage holds from this step on, or from the next (``later``)."""
        fill = self._fills[slot]
        row = [self._now + later, state, fill.tile(), self._called(fill.readers)]
        states = self.slots[slot]
        if states[-1][1:] == row[1:]:
            return
        if states[-1][0] == row[0]:
            states[-1] = row
        else:
            states.append(row)

    def _read_slots(self, event: Event) -> list[Slot]:
        """The stages that a wgmma reads."""
        found = []
        for low in event.reads:
            for (cta, name), places in self._offsets.items():
                for offset, (stage, size) in places.items():
                    if cta == event.cta and offset <= low < offset + size:
                        found.append((cta, name, stage))
        return found

    def _wgmma(self, event: Event) -> None:
        lane, slots = self._works_at(event), self._read_slots(event)
        fills = [self._fills[slot] for slot in slots if slot in self._fills]
        current = self._multiplies.get(lane)
        if current is None or current[0].fills != fills or current[0].end >= 0:
            tiles = [f"{slot[1]}{self._fills[slot].tile()}" for slot in slots if slot in self._fills]
            stages = sorted({slot[2] for slot in slots})
            where = f", stage {' and '.join(map(str, stages))}" if stages else ""
            text = f"{{who}} multipl{{ies}} {' and '.join(tiles) or 'a tile of shared memory'}{where}"
            self._step(event, text)
            stage = stages[0] if len(stages) == 1 else None
            bar = self._bar(event, event.kind, " ".join(tiles) or event.what, stage)
            bar.fills = fills
            current = self._multiplies[lane] = bar, slots
            for slot, fill in zip(slots, fills, strict=False):
                if lane >= 0:
                    fill.readers.add(lane)
                    self._hold(slot, "early" if fill.released else "read")
        current[0].left += 1
        self._runs.setdefault((lane, event.reads), []).append(current)

    def _read(self, event: Event) -> None:
        waiting = self._runs.get((self._works_at(event), event.reads))
        if not waiting:
            return
        bar, slots = waiting.pop(0)
        bar.left -= 1
        if bar.left:
            return
        self._step(event, f"the multiplication of {bar.label} has run")
        bar.end = self._now
        for slot in slots:
            fill = self._fills.get(slot)
            if fill is not None and any(fill is one for one in bar.fills):
                fill.readers.discard(bar.lane)
                after = ("early", "free") if fill.released else ("read", "used")
                self._hold(slot, after[not fill.readers])

    # tcgen05.mma, whose bars are in the lane of the tensor core

    def _tcgen05_mma(self, event: Event) -> None:
        self._wgmma(event)

    def _tcgen05_ld(self, event: Event) -> None:
        text = f"{{who}} read{{s}} columns {event.what} of tensor memory (tcgen05.ld)"
        self._step(event, text, event.what)

    def _ran(self, event: Event) -> None:
        self._read(event)

    def _commit(self, event: Event) -> None:
        self._step(event, f"{{who}} commit{{s}} to {self._of(event)} all that it has issued")

    def _alloc(self, event: Event) -> None:
        self._step(event, f"{{who}} allocate{{s}} columns {event.what} of tensor memory")
        self._held[event.cta, event.what] = self._bar(event, COLUMNS, event.what)

    def _dealloc(self, event: Event) -> None:
        self._step(event, f"{{who}} free{{s}} columns {event.what} of tensor memory")
        if bar := self._held.pop((event.cta, event.what), None):
            bar.end = self._now

    def _store(self, event: Event) -> None:
        self._step(event, f"{{who}} stores {event.what} by TMA")
        self._stores[event.cta, event.warp, event.what] = self._bar(event, "TMA store", event.what)

    def _stored(self, event: Event) -> None:
        self._step(event, f"the TMA store of {event.what} has read shared memory")
        if bar := self._stores.pop((event.cta, event.warp, event.what), None):
            bar.end = self._now

    def _epilogue(self, event: Event) -> None:
        self._works(event, "{who} write{s} results out (epilogue)")

    def _copy(self, event: Event) -> None:
        self._works(event, "{who} cop{ies} a tile to shared memory")

    def _works(self, event: Event, text: str) -> None:
        self._step(event, text, "works")
        lane = self._who(event)
        mine = [bar for bar in self.bars if bar.lane == lane and bar.kind in ("wgmma", event.kind)]
        if mine and mine[-1].kind == event.kind:
            mine[-1].until = max(mine[-1].until, event.end)
        else:
            short = {COPY: "copy"}.get(event.kind, event.kind)
            self._bar(event, event.kind, short, until=event.end)

    def _fence(self, event: Event) -> None:
        self._step(event, "{who} run{s} fence.proxy.async", "fence")

    def _registers(self, event: Event) -> None:
        self._step(event, f"{{who}} set{{s}} {event.count} registers a thread (setmaxnreg)", event.count)

    def _finding(self, event: Event, following: Event | None) -> None:
        """A load or a wgmma that is at fault is looked at before it is issued."""
        soon = following is not None and following.kind in ("load", "wgmma", MMA, "store")
        late = soon and following is not None and following.time == event.time
        self.found[event.what, str(event.place)] = self._now + late

    def _close(self) -> None:
        """The ends of bars that nothing has ended, names in texts, and rows for bars that overlap."""
        times = [step["time"] for step in self.steps]
        for bar in self.bars:
            if bar.until:
                bar.end = max(bisect_right(times, bar.until) - 1, bar.begin)
            bar.end = max(len(self.steps) - 1 if bar.end < 0 else bar.end, bar.begin)
            bar.label = " ".join(bar.tiles.values()) or bar.label
        for step in self.steps:
            step["text"] = self._told(step)
        for lane in range(len(self.lanes)):
            for kinds in (("TMA load", "TMA store"), ("wgmma", "epilogue", COPY, MMA, COLUMNS)):
                ends: list[int] = []
                for bar in (bar for bar in self.bars if bar.lane == lane and bar.kind in kinds):
                    free = next((i for i, end in enumerate(ends) if end <= bar.begin), len(ends))
                    ends[free : free + 1] = [bar.end]
                    bar.level = free

    def _told(self, step: dict) -> str:
        """A step's text, with who did it."""
        many, cta = len(step["warps"]) > 1, step["cta"]
        role = self.lanes[step["lane"]].role if step["lane"] >= 0 and self.roles else ""
        who = _warps(role, step["warps"]) + f" of CTA {cta}" * (len(self.ctas) > 1)
        ends = {"s": "" if many else "s", "es": "" if many else "es", "ies": "y" if many else "ies"}
        text = step["text"].format(who=who, n=step["count"], their="their" if many else "its", **ends)
        return text[:1].upper() + text[1:]


def replay(emulation: Emulation, ctas: Sequence[int] | None = None, title: str = "") -> dict:
    """The events of ``ctas`` (default: those of the fault, else the first that work together) as data.

    Keys: ``title``; ``steps`` ([time, kind, lane, text, line]) and ``lines``; ``lanes``; ``bars`` ([lane,
    kind, begin, end, label, stage, level, line]); ``edges`` from an arrival to the wait that it lets go
    ([step, lane, step, lane]); ``barriers`` and ``slots``, each with its ``states`` by step; ``fault``, or
    None; ``start``, the first step of work; ``total`` steps and the ``first`` one of these.
    Raises ValueError where these CTAs did nothing that was recorded.
    """
    finding = next(iter(emulation.errors), None)
    ctas = _chosen(emulation, finding) if ctas is None else list(ctas)
    clusters = [e.cluster for e in emulation.events if e.cta in ctas]
    last = clusters[-1] if clusters else -1
    events = [e for e in emulation.events if e.cluster == last]
    played = Replay(events, ctas, any(e.role == "producer" for e in events))
    if not played.steps:
        raise ValueError(f"CTA {', '.join(map(str, ctas))} did nothing that was recorded")
    waiting = next((one.waiting for one in emulation.errors if one.waiting), [])
    fault = None if finding is None else _fault(played, finding, waiting)
    end = min(len(played.steps), max(MOST, fault["step"] + 1 + MOST // 10 if fault else 0))
    return _data(played, max(end - MOST, 0), end, fault, title)


def replays(emulation: Emulation) -> Iterator[Replay]:
    """Every cluster whose events were kept, whole, in the order in which they ran."""
    for _, group in groupby(emulation.events, key=lambda event: event.cluster):
        events = list(group)
        ctas = sorted({e.cta for e in events if e.cta >= 0})
        yield Replay(events, ctas, any(e.role == "producer" for e in events))


def _chosen(emulation: Emulation, finding: Finding | None) -> list[int]:
    """The CTAs of the fault, else the first ones that work together."""
    events = emulation.events
    if finding is not None:
        mine = [e for e in events if e.kind == "finding" and e.what == finding.kind]
        if mine:
            events = [e for e in events if e.cluster == mine[0].cluster]
        if finding.waiting:
            return sorted({row["cta"] for row in finding.waiting})[:CTAS]
    working = [e for e in events if e.kind in ("load", "wgmma", MMA, COPY)]
    first = min(working or events, key=lambda e: e.cta, default=None)
    if first is None:
        return [0]
    return sorted({e.cta for e in events if e.cluster == first.cluster and e.cta >= 0})[:CTAS]


def _fault(played: Replay, finding: Finding, waiting: Sequence[dict]) -> dict:
    """Where the figure opens, what was found, and who waits for whom in the end."""
    chain = []
    rows = [row for row in waiting if row["cta"] in played.ctas]
    for row in rows:
        lane = played.lane_of(row)
        many = len(row["warps"]) > 1
        who = _warps(row["role"], row["warps"]) + f" of CTA {row['cta']}" * (len(played.ctas) > 1)
        text = f"{who} wait{'s' * (not many)} {row['text']}"
        others = _suppliers(played, row, lane)
        chain.append({"lane": lane, "to": others, "text": text, "line": row["line"], "at": row["barrier"]})
    for one, row in zip(chain, rows, strict=True):
        if row["barrier"] and "phase" not in row:  # where threads meet: for those who wait elsewhere
            elsewhere = {other["lane"] for other in chain if other["at"] != row["barrier"]}
            one["to"] = sorted(elsewhere - {one["lane"], -1})
    step, place = len(played.steps) - 1, str(finding.place)
    if not finding.waiting:
        step = played.found.get((finding.kind, place), step)
    fault = {"step": step, "kind": finding.kind, "text": finding.detail, "place": place}
    return fault | {"more": list(finding.more)[:6], "chain": chain}


def _suppliers(played: Replay, row: dict, lane: int) -> list[int]:
    """The lanes whose arrivals a stuck row waits for: those that arrived on its barrier before, else those of
    the other role. Nobody's where bytes alone are missing.
    """
    if not row.get("barrier") or row.get("bytes_missing") and not row.get("arrivals_missing"):
        return []
    arrivals = (e for e in played.events if e.kind == "arrive")
    came = {played._who(e) for e in arrivals if (e.home, e.what) == (row["cta"], row["barrier"])}
    wanted = "producer" if row["barrier"].startswith("full") else "consumer"
    others = {i for i, one in enumerate(played.lanes) if one.cta == row["cta"] and one.role == wanted}
    return sorted((came or others) - {lane, -1})


def _data(played: Replay, begin: int, end: int, fault: dict | None, title: str) -> dict:
    """Steps ``begin`` to ``end`` as plain lists; what was before is in the first states."""

    def window(states: list[list]) -> list[list]:
        before = [row for row in states if row[0] <= begin][-1:]
        inside = [row for row in states if begin < row[0] < end]
        return [[max(row[0] - begin, 0), *row[1:]] for row in before + inside]

    steps = played.steps[begin:end]
    works = (i for i, step in enumerate(steps) if step["kind"] in ("load", "wgmma", MMA, COPY))
    bars = [bar for bar in played.bars if bar.end >= begin and bar.begin < end]
    used = sorted({step["line"] for step in steps} | {bar.line for bar in bars})
    places = list(played.places)
    return {
        "title": title,
        "total": len(played.steps),
        "first": begin,
        "ctas": played.ctas,
        "steps": [[s["time"], s["kind"], s["lane"], s["text"], used.index(s["line"])] for s in steps],
        "lines": [_line(places[i]) for i in used],
        "lanes": [
            {"cta": one.cta, "name": one.name(played.roles), "unit": one.role in UNITS}
            for one in played.lanes
        ],
        "bars": [
            [b.lane, b.kind, max(b.begin - begin, 0), min(b.end, end - 1) - begin, b.label, b.stage, b.level]
            + [used.index(b.line)]
            for b in bars
        ],
        "edges": [
            [one - begin, by, other - begin, lane]
            for one, by, other, lane in played.edges
            if begin <= one and other < end
        ],
        "barriers": [
            {"cta": cta, "name": name, "count": played.counts.get((cta, name), 0), "states": window(states)}
            for (cta, name), states in sorted(played.barriers.items(), key=_full_first)
            if cta in played.ctas
        ],
        "slots": [
            {"cta": cta, "tensor": tensor, "stage": stage, "states": window(states)}
            for (cta, tensor, stage), states in sorted(played.slots.items())
            if cta in played.ctas
        ],
        "fault": fault and fault | {"step": min(fault["step"], len(played.steps) - 1) - begin},
        "start": next(works, 0),
    }


def _full_first(item: tuple[Spot, list[list[int]]]) -> tuple:
    """Order of mbarriers: by CTA, those that count bytes above the others, as stages are numbered."""
    (cta, name), states = item
    index = _INDEX.fullmatch(name)
    array, stage = (index[1], int(index[2])) if index else (name, 0)
    return cta, array.startswith("empty"), array, stage


def _line(place: Place) -> list:
    """The author's line: "step05.py, line 44" and its code; the generated one where there is no other."""
    if not place.file:
        return [str(place), ""]
    return [f"{'added after ' if place.added else ''}{place.file}, line {place.line}", place.code]
