"""environment.yml, for conda users, and .binder/requirements.txt: a learner's packages at the versions of
requirements.lock.

``make lock`` runs ``python -m authoring.environment`` after the lock is written. It needs the standard
library only.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
# For conda users: conda env create -f environment.yml && conda activate hopper-gemm-course
# Written from pyproject.toml and requirements.lock by make lock; not edited by hand.
name: hopper-gemm-course
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
"""
BINDER = """\
# For Binder, whose machines have no GPU and little room: torch without CUDA.
# Written from pyproject.toml and requirements.lock by make lock; not edited by hand.
--extra-index-url https://download.pytorch.org/whl/cpu
-c ../requirements.lock
"""


def name(requirement: str) -> str:
    """The package's name, as the lock spells it."""
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", requirement)[0]).lower()


def locked(lock: str) -> dict[str, str]:
    """Each package of a lock file and its version."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock, flags=re.M))


def environment(project: dict, lock: str) -> str:
    """The text of environment.yml: what the project and its extra ``lab`` name, each at its locked version.

    What these pull in is held by the lock, as pip's constraints. Raises KeyError for a package that the lock
    does not have.
    """
    pins = ["-c requirements.lock", *_pins(project, lock), "-e ."]
    return HEAD + "".join(f"      - {pin}\n" for pin in pins)


def binder(project: dict, lock: str) -> str:
    """The text of .binder/requirements.txt: the same, with the build of torch for CPUs.

    Raises KeyError as ``environment`` does.
    """
    pins = [f"{pin}+cpu" if pin.startswith("torch==") else pin for pin in _pins(project, lock)]
    return BINDER + "".join(f"{pin}\n" for pin in [*pins, "-e ."])


def _pins(project: dict, lock: str) -> list[str]:
    versions = locked(lock)
    direct = [name(line) for line in project["dependencies"] + project["optional-dependencies"]["lab"]]
    return [f"{package}=={versions[package]}" for package in direct]


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements.lock").read_text()
    (ROOT / "environment.yml").write_text(environment(project, lock))
    (ROOT / ".binder" / "requirements.txt").write_text(binder(project, lock))


if __name__ == "__main__":
    main()
