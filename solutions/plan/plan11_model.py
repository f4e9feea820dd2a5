"""The model of step 11: what a launch takes, by a model of waves and bytes."""

from course_utils.plans import (
    BLOCK_K,
    CLOCK,
    FLOP_PER_CLOCK,
    L2,
    LAUNCH,
    LINE_BYTES,
    LINES,
    ROW,
    TURN,
    plans,
)


def seconds(M, N, K, plan):
    ### BEGIN SOLUTION: cycles of a launch: its waves, and what a K tile multiplies and loads
    clusters = -(-M // (plan.block_M * plan.cluster)) * -(-N // plan.block_N)
    waves = -(-clusters // (plan.num_ctas // plan.cluster))  # the last one may be nearly empty
    rows = plan.block_M + plan.block_N / plan.cluster  # a CTA loads its A, and its share of B
    lines = rows * (LINES if K % BLOCK_K else 1)
    multiply = 2 * plan.block_M * plan.block_N * BLOCK_K / FLOP_PER_CLOCK
    k_tile = (
        max(multiply, lines * LINE_BYTES / L2) + lines * ROW
    )  # one loads, one is multiplied
    cycles = LAUNCH + waves * (-(-K // BLOCK_K) * k_tile + TURN)
    return cycles / CLOCK
    ### END SOLUTION


def choose(M, N, K):
    plain = [plan for plan in plans() if not plan.swapped and not plan.across]
    return min(plain, key=lambda plan: seconds(M, N, K, plan))
