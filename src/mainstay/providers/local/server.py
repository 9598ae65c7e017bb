"""The process that runs a local model: llama.cpp's own server, on loopback, for as long as whoever started it is there.

    python -P -m mainstay.providers.local.server

It is told what to run by one line of JSON on its standard input, and answers with one on its standard output: where it
listens, or what is wrong. After that every `b` on its input begins a request and every `e` ends one: it goes by itself
when nothing was asked for a while. It goes at once when its input ends, which it does whatever happens to its parent.
Nothing of Mainstay is needed here, and nothing of the world but the weights.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from typing import Any

LOOK_S = 2.0  # between two looks at whether the parent is still ours
NICENESS = 5  # whoever talks to it goes first
CACHE_MB = 512  # of conversations that were interrupted by others, to be taken up where they were
BATCH = 128  # tokens read at once: between two batches it notices that nobody wants the answer


def main() -> None:
    said = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints is not our answer
    parent = os.getppid()
    try:
        with open(0, "rb", buffering=0, closefd=False) as told:
            given = json.loads(told.readline())
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
        os.nice(NICENESS)
        server = serve(given)
        answer = {"url": server.listening_address}
    except Exception as error:  # whatever it is, it is for whoever waits for that line
        _say(said, {"missing": error.name} if isinstance(error, ImportError) else {"error": str(error)})
        os._exit(1)
    _say(said, answer)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)  # from here on nobody reads what it complains about
    _stay(float(given["idle_s"]))
    os._exit(0)  # at once: nobody waits for what is being written, and there is nothing to save


def serve(given: dict[str, Any]) -> Any:
    """The server, once the model is loaded."""
    import xllamacpp  # type: ignore[import-untyped]  # a hundred megabytes of library

    params = xllamacpp.CommonParams()
    params.model.path = given["path"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [given["key"]]
    params.n_ctx = given["tokens"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given["threads"]
    params.cache_ram_mib = CACHE_MB
    params.slot_save_path = given["states"] + os.sep
    params.no_extra_bufts = not given["roomy"]
    params.fit_params = params.warmup = params.ui = params.ctx_shift = False
    params.verbosity = 1
    return xllamacpp.Server(params)


def _stay(idle_s: float) -> None:
    """Until the input ends, or nothing was asked for so long."""
    asked, since = 0, time.monotonic()
    while True:
        left = idle_s - (time.monotonic() - since) if not asked else LOOK_S
        if left <= 0:
            return
        if select.select([0], [], [], left)[0]:
            data = os.read(0, 4096)
            if not data:
                return
            asked += data.count(b"b") - data.count(b"e")
            since = time.monotonic()


def _watch(parent: int) -> None:
    """An input that somebody else holds open by mistake does not end; a parent that is gone is gone."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(0)


def _say(to: int, answer: dict[str, Any]) -> None:
    os.write(to, json.dumps(answer).encode() + b"\n")
    os.close(to)


if __name__ == "__main__":
    main()
