"""The files of a class, by learner: from folders, files and archives, as learning platforms export them.

None of it is trusted: no link is followed, and the files and bytes of one learner are counted over all of
their archives. One learner's files are read at a time, each when it is asked for.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from course_utils.classroom import platforms
from course_utils.classroom.platforms import GRADESCOPE, METADATA, MOODLE, Owner

FILE_LIMIT = 32 << 20  # bytes of one notebook or Python file; figures in a worked notebook take a few MB
LEARNER_LIMIT = 256 << 20  # bytes of all files of one learner, unpacked
FILES = 400  # notebooks and Python files of one learner
NAMED = 40  # files of one learner that are left out and named
DEEP = 2  # archives in one another
LIST_LIMIT = 4 << 20  # bytes of the list at the end of a learner's archive; some 50,000 files

# step05, step5, "Step 05", task_05a, t3a, plan11, b05_, a2b_overlap, and case13a, as t3a was called; a letter
# that begins a word belongs to the word, "T1" alone is a team's, and "A1" an assignment's
EXERCISE = re.compile(
    r"(step|case|task|plan(?=[ _-]?11)|(?<![a-z0-9])t(?=[1-6]\D)|(?<![a-z0-9])b(?=(?:0[1-9]|10)[_.-])"
    r"|(?<![a-z0-9])a(?=[12][bc]?[ _-](?:attention|ring|ping|overlap|persistent|tilelang|cute)))"
    r"[ _-]?(\d\d?)(?![0-9])([a-f](?![a-z0-9]))?",
    re.I,
)
LANGUAGE = re.compile(r"(?<![a-z])(cute|tilelang)(?:dsl)?(?![a-z])", re.I)
# what programs keep beside their files; whoever keeps work in a folder of such a name is not told
_PROGRAMS = re.compile(r"__MACOSX|__pycache__|\.ipynb_checkpoints|\.git|\._.*")
DOTTED = "left out, as its name begins with a dot: rename it, and hand it in again"
_INSTALLED = ("site-packages", "dist-packages", "node_modules")  # folders of installed packages
_KIND = re.compile(r"\.(py|ipynb|zip)(?:\.txt|\.json)?$", re.I)  # a browser adds the second
_NOBODYS = re.compile(r"(readme|license)|.*\.(csv|ya?ml|json|md|xlsx?|log|db|ini)$", re.I)  # beside learners
# how the course calls what lies in it, and learners the folders of their work
_OURS = re.compile(
    r"\d\d[a-z]?_|[at]\d_|b\d\d_|(notebooks?|solutions?|src|kernels?|notes?|code|work|mine|tests?|docs?|scripts|images|figures|"
    r"ladder|exercises?|(week|lab|hw|part|day|task|exercise|assignment|homework)[ _-]?\d+)$",
    re.I,
)


@dataclass(frozen=True)
class Handed:
    """A file that was handed in: its name below its learner's folder, and what is in it, None for one that
    is not read, of which ``why`` tells.
    """

    name: str
    data: bytes | None
    why: str = ""

    @property
    def kind(self) -> str:
        """ "py", "ipynb", "zip", or "" for anything else."""
        found = _KIND.search(self.name)
        return found[1].lower() if found else ""


@dataclass(frozen=True)
class _Place:
    """A file that is not read yet, or ``why`` it is not to be."""

    name: str
    open: Callable[[], IO[bytes]]
    why: str = ""


@dataclass
class _Room:
    """What is left of a learner's limits."""

    bytes: int
    files: int = FILES
    named: int = NAMED
    unnamed: int = 0  # files that were left out beyond those


@dataclass
class _Owners:
    """Of what is being read: by learner, the names under which their work came; and Gradescope's metadata."""

    tops: dict[str, dict[str, None]] = field(default_factory=dict)
    metadata: bytes = b""

    def note(self, learner: str, top: str) -> None:
        self.tops.setdefault(learner, {})[top] = None

    def of(self) -> dict[str, list[Owner]]:
        """By learner, whose the submission is: one person's, or several for Gradescope's groups. Raises
        ValueError where the metadata cannot be read.
        """
        people = platforms.submitters(self.metadata) if self.metadata else {}
        made: dict[str, list[Owner]] = {}
        used: set[str] = set()
        for learner, tops in self.tops.items():
            handed_in = tuple(tops)
            named = [one for top in tops for one in (platforms.moodle(top), platforms.canvas(top))]
            ids = [number for name, number in named if name == learner]
            known = [(f"{name}_{number}".rstrip("_"), number) for name, number in people.get(learner, ())]
            for name, number in known or [(learner, ids[0] if ids else "")]:
                name = f"{name}_{learner}" if name in used else name  # one person, two submissions
                used.add(name)
                made.setdefault(learner, []).append(Owner(name, number, handed_in))
        return made


