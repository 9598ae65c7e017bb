"""Files that other programs obey, with the real sandbox and the real git: a hostile clone, and ordinary work."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.tool_world import Workspace, call, calling

from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.held_changes import HeldChange
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import SandboxCommand
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, can_overlay
from mainstay.tools.bash import create_bash_tool
from mainstay.tools.command_protection import may_change_obeyed_files
from mainstay.tools.process import BackgroundProcesses, create_process_tool

pytestmark = [
    pytest.mark.skipif(not can_overlay("/var/tmp"), reason="the kernel has no overlay for us"),
    pytest.mark.skipif(shutil.which("git") is None or shutil.which("make") is None, reason="git and make are needed"),
]

PROGRAM = "#!/bin/sh\necho ran >> {marker}\n"
# Each plants something that a program of the owner obeys. `evil` is a program in the clone.
PLANTS = {
    "hook": "cp evil .git/hooks/post-checkout; cp evil .git/hooks/post-index-change",
    "hooks folder": "rm -rf .git/hooks; ln -s .. .git/hooks; cp evil post-index-change",
    "replaced hooks folder": "mv .git/hooks .git/old; mkdir .git/hooks; cp evil .git/hooks/post-index-change",
    "core.hooksPath": "mkdir planted; cp evil planted/post-index-change; git config core.hooksPath planted",
    "core.fsmonitor": "git config core.fsmonitor $$PWD/evil",
    "diff driver": "git config diff.external $$PWD/evil; git config core.pager $$PWD/evil",
    "filter": "git config filter.x.clean $$PWD/evil; echo '* filter=x' > .git/info/attributes; touch Makefile",
    "alias": "git config alias.st '!./evil'",
    "include": "printf '[core]\\n\\tfsmonitor = ./evil\\n' > other; git config include.path ../other",
    "one line": "printf '[core] fsmonitor = ./evil\\n' >> .git/config",
    "continued line": "printf '[user]\\n\\tname = a\\\\\\n\\n[core]\\n\\tfsmonitor=./evil\\n' >> .git/config",
    "worktree configuration": "git config extensions.worktreeConfig true;"
    " printf '[core]\\n\\tfsmonitor = ./evil\\n' > .git/config.worktree",
    "commondir": "cp -r .git planted; printf '[core]\\n\\tfsmonitor = ./evil\\n' >> planted/config;"
    " echo ../planted > .git/commondir",
    "git file": "cp -r .git planted; printf '[core]\\n\\tfsmonitor = ./evil\\n' >> planted/config;"
    " rm -rf .git; echo 'gitdir: planted' > .git",
    "git link": "cp -r .git planted; printf '[core]\\n\\tfsmonitor = ./evil\\n' >> planted/config;"
    " rm -rf .git; ln -s planted .git",
    "renamed repository": "cp -r .git new; printf '[core]\\n\\tfsmonitor = ./evil\\n' >> new/config;"
    " mv .git old; mv new .git",
    "python": "python3 -c \"open('.git/config', 'a').write('[core]\\n\\tfsmonitor = ./evil\\n')\"",
    "background": "(sleep 0.05; git config core.fsmonitor $$PWD/evil) & wait",
    "other case": "mkdir -p .GIT/hooks; cp evil .GIT/hooks/post-index-change",
}  # fmt: skip
OBEYED = (
    *(".husky/pre-commit", ".vscode/settings.json", ".github/workflows/ci.yml", ".circleci/config.yml"),
    *(".gitlab-ci.yml", ".devcontainer/devcontainer.json", ".devcontainer.json", ".envrc", ".npmrc", "lefthook.yml"),
    *(".lefthook.yml", ".pre-commit-config.yaml", ".bashrc", ".profile", ".zshrc", ".bash_profile", ".gitconfig"),
    *(".config/git/config", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".cursor/rules/x.mdc"),
    *(".claude/settings.json", ".mcp.json", ".idea/workspace.xml", "Agents.md", ".VSCode/tasks.json"),
)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
async def sandbox() -> AsyncIterator[BubblewrapSandbox]:
    running = BubblewrapSandbox()
    yield running
    await running.close()


@pytest.fixture
def bash(space: Workspace, sandbox: BubblewrapSandbox) -> Tool:
    return create_bash_tool(space.files, sandbox, space.labels)


def git(folder: Path, *words: str) -> str:
    """The owner's git, outside of the sandbox."""
    env = {**os.environ, "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=folder, env=env, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


def build_clone(space: Workspace, recipe: str) -> Path:
    """A clone of another author's repository in the workspace; return the file that `evil` would write."""
    origin, marker = space.root / "origin", space.root / "marker"
    (origin).mkdir()
    (origin / "Makefile").write_text(f"test:\n\t{recipe}\n\t@echo passed\n")
    (origin / "evil").write_text(PROGRAM.format(marker=marker))
    (origin / "evil").chmod(0o755)
    git(origin, "init", "-q")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "one")
    space.work.rmdir()
    assert "fatal" not in git(space.root, "clone", "-q", str(origin), str(space.work))
    return marker


