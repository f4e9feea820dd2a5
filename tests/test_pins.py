"""Every version stands in one lock file, the ranges admit it, and what is installed is what it says."""

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from authoring import environment

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(line) for line in sum(EXTRAS.values(), PROJECT["dependencies"])]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = [line for line in LOCK.splitlines() if line and not line.lstrip().startswith("#")]
LOCKED = environment.locked(LOCK)
ENVIRONMENT = (ROOT / "environment.yml").read_text()
ONE_SET = (
    "tilelang apache-tvm-ffi z3-solver nvidia-cutlass-dsl cuda-bindings nvidia-cuda-nvrtc "
    "nvidia-cuda-runtime nvidia-cuda-cccl"
).split()


def test_locked_to_one_version_each():
    assert [pin for pin in PINS if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9A-Za-z.]*", pin)] == []
    assert len(LOCKED) == len(PINS)


def test_six_sets_of_packages():
    assert set(EXTRAS) == {"lab", "teach", "ray", "site", "test"}
    names = [canonicalize_name(want.name) for want in DIRECT]
    assert sorted(names) == sorted(set(names))


def test_a_learner_gets_no_nbgrader():
    learner = PROJECT["dependencies"] + EXTRAS["lab"]
    assert not [line for line in learner if "nbgrader" in line]


@pytest.mark.skipif(not (ROOT / ".venv" / ".all").exists(), reason="make test has not made .venv")
def test_jupyterlab_of_make_shows_no_nbgrader_menus():
    config = json.loads((ROOT / ".venv/etc/jupyter/labconfig/page_config.json").read_text())
    assert config["disabledExtensions"]["@jupyter/nbgrader"] is True


def test_the_compilers_and_cuda_are_one_set_and_the_rest_of_the_core_are_ranges():
    core = {want.name: str(want.specifier) for want in map(Requirement, PROJECT["dependencies"])}
    exact = {name for name, wanted in core.items() if wanted.startswith("==")}
    assert exact == set(ONE_SET)
    assert {"torch", "numpy", "ipython"} <= set(core) - exact


@pytest.mark.parametrize("want", DIRECT, ids=str)
def test_lock_has_a_version_that_the_range_admits(want):
    assert want.specifier.contains(LOCKED[canonicalize_name(want.name)])


def test_build_and_run_with_one_setuptools():
    assert PYPROJECT["build-system"]["requires"] == [f"setuptools=={LOCKED['setuptools']}"]


def test_environment_yml_is_written_from_the_lock():
    assert environment.environment(PROJECT, LOCK) == ENVIRONMENT, "run make lock"


def test_environment_yml_has_a_python_we_support():
    python = re.search(r"^  - python=(\S+)$", ENVIRONMENT, flags=re.M)[1]
    assert python in SpecifierSet(PROJECT["requires-python"])


def test_environment_wants_every_direct_package_locked():
    project = {"dependencies": ["some_Package>=1"], "optional-dependencies": {"lab": ["other==2"]}}
    lock = "some-package==1.5\n    # via it\nother==2 ; sys_platform == 'linux'\n"
    assert environment.environment(project, lock).endswith(
        "      - -c requirements.lock\n      - some-package==1.5\n      - other==2\n      - -e .\n"
    )
    with pytest.raises(KeyError, match="other"):
        environment.environment(project, "some-package==1.5\n")


def installed(name):
    """The version that is installed, or None. A CPU build of torch says 2.13.0+cpu: the same release."""
    try:
        return version(name).split("+")[0]
    except PackageNotFoundError:
        return None


def test_every_direct_package_is_installed():
    apart = {Requirement(line).name for line in EXTRAS["ray"]}  # for a cluster; `make` does not bring it
    assert [want.name for want in DIRECT if installed(want.name) is None and want.name not in apart] == []


def test_installed_is_what_is_locked():
    # Some are for another Python only, or come with torch's build for CUDA.
    found = {name: installed(name) for name in LOCKED}
    assert {name: at for name, at in found.items() if at not in (LOCKED[name], None)} == {}


def test_lock_misses_nothing():
    """Everything that the direct packages pull in on this machine is in the lock."""
    seen, todo, missing = set(), [(want.name, frozenset(want.extras)) for want in DIRECT], set()
    while todo:
        package, extras = todo.pop()
        if (package, extras) in seen:
            continue
        seen.add((package, extras))
        try:
            wanted = [Requirement(line) for line in requires(package) or []]
        except PackageNotFoundError:
            continue
        for want in wanted:
            if want.marker and not any(want.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                continue
            below = canonicalize_name(want.name)
            todo.append((below, frozenset(want.extras)))
            if below not in LOCKED:
                missing.add(f"{want} (for {package})")
    assert not missing, "run make lock"


def test_citation_and_changelog_know_the_version():
    number = re.escape(PROJECT["version"])
    assert re.search(rf"^version: {number}$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    assert re.search(rf"^## {number} - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
