"""How instructions are spelled: the words that may follow each opcode of the table, and what is refused by
name.

``WORDS`` has Hopper's and some of Blackwell's (PTX ISA, "Instruction Set"), in any order, as ptxas takes
them. A word that is not here would be passed over in silence, and the numbers would be wrong. ``MODELLED``
groups the opcodes for a reader, ``REFUSED`` says why a kernel does not run here, and ``NOT_JUDGED`` what a
run does not find. The page of check_any_kernel shows all three.
"""

from __future__ import annotations

from functools import cache

_INTEGERS = "u16 u32 u64 s16 s32 s64"
_BITS = "b16 b32 b64"
_HALVES = "f16 bf16 f16x2 bf16x2"
_FLOATS = f"f32 f64 {_HALVES}"
_ROUND = "rn rz rm rp"
_MEMORY = "b8 u8 s8 b16 u16 s16 f16 bf16 b32 u32 s32 f32 b64 u64 s64 f64 b128"
_SPACES = "global shared shared::cta shared::cluster"
_SCOPES = "cta cluster gpu sys"
_ORDER = f"weak relaxed acquire release acq_rel volatile mmio {_SCOPES}"
_EVICT = "evict_normal evict_unchanged evict_first evict_last no_allocate"
_CACHE = "ca cg cs cv lu wb wt nc L2::cache_hint L2::64B L2::128B L2::256B " + " ".join(
    f"{level}::{word}" for level in ("L1", "L2") for word in _EVICT.split()
)
_RELATIONS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor"
_BULK = f"{_SPACES} mbarrier::complete_tx::bytes bulk_group multicast::cluster L2::cache_hint"
_TILES = f"1d 2d 3d 4d 5d tile {_BULK}"
_REDUCES = "add min max inc dec and or xor"
_MMA = "row col satfinite f16 bf16 tf32 f32 f64 e4m3 e5m2 s8 u8 s4 u4 s32"
_NAMED = "cta sync arrive red aligned popc and or u32 pred"
_CTAS = "cta_group::1 cta_group::2"
_PHASES = f"{_SPACES} b64 {_SCOPES} relaxed release acquire"

