"""The provider of `examples/components/http_provider`, installed as a distribution of its own: that it works, and what
the author of such a distribution is told about each mistake."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.acme_server import KEY, AcmeServer, serve_acme
from support.cli_support import Command
from support.docs_pages import DOCS, blocks
from support.example_distributions import ROOT, install_example

PAGE = DOCS / "how-to" / "components.md"
FOLDER = ROOT / "examples" / "components" / "http_provider"
BUG = "the provider 'acme' of mainstay-acme-provider failed: ZeroDivisionError: division by zero"
UPGRADE = "correct, upgrade or uninstall the distribution mainstay-acme-provider"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example("http_provider", tmp_path_factory.mktemp("provider"))


@pytest.fixture
def server() -> Iterator[AcmeServer]:
    with serve_acme() as made:
        yield made


class Distribution:
    """A copy of the installed distribution, which a test can break."""

    def __init__(self, site: Path, command: Command, url: str) -> None:
        self.site = site
        self.command = command
        self.url = url

    def break_it(self, module: str, old: str, new: str) -> None:
        path = self.site / f"mainstay_acme_{module}.py"
        source = path.read_text()
        assert old in source
        path.write_text(source.replace(old, new, 1))

    def configure(self, text: str = "    api_key: ${ACME_TOKEN}\n", model: str = "acme/large") -> None:
        self.command.configure(f"model: {model}\nproviders:\n  acme:\n    base_url: {self.url}\n{text}")

    def examine(self, check: str, *options: str) -> list[tuple[str, str, str]]:
        """Return verdict, message and fix of the findings of a check of `doctor`."""
        done = self.command("doctor", "--json", *options)
        assert "internal error" not in done.stderr, done.stderr
        findings: list[dict[str, Any]] = json.loads(done.stdout)["checks"]
        return [(one["verdict"], one["says"], one["fix"]) for one in findings if one["check"] == check]


@pytest.fixture
def acme(installed: Path, server: AcmeServer, tmp_path: Path) -> Distribution:
    site = shutil.copytree(installed, tmp_path / "site")
    command = Command(tmp_path, "http://127.0.0.1:9/v1")
    command.env["PYTHONPATH"] += os.pathsep + str(site)
    command.env |= {"ACME_TOKEN": KEY, "PYTHONDONTWRITEBYTECODE": "1"}
    made = Distribution(site, command, server.url)
    made.configure()
    return made


# --- it works ------------------------------------------------------------------------------------


def test_it_answers_with_its_settings_and_doctor_knows_it(acme: Distribution, server: AcmeServer) -> None:
    (block,) = (one for one in blocks(PAGE) if one.kind == "yaml" and "acme" in one.text)
    acme.command.configure(block.text)
    acme.command.env |= {"ACME_BASE_URL": server.url, "ACME_API_KEY": KEY}
    answered = acme.command("run", "hello there")
    assert (answered.returncode, answered.stdout.strip()) == (0, "You said: hello there"), answered.stderr
    assert server.requests[0] | {"system": "", "turns": []} == {
        "model": "large", "temperature": 0.2, "output": 2000, "system": "", "turns": []
    }  # fmt: skip
    ((verdict, says, _),) = acme.examine("Model")
    assert verdict == "ok"
    assert re.fullmatch(r"acme/large answered in \d+ ms \(17 tokens, <\$0.0001\); mainstay.yaml names it", says)


def test_the_page_shows_the_example() -> None:
    section = PAGE.read_text().partition("\n## A provider for an HTTP API\n")[2].partition("\n## ")[0]
    source = "".join(path.read_text() for path in (*FOLDER.glob("*.py"), FOLDER / "pyproject.toml"))
    shown = [one for one in blocks(PAGE) if one.kind in ("py", "toml") and one.text in section]
    assert len(shown) == 4
    for block in shown:
        for line in block.text.splitlines():
            assert line in source or line.lstrip().startswith(("...", "# ")), f"{block.where}: {line}"


# --- bugs of the distribution --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "old"),
    [
        ("provider", "    provider = AcmeProvider.from"),
        ("provider", "        turns = [turn for"),
        ("provider", "        for payload in payloads:"),
        ("manifest", "    if model not in MODELS:"),
    ],
    ids=["factory", "request", "parser", "check"],
)
def test_a_bug_is_one_failed_check_that_names_the_component_and_the_others_run(
    module: str, old: str, acme: Distribution
) -> None:
    indent = " " * (len(old) - len(old.lstrip()))
    acme.break_it(module, old, f"{indent}1 / 0\n{old}")
    found = acme.examine("Model")
    assert ("FAIL", f"acme/large: {BUG}", UPGRADE) in found
    assert len(found) == (2 if module == "manifest" else 1), "the model is called although its health check failed"
    assert acme.examine("Clock")


def test_a_run_names_the_provider_and_the_command_that_shows_the_bug(acme: Distribution) -> None:
    acme.break_it("provider", "        turns = [turn for", "        1 / 0\n        turns = [turn for")
    done = acme.command("run", "hello")
    assert done.returncode == 1
    assert "The code of the provider acme (model large) failed with ZeroDivisionError." in done.stderr
    shown = re.search(r"mainstay (error show [0-9a-f]{32})", done.stderr)
    assert shown is not None
    details = acme.command(*shown[1].split()).stdout
    assert "ZeroDivisionError: division by zero" in details
    assert "in build_body" in details


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("provider:build_acme_provider", "provider:build", "the module 'mainstay_acme_provider' has no 'build'"),
        ("mainstay_acme_provider:", "mainstay_acm_provider:", "there is no module 'mainstay_acm_provider'"),
    ],
)  # fmt: skip
def test_a_misspelled_factory_is_no_missing_library(old: str, new: str, problem: str, acme: Distribution) -> None:
    acme.break_it("manifest", old, new)
    assert problem in acme.command("run", "hello").stderr
    ((verdict, says, fix),) = acme.examine("Model")
    assert (verdict, problem in says, fix) == ("FAIL", True, UPGRADE)


def test_a_missing_dependency_is_a_missing_library(acme: Distribution) -> None:
    acme.break_it("provider", "import msgspec\n", "import msgspec\nimport no_such_sdk\n")
    ((_, says, fix),) = acme.examine("Model")
    assert "needs a library that is not installed (No module named 'no_such_sdk')" in says
    assert fix == "pip install no_such_sdk"


def test_a_broken_manifest_is_blamed_on_its_distribution(acme: Distribution) -> None:
    acme.break_it("manifest", 'name="acme"', 'name="acmo"')
    ((verdict, says, fix),) = acme.examine("Configuration")
    assert (verdict, fix) == ("FAIL", UPGRADE)
    assert says.startswith("the provider 'acme' of mainstay-acme-provider has no valid manifest: ")
    assert says.endswith("but is the provider 'acmo'")
    assert "mainstay.yaml line" not in acme.command("run", "hello").stderr


# --- the API key ---------------------------------------------------------------------------------


def test_a_key_that_is_left_out_is_asked_for_before_a_request_is_sent(acme: Distribution, server: AcmeServer) -> None:
    acme.configure(text="")
    done = acme.command("run", "hello")
    assert "acme needs an API key: set ACME_API_KEY or providers.acme.api_key to one" in done.stderr
    acme.command.env["ACME_API_KEY"] = ""
    assert "; ACME_API_KEY is set, but empty" in acme.command("run", "hello").stderr
    acme.command.env["ACME_TOKEN"] = ""
    acme.configure()
    assert "acme needs an API key" in acme.command("run", "hello").stderr
    ((_, _, fix),) = acme.examine("Model")
    assert fix.startswith("export ACME_API_KEY=…")
    assert server.requests == []


def test_a_variable_that_is_not_set_is_to_be_exported(acme: Distribution) -> None:
    del acme.command.env["ACME_TOKEN"]
    ((verdict, says, fix),) = acme.examine("Configuration")
    assert (verdict, fix) == ("FAIL", "export ACME_TOKEN=…")
    assert "needs the environment variable 'ACME_TOKEN', which is not set" in says


def test_a_key_that_is_refused_names_the_setting_and_the_variable(acme: Distribution) -> None:
    acme.command.env["ACME_TOKEN"] = "acme-wrong-key"
    stderr = acme.command("run", "hello").stderr
    assert "acme refused the API key; check the one in ACME_API_KEY or providers.acme.api_key" in stderr
    assert "acme-wrong-key" not in stderr


# --- misspelled names ----------------------------------------------------------------------------


def test_a_misspelled_provider_is_suggested(acme: Distribution, server: AcmeServer) -> None:
    hint = "there is no provider 'acmee'; did you mean 'acme'?"
    assert hint in acme.command("run", "--model", "acmee/large", "hello").stderr
    acme.command.configure("model: acmee/large\n")
    assert f"warn: model: {hint}" in acme.command("config", "check").stdout
    acme.command.configure("model: acme/large\nproviders:\n  acmee:\n    api_key: ${ACME_TOKEN}\n")
    assert f"warn: providers.acmee: {hint}" in acme.command("config", "check").stdout
    acme.command.configure(f"model: acmee/large\nproviders:\n  acmee:\n    base_url: {server.url}\n")
    warning = "there is no provider 'acmee', so requests to it use OpenAI's API; did you mean 'acme'?"
    assert warning in acme.command("config", "check").stdout
    assert ("warn", f"providers.acmee: {warning}") in [found[:2] for found in acme.examine("Provider")]
    acme.command.configure(f"providers:\n  acmee:\n    base_url: {server.url}\n    temperature: 1\n")
    assert "there is no provider 'acmee'; did you mean 'providers.acme'?" in acme.command("config", "check").stderr
    acme.command.configure(f"model: acme2/large\nproviders:\n  acme2:\n    base_url: {server.url}\n")
    assert "warn" not in acme.command("config", "check").stdout, "a server of the user's own"


# --- failures of the server ----------------------------------------------------------------------


def test_text_that_was_discarded_is_not_in_the_output_of_a_script(acme: Distribution) -> None:
    done = acme.command("run", "--model", "acme/cut", "hello there")
    assert done.stdout.split() == ["You", "said:", "hello", "there"]
    assert "the answer was interrupted and starts again" in done.stderr


def test_a_pause_that_is_too_long_is_named(acme: Distribution) -> None:
    stderr = acme.command("run", "--model", "acme/full", "hello").stderr
    assert "acme asks to slow down (rate limit): slow down; it accepts no calls for 120 min" in stderr


def test_the_notice_of_a_wait_has_one_time(acme: Distribution) -> None:
    stderr = acme.command("run", "--model", "acme/busy", "hello").stderr
    notes = [line for line in stderr.splitlines() if line.startswith("(waiting")]
    assert notes
    for note in notes:
        (seconds,) = re.findall(r"(\d+) s\b", note)
        assert int(seconds) < 9, note
    assert notes[0].endswith("s: acme asks to slow down)")
