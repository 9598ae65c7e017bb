"""The house: which room may import which, and how large things may grow. An exception is named, with its reason."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "mainstay"

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "trust": {"core"},
    "io": {"core", "trust"},
    "context": {"core"},
    "memory": {"core", "trust", "io"},
    "skills": {"core", "trust", "io"},
    "patterns": {"core", "trust", "io"},
    "metering": {"core"},
    "providers": {"core", "io"},
    "tools": {"core", "trust", "io"},
    "sandbox": {"core"},
    "store": {"core"},
    "backends": {"core", "io", "trust"},
    "channels": {"core", "trust", "io"},
    "triggers": {"core", "trust", "io"},
    "plugins": {"core", "trust", "io"},
    "observe": {"core"},
    "turn": {"core", "trust", "context", "evals"},
    "lane": {"core", "context", "turn"},
    "kit": {"core"},
    "testing": {"core", "providers.scripted"},
    "evals": {"*"},
    "agent": {"*"},
    "config": {"*"},
    "gateway": {"*"},
    "server": {"*"},
    "cli": {"*"},
}

# core is the standard library and msgspec; nothing of anyone else's
THIRD_PARTY_IN_CORE = {"msgspec"}

LONG_FUNCTIONS: dict[str, str] = {}
LONG_MODULES: dict[str, str] = {}
MANY_PARAMETERS = {
    "core/tools.py:__init__": "a tool's declaration: each keyword is one fact about it",
    "core/tools.py:tool": "the decorator's typed face of the same declaration",
    "agent/agent.py:__init__": "the arguments of Agent are the published surface",
}
KWARGS = {
    "core/tools.py:tool": "a decorator hands its keywords on",
    "core/tools.py:__call__": "a tool can be called as the function it was made from",
    "agent/profile.py:set": "the fields of a profile are the person's own",
    "gateway/owner.py:set": "the same, through the socket",
}
BROAD_EXCEPT = {
    "observe/exporter.py": "a bug in sending traces must not keep a home from being closed",
    "core/workers.py": "a tool may raise anything; it goes to whoever awaits the call",
    "providers/local/process.py": "whatever keeps a model from starting goes to whoever waits for it",
    "providers/local/server.py": "whatever the library raises is told to the process that started this one",
    "memory/follow.py": "a tier may be somebody else's; its trouble stays its own, and is tried again",
    "memory/meaning.py": "so may be what makes the vectors",
    "memory/walk.py": "a session that cannot be followed must not keep the others from it",
    "store/sqlite/observed.py": "a bug in one reader's work is told to that reader; the thread writes for all of them",
    "observe/follower.py": "a reader's trouble is its own, whatever it raises, and is tried again",
    "lane/folding.py": "a summariser may be somebody else's, and a conversation goes on without it",
    "trust/guards/guard.py": "a guard that breaks lets nothing through: whatever happened in it",
    "observe/error_log.py": "an argument of a log record may fail at saying what it is; whoever logs must not",
    "trust/guards/terminal.py": "an argument of a log record may fail to format; then nothing of it is shown",
    "evals/judges/jury.py": "a judge may be somebody else's: one that breaks has failed, and passes nothing",
    "agent/judges.py": "a judge's function is somebody's code, and may raise anything while it is imported",
    "lane/attempt.py": "one session's trouble is its own, whatever a provider or a bug of ours raises",
    "lane/contexts.py": "whatever joins a context from outside may fail; a prompt that was accepted is answered",
    "lane/lane.py": "the lane is the boundary that keeps one session's trouble its own",
    "evals/running.py": "a case may break in any way, in a tool or a judge; the other cases go on",
    "cli/main.py": "the command's last resort: a bug is one sentence and a log, not a traceback in a person's face",
    "providers/wire.py": "a user's own function gives the API key and may raise anything",
    "kit/serving.py": "an action may raise anything; the core learns its kind, the log all of it",
    "plugins/mcp/connection.py": "the SDK and the server behind it may raise anything; it ends this connection alone",
    "io/watch.py": "whoever is told of a change may raise anything, and goes on being told",
    "triggers/firing.py": "one trigger's trouble is its own, whatever a door, a check or a bug of ours raises",
    "channels/discord/connection.py": "the library may raise anything; the connection is made again",
    "channels/matrix/listening.py": "so may this one, and whoever says who is welcome",
    "channels/telegram/polling.py": "whoever hears may raise anything; the other rooms are heard all the same",
    "channels/telling.py": "likewise, for the other platforms",
    "server/grpc/service.py": "a bug of ours is an error with an id for whoever asked, and a log for the owner",
    "server/http_app.py": "likewise",
    "server/ready.py": "whatever is thrown into a step, a cancellation above all, is for its source to end by",
    "turn/toolbox.py": "an exception of a tool may fail even at saying what it is",
    "testing/memory_store.py": "an append's failure belongs to whoever awaits it",
}


def names(root: Path = SRC) -> list[str]:
    return [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.py"))]


def modules(root: Path = SRC) -> Iterator[tuple[str, ast.Module, str]]:
    for name in names(root):
        text = (root / name).read_text()
        yield name, parsed(text), text


def parsed(text: str) -> ast.Module:
    """The tree of a source, made with the collector off.

    On Python 3.11 a collection in the midst of it may print the traceback of something an earlier test left behind,
    which parses too, and the parser then takes the other's depth for a fault of its own (a SystemError).
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collecting:
            gc.enable()


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module imported anywhere in the file, inside functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def breaches(root: Path = SRC) -> list[str]:
    found = []
    for name, tree, _ in modules(root):
        room = name.split("/")[0]
        if "/" not in name:
            continue  # the root is lazy and knows every room by name only
        if room not in MAY_IMPORT:
            found.append(f"{name}: there is no room {room!r}")
            continue
        allowed = MAY_IMPORT[room]
        for module in imports(tree):
            parts = module.split(".")
            if parts[0] == "mainstay" and len(parts) > 1:
                target, dotted = parts[1], ".".join(parts[1:3])
                if target not in MAY_IMPORT or target == room or "*" in allowed:
                    continue
                if target not in allowed and not any(dotted == one or module.endswith(one) for one in allowed):
                    found.append(f"{name}: {room} may not import {module}")
            elif room == "core" and parts[0] not in THIRD_PARTY_IN_CORE and not _standard(parts[0]):
                found.append(f"{name}: core may not import {module}")
    return found


