"""A learner's source inside: what a notebook's cell may name without an import is there, and does nothing."""

import io
import json
import subprocess
import sys

from course_utils.classroom.inside import Nothing
from course_utils.run.protocol import read_block

CELL = """
from IPython import get_ipython as asked
get_ipython().run_line_magic("matplotlib", "inline")
asked().system("ls")
files = list(get_ipython().getoutput("ls"))
display(files, clear=True)

def mend(maps):
    return maps

await __import__("asyncio").sleep(0)
check_maps("case11", mend)
"""


def test_what_a_notebook_has_is_there_and_does_nothing():
    request = {"kind": "maps", "dsl": "", "source": CELL, "name": "maps", "sizes": [], "maps": []}
    command = (sys.executable, "-m", "course_utils.classroom.inside")
    ended = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, timeout=60)
    head = json.loads(read_block(io.BytesIO(ended.stdout)))
    assert (head["stage"], head["text"], head["maps"]) == ("", "", []), ended.stderr


def test_nothing_is_no_object_that_python_itself_would_ask():
    assert list(Nothing()) == [] and "IPKernelApp" not in Nothing().config
    assert not hasattr(Nothing(), "__wrapped__") and isinstance(Nothing().a.b("c")[3], Nothing)
