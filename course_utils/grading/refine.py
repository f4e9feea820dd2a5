"""What is wrong with a run, refined: causes that its numbers or the emulator found, with what the facts of
the run and the artifact know beside them. Typed in, typed out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from course_utils.artifact import SWIZZLES, WARPGROUP_THREADS, Artifact, Place, TensorMap
from course_utils.cause import Cause
from course_utils.chips import HOME
from course_utils.grading import lines
from course_utils.grading.conditions import BLOCK_K
from course_utils.grading.found import same_part, waits_too_late, within_a_cluster
from course_utils.grading.properties import Facts, once
from course_utils.ptx import receipts
from course_utils.run.backends import Launch
from course_utils.run.protocol import Answer

BELOW_EACH_OTHER = r"\(2,\s*1,\s*1\)"
LARGEST_SIDE = 2 * 256  # of a cluster's tile
# Cases that a load or a store outside its tensor explains: zeros, K tiles that came as zeros, and gaps.
EXPLAINED = {"zeros", "index-of-the-other", "last-short", "overwritten", "ends-early", "begins-late"}
EXPLAINED |= {"one-k-tile", "wrong-k-tiles", "epilogue-in-the-loop", "bias-in-the-loop", "relu-in-the-loop"}
GAPS = {"unwritten", "unwritten-of-them", "columns-of-each", "columns-of-some", "band-of-columns"}
GAPS |= {"band-of-rows", "copy-unwritten", "copy-and-gaps"}
# kinds of causes that only say where to look, and those that count what is wrong
LOOK, COUNTS = {"look"}, {"count", "copy", "memory"}


def counted(causes: Iterable[Cause]) -> list[Cause]:
    """How many elements are wrong and where, and nothing of why."""
    return [cause for cause in causes if cause.kind in COUNTS]


def known(causes: Iterable[Cause]) -> list[Cause]:
    """What is known: without those that only say where to look."""
    return [cause for cause in causes if cause.kind not in LOOK]


def vague(causes: Iterable[Cause]) -> bool:
    """Do they tell no cause, but counts and where to look?"""
    return all(cause.kind in COUNTS | LOOK for cause in causes)


@dataclass(frozen=True)
class Wrong:
    """A wrong run's ``findings``, as its answer has them, and ``causes`` of its numbers, those that lead
    first. ``place`` is the author's line where it is known; ``lead`` is said in place of the first finding's
    text. Further causes, ``below``, and findings, ``behind``, fold below what leads.
    """

    findings: tuple[dict[str, Any], ...] = ()
    causes: tuple[Cause, ...] = ()
    place: Place | None = None
    lead: Cause | None = None
    below: tuple[Cause, ...] = ()
    behind: tuple[dict[str, Any], ...] = ()

    @property
    def gaps(self) -> bool:
        """Were elements never written?"""
        return any(cause.case in GAPS or cause.kind == "corner" for cause in self.causes)

    @property
    def finding(self) -> dict[str, Any] | None:
        """The finding that leads; None where there is none, or the numbers say more: two CTAs stored one
        place, a race, which leaves nothing out, left something out, or an input was stored to.
        """
        if not self.findings:
            return None
        more = {
            "stored-twice": bool(self.causes),
            "overwrite-while-read": self.gaps,
            "read-before-write": any(cause.case == "input-changed" for cause in self.causes),
        }
        return None if more.get(self.findings[0]["kind"]) else self.findings[0]

    @property
    def guesses(self) -> bool:
        """Is there no cause to tell, only counts and where to look?"""
        return not self.findings and bool(self.causes) and vague(self.causes)


@dataclass(frozen=True)
class Run:
    """A launch whose ``answer`` is wrong, and what is ``wrong``."""

    launch: Launch
    answer: Answer
    wrong: Wrong


def refine(answer: Answer, artifact: Artifact, clipped: bool = False) -> Wrong:
    """What is wrong with a GEMM. ``clipped``: its tiles may hang over D's edge, where TMA brings zeros, and
    drops what is stored, as it should.
    """
    wrong = Wrong(answer.findings, answer.causes)
    if not answer.findings and answer.finished:
        wrong = _at_the_edge(wrong, answer, artifact) if clipped else _of_tiles(wrong, answer, artifact)
        wrong = _in_order(wrong, answer.facts or {}, artifact)
    elif not clipped:
        wrong = replace(wrong, causes=_former_tile(wrong.causes, answer.facts or {}, artifact))
    wrong = _of_warpgroups(_without_rank(wrong, artifact), artifact)
    return _of_buffers(_stored_otherwise(wrong, answer, artifact), artifact)


def of_copy(answer: Answer, artifact: Artifact) -> Wrong:
    """What is wrong with a copy: first how much of X its TMA loads leave out, where they do."""
    wrong = Wrong(answer.findings, answer.causes)
    if answer.findings or not answer.finished or not answer.facts:
        return wrong
    wrong = _located(wrong, answer.facts)
    x = artifact.tensors[0]
    loaded, count = once(answer.facts, f"elements of {x.name} loaded"), math.prod(x.shape)
    if not 0 < loaded < count:
        return wrong
    unread = Cause("unread", "not-loaded", {"tensor": x.name, "loaded": loaded, "of": count})
    return replace(wrong, causes=(unread,), below=wrong.causes)


def outside(facts: Facts) -> list[Cause]:
    """TMA loads and stores that left their tensors, with the farthest."""
    left = []
    for name in facts:
        if not (named := re.fullmatch(r"(loads|stores) outside (\w+), axis (\d)", name)):
            continue
        kind, tensor, axis = named.groups()
        count, at, of = (once(facts, name + what) for what in ("", ", at", ", of"))
        where = {"0": "column", "1": "row"}.get(axis, f"coordinate {axis} =")
        values = {"tensor": tensor, "axis": where, "count": count, "farthest": at, "of": of}
        rank = next((rank for rank in range(HOME.cluster) if facts.get(f"{name}, rank {rank}")), 0)
        if rank:  # and none of rank 0
            left.append(Cause("outside", f"{kind}-outside-of-a-rank", values | {"rank": rank}))
        else:
            left.append(Cause("outside", f"{kind}-outside", values))
    return left


def _corner(wrong: Wrong) -> Cause | None:
    """The first cause, where it is that D's upper left corner alone was written."""
    first = wrong.causes[0] if wrong.causes else None
    return first if first and first.kind == "corner" else None


