"""The table of planted faults: every edit has its place, and a file says what it means or is refused."""

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.faults import kernels, read, table
from course_utils.compile.load import edited, file_source, solution_path

OUTCOMES = {"right", "wrong", "race", "hang", "fault", "refused"}


def test_every_edit_has_its_place():
    for fault in table():
        same = fault.source() == solution_path(fault.step, fault.dsl).read_text()
        assert same == (not fault.edits) and (fault.edits or fault.judged_as), fault


def test_an_edit_stands_once():
    rows = {(one.step, one.dsl, one.edits) for one in table()}
    assert len({(one.step, one.dsl, one.source()) for one in table()}) == len(rows)


def test_a_fault_says_what_becomes_of_it():
    for one in table():
        assert one.fails is not None or one.lacks or one.drill or one.variant, one
        assert one.outcome in OUTCOMES or not (one.what or one.drill or one.outcome), one
        assert one.fails or not (one.says and one.line), one


def test_wrong_kernels_are_found_by_name():
    assert "no_phase_flip" in kernels("tilelang") and "nested_elect" in kernels("cute")
    assert list(kernels("cute")) == sorted(kernels("cute")) and kernels("no_such_dsl") == {}
    assert set(kernels("cute", "task")) & set(kernels("cute")) == set()
    wrong = kernels("tilelang")["no_phase_flip"]
    assert (wrong.step, wrong.fails, wrong.needs_gpu) == ("step05", "results", True)
    assert "mbarrier_wait_parity(full[stage], 0)" in file_source(wrong.factory()) == wrong.source()


ROWS = """
size = [128, 128, 64]
["first"]
edits = [["a", "b"], ["b", "c"]]
check = { fails = "instructions", never = ["x"], ctas = [0] }
["second"]
edits = "first"
check = { size = [256, 256, 64], fails = "results" }
spread = ["", "end"]
"""


def written(tmp_path, text):
    path = tmp_path / "cute" / "step03.toml"
    path.parent.mkdir()
    path.write_text(text)
    return read(path)


def test_a_file_gives_its_faults(tmp_path):
    first, second = written(tmp_path, ROWS)
    assert str(first) == "step03 cute first" and first.edits == second.edits == (("a", "b"), ("b", "c"))
    assert edited("a", *first.edits) == "c"
    assert (first.size, first.ctas, first.never, first.needs_gpu) == ((128, 128, 64), (0,), ("x",), False)
    assert (second.size, second.ctas, second.needs_gpu) == ((256, 256, 64), None, True)
    assert (first.drill, second.drill, second.spread) == (False, True, ("", "end"))


@pytest.mark.parametrize(
    "text, error",
    [
        ("[one", ValueError),
        ("[one]\ncheck = {}", KeyError),
        ('[one]\nedits = "two"', KeyError),
        ('[one]\nedits = [["a", "b"]]\nsaid = 1', TypeError),
        ('[one]\nedits = [["a", "b"]]\ncheck = { sais = ["x"] }', TypeError),
    ],
)
def test_a_file_that_means_nothing_is_refused(tmp_path, text, error):
    with pytest.raises(error):
        written(tmp_path, text)


def test_a_text_that_is_not_there_once_is_named(tmp_path):
    (fault,) = written(tmp_path, '[one]\nedits = [["no such text", ""]]')
    with pytest.raises(ValueError, match="step03 cute one has 0 times, not once: no such text"):
        fault.source()
    with pytest.raises((ValueError, CompileError), match="no such text"):
        fault.factory()
