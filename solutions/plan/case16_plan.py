"""Case 16: what a launch of step 11 takes, by a model of waves and bytes."""

from course_utils.plans import BLOCK_K, CLOCK, FLOP_A_CYCLE, LAUNCH, LINES, ROW, TURN, plans


def seconds(M, N, K, plan):
    ### BEGIN SOLUTION: a launch's cycles, from its waves and what a tile multiplies and loads
    clusters = -(-M // (plan.block_M * plan.cluster)) * -(-N // plan.block_N)
    waves = -(-clusters // (plan.num_ctas // plan.cluster))  # the last one may be nearly empty
    rows = plan.block_M + plan.block_N / plan.cluster  # a CTA loads its A, and its share of B
    load = rows * ROW * (LINES if K % BLOCK_K else 1)
    k_tile = 2 * plan.block_M * plan.block_N * BLOCK_K / FLOP_A_CYCLE + load
    cycles = LAUNCH + waves * (-(-K // BLOCK_K) * k_tile + TURN)
    return cycles / CLOCK
    ### END SOLUTION


def choose(M, N, K):
    return min(plans(), key=lambda plan: seconds(M, N, K, plan))
