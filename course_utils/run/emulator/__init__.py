"""PTX of sm_90a on the CPU: ``emulate`` runs an Artifact on arrays, and says what its asynchronous work gets
wrong.

Four floors, each of which imports from those below it only. ``isa``: what an instruction means on registers.
``core``: threads, warps, CTAs, clusters, memory, the order of events, the seeded adversary. ``units``: one
engine a file, with its events. ``explain``: listens to events, and says what is wrong. ``emulate`` puts them
together.

What it leaves out: ``units.spellings`` has the tables, of what is refused by name and of what is not judged.
Beside these, a word of shared memory remembers its last writer and its last reader only.
"""

from course_utils.run.emulator.emulate import EmulatorError, emulate
from course_utils.run.emulator.explain.emulation import Emulation
from course_utils.run.emulator.explain.findings import Finding
from course_utils.run.emulator.explain.words import KINDS

__all__ = ["KINDS", "Emulation", "EmulatorError", "Finding", "emulate"]
