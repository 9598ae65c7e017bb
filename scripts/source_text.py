"""Reads signatures, fields with their comments, and docstrings from source code.

The reference shows annotations as they are written (`str | None`), not as Python resolves them. The comment beside a
field is its description.
"""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any, NamedTuple

WIDE = 100


class Field(NamedTuple):
    name: str
    kind: str
    default: str
    about: str


class Method(NamedTuple):
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    about: str


@cache
def tree_of(thing: Any) -> tuple[str, ast.Module]:
    text = textwrap.dedent(inspect.getsource(thing))
    return text, ast.parse(text)


def fields_of(struct: type) -> list[Field]:
    """The fields in the order of the class, each described by the comment at the end of its line."""
    text, tree = tree_of(struct)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    (made,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return [
        Field(
            node.target.id,
            ast.unparse(node.annotation),
            "" if node.value is None else ast.unparse(node.value),
            comments.get(node.end_lineno or 0, ""),
        )
        for node in made.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def methods_of(kind: type) -> Iterator[Method]:
    """The public methods: those of the class in their order, then those that it inherits from classes in `mainstay`. A
    method without a docstring has that of the method it overrides."""
    methods: dict[str, Method] = {}
    for base in (base for base in kind.__mro__ if base.__module__.startswith("mainstay.")):
        _, tree = tree_of(base)
        (definition,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
        for node in definition.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                known = methods.setdefault(node.name, Method(node.name, node, words_of(node)))
                if not known.about:
                    methods[node.name] = known._replace(about=words_of(node))
    yield from methods.values()


def init_of(kind: type) -> ast.FunctionDef | None:
    _, tree = tree_of(kind)
    (made,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return next((node for node in made.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)}
    return bool(names & {"property", "cached_property"})


def signature(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, *, result: bool = True) -> str:
    """A call: without `self`, and on several lines if one line would be too long."""
    head = "await " if isinstance(node, ast.AsyncFunctionDef) and not _yields(node) else ""
    words = [word for word in _arguments(node.args) if word != "self"]
    tail = f" -> {ast.unparse(node.returns).strip(chr(39))}" if result and node.returns is not None else ""
    tail = tail.replace("builtins.list", "list")
    short = f"{head}{name}({', '.join(words)}){tail}"
    if len(short) <= WIDE:
        return short
    return "\n".join([f"{head}{name}(", *(f"    {word}," for word in words), f"){tail}"])


def _arguments(given: ast.arguments) -> Iterator[str]:
    places = [*given.posonlyargs, *given.args]
    bare: list[ast.expr | None] = [None] * (len(places) - len(given.defaults))
    for one, default in zip(places, [*bare, *given.defaults], strict=True):
        yield _argument(one, default)
    if given.vararg is not None:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(one, default)
    if given.kwarg is not None:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(one.annotation)}" if one.annotation is not None else ""
    if default is None:
        return f"{one.arg}{kind}"
    return f"{one.arg}{kind} = {ast.unparse(default)}" if kind else f"{one.arg}={ast.unparse(default)}"


def _yields(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))


def words_of(node: ast.AST | type) -> str:
    """The docstring as prose; empty if there is none."""
    text = inspect.getdoc(node) if isinstance(node, type) and node.__doc__ else ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        text = ast.get_docstring(node)
    return prose(text or "")


def prose(text: str) -> str:
    """Escape `<` outside of code: it would be read as HTML."""
    return "`".join(one if number % 2 else one.replace("<", "&lt;") for number, one in enumerate(text.split("`")))


def line(text: str) -> str:
    """Prose for a table cell."""
    return " ".join(text.split()).replace("|", "&#124;")


def code(text: str) -> str:
    """Code for a table cell. In backquotes, some Markdown readers show the backslash of `\\|` and others need it."""
    short = " ".join(text.split())
    if "|" not in short:
        return f"`{short}`" if short else ""
    return f"<code>{escape(short, quote=False).replace('|', '&#124;')}</code>"
