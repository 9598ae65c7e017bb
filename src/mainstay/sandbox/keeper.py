"""Stands over one command and everything that comes of it, until the last of it is gone.

A program of its own: its text is handed to a bare interpreter, so it imports nothing of ours and little of anyone's. In
a namespace of its own it is process 1; elsewhere whatever loses its parent becomes its child. Either way nothing that
the command starts gets away from it, and it is gone itself when whoever started it is: their end of `control` closes.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import sys
import time

LINUX = sys.platform == "linux"
HUP, INT, KILL, PIPE, TERM, XFSZ = 1, 2, 9, 13, 15, 25  # `signal` would load enum: a third of our start
STOP = 19 if LINUX else 17
KILLED = 128 + KILL
FIRST_LOOK_S, LAST_LOOK_S = 0.04, 0.4  # a bomb is found soon, and a quiet server costs nothing

# Landlock: what writes. Reading is what the mounts are for.
WRITE_FILE, TRUNCATE, REFER = 1 << 1, 1 << 14, 1 << 13
MAKE_DEVICES = 1 << 6 | 1 << 11
WRITES = WRITE_FILE | sum(1 << bit for bit in range(4, 13)) | REFER


class Order:
    """What is to be done, and within which bounds."""

    def __init__(
        self, control: int, limits: dict[int, int], writable: list[str], bounds: tuple[int, int, int, str]
    ) -> None:
        self.control = control
        self.limits = limits  # for setrlimit
        self.writable = writable  # for Landlock; empty: no second wall
        self.processes, self.memory, self.disk_free, self.disk = bounds  # and memory and disk in bytes


def stand(order: Order, words: list[str]) -> None:
    """Run `words` within the order's bounds; never returns."""
    control = order.control
    if LINUX:
        libc = ctypes.CDLL(None)
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the command cannot look into us
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    ignore(HUP, INT, TERM, PIPE)
    begun, word = os.pipe()  # both are closed by the command's own exec
    child = os.fork()
    if child == 0:
        os.close(control)
        become(order, words)
    os.close(word)
    os.read(begun, 1)  # until it is what it is to become: before, it would miss a polite signal
    os.close(begun)
    say(control, b"S")
    stderr = os.dup(2)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the command's own: they end when it does
        os.dup2(nothing, standard)
    code, sentence = KILLED, ""
    try:
        code, sentence = watch(order, child)
    finally:
        if os.getpid() != 1:  # the end of process 1 is the end of all
            end_all(child)
        if sentence:
            say(stderr, f"[ended: {sentence}]\n".encode())
        os._exit(code)


def say(file: int, data: bytes) -> None:
    try:
        os.write(file, data)
    except OSError:  # nobody listens any more
        pass


def ignore(*numbers: int) -> None:
    import _signal  # type: ignore[import-not-found]

    for number in numbers:
        _signal.signal(number, _signal.SIG_IGN)


def become(order: Order, words: list[str]) -> None:
    import _signal

    try:
        os.setsid()
        for number in (HUP, INT, TERM, PIPE, XFSZ):  # Python ignores some, and so would the command
            _signal.signal(number, _signal.SIG_DFL)
        for kind, most in order.limits.items():
            bound(kind, most)
        if order.writable:
            fence(order.writable)
        os.execv(words[0], words)
    except OSError as trouble:
        os.write(2, f"[it could not be started: {trouble}]\n".encode())
    finally:
        os._exit(126)


