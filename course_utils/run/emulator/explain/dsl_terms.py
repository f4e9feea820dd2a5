"""What each DSL calls what PTX names: a learner wrote the call, and reads the term."""

from __future__ import annotations

import re

# PTX term: the call in TileLang and in CuTe DSL, "" where there is none. The longer of two terms comes first.
DSLS = "tilelang", "cute"
CALLS = {
    "cp.async.bulk.wait_group": ("T.tma_store_wait(n)", "cute.arch.cp_async_bulk_wait_group(n)"),
    "cp.async.bulk.commit_group": ("T.tma_store_arrive()", "cute.arch.cp_async_bulk_commit_group()"),
    "wgmma.commit_group": ("", "warpgroup.commit_group()"),
    "fence.proxy.async": ("T.fence_proxy_async()", "cute.arch.fence_view_async_shared()"),
    "fence_mbarrier_init": ("", "cute.arch.mbarrier_init_fence()"),
    "wgmma.wait_group": ("T.wait_wgmma(n)", "warpgroup.wait_group(n)"),
    "wait_group": ("T.wait_wgmma(n)", "warpgroup.wait_group(n)"),
    "wgmma.fence": ("T.warpgroup_arrive()", "warpgroup.fence()"),
    "setmaxnreg": (
        "T.dec_max_nreg, T.inc_max_nreg",
        "cute.arch.setmaxregister_decrease, setmaxregister_increase",
    ),
    "cluster barrier": ("T.cluster_sync()", "cute.arch.cluster_arrive(), cluster_wait()"),
}
# What a kind of finding mostly comes from, by the kind and the DSL.
BESIDES = {
    "absent-lanes cute": " cute.copy with a TMA atom elects its own lane and may not stand under elect_one.",
    "livelock tilelang": " `tiles.next_tile()` takes it.",
    "absent-lanes tilelang": " T.tma_copy and T.shuffle_elect elect among the lanes of whole warps.",
}
_TERM = re.compile("|".join(rf"(?<![\w.]){re.escape(term)}(?!\w|\.\w)" for term in CALLS))


def beside(text: str, dsl: str) -> str:
    """The text with the DSL's call beside each PTX term, once."""
    told = set[str]()

    def add(found: re.Match[str]) -> str:
        call = dict(zip(DSLS, CALLS[found[0]], strict=True)).get(dsl)
        if not call or call in told:
            return found[0]
        told.add(call)
        return f"{found[0]} (`{call}`)"

    return _TERM.sub(add, text)
