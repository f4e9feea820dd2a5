"""Operands of a TileLang multiplication that do not meet: what the author's line says of B's tile, and how B
lies in this problem.
"""

from __future__ import annotations

import ast
import linecache
import re
import traceback
from collections.abc import Sequence

from course_utils.artifact import Tensor
from course_utils.compile.guard import is_learners

MISMATCH = r"(\S+) K shape check failed: K_A = (\d+), K_B = (\d+)"


def explained(message: str, error: BaseException, tensors: Sequence[Tensor]) -> str:
    """A check of K that failed, and what that means for these ``tensors``; "" of another message."""
    found = re.search(MISMATCH, message)
    lies = next((_lies(tensors, tensor) for tensor in tensors if tensor.name == "B"), "")
    if not found or not lies:
        return ""
    said = _transposed(error)
    if said is None:
        why = f"does `transpose_B` say how B, {lies}, lies, and are both tiles sliced in the same way?"
    elif said and lies == "K x N":
        why = "B is K x N here, and `transpose_B=True` says N x K."
    elif not said and lies == "N x K":
        why = "B is N x K, and `transpose_B=True`, which says so, is missing."
    else:
        why = f"B is {lies}, as the call says: are both tiles sliced in the same way?"
    return f"{found[1]} K shape check failed: {why} A's tile has {found[2]} of K, B's {found[3]}."


def _lies(tensors: Sequence[Tensor], B: Tensor) -> str:
    """Which way round B is, by the side that it has in common with A."""
    A = next((tensor for tensor in tensors if tensor.name == "A"), None)
    if A is None or len(B.shape) < 2 or B.shape[-2] == B.shape[-1]:
        return ""
    return {B.shape[-1]: "N x K", B.shape[-2]: "K x N"}.get(A.shape[-1], "")


def _transposed(error: BaseException) -> bool | None:
    """Whether the author's call says ``transpose_B=True``; None where the line does not tell."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_learners(frame.filename):
            break
    else:
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(frame.filename)))
    except SyntaxError:  # a cell with a magic
        return None
    line = frame.lineno or 0
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and "gemm" in node.func.attr
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if len(calls) != 1 or any(keyword.arg is None for keyword in calls[0].keywords):
        return None
    for keyword in calls[0].keywords:
        if keyword.arg == "transpose_B":
            return keyword.value.value is True if isinstance(keyword.value, ast.Constant) else None
    return False