def bound(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def fence(writable: list[str]) -> None:
    """A second wall, inside of the mounts: writing only where it is meant, no talking to abstract sockets outside.

    Nothing happens where the kernel has no Landlock, or one that forbids renaming between folders.
    """
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    version = call(ctypes.c_long(444), None, ctypes.c_long(0), ctypes.c_long(1))
    if version < 2:
        return
    handled = WRITES | (TRUNCATE if version >= 3 else 0)
    form = handled.to_bytes(8, sys.byteorder)
    if version >= 6:
        form += bytes(8) + (3).to_bytes(8, sys.byteorder)  # no ports; both scopes: abstract sockets, signals
    rules = call(ctypes.c_long(444), form, ctypes.c_long(len(form)), ctypes.c_long(0))
    if rules < 0:
        return
    places = [(path, handled & ~MAKE_DEVICES) for path in writable]
    for path, rights in [*places, ("/dev", handled & (WRITE_FILE | TRUNCATE)), ("/proc", WRITE_FILE)]:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rule = rights.to_bytes(8, sys.byteorder) + folder.to_bytes(4, sys.byteorder)
        call(ctypes.c_long(445), ctypes.c_long(rules), ctypes.c_long(1), rule, ctypes.c_long(0))
        os.close(folder)
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    call(ctypes.c_long(446), ctypes.c_long(rules), ctypes.c_long(0))
    os.close(rules)


def watch(order: Order, child: int) -> tuple[int, str]:
    """The command's exit code, and why it was ended, if it was."""
    control, pause = order.control, FIRST_LOOK_S
    poll = select.poll()
    poll.register(control, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(child), select.POLLIN)
    roomy = free(order) > order.disk_free
    looked = time.monotonic()
    while True:
        said = [file for file, _ in poll.poll(int(pause * 1000) + 1 if LINUX else 20)]
        code = reap(child)
        if code is not None:
            return code, ""
        if control in said:
            if gone(control):  # they are dead, or have lost patience
                return KILLED, ""
            tell(TERM)
        if time.monotonic() - looked < pause:
            continue
        if sentence := too_much(order, roomy):
            return KILLED, sentence
        pause, looked = min(pause * 1.5, LAST_LOOK_S), time.monotonic()


def gone(control: int) -> bool:
    try:
        return not os.read(control, 16)
    except OSError:  # gone without having read what we said
        return True


def reap(child: int) -> int | None:
    """Takes leave of all who are gone; the command's exit code, if it is."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def too_much(order: Order, roomy: bool) -> str:
    pids = family(order.processes + 1)
    if len(pids) > order.processes:
        return f"more than {order.processes} processes ran at once"
    if sum(map(memory, pids)) + shared() > order.memory:
        return f"it used more than {order.memory >> 20} MB of memory"
    if roomy and free(order) < order.disk_free:
        return f"less than {order.disk_free >> 20} MB are left on the disk"
    return ""


def family(most: int = 1 << 30) -> list[int]:
    """All but us, or so many of them, parents before their children."""
    if os.getpid() == 1:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    found = [os.getpid()]
    if os.path.exists(f"/proc/{found[0]}/task/{found[0]}/children"):
        for pid in found:  # grows while it is walked
            found += children(pid)
            if len(found) > most:
                break
    else:
        pairs = parents()
        for pid in found:
            found += [one for one, parent in pairs if parent == pid and one not in found]
    return found[1:]


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    except OSError:  # it is gone
        pass
    return found


def parents() -> list[tuple[int, int]]:
    """Every process and its parent, for kernels that do not tell children."""
    import subprocess  # nobody else needs it, and it takes its time

    listed = subprocess.run(["ps", "-Ao", "pid=,ppid="], capture_output=True, check=False, text=True).stdout
    return [(int(pid), int(parent)) for pid, parent in map(str.split, listed.splitlines())]


def memory(pid: int) -> int:
    """Bytes that are its alone."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, common = file.read().split()[:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(common)) * resource.getpagesize()


def shared() -> int:
    """Bytes in segments that may be nobody's; in a namespace of our own all of them are the command's."""
    if os.getpid() != 1:
        return 0
    try:
        with open("/proc/sysvipc/shm") as file:
            return sum(int(line.split()[14]) for line in file.readlines()[1:])
    except (OSError, ValueError, IndexError):
        return 0


def free(order: Order) -> int:
    try:
        found = os.statvfs(order.disk)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def tell(number: int) -> None:
    if os.getpid() == 1:
        signal_to(-1, number)
        return
    for pid in family():
        signal_to(pid, number)


def signal_to(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # gone, or not ours any more
        pass


def end_all(child: int) -> None:
    """Whoever stands still makes no more children; so all are stopped first, then ended."""
    pause = 0.001
    while True:
        signal_to(-child, KILL)  # its group is struck as one: not even a bomb is faster
        stopped: set[int] = set()
        while new := [pid for pid in family() if pid not in stopped]:
            for pid in new:
                signal_to(pid, STOP)
            stopped.update(new)
        for pid in stopped:
            signal_to(pid, KILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # nobody is left, for orphans would be ours
            return
        select.poll().poll(int(pause * 1000))
        pause = min(pause * 2, 0.05)
