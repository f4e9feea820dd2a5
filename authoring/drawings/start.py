"""Start here: the memories of a Hopper GPU, the roofline with the recorded ladder in it, and what a check
does.
"""

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from authoring.drawings.canvas import HEAD, SMALL, WIDTH, arrow, box, card, head, label, sheet
from course_utils.chips import HOME
from course_utils.figures.ladder import LABELS, SIZES
from course_utils.figures.picture import Picture
from course_utils.figures.theme import BLUE, DSLS, GREEN, GREY, INK, MEMORY, PURPLE
from course_utils.recordings import measured

GPU, PEAK = HOME.name, HOME.peak_tflops  # dense fp16
# NVIDIA's H200 datasheet (SXM): GB and TB/s of HBM3e. White paper and tuning guide of Hopper, for the H100
# SXM: MB of L2.
HBM_GB, HBM_TB_S, L2_MB = 141, 4.8, 50
SHARED_KIB, REGISTERS, SMS = HOME.sm_shared >> 10, HOME.registers, HOME.sms
TILE = 128, 128, 64  # the tile of steps 1 to 9
SIDES = {"step01": "left", "step02": "right"}  # of the point, where its words stand
HALVES = {"tilelang": "left", "cute": "right"}  # of a dot that both share


def memory() -> Figure:
    """From HBM to the tensor cores: what is how large, and who carries data between them."""
    figure, axes = sheet(5.2)
    words = f"HBM\nglobal memory\n\n{HBM_GB} GB\n{HBM_TB_S} TB/s"
    box(axes, 0.15, 0.5, 1.4, 4.2, words, GREY, MEMORY["global"])
    box(axes, 2.05, 0.5, 1.2, 4.2, f"L2 cache\n\n{L2_MB} MB\n\nshared by\nall SMs", GREY, MEMORY["L2"])
    box(axes, 3.9, 0.2, 5.55, 4.8, "", INK, 0)
    head(axes, 6.7, 4.72, f"one SM of {SMS}", ha="center")
    box(axes, 6.0, 2.6, 1.6, 1.7, f"shared memory\n\n{SHARED_KIB} KiB", GREY, MEMORY["shared"])
    box(axes, 8.3, 2.6, 1.0, 1.7, "tensor\ncores\n\n4", GREEN)
    words = f"{REGISTERS:,} registers of 4 bytes\n= {REGISTERS * 4 // 1024} KiB, at most "
    words += f"{HOME.thread_registers} a thread"
    box(axes, 6.0, 0.5, 3.3, 1.15, words, GREY, MEMORY["registers"])
    box(axes, 4.35, 3.15, 0.9, 0.7, "TMA", INK, 0, weight="bold")
    arrow(axes, (1.55, 2.6), (2.05, 2.6), "", GREY, both=True)
    for y, colour, words in ((3.65, BLUE, "load"), (3.3, PURPLE, "store")):
        loads = colour == BLUE
        for left, right in ((3.25, 4.35), (5.25, 6.0)):
            arrow(axes, (left, y) if loads else (right, y), (right, y) if loads else (left, y), "", colour)
        label(axes, 5.62, y + (0.15 if loads else -0.16), words, colour)
    label(axes, 4.9, 2.9, "steps 4 to 10", GREY)
    arrow(axes, (7.6, 3.45), (8.3, 3.45), "", GREEN)
    label(axes, 7.95, 3.62, "A, B", GREEN)
    label(axes, 7.95, 3.28, "wgmma", GREEN)
    arrow(axes, (8.8, 2.6), (8.8, 1.65), "", GREEN, both=True)
    label(axes, 8.7, 2.12, "sums", GREEN, ha="right")
    arrow(axes, (3.25, 1.07), (6.0, 1.07), "", INK, both=True)
    label(axes, 4.95, 1.25, "steps 1 to 3", GREY)
    label(axes, 4.95, 0.88, "ld.global, st.global")
    arrow(axes, (6.9, 1.65), (6.9, 2.6), "", INK, both=True)
    label(axes, 6.8, 2.12, "ld.shared\nst.shared", ha="right")
    return figure


