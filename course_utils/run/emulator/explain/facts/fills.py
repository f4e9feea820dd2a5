"""Fills: what tensor loads bring in one phase of an mbarrier, and what of it ``wgmma`` or tcgen05 reads."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK
from course_utils.run.emulator.explain.facts.boxes import elements, leaves
from course_utils.run.emulator.explain.facts.groups import Group, Groups
from course_utils.run.emulator.explain.facts.moments import Moment, Moments
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.units import tcgen05
from course_utils.run.emulator.units.tma import LoadsIssued
from course_utils.run.emulator.units.views import TensorView
from course_utils.run.emulator.units.wgmma import Began

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Warp
    from course_utils.run.emulator.units.views import Coordinates


@dataclass(slots=True)
class Issue:
    """A tensor load: who issued it and when, and of each target the fill and the bytes."""

    warp: Warp
    moment: Moment
    targets: list[tuple[Fill, int, int]] = field(default_factory=list)
    multicast: bool = False

    def shared(self) -> bool:
        """Does it bring several CTAs what each of them multiplies?"""
        return len(self.targets) > 1 and all(fill.reads(low, high) for fill, low, high in self.targets)


@dataclass(slots=True)
class Fill:
    """The tensor loads of one phase of an mbarrier, and the parts of shared memory that wgmma read of it."""

    code: int  # as SharedMemory.written has it: the mbarrier, and its time once the phase ends
    cta: CTA
    issues: list[Issue] = field(default_factory=list)
    offsets: set[int] = field(default_factory=set)
    readers: set[Group] = field(default_factory=set)
    read: set[tuple[int, int]] = field(default_factory=set)
    # of each tensor, by the row where a box begins: how many it has, and from which byte to which it lies
    rows: dict[str, dict[int, tuple[int, int, int]]] = field(default_factory=dict)

    def leaves(self) -> bool:
        """Has it a load of which no wgmma has read anything?"""
        begins = sorted(self.offsets)
        taken = {bisect_right(begins, low) for low, _ in self.read}
        return not taken.issuperset(range(1, len(begins) + 1))

    def reads(self, low: int, high: int) -> bool:
        return any(low < end and begin < high for begin, end in self.read)

    def rows_read(self, tensor: str) -> int:
        """How many rows of a tensor has it of which wgmma read?"""
        count = 0.0
        for rows, low, high in self.rows.get(tensor, {}).values():
            at, taken = low, 0
            for begin, end in sorted(self.read):
                taken += max(0, min(end, high) - max(begin, at))
                at = max(at, end)
            count += rows * taken / (high - low)
        return round(count)

    def by_multicast(self, low: int, high: int) -> bool:
        """Did all loads of these bytes reach several CTAs?"""
        issues = [
            issue
            for issue in self.issues
            if any(of is self and low < end and begin < high for of, begin, end in issue.targets)
        ]
        return bool(issues) and all(issue.multicast for issue in issues)


class Fills:
    """The fills and loads of a cluster. ``operands`` are those of the multiplication that began last, of each
    CTA that gives some: each with its writers' codes and its bytes.
    """

    def __init__(self, machine: Machine) -> None:
        self.counts = Counter[str]()
        self.by_code: dict[int, Fill] = {}
        self.issues: list[Issue] = []
        self.operands: list[list[tuple[list[int], int, int]]] = []
        self._races, self._moments = machine.unit(Races), machine.unit(Moments)
        self._groups = machine.unit(Groups)
        self._loaded: set[tuple[str, Coordinates]] = set()
        machine.probe.listen(LoadsIssued, self._issued)
        machine.probe.listen(Began, self._began)
        machine.probe.listen(tcgen05.Issued, self._multiplied)

    def clear(self) -> None:
        """A cluster has ended."""
        self.by_code.clear()
        self.issues.clear()

    def unread(self) -> bool:
        """Has this cluster a fill that no wgmma has read?"""
        return any(fill.leaves() for fill in self.by_code.values())

    def free(self, codes: Iterable[int], moments: list[Moment]) -> bool:
        """Were all loads of these fills issued without having to come after any of these moments?"""
        fills = [self.by_code[code] for code in codes if code in self.by_code]
        return bool(fills) and not any(
            issue.moment.after(moment) for fill in fills for issue in fill.issues for moment in moments
        )

    def awaited(self, codes: Iterable[int], later: Iterable[int]) -> bool:
        """Was a load of the fills ``later`` issued only once one of these fills was known to have landed?"""
        seen = [
            issue.moment.seen for code in later if code in self.by_code for issue in self.by_code[code].issues
        ]
        return any(
            known is not None and known[code & AGENT_MASK] >= code >> AGENT_BITS
            for known in seen
            for code in codes
        )

    def rows(self, codes: tuple[int, ...]) -> list[tuple[str, list[int]]]:
        """Which rows of which matrices these fills brought; none where a tile came another way."""
        if not all(code in self.by_code for code in codes):
            return []
        fills = [self.by_code[code] for code in dict.fromkeys(codes)]
        return sorted((name, sorted(rows)) for fill in fills for name, rows in fill.rows.items())

    def close(self) -> None:
        """Does each mbarrier signal the same part of shared memory in every phase? Does multicast share?"""
        first: dict[int, set[int]] = {}
        for fill in sorted(self.by_code.values(), key=lambda fill: fill.code):
            stage = first.setdefault(fill.code & AGENT_MASK, fill.offsets)
            self.counts["fills"] += 1
            self.counts["fills of their barrier's stage"] += fill.offsets == stage
        for issue in self.issues:
            if issue.multicast:
                self.counts["multicast loads"] += 1
                self.counts["multicast loads shared"] += issue.shared()

    def _issued(self, event: LoadsIssued) -> None:
        """A tensor load was issued, to one CTA or to several."""
        view = event.loads[0].view if event.loads else None
        if not isinstance(view, TensorView):
            return
        issue = Issue(event.path.warp, self._moments.of(event.path, seen=True), multicast=event.multicast)
        self.issues.append(issue)
        for load in event.loads:
            code = (load.phase + 1) << AGENT_BITS | load.barrier.agent
            fill = self.by_code.get(code)
            if fill is None:
                fill = self.by_code[code] = Fill(code, load.cta)
            fill.issues.append(issue)
            fill.offsets.add(load.offset)
            if len(load.coordinates) > 1:
                box = view.map.extents[1], load.offset, load.offset + load.view.extent
                fill.rows.setdefault(view.name, {})[load.coordinates[1]] = box
            issue.targets.append((fill, load.offset, load.offset + load.view.extent))
        coordinates = event.loads[0].coordinates
        leaves(self.counts, "loads", view, coordinates, event.path.cta)
        if (view.name, coordinates) not in self._loaded:
            self._loaded.add((view.name, coordinates))
            self.counts[f"elements of {view.name} loaded"] += elements(view, coordinates)

    def _began(self, event: Began) -> None:
        """A wgmma begins: what it reads is read."""
        self.operands = [self._read(self._races.taken_operands(), event.group)]

    def _multiplied(self, event: tcgen05.Issued) -> None:
        """A tcgen05.mma is issued."""
        op, taken = event.operation, self._races.taken_operands()
        each = len(taken) // len(op.ctas)
        self.operands = [
            self._read(taken[i * each : (i + 1) * each], self._groups.of(op, cta))
            for i, cta in enumerate(op.ctas)
        ]

    def _read(
        self, taken: list[tuple[np.ndarray, int, int]], group: Group
    ) -> list[tuple[list[int], int, int]]:
        """The operands in one CTA's shared memory."""
        operands = []
        for written, low, high in taken:
            codes = written[:1].tolist() if len(written) == 1 else np.unique(written).tolist()
            operands.append((codes, low, high))
            self.counts["operands"] += 1
            self.counts["operands by TMA"] += all(code in self.by_code for code in codes)
            for code in codes:
                if code in self.by_code:
                    self.by_code[code].read.add((low, high))
                    self.by_code[code].readers.add(group)
        if len(operands) == 1:  # A lies in registers, or in tensor memory
            self.counts["operands"] += 1
            self.counts["operands in registers"] += 1
        return operands
