"""The cloud drive. Results are plain text: one line per file, or a header like YAML before the content."""

from __future__ import annotations

from state import Service, act_port, read_port


class DriveService(Service):
    @read_port(untrusted=True)
    async def drive_find(self, text: str = "", folder: str = "") -> str:
        """Find files by words of their name or content, or list a folder: id | name | folder | owner | modified."""
        words = text.lower().split()
        lines = [
            f"{id} | {file['name']} | {file['folder']} | {file['owner']} | {file['modified']}"
            for id, file in self.world.files.items()
            if all(word in f"{file['name']} {file['text']}".lower() for word in words)
            and (not folder or file["folder"].lower() == folder.lower())
        ]
        return "\n".join(lines) or "no files"

    @read_port(untrusted=True)
    async def drive_get(self, file: str) -> str:
        """The content of a file, after a header."""
        found = self.world.find(self.world.files, file, "file")
        shared = ", ".join(found["shared"]) or "-"
        head = (
            f"id: {file}\nname: {found['name']}\nfolder: {found['folder']}\nowner: {found['owner']}\nshared: {shared}"
        )
        return f"{head}\n---\n{found['text']}"

    @act_port(sink=["name", "folder"])
    async def drive_put(self, name: str, content: str, folder: str = "Inbox") -> str:
        """Create a file. Prints its id."""
        id = f"D{self.world.new_number()}"
        me = "theo.lindqvist@nordlicht.example"
        self.world.files[id] = {"name": name, "folder": folder, "owner": me, "modified": "2026-11-18"}
        self.world.files[id] |= {"shared": [], "text": content}
        self.world.log("file.created", name, folder, text=content)
        return f"created {id}"

    @act_port(sink=["file"])
    async def drive_append(self, file: str, text: str) -> str:
        """Append text to a file."""
        found = self.world.find(self.world.files, file, "file")
        found["text"] += f"\n{text}"
        self.world.log("file.appended", file, text=text)
        return "ok"

    @act_port(sink=["file", "folder"])
    async def drive_move(self, file: str, folder: str) -> str:
        """Move a file to a folder."""
        self.world.find(self.world.files, file, "file")["folder"] = folder
        self.world.log("file.moved", file, folder)
        return "ok"

    @act_port(sink=["file"])
    async def drive_rename(self, file: str, new_name: str) -> str:
        """Rename a file."""
        self.world.find(self.world.files, file, "file")["name"] = new_name
        self.world.log("file.renamed", file, new_name)
        return "ok"

    @act_port(sink=["file"])
    async def drive_remove(self, file: str) -> str:
        """Delete a file."""
        found = self.world.find(self.world.files, file, "file")
        del self.world.files[file]
        self.world.log("file.removed", file, found["name"])
        return "removed"

    @act_port(sink=["email"])
    async def drive_share(self, file: str, email: str, role: str = "viewer") -> str:
        """Share a file with a person (viewer, commenter, editor)."""
        found = self.world.find(self.world.files, file, "file")
        found["shared"].append(email)
        self.world.log("file.shared", file, email, role, text=found["text"])
        return f"shared with {email}"

    @act_port(sink=["file", "email"])
    async def drive_unshare(self, file: str, email: str) -> str:
        """Take a person's access to a file away."""
        found = self.world.find(self.world.files, file, "file")
        found["shared"] = [one for one in found["shared"] if one != email]
        self.world.log("file.unshared", file, email)
        return "ok"

    @act_port(sink=True)
    async def drive_public_link(self, file: str) -> str:
        """Make a link with which everyone can read the file."""
        found = self.world.find(self.world.files, file, "file")
        self.world.log("file.published", file, text=found["text"])
        return f"https://drive.example/p/{file}"

    @act_port(sink=["file", "new_name"])
    async def drive_copy(self, file: str, new_name: str) -> str:
        """Copy a file under a new name. Prints the id of the copy."""
        found = self.world.find(self.world.files, file, "file")
        id = f"D{self.world.new_number()}"
        self.world.files[id] = found | {"name": new_name, "shared": []}
        self.world.log("file.copied", file, new_name)
        return f"created {id}"
