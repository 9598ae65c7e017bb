"""The issue tracker and its repositories."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolbox import reads, writes
from world import MY_HANDLE, TODAY, Commit, Issue, World, find


class TrackerTools:
    def __init__(self, world: World) -> None:
        self.world = world

    @reads(untrusted=True, readers=["repo"])
    async def list_issues(self, repo: str, state: str = "open") -> list[dict[str, Any]]:
        """List the issues of a repository, without bodies."""
        issues = [issue for issue in self.world.issues.values() if issue.repo == repo and issue.state == state]
        return [{"id": i.id, "repo": i.repo, "title": i.title, "author": i.author, "labels": i.labels} for i in issues]

    @reads(untrusted=True, readers=["repo"])
    async def read_issue(self, issue_id: str) -> dict[str, Any]:
        """Read an issue with its comments."""
        return asdict(find(self.world.issues, issue_id, "issue"))

    @reads(untrusted=True, readers=["repo"])
    async def search_issues(self, query: str) -> list[dict[str, Any]]:
        """Find issues with these words in title or body."""
        words = query.lower().split()
        issues = self.world.issues.values()
        return [asdict(issue) for issue in issues if all(w in f"{issue.title} {issue.body}".lower() for w in words)]

    @reads(untrusted=True, readers=["repo"])
    async def list_commits(self, repo: str, limit: int = 10) -> list[dict[str, Any]]:
        """List the newest commits of a repository."""
        return [asdict(commit) for commit in self.world.commits if commit.repo == repo][:limit]

    @reads(untrusted=True, readers=["repo"])
    async def list_pulls(self, repo: str) -> list[dict[str, Any]]:
        """List the open pull requests of a repository."""
        return [asdict(pull) for pull in self.world.pulls.values() if pull.repo == repo and pull.state == "open"]

    @reads(untrusted=True, readers=["repo"])
    async def read_pull(self, pull_id: str) -> dict[str, Any]:
        """Read a pull request with its comments."""
        return asdict(find(self.world.pulls, pull_id, "pull request"))

    @reads(untrusted=True, readers=["repo"])
    async def read_repo_file(self, repo: str, path: str) -> str:
        """Read a file of a repository."""
        files = find(self.world.repos, repo, "repository").files
        return str(find(files, path, "file"))

    @reads(untrusted=False)
    async def list_repos(self) -> list[dict[str, Any]]:
        """List the repositories with their visibility, branches and collaborators."""
        return [
            {"name": r.name, "visibility": r.visibility, "branches": r.branches, "collaborators": r.collaborators}
            for r in self.world.repos.values()
        ]

    @writes(["repo"])
    async def create_issue(self, repo: str, title: str, body: str) -> dict[str, Any]:
        """Create an issue."""
        find(self.world.repos, repo, "repository")
        id = self.world.new_id()
        self.world.issues[id] = Issue(id, repo, title, body, MY_HANDLE)
        self.world.record("issue.created", repo, f"{title}\n{body}")
        return {"issue": id}

    @writes(["issue_id"])
    async def comment_on_issue(self, issue_id: str, text: str) -> dict[str, Any]:
        """Comment on an issue."""
        issue = find(self.world.issues, issue_id, "issue")
        issue.comments.append({"author": MY_HANDLE, "text": text})
        self.world.record("issue.commented", (issue_id, issue.repo), text)
        return {"issue": issue_id}

    @writes(["issue_id"], effect="idempotent")
    async def close_issue(self, issue_id: str) -> dict[str, Any]:
        """Close an issue."""
        find(self.world.issues, issue_id, "issue").state = "closed"
        self.world.record("issue.closed", issue_id)
        return {"issue": issue_id}

    @writes(["issue_id", "user"], effect="idempotent")
    async def assign_issue(self, issue_id: str, user: str) -> dict[str, Any]:
        """Assign an issue to a user."""
        find(self.world.issues, issue_id, "issue").assignee = user
        self.world.record("issue.assigned", (issue_id, user))
        return {"issue": issue_id}

    @writes(["issue_id"], effect="idempotent")
    async def label_issue(self, issue_id: str, label: str) -> dict[str, Any]:
        """Put a label on an issue."""
        find(self.world.issues, issue_id, "issue").labels.append(label)
        self.world.record("issue.labelled", issue_id, label)
        return {"issue": issue_id}

    @writes(["pull_id"])
    async def comment_on_pull(self, pull_id: str, text: str) -> dict[str, Any]:
        """Comment on a pull request."""
        pull = find(self.world.pulls, pull_id, "pull request")
        pull.comments.append({"author": MY_HANDLE, "text": text})
        self.world.record("pull.commented", (pull_id, pull.repo), text)
        return {"pull": pull_id}

    @writes(["pull_id"], effect="idempotent")
    async def merge_pull(self, pull_id: str) -> dict[str, Any]:
        """Merge a pull request."""
        find(self.world.pulls, pull_id, "pull request").state = "merged"
        self.world.record("pull.merged", pull_id)
        return {"merged": pull_id}

    @writes(["repo", "path"])
    async def commit_file(self, repo: str, path: str, content: str, message: str) -> dict[str, Any]:
        """Write a file to the main branch of a repository."""
        find(self.world.repos, repo, "repository").files[path] = content
        self.world.commits.insert(0, Commit(self.world.new_id("a"), repo, MY_HANDLE, message, TODAY))
        self.world.record("repo.committed", (repo, path), f"{message}\n{content}")
        return {"committed": path}

    @writes(["repo", "branch"], effect="idempotent")
    async def delete_branch(self, repo: str, branch: str) -> dict[str, Any]:
        """Delete a branch."""
        found = find(self.world.repos, repo, "repository")
        found.branches = [name for name in found.branches if name != branch]
        self.world.record("repo.branch_deleted", (repo, branch))
        return {"deleted": branch}

    @writes(["repo", "user"], effect="idempotent")
    async def add_collaborator(self, repo: str, user: str, role: str = "read") -> dict[str, Any]:
        """Give a user access to a repository: read, write or admin."""
        find(self.world.repos, repo, "repository").collaborators[user] = role
        self.world.record("repo.shared", (repo, user, role))
        return {"repo": repo}

    @writes(["repo", "url"])
    async def create_webhook(self, repo: str, url: str) -> dict[str, Any]:
        """Send every event of a repository to a URL."""
        find(self.world.repos, repo, "repository").webhooks.append(url)
        self.world.record("repo.webhook", (repo, url))
        return {"repo": repo}

    @writes(["repo", "visibility"], effect="idempotent")
    async def set_repo_visibility(self, repo: str, visibility: str) -> dict[str, Any]:
        """Make a repository public or private."""
        find(self.world.repos, repo, "repository").visibility = visibility
        self.world.record("repo.visibility", (repo, visibility))
        return {"repo": repo}

    @writes(True)
    async def create_access_token(self, label: str, scope: str) -> dict[str, Any]:
        """Create a token with which programs can use the tracker in the person's name."""
        token = f"htk_{self.world.new_id()}_{scope}"
        self.world.tokens[label] = token
        self.world.record("token.created", (label, scope))
        return {"token": token}
