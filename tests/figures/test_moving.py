"""The figures that move: their numbers against the course's models, and what each needs to stand alone."""

import re
from html import escape
from itertools import product
from xml.etree import ElementTree

import pytest

from course_utils.chips import HOME
from course_utils.drills import barriers, memory
from course_utils.drills import ring as rings
from course_utils.figures import theme, tiles
from course_utils.figures.moving import FIGURES, moving, multicast, phases, ring, swizzle, waves
from course_utils.tma.layouts import bank, row_pitch

LIMIT = 60_000  # bytes of one figure's HTML, its still picture included


@pytest.mark.parametrize("name", FIGURES)
def test_one_piece_of_html_small_and_with_nothing_from_outside(name):
    made = moving(name)._repr_mimebundle_()
    html, still = made["text/html"], made["image/svg+xml"]
    assert set(made) == {"text/plain", "text/html", "image/svg+xml"} and "{{" not in html
    assert len(html.encode()) < LIMIT
    assert not re.search(r"https?:|src=\"(?!data:)|url\(|@import|\bfetch\(|import\(", html)
    assert html.count("<script") == html.count("</script") == 1
    assert moving(name).html() == html  # a notebook that is run again does not change
    assert 'role="img"' in html and 'aria-live="polite"' in html and escape(made["text/plain"]) in html
    assert "prefers-reduced-motion" in html
    root = ElementTree.fromstring(still)
    assert root.get("aria-label") and int(root.get("width")) == 800 and root.get("font-size") == "12"
    drawn = set(re.findall(r"#[0-9a-f]{6}", still))
    assert drawn <= {light for light, _ in theme.PAGE.values()}


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_of_the_still_picture_leaves_it(name):
    texts = re.findall(
        r'<text x="([\d.]+)" y="(\d+)"[^>]*text-anchor="start"[^>]*>([^<]*)<', moving(name).svg()
    )
    height = int(re.search(r'height="(\d+)"', moving(name).svg())[1])
    for x, y, text in texts:
        assert float(x) + 7.2 * len(text) < 800 + 40 and int(y) < height, text


def test_every_piece_lies_where_tma_puts_it():
    for code, name in ((0, "none"), (1, "32B"), (2, "64B"), (3, "128B")):
        made = moving("swizzle", swizzle=name, row=0, column=0).data["modes"][name]
        span, count = made["span"], made["span"] // 16
        assert sorted(sum(made["lies"], [])) == list(range(0, 8 * span, 16))
        for row, piece in product(range(8), range(count)):
            line = row * row_pitch(span, code) // 128
            place = piece ^ line % count if code else piece
            assert made["lies"][row][piece] == row * span + 16 * place
            assert made["xor"][row] == (line % count if code else 0)
            if code:
                assert memory.piece_of(row, piece, code) == place
        for piece in range(count):
            starts = [bank(line[piece]) for line in made["lies"]]
            assert made["ways"][piece] == max(map(starts.count, starts)) == (1 if code else 8)


def test_the_still_swizzle_marks_the_column():
    rows = swizzle.rows(3, 20)
    marked = [cell.text for row in rows for cell in row.cells if cell.colour == "green"]
    assert marked == [f"r{row} p2" for row in range(8)]


@pytest.mark.parametrize(
    "M, N, tile",
    [(1536, 1536, (128, 128)), (4096, 4096, (128, 128)), (256, 8192, (128, 256)), (768, 512, (256, 128))],
)
def test_waves_are_what_taking_every_tile_in_turn_gives(M, N, tile):
    made = waves.count(M, N, *tile)
    down, across = M // tile[0], N // tile[1]
    taken = {tiles.order(one, down, across, across) for one in range(made["tiles"])}
    assert taken == set(product(range(down), range(across)))
    starts = range(0, len(taken), HOME.sms)
    assert made["waves"] == len(starts) and made["last"] == len(taken) - starts[-1]
    assert made["places"] - made["idle"] == len(taken) and 0 <= made["idle"] < HOME.sms