class _Full(Exception):
    """A learner's limit was reached."""


def by_learner(folder: Path) -> Iterator[tuple[list[Owner], Iterator[Handed]]]:
    """Each submission of a class: whose it is, and its files. ``folder`` holds a folder or a file a learner,
    or is the zip archive of a learning platform, or holds such an archive alone.

    The files of one learner are to be taken before the next is asked for. Raises ValueError where there is
    nothing to read.
    """
    owners = _Owners()
    if not folder.exists():
        raise ValueError(f"there is no folder or archive {folder}")
    with ExitStack() as opened:
        if folder.is_dir():
            found = _class_folder(_unwrapped(folder), opened, owners)
        elif folder.suffix.lower() in (".py", ".ipynb"):  # one learner's
            learner = _learner((folder.name,), False, folder.absolute().parent.name)
            found = {learner: [[_place(folder, folder.name)]]}
            owners.note(learner, folder.name)
        else:
            found = _class_archive(folder, opened, owners)
        if not found:
            text = f"{folder} holds no submission: a folder, a notebook, a Python file or a zip a learner"
            raise ValueError(text)
        owner_of = owners.of()
        for learner in sorted(found):
            handed = _handed(place for places in found[learner] for place in places)
            yield owner_of.get(learner) or [Owner(learner)], handed


def one(path: Path) -> Handed:
    """A file of a folder, read."""
    return next(_handed([_place(path, path.name)]))


# -- whose a file is


def _class_folder(folder: Path, opened: ExitStack, owners: _Owners) -> dict[str, list[Iterable[_Place]]]:
    if (metadata := folder / METADATA).exists() and _regular(metadata):
        with metadata.open("rb") as file:
            owners.metadata = file.read(FILE_LIMIT)
    listed = sorted(folder.iterdir())
    found: dict[str, list[Iterable[_Place]]] = {
        path.name: [[_dotted(path.name)]] for path in listed if _hidden((path.name,)) and _holds_work(path)
    }
    entries = [
        path
        for path in listed
        if not path.name.startswith(".") and (path.is_symlink() or path.is_dir() or not _nobodys(path.name))
    ]
    for path in entries:
        archive = path.name.lower().endswith(".zip") and _regular(path)
        if archive and len(entries) == 1:  # else it is one learner's, whatever names stand in it
            return _class_archive(path, opened, owners)
        is_folder = path.is_dir() and not path.is_symlink()
        learner = _learner((path.name,), is_folder, _stem(path.name)) or path.name
        owners.note(learner, path.name)
        found.setdefault(learner, []).append(_folder(path) if is_folder else [_place(path, path.name)])
    return found


def _unwrapped(folder: Path) -> Path:
    """The folder of the learners, where a platform's export or nbgrader has it in another one alone."""
    entries = [path for path in folder.iterdir() if not path.name.startswith(".") and not _nobodys(path.name)]
    if len(entries) != 1 or entries[0].is_symlink() or not entries[0].is_dir():
        return folder
    inner = [path.name for path in entries[0].iterdir()]
    platform = any(GRADESCOPE.fullmatch(name) or MOODLE.match(name) for name in inner)
    return entries[0] if platform or entries[0].name == "submitted" else folder


def _class_archive(path: Path, opened: ExitStack, owners: _Owners) -> dict[str, list[Iterable[_Place]]]:
    try:
        archive = opened.enter_context(zipfile.ZipFile(path))
        members = [(_parts(entry), entry) for entry in archive.infolist()]
    except Exception as error:  # whatever zipfile makes of it
        why = f"is no archive that can be read: {error}"
        owners.note(path.stem, path.name)
        return {path.stem: [[_Place(path.name, lambda: path.open("rb"), why)]]}
    members = [(parts, entry) for parts, entry in members if parts]
    shown = [parts for parts, _ in members if not _hidden(parts)]
    if shown and _wrapped(shown):
        top = shown[0][0]
        members = [(parts[parts[0] == top :], entry) for parts, entry in members if parts != (top,)]
    found: dict[str, list[Iterable[_Place]]] = {}
    tops = {parts[0]: len(parts) > 1 or entry.is_dir() for parts, entry in members if not _hidden(parts)}
    if _is_one_learners(tops):
        whole = [_member(archive, one, "/".join(parts)) for parts, one in members if not one.is_dir()]
        owners.note(path.stem, path.name)
        return {path.stem: [whole]}
    for parts, entry in sorted(members, key=lambda member: member[0]):
        if parts == (METADATA,) and entry.file_size <= FILE_LIMIT:
            owners.metadata = archive.read(entry)
        if hidden := _hidden(parts[:1]):
            if _is_work(parts):
                found.setdefault(hidden, [[_dotted(hidden)]])
            continue
        learner = _learner(parts, entry.is_dir(), path.stem)
        if learner:
            owners.note(learner, parts[0])
            places = found.setdefault(learner, [])
            if not entry.is_dir():
                places.append([_member(archive, entry, "/".join(parts[1:]) or parts[0])])
    return found