TYPES = {"pred", "u8", "s8", "b8", "u16", "s16", "u32", "s32", "u64", "s64", "b16", "b32", "b64", "b128"}
TYPES |= {"f16", "bf16", "f16x2", "bf16x2", "u16x2", "s16x2", "f32", "f64", "tf32", "e4m3x2", "e5m2x2"}
WORDS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for names, words in {
        "add sub": f"{_ROUND} ftz sat {_INTEGERS} {_FLOATS} u16x2 s16x2",
        "add.cc sub.cc addc subc": "cc u32 s32 u64 s64",
        "mad.lo.cc mad.hi.cc madc": "lo hi cc u32 s32 u64 s64",
        "mul": f"lo hi wide {_ROUND} ftz sat {_INTEGERS} {_FLOATS}",
        "mul24 mad24": "lo u32 s32",
        "mad": f"lo hi wide {_ROUND} ftz sat {_INTEGERS} f32 f64",
        "fma": f"{_ROUND} ftz sat relu {_FLOATS}",
        "sad": _INTEGERS,
        "div": f"{_ROUND} full approx ftz {_INTEGERS} f32 f64",
        "rem": _INTEGERS,
        "min max": f"ftz NaN relu {_INTEGERS} {_FLOATS} u16x2 s16x2",
        "abs neg": f"ftz s16 s32 s64 {_FLOATS}",
        "rcp sqrt rsqrt": f"approx ftz {_ROUND} f32 f64",
        "ex2 tanh": "approx ftz f32 f16 bf16 f16x2 bf16x2",
        "lg2 sin cos": "approx ftz f32",
        "dp4a": "u32 s32",
        "dp2a": "lo hi u32 s32",
        "copysign": "f32 f64",
        "testp": "finite infinite number notanumber normal subnormal f32 f64",
        "popc clz brev": "b32 b64",
        "bfind": "shiftamt u32 s32 u64 s64",
        "bfe": "u32 s32 u64 s64",
        "bfi": "b32 b64",
        "bmsk": "clamp wrap b32",
        "szext": "clamp wrap u32 s32",
        "setp": f"{_RELATIONS} ftz {_INTEGERS} {_BITS} f16 bf16 f32 f64",
        "set": f"{_RELATIONS} ftz u16 s16 u32 s32 u64 s64 {_BITS} {_FLOATS}",
        "selp": f"{_INTEGERS} {_BITS} f16 bf16 f32 f64",
        "slct": f"ftz {_INTEGERS} {_BITS} f32 f64",
        "and or xor not": f"pred {_BITS}",
        "cnot": _BITS,
        "lop3": "b32",
        "shl": _BITS,
        "shr": f"{_INTEGERS} {_BITS}",
        "shf": "l r clamp wrap b32",
        "mov": f"pred {_INTEGERS} {_BITS} b128 f16 bf16 f32 f64",
        "prmt": "b32 f4e b4e rc8 ecl ecr rc16",
        "cvt": f"{_ROUND} rna rni rzi rmi rpi ftz sat satfinite relu u8 s8 b8 tf32 e4m3x2 e5m2x2 "
        f"{_INTEGERS} {_FLOATS}",
        "cvt.pack": "sat u16 s16 u8 s8 u4 s4 u2 s2 s32 b32",
        "cvta": f"to {_SPACES} const local param u32 u64",
        "isspacep": f"{_SPACES} const local param",
        "ld ldu": f"{_ORDER} {_CACHE} {_SPACES} const local param param::entry param::func v2 v4 v8 "
        f"{_MEMORY}",
        "st": f"{_ORDER} {_CACHE} {_SPACES} local param param::func v2 v4 v8 {_MEMORY}",
        "st.async": f"weak {_SPACES} mbarrier::complete_tx::bytes v2 v4 b32 b64 u32 u64 s32 s64 f32 f64",
        "red.async": f"relaxed cluster shared::cluster mbarrier::complete_tx::bytes {_REDUCES} "
        "u32 s32 u64 b32",
        "atom red": f"{_ORDER} {_SPACES} {_REDUCES} exch cas noftz L2::cache_hint v2 v4 v8 "
        f"b16 b32 b64 u32 u64 s32 s64 f32 f64 {_HALVES}",
        "mapa getctarank": "shared::cluster u32 u64",
        "createpolicy": f"fractional range cvt global b64 {_CACHE}",
        "prefetch": f"global local const param tensormap L1 L2 {_CACHE}",
        "prefetchu": "L1",
        "applypriority": "global L2::evict_normal",
        "discard": "global L2",
        "cp.async": f"ca cg {_SPACES} {_CACHE}",
        "cp.async.commit_group cp.async.wait_group cp.async.wait_all": "",
        "cp.async.mbarrier": f"arrive noinc {_SPACES} b64",
        "cp.async.bulk": _BULK,
        "cp.async.bulk.tensor": f"{_TILES} im2col {_CTAS}",
        "cp.reduce.async.bulk": f"{_BULK} {_REDUCES} noftz f16 bf16 b32 u32 s32 b64 u64 s64 f32 f64",
        "cp.reduce.async.bulk.tensor": f"{_TILES} {_REDUCES}",
        "cp.async.bulk.commit_group": "",
        "cp.async.bulk.wait_group": "read",
        "cp.async.bulk.prefetch": "L2 global L2::cache_hint",
        "cp.async.bulk.prefetch.tensor": "1d 2d 3d 4d 5d tile im2col L2 global L2::cache_hint",
        "tensormap.replace": "tile global_address rank box_dim global_dim global_stride element_stride "
        "elemtype interleave_layout swizzle_mode fill_mode global shared::cta b1024 b32 b64",
        "tensormap.cp_fenceproxy": f"global shared::cta tensormap::generic release {_SCOPES} sync aligned",
        "shfl.sync": "up down bfly idx b32",
        "vote.sync": "all any uni ballot pred b32",
        "match": "any all sync b32 b64",
        "activemask": "b32",
        "elect.sync": "",
        "redux.sync": "add min max and or xor u32 s32 b32",
        "ldmatrix stmatrix": "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16",
        "movmatrix": "sync aligned m8n8 trans b16",
        "mma.sync mma.sp mma.sp::ordered_metadata": f"sync aligned {_MMA} rn "
        "m8n8k4 m8n8k16 m8n8k32 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64",
        "bra": "uni",
        "ret exit": "uni",
        "trap brkpt": "",
        "pmevent": "mask",
        "nanosleep": "u32",
        "griddepcontrol.launch_dependents griddepcontrol.wait": "",
        "bar barrier": _NAMED,
        "bar.red barrier.red bar.cta.red barrier.cta.red": "aligned popc and or u32 pred",
        "bar.warp.sync": "",
        "barrier.cluster": "arrive wait aligned relaxed release acquire",
        "membar": "cta gl sys",
        "membar.proxy": "alias",
        "fence": f"sc acq_rel acquire release {_SCOPES} sync_restrict::shared::cta "
        "sync_restrict::shared::cluster",
        "fence.proxy membar.proxy": "alias",
        "fence.proxy.async membar.proxy.async": _SPACES,
        "fence.proxy.async::generic": f"acquire release sync_restrict::shared::cta "
        f"sync_restrict::shared::cluster {_SCOPES}",
        "fence.proxy.tensormap::generic": f"acquire release {_SCOPES}",
        "fence.mbarrier_init": "release cluster",
        "mbarrier": "init inval expect_tx complete_tx arrive arrive_drop test_wait try_wait parity "
        f"{_PHASES}",
        "mbarrier.pending_count": "b64",
        "wgmma.fence wgmma.commit_group wgmma.wait_group": "sync aligned",
        "setmaxnreg": "inc dec sync aligned u32",
        "clusterlaunchcontrol.try_cancel.async": f"{_SPACES} mbarrier::complete_tx::bytes b128 "
        "multicast::cluster::all",
        "clusterlaunchcontrol.query_cancel": "is_canceled get_first_ctaid get_first_ctaid::x "
        "get_first_ctaid::y get_first_ctaid::z pred v4 b32 b128",
        "tcgen05.alloc": f"{_CTAS} sync aligned shared::cta b32",
        "tcgen05.dealloc": f"{_CTAS} sync aligned b32",
        "tcgen05.relinquish_alloc_permit": f"{_CTAS} sync aligned",
        "tcgen05.ld tcgen05.st": "sync aligned 32x32b 16x64b 16x128b 16x256b x1 x2 x4 x8 x16 x32 x64 x128 "
        "b32",
        "tcgen05.wait::ld tcgen05.wait::st": "sync aligned",
        "tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync": "",
        "tcgen05.mma": f"{_CTAS} kind::f16 kind::f8f6f4 collector::a::discard collector::a::lastuse "
        "collector::a::fill collector::a::use",
        "tcgen05.commit": f"{_CTAS} mbarrier::arrive::one shared::cluster multicast::cluster b64",
    }.items()
    for name in names.split()
}