@pytest.mark.parametrize(
    "M, N, tile, cluster, tiles_, number, last",
    [
        (8192, 2304, (128, 256), 2, 288, 5, 24),
        (8192, 2304, (256, 192), 2, 192, 3, 60),
        (4104, 4104, (128, 256), 2, 289, 5, 25),
        (8, 9216, (128, 192), 1, 48, 1, 48),
    ],
)
def test_waves_of_clusters_and_over_the_edge(M, N, tile, cluster, tiles_, number, last):
    made = waves.count(M, N, *tile, cluster)
    assert (made["tiles"], made["waves"], made["last"]) == (tiles_, number, last)
    figure = waves.figure(M, N, tile, cluster)
    assert [one["name"] for one in figure["controls"]] == ["M", "N", "tile", "in"]
    assert f"{tiles_} {'pairs of tiles' if cluster == 2 else 'tiles'} in {number} waves" in figure["words"]


def test_waves_that_the_text_names():
    said = {size: waves.count(size, size, 128, 128) for size in (1536, 4096, 8192)}
    assert [(one["waves"], one["last"]) for one in said.values()] == [(2, 12), (8, 100), (32, 4)]


@pytest.mark.parametrize("stages", ring.STAGES)
@pytest.mark.parametrize("ahead", [False, True])
def test_the_ring_at_every_tick_is_the_drills_ring(stages, ahead):
    made = ring.times(stages, ahead)
    for tick, one in enumerate(ring.run(stages, ahead)["frames"]):
        newest = max(tile for tile in range(ring.TILES) if made[tile].asked <= tick)
        held = rings.holds(newest, stages)
        assert {i: slot[0] for i, slot in enumerate(one["slots"]) if slot[0] >= 0} == held
        if one["producer"]:
            tile, stage, parity = one["producer"]
            assert (stage, 1 - parity) == rings.place(tile, stages) and tile == newest + 1
            before = tile - stages  # its wait on empty passes when the tile before it in the stage is over
            passes = barriers.Barrier(1, one["slots"][stage][3]).passes(parity)
            assert passes == (before < 0 or made[before].over <= tick)
            assert not (ahead and passes)
        if one["consumer"]:
            tile, stage, parity, multiplies = one["consumer"]
            assert (stage, parity) == rings.place(tile, stages)
            assert barriers.Barrier(1, one["slots"][stage][2]).passes(parity) == (made[tile].landed <= tick)
            assert multiplies == (made[tile].begun <= tick)


def test_asking_ahead_hides_what_the_formula_says():
    """A load may take stages - 1 multiplications before the consumer waits for a tile."""
    for stages in ring.STAGES:
        made = ring.times(stages, ahead=True)
        assert made[-1].over == {2: 17, 3: 13, 4: 11}[stages]
        gaps = [other.begun - one.over for one, other in zip(made, made[1:], strict=False)]
        assert (max(gaps) == 0) == ((stages - 1) * ring.MULTIPLY >= ring.LOAD)
        assert ring.times(stages, ahead=False)[-1].over == ring.TILES * (ring.LOAD + ring.MULTIPLY)


@pytest.mark.parametrize("count, expect", [(1, 32768), (2, 24576), (4, 64)])
def test_phases_are_the_drills_barrier(count, expect):
    barrier, made = barriers.Barrier(count), moving("phases", count=count, expect=expect).data
    seen = []
    for _, numbers in phases.events(count, expect):
        barrier.expect(numbers.get("expected", 0))
        if numbers.get("landed"):
            barrier.land(numbers["landed"])
        if numbers.get("arrivals"):
            barrier.arrive(numbers["arrivals"])
        seen.append((barrier.phase, barrier.pending, barrier.bytes))
        for parity in (0, 1):
            said = made["why"][len(seen) - 1][parity].split(":")[0]
            assert said == ("passes" if barrier.passes(parity) else "blocks")
    assert made["states"] == seen and [one[0] for one in seen][-1] == 2
    assert made["steps"] == len(seen) == len(made["says"])


