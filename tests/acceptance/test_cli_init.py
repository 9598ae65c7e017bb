"""`mainstay init` as people run it: with flags, in a script, at a terminal with questions; and what it never writes."""

from __future__ import annotations

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
import yaml
from support.cli_support import Command, FakeModel

from mainstay.providers.local import catalogue

PATIENCE_S = 120.0
SECRET = "gsk_7Qm2Zx9LpT4vRw8Kd3Nf6Hs1Yb5Jc0Ga"


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def bare(tmp_path: Path) -> Command:
    made = Command(tmp_path)
    made.env["MAINSTAY_MODELS"] = str(tmp_path / "weights")
    return made


def written(command: Command) -> dict[str, object]:
    found = yaml.safe_load((command.home / "mainstay.yaml").read_text())
    assert isinstance(found, dict)
    return found


# --- without questions ---------------------------------------------------------------------------


def test_everything_can_be_said_with_flags(bare: Command) -> None:
    given = ("--set", "homeserver=https://m.example", "--set", "user=@ada:m.example")
    told = bare.json(
        "init", "--model", "groq/some", "--name", "Ada", "--workspace", "team", "--channel", "matrix", *given
    )
    assert (told["ok"], told["model"], told["name"], told["workspace"]) == (True, "groq/some", "Ada", "team")
    assert (told["channel"], told["backup"], told["trouble"]) == ("matrix", None, None)
    assert told["variables"] == [
        {"name": "GROQ_API_KEY", "for": "the API key of groq/some", "set": False},
        {"name": "MATRIX_ACCESS_TOKEN", "for": "its token", "set": False},
    ]
    assert told["next"] == ["mainstay chat", "mainstay channel test matrix", "mainstay serve", "mainstay doctor"]
    assert written(bare)["channels"] == {
        "matrix": {"homeserver": "https://m.example", "user": "@ada:m.example", "token": "${MATRIX_ACCESS_TOKEN}"}
    }
    assert bare("config", "check").returncode == 0
    (channel,) = bare.json("channel", "list")["channels"]
    assert (channel["workspace"], "MATRIX_ACCESS_TOKEN is not set" in channel["state"]) == ("team", True)


def test_a_person_reads_which_variables_are_wanted_and_what_to_type_next(bare: Command) -> None:
    said = bare("init", "--model", "groq/some", "--channel", "slack").stdout
    for line in (
        "  - GROQ_API_KEY: the API key of groq/some (not set yet)",
        "  - SLACK_BOT_TOKEN: its token (not set yet)",
        "  - SLACK_APP_TOKEN: the app-level token for socket mode (xapp-…) (not set yet)",
        "    Set it where Mainstay is started: `export NAME=…` in a shell, EnvironmentFile= of a service.",
        "  mainstay chat                start a chat",
    ):
        assert f"{line}\n" in said
    assert "https://api.slack.com/apps" in said


