"""Why a kernel hung or faulted on the GPU: causes, from an Answer and the Artifact that it is about."""

from __future__ import annotations

from course_utils.artifact import WARPGROUP_THREADS, Artifact
from course_utils.cause import Cause
from course_utils.grading import words
from course_utils.ptx import receipts
from course_utils.ptx.receipts import Receipt
from course_utils.run.protocol import Answer


def causes(answer: Answer, artifact: Artifact) -> list[Cause]:
    """What the answer's ``error`` usually means; none where it has no error and nothing more to say."""
    error, detail = answer.error, answer.detail
    if error in ("", "not_run"):
        return [Cause("machine", "not-tried", {"detail": detail})] if detail else []
    if error == "timeout":
        return _hang(receipts.read_ptx(artifact.ptx), artifact, detail)
    if error == "died":
        return [Cause("machine", "died", {"detail": detail})]
    if error not in words.FAULTS:
        return [Cause("machine", "no-result", {"error": error, "detail": detail})]
    found = [Cause("fault", error)]
    if error == "CUDA_ERROR_LAUNCH_FAILED":
        found += _death(receipts.read_ptx(artifact.ptx), artifact)
    return found


def _death(receipt: Receipt, artifact: Artifact) -> list[Cause]:
    """What makes Hopper give up with no better word, by what the kernel uses."""
    usual = []
    if receipt.mbarrier_waits:  # roles come with setmaxnreg
        usual.append(Cause("fault", "early-producer" if receipt.setmaxnreg else "early-load"))
    if artifact.cluster != (1, 1, 1):
        usual.append(Cause("fault", "outside-the-cluster"))
    return usual


def _hang(receipt: Receipt, artifact: Artifact, seconds: str) -> list[Cause]:
    if not receipt.mbarrier_waits:
        return [Cause("hang", "endless-loop", {"seconds": seconds})]
    asked = _registers_asked(receipt, artifact) if receipt.setmaxnreg else 0
    if asked > artifact.register_pool:
        values = {"seconds": seconds, "registers": asked, "limit": artifact.register_pool}
        return [Cause("hang", "too-many-registers", values)]
    values = {
        "seconds": seconds,
        "starts": "a consumer with 0, a producer with 1" if receipt.setmaxnreg else "0",
        "barriers": receipt.mbarrier_inits,
        "arrivals": receipts.arrivals(receipt),
    }
    found = [Cause("hang", "endless-wait", values)]
    return found + [Cause("hang", "cluster-waits")] * (artifact.cluster != (1, 1, 1))


def _registers_asked(receipt: Receipt, artifact: Artifact) -> int:
    """Registers a CTA holds once every warpgroup has reallocated: one producer warpgroup, and the rest
    consumers.
    """
    amounts = {kind: int(value) for kind, value in (entry.split() for entry in receipt.setmaxnreg)}
    warpgroups = artifact.threads // WARPGROUP_THREADS
    return WARPGROUP_THREADS * (amounts.get("dec", 0) + amounts.get("inc", 0) * (warpgroups - 1))


def text(answer: Answer, artifact: Artifact) -> str:
    """What is wrong, in words: what its ``error`` usually means, else what its numbers say."""
    return words.text(*(causes(answer, artifact) or answer.causes))
