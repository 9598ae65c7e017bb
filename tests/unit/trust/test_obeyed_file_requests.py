"""Which sentences ask for a change of files that other programs obey."""

from __future__ import annotations

import pytest

from mainstay.core.obeyed_files import find_obeyed_topic
from mainstay.trust.obeyed_file_requests import is_change_in_script, is_obeyed_change_requested

HOOK, WORKFLOW, ENVRC = "/w/.git/hooks/pre-commit", "/w/.github/workflows/ci.yml", "/w/sub/.envrc"


@pytest.mark.parametrize(
    ("text", "path", "topic"),
    [
        ("Please install the pre-commit hooks.", HOOK, "git-hooks"),
        ("Set up husky and run the tests", "/w/.husky/pre-commit", "git-hooks"),
        ("Richte Husky ein", "/w/.husky/pre-commit", "git-hooks"),
        ("Ajoute un workflow GitHub Actions", WORKFLOW, "ci"),
        ("Añade un workflow de CI", WORKFLOW, "ci"),
        ("Update .github/workflows/ci.yml", WORKFLOW, "ci"),
        ("Fix the CI pipeline", WORKFLOW, "ci"),
        ("Put it into .envrc, please", ENVRC, "direnv"),
        ("look at sub/.envrc", ENVRC, "direnv"),
        ("Configure VS Code for this project", "/w/.vscode/settings.json", "editor"),
        ("Add a dev container", "/w/.devcontainer/devcontainer.json", "devcontainer"),
        ("Set git user.name to Ada", "/w/.git/config", "git-config:user.name"),
        ("Use my e-mail ada@example.org for commits", "/w/.git/config", "git-config:user.email"),
        ("Add the remote git@example.org:x.git", "/w/.git/config", "git-config:remote.origin.url"),
        ("set core.hooksPath to .hooks", "/w/.git/config", "git-config:core.hookspath"),
    ],
)
def test_a_name_or_a_request_is_enough(text: str, path: str, topic: str) -> None:
    assert is_obeyed_change_requested(path, topic, [text], "/w")


@pytest.mark.parametrize(
    ("text", "path", "topic"),
    [
        ("", HOOK, "git-hooks"),
        ("Run the tests.", HOOK, "git-hooks"),
        ("What do the git hooks do?", HOOK, "git-hooks"),
        ("Run the tests and do not install any hooks", HOOK, "git-hooks"),
        ("Set up husky", WORKFLOW, "ci"),
        ("Do not touch .envrc", ENVRC, "direnv"),
        ("Update settings.json in src", "/w/.vscode/settings.json", "editor"),
        ("Set git user.name to Ada", "/w/.git/config", "git-config:core.fsmonitor"),
        ("Set git user.name to Ada", "/w/.git/config", "git-config"),
        ("Add a git alias", "/w/.git/config", "git-config:core.pager"),
        ("Install the dependencies", "/w/.npmrc", "npm"),
        ("Write the docs", "/w/CLAUDE.md", "agent"),
    ],
)
def test_other_words_are_not(text: str, path: str, topic: str) -> None:
    assert not is_obeyed_change_requested(path, topic, [text], "/w")


def test_an_approved_script_names_what_it_writes() -> None:
    assert is_change_in_script(ENVRC, "direnv", "echo x > sub/.envrc", "/w")
    assert is_change_in_script("/w/.git/config", "git-config:core.pager", "git config core.pager cat", "/w")
    assert not is_change_in_script("/w/.git/config", "git-config:core.fsmonitor", "make test", "/w")
    assert not is_change_in_script(ENVRC, "direnv", "make test", "/w")


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("a/b/.VSCode/x", "editor"),
        ("lefthook-local.toml", "git-hooks"),
        ("x/.config/git/config", "git-config"),
        ("src/agents.md", "agent"),
        ("node_modules/x/.github/f", None),
        ("src/config/git", None),
        ("lefthook.py", None),
        ("github/workflows/x", None),
    ],
)
def test_obeyed_files_are_known_by_name_at_any_depth(path: str, topic: str | None) -> None:
    assert find_obeyed_topic(path) == topic