def _is_batched(artifact: Artifact) -> bool:
    return bool(artifact.tensors) and len(artifact.tensors[-1].shape) > 2


def _of_tiles(wrong: Wrong, answer: Answer, artifact: Artifact) -> Wrong:
    """What the facts say of a kernel whose tiles divide D."""
    facts = answer.facts or {}
    wrong = _left_over(_located(wrong, facts, _is_batched(artifact)), answer, artifact)
    wrong = replace(wrong, causes=_former_tile(wrong.causes, facts, artifact))
    return _last_left_out(wrong, artifact)


def _located(wrong: Wrong, facts: Facts, hang: bool = False) -> Wrong:
    """First what lay outside, where that explains the rest, else last. ``hang``: boxes may hang over an edge,
    and none may begin past it.
    """
    left = outside(facts)
    if hang:
        left = [cause for cause in left if not 0 <= cause.values["farthest"] < cause.values["of"]]
    if not left:
        return wrong
    causes = wrong.causes
    guess = len(causes) > 1 and causes[0].case in ("every-tile", "some-tiles")
    causes = causes[guess:]
    explains = guess or any(cause.case in EXPLAINED | GAPS for cause in causes)
    # a corner's question is of x and y, the mirror's of M and N
    explains = explains and not _corner(wrong) and all(cause.case != "mirror" for cause in causes)
    return replace(wrong, causes=(*left, *causes) if explains else (*causes, *left))


