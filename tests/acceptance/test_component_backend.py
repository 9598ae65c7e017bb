"""The example of `examples/components/backend`: installed as a distribution of its own, used from `mainstay.yaml`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.example_distributions import install_example

import mainstay

USE = """
import asyncio, contextlib, io, json, pathlib, sys
from mainstay import Agent
from mainstay.cli.main import main
from mainstay.config.loader import load_config
from mainstay.core.errors import ConfigError
from mainstay.testing import Call, ScriptedProvider

home = pathlib.Path(sys.argv[1])
model = ScriptedProvider([[Call("stock__describe", {}), Call("stock__query", {"text": "BOLT"})], "Done."])

async def ask():
    async with Agent(model, home=home) as agent:
        await agent.run("s", "what is there?")

def run(*command):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([*command, "--json", "--home", str(home)])
    return json.loads(out.getvalue())

def find_mistake(text):
    (home / "mainstay.yaml").write_text(f"backends:\\n  stock: {text}\\n")
    try:
        load_config(home, env={})
    except ConfigError as error:
        return str(error)

asyncio.run(ask())
print(json.dumps({
    "fixed": model.asked[0].system,
    "results": model.asked[1].messages[-1][1],
    "list": run("backend", "list"),
    "query": run("backend", "query", "stock", "text=nut"),
    "doctor": run("doctor", "--offline"),
    "mistakes": [find_mistake(text) for text in sys.argv[2:]],
}))
"""
MISTAKES = {
    "{kind: csv}": "'backends.stock': 'kind: csv' needs 'path'",
    "{kind: csv, pth: x}": "unknown key 'backends.stock.pth'; did you mean 'backends.stock.path'?",
    "{kind: cvs, path: x}": "'backends.stock.kind': there is no backend 'cvs'; did you mean 'csv'? (others come with "
    "a distribution that has an entry point in the group mainstay.backends)",
    "{kind: csv, path: x, url: y}": "'backends.stock': 'url' is not a key of 'kind: csv'; remove it",
}


def test_a_backend_of_another_distribution_is_used_like_a_built_in_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "stock.csv").write_text("part;amount\nbolt;12\nnut;7\nlong bolt;3\n")
    (home / "mainstay.yaml").write_text(
        "backends:\n  stock: {kind: csv, path: stock.csv, delimiter: ';', about: What we have.}\n"
        "policy: {allow: ['stock__*']}\n"
    )
    path = os.pathsep.join((str(install_example("backend", tmp_path)), str(Path(mainstay.__file__).parents[1])))
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
    assert "### stock: rows of a CSV file, reading only\nWhat we have.\npart, amount" in out["fixed"]
    assert "3 rows with the columns part, amount" in out["results"]
    assert 'bolt, 12\n"long bolt", 3' in out["results"]
    (row,) = out["list"]["backends"]
    assert (row["kind"], row["where"], row["state"]) == ("csv", str(home / "stock.csv"), "3 rows")
    assert "nut, 7" in json.dumps(out["query"])
    found = [(one["check"], one["verdict"], one["says"]) for one in out["doctor"]["checks"]]
    assert ("Backend", "ok", "stock: csv, 3 rows") in found
    assert ("Components", "ok", "the backend 'csv' comes with mainstay-csv-backend: A CSV file.") in found
    assert out["mistakes"] == [f"mainstay.yaml line 2: {sentence}" for sentence in MISTAKES.values()]
