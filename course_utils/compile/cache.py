"""One folder of the user's for what is costly to make: compiled kernels and NVRTC's precompiled header.

    $XDG_CACHE_HOME/hopper-gemm-course/     ~/.cache where the variable is not set
        kernels/KEY                         what a compiler made, behind its checksum
        headers/KEY-BYTES                   see ``compile.header``
        work/NAME/                          what a process has under its hands; locked for as long as it lives

Nothing here raises where the folder cannot be used: then nothing is kept, and kernels are compiled anew. A
file is complete or not there: it is written under ``work`` and renamed. A process that is killed leaves its
folder under ``work`` without a lock, and the next one removes it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "hopper-gemm-course"
FORMAT = 2  # of what is kept: another number, and nothing that an older release kept is found
LIMIT = 1 << 30  # bytes in all; what was used longest ago goes first
NOWHERE = "/dev/null"  # the folder of a user who has no home: nothing can be made in it
KERNELS, HEADERS, WORK = "kernels", "headers", "work"
DIGEST = hashlib.sha256().digest_size
LOCK_TRIES, LOCK_PAUSE = 50, 0.02  # seconds between two tries; the lock is held for milliseconds

_guard = threading.Lock()
# a child that is forked while another thread has it would never get it
os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release)
_mine: dict[tuple[int, Path], tuple[Path, int]] = {}  # by process and ``work``: our folder and its lock


@dataclass(frozen=True)
class Contents:
    """What the cache holds, in files and bytes; ``problem`` says why nothing can be kept, or is ""."""

    path: Path
    kernels: int
    kernel_bytes: int
    headers: int
    header_bytes: int
    problem: str

    @property
    def size(self) -> int:
        return self.kernel_bytes + self.header_bytes


def folder() -> Path:
    """Where the cache is, or would be. A relative ``XDG_CACHE_HOME`` does not count (XDG Base Directory)."""
    places = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"), NOWHERE
    return Path(next(place for place in places if os.path.isabs(place))) / NAME


def key_of(*parts: str) -> str:
    """The name of what these make together; no two lists of parts share one."""
    found = hashlib.sha256(str(FORMAT).encode())
    for part in parts:
        data = part.encode()
        found.update(f":{len(data)}:".encode() + data)
    return found.hexdigest()


def read(key: str) -> bytes | None:
    """What was kept under ``key``; None where it is not there, or is not whole."""
    path = folder() / KERNELS / key
    try:
        data = path.read_bytes()
        if data[:DIGEST] != _digest(key, data[DIGEST:]):
            return None
        touch(path)
    except OSError:
        return None
    return data[DIGEST:]


def write(key: str, data: bytes) -> None:
    """Keep ``data`` under ``key``, if it can be kept."""
    with contextlib.suppress(OSError):
        descriptor, made = tempfile.mkstemp(dir=work_folder())
        try:
            with open(descriptor, "wb") as file:
                file.write(_digest(key, data) + data)
            keep(Path(made), folder() / KERNELS / key)
        except OSError:
            os.unlink(made)
            raise


def load(key: str, kind: Any) -> Any:
    """What ``store`` kept under ``key``, which is of this type; None where it is not there."""
    import msgspec  # which a machine need not have that runs a bundle, and compiles nothing

    data = read(key)
    return None if data is None else msgspec.msgpack.decode(zlib.decompress(data), type=kind)


def store(key: str, made: object) -> None:
    """Keep what is made of numbers, text, bytes, lists and the like."""
    import msgspec

    write(key, zlib.compress(msgspec.msgpack.encode(made), 1))


def keep(made: Path, path: Path) -> None:
    """Move a file from our work folder to its place, and make room for it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(made, path)
    _trim()


def touch(path: Path) -> None:
    """Say that this file was used now."""
    with contextlib.suppress(OSError):
        os.utime(path)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder for the block: in the cache, where nothing outlives a killed process, or where that
    cannot be used in the one for temporary files.
    """
    try:
        parent: Path | None = work_folder()
    except OSError:
        parent = None
    with tempfile.TemporaryDirectory(prefix="hopper-course-", dir=parent, ignore_cleanup_errors=True) as name:
        yield Path(name)


def work_folder() -> Path:
    """This process's own folder under ``work``; it goes when the process ends. Raises OSError."""
    work = folder() / WORK
    with _guard:
        path, _ = _mine.get((os.getpid(), work), (None, -1))
        if path is not None and path.is_dir():
            return path
        work.mkdir(parents=True, exist_ok=True)
        with locked(work / "lock", LOCK_TRIES):
            _sweep(work)
            path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=work))
            _mine[os.getpid(), work] = path, _lock(path / "lock")
        atexit.register(_end, os.getpid(), path)
        return path


def adopt(path: Path) -> None:
    """In a forked child: this folder of the parent's is the child's own under ``work``. The parent removes
    it, however the child ends.
    """
    _mine[os.getpid(), folder() / WORK] = path, -1


def _end(process: int, path: Path) -> None:
    if process == os.getpid():  # a forked child runs its parent's exit functions too
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, tries: int = 1) -> Iterator[None]:
    """Hold this file's lock in the block. Raises OSError; BlockingIOError where another holds it."""
    while True:
        try:
            descriptor = _lock(path)
            break
        except BlockingIOError:
            tries -= 1
            if not tries:
                raise
            time.sleep(LOCK_PAUSE)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    """A descriptor that holds the file's lock until it is closed, or its process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # NFS locks no file that is open to be read
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(work: Path) -> int:
    """Remove the folders of processes that are no more. Returns the bytes freed."""
    freed = 0
    for path in work.iterdir():
        with contextlib.suppress(OSError), locked(path / "lock"):  # held by a process that lives
            freed += sum(size for _, size, _ in _files(path))
            shutil.rmtree(path, ignore_errors=True)
    return freed


def _trim() -> None:
    files = sorted(file for kind in (KERNELS, HEADERS) for file in _files(folder() / kind))
    over = sum(size for _, size, _ in files) - LIMIT
    for _, size, path in files:
        if over <= 0:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            over -= size


def _files(path: Path) -> list[tuple[float, int, Path]]:
    """When each file was used last, how many bytes it has, and where it is."""
    found = []
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may remove it meanwhile
                if entry.is_dir(follow_symlinks=False):
                    found += _files(Path(entry.path))
                else:
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, Path(entry.path)))
    return found


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + data).digest()


def contents() -> Contents:
    """What the cache holds now. Raises nothing."""
    kernels, headers = (_files(folder() / kind) for kind in (KERNELS, HEADERS))
    try:
        work_folder()
        problem = ""
    except OSError as error:
        problem = f"{error.strerror or error}: {error.filename or folder()}"
    if folder().is_relative_to(NOWHERE):
        problem = "this user has no home folder; set XDG_CACHE_HOME to a folder"
    return Contents(
        folder(),
        len(kernels),
        sum(size for _, size, _ in kernels),
        len(headers),
        sum(size for _, size, _ in headers),
        problem,
    )


def clean() -> int:
    """Empty the cache, but for what living processes have under their hands. Returns the bytes freed.

    Raises OSError where something cannot be removed.
    """
    freed = 0
    for path in (folder() / KERNELS, folder() / HEADERS):
        size = sum(size for _, size, _ in _files(path))
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
        freed += size
    work = folder() / WORK
    with contextlib.suppress(FileNotFoundError), locked(work / "lock", LOCK_TRIES):
        freed += _sweep(work)
    return freed
