"""TCP-to-unix-socket forwarder: the only network path out of a sandbox, from a local port to the egress proxy's socket.

A program of its own: its source is copied beside the socket and run by the base interpreter, so it imports nothing of
this package. It listens, forks a child that forwards, and then executes the program it was started for. A process in
the sandbox that connects to it reaches only the socket; the egress proxy outside decides what that may reach.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

CONNECTIONS_MAX = 32
CHUNK_BYTES = 64 * 1024
STACK_BYTES = 256 * 1024  # of a thread: default stacks would count against the program's memory limit


def main(socket_path: str, port: int, argv: list[str]) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=CONNECTIONS_MAX)
    if os.fork() == 0:
        try:
            forward_connections(listener, socket_path)
        finally:
            os._exit(0)
    listener.close()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]} cannot be started: {error.strerror}", file=sys.stderr)
        os._exit(127)


def forward_connections(listener: socket.socket, socket_path: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a program that is being stopped may still need the network
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # the program's own, which must close when it exits
        os.dup2(null, descriptor)
    threading.stack_size(STACK_BYTES)
    permits = threading.Semaphore(CONNECTIONS_MAX)
    while True:
        permits.acquire()
        inner, _ = listener.accept()
        threading.Thread(target=forward_connection, args=(inner, socket_path, permits), daemon=True).start()


def forward_connection(client: socket.socket, socket_path: str, permits: threading.Semaphore) -> None:
    outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        outer.connect(socket_path)
        back = threading.Thread(target=copy_stream, args=(outer, client), daemon=True)
        back.start()
        copy_stream(client, outer)
        back.join()
    except (OSError, RuntimeError):  # the proxy is closed, or no thread could be started
        pass
    finally:
        client.close()
        outer.close()
        permits.release()


def copy_stream(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one side has closed, so the other need not wait
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
