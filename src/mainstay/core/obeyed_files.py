"""Files that other programs obey, by name and at any depth: git, editors, continuous integration, shells, agents.

Writing one of them has an effect beyond the conversation: the program runs or follows what it says, for its owner.
"""

from __future__ import annotations

import re
from typing import Literal

ObeyedTopic = Literal[
    "git-config", "git-hooks", "git-folder", "editor", "ci", "devcontainer", "direnv", "npm", "shell", "agent", "other"
]

_NAMES: dict[str, ObeyedTopic] = {
    ".husky": "git-hooks", ".pre-commit-config.yaml": "git-hooks", ".pre-commit-config.yml": "git-hooks",
    ".pre-commit-hooks.yaml": "git-hooks",
    ".gitconfig": "git-config",
    ".vscode": "editor", ".idea": "editor", ".vimrc": "editor", ".exrc": "editor", ".nvimrc": "editor",
    ".nvim.lua": "editor", ".emacs": "editor", ".dir-locals.el": "editor",
    ".github": "ci", ".circleci": "ci", ".gitlab-ci.yml": "ci", ".gitlab-ci.yaml": "ci",
    ".devcontainer": "devcontainer", ".devcontainer.json": "devcontainer",
    ".envrc": "direnv",
    ".npmrc": "npm", ".yarnrc": "npm", ".yarnrc.yml": "npm", ".pnpmfile.cjs": "npm",
    ".agents.md": "agent", "agents.md": "agent", "agents.override.md": "agent", "claude.md": "agent",
    "claude.local.md": "agent", "gemini.md": "agent", ".cursorrules": "agent", ".windsurfrules": "agent",
    ".clinerules": "agent", ".cursor": "agent", ".claude": "agent", ".gemini": "agent", ".mcp.json": "agent",
    **dict.fromkeys(
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
            *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
            *(".xprofile", ".xinitrc", ".xsession", ".xsessionrc"),
        ),
        "shell",
    ),
}  # fmt: skip
_LEFTHOOK = re.compile(r"\.?lefthook(?:-local)?\.(?:ya?ml|toml|json)")
# folders with configuration in the home directory, as successive names
_NESTED: dict[tuple[str, str], ObeyedTopic] = {
    (".config", "git"): "git-config", (".config", "fish"): "shell", (".config", "zsh"): "shell",
}  # fmt: skip
# Packages of others contain such files by the hundred, and no program obeys them there.
_DEPENDENCY_FOLDERS = frozenset(("node_modules", "site-packages", "dist-packages"))


def find_obeyed_topic(path: str) -> ObeyedTopic | None:
    """Return what a file configures if another program obeys it; None for any other file. `path` is relative to a
    folder of the session. Files in a git folder are judged by their content: see `sandbox.git_folder_rules`."""
    names = path.casefold().split("/")
    for index, name in enumerate(names):
        if name in _DEPENDENCY_FOLDERS:
            return None
        if (topic := _NAMES.get(name)) is not None:
            return topic
        if name.startswith((".lefthook", "lefthook")) and _LEFTHOOK.fullmatch(name):
            return "git-hooks"
        if index and (topic := _NESTED.get((names[index - 1], name))) is not None:
            return topic
    return None


def may_be_obeyed(path: str) -> bool:
    """Return whether a file may be one that programs obey, by its names alone: so also for every file whose name occurs
    in git folders."""
    names = path.casefold().split("/")
    return find_obeyed_topic(path) is not None or not _GIT_NAMES.isdisjoint(names)


_GIT_NAMES = frozenset((".git", "config", "config.worktree", "commondir", "hooks", "head", "objects", "refs"))
