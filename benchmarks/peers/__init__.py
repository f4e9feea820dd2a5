"""Other people's GEMMs, timed as the course times its own: each module imports one where it is installed.

``prepare(A, B, D)`` of a module gives a function without arguments that queues D = A @ B^T on the current
stream and returns D, or the tensor that the peer writes to instead. It raises ``NotInstalled``.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

LARGE = (8192, 8192, 8192)
# the shapes of step 11: M, N, K. In 7B and 70B layers M is the tokens of a batch, N what the layer puts out
# fmt: off
SHAPES = {
    "square 2048": (2048, 2048, 2048), "square 3072": (3072, 3072, 3072), "square 4096": (4096, 4096, 4096),
    "square 5120": (5120, 5120, 5120), "square 6144": (6144, 6144, 6144), "square 8192": LARGE,
    "square 12288": (12288, 12288, 12288), "square 16384": (16384, 16384, 16384),
    "oblong": (8192, 2304, 5120), "oblong, deep": (4096, 4096, 11264), "tall": (16384, 2048, 4096),
    "tall, shallow": (32768, 1024, 2048), "wide": (2048, 16384, 4096), "wide, shallow": (1024, 32768, 2048),
    "7B qkv": (4096, 12288, 4096), "7B up": (4096, 11008, 4096), "7B down": (4096, 4096, 11008),
    "70B qkv": (4096, 10240, 8192), "70B up": (4096, 28672, 8192), "70B down": (4096, 8192, 28672),
    "ragged 4104": (4104, 4104, 4104), "ragged 5000": (5000, 3000, 2000), "ragged 8200": (8200, 2312, 5128),
    "ragged 7784": (7784, 4680, 3336),
}
# fmt: on


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