def test_a_replaced_file_is_backed_up_with_any_content(bare: Command) -> None:
    old = b"\xff\xfe not even text: ]["
    bare.home.mkdir(mode=0o700)
    path = bare.home / "mainstay.yaml"
    path.write_bytes(old)
    path.chmod(0o644)
    refused = bare("init", "--yes")
    assert (refused.returncode, "replace it with --force" in refused.stderr) == (1, True)
    assert path.read_bytes() == old
    assert "Backup of the old file: " in bare("init", "--yes", "--force").stdout
    first = bare.json("init", "--force")["backup"]  # perhaps within the same second
    backups = sorted(bare.home.glob("mainstay.yaml.*.bak"))
    assert len(backups) == 2
    assert first in map(str, backups)
    assert {one.stat().st_mode & 0o777 for one in backups} == {0o600}
    assert old in [one.read_bytes() for one in backups]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "groc/x"), "did you mean 'groq'?"),
        (("--model", "nonsense"), "does not name a model"),
        (("--model", "local/nothing"), "there is no local model 'nothing'"),
        (("--model", "mine/x"), "there is no provider 'mine'"),
        (("--model", "mine/x", "--base-url", "nowhere"), "must be an address that begins with http"),
        (("--model", "mine/x", "--base-url", "http://ann:s3cret@box/v1"), "the address contains a password"),
        (("--base-url", "http://127.0.0.1:9/v1"), "--base-url needs --model"),
        (("--workspace", "Not This"), "must be 1 to 64 characters"),
        (("--name", "two\nlines"), "a name must be one line"),
        (("--name", SECRET), "the name looks like a secret"),
        (("--model", f"groq/{SECRET}"), "the model looks like a secret"),
        (("--channel", "pigeon"), "is not a supported chat platform; choose one of: none, slack"),
        (("--channel", "matrix"), "add --set homeserver=https://matrix.example --set user=@agent:matrix.example"),
        (("--channel", "slack", "--set", "token=abc"), "token is a secret, and is not written"),
        (("--channel", "slack", "--set", "tokem=abc"), "slack has no setting 'tokem' here"),
        (("--set", "a=b"), "--set needs --channel"),
    ],
    ids=lambda one: "-".join(one[:4]).replace(SECRET, "SECRET").replace("\n", "_") if isinstance(one, tuple) else "",
)
def test_an_invalid_command_line_is_one_sentence_and_nothing_is_written(
    bare: Command, words: tuple[str, ...], says: str
) -> None:
    bare.env["GROQ_API_KEY"] = SECRET
    done = bare("init", "--yes", *words)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("mainstay: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert not (bare.home / "mainstay.yaml").exists()


def test_a_failed_model_pull_does_not_lose_the_other_answers(bare: Command) -> None:
    pytest.importorskip("xllamacpp", reason="what runs local models is not installed")
    folder = Path(bare.env["MAINSTAY_MODELS"])
    folder.mkdir()
    folder.chmod(0o777)  # others could replace what is brought, so nothing is
    told = bare.json("init", "--pull", "--name", "Ada")
    assert told["model"] == f"local/{catalogue.DEFAULT_WEIGHTS.name}"
    assert f"other users may write to {folder}" in told["trouble"]
    assert told["next"][0] == f"mainstay model pull {catalogue.DEFAULT_WEIGHTS.name}"
    assert written(bare)["model"] == told["model"]


# --- at a terminal -------------------------------------------------------------------------------


class Person:
    """A user at a terminal, who reads and types."""

    def __init__(self, command: Command, *words: str) -> None:
        self._terminal, theirs = pty.openpty()
        argv = [sys.executable, "-m", "mainstay", "init", *words]
        self.process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=command.env | {"NO_COLOR": "1"},
            cwd=command.folder,
            start_new_session=True,
        )
        os.close(theirs)
        self.said = ""

    def reads(self, text: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while text not in self.said and self._more(until):
            pass
        assert text in self.said, self.said
        self.said = self.said.partition(text)[2]

    def types(self, line: str) -> None:
        os.write(self._terminal, f"{line}\n".encode())

    def interrupts(self) -> None:
        """As the terminal does it, once it is waited for an answer: a signal before that would wait for one too."""
        state = Path("/proc") / str(self.process.pid) / "stat"
        until = time.monotonic() + PATIENCE_S
        while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "S" and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(self.process.pid, signal.SIGINT)

    def ends(self) -> int:
        until = time.monotonic() + PATIENCE_S
        while self._more(until):
            pass
        os.close(self._terminal)
        return self.process.wait(PATIENCE_S)

    def _more(self, until: float) -> bool:
        if not select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        try:
            more = os.read(self._terminal, 65536)
        except OSError:  # it has ended
            return False
        self.said += more.decode().replace("\r\n", "\n")
        return bool(more)


def test_the_questions_have_defaults_and_take_another_answer_for_one_that_will_not_do(
    bare: Command, model: FakeModel
) -> None:
    bare.env["OLLAMA_HOST"] = f"127.0.0.1:{model.port}"
    person = Person(bare)
    person.reads("Which model should it use?\n")
    person.reads("ollama/fake: Ollama runs at")
    person.reads("no account needed")
    person.reads("A number, or a model as <provider>/<model> [1] ")
    person.types("9")
    person.reads("choose a number from 1 to 3\n")
    person.types("groc/llama")
    person.reads("did you mean 'groq'?")
    person.types("")
    person.reads("What is the agent's name? [Mainstay] ")
    person.types("Ada")
    person.reads("[default] ")
    person.types("My Team")
    person.reads("must be 1 to 64 characters")
    person.types("team")
    person.reads("Connect a chat platform? none, slack, ")
    person.reads("[none] ")
    person.types("webhook")
    person.reads("url, for example https://chat.example/answers")
    person.types("https://chat.example/answers")
    person.reads("WEBHOOK_SECRET: the secret that both sides sign with")
    assert person.ends() == 0
    assert "mainstay chat" in person.said
    assert {key: value for key, value in written(bare).items() if key != "instructions"} == {
        "model": "ollama/fake",
        "providers": {"ollama": {"base_url": f"{model.url}"}},
        "workspace": "team",
        "channels": {"webhook": {"url": "https://chat.example/answers", "secret": "${WEBHOOK_SECRET}"}},
    }


def test_ctrl_c_changes_nothing(bare: Command) -> None:
    bare.configure("model: groq/mine\n")
    person = Person(bare, "--force", "--model", "groq/other")
    person.reads("What is the agent's name? [Mainstay] ")
    person.types("Eve")
    person.reads("[default] ")
    person.interrupts()
    assert person.ends() == 130, person.said
    assert "mainstay.yaml was not changed" in person.said
    assert (bare.home / "mainstay.yaml").read_text() == "model: groq/mine\n"
    assert [one.name for one in bare.home.iterdir()] == ["mainstay.yaml"]
