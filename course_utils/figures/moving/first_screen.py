"""The first screen: K tiles on their way from global memory through the ring to the tensor cores."""

from __future__ import annotations

from course_utils.figures.moving import ring

STAGES = 4


def figure() -> dict:
    """Eight K tiles through four stages; it plays by itself, once."""
    made = ring.times(STAGES, ahead=True)
    return {
        "title": "What you will build: a ring that keeps the tensor cores busy",
        "words": "While one tile is multiplied, the next ones are loaded. After the first load the "
        "tensor cores never wait.",
        "rows": ring.rows(made, STAGES),
        "plays": True,
        "stages": STAGES,
        "times": made,
        "says": [_says(made, tick) for tick in range(made[-1].over + 1)],
        "steps": made[-1].over + 1,
    }


def _says(made: list[ring.Tile], tick: int) -> str:
    loading = [str(i) for i, one in enumerate(made) if one.asked <= tick < one.landed]
    working = [i for i, one in enumerate(made) if one.begun <= tick < one.over]
    loads = ""
    if loading:
        tiles = f"tile{'s' * (len(loading) > 1)} {', '.join(loading)}"
        loads = f"TMA loads {tiles}"
    if working:
        product = f"the tensor cores multiply tile {working[0]}"
        return f"{loads}, while {product}." if loads else f"{product[0].upper()}{product[1:]}."
    if loads:
        return f"{loads}. The tensor cores wait for the first one."
    return f"All {len(made)} tiles are multiplied: a tile of D is done."
