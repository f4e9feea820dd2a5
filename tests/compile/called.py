"""Which call of the author's an instruction comes from, by what its line has."""

import re

from course_utils.ptx import added

# What the author's line of an instruction has, one of these words: what is called, in either DSL.
CALLS = {
    r"wgmma\.mma_async": ("gemm(",),
    r"wgmma\.wait_group": ("wait_wgmma(", "wait_group("),
    r"mbarrier\.init": ("alloc_barrier(", "alloc_cluster_barrier(", "pipeline.Pipeline", "mbarrier_init("),
    r"mbarrier\.try_wait": ("mbarrier_wait_parity(", "_wait(", "acquire(", "producer_tail("),
    r"mbarrier\.arrive": ("arrive(", "_and_expect", "release(", "acquire(", "producer_tail(", "tma_copy("),
    r"cp\.async\.bulk\.tensor": ("copy(", "tma_load("),
    r"cp\.async\.bulk\.commit_group": ("commit_group(", "tma_copy(", "copy("),
    r"cp\.async\.bulk\.wait_group": ("wait(", "wait_group(", "producer_tail("),
    r"setmaxnreg": ("max_nreg(", "setmaxregister"),
    r"stmatrix": ("copy(",),
    r"barrier\.cluster": ("cluster", "pipeline.Pipeline"),
}


def author(artifact):
    """(opcode, the author's statement, added) of each instruction of the kernel."""
    for instruction, origin in added.authors(artifact):
        if origin:
            yield instruction.name, artifact.code(origin), origin.added


def misplaced(artifact):
    """Instructions whose line calls for nothing of the kind."""
    return {
        f"{opcode}: {code}"
        for opcode, code, added in author(artifact)
        for pattern, calls in CALLS.items()
        if re.match(pattern, opcode) and not added and not any(call in code for call in calls)
    }
