"""What a class handed in: each learner's exercises as source text, and what is odd about them in words.

Nothing is run here. A notebook's cells are taken by the ids that they were given with, a Python file by its
name. Whatever is wrong with one file is a finding about its learner, and never ends the reading.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from course_utils.classroom import cells, files
from course_utils.classroom.files import Handed
from course_utils.classroom.inside import OTHER
from course_utils.classroom.limits import TooMuch, limited
from course_utils.classroom.workshop import SOURCE_LIMIT
from course_utils.compile.load import BEGIN, SOLUTIONS, unified
from course_utils.grading import levels, steps
from course_utils.grading.steps import EXERCISES

NAME_LIMIT = 120  # bytes of a learner's name
NO_STEP = " was left out: its name has no step or case, as step05_cute.py has"
MENTIONED = 5  # files that a finding names
RESERVED = ("symptom_map",)  # names of pages that are no learner's
OTHER_LANGUAGE = "other language"

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"  # as everybody gets them
_CHECK = re.compile(
    r"""^[ \t]*(?:\w{1,80}[ \t]*=[ \t]*)?check\w{0,20}\([ \t]*"""
    r"""["']((?:step|plan)\d\d|(?:case|task)\d\d[a-f]?|[at]\d[a-f]?|b\d\d)["']([^)\n]*)\)""",
    re.M,
)


_FUNCTIONS = "|".join(
    sorted({steps.function_of(name) for group in steps.groups().values() for name in group})
)
_DEFINES = re.compile(rf"^(?:def[ \t]+({_FUNCTIONS})[ \t]*\(|({_FUNCTIONS})[ \t]*(?::[^=\n]*)?=(?!=))", re.M)
_ANY = re.compile(r"^(?:async[ \t]+def|def|class)\b|^@", re.M)  # of definitions
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(tilelang|cutlass)\b(.*)", re.M)
CHECKS = 1_000  # lines of one cell that are looked at for a check
_OPEN = re.compile(r"""^[ \t]+raise[ \t]+NotImplementedError\(["']TODO""", re.M)
_SPARE = re.compile(  # what a file is called that is kept beside the one that counts
    r"^(?:~|_|test_)|(?<![a-z])(?:backup|bak|old|orig|original|conflict\w*|wrong|broken)(?![a-z])", re.I
)
# of this process, and bytes, for what one learner handed in; a worked course takes 0.2 s
SECONDS, MEMORY = 10.0, 4 << 30
CELLS = 5_000  # of code in one notebook; the course's have some 60
COPIES = 50  # cells of one exercise in one notebook
PARSED = 100_000  # characters; of a longer source nobody asks whether it is as it was given


@dataclass
class Submission:
    """One learner: the source of each exercise by its id ("step05-cute"), and findings about the rest.

    ``concerns`` are what a teacher alone is told, (kind, text). ``id`` is the learning platform's, and
    ``handed_in`` are the names under which the work came.
    """

    learner: str
    sources: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    places: dict[str, list[str]] = field(default_factory=dict)  # by id, files; the one that counts is last
    concerns: list[tuple[str, str]] = field(default_factory=list)
    id: str = ""
    handed_in: tuple[str, ...] = ()


def read(folder: Path, told: Callable[[int], object] = lambda _: None) -> list[Submission]:
    """The submissions of a class, by learner. ``folder`` holds a folder or a file a learner, or is the zip
    archive of a learning platform, or holds such an archive alone. ``told`` hears how many have been read.

    Raises ValueError where there is nothing to read.
    """
    made: list[Submission] = []
    for owners, handed in files.by_learner(folder):
        one = Submission(owners[0].name)
        try:
            with limited(SECONDS, MEMORY):
                _add(one, handed)
        except (TooMuch, MemoryError):
            one.findings.append(
                f"reading these files takes more than {SECONDS:g} s or {MEMORY >> 30} GB of memory; the rest "
                "was left out: hand in fewer and shorter ones"
            )
        _tell(one)
        for owner in owners:  # of a group each
            known = replace(one, learner=owner.name, id=owner.id, handed_in=owner.handed_in)
            known.findings, known.concerns = list(one.findings), list(one.concerns)
            made.append(known)
        told(len(made))
    names = _printable_names(one.learner for one in made)
    for one in made:
        one.learner = names[one.learner]
    return made


@cache
def given() -> dict[str, str]:
    """The exercises as everybody gets them: the cells of this checkout's notebooks, by id."""
    return submission("", map(files.one, sorted(NOTEBOOKS.glob("*.ipynb")))).sources


def submission(learner: str, handed: Iterable[Handed]) -> Submission:
    """What one learner handed in, read without a clock."""
    made = Submission(learner)
    _add(made, handed)
    _tell(made)
    return made


def _add(made: Submission, handed: Iterable[Handed]) -> None:
    """Read these files."""
    for file in handed:
        if file.data is None:
            made.findings.append(f"{_shown(file.name)}: {file.why}" if file.name else file.why)
            continue
        try:
            text = file.data.decode(
                "utf-16" if file.data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
            )
            text = unified(text)
        except UnicodeDecodeError:
            made.findings.append(f"{_shown(file.name)} is no text in UTF-8: save it in that form")
            continue
        if file.kind == "ipynb":
            _notebook(made, file.name, text)
        elif file.kind == "py":
            _python(made, file.name, text)


def _tell(made: Submission) -> None:
    """The findings about all files of a learner."""
    unnamed = [text for text in made.findings if text.endswith(NO_STEP)]
    if len(unnamed) > MENTIONED:
        rest = set(unnamed[MENTIONED:])
        made.findings = [text for text in made.findings if text not in rest]
        made.findings.append(f"{len(unnamed) - MENTIONED} more Python files were left out for their names")
    for name, places in made.places.items():
        if displaced := ", ".join(map(_shown, places[:-1][:MENTIONED])):
            text = f"{name} was handed in more than once; what counts is in {_shown(places[-1])}, not in "
            made.findings.append(text + displaced)
    for name, source in made.sources.items():
        if (other := OTHER.get(name.partition("-")[2], "")) and other in source:
            made.concerns.append((OTHER_LANGUAGE, f"{name} names {other}, the package of the other language"))
    if not made.sources:
        made.findings.append("no exercise was found in what was handed in")


# -- a notebook


def _notebook(made: Submission, file: str, text: str) -> None:
    try:
        book = _code_cells(text)
    except Exception as error:  # whatever json and nbformat make of it: RecursionError, KeyError, ...
        made.findings.append(f"{_shown(file)} is no notebook: {type(error).__name__}")
        return
    if len(book) > CELLS:
        text = f"{_shown(file)} has {len(book):,} cells of code; those after {CELLS:,} were left out"
        made.findings.append(text)
        del book[CELLS:]
    found: dict[str, list[str]] = {}
    above: dict[str, tuple[str, str]] = {}  # by name of a function, id and source of its last cell
    guessed: dict[str, str] = {}
    ends: dict[str, int] = {}  # by exercise, up to which cell names are looked for that it does not define
    for at, (metadata, source) in enumerate(book):
        name = _id(metadata)
        if name in EXERCISES:
            found.setdefault(name, []).append(source)
            ends[name] = at
        elif name and name.endswith("-check"):
            ends[name.removesuffix("-check")] = at
            _hold_check(made, name.removesuffix("-check"), source)
        begin = source[:SOURCE_LIMIT]
        for check in islice(_CHECK.finditer(begin), CHECKS):
            exercise = _exercise(*check.groups())
            if exercise and (cell := above.get(function_of(exercise))) is not None:
                if exercise not in found or cell[0] not in EXERCISES:
                    guessed.setdefault(exercise, cell[1])
                    ends.setdefault(exercise, at)
        above |= dict.fromkeys((one[1] or one[2] for one in _DEFINES.finditer(begin)), (name, source))
    for name in sorted(found.keys() | guessed.keys()):
        source = _counting(made, name, found[name], file) if name in found else ""
        if name in guessed and (lower := _lower(name, source, guessed[name], file)):
            source, how = guessed[name], lower if name in found else "has lost its id"
            made.findings.append(f"{_shown(file)}: the cell {name} {how}; the one above its check was taken")
        above_it = [one for metadata, one in book[: ends[name]] if _id(metadata) != name]
        _take(made, name, _complete(made, name, source, above_it), file)
    for name in sorted({f"{one.partition('-')[0]}" for one in found}):
        for missing in (one for one in EXERCISES if one.startswith(f"{name}-") and one not in made.sources):
            made.findings.append(f"{_shown(file)}: the cell {missing} is missing")


def _lower(name: str, source: str, other: str, file: str) -> str:
    """Why a cell counts less than another one above its check, in words; "" where it does not. Of two that
    are written, the one at the higher level counts.
    """
    own, its = (
        (_worth(name, one, file), list(steps.LEVELS).index(levels.of_source(one))) for one in (source, other)
    )
    if its <= own:
        return ""
    if its[0] == own[0]:
        return "is at a lower level"
    return "is as it was given" if _defines(name, source) else "is empty"


def _complete(made: Submission, name: str, source: str, above: list[str]) -> str:
    """The source of a cell, and in front what it uses of the learner's other cells, told as a finding."""
    if len(source) > PARSED:
        return source
    complete, names = cells.with_names(cells.python(source)[0], above)
    if not names or len(complete) > SOURCE_LIMIT:
        return source
    lines = complete.count("\n") - source.count("\n")
    shown = ascii(", ".join(names[:MENTIONED]))[1:-1] + (", ..." if len(names) > MENTIONED else "")
    made.findings.append(
        f"{name} uses names of other cells ({shown}); they were put in front of it, {lines} lines in all"
    )
    return complete


def _code_cells(text: str) -> list[tuple[dict, str]]:
    """Metadata and source of each cell of code, of any version of the format. Raises anything for what is no
    notebook.

    nbformat would turn every object into one of its own: 32 MB of them are 6 GB, and nobody asks for more
    than these two fields.
    """
    book: Any = json.loads(text)
    sheets = book["worksheets"] if "worksheets" in book else [book]  # until version 3
    made = []
    for cell in (cell for sheet in sheets for cell in sheet["cells"] if isinstance(cell, dict)):
        metadata, source = cell.get("metadata"), cell.get("source", cell.get("input"))
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if cell.get("cell_type") == "code" and isinstance(source, str):
            made.append((metadata if isinstance(metadata, dict) else {}, unified(source)))
    return made


def _counting(made: Submission, name: str, sources: list[str], file: str) -> str:
    """The source that counts of the cells of one id. Jupyter gives both halves of a cell that is split the id
    that it had, and a copy too.
    """
    if len(set(sources)) == 1:
        return sources[-1]
    if len(sources) > COPIES:
        made.findings.append(
            f"{_shown(file)} has the cell {name} {len(sources):,} times; the last {COPIES} were looked at"
        )
        sources = sources[-COPIES:]
    defining = [at for at, source in enumerate(sources) if _defines(name, source)]
    told = f"{_shown(file)} has the cell {name} {len(sources)} times"
    if len(defining) > 1:
        at = max(reversed(defining), key=lambda at: _worth(name, sources[at], file))
        which = "last one" if at == defining[-1] else "one"
        but = "" if at == defining[-1] else " and is neither as it was given nor open"
        made.findings.append(f"{told}; the {which} counts that defines {function_of(name)}{but}")
        return sources[at]
    last = defining[0] if defining else len(sources) - 1
    parts = sources[: last + 1] + [one for one in sources[last + 1 :] if _continues(one)]
    if len(parts) == 1:
        made.findings.append(f"{told}; the one counts that defines {function_of(name)}")
    else:
        made.findings.append(f"{told}; {len(parts)} of them were joined, as of a cell that was split")
    return "\n".join(parts)


def _continues(source: str) -> bool:
    """Whether a cell goes on with the one above: with the rest of a function, or with another one."""
    first = next((line for line in source.split("\n") if line.strip()), "")
    return first.startswith((" ", "\t")) or _ANY.search(source) is not None


def _defines(name: str, source: str) -> bool:
    return any(function_of(name) in found.groups() for found in _DEFINES.finditer(source[:SOURCE_LIMIT]))


def _worth(name: str, source: str, where: str) -> int:
    """Which of two sources of one exercise counts: that of more worth, and of equals the later one.

    0: a solution of the course's, where the course has it, 1: the function is not defined, 2: as given,
    3: with a place still open, or no Python, 4: in a file whose name says that it is kept aside, 5: others.
    """
    path = PurePosixPath(where)
    source = cells.python(source[: SOURCE_LIMIT + 1])[0]
    code = _code(source)
    if "solutions" in path.parts[:-1] and (BEGIN in source or code in _solutions(name)):
        return 0
    if not _defines(name, source):
        return 1
    if code and code == _code(given().get(name, "")):
        return 2
    if not code or _OPEN.search(source):
        return 3
    return 4 if _SPARE.search(path.stem) or "tests" in path.parts[:-1] else 5


def _code(source: str) -> str:
    """What is the same for two sources that differ in comments and layout alone; "" for what is no Python."""
    if len(source) > PARSED:
        return source
    try:
        return ast.dump(ast.parse(source)) + " "
    except cells.NO_PYTHON:
        return ""


@cache
def _solutions(name: str) -> tuple[str, ...]:
    step, _, dsl = name.partition("-")
    return tuple(_code(path.read_text()) for path in sorted((SOLUTIONS / dsl).glob(f"{step}_*.py")))


def _id(metadata: dict) -> str:
    """The id that a cell was given with; "" for a learner's own."""
    for key, name in (("nbgrader", "grade_id"), ("course", "exercise")):
        part = metadata.get(key)
        if isinstance(part, dict) and isinstance(part.get(name), str):
            return _today(part[name])
    return ""


def _today(text: str) -> str:
    """A text with the names that cases have now: what was handed in may be of an older course."""
    return re.sub(r"\bcase\d\d[a-f]?\b", lambda found: steps.FORMERLY.get(found[0], found[0]), text)


def _exercise(name: str, rest: str) -> str:
    """The exercise of a check's arguments; "" where there is none."""
    dsl = "cute" if re.search(r"""["']cute["']""", rest) else "tilelang"
    return _one_of(_today(name), dsl)


def _one_of(name: str, dsl: str) -> str:
    """The exercise of a step or case, in this language or in none; "" where there is none."""
    return next(
        (one for one in (f"{name}-{kind}" for kind in (dsl, "maps", "plan", "paths")) if one in EXERCISES), ""
    )


def function_of(exercise: str) -> str:
    """The name of the function that an exercise defines."""
    return steps.function_of(exercise.partition("-")[0])


def _hold_check(made: Submission, exercise: str, source: str) -> None:
    if exercise not in EXERCISES:
        return
    name, _, dsl = exercise.partition("-")
    checks = {"copy": "check_copy", "mend": "check_maps", "seconds": "check_plan", "predict": "check_paths"}
    checks |= {"broken": "check_pair"}
    called = checks.get(function_of(exercise), "check")
    given = f'{called}("{name}", {function_of(exercise)}{", " + repr(dsl) if dsl == "cute" else ""})'
    if "".join(_today(source).split()).replace("'", '"') != "".join(given.split()).replace("'", '"'):
        made.findings.append(f"the check of {exercise} was edited; it changes no grade")


# -- a Python file


def _python(made: Submission, file: str, source: str) -> None:
    path = PurePosixPath(file)
    folders = path.parts[-2::-1]
    named = (_languages(place) for place in (path.name, *folders))
    told = next((one.pop() for one in named if len(one) == 1), "")
    wanted = _step_of(path.name) or (_numbered(path.name) if told else "")
    if not wanted:
        wanted = next(filter(None, map(_step_of, folders)), "")  # step05/tilelang.py, and no helper there
        wanted = wanted if wanted and _defines(wanted, source) else ""
    if not wanted:
        made.findings.append(f"{_shown(file)}{NO_STEP}")
        return
    dsl = told or _language_of(source)
    name = _one_of(wanted, dsl)
    if not name:
        made.findings.append(f"{_shown(file)} was left out: there is no {wanted} in {dsl}")
        return
    _take(made, name, source, file)


def _step_of(name: str) -> str:
    """The step or case that a name holds, as the course calls it: "step05" of "Step 5"; "" without one."""
    found = files.EXERCISE.search(name)
    if not found:
        return ""
    kind, letter = found[1].lower(), (found[3] or "").lower()
    return _today(f"{kind}{int(found[2]):0{1 if kind in 'at' else 2}}{letter}")


def _numbered(name: str) -> str:
    """The step of a name that begins with its notebook's number, as 05_pipeline_tilelang.py; "" without."""
    step = f"step{name[:2]}"
    return step if step in steps.STEPS and not name[2:3].isdecimal() else ""


def _languages(place: str) -> set[str]:
    return {name.lower() for name in files.LANGUAGE.findall(place)}


def _language_of(source: str) -> str:
    """The language whose names a source uses more often, by what it imports of each package."""
    source = source[:SOURCE_LIMIT]
    names: dict[str, set[str]] = {}
    for package, rest in _IMPORT.findall(source):
        names.setdefault(package, {package}).update(re.findall(r"\w+", rest))
    counts = Counter(re.findall(r"\w+", _IMPORT.sub("", source)))
    uses = {package: sum(counts[one] for one in of - {"as", "import"}) for package, of in names.items()}
    return "cute" if "cutlass" in uses and uses["cutlass"] > uses.get("tilelang", -1) else "tilelang"


def _take(made: Submission, name: str, source: str, where: str) -> None:
    """Of a source that is too long so much is kept that it still is."""
    source, left_out = cells.python(source[: SOURCE_LIMIT + 1])
    if left_out:
        made.findings.append(
            f"{name}: lines that only a notebook runs were left out, {len(left_out)} in all; the first is "
            + ascii(left_out[0])[:80]
        )
    places = made.places.setdefault(name, [])
    if name not in made.sources or made.sources[name] == source:
        made.places[name] = [*places[:-1], where]
    elif _worth(name, source, where) >= _worth(name, made.sources[name], places[-1]):
        places.append(where)
    else:
        places.insert(len(places) - 1, where)
        return
    made.sources[name] = source


# -- names


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