def _standard(name: str) -> bool:
    import sys

    return name in sys.stdlib_module_names


def test_rooms_import_only_what_the_table_allows() -> None:
    assert breaches() == []


def test_the_table_can_fail(tmp_path: Path) -> None:
    for name, text in {
        "turn/x.py": "from mainstay.store.sqlite import SqliteStore",
        "providers/y.py": "def f():\n    import mainstay.metering.breaker",
        "core/z.py": "import apsw",
        "attic/a.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert len({line.split(":")[0] for line in breaches(tmp_path)}) == 4


def test_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for name, tree, _ in modules():
        module = "mainstay." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        graph[module] = set(imports(ast.Module(top, [])))
    names = set(graph)
    edges = {module: {target for target in targets if target in names} for module, targets in graph.items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for target in edges[module] - {module}:
                visit(target, (*path, module))
            done.add(module)

    for module in edges:
        visit(module, ())


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("name", names())
def test_house_numbers(name: str) -> None:
    text = (SRC / name).read_text()
    tree = parsed(text)
    assert text.count("\n") <= 400 or name in LONG_MODULES, f"{name} has {text.count(chr(10))} lines"
    for function in functions(tree):
        where = f"{name}:{function.name}"
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= 70 or where in LONG_FUNCTIONS, f"{where} has {length} lines"
        arguments = function.args
        count = len(arguments.args) + len(arguments.kwonlyargs) + len(arguments.posonlyargs)
        count -= bool(arguments.args and arguments.args[0].arg in ("self", "cls"))
        assert count <= 6 or where in MANY_PARAMETERS, f"{where} has {count} parameters"
        assert arguments.kwarg is None or where in KWARGS, f"{where} takes **{arguments.kwarg}"


@pytest.mark.parametrize("name", names())
def test_broad_except_only_at_a_boundary_and_with_a_reason(name: str) -> None:
    text = (SRC / name).read_text()
    lines = text.splitlines()
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type is not None else "everything"
            if caught in ("Exception", "BaseException", "everything"):
                reraises = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
                commented = "#" in lines[node.lineno - 1]
                assert reraises or (name in BROAD_EXCEPT and commented), f"{name}:{node.lineno} catches {caught}"


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, tree, text in modules() if text.strip() and ast.get_docstring(tree) is None]
    assert silent == []


def test_no_type_checking_loopholes() -> None:
    assert [name for name in names() if "TYPE_CHECKING" in (SRC / name).read_text()] == []


def test_at_most_forty_public_names() -> None:
    import mainstay

    assert len(mainstay.__all__) <= 40
    for name in mainstay.__all__:
        assert getattr(mainstay, name) is not None


def test_the_typed_face_names_what_the_lazy_root_gives() -> None:
    import mainstay

    stub = parsed((SRC / "__init__.pyi").read_text())
    named = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named == set(mainstay.__all__) - {"__version__"}
