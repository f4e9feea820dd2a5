"""In a sandbox of its own, without a learner's Python: programs that TileLang traced, to kernels.

The compiler adds barriers and fences where an author left them out, and who wrote which one counts. So the
judge has it run here, where a submission is data: programs on standard input, its source beside them.
"""

from __future__ import annotations

import json
import sys

from course_utils.classroom.inside import NAMES, answer, settle
from course_utils.compile import child, load, tilelang
from course_utils.compile.errors import CompileError


def main() -> None:
    """Answer the one request, as ``inside`` does."""
    answers = settle()
    request = json.load(sys.stdin.buffer)
    load.keep(request["source"], "tilelang")  # what the programs' lines are of
    programs = dict(zip(map(tuple, request["sizes"]), request["programs"], strict=True))
    head = {"stage": "", "text": "", "open": "", "printed": "", "note": ""}
    made: list[bytes] = []
    tilelang.prepare()
    try:
        compiled = child.each(
            lambda *size: tilelang.compile_written(programs[size]), list(programs), NAMES[request["kind"]]
        )
        made += [one.artifact.to_bytes() for one in compiled]
    except CompileError as error:
        head |= {"stage": error.stage, "text": str(error)}
    answer(answers, head, made)


if __name__ == "__main__":
    main()
