"""A tile of X that crosses to shared memory, in the ways in which a program may ask for it; and the path that
the installed compiler takes.

Each case is a program of its own, written out as Python, so that it can be read, and compiled for the
course's chip without a GPU.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from random import Random
from typing import Any

from course_utils.artifact import BOX_LIMIT, SWIZZLE_BYTES, Artifact, Tensor
from course_utils.compile import child
from course_utils.compile.cute import ELEMENTS
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory_source
from course_utils.ptx import paths
from course_utils.tma.rules import violations

ONE, SEVERAL, BULK, THREADS, ERROR = PATHS = ("one box", "several boxes", "1-D bulk", "threads", "error")
COPY, PREFER, INSIST, ATOM = ASKED = ("T.copy", "prefer tma", "T.tma_copy", "TMA atom")
BY_THREADS, STORE, GEMM, PIPELINE = CONSUMERS = ("threads", "store", "gemm", "pipelined gemm")
BYTES = {"float8_e4m3fn": 1, "int8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
# who may read a tile that was asked for so: T.tma_copy has a barrier of its own, so it is in no T.Pipelined,
# and of CuTe DSL only the layout of S counts: rows, or the swizzled one that wgmma reads
READ_BY = {COPY: CONSUMERS, PREFER: CONSUMERS, INSIST: (BY_THREADS, STORE, GEMM), ATOM: (BY_THREADS, GEMM)}
N, STAGES = 64, 2  # of a case's GEMM: columns of W, and stages of T.Pipelined
MOST_BYTES = 96 * 1024  # of a tile, so that no kernel has too much shared memory
K_BYTES = 32  # a K tile has a multiple of it: the K of one MMA instruction
SUMS = {"int8": "int32", "float64": "float64"}  # an accumulator's element type, float32 of all others


@dataclass(frozen=True)
class Case:
    """One tile of X, ``shape`` and ``tile`` in elements, outermost first, both of one rank from 2 to 5.

    ``dtype`` is a name of ``BYTES``, ``asked`` is of ``ASKED``, ``consumer`` of ``READ_BY[asked]``. CTA i
    copies tile i; where the tile does not divide the shape, the last ones reach past its end.
    """

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    dtype: str
    consumer: str
    asked: str

    @property
    def dsl(self) -> str:
        return "cute" if self.asked == ATOM else "tilelang"

    @property
    def row(self) -> int:
        """Bytes of a row of the tile."""
        return self.tile[-1] * BYTES[self.dtype]

    @property
    def tiles(self) -> list[int]:
        """Tiles each way; the last one may reach past the end."""
        return [-(-extent // own) for extent, own in zip(self.shape, self.tile, strict=True)]

    def __post_init__(self) -> None:
        """Raises ValueError for what is no case, and says which there are."""
        ranks = {len(self.shape), len(self.tile)}
        extents = [*self.shape, *self.tile]
        if len(ranks) != 1 or not ranks <= {2, 3, 4, 5}:
            raise ValueError(f"shape {self.shape} and tile {self.tile} must have one rank, 2 to 5")
        if not all(type(extent) is int and extent > 0 for extent in extents):
            raise ValueError(f"shape {self.shape} and tile {self.tile} must be whole numbers above 0")
        for name, value, known in (("dtype", self.dtype, (*BYTES,)), ("asked", self.asked, ASKED)):
            if value not in known:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, known))}")
        if self.consumer not in READ_BY[self.asked]:
            readers = ", ".join(map(repr, READ_BY[self.asked]))
            text = f"consumer is {self.consumer!r}; a tile by {self.asked} is read by one of {readers}"
            raise ValueError(text)
        if self.consumer in (GEMM, PIPELINE) and set(self.tile[:-2]) - {1}:
            raise ValueError(
                f"tile {self.tile} is no matrix: a gemm's tile has 1 before its last two extents"
            )

    def __str__(self) -> str:
        shape, tile = (" x ".join(map(str, extents)) for extents in (self.shape, self.tile))
        return f"{tile} of {shape}, {self.dtype}, read by {self.consumer}, {self.asked}"


@dataclass(frozen=True)
class Outcome:
    """What a compiler made of a case. ``path`` is of ``PATHS``; ``boxes`` are those of one tile; ``box`` is
    outermost first, ``swizzle`` in bytes; ``copied`` is the path as ``ptx.paths`` names it; ``said`` the
    error, or what the tensor map has wrong: "" of a legal one that describes X.
    """

    path: str
    boxes: int = 0
    box: tuple[int, ...] = ()
    swizzle: int = 0
    copied: str = ""
    said: str = ""


def outcome(case: Case) -> Outcome:
    """Compile a case and read its path from the PTX and the tensor map.

    Raises CompileError where the compiler gave no answer: it is missing, or took too long or too much memory.
    """
    compiler = import_module(f"course_utils.compile.{case.dsl}")
    try:
        compiler.prepare()
    except ImportError as error:
        raise CompileError("load", f"the package {error.name} is missing here") from error
    try:
        with closing(child.each(partial(_compiled, case), [()], "copy")) as made:
            artifact = next(made).artifact
    except CompileError as error:
        if error.stage != "lower":
            raise
        return Outcome(ERROR, said=error.text)
    return _read(case, artifact)


def _compiled(case: Case) -> Artifact:
    """In the child."""
    compiler: Any = import_module(f"course_utils.compile.{case.dsl}")
    program = load_factory_source(source(case), "case", "copy")()
    if case.dsl == "tilelang":
        return compiler.compile_prim_func(program)
    return compiler.compile_host(
        program, (Tensor("X", case.shape, case.dtype), Tensor("Y", case.shape, case.dtype))
    )


def _read(case: Case, artifact: Artifact) -> Outcome:
    copied = next(one for one in paths.copies(artifact) if (one.tensor, one.direction) == ("X", paths.LOAD))
    (kind,) = copied.paths
    if kind != paths.TENSOR:
        return Outcome(BULK if kind == paths.BULK else THREADS, copied=kind)
    made = next(p.tensor_map for p in artifact.parameters if p.tensor == "X" and p.tensor_map)
    boxes = prod(case.tile) // prod(made.box)
    wrong = [violation.sentence for violation in violations(made)]
    strides = [prod(case.shape[dim:]) * BYTES[case.dtype] for dim in range(len(case.shape) - 1, 0, -1)]
    if not set(made.strides) <= set(strides):  # CuTe DSL makes one dimension of some
        wrong.append(f"its strides are {made.strides} bytes; X has {tuple(strides)}.")
    return Outcome(
        ONE if boxes == 1 else SEVERAL,
        boxes,
        made.box[::-1],
        SWIZZLE_BYTES[made.swizzle],
        kind,
        " ".join(wrong),
    )


# -- the programs


def source(case: Case) -> str:
    """The program of a case, as Python: ``copy()`` returns its kernel."""
    if case.dsl == "cute":
        return _cute(case)
    return _gemm(case) if case.consumer in (GEMM, PIPELINE) else _tile(case)


def _leading(case: Case, block: str) -> list[str]:
    """The assignments of the tile's first element in each dimension before the last two, from one block
    index.
    """
    counts, lines = case.tiles[:-2], []
    for dim, (count, extent) in enumerate(zip(counts, case.tile, strict=False)):
        inner = prod(counts[dim + 1 :])
        index = f"{block} // {inner}" if inner > 1 else block
        lines.append(f"i{dim} = ({index}{f' % {count}' if dim else ''}) * {extent}")
    return lines


def _slices(case: Case, dims: int) -> str:
    return ", ".join(f"i{dim} : i{dim} + {case.tile[dim]}" for dim in range(dims))


def _copies(case: Case, pairs: list[tuple[str, str]], parity: str) -> list[str]:
    """The calls that bring (slice, tile) ``pairs`` to shared memory, in the way that is asked for."""
    if case.asked == INSIST:
        loads = [f"T.tma_copy({src}, {dst}, barrier=full)" for src, dst in pairs]
        arrive = ["if T.shuffle_elect(128):", "    T.mbarrier_arrive(full)"]
        return [*loads, *arrive, f"T.mbarrier_wait_parity(full, {parity})"]
    more = ', prefer_instruction="tma"' * (case.asked == PREFER)
    return [f"T.copy({src}, {dst}{more})" for src, dst in pairs]


def _written(head: list[str], body: list[str]) -> str:
    lines = ["import tilelang.language as T", "", "", "def copy():", "    @T.prim_func"]
    lines += [f"    {line}" for line in head] + [f"            {line}" for line in body]
    return "\n".join([*lines, "", "    return main", ""])


def _tile(case: Case) -> str:
    """TileLang: the tile crosses, and leaves to Y by threads, or by a copy that is free to use TMA."""
    rank, counts = len(case.shape), case.tiles
    tensor = f"T.Tensor({case.shape}, T.{case.dtype})"
    head = [
        "def main(",
        f"    X: {tensor},",
        f"    Y: {tensor},",
        "):",
        f"    with T.Kernel({counts[-1]}, {counts[-2]}, {prod(counts[:-2])}, threads=128) as (bx, by, bz):",
    ]
    body = [f"S = T.alloc_shared({case.tile}, T.{case.dtype})"]
    body += ["full = T.alloc_barrier(1)"] * (case.asked == INSIST)
    body += [
        *_leading(case, "bz"),
        f"i{rank - 2} = by * {case.tile[-2]}",
        f"i{rank - 1} = bx * {case.tile[-1]}",
    ]
    whole = _slices(case, rank)
    body += _copies(case, [(f"X[{whole}]", "S")], "0")
    if case.consumer == STORE:
        return _written(head, [*body, f"T.copy(S, Y[{whole}])"])
    size = prod(case.tile)
    own: list[str] = []
    there: list[str] = []
    for dim, extent in enumerate(case.tile):
        index = f"e // {prod(case.tile[dim + 1 :])} % {extent}"
        own.append(index)
        there.append(f"i{dim} + {index}")
    loop = [
        "t = T.get_thread_binding()",
        f"for turn in T.serial({-(-size // 128)}):",
        "    e = turn * 128 + t",
        f"    if e < {size}:",
        f"        Y[{', '.join(there)}] = S[{', '.join(own)}]",
    ]
    return _written(head, [*body, *loop])


def _gemm(case: Case) -> str:
    """TileLang: D = X times W, transposed, K tile by K tile; a tile of X has rows and a K tile."""
    rank, counts, (rows, columns) = len(case.shape), case.tiles, case.tile[-2:]
    sums = SUMS.get(case.dtype, "float32")
    head = [
        "def main(",
        f"    X: T.Tensor({case.shape}, T.{case.dtype}),",
        f"    W: T.Tensor(({N}, {case.shape[-1]}), T.{case.dtype}),",
        f"    D: T.Tensor({(*case.shape[:-1], N)}, T.{sums}),",
        "):",
        f"    with T.Kernel({counts[-2]}, {prod(counts[:-2])}, threads=128) as (by, bz):",
    ]
    body = [
        f"S = T.alloc_shared({(rows, columns)}, T.{case.dtype})",
        f"B = T.alloc_shared({(N, columns)}, T.{case.dtype})",
        f"C = T.alloc_fragment({(rows, N)}, T.{sums})",
    ]
    body += ["full = T.alloc_barrier(1)"] * (case.asked == INSIST)
    body += [*_leading(case, "bz"), f"i{rank - 2} = by * {rows}", "T.clear(C)"]
    turns = f"T.Pipelined({counts[-1]}, num_stages={STAGES})"
    if case.consumer == GEMM:
        turns = f"T.serial({counts[-1]})"
    body += [f"for k in {turns}:"]
    first, k = _slices(case, rank - 1), f"k * {columns} : k * {columns} + {columns}"
    loop = _copies(case, [(f"X[{first}, {k}]", "S"), (f"W[0:{N}, {k}]", "B")], "k % 2")
    loop += ["T.gemm(S, B, C, transpose_B=True)"]
    return _written(head, [*body, *(f"    {line}" for line in loop), f"T.copy(C, D[{first}, 0:{N}])"])


def _cute(case: Case) -> str:
    """CuTe DSL: a TMA atom over X; S has rows, or the swizzled layout of a wgmma operand, whose two modes
    come first.
    """
    rank, element = len(case.shape), f"cutlass.{ELEMENTS[case.dtype]}"
    swizzled = case.consumer == GEMM
    order = [rank - 2, rank - 1, *range(rank - 2)] if swizzled else [*range(rank)]
    shape, tile, counts = (tuple(of[dim] for dim in order) for of in (case.shape, case.tile, case.tiles))
    strides = tuple(prod(case.shape[dim + 1 :]) for dim in order)
    tile_of = ", ".join(f"block // {prod(counts[dim + 1 :])} % {counts[dim]}" for dim in range(rank))
    layout, rows = "layout.outer, 1024, layout.inner" if swizzled else "layout, 1024", tuple(range(rank))
    return (
        f"""\
