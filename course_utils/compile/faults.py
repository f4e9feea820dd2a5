"""The one table of planted faults, ``solutions/wrong``: edits of solutions, and what becomes of each.

``solutions/wrong/DSL/STEP.toml`` has the faults of one solution, each a table under its name:

    what      a sentence that says it: a wrong kernel, which `what_if`, the symptom map and `course bundle
              --wrong` know by its name
    edits     [[text that is there once, text instead], ...], or the name of a fault in this file that has
    check     what is emulated, and what must come of it: the fields of ``Fault`` from ``size`` on
    drill     true: `find_the_bug` draws it
    spread    the same, of a statement that is missing and may stand in several places: texts of the first and
              the last line after which it may, "" for the line at fault itself
    put_back  true: TileLang puts back what the author left out
    variant   true: no fault, but a choice that benchmarks/variants.py times

``size``, ``sms`` and ``never`` above all of them are for those that have none of their own. Those of
the Blackwell steps stand apart, in ``solutions/wrong/blackwell/DSL/STEP.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course_utils.compile.errors import CompileError
from course_utils.compile.load import SOLUTIONS, edited, plant, solution_path

WRONG = SOLUTIONS / "wrong"


@dataclass(frozen=True)
class Fault:
    """Edits of the solution of ``step``. A card is held against it where ``fails`` is not None."""

    name: str
    step: str
    dsl: str
    edits: tuple[tuple[str, str], ...]
    what: str = ""
    drill: bool = False
    spread: tuple[str, str] | None = None  # the first and the last of the lines nearest to the fault
    put_back: bool = False
    variant: bool = False

    size: tuple[int, ...] = (256, 512, 320)  # several tiles, five K tiles; one that other tests compile too
    ctas: tuple[int, ...] | None = None  # those that are emulated, where not all
    sms: int = 0  # of the chip that it is compiled for, where not all
    fails: str | None = None  # the first part of the check that fails, "" where all pass
    says: tuple[str, ...] = ()  # words that the card has: text, place and line, in any case
    never: tuple[str, ...] = ()  # and those that it has not
    line: str = ""  # of the line that the card quotes
    outcome: str = ""  # what a GPU does: right, wrong, race, hang, fault or refused
    needs_gpu: bool = False  # only a run shows it, on a GPU or in the emulator; in a file, where results fail
    finds: tuple[str, ...] = ()  # kinds of findings: every schedule finds at least one
    right: bool | None = None  # whether the emulator's D is right, where that is certain
    lacks: tuple[str, ...] = ()  # the requirements that it does not meet, of ``judged_as``
    judged_as: str = ""  # a step, where it is not its own

    def __str__(self) -> str:
        return f"{self.step} {self.dsl} {self.name}"

    def source(self) -> str:
        """The kernel's file. Raises ValueError where a text is not there exactly once."""
        return edited(solution_path(self.step, self.dsl).read_text(), *self.edits, name=str(self))

    def factory(self, wanted: str = "gemm") -> Callable:
        """What the kernel's file defines under the name ``wanted``. Raises ValueError, CompileError."""
        return plant(self.step, self.dsl, *self.edits, wanted=wanted)


@cache
def table() -> tuple[Fault, ...]:
    """All planted faults. Raises CompileError where the checkout has none."""
    found = tuple(fault for path in sorted(WRONG.glob("*/*.toml")) for fault in read(path))
    if not found:
        raise CompileError("load", f"this checkout has no planted faults (looked in {WRONG})")
    return found


@cache
def blackwell() -> tuple[Fault, ...]:
    """The planted faults of the Blackwell steps."""
    return tuple(fault for path in sorted((WRONG / "blackwell").glob("*/*.toml")) for fault in read(path))


def read(path: Path) -> list[Fault]:
    """The faults of a file ``DSL/STEP.toml``.

    Raises ValueError where it is no TOML, KeyError where a fault has no edits or names those of none, and
    TypeError at a key that means nothing.
    """
    rows: dict[str, Any] = tomllib.loads(path.read_text())
    given = {key: rows.pop(key) for key in ("size", "sms", "never") if key in rows}
    found = []
    for name, row in rows.items():
        check = row.pop("check", {})
        fields = given | {"needs_gpu": check.get("fails") == "results"} | check | row
        while isinstance(fields["edits"], str):
            fields["edits"] = rows[fields["edits"]]["edits"]
        fields["edits"] = tuple(tuple(edit) for edit in fields["edits"])
        fields = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
        fields["drill"] = "drill" in row or "spread" in row
        found.append(Fault(name, path.stem, path.parent.name, **fields))
    return found


def kernels(dsl: str, of: str = "step") -> dict[str, Fault]:
    """The wrong kernels of the steps on Hopper, of others (``of`` begins their id: "task", "b"), or of all
    (``of=""``), in one language, by name.
    """
    faults = (*table(), *blackwell())
    found = {one.name: one for one in faults if one.what and one.dsl == dsl and one.step.startswith(of)}
    return dict(sorted(found.items()))
