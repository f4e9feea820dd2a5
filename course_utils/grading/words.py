"""What is said of each cause that a check can find: the one table of its sentences, and what fills them in.

What stands between ``<`` and ``>`` is left out where a card has no room for it: the rest is true without it.
A number is written with its commas; ``{count:is|are}`` is the word that goes with one, or with several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from course_utils.cause import Cause, filled, forms, marked, sentence
from course_utils.chips import HOME
from course_utils.grading.conditions import CONDITIONS, Condition
from course_utils.grading.properties import PROPERTIES, Property

_TILE = "{tensor}[{rows}, {columns}]"
_PRODUCT = "A[{A_rows}] @ B[{B_rows}]^T"
_WROTE = "The kernel wrote {tensor}[{rows}, {columns}] alone"
_CORNER = f"{_WROTE}, of {{M:d}} x {{N:d}}"
_SUM = f"{_TILE} is the exact sum of its {{k_tiles}} K tiles of {{k_tile}}{{weights}}"
_DIFFER = "{wrong} of {of} elements of Y differ from X, the first at {first_index}"
_WITHIN, _SMALL = (
    "No element is past its bound, but",
    "error is small everywhere (relative norm {norm:.1e}, where",
)
_ROUNDED = f"{_SMALL} rounding fp32 to {{dtype}} gives {{usual:.2g}}): the sum itself lost precision. Is the "
_ROUNDED += "accumulator fp32?"
_FP32_ROUNDED = f"{_SMALL} an fp32 accumulator gives less than 1e-6): was it rounded before {{tensor}}?"
_MULTIPLIED = f"In {_TILE}, columns {{A_columns}} of A are multiplied by columns {{B_columns}} of B"
_OUTSIDE = "{count} TMA {count:KIND lies|KINDs lie} outside {tensor}, one from {axis} {farthest} of {of}"
_LOADS, _STORES = _OUTSIDE.replace("KIND", "load"), _OUTSIDE.replace("KIND", "store")
_ZEROS, _DROPPED = "{count:it brings|they bring} zeros", "{count:it is dropped|they are dropped}"
_BY_A_RANK = "all by CTAs of rank {rank}"

# what wrong numbers say
NUMBERS = {
    # count: how many elements, and where
    "wrong": "{wrong} of {of} elements are wrong ({percent:g}%), {where}.",
    "wrong-somewhere": "{wrong} of {of} elements of {tensor} are wrong.",
    "unwritten": "{unwritten} of {of} elements were never written, {where}.",
    "unwritten-of-them": "{unwritten} of them were never written, {where}.",
    "others-wrong": "{wrong} others are wrong, {where}.",
    "copy": f"{_DIFFER}{{belongs_index}}.",
    "copy-unwritten": f"{_DIFFER}: these were never written, {{unwritten_in}}.",
    "copy-and-gaps": f"{_DIFFER}{{belongs_index}}; {{unwritten}} were never written, {{unwritten_in}}.",
    # memory: what a kernel may not write
    "input-changed": "The kernel changed its input {tensor}.",
    "wrote-before": "The kernel wrote {count} elements before {tensor}: a row or column past the edge.",
    "wrote-after": "The kernel wrote {count} elements after {tensor}: a row or column past the edge.",
    # look: no cause, only where to look
    "tiles-missing": "Whole tiles are missing: does the grid, or the tile loop's bound, cover every tile, "
    "and does the tile divide M and N? Does the store's box cover the whole tile?",
    "parts-missing": "Parts of tiles are missing: does every thread store all of its elements, and does each "
    "wait for its store?",
    "some-tiles": "Some tiles are wholly wrong and the others right. Look at the coordinates of A, B and D. "
    "If a CTA computes several tiles, look at what one leaves to the next.",
    "every-tile": "Every tile is wrong: look at coordinates, the columns of each slice, the operand order "
    "and the swizzle before the barriers.",
    "fragments": "A few rows or fragments of a tile are wrong: one thread's or one warp's part. That is a "
    "missing wait or fence between two owners of the same bytes, not arithmetic.",
    "parts-wrong": "Parts of tiles are wrong: does each slice or fragment take its own part of the sums, and "
    "go to its own place? If so, look for a missing wait, arrival or fence.",
    # unwritten, and corner: a part of it that alone was written
    "nothing-written": "The kernel wrote no element of {tensor}. Does any thread reach the store, and is its "
    "guard ever true?",
    "corner": f"{_CORNER}.",
    "corner-stacked": f"{_CORNER}: does every CTA, and every slice, store to its own place?",
    "corner-of-slices": f"{_CORNER}: do slices count elements, where a CTA's index counts tiles?",
    "corner-of-a-tile": f"{_CORNER}: does the store take the whole tile?",
    "corner-of-every-cta": f"{_CORNER}: does every CTA store to its own place, and does the grid cover "
    "{tensor}?",
    "corner-of-the-grid": f"{_CORNER}: are x and y of the grid mixed up, or M and N? Do tiles of all CTAs "
    "(by the grid, or order of tiles) cover {tensor}?",
    "columns-of-each": "Columns {columns} of each {width} were never written: does the store take all of a "
    "tile, with all of its slices?",
    "columns-of-some": "Columns {columns} of each {width} were never written, in tiles of columns {tiles} of "
    "{tensor}: does the store take all of a tile, with all of its slices?",
    "band-of-columns": "Columns {columns} of {tensor} were never written, and all others were: which tile "
    "does each store take?",
    "band-of-rows": "Rows {rows} of {tensor} were never written, and all others were: which tile does each "
    "store take?",
    # not-finite
    "not-finite": "{count} are {value}: something was read before it was loaded. Which stage does each load "
    "write, which does each wgmma read, and what has it waited for?",
    "past-fp16": "Row {row:d} is {value}: was the sum rounded to fp16, whose largest number is 65,504?",
    "not-subtracted": "Row {row:d} is {value}: is its largest number subtracted before exp, and searched for "
    "from -inf on?",
    # precision
    "sums-rounded": f"The {_ROUNDED}",
    "sums-rounded-within-bounds": f"{_WITHIN} the {_ROUNDED}",
    "fp32-rounded": f"The {_FP32_ROUNDED}",
    "fp32-rounded-within-bounds": f"{_WITHIN} the {_FP32_ROUNDED}",
    # zeros
    "zeros": f"{_TILE} holds zeros: no K tile was multiplied, or an operand's tile lies outside its tensor, "
    "which TMA fills with zeros. Is its index too large, or are M and N mixed up?",
    "index-of-the-other": f"{_TILE} holds zeros: {{operand}} has only {{operand_rows}} rows. Does the index "
    "of {other}'s rows slice it too?",
    # misplaced
    "operand-stored": f"{_TILE} holds {{operand}}[{{operand_rows}}, {{operand_columns}}] itself: does the "
    "store take the sums, or {operand}'s tile?",
    "operand-twice": f"{_TILE} holds {{operand}}[{{left}}] @ {{operand}}[{{right}}]^T: {{operand}}'s tile "
    "lies where {other}'s belongs, or {other}'s was never copied.",
    "mirror": f"{_TILE} holds {_PRODUCT}: {{tensor}}'s tile is stored at its mirror place, or both operands "
    "are sliced by the other's index.",
    "stored-elsewhere": f"{_TILE} holds {_PRODUCT}: that belongs at another place of {{tensor}}. Which index "
    "places the store?",
    "slices-stored-elsewhere": f"{_TILE} holds {_PRODUCT}: that belongs at another place of {{tensor}}. "
    "Which index places the store, and does it count every slice?",
    "rows-of-B": f"{_TILE} holds {_PRODUCT}: these rows of B belong to another tile. Which index slices B, "
    "or a slice of {tensor}?",
    "rows-of-A": f"{_TILE} holds {_PRODUCT}: these rows of A belong to another tile. Which index slices A, "
    "or a slice of {tensor}?",
    "coordinates": f"{_TILE} holds {_PRODUCT}: wrong coordinates, or what a former tile left.",
    "moved": f"{_TILE} holds what belongs in {{axis}} {{belongs}}: which index slices the accumulator?",
    "moved-or-stored-elsewhere": f"{_TILE} holds what belongs in {{axis}} {{belongs}}: which index slices "
    "the accumulator, or places the store?",
    # accumulator
    "twice": f"{_TILE} holds twice its own product: is it multiplied twice, or the sum not cleared between?",
    "former-tile": f"{_TILE} holds its own sum and {_PRODUCT}: a former tile's sum was not cleared.",
    "another-tile": f"{_TILE} holds its own sum and {_PRODUCT}: another tile's sum is in its "
    "accumulator too.",
    "another-tile-added": f"{_TILE} holds its own sum and {_PRODUCT}: another tile's sum is added there: "
    "which tile does each store take?",
    "shared-rows": "Both consumer warpgroups multiply the same rows ({tensor}[{rows}, {columns}] holds "
    "A[0:64]...): how many blocks of 64 rows does the MMA give to each?",
    "shared-part": "Two warpgroups write the same part of the tile: how many blocks of 64 rows does the MMA "
    "give to each?",
    # transposed
    "own-transposed": f"{_TILE} holds its own product, transposed: are the two operands, or {{tensor}}'s "
    "rows and columns, swapped?",
    "other-transposed": f"{_TILE} holds {_PRODUCT}, transposed: an operand, {{tensor}} or a copy has the "
    "wrong order.",
    # k: which parts of K a tile's sum has
    "never-accumulated": f"{_TILE} holds the last {{slice}} columns of K alone: the accumulate flag was "
    "never set.",
    "slice-repeated": f"{_TILE} holds the same 16 columns of K, {{k}}, {{times}} times: does the slice's "
    "index follow the loop?",
    "slices-left-out": f"{_TILE} holds columns {{slices}} of each {{k_tile}} of K alone: does the loop over "
    "the slices take all?",
    "last-short": f"{_TILE} is the exact sum of its whole K tiles: the last K tile is short, {{last}} "
    "columns, and is left out. Does the count of K tiles round up?",
    "overwritten": f"{_SUM}: every round overwrote the sum.",
    "ends-early": f"{_SUM}: the loop ends too early.",
    "begins-late": f"{_SUM}: the loop begins too late, or a later round overwrote the sum.",
    "one-k-tile": f"{_SUM}: every round multiplied the same columns of K.",
    "wrong-k-tiles": f"{_SUM}<: a tile was read too early, too late or not at all, or its index is off by "
    "one>.",
    "slice-stays": f"{_MULTIPLIED}: does {{operand}}'s slice follow the loop?",
    "two-indices": f"{_MULTIPLIED}: do both slices follow one index?",
    "slice-unscaled": f"{_MULTIPLIED}: is the slice of {{operand}} scaled by the tile's width?",
    "unscaled": f"In {_TILE}, columns {{k}} of K are left out, and column {{repeated:d}} comes {{times}} "
    "times: is the slice of K scaled by the tile's width?",
    # mistake: the values of a usual one (``problems``)
    "bias-missing": "D is right but for its bias.",
    "bias-of-rows": "D has the bias of its rows: bias has a number for each column.",
    "bias-of-the-first-tile": "Every tile has the bias of the first tile's columns: where does this tile "
    "begin?",
    "bias-from-its-row": "Each tile has the bias of other columns: is the bias sliced by the tile's first "
    "row instead of its first column?",
    "bias-by-rows": "Each row of a tile has its own bias, but each column should have one: does the index "
    "within the tile count rows?",
    "relu-missing": "D is right but for its ReLU.",
    "relu-before-bias": "D is right but for the order of its epilogue: the ReLU came before the bias.",
    "epilogue-in-the-loop": "D has its bias and its ReLU after every K tile: is the epilogue inside the K "
    "loop?",
    "bias-in-the-loop": "D has its bias after every K tile: is it added inside the K loop?",
    "relu-in-the-loop": "D has its ReLU after every K tile: is it inside the K loop?",
    "rounded-twice": "D was rounded twice: the sums went to fp16 before the bias was added.",
    "first-group": "All rows are multiplied by the first group's B.",
    "first-matrix-of-A": "Every matrix of B met the first matrix of A: does A's coordinate follow the batch?",
    "first-matrix-of-B": "Every matrix of A met the first matrix of B: does B's coordinate follow the batch?",
    "group-before": "The first rows of a group are multiplied by the B of the group before.",
    "scales-missing": "D has neither scale: it is the product of A and B as they are stored.",
    "not-cleared-between-blocks": "Each K block is counted again with the scales of later blocks: the first "
    "accumulator is not cleared.",
    "scales-of-the-last-block": "The sum over all of K has the scales of its last block: scale the sum of "
    "each block.",
    "scales-of-the-first-block": "All K blocks have the scales of the first one: which column of scale_A and "
    "scale_B?",
    "scale-B-missing": "D is right but for scale_B.",
    "scale-A-missing": "D is right but for scale_A.",
    "scale-B-by-rows": "scale_B is taken by D's rows: it has a row for each 128 of D's columns.",
    "scales-of-the-first-tile": "Every tile has the row scales of the first tile: where does this tile "
    "begin?",
    "rows-not-divided": "Y's rows do not add up to 1: each is what it would be without the division.",
    "columns-add-up": "Y's columns add up to 1, and not its rows.",
    "scale-missing": "S is right but for its scale.",
    "scaled-twice": "S is scaled twice.",
    "attention-unscaled": "The scores are not scaled: softmax takes Q K^T / sqrt(D).",
    "attention-base-2": "The weights are powers of 2 of the scaled scores: multiply the scale by log2(e), "
    "so that exp2 computes exp.",
    "attention-not-divided": "O is not divided by the sum of its row's weights.",
    "mask-missing": "Every query has seen every key: nothing masks the keys behind a query's own place.",
    "mask-a-key-late": "Each query has also seen the key behind its own place: the mask is late by one key.",
    "mask-a-key-early": "No query has seen the key at its own place: the mask is early by one key.",
    "mask-first-key": "The mask lets query i see keys 0 to i. The last query and the last key have the same "
    "place: add sequence_k - sequence_q.",
    "mask-last-key": "No query has seen the last key.",
    "mask-of-the-last-tile": "Rows behind the last key count as keys: TMA fills them with zeros, whose score "
    "is 0, and exp of it is not 0. Mask them.",
    "head-for-head": "Each head of Q met the head of K with its own number, and heads that K does not have "
    "met zeros. A group of heads shares one head of K.",
    "heads-in-turn": "K's heads were dealt out in turn: neighbouring heads of Q share a head of K, so divide "
    "by the size of a group.",
    "first-batch-of-K": "Every batch of Q met the first batch of K: does K's coordinate follow the batch?",
    "first-batch-of-Q": "K met the first batch of Q in every batch: does Q's coordinate follow the batch?",
    "K-heads-first": "K was read as if a head's rows lay one after the other: the strides of its rows and "
    "heads are exchanged.",
    "Q-heads-first": "Q was read as if a head's rows lay one after the other: the strides of its rows and "
    "heads are exchanged.",
}
# what the facts of the run and the artifact add (``refine``)
REFINED = {
    # outside: TMA that left a tensor
    "loads-outside": f"{_LOADS}: {_ZEROS}.",
    "loads-outside-of-a-rank": f"{_LOADS}, {_BY_A_RANK}: {_ZEROS}. Which index counts the rank?",
    "stores-outside": f"{_STORES}: {_DROPPED}.",
    "stores-outside-of-a-rank": f"{_STORES}, {_BY_A_RANK}: {_DROPPED}. Which index counts the rank?",
    "store-of-other-tiles": f"{_STORES}: does its index count tiles of another size than the store's?",
    # tiles: which of D's nobody took
    "tiles-left": "{ctas} CTAs took {taken} of {tensor}'s {tiles} tiles, none more than {most}: by how many "
    "does the tile loop advance?",
    "tiles-left-by-clusters": "{ctas} CTAs ({clusters} clusters) took {taken} of {tensor}'s {tiles} tiles, "
    "none more than {most}: does the tile loop advance by the number of clusters, not of CTAs?",
    "order-covers": f"{_CORNER}: do the tiles of all CTAs (by the grid, or order of tiles) cover {{tensor}}?",
    "order-mixed-up": f"{_CORNER}: are M and N mixed up in the order of tiles, which has to cover "
    "{tensor}? Rows of tiles come first.",
    "edge-left-out": f"{_CORNER}: tiles at the edge are left out. Does their count round up if the last "
    "one is not whole?",
    "last-not-stored": "{idle} of {busy} CTAs multiply a tile of {tensor} and store nothing: no tile "
    "follows the last one, so what stores it?",
    "last-k-tile-not-loaded": "The loads bring {loaded} of {tensor}'s {of} columns: the last K tile is "
    "short, and is left out. Does the count of K tiles round up?",
    "not-loaded": "The loads bring {loaded} of {tensor}'s {of} elements: which index slices {tensor}?",
    "chunks-not-stored": "{chunks} of a tile's chunks 0 to {last_chunk} {number:is|are} never stored "
    "(columns {columns} of its {width}): how many does each call store?{calls}",
    "last-chunks-not-stored": "{chunks} of a tile's chunks 0 to {last_chunk} {number:is|are} never stored "
    "(columns {columns} of its {width}), but for the last tile of each CTA: how many does each call "
    "store?{calls}",
    "band-not-stored-of-columns": "Columns {columns} of {tensor} were never stored, and all others were: "
    "does the store of each CTA's earlier tiles take the later one's place?{calls}",
    "band-not-stored-of-rows": "Rows {rows} of {tensor} were never stored, and all others were: does the "
    "store of each CTA's earlier tiles take the later one's place?{calls}",
    # swizzle
    "stored-swizzle": "The map of {tensor} stores with swizzle {stored} what threads write with {written}: "
    "which of the two is right?",
    # findings of the emulator that the artifact tells more of
    "columns-of-each-warpgroup": "each consumer warpgroup has a share of the tile's columns ({wgmma}), not "
    "of its rows, so no slice is a fixed set of its registers. Registers that a wgmma may still write go to "
    "memory",
    "sums-in-local-memory": "the accumulator lies in local memory, because its index is not constant: its "
    "registers are copied there while a wgmma may still write them",
    "one-buffer": "{finding}, and {buffer} is one buffer",
}
# why a run on a GPU has no result, by the driver's word or the machine's
FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "The kernel touched memory that is not its own (illegal address). Look at "
    "the tile's coordinates and the stage index. Does a multicast mask or a rank name a CTA that the "
    "cluster does not have? Does a CTA leave its cluster early?",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "The kernel ran an illegal instruction. Look for a tensor map, a wgmma "
    "descriptor or a multicast mask that asks for something the hardware does not have.",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "An address is not aligned for its access: 16 bytes for a vector, 128 "
    "for a TMA tile, 1,024 for a 128-byte swizzle.",
    "CUDA_ERROR_LAUNCH_FAILED": "The kernel died (unspecified launch failure).",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "The launch needs more registers or shared memory than an SM has.",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "The cluster does not fit on the chip.",
    "CUDA_ERROR_INVALID_VALUE": "The driver refused the launch or a tensor map: a grid that its cluster does "
    "not divide, more than 1,024 threads, or a box that TMA cannot describe.",
    "out_of_memory": "The GPU ran out of memory. Close what else uses it (nvidia-smi shows it) and check "
    "again.",
    "timed_output": "A timed output was wrong, though the kernel passed at the check sizes: a race, or a "
    "size that it does not handle.",
}
_ENDLESS = "The kernel never ended ({seconds} s)"
_COUNT_ALL = (
    "a deadlock. Count for each mbarrier who arrives, how often, and how many bytes are expected and "
)
MACHINE = FAULTS | {
    "no-result": "{error}: {detail}",
    "not-tried": "{detail}",
    "died": "The GPU process died: {detail}",
    # fault: what makes Hopper give up with no better word. Observed on H200, driver 580
    "early-load": "A usual cause is an mbarrier that was overrun: a load that is issued before its stage "
    "was multiplied, or a wait whose parity never flips, lets expected bytes pile up until the count "
    "overflows.",
    "early-producer": "A usual cause is an mbarrier that was overrun: a producer that does not wait for "
    "`empty`, or a wait whose parity never flips, lets expected bytes pile up until the count overflows.",
    "outside-the-cluster": "A usual cause is a multicast mask or a remote arrival that names a CTA outside "
    "its cluster, or a CTA that left its cluster early.",
    # hang
    "endless-loop": f"{_ENDLESS}. It waits on no mbarrier: does a loop's bound change inside it?",
    "too-many-registers": f"{_ENDLESS}: setmaxnreg asks for {{registers}} registers, and a CTA has "
    "{limit} at launch. The last warpgroup waits forever for registers that nobody releases.",
    "endless-wait": f"{_ENDLESS}: {_COUNT_ALL}come; then the parity each wait starts with ({{starts}}). The "
    "kernel initialises {barriers} mbarriers{arrivals}.",
    "cluster-waits": "In a cluster: does each CTA expect its own bytes, and does no CTA leave before the "
    "other is done with it?",
}
# what a step requires and a kernel lacks: ``requirement`` is the name of a condition or a property
MISSING = {
    "condition": "This step{also} needs {requirement}; found {instead}{at}",
    "dead-call": "This step{also} needs {requirement}; found {instead}: the compiler removed this line. Can "
    "any thread reach it?{at}",
    "not-run": "This step{also} needs {requirement}; the PTX has it, but no thread ever ran it{at}",
    "forbidden": "This step{also} must not have {requirement}: it shows the cost of doing without them{at}",
    "property": "This step{also} needs {requirement}; found {instead}{at}",
    "waits-at-once": "This step{also} needs {idea}; found `T.copy`, which waits for its store at once; "
    "`T.tma_copy` does not{at}",
    "property-in-part": "This step{also} needs {requirement}<; found {instead}{at}>",
    "not-seen-to-run": "This step{also} needs {requirement}; no thread was seen to run it",
    "property-not-seen": "This step{also} needs {requirement}; nothing of it was seen in a run",
    "another-plan": "Where it was only compiled, this kernel has {now}{at}; where it ran, {before}. What ran "
    "says nothing of another kernel: give every size the same plan.",
    "put-back": "This step{also} needs a barrier that your code leaves out here and TileLang inserted: "
    "without it {harm}<{why}>",
    "barrier-put-back": "This step{also} needs a barrier that your code leaves out here and TileLang "
    "inserted. Without it {reader} ({who}) reads what {writer} writes. No barrier orders the two.",
    "fence-put-back": "This step{also} needs a fence that your code leaves out here and TileLang inserted. "
    "Without it {reader} ({who}) reads what {writer} wrote with {by}. No fence.proxy.async "
    "(`T.fence_proxy_async()`) is between.",
    # found: what a kernel has instead
    "none": "none",
    "no-wgmma": "no wgmma",
    "no-mma": "no tcgen05.mma",
    "tensor-memory": "{alloc} `tcgen05.alloc`, {free} `.dealloc` and {ld} `.ld`",
    "no-consumer": "no wgmma: does any of the launch's {threads} threads take the consumer's branch?",
    "shapes": "{shapes}",
    "alignment": "{buffer} with an alignment of {alignment} instead of {wanted}",
    "grid": "a grid of {grid} for M, N = {M:d}, {N:d}",
    "idle-sms": "a grid of {grid}: {ctas} of {of_sms} SMs have a CTA",
    "other-loads": "{count} of them, but {ways}",
    "no-loads": "{count} of them, and no other copies",
    "plain-stores": "none, but {count} plain `st.global`",
    "bulk-stores": "none, but {count} 1-D bulk copies",
    "no-stores": "no store of D at all",
    "no-acquire": "none (`producer_acquire` does it)",
    "not-in-the-loop": "none in the loop that stores",
    "groups": "{count} {count:group|groups}",
    "no-read-wait": "none with .read",
    "barriers": "{count} `mbarrier.init`",
    "waits": "`wgmma.wait_group` {waits} only",
    "cluster-barriers": "{count}, and no wait for every `empty`",
    "cluster": "a cluster of {cluster}",
    "threads": "{threads:d} threads",
    "merged-map": "a map of {tensor} as {mapped} instead of {matrix}: two dimensions became one",
    "other-strides": "a map of {tensor} that steps {stride} bytes along a size of {size}, instead of "
    "{wanted}",
    "other-map": "a map of {tensor} with {mapped} elements instead of {matrix}",
    "no-register-bound": "both ignored, because the launch has no `min_blocks_per_mp=1`",
    "too-few-registers": "{way} {count} by {role}, whose code needs more than {count} registers: ptxas "
    "ignores all",
    "registers-moved": "{moves}{ptxas}",
    "operands": "{count} of {of} that came so",
    "operands-otherwise": "{count} of {of} that came so, and {ways} in the run",
    "stored-often": "{count} elements stored by TMA, but {enough} are enough: which threads issue the store?",
    "stored-otherwise": "plain stores of up to {count} elements beside them",
    "warpgroups-moved": "{warpgroups}",
    "roles-moved": "`dec` by {gave} of {loading} warpgroups that load, `inc` by {took} of "
    "{multiplying} that multiply",
    "panels": "{mean:.1f} rows and columns of tiles for 16 CTAs; panels of 4 make 10",
    "rounds": "{most} tiles for the busiest CTA, but {enough} would be enough; {busy} of {ctas} CTAs have a "
    "tile",
    "stages": "{used:.2g} in use",
    "share": "it in {count} of {of} {things}{in_ctas}",
}
# tensor maps, and what a copy has to do
MAPS = {
    "illegal": "The map over {tensor} ({map}): {rule}; found {instead}",
    "no-map": "This kernel has no tensor map, so it has no TMA copy of the kind that this case requires.",
    "rows-overlap": "The map of {tensor} has rows of {own} bytes, {apart} bytes apart: are the strides of "
    "its layout swapped?",
    "swizzles-differ": "The maps of {one} and {other} disagree on swizzle, for one buffer: {one}'s has "
    "{one_swizzle} and {other}'s has {other_swizzle}.",
    "path": "{crossing}: this case requires {wanted}; the compiler made {instead} (at {shape})",
    "path-not-seen": "This case requires {wanted} of {tensor}; no thread was seen to run one.",
}
# a pair of programs for a bug report
PAIRS = {
    "broken-is-right": "The broken program is right, and must show {wanted} does: put the one edit into it.",
    "another-fault": "The broken program shows another fault than {wanted} does. It shows {instead}.",
}
OTHER = {
    "slow": "It is right, and slow: {ratio:.2f} of cuBLAS; the step requires {floor:.2f}. Compare your "
    "receipt with the step's.",
    "text": "{text}",  # words of another's: a compiler's, the emulator's, a machine's
}
SENTENCES = NUMBERS | REFINED | MACHINE | MISSING | MAPS | PAIRS | OTHER
# The kinds of causes that have these cases, for who reads a verdict as data.
KINDS = {
    "count": "how many elements are wrong or were never written, and where",
    "copy": "how many elements of a copy differ, and where they belong",
    "memory": "an input, or memory beside an output, was written",
    "look": "no cause is known: where such a pattern of wrong elements usually comes from",
    "unwritten": "a part of the output that was never written, and what leaves it out",
    "corner": "the upper left part of the output was written, and nothing else",
    "not-finite": "elements are NaN or inf",
    "precision": "the error is small everywhere: a sum or a result was rounded too early",
    "zeros": "a tile of the output holds zeros",
    "misplaced": "a tile holds what belongs to other rows or columns, or an operand",
    "accumulator": "a tile holds more than its own sum, or two warpgroups share one",
    "transposed": "a tile is transposed",
    "k": "a tile's sum lacks a part of K, or has one more than once",
    "mistake": "the output has the values that a usual mistake of this problem leaves",
    "outside": "TMA loads or stores lie outside their tensor",
    "tiles": "tiles of the output, or chunks of one, that nobody stores",
    "unread": "a part of an operand that no load brings",
    "swizzle": "TMA stores with another swizzle than threads wrote with",
    "machine": "a machine gave no result",
    "fault": "a GPU's error, and its usual causes",
    "hang": "a kernel never ended on a GPU",
    "missing": "what the step requires or forbids, and the kernel lacks or has",
    "found": "what a kernel has instead of what it lacks; a value of `missing`",
    "tensor-map": "a tensor map is illegal, or disagrees with another",
    "path": "a copy took another path than was asked for",
    "pair": "a program that is to show a fault shows none, or another",
    "slow": "right, and below the step's speed",
    "text": "words of another's: a compiler's, or a fault of the checker",
}


class Number(int):
    """A count in a sentence: with its commas, or as the word of two that goes with it."""

    def __format__(self, form: str) -> str:
        if "|" in form:
            return form.split("|")[self != 1]
        return super().__format__(form or ",")


def sentences(cause: Cause) -> list[list[str]]:
    """What is said of a cause, sentence by sentence: each in full, and shorter and shorter."""
    return forms(filled(_worded(cause), SENTENCES))


def text(*causes: Cause) -> str:
    """What is said of causes, in full."""
    return " ".join(one[0] for cause in causes for one in sentences(cause))


def _worded(cause: Cause) -> Cause:
    values = {name: _word(name, value) for name, value in cause.values.items()}
    if requirement := cause.values.get("requirement"):
        filled = {name: "" if value is None else value for name, value in values.items()}
        values["requirement"] = marked(_row(requirement).needs).format(**filled)
    for name in ("also", "at", "belongs_index", "in_ctas"):  # which a sentence may end with
        values.setdefault(name, None)
    return replace(cause, values=values)


def _word(name: str, value: Any) -> Any:
    """A value as its sentence takes it: by its name, or by its type."""
    if value is None:
        return value
    if name in _WORDS:
        return _WORDS[name](value)
    if isinstance(value, Cause):
        return _worded(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Number(value)
    if isinstance(value, list | tuple):
        return _span(value)
    return value


def _span(ends: Iterable[int]) -> str:
    return ":".join(map(str, ends))


def _by(numbers: Iterable[int]) -> str:
    return " x ".join(map(str, numbers))


def _listed(things: Iterable[object]) -> str:
    return ", ".join(map(str, things))


def needs(name: str) -> str:
    """What a condition or a property requires of a kernel for the course's own chip, in full."""
    row = _row(name)
    numbers = row.numbers(HOME) if isinstance(row, Condition) else {}
    return re.sub("[<>]", "", row.needs).format(**{one: _word(one, value) for one, value in numbers.items()})


