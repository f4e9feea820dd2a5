"""``python -m course_utils.classroom.worker PID MODULE``: a worker of a judge's process, with which it ends.

A worker ends by itself when nobody holds the other side of its pipe. That takes a thread of Python's, which
waits for as long as a call of a library's keeps the interpreter; the system waits for nobody.
"""

from __future__ import annotations

import runpy
import sys

from course_utils.compile.child import end_with

end_with(int(sys.argv.pop(1)))
runpy.run_module("course_utils.run", run_name="__main__", alter_sys=True)
