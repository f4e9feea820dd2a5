"""Receipts: every instruction family is counted from PTX in the forms that the two DSLs and CUTLASS write
it.
"""

from dataclasses import asdict, replace

import pytest

from course_utils.artifact import Artifact, Parameter, Resources, Tensor
from course_utils.grading.steps import GEMM_CASES, STEPS
from course_utils.ptx.receipts import CONDITIONS, Receipt, read_ptx, table, unmet

LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
COORDINATES = ", ".join(f"%r{i}" for i in range(5))
EXACT = "mbarrier.init.shared::cta.b64 [%r1], 1;"
ONE_INIT = {"mbarrier_inits": 1, "mbarrier_counts": {1: 1}}


def counted(ptx: str) -> dict:
    """The counts above zero, without the totals."""
    return {
        name: n for name, n in asdict(read_ptx(ptx)).items() if n and name not in ("opcodes", "instructions")
    }


@pytest.mark.parametrize("rank", range(1, 6))
def test_tensor_loads_by_rank(rank):
    operands = f"[%r9], [%rd1, {{{COORDINATES[: 5 * rank - 2]}}}], [%r8]"
    assert counted(f"{LOAD.format(rank)} {operands};") == {"tensor_loads": {rank: 1}}
    assert counted(f"{LOAD.format(rank)}.L2::cache_hint {operands}, %rd2;") == {"tensor_loads": {rank: 1}}
    multicast = f"{LOAD.format(rank)}.multicast::cluster.L2::cache_hint {operands}, %rs1, %rd2;"
    assert counted(multicast) == {"multicast_loads": {rank: 1}}
    store = (
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd1, "
        f"{{{COORDINATES[: 5 * rank - 2]}}}], [%r9];"
    )
    assert counted(store) == {"tensor_stores": {rank: 1}}


@pytest.mark.parametrize(
    "ptx, expected",
    [
        (
            "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, "
            "{%r2, %r3}], [%r4];",
            {"tensor_loads": {2: 1}},
        ),
        (
            "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], "
            "[%rd1, {%r2, %r3, %r4}], "
            "[%r5], {%rs1};",
            {"tensor_loads": {3: 1}},
        ),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group .L2::cache_hint [%rd130, {%r448, %r10}], "
            "[%r447], %rd149;",
            {"tensor_stores": {2: 1}},
        ),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];",
            {"bulk_1d": 1},
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;", {"bulk_1d": 1}),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1, %r2}];", {}),
        ("cp.async.bulk.prefetch.L2.global [%rd1], %r1;", {}),
        ("cp.async.bulk.commit_group;", {"bulk_commits": 1}),
        ("cp.async.bulk.wait_group 0;", {"bulk_waits": 1}),
        ("cp.async.bulk.wait_group.read 1;", {"bulk_waits": 1, "bulk_read_waits": 1}),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16;", {"cp_async": 1}),
        ("cp.async.ca.shared.global.L2::128B [%r1], [%rd1], 4, %r2;", {"cp_async": 1}),
        ("cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;", {}),
        ("prefetch.tensormap [%rd1];", {}),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_copies(ptx, expected):
    assert counted(ptx) == expected


@pytest.mark.parametrize(
    "shape",
    [
        "m64n8k16.f32.f16.f16",
        "m64n128k16.f32.f16.f16",
        "m64n256k16.f32.bf16.bf16",
        "m64n128k16.f16.f16.f16",
        "m64n64k8.f32.tf32.tf32",
        "m64n96k32.f32.e4m3.e5m2",
    ],
)
def test_wgmma_shapes(shape):
    ptx = f"wgmma.mma_async.sync.aligned.{shape} {{%f1, %f2}}, %rd1, %rd2, p, 1, 1, 0, 0;\n"
    assert counted(3 * ptx) == {"wgmma": {shape: 3}}


def test_wgmma_waits_by_groups_in_flight():
    ptx = "wgmma.fence.sync.aligned;\nwgmma.commit_group.sync.aligned;\n"
    ptx += "".join(f"wgmma.wait_group.sync.aligned {n};\n" for n in (0, 1, 1, 7))
    assert counted(ptx) == {"wgmma_waits": {0: 1, 1: 2, 7: 1}}


