"""Sizes at which step 11's chooser takes tall tiles whatever a grading draws: for ``ANY_SHAPE`` of the steps.

    python benchmarks/step11_sizes.py

Run it after the model was fitted anew, where tests/grading/test_sizes.py says that a height is missing. A
grading makes each side longer by up to 48 elements. Sizes that take the least to emulate come first.
"""

import random
import time
from itertools import product

from course_utils.plans import choose, waves

SECONDS, SHOWN = 200, 5
DEPTHS = 264, 520, 776, 1032, 1480, 1544, 2056, 3080  # ragged, as TMA sees them
WAVES = {128: 4, 256: 3, 192: 2}  # tiles of the busiest cluster, at least


def is_safe(size: tuple[int, int, int], high: int) -> bool:
    """Does every size that a grading may draw from this one have tiles of this height, and enough waves, in
    both DSLs?
    """
    for dsl, *more in product(("tilelang", "cute"), (0, 16, 48), (0, 16, 48), (0, 48)):
        M, N, K = (side + some for side, some in zip(size, more, strict=True))
        plan = choose(M, N, K, dsl=dsl)
        if plan.block_M != high or waves(M, N, plan) < WAVES[high]:
            return False
    return True


def main() -> None:
    rng, found = random.Random(3), {high: [] for high in WAVES}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        size = 16 * rng.randrange(75, 575) + 8, 16 * rng.randrange(50, 350) + 8, rng.choice(DEPTHS)
        plan = choose(*size)
        if plan.block_M in found and is_safe(size, plan.block_M):
            work = waves(*size[:2], plan) * plan.block_M * plan.block_N * size[2]
            found[plan.block_M].append((work, size, plan))
    for high, sizes in found.items():
        print(f"{high} rows: {len(sizes)} sizes")
        for _, size, plan in sorted(sizes)[:SHOWN]:
            print(f"  {size}  {tuple(plan)}  {waves(*size[:2], plan)} waves")


if __name__ == "__main__":
    main()
