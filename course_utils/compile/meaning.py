"""What compilers mean by the words that learners meet."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod


def _two_tiles(found: re.Match) -> str:
    """What a tensor map was given: a layout's shape "(8,16),(64,2)" is 128 x 128, and its tile's shape."""
    modes = re.findall(r"\([\d,]+\)|\d+", found[1])
    layout = " x ".join(str(prod(map(int, re.findall(r"\d+", mode)))) for mode in modes)
    tile = " x ".join(re.findall(r"\d+", found[2]))
    return f"this map has a layout of {layout} in shared memory for a tile of {tile}"


def _undivided(found: re.Match) -> str:
    """A tile that the MMA cannot be repeated over."""
    tile = " x ".join(found[1].split(","))
    return f"the MMA does not divide a tile of {tile}: its shape, times its warpgroups, has to."


# a compiler's words, and what they ask of a learner. Seen on tilelang 0.1.15 and nvidia-cutlass-dsl 4.8.1.
MEANING: tuple[tuple[str, str | Callable[[re.Match], str]], ...] = (
    (
        r"expected top-level shape equivalence between the SMEM layout and the CTA V-map, but got "
        r"'!cute\.\w*layout<\"(?:S<\S+> o \S+ o )?\((\S+?)\):.*?and '!cute\.layout<\"\((.*?)\):[^']*'",
        _two_tiles,
    ),
    (
        r"expects a pointer to an mbarrier to be provided via the tma_bar_ptr kw argument",
        "expects a pointer to an mbarrier to be provided via the tma_bar_ptr: a load signals one; a store's "
        "op is `CopyBulkTensorTileS2GOp`",
    ),
    (
        r"Operand 0 of operation \"cute\.local_tile\" must be a Value \(is not a Value\)",
        "`local_tile` takes a tensor, and this is none: `make_tiled_tma_atom` returns what `cute.copy` takes "
        "first, then the matrix",
    ),
    (
        r"'TmaInfo' object has no attribute '_trait'",
        "`make_tiled_tma_atom` returns two things, which both need a name: what `cute.copy` takes, and the "
        "matrix as TMA sees it.",
    ),
    (
        r"'_Layout' object has no attribute '(?:outer|inner)'",
        "this layout has no swizzle, so neither `.outer` nor `.inner`: `tile_to_shape` of a swizzled atom "
        "has both.",
    ),
    (
        r"invalid operand types, got '!cute\.coord_tensor.*?composed_layout(?s:.*)",
        "this matrix has a tensor map already: give each map a matrix of its own.",
    ),
    (
        r"invalid input types, got '!cute_nvgpu\.atom\.non_exec_tiled_tma(?s:.*)",
        "`tma_partition` takes the tile in shared memory first, then the tiles of the matrix: are they "
        "swapped?",
    ),
    (
        r"expects smem and gmem have the same size in the first rank, but got smemShape: (\S+) and gmemShape:"
        r" (\S+)",
        r"expects smem and gmem have the same size in the first rank: group one tile of one tensor on both "
        r"sides. It got smemShape: \1 and gmemShape: \2.",
    ),
    (
        r"'cute\.copy' op dst ptr alignment \(16 bits\) does not meet requirement \(128 bits\) of atom "
        r"'!cute_nvgpu\.atom\.stsm(?s:.*)",
        "`stmatrix` writes 16 bytes of a row at a time, and in this layout of shared memory a row is not "
        "contiguous: is its atom K-major (`K_SW128`)?",
    ),
    (
        r"StructuralEqual check failed, caused by lhs at \S+\s+(\(.*?\))\s+and rhs at \S+\s+(\(.*?\))",
        r"the two sides of this copy have the shapes \1 and \2: slice the larger one",
    ),
    (
        r"K shape check failed: K_A = (\d+), K_B = (\d+)",
        r"K shape check failed: A's tile has \1 of K, B's \2. Does `transpose_B` say how B lies, and are "
        "both tiles cut alike?",
    ),
    (
        r"Selected loop range is smaller.*?src=(\w+), dst=(\w+)(?s:.*)",
        r"the two sides of this copy, \1 and \2, have other shapes: slice the matrix, and write all indices "
        "of a tile with stages.",
    ),
    (
        r"(?s:.*)Shared tile and global tile shape mismatch: \S+ = (\d+) != (\d+).*",
        r"the two sides of this copy have other shapes (\1 and \2): cut both alike.",
    ),
    (
        r"(?s:.*)TMA is not available for src=(\w+), dst=(\w+).*",
        r"TMA is not available from \1 to \2: it copies between global and shared memory, both of one "
        "element type, rows a multiple of 16 bytes.",
    ),
    (
        r"(?s:.*)wgmma_gemm\(\) requires Hopper WGMMA lowering(?s:.*)",
        "T.wgmma_gemm takes whole warpgroups: 128 threads for each 64 rows of the tile, or more rows, have "
        "to come to it, and no part of a warpgroup.",
    ),
    (
        r"(?s:.*)Immutable variable `(\w+)` is used outside its defining region(?s:.*)",
        r"`\1` is set inside an `if` or a loop and used outside it. Set it before, or use it inside.",
    ),
    (r"\Ano message\Z", "no message. Are rows and columns slices, such as `m : m + block_M`, not numbers?"),
    (
        r"fail to form a gemm(?s:.*)",
        "fail to form a gemm: is A's fragment before B's, and acc the share of one tile of D?",
    ),
    (
        r"invalid layout of A/B/D(?s:.*)",
        "invalid layout of A/B/D: are A and B fragments, and acc what `partition_C` gives of one tile of D?",
    ),
    (
        r"expects `coord` and shape of view are weakly congruent, but got '!cute.layout<\"\((\(\d+,\d+\))\):"
        r".*?\">', '!cute.coord<\"(.*?)\">'",
        r"coord and shape of view are not weakly congruent: \2 into one tile, \1: no stages, or "
        "`tma_partition`'s results swapped?",
    ),
    (
        r"expects `coord` and shape of view are weakly congruent, but got '!cute.layout<\"(.*?):.*?\">', "
        r"'!cute.coord<\"(.*?)\">'",
        r"expects coord and shape of view are weakly congruent: the index is \2, the modes are \1. Write one "
        "for each mode; `None` keeps it.",
    ),
    (
        r"IR verification failed: 'cute.copy' op .*?src and dst need be (\w+) and (\w+)",
        r"src and dst need be \1 and \2. Are the source and the destination of this copy swapped?",
    ),
    (r"failed to partition `input` '!cute.shape<\"\((.*?)\)\">' with `tiled_mma`", _undivided),
    (
        r"expects memref/smem_desc_view for operand ([AB]), but gets(?s:.*)",
        r"operand \1 is a tensor in shared memory, and wgmma takes a fragment of it: `make_fragment_\1`.",
    ),
    (
        r"Expected affine layout for <.*?>'s operand ([ABC]), but got composed layout instead(?s:.*)",
        r"the tensor of operand \1 was allocated with its swizzle inside its layout: give `.outer` as the "
        "layout and `.inner` beside it.",
    ),
    (
        r"IR verification failed: 'cute_nvgpu.atom.set_value' op Invalid operand type for field tma_bar",
        "`tma_bar_ptr` takes a pointer to an mbarrier, which has 64 bits: allocate it as `cutlass.Int64`.",
    ),
    (
        r"IR verification failed: 'cute.copy' op '!cute_nvgpu.atom.ldsm.*?dst needs be reg based memref",
        "`LdMatrix` reads shared memory into registers; the other way takes `StMatrix8x8x16bOp`.",
    ),
    (
        r"\Astd::bad_cast",
        "this takes a number that is known when the kernel is compiled, and not one of its run.",
    ),
    (
        r"\ANVVM backend compilation failed(?s:.*)",
        "the DSL could make no PTX of it, and names no line. Are A and B of each `cute.gemm` what "
        "`make_fragment_A` and `make_fragment_B` return?",
    ),
    (
        r"Expected source and destination tensors to have the same rank, but got (\d+) and (\d+)",
        r"source and destination have \1 and \2 modes, not the same rank: is one not this thread's share "
        "(`partition_S`, `partition_D`, `retile`), or a tile with stages?",
    ),
    (
        r"mbarrier must be a cluster barrier, but got <.*?of (\w+)>",
        r"`\1` is a barrier of one CTA, and this arrives on another CTA's: allocate it with "
        "`T.alloc_cluster_barrier`.",
    ),
    (
        r"`copy` currently only supports equal source and destination element type bit width",
        "`copy` needs equal element types. Convert to fp16 first: registers `out`, not `acc`.",
    ),
)


# what an assembler refuses, and what to say of it; CuTe DSL's verifier says some of it first
_REFUSED = (
    (
        r"'setmaxnreg\.\w+': .*?value '(-?\d+)'",
        r"setmaxnreg takes a multiple of 8 from 24 to 256, and \1 is none.",
    ),
    (
        r"'nvvm\.setmaxregister' op new register size must be",
        "setmaxnreg takes a multiple of 8 from 24 to 256, and this is none.",
    ),
    (
        r"Barrier number '(\d+)' out of range",
        r"A CTA has 16 named barriers, 0 to 15, and \1 is none of them.",
    ),
    (
        r"NamedBarrier ID must be in \[0,15\]",
        "A CTA has 16 named barriers, 0 to 15, and this is none of them.",
    ),
    (
        r"Number of threads participating in barrier must be in multiple of warp size",
        "Whole warps come to a named barrier: its count is a multiple of 32 threads.",
    ),
    (
        r"WGMMA wait: N must be in range \[0, 7\]",
        "A wait for wgmma leaves 0 to 7 groups in flight, and this number is none of them.",
    ),
    (
        r"'(?:nvvm\.)?(?:wgmma|cp\.async\.bulk)\.wait[._]group\S* (?:unexpected value|op attribute)",
        "A wait_group leaves as many groups in flight as it says: 0 or more.",
    ),
    (
        r"\(C7602\) Insufficient registers \((\d+)\)",
        r"\1 registers a thread do not hold this kernel. A CTA has 65,536 for at most 1,024 threads: launch "
        "fewer, or give each a smaller share of the tile.",
    ),
    (
        r"Register allocation failed with register count of '(\d+)'",
        r"\1 registers a thread do not hold this kernel. A CTA has 65,536 for at most 1,024 threads: launch "
        "fewer, or give each a smaller share of the tile.",
    ),
    (
        r"uses too much shared data \(0x(\w+) bytes, 0x(\w+) max\)",
        "Shared memory that is part of the program has at most 48 KB: leave `scope` out of `T.alloc_shared`.",
    ),
    (
        r"Failed to dlopen libcuda",
        "`min_blocks_per_mp` above 1 asks for a GPU's driver, which this machine lacks: leave it 1.",
    ),
)
_PTXAS = re.compile(r"(?s)\A(?:PTX assembly failed: |ptxas [^;]*; error\s*: )(.*)")
_NVRTC = re.compile(r"\A\S+\(\d+\): error: (.*)")


def refused(message: str, place: str = "") -> str:
    """What an assembler or a verifier says, as a sentence of ours with its place; their own words follow in
    a line of their own. What it is none of is as it was.
    """
    told = ""
    for pattern, meaning in _REFUSED:
        if found := re.search(pattern, message):
            told = found.expand(meaning)
            break
    else:
        if found := _PTXAS.match(message):
            told = f"The assembler refuses an instruction of this kernel: {found[1]}"
        elif found := _NVRTC.match(message):
            told = f"The CUDA that TileLang makes of this kernel does not compile: {found[1]}"
    return f"{told}{place}\n{message}" if told else message + place


def explained(message: str) -> str:
    """A compiler's message, in words that say what to change where they are known."""
    for pattern, meaning in MEANING:
        if re.search(pattern, message):
            return re.sub(pattern, meaning, message, count=1)
    return message
