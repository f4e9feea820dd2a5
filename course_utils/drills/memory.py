"""Questions on shared memory: swizzles, banks, proxies, and the bytes that a tile takes."""

from __future__ import annotations

from random import Random

from course_utils.artifact import SWIZZLE_BYTES, SWIZZLES, TensorMap
from course_utils.drills.question import Picture, Question, Row, choice, number
from course_utils.tma.layouts import UNIT, conflicts, expected_bytes, store_tail, swizzled, tile_bytes

LINE = 128  # bytes: all banks once, and a row of a tile of 64 halves
PIECES = LINE // UNIT
HALF, FP16 = 2, 6  # bytes of an element, and its code in a tensor map


def piece_of(row: int, piece: int, swizzle: int) -> int:
    """Where in its row the 16-byte piece lies after a swizzle; the rows are those of the swizzle's span."""
    span = SWIZZLE_BYTES[swizzle]
    return swizzled(row * span + piece * UNIT, swizzle) % span // UNIT


def _row(row: int, swizzle: int, piece: int, at: int) -> Picture:
    """A row's pieces where they lie, and an answer's place in it."""
    count = SWIZZLE_BYTES[swizzle] // UNIT
    lies = {piece_of(row, one, swizzle): one for one in range(count)}
    pieces = [lies[place] for place in range(count)]
    return (
        Row.each("place", range(count), here=[at]),
        Row.each(f"row {row}", pieces, "p{}".format, lambda one: "load" * (one == piece), [lies.get(at)]),
    )


def swizzled_piece(rng: Random) -> Question:
    row, piece = rng.randrange(1, 16), rng.randrange(PIECES)
    right = piece_of(row, piece, 3)
    return number(
        f"A tile with rows of {LINE} bytes, {PIECES} pieces of 16 each, under the 128B swizzle. At which "
        f"place of row {row}, 0 to 7, does piece {piece} lie?",
        right,
        {
            piece: "That is where it lies without a swizzle.",
            (piece + row)
            % PIECES: "The two are not added: bit by bit, equal bits give 0 and unequal ones 1.",
            row % PIECES: "That is the row's number alone.",
            row: "That is the row's number alone.",
        },
        f"piece xor row % 8: {piece:03b} xor {row % 8:03b} = {right:03b}, which is {right}.",
        lambda answer: _row(row, 3, piece, answer),
        PIECES - 1,
    )


def narrow_swizzle(rng: Random) -> Question:
    swizzle = rng.choice((1, 2, 2))
    span = SWIZZLE_BYTES[swizzle]
    count = span // UNIT
    row, piece = rng.randrange(1, 16), rng.randrange(count)
    line = row * span // LINE
    right = piece_of(row, piece, swizzle)
    wrong = {
        piece: "That is where it lies without a swizzle.",
        piece
        ^ row % count: f"{LINE // span} rows share a line of {LINE} bytes, and the line's number counts.",
        (piece + 1) % count: "The two are combined by an exclusive or.",
        (piece + 2) % count: "The two are combined by an exclusive or.",
    }
    return number(
        f"Rows of {span} bytes lie one after the other, under the {SWIZZLES[swizzle]} swizzle: a piece of 16 "
        f"changes places by xor with the number of its 128-byte line, modulo {count}. At which place of row "
        f"{row} does piece {piece} lie?",
        right,
        wrong,
        f"Row {row} is in line {line}: {piece} xor {line % count} = {right}.",
        lambda answer: _row(row, swizzle, piece, answer),
        count - 1,
    )


