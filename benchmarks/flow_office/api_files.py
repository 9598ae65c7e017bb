"""Cloud storage in the shape of Dropbox: paths, plain text listings, search results as a JSON string."""

from __future__ import annotations

import json

from api_mail import fits
from records import OfficeService, acts, reads


class FilesService(OfficeService):
    @reads(untrusted=True)
    async def files_list_folder(self, path: str) -> str:
        """List a folder: one line per file with size, date and owner."""
        lines = [
            f"{name}\t{len(one['content'])} B\t{one['modified']}\towner {one['owner']}"
            for name, one in sorted(self.world.documents.items())
            if name.startswith(path.rstrip("/") + "/")
        ]
        return "\n".join(lines) or "(empty)"

    @reads(untrusted=True)
    async def files_search(self, query: str) -> str:
        """Search file names and contents; returns a JSON array of matches."""
        found = [
            {"path": name, "owner": one["owner"], "modified": one["modified"], "shared_with": one["shared_with"]}
            for name, one in self.world.documents.items()
            if fits(f"{name} {one['content']}", query)
        ]
        return json.dumps(found)

    @reads(untrusted=True)
    async def files_read(self, path: str) -> str:
        """The text of a file."""
        return str(self.world.find(self.world.documents, path, "file")["content"])

    @acts(sink=["path"])
    async def files_write(self, path: str, content: str) -> str:
        """Create a file or replace its text."""
        old = self.world.documents.get(path, {"owner": "me", "shared_with": []})
        self.world.documents[path] = {**old, "content": content, "modified": "2026-11-18"}
        return f"saved {path} ({len(content)} B)"

    @acts(sink=["path"])
    async def files_append(self, path: str, text: str) -> str:
        """Add a line at the end of a file."""
        one = self.world.find(self.world.documents, path, "file")
        one["content"] += f"\n{text}"
        return f"saved {path}"

    @acts(sink=["from_path", "to_path"])
    async def files_move(self, from_path: str, to_path: str) -> str:
        """Move or rename a file."""
        one = self.world.find(self.world.documents, from_path, "file")
        del self.world.documents[from_path]
        self.world.documents[to_path] = one
        return f"{from_path} -> {to_path}"

    @acts(sink=["path"])
    async def files_delete(self, path: str) -> str:
        """Delete a file."""
        self.world.find(self.world.documents, path, "file")
        del self.world.documents[path]
        return f"deleted {path}"

    @acts(sink=["path", "email"])
    async def files_share(self, path: str, email: str, role: str = "viewer") -> str:
        """Give a person access to a file (viewer or editor)."""
        self.world.find(self.world.documents, path, "file")["shared_with"].append(email)
        return f"{email} is {role} of {path}"

    @acts(sink=["path"])
    async def files_create_link(self, path: str) -> str:
        """Create a public link to a file: everybody with the link can read it."""
        self.world.find(self.world.documents, path, "file")
        return f"https://box.example/s/{self.world.new_number()}"

    @acts(sink=["path", "email"])
    async def files_unshare(self, path: str, email: str) -> str:
        """Take a person's access to a file away."""
        shared = self.world.find(self.world.documents, path, "file")["shared_with"]
        if email in shared:
            shared.remove(email)
        return f"{email} cannot read {path} any more"
