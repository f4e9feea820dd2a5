"""System calls that a sandbox refuses, as the filter that bubblewrap's --seccomp takes (seccomp(2), bpf(4)).

Those whose memory no process holds, so that nobody could count it; those that make or enter namespaces, with
which a process would be root again, in one of its own; and sockets, since not all of them end with the
network (vsock(7)). A pair of them is allowed, and counted: asyncio begins with one.

Some calls answer that all is well, and do nothing. A new session is a scheduling group of its own where the
system groups by sessions (sched(7), autogroup). A priority below the others', or one processor for all, would
make a process wait for as long as it likes, and look as if the machine were busy. Who ignores SIGCHLD has
children whose processor time is added to nobody's (wait(2)).
"""

from __future__ import annotations

import errno
import platform
import signal
import struct

CLONE_NEWUSER = 0x1000_0000  # clone(2)
X32 = 0x4000_0000  # numbers of x86-64's other calling convention begin there

# AUDIT_ARCH of linux/audit.h, then the numbers of asm/unistd.h
ARCHITECTURES = {
    "x86_64": (
        0xC000_003E,
        {
            "clone": 56, "clone3": 435, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166,
            "shmget": 29, "semget": 64, "msgget": 68, "add_key": 248, "request_key": 249, "keyctl": 250,
            "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425,
            "socket": 41, "setsid": 112, "rt_sigaction": 13, "setpriority": 141, "sched_setparam": 142,
            "sched_setscheduler": 144, "sched_setaffinity": 203, "sched_setattr": 314,
        },
    ),
    "aarch64": (
        0xC000_00B7,
        {
            "clone": 220, "clone3": 435, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39,
            "shmget": 194, "semget": 190, "msgget": 186, "add_key": 217, "request_key": 218, "keyctl": 219,
            "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "io_uring_setup": 425,
            "socket": 198, "setsid": 157, "rt_sigaction": 134, "setpriority": 140, "sched_setparam": 118,
            "sched_setscheduler": 119, "sched_setaffinity": 122, "sched_setattr": 274,
        },
    ),
}  # fmt: skip

IDLE = ("setsid", "setpriority", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
ASKED = ("clone", "clone3", "rt_sigaction")  # their arguments decide, as far as they can be seen

# instructions of bpf(4): load a word of struct seccomp_data; jump; return
LOAD, EQUAL, ABOVE, MASKED, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# offsets in seccomp_data: call, architecture, the lower half of the first argument, both of the second
NUMBER, ARCH, FIRST, SECOND, UPPER = 0, 4, 16, 24, 28
ALLOW, REFUSE = 0x7FFF_0000, 0x0005_0000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO


def filter_of(machine: str = platform.machine()) -> bytes:
    """The program for this kind of machine; empty for one that is not known here."""
    if machine not in ARCHITECTURES:
        return b""
    arch, numbers = ARCHITECTURES[machine]
    plain = [number for name, number in numbers.items() if name not in (*IDLE, *ASKED)]
    # each test goes on to the next line where it does not hold, and else to a line further down
    lines: list[tuple[int, int, str, str]] = [
        (LOAD, ARCH, "", ""),
        (EQUAL, arch, "", "refuse"),
        (LOAD, NUMBER, "", ""),
        (ABOVE, X32, "refuse", ""),
        *((EQUAL, number, "refuse", "") for number in plain),
        *((EQUAL, numbers[name], "nothing", "") for name in IDLE),
        (EQUAL, numbers["clone3"], "unknown", ""),  # its flags lie in memory; who is told so uses clone
        (EQUAL, numbers["rt_sigaction"], "action", ""),
        (EQUAL, numbers["clone"], "", "allow"),
        (LOAD, FIRST, "", ""),
        (MASKED, CLONE_NEWUSER, "refuse", "allow"),
    ]
    places = {"action": len(lines)}
    lines += [
        (LOAD, FIRST, "", ""),
        (EQUAL, signal.SIGCHLD, "", "allow"),
        (LOAD, SECOND, "", ""),  # no new action: it only asks
        (EQUAL, 0, "", "nothing"),
        (LOAD, UPPER, "", ""),
        (EQUAL, 0, "allow", "nothing"),
    ]
    ends = {
        "refuse": REFUSE | errno.EPERM,
        "unknown": REFUSE | errno.ENOSYS,
        "nothing": REFUSE,
        "allow": ALLOW,
    }
    places |= {name: len(lines) + at for at, name in enumerate(ends)}

    def jump(at: int, to: str) -> int:
        return places[to] - at - 1 if to else 0

    program = [(code, jump(at, yes), jump(at, no), k) for at, (code, k, yes, no) in enumerate(lines)]
    program += [(RETURN, 0, 0, value) for value in ends.values()]
    return b"".join(struct.pack("=HBBI", *line) for line in program)
