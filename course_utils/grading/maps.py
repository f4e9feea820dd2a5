"""Tensor maps: those of a kernel held against the rules, and the case of maps to be made legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from math import prod

from course_utils.artifact import ELEMENT_BYTES, SWIZZLE_BYTES, Artifact, TensorMap
from course_utils.compile.factory import open_places
from course_utils.compile.guard import text_of
from course_utils.grading import lines, steps
from course_utils.grading.found import Found, found, of_text
from course_utils.grading.steps import CopyCase, MapCase, Step
from course_utils.grading.verdict import OPEN, Part, Verdict, score, to_write
from course_utils.tma.rules import violations

PADDING = 256  # bytes; what a row may be padded by at most, the largest alignment that anyone gives rows


def findings(artifact: Artifact) -> list[Found]:
    """Every rule that a tensor map of this kernel breaks."""
    broken = []
    for one in artifact.parameters:
        for v in violations(one.tensor_map) if one.tensor_map is not None else ():
            values = {"map": str(one.tensor_map), "rule": v.sentence.rstrip("."), "instead": v.found}
            broken.append(found("tensor-map", "illegal", tensor=one.tensor, **values))
    return broken


def part(row: Step | CopyCase, artifact: Artifact, wanted: bool) -> Part:
    """The part "tensor maps": all are legal, and there is one where the row is about TMA (``wanted``)."""
    broken = findings(artifact)
    count = sum(p.tensor_map is not None for p in artifact.parameters)
    if broken:
        return score(row, "tensor maps", False, f"{len(broken)} illegal", *broken, topic="tma")
    if wanted and not count:
        return score(row, "tensor maps", False, "none", found("tensor-map", "no-map"), topic="tma")
    detail = f"{count} tensor maps, all legal" if count else "the kernel uses none"
    return score(row, "tensor maps", True, detail)


def disagree(artifact: Artifact) -> Found | None:
    """How a map of a copy that goes wrong overlaps itself, or disagrees with the other, and the line that
    makes it. None where both are good.
    """
    maps = {p.tensor or "": p.tensor_map for p in artifact.parameters if p.tensor_map is not None}
    for tensor in artifact.tensors:
        mine = maps.get(tensor.name)
        if mine is not None and (overlap := _overlap(mine)):
            _, own, following = overlap
            place = lines.of_layout(tensor.name, artifact)
            return found("tensor-map", "rows-overlap", place, tensor=tensor.name, own=own, apart=following)
    (one, first), (other, second) = [*maps.items(), *[("", None)] * 2][:2]
    if first is None or second is None or first.swizzle == second.swizzle:
        return None
    place = lines.of_map(one if first.swizzle < second.swizzle else other, artifact)
    swizzle, its = (f"{SWIZZLE_BYTES[m.swizzle]}B" if m.swizzle else "none" for m in (first, second))
    values = {"one": one, "other": other, "one_swizzle": swizzle, "other_swizzle": its}
    return found("tensor-map", "swizzles-differ", place, **values)


def check_maps(case: str, mend: Callable) -> Verdict:
    """Check a case of ``steps.MAP_CASES``: ``mend(maps)`` returns the given maps, each made legal by one
    field.

    The rules answer; that they agree with the driver is what ``course tensormap verify`` and the tests show.
    Raises nothing.
    """
    wanted = steps.MAP_CASES.get(case) if isinstance(case, str) else None
    if wanted is None:
        text = f"there is no case {case!r}; the cases with tensor maps are {', '.join(steps.MAP_CASES)}"
        return Verdict.of(str(case), "maps", "rules", [_failed("tensor maps", 0, text)])
    maps: object = None
    text = ""
    try:
        maps = mend([replace(one) for one in wanted.given])  # what mend does to its own is no matter
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a learner's code: sys.exit() too
        text = open_places(mend) or f"mend raised {type(error).__name__}: {text_of(error)}"
    mended = maps if isinstance(maps, (list, tuple)) else ()
    return judge(wanted, mended, text, open_places(mend) if text else "")


def judge(case: MapCase, mended: Sequence[object], text: str = "", still: str = "") -> Verdict:
    """The verdict on maps that were mended; ``text`` says why there are none, ``still`` what is to be
    written yet.
    """
    if still:
        part = Part("tensor maps", None, 0.0, case.points, "", idle=OPEN)
        return to_write(case.id, "maps", "rules", (part,), still)
    if not text and len(mended) != len(case.given):
        text = f"mend must return a list of {len(case.given)} maps, in the order in which they came"
    if text:
        return Verdict.of(case.id, "maps", "rules", [_failed("tensor maps", case.points, text)])
    worth = case.points / len(case.given)
    parts = []
    asked = zip(case.given, mended, case.boxes, strict=True)
    for number, (old, new, boxes) in enumerate(asked, 1):
        wrong = _mended(old, new, boxes)
        name = f"map {number}"
        parts.append(_failed(name, worth, wrong) if wrong else Part(name, True, worth, worth, str(new)))
    return Verdict.of(case.id, "maps", "rules", parts)


def _failed(name: str, worth: float, text: str) -> Part:
    return Part(name, False, 0.0, worth, "", (of_text(f"{name}: {text}"),), "tma")


def _mended(old: TensorMap, given: object, boxes: Sequence[tuple[int, ...]]) -> str:
    """What is still wrong with a map, in words; empty where it is legal, differs from ``old`` in one field,
    describes the same tensor, and has one of the ``boxes``.
    """
    if type(given) is not TensorMap:  # one of a class of its own could be two things to two readers
        return f"this is {type(given).__name__}, not a TensorMap"
    names = [field.name for field in fields(TensorMap)]
    if missing := [name for name in names if not hasattr(given, name)]:
        return f"this map has no {', '.join(missing)}"
    values = [getattr(given, name) for name in names]
    for name, value in zip(names, values, strict=True):
        if {type(one) for one in (value if type(value) is tuple else (value,))} - {int}:
            return f"{name} must be an int or a tuple of ints, and is {text_of(value)}"
    new = TensorMap(*values)  # the given one may remember other extents than those of its box
    broken = [str(violation) for violation in violations(new)]
    changed = [name for name in names if getattr(old, name) != getattr(new, name)]
    if not broken and len(changed) != 1:
        return f"it is legal, and {len(changed)} fields were changed ({', '.join(changed)}): one is enough"
    if broken:
        return " ".join(broken)
    wrong = _another_tensor(old, new, changed[0]) or _poor_tile(old, new, boxes)
    return wrong and f"it is legal, and {wrong}"


def _another_tensor(old: TensorMap, new: TensorMap, changed: str) -> str:
    """Why a legal map does not describe the tensor of ``old``, or steps over what was asked for, in words.

    A stride that was not legal may change, as little as a matrix that is allocated anew makes sense of.
    """
    if changed in ("data_type", "dims", "interleave"):
        return f"describes another tensor: {changed} was {getattr(old, changed)}"
    if overlap := _overlap(new):
        dim, own, following = overlap
        return (
            f"its rows overlap: {dim:,} elements {own // dim:,} bytes apart need a stride "
            f"of {own:,} or more, not {following:,}"
        )
    rules = {violation.rule for violation in violations(old)}
    if changed == "strides":
        if not any(rule.startswith("stride-") for rule in rules):
            return f"describes another tensor: strides were {old.strides}"
        row = old.dims[0] * ELEMENT_BYTES[old.data_type]
        if new.strides[0] - row > PADDING:
            return (
                f"its rows of {row:,} bytes lie {new.strides[0]:,} bytes apart: "
                f"pad a row by {PADDING} bytes at most"
            )
    if changed == "element_strides":
        if "element-stride-range" not in rules:
            return f"steps over what the tile had: element_strides were {old.element_strides}"
        if any(mine % its for mine, its in zip(old.element_strides, new.element_strides, strict=True)):
            return (
                f"steps past the elements of the tile: {new.element_strides} does not divide "
                f"{old.element_strides}"
            )
    return ""


def _overlap(tensor_map: TensorMap) -> tuple[int, int, int] | None:
    """(elements, their bytes, the stride that is less) of the first dimension that overlaps the next one."""
    inner = ELEMENT_BYTES[tensor_map.data_type], *tensor_map.strides
    for dim, stride, following in zip(tensor_map.dims, inner, tensor_map.strides, strict=False):
        if following < dim * stride:
            return dim, dim * stride, following
    return None


def _poor_tile(old: TensorMap, new: TensorMap, boxes: Sequence[tuple[int, ...]]) -> str:
    """Why a legal map brings tiles that no kernel would want, in words: badly swizzled, or small."""
    row, span = new.box[0] * ELEMENT_BYTES[new.data_type], SWIZZLE_BYTES[new.swizzle]
    if old.swizzle and row != span:
        swizzle = f"a swizzle of {span} bytes" if new.swizzle else "no swizzle"
        return f"a row of {row} bytes has {swizzle}: keep it as well swizzled as rules allow"
    if new.box in boxes:
        return ""
    if old.box in boxes:
        return f"its box {new.box} gives up a part of the tile {old.box}: another field keeps it whole"
    if prod(boxes[0]) > prod(old.box):
        return f"its box {new.box} is not the smallest that holds the tile {old.box}; no box divides it"
    if any(mine % its for mine, its in zip(old.box, new.box, strict=True)):
        return (
            f"boxes of {new.box} do not divide the tile {old.box}: the last would bring what nobody asked for"
        )
    return f"its box of {prod(new.box):,} elements is small: {prod(boxes[0]):,} divide the tile {old.box} too"
