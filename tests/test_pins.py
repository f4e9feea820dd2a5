"""Every version is pinned, in one place, and what is installed is what the pins say."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PINS = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
CONSTRAINTS = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
]
ENVIRONMENT = (ROOT / "environment.yml").read_text()


def name(pin):
    return canonicalize_name(Requirement(pin).name)


def test_pinned_to_one_version():
    pins = PINS + CONSTRAINTS + PYPROJECT["build-system"]["requires"]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", pin)] == []


def test_no_package_is_pinned_twice():
    names = [name(pin) for pin in PINS + CONSTRAINTS]
    assert sorted(names) == sorted(set(names))


def test_build_and_run_with_one_setuptools():
    assert [pin for pin in CONSTRAINTS if name(pin) == "setuptools"] == PYPROJECT["build-system"]["requires"]


def test_environment_yml_repeats_pyproject():
    # The pip list is the last and the deepest one.
    lines = re.findall(r"^ {6}- (.+)$", ENVIRONMENT, flags=re.M)
    assert lines == ["-c constraints.txt", *PINS, "-e ."]


def test_environment_yml_has_a_python_we_support():
    python = re.search(r"^  - python=(\S+)$", ENVIRONMENT, flags=re.M)[1]
    assert python in SpecifierSet(PROJECT["requires-python"])


def installed(pin):
    """The pin of what is installed. A CPU build of torch calls itself 2.13.0+cpu: the same release."""
    try:
        return f"{Requirement(pin).name}=={version(name(pin)).split('+')[0]}"
    except PackageNotFoundError:
        return None


def test_installed_is_what_is_pinned():
    assert [installed(pin) for pin in PINS] == PINS


def test_installed_below_is_what_is_pinned():
    # Some are for another Python or platform only.
    assert {pin: installed(pin) for pin in CONSTRAINTS if installed(pin) not in (pin, None)} == {}


def test_constraints_miss_nothing():
    """Everything the pins pull in is pinned too, by us or to the digit by the package that asks for it."""
    pinned = {name(pin) for pin in PINS + CONSTRAINTS}
    seen, todo, loose = set(), [(name(pin), frozenset()) for pin in PINS], set()
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
            exact = any(spec.operator == "==" and "*" not in spec.version for spec in want.specifier)
            if below not in pinned and not exact:
                loose.add(f"{want} (for {package})")
    # torch's own CUDA packages ask loosely for each other, within what torch pins.
    loose = {line for line in loose if not line.startswith(("nvidia-", "triton"))}
    assert not loose, "run make constraints"
