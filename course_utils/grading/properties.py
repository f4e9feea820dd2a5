"""What a step requires of an emulated run: the ideas of the steps, held against the facts of the run.

A property holds or not by those facts (the emulator's ``explain/facts``), and is not held against a kernel
where no run could show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from course_utils.artifact import Artifact
from course_utils.cause import Cause
from course_utils.grading import lines
from course_utils.grading.found import Found, found
from course_utils.ptx.families import Family

Facts: TypeAlias = dict[str, int]  # see the emulator's explain/facts

# where either DSL sets the order of tiles: a call of TileLang's; CuTe DSL has none, so the course's own name
ORDER = r"TileScheduler\(|^\s*order ="
MOVED = "registers by warpgroup"
MOST = 0.9  # of the chances: a right kernel takes them all
LOADS = Family.GLOBAL_LOAD, Family.CP_ASYNC, Family.BULK_LOAD  # that are not of a tensor map
STORES = Family.GLOBAL_STORE, Family.BULK_STORE


@dataclass(frozen=True)
class Property:
    """Something that a step requires of a run, ``needs`` in words: ``shown`` in at least a share ``least`` of
    ``chances``, both facts.

    ``instead`` says what was seen instead; a text names the things of which only a share was. The first
    instruction of ``families`` is to blame, and its line is quoted; or the one line with the pattern
    ``call``. ``near`` is as in a Condition.
    """

    needs: str
    shown: str
    chances: str
    instead: Callable[[Facts], Cause] | str
    least: float = 1.0
    families: tuple[Family, ...] = ()
    call: str = ""
    near: tuple[Family, ...] = ()

    def is_violated(self, facts: Facts) -> bool:
        chances = facts.get(self.chances, 0)
        return chances > 0 and facts.get(self.shown, 0) < self.least * chances

    def seen(self, facts: Facts) -> Cause:
        """What was seen instead."""
        if not isinstance(self.instead, str):
            return self.instead(facts)
        of_ctas = self.instead != "CTAs" and not self.instead.startswith("elements")
        ctas = once(facts, "CTAs") if of_ctas and "CTAs" in facts else None
        count, of = once(facts, self.shown), once(facts, self.chances)
        return _is("share", count=count, of=of, things=self.instead, in_ctas=ctas)

    def violation(self, name: str, facts: Facts, artifact: Artifact) -> Found | None:
        """What was seen instead, and where; None where the property holds."""
        if not self.is_violated(facts):
            return None
        last = name == MOVED and bool(facts.get("registers released, whole warpgroups"))
        place = lines.of_families(artifact, *self.families, last=last)
        if not self.families and self.call:
            place = lines.one(self.call, artifact)
        instead, case = self.seen(facts), "property"
        if place and "T.copy(" in place.code and Family.BULK_WAIT in self.families:
            # the wait is not the author's
            return found("missing", "waits-at-once", place, idea=name)
        if instead.case == "share":
            case = "property-in-part"
        return found("missing", case, place, requirement=name, instead=instead)


def once(facts: Facts, name: str) -> int:
    """A fact of one run; ``facts`` add up several that are alike."""
    return facts.get(name, 0) // facts.get("runs", 1)


def _is(case: str, **values: object) -> Cause:
    return Cause("found", case, values)


def _operands(f: Facts) -> Cause:
    others = {
        "`ld.global`": "ran GLOBAL_LOAD",
        "`cp.async`": "ran CP_ASYNC",
        "1-D bulk copies": "ran BULK_LOAD",
    }
    ran = [words for words, name in others.items() if f.get(name)]
    values = {"count": once(f, "operands by TMA"), "of": once(f, "operands")}
    return _is("operands-otherwise", **values, ways=ran) if ran else _is("operands", **values)


def _stores(f: Facts) -> Cause:
    names = ("elements stored by TMA", "elements of D by TMA", "elements stored")
    stored, needed, wanted = (once(f, name) for name in names)
    if stored > needed:
        return _is("stored-often", count=stored, enough=needed)
    return _is("stored-otherwise", count=wanted - stored)


def _registers(f: Facts) -> Cause:
    ways = {"dec": "released", "inc": "taken"}
    moved = {
        way: [once(f, f"registers {name}, whole warpgroups"), once(f, f"registers {name}, warpgroups")]
        for way, name in ways.items()
    }
    if any(whole < reached for whole, reached in moved.values()):
        return _is("warpgroups-moved", warpgroups=moved)
    names = ("released by loading", "loading", "taken by multiplying", "multiplying")
    gave, loading, took, multiplying = (once(f, f"registers: {name}") for name in names)
    return _is("roles-moved", gave=gave, loading=loading, took=took, multiplying=multiplying)


def _panels(f: Facts) -> Cause:
    return _is("panels", mean=f["rows and columns of theirs"] / f["neighbouring CTAs"])


def _rounds(f: Facts) -> Cause:
    return _is(
        "rounds",
        most=once(f, "rounds"),
        enough=once(f, "rounds of all SMs"),
        busy=once(f, "CTAs with a tile"),
        ctas=once(f, "CTAs"),
    )


def _stages(f: Facts, count: int) -> Cause:
    return _is("stages", used=f.get(f"stages of rings of {count}", 0) / f[f"rings of {count} wanted"])


PROPERTIES = {
    "operands by TMA": Property(
        "A and B by TMA alone<: every tile that `wgmma` reads was brought by a tensor load< "
        "(`T.tma_copy`, or `cute.copy` with a TMA atom)>>",
        "operands by TMA alone",
        "operands",
        _operands,
        families=LOADS,
    ),
    "D once": Property(
        "all of D by TMA, each element stored once<: one warp or thread stores a tile, not all of them>",
        "elements of D by TMA",
        "elements stored",
        _stores,
        families=(*STORES, Family.TENSOR_STORE),
    ),
    "stage barriers": Property(
        "a full barrier of its own for each stage<: two stages that share one could not be told apart>",
        "fills of their barrier's stage",
        "fills",
        "loads of a stage",
        near=(Family.TENSOR_LOAD,),
    ),
    "two stages used": Property(
        "a ring of two stages or more in use",
        "rings of 2",
        "rings of 2 wanted",
        lambda f: _stages(f, 2),
        near=(Family.TENSOR_LOAD,),
    ),
    "four stages used": Property(
        "a ring of four stages or more in use",
        "rings of 4",
        "rings of 4 wanted",
        lambda f: _stages(f, 4),
        near=(Family.TENSOR_LOAD,),
    ),
    "loads ahead": Property(
        "loads ahead<: while `wgmma` multiplies K tile k, the load of tile k + 1 is in flight>. Issue it "
        "before you wait for tile k, and wait for it after you multiplied",
        "K tiles with loads 1 ahead",
        "K tiles with 1 after them",
        "K tiles",
        MOST,
        near=(Family.TENSOR_LOAD,),
    ),
    "tile order": Property(
        "an order of tiles for L2<: CTAs that run at one time share rows of A and of B>. Walk D in panels of "
        "2 to 8 tiles< (`swizzle_size`, or a layout of panels)>: not row by row, nor in panels as wide as D",
        "neighbouring CTAs that share",
        "neighbouring CTAs",
        _panels,
        0.5,
        near=(Family.TENSOR_LOAD,),
        call=ORDER,
    ),
    "tile order in each round": Property(
        "near tiles for CTAs that run at one time, in each round<: the panels continue where the last round "
        "ended>",
        "tiles of neighbours, near",
        "tiles of neighbours",
        "tiles of a CTA and the next one",
        0.5,
        near=(Family.TENSOR_LOAD,),
        call=ORDER,
    ),
    "a share for each CTA": Property(
        "even shares<: CTAs take turns, and none takes more tiles than it would with one CTA per SM>",
        "rounds of all SMs",
        "rounds",
        _rounds,
    ),
    "a tile for each CTA": Property(
        "a tile of D for each CTA of a grid that covers D", "rounds of all SMs", "rounds", _rounds
    ),
    "sums go on": Property(
        "one accumulator for all of K<: the first `wgmma` overwrites it, each later one adds to it>",
        "K tiles after a warpgroup's first, added",
        "K tiles after a warpgroup's first",
        "K tiles after the first one",
        0.5,  # two accumulators take turns, or each has a half of K
        families=(Family.WGMMA,),
    ),
    MOVED: Property(
        "`setmaxnreg` both ways, by all four warps of a warpgroup< (`T.dec_max_nreg`, "
        "`cute.arch.setmaxregister_decrease` before any branch that one warp takes)>",
        "registers moved by whole warpgroups",
        "registers to move",
        _registers,
        families=(Family.SETMAXNREG,),
    ),
    "loads in the epilogue": Property(
        "loads during the epilogue<: the producer issues the next tile's loads, for half of the ring or "
        "more, while consumers write this one>",
        "epilogues with loads",
        "epilogues",
        "epilogues that another tile follows",
        MOST,
        near=(Family.TENSOR_LOAD,),
    ),
    "group in flight": Property(
        "one wgmma group in flight<: within a tile of D, the next `wgmma` is issued while another one runs<"
        " (`T.wait_wgmma(1)`, `warpgroup.wait_group(1)`)>>",
        "K tiles followed, one queued",
        "K tiles followed",
        "K tiles",
        MOST,
        near=(Family.WGMMA_WAIT,),
    ),
    "multicast shared": Property(
        "multicast that shares<: the mask names both CTAs, and both multiply what the load brings>",
        "multicast loads shared",
        "multicast loads",
        "multicast loads",
        near=(Family.MULTICAST_LOAD,),
    ),
    "stores in flight": Property(
        "stores in flight<: the next slice of D is written while TMA still stores this one<"
        " (`T.tma_store_wait(1)`, `cp_async_bulk_wait_group(1, ...)`)>>",
        "slices filled while a store flies",
        "slices after another",
        "slices that follow one",
        MOST,
        (Family.BULK_WAIT,),
    ),
    "store under loads": Property(
        "the store of a tile under the next tile's loads<: wait for it before its buffer is written again, "
        "not at once>",
        "stores under the next tile",
        "stores that a tile follows",
        "tiles that another follows",
        MOST,
        (Family.BULK_WAIT,),
    ),
    "cut by TMA": Property(
        "the last rows of D in a tile like all others<: TMA drops the rows past the last one, and no tile "
        "is moved up over its neighbour>",
        "stores of the last row that TMA cuts",
        "stores of the last row",
        "stores of the last row",
        near=(Family.TENSOR_STORE,),
    ),
    "K shared": Property(
        "split-K<: several CTAs have a part of K each, and add their sums to the same tile of D>",
        "boxes added to by several CTAs",
        "boxes added to",
        "boxes of D",
        near=(Family.TENSOR_REDUCE,),
    ),
    "rows ahead": Property(
        "loads ahead<: while rows are computed and stored, the load of later rows is in flight, and need "
        "not wait for that store>",
        "results stored with a load ahead",
        "results stored",
        "stores that later rows follow",
        MOST,
        near=(Family.TENSOR_LOAD,),
    ),
    "256 x 128": Property(
        "a tile of 256 x 128<: `wgmma` multiplies 256 rows of A and 128 of B of each stage>",
        "K tiles of 256 and 128 rows",
        "K tiles of A and B",
        "K tiles",
    ),
    "sums of one K block": Property(
        "an accumulator that is overwritten by each K tile<: its sum is added to the second accumulator "
        "before the next K tile>",
        "K tiles begun anew",
        "K tiles",
        "K tiles",
        families=(Family.WGMMA,),
    ),
    "two consumers": Property(
        "two consumer warpgroups that multiply in every CTA",
        "CTAs with two consumers",
        "CTAs that multiply",
        "CTAs",
    ),
    # what a step's conditions are there for, as the dataflow to D shows it (``Condition.run``)
    "product by wgmma": Property(
        "all of D out of `wgmma`<: each element is a sum of its products, and nothing else multiplies>",
        "elements of D by wgmma",
        "elements of D looked at",
        "elements of D",
        0.99,
        near=(Family.WGMMA,),
    ),
    "read by TMA": Property(
        "what is loaded by TMA used<: threads do not read it from global memory again>",
        "reads by TMA",
        "reads",
        "reads",
        MOST,
        families=(Family.GLOBAL_LOAD,),
    ),
    "CTAs with a share": Property(
        "even shares<: every CTA multiplies about as much as any other>",
        "CTAs with their share",
        "CTAs looked at",
        "CTAs",
    ),
    "products once": Property(
        "each product once<: what `wgmma` multiplies goes to D, and no two warpgroups multiply the same>",
        "products in D",
        "products multiplied",
        "products",
        0.85,  # a tile at the edge may store fewer boxes
        near=(Family.WGMMA,),
    ),
    "producer": Property(
        "a producer<: the warpgroup that issues the loads of a tile does not multiply it>",
        "CTAs with a producer",
        "CTAs with loads to multiply",
        "CTAs",
        near=(Family.TENSOR_LOAD,),
    ),
    "stages released": Property(
        "stages that consumers release<: they arrive on an `empty` mbarrier once they have multiplied, and "
        "the producer waits on it alone before it loads over their tile>",
        "loads over a stage that was released",
        "loads over a read stage",
        "loads over a tile that was multiplied",
        MOST,
        near=(Family.ARRIVE, Family.TENSOR_LOAD),
    ),
    "loads three ahead": Property(
        "loads three K tiles ahead<: while `wgmma` multiplies K tile k, those of the next three are issued, "
        "none after another has landed>",
        "K tiles with loads 3 ahead",
        "K tiles with 3 after them",
        "K tiles",
        MOST,
        near=(Family.TENSOR_LOAD,),
    ),
    "K tiles by multicast": Property(
        "a multicast for each K tile<: A or B comes by loads that reach both CTAs>",
        "K tiles of clusters by multicast",
        "K tiles of clusters",
        "K tiles",
        MOST,
        near=(Family.MULTICAST_LOAD,),
    ),
    "stages released by both CTAs": Property(
        "stages that both CTAs release<: a load into the other CTA's stage waits for an mbarrier on which "
        "that CTA arrives once it has multiplied>",
        "loads over a stage that the other CTA released",
        "loads over another CTA's read stage",
        "loads over a tile that the other CTA multiplied",
        MOST,
        near=(Family.REMOTE_ARRIVE, Family.ARRIVE),
    ),
    "sums of two consumers": Property(
        "two consumers whose sums reach D<: each has about half of the elements>",
        "elements of D by a second consumer",
        "elements of D by wgmma",
        "elements of D, the second consumer's",
        0.3,  # who take turns may have two tiles of three
        near=(Family.WGMMA,),
    ),
    "sums of several CTAs": Property(
        "split-K whose parts reach D<: no CTA sums all of K for an element of D>",
        "elements of D by several CTAs",
        "elements of D looked at",
        "elements of D",
        MOST,
        near=(Family.TENSOR_REDUCE,),
    ),
}


def _of_mma(name: str) -> Property:
    """A property of wgmma's, said of tcgen05.mma."""
    row = PROPERTIES[name]
    families = tuple(Family.TCGEN05_MMA if one is Family.WGMMA else one for one in row.near)
    return replace(row, needs=row.needs.replace("`wgmma`", "`tcgen05.mma`"), near=families)


