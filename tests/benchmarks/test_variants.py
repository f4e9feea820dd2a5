"""Solutions with one thing changed: the same in both DSLs, and what their names say."""

import re

import pytest

from benchmarks import variants
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import table
from course_utils.ptx import receipts


def test_both_dsls_have_the_same_variants_each_of_its_step() -> None:
    named = [{one.name for one in table() if one.variant and one.dsl == dsl} for dsl in DSLS]
    assert named[0] == named[1] and len(named[0]) == 19
    assert all(one.name.startswith(f"{one.step}, ") for one in table() if one.variant)
    made = {(kernel["name"], kernel["dsl"]) for kernel in variants.kernels()}
    assert made == {(name, dsl) for name in named[0] for dsl in DSLS} | {
        (f"{step}, unchanged", dsl) for step in variants.UNCHANGED for dsl in DSLS
    }


@pytest.mark.parametrize(
    "name, stores, waits",
    [
        ("step08, D straight from registers", {}, 1),
        ("step08, D in slices, one buffer, full wait", {2: 4}, 5),  # each slice, and before the end
        ("step08, D in slices, two buffers", {2: 4}, 1),
        ("step09, no multicast", {2: 2}, 1),
    ],
)
def test_a_variant_in_cute_dsl_is_what_it_says(name: str, stores: dict, waits: int) -> None:
    (variant,) = (one for one in table() if (one.name, one.dsl, one.variant) == (name, "cute", True))
    made = compile_factory(variant.factory(), "cute", (256, 256, 320))
    receipt = receipts.read_ptx(made.ptx)
    assert receipt.tensor_stores == stores and bool(receipt.global_stores) == (not stores)
    assert not receipt.multicast_loads and made.resources.spill_stores == 0
    assert len(re.findall(r"bulk\.wait_group\s+0;", made.ptx)) == waits
