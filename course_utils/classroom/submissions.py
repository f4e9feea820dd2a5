"""What a class handed in: each learner's exercises as source text, and what is odd about them in words.

Nothing is run here. A notebook's cells are taken by the ids that they were given with, a Python file by its
name. Whatever is wrong with one file is a finding about its learner, and never ends the reading.
"""

from __future__ import annotations

import json
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import nbformat

from course_utils.classroom.inside import NAMES, OTHER
from course_utils.grading import steps

FILE_LIMIT = 32 << 20  # bytes of one notebook or archive member; figures in a worked notebook take a few MB
ARCHIVE_LIMIT = 1 << 30  # bytes of all members of one archive, unpacked
FILES = 400  # files of one learner
ENTRIES = 40_000  # files of a class
NAME_LIMIT = 120  # bytes of a learner's name
RESERVED = ("symptom_map",)  # names of pages that are no learner's

EXERCISES = (
    *(f"{name}-{dsl}" for name in steps.STEPS for dsl in steps.DSL_NAMES),
    *(f"{name}-maps" for name in steps.MAP_CASES),
    *("case12-tilelang", "case12-cute"),
    *(f"{name}-{dsl}" for name, (_, dsl) in steps.REPAIRS.items()),
    *("case14-cute", "case15-tilelang", "case15-cute"),
)
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"  # as everybody gets them
_FILE = re.compile(r"(step\d\d|case\d\d[a-f]?)(?![0-9])")
_CHECK = re.compile(
    r"""^[ \t]*(?:\w{1,80}[ \t]*=[ \t]*)?check\w{0,20}\([ \t]*["'](step\d\d|case\d\d[a-f]?)["']([^)\n]*)\)""",
    re.M,
)
# how learning platforms name what they export: Moodle a folder a learner, Canvas a file, Gradescope a folder
# of folders, one a submission
_MOODLE = re.compile(r"(.+?_\d+)_assignsubmission_\w+")
_GRADESCOPE = re.compile(r"submission_\d+")
_CANVAS = re.compile(r"(.+?)_(?:LATE_)?(\d+)_\d+_.+")


@dataclass
class Submission:
    """One learner: the source of each exercise by its id ("step05-cute"), and findings about the rest."""

    learner: str
    sources: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Handed:
    """A file that was handed in: its name below its learner's folder, and what is in it, None for a link or
    one that is too large, of which ``why`` tells.
    """

    name: str
    data: bytes | None
    why: str = ""


def read(folder: Path) -> list[Submission]:
    """The submissions of a class, by learner. ``folder`` holds a folder or a file a learner, or is the zip
    archive of a learning platform, or holds such archives.

    Raises ValueError where there is nothing to read.
    """
    if not folder.exists():
        raise ValueError(f"there is no folder or archive {folder}")
    by_learner: dict[str, list[Handed]] = {}
    if folder.is_dir():
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        for path in entries:
            if path.suffix == ".zip" and _regular(path):
                alone = len(entries) == 1  # else it is one learner's, whatever names stand in it
                for name, handed in _members(path):
                    whose = _learner(name, path.stem) if alone else path.stem
                    by_learner.setdefault(whose, []).append(handed)
            elif path.is_dir() and not path.is_symlink():
                by_learner.setdefault(path.name, []).extend(_files(path))
            elif path.suffix in (".py", ".ipynb") or path.is_symlink():
                by_learner.setdefault(path.stem, []).append(_handed(path, path.name))
    else:
        for name, handed in _members(folder):
            by_learner.setdefault(_learner(name, folder.stem), []).append(handed)
    if not by_learner:
        raise ValueError(
            f"{folder} holds no submission: a folder, a notebook, a Python file or a zip a learner"
        )
    names = _printable_names(by_learner)
    return [submission(names[learner], handed) for learner, handed in sorted(by_learner.items())]


def given() -> dict[str, str]:
    """The exercises as everybody gets them: the cells of this checkout's notebooks, by id."""
    return submission("", (_handed(path, path.name) for path in sorted(NOTEBOOKS.glob("*.ipynb")))).sources


def submission(learner: str, files: Iterable[Handed]) -> Submission:
    """What one learner handed in."""
    made = Submission(learner)
    for file in files:
        if file.data is None:
            made.findings.append(f"{_shown(file.name)}: {file.why}")
        elif file.name.endswith(".ipynb"):
            _notebook(made, file)
        elif file.name.endswith(".py"):
            _python(made, file)
    for name, source in made.sources.items():
        if (other := OTHER.get(name.partition("-")[2], "")) and other in source:
            made.findings.append(
                f"{name} names {other}, the package of the other language: look at its source"
            )
    if not made.sources:
        made.findings.append("no exercise was found in what was handed in")
    return made


