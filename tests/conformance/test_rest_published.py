"""`rest` with descriptions that others published: read whole, searched, and asked against a server that knows them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.described_api import DescribedApi
from support.published_packages import npm

from mainstay.backends.base import BackendRefused
from mainstay.backends.rest.backend import RestBackend
from mainstay.backends.rest.manifest import RestScope, RestSettings
from mainstay.context.tokenizers import SplintrTokenizer
from mainstay.core.ports import Tool, ToolContext

CACHE = Path(__file__).parents[2] / ".cache" / "openapi"
PACKAGES = {
    "octokit": "@octokit/openapi@23.0.2",  # OpenAPI 3.0, JSON, 13 MB
    "figma": "@figma/rest-api-spec@0.43.0",  # OpenAPI 3.1, YAML
    "readme": "@readme/oas-examples@8.2.2",  # all versions, JSON and YAML
}
FILES = {
    "octokit": ("generated/api.github.com.json", "LICENSE"),
    "figma": ("openapi/openapi.yaml", "LICENSE"),
    "readme": ("",),
}

Published = Callable[[str, str], str]


@pytest.fixture(scope="session")
def published() -> Published:
    """The path of a file of a published package, fetched once for all who ask."""

    def find(name: str, file: str) -> str:
        folder = CACHE / PACKAGES[name].replace("/", "+")
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(CACHE / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists() and (why := _fetch(PACKAGES[name], FILES[name], folder)):
                pytest.skip(f"{PACKAGES[name]} cannot be had: {why}")
        return str(folder / file)

    return find


def _fetch(package: str, wanted: tuple[str, ...], folder: Path) -> str:
    """Why it could not be had; empty if it could."""
    work = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        npm(work, "pack", "--silent", "--pack-destination", str(work), package)
        archive = next(work.glob("*.tgz"), None)
        if archive is None:
            return "nothing came"
        with tarfile.open(archive) as packed:
            for one in packed.getmembers():
                if one.isreg() and one.name.removeprefix("package/").startswith(wanted):
                    packed.extract(one, work, filter="data")
        os.rename(work / "package", folder)
        return ""
    except (OSError, tarfile.TarError) as error:
        return str(error)
    finally:
        shutil.rmtree(work, ignore_errors=True)


async def run(tool: Tool, /, **arguments: Any) -> str:
    context = ToolContext("s", 1, 1, "c1", lambda event: None)
    return await tool.run(tool.parse(json.dumps(arguments)), context)


# --- a large one ---------------------------------------------------------------------------------


async def test_a_published_description_of_13_mb_is_read_searched_and_asked(published: Published) -> None:
    """The description of a large public API as its owner publishes it, against a server that answers by it."""
    file = published("octokit", "generated/api.github.com.json")
    with open(file) as opened:
        double = DescribedApi(json.load(opened))
    with double as server:
        github = RestBackend("github", RestSettings(description=file, url=server.url, rows_max=20))
        await github.start()
        describe, query = github.tools
        found = await run(describe, search="list repository issues")
        assert found.startswith("issues/list-for-repo GET /repos/{owner}/{repo}/issues")
        told = await run(describe, operation="issues/list-for-repo")
        assert 'state? (query): "open" | "closed" | "all"' in told
        for operation, parameters in (
            ("issues/list-for-repo", {"owner": "o", "repo": "r", "state": "closed", "per_page": 5, "labels": "a,b c"}),
            ("issues/get", {"owner": "o", "repo": "a.b", "issue_number": 7}),
            ("repos/get", {"owner": "o", "repo": "r"}),
            ("search/repos", {"q": "language:python stars:>10 & more", "sort": "stars", "order": "desc"}),
            ("repos/get-content", {"owner": "o", "repo": "r", "path": "README.md", "ref": "main"}),
            ("users/get-by-username", {"username": "octocat"}),
            ("licenses/get-all-commonly-used", {"featured": True}),
            ("meta/root", {}),
        ):
            said = await run(query, operation=operation, parameters=parameters)
            assert said.startswith("HTTP 200 application/json\n"), operation
            assert len(said) > 40
        assert server.refused == []
        asked = len(server.asked)
        for operation, parameters in (
            ("issues/list-for-repo", {"owner": "o", "repo": "r", "state": "asleep"}),
            ("issues/get", {"owner": "o", "repo": "r", "issue_number": "seven"}),
            ("issues/get", {"owner": "o", "repo": "r"}),
            ("repos/get", {"owner": "o/..", "repo": "r"}),
            ("issues/create", {"owner": "o", "repo": "r"}),
        ):
            with pytest.raises(BackendRefused):
                await run(query, operation=operation, parameters=parameters)
        assert len(server.asked) == asked


async def test_a_large_description_takes_changes_with_checked_bodies(published: Published) -> None:
    file = published("octokit", "generated/api.github.com.json")
    with open(file) as opened:
        double = DescribedApi(json.load(opened))
    with double as server:
        scope = RestScope(paths=("/repos/{owner}/{repo}/issues/**",))
        github = RestBackend("github", RestSettings(description=file, url=server.url, write=True, scope=scope))
        *_, change = github.tools
        where = {"owner": "o", "repo": "r"}
        body = {"title": "It leaks", "labels": ["bug", {"name": "x"}], "milestone": 3}
        assert "HTTP 201" in await run(change, operation="issues/create", parameters=where, body=body)
        assert server.refused == []
        for wrong in ({"labels": []}, {"title": "a", "labels": "bug"}, {"title": {"a": 1}}):
            with pytest.raises(BackendRefused, match="do not fit"):
                await run(change, operation="issues/create", parameters=where, body=wrong)
        with pytest.raises(BackendRefused, match="no operation"):
            await run(change, operation="repos/delete", parameters=where)
        assert len(server.asked) == 1


async def test_a_large_description_costs_little(published: Published, record_property: Any) -> None:
    file = published("octokit", "generated/api.github.com.json")
    github = RestBackend("github", RestSettings(description=file, write=True, schema_tokens=800))
    began = time.process_time()
    await github.start()
    read_s = time.process_time() - began
    api = await github.load_api()
    assert api.base_url.url == "https://api.github.com/"
    assert len(api.operations) > 1000
    assert api.document.unreadable_count == 0
    tokens = SplintrTokenizer("o200k_base").count(github.schema_summary())
    record_property("read_s", round(read_s, 3))
    record_property("schema_tokens", tokens)
    assert read_s < 2.0  # 0.06 at rest
    assert 100 < tokens <= 800


async def test_every_operation_of_a_large_description_can_be_described(published: Published) -> None:
    every = os.environ.get("MAINSTAY_TEST_ALL") == "1"
    file = published("octokit", "generated/api.github.com.json")
    github = RestBackend("github", RestSettings(description=file, write=True))
    for one in (await github.load_api()).operations[:: 1 if every else 20]:
        told = await run(github.tools[0], operation=one.id)
        assert told.startswith(f"{one.id} {one.method} {one.path}")
        assert len(told) < 20_000
        for name in one.path.split("{")[1:]:
            assert f"  {name.partition('}')[0]} (path): " in told


# --- others --------------------------------------------------------------------------------------


async def test_a_published_description_in_yaml_of_version_31_works(published: Published) -> None:
    import yaml

    file = published("figma", "openapi/openapi.yaml")
    with open(file) as opened:
        double = DescribedApi(yaml.safe_load(opened))
    with double as server:
        figma = RestBackend("figma", RestSettings(description=file, url=server.url))
        await figma.start()
        assert "getFile GET /v1/files/{file_key}" in await run(figma.tools[0], search="get file json")
        await run(figma.tools[1], operation="getFile", parameters={"file_key": "k1", "depth": 2, "ids": "1:2,1:3"})
        await run(figma.tools[1], operation="getImages", parameters={"file_key": "k", "ids": "1:2", "format": "svg"})
        with pytest.raises(BackendRefused, match="do not fit"):
            await run(figma.tools[1], operation="getImages", parameters={"file_key": "k", "ids": "1", "format": "gif"})
    assert server.refused == []
    assert [target.partition("?")[0] for _, target in server.asked] == ["/v1/files/k1", "/v1/images/k"]


async def test_every_example_of_every_version_can_be_read_and_described(published: Published) -> None:
    root = Path(published("readme", ""))
    files = sorted(path for version in ("2.0", "3.0", "3.1") for path in (root / version).rglob("*.*"))
    assert len(files) > 20
    counted = {"2.0": 0, "3.0": 0, "3.1": 0}
    for file in files:
        if file.suffix not in (".json", ".yaml"):
            continue
        api = RestBackend("api", RestSettings(description=str(file), url="http://127.0.0.1:1", write=True))
        for one in (await api.load_api()).operations:
            assert one.path in await run(api.tools[0], operation=one.id)
            counted[file.relative_to(root).parts[0]] += 1
    assert all(count > 10 for count in counted.values()), counted
