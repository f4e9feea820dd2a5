"""Start here: the memories of a Hopper GPU, the roofline with the recorded ladder in it, and what a check
does.
"""

from authoring.drawings.canvas import arrow, box, label, sheet
from course_utils.figures.ladder import LABELS, PEAK_TFLOPS, SIZES
from course_utils.figures.theme import BLUE, DSLS, GREEN, GREY, INK, ORANGE, PALE, PAPER, PURPLE, RED
from course_utils.recordings import measured

GPU = "NVIDIA H200"
PEAK = PEAK_TFLOPS[GPU]  # dense fp16
# NVIDIA's H200 datasheet (SXM): GB and TB/s of HBM3e. White paper and tuning guide of Hopper, for the H100
# SXM: MB of L2.
HBM_GB, HBM_TB_S, L2_MB = 141, 4.8, 50
# Hopper tuning guide, compute capability 9.0: KiB of shared memory an SM, 32-bit registers an SM. SMs: H100
# and H200 SXM.
SHARED_KIB, REGISTERS, SMS = 228, 65_536, 132
TILE = 128, 128, 64  # the tile of steps 1 to 9
DOTS = {"tilelang": 7, "cute": 3.5}  # one over the other, where both are at the same place


def memory():
    """From HBM to the tensor cores: what is how large, and who carries data between them."""
    figure, axes = sheet(9.6, 4.9)
    box(axes, 0.15, 0.55, 1.45, 3.9, f"HBM\nglobal memory\n\n{HBM_GB} GB\n{HBM_TB_S} TB/s", GREY)
    box(axes, 2.25, 0.55, 1.25, 3.9, f"L2 cache\n\n{L2_MB} MB\n\nshared by\nall SMs", GREY)
    box(axes, 4.2, 0.3, 5.25, 4.4, "", INK, fill=PAPER)
    label(axes, 6.82, 4.45, f"one SM of {SMS}", size=9.5, weight="bold")
    box(axes, 5.95, 2.5, 1.55, 1.6, f"shared memory\n\n{SHARED_KIB} KiB", BLUE)
    box(axes, 8.1, 2.5, 1.15, 1.6, "tensor\ncores\n\n4", GREEN)
    box(
        axes,
        6.1,
        0.55,
        3.15,
        1.15,
        f"registers: {REGISTERS:,} of 4 bytes = {REGISTERS * 4 // 1024} KiB\nat most 255 a thread",
        ORANGE,
    )
    box(axes, 4.45, 2.95, 0.95, 0.7, "TMA", PURPLE, weight="bold")
    arrow(axes, (1.6, 2.5), (2.25, 2.5), "", GREY, both=True)
    arrow(axes, (3.5, 3.3), (4.45, 3.3), "", PURPLE, both=True)
    arrow(axes, (5.4, 3.3), (5.95, 3.3), "tiles", PURPLE, both=True)
    arrow(axes, (7.5, 3.3), (8.1, 3.3), "", GREEN)
    label(axes, 7.8, 3.6, "A, B", size=8, colour=GREEN)
    label(axes, 7.8, 3.02, "wgmma", size=7.5, colour=GREEN)
    arrow(axes, (8.62, 2.5), (8.62, 1.7), "", GREEN, both=True)
    label(axes, 8.95, 2.1, "sums", size=8, colour=GREEN)
    arrow(axes, (3.5, 1.12), (6.1, 1.12), "", ORANGE, both=True)
    label(axes, 5.15, 0.86, "ld.global, st.global", size=8, colour=ORANGE)
    arrow(axes, (6.85, 1.7), (6.85, 2.5), "", ORANGE, both=True)
    label(axes, 6.8, 2.1, "ld.shared\nst.shared", size=8, colour=ORANGE, ha="right")
    label(axes, 4.92, 2.78, "steps 4 to 10", size=8, colour=PURPLE)
    label(axes, 5.15, 1.38, "steps 1 to 3", size=8, colour=ORANGE)
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


def roofline():
    """Left the roofline with every step in it, both axes logarithmic; right steps 3 to 10 at 4096 and
    8192.
    """
    figure, _ = sheet(9.6, 5.0)
    _roof(figure.add_axes((0.075, 0.13, 0.4, 0.76)))
    _close_up(figure.add_axes((0.565, 0.13, 0.425, 0.76)))
    return figure