def saying(text: str) -> ToolContext:
    context = calling()
    context.read_turn_texts = lambda: (text,)
    return context


async def run_bash(bash: Tool, context: ToolContext, *, command: str) -> str:
    """Return what the command printed, and what a question would be about."""
    shown = await call(bash, context, command=command)
    held = ", ".join(change.path for change in context.held_changes)
    return f"{shown}\n[held back: {held}]" if held else shown


def config(space: Workspace, key: str) -> str:
    return git(space.work, "config", "--local", "--get", key).strip()


@pytest.mark.parametrize("name", PLANTS)
async def test_f67_after_make_test_in_a_hostile_clone_the_owners_git_runs_nothing_of_it(
    name: str, space: Workspace, bash: Tool
) -> None:
    marker = build_clone(space, PLANTS[name])
    before = (space.work / ".git/config").read_bytes()
    shown = await run_bash(bash, saying("Run the tests and tell me whether they pass."), command="make test")
    assert "passed" in shown
    (space.work / "new.txt").write_text("new")
    for words in (("status",), ("add", "."), ("diff", "HEAD"), ("checkout", "-q", "-b", "own"), ("commit", "-qm", "x")):
        git(space.work, *words)
    assert not marker.exists(), git(space.work, "config", "--list", "--show-origin")
    assert "held back" in shown
    if name != "worktree configuration":  # the extension alone does nothing
        assert (space.work / ".git/config").read_bytes() == before


@pytest.mark.parametrize("depth", ["", "sub/deep/"])
async def test_f67_obeyed_files_are_neither_created_nor_changed_at_any_depth(
    depth: str, space: Workspace, bash: Tool
) -> None:
    recipe = "; ".join(f"mkdir -p $$(dirname {depth}{name}); echo planted > {depth}{name}" for name in OBEYED)
    build_clone(space, recipe)
    (space.work / ".envrc").write_text("theirs\n")
    shown = await run_bash(bash, saying("run make test"), command="make test")
    assert "passed" in shown
    assert [name for name in OBEYED if (space.work / depth / name).exists() and name != ".envrc"] == []
    assert (space.work / ".envrc").read_text() == "theirs\n"
    assert f"{depth}.VSCode/tasks.json" in shown
    assert [path.name for path in space.work.iterdir() if path.name == "sub"] == []  # nothing else was in it


async def test_a_renamed_folder_does_not_bring_obeyed_files_into_place(space: Workspace, bash: Tool) -> None:
    build_clone(space, "mkdir -p a; echo x > a/settings.json; mv a .vscode; mkdir b; echo x > b/f; mv b c")
    await run_bash(bash, saying("run make test"), command="make test")
    assert not (space.work / ".vscode").exists()
    assert (space.work / "c/f").read_text() == "x\n"


async def test_repositories_that_a_command_creates_run_nothing_either(space: Workspace, bash: Tool) -> None:
    """Nested, bare, and completed by a second command."""
    evil = "printf '[core]\\n\\tfsmonitor = ../evil\\n' >> {0}/config; cp evil {0}/hooks/post-index-change"
    marker = build_clone(
        space,
        f"git init -q nested; {evil.format('nested/.git')}; git init -q --bare bare; {evil.format('bare')};"
        " mkdir -p part/hooks;"
        " printf '[core]\\n\\tfsmonitor = ../evil\\n\\tbare = false\\n\\tworktree = .\\n' > part/config",
    )
    await run_bash(bash, saying("run make test"), command="make test")
    assert (space.work / "part/config").exists()  # it is no repository yet
    await run_bash(bash, saying("go on"), command="cp -r .git/HEAD .git/objects .git/refs part/")
    for name in ("nested", "bare", "part"):
        git(space.work / name, "status")
    assert not marker.exists()


