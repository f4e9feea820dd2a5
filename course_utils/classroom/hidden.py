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
MAKES_CODE = {"types.FunctionType", "types.CodeType", "marshal.loads", "marshal.load", "pickle.loads"}
# modules: what makes code of text or files, and what makes text of bytes
RUNNERS = {"builtins", "importlib", "runpy", "linecache", "code", "codeop"}
UNPACKS = {"zlib", "gzip", "bz2", "lzma", "base64", "binascii", "codecs", "marshal", "pickle"}


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
        name, line = _whole(node, known), getattr(node, "lineno", 0)
        module, _, part = name.partition(".")
        if name in RUNS or name in MAKES_CODE or name == "__builtins__" or part and module in RUNNERS:
            runs.setdefault(name, line)
        elif part and module in UNPACKS or name == "bytes.fromhex":
            unpacks.setdefault(name, line)
    told = [
        f"{what} ({', '.join(f'{name}, line {line}' for name, line in list(found.items())[:NAMED])})"
        for what, found in (("unpacks bytes", unpacks), ("runs text as code", runs))
        if found
    ]
    return " and ".join(told)


def _imported(nodes: list[ast.AST]) -> dict[str, str]:
    """By the name that a source gave it, what was imported; and the type that makes bytes."""
    known = {"bytes": "bytes"}
    for node in nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.partition(".")[0]
                known[one.asname or first] = one.name if one.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module:
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return known


def _whole(node: ast.AST, known: Mapping[str, str]) -> str:
    """The whole name of what a node names, as "zlib.decompress", also where ``getattr`` looks it up or all of
    a module is imported; "" for any other node.
    """
    match node:
        case ast.Name(id=name):
            return known.get(name, name)
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=name), *_]) if name in known:
            return f"{known[name]}.getattr"
        case ast.ImportFrom(module=str(module), names=[ast.alias(name="*")]):
            return f"{module}.*"
        case ast.Attribute(value=ast.Name(id=name), attr=part) if name in known:
            return f"{known[name]}.{part}"
    return ""