def _roof(axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(15, 6000)
    axes.set_ylim(0.15, 3000)
    ridge = PEAK / HBM_TB_S
    axes.plot([15, ridge], [15 * HBM_TB_S, PEAK], color=PURPLE, lw=2)
    axes.plot([ridge, 6000], [PEAK, PEAK], color=GREEN, lw=2)
    words = {"color": INK, "size": 8, "ha": "left", "va": "center"}
    axes.text(17, 240, f"memory roof\n{HBM_TB_S} TB/s", **{**words, "color": PURPLE})
    axes.text(330, 1650, f"compute roof: {PEAK:g} TFLOP/s", **{**words, "color": GREEN})
    axes.plot([ridge, ridge], [0.15, PEAK], color=GREY, lw=0.8, ls=":")
    axes.text(ridge * 1.12, 0.26, f"ridge: {ridge:.0f}", **{**words, "color": GREY})
    m, n, k = TILE
    alone = 2 * m * n * k / (2 * (m * k + n * k))
    axes.plot([alone], [alone * HBM_TB_S], "x", color=RED, markersize=8, markeredgewidth=2, zorder=5)
    axes.annotate(
        f"128 x 128 tiles, all\nread from HBM: {alone:.0f}",
        (alone, alone * HBM_TB_S),
        xytext=(28, 25),
        size=8,
        color=RED,
        ha="left",
        va="center",
        arrowprops={"arrowstyle": "-", "color": RED, "lw": 0.8},
    )
    for step, name in (("step01", "step 1, one CTA"), ("step02", "step 2, one CTA")):
        for dsl in DSLS:
            run = _burst(step, dsl)
            if run:
                x = intensity(*run["size"])
                axes.plot([x], [run["tflops"]], "o", color=DSLS[dsl][1], markersize=DOTS[dsl], zorder=4)
        axes.text(x * 1.2, run["tflops"], name, **words, bbox={"facecolor": "white", "lw": 0, "pad": 1})
    for size in SIZES:
        for step in list(LABELS)[2:]:
            for dsl in DSLS:
                run = _burst(step, dsl, size)
                if run:
                    axes.plot(
                        [intensity(*run["size"])],
                        [run["tflops"]],
                        "o",
                        color=DSLS[dsl][1],
                        markersize=DOTS[dsl],
                        zorder=4,
                    )
        axes.text(intensity(size, size, size), 130, str(size), size=8, ha="center", weight="bold")
    axes.text(1930, 75, "steps 3 to 10", size=8, ha="center", color=INK)
    axes.set_xticks([20, 100, 1000], ["20", "100", "1,000"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    _dress(axes, "roofline, both axes logarithmic")
    axes.set_xlabel("FLOP for each byte of HBM traffic (A, B read once, D written once)", size=7.5)
    axes.set_ylabel("TFLOP/s", size=8, labelpad=1)


def _close_up(axes) -> None:
    axes.set_xlim(-0.42, 2.25)
    axes.set_ylim(150, 1050)
    axes.axhline(PEAK, color=GREEN, lw=2)
    axes.text(-0.4, PEAK + 12, "compute roof (datasheet peak)", size=8, color=GREEN, ha="left", va="bottom")
    for place, size in zip((0, 1.4), SIZES, strict=True):
        for mode, style in (("burst", "-"), ("sustained", (0, (4, 2)))):
            level = _cublas(mode, size)
            axes.plot([place - 0.3, place + 0.25], [level, level], color=GREY, ls=style, lw=1.2, zorder=1)
        free = 0.0
        for step in list(LABELS)[2:]:
            runs = {dsl: _burst(step, dsl, size) for dsl in DSLS}
            values = [run["tflops"] for run in runs.values() if run]
            for dsl, shift in zip(DSLS, (-0.12, 0.08), strict=True):
                if runs[dsl]:
                    axes.plot(
                        [place + shift],
                        [runs[dsl]["tflops"]],
                        "o",
                        color=DSLS[dsl][1],
                        markersize=5.5,
                        zorder=3,
                    )
            at = max(sum(values) / len(values), free)
            axes.plot(
                [place + 0.14, place + 0.29], [sum(values) / len(values), at], color=PALE, lw=0.8, zorder=1
            )
            axes.text(place + 0.31, at, LABELS[step], size=8, ha="left", va="center", color=INK)
            free = at + 31
    burst, hot = _cublas("burst", SIZES[0]), _cublas("sustained", SIZES[0])
    for level, text in ((burst + 62, "cuBLAS, cool chip"), (hot - 24, "cuBLAS, hot chip")):
        axes.text(-0.4, level, text, size=8, color=GREY, ha="left", va="center")
    axes.plot([], [], "o", color=DSLS["tilelang"][1], label="TileLang")
    axes.plot([], [], "o", color=DSLS["cute"][1], label="CuTe DSL")
    axes.legend(loc=(0.36, 0.79), frameon=False, fontsize=8)
    axes.set_xticks(
        [0, 1.4], [f"M = N = K = {s}\n{intensity(s, s, s):,.0f} FLOP for each byte" for s in SIZES], size=8
    )
    _dress(axes, f"the same points, closer ({measured.load()['provenance'].get('gpu', GPU)}, cool chip)")


def _dress(axes, title: str) -> None:
    axes.set_title(title, size=9, weight="bold", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, length=2)


def check():
    """From a cell to a verdict: what is compiled, what is looked at, where it runs."""
    figure, axes = sheet(9.6, 3.1)
    box(axes, 0.15, 1.15, 1.35, 0.9, "your cell\ngemm(M, N, K)", ORANGE)
    box(axes, 2.15, 1.15, 1.5, 0.9, "PTX and\nmachine code", BLUE)
    arrow(axes, (1.5, 1.6), (2.15, 1.6), "", INK)
    label(axes, 1.82, 1.8, "compiles?", size=8)
    rows = [
        (2.35, "instructions", "read from the PTX: the receipt", BLUE),
        (1.6, "tensor maps", "are they legal? (from step 4)", PURPLE),
        (0.85, "results", "on a GPU, or in the emulator", GREEN),
        (0.1, "speed", "beside cuBLAS, on a GPU only", GREEN),
    ]
    for y, name, text, colour in rows:
        box(axes, 4.45, y, 1.2, 0.6, name, colour, weight="bold")
        label(axes, 5.75, y + 0.3, text, size=8, ha="left")
        arrow(axes, (3.65, 1.6), (4.45, y + 0.3), "", GREY, width=1.0)
        arrow(axes, (7.7, y + 0.3), (8.2, 1.6 + (y - 1.3) * 0.25), "", GREY, width=1.0)
    box(axes, 8.2, 1.0, 1.25, 1.2, "verdict\n\npoints by part\nlook here first", RED)
    return figure


PICTURES = {"start_memory": memory, "start_roofline": roofline, "start_check": check}
