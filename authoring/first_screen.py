"""The broken line and its verdict on the README's first screen, as the checker judges it today.

python -m authoring.first_screen      # writes the verdict into README.md
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import textwrap
from pathlib import Path

from course_utils.compile.load import edited, load_factory, solution_path
from course_utils.figures import ladder
from course_utils.figures.theme import DPI
from course_utils.grading import levels
from course_utils.grading.verdict import MAP
from course_utils.recordings import measured

README = Path(__file__).parents[1] / "README.md"
LADDER = README.parent / "docs" / "images" / "ladder_4096.png"
STEP, DSL, FAULT = "step05", "tilelang", "no_phase_flip"  # FAULT: its name in solutions/measured/wrong.json
RIGHT, WRONG = "(k // num_stages) & 1", "0"
WIDTH = 96
SHOWN = re.compile(r"(```text\n)(.*?)(```)", re.S)


def broken_line() -> str:
    """The solution's line with the mistake in it."""
    lines = solution_path(STEP, DSL).read_text().splitlines()
    return next(line for line in lines if RIGHT in line).strip().replace(RIGHT, WRONG)


def verdict() -> str:
    """What ``course check`` prints of the broken kernel, from its score to the learner's line."""
    with tempfile.TemporaryDirectory() as folder:
        mine = Path(folder) / "mine.py"
        mine.write_text(edited(solution_path(STEP, DSL).read_text(), (RIGHT, WRONG)))
        judged = str(levels.check_gemm(STEP, load_factory(mine), DSL, "emulator"))
    lines = judged.partition(f"\n  {MAP}#")[0].splitlines()
    return "".join(
        textwrap.fill(line, WIDTH, subsequent_indent=" " * (len(line) - len(line.lstrip()))) + "\n"
        for line in lines
    )


def recorded() -> str:
    """A digest of what the ladder is drawn from; the picture carries it."""
    return hashlib.sha256(json.dumps(measured.ladder(), sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Draw the ladder, and write the verdict into the README."""
    LADDER.parent.mkdir(exist_ok=True)
    about = {"Software": None, "Description": recorded()}
    ladder.ladder(measured.ladder(), sizes=(4096,)).savefig(LADDER, format="png", dpi=DPI, metadata=about)
    shown = verdict()
    README.write_text(SHOWN.sub(lambda found: found[1] + shown + found[3], README.read_text()))


if __name__ == "__main__":
    main()
