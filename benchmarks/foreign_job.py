"""One job of ``foreign.py``, in a process of its own: SOURCE FILE CALL [ARGUMENTS ...]."""

import importlib.util
import json
import re
import sys
import traceback
from pathlib import Path

import foreign_host
import torch

from course_utils.compile.errors import CompileError
from course_utils.run.emulator import EmulatorError

COMPARES = re.compile(r"assert|similar|calc_diff|check|compare|validate|_err\b|get_.*err", re.I)


def layernorm(m):
    """Forward and backward, as the file's own main does."""
    x, g, b = (torch.randn(*s, requires_grad=True) for s in ((64, 512), (512,), (512,)))
    x, g, b = (t.detach().bfloat16().requires_grad_(True) for t in (x, g, b))
    torch.testing.assert_close(
        m.layer_norm(x, g, b, 1e-5), m.ref_program(x, g, b, 1e-5), rtol=1e-2, atol=1e-2
    )


def close(got, wanted, tolerance=1e-4):
    """Compare as torch does."""
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)


def _is_beside(function, folder):
    """Is it of the example's own code: its file, or a helper's in the same folder?"""
    home = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    return home is not None and Path(home).resolve().is_relative_to(folder.resolve())


def load(path):
    if (path.parent / "__init__.py").exists():  # of a package
        sys.path.insert(0, str(path.parent.parent))
        return importlib.import_module(f"{path.parent.name}.{path.stem}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    for name, value in vars(module).items():
        if callable(value) and COMPARES.search(name) and _is_beside(value, path.parent):
            setattr(module, name, foreign_host.compared(value, name))
    return module


def outcome(error):
    """right, refused, wrong or failed, and what to say."""
    log = foreign_host.LOG
    if log.stopped:
        return "wrong", f"the emulator found fault: {log.findings[0]}"
    if log.differ:
        return "wrong", f"{log.differ[0]} It found: {log.findings[0] if log.findings else 'nothing'}"
    while error is not None:
        if isinstance(error, (EmulatorError, CompileError)):
            return "refused", str(error)
        if isinstance(error, AssertionError) and log.launches:
            return "wrong", f"AssertionError: {error}"
        last, error = error, error.__cause__ or error.__context__
        if error is None:
            return "failed", f"{type(last).__name__}: {last}"
    if not log.launches:
        return "failed", "it launched no kernel"
    if not log.compared:
        return "failed", "it compared nothing"
    return "right", f"it found: {log.findings[0]}" if log.findings else ""


def main():
    source, file, call, *argv = sys.argv[1:]
    sys.argv = [file, *argv]
    foreign_host.on_cpu()
    torch.manual_seed(0)
    at_hand = {"torch": torch, "layernorm": layernorm, "close": close}
    if source == "tilelang":
        import tilelang.language

        foreign_host.tilelang()
        at_hand["T"] = tilelang.language
    else:
        foreign_host.cute()
        import cutlass

        at_hand["c"] = cutlass
        # a repository's own packages: helpers of the examples, quack
        sys.path[:0] = [str(folder) for folder in list(Path(file).resolve().parents)[:8]]
    error = None
    try:
        exec(call, {**at_hand, "m": load(Path(file))})
    except (Exception, SystemExit) as raised:
        traceback.print_exc()
        error = raised
    verdict, said = outcome(error)
    log = foreign_host.LOG
    numbers = {"launches": log.launches, "executed": log.executed, "seconds": round(log.seconds, 2)}
    print("FOREIGN " + json.dumps({"outcome": verdict, "said": said[:500], **numbers}), flush=True)


main()
