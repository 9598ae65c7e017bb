"""The example of `examples/components/sandbox`: installed as a distribution of its own, used from `mainstay.yaml`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.docs_pages import DOCS, blocks
from support.example_distributions import ROOT, install_example

import mainstay

PAGE = DOCS / "how-to" / "components.md"
SOURCE = ROOT / "examples" / "components" / "sandbox" / "mainstay_nice_sandbox.py"
USE = """
import asyncio, contextlib, io, json, pathlib, sys
from mainstay import Agent
from mainstay.cli.main import main
from mainstay.config.loader import load_config
from mainstay.core.errors import ConfigError
from mainstay.testing import Call, ScriptedProvider

home = pathlib.Path(sys.argv[1])
model = ScriptedProvider([[Call("bash", {"command": "nice"})], "Done."])

async def talk():
    async with Agent(model, home=home) as agent:
        return [result.content for result in (await agent.run("s", "how nice are you?")).results]

def run(*command):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([*command, "--json", "--home", str(home)])
    return json.loads(out.getvalue())

def find_mistake(text):
    (home / "mainstay.yaml").write_text(text)
    try:
        load_config(home, env={})
    except ConfigError as error:
        return str(error)

print(json.dumps({
    "results": asyncio.run(talk()),
    "doctor": run("doctor", "--offline"),
    "mistakes": [find_mistake(text) for text in sys.argv[2:]],
}))
"""
MISTAKES = {
    "sandbox:\n  kind: nicer\n": "mainstay.yaml line 2: 'sandbox.kind' is not valid: there is no sandbox 'nicer'; did "
    "you mean 'nice'? (others come with a distribution that has an entry point in the group mainstay.sandboxes)",
    "sandbox:\n  kind: nice\n  options: {niceness: 20}\n": "mainstay.yaml line 3: 'sandbox.options.niceness': expected "
    "a whole number between 1 and 19, got 20",
    "sandbox:\n  kind: nice\n  options: {mount: /x}\n": "mainstay.yaml line 3: 'sandbox.options': 'mount' is not a key "
    "of the sandbox 'nice'; remove it",
}


def test_a_sandbox_of_another_distribution_is_used_like_a_built_in_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (block,) = (one for one in blocks(PAGE) if one.kind == "yaml" and "kind: nice" in one.text)
    (home / "mainstay.yaml").write_text(f"{block.text}\npolicy: {{allow: [bash]}}\n")
    path = os.pathsep.join((str(install_example("sandbox", tmp_path)), str(Path(mainstay.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-c", USE, str(home), *MISTAKES],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert [result.strip() for result in out["results"]] == [str(min(os.nice(0) + 15, 19))]
    found = [(one["check"], one["verdict"], one["says"]) for one in out["doctor"]["checks"]]
    assert ("Sandbox", "ok", "nice: commands run on this machine, 15 steps down") in found
    assert any(check == "Sandbox" and says.startswith("the test command took") for check, _, says in found)
    summary = "No isolation: commands run with your permissions, with a low priority."
    assert ("Components", "ok", f"the sandbox 'nice' comes with mainstay-nice-sandbox: {summary}") in found
    assert out["mistakes"] == list(MISTAKES.values())


def test_the_page_shows_the_example() -> None:
    section = PAGE.read_text().partition("\n## A sandbox\n")[2].partition("\n## ")[0]
    source = SOURCE.read_text() + (SOURCE.parent / "pyproject.toml").read_text()
    shown = [one for one in blocks(PAGE) if one.kind in ("py", "toml") and one.text in section]
    assert len(shown) == 4
    for block in shown:
        for line in block.text.splitlines():
            assert line in source or line.lstrip().startswith(("...", "# ", "agent = Agent(")), f"{block.where}: {line}"
