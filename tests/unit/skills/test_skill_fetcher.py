"""Sources of skills: folders, archives of one or of many, and addresses, checked before they are fetched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.skills_lab import HEADER, packed, skill_at, zipped

from mainstay.core.errors import ConfigError
from mainstay.skills.skill_fetcher import DOWNLOAD_BYTES_MAX, choose_skills, download_archive, open_source

SKILL = HEADER.format(name="deploy", description="Helps.", more="")


def names(given: Path) -> list[tuple[str, str]]:
    """What was found: the folder's own name, and what its author calls it."""
    with open_source(str(given)) as found:
        return [(one.folder.name, one.folder_name) for one in found]


def test_a_folder_an_archive_and_a_skill_md_are_each_a_skill(tmp_path: Path) -> None:
    folder = skill_at(tmp_path / "deploy")
    assert names(folder) == names(folder / "SKILL.md") == [("new", "deploy")]
    assert names(packed(folder, tmp_path / "flat.zip")) == [("new", "")]
    assert names(packed(folder, tmp_path / "in.tgz", top="deploy/")) == [("deploy", "deploy")]
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "skill.md").write_text(SKILL)
    assert names(tmp_path / "lower") == [("new", "lower")]


def test_a_repository_holds_many_and_what_is_deeper_is_not_looked_for(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    for path in ("skills/one", "skills/two", "template", ".claude/skills/three"):
        skill_at(root / path, path.rpartition("/")[2])
    skill_at(root / "skills/one/examples/inner", "inner")  # a part of another
    skill_at(root / "a/b/c/d/five", "five")
    skill_at(root / "a/b/c/d/e/deep", "deep")
    skill_at(root / ".git/skills/hidden", "hidden")
    found = [(called, called) for called in ("three", "five", "one", "two", "template")]
    assert names(root) == found
    assert names(packed(root, tmp_path / "repository.zip", top="repository-main/")) == found


def test_of_many_one_must_be_chosen() -> None:
    found = ["one", "two", "three"]
    with pytest.raises(ConfigError, match=r"x\.zip has 3 skills; choose with --skill NAME, or --all: one, three, two"):
        choose_skills(found, [], choose_all=False, location="x.zip")
    with pytest.raises(ConfigError, match=r"there is no skill four in x\.zip; available: one, three, two"):
        choose_skills(found, ["one", "four"], choose_all=False, location="x.zip")
    assert choose_skills(found, ["two", "one"], choose_all=False, location="x.zip") == [0, 1]
    assert choose_skills(found, [], choose_all=True, location="x.zip") == [0, 1, 2]
    assert choose_skills(["one"], [], choose_all=False, location="x.zip") == [0]


# --- addresses ----------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        match self.path:
            case "/a.zip":
                self._send(200, "application/zip", zipped({"deploy/SKILL.md": SKILL}))
            case "/SKILL.md":
                self._send(200, "text/markdown", SKILL.encode())
            case "/page":
                self._send(200, "text/html", b"<html>")
            case "/here":
                self._to("/a.zip")
            case "/loop":
                self._to("/loop")
            case "/plain":
                self._to("http://example.com/a.zip")
            case "/inside":
                self._to("https://10.0.0.1/a.zip")
            case "/neighbour":
                self._to("http://127.0.0.1:9/a.zip")
            case "/large":
                self.send_response(200)
                self.send_header("Content-Length", str(DOWNLOAD_BYTES_MAX + 1))
                self.end_headers()
            case _:
                self._send(404, "text/plain", b"no")

    def _to(self, place: str) -> None:
        self.send_response(302)
        self.send_header("Location", place)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def fetched(url: str, into: Path, said: list[str] | None = None) -> Path:
    return asyncio.run(download_archive(url, into, on_progress=(said if said is not None else []).append))


@pytest.mark.parametrize(("path", "called"), [("/a.zip", "deploy"), ("/here", "deploy"), ("/SKILL.md", "")])
def test_an_address_gives_an_archive_or_a_skill_md(tmp_path: Path, site: Site, path: str, called: str) -> None:
    said: list[str] = []
    archive = fetched(site.url + path, tmp_path, said)
    with open_source(site.url, archive) as (one,):
        assert (one.folder / "SKILL.md").read_text() == SKILL
        assert one.folder_name == called
    assert said[0] == f"fetching {site.url}{path}"
    assert said[1].startswith("fetched ")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/a.zip", "only https URLs are allowed, except on this machine"),
        ("https://10.0.0.1/a.zip", "an address of a private or special network"),
        ("https://169.254.169.254/latest", "an address of a private or special network"),
        ("https://me:secret@example.com/a.zip", "user name or password"),
        ("ftp://example.com/a.zip", "begin with http"),
        ("file:///etc/passwd", "begin with http"),
        ("https://exa mple.com/a.zip", "contains spaces"),
    ],
)
def test_an_address_that_is_not_safe_is_not_asked(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot be fetched: .*(?:{why})") as refused:
        fetched(url, tmp_path)
    assert str(refused.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/plain", "only https URLs are allowed"),
        ("/inside", "an address of a private or special network"),
        ("/neighbour", "Port 9 is not a port of web servers|private or special network"),
        ("/loop", "redirects more than"),
        ("/large", "larger|more than|too large"),
        ("/none", "the server responded with 404"),
        ("/page", "is a web page, not a skill; give the URL of an archive"),
    ],
)
def test_the_target_of_a_redirect_is_checked_too(tmp_path: Path, site: Site, path: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?i){why}"):
        fetched(site.url + path, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert set(site.asked) == {path}


def test_this_machine_is_fetched_from_by_its_name_too(tmp_path: Path, site: Site) -> None:
    url = f"http://localhost:{site.server_address[1]}/a.zip"
    assert fetched(url, tmp_path).read_bytes().startswith(b"PK")
