"""Inside the sandbox: a learner's source on standard input, its kernels on standard output, as data.

Everything here may be read, changed and forged by the submission that it runs. Whoever asked takes what comes
out as bytes that anybody could have written.
"""

from __future__ import annotations

import builtins
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import IO, Any, NoReturn

import msgspec

from course_utils.artifact import TensorMap
from course_utils.chips import CHIPS
from course_utils.compile import child, factory, guard, load
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory_source
from course_utils.plans import Plan, number
from course_utils.problems import PROBLEMS
from course_utils.run.protocol import write_block

# what a notebook of the course has in another cell than the exercise's, or in every one
IN_A_NOTEBOOK = (
    *("display", "get_ipython", "check", "check_copy", "check_maps", "check_plan", "check_paths"),
    "check_pair",
    *("try_out", "timeline", "receipt", "ladder", "recorded", "what_if", "level"),
)
OTHER = {"cute": "tilelang", "tilelang": "cutlass"}  # by language, the package of the other one
# seconds, more than there are: the clock that counts is outside, and knows who was kept from a processor
OWN_CLOCK = 3600.0
NO_FILE = "/no-file/"  # where compile.load keeps a source that is in no file
# what an exercise of each kind defines
NAMES = {name: problem.function for name, problem in PROBLEMS.items()}
NAMES |= {"maps": "mend", "plan": "seconds", "paths": "predict"}


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

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __format__(self, _: str) -> str:
        return ""

    def __float__(self) -> float:
        return 0.0

    def __int__(self) -> int:
        return 0

    __lt__ = __le__ = __gt__ = __ge__ = __call__  # a test of the points that a check gave says nothing here
    __eq__ = __ne__ = __call__  # type: ignore[assignment]
    __hash__ = object.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __call__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __call__
    __round__ = __or__ = __ror__ = __and__ = __rand__ = __invert__ = __call__


def _as_in_a_notebook(source: str) -> None:
    """Stand-ins for what a notebook's cell need not import; a check that was merged into it is one."""
    vars(builtins).update(dict.fromkeys(IN_A_NOTEBOOK, Nothing()))
    if "IPython" in source:
        import IPython

        IPython.get_ipython = Nothing()


def main() -> None:
    """Answer the one request: a block of JSON, then blocks of Artifacts; then leave, whatever still runs."""
    answers = settle()
    request = json.load(sys.stdin.buffer)
    kind, dsl = request["kind"], request["dsl"]
    made: list[bytes] = []
    head: dict = {"stage": "", "text": "", "open": "", "printed": "", "note": ""}
    try:
        _as_in_a_notebook(request["source"])
        function, head["note"] = _loaded(request["source"], request["name"], NAMES[kind])
        head["open"] = factory.open_places(function)
        if kind == "maps":
            head["maps"] = _mended(function, request["maps"])
        elif kind == "plan":
            head["times"] = _modelled(function, request["plans"])
        elif kind == "paths":
            head["paths"] = _predicted(function, request["paths"])
        else:
            sizes = [tuple(size) for size in request["sizes"]]
            chip = CHIPS[request["chip"]]
            chips = {size: chip.with_sms(sms) for size, sms in zip(sizes, request["sms"], strict=True)}
            with closing(factory.trace_sizes(function, dsl, sizes, kind, chips)) as traced:
                for one in traced:
                    head["printed"] = head["printed"] or one.printed
                    made.append(one.artifact.to_bytes())
    except CompileError as error:
        head |= error.data()
    except BaseException as error:  # a learner's code: SystemExit, KeyboardInterrupt, one of its own
        head |= {"stage": "trace", "text": f"{type(error).__name__}: {guard.text_of(error)}"}
    answer(answers, head, made)


def settle() -> IO[bytes]:
    """Where the answer goes: what a learner or a compiler prints is none."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    load.LOAD_LIMIT = child.LIMIT = OWN_CLOCK
    return answers


def answer(answers: IO[bytes], head: dict, made: list[bytes]) -> NoReturn:
    for block in (json.dumps(head).encode(), *made):
        write_block(answers, block)
    os._exit(0)  # threads of the learner's may never end


def _loaded(source: str, name: str, wanted: str) -> tuple[object, str]:
    """What the source defines under ``wanted``; and how it ended, where that was below the definition: a
    learner's own test, which asks for a GPU or for an answer, is no part of the exercise.
    """
    try:
        return load_factory_source(source, name, wanted), ""
    except BaseException as error:
        files = [one for one in sys.modules.values() if str(getattr(one, "__file__", "")).startswith(NO_FILE)]
        found = getattr(files[-1], wanted, None) if files else None
        # `from tilelang.language import *` brings names such as gemm and copy
        if found is None or str(getattr(found, "__module__", "")).startswith(("tilelang", "cutlass")):
            raise
        text = str(error) if isinstance(error, CompileError) else type(error).__name__
        return found, f"the code below {wanted} ended early: {text}"


def _modelled(seconds: object, asked: list[list[list[Any]]]) -> list[float]:
    """What ``seconds`` says of each size and plan."""
    times: list[float] = []
    for size, plan in asked:
        time = number(seconds(*size, Plan(*plan))) if callable(seconds) else None
        if not isinstance(time, (int, float)) or not math.isfinite(time):
            raise CompileError("trace", f"seconds must return a number, not {guard.text_of(time)}")
        times.append(float(time))
    return times


def _predicted(predict: object, asked: list[dict]) -> list[str]:
    """What ``predict`` says of each case."""
    said: list[str] = []
    for case in asked:
        shape, tile = tuple(case["shape"]), tuple(case["tile"])
        path = (
            predict(shape, tile, case["dtype"], case["consumer"], case["asked"])
            if callable(predict)
            else None
        )
        if not isinstance(path, str):
            raise CompileError("trace", f"predict must return a string, not {guard.text_of(path)}")
        said.append(str(path))
    return said


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
