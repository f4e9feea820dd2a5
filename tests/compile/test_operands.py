"""A multiplication whose tiles do not meet says how B lies, and whether the author's call says so."""

from types import TracebackType

import pytest

from course_utils.compile import operands
from course_utils.grading import steps
from course_utils.problems import PROBLEMS

SIZE = (256, 768, 384)
MESSAGE = "T.gemm K shape check failed: K_A = 64, K_B = 128"
TRANSPOSED = steps.find("task05c").problem


@pytest.fixture
def call(tmp_path):
    """What is raised where a call with these arguments is on a learner's line."""

    def raised(arguments: str) -> BaseException:
        path = tmp_path / "mine.py"
        path.write_text(f"wgmma_gemm(a, b,\n    {arguments})\n".replace("wgmma", "T.wgmma"))

        class T:
            @staticmethod
            def wgmma_gemm(*_, **__):
                raise AssertionError(MESSAGE)

        try:
            exec(compile(path.read_text(), path, "exec"), {"T": T, "a": 0, "b": 0, "flag": True, "more": {}})
        except AssertionError as error:
            frame = error.__traceback__.tb_next  # that of mine.py, and none of this file's
            return error.with_traceback(TracebackType(None, frame.tb_frame, frame.tb_lasti, frame.tb_lineno))

    return raised


@pytest.mark.parametrize(
    "kind, arguments, words",
    [
        (TRANSPOSED, "transpose_B=True", "B is K x N here, and `transpose_B=True` says N x K."),
        (
            TRANSPOSED,
            "clear_accum=True",
            "B is K x N, as the call says: are both tiles sliced in the same way?",
        ),
        ("gemm", "clear_accum=True", "B is N x K, and `transpose_B=True`, which says so, is missing."),
        ("gemm", "transpose_B=False", "`transpose_B=True`, which says so, is missing."),
        ("gemm", "transpose_B=True", "B is N x K, as the call says: are both tiles sliced in the same way?"),
        ("gemm", "transpose_B=flag", "does `transpose_B` say how B, N x K, lies"),
        ("gemm", "**more", "does `transpose_B` say how B, N x K, lies"),
    ],
)
def test_the_layout_of_b_and_what_the_call_says_of_it(call, kind, arguments, words):
    told = operands.explained(MESSAGE, call(arguments), PROBLEMS[kind].tensors(*SIZE))
    assert words in told
    assert told.endswith("A's tile has 64 of K, B's 128.")


def test_another_message_and_another_problem_are_left_alone(call):
    error = call("transpose_B=True")
    assert operands.explained("no message", error, PROBLEMS["gemm"].tensors(*SIZE)) == ""
    assert operands.explained(MESSAGE, error, PROBLEMS["gemm"].tensors(*SIZE)[:1]) == ""
    assert operands.explained(MESSAGE, error, PROBLEMS["gemm"].tensors(256, 384, 384)) == ""