# What is modelled: a part, what of it runs, and its opcodes. Each opcode of the table is in one row.
MODELLED: tuple[tuple[str, str, str], ...] = (
    (
        "integers",
        "all sizes up to 64 bits, with carries and saturation",
        "mul24 mad24 sad mad rem dp4a dp2a popc clz bfind bmsk szext brev bfe bfi lop3 shl shr shf prmt "
        "add.cc addc sub.cc subc mad.lo.cc mad.hi.cc madc",
    ),
    (
        "floats, and both",
        "fp16, bf16, fp32 and fp64, with directed rounding; conversions, also to and from fp8",
        "add sub mul fma div min max abs neg rcp sqrt rsqrt ex2 lg2 sin cos tanh copysign testp cvt cvt.pack",
    ),
    ("predicates", "also of packed halves", "setp set slct selp and or xor not cnot mov"),
    (
        "control",
        "branches; of functions, `printf` and `assert`",
        "bra call ret exit trap brkpt nanosleep pmevent",
    ),
    (
        "lanes",
        "of a whole warp, or of the lanes of a mask",
        "shfl.sync vote.sync match activemask elect.sync redux.sync bar.warp.sync",
    ),
    (
        "memory",
        "global, shared, local and distributed shared memory; up to 128 bits at once",
        "ld ldu st cvta isspacep mapa getctarank",
    ),
    ("atomics", "also of vectors and of pairs of halves", "atom red st.async red.async"),
    (
        "copies",
        "TMA tiles of rank 1 to 5, all swizzles of Hopper, multicast; loads in im2col mode; tensor maps "
        "changed on the device",
        "cp.async cp.async.commit_group cp.async.wait_group cp.async.wait_all cp.async.mbarrier "
        "cp.async.bulk cp.async.bulk.tensor cp.async.bulk.commit_group cp.async.bulk.wait_group "
        "tensormap.replace tensormap.cp_fenceproxy",
    ),
    (
        "reductions by TMA",
        "add, minimum, maximum, count, and, or, xor",
        "cp.reduce.async.bulk cp.reduce.async.bulk.tensor",
    ),
    (
        "matrices",
        "fp16, bf16, tf32, fp8 and int8, dense and sparse; `mma.sync` also of int4 and fp64",
        "wgmma.mma_async wgmma.fence wgmma.commit_group wgmma.wait_group mma.sync mma.sp "
        "mma.sp::ordered_metadata ldmatrix stmatrix movmatrix",
    ),
    (
        "barriers",
        "of a CTA, also those that reduce; of a cluster; mbarriers",
        "bar barrier bar.red barrier.red bar.cta.red barrier.cta.red barrier.cluster mbarrier "
        "mbarrier.pending_count fence.mbarrier_init",
    ),
    (
        "order",
        "release, acquire and fences with their scopes; proxies; CTAs that wait for each other",
        "fence membar membar.proxy membar.proxy.async fence.proxy fence.proxy.async "
        "fence.proxy.async::generic fence.proxy.tensormap::generic "
        "griddepcontrol.launch_dependents griddepcontrol.wait",
    ),
    ("register budgets", "of a warpgroup", "setmaxnreg"),
    (
        "Blackwell",
        "fp16, bf16 and fp8 of one CTA and of a pair; places of clusters that have not begun; nothing of it "
        "has run on a Blackwell by us",
        "clusterlaunchcontrol.try_cancel.async clusterlaunchcontrol.query_cancel "
        "tcgen05.alloc tcgen05.commit tcgen05.dealloc "
        "tcgen05.fence::after_thread_sync tcgen05.fence::before_thread_sync tcgen05.ld tcgen05.mma "
        "tcgen05.relinquish_alloc_permit tcgen05.st tcgen05.wait::ld tcgen05.wait::st",
    ),
    (
        "hints",
        "taken, without an effect",
        "prefetch prefetchu discard applypriority createpolicy cp.async.bulk.prefetch "
        "cp.async.bulk.prefetch.tensor",
    ),
)

