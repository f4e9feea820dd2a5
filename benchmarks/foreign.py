"""Run public kernels from checkouts of theirs in the emulator: right, refused by name, or wrong.

    python benchmarks/foreign.py --tilelang PATH --cutlass PATH --quack PATH [--only TEXT]

Each job is one call of a program's own functions at a small size, in a process of its own. The program makes
its inputs, launches and compares with its own reference as on a GPU; stand-ins (``foreign_host``) turn the
GPU into the emulator. A job is right where it launched, compared, and nothing differed: what the emulator
found nevertheless is shown beside it. It is own where the example itself is at fault, for a reason that is
given; refused where the emulator or the compiler says by name what it does not know; and failed where the
program did not come to a launch or a comparison. Results are written after each job, with versions and
commits; a second run does what is left, and with ``--again right`` (refused, wrong, own, failed, slow, all)
those again.

``--packages PATH`` is added to the import path, for what the examples import (einops).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 300  # seconds of one job
OUTCOMES = ("right", "refused", "wrong", "own", "failed", "slow")
# examples whose own fault it is that they come out wrong: why, to be checked in their file
OWN = {
    "examples/deepseek_mla/example_mla_decode_ws.py": "threads 0 to 127 write sum_exp_shared after their "
    "last barrier, threads 128 to 255 divide by it after theirs: nothing orders the two, and only what the "
    "second group divides, the right half of some rows, is wrong"
}


@dataclass(frozen=True)
class Job:
    """One call: ``m`` is the module of ``file``; ``torch`` and ``T`` or ``c`` are at hand."""

    source: str
    file: str
    call: str
    argv: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.source} {self.file} {self.call} {' '.join(self.argv)}".strip()


def _tilelang() -> list[Job]:
    small = "M=256, N=256, K=256"
    table = [
        ("gemm/example_gemm.py", "m.main()"),
        ("gemm/example_gemm_intrinsics.py", f"m.main({small})"),
        ("gemm/example_gemm_persistent.py", "m.main(M=512, N=512, K=256)"),
        ("gemm/example_gemm_autotune.py", f"m.main({small}, use_autotune=False, with_roller=False)"),
        ("visual_layout_inference/visual_layout_inference.py", "m.main()"),
        ("elementwise/example_elementwise_add.py", "m.main(128, 128)"),
        ("norm/rms_norm.py", "m.test_rms_norm(64, 512, 1)"),
        ("norm/layernorm.py", "layernorm(m)"),
        ("topk/example_topk.py", "m.main(['--M', '64'])"),
        ("hadamard_transform/example_hadamard.py", "m.main()", ("--batch", "2", "--dim", "1024")),
        ("gemv/example_gemv.py", "m.main(do_bench=False)", ("--n", "128", "--k", "256")),
        ("gemm_splitk/example_tilelang_gemm_splitk.py", "m.main()"),
        ("gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py", "m.main()"),
        ("gemm_streamk/example_tilelang_gemm_streamk.py", "m.main()"),
        ("gemm_fp8/example_tilelang_gemm_fp8.py", "m.test_gemm_fp8(256, 256, 256, 'float8_e4m3fn')"),
        ("gemm_fp8/example_tilelang_gemm_fp8.py", "m.test_gemm_fp8(256, 256, 256, 'float8_e5m2')"),
        ("gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py", "m.test_gemm_fp8(256, 256, 512, 'float8_e4m3fn')"),
        ("gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py", "m.test_gemm_fp8(256, 256, 512, 'float8_e5m2')"),
        (
            "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py",
            "m.assert_tl_gemm_correctness(256, 256, 512, 128, T.float8_e4m3fn, T.bfloat16, T.float32)",
        ),
        ("gemm_sp/example_gemm_sp.py", "m.main()"),
        ("gemm_int4/example_tilelang_gemm_int4.py", f"m.check_int4_gemm_correctness({small})"),
        ("dynamic_shape/example_dynamic.py", "m.main(256, 256, 256)"),
        ("convolution/example_convolution.py", "m.main(['--n', '1', '--h', '16', '--w', '16'])"),
        ("convolution/example_convolution_autotune.py", "m.main(n=1, h=16, w=16, with_roller=False)"),
        (
            "blocksparse_gemm/example_blocksparse_gemm.py",
            "m.main()",
            ("--m", "256", "--n", "256", "--k", "256"),
        ),
        ("warp_specialize/example_warp_specialize_gemm_barrierpipe_stage2.py", f"m.main({small})"),
        ("warp_specialize/example_warp_specialize_gemm_copy_0_gemm_1.py", f"m.main({small})"),
        ("warp_specialize/example_warp_specialize_gemm_copy_1_gemm_0.py", f"m.main({small})"),
        ("warp_specialize/example_warp_specialize_gemm_copy_gemm_0_1.py", "m.main()"),
        ("warp_specialize/example_warp_specialize_gemm_softpipe_stage2.py", f"m.main({small})"),
        ("warp_specialize/example_warp_specialize_flashmla.py", "m.main(1, 64, 1, 256)"),
        ("cast/example_per_token_cast_to_fp8.py", "m.main(M=64, N=512, blk_m=8)"),
        (
            "cast/example_group_per_split_token_cast_to_fp8.py",
            "m.main(M=128, N=256, BG=2, blk_m=4, batch_sizes=[32, 96])",
        ),
        ("flash_attention/example_mha_fwd_bhsd.py", "m.main()"),
        ("flash_attention/example_mha_fwd_bhsd.py", "m.main(is_causal=True)"),
        ("flash_attention/example_mha_fwd_bshd.py", "m.main(batch=1, heads=1, seq_len=256, dim=64)"),
        ("flash_attention/example_gqa_fwd_bshd.py", "m.main(1, 2, 256, 64, False, 2)"),
        ("flash_attention/example_mha_fwd_varlen.py", "m.main(2, 1, 128, 64, False)"),
        ("flash_attention/example_gqa_fwd_varlen.py", "m.main(2, 2, 128, 128, 64, 2, True)"),
        ("flash_attention/example_mha_bwd_bshd.py", "m.main(1, 1, 128, 64, False)"),
        ("flash_attention/example_mha_bwd_bhsd.py", "m.main(1, 1, 128, 64, True)"),
        ("flash_attention/example_gqa_bwd.py", "m.main(1, 2, 128, 64, 64, 2)"),
        ("flash_attention/example_gqa_bwd_tma_reduce.py", "m.main(1, 2, 128, 64, 64, 2)"),
        ("flash_attention/example_gqa_bwd_tma_reduce_varlen.py", "m.main(1, 2, 128, 64, 64, 2)"),
        ("flash_decoding/example_gqa_decode.py", "m.main(1, 32, 8, 512, 64)"),
        ("flash_decoding/example_mha_inference.py", "m.main(1, 2, 128, 512, 64)"),
        ("attention_sink/example_mha_sink_fwd_bhsd.py", "m.main(1, 1, 128, 128, 64)"),
        ("attention_sink/example_mha_sink_fwd_bhsd.py", "m.main(1, 1, 256, 256, 64, window_size=128)"),
        ("attention_sink/example_mha_sink_bwd_bhsd.py", "m.main(1, 1, 128, 64)"),
        ("attention_sink/example_gqa_sink_bwd_bhsd.py", "m.main(1, 2, 128, 64, 2)"),
        ("attention_sink/example_gqa_sink_fwd_varlen.py", "m.main(1, 2, 128, 128, 64, 2)"),
        ("linear_attention/example_linear_attn_fwd.py", "m.main(1, 128, 1, 64)"),
        ("linear_attention/example_linear_attn_bwd.py", "m.main(1, 128, 1, 64)"),
        ("deepseek_mla/example_mla_decode.py", "m.main(1, 64, 1, 2048)"),
        ("deepseek_mla/example_mla_decode_ws.py", "m.main(1, 128, 1, 256)"),
        ("deepseek_mla/example_mla_decode_persistent.py", "m.main()", ("--batch", "1", "--kv_ctx", "256")),
        ("deepseek_nsa/example_tilelang_nsa_fwd.py", "m.main()"),
        ("deepseek_nsa/example_tilelang_nsa_decode.py", "m.main()"),
        ("deepseek_mhc/example_mhc_post.py", "m.test(n=32, h=1280)"),
        ("deepseek_mhc/example_mhc_pre.py", "m.test(n=16, hidden_size=1280, hc_mult=4)"),
        (
            "deepseek_v32/fp8_lighting_indexer.py",  # of a mean length of 2048, and it compares with no bound
            "lengths, match = m.generate_random_cu_seqlens, m.validate_tensor_match; "
            "m.generate_random_cu_seqlens = lambda **k: lengths(**{**k, 'average_q_len': 64}); "
            "m.validate_tensor_match = lambda *a, **k: match(*a, **{**k, 'tolerance': 2e-3, "
            "'should_raise': True}); "
            "m.test_fp8_lighting_indexer(S=128, SKV=512, H=32, D=64)",
        ),
        (
            "deepseek_v32/sparse_mla_fwd.py",
            "m.test_sparse_mla_fwd(S=4, SKV=256, H=64, DQK=576, DV=512, topk=128)",
        ),
        (
            "deepseek_v32/topk_selector.py",
            "x = torch.randn(2, 4096); "
            "got = m.tl_topk(x, torch.zeros(2).int(), torch.full((2,), 4096).int(), 256); "
            "close(got.long().sort(-1).values, x.topk(256).indices.sort(-1).values)",
        ),
        ("deepseek_v4/act_quant.py", "m.test_fp8_act_quant(M=64, N=256)"),
        ("deepseek_v4/sparse_attn_fwd_sm90.py", "m.test_correctness(1, 8, 16, 256, 64, 64)"),
        (
            "grouped_gemm/example_grouped_gemm_fwd.py",
            "m.run_tilelang_grouped_gemm([5, 9, 13], 64, 96, 64, 64, 32, False, num_stages=2, threads=256)",
        ),
        (
            "grouped_gemm/example_grouped_gemm_bwd.py",
            "m.run_tilelang_grouped_gemm([5, 9, 13], 64, 96, 64, 64, 32, False, num_stages=2, threads=256)",
        ),
        (
            "grouped_gemm/example_grouped_gemm_fwd_ptr.py",
            "m.run_tilelang_grouped_gemm_ptr([5, 9, 13], K=64, N=96, block_M=64, block_N=64, block_K=32, "
            "num_stages=1, threads=256, profile=False)",
        ),
        ("blocksparse_attention/example_tilelang_block_sparse_attn.py", "m.test_topk_sparse_attention()"),
        ("seer_attention/block_sparse_attn_tilelang.py", "m.test_topk_sparse_attention()"),
        ("dequantize_gemm/example_dequant_gemv_fp16xint4.py", "m.main()"),
        ("dequantize_gemm/example_dequant_gemm_fp4_hopper.py", "m.main(128, 128, 256)"),
        ("dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py", "m.main(256, 128, 256)"),
        ("dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py", "m.main(256, 128, 256)"),
        ("dequantize_gemm/example_dequant_gemm_w4a8.py", "m.main(64, 64, 256)"),
        (
            "fusedmoe/example_fusedmoe_tilelang.py",
            "m.main(256, 128, n_routed_experts=4, n_experts_per_token=2, seq_len=128)",
        ),
        ("minference/example_vertical_slash_sparse_attn.py", "m.main(1, 1, 256, 64, 30, 20)"),
    ]
    return [Job("tilelang", "examples/" + file, call, *more) for file, call, *more in table]


def _cutlass() -> list[Job]:
    half = "c.Float16, c.Float16, c.Float16, c.Float32"
    e4m3 = "c.Float8E4M3FN, c.Float8E4M3FN, c.Float16, c.Float32"
    e5m2 = "c.Float8E5M2, c.Float8E5M2, c.Float16, c.Float32"
    plain, cluster = "(128, 128), (1, 1)", "(128, 128), (2, 1)"
    attention = (
        "c.Float16, c.Float16, c.Float32, c.Float32, (64, 128), {}, {}, False, 1., 1., 1., 1., 0.125, "
        "(-1, -1), 0.1, 0, 1, False"
    )
    table = [
        (
            "dense_gemm/dense_gemm.py",
            f"m.run((128, 256, 128, 1), {half}, 'k', 'k', 'n', {plain}, 0.1, 0, 1, False)",
        ),
        (
            "dense_gemm/dense_gemm.py",
            f"m.run((256, 256, 128, 2), {half}, 'm', 'n', 'm', {cluster}, 0.1, 0, 1, False)",
        ),
        (
            "dense_gemm/dense_gemm.py",
            f"m.run((128, 256, 256, 1), {e4m3}, 'k', 'k', 'n', {plain}, 0.1, 0, 1, False)",
        ),
        (
            "dense_gemm/dense_gemm.py",
            f"m.run((128, 256, 256, 1), {e5m2}, 'k', 'k', 'n', {plain}, 0.1, 0, 1, False)",
        ),
        (
            "dense_gemm/dense_gemm.py",
            "m.run((128, 256, 256, 1), c.Int8, c.Int8, c.Int32, c.Int32, 'k', 'k', 'n', "
            f"{plain}, 0.1, 0, 1, False)",
        ),
        ("dense_gemm/dense_gemm_persistent.py", f"m.run((512, 512, 128, 1), {half}, 'k', 'k', 'n', {plain})"),
        (
            "dense_gemm/dense_gemm_persistent.py",
            f"m.run((512, 512, 128, 1), {half}, 'm', 'n', 'n', {cluster})",
        ),
        (
            "dense_gemm/dense_gemm_persistent.py",
            f"m.run((256, 512, 256, 1), {e4m3}, 'k', 'k', 'n', {cluster})",
        ),
        ("dense_gemm/dense_gemm_fp8_2xacc.py", f"m.run((256, 256, 512, 1), c.Float16, {plain})"),
        (
            "dense_gemm/dense_gemm_fp8_gelu_persistent.py",
            f"m.run((256, 256, 256, 1), {e4m3}, 'k', 'k', 'n', {plain})",
        ),
        (
            "grouped_gemm/grouped_gemm.py",
            f"m.run(2, [(128, 128, 128, 1), (256, 128, 64, 1)], {half}, 'k', 'k', 'n', {plain})",
        ),
        ("attention/fmha.py", f"m.run((1, 256, 2, 64), (1, 256, 2, 64), {attention.format(False, False)})"),
        ("attention/fmha.py", f"m.run((1, 256, 2, 64), (1, 256, 1, 64), {attention.format(True, True)})"),
        ("cta_norm/cta_norm.py", "m.run_layernorm(16, 1024, 128, 'layer', c.Float16, benchmark=False)"),
        ("cta_norm/cta_norm.py", "m.run_layernorm(16, 1024, 128, 'rms', c.Float32, benchmark=False)"),
    ]
    folder = "examples/python/CuTeDSL/cute/hopper/kernel/"
    return [Job("cutlass", folder + file, call) for file, call in table]


def _quack() -> list[Job]:
    x = "torch.randn(16, 512)"
    square = "torch.randn(256, 128).bfloat16(), torch.randn(256, 128).bfloat16()"
    table = [
        ("softmax.py", f"x = {x}; close(m.softmax_fwd(x), x.softmax(-1))"),
        (
            "softmax.py",
            f"x = {x}.bfloat16(); close(m.softmax_fwd(x), x.float().softmax(-1).bfloat16(), 1e-2)",
        ),
        (
            "softmax.py",
            f"dy = {x}; y = {x}.softmax(-1); "
            "close(m.softmax_bwd(dy, y), y * (dy - (dy * y).sum(-1, keepdim=True)))",
        ),
        ("rmsnorm.py", f"x, w = {x}, torch.randn(512); close(m.rmsnorm_fwd(x, w)[0], m.rmsnorm_ref(x, w))"),
        (
            "rmsnorm.py",
            f"x, w, b, r = {x}.half(), torch.randn(512), torch.randn(512), {x}.half(); "
            "got = m.rmsnorm_fwd(x, w, b, r); want = m.rmsnorm_ref(x, w, b, r); "
            "close(got[0], want[0], 1e-2); close(got[1], want[1], 1e-2)",
        ),
        (
            "rmsnorm.py",
            f"x, w, d = {x}, torch.randn(512), {x}; s = (x.square().mean(-1) + 1e-6).rsqrt(); "
            "got = m.rmsnorm_bwd(x, w, d, s); want = m.rmsnorm_bwd_ref(x, w, d, s); "
            "close(got[0], want[0], 1e-3); close(got[1], want[1], 1e-3)",
        ),
        ("rmsnorm.py", f"x, w = {x}, torch.randn(512); close(m.layernorm_fwd(x, w), m.layernorm_ref(x, w))"),
        (
            "cross_entropy.py",
            f"x, t = {x}, torch.randint(0, 512, (16,)); "
            "got = m.cross_entropy_fwd(x, t); got = got[0] if isinstance(got, tuple) else got; "
            "close(got, torch.nn.functional.cross_entropy(x, t, reduction='none'))",
        ),
        (
            "cross_entropy.py",
            f"x, t, d = {x}, torch.randint(0, 512, (16,)), torch.randn(16); "
            "got = m.cross_entropy_bwd(x, t, d, x.logsumexp(-1)); "
            "close(got, (x.softmax(-1) - torch.nn.functional.one_hot(t, 512)) * d[:, None])",
        ),
        ("topk.py", f"x = {x}; close(m.topk_fwd(x, 16)[0], x.topk(16).values)"),
        ("topk.py", f"x = {x}; close(m.topk_fwd(x, 16, softmax=True)[0], x.topk(16).values.softmax(-1))"),
        (
            "gemm_interface.py",
            f"a, b = {square}; got = m.gemm(a, b.mT, tuned=False); close(got, a @ b.mT, 2e-2)",
        ),
        (
            "gemm_interface.py",
            f"a, b = {square}; c = torch.randn(256, 256).bfloat16(); "
            "close(m.gemm_add(a, b.mT, c, tuned=False), m.gemm_add_ref(a, b.mT, c), 2e-2)",
        ),
        (
            "gemm_interface.py",
            f"a, b = {square}; close(m.gemm_act(a, b.mT, activation='relu', tuned=False)[1], "
            "(a.float() @ b.mT.float()).relu().bfloat16(), 2e-2)",
        ),
        (
            "rotary.py",
            "x = torch.randn(1, 8, 2, 64); f = torch.outer(torch.arange(8.), torch.rand(32)); "
            "a, b = x.chunk(2, -1); c, s = f.cos()[None, :, None], f.sin()[None, :, None]; "
            "close(m.apply_rotary_emb(x, f.cos(), f.sin()), torch.cat([a * c - b * s, a * s + b * c], -1))",
        ),
    ]
    return [Job("quack", "quack/" + file, call) for file, call in table]


JOBS = [*_tilelang(), *_cutlass(), *_quack()]


def run(job: Job, root: Path, packages: str) -> dict:
    """The outcome of one job, in a child."""
    command = [
        sys.executable,
        str(HERE / "foreign_job.py"),
        job.source,
        str(root / job.file),
        job.call,
        *job.argv,
    ]
    paths = [str(HERE.parent), str(HERE), packages, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TILELANG_DISABLE_CACHE": "1",
        "CUTE_DSL_ARCH": "sm_90a",
        "QUACK_CACHE_ENABLED": "0",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
    }
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=environment,
            cwd=root,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "slow", "said": f"not done after {LIMIT} s", "wall": LIMIT}
    told = [line for line in done.stdout.splitlines() if line.startswith("FOREIGN ")]
    if not told:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        return {"outcome": "failed", "said": f"exit {done.returncode}: {last[:300]}"}
    return {**json.loads(told[-1].removeprefix("FOREIGN ")), "wall": round(time.perf_counter() - start, 1)}


def commit(root: Path) -> str:
    """The commit of a checkout; "" where it is none."""
    told = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True)
    return told.stdout.strip() if told.returncode == 0 else ""


def versions() -> dict[str, str]:
    found = {}
    for name in ("tilelang", "nvidia-cutlass-dsl", "torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for source in ("tilelang", "cutlass", "quack"):
        parser.add_argument(f"--{source}", type=Path, help=f"a checkout of {source}")
        parser.add_argument(f"--{source}-commit", help="its commit, where the folder does not say")
    parser.add_argument("--out", type=Path, default=Path("build/foreign.json"))
    parser.add_argument("--only", default="", help="jobs whose name has this text")
    parser.add_argument("--again", default="", help="do those with this outcome again, or all")
    parser.add_argument("--packages", default="", help="a folder to import from")
    given = parser.parse_args()
    kept = json.loads(given.out.read_text()) if given.out.exists() else {"jobs": {}}
    roots = {source: getattr(given, source) for source in ("tilelang", "cutlass", "quack")}
    kept["versions"] = versions()
    kept["commits"] = {
        s: getattr(given, f"{s}_commit") or commit(root) for s, root in roots.items() if root is not None
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for job in JOBS:
        root, before = roots[job.source], kept["jobs"].get(job.name)
        if root is None or given.only not in job.name:
            continue
        if before is None or given.again in ("all", before["outcome"]):
            before = run(job, root.resolve(), given.packages)
            if before["outcome"] == "wrong" and job.file in OWN:
                before |= {"outcome": "own", "said": f"{OWN[job.file]}. {before['said']}"}
            kept["jobs"][job.name] = before
            written = given.out.with_suffix(".new")
            written.write_text(json.dumps(kept, indent=1) + "\n")
            written.replace(given.out)
        print(f"{before['outcome']:8} {before.get('wall', 0):>6} s  {job.name}", flush=True)
        if before["said"]:
            print(f"{'':19}{before['said'][:300]}", flush=True)
    names = {job.name for job in JOBS}
    for source in roots:
        counts = Counter(
            done["outcome"]
            for name, done in kept["jobs"].items()
            if name in names and name.startswith(source)
        )
        if counts:
            told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
            found = sum(
                done["outcome"] == "right" and bool(done["said"])
                for name, done in kept["jobs"].items()
                if name in names and name.startswith(source)
            )
            print(f"{source}: {told} of {counts.total()}; of the right ones {found} with a finding")


if __name__ == "__main__":
    main()
