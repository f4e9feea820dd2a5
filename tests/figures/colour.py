"""What the tests of colours compute: contrast, distance in CIELAB, and what a colour-blind reader sees."""

from itertools import starmap

from matplotlib.colors import to_rgb

# linear RGB to linear RGB, severity 1.0: Machado, Oliveira, Fernandes, "A Physiologically-based Model for
# Simulation of Color Vision Deficiency", IEEE TVCG 15(6), 2009
EYES = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
# linear sRGB to XYZ of the white D65: IEC 61966-2-1
XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)


def _times(matrix, vector):
    return [sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix]


def linear(colour) -> list[float]:
    """Linear RGB of a colour that matplotlib knows, each channel 0 to 1."""
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]


def contrast(one, other) -> float:
    """The contrast ratio of WCAG 2.2: 1 to 21."""
    low, high = sorted(_times(XYZ, linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour, eyes: str = "normal") -> tuple[float, float, float]:
    """CIELAB of what these ``EYES`` see, against the white D65."""
    seen = [min(max(channel, 0), 1) for channel in _times(EYES[eyes], linear(colour))]
    shares = [v / white for v, white in zip(_times(XYZ, seen), (0.95047, 1.0, 1.08883), strict=True)]
    x, y, z = [s ** (1 / 3) if s > 0.008856 else 7.787 * s + 16 / 116 for s in shares]
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one, other, eyes: str = "normal") -> float:
    """CIE76: about 2 is what one can just see, side by side."""
    pairs = zip(lab(one, eyes), lab(other, eyes), strict=True)
    return sum(starmap(lambda a, b: (a - b) ** 2, pairs)) ** 0.5
