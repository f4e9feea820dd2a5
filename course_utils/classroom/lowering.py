"""In a sandbox of its own, without a learner's Python: what that Python traced, to kernels.

A judge counts what an author wrote and what a compiler added, and what is allocated where. So it has the
compiler run here, where a submission is data: programs on standard input, and its source beside them.
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode

from course_utils.artifact import Artifact
from course_utils.chips import CHIPS
from course_utils.classroom.inside import answer, settle
from course_utils.compile import factory, load
from course_utils.compile.errors import CompileError


def main() -> None:
    """Answer the one request, as ``inside`` does."""
    answers = settle()
    request = json.load(sys.stdin.buffer)
    dsl, sizes = request["dsl"], [tuple(size) for size in request["sizes"]]
    load.keep(request["source"], dsl)  # what the programs' lines are of
    traced = [Artifact.from_bytes(b64decode(blob)) for blob in request["traced"]]
    head = {"stage": "", "text": "", "open": "", "printed": "", "note": ""}
    made: list[bytes] = []
    try:
        chip = CHIPS[request["chip"]]
        compiled = factory.compile_traced(traced, dsl, sizes, request["kind"], chip)
        made += [one.artifact.to_bytes() for one in compiled]
    except CompileError as error:
        head |= error.data()
    answer(answers, head, made)


if __name__ == "__main__":
    main()
