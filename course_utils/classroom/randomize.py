"""Sizes, CTAs, inputs and schedules of one grading, drawn from a seed that is given after the deadline.

A kernel that knows the sizes at which notebooks try it, and is another one there, is tried at others. What a
size is there for stays: as many tiles or a few more, a K as long against the ring.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from course_utils.grading.steps import CopyCase, Step
from course_utils.plans import BLOCK_K

EXTENT = 256  # what M and N are multiples of
MORE = 1.12  # at most so many times the tiles of the table's size: the emulator takes as much longer
SLIM = 3  # the longer side of D against the shorter, or what the table's size has
UNIT, SIDE = 8, 20  # a ragged side is so many elements more, up to a 20th of it
MORE_ROWS = 16  # of a sequence, fewer
ROWS = 16  # what the rows of a task without a product are a multiple of
SHORT = 4  # K tiles; below, a K is there to be shorter than the ring, and stays
SCHEDULES = 1 << 16
ANY = 1 << 16  # of the CTAs, which count from 0 again after the last


def of(seed: str, *what: str) -> random.Random:
    """The generator of one thing that is drawn: the same seed and names give the same draws anywhere."""
    return random.Random("/".join((seed, *what)))


def step(wanted: Step, seed: str) -> Step:
    """The step with sizes of its own for the emulator and for the GPU."""
    draws = of(seed, wanted.id, "sizes")
    emulated = []
    for size, ctas in wanted.emulated:
        some = None
        if ctas:
            first = draws.randrange(1, ANY)
            some = first, *(first + n for n in ctas[1:-1]), ctas[0], ctas[-1]
        emulated.append((_size(size, draws, wanted), some))
    check_sizes = tuple(_size(size, draws, wanted) for size in wanted.check_sizes)
    few = wanted.fewer_sms
    if few:
        few = _size(few[0], draws, wanted), few[1]
    return replace(wanted, emulated=tuple(emulated), check_sizes=check_sizes, fewer_sms=few)


def real_size(wanted: Step, seed: str) -> tuple[int, ...]:
    """The size that is compiled and not run: nobody knows which, so no kernel is another one there alone."""
    return _size(wanted.real_size, of(seed, wanted.id, "real size"), wanted)


def one_cta(seed: str) -> tuple[int, ...]:
    """The CTA that begins a launch of the real size: nobody knows which."""
    return (of(seed, "real size", "CTA").randrange(ANY),)


def copy(case: CopyCase, seed: str) -> CopyCase:
    """The copy with shapes of its own: other multiples of the table's in the first two dimensions."""
    draws = of(seed, case.id, "shapes")
    shapes = []
    for shape in case.shapes:
        first = shape[0] * draws.choice((1, 2, 3))
        shapes.append((first, *shape[1:]))
    return replace(case, shapes=tuple(shapes))


def schedules(seed: str, count: int) -> tuple[int, ...]:
    """Seeds of the emulator's schedules."""
    draws = of(seed, "schedules")
    return tuple(draws.randrange(SCHEDULES) for _ in range(count))


def inputs(seed: str) -> int:
    """The seed of the inputs."""
    return of(seed, "inputs").randrange(1 << 31)


def tags(seed: str) -> int:
    """The seed of the tags that the judge's tensor cores put on products: D is right only if it has them."""
    return of(seed, "tags").randrange(1 << 31)


def _size(size: tuple[int, ...], draws: random.Random, wanted: Step) -> tuple[int, ...]:
    if len(size) == 2:  # rows, and how long they are
        return size[0] + ROWS * draws.randrange(3), size[1]
    if len(size) == 6:  # batch, rows of Q, rows of K, and what a head is: TMA stores S as before, or cannot
        batch, rows, columns, *heads = size
        longer = draws.randrange(1, MORE_ROWS) if rows > 1 else 0
        return batch, rows + longer, columns + UNIT * draws.randrange(5), *heads
    if len(size) == 4:  # of a batch, whose matrices have no tile in common
        batch, rows, columns, depth = size
        return batch, rows + draws.randrange(-ROWS, ROWS), columns, depth
    M, N, K = size
    tall = 2 if "512 columns" in wanted.requires else 1  # of a tile with 512 rows
    if K % BLOCK_K:  # of the step whose tiles hang over D's edge
        return _ragged(M, draws), _ragged(N, draws), K // BLOCK_K * BLOCK_K + _ragged(K % BLOCK_K, draws, 56)
    if M < EXTENT or N < EXTENT:  # of a step with one tile: it has no other
        return M, N, _depth(K, draws, wanted)
    rest = M % EXTENT
    M -= rest
    if rest % (EXTENT // 2):  # a ragged M
        rest = draws.randrange(1, EXTENT // 2)
    tiles = M * N // EXTENT**2
    slim = max(SLIM, M / N, N / M)
    most = max(tiles + 1, int(MORE * tiles))
    found = [
        (m * EXTENT, n * EXTENT)
        for m in range(tall, tiles + 1, tall)
        for n in range(max(2, -(-tiles // m)), most // m + 1)
        if m != n and 1 / slim <= m / n <= slim
    ]
    m, n = draws.choice(found)
    return m + rest, n, _depth(K, draws, wanted)


def _ragged(extent: int, draws: random.Random, most: int = 0) -> int:
    """As many elements, or a few more, of which no tile is made; ``most`` of them."""
    longest = min(most or extent + extent // SIDE, extent + 48)
    return draws.choice([n for n in range(extent, longest + 1, UNIT) if n % 16 == 8] or [extent])


def _depth(K: int, draws: random.Random, wanted: Step) -> int:
    """As long a K or a little longer, of an even number of K tiles where the table's is even. What divides K
    at all sizes of the table is a K tile.
    """
    k_tile = math.gcd(*(size[-1] for size in (*wanted.check_sizes, *(size for size, _ in wanted.emulated))))
    tiles = K // k_tile
    return K if tiles < SHORT else k_tile * draws.choice((tiles, tiles + 2))
