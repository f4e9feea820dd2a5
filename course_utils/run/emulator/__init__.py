"""PTX of sm_90a on the CPU: ``emulate`` runs an Artifact on arrays, and says what its asynchronous work gets
wrong.

Four floors, each of which imports from those below it only. ``isa``: what an instruction means on registers.
``core``: threads, warps, CTAs, clusters, memory, the order of events, the seeded adversary. ``units``: one
engine a file, with its events. ``explain``: listens to events, and says what is wrong. ``emulate`` puts them
together.

What it leaves out. Not modelled, and an error where a kernel uses it: calls but for vprintf, sparse wgmma and
mma, TMA reductions, im2col and interleaved maps, and everything of later chips.
Modelled coarsely: the lanes of a warp share one clock, so a race among them goes unseen; a word of shared
memory remembers its last writer and its last reader only; volatile accesses and atomics order nothing;
clusters run one after another, so those that wait for each other never end; wgmma adds in float32, where the
chip truncates, and keeps fewer bits yet of sums of fp8.
"""

from course_utils.run.emulator.emulate import EmulatorError, emulate
from course_utils.run.emulator.explain.emulation import Emulation
from course_utils.run.emulator.explain.findings import Finding
from course_utils.run.emulator.explain.words import KINDS

__all__ = ["KINDS", "Emulation", "EmulatorError", "Finding", "emulate"]
