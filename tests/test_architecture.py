"""Architecture rules: which package may import which, how large things may grow, and the language of the code.

The limits of size are tripwires: they catch accidents. An exception is listed here with its reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import code_metrics

from mainstay.core.components import ComponentKind, built_in_components

SRC = Path(__file__).parent.parent / "src" / "mainstay"

# Imports inside of functions and under TYPE_CHECKING count too. The table has no cycle, and a test checks that.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "kit": {"core"},
    "context": {"core"},
    "judges": {"core"},
    "metering": {"core"},
    "observe": {"core"},
    "providers": {"core"},
    "sandbox": {"core"},
    "store": {"core"},
    "guards": {"core"},
    "trust": {"core", "guards"},
    "io": {"core", "guards"},
    "backends": {"core", "io", "trust"},
    "channels": {"core", "guards", "io"},
    "memory": {"core", "io"},
    "patterns": {"core", "io"},
    "plugins": {"core", "guards", "io"},
    "skills": {"core", "guards", "io"},
    "tools": {"core", "io", "trust"},
    "triggers": {"core", "guards", "io"},
    "terminal": {"core", "context", "guards", "providers", "trust"},
    "turn": {"core", "context", "guards", "trust"},
    "lane": {"core", "context", "turn"},
    "operations": {"core", "context", "guards", "lane", "memory", "observe", "triggers", "trust", "turn"},
    "config": {"core", "guards", "io", "judges", "triggers", "trust"},
    "testing": {"core", "providers", "store"},  # imported by tests only
    "agent": {
        *(
            "core",
            "backends",
            "config",
            "context",
            "guards",
            "io",
            "judges",
            "lane",
            "memory",
            "metering",
            "observe",
            "operations",
        ),
        *("patterns", "plugins", "providers", "sandbox", "skills", "store", "tools", "triggers", "trust", "turn"),
    },
    "evals": {"core", "agent", "config", "io", "judges", "lane", "operations", "plugins", "providers", "turn"},
    "gateway": {
        "core",
        "agent",
        "channels",
        "config",
        "guards",
        "lane",
        "metering",
        "observe",
        "operations",
        "store",
        "trust",
    },
    "server": {"core", "agent", "config", "gateway", "lane", "operations"},
    "cli": {
        *(
            "core",
            "agent",
            "backends",
            "config",
            "context",
            "evals",
            "gateway",
            "guards",
            "io",
            "judges",
            "lane",
            "memory",
        ),
        *("metering", "observe", "operations", "patterns", "plugins", "providers", "sandbox", "server", "skills"),
        *("store", "terminal", "triggers", "trust"),
    },
}
THIRD_PARTY_IN_CORE = {"msgspec"}

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
PARAMETERS_MAX = 6
PUBLIC_NAMES_MAX = 40

MANY_PARAMETERS = {
    "core/tools.py:__init__": "a tool's declaration: each keyword is one fact about it",
    "core/tools.py:tool": "the decorator's typed face of the same declaration",
    "agent/agent.py:__init__": "the arguments of Agent are the published surface",
}
KWARGS = {
    "core/tools.py:tool": "a decorator passes its keywords on",
    "core/tools.py:__call__": "a tool can be called as the function it was made from",
    "agent/user_profile.py:set": "the fields of a profile are the user's own",
}
# Modules at a trust boundary, where code of others may raise anything. Each handler says why in a comment on its line.
BROAD_EXCEPT = {
    *("agent/judges.py", "agent/model_health.py", "backends/health.py", "sandbox/health.py"),
    *("channels/discord/connection.py", "channels/incoming_dispatch.py", "channels/matrix/sync.py"),
    *(
        "channels/telegram/polling.py",
        "cli/commands/doctor_step_runner.py",
        "cli/main.py",
        "core/components.py",
        "core/supervision.py",
        "core/worker_threads.py",
        "evals/runner.py",
        "io/file_watcher.py",
    ),
    *("agent/external_tools.py", "gateway/channel_connection.py", "gateway/delivery.py"),
    *("judges/panel.py", "kit/server.py", "lane/context_compiler.py", "lane/compaction_runner.py", "lane/lane.py"),
    *("lane/turn_attempt.py", "memory/index_queue.py", "memory/indexer.py", "memory/vector_indexer.py"),
    *("metering/resilient_provider.py",),
    *("observe/error_log_handler.py", "observe/projection_runner.py", "observe/span_exporter.py"),
    *("plugins/mcp/connection.py", "providers/local/process.py", "providers/local/server.py"),
    *("providers/wire/api_client.py", "server/grpc/call_handler.py", "server/grpc/operations_service.py"),
    *(
        "server/http_app.py",
        "server/pollable_iterator.py",
        "store/memory/store.py",
        "store/sqlite/home_projection_database.py",
        "store/sqlite/writer_thread.py",
    ),
    *("triggers/run_executor.py", "guards/guardrails.py", "guards/log_filters.py", "turn/toolbox.py"),
}

# Modules that start tasks or threads without `start_supervised_task`. Not `cli`: a command's tasks end with it.
UNSUPERVISED = {
    "core/supervision.py",
    # a caller awaits the task, in the same call or another one, and gets its exception
    *("agent/agent.py", "agent/model_discovery.py", "backends/sql/engine.py", "core/worker_threads.py"),
    *("evals/runner.py", "gateway/approval_messages.py", "gateway/health_monitor.py"),
    *("gateway/home_socket.py", "gateway/people.py"),
    *("judges/function_judge.py", "judges/panel.py", "lane/compaction_runner.py", "plugins/egress_proxy.py"),
    *("plugins/mcp/server_supervisor.py", "plugins/process.py", "providers/local/process.py", "sandbox/base.py"),
    *("server/grpc/server.py", "server/http_operations.py", "server/mcp_stdio.py", "server/mcp_turns.py"),
    *("server/openai/http_response.py", "server/openai/turn_follower.py", "server/server_sent_events.py"),
    *("server/uvicorn_server.py", "server/websocket.py", "tools/process.py", "triggers/engine.py"),
    *("triggers/run_executor.py", "triggers/run_outcome_tracker.py", "turn/toolbox.py"),
    "lane/lane.py",  # callers wait for the replies, which fail with the task
    "server/network_listeners.py",  # the end of any of them ends the server
    # a connection ends with its task, and the supervisor of the plugin or server notices that
    *("plugins/forwarder.py", "plugins/http2_rate_limiter.py", "plugins/mcp/connection.py"),
    *("plugins/mcp/stdio_transport.py", "plugins/mcp/streams.py", "plugins/socket_server.py"),
    # the receive loops of channels: gateway/channel_connection.py restarts the channel
    *("channels/discord/channel.py", "channels/discord/connection.py", "channels/matrix/channel.py"),
    *("channels/signal/channel.py", "channels/slack/socket_mode.py", "channels/telegram/channel.py"),
    *("channels/terminal/channel.py", "channels/terminal/line_reader.py"),
    # short tasks whose exception is logged
    *("gateway/draft_message.py", "gateway/service.py", "plugins/host.py", "plugins/launcher.py"),
    "store/sqlite/open_database_health.py",
    # threads that run the supervision, or handle every exception themselves
    *("io/file_watcher.py", "skills/tree_hash_cache.py", "store/sqlite/home_projection_database.py"),
    "providers/local/server.py",  # a process of its own, which ends with its parent
}

# An interface executes operations. These modules call functions of `operations/input_submission.py` themselves, for
# this reason.
INPUT_FUNCTIONS: dict[str, set[str]] = {
    # the hot path, and parts with origins of their own, which a request cannot carry
    "agent/agent.py": {"abort_turn", "accept_prompt", "accept_validated_prompt", "steer_turn"},
    # a chat room's session has a key, not a name of the caller's; a message has its address on the platform
    "gateway/inbound_handler.py": {"accept_prompt", "is_input_accepted", "store_unaddressed"},
    "gateway/opened_threads.py": {"store_unaddressed"},
    # parts with origins of their own
    "server/openai/turn_start.py": {"accept_prompt", "offer_client_tools"},
}


@cache
def modules(root: Path = SRC) -> tuple[tuple[str, ast.Module, str], ...]:
    """All modules: path below `root`, tree and text."""
    paths = sorted(root.rglob("*.py"))
    texts = [(path.relative_to(root).as_posix(), path.read_text()) for path in paths]
    return tuple((name, code_metrics.parse(text), text) for name, text in texts)


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module imported anywhere in the tree, inside of functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden_imports(root: Path = SRC) -> list[str]:
    problems = []
    for name, tree, _ in modules(root):
        package = name.split("/")[0]
        if "/" not in name:
            continue  # the root is lazy and knows every package by name only
        if package not in MAY_IMPORT:
            problems.append(f"{name}: the package {package!r} is not in the table")
            continue
        for module in sorted(set(imports(tree))):
            parts = module.split(".")
            if parts[0] == "mainstay" and len(parts) > 1:
                if parts[1] in MAY_IMPORT and parts[1] != package and parts[1] not in MAY_IMPORT[package]:
                    problems.append(f"{name}: {package} may not import {module}")
            elif package == "core" and parts[0] not in THIRD_PARTY_IN_CORE | sys.stdlib_module_names:
                problems.append(f"{name}: core may not import {module}")
    return problems


def test_packages_import_only_what_the_table_allows() -> None:
    assert forbidden_imports() == []


def test_forbidden_imports_are_found(tmp_path: Path) -> None:
    for name, text in {
        "turn/x.py": "from mainstay.store.sqlite.store import SqliteStore",
        "providers/y.py": "def f():\n    import mainstay.metering.circuit_breaker",
        "core/z.py": "import apsw",
        "agent/t.py": "from mainstay.testing import MemoryStore",
        "attic/a.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert len({line.split(":")[0] for line in forbidden_imports(tmp_path)}) == 5


def bypassed_operations(root: Path = SRC) -> list[str]:
    """Modules of interfaces that do themselves what an operation does: accept inputs, answer approvals, check rights,
    use lanes."""
    problems = []
    for name, tree, _ in modules(root):
        package = name.split("/")[0]
        if package not in ("agent", "cli", "gateway", "server"):
            continue
        pattern = re.compile(r"mainstay\.operations\.(?:input_submission|approvals)\.([a-z]\w+)")
        used = {match[1] for module in imports(tree) if (match := pattern.fullmatch(module)) is not None}
        if others := used - INPUT_FUNCTIONS.get(name, set()):
            problems.append(f"{name} calls {', '.join(sorted(others))}")
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if "require_access" in attributes:
            problems.append(f"{name} checks a right")
        if "lanes" in attributes and package == "server":
            problems.append(f"{name} uses lanes")
    return problems


def test_interfaces_run_operations_instead_of_their_own_code() -> None:
    assert bypassed_operations() == []
    used = {name: set(imports(tree)) for name, tree, _ in modules() if name in INPUT_FUNCTIONS}
    unused = [
        f"{name}: {function}"
        for name, functions in INPUT_FUNCTIONS.items()
        for function in functions
        if f"mainstay.operations.input_submission.{function}" not in used[name]
    ]
    assert unused == [], "an exception that is not needed"


def test_code_of_an_interface_that_bypasses_operations_is_found(tmp_path: Path) -> None:
    for name, text in {
        "server/x.py": "from mainstay.operations.input_submission import steer_turn",
        "cli/y.py": "async def f(caller):\n    caller.require_access('chat')",
        "server/z.py": "async def f(runtime):\n    await runtime.lanes.get('s').abort()",
        "gateway/w.py": "from mainstay.operations.approvals import Approve, answer_approval",
        "server/good.py": "from mainstay.operations.approvals import Approve",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [line.split()[0] for line in bypassed_operations(tmp_path)]
    assert found == ["cli/y.py", "gateway/w.py", "server/x.py", "server/z.py"]


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """A cycle of the graph as a path; empty if there is none."""
    done: set[str] = set()

    def visit(node: str, path: tuple[str, ...]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node not in done:
            for target in sorted(graph.get(node, set()) - {node}):
                if cycle := visit(target, (*path, node)):
                    return cycle
            done.add(node)
        return []

    return next((cycle for node in sorted(graph) if (cycle := visit(node, ()))), [])


def test_the_table_of_packages_has_no_cycle() -> None:
    assert find_cycle(MAY_IMPORT) == []
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]


def test_doctor_names_no_component() -> None:
    """It runs the checks of the configured ones, which their manifests name."""
    folders = {
        reference.partition(":")[0].rpartition(".")[0]
        for kind in get_args(ComponentKind)
        for reference in built_in_components(kind).values()
    }
    named = [
        f"{name}: {module}"
        for name, tree, _ in modules()
        if name.startswith("cli/commands/doctor")
        for module in set(imports(tree))
        if any(module == folder or module.startswith(f"{folder}.") for folder in folders)
    ]
    assert named == []


def test_no_import_cycles_between_modules() -> None:
    graph: dict[str, set[str]] = {}
    for name, tree, _ in modules():
        module = "mainstay." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        graph[module] = set(imports(ast.Module(top, [])))
    assert find_cycle({module: targets & set(graph) for module, targets in graph.items()}) == []


def size_problems(name: str, tree: ast.Module, text: str) -> Iterator[str]:
    if (lines := text.count("\n")) > MODULE_LINES_MAX:
        yield f"{name} has {lines} lines"
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        at = f"{name}:{function.name}"
        if (length := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX:
            yield f"{at} has {length} lines"
        arguments = function.args
        count = len(arguments.args) + len(arguments.kwonlyargs) + len(arguments.posonlyargs)
        count -= bool(arguments.args and arguments.args[0].arg in ("self", "cls"))
        if count > PARAMETERS_MAX and at not in MANY_PARAMETERS:
            yield f"{at} has {count} parameters"
        if arguments.kwarg is not None and at not in KWARGS:
            yield f"{at} takes **{arguments.kwarg.arg}"


def test_sizes() -> None:
    assert [problem for module in modules() for problem in size_problems(*module)] == []


def broad_handlers(name: str, tree: ast.Module, text: str) -> Iterator[str]:
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type is not None else "everything"
            reraises = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
            is_broad = caught in ("Exception", "BaseException", "everything") and not reraises
            if is_broad and (name not in BROAD_EXCEPT or "#" not in lines[node.lineno - 1]):
                yield f"{name}:{node.lineno} catches {caught}"


def test_broad_except_only_at_a_trust_boundary_and_with_a_reason() -> None:
    assert [problem for module in modules() for problem in broad_handlers(*module)] == []


def test_f57_tasks_and_threads_are_started_by_the_supervision_or_belong_to_a_caller() -> None:
    pattern = re.compile(r"create_task\(|ensure_future\(|\bThread\(")
    found = {name for name, _, text in modules() if pattern.search(text) and not name.startswith(("testing/", "cli/"))}
    assert found == UNSUPERVISED, "use core/supervision.py, or add the module with the reason"


def test_every_module_has_a_docstring() -> None:
    assert [name for name, tree, text in modules() if text.strip() and ast.get_docstring(tree) is None] == []


def test_the_language_of_the_code_and_of_the_pages() -> None:
    """Unique class names, direct sentences, types instead of Any; figures: python scripts/code_metrics.py."""
    metrics = code_metrics.measure()
    package, lines = metrics.largest_package
    assert lines < 12_000, package
    assert metrics.shared_percent < 8, metrics.shared_names
    assert metrics.indirect_per_10k_docstring_words < 5
    assert metrics.indirect_per_10k_page_words < 5
    assert metrics.any_per_1k_lines < 5
    assert len(metrics.gerund_modules) <= 12, metrics.gerund_modules
    assert metrics.long_functions == 0


def test_the_metrics_find_what_they_count(tmp_path: Path) -> None:
    source = tmp_path / "src" / "mainstay" / "lane"
    source.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("Nobody reads what is another's.")
    (source / "remembering.py").write_text('"""For whoever asks."""\nclass Found: ...\n')
    (source / "streaming.py").write_text("from typing import Any\nclass Found:\n    x: Any\n")
    metrics = code_metrics.measure(tmp_path)
    assert (metrics.shared_percent, metrics.gerund_modules) == (100, ["lane/remembering.py"])
    assert (metrics.indirect_docstrings, metrics.indirect_pages, metrics.any_uses) == (1, 2, 1)


def test_at_most_forty_public_names() -> None:
    import mainstay

    assert len(mainstay.__all__) <= PUBLIC_NAMES_MAX
    for name in mainstay.__all__:
        assert getattr(mainstay, name) is not None


def test_the_stub_names_what_the_lazy_root_gives() -> None:
    import mainstay

    stub = code_metrics.parse((SRC / "__init__.pyi").read_text())
    names = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(mainstay.__all__) - {"__version__"}
