"""Why a kernel hung or faulted on the GPU, in words: text only, from an Answer and the Artifact that it is
about.
"""

from __future__ import annotations

from course_utils.artifact import WARPGROUP_THREADS, Artifact
from course_utils.ptx import receipts
from course_utils.ptx.receipts import Receipt
from course_utils.run.protocol import Answer

FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "the kernel touched memory that is not its own (illegal address). Look at the tile's coordinates, "
        "the stage "
        "index, a multicast mask or a CTA rank that names a CTA the cluster does not have, and at a CTA that "
        "leaves "
        "its cluster early."
    ),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (
        "the kernel ran an illegal instruction. Look for a tensor map, a wgmma descriptor or a multicast "
        "mask that "
        "asks for something the hardware does not have."
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (
        "an address is not aligned for its access: 16 bytes for a vector, 128 for a TMA tile, 1,024 for a "
        "128-byte "
        "swizzle."
    ),
    "CUDA_ERROR_LAUNCH_FAILED": "the kernel died (unspecified launch failure).",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the launch needs more registers or shared memory than an SM has.",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "the cluster does not fit on the chip.",
    "CUDA_ERROR_INVALID_VALUE": (
        "the driver refused the launch or a tensor map: a grid that its cluster does not divide, more than "
        "1,024 "
        "threads, or a box that TMA cannot describe."
    ),
    "out_of_memory": (
        "the GPU ran out of memory. Close what else uses it (nvidia-smi shows it) and check again."
    ),
    "timed_output": (
        "a timed output was wrong, though the kernel passed at the check sizes: a race, or a size it cannot "
        "do."
    ),
}


def words(answer: Answer, artifact: Artifact) -> str:
    """What is wrong, for a person: the answer's own diagnosis, or what its ``error`` usually means."""
    if answer.error in ("", "not_run"):
        return answer.detail or answer.diagnosis
    if answer.error == "timeout":
        return _hang(receipts.read_ptx(artifact.ptx), artifact, answer.detail)
    if answer.error == "died":
        return f"the GPU process died: {answer.detail}"
    text = FAULTS.get(answer.error, f"{answer.error}: {answer.detail}")
    if answer.error == "CUDA_ERROR_LAUNCH_FAILED":
        text += _death(receipts.read_ptx(artifact.ptx), artifact)
    return text


def _death(receipt: Receipt, artifact: Artifact) -> str:
    """What makes Hopper give up with no better word, by what the kernel uses.

    Observed on H200, driver 580.
    """
    causes = []
    early = "a load that is asked for before its stage was multiplied"
    if receipt.setmaxnreg:  # roles come with it
        early = "a producer that does not wait for `empty`"
    if receipt.mbarrier_waits:
        causes.append(
            f"an mbarrier was overrun: {early}, or a wait whose parity never flips, lets expected bytes pile "
            "up until the count overflows"
        )
    if artifact.cluster != (1, 1, 1):
        causes.append(
            "a multicast mask or a remote arrival names a CTA outside its cluster, or a CTA left its cluster "
            "early"
        )
    return " Usual causes: " + "; ".join(causes) + "." if causes else ""


def _hang(receipt: Receipt, artifact: Artifact, seconds: str) -> str:
    text = f"the kernel never ended ({seconds} s)"
    if not receipt.mbarrier_waits:
        return f"{text}. It waits on no mbarrier: does a loop's bound change inside it?"
    asked = _registers_asked(receipt, artifact) if receipt.setmaxnreg else 0
    most = artifact.chip.cta_registers
    if asked > most:
        return (
            f"{text}: setmaxnreg asks for {asked:,} registers, and a CTA has {most:,}. The last "
            "warpgroup "
            "waits for ever for registers that nobody gives back."
        )
    starts = "a consumer with 0, a producer with 1" if receipt.setmaxnreg else "0"
    text += (
        ": a deadlock. Count for each mbarrier who arrives, how often, and how many bytes are expected and "
        "come; then "
        f"the parity each wait starts with ({starts}). The kernel initialises "
        f"{receipt.mbarrier_inits} mbarriers{receipts.arrivals(receipt)}."
    )
    if artifact.cluster != (1, 1, 1):
        text += (
            " In a cluster: does each CTA expect its own bytes, and does no CTA leave before the other is "
            "done with "
            "it?"
        )
    return text


def _registers_asked(receipt: Receipt, artifact: Artifact) -> int:
    """Registers a CTA holds once every warpgroup has reallocated: one producer warpgroup, and the rest
    consumers.
    """
    amounts = {kind: int(value) for kind, value in (entry.split() for entry in receipt.setmaxnreg)}
    warpgroups = artifact.threads // WARPGROUP_THREADS
    return WARPGROUP_THREADS * (amounts.get("dec", 0) + amounts.get("inc", 0) * (warpgroups - 1))
