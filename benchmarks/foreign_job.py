"""One job of ``foreign.py``, in a process of its own: DSL ROOT FILE PRELUDE CALL [ARGUMENTS ...]."""

import importlib.util
import json
import os
import re
import resource
import runpy
import sys
import traceback
from pathlib import Path

import foreign_host
import torch

from course_utils.compile.errors import CompileError
from course_utils.run.emulator import EmulatorError

COMPARES = re.compile(r"assert|similar|calc_diff|check|compare|validate|_err\b|get_.*err", re.I)
HOSTS = ("torch", "pytest", "foreign_host", "foreign_job")  # whose errors are no compiler's


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


def case(test, _which=0, **changes):
    """Call a test of pytest's with its first parameters, but for these changes. Parameters that come as one
    dict are changed in it.
    """
    given = {}
    for mark in reversed(getattr(test, "pytestmark", ())):
        if mark.name != "parametrize":
            continue
        names = mark.args[0]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = list(mark.args[1])
        row = rows[_which if len(rows) > _which else 0]
        if type(row).__name__ == "ParameterSet":
            row = row.values
        elif len(names) == 1:
            row = [row]
        given |= dict(zip(names, row, strict=True))
    if set(given) == {"params"}:
        given = {"params": {**given["params"], **changes}}
    else:
        given |= changes
    foreign_host.LOG.compared += 1
    test(**given)


def _is_beside(function, root):
    """Is it of the repository's own code?"""
    home = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    return home is not None and Path(home).resolve().is_relative_to(root)


def load(path, root):
    if (path.parent / "__init__.py").exists():  # of a package
        name, folder = path.stem, path.parent
        while (folder / "__init__.py").exists():
            name, folder = f"{folder.name}.{name}", folder.parent
        sys.path.insert(0, str(folder))
        return importlib.import_module(name)
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    for name, value in vars(module).items():
        if callable(value) and COMPARES.search(name) and _is_beside(value, root):
            setattr(module, name, foreign_host.compared(value, name))
    return module


def _chain(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def outcome(error):
    """right, finding, stopped, wrong, crashed, refused, uncompiled or failed, and what to say."""
    log = foreign_host.LOG
    if log.stopped:
        return "stopped", log.findings[0][1]
    if log.differ:
        return "wrong", log.differ[0]
    for one in _chain(error):
        if isinstance(one, (EmulatorError, CompileError)):
            return "refused", str(one)
        if isinstance(one, AssertionError) and log.launches:
            return "wrong", f"AssertionError: {one}"
        if isinstance(one, ImportError):
            return "failed", f"{type(one).__name__}: {one}"
    if error is not None:
        last = list(_chain(error))[-1]
        said = f"{type(last).__name__}: {last}"
        if foreign_host.is_of_emulator(last):
            return "crashed", said
        return ("uncompiled" if foreign_host.is_of_compiler(last) else "failed"), said
    if not log.launches:
        return "failed", "it launched no kernel"
    if not log.compared:
        return "failed", "it compared nothing"
    return ("finding", log.findings[0][1]) if log.findings else ("right", "")


def main():
    dsl, root, file, prelude, call, *argv = sys.argv[1:]
    root = Path(root).resolve()
    sys.argv = [file, *argv]
    limit = int(os.environ["FOREIGN_LIMIT"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    foreign_host.on_cpu()
    torch.manual_seed(0)
    at_hand = {"torch": torch, "layernorm": layernorm, "close": close, "case": case}
    at_hand["script"] = lambda: runpy.run_path(str(root / file), run_name="__main__")
    if dsl == "tilelang":
        import tilelang.language

        foreign_host.tilelang()
        at_hand["T"] = tilelang.language
    else:
        foreign_host.cute()
        import cutlass

        at_hand["c"] = cutlass
    error = None
    try:
        exec(prelude, at_hand)
        exec(call, {**at_hand, "m": load(root / file, root)})
    except (Exception, SystemExit) as raised:
        traceback.print_exc()
        error = raised
    verdict, said = outcome(error)
    log = foreign_host.LOG
    told = {
        "outcome": verdict,
        "said": said[:500],
        "kinds": sorted({kind for kind, _ in log.findings}),
        "launches": log.launches,
        "warp_instructions": log.executed,
        "seconds": round(log.seconds, 2),
    }
    print("FOREIGN " + json.dumps(told), flush=True)


main()
