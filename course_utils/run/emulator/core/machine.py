"""The machine: a launch's memories, its parameters and variables, and who is ready, waits, or is on its way.

Shared memory is reused from one cluster to the next.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import zip_longest
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.artifact import Artifact
from course_utils.ptx.parser import PtxError
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.probe import Probe
from course_utils.run.emulator.core.schedule import Flying, Lands, Schedule
from course_utils.run.emulator.core.state import Holder
from course_utils.run.emulator.isa import elements
from course_utils.tma.encoding import encode

if TYPE_CHECKING:
    from course_utils.artifact import Parameter
    from course_utils.run.emulator.isa.tags import Tags
    from course_utils.run.emulator.isa.translate import Program


class Machine(Holder):
    """One launch of a program on tensors. ``regions`` are the tensors by name, ``constants`` the bytes of the
    module's variables and where each begins, ``tags`` as ``emulate`` has them.
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
        tags: Tags | None = None,
        addresses: Mapping[str, int] = MappingProxyType({}),
        filler: int = memory.FILLERS[0],
    ) -> None:
        super().__init__()
        self.tags = tags
        self.decoders = elements.decoders(tags.signs if tags else None)
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
        self.gives_way = False  # is the cluster that runs set aside, for others that can go on?
        self.ready: list[Any] = []  # paths that can run
        self.flying: list[Flying] = []
        self.waiting: dict[Any, None] = {}  # paths that wait, in order, so that a seed repeats
        self.last_progress = 0, 0
        self._parameters(regions, addresses)
        self._variables()
        self._shared: dict[int, list[memory.SharedMemory]] = {}  # that no CTA has, by rank

    def _parameters(self, regions: dict[str, memory.Region], addresses: Mapping[str, int]) -> None:
        """Lay the kernel's parameters out in memory."""
        names = list(regions)
        given, wanted = self.artifact.parameters, self.program.kernel.parameters
        if len(given) > len(wanted):
            raise PtxError(f"the launch passes {len(given)} parameters, and the kernel takes {len(wanted)}")
        data, position = bytearray(), 0

        def bytes_of(parameter: Parameter) -> bytes:
            if parameter.kind not in ("tensor_map", "pointer"):
                try:
                    return parameter.scalar_bytes()
                except ValueError as error:
                    raise PtxError(f"the emulator does not know {error}") from error
            name = parameter.tensor or ""
            base = addresses.get(name) or (names.index(name) + 1) << memory.TENSOR_SHIFT
            if parameter.tensor_map is None:
                return struct.pack("<Q", base)
            with suppress(ValueError):  # one that breaks a rule is found so when it is used
                return encode(parameter.tensor_map, base)
            return b""

        self.regions = regions
        self.arguments: dict[int, Parameter] = {}  # by their offset among the parameters
        self.symbols: dict[str, int | tuple[str, int]] = {}  # an address, or ("shared", offset)
        for variable, parameter in zip_longest(wanted, given):
            position = -(-position // variable.align) * variable.align
            data += bytes(position + max(variable.size, 1) - len(data))
            self.symbols[variable.name] = memory.PARAMETERS + position
            if parameter is not None:  # else an empty object: CuTe DSL passes its stateless atoms so
                self.arguments[position] = parameter
                value = bytes_of(parameter)
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

    def shared_memory(self, rank: int) -> memory.SharedMemory:
        free = self._shared.setdefault(rank, [])
        if not free:
            return memory.SharedMemory(self.shared_size, self.filler)
        shared = free.pop()
        shared.reset()
        return shared

    def give_back(self, ctas: list[Any]) -> None:
        """The shared memory of CTAs that have ended."""
        for cta in ctas:
            self._shared[cta.rank].append(cta.shared)
