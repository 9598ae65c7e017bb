"""The files of `deploy/`: valid, without dangling names, and without secrets."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mainstay.cli.parser.base import UsageError
from mainstay.cli.parser.root import parse_arguments
from mainstay.config.loader import load_config
from mainstay.guards.redaction import Redactor

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(path.name for path in DEPLOY.iterdir())
EXTRAS = re.compile(r"\[([a-z,]+)\]['\"]")
ARGUMENT = re.compile(r"--build-arg\s+EXTRAS=([a-z,]+)")
OVERRIDE = re.compile(r"(MAINSTAY__[A-Z_]+)\s*[:=]\s*'?([^'\s\\]+)'?")


def read(name: str) -> str:
    return (DEPLOY / name).read_text()


def unit() -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in read("mainstay.service").splitlines():
        if not line or line.startswith("#"):
            continue
        if found := re.fullmatch(r"\[([A-Z][a-z]+)\]", line):
            keys = sections.setdefault(found[1], [])
            continue
        name, mark, value = line.partition("=")
        assert mark, line
        assert re.fullmatch(r"[A-Z][A-Za-z]+", name), line
        keys.append((name, value))
    return sections


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    assert list(unit()) == ["Unit", "Service", "Install"]
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here; the file was read strictly")
    here = tmp_path / "mainstay.service"  # with a program that is there
    here.write_text(read("mainstay.service").replace("/opt/mainstay/bin/mainstay", "/bin/true"))
    ran = subprocess.run([analyze, "verify", "--man=no", str(here)], capture_output=True, text=True, timeout=120)
    if "Failed to" in ran.stderr and "mainstay.service" not in ran.stderr:
        pytest.skip(f"systemd-analyze cannot work here: {ran.stderr.splitlines()[0]}")
    said = [line for line in ran.stderr.splitlines() if "mainstay" in line]
    assert said == []
    assert ran.returncode == 0, ran.stderr


def test_the_unit_takes_what_it_can_and_leaves_the_sandbox_what_that_needs() -> None:
    given = dict(unit()["Service"])
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictSUIDSGID"):
        assert given[name] == "yes"
    assert given["ProtectSystem"] == "strict"
    assert given["CapabilityBoundingSet"] == ""
    assert given["User"] not in ("", "root")
    assert (given["StateDirectory"], given["StateDirectoryMode"]) == ("mainstay", "0700")
    breaking = (
        *("ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset", "ProtectHostname"),
        *("MemoryDenyWriteExecute", "PrivateUsers"),
    )
    assert not set(breaking) & given.keys()
    assert {"user", "mnt", "pid", "net", "ipc", "uts"} <= set(given["RestrictNamespaces"].split())
    assert {"AF_NETLINK", "AF_UNIX", "AF_INET", "AF_INET6"} == set(given["RestrictAddressFamilies"].split())
    assert given["SystemCallFilter"].startswith("~")
    assert "@mount" not in given["SystemCallFilter"]
    for option in ("ProtectKernelTunables", "ProtectHostname", "RestrictNamespaces", "AF_NETLINK", "@mount"):
        assert option in read("README.md"), "whoever adds it is told what it breaks"


def test_stopping_leaves_turns_their_time() -> None:
    from mainstay.config.schema_gateway import ServerSettings

    drain_s = ServerSettings().drain_s
    assert float(dict(unit()["Service"])["TimeoutStopSec"]) > drain_s
    compose = yaml.safe_load(read("compose.yaml"))
    assert float(compose["services"]["mainstay"]["stop_grace_period"].removesuffix("s")) > drain_s


# --- the container -------------------------------------------------------------------------------

_BASE = ("FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE")
INSTRUCTIONS = frozenset((*_BASE, "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD", "ARG", "LABEL"))


def instructions() -> list[tuple[str, str]]:
    """Each with its words, continued lines joined. Anything else than an instruction that we know is a mistake."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", read("Containerfile"), flags=re.MULTILINE))
    made: list[tuple[str, str]] = []
    for line in filter(None, joined.splitlines()):
        name, _, words = line.partition(" ")
        assert name in INSTRUCTIONS, line
        assert words.strip(), line
        made.append((name, words.strip()))
    return made


def test_the_image_is_small_runs_as_an_unprivileged_user_and_reports_its_readiness() -> None:
    steps = instructions()
    last = max(number for number, (name, _) in enumerate(steps) if name == "FROM")
    final = steps[last:]
    by_name = dict(final)
    assert all(re.fullmatch(r"python:3\.1[1-9]-slim( AS [a-z]+)?", words) for name, words in steps if name == "FROM")
    assert re.fullmatch(r"[1-9][0-9]{3,}", by_name["USER"]), "a number, and not root's"
    assert [name for name, _ in final].index("USER") > max(n for n, (name, _) in enumerate(final) if name == "RUN")
    assert by_name["VOLUME"] == "/data"
    assert "MAINSTAY_HOME=/data" in by_name["ENV"]
    assert "/readyz" in by_name["HEALTHCHECK"]
    check = re.search(r'CMD \["python", "-c", "(.*)"\]', by_name["HEALTHCHECK"])
    assert check is not None
    compile(check[1], "healthcheck", "exec")
    assert not any(name == "ADD" or "curl" in words or "http" in words for name, words in steps if name == "RUN")


