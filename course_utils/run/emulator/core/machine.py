"""The machine: a launch's clusters and CTAs, their memories and barriers, and the step that runs a path.

PTX ISA, "Programming Model": "Cluster of Cooperative Thread Arrays", "Special Registers". Clusters run one
after another, in an order that the seed decides, so a kernel whose clusters wait for each other is not for
this machine. Shared memory and its shadow are reused from one cluster to the next.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from course_utils.artifact import TENSOR_MAP_BYTES, Artifact
from course_utils.ptx.parser import Instr, PtxError, Reg
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.grid import Cluster
from course_utils.run.emulator.core.probe import Probe
from course_utils.run.emulator.core.schedule import Schedule, run
from course_utils.run.emulator.core.warp import Path
from course_utils.run.emulator.explain import deadlock, ledger, names, stages, undefined
from course_utils.run.emulator.explain.facts import Facts
from course_utils.run.emulator.explain.findings import Findings, StopEmulation
from course_utils.run.emulator.explain.timeline import Trace
from course_utils.run.emulator.isa import elements
from course_utils.run.emulator.units import printf, wgmma
from course_utils.run.emulator.units.tma import TensorView
from course_utils.run.emulator.units.wgmma import Accumulator, Pending
from course_utils.run.words import safe_message
from course_utils.tma.encoding import encode

if TYPE_CHECKING:
    from course_utils.run.emulator.isa.translate import Program
    from course_utils.run.emulator.units.tma import Flying, Load

# Warp instructions without any effect on memory or barriers before a loop counts as endless.
SPIN_LIMIT = 200_000


class Machine:
    """One launch of a program on tensors. ``regions`` are the tensors by name, ``signs`` and ``record`` as
    ``emulate`` has them.
    """

    def __init__(
        self,
        program: Program,
        artifact: Artifact,
        regions: dict,
        seed: int,
        limit: int,
        ctas: set[int] | None = None,
        signs: np.ndarray | None = None,
        record: bool = False,
        addresses: Mapping[str, int] = MappingProxyType({}),
        filler: int = memory.FILLERS[0],
    ) -> None:
        self.decoders = elements.decoders(signs)
        self.program, self.artifact, self.limit, self.only = program, artifact, limit, ctas
        self.probe = Probe()
        self.findings = Findings(program.kernel, artifact, program.has_roles)
        self.seed, self.schedule = seed, Schedule(seed)
        self.choose = self.schedule.chance
        self.trace, self.facts = Trace(self, record), Facts(self)
        self.findings.heard = self.trace.found
        self.filler = filler
        data, self.constants = printf.constants(artifact.ptx)
        self.tensors = [*regions.values(), memory.Region("the kernel's constants", data)]
        # (address, region) of tensors that lie where the launch says, lowest first
        self.placed = sorted(((addresses[name], regions[name]) for name in addresses), key=itemgetter(0))
        self.printed = printf.Printed()
        self.executed = self.progress = self._clock = 0
        self.ready: list[Path] = []
        self.flying: list[Flying] = []
        self.waiting: dict[Path, None] = {}  # in order, so that a seed repeats
        self.barriers_used: set[tuple[int, int]] = set()  # by which instruction, at which offset
        self.mismatch: tuple[str, stages.Told] | None = (
            None  # what explains wrong numbers: its kind, and what
        )
        self.last_progress = 0, 0
        registers = artifact.resources.registers if artifact.resources else 0
        self.registers = -(-max(registers, 8) // 8) * 8
        self._parameters(regions, addresses)
        self._variables()
        self._shared: list[memory.SharedMemory] = []
        # by rank and warpgroup, for one cluster after another
        self.accumulators: dict[tuple, Accumulator] = {}

    def _parameters(self, regions: dict[str, memory.Region], addresses: Mapping[str, int]) -> None:
        """Lay the kernel's parameters out in memory, and find its tensor maps."""
        names = list(regions)
        given, wanted = self.artifact.parameters, self.program.kernel.parameters
        if len(given) > len(wanted):
            raise PtxError(f"the launch passes {len(given)} parameters, and the kernel takes {len(wanted)}")
        data, position = bytearray(), 0
        self.maps: dict[int, TensorView] = {}  # by their offset among the parameters
        self.read_maps: dict[bytes, TensorView] = {}  # those that lie elsewhere, by their bytes
        self.symbols: dict[str, int | tuple[str, int]] = {}  # an address, or ("shared", offset)
        for variable, parameter in zip(wanted, [*given, *[None] * (len(wanted) - len(given))], strict=True):
            position = -(-position // variable.align) * variable.align
            data += bytes(position + max(variable.size, 1) - len(data))
            self.symbols[variable.name] = memory.PARAMETERS + position
            if parameter is None:
                pass  # an empty object: CuTe DSL passes its stateless atoms so
            elif parameter.kind == "tensor_map" and parameter.tensor_map:
                name = parameter.tensor or ""
                self.maps[position] = TensorView(name, parameter.tensor_map, regions[name])
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
        self.arrays = names.arrays(self)

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

    def fly(self, load: Load) -> None:
        for begin, end in self.schedule.split(load.view.units):
            self.flying.append((load, begin, end))

    def deadlock(self, cluster: Cluster) -> None:
        safe_message(partial(deadlock.describe, self, cluster), None)
        if not self.findings.found:
            self.findings.add("deadlock", -1, "warps wait, and nobody will do what they wait for")

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
                        cluster = Cluster(self, origin)
                        try:
                            run(self, cluster)
                        finally:
                            safe_message(partial(ledger.blame, self, cluster), None)
                            safe_message(partial(stages.lead, self, cluster), None)
                        self.flying.clear()
                        self.facts.close(cluster)
                        self.trace.name()
        except StopEmulation:
            self.trace.name()
            return False
        if self.mismatch is not None and not self.findings.found:
            kind, (at, text, barriers) = self.mismatch
            self.findings.add(kind, at, text, barriers=barriers)
        return True

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
                following = self._explain(path, function, error)
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
            path.fault(
                "livelock", f"{path.name()} has run {SPIN_LIMIT:,} instructions, and nothing has changed"
            )
        if self.executed > self.limit:
            path.fault("instruction-limit", f"{self.executed:,} warp instructions were executed")

    def _explain(self, path: Path, function: Callable[..., int], error: Exception) -> int:
        """An instruction failed in Python: on an accumulator in flight or a register never written, or it is
        our fault. The instruction to go on at, where it only computes with such a register.
        """
        trace, line = error.__traceback__, 0
        while trace:
            if trace.tb_frame.f_code is function.__code__:
                line = trace.tb_lineno
            trace = trace.tb_next
        path.at = at = function.__dict__["lines"][line - 1]
        instruction, registers = self.program.kernel.instructions[at], path.warp.registers
        read = self.program.lowered[at].reads(instruction)
        kernel = self.program.kernel
        for register in read:
            if registers[register].__class__ is Pending:
                text = wgmma.still_writes(path, registers[register].accumulator)
                if self.findings.place(at).added:
                    path.at = self._store_of(at)
                path.fault(
                    "accumulator-before-wait",
                    f"{path.name()} reads the accumulator, {text}",
                    more=(f"the register: {kernel.register_names[register]}",),
                )
        targets = set(self.program.lowered[at].writes()) if instruction.guard else set[int]()
        unwritten = [r for r in read if registers[r] is None and r not in targets]
        if unwritten:
            following = undefined.carried(path, at, unwritten)
            if following >= 0:
                return following
            self.unwritten(path, *path.warp.undefined.get(unwritten[0], (unwritten[0], at)))
        raise PtxError(
            f"PTX line {instruction.line}: the emulator failed on this instruction ({type(error).__name__}: "
            f"{error}): "
            f"{instruction.text[:160]}"
        ) from error

    def unwritten(self, path: Path, register: int, at: int) -> NoReturn:
        """The value of a register that nothing has written counts: it was first used at an instruction."""
        kernel = self.program.kernel
        path.at = self._store_of(at)
        path.fault(
            "uninitialised-register",
            f"{path.name()} {_unwritten(kernel.instructions[at])}, which nothing has written",
            more=(f"the register: {kernel.register_names[register]}",),
        )

    def _store_of(self, at: int) -> int:
        """The store of what a conversion makes, else the instruction itself: the compiler may lift a
        conversion out of its loop, and then names another line for it.
        """
        instructions = self.program.kernel.instructions
        if instructions[at].opcode[0] != "cvt" or not isinstance(instructions[at].operands[0], Reg):
            return at
        made = instructions[at].operands[0].index
        for i, later in enumerate(instructions[at + 1 :], at + 1):
            if later.opcode[0] in ("st", "stmatrix") and made in self.program.lowered[i].reads(later):
                return i
        return at


def _unwritten(instruction: Instr) -> str:
    """What an instruction does with a register that has no value, as its author would say it."""
    if instruction.opcode[0] in ("stmatrix", "st"):
        return "stores a part of a fragment (values in registers)"
    if instruction.opcode[0] == "cvt":
        return "converts a part of a fragment (values in registers)"
    return "uses a value in a register"
