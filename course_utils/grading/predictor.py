"""A learner's prediction of the path that a tile takes, held against what both compilers made of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from random import Random

from course_utils.artifact import BOX_LIMIT, TMA_ALIGNMENT
from course_utils.compile import tile_copies
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import open_places
from course_utils.compile.guard import text_of, time_limit
from course_utils.compile.tile_copies import (
    ASKED,
    BULK,
    BY_THREADS,
    BYTES,
    COPY,
    ERROR,
    INSIST,
    ONE,
    PATHS,
    PIPELINE,
    SEVERAL,
    STORE,
    THREADS,
    Case,
    Outcome,
)
from course_utils.grading import steps
from course_utils.grading.found import of_text
from course_utils.grading.steps import DSL_NAMES, PathCase
from course_utils.grading.verdict import OPEN, Part, Verdict, to_write

RECORD = Path(__file__).parents[2] / "solutions" / "measured" / "paths.json"
NOW = "compiled now"
PARTS = {**dict.fromkeys(ASKED, 2), NOW: 2}  # by what was asked for; their share of the points, in tenths
FRESH = 8  # cases that are compiled while the check runs, as many of each way to ask
LIMIT = 20.0  # seconds for all answers; the reference takes 0.01
STRIDE_BYTES = 16  # of which a tensor map's strides, and the rows of a box, are multiples
NO_SPAN = (
    128  # TileLang swizzles such rows of 8-byte elements as no tensor map does, and a gemm's of any width
)
SHOWN = 3  # cases that differ, of one part
# by so much of all cases the record may be known better than what is compiled now
LOOKED_UP = 0.4

Known = Sequence[tuple[Case, Outcome]]
_DID = {
    ONE: "made one box",
    SEVERAL: "made several boxes",
    BULK: "made a 1-D bulk copy",
    THREADS: "let threads copy",
    ERROR: "raised an error",
}


def recorded(path: Path = RECORD) -> list[tuple[Case, Outcome]]:
    """The recorded cases. Raises OSError, and ValueError or KeyError where the file is no such record."""
    names = ("path", "boxes", "swizzle", "copied", "said")
    return [
        (
            tile_copies.of_entry(entry),
            Outcome(box=tuple(entry["box"]), **{name: entry[name] for name in names}),
        )
        for entry in json.loads(path.read_text())["cases"]
    ]


def fresh(seed: str | int | None, known: Known) -> list[Case]:
    """Cases that no record has: ``FRESH``, as many of each way to ask."""
    random, seen = Random(seed), {case for case, _ in known}
    found: list[Case] = []
    for asked in ASKED:
        while sum(case.asked == asked for case in found) < FRESH // len(ASKED):
            case = tile_copies.draw(random)
            if case.asked == asked and case not in seen:
                seen.add(case)
                found.append(case)
    return found


def check_paths(
    case: str,
    predict: Callable,
    compiled: Callable[[Case], Outcome] = tile_copies.outcome,
    seed: int | None = None,
) -> Verdict:
    """Check a case of ``steps.PATH_CASES``: ``predict(shape, tile, dtype, consumer, asked)`` is one of
    ``PATHS``.

    It is asked for every recorded case, and for some that are compiled now. ``seed`` draws those; without one
    nobody knows them. Raises nothing.
    """
    wanted = steps.PATH_CASES.get(case) if isinstance(case, str) else None
    if wanted is None:
        text = f"there is no case {case!r}; the cases with a path are {', '.join(steps.PATH_CASES)}"
        return Verdict.of(str(case), "paths", "both compilers", [_failed("paths", 0, [text])])
    known = recorded()
    new = fresh(seed, known)
    answers: list[object] = []
    text = ""
    try:
        with time_limit(LIMIT, "predict"):
            for one in [*(one for one, _ in known), *new]:
                answers.append(predict(one.shape, one.tile, one.dtype, one.consumer, one.asked))
    except KeyboardInterrupt:
        raise
    except CompileError as error:
        text = str(error)
    except BaseException as error:  # a learner's code: sys.exit() too
        text = f"predict{_arguments([*(c for c, _ in known), *new][len(answers)])} raised "
        text = open_places(predict) or f"{text}{type(error).__name__}: {text_of(error)}"
    still = open_places(predict) if text else ""
    return judge(wanted, known, [] if text else compile_each(new, compiled), answers, text, still, new)


def compile_each(cases: Sequence[Case], compiled: Callable[[Case], Outcome] = tile_copies.outcome) -> Known:
    """What the installed compilers make of these; none where one of them is missing or gives no answer."""
    try:
        return [(case, compiled(case)) for case in cases]
    except CompileError:
        return []


def judge(
    case: PathCase,
    known: Known,
    now: Known,
    answers: Sequence[object],
    text: str = "",
    still: str = "",
    asked: Sequence[Case] = (),
) -> Verdict:
    """The verdict on ``answers`` to the ``known`` cases and then to those ``asked``, of which the compilers
    made ``now``, or nothing where they are missing. ``text`` says why there are no answers, ``still`` what is
    to be written yet.
    """
    worth = {name: case.points * tenths / sum(PARTS.values()) for name, tenths in PARTS.items()}
    if still:
        part = Part("paths", None, 0.0, case.points, "", idle=OPEN)
        return to_write(case.id, "paths", "both compilers", (part,), still)
    cases = [*(one for one, _ in known), *asked]
    if not text and len(answers) != len(cases):
        text = "predict must return one answer for each case"
    bad = next((n for n, answer in enumerate(answers) if _path(answer) is None), None)
    if not text and bad is not None:
        text = f"predict{_arguments(cases[bad])} is {text_of(answers[bad])!r}; "
        text += f"it must be one of {', '.join(map(repr, PATHS))}"
    if text:
        return Verdict.of(case.id, "paths", "both compilers", [_failed("paths", case.points, [text])])
    said = [str(_path(answer)) for answer in answers]
    told = list(zip(known, said, strict=False))
    last = list(zip(now, said[len(known) :], strict=False))
    parts = [_part(way, worth[way], [one for one in told if one[0][0].asked == way]) for way in ASKED]
    if not last:
        parts.append(
            Part(NOW, None, 0.0, worth[NOW], "not compared here: a compiler is missing, or took too long")
        )
    elif _share(told) - _share(last) > LOOKED_UP:
        looked_up = (
            f"predict knows {_right(told)} of {len(told)} recorded cases and {_right(last)} of {len(last)} "
            "that were compiled now: write down the rules, not the record."
        )
        parts = [_failed(way, worth[way], [looked_up]) for way in ASKED]
        parts.append(_part(NOW, worth[NOW], last))
    else:
        parts.append(_part(NOW, worth[NOW], last))
    return Verdict.of(case.id, "paths", "both compilers", parts)


_Told = tuple[tuple[Case, Outcome], str]  # a case, what became of it, and what the learner says


def _part(name: str, worth: float, told: Sequence[_Told]) -> Part:
    """Points by how much more is right than of one answer that is always given."""
    right, summary = _right(told), f"{_right(told)} of {len(told)} cases"
    if right == len(told):
        return Part(name, True, worth, worth, summary)
    ((_, always),) = Counter(made.path for (_, made), _ in told).most_common(1)
    share = max(0.0, (right - always) / (len(told) - always)) if always < len(told) else 0.0
    texts = [
        f"{case}: you say {said}; {DSL_NAMES[case.dsl]} {_DID[made.path]}: {why(case, made)}."
        for (case, made), said in told
        if said != made.path
    ]
    return _failed(name, worth, texts[:SHOWN], summary, worth * share)


def _right(told: Sequence[_Told]) -> int:
    return sum(said == made.path for (_, made), said in told)


def _share(told: Sequence[_Told]) -> float:
    return _right(told) / len(told)


def _path(answer: object) -> str | None:
    return str(answer) if isinstance(answer, str) and answer in PATHS else None


def _arguments(case: Case) -> str:
    return f"({', '.join(repr(value) for value in asdict(case).values())})"


def _failed(name: str, worth: float, texts: Sequence[str], detail: str = "", points: float = 0.0) -> Part:
    return Part(name, False, points, worth, detail, tuple(map(of_text, texts)), "tma")


# -- why


def why(case: Case, made: Outcome) -> str:
    """What decided the path of a case, in half a sentence."""
    if made.path in (ONE, SEVERAL):
        return _of_boxes(case, made)
    if made.path == BULK:
        size = prod(case.tile) * BYTES[case.dtype]
        return f"the tile is one piece of {size:,} bytes inside X, and nothing reads S swizzled"
    if made.path == THREADS and case.asked == COPY and case.consumer != PIPELINE:
        return "T.copy loads by TMA in T.Pipelined only"
    hindrance = hinders(case)
    if case.dsl == "cute" or not hindrance:
        return made.said.partition(": ")[2].partition("\n")[0].rstrip(".") or "threads copy it"
    if made.path == THREADS:
        return hindrance
    if case.consumer == PIPELINE:
        return f"{hindrance}, and T.Pipelined had chosen TMA by then"
    return hindrance + (
        ", and T.tma_copy takes only TMA"
        if case.asked == INSIST
        else ", and a refused preference is an error"
    )


def hinders(case: Case) -> str:
    """What keeps TileLang from making boxes of this tile; "" if nothing does."""
    element = BYTES[case.dtype]
    strides = [prod(case.shape[dim:]) * element for dim in range(1, len(case.shape))]
    if odd := [stride for stride in strides if stride % STRIDE_BYTES]:
        return f"a stride of {odd[-1]:,} bytes is not a multiple of {STRIDE_BYTES}"
    if case.row % STRIDE_BYTES:
        return f"a row of {case.row} bytes is no multiple of {STRIDE_BYTES}"
    if element == 8 and case.consumer != BY_THREADS and (case.consumer != STORE or case.row % NO_SPAN == 0):
        return "S is swizzled for 8-byte elements, which no tensor map describes"
    for extent in case.tile:
        pieces = [n for n in range(2, BOX_LIMIT + 1) if extent % n == 0 and n * element % TMA_ALIGNMENT == 0]
        if extent > BOX_LIMIT and not pieces:
            size = f"{element} bytes" if element > 1 else "1 byte"
            return (
                f"{extent} is over {BOX_LIMIT}, and no divisor times {size} is a multiple of {TMA_ALIGNMENT}"
            )
    return ""


def _of_boxes(case: Case, made: Outcome) -> str:
    large = [extent for extent in case.tile if extent > BOX_LIMIT]
    box = f"{'a box' if made.boxes == 1 else f'{made.boxes} boxes'} of {' x '.join(map(str, made.box))}"
    if made.swizzle and case.row > made.swizzle:
        reason = f"a row of {case.row} bytes is over its swizzle's {made.swizzle}"
    elif made.boxes > 1 and large:
        reason = f"{large[0]} is over {BOX_LIMIT}"
    elif made.boxes == 1 and case.dsl == "tilelang" and case.consumer in (BY_THREADS, STORE):
        one_piece = "1-D bulk would read past X's edge"
        reason = one_piece if is_contiguous(case) else "the tile is no single piece of memory"
    else:
        reason = "no extent and no row is too long"
    if made.said:  # of CuTe DSL, which holds no map to the rules
        reason += f", but the map is wrong: {made.said.partition('. ')[0].rstrip('.')}"
    return f"{box}, because {reason}"


def is_contiguous(case: Case) -> bool:
    """Whether a tile is one piece of memory: ones, then one extent of any size, then X's own."""
    inner = len(case.tile) - 1
    while inner and case.tile[inner] == case.shape[inner]:
        inner -= 1
    return set(case.tile[:inner]) <= {1}
