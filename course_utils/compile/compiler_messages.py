"""What compilers mean by the words that learners meet: ``compiler_messages.toml``, looked up.

A pattern of that table is one compiler version's words, so each row names the version.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from math import prod
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".toml")
# CuTe DSL's words (nvidia-cutlass-dsl 4.8.1) whose explanation is computed.
_TWO_TILES = re.compile(
    r"expected top-level shape equivalence between the SMEM layout and the CTA V-map, but got "
    r"'!cute\.\w*layout<\"(?:S<\S+> o \S+ o )?\((\S+?)\):.*?and '!cute\.layout<\"\((.*?)\):[^']*'"
)
_UNDIVIDED = re.compile(r"failed to partition `input` '!cute.shape<\"\((.*?)\)\">' with `tiled_mma`")
_PTXAS = re.compile(r"(?s)\A(?:PTX assembly failed: |ptxas [^;]*; error\s*: )(.*)")
_NVRTC = re.compile(r"\A\S+\(\d+\): error: (.*)")


@cache
def rows(table: str) -> tuple[tuple[str, str], ...]:
    """A table's patterns, in order, each with its explanation: "explained" or "refused"."""
    return tuple((row["says"], row["means"]) for row in tomllib.loads(_TABLE.read_text())[table])


def refused(message: str) -> tuple[str, str]:
    """What an assembler or a verifier says, as a sentence of ours, and their own words, which are to follow.
    What it is none of is as it was, and nothing follows.
    """
    for pattern, meaning in rows("refused"):
        if found := re.search(pattern, message):
            return found.expand(meaning), message
    if found := _PTXAS.match(message):
        return f"The assembler refuses an instruction of this kernel: {found[1]}", message
    if found := _NVRTC.match(message):
        return f"The CUDA that TileLang makes of this kernel does not compile: {found[1]}", message
    return message, ""


def explained(message: str) -> str:
    """A compiler's message, in words that say what to change where they are known."""
    computed = ((_TWO_TILES, _two_tiles), (_UNDIVIDED, _undivided))
    for pattern, meaning in computed:
        if pattern.search(message):
            return pattern.sub(meaning, message, count=1)
    for words, told in rows("explained"):
        if re.search(words, message):
            return re.sub(words, told, message, count=1)
    return message


def _two_tiles(found: re.Match) -> str:
    """What a tensor map was given: a layout's shape "(8,16),(64,2)" is 128 x 128, and its tile's shape."""
    modes = re.findall(r"\([\d,]+\)|\d+", found[1])
    layout = " x ".join(str(prod(map(int, re.findall(r"\d+", mode)))) for mode in modes)
    tile = " x ".join(re.findall(r"\d+", found[2]))
    return f"this map has a layout of {layout} in shared memory for a tile of {tile}"


def _undivided(found: re.Match) -> str:
    """A tile that the MMA cannot be repeated over."""
    tile = " x ".join(found[1].split(","))
    return f"the MMA does not divide a tile of {tile}: its shape, times its warpgroups, has to."
