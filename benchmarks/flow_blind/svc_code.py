"""Repositories and issues. Results are nested JSON; names follow a command line program."""

from __future__ import annotations

from typing import Any

from state import Record, Service, act_port, read_port


class CodeService(Service):
    def _issue(self, repo: str, number: int) -> Record:
        issues = self.world.find(self.world.repos, repo, "repository")["issues"]
        return self.world.find(issues, number, "issue")

    def _pull(self, repo: str, number: int) -> Record:
        pulls = self.world.find(self.world.repos, repo, "repository")["pulls"]
        return self.world.find(pulls, number, "pull request")

    @read_port(untrusted=True)
    async def gh_issue_list(self, repo: str, state: str = "open", label: str = "") -> list[dict[str, Any]]:
        """List the issues of a repository."""
        issues = self.world.find(self.world.repos, repo, "repository")["issues"]
        return [
            {"number": number, "title": one["title"], "author": one["author"], "labels": one["labels"]}
            for number, one in issues.items()
            if state in (one["state"], "all") and (not label or label in one["labels"])
        ]

    @read_port(untrusted=True)
    async def gh_issue_view(self, repo: str, number: int) -> dict[str, Any]:
        """An issue with its comments."""
        issue = self._issue(repo, number)
        return {"repository": {"name": repo}, "issue": {"number": number, **issue}}

    @act_port(sink=["repo"])
    async def gh_issue_create(self, repo: str, title: str, body: str = "") -> dict[str, Any]:
        """Create an issue."""
        issues = self.world.find(self.world.repos, repo, "repository")["issues"]
        number = self.world.new_number()
        issues[number] = {"title": title, "author": "theo-l", "body": body, "state": "open", "labels": []}
        issues[number] |= {"assignees": [], "comments": []}
        self.world.log("issue.created", repo, title, text=body)
        return {"issue": {"number": number, "state": "open"}}

    @act_port(sink=["repo", "number"])
    async def gh_issue_comment(self, repo: str, number: int, body: str) -> dict[str, Any]:
        """Comment on an issue."""
        self._issue(repo, number)["comments"].append({"author": "theo-l", "text": body})
        self.world.log("issue.commented", repo, number, text=body)
        return {"comment": {"state": "posted"}}

    @act_port(sink=["repo", "number"])
    async def gh_issue_close(self, repo: str, number: int, reason: str = "completed") -> dict[str, Any]:
        """Close an issue."""
        self._issue(repo, number)["state"] = "closed"
        self.world.log("issue.closed", repo, number, reason)
        return {"issue": {"number": number, "state": "closed"}}

    @act_port(sink=["repo", "number"])
    async def gh_issue_label(self, repo: str, number: int, label: str) -> dict[str, Any]:
        """Put a label on an issue."""
        self._issue(repo, number)["labels"].append(label)
        self.world.log("issue.labelled", repo, number, label)
        return {"issue": {"number": number, "labels": self._issue(repo, number)["labels"]}}

    @act_port(sink=["repo", "number", "login"])
    async def gh_issue_assign(self, repo: str, number: int, login: str) -> dict[str, Any]:
        """Assign an issue to a user."""
        self._issue(repo, number)["assignees"].append(login)
        self.world.log("issue.assigned", repo, number, login)
        return {"issue": {"number": number, "assignees": self._issue(repo, number)["assignees"]}}

    @read_port(untrusted=True)
    async def gh_pr_list(self, repo: str) -> list[dict[str, Any]]:
        """List the open pull requests."""
        pulls = self.world.find(self.world.repos, repo, "repository")["pulls"]
        return [
            {"number": number, "title": one["title"], "author": one["author"], "checks": one["checks"]}
            for number, one in pulls.items()
            if one["state"] == "open"
        ]

    @read_port(untrusted=True)
    async def gh_pr_view(self, repo: str, number: int) -> dict[str, Any]:
        """A pull request with its diff and comments."""
        return {"repository": {"name": repo}, "pull": {"number": number, **self._pull(repo, number)}}

    @act_port(sink=["repo", "number"])
    async def gh_pr_merge(self, repo: str, number: int) -> dict[str, Any]:
        """Merge a pull request."""
        self._pull(repo, number)["state"] = "merged"
        self.world.log("pull.merged", repo, number)
        return {"pull": {"number": number, "state": "merged"}}

    @act_port(sink=["repo", "number"])
    async def gh_pr_review(self, repo: str, number: int, verdict: str, body: str = "") -> dict[str, Any]:
        """Review a pull request: approve, request_changes or comment."""
        self._pull(repo, number)["comments"].append({"author": "theo-l", "text": body})
        self.world.log("pull.reviewed", repo, number, verdict, text=body)
        return {"review": {"state": verdict}}

    @read_port(untrusted=True)
    async def gh_file_read(self, repo: str, path: str) -> str:
        """A file of the default branch."""
        files = self.world.find(self.world.repos, repo, "repository")["files"]
        if path not in files:
            raise ValueError(f"there is no file {path}")
        return str(files[path])

    @act_port(sink=["repo", "path"])
    async def gh_file_put(self, repo: str, path: str, content: str, message: str = "update") -> dict[str, Any]:
        """Commit a file to the default branch."""
        self.world.find(self.world.repos, repo, "repository")["files"][path] = content
        self.world.log("repo.committed", repo, path, text=content)
        return {"commit": {"state": "pushed", "message": message}}

    @act_port(sink=["repo", "login"])
    async def gh_collaborator_add(self, repo: str, login: str, role: str = "write") -> dict[str, Any]:
        """Give a user access to a repository."""
        self.world.find(self.world.repos, repo, "repository")
        self.world.log("repo.collaborator", repo, login, role)
        return {"invitation": {"state": "sent"}}

    @act_port(sink=["repo"])
    async def gh_release_publish(self, repo: str, tag: str, notes: str) -> dict[str, Any]:
        """Publish a release."""
        self.world.find(self.world.repos, repo, "repository")
        self.world.log("repo.released", repo, tag, text=notes)
        return {"release": {"tag": tag, "state": "published"}}

    @act_port(sink=["url"])
    async def gh_hook_create(self, repo: str, url: str) -> dict[str, Any]:
        """Send the events of a repository to a URL."""
        self.world.find(self.world.repos, repo, "repository")
        self.world.log("repo.hook", repo, url)
        return {"hook": {"active": True}}
