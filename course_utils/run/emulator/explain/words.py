"""The one table of sentences: what is said of each case that is found, by its name. ``cause.sentence`` fills
in the values. And of each kind, what it means and what to try.
"""

from course_utils.artifact import REGISTER_LIMIT

BARRIERS = {
    "no words": "{kind}: the emulator has no words for this case",
    # units/sync: where threads meet, and the register pool
    "threads at a barrier": "{count} threads came to {barrier}, which {needed} should meet",
    "count of a named barrier": "{who} {who:comes|come} to barrier {number} with {count} threads; "
    "numbers are 0 to 15, counts multiples of 32",
    "counts of a named barrier differ": "{who} {who:comes|come} to barrier {number} with {count} threads, "
    "others with {others}",
    "registers asked for": "{who} {who:asks|ask} for {count} registers",
}

MEMORY: dict[str, str] = {
    "text": "{text}",
    # explain/causes and explain/stages: what explains a finding, on its sentence
    "its wait leaves stores": ": its wait leaves {count} in flight",
    "waits for its store, and no barrier follows": ": {who} {who:waits|wait} for it, and no barrier follows",
    "nothing reads a line's writes": ", and nothing reads what line {line} writes: do both take one slot?",
    "what nothing reads": "what nothing reads: {place}",
}

SENTENCES = {**BARRIERS, **MEMORY}