import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator

tile = {tile}


def copy():
    @cute.kernel
    def kernel(load_X, X, Y, layout):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        full = smem.allocate_array(cutlass.Int64, 1)
        S = smem.allocate_tensor({element}, {layout})
        if thread == 0:
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        S = cute.group_modes(S, 0, {rank})
        X_tiles = cute.group_modes(cute.local_tile(X, tile, {(None,) * rank}), 0, {rank})
        X_dst, X_src = cpasync.tma_partition(load_X, 0, cute.make_layout(1), S, X_tiles)
        if thread < 32:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, cute.size_in_bytes({element}, layout))
            cute.copy(load_X, X_src[None, {tile_of}], X_dst, tma_bar_ptr=full)
        cute.arch.mbarrier_wait(full, 0)
        Y_tile = cute.group_modes(cute.local_tile(Y, tile, ({tile_of})), 0, {rank})
        for i in cutlass.range(thread, cute.size(S), 128):
            Y_tile[i] = S[i]

    @cute.jit
    def main(X: cute.Tensor, Y: cute.Tensor):
        view = cute.make_layout({shape}, stride={strides})
        X, Y = cute.make_tensor(X.iterator, view), cute.make_tensor(Y.iterator, view)
"""
        + (
            f"        swizzle = warpgroup.SmemLayoutAtomKind.K_SW{_span(case)}\n"
            f"        atom = warpgroup.make_smem_layout_atom(swizzle, {element})\n"
            f"        layout = cute.tile_to_shape(atom, tile, order={rows})\n"
            if swizzled
            else f"        layout = cute.make_ordered_layout(tile, order={rows[::-1]})\n"
        )
        + f"""\
        load = cpasync.CopyBulkTensorTileG2SOp()
        load_X, X = cpasync.make_tiled_tma_atom(load, X, layout, tile)
        kernel(load_X, X, Y, layout).launch(grid=({prod(counts)}, 1, 1), block=(128, 1, 1))

    return main