def test_files_that_the_image_copies_exist() -> None:
    for name, words in instructions():
        if name == "COPY" and not words.startswith("--from"):
            *sources, _ = words.split()
            assert all((DEPLOY.parent / source).exists() for source in sources), words


def test_the_image_installs_extras_that_there_are() -> None:
    import tomllib

    known = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (given,) = (words.removeprefix("EXTRAS=") for name, words in instructions() if name == "ARG")
    assert {"serve", "channels"} <= set(given.split(",")), "whoever builds it without a word can be on a platform"
    assert any(".[${EXTRAS}]" in words for name, words in instructions() if name == "RUN")
    others = [*EXTRAS.findall(read("README.md")), *ARGUMENT.findall(read("README.md") + read("Containerfile"))]
    assert len(others) >= 3
    for wanted in (given, *others):
        assert set(wanted.split(",")) <= known.keys(), wanted


def test_nothing_is_installed_by_a_name_of_another_project() -> None:
    for page in (DEPLOY.parent / "README.md", *DEPLOY.iterdir(), *(DEPLOY.parent / "docs").rglob("*.md")):
        assert not re.search(r"pip install\s+(-\w+\s+)*['\"]?mainstay\b", page.read_text()), page.name


def test_the_home_is_the_same_volume_in_every_way_to_run_the_container() -> None:
    compose = yaml.safe_load(read("compose.yaml"))
    (mounted,) = compose["services"]["mainstay"]["volumes"]
    source, _, target = mounted.partition(":")
    runs = re.findall(r"^\$ podman run .*$", read("README.md"), re.MULTILINE)
    assert len(runs) >= 4
    for line in runs:
        assert f"-v {compose['volumes'][source]['name']}:{target} " in line
        assert "--env-file mainstay.env " in line, "a configuration that names a variable is refused without it"


# --- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_no_file_holds_a_secret(name: str) -> None:
    text = read(name)
    assert Redactor().redact(text)[0] == text
    assert not re.search(r"(?i)(api_?key|token|secret|password)\s*[=:]\s*[\"']?[A-Za-z0-9_-]{8,}", text)


def test_settings_from_the_environment_can_be_configured(tmp_path: Path) -> None:
    found = [pair for name in ("Containerfile", "compose.yaml") for pair in OVERRIDE.findall(read(name))]
    assert len(found) >= 4
    config = load_config(tmp_path, env=dict(found)).config
    assert (config.server.host, config.server.logs) == ("0.0.0.0", "json")
    assert (config.server.keys, config.server.hosts) == ("required", ("agent.example",))


def commands() -> list[str]:
    found = re.findall(r"^ExecStart=\S*/mainstay (.+)$", read("mainstay.service"), re.MULTILINE)
    found += [" ".join(yaml.safe_load(words)) for name, words in instructions() if name == "CMD"]
    prose = read("README.md")
    found += re.findall(r"^\$ mainstay (.+)$", prose, re.MULTILINE)
    found += re.findall(r"^\$ podman run .* mainstay ([a-z].+)$", prose, re.MULTILINE)
    found += re.findall(r"^\$ docker compose .* run .*mainstay ([a-z].+)$", prose, re.MULTILINE)
    found += re.findall(r" exec mainstay mainstay ([a-z ]+)`", prose)
    found += re.findall(r"bin/mainstay (.+)$", prose, re.MULTILINE)
    found = [command.partition(" > ")[0] for command in found]
    found += re.findall(r"`mainstay ([a-z ]+)`", prose)
    return sorted(set(found))


@pytest.mark.parametrize("command", commands())
def test_every_command_that_is_named_is_one(command: str) -> None:
    try:
        assert parse_arguments(shlex.split(command)).run
    except UsageError as error:
        pytest.fail(str(error))


def test_commands_to_check_are_found() -> None:
    assert {"serve", "init", "init --yes", "doctor", "user add ann --role admin", "user key ann"} <= set(commands())
    assert "user list" in commands()


def test_the_proxy_gathers_no_events() -> None:
    text = re.sub(r"#.*", "", read("nginx.conf"))
    assert text.count("{") == text.count("}")
    for line in filter(None, (one.strip() for one in text.splitlines())):
        assert line.endswith((";", "{", "}")), line
    for words in (
        "proxy_buffering off;",
        "gzip off;",
        "proxy_http_version 1.1;",
        "ssl_protocols       TLSv1.2 TLSv1.3;",
    ):
        assert words in text
    compose: dict[str, Any] = yaml.safe_load(read("compose.yaml"))
    shell, flag, script = compose["services"]["proxy"]["command"]
    assert (shell, flag) == ("sh", "-c")
    edit = shlex.split(script)[1]
    ran = subprocess.run(
        ["sed", edit], input=read("nginx.conf"), capture_output=True, text=True, timeout=120, check=True
    )
    assert "    server 127.0.0.1:7460;" in read("nginx.conf")
    assert "    server mainstay:7460;" in ran.stdout
    assert "127.0.0.1" not in ran.stdout
    service = compose["services"]["mainstay"]
    assert "ports" not in service, "it is reached through the proxy alone"
    assert service["cap_drop"] == ["ALL"]
    assert service["environment"]["MAINSTAY__SERVER__KEYS"] == "required"
