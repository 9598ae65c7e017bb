"""Supervisor process of one command: runs it, enforces limits, and kills its whole process tree at the end.

A separate program: its code is passed to a bare interpreter, so it imports nothing of this project and little of the
standard library. In its own PID namespace it is process 1; without one it is the subreaper, which adopts orphans.
Either way no descendant of the command escapes it. When the process that started it dies, that end of `control` closes,
and the supervisor kills everything and exits.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import sys
import time

LINUX = sys.platform == "linux"
# importing `signal` would load enum: a third of the start-up time
HUP, INT, KILL, PIPE, TERM, XFSZ = (1, 2, 9, 13, 15, 25)
STOP = 19 if LINUX else 17
KILLED_CODE = 128 + KILL
FIRST_CHECK_S, LAST_CHECK_S = 0.04, 0.4  # between checks: a fork bomb is found soon, and an idle server costs nothing

# Landlock rights that write. Reading is restricted by the mounts.
WRITE_FILE, TRUNCATE, REFER = 1 << 1, 1 << 14, 1 << 13
MAKE_DEVICES = 1 << 6 | 1 << 11
WRITES = WRITE_FILE | sum(1 << bit for bit in range(4, 13)) | REFER


class SupervisorTask:
    """The control socket and the limits of one command."""

    def __init__(
        self, control: int, limits: dict[int, int], writable: list[str], watched: tuple[int, int, int, str]
    ) -> None:
        self.control = control
        self.limits = limits  # for setrlimit
        self.writable = writable  # folders for Landlock; empty: Landlock is not used
        self.processes_max, self.memory_bytes_max, self.disk_free_bytes_min, self.disk_folder = (
            watched  # a count, bytes, bytes, and a path on the disk
        )


def supervise(task: SupervisorTask, argv: list[str]) -> None:
    """Run the command within its limits; never returns."""
    control = task.control
    if LINUX:
        libc = ctypes.CDLL(None)
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the command cannot read our memory
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    ignore_signals(HUP, INT, TERM, PIPE)
    exec_pipe, exec_pipe_end = os.pipe()  # both are closed by the exec of the command
    child = os.fork()
    if child == 0:
        os.close(control)
        exec_command(task, argv)
    os.close(exec_pipe_end)
    os.read(exec_pipe, 1)  # wait for the exec: a SIGTERM before it would be lost
    os.close(exec_pipe)
    write_quietly(control, b"S")
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # ours must not keep the command's streams open
        os.dup2(null, standard)
    code, sentence = KILLED_CODE, ""
    try:
        code, sentence = watch_command(task, child)
    finally:
        if os.getpid() != 1:  # when process 1 exits, the kernel kills the rest
            kill_descendants(child)
        if sentence:
            write_quietly(stderr, f"[ended: {sentence}]\n".encode())
        os._exit(code)


def write_quietly(file: int, data: bytes) -> None:
    try:
        os.write(file, data)
    except OSError:  # the reader is gone
        pass


def ignore_signals(*numbers: int) -> None:
    import _signal  # type: ignore[import-not-found]

    for number in numbers:
        _signal.signal(number, _signal.SIG_IGN)


def exec_command(task: SupervisorTask, argv: list[str]) -> None:
    import _signal

    try:
        os.setsid()
        for number in (HUP, INT, TERM, PIPE, XFSZ):  # Python ignores some of these, and the command would inherit that
            _signal.signal(number, _signal.SIG_DFL)
        for kind, most in task.limits.items():
            set_limit(kind, most)
        if task.writable:
            restrict_writes(task.writable)
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"[it could not be started: {error}]\n".encode())
    finally:
        os._exit(126)


def set_limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def restrict_writes(writable: list[str]) -> None:
    """Restrict writes to these folders, and abstract sockets and signals to the sandbox, with Landlock.

    A second layer besides the mounts. Does nothing where the kernel has no Landlock, or only version 1, which forbids
    renaming between folders.
    """
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    version = call(ctypes.c_long(444), None, ctypes.c_long(0), ctypes.c_long(1))
    if version < 2:
        return
    handled = WRITES | (TRUNCATE if version >= 3 else 0)
    ruleset = handled.to_bytes(8, sys.byteorder)
    if version >= 6:
        ruleset += bytes(8) + (3).to_bytes(8, sys.byteorder)  # no ports; both scopes: abstract sockets, signals
    ruleset_fd = call(ctypes.c_long(444), ruleset, ctypes.c_long(len(ruleset)), ctypes.c_long(0))
    if ruleset_fd < 0:
        return
    grants = [(path, handled & ~MAKE_DEVICES) for path in writable]
    for path, rights in [*grants, ("/dev", handled & (WRITE_FILE | TRUNCATE)), ("/proc", WRITE_FILE)]:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rule = rights.to_bytes(8, sys.byteorder) + folder.to_bytes(4, sys.byteorder)
        call(ctypes.c_long(445), ctypes.c_long(ruleset_fd), ctypes.c_long(1), rule, ctypes.c_long(0))
        os.close(folder)
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    call(ctypes.c_long(446), ctypes.c_long(ruleset_fd), ctypes.c_long(0))
    os.close(ruleset_fd)


def watch_command(task: SupervisorTask, child: int) -> tuple[int, str]:
    """Wait for the command; return its exit code, and which limit ended it (empty: none)."""
    control, pause = task.control, FIRST_CHECK_S
    poll = select.poll()
    poll.register(control, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(child), select.POLLIN)
    had_space = free_disk_bytes(task) > task.disk_free_bytes_min
    checked_at = time.monotonic()
    while True:
        ready = [file for file, _ in poll.poll(int(pause * 1000) + 1 if LINUX else 20)]
        code = reap_children(child)
        if code is not None:
            return code, ""
        if control in ready:
            if is_closed(control):  # the other end was closed, or its process died
                return KILLED_CODE, ""
            signal_descendants(TERM)
        if time.monotonic() - checked_at < pause:
            continue
        if sentence := find_exceeded_limit(task, had_space):
            return KILLED_CODE, sentence
        pause, checked_at = min(pause * 1.5, LAST_CHECK_S), time.monotonic()


def is_closed(control: int) -> bool:
    try:
        return not os.read(control, 16)
    except OSError:  # closed with unread data from us
        return True


def reap_children(child: int) -> int | None:
    """Reap every exited child; return the command's exit code if it is among them."""
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


