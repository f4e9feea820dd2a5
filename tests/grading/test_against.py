"""``course check --against``: the page's kernels are right, a wrong one is told so, and so is a reference
that is none.
"""

from pathlib import Path

import pytest
import torch

from course_utils.cli import main
from course_utils.compile.errors import CompileError
from course_utils.grading import against

EXAMPLE = Path(__file__).parents[2] / "notebooks" / "any_kernel"


@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
def test_the_kernels_of_the_page_are_right(dsl, capsys):
    options = ["check", "--against", str(EXAMPLE / "reference.py"), str(EXAMPLE / f"unit_rows_{dsl}.py")]
    assert main(options) == 0
    assert "Y as in reference.py: 1 kernel, 3 schedules" in capsys.readouterr().out


def test_a_wrong_kernel_is_told_where(tmp_path, capsys):
    head, loop, stores = (EXAMPLE / "unit_rows_cute.py").read_text().rpartition("range_constexpr(")
    (tmp_path / "wrong.py").write_text(f"{head}{loop}1, {stores}")  # the first 32 columns are left out
    assert main(["check", "--against", str(EXAMPLE / "reference.py"), str(tmp_path / "wrong.py")]) == 1
    assert "Y is wrong: 1,024 of 8,192 elements, 1,024 of them never written." in capsys.readouterr().out


def test_compare_weighs_an_error_by_the_type_and_takes_nan_for_nan():
    wanted = torch.tensor([1.0, -2.0, float("nan"), float("inf")])
    assert not against.compare(wanted.clone(), wanted)
    assert not against.compare(wanted * (1 + 1e-5), wanted)
    assert "1 of 4" in against.compare(torch.tensor([1.0, -2.0, 0.0, float("inf")]), wanted)
    assert "2 of 4" in against.compare(wanted * 1.01, wanted)
    assert not against.compare(wanted * 1.01, wanted, 0.02)
    whole = torch.tensor([1, 2])
    assert (
        against.compare(whole + 1, whole) == "2 of 2 elements. [0] is 2 and must be 1; [1] is 3 and must be 2"
    )


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "needs two functions: inputs"),
        ("def inputs(): return 3\ndef outputs(): pass", "must be a dict of tensors by name, not int"),
        ("def inputs(): return {'X': 'a'}\ndef outputs(X): pass", "X is str, not a tensor"),
        ("def inputs(): return {'X': [1.0]}\ndef outputs(Y): pass", "does not take what inputs returns"),
        (
            "def inputs(): return {'X': [1.0]}\ndef outputs(X): return {'X': X}",
            "among its inputs and its outputs",
        ),
    ],
)
def test_a_reference_that_is_none_says_what_it_lacks(tmp_path, text, words):
    (tmp_path / "reference.py").write_text(text)
    with pytest.raises(CompileError, match=words):
        against.load_reference(tmp_path / "reference.py")


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "defines no kernel"),
        ("def kernel(): return 3", "returned int, not a PrimFunc"),
        ("def kernel(): raise ValueError('no')", "raised ValueError: no"),
        (
            "import cutlass.cute as cute\ndef kernel():\n    @cute.jit\n    def main(A: cute.Tensor): pass\n"
            "    return main",
            "the kernel takes A, and the reference has X, Y",
        ),
    ],
)
def test_a_file_without_a_kernel_says_so(tmp_path, text, words):
    (tmp_path / "mine.py").write_text(text)
    reference = against.Reference({"X": torch.zeros(1)}, {"Y": torch.zeros(1)})
    with pytest.raises(CompileError, match=words):
        against.compiled(tmp_path / "mine.py", reference)
