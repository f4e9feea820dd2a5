"""A learner's factory to an Artifact, by the compiler of its DSL; and what of it is still to be written."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

from course_utils.artifact import Artifact
from course_utils.chips import HOME, Chip
from course_utils.compile import child
from course_utils.compile.child import Compiled
from course_utils.compile.errors import CompileError
from course_utils.problems import PROBLEMS

DSLS = ("tilelang", "cute")
OPEN = "raise NotImplementedError"  # what stands in an exercise where the learner's code goes


class NotYet:
    """Stands for a name that a notebook's cell will define."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name}, not defined yet"


def compile_factory(
    factory: object, dsl: str, size: tuple[int, ...], kind: str = "gemm", chip: Chip = HOME
) -> Artifact:
    """Compile ``factory(*size)`` for ``chip`` in a child process; ``kind`` is of ``problems.PROBLEMS``:
    "gemm" has the size M, N, K. A factory that takes ``sm_count`` is given the chip's,
    where it is not the course's own.

    Raises CompileError, whatever the factory and its compiler do.
    """
    with closing(compile_sizes(factory, dsl, [size], kind, chip)) as compiled:
        return next(compiled).artifact


def compile_sizes(
    factory: object,
    dsl: str,
    sizes: Sequence[tuple[int, ...]],
    kind: str = "gemm",
    chip: Chip = HOME,
    others: Mapping[tuple[int, ...], Chip] = MappingProxyType({}),
) -> Generator[Compiled, None, None]:
    """Compile ``factory(*size)`` for each size, in order, in one child process, which is quicker than one
    for each; with what the factory printed. ``others`` are sizes that are compiled for another chip than
    ``chip``. As ``compile_factory`` otherwise.
    """
    called, compiler = _given(_called(factory, kind), kind), _compiler(dsl)
    _require(kind, sizes)

    def compile_one(*size: int) -> Artifact:
        own = others.get(size, chip)
        return compiler.compile_kind(_for_chip(called, own), kind, *size, chip=own)

    find_line = getattr(compiler, "find_line", None)
    yield from child.each(compile_one, sizes, PROBLEMS[kind].function, find_line)


def trace_sizes(
    factory: object,
    dsl: str,
    sizes: Sequence[tuple[int, ...]],
    kind: str = "gemm",
    chips: Mapping[tuple[int, ...], Chip] = MappingProxyType({}),
) -> Generator[Compiled, None, None]:
    """As ``compile_sizes`` for the ``chips`` of sizes, up to what a compiler's ``trace_kind`` makes."""
    called, trace = _given(_called(factory, kind), kind), _compiler(dsl).trace_kind
    _require(kind, sizes)

    def trace_one(*size: int) -> Artifact:
        chip = chips.get(size, HOME)
        return trace(_for_chip(called, chip), kind, *size, chip=chip)

    yield from child.each(trace_one, sizes, PROBLEMS[kind].function)


def compile_traced(
    traced: Sequence[Artifact],
    dsl: str,
    sizes: Sequence[tuple[int, ...]],
    kind: str = "gemm",
    chip: Chip = HOME,
) -> Generator[Compiled, None, None]:
    """Compile for ``chip``, in a child process, what ``trace_sizes`` made. Raises CompileError."""
    compiler, of = _compiler(dsl), dict(zip(sizes, traced, strict=True))

    def compile_one(*size: int) -> Artifact:
        return compiler.compile_traced(of[size], kind, *size, chip=chip)

    yield from child.each(compile_one, sizes, PROBLEMS[kind].function, getattr(compiler, "find_line", None))


def _called(factory: object, kind: str) -> Callable:
    """The factory, if it can be called. Raises CompileError."""
    if callable(factory):
        return factory
    problem = PROBLEMS[kind]
    takes = "a shape" if problem.any_shape else f"({problem.takes})"
    text = f"{problem.function} is {type(factory).__name__}, not a function of {takes}"
    raise CompileError("load", text)


def _given(factory: Callable, kind: str) -> Callable:
    """The factory with those arguments of the problem that it takes by name."""
    given = {name: value for name, value in PROBLEMS[kind].given if takes(factory, name)}
    return partial(factory, **given) if given else factory


def _require(kind: str, sizes: Sequence[tuple[int, ...]]) -> None:
    """Raise CompileError for a size that no kernel of this problem can have."""
    problem = PROBLEMS[kind]
    for size in sizes if problem.require else ():
        try:
            assert problem.require
            problem.require(*size)
        except ValueError as error:
            raise CompileError("trace", f"{problem.function}{size}: {error}") from error


def _compiler(dsl: str) -> Any:
    """The module that compiles kernels of a DSL, ready to. Raises CompileError."""
    try:
        compiler = import_module(f"course_utils.compile.{dsl}")
        compiler.prepare()
    except ImportError as error:
        text = f"the package {error.name} is missing here; `make venv` installs what the course needs"
        raise CompileError("load", text) from error
    return compiler


def _for_chip(factory: Callable, chip: Chip) -> Callable:
    """The factory with the chip's number of SMs as its ``sm_count``, where it takes one by that name: its own
    default is that of the course's chip.
    """
    other = chip.sms != HOME.sms and takes_sm_count(factory)
    return partial(factory, sm_count=chip.sms) if other else factory


def takes_sm_count(factory: object) -> bool:
    """Does it take the number of SMs by that name, as a persistent kernel's factory does?"""
    return takes(factory, "sm_count")


def takes(factory: object, name: str) -> bool:
    """Does it take an argument of this name?"""
    try:
        return callable(factory) and name in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # of a builtin: calling it says what is wrong
        return False


def source_of(factory: object) -> str:
    """The factory's own Python, or "" where it is not to be had."""
    try:
        return textwrap.dedent(inspect.getsource(factory))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def open_places(factory: object) -> str:
    """What is still to be written in an exercise; "" where nothing is, or its source is not to be had."""
    if isinstance(factory, NotYet):
        return f"the cell that defines {factory.name} has not run yet. Run it, then this one."
    try:
        lines, first = inspect.getsourcelines(factory)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""
    places = [
        f"line {first + n}" + (f" ({task[0]})" if (task := re.search(r"TODO \d+", line)) else "")
        for n, line in enumerate(lines)
        if line.strip().startswith(OPEN)
    ]
    told = f"this exercise is still open. Write the code where it says `{OPEN}`: "
    return told + "; ".join(places) + "." if places else ""