# -- a notebook


def _notebook(made: Submission, file: Handed) -> None:
    assert file.data is not None
    try:
        cells = _cells(file.data)
    except Exception as error:  # whatever json and nbformat make of it: RecursionError, KeyError, ...
        made.findings.append(f"{_shown(file.name)} is no notebook: {type(error).__name__}")
        return
    found: dict[str, list[str]] = {}
    above: list[str] = []  # code cells, from the top
    guessed: dict[str, str] = {}
    for kind, metadata, source in cells:
        if kind != "code":
            continue
        name = _id(metadata)
        if name in EXERCISES:
            found.setdefault(name, []).append(source)
        elif name and name.endswith("-check"):
            _hold_check(made, name.removesuffix("-check"), source)
        for wanted, rest in _CHECK.findall(source):
            exercise = _exercise(wanted, rest)
            if exercise and (cell := _defining(exercise, above)) is not None:
                guessed.setdefault(exercise, cell)
        above.append(source)
    for name, sources in found.items():
        if len(set(sources)) > 1:
            made.findings.append(
                f"{_shown(file.name)} has the cell {name} {len(sources)} times; the last one counts"
            )
        _take(made, name, sources[-1], file.name)
    for name in guessed.keys() - found.keys():
        text = f"{_shown(file.name)}: the cell {name} has lost its id; the one above its check was taken"
        made.findings.append(text)
        _take(made, name, guessed[name], file.name)
    for name in sorted({f"{one.partition('-')[0]}" for one in found}):
        for missing in (one for one in EXERCISES if one.startswith(f"{name}-") and one not in made.sources):
            made.findings.append(f"{_shown(file.name)}: the cell {missing} is missing")


def _cells(data: bytes) -> list[tuple[str, dict, str]]:
    """Kind, metadata and source of each cell. Raises anything for what is no notebook."""
    text = data.decode("utf-8-sig")
    if not isinstance(json.loads(text), dict):
        raise ValueError
    book: Any = nbformat.reads(text, as_version=4)
    return [
        (cell.cell_type, cell.metadata if isinstance(cell.metadata, dict) else {}, cell.source)
        for cell in book.cells
        if isinstance(cell.source, str)
    ]


def _id(metadata: dict) -> str:
    """The id that a cell was given with; "" for a learner's own."""
    for key, name in (("nbgrader", "grade_id"), ("course", "exercise")):
        part = metadata.get(key)
        if isinstance(part, dict) and isinstance(part.get(name), str):
            return part[name]
    return ""


def _exercise(name: str, rest: str) -> str:
    """The exercise of a check's arguments; "" where there is none."""
    dsl = "cute" if re.search(r"""["']cute["']""", rest) else "tilelang"
    return next((one for one in (f"{name}-{dsl}", f"{name}-maps") if one in EXERCISES), "")


def _defining(exercise: str, above: list[str]) -> str | None:
    wanted = re.compile(rf"^def {function_of(exercise)}\(", re.M)
    return next((source for source in reversed(above) if wanted.search(source)), None)


def function_of(exercise: str) -> str:
    """The name of the function that an exercise defines."""
    row = steps.row(exercise.partition("-")[0])
    if isinstance(row, steps.MapCase):
        return NAMES["maps"]
    return NAMES["copy" if isinstance(row, steps.CopyCase) else "gemm"]


def _hold_check(made: Submission, exercise: str, source: str) -> None:
    if exercise not in EXERCISES:
        return
    name, _, dsl = exercise.partition("-")
    called = {"gemm": "check", "copy": "check_copy", "mend": "check_maps"}[function_of(exercise)]
    given = f'{called}("{name}", {function_of(exercise)}{", " + repr(dsl) if dsl == "cute" else ""})'
    if "".join(source.split()).replace("'", '"') != "".join(given.split()).replace("'", '"'):
        made.findings.append(f"the check of {exercise} was edited; it changes no grade")


# -- a Python file


