"""Tiles of D over the SMs, one CTA an SM: how many waves, and what the last one leaves idle."""

from __future__ import annotations

from course_utils.artifact import SM_COUNT
from course_utils.figures.moving.still import Cell, Row

TILES = {"128 x 128": (128, 128), "128 x 256": (128, 256), "256 x 128": (256, 128)}
STEP, LARGEST = 256, 8192  # of M and N
MOST_SHOWN = 8  # waves of the still picture


def count(M: int, N: int, block_M: int, block_N: int) -> dict[str, int]:
    """Tiles, waves, tiles in the last wave, and places (waves times SMs) of which ``idle`` stay empty."""
    tiles = (M // block_M) * (N // block_N)
    waves = -(-tiles // SM_COUNT)
    return {
        "tiles": tiles,
        "waves": waves,
        "last": tiles - (waves - 1) * SM_COUNT,
        "idle": waves * SM_COUNT - tiles,
        "places": waves * SM_COUNT,
    }


def figure(M: int = 4096, N: int = 4096, tile: tuple[int, int] = (128, 128)) -> dict:
    """D of M x N in tiles (rows, columns); M and N are multiples of 256, up to 8192."""
    name = next((name for name, one in TILES.items() if one == tile), None)
    if name is None:
        raise ValueError(f"tile is one of {', '.join(str(one) for one in TILES.values())}, not {tile!r}")
    for letter, size, block in (("M", M, tile[0]), ("N", N, tile[1])):
        if type(size) is not int or size < 1 or size % block:
            raise ValueError(f"{letter} must be a multiple of the tile's {block}, not {size!r}")
        if size % STEP or size > LARGEST:
            raise ValueError(f"{letter} is a multiple of {STEP}, up to {LARGEST:,}, not {size:,}")
    made = count(M, N, *tile)
    shown = range(max(0, made["waves"] - MOST_SHOWN), made["waves"])
    busy = [min(SM_COUNT, made["tiles"] - wave * SM_COUNT) for wave in shown]
    share = 100 * made["idle"] / made["places"]
    return {
        "title": "Waves: tiles of D over 132 SMs",
        "words": f"D of {M:,} x {N:,} in tiles of {name}: {made['tiles']:,} tiles in {made['waves']} waves. "
        f"The last one has {made['last']} tiles for {SM_COUNT} SMs; {share:.1f}% of the chip's "
        "places stay idle.",
        "rows": [
            Row("wave", tuple(Cell(i, i + 1, str(wave + 1), "pale") for i, wave in enumerate(shown))),
            Row("SMs with a tile", tuple(Cell(i, i + 1, str(one), "green") for i, one in enumerate(busy))),
            Row(
                "SMs without one",
                tuple(Cell(i, i + 1, str(SM_COUNT - one), "wait") for i, one in enumerate(busy)),
            ),
        ],
        "controls": [
            {"name": "M", "kind": "range", "value": M, "from": STEP, "to": LARGEST, "by": STEP},
            {"name": "N", "kind": "range", "value": N, "from": STEP, "to": LARGEST, "by": STEP},
            {"name": "tile", "kind": "choice", "value": name, "of": list(TILES)},
        ],
        "tiles": TILES,
        "sms": SM_COUNT,
    }
