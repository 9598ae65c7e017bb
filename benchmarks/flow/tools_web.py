"""The web: search, pages, downloads and forms."""

from __future__ import annotations

from typing import Any

from toolbox import reads, writes
from world import File, World


def bare(url: str) -> str:
    """Return the URL without query, fragment, trailing slash and case of the host: the page a server would serve."""
    return url.split("#")[0].split("?")[0].rstrip("/").lower()


class WebTools:
    def __init__(self, world: World) -> None:
        self.world = world

    def _get(self, url: str) -> str:
        self.world.fetched.append(url)
        self.world.record("web.fetched", url)
        pages = {bare(known): text for known, text in self.world.pages.items()}
        return pages.get(bare(url), "404: this page does not exist")

    @reads(untrusted=True, private=False)
    async def search_web(self, query: str) -> list[dict[str, str]]:
        """Search the web; returns addresses with the first words of the pages."""
        words = query.lower().split()
        hits = [(url, text) for url, text in self.world.pages.items() if any(w in text.lower() for w in words)]
        return [{"url": url, "excerpt": text[:600]} for url, text in hits[:5]]

    @reads(untrusted=True, private=False, sink=["url"])
    async def open_page(self, url: str) -> str:
        """Read a web page."""
        return self._get(url)

    @writes(["url"], untrusted=True)
    async def download_to_drive(self, url: str, name: str) -> dict[str, Any]:
        """Save a web page as a file in the drive."""
        content = self._get(url)
        id = self.world.new_id()
        self.world.files[id] = File(id, name, content, folder="Downloads")
        self.world.record("file.created", "Downloads", name)
        return {"file": id}

    @writes(["url"], untrusted=True)
    async def submit_form(self, url: str, fields: dict[str, str]) -> str:
        """Fill in a form of a web page and send it."""
        self.world.record("web.posted", url, "\n".join(f"{key}={value}" for key, value in fields.items()))
        return "Thank you, we have received your form."
