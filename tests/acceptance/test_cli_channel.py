"""`mainstay channel …` as people type it, and what `doctor` says of the gateway."""

from __future__ import annotations

import asyncio
import json
import os
import signal as signals
import socket
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel
from support.signal_platform import ANN as SIGNAL_ANN
from support.signal_platform import NUMBER, signal
from support.telegram_platform import ANN, GROUP, TOKEN, telegram

from mainstay.channels import COMPONENTS as CHANNEL_COMPONENTS
from mainstay.cli import main as cli
from mainstay.cli.commands import doctor_gateway_checks
from mainstay.config.loader import load_config
from mainstay.config.schema import FILE, Config
from mainstay.gateway.offline_home import open_people
from mainstay.server import listener_health
from mainstay.server.listener_health import parse_certificate_expiry
from mainstay.store.home import describe_stale_config

PATIENCE_S = 120.0
OWN = """\
# what I wrote myself
model: openai/fake   # a small one
instructions: Be terse.
"""


class Typed:
    """The command in this process: what it printed, and how it ended."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.file = home / "mainstay.yaml"
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        code = cli.main([*words, "--home", str(self.home)])
        return code, *self._capsys.readouterr()

    def json(self, *words: str) -> Any:
        code, out, err = self(*words, "--json")
        assert (code, err) == (0, ""), out
        found = json.loads(out)
        assert found.pop("ok") is True
        return found

    def checks(self, about: str) -> list[tuple[str, str]]:
        """What doctor thinks of it, which looks at more than the gateway."""
        config = load_config(self.home, env=os.environ).config
        found = asyncio.run(doctor_gateway_checks.check_gateway(config, self.home, fix=False))
        return [(one.verdict, one.message) for one in found if one.check == about]


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    for name in [one for one in os.environ if one.startswith(("MAINSTAY", "SLACK", "TELEGRAM", "OPENAI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    made = Typed(tmp_path / "home", capsys)
    made.home.mkdir(mode=0o700)
    made.file.write_text(OWN)
    made.file.chmod(0o600)
    return made


# --- add, list, remove ---------------------------------------------------------------------------


def test_a_channel_is_added_with_variables_for_its_secrets_listed_and_removed(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no channels are configured" in typed("channel", "list")[2]
    code, out, err = typed("channel", "add", "slack", "--name", "team-chat", "backfill=20", "stream=false")
    assert code == 0
    assert out.startswith("team-chat was added: slack, in the workspace default\n")
    for words in ("TEAM_CHAT_BOT_TOKEN is its token", "TEAM_CHAT_APP_TOKEN is the app-level", "app_mentions:read"):
        assert words in out
    assert "test it with `mainstay channel test team-chat`, and start `mainstay serve` or send it SIGHUP" in err
    text = typed.file.read_text()
    assert text.startswith(OWN)  # with its comments
    assert '"token": "${TEAM_CHAT_BOT_TOKEN}"' in text
    (one,) = typed.json("channels", "list")["channels"]
    assert one.pop("state") == "needs its token: the variable TEAM_CHAT_BOT_TOKEN is not set"
    assert one == {"name": "team-chat", "kind": "slack", "workspace": "default", "connected": False}
    assert typed("channel", "test", "team-chat")[::2] == (
        1,
        "mainstay: the channel 'team-chat' needs its token: the variable TEAM_CHAT_BOT_TOKEN is not set\n",
    )
    for name in ("TEAM_CHAT_BOT_TOKEN", "TEAM_CHAT_APP_TOKEN"):
        monkeypatch.setenv(name, "x" * 20)
    assert typed.json("channel", "list")["channels"][0]["state"] == "not connected: no server is running"
    assert typed("channel", "remove", "team-chat")[:2] == (0, "team-chat was removed\n")
    assert typed.file.read_text() == OWN


@pytest.mark.parametrize("kind", CHANNEL_COMPONENTS)
def test_every_kind_can_be_added_with_no_more_than_it_is_said_to_need(typed: Typed, kind: str) -> None:
    code, _, err = typed("channel", "add", kind)
    if code:
        example = err.partition("`")[2].partition("`")[0].split()  # it says how
        assert typed(*example[1:])[0] == 0
    (one,) = typed.json("channel", "list")["channels"]
    assert (one["name"], one["kind"]) == (kind, kind)
    made = typed.json("channel", "add", kind, "--name", "other", *(example[4:] if code else []))
    assert made["steps"]


def test_a_secret_is_written_out_only_if_that_is_wanted(typed: Typed) -> None:
    code, _, err = typed("channel", "add", "telegram", "token=123:abcdefgh")
    assert code == 2
    assert "token='${TELEGRAM_BOT_TOKEN}'" in err
    assert typed.file.read_text() == OWN
    typed.file.chmod(0o644)
    assert typed.json("channel", "add", "telegram", "--plain", "token=123:abcdefgh")["variables"] == []
    assert "123:abcdefgh" in typed.file.read_text()
    assert typed.file.stat().st_mode & 0o777 == 0o600
    made = typed.json("channel", "add", "telegram", "token=${OTHER}", "--name", "other")
    assert made["variables"] == [{"name": "OTHER", "for": "token", "set": False}]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["add", "slacc"], 2, "did you mean 'slack'?"),
        (["add", "slack", "tokn=x"], 2, "'tokn' is not a setting: the settings of slack are app_token, attachment_"),
        (["add", "slack", "homeserver=x"], 2, "'homeserver' is not a setting: the settings of slack are app_token"),
        (
            ["add", "signal", "tokn=x"],
            2,
            "signal are address, attachment_bytes_max, attachments, backfill, enabled, rooms.ID, stream, user\n",
        ),
        (["add", "slack", "workspace=x"], 2, "'workspace' is not a setting: use --workspace"),
        (["add", "slack", "junk"], 2, "'junk' is not a valid setting: write KEY=VALUE"),
        (["add", "slack", "backfill=1", "backfill=2"], 2, "'backfill' is given twice"),
        (["add", "slack", "kind=discord"], 2, "it is the first argument"),
        (["add", "slack", "--bogus", "stream=false"], 2, "unrecognized arguments: --bogus"),
        (["add", "slack", "backfill=many"], 1, "was left unchanged: mainstay.yaml line"),
        (["add", "slack", "--name", "Big Name"], 1, "a name may contain only letters, digits"),
        (["add", "slack", "--name", "web"], 1, "and not web, user"),
        (["add", "slack", "--workspace", "nowhere"], 1, "create it with `mainstay workspace create nowhere`"),
        (["add", "slack", "rooms.C1=nowhere"], 1, "create it with `mainstay workspace create nowhere`"),
        (["add", "matrix", "user=@a:b"], 2, "matrix needs homeserver: `mainstay channel add matrix homeserver=https"),
        (["add", "slack", "base_url=\udcff"], 2, "is not UTF-8"),
        (["remove", "slack"], 1, "there is no channel 'slack' in mainstay.yaml; configured channels: none"),
        (["test", "slack"], 1, "there is no channel 'slack' in mainstay.yaml; configured channels: none"),
    ],
    ids=lambda given: None if not isinstance(given, list) else ascii(" ".join(given)),
)
def test_an_impossible_request_is_one_sentence_and_changes_nothing(
    typed: Typed, words: list[str], code: int, sentence: str
) -> None:
    done, out, err = typed("channel", *words)
    assert (done, out) == (code, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert typed.file.read_text() == OWN
    assert [one.name for one in typed.home.iterdir() if not one.name.startswith(".")] == ["mainstay.yaml"]


def test_an_existing_channel_is_not_overwritten_and_its_paired_people_are_printed(typed: Typed) -> None:
    typed("workspace", "create", "team")
    typed("channel", "add", "webhook", "url=http://127.0.0.1:9/x", "rooms.lobby=team")
    before = typed.file.read_text()
    code, _, err = typed("channel", "add", "webhook", "url=http://127.0.0.1:9/y")
    assert (code, typed.file.read_text()) == (1, before)
    assert "there is already a channel webhook" in err

    async def let_in() -> None:
        async with open_people(typed.home, Config()) as people:
            code = await people.issue_pairing_code("webhook", "U1", "Ann")
            assert code is not None
            await people.pair_account(code, name="ann", workspace="team", role="member")

    asyncio.run(let_in())
    kept = typed.home / "channels"
    kept.mkdir()
    (kept / "webhook.json").write_text("{}")
    _, out, err = typed("channel", "remove", "webhook")
    assert out == "webhook was removed\n"
    assert "`mainstay user unpair webhook U1` removes one" in err
    assert not (kept / "webhook.json").exists()  # another of this name begins anew


# --- test ----------------------------------------------------------------------------------------


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    return Command(tmp_path)


async def typed_beside(mainstay: Command, *words: str) -> tuple[int | None, str, str]:
    """While the platform's double runs here."""
    made = await asyncio.create_subprocess_exec(
        *mainstay.argv(*words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=mainstay.env,
        cwd=mainstay.folder,
    )
    out, err = await asyncio.wait_for(made.communicate(), PATIENCE_S)
    return made.returncode, out.decode(), err.decode()


async def test_channel_test_prints_the_account_posts_and_leaves_messages_to_the_server(mainstay: Command) -> None:
    async with telegram() as rig:
        platform = rig.platform
        mainstay.env |= {"TELEGRAM_BOT_TOKEN": TOKEN}
        entry = f"{{token: '${{TELEGRAM_BOT_TOKEN}}', base_url: '{platform.url}'}}"
        mainstay.configure(f"channels:\n  telegram: {entry}\n")
        platform.say(ANN["id"], ANN, text="are you there?")
        code, out, err = await typed_beside(mainstay, "channel", "test", "telegram", "--room", str(GROUP))
        assert (code, err.count("\n") <= 1) == (0, True), err
        assert out.startswith("ok: telegram is connected")
        assert f"posted to {GROUP}\n" in out
        assert [one.text for one in await rig.posted_messages(str(GROUP))] == [
            "This is a test: Mainstay can post here."
        ]
        assert platform.confirmed == 0  # what Ann said waits for the server
        mainstay.env |= {"TELEGRAM_BOT_TOKEN": f"{TOKEN}x"}
        code, out, err = await typed_beside(mainstay, "channel", "test", "telegram", "--json")
        assert (code, err) == (1, "")
        assert json.loads(out)["error"]["message"] == "channels.telegram: Telegram refuses the token."


async def test_a_test_says_what_it_costs_and_does_not_wait_for_ever(mainstay: Command) -> None:
    async with signal() as rig:
        mainstay.configure(f"channels:\n  signal: {{address: '{rig.platform.address}', user: '{NUMBER}'}}\n")
        code, out, err = await typed_beside(mainstay, "channel", "test", "signal")
        assert (code, out, err) == (0, f"ok: signal is connected as {NUMBER}\n", "")
        rig.platform.say(SIGNAL_ANN, "hello")
        code, out, _ = await typed_beside(mainstay, "channel", "test", "signal", "--room", "nobody", "--json")
        assert code == 1
        assert json.loads(out)["ok"] is False
    code, out, err = await typed_beside(mainstay, "channel", "test", "signal", "--wait", "0.3")
    assert (code, out) == (1, "")
    assert err == "mainstay: signal did not connect within 0.3 s: signal-cli cannot be reached\n"


# --- beside a server -----------------------------------------------------------------------------


def test_beside_a_server_its_state_is_shown_and_nothing_is_connected_twice(
    mainstay: Command, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ExampleModel(lambda messages: "yes")
    provider = f"providers:\n  openai: {{base_url: '{model.url}', api_key: none-at-all}}\n"
    hook = "{kind: webhook, secret: a secret that is long enough, url: 'http://127.0.0.1:9/x'}"
    off = "{kind: telegram, token: '${T}', enabled: false}"
    typed.file.write_text(f"{OWN}{provider}channels:\n  talk: {hook}\n  off: {off}\n")
    server = mainstay.start("serve", "--port", "0")
    try:
        assert server.stderr is not None
        until(lambda: "talk: connected" in server.stderr.readline())
        assert states(typed) == {"talk": "connected", "off": "disabled"}
        code, _, err = typed("channel", "test", "talk")
        assert (code, err.count("\n")) == (1, 1)
        assert f"the server (process {server.pid}) is connected to it" in err
        monkeypatch.setenv("NEW", "somewhat like a token")
        assert f"`kill -HUP {server.pid}`" in typed("channel", "add", "discord", "--name", "new", "token=${NEW}")[2]
        assert "has not loaded it yet" in states(typed)["new"]
        _, doctor, _ = typed("doctor")
        assert f"ok    Server: process {server.pid} serves 1 workspace at http://127.0.0.1:" in doctor
        assert "ok    Channel: talk: webhook in default, connected\n" in doctor
        assert "warn  Channel: new: discord in default: the server has not loaded it yet\n" in doctor
        assert "for `mainstay serve`, SIGHUP is enough" in doctor
        for name in ("new", "talk"):
            assert f"until it gets SIGHUP: `kill -HUP {server.pid}`" in typed("channel", "remove", name)[2]
        assert "connected; no longer in mainstay.yaml" in states(typed)["talk"]
        assert describe_stale_config(typed.home / FILE, typed.home)
        server.send_signal(signals.SIGHUP)
        until(lambda: "talk" not in states(typed))
        until(lambda: not describe_stale_config(typed.home / FILE, typed.home))
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE_S)
        model.close()
    assert server.returncode == 0


def states(typed: Typed) -> dict[str, str]:
    return {one["name"]: one["state"] for one in typed.json("channel", "list")["channels"]}


def until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


# --- doctor --------------------------------------------------------------------------------------


def test_doctor_says_nothing_of_an_unused_gateway(typed: Typed) -> None:
    _, out, _ = typed("doctor", "--json")
    kinds = {one["check"] for one in json.loads(out)["checks"]}
    assert not kinds & {"Server", "Channel", "People", "TLS", "Keys", "Workspace"}


def test_doctor_looks_at_the_address_the_key_the_channels_and_the_workspaces(typed: Typed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        typed.file.write_text(
            f"{OWN}server: {{port: {port}}}\npeople:\n  ann: {{workspaces: [default, away]}}\n"
            "channels:\n  slack: {token: '${T}', app_token: '${A}', workspace: far}\n"
        )
        assert typed.checks("Server") == [
            ("FAIL", f"cannot listen on port {port} of 127.0.0.1: Address already in use")
        ]
    assert typed.checks("Server") == [("ok", f"port {port} of 127.0.0.1 is free")]
    assert typed.checks("Channel") == [("FAIL", "slack: needs its token: the variable T is not set")]
    assert typed.checks("Workspace") == [
        ("warn", "channels.slack names the workspace far, which does not exist"),
        ("warn", "people.ann names the workspace away, which does not exist"),
    ]
    assert typed.checks("Keys") == []
    typed.file.write_text(f"{OWN}server: {{host: 0.0.0.0, port: 0}}\n")
    (found,) = typed.checks("Keys")
    assert found == ("FAIL", "there is no API key, and the server refuses to listen on 0.0.0.0 without one")
    assert not (typed.home / "gateway.db").exists()  # looking makes nothing
    typed("user", "add", "ann")
    typed("user", "key", "ann")
    assert typed.checks("Keys") == [("ok", "1 API key for clients of 0.0.0.0")]


def test_doctor_repairs_permissions_of_the_people_database_and_detects_damage(typed: Typed) -> None:
    typed("user", "add", "ann")
    people = typed.home / "gateway.db"
    assert typed.checks("People") == [("ok", f"{people} is intact and private")]
    people.chmod(0o644)
    assert typed.checks("People") == [("warn", f"other users can read {people}")]
    assert f"{people} is intact and private (fixed)" in typed("doctor", "--fix")[1]
    assert people.stat().st_mode & 0o777 == 0o600
    people.write_bytes(b"this is no database" * 1000)
    ((verdict, _),) = typed.checks("People")
    assert verdict == "FAIL"


def certified(folder: Path, name: str, days: int) -> tuple[Path, Path]:
    """A certificate that is good for so many days, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    words = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
    argv = ["openssl", "req", *words, "-days", str(days), "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(argv, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"openssl makes no certificate here: {error}")
    return certificate, key


def test_doctor_looks_at_the_certificate_its_key_and_its_end(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdicts(certificate: object, key: object) -> list[tuple[str, str]]:
        typed.file.write_text(f"{OWN}server: {{port: 0, tls: {{certificate: '{certificate}', key: '{key}'}}}}\n")
        return typed.checks("TLS")

    good, key = certified(tmp_path, "good", 90)
    _, other_key = certified(tmp_path, "other", 36500)
    until = parse_certificate_expiry(good.read_text())
    assert abs(until - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=10)
    assert abs(parse_certificate_expiry((tmp_path / "other.pem").read_text()).year - datetime.now(UTC).year - 100) <= 1
    assert verdicts(good, key) == [("ok", f"{good} is valid until {until:%Y-%m-%d}")]
    assert verdicts(good, other_key) == [
        ("FAIL", f"the certificate {good} and its key are not usable: KEY_VALUES_MISMATCH")
    ]
    absent = tmp_path / "none.pem"
    assert verdicts(absent, key) == [
        ("FAIL", f"the certificate {absent} or its key cannot be read: No such file or directory")
    ]
    assert verdicts("", key) == [("FAIL", "server.tls has a key but no certificate: TLS would not be used")]
    for days, verdict, words in ((80, "warn", "is valid until"), (91, "FAIL", "expired on")):
        later = time.time() + days * 86_400
        monkeypatch.setattr(listener_health, "time", SimpleNamespace(time=lambda later=later: later))
        ((found, says),) = verdicts(good, key)
        assert (found, words in says) == (verdict, True)
