"""`mainstay` where the one local model is a small one of the tests: `python small_model.py URL WORDS…`.

`setting WORDS…` goes as far as a conversation would before the model is asked, and prints which one that would be.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mainstay.providers.local import catalogue as catalogue
from support.pull_support import weights


def main(url: str, *words: str) -> int:
    small = weights(url)
    catalogue.CATALOGUE, catalogue.DEFAULT_WEIGHTS = (small,), small
    from mainstay.cli import main as cli
    from mainstay.cli.commands import model_download

    model_download.RUNTIME = "json" if "no-runtime" not in words else "no_such_module"
    words = tuple(word for word in words if word != "no-runtime")
    if words[0] != "setting":
        return cli.main(words)
    return _set(words[1:])


def _set(words: Sequence[str]) -> int:
    from mainstay.cli.commands.agent_setup import load_agent_setup
    from mainstay.cli.parser.root import parse_arguments
    from mainstay.core.errors import MainstayError

    try:
        print(load_agent_setup(parse_arguments(words)).discovered.spec)
    except MainstayError as error:
        print(f"mainstay: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
