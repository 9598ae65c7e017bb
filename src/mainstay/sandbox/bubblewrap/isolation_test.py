"""The program that tries, in the sandbox, what no command may do. `doctor` runs it.

It is run by a bare interpreter, with the writable folder and a folder outside as its arguments. The last line of its
error output is a sentence about what it could do.
"""

from __future__ import annotations

ISOLATION_TEST = r"""
import os, sys
writable, outside = sys.argv[1:]

def can_write(path, flags=os.O_WRONLY):
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True

def find_problem():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
    for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"):
        if int(status[name], 16):
            return f"a command has capabilities ({name})"
    if status["NoNewPrivs"].strip() != "1":
        return "a command can gain privileges (no_new_privs is not set)"
    for start in ("/proc/sys", "/sys"):
        for folder, folders, names in os.walk(start):
            for name in names:
                if can_write(f"{folder}/{name}"):
                    return f"a command can write {folder}/{name}"
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    for folder in (outside, "/", "/etc", "/usr", "/usr/bin", "/opt", "/var", "/run", "/dev", "/proc", "/home", "/root"):
        if can_write(f"{folder}/.mainstay-probe", new):
            return f"a command can write to {folder}"
    if not can_write(f"{writable}/.mainstay-probe", new):
        return "a command cannot write to its own folder"
    try:
        import _socket
        _socket.socket(40, 1, 0)
    except ImportError:
        pass
    except OSError:
        pass
    else:
        return "a command can open sockets to the host of this virtual machine (AF_VSOCK)"
    return ""

problem = find_problem()
if problem:
    sys.exit(problem)
"""
