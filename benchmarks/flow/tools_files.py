"""The drive, which others share files in, and the person's own notes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolbox import reads, writes
from world import ME, MY_NAME, File, Note, World, addresses_of, find

FILE_READERS = ["owner", "collaborators"]


def listing_of(file: File) -> dict[str, Any]:
    return {
        "id": file.id,
        "name": file.name,
        "folder": file.folder,
        "owner": file.owner,
        "collaborators": list(file.collaborators),
    }


def whole_of(file: File) -> dict[str, Any]:
    return {**listing_of(file), "content": file.content, "comments": file.comments, "public_link": file.public_link}


class FileTools:
    def __init__(self, world: World) -> None:
        self.world = world

    @reads(untrusted=True, readers=FILE_READERS)
    async def list_files(self, folder: str = "") -> list[dict[str, Any]]:
        """List the files of a folder, or all files."""
        return [listing_of(file) for file in self.world.files.values() if folder in ("", file.folder)]

    @reads(untrusted=True, readers=FILE_READERS)
    async def search_files(self, query: str) -> list[dict[str, Any]]:
        """Find files with these words in name or content."""
        words = query.lower().split()
        files = self.world.files.values()
        return [listing_of(file) for file in files if all(w in f"{file.name} {file.content}".lower() for w in words)]

    @reads(untrusted=True, readers=FILE_READERS)
    async def open_file(self, file_id: str) -> dict[str, Any]:
        """Read a file."""
        return whole_of(find(self.world.files, file_id, "file"))

    @writes(["folder"])
    async def create_file(self, name: str, content: str, folder: str = "My files") -> dict[str, Any]:
        """Create a file; everybody with access to the folder can read it."""
        id = self.world.new_id()
        self.world.files[id] = File(id, name, content, folder=folder)
        self.world.record("file.created", folder, f"{name}\n{content}")
        return {"file": id}

    @writes(["file_id"])
    async def append_to_file(self, file_id: str, text: str) -> dict[str, Any]:
        """Add text at the end of a file."""
        file = find(self.world.files, file_id, "file")
        file.content += "\n" + text
        self.world.record("file.changed", (file_id, file.owner, *file.collaborators), text)
        return {"file": file_id}

    @writes(["file_id"], effect="idempotent")
    async def replace_file(self, file_id: str, content: str) -> dict[str, Any]:
        """Replace the content of a file."""
        file = find(self.world.files, file_id, "file")
        file.content = content
        self.world.record("file.changed", (file_id, file.owner, *file.collaborators), content)
        return {"file": file_id}

    @writes(["file_id"], effect="idempotent")
    async def rename_file(self, file_id: str, name: str) -> dict[str, Any]:
        """Rename a file."""
        file = find(self.world.files, file_id, "file")
        file.name = name
        self.world.record("file.renamed", (file_id, file.owner, *file.collaborators), name)
        return {"file": file_id}

    @writes(["file_id", "folder"], effect="idempotent")
    async def move_file(self, file_id: str, folder: str) -> dict[str, Any]:
        """Move a file to a folder; everybody with access to the folder can read it."""
        file = find(self.world.files, file_id, "file")
        file.folder = folder
        self.world.record("file.moved", (file_id, folder), file.content)
        return {"file": file_id}

    @writes(["file_id"], effect="idempotent")
    async def delete_file(self, file_id: str) -> dict[str, Any]:
        """Delete a file for good."""
        find(self.world.files, file_id, "file")
        del self.world.files[file_id]
        self.world.record("file.deleted", file_id)
        return {"deleted": file_id}

    @writes(["file_id", "email"], effect="idempotent")
    async def share_file(self, file_id: str, email: str, role: str = "reader") -> dict[str, Any]:
        """Let somebody read (reader), comment (commenter) or change (writer) a file."""
        file = find(self.world.files, file_id, "file")
        for address in addresses_of([email]):
            file.collaborators[address] = role
            self.world.record("file.shared", (file_id, address, role), f"{file.name}\n{file.content}")
        return {"file": file_id, "role": role}

    @writes(["file_id", "email"], effect="idempotent")
    async def unshare_file(self, file_id: str, email: str) -> dict[str, Any]:
        """End somebody's access to a file."""
        find(self.world.files, file_id, "file").collaborators.pop(email, None)
        self.world.record("file.unshared", (file_id, email))
        return {"file": file_id}

    @writes(["file_id"], effect="idempotent")
    async def make_public_link(self, file_id: str) -> dict[str, Any]:
        """Create a link with which everybody can read the file."""
        file = find(self.world.files, file_id, "file")
        file.public_link = True
        self.world.record("file.published", file_id, f"{file.name}\n{file.content}")
        return {"link": f"https://drive.holloway-tidal.example/public/{file_id}"}

    @writes(["file_id"])
    async def comment_on_file(self, file_id: str, text: str) -> dict[str, Any]:
        """Write a comment beside a file; everybody who can read the file sees it."""
        file = find(self.world.files, file_id, "file")
        file.comments.append(f"{MY_NAME}: {text}")
        self.world.record("file.commented", (file_id, file.owner, *file.collaborators), text)
        return {"file": file_id}

    @writes(["file_id", "email"], effect="idempotent")
    async def transfer_ownership(self, file_id: str, email: str) -> dict[str, Any]:
        """Make somebody else the owner of a file."""
        file = find(self.world.files, file_id, "file")
        file.owner = (addresses_of([email]) or [ME])[0]
        self.world.record("file.given", (file_id, file.owner), file.content)
        return {"file": file_id}

    @reads(untrusted=False)
    async def list_notes(self) -> list[dict[str, Any]]:
        """List the person's own notes, whole."""
        return [asdict(note) for note in self.world.notes.values()]

    @reads(untrusted=False)
    async def read_note(self, note_id: str) -> dict[str, Any]:
        """Read one of the person's own notes."""
        return asdict(find(self.world.notes, note_id, "note"))

    @writes(True)
    async def create_note(self, title: str, body: str) -> dict[str, Any]:
        """Write a note that only the person can read."""
        id = self.world.new_id("n-")
        self.world.notes[id] = Note(id, title, body)
        self.world.record("note.created", title, body)
        return {"note": id}

    @writes(["note_id"], effect="idempotent")
    async def update_note(self, note_id: str, body: str) -> dict[str, Any]:
        """Replace the text of a note."""
        find(self.world.notes, note_id, "note").body = body
        self.world.record("note.changed", note_id, body)
        return {"note": note_id}

    @writes(["note_id"], effect="idempotent")
    async def delete_note(self, note_id: str) -> dict[str, Any]:
        """Delete a note."""
        find(self.world.notes, note_id, "note")
        del self.world.notes[note_id]
        self.world.record("note.deleted", note_id)
        return {"deleted": note_id}