def intensity(M: int, N: int, K: int) -> float:
    """FLOP for each byte, where A and B are read once and D is written once, in fp16."""
    return 2 * M * N * K / (2 * (M * K + N * K + M * N))


def _burst(step: str, dsl: str, size: int | None = None) -> dict | None:
    """The recorded burst timing of a step, at M = N = K = ``size`` where one is named."""
    for entry in measured.load()["entries"]:
        if (entry["step"], entry["dsl"]) == (step, dsl):
            for run in entry["timings"]:
                if run["mode"] == "burst" and (size is None or run["size"] == [size] * 3):
                    return run
    return None


def _cublas(mode: str, size: int) -> float:
    runs = sorted(
        t["cublas_tflops"]
        for e in measured.load()["entries"]
        for t in e["timings"]
        if t["mode"] == mode and t["size"] == [size] * 3
    )
    return runs[len(runs) // 2]


def roofline() -> Figure:
    """Above the roofline with every step in it, both axes logarithmic; below steps 3 to 11 at 4096 and
    8192.
    """
    height = 9.4
    figure = Picture(figsize=(WIDTH, height), facecolor="none")
    card(figure)
    with matplotlib.rc_context({"axes.edgecolor": GREY, "xtick.color": INK, "ytick.color": INK}):
        _roof(figure.add_axes((0.085, 5.3 / height, 0.895, 3.6 / height), facecolor="none"))
        _close_up(figure.add_axes((0.085, 0.65 / height, 0.895, 3.55 / height), facecolor="none"))
    return figure


def _dot(axes: Axes, x: float, tflops: float, dsl: str, half: str = "full") -> None:
    """A point, or its left or right half where the other DSL's point is at the same place."""
    colour = DSLS[dsl][1]
    look = {"fillstyle": half, "markerfacecoloralt": "none", "markeredgewidth": 0, "zorder": 4}
    axes.plot([x], [tflops], "o", color=colour, markersize=8 if half != "full" else 6.5, **look)


def _roof(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(15, 6000)
    axes.set_ylim(0.15, 3000)
    ridge = PEAK / HBM_TB_S
    axes.plot([15, ridge, 6000], [15 * HBM_TB_S, PEAK, PEAK], color=INK, lw=2)
    label(axes, 17, 560, f"memory roof: {HBM_TB_S} TB/s", ha="left")
    label(axes, 330, 1700, f"compute roof: {PEAK:g} TFLOP/s", ha="left")
    axes.plot([ridge, ridge], [0.15, PEAK], color=GREY, lw=0.8, ls=":")
    label(axes, ridge * 1.08, 0.26, f"ridge: {ridge:.0f}", GREY, ha="left")
    m, n, k = TILE
    alone = 2 * m * n * k / (2 * (m * k + n * k))
    axes.plot([alone], [alone * HBM_TB_S], "x", color=INK, markersize=8, markeredgewidth=2, zorder=5)
    axes.plot([alone, alone * 0.8], [alone * HBM_TB_S * 0.8, 60], color=INK, lw=0.8)
    label(axes, 17, 30, f"128 x 128 tiles, all\nread from HBM: {alone:.0f}", ha="left")
    for step, name in (("step01", "step 1, one CTA"), ("step02", "step 2, one CTA")):
        for dsl in DSLS:
            run = _burst(step, dsl)
            if run:
                x, at = intensity(*run["size"]), run["tflops"]
                _dot(axes, x, at, dsl, HALVES[dsl])
        label(axes, x * (0.88 if step == "step02" else 1.14), at, name, ha=SIDES[step])
    for size in SIZES:
        for step in list(LABELS)[2:]:
            for dsl in DSLS:
                run = _burst(step, dsl, size)
                if run:
                    _dot(axes, intensity(*run["size"]), run["tflops"], dsl, HALVES[dsl])
        label(axes, intensity(size, size, size), 130, str(size), weight="bold")
    label(axes, 1930, 65, "steps 3 to 11")
    axes.set_xticks([20, 100, 1000], ["20", "100", "1,000"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    _dress(axes, "roofline, both axes logarithmic")
    axes.minorticks_off()
    words = "FLOP for each byte of HBM traffic (A, B read once, D written once)"
    axes.set_xlabel(words, size=SMALL, color=INK, labelpad=3)
    axes.set_ylabel("TFLOP/s", size=SMALL, color=INK, labelpad=1)


def _close_up(axes: Axes) -> None:
    axes.set_xlim(-0.95, 2.1)
    axes.set_ylim(150, 1080)
    axes.axhline(PEAK, color=INK, lw=2)
    label(axes, -0.93, PEAK + 38, "compute roof, from the datasheet", ha="left")
    for place, size in zip((0, 1.3), SIZES, strict=True):
        for mode, style in (("burst", "-"), ("sustained", (0, (4, 2)))):
            level = _cublas(mode, size)
            axes.plot([place - 0.28, place + 0.2], [level, level], color=GREY, ls=style, lw=1.2, zorder=1)
            if size == SIZES[0]:
                words = "cuBLAS, cool chip" if mode == "burst" else "cuBLAS, hot chip"
                label(axes, place - 0.31, level, words, GREY, ha="right")
        free = 0.0
        for step in list(LABELS)[2:]:
            runs = {dsl: _burst(step, dsl, size) for dsl in DSLS}
            values = [run["tflops"] for run in runs.values() if run]
            if not values:  # not recorded yet
                continue
            for dsl, shift in zip(DSLS, (-0.12, 0.06), strict=True):
                if runs[dsl]:
                    _dot(axes, place + shift, runs[dsl]["tflops"], dsl)
            middle = sum(values) / len(values)
            at = max(middle, free)
            axes.plot([place + 0.1, place + 0.25], [middle, at], color=GREY, lw=0.5, zorder=1)
            label(axes, place + 0.27, at, LABELS[step], ha="left")
            free = at + 48
    for x, dsl in ((-0.35, "tilelang"), (0.15, "cute")):
        _dot(axes, x, 920, dsl)
        label(axes, x + 0.05, 920, DSLS[dsl][0], ha="left")
    axes.set_yticks([200, 400, 600, 800, 1000])
    names = [f"M = N = K = {s}\n{intensity(s, s, s):,.0f} FLOP for each byte" for s in SIZES]
    axes.set_xticks([0, 1.3], names)
    axes.set_ylabel("TFLOP/s", size=SMALL, color=INK, labelpad=1)
    gpu = measured.load()["provenance"].get("gpu", GPU)
    _dress(axes, f"the same points, closer ({gpu}, cool chip)")


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, size=HEAD, weight="bold", loc="left", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, length=2)


def check() -> Figure:
    """From a cell to a verdict: what is compiled, what is looked at, where it runs."""
    figure, axes = sheet(3.75)
    box(axes, 0.15, 1.4, 1.35, 0.95, "your cell\ngemm(M, N, K)", GREY, 0)
    box(axes, 2.4, 1.4, 1.25, 0.95, "PTX and\nmachine\ncode", GREY, 0)
    arrow(axes, (1.5, 1.87), (2.4, 1.87), "compiles?")
    rows = (
        (2.88, "instructions", "read from the PTX:\nthe receipt"),
        (2.0, "tensor maps", "are they legal?\n(from step 4)"),
        (1.12, "results", "on a GPU,\nor in the emulator"),
        (0.24, "speed", "beside cuBLAS,\non a GPU only"),
    )
    for y, name, text in rows:
        box(axes, 4.3, y, 3.2, 0.64, "", GREY, 0.1)
        label(axes, 4.42, y + 0.32, name, ha="left", weight="bold")
        label(axes, 5.75, y + 0.32, text, ha="left")
        arrow(axes, (3.65, 1.87), (4.3, y + 0.32), "", GREY, width=1.0)
        arrow(axes, (7.5, y + 0.32), (8.1, 1.87 + (y - 1.55) * 0.28), "", GREY, width=1.0)
    box(axes, 8.1, 1.25, 1.35, 1.25, "verdict\n\npoints by part\nlook here first", INK, 0)
    return figure


PICTURES = {"start_memory": memory, "start_roofline": roofline, "start_check": check}
