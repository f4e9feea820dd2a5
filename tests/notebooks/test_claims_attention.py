"""What notebooks a1 and a2 say of recorded figures is what solutions/measured/attention.json holds, and their
figures are the table of chips'.
"""

import json

import pytest

from course_utils import attention as model
from course_utils.chips import BLACKWELL, HOME
from course_utils.compile.factory import DSLS
from course_utils.figures import attention as drawn
from course_utils.recordings import measured

DATA = json.loads((measured.FOLDER / "attention.json").read_text())
SHAPES = list(dict.fromkeys(entry["shape"] for entry in DATA["entries"]))


def slower(dsl):
    """Shapes at which the persistent kernel is slower than the one before it."""
    found = {shape: drawn.figures(DATA, shape) for shape in SHAPES}
    return {shape for shape, one in found.items() if one["a2c", dsl] < one["a2b", dsl]}


def test_where_a_persistent_grid_loses():
    assert len(SHAPES) == 10
    assert slower("tilelang") == {
        *("D 128, causal", "D 128, 8192, causal", "D 128, 16384, causal", "D 64, causal")
    }
    assert slower("cute") == {"D 128, 8192", "D 128, 16384, causal", "D 96", "D 64, causal"}
    gains = {
        (shape, dsl): one["a2c", dsl] / one["a2b", dsl]
        for shape in SHAPES
        for dsl in DSLS
        for one in [drawn.figures(DATA, shape)]
    }
    for dsl in DSLS:
        assert max(SHAPES, key=lambda shape, dsl=dsl: gains[shape, dsl]) == "D 96, causal"
    assert 0.99 < gains["D 128, 16384, causal", "cute"] < 1


@pytest.mark.parametrize("dsl", DSLS)
def test_the_ladder_rises_and_where_its_largest_step_is(dsl):
    plain, causal = (drawn.figures(DATA, shape) for shape in drawn.SHAPES)
    rungs = list(drawn.RUNGS)
    assert [plain[one, dsl] for one in rungs] == sorted(plain[one, dsl] for one in rungs)
    assert plain["a1", dsl] > plain["flash", ""] and plain["a1b", dsl] < plain["cuDNN", ""]
    assert all(causal[one, dsl] < plain[one, dsl] / 2 for one in ("a1", "a1b"))
    steps = [
        causal[after, dsl] - causal[before, dsl] for before, after in zip(rungs, rungs[1:], strict=False)
    ]
    assert steps.index(max(steps)) == rungs.index("a1b")


def test_what_did_not_help():
    ratios = {(e["shape"], e["rung"], e["dsl"]): e for e in DATA["plans"]["entries"] if e.get("ratio")}

    def share(shape, tile, dsl):
        return ratios[shape, f"a2b_overlap {tile}".strip(), dsl]["ratio"]

    for dsl in DSLS:
        spilling = ratios["D 96", "a2b_overlap 192x128", dsl]
        assert spilling["spills"] and not ratios["D 96", "a2b_overlap 192x96", dsl]["spills"]
        assert 0.6 < share("D 96", "192x128", dsl) / share("D 96", "", dsl) < 0.7
        assert share("D 96", "192x96", dsl) > share("D 96", "", dsl)
        for tile in ("128x192", "128x160", "128x128"):
            for shape in ("D 64", "D 64, causal"):
                assert share(shape, tile, dsl) < share(shape, "", dsl)
        for tile in ("128x176", "128x144", "128x112"):
            assert abs(share("D 128", tile, dsl) - share("D 128", "", dsl)) < 0.02
            assert share("D 128, causal", tile, dsl) < share("D 128, causal", "", dsl) - 0.03


def test_most_recorded_shapes_are_past_cudnn():
    best = [entry for entry in DATA["entries"] if entry["rung"].startswith(("a2b", "a2c"))]
    assert sum(entry["ratio"] > 1 for entry in best) >= 0.9 * len(best)


def test_the_exponentials_take_as_long_as_both_products_at_64():
    assert model.cycles(128, 128, 64) == (1024, 1024) and model.cycles(128, 128, 128) == (2048, 1024)
    assert drawn.share(*model.cycles(1, 1, 64), overlapped=False) == 0.5
    with pytest.raises(ValueError, match="not in the table of chips"):
        model.cycles(128, 128, 64, BLACKWELL)
    words = " ".join(text.get_text() for text in drawn.exponentials().texts)
    assert f"{HOME.flop_per_clock:,} FLOP" in words and "16 ex2" in words


@pytest.mark.parametrize("shapes", [("D 128", "no such shape")])
def test_a_shape_that_was_not_recorded_is_named(shapes):
    with pytest.raises(ValueError, match="no such shape"):
        drawn.ladder(DATA, shapes=shapes)


def test_key_tiles_are_those_that_a_count_of_pairs_finds():
    for causal in (True, False):
        for queries, keys in ((300, 300), (300, 77), (100, 500)):
            for m in range(-(-queries // 128)):
                seen = [
                    [
                        key <= query + keys - queries if causal else True
                        for query in range(m * 128, min((m + 1) * 128, queries))
                        for key in range(n * 64, min((n + 1) * 64, keys))
                    ]
                    for n in range(-(-keys // 64))
                ]
                some, whole = sum(map(any, seen)), sum(all(one) and len(one) % 64 == 0 for one in seen)
                tiles, found_some, found_whole = model.visible(m, 128, 64, queries, keys, causal)
                assert (tiles, found_some) == (len(seen), some)
                full = keys // 64  # a tile that ends past the last key is masked too
                assert found_whole == min(whole, full) or m == queries // 128