PROPERTIES |= {
    "product by tcgen05": _of_mma("product by wgmma"),
    "operands of tcgen05 by TMA": _of_mma("operands by TMA"),
    "loads ahead of MMAs": _of_mma("loads ahead"),
    "loads three ahead of MMAs": _of_mma("loads three ahead"),
    "MMA products once": replace(
        _of_mma("products once"),
        needs="each product once<: what `tcgen05.mma` multiplies goes to D, and no two threads issue it>",
    ),
    "three roles": Property(
        "three roles<: one warp issues loads, another one issues MMAs, and others read tensor memory and "
        "store D>",
        "CTAs with three roles",
        "CTAs with sums",
        "CTAs",
        near=(Family.TENSOR_LOAD, Family.TCGEN05_MMA),
    ),
    "accumulator ring": Property(
        "a ring of accumulators<: the next tile is multiplied in other columns, and its MMAs need not wait "
        "until this one is read>",
        "accumulators read under MMAs",
        "accumulators read",
        "tiles that another follows",
        MOST,
        near=(Family.TCGEN05_MMA,),
    ),
    "MMAs queued": Property(
        "MMAs in a queue<: those of the next K tile are issued while earlier ones run, and only a commit "
        "signals that they are done>",
        "K tiles followed, one queued",
        "K tiles followed",
        "K tiles",
        MOST,
        near=(Family.TCGEN05_COMMIT,),
    ),
    "products of pairs": Property(
        "all products by pairs<: one thread multiplies the rows of A and B of both CTAs>",
        "products multiplied by pairs",
        "products multiplied",
        "products",
        near=(Family.TCGEN05_MMA,),
    ),
    "two MMA warps": Property(
        "two warps that issue MMAs for every CTA, and sums of each in D",
        "CTAs with two consumers",
        "CTAs that multiply",
        "CTAs",
        near=(Family.TCGEN05_MMA,),
    ),
    "512 columns": Property(
        "all 512 columns of tensor memory with sums<: 256 x 256 of D in a CTA>",
        "columns with sums",
        "columns of tensor memory",
        "columns",
        near=(Family.TCGEN05_MMA,),
    ),
}
