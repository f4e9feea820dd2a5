"""Words about a fault, whose making must never hide the fault itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def safe_message(make: Callable[[], T], plain: T) -> T:
    """What ``make`` says; ``plain`` where it raises, with a RuntimeWarning for whoever keeps the course."""
    try:
        return make()
    except Exception as error:  # whatever a sentence trips over, the fault that it is about stays
        warnings.warn(f"a fault's words failed ({type(error).__name__}: {error})", RuntimeWarning, 2)
        return plain