def _row(name: str) -> Condition | Property:
    return PROPERTIES[name] if name in PROPERTIES else CONDITIONS[name]


def _place(where: Mapping[str, Any]) -> str:
    for axis in ("rows", "columns"):
        if numbers := where.get(f"only_{axis}"):
            return f"all in {axis if len(numbers) > 1 else axis[:-1]} {_listed(numbers)}"
    (top, bottom), (left, right) = where["rows"], where["columns"]
    whole = f"in rows {top}..{bottom - 1}, columns {left}..{right - 1}"
    if "tiles" not in where:
        return whole
    if where["ran"]:
        return f"{whole}, in {where['tiles']} of the {where['of_tiles']} tiles of 64 x 64 that ran"
    return f"{whole}, in {where['tiles']} of {where['of_tiles']} tiles of 64 x 64"


def k_tiles(numbers: Iterable[int]) -> str:
    """Neighbours as a range: "K tile 5", "K tiles 16 and 17", "K tiles 0 to 8 and 13 to 17"."""
    ranges: list[list[int]] = []
    for k in numbers:
        if ranges and k == ranges[-1][-1] + 1:
            ranges[-1].append(k)
        else:
            ranges.append([k])
    *most, last = (
        words for one in ranges for words in ([f"{one[0]} to {one[-1]}"] if len(one) > 2 else map(str, one))
    )
    several = sum(map(len, ranges)) > 1
    return f"K tile{'s' * several} " + " and ".join(filter(None, (_listed(most), last)))


