"""What a warp's threads do between multiplications: the epilogue, and copies of a tile to shared memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.run.emulator.core.memory import Tensor
from course_utils.run.emulator.explain.results import held
from course_utils.run.emulator.units.access import Read, Write
from course_utils.run.emulator.units.cp_async import CopyIssued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path, Warp


@dataclass(slots=True)
class Piece:
    """A warp's work on the results that it holds (``results.held``), ``until`` when, in instructions
    executed.
    """

    multiplies: int
    until: int = 0


@dataclass(slots=True)
class WriteBegins:
    """A warp that has multiplied begins to write: results out, or (``copies``) the next tile."""

    path: Path
    piece: Piece
    copies: bool


@dataclass(slots=True)
class CopyBegins:
    """A warp begins to copy a part of a tile to shared memory."""

    path: Path
    piece: Piece


class Work:
    """By warp its last writes and its last copy: one piece of work each until the warp multiplies again."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.writes: dict[Warp, Piece] = {}
        self._copies: dict[Warp, Piece] = {}
        self.fetches = Counter[str]()  # reads of each tensor in global memory, of all clusters
        self._fetched: dict[Warp, int] = {}  # what it held when it last read a tensor of global memory
        machine.probe.listen(Read, self._read)
        machine.probe.listen(Write, self._write)
        machine.probe.listen(CopyIssued, self._copy_issued)

    def clear(self) -> None:
        """A cluster has ended."""
        self.writes.clear()
        self._copies.clear()
        self._fetched.clear()

    def _read(self, event: Read) -> None:
        if event.region.__class__ is Tensor:
            self.fetches[event.region.name] += 1
            self._fetched[event.path.warp] = held(event.path.warp)

    def _write(self, event: Write) -> None:
        path, warp = event.path, event.path.warp
        count = held(warp)
        if count:
            piece = self.writes.get(warp)
            if piece is None or piece.multiplies != count:
                piece = self.writes[warp] = Piece(count)
                self.machine.probe.emit(WriteBegins(path, piece, self._fetched.get(warp) == count))
            piece.until = self.machine.executed
        elif self._fetched.get(warp) == 0:
            self._copy(path, 0)

    def _copy_issued(self, event: CopyIssued) -> None:
        count = self._fetched[event.path.warp] = held(event.path.warp)
        self._copy(event.path, count)

    def _copy(self, path: Path, count: int) -> None:
        piece = self._copies.get(path.warp)
        if piece is None or piece.multiplies != count:
            piece = self._copies[path.warp] = Piece(count)
            self.machine.probe.emit(CopyBegins(path, piece))
        piece.until = self.machine.executed
