"""Tiles of D over the SMs, one CTA an SM: how many waves, and what the last one leaves idle."""

from __future__ import annotations

from course_utils.chips import HOME
from course_utils.figures.moving.still import Cell, Row

TILES = {"128 x 128": (128, 128), "128 x 256": (128, 256), "256 x 128": (256, 128)}
NARROWER = {"128 x 224": (128, 224), "128 x 192": (128, 192), "256 x 192": (256, 192)}  # beside clusters
CLUSTERS = {"single CTAs": 1, "clusters of two": 2}
STEP, LARGEST = 256, 8192  # of M and N
FINE, FARTHEST = 8, 9216  # the same where tiles may hang over D's edge
MOST_SHOWN = 8  # waves of the still picture


def count(M: int, N: int, block_M: int, block_N: int, cluster: int = 1) -> dict[str, int]:
    """Tiles, waves, tiles in the last wave, and places of which ``idle`` stay empty. A place is an SM in a
    wave; with clusters, whose CTAs lie one below another, a cluster's SMs, and a tile is a cluster's.
    """
    at_once = HOME.sms // cluster
    tiles = -(-M // (block_M * cluster)) * -(-N // block_N)
    waves = -(-tiles // at_once)
    return {
        "tiles": tiles,
        "waves": waves,
        "last": tiles - (waves - 1) * at_once,
        "idle": waves * at_once - tiles,
        "places": waves * at_once,
    }


def figure(
    M: int = 4096, N: int = 4096, tile: tuple[int, int] = (128, 128), cluster: int | None = None
) -> dict:
    """D of M x N in tiles (rows, columns); M and N are multiples of 256, up to 8192.

    ``cluster``, 1 or 2, lets the reader choose it, takes narrower tiles too, and any multiple of 8 up to
    9216: tiles may hang over D's edge.
    """
    there = TILES if cluster is None else TILES | NARROWER
    name = next((name for name, one in there.items() if one == tile), None)
    if name is None:
        raise ValueError(f"tile is one of {', '.join(str(one) for one in there.values())}, not {tile!r}")
    if cluster not in (None, *CLUSTERS.values()):
        raise ValueError(f"cluster is 1 or 2, not {cluster!r}")
    step, largest = (STEP, LARGEST) if cluster is None else (FINE, FARTHEST)
    for letter, size, block in (("M", M, tile[0]), ("N", N, tile[1])):
        unit = f"the tile's {block}" if cluster is None else f"{FINE}"
        if type(size) is not int or size < 1 or (cluster is None and size % block):
            raise ValueError(f"{letter} must be a multiple of {unit}, not {size!r}")
        if size % step or size > largest:
            raise ValueError(f"{letter} is a multiple of {step}, up to {largest:,}, not {size:,}")
    made = count(M, N, *tile, cluster or 1)
    at_once = HOME.sms // (cluster or 1)
    tiles, workers = ("pairs of tiles", "clusters") if cluster == 2 else ("tiles", "SMs")
    shown = range(max(0, made["waves"] - MOST_SHOWN), made["waves"])
    busy = [min(at_once, made["tiles"] - wave * at_once) for wave in shown]
    share = 100 * made["idle"] / made["places"]
    whole = f"{made['tiles']:,} {tiles} in {made['waves']} waves"
    choices = [
        {"name": "M", "kind": "range", "value": M, "from": step, "to": largest, "by": step},
        {"name": "N", "kind": "range", "value": N, "from": step, "to": largest, "by": step},
        {"name": "tile", "kind": "choice", "value": name, "of": list(there)},
    ]
    if cluster is not None:
        of_two = list(CLUSTERS)[cluster - 1]
        choices.append({"name": "in", "kind": "choice", "value": of_two, "of": list(CLUSTERS)})
    return {
        "title": f"Waves: tiles of D over {HOME.sms} SMs",
        "words": f"D of {M:,} x {N:,} in tiles of {name}: {whole}. The last one has {made['last']} {tiles} "
        f"for {at_once} {workers}; {share:.1f}% of the chip's places stay idle.",
        "rows": [
            Row("wave", tuple(Cell(i, i + 1, str(wave + 1), "pale") for i, wave in enumerate(shown))),
            Row(
                f"{workers} with a tile",
                tuple(Cell(i, i + 1, str(one), "green") for i, one in enumerate(busy)),
            ),
            Row(
                f"{workers} without one",
                tuple(Cell(i, i + 1, str(at_once - one), "wait") for i, one in enumerate(busy)),
            ),
        ],
        "controls": choices,
        "tiles": there,
        "clusters": CLUSTERS,
        "sms": HOME.sms,
    }