def find_exceeded_limit(task: SupervisorTask, had_space: bool) -> str:
    pids = list_descendants(task.processes_max + 1)
    if len(pids) > task.processes_max:
        return f"more than {task.processes_max} processes ran at once"
    if sum(map(private_memory_bytes, pids)) + shared_memory_bytes() > task.memory_bytes_max:
        return f"it used more than {task.memory_bytes_max >> 20} MB of memory"
    if had_space and free_disk_bytes(task) < task.disk_free_bytes_min:
        return f"less than {task.disk_free_bytes_min >> 20} MB are left on the disk"
    return ""


def list_descendants(count_max: int = 1 << 30) -> list[int]:
    """Return the ids of all descendants, parents before children; stops after about `count_max`."""
    if os.getpid() == 1:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    pids = [os.getpid()]
    if os.path.exists(f"/proc/{pids[0]}/task/{pids[0]}/children"):
        for pid in pids:  # the list grows during the loop
            pids += list_children(pid)
            if len(pids) > count_max:
                break
    else:
        parent_pairs = list_parents()
        for pid in pids:
            pids += [child_pid for child_pid, parent in parent_pairs if parent == pid and child_pid not in pids]
    return pids[1:]


def list_children(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                pids += map(int, file.read().split())
    except OSError:  # it has exited
        pass
    return pids


def list_parents() -> list[tuple[int, int]]:
    """Return every process with its parent, for kernels that do not list children."""
    import subprocess  # only needed here, and slow to import

    listed = subprocess.run(["ps", "-Ao", "pid=,ppid="], capture_output=True, check=False, text=True).stdout
    return [(int(pid), int(parent)) for pid, parent in map(str.split, listed.splitlines())]


def private_memory_bytes(pid: int) -> int:
    """Return the resident bytes that a process does not share."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, common = file.read().split()[:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(common)) * resource.getpagesize()


def shared_memory_bytes() -> int:
    """Return the bytes of System V shared memory; 0 outside of our own namespace, where it may be other programs'."""
    if os.getpid() != 1:
        return 0
    try:
        with open("/proc/sysvipc/shm") as file:
            return sum(int(line.split()[14]) for line in file.readlines()[1:])
    except (OSError, ValueError, IndexError):
        return 0


def free_disk_bytes(task: SupervisorTask) -> int:
    try:
        filesystem = os.statvfs(task.disk_folder)
    except OSError:
        return 0
    return filesystem.f_bavail * filesystem.f_frsize


def signal_descendants(number: int) -> None:
    if os.getpid() == 1:
        send_signal(-1, number)
        return
    for pid in list_descendants():
        send_signal(pid, number)


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it has exited, or belongs to another user
        pass


def kill_descendants(child: int) -> None:
    """Kill all descendants. All are stopped first, because a stopped process forks no more children."""
    pause = 0.001
    while True:
        send_signal(-child, KILL)  # the process group at once: no fork bomb is faster
        stopped: set[int] = set()
        while new := [pid for pid in list_descendants() if pid not in stopped]:
            for pid in new:
                send_signal(pid, STOP)
            stopped.update(new)
        for pid in stopped:
            send_signal(pid, KILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # none is left, since orphans become our children
            return
        select.poll().poll(int(pause * 1000))
        pause = min(pause * 2, 0.05)
