"""The normal form of a kernel: what it forgets, and what it tells apart."""

import pytest

from course_utils.ptx.form import form
from course_utils.ptx.parser import PtxError

KERNEL = """
.version 8.8
.target sm_90a
.address_size 64
.shared .align 16 .b8 tiles[1024];
.visible .entry main(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tiles;
    shl.b32 %r3, %r1, 2;
    add.s32 %r4, %r2, 512;
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra DONE;
    st.shared.b32 [%r4+16], %r3;
DONE:
    st.global.b32 [%rd1], %r4;
    ret;
}
"""


def edited(*edits):
    text = KERNEL
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "edits",
    [
        [("%r3", "%r7"), ("%p1", "%p2")],
        [(".reg .b32 %r<9>;", ".reg .b32 %value<9>;"), ("%r1", "%value1"), ("%r2", "%value2"),
         ("%r3", "%value3"), ("%r4", "%value4")],
        [("DONE", "$L__BB0_2")],
        [("tiles", "ring"), (" main(", " kernel_of_bob("), ("out", "bob")],
        [("    shl.b32 %r3, %r1, 2;\n    add.s32 %r4, %r2, 512;\n",
          "    add.s32 %r4, %r2, 512;\n    shl.b32 %r3, %r1, 2;\n")],
        [("    mov.u32 %r1,", '    .loc 1 12 3 // line 12\n    mov.u32 %r1,'),
         (".address_size 64", '.address_size 64\n.file 1 "bob.py"')],
    ],
    ids=["numbers", "names", "labels", "symbols", "order", "lines"],
)  # fmt: skip
def test_names_order_and_lines_are_no_part_of_it(edits):
    assert form(edited(*edits)) == form(KERNEL)


@pytest.mark.parametrize(
    "old, new",
    [
        ("%r1, 2;", "%r1, 3;"),
        ("add.s32", "sub.s32"),
        ("st.global.b32", "st.global.wt.b32"),
        ("%tid.x", "%tid.y"),
        ("[%r4+16]", "[%r4+32]"),
        ("@%p1", "@!%p1"),
        ("    ret;", "    bar.sync 0;\n    ret;"),
    ],
)
def test_what_a_kernel_does_is(old, new):
    assert form(edited((old, new))) != form(KERNEL)


def test_what_is_no_ptx_has_none():
    with pytest.raises(PtxError):
        form("")
