# Resume a stream after a server crash: the server is killed during an answer and started again.
# Prints the events from both servers, and that the client got each durable event once, in order.

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.request import Request, urlopen

ENV = {**os.environ, "MAINSTAY__MODEL": os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")}
SERVE = [sys.executable, "-m", "mainstay", "serve", "--home", "data", "--port", "0"]
PROMPT = {"text": "Tell me a long story.", "id": f"story-{time.time_ns()}"}  # idempotency key: accepted once


def hear(address: str, seen: int) -> Iterator[tuple[int, str]]:
    """Yield sequence and name of each event after `seen`."""
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json", "Last-Event-ID": str(seen)}
    url = f"{address}/api/sessions/story/prompt"
    with urlopen(Request(url, json.dumps(PROMPT).encode(), headers), timeout=60) as stream:
        for line in stream:
            if line.startswith(b'data: {"type"'):
                event = json.loads(line.removeprefix(b"data: "))
                yield event.get("sequence", 0), event["type"]


heard: list[int] = []
for last in (signal.SIGKILL, signal.SIGTERM):
    with subprocess.Popen(SERVE, stderr=subprocess.PIPE, text=True, env=ENV) as server:
        try:
            told = next(line for line in server.stderr or () if line.startswith("mainstay "))
            address, letters = told.split()[-1], 0  # mainstay 0.1.0 at http://127.0.0.1:43210
            for sequence, name in hear(address, heard[-1] if heard else 0):
                letters += name == "TextDelta"
                if sequence:
                    heard.append(sequence)
                    print(sequence, name)
                if last == signal.SIGKILL and letters > 20:
                    break
        finally:
            server.send_signal(last)
    print("the server is gone")
print("each once, in order:", heard == sorted(set(heard)))
