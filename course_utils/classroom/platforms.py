"""What learning platforms call a learner: the names of what they export, and the ids by which they take
grades back.

Moodle names a folder (or a file) for each participant, "Ada Lovelace_12345_assignsubmission_file_": the
identifier of its grading worksheet. Canvas names each file for the user and the upload,
"lovelaceada_12345_67890_step05_cute.py". Gradescope names a folder for each submission, and its
submission_metadata.yml says who handed that in: one person or more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MOODLE = re.compile(r"((.+?)_(\d+))_assignsubmission_\w+")
CANVAS = re.compile(r"(.+?)_(?:LATE_)?(\d+)_\d+_.+")
GRADESCOPE = re.compile(r"submission_\d+")
METADATA = "submission_metadata.yml"  # beside Gradescope's folders


@dataclass(frozen=True)
class Owner:
    """Whose a submission is. ``name`` is that of no other one, ``id`` the platform's, "" where it has none;
    ``handed_in`` are the names of the folder or the files, as they came.
    """

    name: str
    id: str = ""
    handed_in: tuple[str, ...] = ()


def moodle(top: str) -> tuple[str, str]:
    """The learner and the id of what Moodle exported under this name; "" and "" of anything else."""
    found = MOODLE.match(top)
    return (found[1], found[3]) if found else ("", "")


def canvas(top: str) -> tuple[str, str]:
    """The same of a file of Canvas. The id belongs to the name: two learners may have one name."""
    found = CANVAS.match(top)
    return (f"{found[1]}_{found[2]}", found[2]) if found else ("", "")


def submitters(metadata: bytes) -> dict[str, list[tuple[str, str]]]:
    """By folder, the name and the id of each person in Gradescope's metadata: the student's id, or the
    address where there is none. Whatever else stands there is passed over. Raises ValueError for what cannot
    be read.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        tree = yaml.compose(metadata, loader)  # nodes, of which nothing is built: Ruby has tags of its own
    except (yaml.YAMLError, RecursionError, UnicodeError) as error:
        text = f"{METADATA} cannot be read ({type(error).__name__}); without it the learners are submission_N"
        raise ValueError(text) from error
    made: dict[str, list[tuple[str, str]]] = {}
    for folder, fields in _pairs(tree):
        people = dict(_pairs(fields)).get(":submitters")
        for person in getattr(people, "value", ()) if people is not None else ():
            told = {key: _text(node) for key, node in _pairs(person)}
            name, of_person = told.get(":name", ""), told.get(":sid") or told.get(":email", "")
            if name or of_person:
                made.setdefault(folder, []).append((name or of_person, of_person))
    return made


def _pairs(node: Any) -> list[tuple[str, Any]]:
    """The keys of a mapping, as text, and their nodes; none of anything else."""
    value = getattr(node, "value", None)
    if getattr(node, "id", "") != "mapping" or not isinstance(value, list):
        return []
    return [(_text(key), one) for key, one in value]


def _text(node: Any) -> str:
    """A scalar's text as it was written; "" for null and for anything else."""
    value = getattr(node, "value", "")
    null = getattr(node, "tag", "").endswith(":null")
    return value if isinstance(value, str) and not null else ""
