"""Global memory: who stored each element of a tensor last, who read it, and what orders the two.

Two CTAs may not store the same elements, nor one read what another stores, unless words in memory order them
(``core.releases``). A TMA store counts as written once a wait without ``.read`` covers it. Of those who read
an element the last is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.run.emulator.core.memory import Tensor
from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK, GPU_SCOPE
from course_utils.run.emulator.core.releases import Place
from course_utils.run.emulator.explain.hazards import find
from course_utils.run.emulator.units.access import Atomic, Read, Write
from course_utils.run.emulator.units.tma import LoadIssued, StoreIssued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path
    from course_utils.run.emulator.isa.lowered import Value

# A code of Order, and above it one more than the number of the CTA whose it is
CTA_SHIFT = 44
CODE = (1 << CTA_SHIFT) - 1


class Elements:
    """What is known of a tensor's elements: the codes of who wrote and who read each last."""

    def __init__(self, tensor: Tensor) -> None:
        count = -(-tensor.size // 16) * 16 // tensor.element
        self.element = tensor.element
        self.written = np.zeros(count, np.int64)
        self.scope = np.zeros(count, np.uint8)  # of the last write, 0 of a weak one
        self.read = np.zeros(count, np.int64)
        self.earlier: np.ndarray | None = None  # who read each before, with no order to who did last
        self.is_written = self.is_read = self.is_strong = False

    def refine(self, element: int) -> None:
        """Tell parts of this many bytes apart."""
        times, self.element = self.element // element, element
        self.written, self.read = np.repeat(self.written, times), np.repeat(self.read, times)
        self.scope = np.repeat(self.scope, times)
        if self.earlier is not None:
            self.earlier = np.repeat(self.earlier, times)

    def cells(self, array: np.ndarray, offsets: Value, count: int) -> tuple[np.ndarray, Value]:
        """(view, index): ``view[index]`` is what the array has of accesses of ``count`` bytes."""
        width = max(count, self.element)
        if width > self.element:
            array = array.reshape(-1, width // self.element)
        return array, offsets // width


class Owners:
    """Accesses to tensors, held against each other."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._elements: dict[Tensor, Elements] = {}
        self._clusters: dict[int, int] = {}  # of each CTA that has stored or read
        machine.probe.listen(Read, self._read)
        machine.probe.listen(Write, self._write)
        machine.probe.listen(Atomic, self._atomic)
        machine.probe.listen(StoreIssued, self._store_issued)
        machine.probe.listen(LoadIssued, self._load_issued)

    def _of(self, tensor: Tensor) -> Elements:
        if tensor not in self._elements:
            self._elements[tensor] = Elements(tensor)
        return self._elements[tensor]

    def _code(self, path: Path, code: int) -> int:
        self._clusters[path.cta.number] = path.cta.cluster.order.number
        return path.cta.number + 1 << CTA_SHIFT | code

    # -- what is ordered

    def code_of(self, path: Path, code: int) -> int:
        """A code of Order as it is kept here."""
        return self._code(path, code)

    def writers(self, tensor: Tensor, offset: int, count: int) -> set[int]:
        """The codes of who wrote these bytes; whole elements."""
        elements = self._elements.get(tensor)
        if elements is None or not elements.is_written:
            return set()
        first, last = offset // elements.element, -(-(offset + count) // elements.element)
        return set(np.unique(elements.written[first:last]).tolist()) - {0}

    def is_ordered(self, path: Path, code: int) -> bool:
        """Is what has this code ordered before what ``path`` does next?"""
        return not self._late(path, np.array([code])).any()

    def who(self, path: Path, code: int) -> str:
        """Whose a code is, seen from ``path``."""
        return self._who(path, code)

    def _late(self, path: Path, codes: np.ndarray, row: str = "seen") -> np.ndarray:
        """Which codes are not ordered before what ``path`` does next?"""
        late = np.zeros(codes.shape, np.bool_)
        for number in np.unique(codes >> CTA_SHIFT).tolist():
            if not number:
                continue
            clock, cluster = path.warp.clock, self._clusters[number - 1]
            here = codes >> CTA_SHIFT == number
            if cluster != path.cta.cluster.order.number:
                if clock.far is None or cluster not in clock.far:
                    late |= here
                    continue
                clock = clock.far[cluster]
            known = getattr(clock, row)
            agents = codes & AGENT_MASK
            seen = np.where(agents < len(known), known[np.minimum(agents, len(known) - 1)], 0)
            late |= here & ((codes & CODE) >> AGENT_BITS > seen)
        return late

    def _apart(self, path: Path, codes: np.ndarray, scopes: np.ndarray, scope: int) -> np.ndarray:
        """Which writes are not morally strong with an access of this scope by ``path``?"""
        if not scope:
            return np.ones(codes.shape, np.bool_)
        here, needed = Place(path.cta.number, path.cta.cluster.order.number), np.zeros_like(scopes)
        for number in np.unique(codes >> CTA_SHIFT).tolist():
            there = Place(number - 1, self._clusters.get(number - 1, -1))
            needed[codes >> CTA_SHIFT == number] = here.scope_to(there)
        return np.minimum(scopes, scope) < needed

    # -- threads

    def _read(self, event: Read) -> None:
        tensor, path = event.region, event.path
        if tensor.__class__ is not Tensor:
            return
        elements = self._of(tensor)
        if elements.is_written:
            if event.count < elements.element:
                elements.refine(event.count)
            written, index = elements.cells(elements.written, event.offsets, event.count)
            codes = np.atleast_1d(written[index])
            if np.count_nonzero(codes):
                scopes, _ = elements.cells(elements.scope, event.offsets, event.count)
                self._read_of(path, tensor, codes, np.atleast_1d(scopes[index]), event)
        if not event.scope:
            read, index = elements.cells(elements.read, event.offsets, event.count)
            if elements.is_written and elements.is_read:
                self._keep_readers(path, elements, read[index], event)
            read[index] = self._code(path, path.warp.code)
            elements.is_read = True

    def _keep_readers(self, path: Path, elements: Elements, codes: np.ndarray, event: Read) -> None:
        """Whom this read does not come after is kept beside it."""
        if not np.count_nonzero(codes):
            return
        mine = path.cta.number + 1 << CTA_SHIFT | path.warp.agent
        others = np.where((codes & ~((1 << CTA_SHIFT) - 1 - AGENT_MASK)) == mine, 0, codes)
        if not np.count_nonzero(others) or not np.count_nonzero(self._late(path, np.atleast_1d(others))):
            return
        if elements.earlier is None:
            elements.earlier = np.zeros_like(elements.read)
        earlier, index = elements.cells(elements.earlier, event.offsets, event.count)
        earlier[index] = np.where(others != 0, others, earlier[index])

    def _read_of(
        self, path: Path, tensor: Tensor, codes: np.ndarray, scopes: np.ndarray, event: Read
    ) -> None:
        late = self._apart(path, codes, scopes, event.scope)
        if not np.count_nonzero(late):  # as a poll is
            return
        late &= self._late(path, codes)
        if not np.count_nonzero(late):
            return
        what = tensor.describe(int(np.min(event.offsets)))
        values = {"who": path.warp, "what": what, "by": self._who(path, int(codes[late][0]))}
        if self._is_async(path, codes[late]).any():
            find(path, "store-incomplete", "reads what a TMA store writes", values)
        elif self._late(path, codes[late], "hoped").any():
            find(path, "read-before-write", "reads what is stored unordered", values)
        else:
            find(path, "acquire-missing", "reads behind a relaxed atomic", values)

    def _write(self, event: Write) -> None:
        tensor = event.region
        if tensor.__class__ is Tensor:
            self._changed(event, tensor, event.scope)

    def _atomic(self, event: Atomic) -> None:
        if event.region.__class__ is Tensor:
            self._changed(event, event.region, event.scope)

    def _changed(self, event: Write | Atomic, tensor: Tensor, scope: int) -> None:
        path, elements = event.path, self._of(tensor)
        if event.count < elements.element:
            elements.refine(event.count)
        written, index = elements.cells(elements.written, event.offsets, event.count)
        if elements.is_written:
            codes = np.atleast_1d(written[index])
            if np.count_nonzero(codes):
                self._over_writes(event, tensor, elements, codes)
        for reads in (elements.read, elements.earlier) if elements.is_read else ():
            if reads is None:
                continue
            read, _ = elements.cells(reads, event.offsets, event.count)
            codes = np.atleast_1d(read[index])
            if np.count_nonzero(codes):
                self._over_reads(event, tensor, codes)
        written[index] = self._code(path, path.warp.code)
        elements.is_written = True
        if scope or elements.is_strong:
            scopes, index = elements.cells(elements.scope, event.offsets, event.count)
            scopes[index], elements.is_strong = scope, True

    def _over_writes(
        self, event: Write | Atomic, tensor: Tensor, elements: Elements, codes: np.ndarray
    ) -> None:
        """What is written over what nothing orders before. One word that all lanes write as it is counts
        nowhere, and what the warps of a CTA write alike neither.
        """
        path, mine = event.path, event.path.cta.number + 1
        scopes, index = elements.cells(elements.scope, event.offsets, event.count)
        late = self._late(path, codes) & self._apart(path, codes, np.atleast_1d(scopes[index]), event.scope)
        if not np.count_nonzero(late):
            return
        first = int(np.min(event.offsets))
        apart = codes >> CTA_SHIFT != mine
        if isinstance(event, Write):
            alike = np.broadcast_to(_column(~event.changes(), codes), codes.shape)
            one_word = bool((np.asarray(event.offsets) == first).all())
            late &= ~alike | (apart & (not one_word))
        if not np.count_nonzero(late):
            return
        code = int(codes[late][0])
        values = {"who": path.warp, "what": tensor.describe(first), "by": self._who(path, code)}
        if self._is_async(path, codes[late & ~apart]).any():
            find(path, "store-incomplete", "writes what a TMA store writes", values)
        elif isinstance(event, Write) and np.count_nonzero(late & apart):
            self._twice(path, int(codes[late & apart][0] >> CTA_SHIFT) - 1, tensor.describe(first))
        else:
            find(path, "write-unordered", "writes what is stored unordered", values)

    def _over_reads(self, event: Write | Atomic, tensor: Tensor, codes: np.ndarray) -> None:
        """What is written where others may still read what was there."""
        path = event.path
        mine = codes & CODE & AGENT_MASK == path.warp.agent
        late = self._late(path, codes) & ~(mine & (codes >> CTA_SHIFT == path.cta.number + 1))
        if isinstance(event, Write):
            late = late & _column(event.changes(), codes)
        if not np.count_nonzero(late):
            return
        what, code = tensor.describe(int(np.min(event.offsets))), int(codes[late].flat[0])
        values = {"who": path.warp, "what": what, "by": self._who(path, code)}
        kind, case = "read-before-write", "writes what is read unordered"
        if not self._late(path, codes[late], "hoped").any():
            kind, case = "acquire-missing", "writes behind a relaxed atomic"
        find(path, kind, case, values)

    def _is_async(self, path: Path, codes: np.ndarray) -> np.ndarray:
        """Which codes are of TMA stores?"""
        return codes & AGENT_MASK > path.cta.cluster.warps_end

    def _who(self, path: Path, code: int) -> str:
        """Whose a code is, seen from ``path``."""
        number = (code >> CTA_SHIFT) - 1
        warps = path.cta.warps if number == path.cta.number else ()
        return next((f"warp {w.index}" for w in warps if w.agent == code & AGENT_MASK), f"CTA {number}")

    # -- TMA

    def _store_issued(self, event: StoreIssued) -> None:
        path, store = event.path, event.store
        tensor = store.view.region
        if not isinstance(tensor, Tensor):
            return
        elements, view, coordinates = self._of(tensor), store.view, store.coordinates
        claimed, scoped = (
            view.claimed(of, elements.element, coordinates) for of in (elements.written, elements.scope)
        )
        if claimed is None or scoped is None:
            return
        (part, what), scopes, scope = claimed, scoped[0], GPU_SCOPE if store.reduces else 0
        if elements.is_written and np.count_nonzero(part):
            others = (part >> CTA_SHIFT != path.cta.number + 1) & (part != 0)
            codes = part[others]
            late = self._late(path, codes) & self._apart(path, codes, scopes[others], scope)
            if np.count_nonzero(late):
                self._twice(path, int(codes[late][0] >> CTA_SHIFT) - 1, what)
            elif np.count_nonzero(unfenced := self._unfenced(path, part[part != 0])):
                values = {"who": path.warp, "what": what, "by": self._who(path, int(unfenced[0]))}
                find(path, "proxy-fence", "stores over what threads stored", values)
        part[...] = self._code(path, store.code)
        elements.is_written = True
        if scope or elements.is_strong:
            scopes[...], elements.is_strong = scope, True

    def _load_issued(self, event: LoadIssued) -> None:
        path, load = event.path, event.load
        tensor = load.view.region
        if not isinstance(tensor, Tensor) or tensor not in self._elements:
            return
        elements = self._elements[tensor]
        if not elements.is_written:
            return
        claimed = load.view.claimed(elements.written, elements.element, load.coordinates)
        if claimed is None or not np.count_nonzero(claimed[0]):
            return
        codes, what = np.ravel(claimed[0]), claimed[1]
        late = self._late(path, codes)
        if np.count_nonzero(late):
            code = int(codes[late][0])
            values = {"who": path.warp, "what": what, "by": self._who(path, code)}
            if self._is_async(path, codes[late]).any():
                find(path, "store-incomplete", "loads what a TMA store writes", values)
            elif self._late(path, codes[late], "hoped").any():
                find(path, "read-before-write", "loads what is stored unordered", values)
            else:
                find(path, "acquire-missing", "loads behind a relaxed atomic", values)
            return
        if np.count_nonzero(unfenced := self._unfenced(path, codes)):
            values = {"who": path.warp, "what": what, "by": self._who(path, int(unfenced[0]))}
            find(path, "proxy-fence", "loads what threads stored", values)

    def _unfenced(self, path: Path, codes: np.ndarray) -> np.ndarray:
        """Those codes of which nothing tells the async proxy of ``path``, that are ordered before it."""
        late = self._late(path, codes, "fenced_global") & ~self._late(path, codes)
        return codes[late]

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


def _column(per_access: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """A value for each access, beside the codes of its elements."""
    return per_access[:, None] if codes.ndim > 1 else per_access