async def test_folders_that_the_owners_configuration_names_are_protected_too(space: Workspace, bash: Tool) -> None:
    """With core.hooksPath in the work tree, a hook is any file in there."""
    marker = build_clone(
        space, "cp evil tools/hooks/pre-commit; echo x > included; cp evil bin/monitor; touch bin/other"
    )
    for name in ("tools/hooks", "bin"):
        (space.work / name).mkdir(parents=True)
    (space.work / "bin/monitor").write_text("#!/bin/sh\n")
    (space.work / "bin/monitor").chmod(0o755)
    git(space.work, "config", "core.hooksPath", "tools/hooks")
    git(space.work, "config", "core.fsmonitor", "bin/monitor")
    git(space.work, "config", "include.path", "../included")
    shown = await run_bash(bash, saying("run make test"), command="make test")
    git(space.work, "status")
    git(space.work, "commit", "-q", "--allow-empty", "-m", "x")
    assert not marker.exists()
    assert "tools/hooks/pre-commit" in shown
    assert not (space.work / "included").exists()
    assert (space.work / "bin/other").exists()
    assert await may_change_obeyed_files("echo x > tools/hooks/pre-push", space.grounds("s"), str(space.work))
    assert not await may_change_obeyed_files("echo x > tools/other", space.grounds("s"), str(space.work))


async def test_what_was_held_back_is_data_with_its_content(space: Workspace, sandbox: BubblewrapSandbox) -> None:
    folders = space.grounds("s")
    (space.work / ".npmrc").write_text("theirs")
    script = "mkdir .vscode; echo '{}' > .vscode/settings.json; ln -s x .envrc; rm .npmrc; echo fine > fine"
    result = await sandbox.exec(SandboxCommand(script=script, folders=folders, protect_obeyed=True))
    work = str(space.work)
    before = compute_fingerprint(os.stat(space.work / ".npmrc"))
    assert result.held_changes == (
        HeldChange(path=f"{work}/.envrc", kind="link", data=b"x"),
        HeldChange(path=f"{work}/.npmrc", kind="remove", before=before),
        HeldChange(path=f"{work}/.vscode/settings.json", data=b"{}\n", mode=0o644),
    )
    assert result.changed == (f"{work}/fine",)
    assert sorted(os.listdir(work)) == [".npmrc", "fine"]


@pytest.mark.parametrize(
    ("text", "script", "path"),
    [
        ("Please write a .envrc that loads .env", "echo dotenv > .envrc", ".envrc"),
        ("Create sub/.vscode/settings.json", "mkdir -p sub/.vscode; echo {} > sub/.vscode/settings.json",
         "sub/.vscode/settings.json"),
        ("Add a GitHub Actions workflow for the tests", "mkdir -p .github/workflows; echo on > .github/workflows/t.yml",
         ".github/workflows/t.yml"),
        ("Set up husky", "mkdir .husky; echo test > .husky/pre-commit", ".husky/pre-commit"),
        ("Richte einen pre-commit Hook ein, schreibe ihn als Shell-Skript", "echo x > .git/hooks/pre-commit",
         ".git/hooks/pre-commit"),
        ("Write CLAUDE.md", "echo be brief > CLAUDE.md", "CLAUDE.md"),
    ],
)  # fmt: skip
async def test_what_the_user_named_or_asked_for_in_this_turn_is_written(
    text: str, script: str, path: str, space: Workspace, bash: Tool
) -> None:
    git(space.work, "init", "-q")
    assert "held back" in await run_bash(bash, saying("Run it."), command=script)
    assert not (space.work / path).exists()
    assert "held back" not in await run_bash(bash, saying(text), command=script)
    assert (space.work / path).exists()


