"""Record which path both installed compilers take for the tiles that the path predictor is held against.

    python benchmarks/path_grid.py                              # what solutions/measured/paths.json lacks
    python benchmarks/path_grid.py --seed 7 --out other.json    # as many cases that nobody has seen

The first half is the same for each seed: the notebook's tiles and their neighbours, in all ways to ask. The
second is drawn. No GPU is needed. A case takes about a second; what a record has already is kept, if the
versions are the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from pathlib import Path
from random import Random

from course_utils.compile import tile_copies
from course_utils.compile.tile_copies import (
    ATOM,
    COPY,
    GEMM,
    INSIST,
    PIPELINE,
    PREFER,
    READ_BY,
    Case,
    outcome,
)

OUT = Path(__file__).parents[1] / "solutions" / "measured" / "paths.json"
DRAWN = 200
VERSIONS = ("tilelang", "nvidia-cutlass-dsl", "arch")
SAVE = 10  # cases between two writes

# shape, tile, element type: each is asked for in several ways
TILES = (
    ((8, 32, 64), (2, 16, 64), "float16"),
    ((8, 32, 256), (2, 16, 256), "float16"),
    ((8, 32, 64), (1, 16, 64), "float16"),
    ((8, 32, 64), (2, 32, 64), "float16"),
    ((8, 32, 60), (2, 16, 60), "float16"),
    ((8, 304, 128), (4, 304, 64), "float16"),
    ((8, 304, 128), (4, 152, 64), "float16"),
    ((8, 40, 64), (2, 16, 64), "bfloat16"),
    ((64, 128), (24, 64), "float32"),
    ((64, 96), (16, 96), "float16"),
    ((4, 3, 32, 64), (2, 2, 16, 32), "int8"),
    ((2, 3, 4, 32, 64), (1, 2, 2, 16, 64), "float16"),
    ((2, 3, 4, 32, 64), (1, 1, 1, 32, 64), "float8_e4m3fn"),
    ((512, 64), (512, 32), "float16"),
    ((64, 1024), (16, 512), "int8"),
    ((640, 64), (320, 16), "float16"),
    ((64, 64), (32, 16), "float64"),
    ((256, 8), (64, 4), "float64"),
    ((256, 16), (64, 8), "float64"),
    ((256, 16), (60, 8), "float64"),
    ((100, 20), (50, 10), "float32"),
)
# tiles of a GEMM: rows and a K tile, the rest 1
MULTIPLIED = (
    ((256, 256), (128, 64), "float16"),
    ((256, 256), (128, 128), "float16"),
    ((4, 256, 64), (1, 128, 64), "bfloat16"),
    ((2, 2, 250, 200), (1, 1, 128, 64), "float16"),
    ((256, 100), (64, 64), "float16"),
    ((512, 64), (512, 64), "int8"),
    ((2, 128, 128), (1, 64, 128), "float8_e4m3fn"),
    ((256, 96), (64, 96), "float16"),
    ((256, 128), (64, 16), "float64"),
    ((256, 128), (64, 32), "float32"),
    ((128, 64), (64, 16), "float16"),
)


def grid(seed: int) -> Iterator[Case]:
    """All cases, in order, each once."""
    seen: set[Case] = set()
    asked = (
        (PREFER, "threads"),
        (PREFER, "store"),
        (INSIST, "threads"),
        (INSIST, "store"),
        (ATOM, "threads"),
    )
    of_gemm = ((COPY, PIPELINE), (PREFER, GEMM), (INSIST, GEMM), (PREFER, PIPELINE), (ATOM, GEMM))
    for cases, ways in ((TILES, asked), (MULTIPLIED, of_gemm)):
        for shape, own, dtype in cases:
            seen |= {Case(shape, own, dtype, consumer, way) for way, consumer in ways}
    for consumer in READ_BY[COPY]:
        shape, own, dtype = (TILES if consumer in ("threads", "store") else MULTIPLIED)[0]
        seen.add(Case(shape, own, dtype, consumer, COPY))
    swept = sorted(seen, key=str)
    yield from swept
    random, drawn = Random(seed), 0
    while drawn < DRAWN:
        case = tile_copies.draw(random)
        if case not in seen:
            seen.add(case)
            drawn += 1
            yield case


def provenance(seed: int) -> dict:
    return {
        "tilelang": version("tilelang"),
        "nvidia-cutlass-dsl": version("nvidia-cutlass-dsl"),
        "arch": "sm_90a",
        "date": date.today().isoformat(),
        "script": f"python benchmarks/path_grid.py --seed {seed}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of the drawn half (default: 0)")
    parser.add_argument("--out", type=Path, default=OUT, help=f"the record (default: {OUT.name})")
    arguments = parser.parse_args()
    head = provenance(arguments.seed)
    made: list[dict] = []
    known: dict[Case, dict] = {}
    for path in {OUT, arguments.out}:
        if not path.exists():
            continue
        before = json.loads(path.read_text())
        if any(before["provenance"][name] != head[name] for name in VERSIONS):
            sys.exit(f"{path} is of other versions: move it away first")
        known |= {tile_copies.of_entry(entry): entry for entry in before["cases"]}
    cases = list(grid(arguments.seed))
    for number, case in enumerate(cases, 1):
        entry = known.get(case)
        if entry is None:
            entry = asdict(case) | asdict(outcome(case))
            print(f"{number} of {len(cases)}: {case}: {entry['path']} {entry['boxes'] or ''}", flush=True)
        made.append(entry)
        if number % SAVE == 0 or number == len(cases):
            rest = [known[later] for later in cases[number:] if later in known]
            _write(arguments.out, head, made + rest)


def _write(path: Path, head: dict, cases: list[dict]) -> None:
    """A case a line."""
    lines = ",\n".join(json.dumps(case) for case in cases)
    path.write_text(f'{{"provenance": {json.dumps(head, indent=1)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
