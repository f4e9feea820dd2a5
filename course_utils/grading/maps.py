"""Tensor maps: those of a kernel held against the rules, and the case of maps to be made legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

from course_utils.artifact import ELEMENT_BYTES, SWIZZLE_BYTES, Artifact, TensorMap
from course_utils.compile.factory import open_places
from course_utils.compile.guard import text_of
from course_utils.grading import lines, steps
from course_utils.grading.found import Found, found, of_text
from course_utils.grading.steps import CopyCase, MapCase, Step
from course_utils.grading.verdict import OPEN, Part, Verdict, score, to_write
from course_utils.tma.rules import violations


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
        maps = mend(list(wanted.given))
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
    for number, (old, new) in enumerate(zip(case.given, mended, strict=True), 1):
        wrong = _mended(old, new)
        name = f"map {number}"
        parts.append(_failed(name, worth, wrong) if wrong else Part(name, True, worth, worth, str(new)))
    return Verdict.of(case.id, "maps", "rules", parts)


def _failed(name: str, worth: float, text: str) -> Part:
    return Part(name, False, 0.0, worth, "", (of_text(f"{name}: {text}"),), "tma")


def _mended(old: TensorMap, new: object) -> str:
    """What is still wrong with a map, in words; empty where it is legal, differs from ``old`` in one field,
    and describes the same tensor in tiles worth having.
    """
    if type(new) is not TensorMap:  # one of a class of its own could be two things to two readers
        return f"this is {type(new).__name__}, not a TensorMap"
    for field in fields(TensorMap):
        value = getattr(new, field.name)
        if {type(one) for one in (value if type(value) is tuple else (value,))} - {int}:
            return f"{field.name} is no whole number, or no tuple of them: {text_of(value)}"
    broken = [str(violation) for violation in violations(new)]
    names = [field.name for field in fields(TensorMap)]
    changed = [name for name in names if getattr(old, name) != getattr(new, name)]
    if not broken and len(changed) != 1:
        return f"it is legal, and {len(changed)} fields were changed ({', '.join(changed)}): one is enough"
    return " ".join(broken) or _another_tensor(old, new) or _poor_tile(old, new)


def _another_tensor(old: TensorMap, new: TensorMap) -> str:
    """Why a legal map does not describe the tensor of ``old``, in words.

    A stride that is not legal may change, but rows may not overlap.
    """
    for name in ("data_type", "dims"):
        if getattr(new, name) != getattr(old, name):
            return f"it is legal, and describes another tensor: {name} was {getattr(old, name)}"
    if overlap := _overlap(new):
        dim, own, following = overlap
        return (
            f"it is legal, and its rows overlap: {dim:,} elements {own // dim:,} bytes apart need a stride "
            f"of {own:,} or more, not {following:,}"
        )
    if new.strides != old.strides and not any("stride" in v.rule for v in violations(old)):
        return f"it is legal, and describes another tensor: strides were {old.strides}"
    return ""


def _overlap(tensor_map: TensorMap) -> tuple[int, int, int] | None:
    """(elements, their bytes, the stride that is less) of the first dimension that overlaps the next one."""
    inner = ELEMENT_BYTES[tensor_map.data_type], *tensor_map.strides
    for dim, stride, following in zip(tensor_map.dims, inner, tensor_map.strides, strict=False):
        if following < dim * stride:
            return dim, dim * stride, following
    return None


def _poor_tile(old: TensorMap, new: TensorMap) -> str:
    """Why a legal map brings tiles that no kernel would want, in words: small, or badly swizzled."""
    if 4 * new.box_bytes < old.box_bytes:
        return (
            f"it is legal, and its box of {new.box_bytes:,} bytes is small: {old.box_bytes:,} were asked for"
        )
    row, span = new.box[0] * ELEMENT_BYTES[new.data_type], SWIZZLE_BYTES[new.swizzle]
    if old.swizzle and row != span:
        swizzle = f"a swizzle of {span} bytes" if new.swizzle else "no swizzle"
        return f"it is legal, and a row of {row} bytes has {swizzle}: keep it as well swizzled as rules allow"
    return ""