def _weights(weights: Mapping[str, Any]) -> str:
    said = f", without {k_tiles(weights['missing'])}" if weights["missing"] else ""
    if repeated := weights["repeated"]:
        times = " and ".join(f"{k_tiles(ks)} ({count} times)" for count, ks in repeated.items())
        said += f", {'and' if said else 'but'} with {times}"
    return said


def _unwritten_in(box: Mapping[str, Any]) -> str:
    return f"{'all of' if box['full'] else 'in'} Y[{_listed(map(_span, box['spans']))}]"


def _at(seen: Mapping[str, Any]) -> str:
    one = ", one K tile: look at what follows the K loop" * bool(seen.get("one_k_tile"))
    return f" (at {seen['takes']} = {_by(seen['size'])}{one})"


def _move(move: Mapping[str, Any]) -> str:
    said = f"{move['way']} {move['count']}" + f" by the {move['role']}" * bool(move["role"])
    share = move["idle_share"]
    return said + f", where each thread could have {share} without it" * bool(share)


def _ways(ways: Any) -> str:
    return (
        _listed(f"{count} {way}" for way, count in ways.items())
        if isinstance(ways, Mapping)
        else _listed(ways)
    )


def _chunks(chunks: tuple[int, int]) -> str:
    first, last = chunks
    return f"Chunk {first}" if first == last else f"Chunks {first} to {last}"


