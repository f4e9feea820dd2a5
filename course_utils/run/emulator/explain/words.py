"""The one table of sentences: what is said of each case that is found, by its name. ``cause.sentence`` fills
in the values; what stands between ``<`` and ``>`` is left out where there is no room for it. And of each
kind, what it means and what to try.
"""

# what says itself, and notes: what stands at a line
PHRASES = (
    *("a thread", "a TMA store", "a bulk copy", "a reduction", "uses a value in a register", "in vain"),
    *("nothing", "never"),
    *("less often", "is one too many", "which buffer does each use"),
)
NOTES = (
    *("a load", "a load that nobody waits for", "an init", "its bytes", "its first init", "its init"),
    *("its last wait", "the arrivals", "the init", "the other load", "the read", "the store", "the wait"),
    *(
        "the MMA",
        "the other write",
        "the other wgmma",
        "the write",
        "what nothing reads",
        "what they run alone",
    ),
)
# what several sentences begin with
_FULL = "whose phase {phase} has all its {count} arrivals already"
_NOTHING = "{reader} ({who}) reads shared memory that nothing has written"
_TWICE = "CTAs {low} and {high} both store {what}"
SENTENCES = {
    **{phrase: phrase for phrase in PHRASES},
    **{note: f"{note}: {{at}}" for note in NOTES},
    "no words": "{kind}: the emulator has no words for this case",
    # places
    "a line": "{at}",
    "in a line": " (line {at.line})",
    ", of a line": ", line {at.line}",
    ", of a line,": ", line {at.line},",
    "where the lanes part": "the lanes part at {at}",
    # core: warps, CTAs and clusters, and the end of a run
    "no CTA of this rank": "{who} {who:uses|use} shared address {address} of CTA {rank} in a cluster of "
    "{size}",
    "a CTA may not run yet": "{who} {who:uses|use} the shared memory of CTA {cta}<, and nothing says that "
    "this CTA has begun>",
    "CTA has ended": "{who} {who:uses|use} the shared memory of CTA {cta}, which has ended",
    "nothing changes": "{who} {who:has|have} run {count:,} instructions since anything last changed",
    "a word that nobody changes": "{who} {who:polls|poll} a word in global memory, and no CTA changes it",
    "no room for who is waited for": "{who} {who:polls|poll} a word in global memory that no running CTA "
    "changes; {room} clusters of the grid's {count} fit on the chip at once",
    "instruction limit": "{count:,} warp instructions were executed",
    "loop without an end": "{who} {who:enters|enter} a loop that nothing ends",
    "condition that never changes": "{who} never {who:leaves|leave} this loop: nothing in it changes "
    "`{condition}`",
    "loop never left": "{who} never {who:leaves|leave} this loop: nothing in it ends it",
    "some lanes alone": "{who} {who:runs|run} {what} with {lanes} of its 32 lanes",
    "absent lanes": "{who} {who:waits|wait} for {count} lanes that took another branch: let the whole warp "
    "make this call",
    "lanes that have ended": "the mask of {who} names {count} {count:lane|lanes} that a branch took to the "
    "end of the kernel",
    "lanes not in the mask": "{count} {count:lane|lanes} of {who} {count:runs|run} this, and its mask does "
    "not name {count:it|them}",
    "trap": "{who} ran a trap",
    "red.async without a cluster": "{who} {who:issues|issue} a red.async in a launch without clusters, which "
    "an H200 ends as an illegal instruction",
    "assert failed": "an assert of {who} failed, line {line}: {text}",
    # units/sync: where threads meet, and the register pool
    "threads at a barrier": "{count} threads came to {barrier}, at which {needed} should meet",
    "count of a named barrier": "{who} {who:comes|come} to barrier {number} with {count} threads; numbers "
    "are 0 to 15, counts multiples of 32",
    "counts of a named barrier differ": "{who} {who:comes|come} to barrier {number} with {count} threads, "
    "others with {others}",
    "arrives again at the cluster barrier": "{who} {who:arrives|arrive} again at the cluster barrier, and "
    "{who:has|have} not waited since the last time",
    "waits without having arrived": "{who} {who:waits|wait} at the cluster barrier without having arrived",
    "registers asked for": "{who} {who:asks|ask} for {count} registers",
    "registers the other way": "{who} {who:asks|ask} setmaxnreg.{way} for {count} registers, and "
    "{who:has|have} {held}",
    "too many come": "{threads} threads, {who}, come to barrier {number}, which counts {count}",
    # units/mbarrier
    "mbarrier not aligned": "{who} {who:uses|use} shared address {offset:,} as an mbarrier; 8 does not "
    "divide it",
    "init of an mbarrier not aligned": "{who} {who:initialises|initialise} an mbarrier at shared address "
    "{offset:,}; 8 does not divide it",
    "arrivals of an init": "{who} {who:initialises|initialise} an mbarrier for {count:,} arrivals",
    "init of an mbarrier again": "{who} {who:initialises|initialise} {barrier} again: what it has counted is "
    "lost",
    "mbarrier used before its init": "{who} {who:uses|use} {barrier}, and nothing orders its initialisation "
    "before",
    "mbarrier signalled before a fence": "TMA signals {barrier}, whose initialisation no fence has made "
    "visible to it",
    "more bytes than an mbarrier counts": "{who} {who:expects|expect} {bytes:,} bytes at once on {barrier}, "
    "which counts at most {most:,}",
    "phase completes before its bytes": "phase {phase} of {barrier} completes while {bytes:,} bytes of its "
    "loads are still in flight",
    "phase not seen to end": "phase {now} of {barrier} completes before {who} {who:has|have} seen phase "
    "{phase} complete",
    "lanes wait for different mbarriers": "lanes of {who} wait for different mbarriers at once, which is not "
    "modelled",
    # explain/barriers: the same, as far as it takes thought
    "all arrivals are there": "{who} {who:arrives|arrive} on {barrier}, " + _FULL,
    "filled again": "{who} {who:arrives|arrive} on {barrier} again, " + _FULL + "<: does its stage index "
    "advance?>",
    "filled again after a wait": "{who} {who:arrives|arrive} on {barrier} again, " + _FULL + ": its wait "
    "for {waited} passed again<; does its stage index advance, or restart?>",
    "fewer bytes expected than come": "phase {phase} of {barrier} expects {expected:,} bytes, but loads of "
    "{issued:,} bytes signal it{why}",
    "signalled in rank 0 alone": ": a `T.alloc_cluster_barrier` is signalled in rank 0 alone. TMA needs a "
    "barrier in each CTA: `T.alloc_barrier`",
    "no mbarrier here": "{who} {who:uses|use} shared address {offset:,} as an mbarrier, but no init has "
    "made it one",
    "no such stage": "{who} {who:uses|use} {stage}, which has {stage.count}",
    "init still to come": "{who} {who:uses|use} an mbarrier whose init{line} may not have run yet: no "
    "barrier is between",
    "mbarrier in a tile": "{who} {who:initialises|initialise} an mbarrier in {buffer}, which holds a tile",
    "mbarrier partly allocated": "{who} {who:initialises|initialise} an mbarrier of which {buffer} holds a "
    "part",
    "mbarrier behind its buffer": "{who} {who:initialises|initialise} an mbarrier behind the end of "
    "`{buffer}`, which has room for {room} ({bytes} bytes)",
    # explain/ledger: who arrives too often
    "too many arrivals of one": "{who} {who:makes|make} {most} arrivals per phase on {barrier}, and its "
    "init counts {count}",
    "too many arrivals": "{total} arrivals per phase on {barrier} come from {who}, and its init counts "
    "{count}",
    "others alone end a phase": "{total} arrivals from {who} alone complete a phase of {barrier}, and its "
    "init counts {count}",
    "arrives on its own wait": "{who} {who:arrives|arrive} on {barrier}, which it waits for itself: {total} "
    "arrivals per phase, and its init counts {count}",
    "more arrivals than fills": "{who} {who:arrives|arrive} on {barrier} {count} times, and {full} was "
    "filled {fills}",
    # explain/causes: waits, loads and stores whose harm shows elsewhere
    "commits stores of others": "{who} {who:commits|commit} TMA stores here, and {who:has|have} issued none: "
    "{others} {others:issues|issue} them{line}",
    "waits for stores of others": "{who} {who:waits|wait} for TMA stores here, and {who:has|have} issued "
    "none: {others} {others:issues|issue} them{line}",
    "several store one box": "{who} each store {box}<: one warp issues the store, and waits for it>",
    "its wait leaves stores": "<: its wait leaves {count} in flight>",
    "waits for its store, and no barrier follows": "<: {who} {who:waits|wait} for it, and no barrier "
    "follows>",
    "arrives with no bytes expected": "{who} {who:arrives|arrive} on {barrier} with no bytes expected, so "
    "phase {phase} completes before its loads<: expect the bytes, or issue the copies, before the arrival>",
    "waits for its own loads": "{who} {who:waits|wait} for {barrier}, which its own loads complete, and "
    "nobody waits for {idle}",
    "signals its own wait": "{who} {who:loads|load} {tensor} for {barrier}, which it waits for itself, and "
    "{takers} {takers:waits|wait} for {full}<: which barrier does this load signal?>",
    "waits again": "{who} {who:waits|wait} for {again} {times}, which was filled {fills}, and never for "
    "{barrier}<: does the stage index advance?>",
    "nobody waits for a load": "nobody waits for the load of {load} ({barrier}, phase {phase}){why}",
    "fewer waits than fills": "<; {who} {who:waits|wait} for {count} of {fills} fills{of}>",
    "of an array": " of {array}",
    "nobody multiplies": "no warp of the launch's {threads} threads multiplies: does any take the consumer's "
    "branch?",
    # explain/deadlock: what a warp waits for, what that lacks, who could have supplied it
    "nobody will do it": "warps wait for an event that never comes",
    "no warp waits": "no warp waits, and none can run",
    "registers in all": "setmaxnreg requests {total:,} registers in all, and a CTA has {limit:,} at launch: "
    "{threads} x {each}",
    "waits": "{who} {who:waits|wait} {what}",
    "waits because": "{wait}{why}",
    "and where": "{what}: {at}",
    "more groups wait": "{count} more {count:group|groups} of warps wait",
    "and": "<; {what}>",
    "for a phase": "for {barrier}, {asked}: phase {phase} is missing {lacking}{late}",
    "for a wgmma": "for a wgmma that {count} of the 4 warps of its warpgroup have issued{why}",
    "for registers": "for {count} registers per thread, holding {held}; {free:,} of the CTA's are free",
    "for threads": "at {barrier}, where {count} of {needed} threads are{why}",
    "for lanes": "for lanes {lanes} of its warp at bar.warp.sync",
    "no other warp comes": ", and no other warp comes to it",
    "some lanes came": ": only {lanes} {lanes:lane|lanes} of the warp reached it",
    "went on without it": "<; {who} continued without it>",
    "parity": "parity {parity}",
    "phase": "phase {phase}",
    "only arrival missing": "its only arrival",
    "arrivals missing": "{missing} of {count} arrivals",
    "bytes missing": "{missing:,} of {count:,} bytes",
    "expect-tx missing": "an expect-tx for {count:,} bytes that came",
    "lacks both": "{one} and {other}",
    "nobody loads": "<; no warp of CTA {cta} loads a tile: do both roles take the same tiles?>",
    "passes at once": "on a new barrier a wait for parity 1 passes at once",
    "turn has passed": "<; this {nth} wait should ask for parity {parity} (phase {phase})>",
    "was lapped": "<; it asked for phase {meant} after phase {next} had completed too: nothing made phase "
    "{next} wait for {who}>",
    "was lapped at first": "<; on a new barrier it would pass at once, but phase {next} completed before it "
    "came: nothing made phase {next} wait for {who}>",
    "stage begins anew": "<; it waits for this one {count:again|over and over}, and {never} for {barrier}: "
    "does its stage index restart?>",
    "read and do not arrive": "<; {who} have read the stage and do not arrive>",
    "nobody arrives after the read": "<; nobody arrives on it after {who} read the stage{line}>",
    "last released": "<; they last released {barrier}>",
    "ran no release": "<; none of them ran the release>",
    "its init counts": ", and its init counts {count}",
    "its loads bring": "<; its loads bring {bytes:,}>",
    "multicast goes elsewhere": "<; this multicast of {tensor} goes to {ctas} alone>",
    "no load in flight": "no load that signals it is in flight",
    "arrivals came from": "arrivals came from {states}",
    "arrivals could come from": "arrivals could come from {states}{why}",
    "only these could arrive": "only {who} could arrive on it, and {who:waits|wait} for it",
    "nobody has arrived yet": "nobody has arrived on it yet",
    "nobody can arrive": "nobody has arrived on it, and no warp will: none of their remaining code does",
    "wait too": "{who}, which{before} {who:waits|wait} too",
    "have ended": "{who}, which{before} {who:has|have} ended",
    "arrived before": " arrived before,",
    "these and those": "{these}, {those}",
    # core/memory, units/access and explain/bounds: addresses
    "an access": "{who} accesses {what}{ask}",
    "a slice by the thread in the CTA": "<: does a slice use the thread's number in the CTA instead of in "
    "its role?>",
    "shares of more than a tile": "<: are the shares of {threads} threads, as its layout makes them, one "
    "tile?>",
    "M and N mixed up": "<: are M and N mixed up?>",
    "M and N or x and y mixed up": "<: are M and N, or x and y of the grid, mixed up?>",
    "an index that counts tiles": "<: does its index count tiles?>",
    "no tensor at the address": "{who} accesses global address {address:#x}, which is in no tensor",
    "misaligned access": "{who} accesses {count} bytes at offset {offset:,}, which {count} does not divide",
    "no local memory": "{who} accesses local memory, of which the kernel declares none",
    "a write to the parameters": "{who} writes to the kernel's parameters",
    # units/tma and tensormaps
    "a TMA transfer outside": "a TMA transfer of {tensor} uses shared bytes {low:,} to {high:,} of "
    "{size:,}<{ask}?>",
    "a slice by the CTA's number": ": does its slice use the CTA's number instead of its rank in the "
    "cluster of {size}",
    "a slot too few": ": does its buffer have a slot for this stage",
    "a misaligned tile": "a TMA transfer of {tensor} uses shared address {offset:,}, which {alignment} does "
    "not divide<: does its buffer have this index, and begin at such a multiple?>",
    "a swizzled tile": "a tile of {tensor} with swizzle {swizzle}B starts at shared address {offset:,}, "
    "which {alignment:,} does not divide",
    "a multicast mask": "{who} multicasts to CTAs {mask:#b} of a cluster of {size}",
    "a pair of one CTA loads": "{who} {who:loads|load} for a CTA pair, and the last CTA of its cluster has "
    "no pair",
    "a load signals no mbarrier": "a TMA load signals shared address {offset:,} of CTA {cta} as an mbarrier",
    "a broken tensor map": "the tensor map over {tensor}: {why}",
    "no tensor map": "{who} uses address {address:#x} as a tensor map: {why}",
    "a tensor map over no tensor": "a tensor map lies over global address {address:#x}, which is in no "
    "tensor",
    "a tensor map past the end": "{who} reads a tensor map past the end of {what}",
    "a store past the end": "{who} writes the end of {tensor}, whose last row ends within 16 bytes: TMA "
    "writes all 16, {count} past its end",
    "an inner coordinate": "{who} {who:uses|use} {tensor} at coordinates {coordinates}: the first is "
    "{bytes:,} bytes into a row, and TMA begins at multiples of 16",
    "a store coordinate": "{who} stores to {tensor} at {coordinates}, and no coordinate of a store may be "
    "negative",
    "a reduction of another type": "{who} reduces into {tensor} by .{operation}, which PTX does not have for "
    "{type}",
    "signals another CTA": "{who} {who:writes|write} shared memory of CTA {home} and {who:signals|signal} an "
    "mbarrier of CTA {cta}: both must be one CTA's",
    "a map is used without a release": "{who} uses the tensor map at byte {offset:,} of {what}, which {by} "
    "changed: no fence.proxy.tensormap::generic.release follows the change",
    "a map is used without an acquire": "{who} uses the tensor map at byte {offset:,} of {what}, which {by} "
    "changed: no fence.proxy.tensormap::generic.acquire of it comes after",
    "uses a map that is changed unordered": "{who} uses the tensor map at byte {offset:,} of {what}, which "
    "{by} changes: nothing orders the two",
    "another mode": "{who} uses the tensor map over {tensor} in {asks} mode, and it was made for the other",
    "another rank": "a {rank}d transfer uses the tensor map over {tensor}, whose rank is {has}",
    "a bulk copy's size": "{who} copies {count:,} bytes in bulk, which 16 does not divide",
    "a bulk copy outside": "{who} copies {what}",
    "a warp ends with a store": "{who} ends and has not waited for its TMA store",
    "a warp ends with an open store": "{who} ends and has not waited for its TMA store<: no {instruction} "
    "put it in a group, so no wait covers it>",
    # units/wgmma, explain/accumulators and explain/undefined
    "no wgmma.fence": "{who} issues wgmma and has never run wgmma.fence",
    "written since the fence": "{who} issues wgmma on registers that it has written since its last "
    "wgmma.fence",
    "read since the fence": "{who} issues wgmma, which writes registers that it has read since its last "
    "wgmma.fence",
    "another shape": "{who} issues wgmma on the accumulator of a wgmma of another shape, with no wgmma.fence "
    "between",
    "lanes differ": "lanes of {who} hold different {what}",
    "warps differ": "{who} issues wgmma {number} with other operands than another warp of its warpgroup",
    "metadata of no two places": "{who} {who:multiplies|multiply} a sparse tile whose metadata puts two "
    "elements into one place",
    "a descriptor leads outside": "the descriptor of {side} spans shared bytes {low:,} to {high:,} of "
    "{size:,}<: does its ring have a slot for this stage?>",
    "the descriptor": "the descriptor: {descriptor:#018x}",
    "accumulates onto another wgmma": "{who} accumulates onto registers of another wgmma that has not been "
    "waited for",
    "adds to registers without a value": "wgmma of {who} adds to registers that nothing has written",
    "writes the accumulator": "{who} writes to the accumulator, {state}",
    "reads A": "{who} reads registers of A, {state}",
    "writes A": "{who} writes to registers of A, {state}",
    "reads the accumulator": "{who} reads the accumulator, {state}",
    "the register": "the register: {name}",
    "a wgmma may still write it": "which a wgmma may still write{line}{why}",
    "a wgmma may still read it": "which a wgmma may still read{line}{why}",
    "that of a line": " (that of line {at.line})",
    "in no group": "<: no {instruction} put it in a group, so no wait covers it>",
    "no wait is between": "<: no wgmma.wait_group is between>",
    "the wait leaves groups": "<: the wait{on} leaves {count} {count:group|groups} in flight>",
    "on a line": " on line {at.line}",
    "uses what nothing has written": "{who} {use}, which nothing has written",
    "stores a part of a fragment": "stores a part of a fragment (values in registers)",
    "converts a part of a fragment": "converts a part of a fragment (values in registers)",
    # units/tmem, units/tcgen05 and explain/tensor_memory
    "columns of an allocation": "{who} {who:allocates|allocate} {count} columns of tensor memory<, not a "
    "power of two from 32 to {most}>",
    "allocates after relinquishing": "{who} {who:allocates|allocate} {count} columns of tensor memory after "
    "this CTA has relinquished its right to allocate",
    "allocates more than before": "{who} {who:allocates|allocate} {count} columns of tensor memory after an "
    "allocation of {former}: a later one may not be larger",
    "allocates over an address": "{who} {who:allocates|allocate} {count} columns of tensor memory, and the "
    "address overwrites that of {former}'s allocation, which nobody can free any more",
    "a pair of one CTA": "{who} {who:allocates|allocate} {count} columns for a CTA pair, and its cluster has "
    "one CTA",
    "a pair's other count": "{who} {who:allocates|allocate} {count} columns for a CTA pair, and its other "
    "CTA {other}",
    "frees what is not allocated": "{who} {who:frees|free} columns {low} to {high} of tensor memory, which "
    "are no allocation",
    "accesses what is not allocated": "{who} {who:accesses|access} columns {low} to {high} of tensor memory, "
    "which its CTA has not allocated, or has freed",
    "multiplies in what is not allocated": "tcgen05.mma of {who} takes columns {low} to {high} of tensor "
    "memory from lane 0 on, which its CTA has not allocated, or has freed, or its address has another lane",
    "another warp's lanes": "{who} {who:accesses|access} tensor memory from lane {lane} on, but can only "
    "{who:access|access} lanes {first} to {last}",
    "several threads issue": "{count} threads of {who} issue {what}, which one thread issues for all",
    "two CTA groups": "{who} {who:runs|run} a tcgen05 instruction of cta_group::{now}, and this kernel has "
    "others of cta_group::{before}",
    "asks again": "{who} {who:requests|request} another cluster after a request has failed",
    "answer of a request not aligned": "{who} {who:asks|ask} for an answer at shared address {offset:,}, "
    "which is not a multiple of 16",
    "a pair of one CTA multiplies": "{who} {who:issues|issue} a tcgen05.mma of a CTA pair, and its cluster "
    "has one CTA",
    "no such shape": "the instruction descriptor of {who}'s tcgen05.mma is not valid: {bits:#010x} has M {M} "
    "and N {N} for {count} {count:CTA|CTAs}<; bits that its kind does not use must be 0>",
    "no such types": "the instruction descriptor of {who}'s tcgen05.mma has the types {a} and {b}, which "
    "kind::{form} does not have together",
    "no matrix descriptor": "the descriptor of {side}, {descriptor:#018x}, is none of tcgen05.mma<: its bits "
    "46-48 are 1, 52-60 are 0, and its swizzle has a code>",
    "a matrix outside shared memory": "the descriptor of {side}, {descriptor:#018x}, spans shared bytes "
    "{low:,} to {high:,} of {size:,}",
    "a commit signals no mbarrier": "{who} {who:commits|commit} to shared address {offset:,} of CTA {cta}, "
    "which is no mbarrier",
    "commits nothing": "{who} {who:commits|commit} to {barrier} in a thread that has issued no tcgen05.mma, "
    "so it arrives at once",
    "reads columns that nothing has written": "{reader} of {who} reads columns {low} to {high} of tensor "
    "memory, some of which nothing has written",
    "reads before the commit": "{reader} of {who} reads columns {low} to {high} of tensor memory, which a "
    "tcgen05.mma may still write: no commit of its thread has been waited for since",
    "reads before the MMA": "tcgen05.ld of {reader} reads columns {low} to {high} of tensor memory before "
    "{writer} of {who} writes them: no commit has been waited for",
    "nothing orders a store": "{reader} of {who} reads columns {low} to {high} of tensor memory, which "
    "{writer} {writer:writes|write}, and nothing orders the two",
    "no wait::st": "{reader} of {who} reads columns {low} to {high} of tensor memory, which {writer} "
    "{writer:has|have} written with no tcgen05.wait::st after it",
    "writes over a read": "{writer} of {who} writes columns {low} to {high} of tensor memory, which {reader} "
    "may still read",
    "writes over a write": "{writer} of {who} writes columns {low} to {high} of tensor memory, which another "
    "tcgen05.mma or .st may still write",
    "no wait::ld": "{writer} follows a tcgen05.ld of {reader} on the same columns, with no tcgen05.wait::ld "
    "between",
    "frees what is read": "{who} {who:frees|free} columns {low} to {high} of tensor memory, which {reader} "
    "may still read",
    "frees what is written": "{who} {who:frees|free} columns {low} to {high} of tensor memory, which a "
    "tcgen05.mma or .st may still write",
    "tensor memory is not freed": "CTA {cta} ends and has not freed the {count} columns of tensor memory "
    "that {who} allocated",
    "a CTA ends while an MMA runs": "CTA {cta} ends, and no warp of it has waited for a commit of the last "
    "tcgen05.mma that {who} issued",
    "operand of tcgen05.mma": "operand {side} of tcgen05.mma",
    "tcgen05.mma of": "tcgen05.mma of {warps}",
    "for columns": "for {count} columns of tensor memory; {free} of {most} are free, and {who} "
    "{who:has|have} the others",
    "for its pair": "for the other CTA of its pair, which has not come to tcgen05.alloc for {count} columns",
    # explain/races: who reads
    "operand of wgmma": "operand {side} of wgmma",
    "wgmma of": "wgmma of {warps}",
    "the TMA store of": "the TMA store of {tensor}",
    # ... and where
    "its wait for a barrier": "its wait for {barrier}: {at}",
    "shared bytes": "shared bytes {low:,} to {high:,}",
    # ... what is not written, or not yet
    "reads nothing": _NOTHING,
    "reads nothing in a part": _NOTHING + " in a part of the tile<: do all threads' copies cover it?>",
    "reads nothing, writers clash": _NOTHING + "<, and {writers} write to the same place>",
    "reads nothing, first wait passed": _NOTHING + ": its wait for {barrier} asked for parity {parity}<, "
    "which a new barrier already satisfies>",
    "first wait's parity": "on a new barrier a wait for parity 1 passes at once: a first wait for a load "
    "asks for parity 0",
    "read before cp.async has landed": "{reader} ({who}) reads what cp.async of {writer} still copies",
    "no barrier orders read and write": "{reader} ({who}) reads what {writer} writes<: no barrier orders the "
    "two>",
    "no proxy fence before the read": "{reader} ({who}) reads what {writer} wrote with {by}<, and "
    "no fence.proxy.async is between>",
    "read with no wait for the load": "{reader} ({who}) reads shared memory that TMA fills for {writer}, "
    "phase {phase}, which {who:this warp has|these warps have} not waited for",
    "read after another phase's wait": "{reader} ({who}) reads shared memory that TMA fills for {writer}, "
    "phase {phase}, not waited for: its last wait{line} {asked}<, which {behind}>",
    "asked for a parity": "asked for parity {parity}",
    "asked for a phase": "asked for an earlier phase",
    "phase had passed": "phase {phase} had already satisfied",
    "new barrier has passed": "a new barrier already satisfies",
    # ... what is overwritten
    "threads write what cp.async fills": "{who} {who:writes|write} shared memory that its own cp.async still "
    "fills",
    "threads write what a load fills": "{who} writes shared memory that a TMA load still fills",
    "overwrites what is read": "{who} overwrites shared memory that {reader} may still read{why}",
    "wait before the commit": "<: the wait comes before the commit_group of what it should cover>",
    "this wait leaves": "<: this wait {leaves}{when}>",
    "leaves groups running": "leaves {count} {count:group|groups} in flight",
    "when a line writes": " when line {at.line} writes",
    "the read has ended": "the read, which has ended in this run, but nothing orders the two: {at}; shared "
    "bytes {low:,} to {high:,}",
    "the read is not waited for": "the read, which is not waited for{leaves}: {at}; shared bytes {low:,} to "
    "{high:,}",
    "the wait leaves": ": the wait {leaves}",
    "released too early": "{what}<; {by} released {barrier} too early>",
    "all arrivals from its own CTA": "{what}<: all arrivals on {barrier} come from its own CTA, none from "
    "the other>",
    "all from the other CTA": "{what}<: all arrivals on {barrier} come from the other CTA, none from its "
    "own>",
    "loads before use": "{who} loads over the bytes of {writer} before anyone has used them",
    "loads over what a warp writes": "{who} loads over shared memory that {writer} writes<: no barrier "
    "orders the two>",
    "loads over what threads wrote": "{who} loads over shared memory that threads wrote<, and no "
    "fence.proxy.async is between>",
    "loads over what threads read": "{who} loads over shared memory that threads read<, and no "
    "fence.proxy.async is between>",
    "loads over a read": "{who} loads over shared memory that threads may still read",
    "loads over a barrier's bytes": "{who} loads over the bytes of {old}: this load of {tensor} is for {new}",
    "loads to the same place": "{over}, and goes to the same place<; what is its stage index?>",
    "stages between one another": "loads of {tensor} for {old} and {new} lie {apart:,} bytes apart, and "
    "each brings {extent:,}<: do {tensor}'s map and its tensor have the same layout (`order`)?>",
    "past its ring": "{over}, and {array} has {count} stages<; does the ring of {tensor} have as many "
    "slots?>",
    "two loads of one phase": "two loads of one phase of {barrier} write the same bytes: {one}, and "
    "{other}<; {look}?>",
    "a load by": "{tensor} by {who}{line}",
    "does each bring its half": "does each bring its half, by rank",
    "stores what was not just written": "the TMA store of {tensor} reads shared bytes {low:,}-{high:,}, but "
    "threads have just written {first:,}-{last:,}<; do both use the same index?>",
    "a CTA ends while it is copied from": "CTA {cta} may end while a bulk copy still reads its shared "
    "memory: nothing says that the copy is done",
    "an mbarrier written over": "{who} {who:uses|use} {barrier}, whose bytes {writer} {writer:has|have} "
    "overwritten",
    "a CTA ends while a load is in flight": "CTA {cta} ends while a TMA load of {tensor} into it is in "
    "flight",
    "two warps write": "{who} {who:writes|write} shared memory that {writer} {writer:has|have} written, and "
    "nothing orders the two",
    "writes what another reads": "{who} {who:writes|write} shared memory that {reader} may still read: "
    "nothing orders the two",
    # ... global memory
    "reads what is stored unordered": "{who} {who:reads|read} {what}, which {by} stores<, and nothing orders "
    "the two>",
    "reads what a TMA store writes": "{who} {who:reads|read} {what}, which a TMA store of {by} may still "
    "write",
    "reads behind a relaxed atomic": "{who} {who:reads|read} {what}, which {by} stores<, with a relaxed "
    "operation between them>: the fence that the PTX ISA requires is missing, or in another thread",
    "writes what is stored unordered": "{who} {who:writes|write} {what}, which {by} stores too<, and nothing "
    "orders the two>",
    "writes what a TMA store writes": "{who} {who:writes|write} {what}, which a TMA store of {by} may "
    "still write",
    "writes what is read unordered": "{who} {who:writes|write} {what}, which {by} may still read<: nothing "
    "orders the two>",
    "writes behind a relaxed atomic": "{who} {who:writes|write} {what}, which {by} reads<, with a relaxed "
    "operation between them>: the fence that the PTX ISA requires is missing, or in another thread",
    "loads what is stored unordered": "{who} {who:loads|load} {what} by TMA, which {by} stores<, and nothing "
    "orders the two>",
    "loads what a TMA store writes": "{who} {who:loads|load} {what} by TMA, which a TMA store of {by} may "
    "still write",
    "loads behind a relaxed atomic": "{who} {who:loads|load} {what} by TMA, which {by} stores<, with a "
    "relaxed operation between them>: the fence that the PTX ISA requires is missing, or in another thread",
    "stores over what threads stored": "{who} {who:stores|store} {what} by TMA, where {by} wrote with "
    "ordinary stores<, and no fence.proxy.async of global memory is between>",
    "loads what threads stored": "{who} {who:loads|load} {what} by TMA, which {by} wrote with ordinary "
    "stores<, and no fence.proxy.async of global memory is between>",
    "a CTA may end before its use": "{who} uses the shared memory of CTA {cta}<, and nothing keeps that CTA "
    "from ending before>",
    # ... what two CTAs store
    "stored twice in a cluster": _TWICE + "<; they are one cluster: does the tile's row or column count the "
    "CTA's rank?>",
    "stored twice in a grid": _TWICE + "<; the grid has {grid} CTAs: which tile does each take?>",
    "stored twice by two ranks": _TWICE + "<; they are rank {one} of one cluster and rank {other} of "
    "another: do the tiles of two clusters lie {size} of a CTA's apart?>",
    "stored twice by two clusters": _TWICE + "<; the grid has {ctas} CTAs in {clusters} clusters: at which "
    "tile does each cluster begin, and by how many does it advance?> Does the order of tiles give each "
    "number its own place?",
    "stored twice": _TWICE + "<; the grid has {ctas} CTAs: at which tile does each begin, and by how many "
    "does it advance?> Does the order of tiles give each number its own place?",
    "nothing reads a line's writes": "<, and nothing reads what line {line} writes: do both take one slot?>",
    # explain/stages
    "the same tiles for both": "multicast brings both CTAs of the cluster the same tiles of "
    "{tensors}{lines}<: each has rows, or columns, of its own to load>",
    "of lines": " (lines {lines})",
    "loaded and read with two swizzles": "TMA loads {tensor} with swizzle {loaded}, and wgmma{line} reads "
    "it with {read}<: do the map and the multiplication use the same layout?>",
    "loaded into one slot, read from another": "{who} loads {tensor} for {barrier} into slot {slot}, and "
    "wgmma{line} reads slot {read} after the wait for {barrier}<: which stage index does each use?>",
    "read before the round's wait": "wgmma reads {tensor} as loaded for {barrier}{load}, but the last wait "
    "before it was for {waited}, in the previous round<: the wait{wait} comes after the read>",
    "read after a wait for another": "wgmma reads {tensor} as loaded for {barrier}{load}, and the wait "
    "before it{wait} is for {waited}<: which stage index does each use?>",
    "waited for in another order": "{takers} {takers:waits|wait} for {waited} as the {nth} stage, and "
    "{loader} fills {filled} as the {nth}{line}<: do both count stages in the same way?>",
    "filled in another order": "{loader} fills {filled} as the {nth} stage, and {takers} "
    "{takers:waits|wait} for {waited} as the {nth}{line}<: do both count stages in the same way?>",
}

