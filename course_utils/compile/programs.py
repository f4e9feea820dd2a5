"""Any TileLang program as the launches that it makes: one Artifact each, in order.

A step is one kernel over its own tensors. A program of somebody else's may have several kernels, sizes that
are known when it is called, scalars, and a workspace between its kernels. Its lowered host function says all
of that; it is read here with the sizes and scalars of one call put in, and never run. Seen on tilelang
0.1.15.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from course_utils.artifact import Artifact, Parameter, Resources, Tensor, TensorMap
from course_utils.compile import nvrtc
from course_utils.compile.errors import CompileError
from course_utils.compile.tilelang import BLOCK_AXES, CLUSTER_AXES, GRID_AXES, HEADERS, _include_dirs, ahead

# fmt: off
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul,
    "Div": lambda a, b: int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b,
    "Mod": lambda a, b: a - b * int(a / b), "FloorDiv": operator.floordiv, "FloorMod": operator.mod,
    "Min": min, "Max": max, "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge, "And": lambda a, b: a and b, "Or": lambda a, b: a or b,
}
# fmt: on
_CALLED: dict[str, Callable[..., Any]] = {
    "tirx.shift_right": operator.rshift,
    "tirx.shift_left": operator.lshift,
    "tirx.bitwise_and": operator.and_,
    "tirx.bitwise_or": operator.or_,
    "tirx.if_then_else": lambda c, a, b: a if c else b,
    "tirx.likely": lambda a: a,
}


class _Unknown(Exception):
    """A value of the host function that only a run would tell."""


def launches(lowered: Any, tensors: tuple[Tensor, ...], known: Mapping[str, Any]) -> list[Artifact]:
    """The launches of a lowered TileLang program. ``known`` has its sizes and scalars by name.

    Each Artifact's tensors are all of the program's, and after them the workspaces that it allocates itself.
    Raises CompileError.
    """
    kernels = {
        str(function.attrs["global_symbol"]): function for function in lowered.device_mod.functions.values()
    }
    host = _Host(kernels, tensors, known)
    for function in lowered.host_mod.functions.values():
        host.run(function.body)
    if not host.launched:
        raise CompileError("lower", "the program launches no kernel")
    ptx, cubin, resources = _assembled(lowered.kernel_source)
    return [
        Artifact(
            dsl="tilelang",
            ptx=ptx,
            cubin=cubin,
            tensors=(*tensors, *host.workspaces),
            resources=resources,
            source=lowered.kernel_source,
            **launch,
        )
        for launch in host.launched
    ]


def _assembled(source: str) -> tuple[str, bytes, Resources]:
    return nvrtc.compile_source(ahead(source) + source, _include_dirs(), HEADERS, ["tilelang"])


class _Host:
    """A host function read with its values put in."""

    def __init__(
        self, kernels: dict[str, Any], tensors: tuple[Tensor, ...], known: Mapping[str, Any]
    ) -> None:
        self.kernels, self.values = kernels, dict(known)
        self.tensors = {tensor.name: tensor for tensor in tensors}
        self.maps: dict[str, Parameter] = {}
        self.workspaces: list[Tensor] = []
        self.launched: list[dict[str, Any]] = []

    def run(self, node: Any) -> None:
        """Follow one statement."""
        kind = type(node).__name__
        if kind == "SeqStmt":
            for part in node.seq:
                self.run(part)
        elif kind in ("LetStmt", "Bind"):
            self._bind(node.var, node.value)
            if hasattr(node, "body"):
                self.run(node.body)
        elif kind == "Evaluate":
            if type(node.value).__name__ == "Call":
                self._call(node.value)
        elif kind == "IfThenElse":
            if self.value(node.condition):
                self.run(node.then_case)
            elif node.else_case is not None:
                self.run(node.else_case)
        elif kind == "AllocBuffer":
            shape = tuple(self.number(size, "a size") for size in node.buffer.shape)
            self.workspaces.append(Tensor(str(node.buffer.data.name), shape, str(node.buffer.dtype)))
            if getattr(node, "body", None) is not None:
                self.run(node.body)
        elif kind == "For":
            first = self.value(node.min)
            for i in range(first, first + self.value(node.extent)):
                self.values[str(node.loop_var.name)] = i
                self.run(node.body)
        elif (
            hasattr(node, "body") and node.body is not None
        ):  # attributes, declarations, allocations, asserts
            self.run(node.body)

    def _bind(self, variable: Any, value: Any) -> None:
        name = str(variable.name)
        if name in self.values or name in self.tensors:
            return
        try:
            self.values[name] = self.value(value)
        except _Unknown:
            pass  # a pointer, a stride of an argument: whoever needs it says so

    def value(self, node: Any) -> Any:
        """A number of the host function. Raises _Unknown."""
        kind = type(node).__name__
        if isinstance(node, (int, float)):
            return node
        if hasattr(node, "value") and kind in ("IntImm", "FloatImm", "StringImm"):
            return node.value
        if kind == "Var":
            if str(node.name) in self.values:
                return self.values[str(node.name)]
            raise _Unknown(str(node.name))
        if kind in _BINARY:
            return _BINARY[kind](self.value(node.a), self.value(node.b))
        if kind == "Not":
            return not self.value(node.a)
        if kind == "Cast":
            inner = self.value(node.value)
            return int(inner) if "int" in str(node.dtype) else float(inner)
        if kind == "Select":
            return self.value(node.true_value if self.value(node.condition) else node.false_value)
        if kind == "Call" and node.op.name in _CALLED:
            return _CALLED[node.op.name](*(self.value(a) for a in node.args))
        raise _Unknown(str(node))

    def number(self, node: Any, what: str) -> int:
        """A number that the launch needs."""
        try:
            return int(self.value(node))
        except _Unknown as error:
            raise CompileError(
                "lower", f"{what} is {error}, which the host function does not tell"
            ) from error

    def _call(self, node: Any) -> None:
        callee = _packed(node)
        args = list(node.args[1:])
        if callee == "__tvm_tensormap_create_tiled":
            self.maps[str(args[0].name)] = self._tensor_map(args)
        elif callee in self.kernels:
            self._launch(callee, args)
        elif callee.startswith("__tvm_tensormap"):
            raise CompileError(
                "lower", f"the program uses {callee.removeprefix('__tvm_')}, which is not read"
            )

    def _tensor_map(self, args: list[Any]) -> Parameter:
        """``__tvm_tensormap_create_tiled``: descriptor, dtype, rank, tensor, then as the driver has it."""
        _, data_type, rank, tensor, *rest = args
        count = self.number(rank, "a rank")
        numbers = [self.number(v, "a field of a tensor map") for v in rest]
        dims, strides, box, steps = (tuple(numbers[i * count : (i + 1) * count]) for i in range(4))
        made = TensorMap(
            self.number(data_type, "a data type"), dims, strides[1:], box, steps, *numbers[4 * count :]
        )
        return Parameter("tensor_map", tensor=self._tensor_name(tensor), tensor_map=made)

    def _tensor_name(self, variable: Any) -> str:
        name = str(getattr(variable, "name", variable))
        if name not in self.tensors and name not in {w.name for w in self.workspaces}:
            raise CompileError(
                "lower", f"the kernel takes {name}, which is none of {', '.join(sorted(self.tensors))}"
            )
        return name

    def _launch(self, callee: str, args: list[Any]) -> None:
        tags = [str(tag) for tag in self.kernels[callee].attrs["tirx.kernel_launch_params"]]
        given, sizes = args[: len(args) - len(tags)], args[len(args) - len(tags) :]
        by_tag = {tag: self.number(v, tag) for tag, v in zip(tags, sizes, strict=True)}

        def triple(axes: tuple[str, ...]) -> tuple[int, int, int]:
            x, y, z = (by_tag.get(axis, 1) for axis in axes)
            return x, y, z

        self.launched.append(
            {
                "kernel": callee,
                "grid": triple(GRID_AXES),
                "block": triple(BLOCK_AXES),
                "cluster": triple(CLUSTER_AXES),
                "dynamic_shared": by_tag.get("tirx.use_dyn_shared_memory", 0),
                "parameters": tuple(map(self._parameter, given)),
            }
        )

    def _parameter(self, arg: Any) -> Parameter:
        label = str(getattr(arg, "name", arg))
        if label in self.maps:
            return self.maps[label]
        try:
            value = self.value(arg)
        except _Unknown:
            return Parameter("pointer", tensor=self._tensor_name(arg))
        return Parameter("scalar", dtype=str(arg.dtype), value=value)


def _packed(node: Any) -> str:
    """The name of the function that a packed call calls; "" of anything else."""
    if type(node).__name__ == "Call" and getattr(node.op, "name", "") == "tirx.tvm_call_packed":
        return str(node.args[0].value)
    return ""
