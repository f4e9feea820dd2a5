"""Changes of step 11: each edit has its place, and each size the changes that fit it."""

import json
import sys
import zipfile

import pytest

from benchmarks import step11_alone
from benchmarks.step11_edits import CHANGES, UNEDITED, Change
from course_utils.compile.load import edited, solution_path
from course_utils.figures.candidates import WHYS
from course_utils.plans import Plan, choose


@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
def test_every_edit_has_its_place(dsl: str) -> None:
    source = solution_path("step11", dsl).read_text()
    for name, change in CHANGES.items():
        edits = getattr(change, dsl)
        if isinstance(edits, str):
            assert 10 < len(edits) < 200, name
        else:
            same = edited(source, *edits, name=name) == source
            assert same == bool(change.promotion is not None or change.plan and not edits)


def test_what_is_timed_has_its_reason() -> None:
    for name, change in CHANGES.items():
        assert isinstance(change.tilelang, str) and isinstance(change.cute, str) or name in WHYS


@pytest.mark.parametrize(
    "change, size, fit",
    [
        (UNEDITED, step11_alone.RAGGED, True),
        (Change([], [], stages=True, overlap=True), step11_alone.SQUARE, True),
        (Change([], [], stages=True, overlap=True), step11_alone.RAGGED, False),  # 65 K tiles
        (Change([], [], overlap=True), step11_alone.OBLONG, False),  # 256 rows: D leaves between tiles
        (Change([], [], plan=Plan(num_ctas=132)), step11_alone.OBLONG, True),
        (Change([], [], plan=Plan(num_ctas=132)), step11_alone.SQUARE, False),  # its last wave is full
    ],
)
def test_a_change_goes_to_the_sizes_that_it_fits(change: Change, size: tuple, fit: bool) -> None:
    assert step11_alone.fits(change, size, change.plan or choose(*size)) is fit


def test_a_change_of_the_maps_is_a_change_of_a_and_b_alone(artifact_of_step11) -> None:
    changed = CHANGES["L2 asked for 256 bytes"].of(artifact_of_step11)
    asked = {p.tensor: p.tensor_map.l2_promotion for p in changed.parameters if p.tensor_map}
    assert asked == {"A": 3, "B": 3, "D": 2} and UNEDITED.of(artifact_of_step11) is artifact_of_step11


@pytest.fixture
def artifact_of_step11():
    from course_utils.compile.factory import compile_factory
    from course_utils.compile.load import plant

    return compile_factory(plant("step11", "cute"), "cute", (264, 264, 72))


def test_the_archive_says_what_is_in_it(tmp_path, monkeypatch, capsys) -> None:
    path = tmp_path / "alone.pyz"
    entry = {"name": "step 11", "dsl": "cute", "artifacts": {"4096x4096x4096": "a.zip"}, "why": ""}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps([entry]))
    monkeypatch.setattr(sys, "argv", [str(path), "--list"])
    assert step11_alone.run() == 0
    assert capsys.readouterr().out == "cute     step 11: 4096x4096x4096\n"
