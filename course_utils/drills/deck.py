"""Which drills each notebook has, and the question that a seed makes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from course_utils.drills import (
    accumulators,
    barriers,
    budget,
    epilogue,
    heads,
    layouts,
    maps,
    memory,
    order,
    pairs,
    paths,
    plans,
    ring,
    softmax,
    tensor_memory,
    tiles,
)
from course_utils.drills.question import Question

# fmt: off
DECK: dict[str, tuple[Callable[[Random], Question], ...]] = {
    "01": (
        tiles.wgmma_count, tiles.accumulator, budget.accumulator_registers, memory.swizzled_piece,
        order.told(order.IN),
    ),
    "01b": (
        layouts.offset, layouts.by_one_number, layouts.nested, layouts.room, layouts.joined, layouts.composed,
        layouts.left_over, layouts.tile_shape, layouts.basis, layouts.swizzled_byte, layouts.copied_by,
        layouts.accumulates, layouts.value_of, layouts.matrix_lane, layouts.printed, layouts.in_fragment,
    ),
    "02": (tiles.k_slice, tiles.accumulator, tiles.flag_outcome, tiles.fp16_sum, order.told(order.ROUND)),
    "03": (tiles.owner, tiles.cta_rows, tiles.intensity, tiles.waves, tiles.last_wave),
    "04": (
        barriers.expected_bytes, barriers.arrival_count, barriers.state, barriers.passes,
        barriers.parity_of_round, order.told(order.OUT),
    ),
    "05": (
        ring.ring_holds, ring.multiplied_in_step, ring.stage_and_parity, barriers.which_wait,
        ring.old_formula, order.told(order.PREFETCH),
    ),
    "06": (
        tiles.tiles_of_cta, ring.across_tiles, order.told(order.NEXT_TILE), tiles.tile_place,
        tiles.shared_strips, ring.restart,
    ),
    "07": (
        order.told(order.STAGE), ring.may_fill, barriers.passes, barriers.first_waits, budget.register_budget,
        barriers.arrival_count,
    ),
    "08": (
        ring.time_of_a_load, ring.over_after_wait, ring.free_stage, ring.releases, order.told(order.FLIGHT),
    ),
    "09": (
        tiles.pair_row, barriers.multicast_mask, barriers.cluster_bytes, barriers.release_to,
        tiles.forth_and_back, order.told(order.CLUSTER),
    ),
    "10": (
        budget.register_budget, budget.stages_that_fit, budget.role_of_thread, barriers.empty_count,
        tiles.cluster_rounds, order.told(order.CHUNK),
    ),
    "11": (
        order.told(order.UNDER), plans.expected_at_the_edge, plans.written_at_the_edge, plans.next_legal,
    ),
    "11b": (plans.waves, plans.quickest, plans.library_waves),
    "t1": (
        maps.legal_map, memory.turns, memory.narrow_swizzle, memory.expect_or_allocate, maps.loads_of_tile,
        memory.tail,
    ),
    "t2": (
        maps.flat_row, maps.can_flatten, maps.boxes_when_flat, maps.over_the_edge, paths.when_it_pays,
    ),
    "t3": (
        memory.handover, barriers.blocked_phases, barriers.missing_bytes, order.told(order.LOAD),
        ring.old_formula, memory.who_may_write,
    ),
    "t4": (
        maps.loads_ungrouped, maps.bytes_ungrouped, maps.lanes_missing, maps.coordinates, memory.disagreeing,
        order.told(order.COPY),
    ),
    "t5": (
        epilogue.chunk_place, epilogue.buffer_bytes, epilogue.read_by_then, epilogue.wait_before_write,
        epilogue.weakest_wait, order.told(order.OUT),
    ),
    "t6": (
        heads.row_stride, heads.head_of_K, heads.boxes_of_row, heads.who_stores, heads.past_the_end,
        heads.swap_proves,
    ),
    "b01": (
        tensor_memory.lane_of, tensor_memory.warp_reads, tensor_memory.allocation, tensor_memory.mma_count,
        order.told(order.THROUGH_TMEM),
    ),
    "b02": (
        tensor_memory.commit_covers, tensor_memory.commit_parity, tensor_memory.reader_of,
        tensor_memory.legal_shape,
    ),
    "b03": (tensor_memory.ctas_with_columns, tensor_memory.address_of, tiles.cta_rows, tiles.owner),
    "b04": (
        barriers.expected_bytes, tensor_memory.arrivals, tensor_memory.commit_parity,
        order.told(order.OUT_OF_TMEM),
    ),
    "b05": (
        tensor_memory.freed_by, tensor_memory.commits_of, ring.stage_and_parity, barriers.first_waits,
    ),
    "b06": (
        accumulators.columns_over_tiles, ring.across_tiles, accumulators.phase_of_done,
        accumulators.from_the_scheduler,
    ),
    "b07": (
        accumulators.arrivals_of_tiles, accumulators.ring_columns, accumulators.columns_of_tile,
        accumulators.parity_of_tile, accumulators.blocks_on,
    ),
    "b08": (
        accumulators.furthest_load, accumulators.queued, accumulators.stages_beside_D,
        accumulators.barriers_of,
    ),
    "b09": (
        pairs.holder, pairs.expected, pairs.commit_mask, pairs.arrivals, order.told(order.OF_A_PAIR),
    ),
    "b10": (pairs.columns_in_use, pairs.row_of_warp, pairs.furthest_load, pairs.stages_of_pair),
    "a1": (
        softmax.row_of_lane, softmax.running_total, softmax.masked_weight, softmax.registers_of_thread,
        softmax.stages_of_both, softmax.released,
    ),
    "a2": (
        softmax.quickest, softmax.named_count, order.told(order.TWO_PRODUCTS), softmax.skipped,
        softmax.masked, softmax.long_and_short,
    ),
}
# fmt: on
TRIES = 100  # draws until one differs from its neighbours


def question(notebook: str, number: int, seed: int = 0) -> Question:
    """Drill ``number``, from 1, of a notebook. No seed makes the question of the seed before or after it.

    Raises KeyError, and IndexError for a number that the notebook has not.
    """
    if not 1 <= number <= len(DECK[notebook]):
        raise IndexError(number)
    found = _draw(notebook, number, seed, 0)
    if seed % 2:  # a seed with an even number takes its first draw, so its neighbours know it
        beside = [_face(_draw(notebook, number, seed + step, 0)) for step in (-1, 1)]
        tries = iter(range(1, TRIES))
        while _face(found) in beside:
            found = _draw(notebook, number, seed, next(tries))
    return found


def _draw(notebook: str, number: int, seed: int, turn: int) -> Question:
    return DECK[notebook][number - 1](Random(f"{notebook} {number} {seed} {turn}"))


def _face(one: Question) -> tuple[str, tuple[str, ...]]:
    """What a learner sees of a question."""
    return one.text, one.options
