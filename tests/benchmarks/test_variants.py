"""Solutions with one thing changed: the same in both DSLs, and what their names say."""

import re

import pytest

from benchmarks import variants
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import edited, plant, solution_path
from course_utils.ptx import receipts


def test_both_dsls_have_the_same_variants_and_every_edit_has_its_place() -> None:
    assert list(variants.VARIANTS_CUTE) == list(variants.VARIANTS)
    for dsl, table in (("tilelang", variants.VARIANTS), ("cute", variants.VARIANTS_CUTE)):
        for name, edits in table.items():
            source = solution_path(name[:6], dsl).read_text()
            assert (edited(source, *edits, name=name) == source) == name.endswith("unchanged")


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
    gemm = plant(name[:6], "cute", *variants.VARIANTS_CUTE[name])
    made = compile_factory(gemm, "cute", (256, 256, 320))
    receipt = receipts.read_ptx(made.ptx)
    assert receipt.tensor_stores == stores and bool(receipt.global_stores) == (not stores)
    assert not receipt.multicast_loads and made.resources.spill_stores == 0
    assert len(re.findall(r"bulk\.wait_group\s+0;", made.ptx)) == waits
