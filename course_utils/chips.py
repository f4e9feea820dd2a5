"""The chips that kernels are compiled for and run on: what a launch may ask of each, and how large it is.

Limits are those of the CUDA C Programming Guide, *Compute Capabilities*, *Technical Specifications per
Compute Capability*, unless a comment names another source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

POWER_OF_TWO = 4096  # tiles of 128 x 128 of a D of 8192 x 8192


@dataclass(frozen=True)
class Chip:
    """One chip. ``name`` is its driver's, ``family`` what people say, ``arch`` what kernels are compiled for.

    ``grid`` is the most CTAs each way, ``threads`` and ``cluster`` the most of a CTA, and of a cluster that
    sets no attribute. ``sm_shared`` is bytes of an SM, of which each CTA costs ``reserved_shared`` beside its
    own. ``registers`` are an SM's, ``thread_registers`` the most of a thread. ``swizzles`` is how many of
    ``artifact.SWIZZLES`` its driver takes.
    ``flop_per_clock`` is of one SM, dense fp16, and ``peak_tflops`` of the chip; ``clock`` is what follows
    from both, in Hz. ``watts`` is its power limit. ``exp2_per_clock`` is how many results of ``ex2`` an SM
    has per clock. ``tensor_memory`` is lanes and columns of 32 bits. ``units`` are the engines that not every
    chip has. What nobody has said is 0.
    """

    name: str
    family: str
    arch: str
    capability: tuple[int, int]
    sms: int
    grid: tuple[int, int, int] = (2**31 - 1, 65_535, 65_535)
    threads: int = 1024
    cluster: int = 8
    sm_shared: int = 228 * 1024
    reserved_shared: int = 1024
    registers: int = 65_536
    thread_registers: int = 255
    swizzles: int = 7
    flop_per_clock: int = 0
    peak_tflops: float = 0.0
    watts: float = 0.0
    exp2_per_clock: int = 0
    tensor_memory: tuple[int, int] = (0, 0)
    units: tuple[str, ...] = ()

    @property
    def shared(self) -> int:
        """Bytes that a CTA can have, static and dynamic together."""
        return self.sm_shared - self.reserved_shared

    def even_registers(self, threads: int) -> int:
        """The most registers that each of so many threads of a CTA can have where all have as many: threads
        get them in eights. 384 x 168 are 64,512, and 512 x 128 are all 65,536.
        """
        return self.registers // max(threads, 1) // 8 * 8

    @property
    def clock(self) -> float:
        """The clock at which the chip reaches its peak, in Hz; 0 where the peak is not known."""
        per_clock = self.sms * self.flop_per_clock
        return self.peak_tflops * 1e12 / per_clock if per_clock else 0.0

    @property
    def even_ctas(self) -> int:
        """CTAs of a persistent grid that divides the tiles of a D whose sides are powers of two, and takes no
        round more than a CTA for each SM: 128 of 132 SMs. 0 where there is no such grid.
        """
        even = 1 << self.sms.bit_length() - 1
        return even if POWER_OF_TWO // even == -(-POWER_OF_TWO // self.sms) else 0

    @property
    def persistent_grids(self) -> tuple[int, ...]:
        """How many CTAs a persistent kernel may launch here: one for each SM, or ``even_ctas``."""
        return (self.even_ctas, self.sms) if self.even_ctas not in (0, self.sms) else (self.sms,)

    def with_sms(self, sms: int) -> Chip:
        """This chip with another number of SMs, whose peak and power limit nobody knows."""
        return self if sms == self.sms else replace(self, sms=sms, peak_tflops=0.0, watts=0.0)

    def __str__(self) -> str:
        return f"{self.name}, {self.sms} SMs, {self.arch}"


def _hopper(name: str, sms: int, peak_tflops: float = 0.0, watts: float = 0.0) -> Chip:
    return Chip(
        name,
        "Hopper",
        "sm_90a",
        (9, 0),
        sms,
        swizzles=4,  # up to 128B; observed on H200, driver 580
        flop_per_clock=4096,  # by wgmma: NVIDIA H100 white paper, 989.4 TFLOP/s of 132 SMs at 1,830 MHz
        peak_tflops=peak_tflops,
        watts=watts,
        # CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions, compute capability 9.0
        exp2_per_clock=16,
        units=("wgmma",),
    )


def _blackwell(name: str, **published: Any) -> Chip:
    return Chip(
        name,
        "Blackwell",
        "sm_100a",
        (10, 0),
        148,
        tensor_memory=(128, 512),  # PTX ISA, tcgen05, Tensor Memory
        units=("tcgen05", "tmem", "clc"),
        **published,
    )


# SMs: NVIDIA H100 white paper (SXM5 and PCIe); the H200 and the GH200 have the SXM5's. Peaks: NVIDIA's data
# sheets, which print the double of it, for sparse matrices. Power limits: data sheets of the SXM5 boards.
CHIPS = {
    chip.name: chip
    for chip in (
        _hopper("NVIDIA H200", 132, 989.5, 700.0),
        _hopper("NVIDIA H100 80GB HBM3", 132, 989.5, 700.0),  # H100 SXM
        _hopper("NVIDIA H100 PCIe", 114, 756.5),
        _hopper("NVIDIA GH200 480GB", 132, 989.5),
        # any chip of it, as large as a B200: nothing of the course has run on one by us
        _blackwell("sm_100a"),
        # HGX B200 at 1,000 W, dense fp16: as glennklockwood.com/garden/processors/B200 lists it. Twice
        # Hopper's FLOP per clock: CUTLASS documentation, Blackwell SM100 GEMMs, kind::f16
        _blackwell("NVIDIA B200", flop_per_clock=8192, peak_tflops=2250.0, watts=1000.0),
    )
}
HOME = CHIPS["NVIDIA H200"]  # the course's: of a machine without a GPU, and of what was recorded
BLACKWELL = CHIPS["sm_100a"]  # of the kernels of solutions/blackwell, which are compiled and emulated


def of_device(device: Mapping[str, Any]) -> Chip:
    """The chip of a GPU that is here: ``name``, ``capability`` and ``sms`` as ``run.gpu.worker.device`` tells
    them. A chip that has no row has the limits of its compute capability. SMs are always the device's own.

    Raises ValueError for a compute capability that the table does not know.
    """
    return chip(device["name"], tuple(device["capability"]), device["sms"])


def refusal(needed: Chip, device: Mapping[str, Any]) -> str:
    """Why this GPU cannot run what was compiled for ``needed``, in a sentence; empty if it can. ``device`` as
    ``of_device`` takes it. Code for sm_90a and sm_100a runs on that compute capability alone (PTX ISA,
    .target).
    """
    if tuple(device["capability"]) == needed.capability:
        return ""
    number = ".".join(map(str, device["capability"]))
    return (
        f"the kernel is compiled for a {needed.family} ({needed.arch}), and the GPU here, {device['name']}, "
        f"has compute capability {number}"
    )


def chip(name: str, capability: tuple[int, ...], sms: int) -> Chip:
    """The chip of this name, compute capability and number of SMs. Raises ValueError as ``of_device``, and
    for a name that is no text or a number of SMs below 1.
    """
    if not isinstance(name, str) or type(sms) is not int or sms < 1:
        raise ValueError(f"a chip has a name and a number of SMs, not {name!r} and {sms!r}")
    row = CHIPS.get(name)
    if row is None or row.capability != tuple(capability):
        rows = [one for one in CHIPS.values() if one.capability == tuple(capability)]
        if not rows:
            text = ".".join(map(str, capability))
            raise ValueError(f"the course knows no chip of compute capability {text}")
        row = replace(rows[0], name=name, peak_tflops=0.0, watts=0.0)
    return row.with_sms(sms)
