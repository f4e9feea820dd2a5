"""Questions on the order of events, each with one right order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from course_utils.drills.question import Question, order

# Each: the question, (event, why it comes before the next) in order, and a sentence on the whole.
IN = (
    "Threads copy a tile to shared memory, and wgmma multiplies it.",
    (
        ("threads store the tile", "a fence makes visible what was written before it."),
        ("fence.proxy.async in each thread", "after the barrier every thread has written and fenced."),
        ("the CTA's barrier", "wgmma reads what all threads wrote."),
        ("wgmma", "a group closes over what was issued."),
        ("commit_group", "there is no group to wait for before it is closed."),
        ("wait_group 0", "the accumulator may still be written before."),
        ("threads read the sums", ""),
    ),
    "Write, fence, meet; multiply, commit, wait; only then read.",
)
THROUGH_TMEM = (
    "Tensor memory in a kernel of one tile.",
    (
        ("one warp allocates columns", "an MMA needs the address that the allocation stores."),
        ("one thread issues the MMAs", "a commit covers only what its thread has issued before."),
        ("the same thread commits", "the commit's arrival completes the phase that the wait is for."),
        ("all threads wait on the mbarrier", "nothing orders an MMA before tcgen05.ld but its commit."),
        ("tcgen05.ld in every warp", "a warp may still read its lanes: all have to meet first."),
        ("the CTA's barrier", "dealloc takes the columns from every warp."),
        ("one warp deallocates", ""),
    ),
    "Allocate, multiply, commit, wait, read, meet, free.",
)
OUT_OF_TMEM = (
    "An accumulator in tensor memory, and TMA stores it.",
    (
        ("the wait for the commit", "nothing orders an MMA before tcgen05.ld but its commit."),
        ("tcgen05.ld to registers", "a thread rounds what it has read."),
        ("fp16 into D_shared", "a fence makes visible what was written before it."),
        ("fence.proxy.async by each writer", "after the barrier every thread has written and fenced."),
        ("the CTA's barrier", "TMA reads what all threads wrote."),
        ("one thread stores and commits the group", "there is no group to wait for before it is closed."),
        ("wait_group", ""),
    ),
    "Wait, read, write, fence, meet; one stores and waits.",
)
OF_A_PAIR = (
    "One K tile of a pair of CTAs, in a stage that is free.",
    (
        ("CTA 0 expects the bytes of both, and both load", "nothing lands before its load is issued."),
        ("the last bytes of CTA 1 land", "full of CTA 0 needs the bytes of both CTAs."),
        ("full of CTA 0 completes its phase", "only a completed phase lets the MMA warp go on."),
        ("one thread of CTA 0 issues the MMAs", "a commit covers what its thread has issued before."),
        ("it commits, to both CTAs", "the commit arrives once the MMAs have read both CTAs."),
        ("empty of both CTAs completes its phase", "a load warp waits on its own CTA's empty."),
        ("CTA 1 loads over this stage", ""),
    ),
    "Both load, CTA 0 waits and multiplies, its commit frees the stage in both.",
)
ROUND = (
    "One round of a loop over K, tiles copied by threads.",
    (
        ("copy tile k", "a fence makes visible what was written before it."),
        ("fence.proxy.async", "after the barrier every thread has written and fenced."),
        ("barrier 1", "wgmma reads what all threads wrote."),
        ("wgmma on tile k", "one waits for what was issued."),
        ("wait_group 0", "the barrier tells the others what each warp has waited for."),
        ("barrier 2", "the slot may be read until everybody is here."),
        ("copy tile k + 1", ""),
    ),
    "Barrier 1 keeps copies from products, the wait and barrier 2 products from the next copy.",
)
LOAD = (
    "One K tile of step 4, as the barrier sees it.",
    (
        ("init(1)", "no thread may arrive before init."),
        ("expect_tx, load, arrive", "nothing lands before its load is issued."),
        ("the last byte lands", "the phase needs all of its bytes."),
        ("phase 0 completes", "the wait for parity 0 blocks until phase 0 is over."),
        ("the wait for parity 0 passes", "the tile is surely there only after the wait."),
        ("wgmma", ""),
    ),
    "Issue and arrive; bytes land; the phase completes; the wait passes; multiply.",
)
OUT = (
    "Threads hold a tile of D in registers, and TMA stores it.",
    (
        ("round the accumulator into D_shared", "a fence makes visible what was written before it."),
        ("fence.proxy.async by each writer", "after the barrier every thread has written and fenced."),
        ("the barrier", "TMA reads what all threads wrote."),
        ("one thread stores", "a group closes over stores that were issued."),
        ("commit_group", "there is no group to wait for before it is closed."),
        ("wait_group", "TMA may still read D_shared."),
        ("the CTA ends", ""),
    ),
    "Write, fence, meet; one stores, commits and waits.",
)
PREFETCH = (
    "Two stages, three K tiles. The load of tile i is issued one step before its product.",
    (
        ("issue the load of tile 0", "loads are issued in order."),
        ("issue the load of tile 1", "step 1 issues the load of tile 1, then multiplies tile 0."),
        ("multiply tile 0", "tile 2 goes to the stage of tile 0."),
        ("issue the load of tile 2", "step 2 issues the load of tile 2, then multiplies tile 1."),
        ("multiply tile 1", "tiles are multiplied in order."),
        ("multiply tile 2", ""),
    ),
    "Each step issues a load first and then multiplies the tile before, so a load runs during each product.",
)
NEXT_TILE = (
    "A persistent CTA continues from one tile of D to the next, as in step 6.",
    (
        ("store of the last tile issued", "the next tile is loaded during the store."),
        ("the next tile's K loop", "D_shared is needed only when the accumulator is ready."),
        (
            "wait_group.read 0 by the storing thread",
            "only that thread has waited: the others need a barrier.",
        ),
        ("the barrier", "after it all threads may write D_shared."),
        ("write D_shared", "a fence makes visible what was written before it."),
        ("fence.proxy.async", ""),
    ),
    "The wait moves behind the next loop, and the barrier behind the wait.",
)
STAGE = (
    "One stage between producer and consumer, as in step 7.",
    (
        ("the wait on empty passes", "the stage may be overwritten only then."),
        ("the producer issues the load", "nothing lands before its load is issued."),
        ("full's phase completes", "the consumer waits for full."),
        ("the wait on full passes", "the tile is surely there only then."),
        ("wgmma reads the stage", "the stage may be read until the product is over."),
        ("the consumer arrives on empty", ""),
    ),
    "The producer waits on empty and the consumer on full, and each arrival ends the other's wait.",
)
FLIGHT = (
    "Step 8's consumer at K tile 7, with one group in flight.",
    (
        ("the wait on full for tile 7 passes", "the tile must have landed."),
        ("issue the product of tile 7", "the wait counts groups that were issued."),
        ("wait_wgmma(1) returns", "it says that the product of tile 6 is over."),
        ("arrive on empty for tile 6", "the round ends with the release."),
        ("the wait on full for tile 8 passes", ""),
    ),
    "Issue the next product first, then wait for the one before and release its stage.",
)
CLUSTER = (
    "The life of a CTA in a cluster, as in step 9.",
    (
        ("initialise the barriers", "they must be visible before a thread arrives on them."),
        ("the first cluster barrier", "the other CTA's barriers exist only after it."),
        ("multicast into both CTAs", "a consumer needs the tile."),
        ("consumers of both multiply", "a stage is released when its product is over."),
        ("the last arrivals on both empty", "no thread may arrive in a CTA that has ended."),
        ("the last cluster barrier", ""),
    ),
    "No arrival comes before the first barrier, and no CTA ends before the last.",
)
CHUNK = (
    "One chunk of D through one of two buffers.",
    (
        (
            "wait_group.read 1 by the storing thread",
            "only that thread has waited: the others need a barrier.",
        ),
        ("all consumers meet", "the buffer may still be read before."),
        ("write the buffer", "a fence makes visible what was written before it."),
        ("everybody fences", "after the barrier every thread has written and fenced."),
        ("all meet again", "TMA reads what all threads wrote."),
        ("one thread stores and commits", ""),
    ),
    "Wait, meet, write, fence, meet, store.",
)
UNDER = (
    "Step 11's consumers, from one tile of D to the next.",
    (
        ("the tile's last product is over", "its sums are complete only then."),
        ("its sums become fp16, in other registers", "the next product overwrites the sums."),
        ("the next tile's first product is issued", "first the tensor cores get work, then D."),
        ("a chunk of D goes to shared memory", "TMA stores what the threads have written."),
        ("TMA's store of it is issued", "the wait comes last: threads store while the product runs."),
        ("wait_group 1 returns", ""),
    ),
    "Copy the accumulator, give the tensor cores work, then store D during it.",
)
COPY = (
    "A copy kernel: one box in, one box out, by one warp.",
    (
        ("expect the bytes, arrive, load", "nothing lands before its load is issued."),
        ("full's phase completes", "the wait for parity 0 blocks until phase 0 is over."),
        ("the wait passes", "the tile is surely there only then."),
        ("store", "a group closes over stores that were issued."),
        ("commit_group", "there is no group to wait for before it is closed."),
        ("wait_group", ""),
    ),
    "Expect, load, land, wait, store, commit. No fence: TMA wrote S and TMA reads it.",
)


TWO_PRODUCTS = (
    "One round of attention in one warpgroup: S of tile n, and P of tile n - 1 is ready.",
    (
        ("issue S of tile n", "S is issued first, so that it is over first."),
        ("issue O += P V of tile n - 1", "groups are waited for once both are issued."),
        ("wait_group 1", "S may still be written before."),
        ("softmax of tile n", "the wait for O comes late, so that P V runs under the softmax."),
        ("wait_group 0", "P V still reads P and writes O."),
        ("rescale O, write P", ""),
    ),
    "Two groups in flight, S in front: its softmax runs while P V is multiplied.",
)


def told(story: tuple) -> Callable[[Random], Question]:
    """A question about some neighbouring events of a story."""
    text, events, whole = story

    def ask(rng: Random) -> Question:
        count = min(rng.choice((4, 5)), len(events))
        first = rng.randrange(len(events) - count + 1)
        part = events[first : first + count]
        names, because = [name for name, _ in part], [why for _, why in part[:-1]]
        return order(f"{text} In which order?", names, because, whole, rng)

    return ask
