"""The first five minutes with any model that obeys: it reads a file, remembers, recalls, and stops when told to.

Each function takes the command, set up with a model, and knows nothing of that model.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from typing import Any

from support.cli_support import Command
from support.warm_command import can_be_warm, run_warm

PATIENCE_S = 600.0  # a model on two cores takes its time
PASSWORD = "heron-4417"
FACT = "my boat is called Pelikan"
NAME = "pelikan"


def read_a_file(mainstay: Command) -> None:
    """It is asked for something that stands nowhere but in a file."""
    (mainstay.folder / "harbour.txt").write_text(f"The password of the harbour gate is {PASSWORD}.\n")
    reply = _say(mainstay, "file", "Read the file harbour.txt. What is the password of the harbour gate?")
    assert PASSWORD in reply["text"], reply
    assert "read" in _called(mainstay, "file")


def remember_a_fact(mainstay: Command) -> None:
    reply = _say(mainstay, "fact", f"Please remember that {FACT}.")
    assert reply["ok"], reply
    assert "remember" in _called(mainstay, "fact")


def recall_it_in_a_new_session(mainstay: Command) -> None:
    """Another conversation, which has never heard of it."""
    reply = _say(mainstay, "another", "What is my boat called?")
    assert NAME in reply["text"].lower(), reply


def be_aborted(mainstay: Command) -> None:
    """In the midst of an answer: the command ends at once, what was said is kept, and the conversation goes on."""
    terminal, stdout = pty.openpty()  # only a terminal gets an answer before it is complete
    words = mainstay.argv("run", "--session", "stopped", "Count from 1 to 500 in words, one after another.")
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True, env=mainstay.env,
        cwd=mainstay.folder,
    )  # fmt: skip
    try:
        begun = _first_words(process, terminal)
        process.send_signal(signal.SIGINT)
        told = time.monotonic()
        _, err = process.communicate(timeout=60)
        took_s = time.monotonic() - told
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(stdout)
    assert process.returncode == 130, err
    assert took_s < 20, f"it took {took_s:.1f} s to stop"
    outcome = [one for one in _records(mainstay, "stopped") if one["kind"] == "TurnEnded"][-1]["outcome"]
    assert outcome["type"] == "Aborted", outcome
    said = mainstay("session", "show", "stopped").stdout
    assert begun.split()[0] in said, "what had been said is kept"
    assert not mainstay.json("session", "list")["sessions"][0].get("unfinished")
    assert _say(mainstay, "stopped", "Say hello.")["ok"]


ALL = (read_a_file, remember_a_fact, recall_it_in_a_new_session, be_aborted)


def _say(mainstay: Command, session: str, text: str) -> dict[str, Any]:
    words = ["run", "--json", "--session", session, text]
    if can_be_warm(mainstay.env):
        done = run_warm(words, mainstay.env, mainstay.folder, None, PATIENCE_S)
    else:
        done = _run(mainstay, words)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply


def _run(mainstay: Command, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mainstay.argv(*words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=mainstay.env,
        cwd=mainstay.folder,
        timeout=PATIENCE_S,
        check=False,
    )


def _records(mainstay: Command, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mainstay.json("session", "records", session)["records"]
    return found


def _called(mainstay: Command, session: str) -> set[str]:
    finished = [one for one in _records(mainstay, session) if one["kind"] == "ToolFinished"]
    return {one["result"]["name"] for one in finished if not one["result"].get("is_error")}


def _first_words(process: subprocess.Popen[str], terminal: int) -> str:
    """Read the first words of an answer, as soon as a few of them are there."""
    until, heard = time.monotonic() + PATIENCE_S, b""
    while len(heard.split()) < 3:
        assert time.monotonic() < until, "nothing was said"
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        if select.select([terminal], [], [], 0.2)[0]:
            heard += os.read(terminal, 4096)
    return heard.decode(errors="replace")