# What the emulator can find: severity, what it means and what to try. An error is a fault of the program on
# some schedule, even where this run's numbers came out right; a warning is something that experts disagree
# on; a cause explains numbers that are wrong, and is nothing where they are right.
# fmt: off
KINDS = {
    "deadlock": ("error",
        "Every warp that is left waits for something that nobody will do. Count for each barrier who "
        "arrives, how often, how many bytes are expected and come, and the parity that each wait starts "
        "with."),
    "livelock": ("error",
        "A warp loops without end and nothing that it reads will change. Does the loop's bound change "
        "inside it, and does each turn of a loop over tiles take the next tile?"),
    "register-budget": ("error",
        "The warpgroups ask for more registers than a CTA has, so one waits for ever. Registers a thread,"
        f" times threads, over all warpgroups must stay within {REGISTER_LIMIT:,}: give the producer "
        "fewer."),
    "setmaxnreg-count": ("error", "setmaxnreg takes a multiple of 8 from 24 to 256."),
    "read-before-load": ("error",
        "Shared memory is read, but the reader has not waited for the TMA load (or cp.async) that fills "
        "it. Wait on the full barrier of this stage, with the parity of this round."),
    "read-before-write": ("error",
        "One warp reads what another wrote to shared memory, and nothing orders the two. Put a barrier "
        "between them."),
    "uninitialised-read": ("error",
        "Shared memory is read that nothing has written. Is the stage index the one that was loaded, and "
        "does the tile cover all that is read?"),
    "overwrite-while-read": ("error",
        "A stage is written while wgmma or a TMA store may still read it. Release a stage only after the "
        "wait_group that covers its reader, and wait for that release before the next load."),
    "overwrite-before-use": ("error",
        "A TMA load writes over an earlier load of the same bytes that nobody has waited for. Does the "
        "producer wait on the empty barrier of this stage?"),
    "load-twice": ("error",
        "Two loads that signal one phase of an mbarrier write the same bytes, so one of them is lost. Look "
        "at the stage index and the buffer of each. Where the CTAs of a cluster multicast, each loads the "
        "part that its rank says, of the tile and of the buffer, and nobody loads that tile again."),
    "load-unwaited": ("error",
        "A load that nobody waits for is still under way when its memory is used again, or when the CTA "
        "ends. Whoever multiplies a tile waits for it: do the loop that loads and the loop that multiplies "
        "go over the same tiles, with the same stage and phase, and as many of them?"),
    "stage-mismatch": ("error",
        "The load, the wait and the read of one tile take one stage: that of one count, modulo the number of "
        "stages. Its slots in shared memory and its barrier have the same index."),
    "stage-unread": ("cause",
        "The load, the wait and the read of one tile take one stage: that of one count, modulo the number of "
        "stages. Its slots in shared memory and its barrier have the same index."),
    "swizzle-mismatch": ("cause",
        "TMA lays a tile out by the swizzle of its map, and wgmma reads it by that of its descriptor. Both "
        "come from the layout of the shared tensor: give the map and the multiplication the same one."),
    "same-tiles": ("cause",
        "A tile that both CTAs of a pair need is loaded once and multicast. The other operand's tile is each "
        "CTA's own, and each loads it for itself alone."),
    "ring-overrun": ("error",
        "A stage past the last slot of a ring lies in what follows in shared memory. The buffers of A and B "
        "need a slot for each stage: num_stages may not be more than the slots that they were made with."),
    "stale-store": ("error",
        "A TMA store reads another buffer than the one that threads have just written. The write to shared "
        "memory and the store after it take the same buffer: the same index, where there are several."),
    "store-wait-elsewhere": ("error",
        "commit_group and wait_group are about the stores of the thread that calls them. One warp issues a "
        "TMA store, commits it and waits for it; a barrier tells the others."),
    "write-unordered": ("error",
        "Two writers of the same shared memory are not ordered. Put a barrier between them."),
    "accumulator-before-wait": ("error",
        "Registers of a wgmma are used while it may still run, which the PTX ISA calls undefined. Where "
        "ptxas sees it, it waits in your place and runs one wgmma at a time (it says: serialized). That is "
        "right, slow, and promised by nobody. Wait with wgmma.wait_group first, and commit the group before "
        "the wait."),
    "uninitialised-register": ("error",
        "A register is used that nothing has written: an accumulator that no wgmma has reached, or a part of "
        "a fragment that no store or load has filled. Does the loop that writes it run at least once at this "
        "size, and do both sides name the same part?"),
    "accumulator-uninitialised": ("error",
        "The first wgmma of a tile adds to what its registers happen to hold. Let it overwrite them "
        "(clear_accum, or the ACCUMULATE field set to False), or clear them first."),
    "wgmma-fence": ("error",
        "wgmma starts before wgmma.fence has ordered the registers it uses. Call the fence before the "
        "first wgmma."),
    "wgmma-mismatch": ("error",
        "The four warps of a warpgroup issue different wgmma instructions. All four must run the same one"
        " with the same descriptors."),
    "wgmma-descriptor": ("error", "A wgmma descriptor points outside shared memory."),
    "proxy-fence": ("error",
        "Threads wrote shared memory, and the async proxy (wgmma or a TMA store) reads it with no "
        "fence.proxy.async between. Fence in every thread that wrote, then synchronise; or synchronise, "
        "then fence in the thread that starts the read."),
    "proxy-fence-overwrite": ("error",
        "A TMA load writes over shared memory that threads read or wrote, with no fence.proxy.async "
        "between: an access still under way comes after the load. Fence in every thread before the "
        "barrier, or in the load's thread after it."),
    "expect-tx": ("error",
        "More bytes arrive at an mbarrier than its phase expects, so the phase ends before its loads do. "
        "Expect the bytes of every load that signals this barrier."),
    "barrier-overrun": ("error",
        "An mbarrier gets more arrivals in a phase than it was initialised for. Count who arrives: "
        "threads, or one elected thread, or both CTAs of a cluster."),
    "barrier-init-count": ("error", "An mbarrier's count must be 1 to 1,048,575."),
    "barrier-init-again": ("error",
        "An mbarrier is initialised again, which the PTX ISA leaves undefined: what it has counted is lost. "
        "Initialise it once, before the loops; its phases go on by themselves."),
    "barrier-uninitialised": ("error",
        "An address is used as an mbarrier that no mbarrier.init has made one. A stage counts from 0, modulo "
        "the number of barriers."),
    "barrier-outside": ("error",
        "An mbarrier lies in memory that nobody allocated for it: what is placed there next destroys it. "
        "Each takes 8 bytes. A pipeline has two for each stage, full and empty: allocate 2 * num_stages."),
    "barrier-init-race": ("error",
        "An mbarrier is used before its initialisation is surely visible. After mbarrier.init, fence "
        "(fence.mbarrier_init), then synchronise the CTA, or the cluster where another CTA uses it."),
    "phase-lapped": ("error",
        "An mbarrier finished another phase before a waiting warp had seen the last one; the parity it "
        "waits for may never show again. Nobody may go a round ahead of a waiter."),
    "named-barrier": ("error",
        "Warps disagree on how many threads meet at a named barrier, or the count is no multiple of 32."),
    "cluster-exit": ("error",
        "A CTA may leave its cluster while another still writes to it or arrives on its barriers. Arrive "
        "and wait, in every thread, at the end: a cluster barrier."),
    "cluster-rank": ("error", "An address or a multicast mask names a CTA that the cluster does not have."),
    "exit-in-flight": ("error",
        "A CTA ends while a TMA transfer still uses its shared memory. Wait for loads on their barrier "
        "and for stores with cp.async.bulk.wait_group before the end."),
    "out-of-bounds": ("error",
        "An access lies outside its memory. Look at the tile's coordinates, the stage index and the "
        "guard."),
    "stored-twice": ("error",
        "Two CTAs store the same elements, and nothing orders the two. A persistent CTA begins at its own "
        "number and goes on by the number of CTAs in the grid (of clusters, where each has a tile of its own "
        "pair): is the grid as large as the loop's stride?"),
    "misaligned": ("error",
        "An address is not aligned for its access: 16 bytes for a vector, 128 for a TMA tile, 8 for an "
        "mbarrier."),
    "swizzle-alignment": ("warning",
        "A swizzled tile does not start where its pattern does (1,024 bytes for 128B, 512 for 64B, 256 "
        "for 32B). Align the buffer, or say so in the descriptor's base offset."),
    "tensor-map": ("error", "A tensor map cannot be used as it stands."),
    "aligned": ("error",
        "A whole warp must run this instruction together, and only some of its lanes do. Move it out of "
        "the branch at which the lanes part, or let all lanes take it."),
    "absent-lanes": ("error",
        "elect, shfl or vote waits for every lane that its mask names, and some never come: the hardware "
        "hangs. Move it out of the branch."),
    "trap": ("error", "The kernel ran a trap: an assertion of its own failed."),
    "instruction-limit": ("error", "The emulation reached its limit of instructions."),
}
# fmt: on

