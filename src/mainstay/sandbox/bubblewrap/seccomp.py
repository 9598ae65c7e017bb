"""Seccomp filter: a BPF program that denies system calls which sandboxed commands do not need."""

from __future__ import annotations

import platform
import struct
from functools import cache

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NR, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in seccomp_data; of arguments: the lower half
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # ioctls that inject terminal input
# Unix, IPv4, IPv6, netlink (which lists interfaces). Others reach beyond the network namespace (AF_VSOCK: the host of a
# virtual machine) or lead to rarely tested code of the kernel.
_SOCKET_FAMILIES = (1, 2, 10, 16)
_X32_BIT = 0x40000000  # x32

# Keyrings, mounts, kernel modules, kernel tracing. Newer calls have the same number on every machine.
_DENIED_NAMES = (
    *("add_key", "request_key", "keyctl", "mount", "umount2", "pivot_root", "swapon", "swapoff", "reboot"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "bpf", "perf_event_open"),
    *("userfaultfd", "open_by_handle_at", "setns", "acct", "quotactl"),
)
_DENIED_EVERYWHERE = (428, 429, 430, 431, 432, 433, 442)  # open_tree, move_mount, fsopen … mount_setattr
_IO_URING = (425, 426, 427)  # io_uring: programs work without it
_X86_64 = (248, 249, 250, 165, 166, 155, 167, 168, 169, 175, 313, 176, 246, 320, 321, 298, 323, 304, 308, 163, 179)
_AARCH64 = (217, 218, 219, 40, 39, 41, 224, 225, 142, 105, 273, 106, 104, 294, 280, 241, 282, 265, 268, 89, 60)
_MACHINES = {
    "x86_64": (0xC000003E, dict(zip(_DENIED_NAMES, _X86_64, strict=True)), 16, (41, 53)),
    "aarch64": (0xC00000B7, dict(zip(_DENIED_NAMES, _AARCH64, strict=True)), 29, (198, 199)),
}


@cache
def build_filter(machine: str = "") -> bytes:
    """Build the filter for `bwrap --seccomp`; empty if the machine's system call numbers are not known."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    arch, numbers, ioctl, sockets = known
    denied = [*numbers.values(), *_DENIED_EVERYWHERE]
    checks = [(_AT_LEAST, _X32_BIT, "eperm"), *((_EQUAL, number, "eperm") for number in denied)]
    checks += [*((_EQUAL, number, "enosys") for number in _IO_URING), (_EQUAL, ioctl, "ioctl")]
    checks += [(_EQUAL, number, "socket") for number in sockets]
    head = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _ERRNO | EPERM), (_LOAD, 0, 0, _NR)]
    tail = [
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),  # ioctl
        (_EQUAL, 2, 0, _TIOCSTI),
        (_EQUAL, 1, 0, _TIOCLINUX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | EPERM),
        (_RETURN, 0, 0, _ERRNO | ENOSYS),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),  # socket and socketpair
        *((_EQUAL, len(_SOCKET_FAMILIES) - at, 0, family) for at, family in enumerate(_SOCKET_FAMILIES)),
        (_RETURN, 0, 0, _ERRNO | EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    targets = {"ioctl": 1, "eperm": 5, "enosys": 6, "socket": 7}
    body = [
        (code, len(checks) - index - 1 + targets[target], 0, value)
        for index, (code, value, target) in enumerate(checks)
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in (*head, *body, *tail))
