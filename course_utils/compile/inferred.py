"""The layouts that TileLang's compiler gives to a kernel's buffers. Seen on tilelang 0.1.15."""

from __future__ import annotations

from typing import Any

from course_utils.compile import nvrtc
from course_utils.compile.errors import CompileError
from course_utils.compile.guard import quiet
from course_utils.compile.tilelang import tidy_error


def layouts(prim_func: Any) -> dict[str, Any]:
    """A buffer's name to its Layout or Fragment, as TileLang's pass LayoutInference leaves them.

    A buffer that is missing lies row after row. Raises CompileError where the kernel does not lower.
    """
    import tilelang
    from tilelang import tvm

    found: dict[str, Any] = {}

    def note(node: Any) -> None:
        for buffer, layout in getattr(node, "annotations", {}).get("layout_map", {}).items():
            found[str(buffer.name)] = layout

    @tvm.instrument.pass_instrument
    class Watch:
        def run_after_pass(self, module: Any, info: Any) -> None:
            if info.name.endswith("LayoutInference"):
                for function in module.functions.values():
                    tvm.tirx.stmt_functor.post_order_visit(function.body, note)

    target = tvm.target.Target({"kind": "cuda", "arch": nvrtc.ARCH})
    try:
        with target, quiet(), tvm.transform.PassContext(instruments=[Watch()]):
            tilelang.lower(prim_func, target=target)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError("lower", "TileLang could not lower this kernel: " + tidy_error(error)) from error
    return found