# What is refused: an opcode or a word of one, and why. The first that fits is told.
_LATER = "came with Blackwell"
REFUSED: dict[str, str] = {
    "tcgen05.shift tcgen05.cp tcgen05.ws tcgen05.sp tcgen05.red": _LATER,
    "kind::tf32 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 ashift": _LATER,
    "16x32bx2 pack::16b unpack::16b": _LATER,
    "st.bulk": _LATER,
    "add.f32x2 sub.f32x2 mul.f32x2 fma.f32x2": _LATER,
    "tile::gather4 tile::scatter4 im2col::w im2col::w::128": _LATER,
    "m8n16 m16n16 m16n8 b8x16": _LATER,
    "redux.f32": _LATER,
    "block_scale mxf8f6f4 mxf4 mxf4nvf4": _LATER,
    "cvt.rs e2m1x2 e2m3x2 e3m2x2 ue8m0x2 s2f6x2": _LATER,
    "multimem": "addresses memory of several GPUs at once",
    "im2col_no_offs": "no public kernel was seen to use it",
    "wmma": "the ISA leaves open which thread holds which element; mma.sync and wgmma say so",
    "tex tld4 txq istypep": "textures",
    "suld sust sured suq": "surfaces",
    "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 vadd4 "
    "vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4": "video instructions",
    "brx call": "only printf and assert can be called, and branches have one target",
    "alloca stacksave stackrestore": "a stack that grows as the kernel runs",
    "fns": "no public kernel was seen to use it",
    "noComplete": "no public kernel was seen to use it",
    "cp_mask ignore_oob oob": _LATER,
    "b1 m16n8k128": "no public kernel was seen to use it",
}
# What is refused where its operands say so: a spelling does not.
REFUSED_FORMS: tuple[tuple[str, str], ...] = (
    ("interleaved tensor maps", "no public kernel was seen to use one"),
    (
        "a tensor map that begins before its tensor, as those of ragged sequences",
        "an Artifact's map begins in a tensor",
    ),
    (
        "a K-major B of sparse `wgmma` in a swizzle of 32 bytes",
        "its second 32 bytes have no place in the ISA's layouts",
    ),
    ("`bar.warp.sync` by lanes with masks of their own that have parted", "the lanes of a path run together"),
)

