"""CUTLASS's persistent Hopper GEMM behind the course's ``gemm(M, N, K)``.

The kernel is examples/python/CuTeDSL/cute/hopper/kernel/dense_gemm/dense_gemm_persistent.py of
github.com/NVIDIA/cutlass. It is no part of this repository: the environment names the file.
"""

import importlib.util
import os

import cutlass
import cutlass.cute as cute

EXAMPLE = "CUTLASS_PERSISTENT_EXAMPLE"  # in the environment
SM_COUNT = 132
SWIZZLE, ALONG_M = 8, True  # panels of 8 tiles, down the columns


def adapted(tile, cluster):
    """A factory of the example's kernel with this tile and cluster, (m, n) each."""
    spec = importlib.util.spec_from_file_location("dense_gemm_persistent", os.environ[EXAMPLE])
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    clusters = SM_COUNT // (cluster[0] * cluster[1])

    def batch_of_one(matrix):
        layout = cute.append(matrix.layout, cute.make_layout(1, stride=0))
        return cute.make_tensor(matrix.iterator, layout)

    def gemm(M, N, K):
        kernel = example.HopperWgmmaGemmPersistentKernel(cutlass.Float32, tile, cluster, SWIZZLE, ALONG_M)

        @cute.jit
        def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
            default_stream = ()
            kernel(batch_of_one(A), batch_of_one(B), batch_of_one(D), clusters, default_stream)

        return main

    return gemm