def _python(made: Submission, file: Handed) -> None:
    assert file.data is not None
    try:
        source = file.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        made.findings.append(f"{_shown(file.name)} is no text in UTF-8")
        return
    path = PurePosixPath(file.name)
    found = _FILE.search(path.name)
    if not found:
        made.findings.append(
            f"{_shown(file.name)} was left out: its name has no step or case, as step05_cute.py has"
        )
        return
    places = (path.name, *reversed(path.parts[:-1]))
    dsl = next((dsl for place in places for dsl in steps.DSL_NAMES if dsl in place.lower()), "")
    dsl = dsl or ("cute" if re.search(r"^\s*(import|from) cutlass\b", source, re.M) else "tilelang")
    name = next((one for one in (f"{found[1]}-{dsl}", f"{found[1]}-maps") if one in EXERCISES), "")
    if not name:
        made.findings.append(f"{_shown(file.name)} was left out: there is no {found[1]} in {dsl}")
        return
    _take(made, name, source, file.name)


def _take(made: Submission, name: str, source: str, where: str) -> None:
    if name in made.sources and made.sources[name] != source:
        made.findings.append(f"{name} was handed in more than once; what counts is in {_shown(where)}")
    made.sources[name] = source


# -- files


def _files(folder: Path) -> Iterator[Handed]:
    count = 0
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix not in (".py", ".ipynb", ".zip") or any(p.startswith(".") for p in Path(name).parts):
            continue
        count += 1
        if count > FILES:
            yield Handed(name, None, f"more than {FILES} files; the rest was left out")
            return
        if path.suffix == ".zip" and _regular(path):
            for _, handed in _members(path):
                yield handed
        else:
            yield _handed(path, name)


def _regular(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _handed(path: Path, name: str) -> Handed:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return Handed(name, None, "a link or a special file is not read")
        if status.st_size > FILE_LIMIT:
            return Handed(name, None, f"{status.st_size >> 20} MB; more than {FILE_LIMIT >> 20} are not read")
        return Handed(name, path.read_bytes()[:FILE_LIMIT])
    except OSError as error:
        return Handed(name, None, f"cannot be read: {error.strerror}")


def _members(path: Path) -> Iterator[tuple[str, Handed]]:
    """The notebooks and Python files of an archive: each one's whole name, and the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            total = 0
            for entry in archive.infolist()[:ENTRIES]:
                name = entry.filename
                if entry.is_dir() or not name.endswith((".py", ".ipynb")) or "__MACOSX" in name:
                    continue
                total += entry.file_size
                parts = PurePosixPath(name).parts
                short = "/".join(parts[1:]) or name
                if ".." in parts or name.startswith("/"):
                    yield name, Handed(short, None, "a name that leads out of the archive")
                elif stat.S_ISLNK(entry.external_attr >> 16):
                    yield name, Handed(short, None, "a link is not read")
                elif entry.file_size > FILE_LIMIT or total > ARCHIVE_LIMIT:
                    yield name, Handed(short, None, f"{entry.file_size >> 20} MB unpacked are too much")
                else:
                    yield name, _unpacked(archive, entry, short)
    except Exception as error:  # whatever zipfile and its decompressors make of it
        yield path.name, Handed(path.name, None, f"is no archive that can be read: {error}")


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> Handed:
    try:
        with archive.open(entry) as file:
            return Handed(name, file.read(FILE_LIMIT))
    except Exception as error:
        return Handed(name, None, f"cannot be unpacked: {type(error).__name__}")


def _learner(member: str, archive: str) -> str:
    """Whose a member of an archive is: its top folder's, or by the name that a platform gave the file."""
    parts = PurePosixPath(member).parts
    if found := _MOODLE.match(parts[0]):
        return found[1]
    if len(parts) > 2 and _GRADESCOPE.fullmatch(parts[1]):
        return parts[1]
    if len(parts) > 1:
        return parts[0]
    found = _CANVAS.match(parts[0])
    return f"{found[1]}_{found[2]}" if found else archive  # two learners may have one name


def _printable_names(learners: Iterable[str]) -> dict[str, str]:
    """A name for each learner that can stand in a table and be a file's name, no two the same."""
    names: dict[str, str] = {}
    used = Counter(RESERVED)
    for learner in sorted(learners):
        shown = re.sub(r"[^\w .@+-]", "_", learner).encode()[:NAME_LIMIT].decode(errors="ignore")
        shown = shown.strip(". ") or "_"
        while used[shown.casefold()]:
            used[shown.casefold()] += 1
            shown = f"{shown}_{used[shown.casefold()]}"
        used[shown.casefold()] = 1
        names[learner] = shown
    return names


def _shown(name: str) -> str:
    return re.sub(r"[^\w .@+/-]", "_", name)[:NAME_LIMIT]