def _parts(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    return PurePosixPath(entry.filename.replace("\\", "/")).parts


def _wrapped(members: list[tuple[str, ...]]) -> bool:
    """Whether an archive holds one folder, and that one the learners."""
    if len({parts[0] for parts in members}) != 1 or MOODLE.match(members[0][0]):
        return False
    inner = {parts[1] for parts in members if len(parts) > 1 and not _nobodys(parts[1])}
    if any(GRADESCOPE.fullmatch(name) for name in inner):
        return True
    return len(inner) > 1 and ".." not in inner and sum(map(_courses, inner)) <= len(inner) / 2


def _is_one_learners(tops: dict[str, bool]) -> bool:
    """Whether an archive is one learner's, by what lies at its top, and whether that is a folder: a file that
    is named for an exercise, or folders that are mostly named for work.
    """
    if any(not is_folder and EXERCISE.match(name) for name, is_folder in tops.items()):
        return True
    folders = [name for name, is_folder in tops.items() if is_folder]
    return len(folders) > 1 and sum(map(_courses, folders)) > len(folders) / 2


def _nobodys(name: str) -> bool:
    """Whether a file that lies beside the learners' is no submission, as README.txt and grades.csv."""
    return not _KIND.search(name) and _NOBODYS.match(name) is not None


def _courses(name: str) -> bool:
    """Whether a folder or a file has a name of the course's, as 05_pipeline.ipynb and cute."""
    return bool(_OURS.match(name) or EXERCISE.match(name) or LANGUAGE.match(name))


def _learner(parts: tuple[str, ...], is_folder: bool, archive: str) -> str:
    """Whose a member of an archive is: its top folder's, or by the name that a platform gave the file; ""
    for nobody's.
    """
    top = parts[0]
    if learner := platforms.moodle(top)[0]:
        return learner
    if len(parts) > 1 or is_folder:
        return top
    if learner := platforms.canvas(top)[0]:
        return learner
    if _courses(top):
        return archive
    return "" if _nobodys(top) else _stem(top)


def _stem(name: str) -> str:
    return _KIND.sub("", name) if _KIND.search(name) else PurePosixPath(name).stem


# -- what a learner handed in


def _handed(places: Iterable[_Place]) -> Iterator[Handed]:
    room = _Room(LEARNER_LIMIT)
    try:
        yield from _read(_ordered(places), room, DEEP)
    except _Full as full:
        yield Handed("", None, str(full))
    except (OSError, RecursionError) as error:  # of a folder
        yield Handed("", None, f"a folder cannot be read: {type(error).__name__}")
    if room.unnamed:
        yield Handed("", None, f"{room.unnamed} more files were left out")


def _ordered(places: Iterable[_Place]) -> Iterator[_Place]:
    """Notebooks, archives and files named for an exercise before others, by name; of a virtual environment,
    which holds thousands, no more than its folder.
    """
    paths = [(PurePosixPath(place.name), place) for place in places]
    environments = {path.parent for path, _ in paths if path.name == "pyvenv.cfg" and len(path.parts) > 1}
    told: set[PurePosixPath] = set()
    for path, place in sorted(paths, key=lambda one: (_is_other(one[1].name), one[0].parts)):
        folders = list(path.parents)[::-1]  # the outermost first
        inside = next((one for one in folders if one in environments or one.name in _INSTALLED), None)
        if inside is None:
            yield place
        elif inside not in told:
            told.add(inside)
            yield _Place(f"{inside}", place.open, "left out, as it holds installed packages")


def _is_other(name: str) -> bool:
    """Whether a file is no notebook, no archive and not named for an exercise."""
    return name.lower().endswith(".py") and not EXERCISE.search(name)


def _read(places: Iterable[_Place], room: _Room, deep: int) -> Iterator[Handed]:
    """``deep`` is how many archives in one another are opened."""
    told: set[str] = set()
    for place in places:
        parts = PurePosixPath(place.name).parts
        kind, why, name = Handed(place.name, None).kind, place.why, place.name
        if (hidden := _hidden(parts)) and why != DOTTED:
            if hidden in told or not _is_work(parts):
                continue
            told.add(hidden)
            name, why = hidden, DOTTED
        if not kind:
            why = why or "left out, as it is no notebook, Python file or zip archive"
        elif kind == "zip" and not deep:
            why = why or f"left out, as it lies in {DEEP} archives in one another"
        if why:
            room.named -= 1
            room.unnamed += room.named < 0
            if room.named >= 0:
                yield Handed(name, None, why)
        elif kind == "zip":
            yield from _unzipped(place, room, deep - 1)
        else:
            yield _whole(place, room)


def _whole(place: _Place, room: _Room) -> Handed:
    if not room.files:
        raise _Full(f"more than {FILES} notebooks and Python files; the rest was left out")
    room.files -= 1
    try:
        with place.open() as file:
            data = file.read(FILE_LIMIT + 1)
    except Exception as error:  # whatever zipfile and its decompressors make of it
        return Handed(place.name, None, f"cannot be unpacked or read: {type(error).__name__}")
    _take(room, len(data))
    if len(data) > FILE_LIMIT:
        return Handed(place.name, None, f"more than {FILE_LIMIT >> 20} MB are not read")
    return Handed(place.name, data)


def _unzipped(place: _Place, room: _Room, deep: int) -> Iterator[Handed]:
    try:
        with place.open() as file:
            data: IO[bytes] = file
            if isinstance(file, zipfile.ZipExtFile):  # it would be unpacked anew for each step back
                data = io.BytesIO(file.read(room.bytes + 1))
                _take(room, data.seek(0, io.SEEK_END))
            end = zipfile._EndRecData(data)  # type: ignore[attr-defined]
            if end and end[5] > LIST_LIMIT:
                yield Handed(place.name, None, "left out, as it lists too many files")
                return
            with zipfile.ZipFile(data) as archive:
                members = [
                    _member(archive, entry, "/".join((place.name, *_parts(entry))))
                    for entry in archive.infolist()
                    if not entry.is_dir()
                ]
                yield from _read(_ordered(members), room, deep)
    except _Full:
        raise
    except Exception as error:  # whatever zipfile makes of it
        yield Handed(place.name, None, f"is no archive that can be read: {error}")


def _take(room: _Room, count: int) -> None:
    room.bytes -= count
    if room.bytes < 0:
        raise _Full(f"more than {LEARNER_LIMIT >> 20} MB in all; the rest was left out")


def _hidden(parts: tuple[str, ...]) -> str:
    """The outermost part of a path that a learner does not see, with what is above it; "" for one that is
    seen.
    """
    for at, part in enumerate(parts):
        if _PROGRAMS.fullmatch(part) or part.startswith(".") and part != "..":
            return "/".join(parts[: at + 1])
    return ""


def _is_work(parts: tuple[str, ...]) -> bool:
    """Whether a path is of a notebook, a Python file or an archive, and none that a program keeps."""
    return _KIND.search(parts[-1]) is not None and not any(map(_PROGRAMS.fullmatch, parts))


def _holds_work(path: Path) -> bool:
    """Whether a file that begins with a dot, or anything in such a folder, is work."""
    if path.is_symlink() or not path.is_dir():
        return _is_work((path.name,))
    below = (
        (Path(folder) / name).relative_to(path.parent) for folder, _, names in os.walk(path) for name in names
    )
    return any(_is_work(one.parts) for one in below)


def _dotted(name: str) -> _Place:
    return _Place(name, io.BytesIO, DOTTED)


# -- one file


def _folder(folder: Path) -> Iterator[_Place]:
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        name = path.relative_to(folder).as_posix()
        try:
            if path.is_symlink() or not path.is_dir():
                yield _place(path, name)
            else:
                waiting += path.iterdir()
        except OSError as error:  # among others, a path that is too long; it costs itself alone
            why = f"a folder or file cannot be read: {type(error).__name__}"
            yield _Place(name if name != "." else folder.name, io.BytesIO, why)


def _regular(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _place(path: Path, name: str) -> _Place:
    status = path.lstat()
    why = ""
    if not stat.S_ISREG(status.st_mode):
        why = "a link or a special file is not read"
    elif status.st_size > FILE_LIMIT and not name.lower().endswith(".zip"):
        why = f"{status.st_size >> 20} MB; more than {FILE_LIMIT >> 20} are not read"
    return _Place(name, lambda: path.open("rb"), why)


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> _Place:
    why = ""
    if ".." in _parts(entry) or _parts(entry)[:1] == ("/",):
        why = "a name that leads out of the archive"
    elif stat.S_ISLNK(entry.external_attr >> 16):
        why = "a link is not read"
    elif entry.file_size > FILE_LIMIT and not name.lower().endswith(".zip"):
        why = f"{entry.file_size >> 20} MB unpacked are too much"
    return _Place(name, lambda: archive.open(entry), why)