def _left_over(wrong: Wrong, answer: Answer, artifact: Artifact) -> Wrong:
    """First how many tiles the CTAs of a persistent grid took, where no CTA took as many as it had to, and
    that is all that is wrong.
    """
    facts = answer.facts or {}
    taken = once(facts, "tiles taken")
    if _corner(wrong) or not taken or not answer.unwritten or answer.wrong != answer.unwritten:
        return wrong
    M, N, _ = artifact.problem
    tile, rest = divmod(M * N - answer.unwritten, taken)
    (x, y, z), size, rounds = artifact.grid, math.prod(artifact.cluster), once(facts, "rounds")
    whole = tile and not rest and not answer.unwritten % tile
    if not whole or y * z > 1 or outside(facts) or rounds * x >= (tiles := M * N // tile):
        return wrong
    values = {"ctas": x, "taken": taken, "tiles": tiles, "most": rounds, "tensor": artifact.tensors[-1].name}
    left = Cause("tiles", "tiles-left", values)
    if size > 1:
        left = Cause("tiles", "tiles-left-by-clusters", values | {"clusters": x // size})
    return replace(wrong, causes=(left, *wrong.causes))


def _former_tile(causes: tuple[Cause, ...], facts: Facts, artifact: Artifact) -> tuple[Cause, ...]:
    """Another tile's sum is no former one, where a CTA has a single tile, or stores add."""
    adds = "cp.reduce.async.bulk.tensor" in artifact.ptx
    if not adds and once(facts, "sums of a warp") != 1:
        return causes
    case = "another-tile-added" if adds else "another-tile"
    return tuple(replace(cause, case=case) if cause.case == "former-tile" else cause for cause in causes)


def _at_the_edge(wrong: Wrong, answer: Answer, artifact: Artifact) -> Wrong:
    """What leaves out a part of D, or of K, at an edge that tiles hang over."""
    facts = answer.facts or {}
    if not facts:  # a GPU's answer: what its values tell
        return _last_left_out(wrong, artifact, LARGEST_SIDE)
    if (unstored := _never_stored(wrong, facts, artifact)) is not None:
        return unstored
    (M, _, K), a, d = artifact.problem, artifact.tensors[0].name, artifact.tensors[-1].name
    columns, left = divmod(once(facts, f"elements of {a} loaded"), M)
    busy = once(facts, "CTAs with a tile")
    idle = busy - once(facts, "CTAs that store")
    if idle > 0:
        return _caused(wrong, Cause("tiles", "last-not-stored", {"idle": idle, "busy": busy, "tensor": d}))
    if not left and K - BLOCK_K < columns < K:
        short = Cause("unread", "last-k-tile-not-loaded", {"loaded": columns, "of": K, "tensor": a})
        return _caused(wrong, short, _rounded_down("K", artifact))
    return _last_left_out(wrong, artifact, LARGEST_SIDE)


def _caused(wrong: Wrong, cause: Cause, place: Place | None = None) -> Wrong:
    """``cause`` alone leads; what its values say of how many and where folds below."""
    counts = counted(wrong.causes)
    return replace(wrong, causes=(cause,), place=place, below=(*wrong.below, *counts))


def _last_left_out(wrong: Wrong, artifact: Artifact, most: int = 0) -> Wrong:
    """Tiles at D's edge that are not whole were left out, and all else was written. ``most``: so much may be
    missing where a side is of whole tiles too.
    """
    if (corner := _corner(wrong)) is None:
        return wrong
    sides = dict(zip("MN", artifact.problem, strict=False))
    short = {"M": sides["M"] - corner.values["rows"][1], "N": sides["N"] - corner.values["columns"][1]}
    for axis, lost in short.items():
        partial = sides[axis] % BLOCK_K
        if lost and lost >= most and not (partial and lost % BLOCK_K == partial):
            return wrong
    if max(short.values()) >= LARGEST_SIDE:
        return wrong
    axis = next(axis for axis, lost in short.items() if lost)
    edge = Cause("tiles", "edge-left-out", corner.values)
    return _caused(wrong, edge, _rounded_down(axis, artifact))


def _rounded_down(axis: str, artifact: Artifact) -> Place | None:
    """The one line that divides this side of the problem, by the name that a factory's argument has, and does
    not round up. No instruction is left of it: it ran while the kernel was traced.
    """
    return lines.one(rf"(?<![-\w]){axis}\s*//", artifact)


def _never_stored(wrong: Wrong, facts: Facts, artifact: Artifact) -> Wrong | None:
    """Which chunks of a tile, or which tiles, a kernel that stores tiles in chunks leaves out; None where it
    is something else.
    """
    first = wrong.causes[0] if wrong.causes else None
    several = once(facts, "rounds") > 1
    name, of_d = _of_output(artifact)
    if first and first.case in ("columns-of-each", "columns-of-some"):
        (begin, end), width = first.values["columns"], first.values["width"]
        box = of_d.box[0] if of_d is not None else 0
        if not 0 < box < width:
            return None
        every = first.case == "columns-of-each"
        chunks = begin // box, (end - 1) // box
        values = {"chunks": chunks, "number": chunks[1] - chunks[0] + 1, "columns": (begin, end)}
        values |= {"width": width, "last_chunk": -(-width // box) - 1}
        case = "last-chunks-not-stored" if several and not every else "chunks-not-stored"
    elif first and first.case in ("band-of-columns", "band-of-rows") and several:
        every, case, values = False, first.case.replace("of", "not-stored-of"), {**first.values}
    else:
        return None
    stores = lines.of_stores(artifact, every)
    calls = [place.line for place in stores] if len(stores) > 1 else None
    cause = Cause("tiles", case, values | {"tensor": name, "calls": calls})
    return _caused(wrong, cause, stores[0] if len(stores) == 1 else None)


def _in_order(wrong: Wrong, facts: Facts, artifact: Artifact) -> Wrong:
    """A persistent grid that left a part of D out has no x and y but an order of tiles, and stores outside D
    say that M and N are mixed up there.
    """
    (x, y, z), causes = artifact.grid, list(wrong.causes)
    at = next((at for at, cause in enumerate(causes) if cause.case == "corner-of-the-grid"), None)
    persistent = x in artifact.chip.persistent_grids or artifact.lines(lines.SCHEDULER)
    if at is None or y * z > 1 or not persistent:
        return wrong
    stores = [cause for cause in outside(facts) if cause.case.startswith("stores")]
    if any(cause.values["farthest"] >= max(artifact.problem[:2]) for cause in stores):
        # farther than M and N mixed up would take it
        far = replace(stores[0], case="store-of-other-tiles")
        rest = [cause for cause in causes[at + 1 :] if cause.kind != "outside"]
        return replace(wrong, causes=(far, *causes[:at], replace(causes[at], case="corner"), *rest))
    causes[at] = replace(causes[at], kind="tiles", case="order-mixed-up" if stores else "order-covers")
    return replace(wrong, causes=tuple(causes))


def _without_rank(wrong: Wrong, artifact: Artifact) -> Wrong:
    """CTAs of a cluster that store one place: the line that makes its row or column without the rank. The
    store takes what it is given.
    """
    first = wrong.findings[0] if wrong.findings else None
    if first is None or not within_a_cluster(first):
        return wrong
    place = lines.without_rank(artifact, first["line"])
    if place is None or place.line == first["line"]:
        return wrong
    more = (f"the store: {first['where']}", *first["more"])
    mended = {**first, "file": place.file, "line": place.line, "code": place.code, "where": str(place)}
    mended |= {"more": more, "generated": "", "ptx": ""}
    return replace(wrong, findings=(mended, *wrong.findings[1:]))


def _of_warpgroups(wrong: Wrong, artifact: Artifact) -> Wrong:
    """The cause is the MMA's layout, in CuTe DSL: two warpgroups multiply the same rows, or write the same
    part of D.
    """
    place = lines.one(r"make_tiled_mma\(", artifact)
    # no instruction tells how an MMA lies over warpgroups: two below each other are the call's (2, 1, 1)
    if artifact.threads <= 2 * WARPGROUP_THREADS or place is None or re.search(BELOW_EACH_OTHER, place.code):
        return wrong
    first = wrong.findings[0] if wrong.findings else None

    def rows(cause: Cause) -> tuple:
        return (*cause.values.get("rows", ()), *cause.values.get("A_rows", ()))

    same = [cause for cause in wrong.causes if rows(cause) == (64, 128, 0, 64)]
    if first is None and same:
        shared = Cause("accumulator", "shared-rows", same[0].values)
        return replace(wrong, causes=(shared,), place=place, below=(*wrong.below, *wrong.causes))
    warps = same_part(first) if first is not None else None
    if first is None or warps is None or warps[0] // 4 == warps[1] // 4:
        return wrong
    shared = Cause("accumulator", "shared-part")
    return Wrong(causes=(shared,), place=place, below=wrong.below, behind=(first,))


def _of_output(artifact: Artifact) -> tuple[str, TensorMap | None]:
    """The last tensor's name, and its map; "" and None where there is none."""
    name = artifact.tensors[-1].name if artifact.tensors else ""
    return name, next((p.tensor_map for p in artifact.parameters if p.tensor_map and p.tensor == name), None)


def _stored_otherwise(wrong: Wrong, answer: Answer, artifact: Artifact) -> Wrong:
    """The map of D is to blame, where its store reads with another swizzle than its tile in shared memory was
    allocated with.
    """
    name, stored = _of_output(artifact)
    tiles = [one for one in artifact.allocations if artifact.name_of(one).startswith(f"{name}_")]
    if not answer.finished or answer.ok or stored is None or not tiles:
        return wrong
    written = {one.swizzle for one in tiles}
    if stored.swizzle in written:
        return wrong
    values = {"tensor": name, "stored": SWIZZLES[stored.swizzle], "written": SWIZZLES[max(written)]}
    cause, below = Cause("swizzle", "stored-swizzle", values), (*wrong.below, *wrong.causes)
    place = lines.of_map(name, artifact)
    return Wrong(causes=(cause,), place=place, below=below, behind=wrong.behind + wrong.findings)


def _of_buffers(wrong: Wrong, artifact: Artifact) -> Wrong:
    """Why registers of a running wgmma are used, where the sums have no fixed registers and lie in local
    memory; why a buffer of D is written while its store reads, where shared memory holds one box of D alone.
    """
    first = wrong.findings[0] if wrong.findings else None
    if first is None:
        return wrong
    if first["kind"] == "accumulator-before-wait" and artifact.resources.stack_frame:
        folded = {**first, "more": [first["text"], *first["more"]]}
        return replace(wrong, findings=(folded, *wrong.findings[1:]), lead=_in_memory(artifact))
    name, stored = _of_output(artifact)
    if first["kind"] != "overwrite-while-read" or stored is None or not waits_too_late(first):
        return wrong
    for one in artifact.allocations:
        called = artifact.name_of(one)
        if called.startswith(f"{name}_") and one.size == stored.box_bytes:
            values = {"finding": first["text"].rstrip("."), "buffer": called}
            return replace(wrong, lead=Cause("overwrite-while-read", "one-buffer", values))
    return wrong


def _in_memory(artifact: Artifact) -> Cause:
    """Why sums lie in local memory: each consumer has a share of the tile's columns, or an index varies."""
    shape = next(iter(receipts.read_ptx(artifact.ptx).wgmma), "").partition(".")[0]
    columns = re.search(r"n(\d+)k", shape)
    boxes = {p.tensor: p.tensor_map.box for p in artifact.parameters if p.tensor_map is not None}
    of_b = boxes.get(artifact.tensors[1].name, (0, 0))
    if columns and int(columns[1]) < of_b[1]:
        return Cause("accumulator-before-wait", "columns-of-each-warpgroup", {"wgmma": shape})
    return Cause("accumulator-before-wait", "sums-in-local-memory")
