"""Whether a source hides what it runs: read from its syntax tree, never run.

No exercise needs to run text as code, or to unpack bytes. A source that does both can be a copy that nobody
recognises.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import islice

from course_utils.classroom.cells import NO_PYTHON

NODES = 200_000  # of a syntax tree; the longest solution has 3,000
NAMED = 3  # names that a finding mentions
RUNS = {"exec", "eval", "compile", "__import__"}  # builtins; re.compile and cute.compile are something else
MAKES_CODE = {"types.FunctionType", "types.CodeType", "importlib.import_module", "marshal.loads"}
MAKES_CODE |= {"pickle.loads", "marshal.load", "pickle.load"}
UNPACKS = {"zlib", "gzip", "bz2", "lzma", "base64", "binascii", "codecs", "marshal", "pickle"}  # modules


def what_hides(source: str) -> str:
    """What in a source hides what it runs, in words with its lines; "" where nothing does, and of what is no
    Python. Reads no more than ``NODES`` of its tree.
    """
    try:
        tree = ast.parse(source)
    except NO_PYTHON:
        return ""
    nodes = list(islice(ast.walk(tree), NODES))
    known = _imported(nodes)
    runs: dict[str, int] = {}
    unpacks: dict[str, int] = {}
    for node in nodes:
        name = _whole(node, known)
        module = name.partition(".")[0]
        if name.removeprefix("builtins.") in RUNS or name in MAKES_CODE or name == "__builtins__":
            runs.setdefault(name, getattr(node, "lineno", 0))
        elif module in UNPACKS and name != module or name == "bytes.fromhex":
            unpacks.setdefault(name, getattr(node, "lineno", 0))
    told = [
        f"{what} ({', '.join(f'{name}, line {line}' for name, line in list(found.items())[:NAMED])})"
        for what, found in (("unpacks bytes", unpacks), ("runs text as code", runs))
        if found
    ]
    return " and ".join(told)


def _imported(nodes: list[ast.AST]) -> dict[str, str]:
    """By the name that a source gave it, what was imported."""
    known: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            known |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return known


def _whole(node: ast.AST, known: Mapping[str, str]) -> str:
    """The whole name of what a node names, as "zlib.decompress"; "" for any other node."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return ""
    return f"{known.get(node.value.id, node.value.id)}.{node.attr}"