@pytest.mark.parametrize(
    "ptx, expected",
    [
        ("mbarrier.init.shared::cta.b64 [%r1], %r2;", {"mbarrier_inits": 1}),
        ("mbarrier.init.shared.b64 [%r1], 128;", {"mbarrier_inits": 1, "mbarrier_counts": {128: 1}}),
        (
            "mov.u32 %r2, 4; mbarrier.init.shared::cta.b64 [%r1], %r2;",
            {"mbarrier_inits": 1, "mbarrier_counts": {4: 1}},
        ),
        ("mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2, %r3;", {"mbarrier_waits": 1}),
        ("mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%r1], %r2;", {"mbarrier_waits": 1}),
        ("mbarrier.arrive.shared::cta.b64 _, [%r1];", {"arrives": 1}),
        ("mbarrier.arrive.release.cta.shared::cta.b64 %rd1, [%r1], 2;", {"arrives": 1}),
        ("mbarrier.arrive.shared::cluster.b64  _, [remAddr32];", {"remote_arrives": 1}),
        ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], 1;", {"remote_arrives": 1}),
        ("mbarrier.expect_tx.shared::cta.b64 [%r1], %r2;", {"expect_tx": 1}),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16384;", {"expect_tx": 1}),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;", {"expect_tx": 1, "arrives": 1}),
        (
            "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], %r2;",
            {"expect_tx": 1, "remote_arrives": 1},
        ),
        ("mbarrier.inval.shared::cta.b64 [%r1];", {}),
        ("mapa.shared::cluster.u32 remAddr32, %r1, %r2;", {}),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_mbarriers(ptx, expected):
    assert counted(ptx) == expected


@pytest.mark.parametrize(
    "ptx, expected",
    [
        ("fence.proxy.async;", {"proxy_fences": 1}),
        ("fence.proxy.async.shared::cta;", {"proxy_fences": 1}),
        ("fence.mbarrier_init.release.cluster;", {}),
        ("fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;", {}),
        (
            "setmaxnreg.dec.sync.aligned.u32 40;\nsetmaxnreg.inc.sync.aligned.u32 "
            "232;\nsetmaxnreg.inc.sync.aligned.u32 232;",
            {"setmaxnreg": {"dec 40": 1, "inc 232": 2}},
        ),
        ("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", {"cluster_barriers": 1}),
        (
            "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
            {"cluster_barriers": 1},
        ),
        ("bar.sync 0;", {"cta_barriers": 1}),
        ("bar.sync 1, 128;", {"named_barriers": 1}),
        ("barrier.sync.aligned 0;", {"cta_barriers": 1}),
        ("barrier.cta.sync.aligned 3, 256;", {"named_barriers": 1}),
        ("bar.arrive 1, 256;", {}),
        ("bar.warp.sync -1;", {}),
        ("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%r1], {%r2, %r3, %r4, %r5};", {"stmatrix": 1}),
        ("ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];", {"global_loads": 1}),
        ("st.global.v2.b32 [%rd1], {%r1, %r2};", {"global_stores": 1}),
        ("ld.param.u64 %rd1, [main_kernel_param_0];", {}),
        ("ld.shared.u32 %r1, [%r2]; st.shared.u32 [%r2], %r1;", {}),
    ],
    ids=lambda value: value.split(";")[0] if isinstance(value, str) else "",
)
def test_fences_barriers_and_the_rest(ptx, expected):
    assert counted(ptx) == expected


@pytest.mark.parametrize(
    "before",
    [
        "@%p1 ",
        "@!%p1 ",
        "@P ",
        "\t@p\t",
        "\t\t",
        "LAB_WAIT: ",
        "$L__BB0_2:\t@!%p3 ",
        "{ ",
        "} ",
        "{ .reg .pred P1; ",
        "DONE:\n",
        "/* why */ ",
    ],
)
def test_what_may_stand_before_an_instruction(before):
    assert counted(before + EXACT) == ONE_INIT
    assert counted(f"mov.u32 %r1, %r2;\n{before}{EXACT} // and what may follow\n}}\n") == ONE_INIT


