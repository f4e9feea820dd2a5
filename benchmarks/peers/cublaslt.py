"""The quickest algorithm of those that cublasLt's heuristics name, by ctypes; torch brings the library.

Enumerators and the two structures' sizes are those of cublasLt.h and library_types.h of CUDA 13.0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p

import torch

from benchmarks.peers import NotInstalled
from course_utils.run.gpu.timing import elapsed

LIBRARIES = "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"
FP16, FP32, COMPUTE_FP32, TRANSPOSED = 2, 0, 68, 1
TRANSA, WORKSPACE_LIMIT = 3, 1  # attributes of a matmul's descriptor, and of a preference
WORKSPACE = 64 << 20  # bytes
ALGORITHMS, TRIES = 16, 5


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


def _library() -> ctypes.CDLL:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NotInstalled(f"none of {', '.join(LIBRARIES)} is on the loader's path")


def _made(function: Callable[..., int], *fields: object) -> c_void_p:
    """The handle that a cublasLt function makes."""
    handle = c_void_p()
    _checked(function(byref(handle), *fields), function)
    return handle


def _checked(status: int, function: Callable[..., int]) -> None:
    if status:
        raise RuntimeError(f"{function.__name__} said {status}")


def prepare(A: torch.Tensor, B: torch.Tensor, D: torch.Tensor) -> Callable[[], torch.Tensor]:
    lt = _library()
    (M, K), N = A.shape, B.shape[0]
    handle = _made(lt.cublasLtCreate)
    operation = _made(lt.cublasLtMatmulDescCreate, c_int(COMPUTE_FP32), c_int(FP32))
    flag = c_int(TRANSPOSED)
    set_field = lt.cublasLtMatmulDescSetAttribute
    _checked(set_field(operation, c_int(TRANSA), byref(flag), c_size_t(4)), set_field)

    def layout(rows: int, columns: int) -> c_void_p:
        """Of a matrix of columns one after another, as cublasLt sees rows of ours."""
        shape = c_uint64(rows), c_uint64(columns), ctypes.c_int64(rows)
        return _made(lt.cublasLtMatrixLayoutCreate, c_int(FP16), *shape)

    # rows of ours are its columns: D^T = (B^T)^T A^T
    of_B, of_A, of_D = layout(K, N), layout(K, M), layout(N, M)
    preference, most = _made(lt.cublasLtMatmulPreferenceCreate), c_size_t(WORKSPACE)
    prefer = lt.cublasLtMatmulPreferenceSetAttribute
    _checked(prefer(preference, c_int(WORKSPACE_LIMIT), byref(most), c_size_t(8)), prefer)
    found, count = (Heuristic * ALGORITHMS)(), c_int()
    ask = lt.cublasLtMatmulAlgoGetHeuristic
    layouts = of_B, of_A, of_D, of_D
    asked = ask(handle, operation, *layouts, preference, c_int(ALGORITHMS), found, byref(count))
    _checked(asked, ask)
    workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)
    one, zero = c_float(1.0), c_float(0.0)

    def pointer(tensor: torch.Tensor) -> c_void_p:
        return c_void_p(tensor.data_ptr())

    def launch(algorithm: Heuristic) -> torch.Tensor:
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        operands = pointer(B), of_B, pointer(A), of_A, byref(zero), pointer(D), of_D, pointer(D), of_D
        room = pointer(workspace), c_size_t(WORKSPACE), stream
        chosen = byref(algorithm.algorithm)
        status = lt.cublasLtMatmul(handle, operation, byref(one), *operands, chosen, *room)
        _checked(status, lt.cublasLtMatmul)
        return D

    def seconds(algorithm: Heuristic) -> float:
        times = []
        for _ in range(TRIES):
            begin, end = elapsed(lambda: launch(algorithm))
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        return sorted(times)[TRIES // 2]

    best = min((one_found for one_found in found[: count.value] if one_found.state == 0), key=seconds)
    return lambda: launch(best)
