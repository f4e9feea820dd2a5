"""Memories and their addresses. PTX ISA, "State Spaces" and "Proxies"; bounds and alignment are checked on
every access.

Addresses are numbers of the emulator's own choosing. Shared memory of the CTA of rank r in its cluster begins
at ``r << 24 | 0x400``, as on the chip, so a shared::cta address is a shared::cluster address too. A generic
address is a shared one plus ``GENERIC_SHARED``; tensors lie 2^40 apart, and the kernel's parameters behind
``PARAMETERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from course_utils.artifact import WARPGROUP_THREADS
from course_utils.run.emulator.core.order import AGENT_BITS, AGENT_MASK, NEVER, unordered
from course_utils.run.emulator.core.probe import StopEmulation
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED
from course_utils.run.emulator.isa.lowered import Mask, Value

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA
    from course_utils.run.emulator.core.warp import Path, Warp
    from course_utils.run.emulator.explain.findings import Finding
    from course_utils.run.emulator.units.mbarrier import MBarrier

SHARED_BASE = 0x400
RANK_SHIFT = 24
GENERIC_SHARED = 1 << 56
GENERIC_LOCAL = 1 << 57
PARAMETERS = 1 << 58
TENSOR_SHIFT = 40
# What shared memory holds that nothing has written, so that it is seen in the numbers where it counts: the
# bytes of a large negative fp16 number, and where a kernel runs again of a large positive one and of NaN
FILLERS = (0xEF, 0x6F, 0xFF)


class Region:
    """Plain bytes with a name: a tensor, the parameters, a thread's local memory."""

    def __init__(self, name: str, data: np.ndarray, describe: Callable[[int], str] | None = None) -> None:
        self.name, self.data, self.size = name, data, len(data)
        whole = len(data) - len(data) % 8
        self.views = {
            8: data,
            16: data[: len(data) - len(data) % 2].view(np.uint16),
            32: data[: len(data) - len(data) % 4].view(np.uint32),
            64: data[:whole].view(np.uint64),
        }
        self.describe = describe or (lambda offset: f"byte {offset:,} of {name}, which has {self.size:,}")

    def before_read(self, path: Path, offsets: Value, count: int) -> None:
        pass

    def before_write(self, path: Path, offsets: Value, count: int) -> None:
        pass