"""
    )


def _span(case: Case) -> int:
    """The widest swizzle, in bytes, whose span divides a row: what an author of a GEMM would take."""
    return next((span for span in (128, 64, 32) if case.row % span == 0), 32)


# -- drawing cases

_ROWS = (8, 15, 16, 32, 40, 64, 96, 128, 160, 256, 264, 300, 304, 320, 384, 512)
_ROW_BYTES = (
    16,
    16,
    32,
    32,
    48,
    64,
    64,
    80,
    96,
    128,
    128,
    128,
    192,
    256,
    256,
    384,
    512,
    640,
    1024,
    1280,
    2048,
)
_ODD_BYTES = (8, 24, 40, 72, 120, 136, 200)  # no multiple of 16


def draw(random: Random) -> Case:
    """Any case, of all ranks, types and ways to ask."""
    while True:
        asked = random.choice((COPY, PREFER, PREFER, PREFER, INSIST, INSIST, INSIST, ATOM, ATOM))
        consumer = random.choice(READ_BY[asked])
        if asked == COPY and consumer != PIPELINE and random.random() < 0.7:
            consumer = PIPELINE  # outside of it there is little to know
        rank, dtype = random.randint(2, 5), random.choice([*BYTES])
        odd = random.random() < 0.12
        row = random.choice(_ODD_BYTES if odd else _ROW_BYTES)
        columns = max(1, row // BYTES[dtype])
        multiplied = consumer in (GEMM, PIPELINE)
        rows = random.choice((64, 128, 128, 256, 512) if multiplied else _ROWS)
        # threads copy several slabs only if their turns divide a slab, and CuTe DSL partitions no cut slab
        slabs = not multiplied and rows <= BOX_LIMIT and rows & (rows - 1) == columns & (columns - 1) == 0
        lead = tuple(random.choice((1, 1, 2, 2, 4)) if slabs else 1 for _ in range(rank - 2))
        tile = (*lead, rows, columns)
        shape = tuple(
            _extent(random, own, BYTES[dtype] if dim == rank - 1 else 0) for dim, own in enumerate(tile)
        )
        fits = prod(tile) * BYTES[dtype] <= MOST_BYTES // (2 if multiplied else 1)
        # TileLang swizzles rows of 8-byte elements by 128 bytes; of shorter ones some end it in an assertion
        whole = 128 if dtype == "float64" and asked != ATOM and consumer != BY_THREADS else 1
        if multiplied:
            whole = max(whole, K_BYTES)
        if fits and columns * BYTES[dtype] % whole == 0:
            return Case(shape, tile, dtype, consumer, asked)


def _extent(random: Random, own: int, element: int) -> int:
    """An extent of X: the tile's, a few of them, or ragged; of a row (``element`` bytes each) mostly so that
    rows begin at multiples of 16 bytes.
    """
    extent = own * random.choice((1, 1, 2, 2, 3, 4))
    if random.random() < 0.2:
        extent += max(1, random.randrange(1, own + 1) if own > 1 else 1)
        if element and random.random() < 0.7:
            step = max(1, 16 // element)
            extent = -(-extent // step) * step
    return extent


def of_entry(entry: dict) -> Case:
    """The case of a record's entry."""
    return Case(
        tuple(entry["shape"]), tuple(entry["tile"]), entry["dtype"], entry["consumer"], entry["asked"]
    )
