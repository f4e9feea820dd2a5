"""What each DSL calls what PTX names: a learner wrote the call, and reads the term."""

from __future__ import annotations

import re

# PTX term: the call of each DSL. The longer of two terms comes first.
CALLS = {
    "cp.async.bulk.wait_group": {
        "tilelang": "T.tma_store_wait(n)",
        "cute": "cute.arch.cp_async_bulk_wait_group(n)",
    },
    "cp.async.bulk.commit_group": {
        "tilelang": "T.tma_store_arrive()",
        "cute": "cute.arch.cp_async_bulk_commit_group()",
    },
    "wgmma.commit_group": {"cute": "warpgroup.commit_group()"},
    "fence.proxy.async": {"tilelang": "T.fence_proxy_async()", "cute": "cute.arch.fence_view_async_shared()"},
    "fence_mbarrier_init": {"cute": "cute.arch.mbarrier_init_fence()"},
    "wgmma.wait_group": {"tilelang": "T.wait_wgmma(n)", "cute": "warpgroup.wait_group(n)"},
    "wait_group": {"tilelang": "T.wait_wgmma(n)", "cute": "warpgroup.wait_group(n)"},
    "wgmma.fence": {"tilelang": "T.warpgroup_arrive()", "cute": "warpgroup.fence()"},
    "setmaxnreg": {
        "tilelang": "T.dec_max_nreg, T.inc_max_nreg",
        "cute": "cute.arch.setmaxregister_decrease, setmaxregister_increase",
    },
    "cluster barrier": {"tilelang": "T.cluster_sync()", "cute": "cute.arch.cluster_arrive(), cluster_wait()"},
}
# What a kind of finding mostly comes from in one DSL.
BESIDES = {
    (
        "absent-lanes",
        "cute",
    ): " cute.copy with a TMA atom elects its own lane and may not stand under elect_one.",
    ("livelock", "tilelang"): " `tiles.next_tile()` takes it.",
    ("absent-lanes", "tilelang"): " T.tma_copy and T.shuffle_elect elect among the lanes of whole warps.",
}
_TERM = re.compile("|".join(rf"(?<![\w.]){re.escape(term)}(?!\w|\.\w)" for term in CALLS))


def beside(text: str, dsl: str) -> str:
    """The text with the DSL's call beside each PTX term, once."""
    told = set[str]()

    def add(found: re.Match[str]) -> str:
        call = CALLS[found[0]].get(dsl)
        if call is None or call in told:
            return found[0]
        told.add(call)
        return f"{found[0]} (`{call}`)"

    return _TERM.sub(add, text)