def test_inline_assembly_of_several_statements():
    one_line = (
        "{ .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2; @P1 bra DONE; "
        "bra LAB_WAIT; DONE: } mbarrier.arrive.shared::cta.b64 _, [%r1];"
    )
    assert counted(one_line) == {"mbarrier_waits": 1, "arrives": 1}
    assert counted(
        "{\n\t.reg .b32 remAddr32;\n\tmapa.shared::cluster.u32  remAddr32, %r1, %r2;\n"
        "\t@%p2 mbarrier.arrive.shared::cluster.b64  _, [remAddr32];\n\t}"
    ) == {"remote_arrives": 1}
    assert counted(
        "{ .reg .pred p; setp.ne.b32 p, %r1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, 1, 0, 0; }"
    ) == {"wgmma": {"m64n8k16.f32.f16.f16": 1}}


@pytest.mark.parametrize(
    "comment",
    [
        "// {}",
        "//{}",
        "\t// begin inline asm {}",
        "mov.u32 %r1, %r2; // {}",
        "/* {} */",
        "/*\n{}\n*/",
        "/* // */ // {}",
        "// /* \n// {} */",
    ],
)
def test_comments_do_not_count(comment):
    assert counted(comment.format(EXACT)) == {}
    assert counted(comment.format(EXACT) + "\n" + EXACT) == ONE_INIT  # and hide nothing after them


def test_directives_do_not_count():
    assert (
        counted(
            ".visible .entry main_kernel(\n\t.param .u64 main_kernel_param_0\n)\n.maxntid 128, 1, 1\n{\n"
            "\t.loc\t2 40 5, function_name $L__info_string1, inlined_at 3 12 1\n"
            '\t.file\t2 "/a/cp.async.bulk.tensor.2d/mbarrier.init.h"\n\t.reg .pred %p<3>;\n\tret;\n}'
        )
        == {}
    )


def test_totals():
    receipt = read_ptx("mov.u32 %r1, %r2;\nmov.u32 %r3, %r4;\n@%p1 bar.sync 0;\nret;\n")
    assert (receipt.instructions, receipt.opcodes) == (3, 2)
    assert read_ptx("") == Receipt()


STORE = (
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], "
    "[%r9];\ncp.async.bulk.commit_group;\n"
)
WAIT = "cp.async.bulk.wait_group.read 0;\n"


@pytest.mark.parametrize(
    "inside, after, loops",
    [(STORE + WAIT, WAIT, 0), (WAIT + STORE, WAIT, 0), (STORE, WAIT, 1), ("", STORE, 0)],
)
def test_loops_that_never_wait_for_their_stores(inside, after, loops):
    loop = f"$L__BB0_1:\nadd.s32 %r1, %r1, 1;\n{inside}@%p1 bra $L__BB0_1;\n"
    ptx = f"{loop}@%p2 bra $L__BB0_2;\n{after}$L__BB0_2:\nret;\n"
    assert read_ptx(ptx).unawaited_store_loops == loops


M, N, K = 9728, 7680, 320
PLAIN = Artifact(
    dsl="tilelang",
    kernel="main_kernel",
    ptx="",
    cubin=b"",
    grid=(60, 76, 1),
    block=(128, 1, 1),
    cluster=(1, 1, 1),
    dynamic_shared=32768,
    parameters=(Parameter("pointer", tensor="A"),),
    tensors=(Tensor("A", (M, K), "float16"), Tensor("B", (N, K), "float16"), Tensor("D", (M, N), "float16")),
    resources=Resources(registers=64, stack_frame=0, spill_stores=0, spill_loads=0, static_shared=16),
)


def kernel(**fields):
    return replace(PLAIN, **fields)


BOTH_WAYS = Receipt(setmaxnreg={"dec 40": 1, "inc 232": 2})
IGNORED = replace(
    PLAIN.resources, warnings=("(C7508) setmaxnreg ignored to maintain minimum register requirements.",)
)


