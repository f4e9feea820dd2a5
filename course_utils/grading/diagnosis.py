"""The sentences of a diagnosis of wrong numbers: which count, which only say where to look, which name a
cause.
"""

from __future__ import annotations

import re

# no cause, only where to look
GUESS = re.compile(
    r"(Every tile is|Some tiles are wholly|A few rows or fragments of a tile are|Parts of tiles are) wrong"
    r"|(Parts of tiles|Whole tiles) are missing|If so, look for"
    r"|That is a missing wait or|Does the store's box"
)
COUNT = re.compile(
    r"[\d,]+ ((of [\d,]+ elements|of them|others) )?(are wrong|were never written|of Y differ from X)"
    r"|the kernel (changed its input|wrote \d+ elements)"
)


def sentences(diagnosis: str) -> list[str]:
    return re.split(r"(?<=[.?!;])\s+(?=[A-Z\d])", diagnosis)


def counted(diagnosis: str) -> str:
    """How many elements are wrong and where, and nothing of why."""
    return " ".join(one for one in sentences(diagnosis) if COUNT.match(one))


def known(diagnosis: str) -> str:
    """What is known: without sentences that only say where to look."""
    return " ".join(one for one in sentences(diagnosis) if not GUESS.match(one))


def vague(diagnosis: str) -> bool:
    """Has it no cause to tell, but counts and where to look?"""
    return all(COUNT.match(one) or GUESS.match(one) for one in sentences(diagnosis) if one)
