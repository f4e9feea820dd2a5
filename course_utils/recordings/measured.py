"""Recorded measurements: results files in solutions/measured/, each with where its numbers come from."""

from __future__ import annotations

import re
from pathlib import Path

from course_utils.recordings import signing
from course_utils.recordings.model import MeasuredError, read, write

COUNTERS = "counters"  # the one recording of another form
FOLDER = Path(__file__).parents[2] / "solutions" / "measured"


def load(name: str = "ladder") -> dict:
    """A recorded file, or ``{"provenance": {}, "entries": []}`` where none was recorded yet. Raises
    MeasuredError.
    """
    path = FOLDER / f"{name}.json"
    return read(path, counters=name == COUNTERS) if path.exists() else {"provenance": {}, "entries": []}


def record(
    path: str | Path, name: str = "ladder", own_key: Path | None = None, unsigned: bool = False
) -> Path:
    """Copy a results file into solutions/measured/ as ``name``.

    Its signature must be that of a bundle which was made with the key in ``own_key``; with ``unsigned``
    nobody asks. It shows that these are results of that bundle's kernels as its run wrote them, and not who
    ran it: who has the archive has what signs. Raises MeasuredError for a file that is not one.
    """
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        raise MeasuredError(f"{name!r} is no name for a recording: use small letters, digits, - and _")
    results = read(path, counters=name == COUNTERS)
    if not results["entries"]:
        raise MeasuredError(f"{path} holds no entries; nothing was recorded")
    signature = results.pop("signature", None)
    if not unsigned and (problem := _not_signed(results, signature, own_key)):
        raise MeasuredError(f"{path} {problem}. `course import --unsigned` records it all the same")
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{name}.json"
    write(target, results)
    return target


def _not_signed(results: dict, signature: object, own_key: Path | None) -> str:
    """Why this signature is not that of a bundle of ours, in words; empty where it is."""
    bundle = results["provenance"].get("bundle")
    if signature is None or not isinstance(bundle, str):
        return "is not signed: no bundle wrote it, or one without a key"
    try:
        own = signing.key(own_key, make=False) if own_key else b""
    except (OSError, signing.KeyFileError) as error:
        return f"is signed, and the key that `course bundle` used cannot be read here ({error})"
    if not signing.right(signing.derived(own, bundle), results, signature):
        return f"has a signature that is not right: it was changed, or {own_key} did not make its bundle"
    return ""
