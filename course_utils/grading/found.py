"""What a check finds, as data: a cause, and the author's line that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course_utils.artifact import Place
from course_utils.cause import Cause, data
from course_utils.compile.errors import CompileError


@dataclass(frozen=True)
class Found:
    """``place`` is the author's line, None where none is known."""

    cause: Cause
    place: Place | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the cause's kind, case and values, and the place with its file, line and code."""
        return {**data(self.cause), "place": data(self.place)}


def found(kind: str, case: str, place: Place | None = None, /, **values: Any) -> Found:
    """``Found`` of a cause with these values."""
    return Found(Cause(kind, case, values), place)


def of_text(text: str, place: Place | None = None, under: str = "") -> Found:
    """Words of another's, as a compiler's message, and those that come ``under`` its place."""
    if under and not place:
        text, under = f"{text}\n{under}", ""
    return found("text", "text", place, text=text, **({"under": under.split("\n")} if under else {}))


def of_error(error: CompileError) -> Found:
    """Why a kernel does not compile."""
    return of_text(error.text, error.place, error.under)


def of_finding(finding: Mapping[str, Any]) -> Found:
    """A finding of the emulator, as its worker sends it."""
    cause = Cause(finding["kind"], finding.get("case", ""), finding.get("values", {}))
    return Found(cause, place_of(finding))


def place_of(finding: Mapping[str, Any]) -> Place | None:
    """The author's line of a finding of the emulator."""
    if not finding["file"]:
        return None
    return Place(finding["file"], finding["line"], finding["code"], finding["added"])


def within_a_cluster(finding: Mapping[str, Any]) -> bool:
    """Do two CTAs of one cluster store one place?"""
    return finding.get("case") == "stored twice in a cluster"


def waits_too_late(finding: Mapping[str, Any]) -> bool:
    """Does a wait leave the store in flight that reads what is overwritten?"""
    return (finding.get("why") or {}).get("case") == "its wait leaves stores"


def same_part(finding: Mapping[str, Any]) -> tuple[int, int] | None:
    """The first two of the consumer warps that write one part of a tile; None for another finding."""
    values = finding.get("values", {})
    if finding.get("case") == "reads nothing, writers clash":
        groups = values["writers"]["groups"]
    elif finding.get("case") == "two warps write":
        groups = [*values["who"]["groups"], *values["writer"]["groups"]]
    else:
        return None
    first, second, *_ = (number for group in groups for number in group["numbers"])
    return (first, second) if {group["role"] for group in groups} == {"consumer"} else None