@pytest.mark.parametrize(
    "text", ["Explain the git hooks and run the tests", "Run the tests, but do not add any hooks", "What is CI?"]
)
async def test_a_mention_is_no_request(text: str, space: Workspace, bash: Tool) -> None:
    build_clone(space, "cp evil .git/hooks/pre-commit; mkdir .github; echo x > .github/x")
    assert "held back" in await run_bash(bash, saying(text), command="make test")
    assert not (space.work / ".git/hooks/pre-commit").exists()
    assert not (space.work / ".github").exists()


async def test_git_configuration_is_changed_key_by_key(space: Workspace, bash: Tool) -> None:
    build_clone(space, "git config user.name Eve; git config core.fsmonitor ./evil")
    asked = "Set git's user.name to Ada Lovelace in this repository"
    assert "held back" not in await run_bash(bash, saying(asked), command="git config user.name 'Ada Lovelace'")
    assert config(space, "user.name") == "Ada Lovelace"
    assert "held back" in await run_bash(bash, saying(asked), command="make test")
    assert (config(space, "user.name"), config(space, "core.fsmonitor")) == ("Ada Lovelace", "")
    assert "held back" in await run_bash(bash, saying("Run the tests"), command="git config user.name Eve")
    named = "Please set core.hooksPath to .hooks"
    assert "held back" not in await run_bash(bash, saying(named), command="git config core.hooksPath .hooks")
    assert config(space, "core.hooksPath") == ".hooks"


async def test_a_call_that_a_person_approved_may_change_what_its_script_names(space: Workspace, bash: Tool) -> None:
    build_clone(space, "git config core.fsmonitor ./evil")
    context = saying("go on")
    context.is_approved = True
    await run_bash(bash, context, command="git config core.pager cat; echo x > .envrc; make test")
    assert (config(space, "core.pager"), config(space, "core.fsmonitor")) == ("", "")  # the file holds both, or none
    assert (space.work / ".envrc").exists()
    await run_bash(bash, context, command="git config core.pager cat")
    assert config(space, "core.pager") == "cat"


ORDINARY = (
    "git add . && git -c user.name=a -c user.email=b commit -qm two",
    "git checkout -q -b feature && git checkout -q -",
    "git checkout -q --track -b topic origin/{branch}",
    "git init -q new && cd new && git config user.name n && git config user.email e && git commit -q --allow-empty -mm",
    "git clone -q --no-hardlinks {origin} cloned && git -C cloned status",
    "git worktree add -q tree && git -C tree status && git worktree remove tree",
    "git branch -q other && git branch -m other renamed && git branch -d renamed",
    "git stash -q; git stash pop -q; git fetch -q; git pull -q",
    "make test",
    "mkdir -p node_modules/x/.github && echo x > node_modules/x/.github/f && touch node_modules/x/.npmrc",
    "mkdir -p build/a && echo x > build/a/b && rm -rf build && echo file > build && rm build && mkdir build",
    "cp -r {origin} copy && rm -rf copy",
)  # fmt: skip


async def test_ordinary_work_goes_without_a_question(space: Workspace, bash: Tool) -> None:
    build_clone(space, "echo x > out.txt")
    (space.work / "mine.txt").write_text("x")
    shutil.move(space.root / "origin", space.work / "origin.git")  # visible for commands
    origin = space.work / "origin.git"
    git(space.work, "remote", "set-url", "origin", str(origin))
    branch = git(space.work, "branch", "--show-current").strip()
    for command in ORDINARY:
        shown = await run_bash(bash, saying("go on"), command=command.format(origin=origin, branch=branch))
        assert "held back" not in shown, (command, shown)
        assert "exit code" not in shown, (command, shown)
    assert git(space.work, "log", "--format=%s", branch).split() == ["two", "one"]
    assert config(space, "branch.topic.remote") == "origin"
    assert git(space.work / "cloned", "config", "remote.origin.url").strip() == str(origin)
    assert (space.work / "cloned/Makefile").exists()
    assert (space.work / "build").is_dir()
    assert not (space.work / "copy").exists()
    assert not (space.work / "tree").exists()


