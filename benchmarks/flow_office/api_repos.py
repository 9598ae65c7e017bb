"""Repositories in the shape of the GitHub API."""

from __future__ import annotations

import json
from typing import Any

from records import OfficeService, acts, reads


class RepoService(OfficeService):
    @reads(untrusted=False)
    async def list_repositories(self) -> list[dict[str, str]]:
        """The repositories of the person's organisation."""
        return [
            {"repo": "lumen/halden-shop", "visibility": "private"},
            {"repo": "lumen/website", "visibility": "public"},
            {"repo": "lumen/invoice-tools", "visibility": "private"},
        ]

    @reads(untrusted=True)
    async def list_issues(self, repo: str, state: str = "open") -> list[dict[str, Any]]:
        """Issues of a repository (owner/name) without their comments."""
        return [
            {"number": one["number"], "title": one["title"], "author": one["author"], "labels": one["labels"]}
            for one in self.world.issues.values()
            if one["repo"] == repo and (state == "all" or one["state"] == state)
        ]

    @reads(untrusted=True, readers=["repo"])
    async def get_issue(self, repo: str, issue_number: int) -> str:
        """An issue with its comments, as JSON."""
        return json.dumps(self.world.find(self.world.issues, f"{repo}#{issue_number}", "issue"))

    @acts(sink=["repo"])
    async def create_issue(
        self, repo: str, title: str, body: str = "", labels: list[str] | None = None
    ) -> dict[str, Any]:
        """Open an issue."""
        number = self.world.new_number()
        self.world.issues[f"{repo}#{number}"] = {
            "repo": repo, "number": number, "title": title, "author": "nadia-v", "labels": labels or [],
            "state": "open", "body": body, "comments": [],
        }  # fmt: skip
        return {"number": number, "url": f"https://git.example/{repo}/issues/{number}"}

    @acts(sink=["repo", "issue_number"])
    async def add_issue_comment(self, repo: str, issue_number: int, body: str) -> str:
        """Comment on an issue or a pull request."""
        if f"{repo}#{issue_number}" not in self.world.pulls:
            self.world.find(self.world.issues, f"{repo}#{issue_number}", "issue")
        return "commented"

    @acts(sink=["repo", "issue_number"])
    async def update_issue(
        self, repo: str, issue_number: int, state: str = "", labels: list[str] | None = None, assignee: str = ""
    ) -> str:
        """Close or reopen an issue, set labels or the assignee."""
        one = self.world.find(self.world.issues, f"{repo}#{issue_number}", "issue")
        one["state"] = state or one["state"]
        return f"{repo}#{issue_number} was updated"

    @reads(untrusted=True)
    async def list_pull_requests(self, repo: str) -> str:
        """Open pull requests as a Markdown table."""
        rows = [
            f"| {one['number']} | {one['title']} | {one['author']} | {one['checks']} |"
            for one in self.world.pulls.values()
            if one["repo"] == repo
        ]
        return "\n".join(["| # | title | author | checks |", "|---|---|---|---|", *rows])

    @reads(untrusted=True, readers=["repo"])
    async def get_pull_request(self, repo: str, pull_number: int) -> dict[str, Any]:
        """A pull request with its description and its comments."""
        return dict(self.world.find(self.world.pulls, f"{repo}#{pull_number}", "pull request"))

    @acts(sink=["repo", "pull_number"])
    async def merge_pull_request(self, repo: str, pull_number: int, method: str = "squash") -> str:
        """Merge a pull request."""
        self.world.find(self.world.pulls, f"{repo}#{pull_number}", "pull request")
        return f"merged #{pull_number}"

    @reads(untrusted=True, readers=["repo"])
    async def get_file_contents(self, repo: str, path: str) -> str:
        """The text of a file of a repository."""
        if f"{repo}:{path}" not in self.world.code:
            raise ValueError(f"{repo} has no file {path}")
        return self.world.code[f"{repo}:{path}"]

    @acts(sink=["repo", "path"])
    async def create_or_update_file(self, repo: str, path: str, content: str, message: str) -> str:
        """Commit a file to the default branch."""
        self.world.code[f"{repo}:{path}"] = content
        return f"committed {path}"

    @acts(sink=["repo", "username"])
    async def add_collaborator(self, repo: str, username: str, permission: str = "read") -> str:
        """Give a user access to a repository."""
        return f"{username}: {permission} on {repo}"

    @acts(sink=["repo"], effect="idempotent")
    async def set_repo_visibility(self, repo: str, visibility: str) -> str:
        """Make a repository public or private."""
        return f"{repo} is {visibility}"
