"""The notebooks' files, as commands read and write them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from course_utils.cli.lab import ROOT
from course_utils.recordings.tracks import sections


def read() -> list[tuple[Path, dict]]:
    """Every notebook, with where it lies. Raises ValueError where one cannot be read, and OSError."""
    found = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        try:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            sections(notebook["cells"]), ["".join(cell["source"]) for cell in notebook["cells"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path.name} is not a notebook: {error}") from error
        found.append((path, notebook))
    return found


def write(path: Path, notebook: dict) -> None:
    """Write a notebook over what lies there; its file is whole at any time."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(fresh, path)
