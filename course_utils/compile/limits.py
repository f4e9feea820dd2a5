"""What one CTA may ask of a Hopper SM: CUDA C Programming Guide, Compute Capabilities, 9.0."""

import math

from course_utils.compile.errors import CompileError

SHARED_LIMIT = 227 * 1024  # bytes, static and dynamic together
THREAD_LIMIT = 1024


def require_fits(block: tuple[int, int, int], shared: int) -> None:
    """Raise CompileError where a CTA of ``block`` threads with ``shared`` bytes fits no SM."""
    threads = math.prod(block)
    if threads > THREAD_LIMIT:
        raise CompileError("limit", f"the kernel asks for {threads} threads a CTA; Hopper allows {THREAD_LIMIT}")
    if shared > SHARED_LIMIT:
        raise CompileError("limit", f"the kernel asks for {shared:,} bytes of shared memory; an SM of sm_90 gives a CTA at "
                           f"most {SHARED_LIMIT:,}. Use fewer stages or a smaller tile.")
