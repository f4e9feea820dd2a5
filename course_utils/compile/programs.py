"""Any TileLang program as the launches that it makes: one Artifact each, in order.

A step is one kernel over its own tensors. A program of somebody else's may have several kernels, sizes that
are known when it is called, scalars, and a workspace between its kernels. Its lowered host function says all
of that; it is read here with the sizes and scalars of one call put in, and never run. Seen on tilelang
0.1.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_utils.artifact import Artifact, Parameter, Resources, Tensor, TensorMap
from course_utils.compile import nvrtc
from course_utils.compile.errors import CompileError
from course_utils.compile.tilelang import (
    HEADERS,
    _include_dirs,
    ahead,
    launch_of,
    pixel_map_of,
    tensor_map_of,
)


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
    return nvrtc.compile_source(ahead(source) + source, _include_dirs(), HEADERS[nvrtc.ARCH], ["tilelang"])


class _Host:
    """A host function read with its values put in."""

    def __init__(
        self, kernels: dict[str, Any], tensors: tuple[Tensor, ...], known: Mapping[str, Any]
    ) -> None:
        self.kernels, self.values = kernels, dict(known)
        self.tensors = {tensor.name: tensor for tensor in tensors}
        self.maps: dict[int, Parameter] = {}  # by the variable: two maps of one tensor have one name
        self.views: dict[str, str] = {}  # of which tensor a name is the pointer: T.reshape gives one its own
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
        elif kind == "DeclBuffer":
            if str(node.buffer.name) in self.tensors:
                self.views[str(node.buffer.data.name)] = str(node.buffer.name)
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
        from tilelang import tvm

        if isinstance(node, (int, float)):
            return node
        known: dict[Any, Any] = {}
        unknown: list[str] = []

        def visit(one: Any) -> None:
            if isinstance(one, tvm.tirx.Var) and str(one.name) in self.values:
                known[one] = tvm.tirx.const(self.values[str(one.name)], one.dtype)
            elif isinstance(one, tvm.tirx.Var):
                unknown.append(str(one.name))

        tvm.tirx.stmt_functor.post_order_visit(node, visit)
        found = tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(node, known))
        if not hasattr(found, "value"):
            raise _Unknown(next(iter(unknown), str(node)))
        return found.value

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
            self._map(args, tensor_map_of(args, self.number))
        elif callee == "__tvm_tensormap_create_im2col":
            self._map(args, pixel_map_of(args, self.number))
        elif callee in self.kernels:
            launch, given = launch_of(self.kernels[callee], args, self.number)
            self.launched.append(launch | {"parameters": tuple(map(self._parameter, given))})
        elif callee.startswith("__tvm_tensormap"):
            raise CompileError(
                "lower", f"the program uses {callee.removeprefix('__tvm_')}, which is not read"
            )

    def _map(self, args: list[Any], made: TensorMap) -> None:
        made_of = self._tensor_name(args[3])
        self.maps[hash(args[0])] = Parameter("tensor_map", tensor=made_of, tensor_map=made)

    def _tensor_name(self, variable: Any) -> str:
        name = str(getattr(variable, "name", variable))
        name = name if name in self.tensors else self.views.get(name, name)
        if name not in self.tensors and name not in {w.name for w in self.workspaces}:
            raise CompileError(
                "lower", f"the kernel takes {name}, which is none of {', '.join(sorted(self.tensors))}"
            )
        return name

    def _parameter(self, arg: Any) -> Parameter:
        if made := self.maps.get(hash(arg)):
            return made
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
