"""NVRTC's precompiled header: one file in the cache for all processes.

TileLang's CUDA headers take NVRTC 0.7 s of the 1.0 that a kernel takes. A precompiled header is a dump of
the memory in which NVRTC parsed them, and is good only where that memory lies at the same address again
(NVRTC's documentation, Precompiled Headers). Linux puts it at another one in each process. So the memory is
made to land at ADDRESS: while NVRTC asks for it, every gap above that is large enough is taken. NVRTC itself
checks the address, the options and the headers' dates, and compiles without where one differs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache as once
from pathlib import Path

from course_utils.compile import cache

ADDRESS = 0x6F0000000000  # below all that Linux maps by itself, above a program and its heap
HEAP = 256 << 20  # bytes; NVRTC's own choice (nvrtcGetPCHHeapSize)
FREE = 4 * HEAP  # bytes that the disk must have left before a header is made
BY_THE_KERNEL = ("[stack", "[v")  # [vdso], [vvar], [vsyscall]
MAPS = Path("/proc/self/maps")
# mmap(2): no access, private, anonymous, no swap kept for it, and only where nothing is yet
PROT_NONE, FLAGS = 0, 0x02 | 0x20 | 0x4000 | 0x100000


def path_of(key: str) -> Path | None:
    """The whole header of this key, or None."""
    for path in (cache.folder() / cache.HEADERS).glob(f"{key}-*"):
        with contextlib.suppress(OSError):
            # NVRTC maps the file: a page that is missing would end the process
            if path.stat().st_size == int(path.name.rpartition("-")[2]):
                cache.touch(path)
                return path
            path.unlink()
    return None


def make(key: str, create: Callable[[Path], bool]) -> Path | None:
    """Make the header of this key: ``create`` writes it to the path it is given, and says whether it did.

    Returns None where it cannot be made, or where another process is making one.
    """
    with contextlib.suppress(OSError, ValueError):
        folder = cache.folder() / cache.HEADERS
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < FREE:
            return None
        work = cache.work_folder()
        with cache.locked(cache.folder() / cache.WORK / "header.lock"):
            if found := path_of(key):
                return found
            made = work / "header"
            try:
                if not create(made):
                    return None
                with made.open("rb") as file:
                    os.fsync(file.fileno())  # else a power cut leaves a file of the right size, and of zeros
                path = folder / f"{key}-{made.stat().st_size}"
                cache.keep(made, path)
                return path
            finally:
                made.unlink(missing_ok=True)
    return None


@once
def heap(ask: Callable[[], object]) -> str:
    """Where this process's NVRTC has its memory for precompiled headers, as text; empty where that cannot be
    chosen. ``ask`` makes NVRTC take the memory.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        with _gaps_taken():
            ask()
        for start, end, _ in _mappings():
            if start <= ADDRESS < end and end - start >= HEAP:
                return f"{start:x}"
    return ""


def _mappings() -> list[tuple[int, int, str]]:
    lines = (line.split() for line in MAPS.read_text().splitlines())
    return [(*(int(edge, 16) for edge in line[0].split("-")), line[-1]) for line in lines]  # type: ignore[misc]


@contextlib.contextmanager
def _gaps_taken() -> Iterator[None]:
    """Take every gap from above ADDRESS that could hold the heap; not the one that the stack grows into."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    taken, last = [], ADDRESS + HEAP
    try:
        for start, end, name in _mappings():
            if start - last >= HEAP and not name.startswith(BY_THE_KERNEL):
                if libc.mmap(last, start - last, PROT_NONE, FLAGS, -1, 0) != last:
                    raise OSError(ctypes.get_errno(), "mmap")
                taken.append((last, start - last))
            last = max(last, end)
        yield
    finally:
        for start, size in taken:
            libc.munmap(start, size)
