"""Hilbert's curve as an order of step 11's tiles, in CuTe DSL."""


def hilbert(tile, rows, columns, panel):
    """Row and column of the tile that comes at this place of a square D.

    The curve goes over the largest power of two that divides the rows of tiles. Each of its
    points is a square of tiles.
    """
    side = rows & -rows
    inner = rows // side
    rest, x, y = tile // inner**2, 0, 0
    for bit in range(side.bit_length() - 1):
        half = 1 << bit
        right = rest // 2 & 1
        up = (rest ^ right) & 1
        flip = right * (1 - up)  # a quarter is mirrored, or its axes change places
        x, y = x + flip * (half - 1 - 2 * x), y + flip * (half - 1 - 2 * y)
        turn = (y - x) * (1 - up)
        x, y = x + turn + half * right, y - turn + half * up
        rest = rest // 4
    inside = tile % inner**2
    return x * inner + inside % inner, y * inner + inside // inner
