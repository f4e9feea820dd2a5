"""The one exception that compiling raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from course_utils.artifact import Place


class CompileError(Exception):
    """A factory could not be turned into an Artifact.

    ``stage`` is ``"load"`` (the file), ``"trace"`` (the factory's own Python), ``"signature"`` (what it
    returned), ``"lower"`` (the DSL's compiler), ``"assemble"`` (NVRTC or ptxas) or ``"limit"`` (a Hopper SM
    cannot hold it). ``text`` is for a learner: what happened, and what to try. ``place`` is the line of their
    code, and ``under`` what is said after it, as a compiler's own words. ``printed`` is what the factory
    printed until then, ``line`` the line of generated CUDA that the assembler refused, 0 where it does not
    say.
    """

    def __init__(
        self,
        stage: str,
        text: str,
        printed: str = "",
        line: int = 0,
        place: Place | None = None,
        under: str = "",
    ):
        super().__init__(text)
        self.stage, self.text, self.printed, self.line = stage, text, printed, line
        self.place, self.under = place, under

    def __str__(self) -> str:
        at = f"\n  at {self.place}" if self.place else ""
        return self.text + at + (f"\n{self.under}" if self.under else "")

    def data(self) -> dict[str, Any]:
        """The error as JSON has it, for another process."""
        place = asdict(self.place) if self.place else None
        named = {name: getattr(self, name) for name in ("stage", "text", "printed", "under")}
        return named | {"place": place}

    @classmethod
    def from_data(cls, fields: Mapping[str, Any]) -> CompileError:
        """The inverse of ``data``."""
        place = fields["place"] and Place(**fields["place"])
        return cls(fields["stage"], fields["text"], fields["printed"], 0, place, fields["under"])
