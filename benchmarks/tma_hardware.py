"""What an H200 and its driver do with tensor maps: verdicts, bytes, boxes, stores, reductions, im2col.

    python benchmarks/tma_hardware.py compile build/tma.zip              # where the DSLs and NVRTC are
    python benchmarks/tma_hardware.py run build/tma.zip build/tma 2026   # where the GPU is: any seed
    python benchmarks/tma_hardware.py run build/tma.zip build/tma 0 coordinates     # groups of boxes alone
    python benchmarks/tma_hardware.py fresh build/tma 2026               # maps of a seed alone, no archive

``run`` and ``fresh`` need no package beside this repository. They write into the folder:

    tma_rules.json.gz   calls of the driver that break one rule, each beside the legal map it was made of
    tma_im2col.json.gz  calls of cuTensorMapEncodeIm2col around legal ones
    tma_boxes.json.gz   what one load, store or reduction leaves in memory, and the four copies of notebook t4
    tma_fresh.json      maps drawn by the seed: how often the rules and the driver agree, and on which bytes
    tma_differ.json     the maps of these on which they differ

Memory before a case is ``pattern``; after it only the 16-byte pieces that changed are kept. The
driver is asked in processes of their own, because some calls are its end: their ``rc`` is ``DIED``.
"""

import ctypes
import datetime
import gzip
import json
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from course_utils.artifact import (  # noqa: E402
    DATA_TYPES,
    ELEMENT_BYTES,
    FIRST_FLOAT_TYPE,
    SWIZZLE_BYTES,
    Artifact,
    TensorMap,
)
from course_utils.tma.encoding import encode  # noqa: E402
from course_utils.tma.rules import RULES, row_to_tensor_map, violations  # noqa: E402

SHARED, GLOBAL = 16_384, 131_072  # bytes of a tile, and of the memory that a map lies over
FILLER = 0xEE
PER_RULE = 40
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
WORKERS = 4
DIED = -1  # in place of the driver's answer: the call was a segmentation fault
DEADLY_RANK = 2**31  # from here on the driver's process ends (tests/data, tma_rules.json.gz)


# The driver, by ctypes: cuda-bindings refuses codes that its enumerations lack, and the driver is to answer


class Driver:
    """libcuda with a context of its own. Raises OSError where there is no driver."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device
        self._room = ctypes.create_string_buffer(256)
        self.map = ctypes.c_void_p(ctypes.addressof(self._room) + 63 & ~63)

    def call(self, name, *arguments):
        """A driver call that has to work. Raises RuntimeError with the name of its error."""
        if code := getattr(self.cuda, name)(*arguments):
            said = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(said))
            raise RuntimeError(f"{(said.value or b'?').decode()}")

    def name(self):
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 128, self.device)
        return text.value.decode()

    def version(self):
        found = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(found))
        return found.value

    def allocate(self, size):
        found = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(size))
        return found.value

    def encode(self, row, null=""):
        """The driver's answer to a row, 0 or its error code. ``null`` names an array that is not given."""
        arrays = {
            name: (kind * max(len(row[name]), 1))(*(v & 2**64 - 1 for v in row[name]))
            for name, kind in (
                ("dims", ctypes.c_uint64),
                ("strides", ctypes.c_uint64),
                ("box", ctypes.c_uint32),
                ("estr", ctypes.c_uint32),
            )
        }
        arrays |= {null: None} if null else {}
        return self.cuda.cuTensorMapEncodeTiled(
            self.map,
            *_words(row, "dtype", "rank"),
            ctypes.c_uint64(row["addr_off"] & 2**64 - 1),
            *(arrays[name] for name in ("dims", "strides", "box", "estr")),
            *_words(row, "interleave", "swizzle", "l2", "oob"),
        )

    def encode_im2col(self, row):
        return self.cuda.cuTensorMapEncodeIm2col(
            self.map,
            *_words(row, "dtype", "rank"),
            ctypes.c_uint64(row["addr_off"]),
            (ctypes.c_uint64 * 5)(*row["dims"]),
            (ctypes.c_uint64 * 5)(*row["strides"]),
            (ctypes.c_int * 5)(*row["lower"]),
            (ctypes.c_int * 5)(*row["upper"]),
            *_words(row, "channels", "pixels"),
            (ctypes.c_uint32 * 5)(*row["estr"]),
            *_words(row, "interleave", "swizzle", "l2", "oob"),
        )

    def bytes(self):
        """The 128 bytes that the last call wrote."""
        return ctypes.string_at(self.map.value, 128)


def _words(row, *names):
    return [ctypes.c_uint32(row[name] & 2**32 - 1) for name in names]


# Maps that break one rule