async def test_a_checkout_brings_the_repositorys_own_files(space: Workspace, bash: Tool) -> None:
    git(space.work, "init", "-q")
    git(space.work, "commit", "-q", "--allow-empty", "-m", "one")
    git(space.work, "branch", "ci")
    git(space.work, "checkout", "-q", "ci")
    (space.work / ".github").mkdir()
    (space.work / ".github/ci.yml").write_text("on: push")
    git(space.work, "add", ".")
    git(space.work, "commit", "-qm", "two")
    git(space.work, "checkout", "-q", "-")
    assert not (space.work / ".github").exists()
    assert "held back" not in await run_bash(bash, saying("look at the branch"), command="git checkout -q ci && ls -a")
    assert (space.work / ".github/ci.yml").read_text() == "on: push"
    assert git(space.work, "status", "--porcelain") == ""


async def test_npm_and_pip_install_without_a_question(space: Workspace, bash: Tool) -> None:
    """A local package, since there is no network."""
    (space.work / "dep").mkdir()
    (space.work / "dep/package.json").write_text('{"name": "dep", "version": "1.0.0"}')
    (space.work / "package.json").write_text('{"name": "app", "version": "1.0.0", "dependencies": {"dep": "file:dep"}}')
    if shutil.which("npm") is not None:
        shown = await run_bash(bash, saying("install it"), command="npm install --no-audit --no-fund --offline")
        assert "held back" not in shown
        assert (space.work / "node_modules/dep").exists(), shown


async def test_a_background_process_is_protected_too(space: Workspace, sandbox: BubblewrapSandbox) -> None:
    marker = build_clone(space, PLANTS["core.fsmonitor"])
    processes = BackgroundProcesses(space.files, sandbox)
    shown = await call(create_process_tool(processes), saying("test it"), action="start", command="make test", wait=20)
    while "running" in shown:
        shown += await call(create_process_tool(processes), saying("test it"), action="poll", id="p1", wait=20)
        if "ended" in shown:
            break
    git(space.work, "status")
    assert not marker.exists()
    assert "held back: changes to" in shown
    await processes.close()


async def test_without_an_overlay_existing_files_are_read_only_and_new_ones_removed(
    space: Workspace, bash: Tool, sandbox: BubblewrapSandbox
) -> None:
    sandbox.__dict__["can_protect_deletions"] = False
    marker = build_clone(
        space,
        f"-{PLANTS['core.fsmonitor']}; {PLANTS['hook']}; mkdir -p sub/.vscode; echo x > sub/.vscode/settings.json",
    )
    shown = await run_bash(bash, saying("run make test"), command="make test")
    git(space.work, "status")
    assert "passed" in shown
    assert not marker.exists()
    assert not (space.work / "sub/.vscode").exists()
    assert "sub/.vscode" in shown
    assert "held back" not in await run_bash(bash, saying("go on"), command="git init -q n; echo x > n/file; ls")
    assert (space.work / "n/.git/config").exists()


@pytest.mark.parametrize(
    ("script", "is_slow"),
    [
        ("ls -la", False),
        ("cat a | grep x | sort | wc -l", False),
        ("echo x > out.txt", False),
        ("mkdir -p build && touch build/x && sed -i s/a/b/ out.txt", False),
        ("python3 -c 'print(1)'", True),
        ("make test", True),
        ("git status", True),
        ("echo x > .envrc", True),
        ("echo x > link", True),
        ("echo x > hard", True),
        ("echo x > $FILE", True),
        ("cp -r a b", True),
        ("tar xf a.tar", True),
        ("rm a", True),
        ("ln -s .git/config x; echo > x", True),
        ("cd sub && echo x > f", False),
        ("cd .git && echo x > config", True),
        ("sed -n 'w .envrc' out.txt", True),
        ("uniq out.txt .envrc", True),
        ("./ls", True),
    ],
)
async def test_only_commands_that_are_proven_harmless_run_without_an_overlay(
    script: str, is_slow: bool, space: Workspace
) -> None:
    (space.work / ".git").mkdir()
    (space.work / "sub").mkdir()
    (space.work / ".git/config").write_text("")
    (space.work / "out.txt").write_text("x")
    (space.work / "link").symlink_to(".git/config")
    os.link(space.work / ".git/config", space.work / "hard")
    assert await may_change_obeyed_files(script, space.grounds("s"), str(space.work)) is is_slow
