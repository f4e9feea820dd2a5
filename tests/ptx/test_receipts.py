"""Receipts: every instruction family is counted from PTX in the forms that the two DSLs and CUTLASS write
it.
"""

import re
from dataclasses import asdict, replace

import pytest

from course_utils.artifact import Artifact, Parameter, Resources, Tensor
from course_utils.ptx.parser import PtxError, parse
from course_utils.ptx.receipts import Receipt, read, read_ptx, table

LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
COORDINATES = ", ".join(f"%r{i}" for i in range(5))
EXACT = "mbarrier.init.shared::cta.b64 [%r1], 1;"
ONE_INIT = {"mbarrier_inits": 1, "mbarrier_counts": {1: 1}}


def in_kernel(fragment: str) -> str:
    """A kernel of this body, with the braces that the fragment closes and never opened, or leaves open."""
    ahead = depth = 0
    for brace in re.findall(r"[{}]", fragment):
        depth += 1 if brace == "{" else -1
        ahead = max(ahead, -depth)
    return (
        ".version 8.8\n.target sm_90a\n.address_size 64\n"
        ".visible .entry main_kernel(.param .u64 main_kernel_param_0)\n{\n"
        ".reg .pred %p<9>, p, P; .reg .b16 %rs<9>; .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<999>;\n"
        f"{'{' * ahead}{fragment}\n{'}' * (ahead + depth)}\n}}\n"
    )


def counted(ptx: str) -> dict:
    """The counts above zero, without the totals; of a fragment, or of a whole module."""
    receipt = asdict(read_ptx(ptx if ".entry" in ptx else in_kernel(ptx)))
    return {name: n for name, n in receipt.items() if n and name not in ("opcodes", "instructions")}


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
    receipt = read_ptx(in_kernel("mov.u32 %r1, %r2;\nmov.u32 %r3, %r4;\n@%p1 bar.sync 0;\nret;\n"))
    assert (receipt.instructions, receipt.opcodes) == (3, 2)
    assert read_ptx(in_kernel("")) == Receipt()


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
    assert read_ptx(in_kernel(ptx)).unawaited_store_loops == loops


def test_what_a_loop_leaves_by_is_not_in_the_loop():
    """A way out may lie between the label and the branch back to it, as compilers lay it out."""
    out = f"@%p2 bra MORE;\n{STORE}ret;\nMORE:\n"
    assert counted(f"LOOP:\n{out}@%p1 bra LOOP;\nret;")["tensor_stores"] == {2: 1}
    assert "unawaited_store_loops" not in counted(f"LOOP:\n{out}@%p1 bra LOOP;\nret;")
    out = f"@%p2 bra MORE;\n{WAIT}ret;\nMORE:\n"
    assert counted(f"LOOP:\n{out}{STORE}@%p1 bra LOOP;\nret;")["unawaited_store_loops"] == 1


def test_a_branch_back_need_not_close_a_loop():
    assert "unawaited_store_loops" not in counted(f"bra B;\nA:\n{STORE}ret;\nB:\nbra A;")


def test_each_of_two_nested_loops_needs_its_wait():
    inner = f"INNER:\n{STORE}@%p1 bra INNER;\n"
    assert counted(f"OUTER:\n{inner}{WAIT}@%p2 bra OUTER;")["unawaited_store_loops"] == 1
    assert counted(f"OUTER:\n{inner}@%p2 bra OUTER;")["unawaited_store_loops"] == 2


@pytest.mark.parametrize(
    "ptx, counts",
    [
        ("mov.u32 %r2, 4; mov.u32 %r2, 8; mbarrier.init.shared.b64 [%r1], %r2;", {8: 1}),
        ("mov.u32 %r2, 4; mbarrier.init.shared.b64 [%r1], %r2; mov.u32 %r2, 8;", {4: 1}),
        ("mov.u32 %r2, 4; mov.u32 %r2, %r3; mbarrier.init.shared.b64 [%r1], %r2;", {}),
        ("mov.b32 n, 2; mbarrier.init.shared.b64 [%r1], n;", {2: 1}),
        ("{ .reg .b32 n; mov.b32 n, 3; } mbarrier.init.shared.b64 [%r1], n;", {}),
    ],
)
def test_arrivals_that_an_mbarrier_expects(ptx, counts):
    assert read_ptx(in_kernel(".reg .b32 n;\n" + ptx)).mbarrier_counts == counts


@pytest.mark.parametrize(
    "ptx, expected",
    [
        ("ld.volatile.global.f32 %f1, [%rd1];", {"global_loads": 1}),
        ("ld.acquire.gpu.global.u32 %r1, [%rd1];", {"global_loads": 1}),
        ("st.relaxed.gpu.global.u32 [%rd1], %r1;", {"global_stores": 1}),
        ("st.volatile.shared.u32 [%r1], %r2; ld.local.u32 %r1, [%rd1];", {}),
    ],
)
def test_a_qualifier_may_stand_before_the_state_space(ptx, expected):
    assert counted(ptx) == expected


CALL = (
    "{ .param .b32 given; .param .b32 taken; st.param.b32 [given], %r1;\n"
    "call.uni (taken), helper, (given); ld.param.b32 %r2, [taken]; }\n"
)


def test_what_the_emulator_does_not_model_counts_too():
    other = (
        "table: .branchtargets LEFT, RIGHT;\nbrx.idx %r1, table;\nLEFT:\nRIGHT:\n"
        "frobnicate.b32 %r1, 4*3;\n.reg .v4 .f32 v;\nst.shared.f32 [%r1+2*8], v.x;\n"
    )
    assert counted(CALL + other + EXACT) == ONE_INIT
    receipt = read_ptx(in_kernel(CALL + other + EXACT))
    assert (receipt.instructions, receipt.opcodes) == (6, 6)


def test_functions_count_with_the_kernel_and_other_kernels_do_not():
    helper = (
        ".func (.param .b32 r) helper(.param .b32 n)\n{ .reg .b32 %r<9>; mov.b32 %r1, 5;\n"
        "mbarrier.init.shared.b64 [%r2], %r1; ret; }\n"
    )
    both = {"mbarrier_inits": 2, "mbarrier_counts": {1: 1, 5: 1}}
    assert counted(helper + in_kernel(CALL + EXACT)) == both
    assert counted(in_kernel(CALL + EXACT) + helper) == both
    declared = ".func (.param .b32 r) helper(.param .b32 n);\n"
    assert counted(declared + in_kernel(CALL + EXACT)) == ONE_INIT
    two = in_kernel("bar.sync 0;") + in_kernel(EXACT).replace("main_kernel", "other")
    assert counted(two) == {"cta_barriers": 1}
    assert read_ptx(two, "other").mbarrier_inits == 1 and read_ptx(two, "main_kernel").mbarrier_inits == 0
    assert read(parse(two, "other")) == read_ptx(two, "other")


@pytest.mark.parametrize("ptx", ["", "not PTX", EXACT, ".visible .entry k()", ".visible .entry k() { ret;"])
def test_no_kernel_is_an_error(ptx):
    with pytest.raises(PtxError):
        read_ptx(ptx)


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
