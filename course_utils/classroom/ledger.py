"""What was judged: one signed file for each source, exercise, seed, checker and backend.

A file is complete or not there, since it is written beside its place and renamed; so a run that was killed
goes on where it was, and many machines can share one ledger on one file system. What has no right signature
is as if it were not there. A fault of a machine is no judgement: it is kept apart, and tried again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache as once
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from course_utils.recordings import signing

PACKAGE = Path(__file__).parents[1]
# what a grade depends on
JUDGES = ("artifact.py", "cause.py", "chips.py", "ptx", "tma", "compile", "run", "grading", "classroom")
COMPILERS = ("tilelang", "nvidia-cutlass-dsl", "nvidia-cuda-nvrtc", "nvidia-cuda-nvcc")
RECORD_LIMIT = 4 << 20  # bytes


@dataclass(frozen=True)
class Entry:
    """What is judged. ``source`` is the SHA-256 of the text, ``exercise`` as "step05-cute", ``seed`` the
    grading's, ``backend`` "emulator" or "gpu", ``sandbox`` the form that it ran in. ``level`` is the one that
    the class was given, "" where each source names its own.
    """

    source: str
    exercise: str
    seed: str
    backend: str
    sandbox: str
    checker: str
    level: str = ""

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


class Ledger:
    """The records below one folder, signed with the key in a file that only its owner may read."""

    def __init__(self, folder: Path, key: Path | None = None) -> None:
        """Make the folder and the key where there is none yet. Raises KeyFileError, OSError."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = signing.key(key or folder / "key")

    def draws_from(self, seed: str) -> str:
        """What sizes, inputs and schedules are drawn from. A submission sees the sizes, and could try seeds
        until one gives them. Without the key it can try none.
        """
        return signing.derived(self._key, f"seed {seed}").decode()

    def read(self, entry: Entry) -> dict | None:
        """The record of this entry; None where there is none, or none that this key signed."""
        try:
            with open(self._place(entry), "rb") as file:
                record = json.loads(file.read(RECORD_LIMIT))
            signature = record.pop("signature")
            right = signing.right(self._key, record, signature)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return record if right and record.get("entry") == asdict(entry) else None

    def write(
        self, entry: Entry, verdict: dict, page: str, seconds: float, sandbox: dict, marks: dict | None = None
    ) -> dict:
        """Record a verdict's JSON fields and its HTML, with the machine, the day, ``seconds`` in all, what
        the sandbox took, and the ``marks`` by which a source is compared. Raises OSError.
        """
        record = {
            "entry": asdict(entry),
            "verdict": verdict,
            "page": page,
            "seconds": round(seconds, 3),
            "sandbox": sandbox,
            "marks": marks,
            "machine": socket.gethostname(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        record = json.loads(json.dumps(record))  # as it will be read
        _replace(self._place(entry), record | {"signature": signing.sign(self._key, record)})
        return record

    def fault(self, entry: Entry, text: str) -> None:
        """Note a fault of this machine. Raises OSError."""
        place = self.folder / "faults" / f"{entry.name}-{time.time_ns()}.json"
        _replace(place, {"entry": asdict(entry), "fault": text, "machine": socket.gethostname()})

    def faults(self) -> list[dict]:
        """The faults that were noted, the oldest first."""
        found = []
        noted = (self.folder / "faults").glob("*.json")
        for path in sorted(noted, key=lambda path: path.stem.rpartition("-")[2]):
            with contextlib.suppress(OSError, ValueError):
                found.append(json.loads(path.read_text()))
        return found

    def _place(self, entry: Entry) -> Path:
        return self.folder / entry.name[:2] / f"{entry.name}.json"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[Path]:
    """The path of a file that this block writes. An OSError in it names that file, where the system named
    none, as of a full disk.
    """
    try:
        yield path
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)
        raise


def _replace(path: Path, record: dict) -> None:
    with naming(path):
        _write(path, record)


def _write(path: Path, record: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with open(descriptor, "w") as file:
            json.dump(record, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise


def digest(source: str) -> str:
    """The SHA-256 of a source."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


@once
def checker() -> str:
    """What judges here: a sum over the course's own sources and the compilers' versions."""
    found = hashlib.sha256()
    for name in JUDGES:
        place = PACKAGE / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found.update(f"{path.relative_to(PACKAGE).as_posix()}\n".encode() + path.read_bytes())
    for package in COMPILERS:
        with contextlib.suppress(PackageNotFoundError):
            found.update(f"{package} {version(package)}\n".encode())
    return found.hexdigest()[:16]
