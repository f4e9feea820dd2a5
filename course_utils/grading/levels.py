"""At which level an exercise was done, and what a verdict is worth there.

The given text of levels "order" and "blank" has a line ``# level: NAME``. That line is a learner's to delete:
a teacher fixes the level of a class with ``course grade --level``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from course_utils.compile.load import file_source
from course_utils.grading import gemm, steps
from course_utils.grading.check_progress import OnProgress, ignored
from course_utils.grading.verdict import Verdict
from course_utils.run.backends import TIME_LIMIT, Backend

_LINE = re.compile(r"^[ \t]*#[ \t]*level:[ \t]*(\w+)[ \t]*$", re.M)


def of_source(source: str) -> str:
    """The level that a source names, the lowest where it names several; "write" where it names none."""
    named = _LINE.findall(source)
    return next((level for level in steps.LEVELS if level in named), "write")


def of_factory(factory: object) -> str:
    """The level that the cell or the file of a factory names; "write" where its source is not to be had."""
    try:
        return of_source(file_source(factory))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return "write"


def at(verdict: Verdict, level: str) -> Verdict:
    """The verdict at a level, with the share of its points that the level is worth."""
    share = steps.LEVELS[level]
    parts = (
        replace(part, points=round(part.points * share, 6), max_points=round(part.max_points * share, 6))
        for part in verdict.checks
    )
    return replace(verdict, checks=tuple(parts), level=level)


def check_gemm(
    step: str,
    factory: object,
    dsl: str = "tilelang",
    backend: str | Backend = "auto",
    time_limit: float = TIME_LIMIT,
    on_progress: OnProgress = ignored,
) -> Verdict:
    """``gemm.check_gemm`` at the level that the factory's cell or file names. Raises nothing."""
    level = of_factory(factory)
    verdict = gemm.check_gemm(
        step, factory, dsl, backend, time_limit, on_progress=lambda so_far: on_progress(at(so_far, level))
    )
    return at(verdict, level)


def from_blank(kept: Mapping[str, Any]) -> bool:
    """Whether the JSON form of a verdict is one on a kernel from a blank page in which nothing failed."""
    passed = [part["passed"] for part in kept.get("checks", ())]
    return kept.get("level") == "blank" and True in passed and False not in passed
