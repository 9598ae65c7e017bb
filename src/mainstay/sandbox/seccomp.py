"""A short list of system calls that nothing in a sandbox needs, as the kernel's filter program."""

from __future__ import annotations

import platform
import struct
from functools import cache

EPERM, ENOSYS = 1, 38
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NR, _ARCH, _SECOND = 0, 4, 24  # offsets in seccomp_data; of the second argument the lower half
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # typing into a terminal
_OTHER_NUMBERS = 0x40000000  # x32

# Keys of the owner's session, mounts, modules, tracing of the kernel; newer ones have one number everywhere.
_NAMES = (
    *("add_key", "request_key", "keyctl", "mount", "umount2", "pivot_root", "swapon", "swapoff", "reboot"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "bpf", "perf_event_open"),
    *("userfaultfd", "open_by_handle_at", "setns", "acct", "quotactl"),
)
_EVERYWHERE = (428, 429, 430, 431, 432, 433, 442)  # open_tree, move_mount, fsopen … mount_setattr
_RING = (425, 426, 427)  # io_uring: programs do without where there is none
_X86_64 = (248, 249, 250, 165, 166, 155, 167, 168, 169, 175, 313, 176, 246, 320, 321, 298, 323, 304, 308, 163, 179)
_AARCH64 = (217, 218, 219, 40, 39, 41, 224, 225, 142, 105, 273, 106, 104, 294, 280, 241, 282, 265, 268, 89, 60)
_MACHINES = {
    "x86_64": (0xC000003E, dict(zip(_NAMES, _X86_64, strict=True)), 16),
    "aarch64": (0xC00000B7, dict(zip(_NAMES, _AARCH64, strict=True)), 29),
}


@cache
def program(machine: str = "") -> bytes:
    """For `bwrap --seccomp`; empty where we do not know the machine's numbers."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    arch, numbers, ioctl = known
    denied = [*numbers.values(), *_EVERYWHERE]
    checks = [(_AT_LEAST, _OTHER_NUMBERS, "eperm"), *((_EQUAL, number, "eperm") for number in denied)]
    checks += [*((_EQUAL, number, "enosys") for number in _RING), (_EQUAL, ioctl, "ioctl")]
    head = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _ERRNO | EPERM), (_LOAD, 0, 0, _NR)]
    tail = [
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _SECOND),  # ioctl
        (_EQUAL, 2, 0, _TIOCSTI),
        (_EQUAL, 1, 0, _TIOCLINUX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | EPERM),
        (_RETURN, 0, 0, _ERRNO | ENOSYS),
    ]
    places = {"ioctl": 1, "eperm": 5, "enosys": 6}
    body = [
        (code, len(checks) - index - 1 + places[target], 0, value) for index, (code, value, target) in enumerate(checks)
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in (*head, *body, *tail))
