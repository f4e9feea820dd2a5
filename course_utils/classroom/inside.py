"""Inside the sandbox: a learner's source on standard input, its kernels on standard output, as data.

Everything here may be read, changed and forged by the submission that it runs. Whoever asked takes what comes
out as bytes that anybody could have written.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict

import msgspec

from course_utils.artifact import TensorMap
from course_utils.compile import child, factory, guard, load
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory_source
from course_utils.run.protocol import write_block

# what a notebook of the course has in another cell than the exercise's, or in every one
IN_A_NOTEBOOK = (
    *("display", "get_ipython", "check", "check_copy", "check_maps", "try_out", "timeline", "receipt"),
    *("ladder", "recorded", "what_if"),
)
OTHER = {"cute": "tilelang", "tilelang": "cutlass"}  # by language, the package of the other one
# seconds, more than there are: the clock that counts is outside, and knows who was kept from a processor
OWN_CLOCK = 3600.0
NAMES = {"gemm": "gemm", "copy": "copy", "maps": "mend"}  # what an exercise of each kind defines


class Nothing:
    """Stands for what a notebook has and Python has not: whatever is called or asked of it, nothing comes."""

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> Nothing:
        return self

    def __getitem__(self, _: object) -> Nothing:
        return self

    def __iter__(self) -> Iterator[object]:
        return iter(())


def _as_in_a_notebook(source: str) -> None:
    """Stand-ins for what a notebook's cell need not import; a check that was merged into it is one."""
    vars(builtins).update(dict.fromkeys(IN_A_NOTEBOOK, Nothing()))
    if "IPython" in source:
        import IPython

        IPython.get_ipython = Nothing()


def main() -> None:
    """Answer the one request: a block of JSON, then blocks of Artifacts; then leave, whatever still runs."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a learner prints is no answer
    load.LOAD_LIMIT = child.LIMIT = OWN_CLOCK
    request = json.load(sys.stdin.buffer)
    kind, dsl = request["kind"], request["dsl"]
    made: list[bytes] = []
    head: dict = {"stage": "", "text": "", "open": "", "printed": ""}
    try:
        _as_in_a_notebook(request["source"])
        function = load_factory_source(request["source"], request["name"], NAMES[kind])
        head["open"] = factory.open_places(function)
        if kind == "maps":
            head["maps"] = _mended(function, request["maps"])
        else:
            sizes = [tuple(size) for size in request["sizes"]]
            with closing(factory.compile_sizes(function, dsl, sizes, kind)) as compiled:
                for one in compiled:
                    head["printed"] = head["printed"] or one.printed
                    made.append(one.artifact.to_bytes())
    except CompileError as error:
        head |= {"stage": error.stage, "text": str(error), "printed": error.printed}
    except BaseException as error:  # a learner's code: SystemExit, KeyboardInterrupt, one of its own
        head |= {"stage": "trace", "text": f"{type(error).__name__}: {guard.text_of(error)}"}
    for block in (json.dumps(head).encode(), *made):
        write_block(answers, block)
    os._exit(0)  # threads of the learner's may never end


def _mended(mend: object, given: list[dict]) -> list[dict]:
    """What ``mend`` makes of the maps, as data. Whatever else it returns is told apart by who reads it."""
    maps = msgspec.convert(given, list[TensorMap])
    mended = mend(maps) if callable(mend) else None
    if not isinstance(mended, (list, tuple)) or not all(type(one) is TensorMap for one in mended):
        raise CompileError(
            "trace", f"mend must return a list of {len(maps)} maps, in the order in which they came"
        )
    return [asdict(one) for one in mended]


if __name__ == "__main__":
    main()