@pytest.mark.parametrize("by", multicast.BY)
def test_both_fulls_of_a_cluster_count_all_that_lands(by):
    seen = multicast.steps(by)
    assert [one["full"][0][0] for one in seen][-1] == [one["full"][1][0] for one in seen][-1] == 1
    assert {one["empty"][cta] for one in seen[:-2] for cta in (0, 1)} == {(0, 2)}
    assert seen[-2]["empty"] == [(0, 1)] * 2 and seen[-1]["empty"] == [(1, 2)] * 2
    for cta in (0, 1):
        landed = sum(arrow[2:] == ("full", cta) for one in seen for arrow in one["arrows"])
        assert landed == 3  # A, and both halves of B
        loads = {0: (0, 1), 1: (0, 1)} if by == "each half" else {0: (0, 1), 1: ()}
        told = {arrow[3] for one in seen for arrow in one["arrows"] if arrow[:2] == ("consumer", cta)}
        assert told >= barriers.writers(cta, loads | {cta: (cta, *loads[cta])})
    asked = [one["full"][0][2] for one in seen][1]
    assert asked == multicast.A + multicast.B == 32_768
    assert min(one["full"][1][2] for one in seen) == (-8192 if by == "each half" else -16384)


@pytest.mark.parametrize(
    "name, options, error, says",
    [
        ("rings", {}, ValueError, "first_screen, multicast, phases, ring, swizzle, waves"),
        (None, {}, ValueError, "There is no moving figure None"),
        ("ring", {"stages": 0}, ValueError, "stages is 2, 3 or 4, not 0"),
        ("ring", {"stages": "4"}, ValueError, "stages is 2, 3 or 4, not '4'"),
        ("ring", {"empty": 1}, ValueError, "empty is True or False"),
        ("ring", {"stage": 2}, TypeError, "moving(\"ring\") takes stages, empty, not 'stage'"),
        ("first_screen", {"stages": 2}, TypeError, "takes no option"),
        ("phases", {"count": 0}, ValueError, "1 to 4, not 0"),
        ("phases", {"expect": 100}, ValueError, "a multiple of 64, not 100"),
        ("multicast", {"by": "both"}, ValueError, "'each half', 'rank 0', not 'both'"),
        ("swizzle", {"swizzle": 3}, ValueError, "'128B', '64B', '32B', 'none', not 3"),
        ("swizzle", {"row": 8}, ValueError, "row is a whole number from 0 to 7, not 8"),
        ("swizzle", {"swizzle": "32B", "column": 16}, ValueError, "from 0 to 15, not 16"),
        ("waves", {"M": 1000}, ValueError, "M must be a multiple of the tile's 128, not 1000"),
        ("waves", {"N": 384}, ValueError, "N is a multiple of 256, up to 8,192, not 384"),
        ("waves", {"N": 0}, ValueError, "N must be a multiple of the tile's 128, not 0"),
        ("waves", {"M": 16384}, ValueError, "up to 8,192, not 16,384"),
        ("waves", {"tile": (64, 64)}, ValueError, "(128, 128), (128, 256), (256, 128), not (64, 64)"),
        ("waves", {"tile": 128}, ValueError, "(256, 128), not 128"),
        ("waves", {"cluster": 4}, ValueError, "cluster is 1 or 2, not 4"),
        ("waves", {"M": 4100, "cluster": 2}, ValueError, "M is a multiple of 8, up to 9,216, not 4,100"),
        ("waves", {"N": 16384, "cluster": 1}, ValueError, "up to 9,216, not 16,384"),
        ("waves", {"N": "8", "cluster": 1}, ValueError, "N must be a multiple of 8, not '8'"),
    ],
)
def test_what_does_not_fit_is_told_what_there_is(name, options, error, says):
    with pytest.raises(error, match=re.escape(says)):
        moving(name, **options)
