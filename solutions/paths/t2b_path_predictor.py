"""The path predictor: how a tile of X comes to shared memory, by the rules of tilelang 0.1.15
and nvidia-cutlass-dsl 4.8.1.
"""

from math import prod

BYTES = {"float8_e4m3fn": 1, "int8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def predict(shape, tile, dtype, consumer, asked):
    element = BYTES[dtype]
    row = tile[-1] * element  # bytes of a row of the tile
    # bytes from one index to the next, in every dimension but the innermost
    strides = [prod(shape[dim:]) * element for dim in range(1, len(shape))]
    pipelined = consumer == "pipelined gemm"
    ### BEGIN SOLUTION: one box, several boxes, 1-D bulk, threads or error
    # S is swizzled for whoever is no thread, if its rows come in eights
    swizzled = consumer != "threads" and tile[-2] % 8 == 0
    widths = (32,) if element == 8 and asked != "TMA atom" else (128, 64, 32)
    spans = [span for span in widths if swizzled and row % span == 0]
    too_long = max(tile) > 256 or row > max(spans, default=row)
    boxes = "several boxes" if too_long else "one box"
    if asked == "TMA atom":
        return boxes
    if asked == "T.copy" and not pipelined:
        return "threads"

    refused = "threads" if pipelined else "error"  # a pipeline looks before it chooses TMA
    if any(stride % 16 for stride in strides):
        return refused

    # one piece of memory: single elements, then one extent of any size, then whole ones
    inner = len(tile) - 1
    while inner and tile[inner] == shape[inner]:
        inner -= 1
    one_piece = set(tile[:inner]) <= {1}
    inside = all(extent % own == 0 for extent, own in zip(shape, tile, strict=True))
    linear = consumer in ("threads", "store")  # nobody has asked for a swizzle yet
    if linear and one_piece and inside and prod(tile) * element % 16 == 0:
        return "1-D bulk"
    if row % 16:
        return refused

    # TMA is chosen: only a preference outside the pipeline gives way now
    given_up = "threads" if asked == "prefer tma" and not pipelined else "error"
    multiplied = consumer in ("gemm", "pipelined gemm")
    if element == 8 and (multiplied or consumer == "store" and row % 128 == 0):
        return given_up
    for extent in tile:
        pieces = (n for n in range(2, 257) if extent % n == 0 and n * element % 128 == 0)
        if extent > 256 and not any(pieces):
            return given_up
    return boxes
    ### END SOLUTION
