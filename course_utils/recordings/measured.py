"""Recorded measurements: JSON files in solutions/measured/, each with where its numbers come from."""

from __future__ import annotations

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "solutions" / "measured"
NEEDED = {
    "provenance": ("gpu", "driver", "torch", "date", "versions"),
    "entries": ("name", "step", "dsl", "checks", "timings"),
}


class MeasuredError(ValueError):
    """A results file that cannot be recorded. The text says what is wrong with it."""


def load(name: str = "ladder") -> dict:
    """A recorded file, or ``{"provenance": {}, "entries": []}`` where none was recorded yet. Raises
    MeasuredError.
    """
    path = FOLDER / f"{name}.json"
    return read(path) if path.exists() else {"provenance": {}, "entries": []}


def read(path: str | Path) -> dict:
    """Read and validate a results file of ``bundle.run``. Raises MeasuredError."""
    try:
        results = json.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MeasuredError(f"{path} is not a results file: {error}") from error
    if not isinstance(results, dict) or not isinstance(results.get("entries"), list):
        raise MeasuredError(
            f"{path} is not a results file: it needs an object with `provenance` and `entries`"
        )
    provenance = results.get("provenance")
    missing = [
        key for key in NEEDED["provenance"] if not isinstance(provenance, dict) or key not in provenance
    ]
    if missing:
        raise MeasuredError(f"{path} does not say where it comes from: provenance lacks {', '.join(missing)}")
    for index, entry in enumerate(results["entries"]):
        missing = [key for key in NEEDED["entries"] if not isinstance(entry, dict) or key not in entry]
        if missing:
            raise MeasuredError(f"{path}: entry {index} lacks {', '.join(missing)}")
    return results


def record(path: str | Path, name: str = "ladder") -> Path:
    """Copy a results file into solutions/measured/ as ``name``.

    Raises MeasuredError for a file that is not one.
    """
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        raise MeasuredError(f"{name!r} is no name for a recording: use small letters, digits, - and _")
    results = read(path)
    if not results["entries"]:
        raise MeasuredError(f"{path} holds no entries; nothing was recorded")
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{name}.json"
    target.write_text(json.dumps(results, indent=1) + "\n")
    return target
