"""What learners get wrong in steps 1 to 5, and what the check says of it."""

import pytest

from tests.grading.mistakes import Mistake, require_said

MISTAKES = {
    "the barrier's parity never changes": Mistake(
        "step04",
        "tilelang",
        (("T.mbarrier_wait_parity(full, k & 1)", "T.mbarrier_wait_parity(full, 0)"),),
        "results",
        says=("full", "phase 1", "not waited"),
        never=("producer", "empty"),
        line="T.mbarrier_wait_parity(full, 0)",
    )
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_card_says_what_is_wrong(name):
    require_said(MISTAKES[name])