# Condition: (a receipt and a kernel for which it just holds), (a neighbour for which it just does not).
NEIGHBOURS = {
    "wgmma": (
        (Receipt(wgmma={"m64n8k16.f32.f16.f16": 1}), PLAIN),
        (Receipt(wgmma={"m64n8k16.f16.f16.f16": 1}), PLAIN),
    ),
    "one CTA": ((Receipt(), kernel(grid=(1, 1, 1))), (Receipt(), kernel(grid=(1, 2, 1)))),
    "grid grows": ((Receipt(), kernel(grid=(30, 38, 1))), (Receipt(), kernel(grid=(30, 37, 1)))),
    "fixed grid": ((Receipt(), kernel(grid=(30, 37, 1))), (Receipt(), kernel(grid=(30, 38, 1)))),
    "tensor loads": (
        (Receipt(tensor_loads={2: 1}), PLAIN),
        (Receipt(tensor_stores={2: 1}, bulk_1d=1, cp_async=1), PLAIN),
    ),
    "tensor stores": (
        (Receipt(tensor_stores={2: 1}), PLAIN),
        (Receipt(tensor_loads={2: 1}, bulk_1d=1), PLAIN),
    ),
    "expect-tx": ((Receipt(expect_tx=1), PLAIN), (Receipt(arrives=1), PLAIN)),
    "proxy fence": ((Receipt(proxy_fences=1), PLAIN), (Receipt(), PLAIN)),
    "store wait": ((Receipt(bulk_waits=1), PLAIN), (Receipt(bulk_waits=1, unawaited_store_loops=1), PLAIN)),
    "four stores": ((Receipt(tensor_stores={2: 4}), PLAIN), (Receipt(tensor_stores={2: 3}), PLAIN)),
    "read wait": ((Receipt(bulk_waits=1, bulk_read_waits=1), PLAIN), (Receipt(bulk_waits=1), PLAIN)),
    "two full barriers": ((Receipt(mbarrier_inits=2), PLAIN), (Receipt(mbarrier_inits=1), PLAIN)),
    "empty barriers": ((Receipt(mbarrier_inits=4), PLAIN), (Receipt(mbarrier_inits=3), PLAIN)),
    "four stages": ((Receipt(mbarrier_inits=8), PLAIN), (Receipt(mbarrier_inits=7), PLAIN)),
    "setmaxnreg": ((BOTH_WAYS, PLAIN), (BOTH_WAYS, kernel(resources=IGNORED))),
    "wgmma in flight": ((Receipt(wgmma_waits={0: 1, 1: 1}), PLAIN), (Receipt(wgmma_waits={0: 2}), PLAIN)),
    "multicast": ((Receipt(multicast_loads={2: 1}), PLAIN), (Receipt(tensor_loads={2: 1}), PLAIN)),
    "remote arrive": ((Receipt(remote_arrives=1), PLAIN), (Receipt(arrives=1), PLAIN)),
    "cluster barrier": (
        (Receipt(cluster_barriers=2), PLAIN),
        (Receipt(cluster_barriers=1, cta_barriers=5, mbarrier_inits=12, mbarrier_waits=2), PLAIN),
    ),
    "cluster of two": ((Receipt(), kernel(cluster=(1, 2, 1))), (Receipt(), kernel(cluster=(2, 2, 1)))),
    "three warpgroups": ((Receipt(), kernel(block=(384, 1, 1))), (Receipt(), kernel(block=(256, 1, 1)))),
}


def test_every_condition_has_neighbours():
    assert set(NEIGHBOURS) == set(CONDITIONS)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_condition(name):
    holds, breaks = NEIGHBOURS[name]
    assert unmet(*holds, [name]) == []
    (sentence,) = unmet(*breaks, [name])
    assert sentence.startswith(f"needs {CONDITIONS[name].sentence}; found ")
    assert unmet(*breaks, [], [name]) == []
    (sentence,) = unmet(*holds, [], [name])
    assert sentence.startswith(f"must do without {CONDITIONS[name].sentence}")


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_says_what_an_empty_kernel_has(name):
    for text in unmet(Receipt(), kernel(grid=(1, 1, 1)), [name]):
        assert text.startswith("needs ") and not text.endswith(" ") and "  " not in text