def turns(rng: Random) -> Question:
    plain = [(wide, 0) for wide in (32, 64, 128, 48, 80, 16, 112, 96, 160, 256, 144)]
    row_bytes, swizzle = rng.choice([*plain[:3], (128, 3), (64, 2), (32, 1), *plain[3:]])
    piece = rng.randrange(row_bytes // UNIT)
    offsets = [swizzled(row * row_bytes + piece * UNIT, swizzle) for row in range(8)]
    right = conflicts(offsets)
    return choice(
        f"Rows of {row_bytes} bytes, {'swizzle ' + SWIZZLES[swizzle] if swizzle else 'no swizzle'}. Eight "
        f"lanes read piece {piece} (16 bytes) of eight rows. 32 banks give 128 bytes in a turn. How many "
        "turns?",
        right,
        {
            1: "Some pieces lie in the same banks.",
            2: "Mark where each row's piece begins, modulo 128.",
            4: "Mark where each row's piece begins, modulo 128.",
            8: "They do not all lie in the same banks.",
        },
        "Modulo 128, the pieces begin at " + ", ".join(str(offset % LINE) for offset in offsets) + ".",
        lambda answer: (
            Row.each("row", range(8)),
            Row.each("place", offsets, lambda offset: offset % LINE // UNIT, "load"),
            Row.one("turns", answer, "" if answer == right else "fault", True),
        ),
    )


def expect_or_allocate(rng: Random) -> Question:
    rows, halves, swizzle = rng.choice((8, 16, 32, 64, 128)), rng.choice((8, 16, 24, 32, 40, 48, 56)), 3
    expect = rng.random() < 0.5
    width = halves * HALF
    tensor_map = TensorMap(FP16, (1024, 1024), (2048,), (halves, rows), (1, 1), swizzle=swizzle)
    told, taken = expected_bytes([tensor_map]), tile_bytes(rows, width, swizzle)
    right, other = (told, taken) if expect else (taken, told)
    return number(
        f"A box of {rows} rows of {halves} halves, {width} bytes, under the 128B swizzle. How many bytes "
        f"must {'expect_tx say' if expect else 'you allocate'}?",
        right,
        {
            other: "That is what you allocate: rows lie 128 bytes apart, and the gaps are not written."
            if expect
            else "That is what lands; rows lie a whole span of 128 bytes apart.",
            rows * halves: "That counts elements, and not bytes.",
        },
        f"{rows} x {width} = {told:,} bytes land."
        if expect
        else f"Rows lie 128 bytes apart: {rows} x 128 = {taken:,}.",
        lambda answer: (
            Row.told("one row", range(PIECES), range(width // UNIT), "load", ("data", "")),
            Row.one("rows", rows),
            Row.one(
                "expect" if expect else "allocate", f"{answer:,}", "" if answer == right else "fault", True
            ),
        ),
        1 << 24,
    )


def tail(rng: Random) -> Question:
    elements, size, name = (
        rng.randrange(100, 2000),
        *rng.choice(((2, "halves"), (4, "floats"), (1, "bytes"), (2, "halves"))),
    )
    right, count = store_tail(elements, size), elements * size
    return number(
        f"A 1-D bulk copy moves a multiple of 16 bytes. A kernel stores {elements} {name}. How many bytes "
        "are left for the threads?",
        right,
        {
            elements % 16: "That counts elements." if size > 1 else "",
            16 - right: "That is what is missing to the next 16: it would write past the end.",
            right // size: "That counts elements, and not bytes.",
        },
        f"{elements} x {size} = {count} = {count // 16} x 16 + {right}.",
        lambda answer: (
            Row.one("bytes", f"{count:,}", "store"),
            Row.one("by the copy", f"{count - answer:,}", "fault" if (count - answer) % 16 else "store"),
            Row.one("by threads", answer, here=True),
        ),
    )


def disagreeing(rng: Random) -> Question:
    row, place = rng.randrange(1, 8), rng.randrange(PIECES)
    right = next(piece for piece in range(PIECES) if piece_of(row, piece, 3) == place)
    return number(
        "The load's map swizzles with 128B, and the reader's layout has no swizzle. Rows have 8 pieces of "
        f"16 bytes. The reader takes piece {place} of row {row}. Which piece does it get?",
        right,
        {
            place: "That would be so if both said the same.",
            (place + row)
            % PIECES: "The two are not added: bit by bit, equal bits give 0 and unequal ones 1.",
            (place - row) % PIECES: "Nothing is shifted: piece and row are combined bit by bit.",
        },
        f"TMA puts piece p at place p xor {row}; at place {place} lies {place} xor {row} = {right}.",
        lambda answer: _row(row, 3, answer, place),
        PIECES - 1,
    )


# Two proxies: (who did what, who goes on, through which proxy each)
GENERIC, ASYNC = "generic", "async"
ACCESSES = {
    "threads wrote the tile with ordinary stores": GENERIC,
    "threads read the tile with ordinary loads": GENERIC,
    "a TMA load wrote the tile, and its phase is over": ASYNC,
    "wgmma read the tile, and its group is over": ASYNC,
    "stmatrix wrote the tile": GENERIC,
}
NEXT = {
    "wgmma reads it": ASYNC,
    "a TMA store reads it": ASYNC,
    "a TMA load fills it again": ASYNC,
    "other threads read it": GENERIC,
}
HANDOVER = {
    True: "fence.proxy.async by each of them, then a barrier",
    False: "no proxy fence: the wait or a barrier is enough",
}


def needs_fence(before: str, after: str) -> bool:
    """Only a handover from the generic to the async proxy needs one (PTX ISA, "Async proxy")."""
    return ACCESSES[before] == GENERIC and NEXT[after] == ASYNC


def handover(rng: Random) -> Question:
    pairs = [(one, then) for one in ACCESSES for then in NEXT if not (" read " in one and " read" in then)]
    before, after = rng.choice(pairs)
    right = needs_fence(before, after)
    return choice(
        f"{before[0].upper()}{before[1:]}. Next, {after}. What must be between?",
        right,
        {
            not right: "A barrier orders threads, and the async proxy is no thread."
            if right
            else "Nothing goes from the generic proxy to the async one here."
        },
        f"From the {ACCESSES[before]} proxy to the {NEXT[after]} one: "
        + (
            "ordinary accesses may still be in flight."
            if right
            else "the mbarrier, the group or the barrier orders them."
        ),
        lambda answer: (
            Row.one("before", before, "wait" if ACCESSES[before] == GENERIC else "load"),
            Row.one("proxy", ACCESSES[before]),
            Row.one("between", "proxy fence, barrier" if answer else "no proxy fence", here=True),
            Row.one("proxy", NEXT[after]),
            Row.one("after", after, "wait" if NEXT[after] == GENERIC else "load"),
        ),
        label=HANDOVER.__getitem__,
    )


def who_may_write(rng: Random) -> Question:
    stores, left = rng.choice((1, 2, 3)), rng.choice((0, 1))
    issuer, asker = rng.sample(range(128), 2)
    same = rng.random() < 0.5
    who = issuer if same else asker
    right = min(stores, left) if same else stores
    return number(
        f"Thread {issuer} has issued {stores} TMA store{'s' * (stores > 1)}, one group each; no other thread "
        f"has. Thread {who} calls wait_group.read {left}. How many of the stores may still be reading when "
        "its call returns?",
        right,
        {
            0: "That holds for the thread that issued them, and for wait_group.read 0.",
            left: f"Groups belong to the thread that issued them, and thread {who} has none.",
            stores: "They are its own groups, and the call waits for them.",
        },
        f"They are its own: all {'but the newest ' * left}have been read."
        if same
        else f"Thread {who} has no group: its call returns at once.",
        lambda answer: (
            Row.each("stores", range(stores), lambda _: f"thread {issuer}", "store"),
            Row.one("waits", f"thread {who}", "wait"),
            Row.one("may read", answer, here=True),
        ),
        99,
    )
