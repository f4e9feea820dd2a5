"""``course lab``: the notebooks in JupyterLab, at the repository's root, with the first one open."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[2]
FIRST = "notebooks/00_start_here.ipynb"
# No news and no updates, so that nobody is asked before they begin; line numbers, which verdicts name
SETTINGS = Path(__file__).with_name("lab_settings")


def lab(console: Console, options: list[str]) -> int:
    """Become JupyterLab. Does not return where it is installed.

    Raises ModuleNotFoundError without JupyterLab, and ValueError where there are no notebooks.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise ModuleNotFoundError("JupyterLab is not installed")
    if not (ROOT / FIRST).exists():
        raise ValueError(f"there are no notebooks in {ROOT}: this needs a checkout of the course")
    here = os.path.dirname(sys.executable)
    environment = os.environ | {"PATH": here + os.pathsep + os.environ.get("PATH", "")}
    os.execve(sys.executable, command(options), environment)


def command(more: list[str]) -> list[str]:
    """How JupyterLab is started; ``more`` are options of its own."""
    as_root = ["--allow-root"] * (os.geteuid() == 0)  # in a container
    return [
        *(sys.executable, "-m", "jupyterlab", *as_root),
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/{FIRST}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        *more,
    ]
