"""The one door out of a sandbox without network: hands connections to a port of its own over to a socket of ours.

A program of its own: its text is laid beside the socket and run by a bare interpreter, so it imports nothing of ours.
It listens first, leaves a child behind that forwards, and then becomes the program it was started for. Whoever gets to
it inside of the sandbox can reach no more than through the socket, and what is behind that is decided outside.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

CONNECTIONS_MAX = 32
CHUNK = 64 * 1024
STACK_BYTES = 256 * 1024  # of a thread: whole ones would count against the program's memory


def main(path: str, port: int, words: list[str]) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=CONNECTIONS_MAX)
    if os.fork() == 0:
        try:
            forward(listener, path)
        finally:
            os._exit(0)
    listener.close()
    try:
        os.execvp(words[0], words)
    except OSError as error:
        print(f"{words[0]} cannot be started: {error.strerror}", file=sys.stderr)
        os._exit(127)


def forward(listener: socket.socket, path: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a program that is asked to end may still have something to say outside
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the program's own: they end when it does
        os.dup2(nothing, standard)
    threading.stack_size(STACK_BYTES)
    seats = threading.Semaphore(CONNECTIONS_MAX)
    while True:
        seats.acquire()
        inner, _ = listener.accept()
        threading.Thread(target=join, args=(inner, path, seats), daemon=True).start()


def join(inner: socket.socket, path: str, seats: threading.Semaphore) -> None:
    outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        outer.connect(path)
        back = threading.Thread(target=copy, args=(outer, inner), daemon=True)
        back.start()
        copy(inner, outer)
        back.join()
    except (OSError, RuntimeError):  # nobody is there any more, or no thread can be had
        pass
    finally:
        inner.close()
        outer.close()
        seats.release()


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one of them is gone, and so the other has nothing to wait for
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
