"""PTX of sm_90a on the CPU: ``emulate`` runs an Artifact on arrays, and says what its asynchronous work gets
wrong.

The modules, by machine part: ``parser`` (PTX text), ``instructions`` (the table of what is modelled),
``translate`` (code for it), ``warp`` and ``lanes``, ``arithmetic`` and ``floats``, ``memory`` (addresses,
bounds, shadow), ``order`` (what happens before what), ``barriers`` (mbarriers), ``threads`` (where threads
meet), ``copies`` (cp.async), ``tma``, ``wgmma``, ``mma``, ``elements`` (fp8, tf32), ``machine`` (CTAs and
clusters), ``schedule`` (the seeded adversary), ``trace``, ``printing`` (printf). What is found: ``findings``,
``deadlock``, ``ledger`` (of mbarriers), ``names`` and ``calls`` (what a learner calls things).

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
