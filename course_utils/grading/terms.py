"""Which term of a plan's model differs: what a learner's model says at sizes that differ in one term each.

A term is named only where the model's cycles are those that a known misreading of it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_utils.plans import BLOCK_K, CLOCK, FLOP_PER_CLOCK, L2, LAUNCH, LINE_BYTES, LINES, ROW, TURN, Plan

Size = tuple[int, int, int]

PAIRS = Plan(128, 256, 2, 128)  # 64 clusters
WIDE, SMALL = Plan(128, 256, 1, 128), Plan(128, 64, 1, 128)  # SMALL is loaded longer than multiplied
ONE_WAVE = {PAIRS: (2048, 2048), WIDE: (2048, 2048), SMALL: (2048, 512)}  # M and N
WHOLE, RAGGED = (512, 576), (520, 584)  # K: 8 and 9 K tiles, and a part of one more
NEAR = 0.005  # two counts of cycles are alike

# M and N of PAIRS: 9 x 8 tiles; 8 x 9, where M and N end within a tile; 16 x 8
MORE, PARTS, TWO = (2304, 2048), (1920, 2176), (4096, 2048)
PROBES: tuple[tuple[Size, Plan], ...] = (
    *(((*ONE_WAVE[plan], K), plan) for plan in ONE_WAVE for K in (*WHOLE, *RAGGED)),
    *(((*size, WHOLE[0]), PAIRS) for size in (MORE, PARTS, TWO)),
    ((*TWO, WHOLE[1]), PAIRS),
    ((*ONE_WAVE[PAIRS], 640), PAIRS),
)

Cost = Callable[[Plan, int], float]  # cycles of a K tile of a plan, whose rows lie on so many lines


def _multiply(plan: Plan) -> float:
    return 2 * plan.block_M * plan.block_N * BLOCK_K / FLOP_PER_CLOCK


def _rows(plan: Plan) -> float:
    return plan.block_M + plan.block_N / plan.cluster


def _load(rows: float) -> float:
    return rows * LINE_BYTES / L2


def _of_rows(rows: Callable[[Plan], float]) -> Cost:
    """A K tile, of which a CTA loads so many rows."""
    return lambda plan, each: max(_multiply(plan), _load(rows(plan) * each)) + rows(plan) * each * ROW


RIGHT = _of_rows(_rows)
K_TILE: tuple[tuple[str, Cost], ...] = (
    (
        "A K tile takes the slower of multiplying and loading: your model adds the two.",
        lambda plan, each: _multiply(plan) + _load(_rows(plan) * each) + _rows(plan) * each * ROW,
    ),
    (
        "`ROW` comes on top of the slower of multiplying and loading: your model adds it to loading alone.",
        lambda plan, each: max(_multiply(plan), _load(_rows(plan) * each) + _rows(plan) * each * ROW),
    ),
    (
        "Each line that is loaded costs `ROW` in addition: your model leaves it out.",
        lambda plan, each: max(_multiply(plan), _load(_rows(plan) * each)),
    ),
    (
        "A row lies on `LINES` lines if K is not a multiple of `BLOCK_K`: your model counts one line.",
        lambda plan, each: RIGHT(plan, 1),
    ),
    (
        "L2 delivers whole lines, `LINES` for a row of ragged K: your model counts them for `ROW` alone.",
        lambda plan, each: max(_multiply(plan), _load(_rows(plan))) + _rows(plan) * each * ROW,
    ),
    (
        "Each of a row's `LINES` lines costs `ROW`: your model counts them for L2 alone.",
        lambda plan, each: max(_multiply(plan), _load(_rows(plan) * each)) + _rows(plan) * ROW,
    ),
    (
        "A cluster splits B: each CTA loads `block_N / cluster` of its rows. Your model loads all of them.",
        _of_rows(lambda plan: plan.block_M + plan.block_N),
    ),
    (
        "A CTA loads all rows of its A. Your model splits A as a cluster splits B.",
        _of_rows(lambda plan: (plan.block_M + plan.block_N) / plan.cluster),
    ),
    (
        "A K tile takes as long as its lines take from L2, if that is longer: your model leaves that out.",
        lambda plan, each: _multiply(plan) + _rows(plan) * each * ROW,
    ),
    (
        "L2 delivers `L2` bytes per cycle to each CTA: your model shares them among all CTAs.",
        lambda plan, each: (
            max(_multiply(plan), _load(_rows(plan) * each) * plan.num_ctas) + _rows(plan) * each * ROW
        ),
    ),
    (
        "`TURN` is charged once per tile of D: your model charges it for each K tile.",
        lambda plan, each: RIGHT(plan, each) + TURN,
    ),
)


def differing(seconds: Sequence[float]) -> tuple[str, bool]:
    """The term in which a model differs, in words, and whether it is the count of waves; "" where none is
    known. ``seconds`` is what the model says of ``PROBES``, in their order.
    """
    said = {probe: time * CLOCK for probe, time in zip(PROBES, seconds, strict=True)}

    def at(plan: Plan, K: int, size: tuple[int, int] | None = None) -> float:
        return said[(*(size or ONE_WAVE[plan]), K), plan]

    whole = {plan: at(plan, WHOLE[1]) - at(plan, WHOLE[0]) for plan in ONE_WAVE}
    ragged = {plan: at(plan, RAGGED[1]) - at(plan, RAGGED[0]) for plan in ONE_WAVE}
    each = whole[PAIRS]
    if each <= 0 or not _near(at(PAIRS, 640), at(PAIRS, WHOLE[1]) + each):
        return "", False
    if waves := _waves(at, whole, ragged):
        return waves, True
    for text, cost in K_TILE:
        if _is(cost, whole, ragged):
            return text, False
    base = at(PAIRS, WHOLE[0]) - WHOLE[0] // BLOCK_K * each
    return _k_tiles((at(PAIRS, RAGGED[0]) - base) / ragged[PAIRS]) or _fixed(at, each), False


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= NEAR * abs(other)


def _is(cost: Cost, whole: dict[Plan, float], ragged: dict[Plan, float], pairs: float = 1) -> bool:
    """Whether a K tile costs this at all probes, ``pairs`` times as much in clusters of 2."""
    return all(
        _near(cycles, cost(plan, lines) * (pairs if plan is PAIRS else 1))
        for found, lines in ((whole, 1), (ragged, LINES))
        for plan, cycles in found.items()
    )


def _waves(at: Callable[..., float], whole: dict[Plan, float], ragged: dict[Plan, float]) -> str:
    """How the count of waves differs."""
    if any(_is(cost, whole, ragged, pairs=2) for cost in (RIGHT, *(cost for _, cost in K_TILE))):
        return (
            "The tiles of a cluster belong to one wave: with clusters of 2 your model counts two waves "
            "instead of one."
        )
    one, two = at(PAIRS, WHOLE[0]), at(PAIRS, WHOLE[0], TWO)
    count = (at(PAIRS, WHOLE[1], TWO) - two) / whole[PAIRS]
    if not _near(count, 2) or two <= one:
        return f"128 tiles on 64 clusters are 2 waves, and your model counts {count:.3g}."
    for size, tiles, why in (
        (MORE, "72", "the last wave takes as long as any."),
        (PARTS, "8 x 9", "a part of a tile takes as long as a whole one."),
    ):
        count = 1 + (at(PAIRS, WHOLE[0], size) - one) / (two - one)
        if not _near(count, 2):
            return f"{tiles} tiles on 64 clusters are 2 waves, and your model counts {count:.3g}: {why}"
    return ""


def _k_tiles(count: float) -> str:
    """How the count of K tiles differs: K = 520 has nine."""
    for wrong in (8, 8.125):
        if abs(count - wrong) < 0.02:
            summary = f"K = 520 has 9, and your model counts {wrong:g}."
            return f"A part of a K tile takes as long as a whole one: {summary}"
    return ""


def _fixed(at: Callable[..., float], each: float) -> str:
    """How what a launch and a tile of D cost, whatever K is, differs."""
    tiles, two = WHOLE[0] // BLOCK_K, at(PAIRS, WHOLE[0], TWO)
    first = at(PAIRS, WHOLE[0]) - tiles * each
    second = two - tiles * (at(PAIRS, WHOLE[1], TWO) - two)
    turn, launch = second - first, 2 * first - second
    for text, wanted in (
        ("`TURN` ends each tile of D, the last one too: your model has one too few.", (TURN, LAUNCH - TURN)),
        ("Each tile of D ends in `TURN`: your model leaves it out.", (0, LAUNCH)),
        ("Each tile of D ends in `TURN`: your model has it once.", (0, LAUNCH + TURN)),
        ("`LAUNCH` comes once: your model has it in every wave.", (LAUNCH + TURN, 0)),
        ("A launch costs `LAUNCH`: your model leaves it out.", (TURN, 0)),
    ):
        if abs(turn - wanted[0]) + abs(launch - wanted[1]) < NEAR * LAUNCH:
            return text
    return ""