# What a run does not judge, so that a kernel without a finding may still have such a fault.
NOT_JUDGED: tuple[tuple[str, str], ...] = (
    ("weak outcomes of relaxed accesses", "each access takes effect at once, for all threads"),
    ("`ld.global.nc` of what the kernel has written", "it reads as any load"),
    ("the lanes that a shuffle reads from", "a lane that is not in the mask gives what its register holds"),
    ("global memory that is written while a load of TMA or `cp.async` reads it", "the read is over at once"),
    ("two TMA stores of one CTA to the same elements", "the later one wins"),
    ("the lanes of a warp", "they share one clock"),
    ("the scope of a fence for tensor maps", "any scope reaches all threads"),
    ("`griddepcontrol.wait`", "the kernel before has ended by then"),
    ("`discard`", "memory keeps what it held"),
    ("`.ftz`", "subnormal numbers are kept"),
    ("the last bits", "`wgmma` adds in float32 here; the chip truncates, and keeps fewer bits of fp8 sums"),
    ("`tcgen05.fence`", "a barrier orders `tcgen05` operations without one; many public kernels have none"),
    ("`collector::a::use`", "A is read anew"),
    ("`tcgen05.mma` on a chip", "modelled by the PTX ISA; nothing of it has run on a Blackwell by us"),
)


def page() -> str:
    """The tables of check_any_kernel."""
    reasons: dict[str, list[str]] = {}
    for words, why in REFUSED.items():
        reasons.setdefault(why, []).append(words)
    tables = (
        (("part", "what runs", "instructions"), [(*row, _quoted(words)) for *row, words in MODELLED]),
        (
            ("spelled", "why"),
            [*((_quoted(" ".join(words)), why) for why, words in reasons.items()), *REFUSED_FORMS],
        ),
        (("what", "how far"), NOT_JUDGED),
    )
    return "\n\n".join(
        "\n".join(
            [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(r)} |" for r in rows)]
        )
        for head, rows in tables
    )


def _quoted(words: str) -> str:
    return " ".join(f"`{word}`" for word in words.split())


def unknown(opcode: tuple[str, ...], length: int) -> str:
    """The first word of an opcode that is not known to follow its first ``length``; "" where all are."""
    words = WORDS.get(".".join(opcode[:length]))
    if words is None:
        return ""
    return next((word for word in opcode[length:] if word not in words), "")


@cache
def reason(opcode: tuple[str, ...]) -> str:
    """Why this opcode is refused; "" where the reason is that nobody has modelled it."""
    for spellings, why in REFUSED.items():
        for spelling in spellings.split():
            first, *rest = spelling.split(".")
            if (opcode[0] == first or not rest and first in opcode) and set(rest) <= set(opcode):
                return why
    return ""