def legal(random):
    """A call with a legal map of any rank and type, over an address below 2^48."""
    rank, data_type = random.randint(1, 5), random.randrange(len(DATA_TYPES))
    size = ELEMENT_BYTES[data_type]
    interleave = random.choice((0, 0, 0, 1, 2)) if rank > 2 else 0
    swizzle = random.randrange(4)
    widest = SWIZZLE_BYTES[swizzle] if swizzle and not interleave else 256 * min(size, 4)
    row = min(16 * random.randint(1, widest // 16), 256 * size // 16 * 16)
    box = [row // size, *(random.choice((1, 2, 3, 5, 8, 16, 31)) for _ in range(rank - 1))]
    while size * _product(box) > 200_000:
        box[random.randrange(1, rank)] = 1
    unit = 32 if interleave == 2 else 16
    return {
        "dtype": data_type,
        "rank": rank,
        "addr_off": 2**40 + unit * random.randrange(2**30),
        "dims": [random.choice((1, 2, 3, 7, 63, 64, 100, 1000, 4096, 2**20 + 1, 2**31)) for _ in range(rank)],
        "strides": [unit * random.choice((1, 2, 3, 64, 1000, 2**20, 2**30)) for _ in range(rank - 1)],
        "box": box,
        "estr": [random.choice((1, 1, 1, 2, 3, 4, 8)) for _ in range(rank)],
        "interleave": interleave,
        "swizzle": swizzle,
        "l2": random.randrange(4),
        "oob": int(data_type >= FIRST_FLOAT_TYPE and random.random() < 0.3),
    }


def _product(values):
    result = 1
    for value in values:
        result *= value
    return result


def _one(random, row, name, values, first=0):
    """An entry of an array, from ``first`` on, is another value. Nothing where there is none."""
    if len(row[name]) > first:
        row[name][random.randrange(first, len(row[name]))] = random.choice(values)


def _packed(random, row):
    """A packed type, in a box that would suit one: 128 elements a row, distances in multiples of 128."""
    row |= {"dtype": random.choice((13, 14, 15)), "interleave": 0, "swizzle": random.choice((0, 3)), "oob": 0}
    row["addr_off"] &= ~127
    row["dims"] = [128 * random.randint(1, 64), *row["dims"][1:]]
    row["strides"] = [128 * random.randint(1, 4096) for _ in row["strides"]]
    row["box"] = [128, *(1 for _ in row["box"][1:])]
    row["estr"] = [1 for _ in row["estr"]]


def _rank(random, row):
    row["rank"] = random.choice((0, 6, 6, 7, 8, 32, 2**31, 2**32 - 1))
    row["interleave"] = 0
    for name, value in (("dims", 64), ("strides", 1024), ("box", 1), ("estr", 1)):
        row[name] = (row[name] + [value] * 8)[:8]


CODES = (2**15, 2**31 - 1, 2**31, 2**32 - 1)
BREAKS = {
    "data-type": lambda r, m: m.update(dtype=r.choice((16, 17, 18, 20, 31, 32, 64, 127, 128, 255, *CODES))),
    "data-type-packed": _packed,
    "rank": _rank,
    "interleave-needs-rank-3": lambda r, m: m.update(interleave=r.choice((1, 2))),
    "address-multiple-of-16": lambda r, m: m.update(addr_off=m["addr_off"] + r.randint(1, 15)),
    "address-multiple-of-32": lambda r, m: m.update(addr_off=m["addr_off"] + 16),
    "address-range": lambda r, m: m.update(
        addr_off=r.choice((2**57, 2**57 + 32, 2**58, 2**60, 2**63, 2**64 - 32, 2**57 + m["addr_off"]))
    ),
    "dim-range": lambda r, m: _one(r, m, "dims", (0, 2**32 + 1, 2**32 + 2, 2**33, 2**40, 2**63, 2**64 - 1)),
    "stride-multiple-of-16": lambda r, m: _one(
        r, m, "strides", [16 * r.randrange(2**20) + r.randint(1, 15) for _ in range(4)]
    ),
    "stride-multiple-of-32": lambda r, m: _one(r, m, "strides", (16, 48, 1040, 2**20 + 16, 2**40 - 16)),
    "stride-range": lambda r, m: _one(r, m, "strides", (2**40, 2**40 + 32, 2**41, 2**44, 2**63, 2**64 - 32)),
    "box-range": lambda r, m: _one(r, m, "box", (0, 0, 257, 258, 260, 272, 288, 512, 1024)),
    "box-inner-multiple-of-16": lambda r, m: m["box"].__setitem__(0, r.randint(1, 255)),
    "box-inner-multiple-of-16-interleaved": lambda r, m: m["box"].__setitem__(0, r.randint(1, 255)),
    "box-fits-shared-memory": lambda r, m: m.update(
        box=m["box"][:1] + [r.choice((16, 31, 57, 58, 64, 100, 228, 229, 256)) for _ in m["box"][1:]]
    ),
    "element-stride-range": lambda r, m: _one(r, m, "estr", (0, 9, 10, 16, 17, 255, 256, 2**16, 2**31)),
    "interleave": lambda r, m: m.update(interleave=r.choice((3, 4, 5, 7, 8, 255, *CODES))),
    "swizzle": lambda r, m: m.update(swizzle=r.choice((7, 8, 9, 15, 16, 255, *CODES))),
    "swizzle-on-hopper": lambda r, m: m.update(swizzle=r.choice((4, 5, 6))),
    "swizzle-span": lambda r, m: m.update(swizzle=r.choice((1, 2, 3))),
    "l2-promotion": lambda r, m: m.update(l2=r.choice((4, 5, 7, 8, 255, *CODES))),
    "oob-fill": lambda r, m: m.update(oob=r.choice((2, 3, 4, 8, 255, *CODES))),
    "nan-fill-needs-float": lambda r, m: m.update(oob=1),
}
# no call of the driver can break it: it is given no lengths
WITHOUT_ROWS = {"array-length"}


def broken(row):
    return [violation.rule for violation in violations(*row_to_tensor_map(row))]


def copied(row):
    return {name: list(value) if isinstance(value, list) else value for name, value in row.items()}


def rows_of(rule, random):
    """``PER_RULE`` calls that break this rule alone, and the legal calls that they were made of."""
    found = []
    for _ in range(200_000):
        before = legal(random)
        after = copied(before)
        BREAKS[rule](random, after)
        if not broken(before) and broken(after) == [rule]:
            found.append((before, after))
            if len(found) == PER_RULE:
                return found
    raise SystemExit(f"no map was found that breaks {rule} alone ({len(found)} of {PER_RULE})")


def edges():
    """Calls beside a limit, and of a value that a rule takes for granted."""
    base = {
        "dtype": 6, "rank": 2, "dims": [64, 64], "strides": [128], "box": [8, 8], "estr": [1, 1],
        "interleave": 0, "swizzle": 0, "l2": 0, "oob": 0, "addr_off": 2**40,
    }  # fmt: skip
    for address in (0, 16, *(2**k + d for k in (32, 40, 47, 48, 49, 52, 56, 57) for d in (-16, 0))):
        yield base | {"addr_off": address}
    for name, values in (
        ("dims", (1, 2, 2**32 - 1, 2**32)),
        ("box", (1, 7, 8, 16, 248, 256)),
        ("estr", tuple(range(1, 9))),
    ):
        for value, place in product(values, (0, 1)):
            changed = copied(base)
            changed[name][place] = value
            yield changed
    for stride in (0, 16, 112, 2**40 - 16):
        yield base | {"strides": [stride]}
    for data_type in range(16):
        yield base | {"dtype": data_type, "box": [16, 8]}
    for interleave, swizzle in product(range(3), range(7)):
        yield base | {
            "rank": 3, "dims": [8, 8, 8], "strides": [128, 1024], "box": [8, 8, 8], "estr": [1, 1, 1],
            "interleave": interleave, "swizzle": swizzle,
        }  # fmt: skip
    for rank, extra in product(range(1, 6), (0, 7)):  # arrays longer than the rank, with nonsense behind
        yield base | {
            "rank": rank,
            "dims": [64] * rank + [0] * extra,
            "strides": [128 * 64**i for i in range(rank - 1)] + [7] * extra,
            "box": [8, *([1] * (rank - 1))] + [999] * extra,
            "estr": [1] * rank + [0] * extra,
        }


def im2col_rows(random):
    """Calls of cuTensorMapEncodeIm2col around legal ones, without an end."""
    limit = {3: 2**15, 4: 2**7, 5: 2**4}
    while True:
        rank, data_type = random.choice((3, 4, 5)), random.randrange(len(DATA_TYPES))
        size = ELEMENT_BYTES[data_type]
        most = limit[rank]
        swizzle = random.randrange(4)
        widest = SWIZZLE_BYTES[swizzle] if swizzle else 256
        channels = 16 * random.randint(1, widest // 16) // size
        row = {
            "dtype": data_type,
            "rank": rank,
            "addr_off": 2**40 + 32 * random.randrange(2**20),
            "dims": [
                random.choice((channels, 64, 256)),
                *(random.choice((1, 8, 14, 56)) for _ in range(rank - 1)),
            ],
            "strides": [],
            "lower": [random.choice((0, -1, -2, 1, -most, most - 1)) for _ in range(rank - 2)],
            "upper": [random.choice((0, -1, -2, 1, -most, most - 1)) for _ in range(rank - 2)],
            "channels": max(channels, 1),
            "pixels": random.choice((1, 8, 64, 100, 256, 1000, 1024)),
            "estr": [random.choice((1, 1, 1, 2, 8)) for _ in range(rank)],
            "interleave": random.choice((0, 0, 0, 0, 1, 2)),
            "swizzle": swizzle,
            "l2": random.randrange(4),
            "oob": int(data_type >= FIRST_FLOAT_TYPE and random.random() < 0.2),
        }
        step = size * row["dims"][0]
        for extent in row["dims"][1:]:
            row["strides"].append(-(-step // 32) * 32)
            step = row["strides"][-1] * extent
        for _ in range(random.choice((0, 0, 1, 1, 2))):
            name = random.choice(
                ("rank", "lower", "upper", "channels", "pixels", "estr", "swizzle", "strides", "oob")
            )
            if name in ("lower", "upper"):
                row[name][random.randrange(rank - 2)] = random.choice(
                    (-most - 1, most, -most, most - 1, 2**20)
                )
            elif name in ("estr", "strides"):
                _one(random, row, name, (0, 8, 9, 16) if name == "estr" else (0, 8, 16, 2**40 - 16, 2**40))
            else:
                values = {
                    "rank": (1, 2, 6), "channels": (0, 1, 3, 255, 256, 257), "pixels": (0, 1024, 1025, 4096),
                    "swizzle": (4, 7), "oob": (1, 2),
                }  # fmt: skip
                row[name] = random.choice(values[name])
        yield row


# One load, store or reduction


def pattern(count, step=1):
    """Bytes whose 16-bit words tell where they lie."""
    words = (ctypes.c_uint16 * (count // 2))(*(i * step % 65_521 + 1 for i in range(count // 2)))
    return bytes(words)


def case(group, kernel, fields, coordinates, **more):
    """``fields`` are a TensorMap's, in order; ``at`` is the tile's offset in shared memory, ``base`` the
    tensor's in global memory.
    """
    return {"group": group, "kernel": kernel, "fields": fields, "coordinates": list(coordinates)} | more


def fields_of(data_type, dims, box, steps=None, interleave=0, swizzle=0, fill=0, pad=0):
    """Fields of a map over rows that lie one behind the other, ``pad`` bytes apart."""
    unit = 32 if interleave == 2 else 16
    strides, step = [], ELEMENT_BYTES[data_type] * dims[0]
    for extent in dims[1:]:
        strides.append(-(-step // unit) * unit + pad)
        step = strides[-1] * extent
    return [
        data_type,
        list(dims),
        strides,
        list(box),
        list(steps or [1] * len(dims)),
        interleave,
        swizzle,
        0,
        fill,
    ]


def load_cases():
    for data_type in range(len(DATA_TYPES)):
        row = 32 // ELEMENT_BYTES[data_type]
        fills = (0, 1) if data_type >= FIRST_FLOAT_TYPE else (0,)
        ragged = (2 * row - row // 4, 5)  # its rows and columns end inside a box
        for fill, at in product(fills, ((0, 0), (-row // 4, -2), (row + row // 2, 3), (3 * row, 0), (0, -9))):
            yield case("fills", "load2", fields_of(data_type, ragged, (row, 4), fill=fill), at)
    for data_type, steps in product((0, 1, 7, 5), ((1, 2), (1, 3), (1, 8), (2, 1), (4, 1), (8, 2), (3, 5))):
        row = 32 // ELEMENT_BYTES[data_type]
        for at in ((0, 0), (1, 1), (-1, -3), (row - 1, 9)):
            yield case("element strides", "load2", fields_of(data_type, (2 * row, 16), (row, 8), steps), at)
    for swizzle, steps in product((1, 2, 3), ((1, 2), (2, 1), (1, 3))):
        row = SWIZZLE_BYTES[swizzle] // 2
        yield case(
            "element strides", "load2", fields_of(1, (64, 40), (row, 16), steps, swizzle=swizzle), (3, 2)
        )
    for interleave, data_type, rank in product((1, 2), (0, 1, 7, 5), (3, 4, 5)):
        row = 16 * interleave // ELEMENT_BYTES[data_type]
        dims, box = (row, 6, 5, 4, 3)[:rank], (row, 4, 3, 2, 2)[:rank]
        for at in ((0, 1, 1, 1, 1), (0, -2, 1, 0, 0), (0, 4, 3, 3, 2), (row // 2, 0, 0, 0, 0)):
            fields = fields_of(data_type, dims, box, interleave=interleave)
            yield case("interleave", f"load{rank}", fields, at[:rank])
        wide = fields_of(data_type, (4 * row, *dims[1:]), (2 * row, *box[1:]), interleave=interleave)
        for at in ((0, 0, 0), (row, 1, 0), (1, 0, 0), (2, 0, 0)):
            yield case("interleave", f"load{rank}", wide, (*at, 0, 0)[:rank])
    for interleave, swizzle in product((1, 2), (1, 2, 3)):
        row = 8 * interleave
        for rows in (4, 8):
            fields = fields_of(1, (row, 16, 8), (row, rows, 4), interleave=interleave, swizzle=swizzle)
            yield case("interleave", "load3", fields, (0, 1, 1))
    for interleave, steps in product((1, 2), ((2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2), (1, 3, 1))):
        row = 8 * interleave
        fields = fields_of(1, (4 * row, 16, 8), (2 * row, 6, 4), steps, interleave)
        yield case("interleave", "load3", fields, (0, 1, 1))
    for swizzle in range(4):
        row = (SWIZZLE_BYTES[swizzle] or 128) // 2
        tile = fields_of(1, (128, 64), (row, 16), swizzle=swizzle)
        for at in (*range(0, 128, 16), *range(128, 1025, 128), 2048, 8, 4):
            yield case("shared alignment", "load2", tile, (0, 3), at=at)
        for base in (*range(0, 129, 16), 192, 256, 512, 1024):
            yield case("global alignment", "load2", tile, (0, 3), base=base)
    for place in (0, 64, 32, 16, 8):
        yield case("map elsewhere", "load2", fields_of(1, (64, 16), (16, 4)), (0, 3), map=place)
    random = Random(15)
    for _ in range(80):
        fields, coordinates = drawn_box(random)
        yield case("drawn", f"load{len(coordinates)}", fields, coordinates, at=128 * random.randrange(9))


def drawn_box(random):
    """A small box of any rank, type, swizzle and step, and coordinates in it, at its edges or past them."""
    rank, data_type, swizzle = random.randint(1, 5), random.randrange(len(DATA_TYPES)), random.randrange(4)
    size = ELEMENT_BYTES[data_type]
    row = 16 * random.randint(1, (SWIZZLE_BYTES[swizzle] or 128) // 16) // size
    dims = [random.randint(1, 2 * row), *(random.randint(1, 7) for _ in range(rank - 1))]
    box = [row, *(random.randint(1, 4) for _ in range(rank - 1))]
    steps = [random.choice((1, 1, 2, 3)) for _ in range(rank)]
    fill = int(data_type >= FIRST_FLOAT_TYPE and random.random() < 0.5)
    fields = fields_of(data_type, dims, box, steps, 0, swizzle, fill, pad=16 * random.randrange(2))
    return fields, [random.randint(-3, extent + 1) for extent in dims]


def store_cases():
    for data_type in (0, 1, 7, 5):
        row = 32 // ELEMENT_BYTES[data_type]
        ragged = (2 * row - row // 4, 5)
        for at in ((0, 0), (-row // 4, -2), (row + row // 2, 3), (3 * row, 0)):
            yield case("store", "store2", fields_of(data_type, ragged, (row, 4)), at)
        for steps in ((1, 2), (1, 3), (2, 1), (8, 2)):
            yield case("store", "store2", fields_of(data_type, (2 * row, 16), (row, 8), steps), (1, 1))
    for swizzle, at in product(range(4), (0, 128, 512, 16, 64)):
        row = (SWIZZLE_BYTES[swizzle] or 128) // 2
        for wide in {row, max(row // 2, 8)}:
            yield case("store", "store2", fields_of(1, (64, 32), (wide, 16), swizzle=swizzle), (0, 3), at=at)
    for interleave, swizzle in product((1, 2), (0, 1, 2, 3)):
        row = 8 * interleave
        fields = fields_of(1, (4 * row, 6, 5), (2 * row, 4, 3), interleave=interleave, swizzle=swizzle)
        yield case("store", "store3", fields, (0, 1, 1))
    random = Random(16)
    for _ in range(40):
        fields, coordinates = drawn_box(random)
        yield case("store", f"store{len(coordinates)}", fields, coordinates, at=128 * random.randrange(9))
    for operation, data_type in product(REDUCTIONS, range(len(DATA_TYPES))):
        row = 32 // ELEMENT_BYTES[data_type]
        yield case("reduction", f"reduce_{operation}", fields_of(data_type, (2 * row, 4), (row, 2)), (0, 1))
    for data_type, swizzle in product((2, 6), (0, 1)):
        row = 32 // ELEMENT_BYTES[data_type]
        fields = fields_of(data_type, (2 * row - 2, 4), (row, 4), swizzle=swizzle)
        yield case("reduction", "reduce_add", fields, (row + 1, -1))


def im2col_cases():
    """Images of 8 x 6 pixels (and 4 deep) with a filter of 3 to 3 x 3, as in a convolution."""
    for rank, data_type, pixels in product((3, 4, 5), (1, 7), (8, 20)):
        channels = 32 // ELEMENT_BYTES[data_type]
        dims = (channels, 8, 6, 4, 2)[: rank - 1] + (2,)
        for corner, step, at, offset in product((0, -1), (1, 2), (0, 1), ((0, 0, 0), (2, 1, 0))):
            yield case(
                "im2col",
                f"im2col{rank}",
                fields_of(data_type, dims, [], (1, *[step] * (rank - 2), 1)),
                (0, *[at] * (rank - 2), 0),
                lower=[corner] * (rank - 2),
                upper=[-2 - corner] * (rank - 2),
                channels=channels,
                pixels=pixels,
                filter=list(offset[: rank - 2]),
            )
    for rank in (3, 4, 5):
        dims = (16, 8, 6, 4, 2)[: rank - 1] + (2,)
        for swizzle, fill in ((0, 0), (1, 0), (1, 1)):
            yield case(
                "im2col",
                f"im2col{rank}",
                fields_of(6, dims, [], swizzle=swizzle, fill=fill),
                (0, *[-1] * (rank - 2), 1),
                lower=[-1] * (rank - 2),
                upper=[-1] * (rank - 2),
                channels=16,
                pixels=24,
                filter=[1] * (rank - 2),
            )
        yield case(
            "im2col",
            f"im2col_store{rank}",
            fields_of(6, dims, []),
            (0, *[1] * (rank - 2), 0),
            lower=[0] * (rank - 2),
            upper=[0] * (rank - 2),
            channels=16,
            pixels=20,
        )


def coordinate_cases():
    """Every inner coordinate in a row and before it; every other dimension below 0 and past the end."""
    for kernel, data_type in product(("load2", "store2", "reduce_or"), (0, 1, 2, 4)):
        if kernel == "reduce_or" and data_type < 2:  # no such reduction
            continue
        unit = 16 // ELEMENT_BYTES[data_type]
        for x in (*range(unit + 1), 1 - unit, -1, -unit, 4 * unit, 5 * unit + 1):
            yield case("coordinates", kernel, fields_of(data_type, (4 * unit, 8), (unit, 2)), (x, 1))
    for kernel, rank in (*product(("load", "store"), range(1, 6)), ("reduce_or", 2)):
        name = kernel if "_" in kernel else f"{kernel}{rank}"
        for dim, (steps, past) in product(range(rank), product((1, 2), (False, True))):
            at, step = [0] * rank, [1] * rank
            at[dim] = (8 if dim == 0 else 3) if past else (-4 if dim == 0 else -1)
            step[dim] = steps
            box = (4, *[2] * (rank - 1))
            fields = fields_of(2, (8, *[3] * (rank - 1)), box, step, swizzle=0)
            yield case("coordinates", name, fields, at)


def ragged_cases():
    """Rows that end within 16 bytes, and the bits of each type on their way in and out."""
    for kernel, data_type in product(("load2", "store2", "reduce_or", "reduce_add"), (0, 1, 2, 4)):
        if "reduce" in kernel and data_type < 2:
            continue
        unit = 16 // ELEMENT_BYTES[data_type]
        for extent in range(1, 2 * unit + 1):
            fields = fields_of(data_type, (extent, 3), (2 * unit, 2), pad=16)
            yield case("ragged", kernel, fields, (0, 1))
    for kernel, data_type in product(("load2", "store2"), range(6, len(DATA_TYPES))):
        unit = 16 // ELEMENT_BYTES[data_type]
        yield case("bits", kernel, fields_of(data_type, (16 * unit, 8), (16 * unit, 4)), (0, 1), data="mixed")


def null_cases():
    """The driver is asked with an array missing, at each rank."""
    for rank, name in product(range(1, 6), ("dims", "strides", "box", "estr")):
        fields = fields_of(6, [64] * rank, [8] + [1] * (rank - 1))
        yield {"group": "null", "null": name, "fields": fields}


def copy_cases():
    """The copies of notebook t4: modes grouped or not, the load under elect_one or not; and of rank 1."""
    for grouped, nested in product((False, True), repeat=2):
        for seed in range(3 if nested else 8):
            name = f"grouped={grouped}, nested={nested}"
            yield {"group": "t4", "copy": name, "seed": seed, "limit": 5}
    for nested in (False, True):
        for seed in range(3 if nested else 8):
            yield {"group": "t4 rank 1", "copy": f"rank 1, nested={nested}", "seed": seed, "limit": 5}


# Workers: a case that faults takes its context with it, one that hangs its process


class Case(ctypes.Structure):
    """As in tma_hardware.cu."""

    _fields_ = (
        ("coordinates", ctypes.c_int * 5),
        ("filter", ctypes.c_int * 3),
        ("at", ctypes.c_int),
        ("expected", ctypes.c_int),
        ("elsewhere", ctypes.c_uint64),
        ("before", ctypes.c_uint64),
        ("after", ctypes.c_uint64),
        ("told", ctypes.c_uint64),
    )


class Bench:
    """A context with the kernels, the memory of a case, and how a case is run."""

    def __init__(self, archive):
        self.driver = Driver()
        if not archive:  # of calls of the driver alone
            return
        self.archive = zipfile.ZipFile(archive)
        self.module = ctypes.c_void_p()
        self.driver.call(
            "cuModuleLoadData", ctypes.byref(self.module), self.archive.read("tma_hardware.cubin")
        )
        sizes = {"before": SHARED, "after": SHARED, "told": 16, "map": 256}
        self.memory = {name: self.driver.allocate(size) for name, size in sizes.items()}
        around = self.driver.allocate(3 * GLOBAL)  # a map over more than the tensor shows 0xAA
        self.driver.call("cuMemsetD8_v2", ctypes.c_uint64(around), 0xAA, ctypes.c_size_t(3 * GLOBAL))
        self.memory["tensor"] = around + GLOBAL
        self.patterns = {
            "tensor": pattern(GLOBAL),
            "tile": pattern(SHARED),
            "mixed": pattern(GLOBAL, 40_503),
            "empty": bytes([FILLER]) * SHARED,
            "untouched": bytes([FILLER]) * GLOBAL,
        }

    def put(self, name, data):
        self.driver.call(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(self.memory[name]), data, ctypes.c_size_t(len(data))
        )

    def get(self, name, count):
        data = ctypes.create_string_buffer(count)
        self.driver.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.memory[name]), ctypes.c_size_t(count))
        return data.raw

    def launch(self, function, grid, block, shared, values):
        self.driver.call(
            "cuFuncSetAttribute", function, 8, ctypes.c_int(shared)
        )  # MAX_DYNAMIC_SHARED_SIZE_BYTES
        array = (ctypes.c_void_p * len(values))(*values)
        self.driver.call("cuLaunchKernel", function, *grid, *block, shared, None, array, None)
        self.driver.call("cuCtxSynchronize")

    def ran(self, one):
        """The outcome of a case. Raises RuntimeError where the driver or the launch fails."""
        if "rows" in one:
            return {"answers": [self.verdict(row) for row in one["rows"]]}
        if "null" in one:
            return {"rc": self.driver.encode(row_of(one["fields"], self.memory["tensor"]), one["null"])}
        return self.copied(one) if "copy" in one else self.moved(one)

    def verdict(self, row):
        """The driver's code for a call, and its bytes in hex where it takes it."""
        rc = self.driver.encode_im2col(row) if "lower" in row else self.driver.encode(row)
        return rc, "" if rc else self.driver.bytes().hex()

    def moved(self, one):
        """One load, store or reduction."""
        stores = "store" in one["kernel"] or "reduce" in one["kernel"]
        reduces = "reduce" in one["kernel"]
        mixed = reduces or "data" in one
        tensor = self.patterns[
            "untouched" if stores and not reduces else "mixed" if "data" in one else "tensor"
        ]
        tile = self.patterns[("mixed" if mixed else "tile") if stores else "empty"]
        if self.module is None:
            self.module = ctypes.c_void_p()
            cubin = self.archive.read("tma_hardware.cubin")
            self.driver.call("cuModuleLoadData", ctypes.byref(self.module), cubin)
        self.put("tensor", tensor)
        self.put("before", tile[:SHARED])
        row = row_of(one["fields"], self.memory["tensor"] + one.get("base", 0))
        im2col = {name: one[name] for name in ("lower", "upper", "channels", "pixels") if name in one}
        rc = self.driver.encode_im2col(row | im2col) if im2col else self.driver.encode(row)
        if rc:
            return {"rc": rc}
        given = Case(at=one.get("at", 0), expected=12_288)
        given.coordinates[: len(one["coordinates"])] = one["coordinates"]
        given.filter[: len(one.get("filter", ()))] = one.get("filter", ())
        given.before, given.after, given.told = (self.memory[name] for name in ("before", "after", "told"))
        if "map" in one:
            self.put("map", bytes(one["map"]) + self.driver.bytes() + bytes(128 - one["map"]))
            given.elsewhere = self.memory["map"] + one["map"]
        function = ctypes.c_void_p()
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), self.module, one["kernel"].encode())
        values = [self.driver.map.value, ctypes.addressof(given)]
        self.launch(function, (1, 1, 1), (128, 1, 1), SHARED + 16, values)
        counted, shared = (ctypes.c_int * 2).from_buffer_copy(self.get("told", 8))
        if stores:
            return {"rc": 0, "shared": shared, "left": changed(tensor, self.get("tensor", GLOBAL))}
        return {"rc": 0, "shared": shared, "bytes": counted, "left": changed(tile, self.get("after", SHARED))}

    def copied(self, one):
        """A kernel of notebook t4, launched: how many elements of Y are not X's."""
        artifact = Artifact.from_bytes(self.archive.read(one["copy"]))
        rows, columns = artifact.tensors[0].shape
        count = rows * columns * 2
        places = {"X": self.memory["tensor"], "Y": self.memory["tensor"] + GLOBAL // 2}
        assert count <= GLOBAL // 2
        self.put("tensor", self.patterns["tensor"][:count] + bytes(GLOBAL // 2))
        module, function, values = ctypes.c_void_p(), ctypes.c_void_p(), []
        self.driver.call("cuModuleLoadData", ctypes.byref(module), artifact.cubin)
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, artifact.kernel.encode())
        for parameter in artifact.parameters:
            if parameter.tensor_map is not None:
                if rc := self.driver.encode(
                    row_of(to_fields(parameter.tensor_map), places[parameter.tensor])
                ):
                    return {"rc": rc}
                data = self.driver.bytes()
            elif parameter.tensor is not None:
                data = places[parameter.tensor].to_bytes(8, "little")
            else:
                data = parameter.scalar_bytes()
            room = ctypes.create_string_buffer(len(data) + 128)
            start = ctypes.addressof(room) + 63 & ~63
            ctypes.memmove(start, data, len(data))
            values.append((start, room))
        self.launch(function, artifact.grid, artifact.block, artifact.dynamic_shared, [v for v, _ in values])
        X, Y = (self.get("tensor", GLOBAL)[i * (GLOBAL // 2) :][:count] for i in range(2))
        wrong = sum(X[i : i + 2] != Y[i : i + 2] for i in range(0, count, 2))
        return {"rc": 0, "wrong": wrong, "of": count // 2}


def row_of(fields, address):
    names = ("dtype", "dims", "strides", "box", "estr", "interleave", "swizzle", "l2", "oob")
    return dict(zip(names, fields, strict=True)) | {"rank": len(fields[1]), "addr_off": address}


def to_fields(tensor_map: TensorMap):
    m = tensor_map
    arrays = [list(values) for values in (m.dims, m.strides, m.box, m.element_strides)]
    return [m.data_type, *arrays, m.interleave, m.swizzle, m.l2_promotion, m.oob_fill]


def changed(before, after):
    """The runs of 16-byte pieces that differ: [first byte, the bytes in hex]."""
    runs = []
    for at in range(0, len(after), 16):
        if before[at : at + 16] != after[at : at + 16]:
            piece = after[at : at + 16].hex()
            if runs and runs[-1][0] + len(runs[-1][1]) // 2 == at:
                runs[-1][1] += piece
            else:
                runs.append([at, piece])
    return runs


def work(archive):
    """A worker: a case a line on stdin, its outcome on stdout; it ends with the first error."""
    try:
        bench = Bench(archive)
    except (RuntimeError, OSError) as error:
        print(json.dumps({"broken": str(error)}), flush=True)
        return
    print(json.dumps({"ready": bench.driver.name(), "cuda_driver": bench.driver.version()}), flush=True)
    for line in sys.stdin:
        try:
            answer = bench.ran(json.loads(line))
        except RuntimeError as error:
            print(json.dumps({"error": str(error)}), flush=True)
            return
        print(json.dumps(answer), flush=True)


class Worker:
    """A process that runs cases, and is replaced where one takes it down."""

    def __init__(self, archive):
        self.archive, self.process, self.ready = archive, None, {}

    def start(self):
        command = [sys.executable, __file__, "work", self.archive]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = json.loads(self.process.stdout.readline() or '{"broken": "no answer"}')
        if "ready" not in self.ready:
            raise RuntimeError(f"no worker: {self.ready}")

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def answer(self, one):
        if self.process is None:
            self.start()
        timer = threading.Timer(one.get("limit", 10), self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(one) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        alive = timer.is_alive()
        timer.cancel()
        answer = json.loads(line) if line else {"error": "the process died" if alive else "hangs"}
        if "error" in answer:
            self.end()
        return answer


def run_cases(archive, cases):
    """The outcomes, in order, by ``WORKERS`` processes. A context beside one that faults is not harmed."""
    workers, mine = [], threading.local()

    def answer(one):
        if not hasattr(mine, "worker"):
            mine.worker = Worker(archive)
            workers.append(mine.worker)
        try:
            return mine.worker.answer(one)
        except Exception as error:  # the others go on
            return {"error": f"{type(error).__name__}: {error}"}

    with ThreadPoolExecutor(WORKERS) as pool:
        answers = list(pool.map(answer, cases))
    for worker in workers:
        worker.end()
    return answers


def ask(archive, rows):
    """(code, bytes in hex) of each call. Where a batch ends its process, each is asked alone."""
    batches = [rows[i : i + 100] for i in range(0, len(rows), 100)]
    answers = run_cases(archive, [{"rows": batch} for batch in batches])
    alone = [
        row for batch, answer in zip(batches, answers, strict=True) if "error" in answer for row in batch
    ]
    single = iter(run_cases(archive, [{"rows": [row]} for row in alone]))
    found = []
    for batch, answer in zip(batches, answers, strict=True):
        if "error" in answer:
            singles = [next(single) for _ in batch]
            found += [one["answers"][0] if "answers" in one else (DIED, "") for one in singles]
        else:
            found += answer["answers"]
    return found


# Fresh maps


def fresh(random):
    """A call with a legal map in which none to three things have been broken or drawn anew."""
    row = legal(random)
    for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3))):
        if random.random() < 0.5:
            BREAKS[random.choice(list(BREAKS))](random, row)
        else:
            other = legal(random)
            name = random.choice(
                ("dtype", "addr_off", "interleave", "swizzle", "l2", "oob", "box", "estr", "dims")
            )
            if not isinstance(row[name], list) or len(row[name]) == len(other[name]):
                row[name] = other[name]
    return row


def draw_fresh(seed, count):
    """``count`` calls that the driver survives, drawn by a seed."""
    random, rows = Random(seed), []
    while len(rows) < count:
        row = fresh(random)
        if row["rank"] < DEADLY_RANK:
            rows.append(row)
    return rows


def compare_fresh(rows, answers, with_bytes=2_000):
    """Do the rules agree with the driver's ``answers``, and ``encode`` with the bytes of the first
    ``with_bytes`` maps that it takes? Returns the counts, and the rows that differ, with what was answered.
    """
    result = {"maps": len(rows), "agree": 0, "accepted": 0, "bytes": 0, "bytes_agree": 0}
    alone, differ = dict.fromkeys(RULES, 0), []
    for row, (rc, data) in zip(rows, answers, strict=True):
        rules = broken(row)
        result["accepted"] += rc == 0
        result["agree"] += (rc == 0) == (rules == [])
        if len(rules) == 1:
            alone[rules[0]] += 1
        if (rc == 0) != (rules == []):
            differ.append(row | {"rc": rc, "rules": rules})
        elif rc == 0 and result["bytes"] < with_bytes:
            try:
                same = encode(*row_to_tensor_map(row)).hex() == data
            except ValueError:
                same = False
            result["bytes"] += 1
            result["bytes_agree"] += same
            if not same:
                differ.append(row | {"rc": rc, "bytes": data})
    return result | {"not asked": [f"rank from {DEADLY_RANK} on"], "alone": alone}, differ


# Compile, run


def compile_all(path):
    import nbformat

    from course_utils.compile.factory import compile_sizes
    from course_utils.compile.load import load_module
    from course_utils.compile.nvrtc import compile_source

    _, cubin, _ = compile_source(Path(__file__).with_suffix(".cu").read_text(), [])
    notebook = nbformat.read(ROOT / "notebooks" / "t4_group_modes.ipynb", as_version=4)
    sources = [
        cell.source.partition("\nendings(")[0]
        for cell in notebook.cells
        if "def suspect(" in cell.source or "def rank_1(" in cell.source
    ]
    cell = Path(path).with_suffix(".t4.py")
    cell.write_text("\n\n\n".join(sources))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tma_hardware.cubin", cubin)
        cells = load_module(cell)
        copies = {
            f"grouped={grouped}, nested={nested}": cells.suspect(grouped, nested)
            for grouped, nested in product((False, True), repeat=2)
        }
        copies |= {f"rank 1, nested={nested}": cells.rank_1(nested) for nested in (False, True)}
        for name, copy in copies.items():
            (made,) = compile_sizes(copy, "cute", [(256, 128)], "copy")
            archive.writestr(name, made.artifact.to_bytes())
    cell.unlink()
    print(f"wrote {path}")


def run_all(archive, folder, seed, groups=()):
    began, out = time.time(), Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    provenance = who(archive)
    print(provenance, flush=True)
    for part in (record_boxes,) if groups else (record_rules, record_boxes, record_fresh):
        try:
            part(archive, out, provenance | {"groups": groups} if groups else provenance, int(seed))
        except Exception as error:  # what the other parts find is kept
            print(f"{part.__name__}: {type(error).__name__}: {error}", flush=True)
        print(f"{time.time() - began:.0f} s after {part.__name__}", flush=True)


def who(archive):
    """The GPU, its driver and the date. Raises SystemExit where there is no driver that takes a legal map."""
    worker = Worker(archive)
    try:
        first = worker.answer({"rows": [legal(Random(0))]})
    except RuntimeError as error:
        raise SystemExit(f"no driver answers here: {error}") from error
    if first.get("answers", [[1]])[0][0]:
        raise SystemExit(f"the driver does not take a legal map: {first} {worker.ready}")
    worker.end()
    return {
        "gpu": worker.ready["ready"],
        "driver": told("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "cuda_driver": worker.ready["cuda_driver"],
        "date": datetime.date.today().isoformat(),
    }


def record_rules(archive, out, provenance, seed):
    rows = []
    for rule in BREAKS:
        for before, after in rows_of(rule, Random(f"{rule} alone")):
            rows += [before | {"twin": rule}, after | {"alone": rule}]
    rows += edges()
    for row, (rc, _) in zip(rows, ask(archive, rows), strict=True):
        row["rc"] = rc
    for rule in BREAKS:
        codes = [row["rc"] for row in rows if row.get("alone") == rule]
        print(rule, {code: codes.count(code) for code in dict.fromkeys(codes)}, flush=True)
    wrong = [row for row in rows if (row["rc"] == 0) != (broken(row) == [])]
    print(f"{len(rows)} rows, {len(wrong)} on which rules and driver differ", flush=True)
    write(out / "tma_rules.json.gz", provenance | {"rows": rows})

    images = list(islice(im2col_rows(Random(17)), 2_000))
    for number, (row, (rc, data)) in enumerate(zip(images, ask(archive, images), strict=True)):
        row["rc"] = rc
        if rc == 0 and number < 500:
            row["bytes"] = data
    print(f"im2col: {len(images)} rows, {sum(row['rc'] == 0 for row in images)} accepted", flush=True)
    write(out / "tma_im2col.json.gz", provenance | {"rows": images})


def record_boxes(archive, out, provenance, seed):
    done = []
    for cases in (
        load_cases(),
        store_cases(),
        im2col_cases(),
        coordinate_cases(),
        ragged_cases(),
        null_cases(),
        copy_cases(),
    ):
        cases = [one for one in cases if one["group"] in provenance.get("groups", (one["group"],))]
        done += [one | answer for one, answer in zip(cases, run_cases(archive, cases), strict=True)]
        write(out / "tma_boxes.json.gz", provenance | {"cases": done})
    for group in dict.fromkeys(one["group"] for one in done):
        ends = [one.get("error") or f"rc {one['rc']}" for one in done if one["group"] == group]
        print(group, {end: ends.count(end) for end in dict.fromkeys(ends)}, flush=True)


def record_fresh(archive, out, provenance, seed, count=20_000):
    """Returns whether the rules and the driver agree on everything."""
    rows = draw_fresh(seed, count)
    found, differ = compare_fresh(rows, ask(archive, rows))
    (out / "tma_fresh.json").write_text(json.dumps(provenance | {"seed": seed} | found, indent=1) + "\n")
    (out / "tma_differ.json").write_text(json.dumps(differ, indent=1) + "\n")
    print(
        f"{provenance['gpu']}, driver {provenance['driver']}, seed {seed}: verdicts {found['agree']} of "
        f"{found['maps']} agree, bytes {found['bytes_agree']} of {found['bytes']}",
        flush=True,
    )
    return not differ


def fresh_only(folder, seed):
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    if not record_fresh("", out, who(""), int(seed)):
        sys.exit(f"the maps that differ: {out / 'tma_differ.json'}")


def write(path, found):
    data = json.dumps(found, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


def told(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except OSError:
        return "unknown"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["compile", path]:
            compile_all(path)
        case ["run", archive, folder, seed, *parts]:
            run_all(archive, folder, seed, parts)
        case ["fresh", folder, seed]:
            fresh_only(folder, seed)
        case ["work", archive]:
            work(archive)
        case _:
            sys.exit(__doc__)
