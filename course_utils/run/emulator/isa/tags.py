"""Tags: another tensor core, whose products show in a result that ``wgmma`` made it, and which warpgroup.

A tagged ``wgmma`` takes each number x of its operands as two, s1(x) x and s2(x) x, with signs drawn for each
bit pattern, so the product of a and b is multiplied by s1(a) s1(b) + s2(a) s2(b). That is no function of a
times one of b: who multiplies by anything but ``wgmma`` gets other numbers, also after a ``wgmma`` by the
identity. Each warpgroup, or each CTA, multiplies its products by a weight of its own; or one warpgroup of
each CTA doubles them. Of tcgen05.mma a warp is in place of a warpgroup.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

PATTERNS = 1 << 16  # of an fp16 number; the first 256 are those of an fp8 one


@dataclass(frozen=True)
class Tags:
    """``seed`` draws the signs. ``by`` is "warpgroup", "warp", "CTA", the number of the warpgroup (or warp)
    that alone doubles its products, or "" where all weights are 1.
    """

    seed: int
    by: str | int = ""
    signs: np.ndarray = field(init=False, repr=False)  # PATTERNS x 2 of 1 and -1

    def __post_init__(self) -> None:
        signs = np.random.default_rng(self.seed).choice(np.array([1, -1], np.int8), (PATTERNS, 2))
        object.__setattr__(self, "signs", signs)

    def weight(self, cta: int, number: int) -> float:
        """Of the products of a warpgroup, or a warp, by its number in its CTA, and of the CTA."""
        if self.by == "warpgroup":
            return 2.0**number
        if self.by == "warp":  # there are more of them
            return 1 + number / 4
        if isinstance(self.by, int):
            return 1.0 + (number == self.by)
        return 1 + cta * 0.618 % 1 if self.by == "CTA" else 1.0
