"""Classes and functions as their sources have them: signatures, fields with their comments, first words of docstrings.

The reference shows what was written, not what Python made of it: `str | None`, not a resolved annotation, and the
comment beside a field is its description.
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


@cache
def tree_of(thing: Any) -> tuple[str, ast.Module]:
    text = textwrap.dedent(inspect.getsource(thing))
    return text, ast.parse(text)


def fields_of(struct: type) -> list[Field]:
    """In the order of the class; the comment at the end of a line, or else the ones that continue it."""
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


def methods_of(kind: type) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Public ones, in the order of the class, those of its own bases of ours included."""
    for one in reversed([base for base in kind.__mro__ if base.__module__.startswith("mainstay.")]):
        _, tree = tree_of(one)
        (made,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
        for node in made.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                yield node.name, node


def init_of(kind: type) -> ast.FunctionDef | None:
    _, tree = tree_of(kind)
    (made,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return next((node for node in made.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def signature(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, *, result: bool = True) -> str:
    """As one would call it: without `self`, over several lines where one is too long."""
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
    """A docstring as a paragraph or several; nothing where there is none."""
    text = inspect.getdoc(node) if isinstance(node, type) and node.__doc__ else ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        text = ast.get_docstring(node)
    return prose(text or "")


def prose(text: str) -> str:
    """What is in angle brackets outside of code would be taken for HTML."""
    return "`".join(one if number % 2 else one.replace("<", "&lt;") for number, one in enumerate(text.split("`")))


def line(text: str) -> str:
    """For a cell of a table."""
    return " ".join(text.split()).replace("|", "&#124;")


def code(text: str) -> str:
    """For a cell of a table. Inside of backquotes some readers show the backslash of `\\|`, others need it."""
    short = " ".join(text.split())
    if "|" not in short:
        return f"`{short}`" if short else ""
    return f"<code>{escape(short, quote=False).replace('|', '&#124;')}</code>"
