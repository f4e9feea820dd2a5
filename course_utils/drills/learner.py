"""Whose questions these are: the number that makes a class not share answers."""

from __future__ import annotations

import secrets
from functools import cache

from IPython import get_ipython

from course_utils.drills.show import attended
from course_utils.recordings import progress

NOBODY = 0  # of a page that is made with nobody there


def number() -> int:
    """The learner's number: kept in progress.json, or one that lasts as long as the kernel where nothing can
    be kept. It is the same for every page that a program makes. Raises nothing.
    """
    if on_a_page():
        return NOBODY
    try:
        return progress.learner()
    except (OSError, ValueError):
        return _of_this_kernel()


@cache
def _of_this_kernel() -> int:
    return secrets.randbelow(progress.LEARNERS)


def on_a_page() -> bool:
    """Does a program run this notebook, and nobody is there to answer?"""
    return hasattr(get_ipython(), "kernel") and not attended()