# What each kind of finding means and what to try.
MEANING = {
    "deadlock": "Every remaining warp waits for an event that never comes. Count for each barrier who "
    "arrives, how often, how many bytes are expected and come, and the parity that each wait starts with.",
    "livelock": "A warp loops without end and nothing that it reads will change. Does the loop's bound "
    "change inside it, and does each turn of a loop over tiles take the next tile?",
    "not-resident": "CTAs wait for others that cannot begin, because the waiting ones occupy the whole "
    "chip. Launch no more CTAs than run at once: those that an SM holds, times the SMs.",
    "register-budget": "The warpgroups request more registers than the CTA was launched with, so one waits "
    "forever: setmaxnreg moves registers, and adds none. Registers per thread times threads, over all "
    "warpgroups, must stay within those of the launch: give the producer fewer.",
    "setmaxnreg-count": "setmaxnreg takes a multiple of 8 from 24 to 256: dec no more than its warps have, "
    "inc no fewer.",
    "read-before-load": "Shared memory is read, but the reader has not waited for the TMA load (or cp.async) "
    "that fills it. Wait on the full barrier of this stage, with the parity of this round.",
    "read-before-write": "One warp reads what another writes, and nothing orders the two. Put a barrier "
    "between them; between CTAs that are no cluster, a word in global memory that one releases and the other "
    "acquires.",
    "acquire-missing": "A relaxed atomic announces the other CTA's stores; atomics are relaxed by default. "
    "The PTX ISA requires a fence, __threadfence(), in two threads. The one that writes the number fences "
    "after the barrier, before the write. The one that reads it fences after the read, before the next "
    "barrier.",
    "store-incomplete": "cp.async.bulk.wait_group.read waits until a TMA store has read shared memory. What "
    "it writes to global memory is there once a wait_group without .read has covered it, in the thread that "
    "issued it. After that, a barrier or a released flag lets other threads read it.",
    "uninitialised-read": "Shared memory is read that nothing has written. Is the stage index the one that "
    "was loaded, and does the tile cover all that is read?",
    "overwrite-while-read": "A stage is written while wgmma or a TMA store may still read it. Release a "
    "stage only after the wait_group that covers its reader, and wait for that release before the next load.",
    "overwrite-before-use": "A TMA load writes over an earlier load of the same bytes that nobody has waited "
    "for. Does the producer wait on the empty barrier of this stage?",
    "load-twice": "Two loads that signal one phase of an mbarrier write the same bytes, so one of them is "
    "lost. Look at the stage index and the buffer of each. If the CTAs of a cluster multicast a tile, each "
    "loads the part of its own rank into the same part of the buffer, and nobody loads that tile again.",
    "load-unwaited": "A load that nobody waits for may still be in flight when its memory is used again, or "
    "when the CTA ends. The warps that multiply a tile must wait for it. Do the loop that loads and the "
    "loop that multiplies cover the same tiles, as many of them, with the same stage and phase?",
    "stage-mismatch": "The load, the wait and the read of one tile must use the same stage: the tile's "
    "count modulo the number of stages. Its slots in shared memory and its barrier have the same index.",
    "swizzle-mismatch": "TMA lays a tile out by the swizzle of its map, and wgmma reads it by that of its "
    "descriptor. Both come from the layout of the shared tensor: give the map and the multiplication the "
    "same one.",
    "same-tiles": "A tile that both CTAs of a pair need is loaded once and multicast. The other operand's "
    "tile is each CTA's own, and each loads it for itself alone.",
    "ring-overrun": "A stage past the last slot of a ring lies in what follows in shared memory. The buffers "
    "of A and B need a slot for each stage: num_stages may not be more than the slots that they were made "
    "with.",
    "stale-store": "A TMA store reads another buffer than the one that threads have just written. The write "
    "to shared memory and the store after it take the same buffer: the same index, if there are several.",
    "store-wait-elsewhere": "commit_group and wait_group are about the stores of the thread that calls "
    "them. One warp issues a TMA store, commits it and waits for it; after that, a barrier lets the others "
    "continue.",
    "write-unordered": "Two writers of the same memory are not ordered. Put a barrier between them.",
    "accumulator-before-wait": "Registers of a wgmma are used while it may still run, which the PTX ISA "
    "calls undefined. If ptxas notices, it inserts the wait and runs one wgmma at a time (it reports: "
    "serialized). The result is right but slow, and nothing guarantees it. Wait with wgmma.wait_group "
    "first, and commit the group before the wait.",
    "uninitialised-register": "A register is used that nothing has written: an accumulator that no wgmma has "
    "reached, or a part of a fragment that no store or load has filled. Does the loop that writes it run at "
    "least once at this size, and do both sides name the same part?",
    "accumulator-uninitialised": "The first wgmma of a tile adds to what its registers happen to hold. Let "
    "it overwrite them (clear_accum, or the ACCUMULATE field set to False), or clear them first.",
    "wgmma-fence": "wgmma starts before wgmma.fence has ordered the registers it uses, which the PTX ISA "
    "calls undefined; if ptxas notices, it inserts the fence (it reports: injected). Call the fence before "
    "the first wgmma, and again after threads have written its accumulator or its fragments of A.",
    "wgmma-fence-read": "wgmma writes registers that threads have read, with no wgmma.fence between, which "
    "the PTX ISA calls undefined. ptxas does not report it, and no run is known to go wrong. Call the fence "
    "before the next wgmma.",
    "wgmma-mismatch": "The four warps of a warpgroup issue different wgmma instructions. All four must run "
    "the same one with the same descriptors.",
    "wgmma-descriptor": "A wgmma descriptor points outside shared memory.",
    "sparse-metadata": "Metadata of a sparse matrix names two places of each four, the lower one first, and "
    "of tf32 one of two (0b0100 or 0b1110). Does each lane hold what its sparsity selector asks for?",
    "proxy-fence": "Threads wrote memory, and the async proxy (wgmma, a TMA load or store) reads it with no "
    "fence.proxy.async between. Fence in every thread that wrote, then synchronise; or synchronise, then "
    "fence in the thread that starts the read.",
    "proxy-fence-overwrite": "A TMA load writes over shared memory that threads read or wrote, with no "
    "fence.proxy.async between: an access that is still in flight takes effect after the load. Fence in "
    "every thread before the barrier, or in the load's thread after it.",
    "proxy-fence-refill": "A TMA load fills shared memory that threads have read, with no fence.proxy.async "
    "between, which the PTX ISA requires. An H200 never went wrong if the refill came a round later or the "
    "arrival waited for the value. Fence in the load's thread, after its wait.",
    "expect-tx": "More bytes arrive at an mbarrier than its phase expects, so the phase completes before "
    "its loads land. Expect the bytes of every load that signals this barrier.",
    "barrier-overrun": "An mbarrier gets more arrivals in a phase than it was initialised for. Count who "
    "arrives: threads, or one elected thread, or both CTAs of a cluster.",
    "barrier-init-count": "An mbarrier's count must be 1 to 1,048,575.",
    "barrier-init-again": "An mbarrier is initialised again, which the PTX ISA leaves undefined: what it "
    "has counted is lost. Initialise it once, before the loops; its phases advance by themselves.",
    "barrier-uninitialised": "An address is used as an mbarrier, but no mbarrier.init has made it one. A "
    "stage counts from 0, modulo the number of barriers.",
    "barrier-outside": "An mbarrier lies in memory that nobody allocated for it: what is placed there next "
    "destroys it. Each takes 8 bytes. A pipeline has two for each stage, full and empty: allocate 2 * "
    "num_stages.",
    "barrier-init-race": "An mbarrier is used before its initialisation is surely visible. After "
    "mbarrier.init, fence (fence.mbarrier_init), then synchronise the CTA, or the cluster if another CTA "
    "uses it.",
    "barrier-init-unfenced": "A bulk copy signals an mbarrier of its own CTA, and only a barrier of the CTA "
    "stands after the init, as in libcu++'s examples of cuda::memcpy_async. NVIDIA's examples for TMA fence "
    "too: fence.mbarrier_init in the thread that initialises.",
    "phase-lapped": "An mbarrier completed one more phase before a waiting warp had seen the last one, so "
    "the parity that the warp waits for may never return. No warp may be a whole round ahead of one that "
    "waits.",
    "named-barrier": "Warps disagree on how many threads meet at a named barrier, or the count is no "
    "multiple of 32.",
    "cluster-barrier": "Each thread arrives at the cluster barrier and then waits, as often as it arrives: "
    "the PTX ISA leaves anything else undefined.",
    "cluster-exit": "A CTA may leave its cluster while another still writes to it or arrives on its "
    "barriers. Arrive and wait, in every thread, at the end: a cluster barrier.",
    "cluster-start": "A CTA uses the shared memory of another one of its cluster, which may not have begun. "
    "Arrive and wait, in every thread, before the first such access: a cluster barrier.",
    "cluster-rank": "An address or a multicast mask names a CTA that the cluster does not have.",
    "exit-in-flight": "A CTA ends while a TMA transfer, or an MMA, still uses its memory. Wait for loads on "
    "their barrier, for stores with cp.async.bulk.wait_group and for MMAs on that of their commit, before "
    "the end.",
    "out-of-bounds": "An access lies outside its memory. Look at the tile's coordinates, the stage index and "
    "the guard.",
    "stored-twice": "Two CTAs store the same elements, and nothing orders the two. A persistent CTA begins "
    "at its own number and advances by the number of CTAs in the grid. If the CTAs of a cluster share a "
    "pair of tiles, it advances by the number of clusters. Is the grid as large as the loop's stride?",
    "misaligned": "An address is not aligned for its access: 16 bytes for a vector, 128 for a TMA tile, 8 "
    "for an mbarrier.",
    "tensormap-fence": "TMA reads tensor maps through a proxy of its own. The thread that changes a map in "
    "memory fences (fence.proxy.tensormap::generic.release) and then signals; the thread that issues the "
    "transfer waits for that and fences too (fence.proxy.tensormap::generic.acquire, with the map's "
    "address).",
    "swizzle-alignment": "A swizzled tile does not start where its pattern does (1,024 bytes for 128B, 512 "
    "for 64B, 256 for 32B). Align the buffer, or say so in the descriptor's base offset.",
    "tensor-map": "A tensor map cannot be used as it stands.",
    "aligned": "A whole warp must run this instruction together, and only some of its lanes do. Move it out "
    "of the branch at which the lanes part, or let all lanes take it.",
    "absent-lanes": "elect, shfl or vote waits for every lane that its mask names, and some take another "
    "branch: the hardware waits until they end, and hangs if they wait too. Move it out of the branch.",
    # observed on H200, driver 580: elect, shfl and vote end where the other lanes run on to the kernel's end
    "ended-lanes": "elect, shfl or vote waits for each lane that its mask names, unless it has ended. So "
    "this ends here, and hangs if those lanes wait for something first. Name the lanes that run it.",
    "lane-mask": "elect, shfl, vote, match or redux runs in a lane that its mask does not name, which the "
    "PTX ISA calls undefined. The mask names the lanes that run it, and no others: -1 for the whole warp.",
    "accumulator-before-commit": "Tensor memory is read, and the reader has not waited for a commit of the "
    "tcgen05.mma that writes it. Commit in the thread that issued it, and have every reader wait on that "
    "mbarrier, with the parity of this round.",
    "tmem-uninitialised": "Tensor memory is read, or added to, that nothing has written since it was "
    "allocated. The first MMA of a tile overwrites its accumulator (clear_accum, or the ACCUMULATE field set "
    "to False).",
    "tmem-overwrite": "Tensor memory is written while another warp or MMA may still use it. An accumulator "
    "needs a pair of barriers as a stage does: the epilogue releases it after its tcgen05.wait::ld, and the "
    "next tile's first MMA waits for that.",
    "tmem-read-before-write": "Tensor memory is read that a warp stores. After tcgen05.st the warp needs "
    "tcgen05.wait::st, then a barrier that the reader waits at.",
    "tmem-wait": "tcgen05.ld may still run when the columns are written or freed. The PTX ISA requires "
    "tcgen05.wait::ld before the barrier that releases them. Public kernels leave it out if the loaded "
    "registers are used before that barrier, and no failure is known.",
    "tmem-alloc": "An allocation of tensor memory takes a power of two of columns from 32 to 512, and no "
    "more than the one before. One whole warp allocates (in a pair, one of each CTA), before "
    "relinquish_alloc_permit. One warp allocates once; after a barrier the others can read the address.",
    "tmem-unallocated": "Tensor memory is used or freed that this CTA has not allocated, or has freed. Are "
    "the columns as many as were allocated, and is the address read from where tcgen05.alloc stored it?",
    "tmem-lanes": "A warp reaches the 32 lanes of its number in its warpgroup, so all four warps read an "
    "accumulator of 128 lanes, each its own rows.",
    "tmem-freed-early": "Tensor memory is freed while a warp or an MMA may still use it. Every warp that "
    "reads it comes to a barrier after its last tcgen05.ld, and only then one warp frees it.",
    "tmem-leak": "All tensor memory must be freed before the CTA ends: the next CTA on this SM waits for it. "
    "The warp that allocated calls dealloc at the end.",
    "commit-covers-nothing": "tcgen05.commit covers what its own thread has issued, and nobody else's. Issue "
    "the MMAs and the commit in one elected thread of one warp.",
    "cancel-after-failure": "clusterlaunchcontrol.try_cancel has failed once for this cluster: none is "
    "left. Leave the loop at the first answer that is not `is_canceled`.",
    "cta-group": "All tcgen05 instructions of a kernel have one cta_group: 1 for a CTA alone, 2 for a pair "
    "(`use_2cta`, `is_two_cta`).",
    "mma-issuers": "One thread issues tcgen05.mma and tcgen05.commit for the whole CTA. Elect it.",
    "mma-descriptor": "A descriptor of tcgen05.mma is not valid, or its shape does not exist: N is a "
    "multiple of 8 (M = 64), 16 (M = 128) or 32 (a pair) up to 256.",
    "trap": "The kernel ended itself: an assertion failed, or this launch cannot run the instruction.",
    "instruction-limit": "The emulation reached its limit of instructions.",
}
MEANING["stage-unread"] = MEANING["stage-mismatch"]
# An error is a fault of the program on some schedule, even where this run's numbers came out right; a warning
# is something that experts disagree on; a cause explains numbers that are wrong.
SEVERITIES = {
    **dict.fromkeys(("swizzle-alignment", "acquire-missing", "proxy-fence-refill"), "warning"),
    "barrier-init-unfenced": "warning",
    **dict.fromkeys(("wgmma-fence-read", "ended-lanes", "tmem-wait"), "warning"),
    **dict.fromkeys(("stage-unread", "swizzle-mismatch", "same-tiles"), "cause"),
}
KINDS = {kind: (SEVERITIES.get(kind, "error"), meaning) for kind, meaning in MEANING.items()}
# The same for a kernel in which every warp that loads multiplies too.
WITHOUT_ROLES = {
    "overwrite-while-read": "A stage is written while wgmma or a TMA store may still read it. Wait for its "
    "reader with wait_group, synchronise all warps that read, and only then load or write it again.",
    "overwrite-before-use": "A TMA load writes over an earlier load of the same bytes that nobody has "
    "waited for. Issue the next load of a stage only after all warps have waited for this one and "
    "multiplied it.",
    "read-before-load": "Shared memory is read, but the reader has not waited for the TMA load (or cp.async) "
    "that fills it. Wait on the barrier of this stage, with the parity of this round.",
}
# What to try in place of that, by the case.
ADVICE = {
    # nothing but loads ends a phase of any mbarrier
    "no second barrier": "A TMA load writes over an earlier load of the same bytes that nobody has waited "
    "for. The producer cannot know when a stage is free. Add a second barrier for each stage, on which the "
    "consumers arrive.",
    "one slot": "Two stages share the same bytes of shared memory. The buffer of a load takes the same stage "
    "index as the barrier that the load signals.",
    "store still reads": "A TMA store may still read what is written here. The thread that issued it waits "
    "for its group with cp.async.bulk.wait_group. Only after that, and after a barrier, may any thread "
    "write this buffer again.",
    "MMA still reads": "A stage is written while tcgen05.mma may still read it. A commit in the thread that "
    "issued it arrives once it has been read: wait on that mbarrier, and only then load or write the stage "
    "again.",
    "released early": "A stage is written while its last content may still be used. Release a stage only "
    "after the wait_group that covers its reader, and only once a round for each warp that its barrier "
    "counts.",
    "fewer bytes at once": "An mbarrier counts at most 2^20 - 1 bytes that are expected and have not come. "
    "Expect those of one stage at a time, or signal several mbarriers.",
    "an inner coordinate": "Coordinates count elements, innermost first: multiply the number of a tile by "
    "its width. A tile that begins elsewhere than at a multiple of 16 bytes cannot be reached by TMA.",
    "stored by several": "Each warp waits for the stores that it has issued itself, so its wait does not "
    "cover a store that another warp issues too. Let one warp store, commit and wait.",
}
