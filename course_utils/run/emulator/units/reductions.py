"""What the asynchronous reductions make of what is there and what comes, element by element.

PTX ISA, "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor", "red.async": tables of operations and types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from course_utils.run.emulator.isa.floats import float_loader, round_to
from course_utils.tma import transfers

_INTEGERS = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "b32": np.uint32}
_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
NUMBERS = _INTEGERS | _FLOATS | {"b64": np.uint64, "bf16": np.uint16}
_BITWISE = dict.fromkeys(("and", "or", "xor"), ("b32", "b64"))
# the types of each operation: in global memory, and in shared memory of the cluster
GLOBAL: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **_BITWISE,
}
CLUSTER: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(_BITWISE, ("b32",)),
}
# a tensor map's type as PTX names it; where the operation is bitwise, its bits count alone
OF_MAP = {
    "uint32": "u32",
    "int32": "s32",
    "uint64": "u64",
    "int64": "s64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "tfloat32": "f32",
    "float64": "f64",
}
_FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, limit: np.where(old >= limit, np.uint32(0), old + np.uint32(1)),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - np.uint32(1)),
}


def type_of_map(operation: str, data_type: str) -> str:
    """The type in which a reduction takes a tensor map's elements; "" where an H200 has none, and of the
    types that flush denormal numbers, which are not modelled.
    """
    name = OF_MAP.get(data_type, "") if data_type in transfers.REDUCTIONS[operation] else ""
    if operation in _BITWISE and name[:1] in ("u", "s"):
        name = f"b{name[1:]}"
    return name if name in GLOBAL[operation] else ""


def reduced(operation: str, type_name: str, old: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Both as unsigned integers of the type's width, and so is the result."""
    function = _FUNCTIONS[operation]
    if type_name == "bf16":
        load, store = float_loader("bf16"), round_to("bf16")
        made: np.ndarray = store(function(load(old), load(given)))
        return made
    numbers = NUMBERS[type_name]
    return function(old.view(numbers), given.view(numbers)).astype(numbers).view(old.dtype)
