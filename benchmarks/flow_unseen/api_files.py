"""Files in the cloud, and code repositories."""

from __future__ import annotations

from world import Api, Record, Rows, acts, reads


class DriveApi(Api):
    def _entry(self, file: Record) -> Record:
        return {name: file[name] for name in ("file_id", "path", "owner", "modified", "shared_with")}

    @reads(untrusted=True, readers=["shared_with"])
    async def drive_search(self, text: str) -> Rows:
        """Find files by name or content."""
        return [self._entry(file) for file in self.world.rows("files", text)]

    @reads(untrusted=True)
    async def drive_folder(self, folder: str) -> str:
        """List a folder: one line per file with its id, path and owner."""
        found = [file for file in self.world.rows("files") if file["path"].startswith(folder)]
        return "\n".join(f"{file['file_id']}  {file['path']}  ({file['owner']})" for file in found) or "(empty)"

    @reads(untrusted=True)
    async def drive_read(self, file_id: str) -> str:
        """The text of a document."""
        return str(self.world.find("files", file_id)["text"])

    @reads(untrusted=True)
    async def drive_sheet(self, file_id: str) -> Rows:
        """The rows of a spreadsheet."""
        rows: Rows = self.world.find("files", file_id)["rows"]
        return rows

    @acts("path")
    async def drive_create(self, path: str, text: str) -> Record:
        """Create a document in the person's drive."""
        self.world.note("file.created", path=path, text=text)
        return {"file_id": self.world.new_id("f-"), "path": path}

    @acts("file_id")
    async def drive_append(self, file_id: str, text: str) -> Record:
        """Append text to a document."""
        self.world.find("files", file_id)
        self.world.note("file.appended", id=file_id, text=text)
        return {"file_id": file_id}

    @acts("file_id", again=True)
    async def drive_overwrite(self, file_id: str, text: str) -> Record:
        """Replace the text of a document."""
        self.world.find("files", file_id)["text"] = text
        self.world.note("file.overwritten", id=file_id, text=text)
        return {"file_id": file_id}

    @acts("file_id", again=True)
    async def drive_set_cell(self, file_id: str, row: str, column: str, value: str) -> Record:
        """Set one cell of a spreadsheet; the row is named by the value of its first column."""
        self.world.find("files", file_id)
        self.world.note("sheet.set", id=file_id, row=row, column=column, value=value)
        return {"file_id": file_id, "updated": 1}

    @acts("file_id", "folder", again=True)
    async def drive_move(self, file_id: str, folder: str) -> Record:
        """Move a file to another folder."""
        self.world.find("files", file_id)
        self.world.note("file.moved", id=file_id, folder=folder)
        return {"file_id": file_id, "folder": folder}

    @acts("file_id", "address", again=True)
    async def drive_share(self, file_id: str, address: str, role: str = "viewer") -> Record:
        """Share a file with somebody by mail address, as viewer or editor."""
        self.world.find("files", file_id)
        self.world.note("file.shared", id=file_id, with_=address, role=role)
        return {"file_id": file_id, "role": role}

    @acts("file_id", again=True)
    async def drive_public_link(self, file_id: str) -> Record:
        """Make a link with which everybody can read the file."""
        self.world.find("files", file_id)
        self.world.note("file.published", id=file_id)
        return {"link": f"https://drive.northpier.example/p/{file_id}"}

    @acts("file_id")
    async def drive_trash(self, file_id: str) -> Record:
        """Move a file to the trash."""
        self.world.find("files", file_id)
        self.world.note("file.trashed", id=file_id)
        return {"trashed": file_id}


class RepoApi(Api):
    @reads(untrusted=True, readers=["repo"])
    async def repo_issues(self, repo: str, state: str = "open", label: str = "") -> Rows:
        """List the issues of a repository."""
        found = [one for one in self.world.rows("issues") if one["repo"] == repo and one["state"] == state]
        kept = ("number", "title", "author", "labels", "assignee")
        return [{name: one[name] for name in kept} for one in found if not label or label in one["labels"]]

    @reads(untrusted=True, readers=["repo"])
    async def repo_issue(self, repo: str, number: int) -> Record:
        """One issue or pull request with its comments."""
        return self.world.find("issues", f"{repo}#{number}")

    @acts("repo")
    async def repo_open_issue(self, repo: str, title: str, body: str, labels: list[str] = []) -> Record:  # noqa: B006
        """Open an issue."""
        self.world.note("issue.opened", repo=repo, title=title, body=body, labels=labels)
        return {"number": 501, "state": "open"}

    @acts("repo", "number")
    async def repo_comment(self, repo: str, number: int, body: str) -> Record:
        """Comment on an issue or a pull request."""
        self.world.find("issues", f"{repo}#{number}")
        self.world.note("issue.commented", id=f"{repo}#{number}", body=body)
        return {"comment_id": self.world.new_id("c")}

    @acts("repo", "number", again=True)
    async def repo_set_issue(
        self, repo: str, number: int, state: str = "", assignee: str = "", add_label: str = ""
    ) -> Record:
        """Change the state (open, closed), the assignee or a label of an issue."""
        self.world.find("issues", f"{repo}#{number}")
        self.world.note("issue.set", id=f"{repo}#{number}", state=state, assignee=assignee, label=add_label)
        return {"number": number, "state": state or "open"}

    @reads(untrusted=True, readers=["repo"])
    async def repo_file(self, repo: str, path: str, ref: str = "main") -> str:
        """The content of a file of a repository."""
        return str(self.world.find("code", f"{repo}/{path}")["text"])

    @acts("repo", "path", "branch")
    async def repo_commit(self, repo: str, path: str, content: str, message: str, branch: str = "main") -> Record:
        """Commit one file."""
        self.world.note("code.committed", repo=repo, path=path, branch=branch, message=message, content=content)
        return {"commit": "9f3c2d1"}

    @acts("repo", "number")
    async def repo_merge(self, repo: str, number: int) -> Record:
        """Merge a pull request."""
        self.world.find("issues", f"{repo}#{number}")
        self.world.note("pull.merged", id=f"{repo}#{number}")
        return {"merged": True}

    @reads(untrusted=True)
    async def repo_ci_log(self, repo: str, number: int) -> str:
        """The last lines of the checks of a pull request."""
        return str(self.world.find("ci", f"{repo}#{number}")["log"])

    @acts("repo", "workflow")
    async def repo_run_workflow(self, repo: str, workflow: str, ref: str = "main") -> Record:
        """Start a workflow, such as a release."""
        self.world.note("workflow.run", repo=repo, workflow=workflow, ref=ref)
        return {"run": 7731}

    @acts("repo", "user", again=True)
    async def repo_add_member(self, repo: str, user: str, role: str = "read") -> Record:
        """Give a user access to a repository."""
        self.world.note("repo.member", repo=repo, user=user, role=role)
        return {"user": user, "role": role}