def _calls(lines: list[int]) -> str:
    *most, last = map(str, lines)
    return f" They are on lines {_listed(most)} and {last}." if most else ""


def _of_emulator(cause: Cause) -> str:
    """A part of one of the emulator's sentences. Its table is imported when it is needed: the emulator takes
    numpy, which whoever only asks a bundle for help may not have.
    """
    from course_utils.run.emulator.explain.words import SENTENCES

    return sentence(cause, SENTENCES)


# values that have words of their own, by their names
_WORDS: dict[str, Callable[[Any], Any]] = {
    "also": lambda also: " also" * also,
    "at": _at,
    "belongs_index": lambda index: f", which holds what belongs at {list(index)}",
    "calls": _calls,
    "chunks": _chunks,
    "cluster": _by,
    "even": lambda grid: f" (or {grid})",
    "first_index": lambda index: str(list(index)),
    "grid": _by,
    "idea": lambda name: forms(marked(_row(name).needs))[0][-1],
    "in_ctas": lambda ctas: f", in {ctas} CTA{'s' * (ctas != 1)}",
    **dict.fromkeys(("mapped", "matrix"), lambda size: " x ".join(f"{n:,}" for n in size)),
    "moves": lambda moves: _listed(dict.fromkeys(map(_move, moves))),
    "reader": _of_emulator,
    "ptxas": lambda said: "".join(f", {one}" for one in dict.fromkeys(said)),
    "role": lambda role: f"the {role}" if role else "warps",
    "shape": _by,
    "shapes": _listed,
    "slices": lambda slices: " and ".join(map(_span, slices)),
    "unwritten_in": _unwritten_in,
    "waits": _listed,
    "warpgroups": lambda moved: _listed(
        f"`{way}` by {n} whole warpgroups of {of}" for way, (n, of) in moved.items()
    ),
    "ways": _ways,
    "weights": _weights,
    "where": _place,
}
