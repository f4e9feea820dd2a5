"""The machine: a launch's clusters and CTAs, their memories and barriers, and the step that runs a path.

PTX ISA, "Programming Model": "Cluster of Cooperative Thread Arrays", "Special Registers". Clusters run one
after another, in an order that the seed decides, so a kernel whose clusters wait for each other is not for
this machine. Shared memory and its shadow are reused from one cluster to the next.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from course_utils.artifact import TENSOR_MAP_BYTES, Artifact
from course_utils.ptx.parser import PtxError
from course_utils.run.emulator.core import memory, undefined
from course_utils.run.emulator.core.grid import Cluster
from course_utils.run.emulator.core.probe import ClusterEnded, Failed, Probe, StopEmulation
from course_utils.run.emulator.core.schedule import Flying, Lands, Schedule, run
from course_utils.run.emulator.core.state import Holder
from course_utils.run.emulator.core.warp import Path
from course_utils.run.emulator.isa import elements
from course_utils.run.emulator.isa.lowered import InFlight
from course_utils.tma.encoding import encode

if TYPE_CHECKING:
    from course_utils.artifact import Parameter
    from course_utils.run.emulator.isa.translate import Program

# Warp instructions without any effect on memory or barriers before a loop counts as endless.
SPIN_LIMIT = 200_000


class Machine(Holder):
    """One launch of a program on tensors. ``regions`` are the tensors by name, ``constants`` the bytes of the
    module's variables and where each begins, ``signs`` as ``emulate`` has them.
    """

    def __init__(
        self,
        program: Program,
        artifact: Artifact,
        regions: dict[str, memory.Region],
        constants: tuple[np.ndarray, dict[str, int]],
        seed: int,
        limit: int,
        ctas: set[int] | None = None,
        signs: np.ndarray | None = None,
        addresses: Mapping[str, int] = MappingProxyType({}),
        filler: int = memory.FILLERS[0],
    ) -> None:
        super().__init__()
        self.decoders = elements.decoders(signs)
        self.program, self.artifact, self.limit, self.only = program, artifact, limit, ctas
        self.probe = Probe()
        self.seed, self.schedule = seed, Schedule(seed)
        self.choose = self.schedule.chance
        self.filler = filler
        data, self.constants = constants
        self.tensors = [*regions.values(), memory.Region("the kernel's constants", data)]
        # (address, region) of tensors that lie where the launch says, lowest first
        self.placed = sorted(((addresses[name], regions[name]) for name in addresses), key=itemgetter(0))
        self.executed = self.progress = self._clock = 0
        self.counts: Counter[str] = Counter()  # instructions run, of those that the program counts
        self.ready: list[Path] = []
        self.flying: list[Flying] = []
        self.waiting: dict[Path, None] = {}  # in order, so that a seed repeats
        self.last_progress = 0, 0
        self._parameters(regions, addresses)
        self._variables()
        self._shared: list[memory.SharedMemory] = []

    def _parameters(self, regions: dict[str, memory.Region], addresses: Mapping[str, int]) -> None:
        """Lay the kernel's parameters out in memory."""
        names = list(regions)
        given, wanted = self.artifact.parameters, self.program.kernel.parameters
        if len(given) > len(wanted):
            raise PtxError(f"the launch passes {len(given)} parameters, and the kernel takes {len(wanted)}")
        data, position = bytearray(), 0
        self.regions = regions
        self.arguments: dict[int, Parameter] = {}  # by their offset among the parameters
        self.symbols: dict[str, int | tuple[str, int]] = {}  # an address, or ("shared", offset)
        for variable, parameter in zip(wanted, [*given, *[None] * (len(wanted) - len(given))], strict=True):
            position = -(-position // variable.align) * variable.align
            data += bytes(position + max(variable.size, 1) - len(data))
            self.symbols[variable.name] = memory.PARAMETERS + position
            if parameter is not None:
                self.arguments[position] = parameter
            if parameter is None:
                pass  # an empty object: CuTe DSL passes its stateless atoms so
            elif parameter.kind == "tensor_map" and parameter.tensor_map:
                name = parameter.tensor or ""
                base = addresses.get(name) or (names.index(name) + 1) << memory.TENSOR_SHIFT
                with suppress(ValueError):  # one that breaks a rule is found so when it is used
                    data[position : position + TENSOR_MAP_BYTES] = encode(parameter.tensor_map, base)
            elif parameter.kind == "pointer":
                name = parameter.tensor or ""
                address = addresses.get(name) or (names.index(name) + 1) << memory.TENSOR_SHIFT
                data[position : position + 8] = struct.pack("<Q", address)
            else:
                try:
                    value = parameter.scalar_bytes()
                except ValueError as error:
                    raise PtxError(f"the emulator does not know {error}") from error
                data[position : position + len(value)] = value
            position += max(variable.size, 1)
        data += bytes(-len(data) % 16)
        self.parameters = memory.Region("the kernel's parameters", np.frombuffer(bytes(data), np.uint8))

    def _variables(self) -> None:
        """Addresses of shared and local variables: static ones first, then what the launch adds."""
        position, local = 0, 0
        for name, offset in self.constants.items():
            self.symbols[name] = (len(self.tensors) << memory.TENSOR_SHIFT) + offset
        for variable in self.program.kernel.variables:
            if variable.space == "shared" and variable.size >= 0:
                position = -(-position // variable.align) * variable.align
                self.symbols[variable.name] = ("shared", position)
                position += variable.size
            elif variable.space in ("local", "param"):  # what a call is given lies in memory of the thread's
                local = -(-local // variable.align) * variable.align
                self.symbols[variable.name] = local
                local += variable.size
        for variable in self.program.kernel.variables:
            if variable.space == "shared" and variable.size < 0:
                position = -(-position // variable.align) * variable.align
                self.symbols[variable.name] = ("shared", position)
        self.shared_size = position + self.artifact.dynamic_shared

    def global_region(self, address: int) -> tuple[memory.Region, int] | None:
        """The tensor that a global address is in, or the constants, and where it begins."""
        place = bisect_right(self.placed, address, key=itemgetter(0)) - 1
        if place >= 0:
            base, region = self.placed[place]
            if address < base + max(region.size, 1):
                return region, base
        number = (address >> memory.TENSOR_SHIFT) - 1
        if 0 <= number < len(self.tensors):
            return self.tensors[number], (number + 1) << memory.TENSOR_SHIFT
        return None

    def tick(self) -> int:
        """%clock and the like: a number that grows."""
        self._clock += 1
        return self.executed + self._clock

    def fly(self, what: Lands, units: int) -> None:
        """So many ``units`` are on their way, and land when the schedule says."""
        for begin, end in self.schedule.split(units):
            self.flying.append((what, begin, end))

    def run(self) -> bool:
        """Run every cluster. Says whether the kernel came to its end."""
        grid, size = self.artifact.grid, self.artifact.cluster
        if any(g % c for g, c in zip(grid, size, strict=True)) or 0 in grid:
            raise PtxError(f"a grid of {grid} CTAs is not made of whole clusters of {size}")
        clusters = [
            (x, y, z)
            for z in range(0, grid[2], size[2])
            for y in range(0, grid[1], size[1])
            for x in range(0, grid[0], size[0])
        ]
        self.schedule.random.shuffle(clusters)
        try:
            with np.errstate(
                all="ignore"
            ):  # floats overflow and divide by zero as on the chip: without a word
                for origin in clusters:
                    if self.only is None or self._wanted(origin):
                        self._cluster(origin)
        except StopEmulation:
            return False
        return True

    def _cluster(self, origin: tuple[int, int, int]) -> None:
        cluster, finished = Cluster(self, origin), False
        try:
            run(self, cluster)
            finished = True
        finally:
            self.probe.emit(ClusterEnded(cluster, finished))
        self.flying.clear()

    def _wanted(self, origin: tuple[int, int, int]) -> bool:
        """Is one of the CTAs that were asked for in the cluster at this origin?"""
        gx, gy, _ = self.artifact.grid
        cx, cy, cz = self.artifact.cluster
        wanted = self.only or ()
        return any(
            (origin[0] + x) + gx * ((origin[1] + y) + gy * (origin[2] + z)) in wanted
            for x in range(cx)
            for y in range(cy)
            for z in range(cz)
        )

    def shared_memory(self, rank: int) -> memory.SharedMemory:
        while len(self._shared) <= rank:
            self._shared.append(memory.SharedMemory(self.shared_size, self.filler))
        shared = self._shared[rank]
        shared.reset()
        return shared

    def step(self, path: Path, turn: int) -> None:
        """Run a path for up to ``turn`` segments, or until it waits, splits or ends."""
        program, registers, special = self.program, path.warp.registers, path.warp.special
        masked = path.mask is not None
        functions, lengths = (program.masked if masked else program.full), program.length
        pc, meet = path.pc, path.reconverge
        while turn:
            function = functions[pc] or program.function(pc, masked)
            self.executed += lengths[pc]
            try:
                following = function(path, registers, special)
            except (StopEmulation, PtxError):
                raise
            except Exception as error:  # whatever NumPy or Python make of a value that has no business there
                following = self._failed(path, function, error)
                self.executed -= pc + lengths[pc] - following
            if following < 0:
                break
            pc = following
            if pc == meet:
                path.rejoin()
                break
            turn -= 1
        else:
            path.pc = pc
            self.ready.append(path)
        if self.progress != self.last_progress[0]:
            self.last_progress = self.progress, self.executed
        elif self.executed - self.last_progress[1] > SPIN_LIMIT:
            path.halt("livelock", "nothing changes", who=path.warp, count=SPIN_LIMIT)
        if self.executed > self.limit:
            path.halt("instruction-limit", "instruction limit", count=self.executed)

    def _failed(self, path: Path, function: Callable[..., int], error: Exception) -> int:
        """An instruction failed in Python: on a register without a value, or it is our fault. The instruction
        to go on at, where it only computes with such a register.
        """
        trace, line = error.__traceback__, 0
        while trace:
            if trace.tb_frame.f_code is function.__code__:
                line = trace.tb_lineno
            trace = trace.tb_next
        path.at = at = function.__dict__["lines"][line - 1]
        instruction, lowered = self.program.kernel.instructions[at], self.program.lowered[at]
        registers, read = path.warp.registers, lowered.reads(instruction)
        targets = lowered.writes() if instruction.guard else ()
        unwritten = [r for r in read if registers[r] is None and r not in targets]
        in_flight = any(isinstance(registers[r], InFlight) for r in read)
        if unwritten and not in_flight:
            following = undefined.carried(path, at, unwritten)
            if following >= 0:
                return following
        if unwritten or in_flight:
            self.probe.emit(Failed(path, at, unwritten))
            raise StopEmulation
        raise PtxError(
            f"PTX line {instruction.line}: the emulator failed on this instruction ({type(error).__name__}: "
            f"{error}): "
            f"{instruction.text[:160]}"
        ) from error
