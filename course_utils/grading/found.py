"""What a check finds, as data: a cause, and the author's line that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_utils.artifact import Place
from course_utils.cause import Cause, data


@dataclass(frozen=True)
class Found:
    """``place`` is the author's line, None where none is known. ``more`` are texts that fold below it."""

    cause: Cause
    place: Place | None = None
    more: tuple[str, ...] = field(default=(), compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the cause's kind, case and values, and the place with its file, line and code."""
        return {**data(self.cause), "place": data(self.place)}


def found(kind: str, case: str, place: Place | None = None, /, **values: Any) -> Found:
    """``Found`` of a cause with these values."""
    return Found(Cause(kind, case, values), place)


def of_finding(finding: Mapping[str, Any]) -> Found:
    """A finding of the emulator, as its worker sends it."""
    case, values = finding.get("case"), finding.get("values")
    return Found(Cause(finding["kind"], case or finding["kind"], values or {}), place_of(finding))


def place_of(finding: Mapping[str, Any]) -> Place | None:
    """The author's line of a finding of the emulator."""
    if not finding["file"]:
        return None
    return Place(finding["file"], finding["line"], finding["code"], finding["added"])


# What grading asks of a finding's case: read from its text, until a finding has its values.


def within_a_cluster(finding: Mapping[str, Any]) -> bool:
    """Do two CTAs of one cluster store one place?"""
    return "they are one cluster" in finding["text"]


def names_the_grid(finding: Mapping[str, Any]) -> bool:
    """Do two CTAs store one place where the grid, or their cluster, has to tell them apart?"""
    return "one cluster" in finding["text"] or "the grid has" in finding["text"]


def waits_too_late(finding: Mapping[str, Any]) -> bool:
    """Does a wait leave the store in flight that reads what is overwritten?"""
    return "its wait leaves" in finding["text"]


def same_part(finding: Mapping[str, Any]) -> tuple[int, int] | None:
    """The first of the consumer warps that write one part of a tile, of which nothing writes the rest; None
    for another finding.
    """
    said = r"nothing has written, and consumer warps (\d+), (\d+) write to the same place"
    warps = re.search(said, finding["text"])
    return (int(warps[1]), int(warps[2])) if warps else None
