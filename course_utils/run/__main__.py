"""``python -m course_utils.run MODULE`` starts a worker."""

from __future__ import annotations

import gc
import runpy
import sys

# Before the imports: all that torch makes stays, and Python would look for garbage among it seven times over,
# which is a fifth of a worker's start.
gc.set_threshold(100_000, 20, 20)
runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
