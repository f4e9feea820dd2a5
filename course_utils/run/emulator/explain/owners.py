"""Which CTA stored each element of a tensor in global memory: two may not store the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.run.emulator.core.memory import Tensor
from course_utils.run.emulator.explain.hazards import find
from course_utils.run.emulator.units.access import Write
from course_utils.run.emulator.units.tma import StoreIssued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path


class Owners:
    """By element of each tensor, which CTA stored it last."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._owners: dict[Tensor, np.ndarray] = {}  # one more than the CTA's number, 0 of none
        machine.probe.listen(Write, self._write)
        machine.probe.listen(StoreIssued, self._store_issued)

    def _of(self, tensor: Tensor) -> np.ndarray:
        if tensor not in self._owners:
            self._owners[tensor] = np.zeros(-(-tensor.size // 16) * 16 // tensor.element, np.int32)
        return self._owners[tensor]

    def _write(self, event: Write) -> None:
        tensor, offsets = event.region, event.offsets
        if tensor.__class__ is Tensor and event.checked:
            owners, width = self._of(tensor), max(event.count, tensor.element)
            if width > tensor.element:
                owners = owners.reshape(-1, width // tensor.element)
            if other := self._claim(event.path, owners, offsets // width):
                first = offsets if offsets.__class__ is int else int(offsets[0])
                self._twice(event.path, other - 1, tensor.describe(first))

    def _store_issued(self, event: StoreIssued) -> None:
        store = event.store
        tensor = store.view.region
        if store.adds or not isinstance(tensor, Tensor):  # what several add up has no one author
            return
        claimed = store.view.claimed(self._of(tensor), tensor, store.coordinates)
        if claimed is not None:
            part, what = claimed
            if other := self._claim(event.path, part, slice(None)):
                self._twice(event.path, other - 1, what)

    def _claim(self, path: Path, owners: np.ndarray, index: Any) -> int:
        """This CTA stores ``owners[index]``: one more than the number of another that has stored some of it,
        or 0.
        """
        mine, other = path.cta.number + 1, 0
        held = np.atleast_1d(owners[index])
        if np.count_nonzero(held):
            others = held[(held != mine) & (held != 0)]
            other = int(others.flat[0]) if len(others) else 0
        owners[index] = mine
        return other

    def _twice(self, path: Path, other: int, what: str) -> None:
        """What two CTAs have both stored, and what to look at."""
        cta = path.cta
        low, high = sorted((cta.number, other))
        size, (x, y, z) = cta.cluster.size, cta.machine.artifact.grid
        values: dict[str, Any] = {"low": low, "high": high, "what": what, "size": size}
        if any(other == one.number for one in cta.cluster.ctas):
            case = "stored twice in a cluster"
        elif y * z > 1:
            case, values["grid"] = "stored twice in a grid", f"{x} x {y}" + f" x {z}" * (z > 1)
        elif low % size != high % size:
            case = "stored twice by two ranks"
            values |= {"one": low % size, "other": high % size}
        elif size > 1:
            case = "stored twice by two clusters"
            values |= {"ctas": x, "clusters": x // size}
        else:
            case, values["ctas"] = "stored twice", x
        find(path, "stored-twice", case, values)
