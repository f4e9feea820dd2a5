"""What a notebook's cells call. Each shows its answer in the cell, keeps what is worth keeping, and raises
nothing.

In JupyterLab the answers are HTML, elsewhere text. What takes time says at once what it is at, and its answer
takes that place.
"""

from __future__ import annotations

import warnings

from IPython import get_ipython

from course_utils.compile.factory import NotYet
from course_utils.drills.bugs import find_the_bug
from course_utils.drills.quiz import quiz
from course_utils.drills.show import drill
from course_utils.notebook.checks import (
    check,
    check_copy,
    check_maps,
    check_pair,
    check_paths,
    check_plan,
    try_out,
)
from course_utils.notebook.inspection import ask_driver, at_sizes, look, panels, receipt, taken_out, timeline
from course_utils.notebook.output import moving, table
from course_utils.notebook.records import (
    attention_ladder,
    bound,
    chart,
    cool_and_hot,
    counters,
    exponentials,
    library_plans,
    predicted,
    profiled_paths,
    recorded,
    recorded_attention,
    recorded_fences,
    recorded_fp8_products,
    recorded_fp8_sums,
    recorded_scores,
    recorded_tiles,
    shapes,
    time_parts,
    tried,
    when_tma_pays,
)
from course_utils.notebook.standing import ladder, level, machine, points, strip
from course_utils.notebook.what_ifs import what_if
from course_utils.problems import PROBLEMS
from course_utils.run import backends

# a DSL imports tqdm, which would say so in a learner's cell
warnings.filterwarnings("ignore", message="IProgress not found")

_shell = get_ipython()
if _shell is not None:  # a check before its cell has run is told so: no NameError
    for _name in sorted({problem.function for problem in PROBLEMS.values()} | {"mend", "predict", "broken"}):
        _shell.user_ns.setdefault(_name, NotYet(_name))

backends.warm_up()  # the emulator imports its libraries while the notebook imports a DSL