@pytest.mark.parametrize("maxnreg", [{}, {"dec 40": 1}, {"inc 232": 1}])
def test_registers_must_move_both_ways(maxnreg):
    assert unmet(Receipt(setmaxnreg=maxnreg), PLAIN, ["setmaxnreg"])


def test_empty_grid_is_neither_persistent_nor_covering():
    nothing = Receipt(), kernel(grid=(0, 2, 1))
    assert len(unmet(*nothing, ["one CTA", "grid grows", "fixed grid"])) == 3


def test_every_condition_is_some_steps_and_every_name_is_a_condition():
    assert {
        name for step in (STEPS | GEMM_CASES).values() for name in (*step.requires, *step.forbids)
    } == set(CONDITIONS)


def test_words():
    receipt = Receipt(global_loads=16, mbarrier_inits=1, wgmma_waits={0: 2})
    assert unmet(receipt, PLAIN, ["tensor loads", "two full barriers", "wgmma in flight", "fixed grid"]) == [
        "needs TMA loads, `cp.async.bulk.tensor` from global to shared; found 0 of them, but 16 plain "
        "`ld.global`",
        "needs at least two mbarriers, one for each stage of the ring; found 1 `mbarrier.init`",
        "needs a `wgmma.wait_group` above 0, so that one group stays in flight; found `wgmma.wait_group` 0 "
        "only",
        "needs a persistent grid: its size does not depend on M and N; found a grid of 60 x 76 x 1 for M, N "
        "= 9728, 7680",
    ]


def test_table_of_a_full_kernel():
    receipt = Receipt(
        tensor_loads={2: 10, 3: 1},
        multicast_loads={2: 5},
        tensor_stores={2: 4},
        bulk_1d=1,
        cp_async=2,
        wgmma={"m64n256k16.f32.f16.f16": 20},
        wgmma_waits={1: 5, 0: 1},
        mbarrier_inits=8,
        mbarrier_waits=10,
        expect_tx=9,
        arrives=7,
        remote_arrives=6,
        proxy_fences=2,
        setmaxnreg={"dec 40": 1, "inc 232": 1},
        cluster_barriers=2,
        cta_barriers=6,
        global_loads=3,
        global_stores=4,
    )
    resources = Resources(
        registers=168,
        stack_frame=0,
        spill_stores=8,
        spill_loads=4,
        static_shared=1024,
        warnings=("(C7510) a", "b"),
    )
    large = kernel(
        grid=(128, 1, 1), block=(384, 1, 1), cluster=(2, 1, 1), dynamic_shared=229376, resources=resources
    )
    assert table(receipt, large) == [
        ("launch", "grid 128 x 1 x 1, 384 threads, cluster of 2"),
        ("TMA loads", "rank 2: 10, rank 3: 1, rank 2 multicast: 5"),
        ("TMA stores", "rank 2: 4"),
        ("other copies", "1-D bulk: 1, cp.async: 2, ld.global: 3, st.global: 4"),
        ("wgmma", "m64n256k16.f32.f16.f16: 20"),
        ("wgmma waits", "wait_group 0: 1, wait_group 1: 5"),
        ("mbarriers", "init 8, wait 10, expect_tx 9, arrive 7, remote arrive 6"),
        ("proxy fences", "2"),
        ("setmaxnreg", "dec 40, inc 232"),
        ("barriers", "CTA: 6, cluster: 2"),
        ("registers", "168 a thread at launch, spills 12 bytes"),
        ("shared memory", "229,376 dynamic + 1,024 static bytes"),
        ("ptxas says", "(C7510) a; b"),
    ]


def test_table_of_an_empty_kernel_says_none_where_a_gemm_needs_some():
    assert table(Receipt(), PLAIN) == [
        ("launch", "grid 60 x 76 x 1, 128 threads"),
        ("TMA loads", "none"),
        ("TMA stores", "none"),
        ("wgmma", "none"),
        ("registers", "64 a thread at launch, spills 0 bytes"),
        ("shared memory", "32,768 dynamic + 16 static bytes"),
    ]