# The same for a kernel in which every warp that loads multiplies too.
WITHOUT_ROLES = {
    "overwrite-while-read": "A stage is written while wgmma or a TMA store may still read it. Wait for its "
    "reader with wait_group, synchronise all warps that read, and only then load or write it again.",
    "overwrite-before-use": "A TMA load writes over an earlier load of the same bytes that nobody has waited "
    "for. Ask for the next tile of a stage only after all warps have waited for this one and multiplied it.",
    "read-before-load": "Shared memory is read, but the reader has not waited for the TMA load (or cp.async) "
    "that fills it. Wait on the barrier of this stage, with the parity of this round.",
}
# What to try in place of that, by the case.
ADVICE = {
    # nothing but loads ends a phase of any mbarrier.
    "no second barrier": (
        "A TMA load writes over an earlier load of the same bytes that nobody has waited for. What tells the "
        "producer that a stage is free? It takes a second barrier for each stage, which the consumers arrive "
        "on."
    ),
    "one slot": (
        "Two stages share the same bytes of shared memory. The buffer of a load takes the same stage index as"
        " the barrier that the load signals."
    ),
    "store still reads": (
        "A TMA store may still read what is written here. The thread that issued it waits for its group with "
        "cp.async.bulk.wait_group, then a barrier tells the others; only then anyone writes this buffer "
        "again."
    ),
    "released early": (
        "A stage is written while its last content may still be used. Release a stage only after the "
        "wait_group that covers its reader, and only once a round for each warp that its barrier counts."
    ),
    "stored by several": (
        "Each warp waits for the stores that it has issued itself, so a store that another warp issues too is"
        " under way longer than the wait says. Let one warp store, commit and wait."
    ),
}