class Tensor(Region):
    """A tensor in global memory, of ``element`` bytes each, with the CTA that stored each element."""

    def __init__(
        self, name: str, data: np.ndarray, describe: Callable[[int], str] | None, element: int
    ) -> None:
        super().__init__(name, data, describe)
        self.element = element

    @cached_property
    def owners(self) -> np.ndarray:
        """By element: one more than the number of the CTA that stored it last, 0 of none."""
        return np.zeros(-(-self.size // 16) * 16 // self.element, np.int32)

    def before_write(self, path: Path, offsets: Value, count: int) -> None:
        owners, width = self.owners, max(count, self.element)
        if width > self.element:
            owners = owners.reshape(-1, width // self.element)
        first = offsets if offsets.__class__ is int else int(offsets[0])
        self.claim(path, owners, offsets // width, lambda: self.describe(first))

    def claim(self, path: Path, owners: np.ndarray, index: Any, what: Callable[[], str]) -> None:
        """This CTA stores ``owners[index]``, which is ``what``: has another one stored any of it?"""
        mine = path.cta.number + 1
        held = np.atleast_1d(owners[index])
        if held.any():
            others = held[(held != mine) & (held != 0)]
            if len(others):
                other = int(others.flat[0]) - 1
                path.find("stored-twice", lambda: _stored_twice(path.cta, other, what()))
        owners[index] = mine


# a sentence of its own: it may not fit a card
PLACES = "Does the order of tiles give each number its own place?"


def _stored_twice(cta: CTA, other: int, what: str) -> str:
    """What two CTAs have both stored, and what to look at."""
    low, high = sorted((cta.number, other))
    text = f"CTAs {low} and {high} both store {what}"
    if any(other == one.number for one in cta.cluster.ctas):
        return f"{text}; they are one cluster: does the tile's row or column count the CTA's rank?"
    x, y, z = cta.machine.artifact.grid
    if y * z > 1:
        grid = f"{x} x {y}" + f" x {z}" * (z > 1)
        return f"{text}; the grid has {grid} CTAs: which tile has each?"
    size = cta.cluster.size
    if low % size != high % size:
        text = f"{text}; they are rank {low % size} of one cluster and rank {high % size} of another"
        return f"{text}: do the tiles of two clusters lie {size} of a CTA's apart?"
    if size > 1:
        text = f"{text}; the grid has {x} CTAs in {x // size} clusters: at which tile does each cluster begin"
        return f"{text}, by how many does it go on? {PLACES}"
    return (
        f"{text}; the grid has {x} CTAs: at which tile does each begin, by how many does it go on? {PLACES}"
    )


class AsyncRead:
    """Shared memory that wgmma or a TMA store reads.

    ``done`` holds (agent, time) of each wait that covered it. ``missing`` is the commit_group that it lacked
    at a wait_group, which so passed it by, ``late`` that wait where the commit_group came after it, else -1.
    ``left`` is the last wait of a wgmma's that left its group running, and how many groups that leaves.
    Of a TMA store: ``store`` is its warp, ``unwaited``
    whether that warp went on to the next use of the bytes without a wait, ``over`` the finding of another
    warp's write over it.
    """

    __slots__ = (
        *("low", "high", "who", "at", "done", "last", "missing", "late", "left", "store", "unwaited"),
        "over",
    )

    def __init__(self, low: int, high: int, who: str, at: int) -> None:
        self.low, self.high, self.who, self.at, self.last, self.missing = low, high, who, at, 0, ""
        self.late = -1
        self.left: tuple[int, int] | None = None
        self.done: list[tuple[int, int]] = []
        self.store: Warp | None = None
        self.unwaited = False
        self.over: Finding | None = None

    def ordered_before(self, seen: np.ndarray) -> bool:
        return any(seen[agent] >= time for agent, time in self.done)


class SharedMemory(Region):
    """One CTA's shared memory with its shadow: for each 4-byte word who wrote and who read it last, as Order
    codes.
    """

    def __init__(self, size: int, filler: int) -> None:
        super().__init__("shared memory", np.zeros(-(-size // 64) * 64, np.uint8))
        self.size, self.filler = size, filler
        # 16 bytes, what TMA swizzles and wgmma reads by
        self.units = self.data.view(np.uint64).reshape(-1, 2)
        self.written = np.zeros(len(self.data) // 4, np.int64)
        self.read = np.zeros(len(self.data) // 4, np.int64)
        self.taken = np.zeros(len(self.data) // 4, np.int64)  # what wgmma or a TMA store found written
        self.reset()

    def reset(self) -> None:
        self.data[:] = self.filler
        self.written[:] = 0
        self.read[:] = 0
        self.taken[:] = 0
        self.async_reads: dict[tuple, AsyncRead] = {}
        self.overwritten: list[AsyncRead] = []  # TMA stores whose bytes another warp wrote too soon
        # boxes that TMA stores from here: which warps, at which instruction each
        self.stored: dict[str, dict[Warp, int]] = {}
        # warps that commit TMA stores, and that wait for them, by instruction
        self.store_commits: dict[int, set[Warp]] = {}
        self.store_waits: dict[int, set[Warp]] = {}
        self.wrote: dict[int, set[int]] = {}  # where threads write, by instruction: a byte of each warp's
        self.loads_in_flight = 0
        self.was_read = False
        # the first write of threads over those of another warp, with no order: that one's agent, who, where
        self.clash: tuple[int, Warp, int] | None = None
        # the first store of a register that nothing has written: who, which, where it was first used
        self.without_value: tuple[Path, int, int] | None = None

    @staticmethod
    def cells(shadow: np.ndarray, offsets: Value, count: int) -> tuple[np.ndarray, Value]:
        """(view, index): ``view[index]`` is the shadow of aligned accesses of ``count`` bytes, a power of
        two.
        """
        if count <= 4:
            return shadow, offsets >> 2
        return shadow.reshape(-1, count // 4), offsets >> count.bit_length() - 1

    def before_read(self, path: Path, offsets: Value, count: int) -> None:
        """A generic-proxy read by ``path``: everything it reads must be written, and ordered before it."""
        written, index = self.cells(self.written, offsets, count)
        self.check_codes(path, written[index], path.warp.clock.seen, None, "a thread")
        read, index = self.cells(self.read, offsets, count)
        read[index] = path.warp.code
        self.was_read = True

    def before_write(self, path: Path, offsets: Value, count: int) -> None:
        """A generic-proxy write by ``path``: nothing asynchronous may still use the bytes."""
        written, index = self.cells(self.written, offsets, count)
        seen = path.warp.clock.seen
        begin = offsets if offsets.__class__ is int else int(offsets[0])
        self.wrote.setdefault(path.at, set()).add(begin)
        code = int(self.written[begin >> 2])
        agent = code & AGENT_MASK
        if 0 < agent <= path.cta.cluster.warps_end and seen[agent] < code >> AGENT_BITS and not self.clash:
            self.clash = agent, path.warp, path.at
        if self.loads_in_flight:
            codes = np.atleast_1d(written[index])
            if ((codes & AGENT_MASK) > path.cta.cluster.warps_end).any() and unordered(codes, seen).any():
                path.find(
                    "write-unordered",
                    lambda: f"{path.name()} writes shared memory that a TMA load still fills",
                )
        if self.async_reads:
            low, high = (
                (offsets, offsets + count)
                if offsets.__class__ is int
                else (int(offsets.min()), int(offsets.max()) + count)
            )
            self.check_overwrite(path, low, high, offsets)
        written[index] = path.warp.code

    def anything_read(self, offsets: Iterable[int]) -> bool:
        """Has anything of what threads wrote here been read, by threads or by the async proxy?"""
        words = [offset >> 2 for offset in offsets]
        return bool((self.read[words] != 0).any() or (self.taken[words] == self.written[words]).any())

    def check_overwrite(self, path: Path, low: int, high: int, offsets: Value = None) -> None:
        """A write of [low, high) by ``path``, at ``offsets`` only where given: is every asynchronous reader
        done?
        """
        seen = path.warp.clock.seen
        for key, read in self.async_reads.items():
            if low < read.high and high > read.low and not read.ordered_before(seen):
                if offsets is None or np.any((offsets < read.high) & (offsets >= read.low)):
                    place = path.machine.findings.place
                    leaves = "" if read.done or read.left is None else _leaves(read.left[1])
                    why, at = "", read.at
                    if read.missing:
                        why = uncommitted(read.missing)
                    elif read.late >= 0:
                        why, at = BEFORE, read.late
                    elif leaves and read.left and not path.machine.findings.has_roles:
                        line = place(path.at).line
                        why = f": this wait {leaves}" + f" when line {line} writes" * bool(line)
                        at = read.left[0]
                    if why:
                        text = f"{path.name()} overwrites shared memory that {read.who} may still read{why}"
                        more = (f"the write: {place(path.at)}",)
                        path.find("overwrite-while-read", text, more=more, at=at)
                        continue
                    state = (
                        "has ended in this run, but nothing orders the two"
                        if read.done
                        else "is not waited for"
                    )
                    if leaves:
                        state += f": the wait {leaves}"
                    if read.store is path.warp:
                        read.unwaited = not read.done
                    finding = path.find_early_release(
                        "overwrite-while-read",
                        f"{path.name()} overwrites shared memory that {read.who} may still read",
                        f"the read, which {state}: {place(read.at)}; shared bytes {low:,} to {high:,}",
                        advice="store still reads" if key[0] == "store" else "",
                    )
                    if read.store not in (None, path.warp) and read.over is None:
                        read.over = finding
                        self.overwritten.append(read)

    def _stored(self, path: Path, offset: int) -> bool:
        """Has this warp started a TMA store of what begins here?"""
        keys = ((key[0], key[1], key[-1]) for key in self.async_reads)
        return ("store", path.warp.agent, offset) in keys

    def take(self, path: Path, offset: int, words: slice | np.ndarray) -> tuple[int, int] | None:
        """A TMA store reads these 4-byte words. Where threads have written none of them since this warp
        stored them last, but as many others, that nothing has read: the bytes of those.
        """
        written, taken, warps = self.written[words], self.taken[words].copy(), path.cta.cluster.warps_end
        self.taken[words] = written
        ours = (written & AGENT_MASK) <= warps
        if (
            _is_new(written, taken, warps).any()
            or ours.all()
            and written.all()
            and not self._stored(path, offset)
        ):
            return None
        found = np.flatnonzero(_is_new(self.written, self.taken, warps))
        return (int(found[0]) * 4, int(found[-1]) * 4 + 4) if len(found) >= len(written) else None

    def check_codes(
        self,
        path: Path,
        codes: np.ndarray,
        seen: np.ndarray,
        fenced: np.ndarray | None,
        reader: str,
        together: Sequence[Warp] = (),
    ) -> None:
        """Hold the last writers of what is read against the reader's clock; ``fenced`` is None for the
        generic proxy. ``together`` are the warps that read, where they are several: those at fault are named.
        """
        from course_utils.run.emulator.explain import names
        from course_utils.run.emulator.units.mbarrier import barrier_of

        codes = np.atleast_1d(codes)
        warps = together or (path.warp,)
        late = unordered(codes, seen)
        if late.any():
            code = int(codes[late][0])
            agent, time = code & AGENT_MASK, code >> AGENT_BITS
            cluster = path.cta.cluster
            writer = names.agent_text(cluster, agent, path.cta)
            late_ones = [warp for warp in warps if warp.clock.seen[agent] < time] or [path.warp]
            if agent > path.cta.cluster.warps_end:
                _read_before_load(path, reader, late_ones, barrier_of(cluster, agent), time - 1, writer)
            elif time >= NEVER:
                path.find(
                    "read-before-load",
                    lambda: f"{reader} ({path.name()}) reads what cp.async of {writer} still copies",
                )
            else:
                path.find(
                    "read-before-write",
                    lambda: (
                        f"{reader} ({path.names(late_ones)}) reads what {writer} writes: no barrier orders "
                        "the two"
                    ),
                )
        elif fenced is not None:
            unfenced = unordered(codes, fenced)
            if unfenced.any():
                code = int(codes[unfenced][0])
                agent, time = code & AGENT_MASK, code >> AGENT_BITS
                writer = names.agent_text(path.cta.cluster, agent, path.cta)
                late_ones = [warp for warp in warps if warp.clock.fenced[agent] < time] or [path.warp]
                path.find(
                    "proxy-fence",
                    lambda: (
                        f"{reader} ({path.names(late_ones)}) reads what {writer} wrote with ordinary "
                        "stores, and no fence.proxy.async is between"
                    ),
                )
        if not codes.all():
            by_threads = bool(((codes != 0) & ((codes & AGENT_MASK) <= path.cta.cluster.warps_end)).any())
            _read_nothing(path, reader, by_threads)


def _is_new(written: np.ndarray, taken: np.ndarray, warps: int) -> np.ndarray:
    """Which words have threads written since something took them?"""
    return (written != taken) & ((written & AGENT_MASK) <= warps)


NOTHING_WRITTEN = "reads shared memory that nothing has written"


def _read_nothing(path: Path, reader: str, by_threads: bool) -> None:
    """The reader's line is to blame, or its wait for a load where no phase had ended by then. ``by_threads``:
    threads have written the rest of it.
    """
    from course_utils.run.emulator.explain import names
    from course_utils.run.emulator.explain.accounts import account, turns

    if reader != "a thread" and path.cta.shared.without_value:
        from course_utils.run.emulator.explain import undefined

        undefined.counts(*path.cta.shared.without_value)
    text = f"{reader} ({path.name()}) {NOTHING_WRITTEN}"
    if reader == "a TMA store" and path.cta.shared.clash:
        agent, warp, at = path.cta.shared.clash
        both = names.of_warps([*(w for w in path.cta.warps if w.agent == agent), warp], path.cta)
        store = f"the store: {path.machine.findings.place(path.at)}"
        path.find("uninitialised-read", f"{text}, and {both} write to the same place", (), (store,), at)
        return
    if by_threads:
        path.find("uninitialised-read", f"{text} in a part of the tile: do all threads' copies cover it?")
        return
    barrier, at = turns(path.warp).waited or (None, -1)
    passed = account(barrier).waits.get(path.warp) if barrier else None
    if barrier is None or passed is None or passed.phases or passed.parity is None:
        path.find("uninitialised-read", text)
        return
    read = f"the read: {path.machine.findings.place(path.at)}"
    first = "on a new barrier a wait for parity 1 passes at once: a first wait for a load asks for parity 0"
    asked = f"its wait for {names.of_barrier(barrier)} asked for parity {passed.parity}, which a new barrier has passed"
    path.find("uninitialised-read", f"{text}: {asked}", (barrier,), (first, read), at)


def _read_before_load(
    path: Path, reader: str, warps: Sequence[Warp], barrier: MBarrier | None, phase: int, name: str
) -> None:
    """The reader's line is to blame, or its wait for that very barrier where that let it pass too early."""
    from course_utils.run.emulator.explain.accounts import account

    text = f"{reader} ({path.names(warps)}) reads shared memory that TMA fills for {name}, phase {phase}, "
    passed = account(barrier).waits.get(warps[0]) if barrier else None
    if barrier is None or passed is None:
        about = () if barrier is None else (barrier,)
        which = "this warp has" if len(warps) == 1 else "these warps have"
        finding = path.find("read-before-load", f"{text}which {which} not waited for", about)
        finding.apart = barrier is not None
        return
    findings = path.machine.findings
    behind = f"phase {passed.phases - 1} had passed" if passed.phases else "a new barrier has passed"
    asked = f"parity {passed.parity}" if passed.parity is not None else "an earlier phase"
    # as many waits as fills: this round's took place
    wrong = passed.count > phase and passed.parity != phase & 1
    wait = findings.place(passed.at)
    which = "its last wait" + (f", line {wait.line}," if wait.line and not wrong else "")
    finding = path.find(
        "read-before-load",
        f"{text}not waited for: {which} asked for {asked}, which {behind}",
        (barrier,),
        (f"the read: {findings.place(path.at)}" if wrong else f"its last wait: {wait}",),
        passed.at if wrong else None,
    )
    if wrong and finding.count == 1:  # what it released too early comes of it
        findings.lead(finding)


def _leaves(groups: int) -> str:
    return f"leaves {groups} group{'s' * (groups > 1)} running"


BEFORE = ": the wait comes before the commit_group of what it should cover"


def uncommitted(instruction: str) -> str:
    """What to say more of work that this commit_group has put in no group."""
    return f": no {instruction} put it in a group, so no wait covers it"


def pick(value: Value, lane: int) -> int:
    """One lane of a value."""
    return int(value[lane]) if isinstance(value, np.ndarray) else value


def lanes_of(mask: Mask) -> list[int]:
    """The active lanes' numbers; None is all 32."""
    return list(range(LANES)) if mask is None else np.flatnonzero(mask).tolist()


def locate(path: Path, mask: Mask, address: Value, space: str, count: int) -> tuple[Region, Value]:
    """(region, offsets) of an access of ``count`` bytes by each active lane; offsets of active lanes only.

    Offsets are an int where the address is uniform. Lanes must all fall into one region.
    """
    uniform = address.__class__ is int
    if not uniform and mask is not None:
        address = address[mask]
    first = address if uniform else int(address[0])
    region, base = _region(path, first, space, mask)
    if uniform:
        offsets = first - base
        if offsets < 0 or offsets + count > region.size:
            _out_of_bounds(path, region, offsets, count)
        if offsets % count:
            not_aligned(path, offsets, count)
        return region, offsets
    offsets = address.astype(np.int64) - base
    bits = int(np.bitwise_or.reduce(offsets))  # at least the largest offset, and negative if any is
    if bits >= 0 and not bits & (count - 1) and bits + count <= region.size:
        return region, offsets
    wrong = (offsets.view(np.uint64) > max(region.size - count, 0)) | ((offsets & (count - 1)) != 0)
    if wrong.any():
        off = offsets[wrong]
        misaligned = off[(off & (count - 1)) != 0]
        if len(misaligned):
            not_aligned(path, int(misaligned[0]), count)
        _out_of_bounds(path, region, int(off[0]), count)
    return region, offsets


def locate_shared(
    path: Path, mask: Mask, address: Value, space: str, count: int
) -> tuple[SharedMemory, Value]:
    """``locate`` of an address that can only be shared memory's."""
    region, offsets = locate(path, mask, address, space, count)
    assert isinstance(region, SharedMemory)
    return region, offsets


def _region(path: Path, address: int, space: str, mask: Mask) -> tuple[Region, int]:
    if space == "generic":
        if address >= PARAMETERS:
            space = "param"
        elif address >= GENERIC_LOCAL:
            space, address = "local", address - GENERIC_LOCAL
            region, base = _region(path, address, space, mask)
            return region, base + GENERIC_LOCAL
        elif address >= GENERIC_SHARED:
            region, base = _region(path, address - GENERIC_SHARED, "shared::cluster", mask)
            return region, base + GENERIC_SHARED
        else:
            space = "global"
    if space == "global":
        found = path.machine.global_region(address)
        if found is None:
            path.find(
                "out-of-bounds", f"{path.name()} accesses global address {address:#x}, which is in no tensor"
            )
            raise StopEmulation
        return found
    if space in ("shared", "shared::cta", "shared::cluster"):
        return path.cta.cluster.shared_of(path, address)
    if space == "param":
        return path.machine.parameters, PARAMETERS
    if space == "local":
        return path.warp.local_memory(), 0
    raise AssertionError(space)


def _out_of_bounds(path: Path, region: Region, offset: int, count: int) -> NoReturn:
    path.find(
        "out-of-bounds",
        lambda: f"{path.name()} accesses {region.describe(offset)}{_asked(path, region, offset)}",
        plain=f"an access lies outside {region.name}, by its byte {offset:,} of {region.size:,}",
    )
    raise StopEmulation


def _asked(path: Path, region: Region, offset: int) -> str:
    """What to ask of an access outside: which index it is that goes too far."""
    artifact = path.machine.artifact
    if isinstance(region, SharedMemory):
        from course_utils.run.emulator.explain.ahead import ahead

        late = ahead(path.machine.program).has_roles and path.warp.index >= WARPGROUP_THREADS // LANES
        return ": does a slice take the thread's number in the CTA, and not in its role?" * late
    if not isinstance(region, Tensor):
        return ""
    shapes = [tensor.shape for tensor in artifact.tensors]
    shape = next(tensor.shape for tensor in artifact.tensors if tensor.name == region.name)
    if len(shapes) < 3 or any(len(one) != 2 for one in (*shapes[:2], shapes[-1])):  # no matrix product
        return ""
    if artifact.grid == (1, 1, 1):
        return f": are the shares of {artifact.threads} threads, as its layout makes them, one tile?"
    rows = offset // region.element // shape[-1]
    mixed = any(shape[0] <= rows < other for other in artifact.problem)
    both = "M and N, or x and y of the grid," if artifact.grid[1] > 1 else "M and N"
    return f": are {both} mixed up?" if mixed else ": does its index count tiles?"


def not_aligned(path: Path, offset: int, count: int) -> NoReturn:
    """An access of ``count`` bytes at an offset that they do not divide."""
    path.find(
        "misaligned",
        f"{path.name()} accesses {count} bytes at offset {offset:,}, which {count} does not divide",
    )
    raise StopEmulation


def load(
    path: Path, mask: Mask, address: Value, space: str, bits: int, vector: int, checked: bool = True
) -> list[Value]:
    """``vector`` values of ``bits`` bits for each active lane; inactive lanes get 0."""
    count = bits // 8 * vector
    space = _call_space(space, address)
    if space == "local" and not path.warp.local_size:
        path.find("out-of-bounds", f"{path.name()} reads local memory, of which the kernel declares none")
        raise StopEmulation
    region, offsets = locate(path, mask, _local(path, address) if space == "local" else address, space, count)
    if checked:
        region.before_read(path, offsets, count)
    if region.__class__ is Tensor:
        from course_utils.run.emulator.explain.roles import role

        path.warp.fetched = role(path.warp).multiplies
    view = region.views[bits]
    if offsets.__class__ is int:
        first = offsets // (bits // 8)
        return [int(view[first + i]) for i in range(vector)]
    index = offsets // (bits // 8)
    values = []
    for i in range(vector):
        if mask is None:
            values.append(view[index + i])
        else:
            value: np.ndarray = np.zeros(LANES, UNSIGNED[bits])
            value[mask] = view[index + i]
            values.append(value)
    return values


def store(
    path: Path,
    mask: Mask,
    address: Value,
    space: str,
    bits: int,
    values: Sequence[Value],
    checked: bool = True,
) -> None:
    count = bits // 8 * len(values)
    space = _call_space(space, address)
    region, offsets = locate(path, mask, _local(path, address) if space == "local" else address, space, count)
    if region is path.machine.parameters:
        path.find("out-of-bounds", f"{path.name()} writes to the kernel's parameters")
        raise StopEmulation
    if checked:
        region.before_write(path, offsets, count)
    path.machine.progress += 1
    path.machine.trace.writes(path)
    view = region.views[bits]
    uniform = offsets.__class__ is int
    index = offsets // (bits // 8)
    for i, value in enumerate(values):
        if value.__class__ is int:
            view[index + i] = value & ((1 << bits) - 1)
        elif uniform:
            view[index + i] = value[lanes_of(mask)[-1]] & UNSIGNED[bits]((1 << bits) - 1)
        else:
            view[index + i] = value if mask is None else value[mask]


def _call_space(space: str, address: Value) -> str:
    """What a call is given, and gives back, is in local memory here."""
    return "local" if space == "param" and address.__class__ is int and address < PARAMETERS else space


def _local(path: Path, address: Value) -> np.ndarray:
    """Local memory is a thread's own: lane i's copy follows lane i - 1's."""
    size = path.warp.local_size
    return np.arange(LANES, dtype=np.uint64) * np.uint64(size) + (
        np.uint64(address) if address.__class__ is int else address.astype(np.uint64)
    )
