"""printf in the emulator: formats as C has them, many lanes, and what fits no format."""

import struct

import pytest

from course_utils.compile.factory import compile_factory
from course_utils.compile.load import plant
from course_utils.run.emulator import EmulatorError
from course_utils.run.emulator.launch import emulated
from course_utils.run.emulator.units import printf
from tests.run.emulator.kernels import kernel
from tests.run.emulator.test_findings import run


def prints(text, *arguments, threads=1, slots=4):
    """A kernel of ``threads`` that prints ``arguments``, 64-bit words of its buffer."""
    data = ", ".join(str(byte) for byte in text.encode())
    stores = "".join(f"st.local.b64 [%rd2+{8 * i}], {value};\n" for i, value in enumerate(arguments))
    body = f"""
mov.u32 %r0, %tid.x;
mov.b64 %rd2, depot;
cvta.local.u64 %rd3, %rd2;
{stores}{{
.param .b64 param0;
.param .b64 param1;
.param .b32 retval0;
mov.b64 %rd4, format;
cvta.global.u64 %rd5, %rd4;
st.param.b64 [param0+0], %rd5;
st.param.b64 [param1+0], %rd3;
call.uni (retval0), vprintf, (param0, param1);
ld.param.b32 %r9, [retval0+0];
}}
"""
    made = kernel(body, threads=threads, static=f".local .align 8 .b8 depot[{8 * slots}];")
    heading = f".global .align 1 .b8 format[{len(text.encode()) + 1}] = {{{data}}};\n.extern .shared"
    ptx = made.ptx.replace(".extern .shared", heading, 1)
    return run(type(made)(**{**made.__dict__, "ptx": ptx})).printed


DOUBLE = int.from_bytes(struct.pack("<d", 1.5), "little")


@pytest.mark.parametrize(
    "text, arguments, said",
    [
        ("plain\n", (), "plain\n"),
        ("%d %u|", (-3 % 2**32 + (7 << 32),), "-3 7|"),
        ("%5d|%-5d|%05d", (1 + (2 << 32), 3), "    1|2    |00003"),
        ("%f %.1e %g", (DOUBLE,) * 3, "1.500000 1.5e+00 1.5"),
        ("%lld %llu %lx", (2**64 - 1, 2**64 - 1, 255), "-1 18446744073709551615 ff"),
        ("%x %X %o %c %%", (255 + (171 << 32), 8 + (65 << 32)), "ff AB 10 A %"),
        ("%hd %hhu", (0xFFFF + (0x1FF << 32),), "-1 255"),
        ("%p", (4096,), "0x1000"),
        ("%s", (0,), "(null)"),
        ("%s", (12345,), "(no string)"),
        ("%*d", (4 + (7 << 32),), "   7"),
        ("%q %k %", (), "%q %k %"),  # conversions that C does not have
        ("%d", (1, 2, 3), "1"),  # more arguments than wanted
        ("%d %d %d", (1 + (2 << 32),), None),  # fewer: what the buffer holds, and no fault
        ("%s%llx" * 12, (), None),  # past the end of the thread's memory
        ("%99999999d", (1,), " " * 1023 + "1"),
        ("é%d", (5,), "é5"),
    ],
)
def test_conversions(text, arguments, said):
    printed = prints(text, *arguments)
    assert printed == said if said is not None else printed.startswith("1 2 ") or printed.endswith("?")


def test_each_lane_prints_and_the_rest_is_counted():
    assert prints("x\n", threads=32) == "x\n" * 32
    long = prints("y" * 99 + "\n", threads=128)
    assert long.count("\n") == 41 and long.endswith("... and 88 more lines\n")
    assert len(long) <= printf.LIMIT + 40


def test_another_function_than_vprintf_is_refused():
    for body in ("call.uni (%r1), printf, (%r2);", "call.uni malloc, (%rd1, %rd2);", "call.uni vprintf;"):
        with pytest.raises(EmulatorError, match="PTX line .*not modelled"):
            run(kernel(body + "\n"))


def test_constants_are_read_and_what_is_none_is_zero():
    data, places = printf.constants(
        ".global .align 4 .u32 n = 7;\n.global .align 1 .b8 s[4] = {72, 105};\n.visible .global .u64 p = other;\n"
        ".global .texref t;\n"
    )
    assert places == {"n": 0, "s": 4, "p": 8} and data[:6].tobytes() == b"\7\0\0\0Hi"
    assert not data[8:].any()


@pytest.mark.parametrize(
    "dsl, after, line, said",
    [
        (
            "tilelang",
            "            m, n = by * block_M, bx * block_N\n",
            "            if T.get_thread_binding() == 0:\n                T.print(by, msg='by')\n",
            "msg='by' BlockIdx=(0, 0, 0), ThreadIdx=(0, 0, 0): dtype=int value=0\n",
        ),
        (
            "cute",
            "        smem = SmemAllocator()\n",
            "        if thread == 3:\n            cute.printf('thread {} of %d, %f', thread, 128, 1.5)\n",
            "thread 3 of 128, 1.500000",
        ),
    ],
)
def test_what_each_dsl_prints(dsl, after, line, said):
    import torch

    artifact = compile_factory(plant("step04", dsl, (after, after + line)), dsl, (128, 128, 64))
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(0), 0)
    assert said in emulation.printed and emulation.ok and tried.ok
