"""What a launch can reach at most on a chip that nobody here has: arithmetic from published limits.

Nothing of it is measured on that chip. What it borrows of an H200 is said where it is borrowed.
"""

from __future__ import annotations

from typing import NamedTuple

from course_utils import plans
from course_utils.chips import CHIPS, HOME, Chip
from course_utils.plans import Plan
from course_utils.recordings import measured

B200 = CHIPS["NVIDIA B200"]
SIZES = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 2304, 5120))  # steps.TIMED_SIZES
# A step's tile as a plan has it: rows of a CTA, columns of the cluster's tile, CTAs of a cluster. A CTA loads
# its rows of A, and its share of the rows of B: by a multicast on Hopper, for the pair's MMA on Blackwell.
TILES = {
    HOME: {"step08": (128, 128, 1), "step09": (128, 128, 2), "step10": (128, 256, 2)},
    B200: {"b08": (128, 128, 1), "b09": (128, 256, 2), "b10": (256, 256, 2)},
}
# Joules, as ``plans`` has them in seconds at an H200's power limit: of a FLOP, where multiplying alone leaves
# ``BUSY_CLOCK``, of a byte that L2 brings to an SM, and of one that DRAM brings to L2.
FLOP_JOULES = HOME.watts / (HOME.sms * HOME.flop_per_clock * plans.BUSY_CLOCK)
L2_JOULES, DRAM_JOULES = HOME.watts * plans.L2_BYTE, HOME.watts * plans.DRAM_BYTE


class Bounds(NamedTuple):
    """What limits a launch. Speeds in TFLOP/s.

    ``waves`` are rounds of tiles, of whose places the share ``filled`` has one. ``loads`` are bytes that an
    SM has to load per clock while its tensor cores never wait. ``multiply``: waves at the published peak
    alone. ``load``: the same where L2 brings an SM no more bytes per clock than on an H200. ``power``: what
    the power limit allows where FLOP and bytes cost the joules that they cost on an H200.
    """

    waves: int
    filled: float
    loads: float
    multiply: float
    load: float
    power: float

    @property
    def least(self) -> float:
        return min(self.multiply, self.load, self.power)


def bounds(chip: Chip, size: tuple[int, int, int], tile: tuple[int, int, int]) -> Bounds:
    """Bounds of one launch. ``size`` is M, N, K; ``tile`` as ``TILES`` has it.

    Raises ValueError for a chip whose limits nobody has published, and for a K that is no multiple of 64.
    """
    if not chip.clock or not chip.watts:
        known = ", ".join(one.name for one in CHIPS.values() if one.clock and one.watts)
        raise ValueError(f"no peak and power limit are known of {chip.name}; they are of {known}")
    M, N, K = size
    if K % plans.BLOCK_K:
        raise ValueError(f"K is a multiple of {plans.BLOCK_K} here, not {K}")
    block_M, block_N, cluster = tile
    plan = Plan(block_M, block_N, cluster, chip.sms // cluster * cluster)
    tiles, places = -(-M // (block_M * cluster)) * -(-N // block_N), chip.sms // cluster
    waves = -(-tiles // places)
    cycles = 2 * block_M * block_N * plans.BLOCK_K / chip.flop_per_clock  # of a K tile
    brought = (block_M + block_N / cluster) * plans.LINE_BYTES  # a row of a K tile is a line
    flop, k_tiles = 2 * M * N * K, waves * K // plans.BLOCK_K
    loaded, fetched = plans.traffic(M, N, K, plan)
    joules = flop * FLOP_JOULES + loaded * L2_JOULES + fetched * DRAM_JOULES
    seconds = k_tiles * cycles / chip.clock, k_tiles * max(cycles, brought / plans.L2) / chip.clock
    multiply, load, power = (flop / time / 1e12 for time in (*seconds, joules / chip.watts))
    return Bounds(waves, tiles / (waves * places), brought / cycles, multiply, load, power)


def predicted() -> str:
    """The table of a B200, in Markdown."""
    head = "| step | M x N x K | waves | places filled | bytes per SM and clock | multiply | load | power |"
    rows = [head, "|---|---|---|---|---|---|---|---|"]
    for step, tile in TILES[B200].items():
        for size in SIZES:
            found = bounds(B200, size, tile)
            speeds = f"{found.multiply:,.0f} | {found.load:,.0f} | {found.power:,.0f} |"
            what = f"| {step} | {_words(size)} | {found.waves} | {found.filled:.0%} | {found.loads:.0f} |"
            rows.append(f"{what} {speeds}")
    return "\n".join(rows)


def compared() -> str:
    """The same arithmetic for an H200 beside what was recorded on one, bursts of the quicker language."""
    head = "| step | M x N x K | least bound | recorded | bound / recorded |"
    rows = [head, "|---|---|---|---|---|"]
    for step, tile in TILES[HOME].items():
        for size in SIZES:
            least, seen = bounds(HOME, size, tile).least, recorded(step, size)
            rows.append(f"| {step} | {_words(size)} | {least:.0f} | {seen:.0f} | {least / seen:.2f} |")
    return "\n".join(rows)


def recorded(step: str, size: tuple[int, int, int]) -> float:
    """TFLOP/s of the quickest recorded burst of a step's solutions, on an H200."""
    return max(
        timing["tflops"]
        for entry in measured.ladder()["entries"]
        if entry["step"] == step
        for timing in entry["timings"]
        if tuple(timing["size"]) == size and timing["mode"] == "burst"
    )


def _words(size: tuple[int, int, int]) -> str:
    return " x ".join(f"{side:,}" for side in size)
