"""Other people's GEMMs, timed as the course times its own: each module imports one where it is installed.

``prepare(A, B, D)`` of a module gives a function without arguments that queues D = A @ B^T on the current
stream and returns D, or the tensor that the peer writes to instead. It raises ``NotInstalled``.
"""

import importlib.util
from pathlib import Path
from types import ModuleType


class NotInstalled(RuntimeError):
    """This machine lacks the peer; the text says where it comes from."""


def from_file(path: Path, what: str) -> ModuleType:
    """A module of a checkout, by its file. Raises NotInstalled where it is missing or lacks a package."""
    if not path.is_file():
        raise NotInstalled(f"{what}: there is no {path}")
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NotInstalled(f"{what}: {error}") from error
    return module
