# A stream that survives the server: it is killed in the middle of an answer, and started again.
# Prints the events that the client heard from either of them, and that each one of the journal came once, in order.

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

MODEL = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
PROMPT = {"text": "Tell me a long story.", "id": f"story-{time.time_ns()}"}  # under the same id it is said once


def serve() -> tuple["subprocess.Popen[str]", str]:
    argv = [sys.executable, "-m", "mainstay", "serve", "--home", "data", "--port", "0"]
    env = {**os.environ, "MAINSTAY__MODEL": MODEL}
    server = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=env)
    assert server.stderr is not None
    return server, server.stderr.readline().split()[-1]


def hear(address: str, seen: int) -> Iterator[tuple[int, str]]:
    """The sequence and the name of each event after that one."""
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json", "Last-Event-ID": str(seen)}
    url = f"{address}/api/sessions/story/prompt"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(PROMPT).encode(), headers), timeout=60) as lines:
        for line in lines:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                yield event.get("sequence", 0), event["type"]


heard: list[int] = []
for killed in (True, False):
    server, address = serve()
    letters = 0
    for sequence, name in hear(address, heard[-1] if heard else 0):
        letters += name == "TextDelta"
        if sequence:
            heard.append(sequence)
            print(sequence, name)
        if killed and letters > 20:
            break
    server.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
    server.communicate()
    print("killed, and started again" if killed else f"each once, in order: {heard == sorted(set(heard))}")
