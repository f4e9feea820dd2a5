"""On a Hopper GPU: how many bytes a box with element strides adds to its mbarrier, and how many it writes."""

import numpy as np
import pytest

from course_utils.artifact import Artifact, Parameter, Tensor, TensorMap

pytestmark = pytest.mark.gpu

ROWS, COLUMNS, SHARED = 256, 256, 64 * 1024
BOXES = [  # box, element strides
    ((64, 128), (1, 8)),
    ((64, 10), (1, 4)),  # 2.5 steps: three rows
    ((64, 7), (1, 2)),
    ((32, 9), (1, 8)),
    ((64, 16), (2, 1)),  # without interleave TMA ignores the first stride
    ((64, 16), (2, 2)),
    ((64, 16), (1, 1)),
]

SOURCE = """
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void load(const __grid_constant__ CUtensorMap map, int* out) {
  extern __shared__ __align__(1024) unsigned char smem[];
  __shared__ __align__(8) unsigned long long barrier;
  for (int i = threadIdx.x; i < SHARED; i += blockDim.x) smem[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned tile = (unsigned)__cvta_generic_to_shared(smem);
    unsigned full = (unsigned)__cvta_generic_to_shared(&barrier);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], EXPECTED;" :: "r"(full) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(tile), "l"(&map), "r"(0), "r"(0), "r"(full) : "memory");
    int done = 0;
    long long since = clock64();
    while (!done && clock64() - since < 4000000) {
      asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                   : "=r"(done) : "r"(full) : "memory");
    }
    out[0] = done;
    int written = 0;
    for (int i = 0; i < SHARED; ++i) written += smem[i] != 0;
    out[1] = written;
  }
}
"""


def loaded(tensor_map: TensorMap, expected: int) -> tuple[bool, int]:
    """Does a load of this box complete a barrier that expects so many bytes? And how many bytes are there then."""
    import torch

    from course_utils.compile.nvrtc import compile_source
    from course_utils.run.gpu.launch import Kernel

    source = SOURCE.replace("SHARED", str(SHARED)).replace("EXPECTED", str(expected))
    ptx, cubin, resources = compile_source(source, [])
    artifact = Artifact(
        dsl="cuda",
        kernel="load",
        ptx=ptx,
        cubin=cubin,
        grid=(1, 1, 1),
        block=(128, 1, 1),
        cluster=(1, 1, 1),
        dynamic_shared=SHARED,
        parameters=(Parameter("tensor_map", "A", tensor_map), Parameter("pointer", "OUT")),
        tensors=(Tensor("A", (ROWS, COLUMNS), "float16"), Tensor("OUT", (2,), "int32")),
        resources=resources,
    )
    # no byte of them is 0
    bits = np.random.default_rng(1).integers(0x3C01, 0x3CFF, (ROWS, COLUMNS), np.int16)
    bits |= 1
    A = torch.from_numpy(bits).cuda()
    out = torch.zeros(2, dtype=torch.int32, device="cuda")
    kernel = Kernel(artifact, {"A": A.data_ptr(), "OUT": out.data_ptr()})
    kernel.launch(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    done, written = out.tolist()
    return bool(done), written


@pytest.mark.parametrize("box, steps", BOXES, ids=str)
def test_a_box_adds_its_box_bytes_and_no_others(box, steps):
    tensor_map = TensorMap(6, (COLUMNS, ROWS), (2 * COLUMNS,), box, steps)
    floored = 2 * (box[0] // steps[0]) * (box[1] // steps[1])
    whole = 2 * box[0] * box[1]
    found = {expected: loaded(tensor_map, expected) for expected in {tensor_map.box_bytes, floored, whole}}
    print(box, steps, found)
    completed = [expected for expected, (done, _) in found.items() if done]
    assert completed == [tensor_map.box_bytes]
    assert found[tensor_map.box_bytes][1] == tensor_map.box_bytes
