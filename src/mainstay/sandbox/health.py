"""Health checks of the sandbox: whether the configured one works, and how long a command takes in it."""

from __future__ import annotations

import os
import time

import msgspec

from mainstay.core.component_options import AUTO_SANDBOX, SandboxOptions
from mainstay.core.components import Component
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckFinding
from mainstay.core.resource_errors import temporary_folder
from mainstay.core.sandbox_manifest import SandboxCheckContext
from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.sandbox.limits import SandboxUnusable
from mainstay.sandbox.selection import create_sandbox, list_automatic, select_component

TEST_COMMAND_S = 15.0  # timeout of the test command
TEST_COMMAND_SLOW_S = 2.0
_AUTO_ADVICE = "mainstay config set sandbox.kind auto"


def check_sandbox(kind: str, options: SandboxOptions | None, context: SandboxCheckContext) -> CheckFinding:
    """Check the sandbox that `sandbox.kind` names; for `auto`, the one that is used. Blocks."""
    try:
        component = select_component(kind)
        found = _check_component(component, options, context)
        if kind == AUTO_SANDBOX:
            return _explain_choice(component, found, context)
    except ConfigError as error:
        return CheckFinding("Sandbox", "FAIL", str(error), error.fix or _AUTO_ADVICE)
    if found.verdict == "FAIL" and component.name in (candidate.name for candidate in list_automatic()):
        return msgspec.structs.replace(found, fix=f"{found.fix}, or set sandbox.kind to auto")
    return found


def _check_component(
    component: Component, options: SandboxOptions | None, context: SandboxCheckContext
) -> CheckFinding:
    check = component.load_check()
    if check is not None:
        found: CheckFinding = check(options or component.settings(), context)
        return found
    if missing := component.missing_libraries():
        return CheckFinding(
            "Sandbox", "FAIL", f"{component.name}: {', '.join(missing)} not installed", component.install
        )
    return CheckFinding("Sandbox", "ok", f"{component.name}: {component.summary}")


def _explain_choice(chosen: Component, found: CheckFinding, context: SandboxCheckContext) -> CheckFinding:
    """Return the finding for `auto`: a warning if a better sandbox does not work."""
    better = list_automatic()[0]
    if better.name == chosen.name:
        return found
    note = found.message.removeprefix(f"{chosen.name}: ")
    fix = _check_component(better, None, context).fix
    return CheckFinding(
        "Sandbox",
        "warn",
        f"{better.find_problem()}; {note}",
        f"{fix}; until then sandbox.kind is in effect {chosen.name}",
    )


async def run_test_command(kind: str, options: SandboxOptions | None) -> CheckFinding:
    """Run a test command in the sandbox, as a tool would."""
    with temporary_folder() as folder:
        command = _build_test_command(folder)
        began = time.monotonic()
        try:
            sandbox = create_sandbox(kind, options=options)
            try:
                done = await sandbox.exec(command)
            finally:
                await sandbox.close()
        except SandboxUnusable as error:
            fix = "see sandbox in `mainstay config show`"
            return CheckFinding("Sandbox", "FAIL", f"no command can run: {error}", fix)
        except ConfigError as error:
            return CheckFinding("Sandbox", "FAIL", str(error), error.fix or _AUTO_ADVICE)
        except Exception as error:  # a bug in the sandbox's code, which may come with another distribution
            return CheckFinding("Sandbox", "FAIL", str(select_component(kind).describe_bug(error)), _AUTO_ADVICE)
        took_s = time.monotonic() - began
    if done.exit_code != 0 or done.stdout != b"well":
        reason = done.stderr.decode(errors="replace").strip() or f"it ended with exit code {done.exit_code}"
        return CheckFinding("Sandbox", "FAIL", f"the test command failed: {reason[:300]}")
    slow = took_s > TEST_COMMAND_SLOW_S
    fix = "find out what keeps the machine busy" if slow else ""
    return CheckFinding("Sandbox", "warn" if slow else "ok", f"the test command took {took_s * 1000:.0f} ms", fix)


def _build_test_command(folder: str) -> SandboxCommand:
    real = os.path.realpath(folder)
    return SandboxCommand(
        script="printf well", folders=SessionFolders(cwd=real, writable=(real,)), timeout_s=TEST_COMMAND_S
    )
