"""The server process of a local model: llama.cpp's own HTTP server, on loopback, for as long as its parent runs.

    python -P -m mainstay.providers.local.server

It reads its settings as one line of JSON from standard input and replies with one line on standard output: its URL, or
what is wrong. After that, every `b` on its input begins a request and every `e` ends one, and it exits after an idle
time. It exits at once when its input ends, which happens whenever its parent ends. It imports nothing else of Mainstay,
and reads only the weights and the prompt cache.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from typing import Any

PARENT_CHECK_S = 2.0  # between two checks that the parent is alive
NICENESS = 5  # lower priority than its clients
CACHE_MB = 512  # memory for the states of several conversations, so that switching needs no rereading
BATCH_TOKENS = 128  # tokens read at once; a cancelled request is noticed between two batches


def main() -> None:
    reply_fd = os.dup(1)
    os.dup2(2, 1)  # the library may print, which must not mix with the reply
    parent = os.getppid()
    try:
        with open(0, "rb", buffering=0, closefd=False) as stdin:
            settings = json.loads(stdin.readline())
        threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
        os.nice(NICENESS)
        server = start_llama_server(settings)
        reply = {"url": server.listening_address}
    except Exception as error:  # the library may raise anything; the parent waits for a reply
        _write_reply(reply_fd, {"missing": error.name} if isinstance(error, ImportError) else {"error": str(error)})
        os._exit(1)
    _write_reply(reply_fd, reply)
    devnull = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(devnull, fd)  # the parent does not read the output any more
    _wait_until_idle(float(settings["idle_s"]))
    os._exit(0)  # at once: there is nothing to finish and nothing to save


def start_llama_server(settings: dict[str, Any]) -> Any:
    """Load the model and return the running server; blocks until it is loaded."""
    import xllamacpp  # type: ignore[import-untyped]  # a library of 100 MB

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.n_ctx = settings["tokens"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = CACHE_MB
    params.slot_save_path = settings["states"] + os.sep
    params.no_extra_bufts = not settings["roomy"]
    params.fit_params = params.warmup = params.ui = params.ctx_shift = False
    params.verbosity = 1
    return xllamacpp.Server(params)


def _wait_until_idle(idle_s: float) -> None:
    """Return when the input ends, or after `idle_s` without a request."""
    open_requests, idle_since = 0, time.monotonic()
    while True:
        left = idle_s - (time.monotonic() - idle_since) if not open_requests else PARENT_CHECK_S
        if left <= 0:
            return
        if select.select([0], [], [], left)[0]:
            data = os.read(0, 4096)
            if not data:
                return
            open_requests += data.count(b"b") - data.count(b"e")
            idle_since = time.monotonic()


def _watch_parent(parent: int) -> None:
    """Exit when the parent has ended, in case another process holds the input pipe open by mistake."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(0)


def _write_reply(fd: int, answer: dict[str, Any]) -> None:
    os.write(fd, json.dumps(answer).encode() + b"\n")
    os.close(fd)


if __name__ == "__main__":
    main()
